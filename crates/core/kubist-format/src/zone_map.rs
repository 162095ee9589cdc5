//! The zone map of a run: the statistics of its zones, and the location of each chunk of data.
//!
//! A zone is a group of successive rows, usually 8 to 48. The map stores its number of rows, its range of priorities,
//! and the minimum, maximum and number of nulls of each column. A query skips a zone if no row in it can match.
//!
//! Minimum and maximum are order keys, integers that sort like the values. They are rounded outwards to take few bits
//! ([`bounds`]), so a zone may seem larger than it is, never smaller.
//!
//! A page has [`ZONES_PER_PAGE`] zones, and a chunk is one column of a page. FORMAT.md, Zone map, defines the bytes.

use std::ops::Deref;
use std::sync::OnceLock;

use bytes::Bytes;
use kubist_expr::{Nulls, Zone};
use kubist_index::priority::PriorityRange;
use kubist_index::strata::window_start;
use kubist_types::Strata;
use kubist_types::compression::{COMPRESSIONS, Compression};

use crate::bounds::{self, Steps, Values};
use crate::error::EntryError;
use crate::lazy::{Lazy, Unpack};
use crate::page::PageColumn;
use crate::wire::{Reader, UnexpectedEnd};

/// Number of zones in a page. A page is the unit of reading, and usually has about 1,200 rows.
pub const ZONES_PER_PAGE: usize = 32;
const MOST_ZONE_ROWS: usize = 128;
pub const MOST_PAGE_ROWS: usize = ZONES_PER_PAGE * MOST_ZONE_ROWS;
const USUAL_ZONE_ROWS: usize = 32;
/// Number of low bits that zone maps omit from the 64 bits of a priority.
const PRIORITY_SHIFT: u32 = 32;

const VERSION: u8 = 1;
/// The version of runs with strata of windows; the bytes have the same layout.
const OF_WINDOWS: u8 = 2;
/// Bounds of a column or of priorities are rounded to at most 2^`COLUMN_BITS` steps.
pub const COLUMN_BITS: u32 = 10;
const PRIORITY_BITS: u32 = 16;

/// The statistics of one column, zone by zone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ColumnZones {
    /// The smallest order key of values that are not null; undefined if all are null.
    pub min: Vec<u64>,
    /// The largest order key, likewise.
    pub max: Vec<u64>,
    /// The number of nulls in each zone; empty if the run's column has none.
    pub nulls: Vec<u8>,
}

impl ColumnZones {
    #[inline]
    pub fn nulls_of(&self, zone: usize) -> u8 {
        self.nulls.get(zone).copied().unwrap_or(0)
    }
}

/// The statistics of a column, unpacked at the first use, because a query uses few columns.
#[derive(Clone, Debug)]
pub struct LazyZones {
    zones: Lazy<ColumnZones>,
    /// The type of the values, which determines the steps of rounding in a new run. A map that was read has its
    /// steps.
    values: Values,
    /// The statistics of the whole run, computed at the first use.
    run_zone: OnceLock<Zone>,
}

impl LazyZones {
    pub fn new(unpacked: ColumnZones, values: Values) -> LazyZones {
        LazyZones { zones: Lazy::unpacked(unpacked), values, run_zone: OnceLock::new() }
    }
}

impl Deref for LazyZones {
    type Target = ColumnZones;

    fn deref(&self) -> &ColumnZones {
        &self.zones
    }
}

impl PartialEq for LazyZones {
    fn eq(&self, other: &LazyZones) -> bool {
        self.zones == other.zones
    }
}

/// The range of priorities of each zone, unpacked at the first use.
pub type LazyPriorities = Lazy<Vec<PriorityRange>>;

impl From<Vec<PriorityRange>> for LazyPriorities {
    fn from(unpacked: Vec<PriorityRange>) -> LazyPriorities {
        Lazy::unpacked(unpacked)
    }
}

/// The location of one column of one page.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Chunk {
    /// Bytes from the start of the run's data.
    pub offset: u64,
    pub length: u32,
    /// CRC-32C of the bytes.
    pub checksum: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ZoneMap {
    /// Number of rows in each zone.
    pub rows: Vec<u8>,
    /// The lowest and highest priority of each zone, rounded outwards.
    pub priorities: LazyPriorities,
    pub columns: Vec<LazyZones>,
    /// All columns of the first page, then all columns of the next page.
    pub chunks: Vec<Chunk>,
    pub compression: Compression,
    pub strata: Strata,
}

impl ZoneMap {
    #[inline]
    pub fn zones(&self) -> usize {
        self.rows.len()
    }

