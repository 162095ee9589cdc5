//! Checks that each replica holds exactly the rows of its source runs inside its cube (I4), by the number of rows and
//! the sum of their hashes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_array::RecordBatch;
use kubist_index::cube::CubeId;
use kubist_index::state::{Run, RunId};

use crate::readable::row_hashes;
use kubist_catalog::frame::Frame;
use kubist_catalog::snapshot::Snapshot;
use kubist_format::location::Location;
use kubist_read::runs;

use crate::verify::VerifyReport;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sum {
    rows: u64,
    hashes: u64,
}

pub struct Ledger {
    replicas: Vec<Arc<Run<Location>>>,
    named_by: HashMap<RunId, Vec<Arc<Run<Location>>>>,
    expected: HashMap<RunId, Sum>,
    found: HashMap<RunId, Sum>,
    lost: HashSet<RunId>,
}

impl Ledger {
    /// Takes all replicas and the cubes of their sources. Reports invalid sources: missing, not in a cube above, or
    /// copied by two replicas of a cube.
    pub fn new(
        snapshot: &Snapshot,
        replicas: Vec<Arc<Run<Location>>>,
        sources: &HashMap<RunId, CubeId>,
        report: &mut VerifyReport,
    ) -> Ledger {
        let forest = snapshot.core.forest();
        let mut named_by: HashMap<RunId, Vec<Arc<Run<Location>>>> = HashMap::new();
        let mut covered = HashSet::new();
        for replica in &replicas {
            for source in &replica.copies {
                let above = |cube| cube != replica.cube && forest.tree_of(cube).contains(cube, replica.cube);
                if !sources.get(source).copied().is_some_and(above) {
                    let what = format!("it copies run {:#x}, which does not live in a cube above it", source.0);
                    report.find(runs::damaged(snapshot, replica, 0, what).to_string());
                }
                if !covered.insert((replica.cube, *source)) {
                    let what = format!("another replica in its cube copies run {:#x} too", source.0);
                    report.find(runs::damaged(snapshot, replica, 0, what).to_string());
                }
                named_by.entry(*source).or_default().push(replica.clone());
            }
        }
        Ledger { replicas, named_by, expected: HashMap::new(), found: HashMap::new(), lost: HashSet::new() }
    }

    pub fn concerns(&self, run: &Run<Location>) -> bool {
        run.is_replica() || self.named_by.contains_key(&run.id)
    }

    pub fn lose(&mut self, run: RunId) {
        self.lost.insert(run);
    }

    pub fn count(&mut self, run: &Arc<Run<Location>>, frame: &Frame, batch: &RecordBatch) {
        let replicas = self.named_by.get(&run.id);
        if replicas.is_none() && !run.is_replica() {
            return;
        }
        let hashes = row_hashes(batch);
        if run.is_replica() {
            let sum = self.found.entry(run.id).or_default();
            sum.rows += hashes.len() as u64;
            sum.hashes = hashes.iter().fold(sum.hashes, |sum, hash| sum.wrapping_add(*hash));
            return;
        }
        let keys = frame.keys(batch);
        for replica in replicas.into_iter().flatten() {
            let sum = self.expected.entry(replica.id).or_default();
            for (key, hash) in keys.iter().zip(&hashes) {
                if frame.geometry.contains_key(replica.cube, *key) {
                    sum.rows += 1;
                    sum.hashes = sum.hashes.wrapping_add(*hash);
                }
            }
        }
    }

    pub fn close(&self, snapshot: &Snapshot, report: &mut VerifyReport) {
        for replica in &self.replicas {
            if self.lost.contains(&replica.id) || replica.copies.iter().any(|source| self.lost.contains(source)) {
                continue;
            }
            let sum = |of: &HashMap<RunId, Sum>| of.get(&replica.id).copied().unwrap_or_default();
            let (expected, found) = (sum(&self.expected), sum(&self.found));
            if expected != found {
                let what = match expected.rows == found.rows {
                    true => "its records are not those of the runs that it copies".to_string(),
                    false => format!("it has {} records, the runs that it copies {}", found.rows, expected.rows),
                };
                report.find(runs::damaged(snapshot, replica, 0, what).to_string());
            }
        }
    }
}
