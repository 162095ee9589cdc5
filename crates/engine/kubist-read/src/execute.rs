//! Executes a read plan: several threads read its runs, divided into tasks.

mod pipeline;
mod scan;
mod work;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_schema::DataType;
use kubist_store::{Latency, StoreExt};

use crate::plan::{Pieces, ReadPlan};
use crate::visit::Visit;
use kubist_catalog::cache::ZONE_MAP_BYTES;
use kubist_catalog::decoded::{DECODED_BYTES, Keeper};
use kubist_catalog::trace;
use kubist_format::location::Location;
use kubist_format::zone_map::ZoneMap;
use kubist_index::priority::PriorityRange;
use kubist_index::state::Run;
pub use kubist_population::{Projection, Scanned};
use kubist_types::error::Result;
use kubist_types::stats::Stats;
use pipeline::{Pipeline, Pool, threads};
pub use work::Work;

/// Approximate limits of a task: rows to read, and bytes of values to return.
const TASK_ROWS: f64 = 131_072.0;
const TASK_BYTES: f64 = (4 << 20) as f64;
const LAST_TASK_ROWS: f64 = 8_192.0;
/// Number of rows in the first task, which is small so that the first batch comes early.
const FIRST_TASK_ROWS: f64 = 4_096.0;
/// Up to this many rows, a second thread would make the query slower.
const ALONE_ROWS: f64 = 16_384.0;
/// Assumed size of a value of variable length, in bytes.
const VARYING_BYTES: usize = 32;
/// Limit of bytes per row in a decoded page of texts, which is kept only if its texts have codes.
const CODE_BYTES: usize = 2;
/// A query over more decoded bytes than this keeps none, so that the cache has room for other queries.
const MOST_KEPT: u64 = DECODED_BYTES as u64 / 4 * 3;
const TASK_RUNS: usize = 512;
/// Number of tasks per core on stores with network latency.
const WAITING: usize = 8;
/// Number of tasks per core that wait for a local device; few, because their results need memory.
const WAITING_FOR_A_DEVICE: usize = 2;

pub type Skip = Arc<dyn Fn(&ZoneMap, usize) -> bool + Send + Sync>;

/// Selects runs that a caller does not need, just before they are read.
pub type SkipRuns = Arc<dyn Fn(&Run<Location>) -> bool + Send + Sync>;

#[derive(Clone, Default)]
pub struct Skips {
    pub runs: Option<SkipRuns>,
    pub zones: Option<Skip>,
}

pub fn scan(plan: impl Into<Pieces>, wanted: Projection) -> Work<Scanned> {
    work(plan, wanted, Skips::default(), Ok)
}

/// Reads the matching rows of a plan, except in skipped runs. `each` runs on the reading thread.
pub fn work<T: Send + 'static>(
    plan: impl Into<Pieces>,
    wanted: Projection,
    skips: Skips,
    each: impl Fn(Scanned) -> Result<T> + Send + Sync + 'static,
) -> Work<T> {
    let each = Arc::new(each);
    let pieces = plan.into();
    let are_several = pieces.are_several();
    Work::new(pieces, move |plan| {
        let keeps = if are_several { Keeps::NOTHING } else { Keeps::of(&plan, &wanted) };
        let of_visits: Vec<f64> = plan.visits.iter().map(|visit| visit.cost(&plan.query.region, plan.range)).collect();
        let ends = tasks(&of_visits, most_rows(&plan, &wanted), threads());
        begin(plan, ends, wanted.clone(), skips.clone(), keeps, each.clone())
    })
}

/// Counts the matching rows of each visit in a plan, in order; also returns the cost.
pub fn counts(plan: ReadPlan) -> Work<(u64, Stats)> {
    let each = Arc::new(|scanned: Scanned| Ok((scanned.rows as u64, scanned.stats)));
    Work::new(plan.into(), move |plan| {
        let ends = (1..=plan.visits.len()).collect();
        begin(plan, ends, Projection::default(), Skips::default(), Keeps::NOTHING, each.clone())
    })
}

/// Starts the tasks of a plan; `ends` are the visits at which tasks end.
fn begin<T: Send + 'static>(
    plan: Arc<ReadPlan>,
    ends: Vec<usize>,
    wanted: Projection,
    skips: Skips,
    keeps: Keeps,
    each: Arc<impl Fn(Scanned) -> Result<T> + Send + Sync + 'static>,
) -> Pipeline<T> {
    let (core, threads) = (plan.query.snapshot.core.clone(), threads());
    let pool = match core.store.capabilities().latency {
        Latency::Memory => Pool::of(threads),
        Latency::Device => Pool::growing(threads, WAITING_FOR_A_DEVICE * threads, move || core.store.waited()),
        Latency::Network => Pool::of(WAITING * threads),
    };
    Pipeline::start(ends.len(), pool, plan.query.cancel.clone(), move |task| {
        let first = if task == 0 { 0 } else { ends[task - 1] };
        let visits = &plan.visits[first..ends[task]];
        trace::of_rows(plan.query.trace.as_ref(), || {
            let needed = skips.needed(visits);
            each(scan::scan(&plan.query, &needed, plan.range, &wanted, skips.zones.as_ref(), keeps)?)
        })
    })
}

impl Skips {
    fn needed<'a>(&self, visits: &'a [Visit]) -> Cow<'a, [Visit]> {
        match &self.runs {
            Some(skip) => Cow::Owned(visits.iter().filter(|visit| !skip(&visit.run)).cloned().collect()),
            None => Cow::Borrowed(visits),
        }
    }
}