    #[inline]
    pub fn pages(&self) -> usize {
        self.zones().div_ceil(ZONES_PER_PAGE)
    }

    /// The index of a page's column in [`ZoneMap::chunks`].
    #[inline]
    pub fn place(&self, page: usize, column: usize) -> usize {
        page * self.columns.len() + column
    }

    #[inline]
    pub fn chunk(&self, page: usize, column: usize) -> Chunk {
        self.chunks[self.place(page, column)]
    }

    /// Combines the bytes of a chunk with its number of rows, to decode it.
    #[inline]
    pub fn page_column<'a>(&self, page: usize, bytes: &'a [u8]) -> PageColumn<'a> {
        PageColumn { rows: self.page_rows(page), bytes }
    }

    #[inline]
    pub fn page_zones(&self, page: usize) -> std::ops::Range<usize> {
        page * ZONES_PER_PAGE..((page + 1) * ZONES_PER_PAGE).min(self.zones())
    }

    #[inline]
    pub fn page_rows(&self, page: usize) -> usize {
        self.rows_of(&self.page_zones(page))
    }

    #[inline]
    pub fn rows_of(&self, zones: &std::ops::Range<usize>) -> usize {
        self.rows[zones.clone()].iter().map(|rows| *rows as usize).sum()
    }

    pub fn run_zone(&self, column: usize) -> Zone {
        *self.columns[column].run_zone.get_or_init(|| {
            let zones: &ColumnZones = &self.columns[column];
            if let (true, Some(min), Some(max)) =
                (zones.nulls.is_empty(), zones.min.iter().min(), zones.max.iter().max())
            {
                return Zone { min: *min, max: *max, nulls: Nulls::None };
            }
            let both = |a: Zone, b: Zone| match (a.nulls, b.nulls) {
                (Nulls::All, Nulls::All) => a,
                (Nulls::All, _) => Zone { nulls: Nulls::Some, ..b },
                (_, Nulls::All) => Zone { nulls: Nulls::Some, ..a },
                (x, y) => {
                    let nulls = if matches!((x, y), (Nulls::None, Nulls::None)) { Nulls::None } else { Nulls::Some };
                    Zone { min: a.min.min(b.min), max: a.max.max(b.max), nulls }
                }
            };
            let all = (0..self.zones()).map(|zone| self.zone(zone, zones));
            all.reduce(both).unwrap_or(Zone { min: 0, max: 0, nulls: Nulls::All })
        })
    }

    /// The statistics of one zone, from the unpacked statistics of its column.
    #[inline]
    pub fn zone(&self, zone: usize, zones: &ColumnZones) -> Zone {
        let nulls = match zones.nulls_of(zone) {
            0 => Nulls::None,
            count if count == self.rows[zone] => Nulls::All,
            _ => Nulls::Some,
        };
        Zone { min: zones.min[zone], max: zones.max[zone], nulls }
    }

    /// Whether the stored bounds of a zone are exactly `min` and `max`, rounded. `verify` computes these from the
    /// values that are not null.
    pub fn states_bounds(&self, column: usize, zone: usize, min: u64, max: u64) -> bool {
        let zones: &ColumnZones = &self.columns[column];
        let is_null = zones.nulls_of(zone) == self.rows[zone];
        is_null || (zones.min[zone], zones.max[zone]) == self.steps(column).rounded(min, max)
    }

    /// The steps to which the bounds of a column are rounded.
    pub fn steps(&self, column: usize) -> Steps {
        match self.columns[column].zones.stored() {
            Some((packed, zones)) => steps_of(packed, zones).expect("bounds that were checked"),
            None => self.fitted(column, &self.bounds(column)),
        }
    }

    /// Chooses the steps for a column of a new run.
    fn fitted(&self, column: usize, bounds: &[u64]) -> Steps {
        let Zone { min, max, .. } = self.run_zone(column);
        Steps::fitted(bounds, (min, max), COLUMN_BITS, self.columns[column].values)
    }

    /// The minimum and maximum of each zone in turn. A zone with only nulls gets the run's minimum, which does not
    /// extend the range of the steps.
    fn bounds(&self, column: usize) -> Vec<u64> {
        let zones: &ColumnZones = &self.columns[column];
        if zones.nulls.is_empty() {
            let mut bounds = Vec::with_capacity(2 * zones.min.len());
            zones.min.iter().zip(&zones.max).for_each(|(min, max)| bounds.extend_from_slice(&[*min, *max]));
            return bounds;
        }
        let least = self.run_zone(column).min;
        let mut bounds = Vec::with_capacity(2 * zones.min.len());
        for (zone, (min, max)) in zones.min.iter().zip(&zones.max).enumerate() {
            let is_null = zones.nulls_of(zone) == self.rows[zone];
            bounds.extend(if is_null { [least, least] } else { [*min, *max] });
        }
        bounds
    }

    /// Returns a function that rounds the lowest and highest priority of a zone to the range that the map stores.
    pub fn kept_priorities(&self) -> impl Fn(u64, u64) -> PriorityRange + use<> {
        let (base, top) = priority_ends(&self.priorities, self.strata);
        let steps = Steps::between(base, top, PRIORITY_BITS);
        move |first, last| range_of(steps.rounded(first >> PRIORITY_SHIFT, last >> PRIORITY_SHIFT))
    }

    /// The approximate memory of this map in bytes, with four unpacked columns.
    pub fn memory(&self) -> usize {
        let of_columns: usize = self.columns.iter().map(|column| column.zones.packed_bytes()).sum();
        let packed = of_columns + self.priorities.packed_bytes();
        memory_of(packed, self.zones(), self.columns.len(), self.chunks.len())
    }

    /// Estimates [`ZoneMap::memory`] before the map is read. `bytes` is its stored size.
    pub fn about(bytes: usize, rows: u64, columns: usize) -> usize {
        let zones = rows as usize / USUAL_ZONE_ROWS + 1;
        memory_of(bytes, zones, columns, zones.div_ceil(ZONES_PER_PAGE) * columns)
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; 4];
        let version = match self.strata {
            Strata::Halvings => VERSION,
            Strata::Windows => OF_WINDOWS,
        };
        out.extend_from_slice(&[version, self.compression as u8]);
        out.extend_from_slice(&(self.zones() as u32).to_le_bytes());
        out.extend_from_slice(&(self.columns.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.rows);
        let kept = self.priorities.iter().flat_map(|range| [range.first, range.last]);
        let kept: Vec<u64> = kept.map(|end| end >> PRIORITY_SHIFT).collect();
        let (first, last) = priority_ends(&self.priorities, self.strata);
        bounds::put(&kept, Steps::between(first, last, PRIORITY_BITS), &mut out);
        for (index, column) in self.columns.iter().enumerate() {
            if let Some((packed, _)) = column.zones.stored() {
                out.extend_from_slice(packed);
                continue;
            }
            out.push(!column.nulls.is_empty() as u8);
            out.extend_from_slice(&column.nulls);
            let bounds = self.bounds(index);
            bounds::put(&bounds, self.fitted(index, &bounds), &mut out);
        }
        for chunk in &self.chunks {
            put_varying(chunk.length, &mut out);
            out.extend_from_slice(&chunk.checksum.to_le_bytes());
        }
        let checksum = crc32c::crc32c(&out[4..]);
        out[..4].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    /// Reads the stored form and checks it. The statistics stay packed until they are used.
    ///
    /// # Errors
    ///
    /// [`EntryError`] if the bytes are not a zone map or are from a newer version.
    pub fn decode(bytes: &[u8]) -> Result<ZoneMap, EntryError> {
        let bad = |what: &str| EntryError::Bad(what.into());
        let stored = bytes.get(..4).ok_or_else(|| bad("the zone map is too short"))?;
        if stored != crc32c::crc32c(&bytes[4..]).to_le_bytes() {
            return Err(bad("the checksum of the zone map does not match"));
        }
        let strata = match bytes.get(4) {
            Some(&VERSION) => Strata::Halvings,
            Some(&OF_WINDOWS) => Strata::Windows,
            Some(newer) if *newer > OF_WINDOWS => {
                let what = format!("its zone map has version {newer}; this Kubist reads up to {OF_WINDOWS}");
                return Err(EntryError::Newer(what));
            }
            _ => return Err(bad("the zone map has no version")),
        };
        let map = decode_body(&bytes[5..], strata).map_err(|UnexpectedEnd| bad("the zone map is too short"))?;
        match map.rows.iter().all(|rows| (*rows as usize) <= MOST_ZONE_ROWS) {
            true => Ok(map),
            false => Err(bad("the zone map has zones of too many rows")),
        }
    }
}

