//! Estimates: aggregates of a sample, with intervals that hold the truth as often as they
//! say.
//!
//! Reading goes from low priorities up, each record once. A **pilot** of about a thousand
//! records says how far to read for the error that was asked for; then it is read that far,
//! with a margin, and rarely a second time a little further. So there are few stages, at
//! fractions that the pilot fixed, and stopping at one of them costs next to no confidence
//! (two-stage sampling: Stein, Annals of Mathematical Statistics 16, 1945; Cox, Biometrika
//! 39, 1952). A caller that watches the estimates as they come may stop at any of them. Its
//! intervals are wide enough for that: stage k spends `alpha / (k (k + 1))` of the error
//! probability, so that with probability `1 - alpha` all intervals of all stages hold.

mod figures;
mod frame;
mod known;
mod places;
mod plan;
mod tails;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use arrow_schema::{Schema, SchemaRef};
use kubist_index::priority::{PriorityRange, Threshold};

use crate::accumulate::{Accumulated, Asked, Brought, PilotFindings, Task, Values};
use crate::aggregate::Bound;
use crate::aggregates;
use crate::call::several;
use crate::figure::{Estimate, Figure, Stop, check_groups};
use crate::group::GroupBy;
use crate::options::{EstimateOptions, check};
use crate::records::Records;
use crate::unit;
use known::Known;
use kubist_catalog::snapshot::Snapshot;
use kubist_population::{Number, Population, Scan, Scanned, Wanted, Worth};
use kubist_types::error::{Error, Result};
use kubist_types::stats::Stats;
use tails::Tails;

/// Records of the pilot, about.
const PILOT_ROWS: f64 = 1024.0;
/// The fewest records that a pilot has, unless there are fewer.
const LEAST_PILOT_ROWS: u64 = 200;
/// Fewer records than this are read all at once.
const FEW_ROWS: f64 = 16_384.0;
/// Where records share priorities, as many of these are looked at by a pilot, and at least.
const PILOT_PRIORITIES: f64 = 64.0;
const LEAST_PILOT_PRIORITIES: f64 = 16.0;
/// The most records at the box's faces that are read to count those inside.
const COUNTED_ROWS: u64 = 2_000_000;
/// Records that are looked at for each that is drawn, about.
const LOOKED_AT: f64 = 1.3;
/// The part of the time left that may be spent on it: one in so many.
const TIME_FOR_NUMBER: u32 = 4;
/// What it saves where nothing says when to stop.
const SAVED: f64 = 0.5;

/// Aggregates of one estimate, at most.
const MOST_AGGREGATES: usize = 64;

/// Estimates from coarse to fine; the last one says why it is the last.
///
/// Each comes from the sample so far: a **pilot**, then the **plan** of how far to read, what is **read**, and the
/// **result**. These are functions of the values below, of which none is changed to see what would be if.
pub struct Estimation<P = Records> {
    question: Question<P>,
    /// The sample so far and what is known besides, while it goes on.
    so_far: Option<(Sample<P>, Facts)>,
}

/// What is asked, and of which records. It stays the same from the first stage to the last.
struct Question<P> {
    options: EstimateOptions,
    /// All that is asked for.
    whole: P,
    visible: Schema,
    task: Arc<Task>,
    groups: SchemaRef,
    units: BTreeMap<String, String>,
    bin_units: BTreeMap<String, Vec<Option<String>>>,
    /// By aggregate: what half of its intervals may be at most, in its own unit.
    absolute: Vec<Option<f64>>,
    tails: Option<Tails>,
    /// Where steps were thinned as they were written.
    known: Option<Known>,
    /// Priorities are read up to here.
    end: f64,
    /// Records that a share of 1 holds, about.
    expected: f64,
    /// The caller sees every stage, and may stop at any.
    watched: bool,
    begin: Instant,
    deadline: Option<Instant>,
}

/// Where records are drawn from, and what is read of them.
#[derive(Clone)]
struct Source<P> {
    records: P,
    wanted: Wanted,
    brought: Arc<Brought>,
}

/// Records that were drawn, added up, and where the next ones come from.
struct Sample<P> {
    source: Source<P>,
    /// Where those that are asked for are drawn alone, while `source` is the frame in which they lie.
    own: Option<frame::Own<P>>,
    /// The same source without where records lie, while that is brought along.
    plain: Option<Source<P>>,
    pilot: Option<Arc<PilotFindings>>,
    accumulated: Accumulated,
    /// Priorities from `low` to `at` were read.
    low: f64,
    at: f64,
    stages: u32,
    stats: Stats,
    /// Of the last step: seconds, and the share that it read.
    pace: (f64, f64),
}

