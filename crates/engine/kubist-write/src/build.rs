//! Builds runs from rows: sorts them, distributes them over cubes, orders them within runs, and encodes the runs.
//!
//! A run orders its rows by stratum, then by Morton key. Strata divide the range of priorities below the cube's cutoff,
//! and above it for overflow (`kubist_index::strata`). A query with a sample fraction therefore reads whole strata and
//! few other rows, and inside a stratum the zones are small boxes. Rows near a plane of the grid come between the rows
//! before and after it (`planes`). If only the size counts, a zone orders its rows by identity, which then takes few
//! bits.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{RecordBatch, UInt32Array};
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use kubist_expr::Zone;
use kubist_index::cube::{CubeId, Geometry, MAX_DIMENSIONS, MortonKey};
use kubist_index::layout::{Capacity, Placed, Placement, TreeState, place};
use kubist_index::priority::{PriorityRange, Threshold};
use rayon::prelude::*;

use crate::bucket::Buckets;
use crate::keys::Keys;
use crate::planes::{self, Dimensions};
use kubist_catalog::frame::{Frame, Positions};
use kubist_format::encode::{RunEncoding, encode_column, values_of};
use kubist_format::zone_map::{Chunk, LazyZones, ZoneMap};
use kubist_types::{Cancel, Compression, Error, Result, Strata};

/// Rows per zone in a leaf, and in an inner cube, whose rows are sparser.
const LEAF_ZONE_ROWS: usize = 48;
const INNER_ZONE_ROWS: usize = 8;
/// The same for the compression with the smallest size; zone bounds take up to two bytes per row.
const SMALL_LEAF_ZONE_ROWS: usize = 94;
const SMALL_INNER_ZONE_ROWS: usize = 56;
/// Rows near a plane get separate zones if there are at least this many and at least a zone's rows.
const LEAST_OF_A_PLANE: usize = 8;
/// A stratum with fewer rows than this is joined with the next one.
const LEAF_STRATUM_ROWS: usize = 512;
const INNER_STRATUM_ROWS: usize = 96;
/// The same for overflow, which commits leave in small runs, so that samples must read a part of every run.
const OVERFLOW_STRATUM_ROWS: usize = 48;
/// The same for strata of windows, which are useless once they are joined.
const WINDOW_STRATUM_ROWS: usize = 16;
/// Rows per stratum and per zone for small runs in a cube with other runs, or above children with rows. Queries read
/// all such runs, and strata would enlarge their zones, so there is one stratum.
const ONE_OF_MANY: (usize, usize) = (usize::MAX, 4);

pub struct SortedRows {
    frame: Arc<Frame>,
    dimensions: Dimensions,
    batch: RecordBatch,
    buckets: Option<Buckets>,
    order: Vec<u32>,
    keys: Vec<MortonKey>,
    /// Order keys of the identity; empty unless zones are ordered by them.
    identity: Vec<Vec<u64>>,
    pub priorities: Vec<u64>,
    encoding: RunEncoding,
    pub outside: u64,
}

pub struct EncodedRun {
    pub cube: CubeId,
    pub rows: u64,
    pub priorities: (u64, u64),
    pub low: [u32; MAX_DIMENSIONS],
    pub high: [u32; MAX_DIMENSIONS],
    pub data: Vec<Vec<u8>>,
    pub data_length: u64,
    pub map: Vec<u8>,
    pub zones: u32,
    pub ranges: Vec<Zone>,
    /// The postings of each column with a secondary index.
    pub postings: Vec<Vec<u64>>,
}

impl SortedRows {
    /// Sorts stored rows of the same schema, fewer than 2^32.
    ///
    /// # Errors
    ///
    /// `Cancelled`; `Internal` if Arrow fails.
    pub fn new(
        frame: &Arc<Frame>,
        schema: &SchemaRef,
        encoding: RunEncoding,
        batches: &[RecordBatch],
        cancel: &Cancel,
    ) -> Result<SortedRows> {
        let Positions { keys, priorities, outside } = frame.positions(batches);
        cancel.check()?;
        let buckets = Buckets::new(&keys);
        let (batch, keys, priorities) = match &buckets {
            None => (concat_batches(schema, batches).map_err(Error::kernel)?, keys, priorities),
            Some(buckets) => {
                let batch = buckets.places.scatter_batches(batches, cancel)?;
                let move_keys = || buckets.places.scatter(keys.iter().copied());
                let (keys, priorities) = rayon::join(move_keys, || buckets.places.scatter(priorities.iter().copied()));
                (batch, keys, priorities)
            }
        };
        let order = sort(&keys, buckets.as_ref().map_or(&[], |buckets| &buckets.rows), cancel)?;
        let keys = each(&order, |row| keys[*row as usize]);
        cancel.check()?;
        let priorities = each(&order, |row| priorities[*row as usize]);
        let identity = match encoding.compression {
            Compression::Small => frame.identity_keys(&batch),
            _ => Vec::new(),
        };
        let (frame, dimensions) = (frame.clone(), Dimensions::new(&frame.geometry));
        Ok(SortedRows { frame, dimensions, batch, buckets, order, keys, identity, priorities, encoding, outside })
    }

