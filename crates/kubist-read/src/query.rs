//! Asking: from a question to a plan, from the plan to a stream of batches.

mod candidates;
mod cells;
mod delivery;
mod lookup;
mod pipeline;
mod place;
mod refine;
mod scan;
mod select;
mod stream;
pub mod trajectories;

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Float64Array, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kubist_expr::{Nulls, Predicate, Value, Verdict, Zone};
use kubist_index::forest::Region;
use kubist_index::plan;
use kubist_index::priority::{self, PriorityRange, Threshold};
use kubist_index::state::Run;
use kubist_store::{Home, Latency};

use crate::grids::{Grids, Within};
use crate::question::{Part, Request, RunOptions};
use crate::ring;
use kubist_catalog::error::store_error;
use kubist_catalog::schema::STEP;
use kubist_catalog::snapshot::Snapshot;
use kubist_catalog::trace::{self, Trace};
use kubist_format::location::Location;
use kubist_format::zone_map::ZoneMap;
use kubist_types::cancel::Cancel;
use kubist_types::error::{Error, Result};
use kubist_types::gradual;
use kubist_types::query::{Bound, PerCell, QuerySpec};
use kubist_types::stats::Stats;
use lookup::LookedUp;
use pipeline::{Crew, Pipeline};
pub use refine::Refine;
pub use scan::Visit;
pub use scan::Wanted;
use scan::{Scanned, scan};
pub use stream::QueryStream;

/// About how many rows one task reads.
const TASK_ROWS: f64 = 65_536.0;
/// And the last ones.
const LAST_TASK_ROWS: f64 = 16_384.0;
/// Tasks for each core, where they wait for a network.
const WAITING: usize = 8;
/// And while they wait for a device: what it reads meanwhile is paid for in memory.
const WAITING_FOR_A_DEVICE: usize = 2;
/// What any run costs, however few of its rows are asked for.
const LEAST_VISIT_ROWS: f64 = 128.0;
/// Runs of one task, whatever their rows.
const TASK_RUNS: usize = 512;
/// What reading a page for few of its zones costs, in rows, and each of them.
const LOOKED_UP_PAGE_ROWS: f64 = 1024.0;
const LOOKED_UP_ZONE_ROWS: f64 = 48.0;
/// So many records tell roughly how many there are.
const ROUGH_ROWS: f64 = 1000.0;
/// The first task is small, so that the first batch comes soon.
const FIRST_TASK_ROWS: f64 = 4_096.0;

/// A checked query, bound to a snapshot.
pub struct Question {
    pub snapshot: Snapshot,
    pub grids: Grids,
    pub predicate: Predicate,
    region: Region,
    /// `None`: no record can match.
    range: Option<PriorityRange>,
    /// What precision and window leave, whatever else is known of the records.
    drawn: Option<PriorityRange>,
    /// All matching records below this priority are asked for.
    precision: f64,
    /// Stored columns of the answer.
    columns: Vec<usize>,
    per_cell: Option<(PerCell, Vec<usize>)>,
    /// The name of the column of inclusion probabilities, and whether it may be null.
    inclusion: Option<(String, bool)>,
    part: Option<Part>,
    most_held: Option<u64>,
    looked_up: LookedUp,
    /// Nothing but ends of dimensions decides which records are asked for.
    only_box: bool,
    /// Stored columns that have an end.
    bounded: Vec<usize>,
    pub trace: Option<Trace>,
    pub cancel: Cancel,
}

impl Question {
    pub fn new(snapshot: &Snapshot, request: &Request) -> Result<Question> {
        let Request { spec: query, run } = request;
        let core = &snapshot.core;
        core.check_process()?;
        run.cancel.check()?;
        let schema = &snapshot.view.schema;
        // Hidden columns cannot be named.
        let visible = Schema::new(schema.asked.fields()[..schema.user.fields().len()].to_vec());
        let grids = Grids::of(snapshot)?;
        let drawn = priority_range(query)?;
        let mut question = Question {
            snapshot: snapshot.clone(),
            predicate: Predicate::always(),
            region: Region::everything(grids.forest()),
            range: drawn,
            drawn,
            precision: query.precision.unwrap_or(1.0).min(query.window.map_or(1.0, |window| window.1)),
            columns: answer_columns(snapshot, query)?,
            per_cell: None,
            inclusion: inclusion_column(snapshot, query)?,
            part: run.part.clone(),
            most_held: run.most_held,
            looked_up: LookedUp::default(),
            bounded: Vec::new(),
            only_box: query.filter.is_none() && query.steps.is_none() && snapshot.step.is_none(),
            grids,
            trace: run.trace.clone(),
            cancel: run.cancel.clone(),
        };
        for bound in &query.bounds {
            question.restrict(&visible, bound)?;
        }
        if let Some(filter) = &query.filter {
            question.predicate = question.predicate.and(Predicate::parse(filter, &visible)?);
        }
        if let Some(steps) = query.steps {
            question.predicate = question.predicate.and(of_steps(snapshot, steps)?);
        }
        if let Some(step) = snapshot.step {
            question.predicate = question.predicate.and(of_steps(snapshot, (None, Some(step)))?);
        }
        if let Some(per_cell) = &query.per_cell {
            let columns = check_per_cell(snapshot, per_cell)?;
            question.per_cell = Some((per_cell.clone(), columns));
            cells::check(&question)?;
        }
        question.settle();
        Ok(question)
    }

