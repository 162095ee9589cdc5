//! From placed rows to runs: sort, distribute, order within runs, encode.
//!
//! A run orders its rows by stratum, then Morton key. Strata divide the range of
//! priorities geometrically from the cube's cutoff downwards (and from 1 down to
//! the cutoff for overflow); so a precision cut reads whole strata and wastes
//! little, and inside a stratum the zones are small boxes. Zones are cut within
//! strata.

use arrow_array::RecordBatch;
use kubist_index::cube::{CubeId, Geometry, MAX_DIMENSIONS, MortonKey};
use kubist_index::layout::{Capacity, Known, Placed, Placement, place};
use kubist_index::priority::{PriorityRange, Threshold};
use rayon::prelude::*;

use crate::codec::encode::encode_column;
use crate::codec::zone_map::{Chunk, ZoneMap};
use crate::frame::{Frame, Places};

/// Rows that a zone of a leaf wants, and of an inner cube, whose rows lie thinner
/// in space: there are few of those, and smaller zones make up for it.
const LEAF_ZONE_ROWS: usize = 48;
const INNER_ZONE_ROWS: usize = 12;
/// A stratum with fewer rows is joined with the next.
const LEAF_STRATUM_ROWS: usize = 512;
const INNER_STRATUM_ROWS: usize = 96;
/// Of the rows above a cube's cutoff, which commits leave there in small runs: a
/// sample has to cut through each of them.
const OVERFLOW_STRATUM_ROWS: usize = 48;
const MOST_STRATA: usize = 16;

/// Rows in memory, sorted along the space-filling curve.
pub struct SortedRows {
    batch: RecordBatch,
    places: Places,
    /// Rows of `batch` in key order.
    pub order: Vec<u32>,
    /// In key order.
    keys: Vec<MortonKey>,
    pub priorities: Vec<u64>,
}

/// A run, ready to be written.
pub struct EncodedRun {
    pub cube: CubeId,
    pub rows: u64,
    pub priorities: (u64, u64),
    pub low: [u32; MAX_DIMENSIONS],
    pub high: [u32; MAX_DIMENSIONS],
    pub data: Vec<Vec<u8>>,
    pub data_length: u64,
    pub map: Vec<u8>,
    /// Rows of the batch in the run's order, and how many each zone has.
    pub order: Vec<u32>,
    pub zones: Vec<u8>,
}

impl SortedRows {
    /// Sorts a stored batch of fewer than 2^32 rows.
    pub fn new(frame: &Frame, batch: RecordBatch) -> SortedRows {
        let mut places = frame.places(&batch);
        let sorted = sort(std::mem::take(&mut places.keys));
        let order: Vec<u32> = sorted.par_iter().map(|entry| *entry as u32).collect();
        let keys = sorted.par_iter().map(|entry| entry >> 32).collect();
        let priorities = order.par_iter().map(|row| places.priorities[*row as usize]).collect();
        SortedRows { batch, places, order, keys, priorities }
    }

    pub fn batch(&self) -> &RecordBatch {
        &self.batch
    }

    /// The places, in key order, of the rows inside a cube.
    pub fn inside(&self, geometry: &Geometry, cube: CubeId) -> std::ops::Range<u32> {
        let first = self.keys.partition_point(|key| *key < cube.first_key());
        let last = geometry.last_key(cube);
        let count = self.keys[first..].partition_point(|key| *key <= last);
        first as u32..(first + count) as u32
    }

    /// Distributes rows, given by their places in key order and all inside `top`,
    /// over the cubes at and below it.
    pub fn place(
        &self,
        geometry: &Geometry,
        capacity: &Capacity,
        known: &dyn Known,
        top: CubeId,
        above: Threshold,
        rows: Vec<u32>,
    ) -> Placed {
        let mut placed = Placed::default();
        let key = |row: u32| self.keys[row as usize];
        place(geometry, capacity, known, top, above, &key, &self.priorities, rows, &mut placed);
        placed
    }