    pub fn frame(&self) -> &Arc<Frame> {
        &self.frame
    }

    pub fn batch(&self) -> &RecordBatch {
        &self.batch
    }

    pub fn arranged<T: Copy + Default>(&self, values: Vec<T>) -> Vec<T> {
        let values = match &self.buckets {
            None => values,
            Some(buckets) => buckets.places.scatter(values.into_iter()),
        };
        self.order.iter().map(|row| values[*row as usize]).collect()
    }

    pub fn all(&self) -> Range<u32> {
        0..self.order.len() as u32
    }

    /// Returns rows by their indices in key order.
    ///
    /// # Errors
    ///
    /// `Internal` if Arrow fails.
    pub fn take(&self, rows: &[u32]) -> Result<RecordBatch> {
        let rows = rows.iter().map(|row| self.order[*row as usize]);
        take_record_batch(&self.batch, &UInt32Array::from_iter_values(rows)).map_err(Error::kernel)
    }

    /// The rows inside a cube, by their indices in key order.
    pub fn inside(&self, geometry: &Geometry, cube: CubeId) -> Range<u32> {
        let first = self.keys.partition_point(|key| *key < cube.first_key());
        let last = geometry.last_key(cube);
        let count = self.keys[first..].partition_point(|key| *key <= last);
        first as u32..(first + count) as u32
    }

    /// Distributes rows inside `top`, in key order, over `top` and the cubes below.
    pub fn place(
        &self,
        geometry: &Geometry,
        capacity: &Capacity,
        known: &dyn TreeState,
        top: CubeId,
        above: Threshold,
        rows: Vec<u32>,
    ) -> Placed {
        let mut placed = Placed::default();
        let key = |row: u32| self.keys[row as usize];
        place(geometry, capacity, known, top, above, &key, &self.priorities, rows, &mut placed);
        placed
    }

    /// Divides rows, in key order, into zones, between neighbours that are farthest apart in the tree of cubes.
    fn cut(&self, rows: &[u32], wanted: usize, zones: &mut Vec<u8>) {
        let (least, most) = zone_limits(wanted);
        let mut first = 0;
        while rows.len() - first > most {
            let apart = |end: &usize| self.keys[rows[end - 1] as usize] ^ self.keys[rows[*end] as usize];
            let end = (first + least..=first + most).max_by_key(apart).expect("at least one zone");
            zones.push((end - first) as u8);
            first = end;
        }
        zones.extend((rows.len() > first).then_some((rows.len() - first) as u8));
    }

    fn order_zones(&self, zones: &[u8], order: &mut [u32]) {
        let row = |index: &u32| self.order[*index as usize] as usize;
        let mut rest = order;
        for rows in zones {
            let (zone, later) = rest.split_at_mut(*rows as usize);
            rest = later;
            zone.sort_by(|a, b| {
                let columns = self.identity.iter().map(|keys| keys[row(a)].cmp(&keys[row(b)]));
                columns.fold(Ordering::Equal, Ordering::then)
            });
        }
    }

    /// # Errors
    ///
    /// `Cancelled`; `Internal` if Arrow fails.
    pub fn encode_all(&self, placements: &[Placement], keys: &Keys, cancel: &Cancel) -> Result<Vec<EncodedRun>> {
        let encode = |placement| cancel.check().map(|()| self.encode(placement, keys));
        placements.par_iter().map(encode).collect()
    }