    /// Adds one closed range.
    fn restrict(&mut self, visible: &Schema, bound: &Bound) -> Result<()> {
        let name = &bound.column;
        self.snapshot.view.schema.column(name)?;
        let (low, high) = (bound.low.as_ref(), bound.high.as_ref());
        for end in [low, high].into_iter().flatten() {
            if matches!(end, Value::Null) || matches!(end, Value::Float(value) if value.is_nan()) {
                return Err(Error::invalid(format!("box: an end of {name:?} is {end:?}, which compares with nothing")));
            }
        }
        let number = |value: Option<&Value>| match value? {
            Value::Int(value) => Some(*value as f64),
            Value::Float(value) => Some(*value),
            _ => None,
        };
        if let (Some(low), Some(high)) = (number(low), number(high)) {
            if low > high {
                return Err(Error::invalid(format!(
                    "box: {name:?} goes from {low} to {high}, but low must not exceed high"
                )));
            }
        }
        if low.is_none() && high.is_none() {
            return Ok(());
        }
        let predicate = std::mem::replace(&mut self.predicate, Predicate::always());
        self.predicate = predicate.and(Predicate::range(visible, name, low, high)?);
        let column = self.snapshot.view.schema.column(name)?;
        self.bounded.push(column);
        Ok(())
    }

    /// Runs that may hold records with priorities in `range`, in depth-first
    /// order of cubes, and what it cost to know.
    pub fn visits(&self, range: PriorityRange) -> Result<(Vec<Visit>, Stats)> {
        let (visits, stats) = trace::of_plan(self.trace.as_ref(), || self.planned(range))?;
        let Some(part) = self.part.as_ref() else { return Ok((visits, stats)) };
        let visits = self.on_ring(visits)?;
        Ok((visits.into_iter().filter_map(|visit| self.inside(visit, part)).collect(), stats))
    }

    /// Those that lie in the part of a cluster's ring that is asked for.
    fn on_ring(&self, mut visits: Vec<Visit>) -> Result<Vec<Visit>> {
        if let Some(tokens) = self.part.as_ref().and_then(|part| part.tokens.as_ref()) {
            let homes = self.homes(&visits)?;
            if homes.len() < visits.len() {
                return Err(Error::invalid("a part of a cluster's ring is read from the cluster"));
            }
            let mut homes = homes.into_iter();
            visits.retain(|_| homes.next().is_some_and(|home| ring::holds(tokens, home.token)));
        }
        Ok(visits)
    }

    /// Where runs lie in a cluster: where their first bytes do.
    pub fn homes(&self, visits: &[Visit]) -> Result<Vec<Home>> {
        let place = |visit: &Visit| (visit.run.payload.segment.clone(), visit.run.payload.data_offset);
        let places: Vec<(Arc<str>, u64)> = visits.iter().map(place).collect();
        let places: Vec<(&str, u64)> = places.iter().map(|(segment, offset)| (&**segment, *offset)).collect();
        self.snapshot.core.store.homes(&places).map_err(store_error)
    }