/// What is known of records besides a sample of them.
#[derive(Clone, Default)]
struct Facts {
    /// How many there are.
    rows: Option<Number>,
    /// How many there are in the frame, where records are drawn from it.
    framed: Option<Number>,
    /// Which part of the error that figures are to have comes from that of the number of records.
    of_number: f64,
    /// By aggregate: each record has a value of its argument, where that was asked of zone maps.
    complete: Vec<bool>,
    /// Of stored columns the ends of their values, where that was asked of zone maps.
    bounds: BTreeMap<usize, Option<(f64, f64)>>,
}

impl Facts {
    /// The ends of a stored column, if they are known.
    fn bounds_of(&self, column: usize) -> Option<(f64, f64)> {
        self.bounds.get(&column).copied().flatten()
    }
}

/// A sample after some reading, which may have ended before all was read that was to be.
struct Read<P> {
    sample: Sample<P>,
    in_time: bool,
}

impl<P> Read<P> {
    fn all(sample: Sample<P>) -> Read<P> {
        Read { sample, in_time: true }
    }

    fn late(sample: Sample<P>) -> Read<P> {
        Read { sample, in_time: false }
    }
}

impl<P> Sample<P> {
    /// The share of identities that has been read.
    fn share(&self) -> f64 {
        self.at - self.low
    }

    /// The same after so much more was spent on it.
    fn after(mut self, stats: &Stats) -> Sample<P> {
        self.stats.add(stats);
        self
    }
}

impl<P: Population> Estimation<P> {
    /// Begins an estimate of these records, of which `options.query` says the priorities; `watched` if the caller
    /// sees every stage.
    ///
    /// # Errors
    ///
    /// `Invalid` names the option, the aggregate or the column that makes no sense; `Damaged`; `Cancelled`; a storage
    /// error.
    pub fn new(records: P, options: &EstimateOptions, watched: bool) -> Result<Estimation<P>> {
        let begin = Instant::now();
        check(options)?;
        let mut options = options.clone();
        let unbounded = options.within.is_none() && options.max_rows.is_none() && options.max_bytes.is_none();
        let query = &options.query;
        if options.error.is_none()
            && options.absolute.is_none()
            && unbounded
            && query.sample.or(query.window.map(|w| w.1)).is_none()
        {
            options.error = Some(0.01);
        }
        let visible = records.visible();
        let asked = options.aggregates.iter().flat_map(|text| several(text)).map(str::trim);
        let aggregates = asked
            .map(|text| Ok(Asked { name: text.to_owned(), bound: aggregates::bind(text, &visible)? }))
            .collect::<Result<Vec<Asked>>>()?;
        if aggregates.len() > MOST_AGGREGATES {
            return Err(Error::invalid(format!(
                "{} aggregates are more than {MOST_AGGREGATES} at once",
                aggregates.len()
            )));
        }
        let unit_of = |Asked { bound, .. }: &Asked| match &bound.unit {
            Some(unit) => Some(unit.clone()),
            None => unit::of(bound.properties.unit, &bound.arguments),
        };
        let units = aggregates.iter().filter_map(|asked| Some((asked.name.clone(), unit_of(asked)?)));
        let units: BTreeMap<String, String> = units.collect();
        let bin_units =
            aggregates.iter().filter(|asked| asked.bound.properties.outer_bins).map(|Asked { name, bound }| {
                let units = bound.arguments.iter().map(|argument| argument.unit().map(str::to_owned));
                (name.clone(), units.collect())
            });
        let bin_units = bin_units.collect();
        let absolute = aggregates.iter().map(|Asked { name, .. }| {
            let goal = options.absolute.as_ref();
            goal.map(|goal| goal.of(name, units.get(name).map(String::as_str))).transpose()
        });
        let absolute = absolute.collect::<Result<Vec<Option<f64>>>>()?;
        let parts = options.group_by.iter().flat_map(|text| match records.find(text) {
            // A name may have commas.
            Ok(_) => vec![text.as_str()],
            Err(_) => several(text),
        });
        let bound = parts.map(|text| GroupBy::bind(text, &records, &visible));
        let (group_by, group_columns): (Vec<GroupBy>, Vec<Vec<usize>>) =
            bound.collect::<Result<Vec<_>>>()?.into_iter().unzip();
        let groups = Arc::new(Schema::new(group_by.iter().map(|group| group.field.clone()).collect::<Vec<_>>()));
        check_groups(&groups)?;
        let distinct_columns = aggregates.iter().map(|asked| asked.bound.column.map(|column| records.place(column)));
        let distinct_columns: Vec<Option<usize>> = distinct_columns.collect();
        let arguments = aggregates.iter().flat_map(|asked| &asked.bound.arguments);
        let mut columns: Vec<usize> =
            arguments.flat_map(|argument| argument.columns()).map(|column| records.place(column)).collect();
        columns.extend(group_columns.iter().flatten().chain(distinct_columns.iter().flatten()));
        columns.sort_unstable();
        columns.dedup();
        let stored = records.stored().clone();
        let named = |column: &usize| stored.field(*column).name().clone();
        let task = Task {
            distinct: distinct_columns.iter().map(|column| column.as_ref().map(named)).collect(),
            group_by,
            aggregates,
        };
        let records = records.reading(&columns)?;
        let (low, end) = options.query.window.unwrap_or((0.0, 1.0));
        let end = options.query.sample.map_or(end, |fraction| end.min(fraction)).max(low);
        let known = Known::of(&records, &options, &task)?;
        let kept = known.as_ref().map_or(1.0, Known::below);
        let end = end.min(kept);
        // All of them lie below that priority.
        let expected = records.rough_rows()? / kept;
        let tails = options.tails.map(|share| Tails::new(&task, share, &visible)).transpose()?;
        let facts = Facts { rows: known.as_ref().and_then(Known::rows), ..Facts::default() };
        let sample = Sample {
            source: Source {
                records: records.clone(),
                brought: Arc::new(Brought { schema: part(&stored, &columns), condition: None, places: vec![] }),
                wanted: Wanted { columns, priorities: true },
            },
            own: None,
            plain: None,
            pilot: None,
            accumulated: Accumulated::default(),
            low,
            at: low,
            stages: 0,
            stats: Stats::default(),
            pace: (0.0, 1.0),
        };
        let question = Question {
            deadline: options.within.and_then(|within| begin.checked_add(within)),
            options,
            whole: records,
            visible,
            task: Arc::new(task),
            groups,
            units,
            bin_units,
            absolute,
            tails,
            known,
            end,
            expected,
            watched,
            begin,
        };
        Ok(Estimation { question, so_far: Some((sample, facts)) })
    }