    pub fn encode(&self, placement: &Placement, keys: &Keys) -> EncodedRun {
        let mut order = Vec::with_capacity(placement.within.len() + placement.overflow.len());
        let mut zones = Vec::new();
        let (of_leaf, of_inner) = match self.encoding.compression {
            Compression::Small => (SMALL_LEAF_ZONE_ROWS, SMALL_INNER_ZONE_ROWS),
            _ => (LEAF_ZONE_ROWS, INNER_ZONE_ROWS),
        };
        let strata = self.encoding.strata;
        let (stratum_rows, zone_rows) = match (placement.cutoff == Threshold::ALL, strata) {
            (true, _) if placement.is_one_of_many => ONE_OF_MANY,
            (_, Strata::Windows) => (WINDOW_STRATUM_ROWS, of_leaf),
            (true, Strata::Halvings) => (LEAF_STRATUM_ROWS, of_leaf),
            (false, Strata::Halvings) => (INNER_STRATUM_ROWS, of_inner),
        };
        let of_overflow = match strata {
            _ if placement.is_one_of_many => ONE_OF_MANY,
            Strata::Windows => (WINDOW_STRATUM_ROWS, of_leaf),
            Strata::Halvings => (OVERFLOW_STRATUM_ROWS, zone_rows),
        };
        let within = (&placement.within, placement.cutoff, (stratum_rows, zone_rows));
        let overflow = (&placement.overflow, Threshold::ALL, of_overflow);
        let key = |row: u32| self.keys[row as usize];
        let (planes, least) = (self.dimensions.planes(&placement.within, key), LEAST_OF_A_PLANE.max(zone_rows));
        for (rows, top, (stratum_rows, zone_rows)) in [within, overflow] {
            for stratum in strata.divide(rows, top, &self.priorities, stratum_rows) {
                for part in planes::part(&planes, stratum, least, key) {
                    self.cut(&part, zone_rows, &mut zones);
                    order.extend(part);
                }
            }
        }
        if !self.identity.is_empty() {
            self.order_zones(&zones, &mut order);
        }
        let mut priorities = Vec::with_capacity(zones.len());
        let mut rest = &order[..];
        for rows in &zones {
            let (zone, later) = rest.split_at(*rows as usize);
            rest = later;
            let mut of_zone = zone.iter().map(|row| self.priorities[*row as usize]);
            let first = of_zone.next().unwrap_or(0);
            let (first, last) = of_zone.fold((first, first), |(low, high), one| (low.min(one), high.max(one)));
            priorities.push(PriorityRange { first, last });
        }
        let first = priorities.iter().map(|range| range.first).min().unwrap_or(0);
        let last = priorities.iter().map(|range| range.last).max().unwrap_or(0);
        let order: Vec<u32> = order.into_iter().map(|row| self.order[row as usize]).collect();
        let columns: Vec<_> = self
            .batch
            .columns()
            .iter()
            .enumerate()
            .map(|(column, array)| encode_column(array.as_ref(), &order, &zones, self.encoding.of_column(column)))
            .collect();
        let pages = columns.first().map_or(0, |column| column.chunks.len());
        let parts = columns.into_iter().zip(self.batch.columns()).map(|(column, array)| {
            (LazyZones::new(column.zones, values_of(array.data_type())), column.chunks.into_iter())
        });
        let (columns, mut chunks): (Vec<_>, Vec<_>) = parts.unzip();
        let (mut data, mut listed, mut offset) = (Vec::new(), Vec::new(), 0u64);
        let compression = self.encoding.compression;
        for _ in 0..pages {
            for chunk in chunks.iter_mut().filter_map(Iterator::next) {
                let length = chunk.len() as u32;
                listed.push(Chunk { offset, length, checksum: crc32c::crc32c(&chunk) });
                offset += length as u64;
                data.push(chunk);
            }
        }
        let map = ZoneMap { rows: zones, priorities: priorities.into(), columns, chunks: listed, compression, strata };
        let rows = order.len() as u64;
        let (low, high) = self.frame.extent(&self.batch, &order, &map);
        let (cube, postings) = (placement.cube, keys.postings(&order, &map.rows));
        let ranges = (0..map.columns.len()).map(|column| map.run_zone(column)).collect();
        let (priorities, zones, map) = ((first, last), map.zones() as u32, map.encode());
        EncodedRun { cube, rows, priorities, low, high, data, data_length: offset, map, zones, ranges, postings }
    }
}

fn zone_limits(wanted: usize) -> (usize, usize) {
    ((wanted * 7 / 10).max(1), wanted * 27 / 20)
}

/// Fewer rows than this are processed on one core.
const ONE_CORE: usize = 1 << 16;

fn each<T: Sync, R: Send>(of: &[T], made: impl Fn(&T) -> R + Sync + Send) -> Vec<R> {
    match of.len() < ONE_CORE {
        true => of.iter().map(made).collect(),
        false => of.par_iter().map(made).collect(),
    }
}

