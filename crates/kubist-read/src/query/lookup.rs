//! What lookups make of a question: for each run that one covers, the zones that can
//! hold the values asked for.
//!
//! The values come from the predicate: those that an equality or a list, joined by AND
//! with whatever else, leaves a lookup column. Runs that no lookup covers, or whose
//! postings are damaged, stay as they are, to be judged by their zone maps.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use arrow_array::Array;
use kubist_index::forest::Region;
use kubist_index::priority::{PriorityRange, priorities};

use crate::postings::{Answer, Sought, look_up};
use crate::query::Question;
use crate::query::scan::Visit;
use kubist_format::lookup::{Key, Lookup, keys};
use kubist_types::error::Result;
use kubist_types::gradual;
use kubist_types::stats::Stats;

/// The values that a question looks for, and what lookups have answered so far.
#[derive(Default)]
pub(super) struct LookedUp {
    sought: Vec<Sought>,
    answers: Mutex<HashMap<Key, Arc<Answer>>>,
}

impl LookedUp {
    /// Is there anything to look up?
    pub(super) fn is_idle(&self) -> bool {
        self.sought.is_empty()
    }
}

impl Question {
    /// Finds the values that the predicate leaves lookup columns, and the priorities that
    /// it leaves records whose identity is one column.
    pub(super) fn find_values(&mut self) {
        let schema = &self.snapshot.view.schema;
        let (seed, seen) = (self.snapshot.core.header.seed, schema.visible());
        let values_of = |column: &usize| {
            let place = seen.iter().position(|seen| seen == column)?;
            self.predicate.values_of(place, schema.stored.field(*column).data_type())
        };
        let sought = schema.lookup.iter().filter_map(|column| {
            let mut keys = keys(values_of(column)?.as_ref(), seed);
            keys.sort_unstable();
            keys.dedup();
            Some(Sought { column: *column, keys })
        });
        let sought = sought.collect();
        let of_identity = match schema.identity[..] {
            [column] => values_of(&column),
            _ => None,
        };
        if let Some(values) = of_identity {
            let of_values = priorities(&[values.as_ref()], values.len(), seed);
            let ends = of_values.iter().min().zip(of_values.iter().max());
            let between = ends.map(|(first, last)| PriorityRange { first: *first, last: *last });
            self.range = self.range.zip(between).and_then(|(range, between)| range.intersect(between));
        }
        self.looked_up.sought = sought;
    }

    /// All that lookups and, of runs that none covers, zone maps have to say; `None` if
    /// no value is sought, or only inside a box. Primary runs alone hold each record once
    /// (I1), so this needs no walk over the cubes.
    pub(super) fn looked_up(&self, range: PriorityRange) -> Result<Option<(Vec<Visit>, Stats)>> {
        let everywhere = self.part.is_none() && self.region == Region::everything(self.grids.forest());
        if self.looked_up.sought.is_empty() || !everywhere {
            return Ok(None);
        }
        let (view, mut stats) = (&self.snapshot.view, Stats::default());
        let live = view.lookups(&self.snapshot.core, &self.cancel)?;
        let answers = self.answers(live.lookups.iter().map(|covered| &covered.lookup).collect(), &mut stats)?;
        let mut found: Vec<(u32, Option<&Arc<[u32]>>)> = live.others.iter().map(|run| (*run, None)).collect();
        for (covered, answer) in live.lookups.iter().zip(&answers) {
            match answer.as_ref() {
                None => found.extend(covered.runs().map(|run| (run, None))),
                Some(hits) => {
                    stats.runs_looked_up += covered.len() as u64;
                    found.extend(hits.iter().filter_map(|(place, zones)| Some((covered.run_at(*place)?, Some(zones)))));
                }
            }
        }
        found.sort_unstable_by_key(|(run, _)| *run);
        let visits = found.into_iter().map(|(run, zones)| Visit {
            run: live.directory.runs()[run as usize].clone(),
            within: Vec::new(),
            zones: zones.cloned(),
        });
        let visits: Vec<Visit> =
            visits.filter(|visit| range.meets(visit.run.priorities.0, visit.run.priorities.1)).collect();
        stats.cubes_visited = visits.chunk_by(|a, b| a.run.cube == b.run.cube).count() as u64;
        Ok(Some((visits, stats)))
    }

    /// Leaves of the visits what lookups say can hold the values, if any are sought.
    pub(super) fn narrow(&self, visits: Vec<Visit>, stats: &mut Stats) -> Result<Vec<Visit>> {
        if self.looked_up.sought.is_empty() {
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
                self.cancel.check()?;
            }
            let of_run = visit.run.payload.lookup.as_ref().and_then(|lookup| {
                let answer = &answers[keys.binary_search(&lookup.key()).ok()?];
                Some(answer.as_ref().as_ref()?.get(&(lookup.place_of(visit.run.id) as u32)))
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

    /// What each lookup answers; each is asked once for all windows of a question.
    fn answers(&self, lookups: Vec<&Arc<Lookup>>, stats: &mut Stats) -> Result<Vec<Arc<Answer>>> {
        self.cancel.check()?;
        let mut known = self.looked_up.answers.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let open: Vec<&Arc<Lookup>> =
            lookups.iter().filter(|lookup| !known.contains_key(&lookup.key())).copied().collect();
        let (answered, cost) = look_up(&self.snapshot, &open, &self.looked_up.sought)?;
        stats.spend(cost);
        known.extend(open.into_iter().map(|lookup| lookup.key()).zip(answered.into_iter().map(Arc::new)));
        Ok(lookups.iter().map(|lookup| known[&lookup.key()].clone()).collect())
    }
}