fn decode_body(bytes: &[u8], strata: Strata) -> Result<ZoneMap, UnexpectedEnd> {
    let mut reader = Reader::new(bytes);
    let compression = *COMPRESSIONS.get(reader.u8()? as usize).ok_or(UnexpectedEnd)?;
    let (zones, columns) = (reader.u32()? as usize, reader.u32()? as usize);
    let rows = reader.bytes(zones)?.to_vec();
    let before = reader.rest();
    bounds::skip(&mut reader, zones, PRIORITY_BITS)?;
    let of_priorities = before.len() - reader.rest().len();
    let mut ends = Vec::with_capacity(columns.min(bytes.len()));
    for _ in 0..columns {
        nulls_of_zones(&mut reader, zones)?;
        bounds::skip(&mut reader, zones, COLUMN_BITS)?;
        ends.push(before.len() - reader.rest().len());
    }
    // One copy for all columns, so that the read buffer can be freed.
    let packed = Bytes::copy_from_slice(&before[..ends.last().copied().unwrap_or(of_priorities)]);
    let priorities = Lazy::packed(packed.slice(..of_priorities), zones);
    let starts = std::iter::once(of_priorities).chain(ends.iter().copied());
    let lazy = |(start, end): (usize, &usize)| LazyZones {
        zones: Lazy::packed(packed.slice(start..*end), zones),
        values: Values::default(),
        run_zone: OnceLock::new(),
    };
    let columns: Vec<LazyZones> = starts.zip(&ends).map(lazy).collect();
    let count = zones.div_ceil(ZONES_PER_PAGE) * columns.len();
    let mut chunks = Vec::with_capacity(count.min(bytes.len()));
    let mut offset = 0u64;
    for _ in 0..count {
        let length = varying(&mut reader)?;
        chunks.push(Chunk { offset, length, checksum: reader.u32()? });
        offset += length as u64;
    }
    Ok(ZoneMap { rows, priorities, columns, chunks, compression, strata })
}