    fn planned(&self, range: PriorityRange) -> Result<(Vec<Visit>, Stats)> {
        let schema = &self.snapshot.view.schema;
        let by_values = schema.newest_grid() > 0
            || self.predicate.columns().iter().any(|column| !schema.dimensions.contains(&schema.places[*column]));
        let matches = |run: &Run<Location>| !by_values || self.may_match(run);
        if let Some((mut visits, stats)) = self.looked_up(range)? {
            visits.retain(|visit| matches(&visit.run));
            return Ok((visits, stats));
        }
        let (core, mut stats) = (&self.snapshot.core, Stats::default());
        self.cancel.check()?;
        let directory = self.snapshot.view.runs.near(core, &self.region, range, &mut stats, &self.cancel)?;
        let plan = match self.part.as_ref().is_some_and(|part| part.tokens.is_some()) {
            // Each record is in one primary run; copies lie anywhere on the ring.
            true => directory.plan_primaries(&self.region, range),
            false => directory.plan(&self.region, range),
        };
        self.cancel.check()?;
        let meets = |visit: &plan::Visit<'_, Location>| self.meets(visit.run);
        let mut visits = Vec::new();
        for piece in gradual::pieces(plan.visits.len(), &self.cancel) {
            let of_piece = plan.visits[piece?].iter().filter(|visit| meets(visit) && matches(visit.run));
            visits.extend(of_piece.map(|visit| {
                let tree = directory.forest().tree_of(visit.run.cube);
                let boxes = |cubes: &Arc<[_]>| Within {
                    grid: tree.grid(),
                    boxes: cubes.iter().map(|cube| tree.span(*cube)).collect(),
                };
                Visit { run: visit.run.clone(), within: visit.within.iter().map(boxes).collect(), zones: None }
            }));
        }
        stats.cubes_visited = plan.cubes_visited;
        Ok((self.narrow(visits, &mut stats)?, stats))
    }

    /// Can a run hold records that match, as far as its ranges tell?
    fn may_match(&self, run: &Run<Location>) -> bool {
        const ANYTHING: Zone = Zone { min: 0, max: u64::MAX, nulls: Nulls::Some };
        let Some(ranges) = &run.payload.ranges else { return true };
        let places = &self.snapshot.view.schema.places;
        let of_column = |column: usize| ranges.zone(places[column]).unwrap_or(ANYTHING);
        self.predicate.verdict(&of_column) != Verdict::None
    }

    /// Reads the records with priorities in `range` on several threads.
    fn scan(self: &Arc<Self>, range: PriorityRange, wanted: Wanted) -> Result<(Pipeline<Scanned>, Stats)> {
        let (visits, stats) = self.visits(range)?;
        Ok((self.scan_visits(visits, range, wanted, Arc::new(|_, _| false)), stats))
    }

    fn scan_visits(
        self: &Arc<Self>,
        visits: Vec<Visit>,
        range: PriorityRange,
        wanted: Wanted,
        skip: SharedSkip,
    ) -> Pipeline<Scanned> {
        self.work(visits, range, wanted, skip, Ok)
    }

