//! Ranges of columns that are not dimensions, for each run (FORMAT.md, Column ranges). A condition on such a
//! column excludes whole runs before their zone maps are read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use kubist_expr::{Nulls, Zone};

use crate::bits;
use crate::wire::{Reader, UnexpectedEnd};
use crate::zone_map::ColumnZones;

const NO_NULLS: u8 = 0;
const SOME_NULLS: u8 = 1;
const ALL_NULL: u8 = 2;
const UNKNOWN: u8 = 3;

/// The packed ranges of runs, as stored: runs in place of a zone map's zones. They exist as long as the runs,
/// so they are never unpacked.
#[derive(Debug)]
pub struct Ranges {
    runs: u32,
    /// Stored columns, ascending, and the position of each column's zones.
    columns: Box<[(u32, u32)]>,
    packed: Bytes,
}

#[derive(Clone, Debug)]
pub struct RunRanges {
    of: Arc<Ranges>,
    index: u32,
}

impl Ranges {
    fn read(columns: &[u32], runs: usize, bytes: &[u8]) -> Result<Ranges, UnexpectedEnd> {
        let mut reader = Reader::new(bytes);
        let mut offsets = Vec::with_capacity(columns.len());
        for column in columns {
            offsets.push((*column, (bytes.len() - reader.rest().len()) as u32));
            skip_zones(&mut reader, runs)?;
        }
        let packed = Bytes::copy_from_slice(&bytes[..bytes.len() - reader.rest().len()]);
        Ok(Ranges { runs: runs as u32, columns: offsets.into(), packed })
    }

    pub fn last_column(&self) -> Option<usize> {
        self.columns.last().map(|(column, _)| *column as usize)
    }

    pub fn memory(&self) -> usize {
        size_of::<Ranges>() + 16 + size_of_val(&*self.columns) + self.packed.len()
    }
}

impl Ranges {
    pub fn of_run(self: &Arc<Ranges>, run: usize) -> RunRanges {
        RunRanges { of: self.clone(), index: run as u32 }
    }
}

impl RunRanges {
    pub fn of(&self) -> &Arc<Ranges> {
        &self.of
    }

    pub fn zone(&self, column: usize) -> Option<Zone> {
        let Ranges { runs, columns, packed } = &*self.of;
        let at = columns.binary_search_by_key(&column, |(column, _)| *column as usize).ok()?;
        let zones = &packed[columns[at].1 as usize..];
        let (min, max, nulls) = packed_zone(zones, *runs as usize, self.index as usize).ok()?;
        match nulls {
            NO_NULLS => Some(Zone { min, max, nulls: Nulls::None }),
            SOME_NULLS => Some(Zone { min, max, nulls: Nulls::Some }),
            ALL_NULL => Some(Zone { min: 0, max: 0, nulls: Nulls::All }),
            _ => None,
        }
    }

    fn columns(&self) -> impl Iterator<Item = usize> {
        self.of.columns.iter().map(|(column, _)| *column as usize)
    }
}

impl PartialEq for RunRanges {
    fn eq(&self, other: &RunRanges) -> bool {
        self.columns().chain(other.columns()).all(|column| self.zone(column) == other.zone(column))
    }
}

#[derive(Default)]
pub struct RangesBuilder {
    columns: Vec<(usize, ColumnZones)>,
}

impl RangesBuilder {
    /// Adds a run, which must have the same stored columns as the others, ascending.
    pub fn add(&mut self, of_run: impl Iterator<Item = (usize, Zone)>) {
        let is_first = self.columns.is_empty();
        for (index, (column, zone)) in of_run.enumerate() {
            if is_first {
                self.columns.push((column, ColumnZones::default()));
            }
            push(&mut self.columns[index].1, Some(zone));
        }
    }

    pub fn finish(self, runs: usize) -> Vec<RunRanges> {
        let columns: Vec<u32> = self.columns.iter().map(|(column, _)| *column as u32).collect();
        let mut packed = Vec::new();
        self.columns.into_iter().for_each(|(_, zones)| put(zones, &mut packed));
        let ranges = Arc::new(Ranges::read(&columns, runs, &packed).expect("packed just now"));
        (0..runs).map(|run| ranges.of_run(run)).collect()
    }
}

#[derive(Default)]
pub struct Around {
    groups: usize,
    /// Per stored column, the ranges of the groups, without trailing groups that have no range.
    columns: BTreeMap<usize, Vec<Option<Zone>>>,
}

impl Around {
    /// Adds a group. A column has a range only if all of the group's runs have one.
    pub fn add<'a>(&mut self, runs: impl Iterator<Item = Option<&'a RunRanges>> + Clone) {
        let first = runs.clone().next().flatten();
        for column in first.iter().flat_map(|ranges| ranges.columns()) {
            let zones = runs.clone().map(|ranges| ranges.and_then(|ranges| ranges.zone(column)));
            let around = zones.reduce(|one, other| Some(joined(one?, other?))).flatten();
            let of_column = self.columns.entry(column).or_default();
            of_column.resize(self.groups, None);
            of_column.push(around);
        }
        self.groups += 1;
    }

    pub fn finish(self) -> Vec<RunRanges> {
        let gathered = self.columns.into_iter().map(|(column, mut of_groups)| {
            of_groups.resize(self.groups, None);
            let mut zones = ColumnZones::default();
            of_groups.into_iter().for_each(|zone| push(&mut zones, zone));
            (column, zones)
        });
        RangesBuilder { columns: gathered.collect() }.finish(self.groups)
    }
}

