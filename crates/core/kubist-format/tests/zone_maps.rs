//! Zone maps encoded and decoded, and rounded bounds.

use kubist_expr::Zone;
use kubist_format::bounds::{Steps, Values, put, read, skip};
use kubist_format::error::EntryError;
use kubist_format::wire::Reader;
use kubist_format::zone_map::{COLUMN_BITS, Chunk, ColumnZones, LazyZones, ZONES_PER_PAGE, ZoneMap};
use kubist_index::order::Keyed;
use kubist_index::priority::PriorityRange;
use kubist_types::Strata;
use kubist_types::compression::{COMPRESSIONS, Compression};
use proptest::prelude::*;

fn any_bounds() -> impl Strategy<Value = (Vec<(u64, u64)>, Values)> {
    let far_off =
        prop::sample::select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -9999.0, -0.0, 0.0, 1e300, 5e-324]);
    let number = move || prop_oneof![9 => -1.0..1.0f64, 1 => far_off.clone()];
    let of = |values: Values, (a, b): (f64, f64)| match values {
        Values::F32 => ((a as f32).key(), (b as f32).key()),
        _ => (a.key(), b.key()),
    };
    let floats =
        move |values| prop::collection::vec((number(), number()).prop_map(move |both| of(values, both)), 1..300);
    let ordered = |given: Vec<(u64, u64)>| given.into_iter().map(|(a, b)| (a.min(b), a.max(b))).collect();
    prop_oneof![
        (prop::collection::vec(any::<(u64, u64)>(), 1..300), 0u32..64).prop_map(|(given, narrow)| (
            given.iter().map(|(a, b)| (a >> narrow, b >> narrow)).collect(),
            Values::Keys
        )),
        floats(Values::F64).prop_map(|given| (given, Values::F64)),
        floats(Values::F32).prop_map(|given| (given, Values::F32)),
        floats(Values::F64).prop_map(|given| (given, Values::Keys)),
    ]
    .prop_map(move |(given, values)| (ordered(given), values))
}

fn flat(given: &[(u64, u64)]) -> Vec<u64> {
    given.iter().flat_map(|(min, max)| [*min, *max]).collect()
}

fn ends(given: &[(u64, u64)]) -> (u64, u64) {
    (given.iter().map(|(min, _)| *min).min().unwrap(), given.iter().map(|(_, max)| *max).max().unwrap())
}

proptest! {
    #[test]
    fn bounds_are_rounded_outwards_and_only_once((given, values) in any_bounds(), most_bits in 1u32..20) {
        let ends = ends(&given);
        let steps = Steps::fitted(&flat(&given), ends, most_bits, values);
        let mut bytes = Vec::new();
        put(&flat(&given), steps, &mut bytes);
        let (low, high) = read(&mut Reader::new(&bytes), given.len(), most_bits).unwrap();
        let read: Vec<(u64, u64)> = low.into_iter().zip(high).collect();
        for ((min, max), (low, high)) in given.iter().zip(&read) {
            prop_assert!(low <= min && max <= high);
            prop_assert_eq!(steps.rounded(*min, *max), (*low, *high));
            prop_assert_eq!(steps.rounded(*low, *high), (*low, *high));
        }
        prop_assert_eq!(read.iter().map(|(low, _)| *low).min().unwrap(), ends.0);
        prop_assert_eq!(read.iter().map(|(_, high)| *high).max().unwrap(), ends.1);
        let mut again = Vec::new();
        put(&flat(&read), steps, &mut again);
        prop_assert_eq!(&again, &bytes);
        prop_assert_eq!(Steps::read(&mut Reader::new(&bytes), most_bits).unwrap(), steps);
        let mut reader = Reader::new(&bytes);
        skip(&mut reader, given.len(), most_bits).unwrap();
        prop_assert!(reader.is_empty());
        prop_assert!(skip(&mut Reader::new(&bytes[..bytes.len() - 1]), given.len(), most_bits).is_err());
    }

    #[test]
    fn steps_of_equal_keys_are_no_wider_than_the_range_asks(
        (given, _) in any_bounds(),
        most_bits in 1u32..20,
    ) {
        let ends = ends(&given);
        let (steps, step) = (Steps::between(ends.0, ends.1, most_bits), (((ends.1 - ends.0) as u128 + 1) >> (most_bits - 1)) as u64);
        for (min, max) in given {
            let (low, high) = steps.rounded(min, max);
            prop_assert!(min - low <= step && high - max <= step);
        }
    }

    #[test]
    fn any_bytes_are_an_error_or_bounds(bytes in prop::collection::vec(any::<u8>(), 0..100), zones in 0usize..50, bits in 1u32..20, key in any::<u64>()) {
        if skip(&mut Reader::new(&bytes), zones, bits).is_ok() {
            let (low, high) = read(&mut Reader::new(&bytes), zones, bits).unwrap();
            prop_assert_eq!((low.len(), high.len()), (zones, zones));
            Steps::read(&mut Reader::new(&bytes), bits).unwrap().rounded(key, key);
        }
    }
}