    /// Reads, and does the work of `each` where it was read.
    pub fn work<T: Send + 'static>(
        self: &Arc<Self>,
        visits: Vec<Visit>,
        range: PriorityRange,
        wanted: Wanted,
        skip: SharedSkip,
        each: impl Fn(Scanned) -> Result<T> + Send + Sync + 'static,
    ) -> Pipeline<T> {
        let ends = tasks(&visits, |visit| match &visit.zones {
            Some(zones) => zones_cost(zones),
            None => self.rows_of(visit, range).max(LEAST_VISIT_ROWS),
        });
        let question = self.clone();
        let (core, threads) = (self.snapshot.core.clone(), pipeline::threads());
        let crew = match core.store.capabilities().latency {
            Latency::Memory => Crew::of(threads),
            Latency::Device => Crew::growing(threads, WAITING_FOR_A_DEVICE * threads, move || core.store.waited()),
            Latency::Network => Crew::of(WAITING * threads),
        };
        Pipeline::start(ends.len(), crew, self.cancel.clone(), move |task| {
            let first = if task == 0 { 0 } else { ends[task - 1] };
            trace::of_rows(question.trace.as_ref(), || {
                each(scan(&question, &visits[first..ends[task]], range, &wanted, &*skip)?)
            })
        })
    }

    /// The priorities that its records can have.
    pub fn range(&self) -> Option<PriorityRange> {
        self.range
    }

    /// Are records everywhere asked for, by no values that could be looked up?
    fn is_everywhere(&self) -> bool {
        self.part.is_none() && self.looked_up.is_idle() && self.region == Region::everything(self.grids.forest())
    }

    /// Can rows of a run lie in the region?
    fn meets(&self, run: &Run<Location>) -> bool {
        let grid = run.cube.grid();
        let Some((tree, asked)) = self.grids.tree(grid).zip(self.region.in_tree(grid)) else { return false };
        let place = &run.payload;
        (0..tree.dimensions()).all(|d| place.low[d] <= asked.high[d] && place.high[d] >= asked.low[d])
    }

    /// Do all rows of a run match by their places alone? Where an end falls within the
    /// coordinate of the box's end the values decide.
    fn holds(&self, run: &Run<Location>) -> bool {
        let grid = run.cube.grid();
        let Some((tree, asked)) = self.grids.tree(grid).zip(self.region.in_tree(grid)) else { return false };
        let (place, all, columns) = (&run.payload, tree.everything(), self.grids.dimensions(grid));
        let open = |d: usize| {
            asked.low[d] == all.low[d] && asked.high[d] == all.high[d] && !self.bounded.contains(&columns[d])
        };
        self.bounded.iter().all(|column| columns.contains(column))
            && (0..tree.dimensions()).all(|d| open(d) || (asked.low[d] < place.low[d] && place.high[d] < asked.high[d]))
    }

    /// Very roughly how many records it has: from those of low priority, where there are
    /// enough of them, because they lie in few runs.
    pub fn rough_rows(&self, stats: &mut Stats) -> Result<f64> {
        if !self.is_everywhere() && self.looked_up.is_idle() {
            for share in [1.0 / 4096.0, 1.0 / 64.0] {
                let range = PriorityRange { first: 0, last: (u64::MAX as f64 * share) as u64 };
                let (visits, _) = self.visits(range)?;
                let rows: f64 = visits.iter().map(|visit| self.rows_of(visit, range)).sum();
                if rows >= ROUGH_ROWS {
                    return Ok(rows / share);
                }
            }
        }
        candidates::expected_rows(self, PriorityRange::ALL, stats)
    }

    /// Records of runs that lie inside the box, and the runs that may have some outside;
    /// `None` if more than the box decides.
    pub fn by_box(&self) -> Result<Option<(u64, Vec<Visit>)>> {
        // Without its grid (a damaged table) nothing is known of places.
        if !self.grids.are_known()
            || !self.only_box
            || self.part.is_some()
            || !self.looked_up.is_idle()
            || self.range.is_none_or(|range| !range.is_all())
        {
            return Ok(None);
        }
        let (core, mut stats) = (&self.snapshot.core, Stats::default());
        let directory =
            self.snapshot.view.runs.near(core, &self.region, PriorityRange::ALL, &mut stats, &self.cancel)?;
        let (mut inside, mut others) = (0, Vec::new());
        for (number, run) in directory.runs().iter().enumerate() {
            if number % gradual::PIECE == 0 {
                self.cancel.check()?;
            }
            match self.holds(run) {
                _ if !self.meets(run) => {}
                true => inside += run.rows,
                false => others.push(Visit { run: run.clone(), within: Vec::new(), zones: None }),
            }
        }
        Ok(Some((inside, others)))
    }

    /// About how many rows of a run have a priority in `range` and lie in the box.
    pub fn rows_of(&self, visit: &Visit, range: PriorityRange) -> f64 {
        let (first, last) = visit.run.priorities;
        let share =
            (range.last.min(last) as f64 - range.first.max(first) as f64) / (last as f64 - first as f64).max(1.0);
        visit.run.rows as f64 * share.clamp(0.0, 1.0) * self.share_in_box(visit)
    }

    /// How much of a run's own box the question's box covers.
    fn share_in_box(&self, visit: &Visit) -> f64 {
        let (place, grid) = (&visit.run.payload, visit.run.cube.grid());
        let Some((tree, asked)) = self.grids.tree(grid).zip(self.region.in_tree(grid)) else { return 0.0 };
        let side = |d: usize| {
            let low = place.low[d].max(asked.low[d]) as f64;
            let high = place.high[d].min(asked.high[d]) as f64;
            (high - low + 1.0) / (place.high[d] as f64 - place.low[d] as f64 + 1.0)
        };
        (0..tree.dimensions()).map(|d| side(d).max(0.0)).product()
    }

    /// Priorities of rows, from their identity columns.
    pub fn priorities(&self, identity: &[ArrayRef], rows: usize) -> Result<Vec<u64>> {
        let identity: Vec<&dyn Array> = identity.iter().map(|array| array.as_ref()).collect();
        Ok(priority::priorities(&identity, rows, self.snapshot.core.header.seed))
    }

    /// A batch of the answer from stored columns; `inclusion` is asked if there is a
    /// column of it.
    fn batch(
        &self,
        rows: usize,
        columns: Vec<ArrayRef>,
        inclusion: impl FnOnce() -> Float64Array,
    ) -> Result<RecordBatch> {
        let schema = &self.snapshot.view.schema;
        let columns = columns.into_iter().zip(&self.columns).map(|(array, column)| schema.to_user(*column, array));
        let mut columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        if self.inclusion.is_some() {
            columns.push(Arc::new(inclusion()));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.schema(), columns, &options).map_err(Error::kernel)
    }

    /// The probability of a priority in the part of the question's range that lies below
    /// this one, or in all of it.
    fn probability(&self, below: Option<u64>) -> f64 {
        let Some(drawn) = self.drawn else { return 0.0 };
        let end = below.map_or(drawn.last as u128 + 1, u128::from);
        Threshold::new(end.saturating_sub(drawn.first as u128)).to_fraction()
    }

    fn schema(&self) -> SchemaRef {
        let schema = &self.snapshot.view.schema;
        let mut fields: Vec<_> = self.columns.iter().map(|column| schema.user_field(*column).clone()).collect();
        if let Some((name, nullable)) = &self.inclusion {
            fields.push(Arc::new(Field::new(name, DataType::Float64, *nullable)));
        }
        Arc::new(Schema::new_with_metadata(fields, schema.user.metadata().clone()))
    }
}

