//! Reading everything to see whether it is sound.
//!
//! Every run's zone map and every chunk is read and checked, rows are counted,
//! and each row's cube, priority and zone are recomputed from its values (I1,
//! I2). Findings are listed; nothing is changed.

use std::collections::HashSet;

use arrow_array::Array;

use crate::codec::decode::{self, Pick, all_rows};
use crate::error::{Error, Result};
use crate::fetch::{Piece, fetch};
use crate::options::Cancel;
use crate::snapshot::Snapshot;
use crate::table::Table;

/// What [`Table::verify`] saw.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct VerifyReport {
    pub rows: u64,
    pub runs: u64,
    pub pages: u64,
    /// Read and checked.
    pub bytes: u64,
    /// One line for each thing that is wrong; empty if the table is sound.
    pub findings: Vec<String>,
}

/// Findings beyond this number are only counted.
const MOST_FINDINGS: usize = 100;

impl VerifyReport {
    fn find(&mut self, what: String) {
        match self.findings.len() {
            MOST_FINDINGS => self.findings.push("there are more findings".into()),
            more if more > MOST_FINDINGS => {}
            _ => self.findings.push(what),
        }
    }
}

impl Table {
    /// Reads everything and lists what is wrong; calls `progress(done, total)`
    /// with bytes as it goes on. An error means that the check itself could not
    /// be done, not that the table is damaged.
    pub fn verify(&self, cancel: &Cancel, progress: &mut dyn FnMut(u64, u64)) -> Result<VerifyReport> {
        let mut report = VerifyReport::default();
        let snapshot = match self.snapshot() {
            Ok(snapshot) => snapshot,
            Err(error @ Error::Damaged { .. }) => {
                report.find(error.to_string());
                return Ok(report);
            }
            Err(error) => return Err(error),
        };
        let directory = &snapshot.view.directory;
        let runs = directory.runs();
        let length = |run: &std::sync::Arc<kubist_index::state::Run<crate::entry::Location>>| {
            run.payload.data_length + run.payload.map_length as u64
        };
        let total: u64 = runs.iter().map(length).sum();
        let mut seen = HashSet::new();
        for run in runs {
            cancel.check()?;
            if !seen.insert(run.id) {
                report.find(format!("run {:#x} is listed twice", run.id.0));
            }
            match verify_run(&snapshot, run, &mut report) {
                Ok(()) => {}
                Err(error @ (Error::Damaged { .. } | Error::Newer(_) | Error::Invalid(_))) => {
                    report.find(error.to_string())
                }
                Err(error) => return Err(error),
            }
            report.runs += 1;
            report.bytes += length(run);
            progress(report.bytes, total);
        }
        let committed: u64 = snapshot.view.writers.values().map(|progress| progress.rows).sum();
        if report.findings.is_empty() && committed != report.rows {
            report.find(format!("the logs count {committed} rows, the runs hold {}", report.rows));
        }
        Ok(report)
    }
}

fn verify_run(
    snapshot: &Snapshot,
    run: &std::sync::Arc<kubist_index::state::Run<crate::entry::Location>>,
    report: &mut VerifyReport,
) -> Result<()> {
    let core = &snapshot.core;
    let (maps, _) = snapshot.maps(std::iter::once(run))?;
    let map = &maps[0];
    let place = &run.payload;
    let file = format!("{}/segments/{}", core.store.location(), place.segment);
    let damaged = |offset: u64, what: String| Error::Damaged {
        file: file.clone(),
        offset: place.data_offset + offset,
        what: format!("{what} (cube {:#x})", run.cube.to_u128()),
    };
    let piece = Piece { segment: place.segment.clone(), offset: place.data_offset, length: place.data_length };
    let data = fetch(core.store.as_ref(), &[piece])?.pieces.remove(0);
    let fields = core.schema.stored.fields();
    let mut arrays = Vec::new();
    for (column, field) in fields.iter().enumerate() {
        let mut builder = decode::column(field.data_type());
        for page in 0..map.pages() {
            let chunk = map.chunk(page, column);
            let bytes = &data[chunk.offset as usize..(chunk.offset + chunk.length) as usize];
            if crc32c::crc32c(bytes) != chunk.checksum {
                let what = format!("the checksum does not match (column {:?}, page {page})", field.name());
                return Err(damaged(chunk.offset as u64, what));
            }
            let picks: Vec<Pick> =
                map.page_zones(page).map(|zone| Pick { zone, rows: all_rows(map.rows[zone]) }).collect();
            builder.append(map, column, page, bytes, &picks).map_err(|what| damaged(chunk.offset as u64, what))?;
            report.pages += (column == 0) as u64;
        }
        arrays.push(builder.finish().map_err(|what| damaged(0, what))?);
    }
    report.rows += run.rows;
    let Some(frame) = core.frame()? else {
        return Err(damaged(0, "the grid is missing".into()));
    };
    let batch =
        arrow_array::RecordBatch::try_new(core.schema.stored.clone(), arrays).map_err(|e| damaged(0, e.to_string()))?;
    let places = frame.places(&batch);
    let mut first = 0;
    for (zone, rows) in map.rows.iter().enumerate() {
        for row in first..first + *rows as usize {
            let priority = places.priorities[row];
            if !core.geometry.contains_key(run.cube, places.keys[row]) {
                return Err(damaged(0, format!("row {row} lies outside its cube")));
            }
            let cutoffs = core.geometry.ancestors(run.cube).map(|ancestor| snapshot.view.directory.cutoff(ancestor));
            if !run.is_replica() && cutoffs.into_iter().any(|cutoff| cutoff.admits(priority)) {
                return Err(damaged(0, format!("row {row} has a priority that belongs above its cube")));
            }
            if !map.priorities[zone].holds(priority) || priority < run.priorities.0 || priority > run.priorities.1 {
                return Err(damaged(0, format!("row {row} has a priority outside its zone's range")));
            }
            let inside = |(d, column): (usize, &Vec<u32>)| place.low[d] <= column[row] && column[row] <= place.high[d];
            if !places.coordinates.iter().enumerate().all(inside) {
                return Err(damaged(0, format!("row {row} lies outside its run's box")));
            }
        }
        for (column, array) in batch.columns().iter().enumerate() {
            let nulls = array.slice(first, *rows as usize).null_count();
            if nulls != map.columns[column].nulls_of(zone) as usize {
                return Err(damaged(
                    0,
                    format!("zone {zone} counts its nulls wrongly in column {:?}", fields[column].name()),
                ));
            }
        }
        first += *rows as usize;
    }
    Ok(())
}