    /// Encodes the run of one placement.
    pub fn encode(&self, placement: &Placement) -> EncodedRun {
        let mut order = Vec::with_capacity(placement.within.len() + placement.overflow.len());
        let mut zones = Vec::new();
        let (stratum_rows, zone_rows) = match placement.cutoff == Threshold::ALL {
            true => (LEAF_STRATUM_ROWS, LEAF_ZONE_ROWS),
            false => (INNER_STRATUM_ROWS, INNER_ZONE_ROWS),
        };
        let within = (&placement.within, placement.cutoff, stratum_rows);
        let overflow = (&placement.overflow, Threshold::ALL, OVERFLOW_STRATUM_ROWS);
        for (rows, top, stratum_rows) in [within, overflow] {
            for stratum in strata(rows, top, &self.priorities, stratum_rows) {
                let count = stratum.len().div_ceil(zone_rows);
                zones.extend((0..count).map(|i| ((i + 1) * stratum.len() / count - i * stratum.len() / count) as u8));
                order.extend(stratum);
            }
        }
        let mut priorities = Vec::with_capacity(zones.len());
        let mut rest = &order[..];
        for rows in &zones {
            let (zone, later) = rest.split_at(*rows as usize);
            rest = later;
            let of_zone = zone.iter().map(|row| self.priorities[*row as usize]);
            let first = of_zone.clone().min().unwrap_or(0);
            priorities.push(PriorityRange { first, last: of_zone.max().unwrap_or(0) });
        }
        let first = priorities.iter().map(|range| range.first).min().unwrap_or(0);
        let last = priorities.iter().map(|range| range.last).max().unwrap_or(0);
        let order: Vec<u32> = order.into_iter().map(|row| self.order[row as usize]).collect();
        let (mut low, mut high) = ([0; MAX_DIMENSIONS], [0; MAX_DIMENSIONS]);
        for (d, column) in self.places.coordinates.iter().enumerate() {
            let values = order.iter().map(|row| column[*row as usize]);
            (low[d], high[d]) = (values.clone().min().unwrap_or(0), values.max().unwrap_or(0));
        }
        let columns: Vec<_> =
            self.batch.columns().iter().map(|array| encode_column(array.as_ref(), &order, &zones)).collect();
        let pages = columns.first().map_or(0, |column| column.chunks.len());
        let (mut columns, mut chunks): (Vec<_>, Vec<_>) =
            columns.into_iter().map(|column| (column.zones, column.chunks.into_iter())).unzip();
        let (mut data, mut places, mut offset) = (Vec::new(), Vec::new(), 0u64);
        for _ in 0..pages {
            for chunk in chunks.iter_mut().filter_map(Iterator::next) {
                let length = chunk.len() as u32;
                places.push(Chunk { offset, length, checksum: crc32c::crc32c(&chunk) });
                offset += length as u64;
                data.push(chunk);
            }
        }
        columns.iter_mut().for_each(|zones| zones.nulls.shrink_to_fit());
        let map = ZoneMap { rows: zones, priorities, columns, chunks: places };
        let rows = order.len() as u64;
        let (cube, bytes) = (placement.cube, map.encode());
        let priorities = (first, last);
        EncodedRun { cube, rows, priorities, low, high, data, data_length: offset, map: bytes, order, zones: map.rows }
    }
}

/// Rows by strata of `[0, top)`, lowest first; order within is kept. Each
/// stratum begins at 1/sqrt(2) of the priority where the next one begins, and
/// small ones are joined with the next, so that a cut through one wastes about
/// as large a share of what it returns, wherever it falls.
fn strata(rows: &[u32], top: Threshold, priorities: &[u64], wanted: usize) -> Vec<Vec<u32>> {
    let begins: Vec<u128> = (1..MOST_STRATA).map(|i| halved(top.to_u128(), i)).collect();
    let mut strata = vec![Vec::new(); MOST_STRATA];
    for row in rows {
        let priority = priorities[*row as usize] as u128;
        strata[begins.partition_point(|begin| priority < *begin)].push(*row);
    }
    let mut joined: Vec<Vec<u32>> = Vec::new();
    let mut small = Vec::new();
    for stratum in strata.into_iter().rev() {
        small = match small.is_empty() {
            true => stratum,
            false => merged(small, stratum),
        };
        if small.len() >= wanted {
            joined.push(std::mem::take(&mut small));
        }
    }
    if !small.is_empty() {
        joined.push(small);
    }
    joined
}