/// With some outliers, rounding moves no bound by more than 1/50 of the range of all values.
#[test]
fn values_around_zero_and_far_off_keep_close_bounds() {
    let value = |zone: usize| (zone as f64 / 500.0 - 1.0, zone as f64 / 500.0 - 0.99);
    for far_off in [None, Some(f64::NAN), Some(f64::INFINITY), Some(-9999.0), Some(1e30)] {
        let of = |zone: usize| match far_off {
            Some(far) if zone % 100 == 7 => (far.key(), far.key()),
            _ => (value(zone).0.key(), value(zone).1.key()),
        };
        let given: Vec<(u64, u64)> = (0..1000).map(of).collect();
        let steps = Steps::fitted(&flat(&given), ends(&given), COLUMN_BITS, Values::F64);
        // Where outliers are cut off, a few neighbouring zones lose their order.
        let mut wide = 0;
        for (min, max) in given {
            let (low, high) = steps.rounded(min, max);
            let off = (f64::from_key(min) - f64::from_key(low)).max(f64::from_key(high) - f64::from_key(max));
            wide += usize::from(off.is_nan() || off > 0.04);
        }
        assert!(wide <= 80, "{far_off:?}: {wide} of 1000 zones");
    }
}

fn any_map() -> impl Strategy<Value = ZoneMap> {
    (0usize..200, 1usize..5, prop::sample::select(&COMPRESSIONS[..])).prop_flat_map(|(zones, columns, compression)| {
        let values = prop::sample::select(vec![Values::Keys, Values::F32, Values::F64]);
        let column = (prop::collection::vec(any::<(u64, u64)>(), zones), any::<bool>(), values);
        (
            prop::collection::vec(1u8..=128, zones),
            prop::collection::vec(any::<(u32, u32)>(), zones),
            prop::collection::vec(column, columns),
            prop::collection::vec((0u32..10_000, any::<u32>()), zones.div_ceil(ZONES_PER_PAGE) * columns),
        )
            .prop_map(move |(rows, priorities, columns, chunks)| {
                let mut offset = 0;
                let range = |(a, b): (u32, u32)| PriorityRange {
                    first: (a.min(b) as u64) << 32,
                    last: (a.max(b) as u64) << 32 | u32::MAX as u64,
                };
                ZoneMap {
                    priorities: priorities.into_iter().map(range).collect::<Vec<_>>().into(),
                    columns: columns
                        .into_iter()
                        .map(|(ends, nulls, values)| {
                            let is_null = |zone: usize| nulls && zone.is_multiple_of(3);
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
                            LazyZones::new(zones, values)
                        })
                        .collect(),
                    rows,
                    chunks: chunks
                        .into_iter()
                        .map(|(length, checksum)| {
                            offset += length as u64;
                            Chunk { offset: offset - length as u64, length, checksum }
                        })
                        .collect(),
                    compression,
                    strata: if compression == Compression::Fast { Strata::Windows } else { Strata::Halvings },
                }
            })
    })
}

fn kept(map: &ZoneMap) -> ZoneMap {
    let keep = map.kept_priorities();
    let columns = map.columns.iter().enumerate().map(|(index, column)| {
        let Zone { min, .. } = map.run_zone(index);
        let steps = map.steps(index);
        let mut zones: ColumnZones = (**column).clone();
        for zone in 0..map.zones() {
            let all_null = zones.nulls_of(zone) == map.rows[zone];
            let (low, high) = if all_null { (min, min) } else { (zones.min[zone], zones.max[zone]) };
            (zones.min[zone], zones.max[zone]) = steps.rounded(low, high);
        }
        LazyZones::new(zones, Values::Keys)
    });
    let priorities: Vec<_> = map.priorities.iter().map(|range| keep(range.first, range.last)).collect();
    ZoneMap { columns: columns.collect(), priorities: priorities.into(), ..map.clone() }
}

proptest! {
    #[test]
    fn decode_inverts_encode(map in any_map(), flip in any::<prop::sample::Index>()) {
        let mut bytes = map.encode();
        let read = ZoneMap::decode(&bytes).unwrap();
        prop_assert_eq!(&read, &kept(&map));
        for column in 0..map.columns.len() {
            prop_assert_eq!(read.run_zone(column), map.run_zone(column));
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

#[test]
fn a_newer_zone_map_is_not_taken_for_a_damaged_one() {
    let map = ZoneMap {
        rows: vec![],
        priorities: vec![].into(),
        columns: vec![],
        chunks: vec![],
        compression: Compression::Balanced,
        strata: Strata::Halvings,
    };
    let of_version = |version: u8| {
        let mut bytes = map.encode();
        bytes[4] = version;
        let checksum = crc32c::crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        ZoneMap::decode(&bytes)
    };
    assert_eq!(of_version(1).unwrap(), map);
    assert_eq!(of_version(2).unwrap(), ZoneMap { strata: Strata::Windows, ..map.clone() });
    assert!(matches!(of_version(0), Err(EntryError::Bad(_))));
    let Err(EntryError::Newer(what)) = of_version(3) else { panic!("a newer one") };
    assert_eq!(what, "its zone map has version 3; this Kubist reads up to 2");
}

/// Zones of neighbouring windows stay apart, however near their rows are to the edge.
#[test]
fn priorities_are_not_rounded_beyond_their_window() {
    let edge = |window: u64| window << 57;
    let range = |window: u64| PriorityRange { first: edge(window) + 1, last: edge(window + 1) - 1 };
    let map = ZoneMap {
        rows: vec![9; 40],
        priorities: (3..43).map(range).collect::<Vec<_>>().into(),
        columns: vec![],
        chunks: vec![],
        compression: Compression::Balanced,
        strata: Strata::Windows,
    };
    let kept = map.kept_priorities();
    let read = ZoneMap::decode(&map.encode()).unwrap();
    for (window, found) in (3..43).zip(read.priorities.iter()) {
        assert_eq!((found.first >> 57, found.last >> 57), (window, window));
        assert_eq!(*found, kept(range(window).first, range(window).last));
        assert_eq!(*found, read.kept_priorities()(range(window).first, range(window).last));
    }
}
