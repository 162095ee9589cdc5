//! Secondary indexes in a plan: the zones of every run that can hold the values of a query.
//!
//! The values come from an equality or an `IN` list on an indexed column, joined to the other conditions by
//! AND. For runs without an index, or with damaged postings, zone maps decide.

use std::collections::HashMap;
use std::sync::Arc;

use kubist_index::priority::PriorityRange;
use kubist_index::state::RunId;

use super::{Planner, meets};
use crate::postings::{Answer, look_up};
use crate::visit::Visit;
use kubist_catalog::stop::stoppable;
use kubist_format::lookup::{Key, Lookup};
use kubist_index::gradual;
use kubist_types::error::Result;
use kubist_types::stats::Stats;

impl Planner {
    pub(super) fn is_looked_up(&self) -> bool {
        let query = &self.logical.query;
        !query.sought.is_empty() && query.part.is_none() && query.region.is_everything()
    }

    /// The visits of a query by indexed values; zone maps select runs without an index. `None` if the query
    /// has no such values, or also has a box. Primary runs hold each row once (I1), so no walk over cubes
    /// is needed.
    pub(super) fn looked_up(&mut self, range: PriorityRange, stats: &mut Stats) -> Result<Option<Vec<Visit>>> {
        if !self.is_looked_up() {
            return Ok(None);
        }
        let query = self.logical.query.clone();
        let (view, core) = (&query.snapshot.view, &query.snapshot.core);
        let live = view.lookups(core, stats, &query.cancel)?;
        let covered = || live.coverings.iter().flat_map(|covering| &covering.lookups);
        let answers = self.answers(covered().map(|covered| &covered.lookup).collect(), stats)?;
        let mut zones: HashMap<RunId, &Arc<[u32]>> = HashMap::new();
        let mut wanted = Vec::with_capacity(answers.len());
        for (covered, answer) in covered().zip(&answers) {
            let indices = answer.as_ref().as_ref().map(|hits| {
                stats.runs_looked_up += covered.len() as u64;
                zones.extend(hits.iter().map(|(index, of_run)| (covered.run(*index), of_run)));
                let mut indices: Vec<u32> = hits.keys().copied().collect();
                indices.sort_unstable();
                indices
            });
            wanted.push((covered, indices));
        }
        let mut places = view.runs.places(core, &wanted, stats, &query.cancel)?;
        places.extend(live.coverings.iter().flat_map(|covering| covering.others.iter().cloned()));
        let mut found = view.runs.at(core, places, stats, &query.cancel)?;
        found.sort_unstable_by_key(|run| (run.cube, run.id));
        let visits = found.into_iter().filter(|run| meets(run, range) && self.logical.may_match(run)).map(|run| {
            let zones = zones.get(&run.id).map(|zones| (*zones).clone());
            Visit { run, within: Vec::new(), zones }
        });
        let visits: Vec<Visit> = visits.collect();
        stats.cubes_visited += visits.chunk_by(|a, b| a.run.cube == b.run.cube).count() as u64;
        Ok(Some(visits))
    }

    pub(super) fn narrowed_by_lookups(&mut self, visits: Vec<Visit>, stats: &mut Stats) -> Result<Vec<Visit>> {
        let query = self.logical.query.clone();
        if query.sought.is_empty() {
            return Ok(visits);
        }
        let mut lookups: Vec<&Arc<Lookup>> =
            visits.iter().filter_map(|visit| visit.run.payload.lookup.as_ref()).collect();
        lookups.sort_unstable_by_key(|lookup| lookup.key());
        lookups.dedup_by_key(|lookup| lookup.key());
        let keys: Vec<Key> = lookups.iter().map(|lookup| lookup.key()).collect();
        let answers = self.answers(lookups, stats)?;
        let mut narrowed = Vec::new();
        for (number, visit) in visits.iter().enumerate() {
            if number % gradual::PIECE == 0 {
                query.cancel.check()?;
            }
            let of_run = visit.run.payload.lookup.as_ref().and_then(|lookup| {
                let answer = &answers[keys.binary_search(&lookup.key()).ok()?];
                Some(answer.as_ref().as_ref()?.get(&(lookup.index_of(visit.run.id) as u32)))
            });
            match of_run {
                None => narrowed.push(visit.clone()),
                Some(zones) => {
                    stats.runs_looked_up += 1;
                    narrowed.extend(zones.map(|zones| Visit { zones: Some(zones.clone()), ..visit.clone() }));
                }
            }
        }
        Ok(narrowed)
    }

    /// Each index is searched once for all windows.
    fn answers(&mut self, lookups: Vec<&Arc<Lookup>>, stats: &mut Stats) -> Result<Vec<Arc<Answer>>> {
        let (query, known) = (&self.logical.query, &mut self.answers);
        query.cancel.check()?;
        let open: Vec<&Arc<Lookup>> =
            lookups.iter().filter(|lookup| !known.contains_key(&lookup.key())).copied().collect();
        let (answered, cost) = stoppable(&query.cancel, || look_up(&query.snapshot, &open, &query.sought))?;
        stats.spend(cost);
        known.extend(open.into_iter().map(|lookup| lookup.key()).zip(answered.into_iter().map(Arc::new)));
        Ok(lookups.iter().map(|lookup| known[&lookup.key()].clone()).collect())
    }
}