/// `top / sqrt(2)^i`, rounded down.
fn halved(top: u128, i: usize) -> u128 {
    const ROOT_OF_HALF: u128 = 3_037_000_499; // 2^32 / sqrt(2)
    let whole = top >> (i / 2);
    if i % 2 == 0 { whole } else { (whole * ROOT_OF_HALF) >> 32 }
}

/// Both, ascending.
fn merged(a: Vec<u32>, b: Vec<u32>) -> Vec<u32> {
    let mut both: Vec<u32> = a.into_iter().chain(b).collect();
    // Two ascending runs: the stable sort merges them in one pass.
    both.sort();
    both
}

/// Keys with their row numbers below them (`key << 32 | row`), sorted.
fn sort(keys: Vec<MortonKey>) -> Vec<u128> {
    const BUCKET_BITS: u32 = 12;
    let entries = |first: usize, keys: &[MortonKey]| -> Vec<u128> {
        keys.iter().enumerate().map(|(row, key)| key << 32 | (first + row) as u128).collect()
    };
    if keys.len() < 1 << 14 {
        let mut sorted = entries(0, &keys);
        sorted.sort_unstable();
        return sorted;
    }
    // One pass by the highest bits in which the keys differ, then each bucket.
    let differing = keys.par_iter().map(|key| key ^ keys[0]).reduce(|| 0, |a, b| a | b);
    let shift = (128 - differing.leading_zeros()).saturating_sub(BUCKET_BITS);
    let bucket = |key: MortonKey| (key >> shift) as usize & ((1 << BUCKET_BITS) - 1);
    let mut starts = vec![0usize; (1 << BUCKET_BITS) + 1];
    keys.iter().for_each(|key| starts[bucket(*key) + 1] += 1);
    for place in 1..starts.len() {
        starts[place] += starts[place - 1];
    }
    let mut next = starts.clone();
    let mut sorted = vec![0u128; keys.len()];
    for (row, key) in keys.iter().enumerate() {
        let slot = &mut next[bucket(*key)];
        sorted[*slot] = key << 32 | row as u128;
        *slot += 1;
    }
    drop(keys);
    let mut buckets = Vec::with_capacity(1 << BUCKET_BITS);
    let mut rest = &mut sorted[..];
    for pair in starts.windows(2) {
        let (one, later) = rest.split_at_mut(pair[1] - pair[0]);
        buckets.push(one);
        rest = later;
    }
    buckets.into_par_iter().for_each(|bucket| bucket.par_sort_unstable());
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn sort_orders_keys_and_keeps_rows() {
        let mut rng = SmallRng::seed_from_u64(3);
        for (rows, mask) in [(0usize, u128::MAX), (100, u128::MAX), (50_000, u128::MAX), (50_000, 0), (40_000, 0xff)] {
            let keys: Vec<MortonKey> = (0..rows).map(|_| rng.random::<u128>() >> 32 & mask).collect();
            let sorted = sort(keys.clone());
            assert!(sorted.is_sorted());
            let mut rows_seen: Vec<u32> = sorted.iter().map(|entry| *entry as u32).collect();
            assert!(sorted.iter().all(|entry| keys[*entry as u32 as usize] == entry >> 32));
            rows_seen.sort_unstable();
            assert!(rows_seen.into_iter().eq(0..rows as u32));
        }
    }

    #[test]
    fn strata_divide_the_priorities() {
        let mut rng = SmallRng::seed_from_u64(4);
        let priorities: Vec<u64> = (0..5000).map(|_| rng.random::<u64>() / 10).collect();
        let top = Threshold::new(u64::MAX as u128 / 10 + 1);
        let rows: Vec<u32> = (0..5000).collect();
        let strata = strata(&rows, top, &priorities, 100);
        assert!((8..=12).contains(&strata.len()), "{}", strata.len());
        assert_eq!(strata.iter().map(Vec::len).sum::<usize>(), 5000);
        let highest = |stratum: &Vec<u32>| stratum.iter().map(|row| priorities[*row as usize]).max().unwrap();
        let lowest = |stratum: &Vec<u32>| stratum.iter().map(|row| priorities[*row as usize]).min().unwrap();
        assert!(strata.windows(2).all(|pair| highest(&pair[0]) < lowest(&pair[1])));
        assert!(strata.iter().all(|stratum| stratum.is_sorted() && stratum.len() >= 100));
    }
}
