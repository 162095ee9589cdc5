//! Zone maps as bytes and back, of all versions; bounds that are rounded.

use kubist_expr::Zone;
use kubist_format::bounds::{Steps, put, read, skip};
use kubist_format::wire::Reader;
use kubist_format::zone_map::{COLUMN_BITS, Chunk, ColumnZones, Frame, LazyZones, ZONES_PER_PAGE, ZoneMap};
use kubist_index::priority::PriorityRange;
use kubist_types::compression::COMPRESSIONS;
use proptest::prelude::*;

proptest! {
    #[test]
    fn bounds_are_rounded_outwards_by_less_than_a_step_and_only_once(
        given in prop::collection::vec((any::<u64>(), any::<u64>()), 1..100),
        narrow in 0u32..64,
        most_bits in 1u32..20,
    ) {
        let given: Vec<(u64, u64)> = given.iter().map(|(a, b)| ((a >> narrow).min(b >> narrow), (a >> narrow).max(b >> narrow))).collect();
        let ends = (given.iter().map(|(min, _)| *min).min().unwrap(), given.iter().map(|(_, max)| *max).max().unwrap());
        let mut bytes = Vec::new();
        put(given.iter().copied(), ends, most_bits, &mut bytes);
        let (low, high) = read(&mut Reader::new(&bytes), given.len(), most_bits).unwrap();
        let read: Vec<(u64, u64)> = low.into_iter().zip(high).collect();
        let (steps, step) = (Steps::between(ends.0, ends.1, most_bits), (((ends.1 - ends.0) as u128 + 1) >> (most_bits - 1)) as u64);
        for ((min, max), (low, high)) in given.iter().zip(&read) {
            prop_assert!(low <= min && max <= high && min - low <= step && high - max <= step);
            prop_assert_eq!(steps.rounded(*min, *max), (*low, *high));
        }
        prop_assert_eq!(read.iter().map(|(low, _)| *low).min().unwrap(), ends.0);
        prop_assert_eq!(read.iter().map(|(_, high)| *high).max().unwrap(), ends.1);
        let mut again = Vec::new();
        put(read.iter().copied(), ends, most_bits, &mut again);
        prop_assert_eq!(&again, &bytes);
        let mut reader = Reader::new(&bytes);
        skip(&mut reader, given.len()).unwrap();
        prop_assert!(reader.is_empty());
        prop_assert!(skip(&mut Reader::new(&bytes[..bytes.len() - 1]), given.len()).is_err());
    }

    #[test]
    fn any_bytes_are_an_error_or_bounds(bytes in prop::collection::vec(any::<u8>(), 0..100), zones in 0usize..50, bits in 1u32..20) {
        if skip(&mut Reader::new(&bytes), zones).is_ok() {
            let (low, high) = read(&mut Reader::new(&bytes), zones, bits).unwrap();
            prop_assert_eq!((low.len(), high.len()), (zones, zones));
        }
    }
}

fn any_map() -> impl Strategy<Value = ZoneMap> {
    (0usize..200, 1usize..5, 0usize..4).prop_flat_map(|(zones, columns, version)| {
        let compression = COMPRESSIONS.get(version).copied();
        let column = (prop::collection::vec(any::<(u64, u64)>(), zones), any::<bool>());
        (
            prop::collection::vec(1u8..=128, zones),
            prop::collection::vec(any::<(u32, u32)>(), zones),
            prop::collection::vec(column, columns),
            prop::collection::vec(
                (0u32..10_000, any::<u32>(), any::<(u64, u16)>(), 0u8..=64),
                zones.div_ceil(ZONES_PER_PAGE) * columns,
            ),
        )
            .prop_map(move |(rows, priorities, columns, chunks)| {
                let mut offset = 0;
                let range = |(a, b): (u32, u32)| PriorityRange {
                    first: (a.min(b) as u64) << 32,
                    last: (a.max(b) as u64) << 32 | u32::MAX as u64,
                };
                ZoneMap {
                    priorities: priorities.into_iter().map(range).collect(),
                    columns: columns
                        .into_iter()
                        .map(|(ends, nulls)| {
                            // Every third zone is null throughout, if nulls there are.
                            let is_null = |zone: usize| nulls && zone % 3 == 0;
                            let of = |zone: usize, end: u64| if is_null(zone) { 0 } else { end };
                            let zones = ColumnZones {
                                min: ends.iter().enumerate().map(|(zone, (a, b))| of(zone, *a.min(b))).collect(),
                                max: ends.iter().enumerate().map(|(zone, (a, b))| of(zone, *a.max(b))).collect(),
                                nulls: match nulls {
                                    true => {
                                        (0..rows.len()).map(|zone| if is_null(zone) { rows[zone] } else { 0 }).collect()
                                    }
                                    false => vec![],
                                },
                            };
                            zones.into()
                        })
                        .collect(),
                    rows,
                    chunks: chunks
                        .into_iter()
                        .map(|(length, checksum, (base, nulls), width)| {
                            offset += length as u64;
                            let frame = compression.is_none().then_some(Frame { base, width, nulls });
                            Chunk { offset: offset - length as u64, length, checksum, frame }
                        })
                        .collect(),
                    compression,
                }
            })
    })
}

/// As it is after it was stored.
fn kept(map: &ZoneMap) -> ZoneMap {
    let keep = map.kept_priorities();
    let columns = map.columns.iter().enumerate().map(|(index, column)| {
        let Zone { min, max, .. } = map.whole(index);
        let steps = Steps::between(min, max, COLUMN_BITS);
        let mut zones: ColumnZones = (**column).clone();
        for zone in (0..map.zones()).filter(|_| map.compression.is_some()) {
            let all_null = zones.nulls_of(zone) == map.rows[zone];
            let (low, high) = if all_null { (min, min) } else { (zones.min[zone], zones.max[zone]) };
            (zones.min[zone], zones.max[zone]) = steps.rounded(low, high);
        }
        LazyZones::from(zones)
    });
    let priorities = map.priorities.iter().map(|range| keep(range.first, range.last)).collect();
    ZoneMap { columns: columns.collect(), priorities, ..map.clone() }
}

proptest! {
    #[test]
    fn decode_inverts_encode(map in any_map(), flip in any::<prop::sample::Index>()) {
        let mut bytes = map.encode();
        let read = ZoneMap::decode(&bytes).unwrap();
        prop_assert_eq!(&read, &kept(&map));
        for column in 0..map.columns.len() {
            prop_assert_eq!(read.whole(column), map.whole(column));
            for zone in 0..map.zones() {
                prop_assert!(read.states_bounds(column, zone, map.columns[column].min[zone], map.columns[column].max[zone]));
            }
        }
        prop_assert_eq!(&read.encode(), &bytes);
        let bit = flip.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(ZoneMap::decode(&bytes).is_err());
        prop_assert!(ZoneMap::decode(&bytes[..bit / 8]).is_err());
    }
}