    /// The next estimate; `None` after the last one.
    fn stage(&mut self) -> Result<Option<Estimate>> {
        let (question, Some((sample, facts))) = (&self.question, self.so_far.take()) else { return Ok(None) };
        let Read { sample, in_time } = question.advanced(sample, &facts)?;
        let (mut sample, facts) = match in_time {
            true => question.learned(Sample { stages: sample.stages + 1, ..sample }, facts)?,
            false => (sample, facts),
        };
        let figures = question.figures(&mut sample, &facts);
        let (figures, facts) = if in_time { question.with_constants(figures, facts)? } else { (figures, facts) };
        let stopped = if in_time { question.verdict(&sample, &facts, &figures) } else { Stop::Time };
        if stopped == Stop::Progress {
            let is_first = sample.stages == 1;
            let outlook = if is_first { question.outlook(&sample, &facts, &figures) } else { None };
            let figures = question.with_bins(figures, None);
            let estimate = question.estimate(&mut sample, &facts, figures, stopped)?;
            self.so_far = Some((sample, facts));
            return Ok(Some(Estimate { outlook, ..estimate }));
        }
        let (figures, stats) = question.with_extremes(figures, facts.clone(), &sample)?;
        question.estimate(&mut sample.after(&stats), &facts, figures, stopped).map(Some)
    }
}

impl<P: Population> Question<P> {
    fn late(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Does its work unless the deadline passes meanwhile: then what it did does not count.
    fn in_time<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
        if self.late() {
            return Ok(None);
        }
        match work() {
            Err(Error::Cancelled) if !self.whole.cancel().is_set() && self.late() => Ok(None),
            done => done.map(Some),
        }
    }

    /// The sample after its pilot, or after the next step.
    fn advanced(&self, mut sample: Sample<P>, facts: &Facts) -> Result<Read<P>> {
        if sample.pilot.is_none() {
            return self.pilot(sample, facts);
        }
        match self.plan(&mut sample, facts) {
            Some(target) => self.read(sample, target),
            None => Ok(Read::all(sample)),
        }
    }