/// All records of a snapshot as they are stored, hidden columns too.
pub fn stored_rows(snapshot: &Snapshot, cancel: &Cancel) -> Result<impl Iterator<Item = Result<RecordBatch>>> {
    let question = Question::new(snapshot, &RunOptions::with_cancel(cancel).of(QuerySpec::default()))?;
    let stored = snapshot.view.schema.stored.clone();
    let wanted = Wanted { columns: (0..stored.fields().len()).collect(), priorities: false };
    let everything = PriorityRange { first: 0, last: u64::MAX };
    let found = Arc::new(question)
        .scan(everything, wanted)?
        .0
        .filter(|scanned| scanned.as_ref().map_or(true, |scanned| scanned.rows > 0));
    Ok(found.map(move |scanned| RecordBatch::try_new(stored.clone(), scanned?.columns).map_err(Error::kernel)))
}

type SharedSkip = Arc<dyn Fn(&ZoneMap, usize) -> bool + Send + Sync>;

fn zones_cost(zones: &[u32]) -> f64 {
    LOOKED_UP_PAGE_ROWS + zones.len() as f64 * LOOKED_UP_ZONE_ROWS
}

/// Where tasks end in a list of visits. They shrink towards the end, so that no thread
/// waits long for the last (block-index paper 4.2).
fn tasks(visits: &[Visit], rows_of: impl Fn(&Visit) -> f64) -> Vec<usize> {
    let of_visits: Vec<f64> = visits.iter().map(rows_of).collect();
    let mut left: f64 = of_visits.iter().sum();
    let mut ends = Vec::new();
    // Little is done by one thread before a second has begun.
    let first = if left <= LAST_TASK_ROWS { LAST_TASK_ROWS } else { FIRST_TASK_ROWS };
    let (mut rows, mut begin, mut target) = (0.0, 0, first);
    for (place, of_visit) in of_visits.iter().enumerate() {
        rows += of_visit;
        if rows >= target || place + 1 - begin >= TASK_RUNS {
            ends.push(place + 1);
            left -= rows;
            target = (left / (4 * pipeline::threads()) as f64).clamp(LAST_TASK_ROWS, TASK_ROWS);
            (rows, begin) = (0.0, place + 1);
        }
    }
    if begin < visits.len() {
        ends.push(visits.len());
    }
    ends
}

/// Rows of complete steps in a closed range. Rows without a step precede every
/// step: they are in ranges without a lower end.
fn of_steps(snapshot: &Snapshot, (low, high): (Option<i64>, Option<i64>)) -> Result<Predicate> {
    if low.zip(high).is_some_and(|(low, high)| low > high) {
        return Err(Error::invalid(format!("steps go from {low:?} to {high:?}, but low must not exceed high")));
    }
    let asked = &snapshot.view.schema.asked;
    let end = |end: Option<i64>| end.map(|step| Value::Int(step as i128));
    let range = Predicate::range(asked, STEP, end(low).as_ref(), end(high).as_ref())?;
    let incomplete: Vec<String> = snapshot.view.history.incomplete().iter().map(i64::to_string).collect();
    if incomplete.is_empty() {
        return Ok(range);
    }
    Ok(range.and(Predicate::parse(&format!("{STEP} NOT IN ({})", incomplete.join(", ")), asked)?))
}