fn joined(one: Zone, other: Zone) -> Zone {
    let nulls = if one.nulls == other.nulls { one.nulls } else { Nulls::Some };
    match (one.nulls, other.nulls) {
        (Nulls::All, _) => Zone { nulls, ..other },
        (_, Nulls::All) => Zone { nulls, ..one },
        _ => Zone { min: one.min.min(other.min), max: one.max.max(other.max), nulls },
    }
}

fn push(zones: &mut ColumnZones, zone: Option<Zone>) {
    let nulls = match zone.map(|zone| zone.nulls) {
        Some(Nulls::None) => NO_NULLS,
        Some(Nulls::Some) => SOME_NULLS,
        Some(Nulls::All) => ALL_NULL,
        None => UNKNOWN,
    };
    // Keys of a range without values must not widen the frame.
    let (min, max) = match zone {
        Some(Zone { min, max, .. }) if nulls != ALL_NULL => (min, max),
        _ => zones.min.last().map_or((0, 0), |min| (*min, *min)),
    };
    zones.min.push(min);
    zones.max.push(max);
    zones.nulls.push(nulls);
}

fn put(mut zones: ColumnZones, out: &mut Vec<u8>) {
    if zones.nulls.iter().all(|nulls| *nulls == NO_NULLS) {
        zones.nulls.clear();
    }
    put_zones(&zones, out);
}

/// The section of an entry with the ranges of its runs; `None` if there are none.
pub fn encode<'a>(runs: impl Iterator<Item = Option<&'a RunRanges>> + Clone) -> Option<Vec<u8>> {
    let mut columns: BTreeSet<usize> = BTreeSet::new();
    let mut last = None;
    for ranges in runs.clone().flatten() {
        if last.is_none_or(|last| !Arc::ptr_eq(last, ranges.of())) {
            columns.extend(ranges.columns());
        }
        last = Some(ranges.of());
    }
    if columns.is_empty() {
        return None;
    }
    let mut body = (columns.len() as u32).to_le_bytes().to_vec();
    columns.iter().for_each(|column| body.extend_from_slice(&(*column as u32).to_le_bytes()));
    for column in columns {
        let mut zones = ColumnZones::default();
        for of_run in runs.clone() {
            push(&mut zones, of_run.and_then(|ranges| ranges.zone(column)));
        }
        put(zones, &mut body);
    }
    Some(body)
}

/// # Errors
///
/// [`UnexpectedEnd`] if the bytes end too soon.
pub fn decode(body: &[u8], runs: usize) -> Result<Arc<Ranges>, UnexpectedEnd> {
    let mut reader = Reader::new(body);
    let columns = (0..reader.u32()?).map(|_| reader.u32()).collect::<Result<Vec<_>, UnexpectedEnd>>()?;
    if !columns.is_sorted_by(|a, b| a < b) {
        return Err(UnexpectedEnd);
    }
    Ok(Arc::new(Ranges::read(&columns, runs, reader.rest())?))
}

fn put_zones(column: &ColumnZones, out: &mut Vec<u8>) {
    out.push(!column.nulls.is_empty() as u8);
    out.extend_from_slice(&column.nulls);
    encode_frame(&column.min, out);
    let spans: Vec<u64> = column.min.iter().zip(&column.max).map(|(min, max)| max.wrapping_sub(*min)).collect();
    encode_frame(&spans, out);
}

fn skip_zones(reader: &mut Reader<'_>, zones: usize) -> Result<(), UnexpectedEnd> {
    if reader.u8()? != 0 {
        reader.bytes(zones)?;
    }
    for _ in 0..2 {
        reader.u64()?;
        let width = reader.u8()? as u32;
        reader.bytes(if width <= 64 { bits::packed_len(zones, width) } else { usize::MAX })?;
    }
    Ok(())
}

fn packed_zone(bytes: &[u8], zones: usize, zone: usize) -> Result<(u64, u64, u8), UnexpectedEnd> {
    let mut reader = Reader::new(bytes);
    let nulls = if reader.u8()? != 0 { reader.bytes(zones)?[zone] } else { 0 };
    let mut of_frame = || {
        let (base, width) = (reader.u64()?, reader.u8()? as u32);
        let packed = reader.bytes(bits::packed_len(zones, width))?;
        Ok(base.wrapping_add(bits::value(packed, width, zone)))
    };
    let (min, span) = (of_frame()?, of_frame()?);
    Ok((min, min.wrapping_add(span), nulls))
}

/// Integers as a base, a width and packed differences from the base.
fn encode_frame(values: &[u64], out: &mut Vec<u8>) {
    let base = values.iter().min().copied().unwrap_or(0);
    let width = bits::width_of(values.iter().map(|value| value - base).max().unwrap_or(0));
    out.extend_from_slice(&base.to_le_bytes());
    out.push(width as u8);
    bits::pack(values, base, width, out);
}
