//! Whole pages and runs: every chunk read and checked, every column decoded.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use bytes::Bytes;
use kubist_index::state::Run;

use kubist_catalog::fetch::Piece;
use kubist_catalog::snapshot::Snapshot;
use kubist_format::decode::{self, PageColumn, Span};
use kubist_format::location::Location;
use kubist_format::zone_map::ZoneMap;
use kubist_types::error::{Error, Result};

/// The stored rows of a run in the run's order, with the defaults of columns that
/// it has not, and its zone map.
pub fn read_run(snapshot: &Snapshot, run: &Arc<Run<Location>>) -> Result<(RecordBatch, Arc<ZoneMap>)> {
    let (mut maps, _) = snapshot.maps(std::iter::once(run))?;
    let map = maps.remove(0);
    let data = data(snapshot, run, 0..run.payload.data_length)?;
    Ok((decode_pages(snapshot, run, &map, 0..map.pages(), &data)?, map))
}

/// Some of a run's stored bytes, counted from its first.
pub fn data(snapshot: &Snapshot, run: &Run<Location>, range: Range<u64>) -> Result<Bytes> {
    let place = &run.payload;
    let (offset, length) = (place.data_offset + range.start, range.end - range.start);
    Ok(snapshot.core.fetch(&[Piece { segment: place.segment.clone(), offset, length }])?.pieces.remove(0))
}

/// The rows of neighbouring pages, whose bytes are `data`.
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
            let chunk = map.chunk(page, column);
            let damaged = |what: String| damaged(snapshot, run, chunk.offset, what);
            let bytes = &data[(chunk.offset - start) as usize..][..chunk.length as usize];
            if crc32c::crc32c(bytes) != chunk.checksum {
                let name = field.name();
                return Err(damaged(format!("the checksum does not match (column {name:?}, page {page})")));
            }
            let rows = map.page_rows(page);
            let all = Span { places: 0..rows, some: None };
            builder.append(&PageColumn { rows, frame: chunk.frame, bytes }, &[all]).map_err(damaged)?;
        }
        arrays.push(builder.finish().map_err(|what| damaged(snapshot, run, start, what))?);
    }
    let batch = RecordBatch::try_new(schema.stored.clone(), arrays);
    batch.map_err(|error| damaged(snapshot, run, start, error.to_string()))
}

/// An error that names the file, the place in it and the cube.
pub fn damaged(snapshot: &Snapshot, run: &Run<Location>, offset: u64, what: String) -> Error {
    Error::Damaged {
        file: format!("{}/segments/{}.seg", snapshot.core.store.location(), run.payload.segment),
        offset: run.payload.data_offset + offset,
        what: format!("{what} (cube {:#x})", run.cube.to_u128()),
    }
}
