//! Reading everything to see whether it is sound.
//!
//! Every run's zone map and every chunk is read and checked, rows are counted,
//! and each row's cube, priority and zone are recomputed from its values (I1,
//! I2). Findings are listed; nothing is changed.

use std::collections::HashSet;

use arrow_array::Array;

use crate::error::{Error, Result};
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
        let committed: u64 = snapshot.view.history.live_rows();
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
    let (batch, map) = snapshot.read_run(run)?;
    let (place, fields) = (&run.payload, snapshot.view.schema.stored.fields());
    let damaged = |what: String| snapshot.damaged(run, 0, what);
    report.pages += map.pages() as u64;
    report.rows += run.rows;
    let Some(frame) = core.frame()? else {
        return Err(damaged("the grid is missing".into()));
    };
    let places = frame.places(&batch);
    let mut first = 0;
    for (zone, rows) in map.rows.iter().enumerate() {
        for row in first..first + *rows as usize {
            let priority = places.priorities[row];
            if !core.geometry.contains_key(run.cube, places.keys[row]) {
                return Err(damaged(format!("row {row} lies outside its cube")));
            }
            let cutoffs = core.geometry.ancestors(run.cube).map(|ancestor| snapshot.view.directory.cutoff(ancestor));
            if !run.is_replica() && cutoffs.into_iter().any(|cutoff| cutoff.admits(priority)) {
                return Err(damaged(format!("row {row} has a priority that belongs above its cube")));
            }
            if !map.priorities[zone].holds(priority) || priority < run.priorities.0 || priority > run.priorities.1 {
                return Err(damaged(format!("row {row} has a priority outside its zone's range")));
            }
            let inside = |(d, column): (usize, &Vec<u32>)| place.low[d] <= column[row] && column[row] <= place.high[d];
            if !places.coordinates.iter().enumerate().all(inside) {
                return Err(damaged(format!("row {row} lies outside its run's box")));
            }
        }
        for (column, array) in batch.columns()[..map.columns.len()].iter().enumerate() {
            let nulls = array.slice(first, *rows as usize).null_count();
            if nulls != map.columns[column].nulls_of(zone) as usize {
                return Err(damaged(format!(
                    "zone {zone} counts its nulls wrongly in column {:?}",
                    fields[column].name()
                )));
            }
        }
        first += *rows as usize;
    }
    Ok(())
}
