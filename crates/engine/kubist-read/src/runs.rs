//! Reads whole pages and runs: checks every chunk and decodes every column.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use bytes::Bytes;
use kubist_expr::Zone;
use kubist_index::state::Run;

use kubist_catalog::fetch::Piece;
use kubist_catalog::schema::TableSchema;
use kubist_catalog::snapshot::Snapshot;
use kubist_format::decode::{self, Column};
use kubist_format::location::Location;
use kubist_format::rows::Span;
use kubist_format::zone_map::ZoneMap;
use kubist_types::error::{Error, Result};

/// All rows of a run in stored order, with defaults for missing columns, and its zone map.
///
/// # Errors
///
/// `Damaged`; `SnapshotExpired` if its segment was cleaned; a storage error.
pub fn read_run(snapshot: &Snapshot, run: &Arc<Run<Location>>) -> Result<(RecordBatch, Arc<ZoneMap>)> {
    let (mut maps, _) = snapshot.zone_maps(std::iter::once(run), true)?;
    let map = maps.remove(0);
    let data = data(snapshot, run, 0..run.payload.data_length)?;
    Ok((decode_pages(snapshot, run, &map, 0..map.pages(), &data)?, map))
}

/// # Errors
///
/// `Damaged`; `SnapshotExpired` if its segment was cleaned; a storage error.
pub fn data(snapshot: &Snapshot, run: &Run<Location>, range: Range<u64>) -> Result<Bytes> {
    let place = &run.payload;
    let (offset, length) = (place.data_offset + range.start, range.end - range.start);
    Ok(snapshot.core.fetch(&[Piece { segment: place.segment.clone(), offset, length }])?.pieces.remove(0))
}

/// The pages are adjacent; `data` has their bytes.
///
/// # Errors
///
/// `Damaged`.
pub fn decode_pages(
    snapshot: &Snapshot,
    run: &Run<Location>,
    map: &ZoneMap,
    pages: Range<usize>,
    data: &[u8],
) -> Result<RecordBatch> {
    let schema = &snapshot.view.schema;
    let start = if pages.is_empty() { 0 } else { map.chunk(pages.start, 0).offset };
    let rows = pages.clone().map(|page| map.page_rows(page)).sum();
    let mut arrays = Vec::with_capacity(schema.stored.fields().len());
    for (column, field) in schema.stored.fields().iter().enumerate() {
        let mut builder = decode::column(field.data_type(), rows);
        if column >= map.columns.len() {
            builder.repeat(schema.default_of(column), rows);
            arrays.push(builder.finish().map_err(|what| damaged(snapshot, run, start, what))?);
            continue;
        }
        for page in pages.clone() {
            let all = Span { indices: 0..map.page_rows(page), some: None };
            append_chunk(snapshot, run, map, (page, column), start, data, builder.as_mut(), &[all])?;
        }
        arrays.push(builder.finish().map_err(|what| damaged(snapshot, run, start, what))?);
    }
    let batch = RecordBatch::try_new(schema.stored.clone(), arrays);
    batch.map_err(|error| damaged(snapshot, run, start, error.to_string()))
}

/// Decodes the rows whose values are all valid for their types, and returns the errors of the other rows,
/// by row. `data` has the page's bytes.
///
/// # Errors
///
/// `Damaged` if a checksum does not match.
pub fn decode_sound_rows(
    snapshot: &Snapshot,
    run: &Run<Location>,
    map: &ZoneMap,
    page: usize,
    data: &[u8],
) -> Result<(RecordBatch, BTreeMap<usize, String>)> {
    let (schema, start, rows) = (&snapshot.view.schema, map.chunk(page, 0).offset, map.page_rows(page));
    let array = |column: usize, spans: &[Span]| -> Result<std::result::Result<ArrayRef, String>> {
        let field = schema.stored.field(column);
        let mut builder = decode::column(field.data_type(), rows);
        match column < map.columns.len() {
            true => append_chunk(snapshot, run, map, (page, column), start, data, builder.as_mut(), spans)?,
            false => builder.repeat(schema.default_of(column), spans.iter().map(Span::count).sum()),
        }
        let array = builder.finish();
        Ok(array.and_then(|array| match field.is_nullable() || array.null_count() == 0 {
            true => Ok(array),
            false => Err("it is null".into()),
        }))
    };
    let mut bad: BTreeMap<usize, String> = BTreeMap::new();
    for (column, field) in schema.stored.fields().iter().enumerate() {
        let mut parts = vec![0..rows];
        while let Some(places) = parts.pop() {
            let Err(what) = array(column, &[Span { indices: places.clone(), some: None }])? else { continue };
            if places.len() <= 1 {
                let name = field.name();
                let what = format!("row {} of page {page} has no value of column {name:?}: {what}", places.start);
                bad.entry(places.start).or_insert(what);
                continue;
            }
            let middle = places.start + places.len() / 2;
            parts.extend([places.start..middle, middle..places.end]);
        }
    }
    let sound = (0..rows).filter(|row| !bad.contains_key(row));
    let spans: Vec<Span> = sound.map(|row| Span { indices: row..row + 1, some: None }).collect();
    let arrays = (0..schema.stored.fields().len())
        .map(|column| array(column, &spans)?.map_err(|what| damaged(snapshot, run, start, what)));
    let batch = RecordBatch::try_new(schema.stored.clone(), arrays.collect::<Result<_>>()?);
    Ok((batch.map_err(|error| damaged(snapshot, run, start, error.to_string()))?, bad))
}

/// `data` has the page's bytes, which begin at offset `start` of the run.
#[allow(clippy::too_many_arguments)]
fn append_chunk(
    snapshot: &Snapshot,
    run: &Run<Location>,
    map: &ZoneMap,
    (page, column): (usize, usize),
    start: u64,
    data: &[u8],
    builder: &mut dyn Column,
    spans: &[Span],
) -> Result<()> {
    let chunk = map.chunk(page, column);
    let damaged = |what: String| damaged(snapshot, run, chunk.offset, what);
    let bytes = &data[(chunk.offset - start) as usize..][..chunk.length as usize];
    if crc32c::crc32c(bytes) != chunk.checksum {
        let name = snapshot.view.schema.stored.field(column).name();
        let what = format!("the checksum does not match (column {name:?}, page {page})");
        return Err(snapshot.explained(run, damaged(what)));
    }
    builder.append(&map.page_column(page, bytes), spans).map_err(damaged)
}

/// A run that is older than the column has the default value.
pub fn zone_of(schema: &TableSchema, map: &ZoneMap, zone: usize, column: usize) -> Zone {
    match map.columns.get(column) {
        Some(zones) => map.zone(zone, zones),
        None => schema.zone_of_default(column),
    }
}

pub fn damaged(snapshot: &Snapshot, run: &Run<Location>, offset: u64, what: String) -> Error {
    Error::Damaged {
        file: format!("{}/segments/{}.seg", snapshot.core.store.location(), run.payload.segment),
        offset: run.payload.data_offset + offset,
        what: format!("{what} (cube {:#x})", run.cube.to_u128()),
    }
}
