//! The zone maps of runs, from the cache or the store.

use std::sync::Arc;

use kubist_format::error::EntryError;
use kubist_format::location::Location;
use kubist_format::names::segment_file;
use kubist_format::zone_map::ZoneMap;
use kubist_index::state::Run;
use kubist_store::StoreExt;
use kubist_types::{Cost, Error, Result};

use crate::error::{bad_entry, store_error};
use crate::fetch::Piece;
use crate::snapshot::Snapshot;

impl Snapshot {
    /// `SnapshotExpired` if the run was replaced and its bytes freed. A partial copy that fetches forgets the run's
    /// bytes, so that they are fetched again.
    pub fn explained(&self, run: &Run<Location>, damage: Error) -> Error {
        let (site, place) = (run.payload.site(), &run.payload);
        if let Some(partial) = self.core.store.partial().filter(|partial| partial.fetches()) {
            let map = place.map_offset..place.map_offset + u64::from(place.map_length);
            for range in [place.data_offset..place.data_offset + place.data_length, map] {
                if let Err(error) = partial.forget(&place.segment, range) {
                    return store_error(error);
                }
            }
            return damage;
        }
        self.core.explained(&self.view, |live| live.payload.site() == site, damage)
    }

    /// Returns zone maps and the cost of reading, and caches new zone maps with `may_stay`.
    ///
    /// # Errors
    ///
    /// The errors of [`Core::fetch`](crate::core::Core::fetch); `Damaged` if a zone map does not fit its run.
    pub fn zone_maps<'a>(
        &self,
        runs: impl Iterator<Item = &'a Arc<Run<Location>>> + Clone,
        may_stay: bool,
    ) -> Result<(Vec<Arc<ZoneMap>>, Cost)> {
        let ids = runs.clone().map(|run| run.id);
        let mut found = match may_stay {
            true => self.core.zone_map_cache.get(ids),
            false => self.core.zone_map_cache.peek(ids),
        };
        let missing: Vec<_> = runs.zip(&mut found).filter(|(_, map)| map.is_none()).collect();
        if missing.is_empty() {
            return Ok((found.into_iter().flatten().collect(), Cost::default()));
        }
        let wanted: Vec<_> = missing
            .iter()
            .map(|(run, _)| Piece {
                segment: run.payload.segment.clone(),
                offset: run.payload.map_offset,
                length: run.payload.map_length as u64,
            })
            .collect();
        let fetched = self.core.fetch(&wanted)?;
        let mut decoded = Vec::with_capacity(missing.len());
        for ((run, slot), bytes) in missing.into_iter().zip(fetched.pieces) {
            let location = &run.payload;
            let damaged = |what: String| {
                let file = segment_file(self.core.store.location(), &location.segment);
                let what = format!("{what} (cube {:#x})", run.cube.to_u128());
                self.explained(run, Error::Damaged { file, offset: location.map_offset, what })
            };
            let map = ZoneMap::decode(&bytes).map_err(|error| match error {
                EntryError::Bad(what) => damaged(what),
                newer => {
                    let name = format!("segments/{}.seg", location.segment);
                    bad_entry(self.core.store.location(), &name, location.map_offset, newer)
                }
            })?;
            let rows: u64 = map.rows.iter().map(|rows| *rows as u64).sum();
            let length: u64 = map.chunks.iter().map(|chunk| chunk.length as u64).sum();
            if rows != run.rows || length != location.data_length {
                return Err(damaged("the zone map does not fit its run".to_string()));
            }
            // An older run may have fewer columns, but never more.
            if !self.has_columns(map.columns.len()) {
                let (found, known) = (map.columns.len(), self.view.schema.stored.fields().len());
                return Err(damaged(format!(
                    "the run has {found} columns and the table {known}: an alteration may be missing"
                )));
            }
            let map = Arc::new(map);
            decoded.push((run.id, map.clone()));
            *slot = Some(map);
        }
        if may_stay {
            self.core.zone_map_cache.insert(decoded.into_iter());
        }
        Ok((found.into_iter().flatten().collect(), fetched.cost))
    }
}