    /// Reads the pilot, and learns from it.
    fn pilot(&self, mut sample: Sample<P>, facts: &Facts) -> Result<Read<P>> {
        let width = self.end - sample.low;
        let wanted = PILOT_ROWS * if self.groups.fields().is_empty() { 1.0 } else { 4.0 };
        let wanted = self.tails.as_ref().map_or(wanted, |tails| wanted.max(tails.pilot_rows()));
        let together = sample.source.records.together()?;
        let (wanted, few) = (wanted.max(PILOT_PRIORITIES * together), FEW_ROWS.max(PILOT_PRIORITIES * together));
        let least = LEAST_PILOT_ROWS.max((LEAST_PILOT_PRIORITIES * together) as u64);
        // Few rows are read all at once, unless `max_rows` forbids it.
        let most = self.options.max_rows.map_or(f64::INFINITY, |rows| rows as f64);
        let wanted = wanted.min(most);
        let mut share = match self.expected * width <= few.min(most) {
            true => width,
            false => wanted / self.expected,
        };
        let (mut parts, mut rows, mut late) = (Vec::new(), 0, false);
        if share < width {
            sample = self.with_places(self.in_frame(sample)?);
        }
        let mut drawn = 0;
        loop {
            let target = if share >= 0.5 * width { self.end } else { sample.low + share };
            let begin = Instant::now();
            let values = self.in_time(|| self.values(&sample.source, sample.at, target))?;
            let Some((more, stats)) = values else {
                late = true;
                break;
            };
            sample.pace = (begin.elapsed().as_secs_f64(), target - sample.at);
            rows += more.iter().map(|part| part.priorities.len() as u64).sum::<u64>();
            drawn += more.iter().map(Values::drawn).sum::<usize>();
            parts.extend(more);
            sample = sample.after(&stats).where_worth_it(rows, drawn);
            sample.at = target;
            // How often as many there may be.
            let room = most / (rows as f64).max(1.0);
            if rows >= least || target >= self.end || (rows > 0 && room < 2.0) {
                break;
            }
            share *= room.clamp(2.0, 8.0);
        }
        if sample.at == sample.low {
            return Ok(Read::late(sample));
        }
        let identified = sample.source.records.identity().is_some();
        let is_all = sample.at >= self.end && self.tails.is_none();
        let pilot = Arc::new(PilotFindings::new(&self.task, &parts, identified, is_all));
        for part in &parts {
            sample.accumulated.add(&self.task, &pilot, part, false)?;
        }
        sample.pilot = Some(pilot.clone());
        let sample = self.with_expected(sample, facts, &pilot, &parts)?;
        let Read { sample, in_time } = self.with_certain(sample, &parts)?;
        Ok(Read { sample, in_time: in_time && !late })
    }

    /// The values of records with priorities from `low` to `high`.
    fn values(&self, source: &Source<P>, low: f64, high: f64) -> Result<(Vec<Values>, Stats)> {
        let Some(scan) = self.scan(source.wanted.clone(), low, high) else { return Ok((vec![], Stats::default())) };
        let (task, brought, cancel) = (self.task.clone(), source.brought.clone(), source.records.cancel());
        let each = move |scanned: Scanned| {
            let stats = scanned.stats;
            let columns = if scanned.rows == 0 { empty(&brought.schema) } else { scanned.columns };
            Ok((task.values(&brought, scanned.rows, columns, scanned.priorities, &cancel)?, stats))
        };
        let (mut parts, mut stats) = (Vec::new(), Stats::default());
        let planned = source.records.scan(scan, each, &mut |(values, cost)| {
            stats.add(&cost);
            parts.push(values);
            Ok(())
        })?;
        stats.add(&planned);
        Ok((parts, stats))
    }

    /// What to read of the records with priorities from `low` to `high`; `None` if there are none.
    fn scan(&self, wanted: Wanted, low: f64, high: f64) -> Option<Scan> {
        range(low, high).map(|range| Scan { wanted, range, seek: None, deadline: self.deadline })
    }

    /// The sample with the records of priorities up to `target`.
    fn read(&self, mut sample: Sample<P>, target: f64) -> Result<Read<P>> {
        let begin = Instant::now();
        let whole = sample.low == 0.0 && target >= 1.0;
        let Some(pilot) = sample.pilot.clone() else { return Ok(Read::late(sample)) };
        let found = self.in_time(|| {
            let hollow = sample.accumulated.hollow();
            self.accumulate(&sample.source, &pilot, hollow, (sample.at, target), whole)
        })?;
        let Some((found, stats)) = found else { return Ok(Read::late(sample)) };
        sample.accumulated.merge(&self.task, found)?;
        sample.accumulated.thin();
        sample.pace = (begin.elapsed().as_secs_f64(), target - sample.at);
        sample.at = target;
        Ok(Read::all(sample.after(&stats)))
    }