fn nulls_of_zones<'a>(reader: &mut Reader<'a>, zones: usize) -> Result<&'a [u8], UnexpectedEnd> {
    match reader.u8()? {
        0 => Ok(&[]),
        _ => reader.bytes(zones),
    }
}

impl Unpack for Vec<PriorityRange> {
    fn unpack(packed: &[u8], zones: usize) -> Result<Vec<PriorityRange>, UnexpectedEnd> {
        let (first, last) = bounds::read(&mut Reader::new(packed), zones, PRIORITY_BITS)?;
        Ok(first.into_iter().zip(last).map(range_of).collect())
    }
}

impl Unpack for ColumnZones {
    fn unpack(packed: &[u8], zones: usize) -> Result<ColumnZones, UnexpectedEnd> {
        let mut reader = Reader::new(packed);
        let nulls = nulls_of_zones(&mut reader, zones)?.to_vec();
        let (min, max) = bounds::read(&mut reader, zones, COLUMN_BITS)?;
        Ok(ColumnZones { min, max, nulls })
    }
}

fn memory_of(packed: usize, zones: usize, columns: usize, chunks: usize) -> usize {
    let looked_at = columns.min(4);
    128 + packed + zones * (17 + 16 * looked_at) + columns * 120 + chunks * size_of::<Chunk>()
}

/// The largest range of priorities whose first and last have these top 32 bits.
fn range_of((first, last): (u64, u64)) -> PriorityRange {
    PriorityRange { first: first << PRIORITY_SHIFT, last: last << PRIORITY_SHIFT | ((1 << PRIORITY_SHIFT) - 1) }
}

/// The top 32 bits of the lowest and highest priority of all zones. With strata of windows, the first one is the start
/// of its window, so that the rounded bounds of a zone stay in the window of its rows.
fn priority_ends(priorities: &[PriorityRange], strata: Strata) -> (u64, u64) {
    let first = priorities.iter().map(|range| range.first).min().unwrap_or(0);
    let first = if strata == Strata::Windows { window_start(first) } else { first };
    let last = priorities.iter().map(|range| range.last).max().unwrap_or(0);
    (first >> PRIORITY_SHIFT, last >> PRIORITY_SHIFT)
}

/// Appends a number as LEB128: seven bits per byte, lowest first; the highest bit means that more bytes follow.
fn put_varying(mut number: u32, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn varying(reader: &mut Reader<'_>) -> Result<u32, UnexpectedEnd> {
    let mut number = 0u64;
    for shift in (0..35).step_by(7) {
        let byte = reader.u8()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return u32::try_from(number).map_err(|_| UnexpectedEnd);
        }
    }
    Err(UnexpectedEnd)
}

/// Reads the steps from the packed statistics of a column.
fn steps_of(bytes: &[u8], zones: usize) -> Result<Steps, UnexpectedEnd> {
    let mut reader = Reader::new(bytes);
    nulls_of_zones(&mut reader, zones)?;
    Steps::read(&mut reader, COLUMN_BITS)
}