/// What a query adds to caches. Large queries add nothing, because they would evict frequently used
/// entries.
#[derive(Clone, Copy)]
struct Keeps {
    zone_maps: bool,
    /// Keeper of decoded pages that several queries read: for the columns that decide which rows match, and for all.
    judged: Option<Keeper>,
    wanted: Option<Keeper>,
}

impl Keeps {
    const NOTHING: Keeps = Keeps { zone_maps: false, judged: None, wanted: None };

    fn of(plan: &ReadPlan, wanted: &Projection) -> Keeps {
        let runs = || plan.visits.iter().map(|visit| &visit.run);
        let rows: u64 = runs().map(|run| run.rows).sum();
        let schema = &plan.query.snapshot.view.schema;
        let of_run = |run: &Arc<Run<Location>>| {
            ZoneMap::about(run.payload.map_length as usize, run.rows, schema.stored.fields().len())
        };
        let maps: usize = runs().map(of_run).sum();
        let mut columns: BTreeSet<usize> =
            plan.query.predicate.columns().into_iter().map(|column| schema.stored_index[column]).collect();
        if !plan.query.region.is_everything() {
            columns.extend(&schema.dimensions);
        }
        if wanted.priorities || plan.range != PriorityRange::ALL {
            columns.extend(schema.prioritised().columns());
        }
        let keeper = |columns: &BTreeSet<usize>| {
            let bytes = rows.saturating_mul(bytes_of(plan, columns, CODE_BYTES) as u64);
            let decoded = &plan.query.snapshot.core.decoded_pages;
            (bytes <= MOST_KEPT).then(|| decoded.keeper(plan.query.id, bytes as usize))
        };
        let judged = keeper(&columns);
        columns.extend(&wanted.columns);
        Keeps { zone_maps: maps <= ZONE_MAP_BYTES / 2, judged, wanted: keeper(&columns) }
    }
}

/// Largest number of rows in a task. It is smaller for wide rows, because results of several tasks are in
/// memory.
fn most_rows(plan: &ReadPlan, wanted: &Projection) -> f64 {
    (TASK_BYTES / bytes_of(plan, &wanted.columns, VARYING_BYTES).max(1) as f64).clamp(FIRST_TASK_ROWS, TASK_ROWS)
}

/// The size of a row's columns in bytes, with `varying` bytes for values of variable length.
fn bytes_of<'a>(plan: &ReadPlan, columns: impl IntoIterator<Item = &'a usize>, varying: usize) -> usize {
    let stored = &plan.query.snapshot.view.schema.stored;
    let of_column = |column: &usize| match stored.field(*column).data_type() {
        DataType::Boolean => 1,
        // Narrow numbers take 4 bytes until the batch is complete.
        data_type => data_type.primitive_width().map_or(varying, |width| width.max(4)),
    };
    columns.into_iter().map(of_column).sum()
}

/// Divides visits with these row counts into tasks. Later tasks are smaller, so that no thread waits long for
/// the last one (block-index paper 4.2).
fn tasks(of_visits: &[f64], most_rows: f64, threads: usize) -> Vec<usize> {
    let mut left: f64 = of_visits.iter().sum();
    let mut ends = Vec::new();
    // One thread reads a few rows faster than a second thread starts.
    let first = if left <= ALONE_ROWS { ALONE_ROWS } else { FIRST_TASK_ROWS };
    let (mut rows, mut begin, mut target) = (0.0, 0, first);
    for (index, of_visit) in of_visits.iter().enumerate() {
        rows += of_visit;
        if rows >= target || index + 1 - begin >= TASK_RUNS {
            ends.push(index + 1);
            left -= rows;
            target = (left / (2 * threads) as f64).max(LAST_TASK_ROWS).min(most_rows);
            (rows, begin) = (0.0, index + 1);
        }
    }
    if begin < of_visits.len() {
        ends.push(of_visits.len());
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows_of_tasks(visits: usize, rows: f64, threads: usize) -> Vec<f64> {
        let mut begin = 0;
        let ends = tasks(&vec![rows; visits], TASK_ROWS, threads);
        let of_task = ends.into_iter().map(|end| (end - std::mem::replace(&mut begin, end)) as f64 * rows);
        of_task.collect()
    }

    fn of_busiest(tasks: &[f64], threads: usize) -> f64 {
        let mut done = vec![0.0_f64; threads];
        for rows in tasks {
            let idlest = done.iter_mut().min_by(|a, b| a.total_cmp(b)).expect("one at least");
            *idlest += rows;
        }
        done.into_iter().fold(0.0, f64::max)
    }

    #[test]
    fn few_rows_are_one_task_and_more_are_shared_evenly() {
        assert_eq!(rows_of_tasks(60, 128.0, 2), [60.0 * 128.0]);
        for (rows, threads) in [(5e4, 2), (1e5, 2), (1e6, 2), (2e5, 8), (1e6, 8), (2e7, 16)] {
            let tasks = rows_of_tasks((rows / 500.0) as usize, 500.0, threads);
            assert_eq!(tasks.iter().sum::<f64>(), rows);
            assert!(tasks.iter().all(|of_task| *of_task < TASK_ROWS + 500.0), "{tasks:?}");
            let (busiest, share) = (of_busiest(&tasks, threads), rows / threads as f64);
            assert!(busiest <= 1.25 * share, "{busiest} of {share} rows by one of {threads} threads: {tasks:?}");
        }
    }

    #[test]
    fn a_task_has_no_more_runs_than_it_may() {
        let ends = tasks(&vec![1.0; 3 * TASK_RUNS], TASK_ROWS, 2);
        assert_eq!(ends, [TASK_RUNS, 2 * TASK_RUNS, 3 * TASK_RUNS]);
    }
}