    /// Adds up the records with priorities from `low` to `high`, in accumulators that hold nothing yet.
    fn accumulate(
        &self,
        source: &Source<P>,
        pilot: &Arc<PilotFindings>,
        mut all: Accumulated,
        (low, high): (f64, f64),
        certain: bool,
    ) -> Result<(Accumulated, Stats)> {
        let (framed, expected) = (all.frame.is_some(), all.expected.as_ref().map(|expected| expected.of.clone()));
        // Chance plays no part where everything is read.
        let wanted = Wanted { priorities: !certain, ..source.wanted.clone() };
        let Some(scan) = self.scan(wanted, low, high) else { return Ok((all, Stats::default())) };
        let (task, pilot, cancel) = (self.task.clone(), pilot.clone(), source.records.cancel());
        let brought = source.brought.clone();
        let each = move |scanned: Scanned| {
            let mut part = Accumulated::nothing(&task, framed, expected.clone());
            if scanned.rows > 0 {
                let values = task.values(&brought, scanned.rows, scanned.columns, scanned.priorities, &cancel)?;
                part.add(&task, &pilot, &values, certain)?;
            }
            Ok((part, scanned.stats))
        };
        let mut stats = Stats::default();
        let planned = source.records.scan(scan, each, &mut |(part, cost): (Accumulated, Stats)| {
            stats.add(&cost);
            all.merge(&self.task, part)
        })?;
        stats.add(&planned);
        Ok((all, stats))
    }

    /// What a stage teaches besides its records: how many there are, if that is worth it.
    fn learned(&self, sample: Sample<P>, facts: Facts) -> Result<(Sample<P>, Facts)> {
        let (sample, facts) = self.counted(sample, facts)?;
        if sample.stages == 1 { self.judged(sample, facts) } else { Ok((sample, facts)) }
    }

    /// Learns the number of records, if that is known or few must be read for it: exactly where it is asked for or
    /// nothing says how exact is enough, else as well as the other figures need it.
    fn counted(&self, mut sample: Sample<P>, mut facts: Facts) -> Result<(Sample<P>, Facts)> {
        let needed = |asked: &Asked| asked.bound.properties.uses_number_of_records;
        let is_asked = |Asked { bound: Bound { properties, .. }, .. }: &Asked| {
            properties.is_number_of_records
                || properties.is_number_of_values
                || properties.follows_from_number_of_records
        };
        if !self.holds_all()
            || sample.stages > 1
            || facts.rows.is_some()
            || sample.accumulated.frame.is_some()
            || !self.groups.fields().is_empty()
            || !self.task.aggregates.iter().any(needed)
        {
            return Ok((sample, facts));
        }
        let is_exact = !self.has_goal() || self.task.aggregates.iter().any(is_asked);
        if sample.source.records.filter().is_none() && is_exact {
            // If few must be read for it, and there is time for that.
            let counted = self.in_time(|| sample.source.records.counted(COUNTED_ROWS, self.deadline))?;
            if let Some((rows, stats)) = counted.flatten() {
                (facts.rows, sample) = (Some(Number::exact(rows)), sample.after(&stats));
            }
        }
        if facts.rows.is_none() && sample.share() < 1.0 {
            let figures = self.figures(&mut sample, &facts);
            // What figures would be if the number were known.
            let rows = Some(Number::exact(self.expected as u64));
            let known = self.figures(&mut sample, &Facts { rows, ..facts.clone() });
            let ahead = |figures: &[Figure]| self.rows_ahead(&sample, &facts, figures);
            let saved = match self.has_goal() {
                true => 1.0 - ahead(&known) as f64 / ahead(&figures).max(1) as f64,
                false => SAVED,
            };
            let (rows, of_number, stats) = self.number(&sample, &facts, &figures, saved)?;
            (facts, sample) = (Facts { rows, of_number, ..facts }, sample.after(&stats));
        }
        if facts.rows.is_some() && sample.share() < 1.0 {
            let complete = self.task.aggregates.iter().map(|asked| self.is_complete(asked));
            facts.complete = complete.collect::<Result<_>>()?;
        }
        Ok((sample, facts))
    }