fn priority_range(query: &QuerySpec) -> Result<Option<PriorityRange>> {
    let mut high = Threshold::ALL;
    if let Some(precision) = query.precision {
        if !(precision > 0.0 && precision <= 1.0) {
            return Err(Error::invalid(format!("precision must be in (0, 1], found {precision}")));
        }
        high = Threshold::from_fraction(precision);
    }
    let mut low = Threshold::NONE;
    if let Some((first, last)) = query.window {
        if !(first >= 0.0 && first < last && last <= 1.0) {
            return Err(Error::invalid(format!(
                "window must be (lo, hi) with 0 <= lo < hi <= 1, found ({first}, {last})"
            )));
        }
        low = Threshold::from_fraction(first);
        high = high.min(Threshold::from_fraction(last));
    }
    Ok(PriorityRange::between(low, high))
}

fn answer_columns(snapshot: &Snapshot, query: &QuerySpec) -> Result<Vec<usize>> {
    let schema = &snapshot.view.schema;
    let Some(names) = &query.columns else { return Ok(schema.visible().to_vec()) };
    let mut columns = Vec::with_capacity(names.len());
    for name in names {
        let column = schema.column(name)?;
        if columns.contains(&column) {
            return Err(Error::invalid(format!("columns: {name:?} is asked for twice")));
        }
        columns.push(column);
    }
    Ok(columns)
}

fn inclusion_column(snapshot: &Snapshot, query: &QuerySpec) -> Result<Option<(String, bool)>> {
    let Some(name) = &query.inclusion else { return Ok(None) };
    if snapshot.view.schema.user.index_of(name).is_ok() {
        return Err(Error::invalid(format!("inclusion: the table has a column {name:?} already; choose another name")));
    }
    Ok(Some((name.clone(), query.limit.is_some() || query.per_cell.is_some())))
}

/// The stored columns of a grid of cells.
fn check_per_cell(snapshot: &Snapshot, per_cell: &PerCell) -> Result<Vec<usize>> {
    let schema = &snapshot.view.schema;
    if per_cell.rows == 0 || per_cell.widths.is_empty() {
        return Err(Error::invalid("per_cell needs at least one row a cell and the width of at least one dimension"));
    }
    let mut columns = Vec::new();
    for (name, width) in &per_cell.widths {
        let column = schema.column(name)?;
        let was_dimension = snapshot.core.created.dimensions.contains(&column)
            || schema.grids.iter().any(|grid| grid.dimensions.contains(&column));
        if !was_dimension {
            return Err(Error::invalid(format!("per_cell: {name:?} is not a dimension of the table")));
        }
        if columns.contains(&column) {
            return Err(Error::invalid(format!("per_cell: {name:?} is given twice")));
        }
        if !(width.is_finite() && *width > 0.0) {
            return Err(Error::invalid(format!("per_cell: the width of {name:?} must be positive, found {width}")));
        }
        columns.push(column);
    }
    Ok(columns)
}

/// All records of a snapshot.
pub fn rows(snapshot: &Snapshot) -> Result<u64> {
    match snapshot.step {
        None => Ok(snapshot.view.rows()),
        Some(_) => count(snapshot, Request::default()),
    }
}

/// How many records a query returns.
pub fn count(snapshot: &Snapshot, mut request: Request) -> Result<u64> {
    request.spec.columns = Some(vec![]);
    let question = Question::new(snapshot, &request)?;
    let Some(range) = question.range else { return Ok(0) };
    if question.per_cell.is_some() {
        let mut rows = 0;
        for batch in QueryStream::start(question, request.spec.limit)? {
            rows += batch?.num_rows() as u64;
        }
        return Ok(rows);
    }
    let limit = request.spec.limit.unwrap_or(u64::MAX);
    if question.predicate.is_always() && range.is_all() && question.part.is_none() {
        return Ok(snapshot.view.rows().min(limit));
    }
    let (mut rows, visits) = match question.by_box()? {
        Some(split) => split,
        None => (0, question.visits(range)?.0),
    };
    let nothing_skipped = Arc::new(|_: &ZoneMap, _| false);
    for scanned in Arc::new(question).scan_visits(visits, range, Wanted::default(), nothing_skipped) {
        rows += scanned?.rows as u64;
    }
    Ok(rows.min(limit))
}
