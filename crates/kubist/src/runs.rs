//! Whole runs: every page read and checked, every column decoded.

use std::sync::Arc;

use arrow_array::RecordBatch;
use kubist_index::state::Run;

use crate::codec::decode::{self, Pick, all_rows};
use crate::codec::zone_map::ZoneMap;
use crate::entry::Location;
use crate::error::{Error, Result};
use crate::fetch::{Piece, fetch};
use crate::snapshot::Snapshot;

impl Snapshot {
    /// The stored rows of a run in the run's order, with the defaults of columns that
    /// it has not, and its zone map.
    pub(crate) fn read_run(&self, run: &Arc<Run<Location>>) -> Result<(RecordBatch, Arc<ZoneMap>)> {
        let (mut maps, _) = self.maps(std::iter::once(run))?;
        let map = maps.remove(0);
        let place = &run.payload;
        let damaged = |offset: u64, what: String| self.damaged(run, offset, what);
        let piece = Piece { segment: place.segment.clone(), offset: place.data_offset, length: place.data_length };
        let data = fetch(&self.core, &[piece])?.pieces.remove(0);
        let schema = &self.view.schema;
        let stored = &schema.stored;
        let mut arrays = Vec::with_capacity(stored.fields().len());
        for (column, field) in stored.fields().iter().enumerate() {
            let mut builder = decode::column(field.data_type());
            if column >= map.columns.len() {
                builder.repeat(schema.default_of(column), run.rows as usize);
                arrays.push(builder.finish().map_err(Error::Invalid)?);
                continue;
            }
            for page in 0..map.pages() {
                let chunk = map.chunk(page, column);
                let bytes = &data[chunk.offset as usize..(chunk.offset + chunk.length as u64) as usize];
                if crc32c::crc32c(bytes) != chunk.checksum {
                    let what = format!("the checksum does not match (column {:?}, page {page})", field.name());
                    return Err(damaged(chunk.offset, what));
                }
                let picks: Vec<Pick> =
                    map.page_zones(page).map(|zone| Pick { zone, rows: all_rows(map.rows[zone]) }).collect();
                builder.append(&map, column, page, bytes, &picks).map_err(|what| damaged(chunk.offset, what))?;
            }
            arrays.push(builder.finish().map_err(|what| damaged(0, what))?);
        }
        let batch = RecordBatch::try_new(stored.clone(), arrays).map_err(|error| damaged(0, error.to_string()))?;
        Ok((batch, map))
    }

    /// An error that names the file, the place in it and the cube.
    pub(crate) fn damaged(&self, run: &Run<Location>, offset: u64, what: String) -> Error {
        Error::Damaged {
            file: format!("{}/segments/{}.seg", self.core.store.location(), run.payload.segment),
            offset: run.payload.data_offset + offset,
            what: format!("{what} (cube {:#x})", run.cube.to_u128()),
        }
    }
}