/// Orders rows by key, then by number. `buckets`, if any, are in order already, but not their rows.
fn sort(keys: &[MortonKey], buckets: &[Range<usize>], cancel: &Cancel) -> Result<Vec<u32>> {
    let mut order = vec![0u32; keys.len()];
    if buckets.is_empty() {
        sort_rows(keys, 0..keys.len(), &mut order);
        return Ok(order);
    }
    let mut parts = Vec::with_capacity(buckets.len());
    let mut rest = &mut order[..];
    for rows in buckets {
        let (part, later) = rest.split_at_mut(rows.len());
        parts.push((rows.clone(), part));
        rest = later;
    }
    parts.into_par_iter().try_for_each(|(rows, part)| {
        cancel.check()?;
        sort_rows(keys, rows, part);
        Ok::<_, Error>(())
    })?;
    Ok(order)
}

/// Larger sets of rows are first sorted by their highest differing bits.
const SORTED_AT_ONCE: usize = 1 << 10;

/// Sorts rows by words: the differing bits of a key, as far as they fit, above the row number.
fn sort_rows(keys: &[MortonKey], rows: Range<usize>, order: &mut [u32]) {
    let (first, keys) = (rows.start as u32, &keys[rows]);
    let Some(last) = keys.len().checked_sub(1) else { return };
    let row_bits = usize::BITS - last.leading_zeros();
    let key_bits = 128 - keys.iter().fold(0, |bits, key| bits | (key ^ keys[0])).leading_zeros();
    let left_out = key_bits.saturating_sub(u64::BITS - row_bits);
    // Higher bits are equal in all keys.
    let word = |(row, key): (usize, &MortonKey)| ((key >> left_out) as u64) << row_bits | row as u64;
    let mut words: Vec<u64> = keys.iter().enumerate().map(word).collect();
    match words.len() <= SORTED_AT_ONCE {
        true => words.sort_unstable(),
        false => words = sorted_by_digit(&words, key_bits - left_out + row_bits),
    }
    if left_out > 0 {
        sort_rest(keys, row_bits, &mut words);
    }
    let mask = u32::MAX.checked_shr(u32::BITS - row_bits).unwrap_or(0);
    order.iter_mut().zip(words).for_each(|(slot, word)| *slot = first + (word as u32 & mask));
}

/// Sorts words that differ only in the lowest `bits`.
fn sorted_by_digit(words: &[u64], bits: u32) -> Vec<u64> {
    // About eight rows per digit value, if evenly distributed.
    let digit_bits = (words.len() / 8).ilog2().min(12);
    let shift = bits.saturating_sub(digit_bits);
    let digit = |word: u64| (word >> shift) as usize & ((1 << digit_bits) - 1);
    let mut ends = vec![0u32; 1 << digit_bits];
    words.iter().for_each(|word| ends[digit(*word)] += 1);
    let mut sum = 0;
    for end in &mut ends {
        sum += std::mem::replace(end, sum);
    }
    let mut sorted = vec![0; words.len()];
    for word in words {
        let slot = &mut ends[digit(*word)];
        sorted[*slot as usize] = *word;
        *slot += 1;
    }
    let mut start = 0;
    for end in ends {
        sorted[start..end as usize].sort_unstable();
        start = end as usize;
    }
    sorted
}

/// Sorts rows by their whole keys where the words have equal key bits.
fn sort_rest(keys: &[MortonKey], row_bits: u32, words: &mut [u64]) {
    let are_alike = |a: &u64, b: &u64| (a ^ b) >> row_bits == 0;
    if !words.iter().zip(&words[1..]).fold(false, |any, (a, b)| any | are_alike(a, b)) {
        return;
    }
    let row = |word: &u64| (word & ((1 << row_bits) - 1)) as usize;
    for alike in words.chunk_by_mut(are_alike) {
        alike.sort_by_key(|word| keys[row(word)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn sort_orders_keys_and_keeps_rows() {
        let mut rng = SmallRng::seed_from_u64(3);
        for (rows, mask) in [
            (0usize, u128::MAX),
            (100, u128::MAX),
            (50_000, u128::MAX),
            (1, u128::MAX),
            (50_000, 0),
            (40_000, 0xff),
            (1000, 3 << 94 | 0xf),
            (50_000, 0xff << 88 | 0xff),
            (200_000, u128::MAX),
        ] {
            let mut keys: Vec<MortonKey> = (0..rows).map(|_| rng.random::<u128>() >> 32 & mask).collect();
            let buckets = Buckets::new(&keys);
            if let Some(buckets) = &buckets {
                keys = buckets.places.scatter(keys.into_iter());
            }
            let ranges = buckets.as_ref().map_or(&[][..], |buckets| &buckets.rows);
            let order = sort(&keys, ranges, &Cancel::default()).unwrap();
            assert!(order.is_sorted_by_key(|row| (keys[*row as usize], *row)));
            let mut rows_seen = order;
            rows_seen.sort_unstable();
            assert!(rows_seen.into_iter().eq(0..rows as u32));
        }
    }
}