    /// Whether an aggregate counts the values of a column that all records have.
    fn is_complete(&self, asked: &Asked) -> Result<bool> {
        let column = asked.bound.arguments.first().and_then(|argument| argument.column());
        let Some(column) = column.filter(|_| asked.bound.properties.is_number_of_values) else { return Ok(false) };
        let column = self.whole.place(column);
        Ok(self.in_time(|| self.whole.is_complete(column, self.deadline))?.unwrap_or(false))
    }

    /// The number of the records that are drawn from, if there is time for it, and it is told by less reading than it
    /// saves: of what is ahead a part is `saved`. Then the part of the figures' error that comes from it, and what it took.
    fn number(
        &self,
        sample: &Sample<P>,
        facts: &Facts,
        figures: &[Figure],
        saved: f64,
    ) -> Result<(Option<Number>, f64, Stats)> {
        let unknown = (LOOKED_AT * self.rows_ahead(sample, facts, figures) as f64).min(COUNTED_ROWS as f64);
        let error = self.error_ahead(sample, facts, figures);
        let worth = Worth { error, known: (1.0 - saved.max(0.0)) * unknown, unknown };
        let now = Instant::now();
        let deadline = self.deadline.map(|deadline| now + deadline.saturating_duration_since(now) / TIME_FOR_NUMBER);
        let found = match self.in_time(|| sample.source.records.number(&worth, deadline)) {
            // It took too long: figures do without.
            Err(Error::Cancelled) if !self.whole.cancel().is_set() => None,
            found => found?,
        };
        Ok(match found {
            Some((number, stats)) => (number, number.map_or(0.0, |number| worth.part(number)), stats),
            None => (None, facts.of_number, Stats::default()),
        })
    }
}

impl<P: Population> Iterator for Estimation<P> {
    type Item = Result<Estimate>;

    fn next(&mut self) -> Option<Result<Estimate>> {
        self.stage().transpose()
    }
}

/// The figures of a table, once they are as good as was asked for.
///
/// # Errors
///
/// As of [`Estimation::new`].
pub fn estimate(snapshot: &Snapshot, options: &EstimateOptions) -> Result<Estimate> {
    estimate_telling(snapshot, options, &mut |_| {})
}

/// The same; `tell` is called with coarser figures on the way. They must not decide when to
/// stop; [`estimates`] is for that.
///
/// # Errors
///
/// As of [`Estimation::new`].
pub fn estimate_telling(
    snapshot: &Snapshot,
    options: &EstimateOptions,
    tell: &mut dyn FnMut(&Estimate),
) -> Result<Estimate> {
    check(options)?;
    estimate_of(Records::new(snapshot, &options.query, &options.run)?, options, tell)
}

/// The same of any records.
///
/// # Errors
///
/// As of [`Estimation::new`].
pub fn estimate_of(
    records: impl Population,
    options: &EstimateOptions,
    tell: &mut dyn FnMut(&Estimate),
) -> Result<Estimate> {
    let mut estimates = Estimation::new(records, options, false)?;
    while let Some(estimate) = estimates.stage()? {
        if estimate.stopped != Stop::Progress {
            return Ok(estimate);
        }
        tell(&estimate);
    }
    Err(Error::internal("an estimate ended without a last stage; please report this"))
}

/// The figures of a table while they narrow, each record read once. Intervals are wider than those
/// of [`estimate()`], so that all of them hold together, whenever it is stopped.
///
/// # Errors
///
/// As of [`Estimation::new`], now or with a stage.
pub fn estimates(snapshot: &Snapshot, options: &EstimateOptions) -> Result<Estimation> {
    check(options)?;
    estimates_of(Records::new(snapshot, &options.query, &options.run)?, options)
}

/// The same of any records.
///
/// # Errors
///
/// As of [`Estimation::new`], now or with a stage.
pub fn estimates_of<P: Population>(records: P, options: &EstimateOptions) -> Result<Estimation<P>> {
    Estimation::new(records, options, true)
}

/// Some of the columns that scans bring.
fn part(stored: &Schema, columns: &[usize]) -> SchemaRef {
    Arc::new(Schema::new(columns.iter().map(|column| stored.fields()[*column].clone()).collect::<Vec<_>>()))
}

fn range(low: f64, high: f64) -> Option<PriorityRange> {
    PriorityRange::between(Threshold::from_fraction(low), Threshold::from_fraction(high))
}

fn empty(schema: &Schema) -> Vec<arrow_array::ArrayRef> {
    schema.fields().iter().map(|field| arrow_array::new_empty_array(field.data_type())).collect()
}
