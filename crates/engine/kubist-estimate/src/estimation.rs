//! The stages of an estimate.
//!
//! Records are read in order of priority, each once. A **pilot** of about 1,000 records measures the
//! variance, which determines the sample fraction for the requested error. That fraction is read with a
//! margin, and rarely a little more afterwards. The pilot fixes the stages, so the end at a stage costs almost
//! no confidence (two-stage sampling: Stein, Annals of Mathematical Statistics 16, 1945; Cox, Biometrika 39,
//! 1952).
//!
//! A caller that watches may stop at any stage. Stage k then uses `alpha / (k (k + 1))` of the error
//! probability, so that all intervals together are right with probability `1 - alpha`.

mod auxiliary;
mod figures;
mod frame;
mod known;
mod plan;
mod tails;
mod weighted;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use arrow_schema::{Schema, SchemaRef};
use kubist_expr::{named, several};
use kubist_index::priority::{PriorityRange, Threshold};

use crate::accumulate::{Accumulated, Brought, NamedAggregate, PilotFindings, Task, Values};
use crate::aggregate::Bound;
use crate::aggregates;
use crate::figure::{Estimate, Figure, Stop, check_groups};
use crate::group::GroupBy;
use crate::options::{EstimateOptions, check};
use crate::records::Records;
use crate::unit;
use known::KnownTotals;
use kubist_catalog::snapshot::Snapshot;
use kubist_population::{Number, Population, Projection, Scan, Scanned, Worth};
use kubist_types::error::{Error, Result};
use kubist_types::stats::Stats;
use tails::Tails;

const PILOT_ROWS: f64 = 1024.0;
const LEAST_PILOT_ROWS: u64 = 200;
/// Rows whose arguments and features are computed together, so that they stay in the processor's cache.
const ROWS_AT_ONCE: usize = 8_192;
/// If fewer records than this are expected, all are read in one step.
const FEW_ROWS: f64 = 16_384.0;
/// Wanted and smallest number of distinct priorities in the pilot, if records share priorities.
const PILOT_PRIORITIES: f64 = 64.0;
const LEAST_PILOT_PRIORITIES: f64 = 16.0;
/// Limit of records to read in boundary runs for an exact count.
const COUNTED_ROWS: u64 = 2_000_000;
/// Assumed number of examined records for each sampled one.
const LOOKED_AT: f64 = 1.3;
/// The count of records may take this part (1/4) of the remaining time.
const TIME_FOR_NUMBER: u32 = 4;
/// Assumed fraction of the reading that a known number of records saves, if there is no goal.
const SAVED: f64 = 0.5;

const MOST_AGGREGATES: usize = 64;

/// Iterator of estimates, from coarse to fine; the last one has the reason to stop.
///
/// A stage is a chain of functions: **pilot**, **plan**, **read**, **result**. Predictions use copies, so
/// they change no state.
pub struct Estimation<P = Records> {
    query: EstimateQuery<P>,
    /// `None` after the end.
    so_far: Option<(Sample<P>, Facts)>,
}

/// The request and its context, constant over all stages.
struct EstimateQuery<P> {
    options: EstimateOptions,
    whole: P,
    visible: Schema,
    task: Arc<Task>,
    groups: SchemaRef,
    units: BTreeMap<String, String>,
    bin_units: BTreeMap<String, Vec<Option<String>>>,
    /// By aggregate: the largest half-width of the interval, in the aggregate's unit.
    absolute: Vec<Option<f64>>,
    tails: Option<Tails>,
    known: Option<KnownTotals>,
    /// Upper limit of the priorities to read.
    end: f64,
    expected: f64,
    /// Whether all rows must be read, because an aggregate needs them.
    everything: bool,
    watched: bool,
    begin: Instant,
    deadline: Option<Instant>,
}

#[derive(Clone)]
struct Source<P> {
    records: P,
    wanted: Projection,
    brought: Arc<Brought>,
}

struct Sample<P> {
    source: Source<P>,
    /// The source of the selected records, while `source` is the frame (all records, without the condition).
    own: Option<frame::SelectedSource<P>>,
    /// The source without position columns, while `source` has them.
    plain: Option<Source<P>>,
    pilot: Option<Arc<PilotFindings>>,
    accumulated: Accumulated,
    low: f64,
    at: f64,
    stages: u32,
    stats: Stats,
    /// Seconds and sample fraction of the last stage.
    pace: (f64, f64),
}

/// Knowledge about the population from outside the sample.
#[derive(Clone, Default)]
struct Facts {
    rows: Option<Number>,
    /// Number of records in the frame, if the sample is drawn from it.
    framed: Option<Number>,
    /// The error of the number of records, as a fraction of the figures' wanted error.
    of_number: f64,
    /// By aggregate: whether zone maps show that every record has a value of the argument.
    complete: Vec<bool>,
    bounds: BTreeMap<usize, Option<(f64, f64)>>,
}

impl Facts {
    fn bounds_of(&self, column: usize) -> Option<(f64, f64)> {
        self.bounds.get(&column).copied().flatten()
    }
}

/// A stage that was read; `in_time` is false if the deadline ended it.
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
    fn share(&self) -> f64 {
        self.at - self.low
    }

    fn after(mut self, stats: &Stats) -> Sample<P> {
        self.stats.add(stats);
        self
    }
}

impl<P: Population> Estimation<P> {
    /// Opens an estimation. With `watched`, the caller sees every stage and may stop at it.
    ///
    /// # Errors
    ///
    /// `Invalid` names the wrong option, aggregate or column; `Damaged`; `Cancelled`; a storage error.
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
        let asked = asked.map(|text| {
            let (aggregate, name) = named(text);
            (aggregate, name.unwrap_or_else(|| text.to_owned()))
        });
        let mut names = BTreeMap::new();
        let aggregates = asked.map(|(aggregate, name)| {
            if *names.entry(name.clone()).or_insert(aggregate) != aggregate {
                return Err(Error::invalid(format!("two aggregates are named {name:?}: choose another name")));
            }
            Ok(NamedAggregate { name, bound: aggregates::bind(aggregate, &visible)? })
        });
        let aggregates = aggregates.collect::<Result<Vec<NamedAggregate>>>()?;
        if aggregates.len() > MOST_AGGREGATES {
            return Err(Error::invalid(format!(
                "{} aggregates: one estimate has at most {MOST_AGGREGATES}",
                aggregates.len()
            )));
        }
        let unit_of = |NamedAggregate { bound, .. }: &NamedAggregate| match &bound.unit {
            Some(unit) => Some(unit.clone()),
            None => unit::of(bound.properties.unit, &bound.arguments),
        };
        let units = aggregates.iter().filter_map(|asked| Some((asked.name.clone(), unit_of(asked)?)));
        let units: BTreeMap<String, String> = units.collect();
        let bin_units = aggregates.iter().filter(|asked| asked.bound.properties.outer_bins).map(
            |NamedAggregate { name, bound }| {
                let units = bound.arguments.iter().map(|argument| argument.unit().map(str::to_owned));
                (name.clone(), units.collect())
            },
        );
        let bin_units = bin_units.collect();
        let absolute = aggregates.iter().map(|NamedAggregate { name, .. }| {
            let goal = options.absolute.as_ref();
            goal.map(|goal| goal.of(name, units.get(name).map(String::as_str))).transpose()
        });
        let absolute = absolute.collect::<Result<Vec<Option<f64>>>>()?;
        let parts = options.group_by.iter().flat_map(|text| match records.find(text) {
            // A column name may contain commas.
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
        columns.extend(records.weight());
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
        let everything = records.weight().is_some() && weighted::reads_all(&task, &options, watched, low, end)?;
        let known = KnownTotals::of(&records, &options, &task)?;
        let kept = known.as_ref().map_or(1.0, KnownTotals::below);
        let end = end.min(kept);
        // In subsampled steps, only records below this priority exist.
        let expected = records.rough_rows()? / kept;
        let tails = options.tails.map(|share| Tails::new(&task, share, &visible)).transpose()?;
        let facts = Facts { rows: known.as_ref().and_then(KnownTotals::rows), ..Facts::default() };
        let sample = Sample {
            source: Source {
                records: records.clone(),
                brought: Arc::new(Brought {
                    schema: part(&stored, &columns),
                    condition: None,
                    position_columns: vec![],
                    weight: records.weight().and_then(|weight| columns.iter().position(|column| *column == weight)),
                }),
                wanted: Projection { coded: columns.clone(), columns, priorities: true },
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
        let query = EstimateQuery {
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
            everything,
            watched,
            begin,
        };
        Ok(Estimation { query, so_far: Some((sample, facts)) })
    }

    fn stage(&mut self) -> Result<Option<Estimate>> {
        let (query, Some((sample, facts))) = (&self.query, self.so_far.take()) else { return Ok(None) };
        let Read { sample, in_time } = query.advanced(sample, &facts)?;
        let (mut sample, facts) = match in_time {
            true => query.learned(Sample { stages: sample.stages + 1, ..sample }, facts)?,
            false => (sample, facts),
        };
        let figures = query.figures(&mut sample, &facts);
        let (figures, facts) = if in_time { query.with_constants(figures, facts)? } else { (figures, facts) };
        let stopped = if in_time { query.verdict(&sample, &facts, &figures) } else { Stop::Time };
        if stopped == Stop::Progress {
            let is_first = sample.stages == 1;
            let outlook = if is_first { query.outlook(&sample, &facts, &figures) } else { None };
            let figures = query.with_bins(figures, None);
            let estimate = query.estimate(&mut sample, &facts, figures, stopped)?;
            self.so_far = Some((sample, facts));
            return Ok(Some(Estimate { outlook, ..estimate }));
        }
        let (figures, stats) = query.with_extremes(figures, facts.clone(), &sample)?;
        query.estimate(&mut sample.after(&stats), &facts, figures, stopped).map(Some)
    }
}

impl<P: Population> EstimateQuery<P> {
    fn late(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Does work up to the deadline; `None` if it passed.
    fn in_time<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
        if self.late() {
            return Ok(None);
        }
        match work() {
            Err(Error::Cancelled) if !self.whole.cancel().is_set() && self.late() => Ok(None),
            done => done.map(Some),
        }
    }

    fn advanced(&self, mut sample: Sample<P>, facts: &Facts) -> Result<Read<P>> {
        if sample.pilot.is_none() {
            let Read { sample, in_time } = self.pilot(sample, facts)?;
            return match self.everything && in_time && sample.at < self.end {
                true => self.read(sample, self.end),
                false => Ok(Read { sample, in_time }),
            };
        }
        match self.plan(&mut sample, facts) {
            Some(target) => self.read(sample, target),
            None => Ok(Read::all(sample)),
        }
    }

    fn pilot(&self, mut sample: Sample<P>, facts: &Facts) -> Result<Read<P>> {
        let width = self.end - sample.low;
        let wanted = PILOT_ROWS * if self.groups.fields().is_empty() { 1.0 } else { 4.0 };
        let wanted = self.tails.as_ref().map_or(wanted, |tails| wanted.max(tails.pilot_rows()));
        let cluster_size = sample.source.records.cluster_size()?;
        let (wanted, few) =
            (wanted.max(PILOT_PRIORITIES * cluster_size), FEW_ROWS.max(PILOT_PRIORITIES * cluster_size));
        let least = LEAST_PILOT_ROWS.max((LEAST_PILOT_PRIORITIES * cluster_size) as u64);
        let most = self.options.max_rows.map_or(f64::INFINITY, |rows| rows as f64);
        let wanted = wanted.min(most);
        let mut share = match self.expected * width <= few.min(most) {
            true => width,
            false => wanted / self.expected,
        };
        let (mut parts, mut rows, mut late) = (Vec::new(), 0, false);
        if share < width && sample.source.brought.weight.is_none() {
            sample = self.with_position_columns(self.in_frame(sample)?);
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
            sample.accumulated.add(&self.task, &pilot, part, false, sample.at)?;
        }
        sample.pilot = Some(pilot.clone());
        let sample = self.with_expected(sample, facts, &pilot, &parts)?;
        let Read { sample, in_time } = self.with_certain(sample, &parts)?;
        Ok(Read { sample, in_time: in_time && !late })
    }

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

    /// The scan of priorities in [low, high); `None` if this is empty.
    fn scan(&self, wanted: Projection, low: f64, high: f64) -> Option<Scan> {
        range(low, high).map(|range| Scan { wanted, range, seek: None, deadline: self.deadline })
    }

    fn read(&self, mut sample: Sample<P>, target: f64) -> Result<Read<P>> {
        let begin = Instant::now();
        let whole = sample.low == 0.0 && target >= 1.0;
        let Some(pilot) = sample.pilot.clone() else { return Ok(Read::late(sample)) };
        // With weights, inclusion probabilities depend on the fraction, so each stage adds all rows again.
        let weighted = sample.source.brought.weight.is_some();
        let from = if weighted { sample.low } else { sample.at };
        let found = self.in_time(|| {
            let hollow = sample.accumulated.hollow();
            self.accumulate(&sample.source, &pilot, hollow, (from, target), whole)
        })?;
        let Some((found, stats)) = found else { return Ok(Read::late(sample)) };
        match weighted {
            true => sample.accumulated = found,
            false => sample.accumulated.merge(&self.task, found)?,
        }
        sample.accumulated.thin();
        sample.pace = (begin.elapsed().as_secs_f64(), target - from);
        sample.at = target;
        Ok(Read::all(sample.after(&stats)))
    }

    fn accumulate(
        &self,
        source: &Source<P>,
        pilot: &Arc<PilotFindings>,
        mut all: Accumulated,
        (low, high): (f64, f64),
        certain: bool,
    ) -> Result<(Accumulated, Stats)> {
        let (framed, expected) = (all.frame.is_some(), all.expected.as_ref().map(|expected| expected.of.clone()));
        let wanted = Projection { priorities: !certain, ..source.wanted.clone() };
        let Some(scan) = self.scan(wanted, low, high) else { return Ok((all, Stats::default())) };
        let (task, pilot, cancel) = (self.task.clone(), pilot.clone(), source.records.cancel());
        let brought = source.brought.clone();
        let each = move |scanned: Scanned| {
            let mut part = Accumulated::nothing(&task, framed, expected.clone());
            for start in (0..scanned.rows).step_by(ROWS_AT_ONCE) {
                let rows = ROWS_AT_ONCE.min(scanned.rows - start);
                let columns = scanned.columns.iter().map(|column| column.slice(start, rows)).collect();
                // A read of all rows has no priorities.
                let priorities = scanned.priorities.iter().skip(start).take(rows).copied().collect();
                let values = task.values(&brought, rows, columns, priorities, &cancel)?;
                part.add(&task, &pilot, &values, certain, high)?;
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

    fn learned(&self, sample: Sample<P>, facts: Facts) -> Result<(Sample<P>, Facts)> {
        let (sample, facts) = self.counted(sample, facts)?;
        if sample.stages == 1 { self.judged(sample, facts) } else { Ok((sample, facts)) }
    }

    /// Finds the number of records from the manifest and a few runs. It is exact if it is requested, or if
    /// there is no goal; otherwise it is as accurate as the figures need.
    fn counted(&self, mut sample: Sample<P>, mut facts: Facts) -> Result<(Sample<P>, Facts)> {
        let needed = |asked: &NamedAggregate| asked.bound.properties.uses_number_of_records;
        let is_asked = |NamedAggregate { bound: Bound { properties, .. }, .. }: &NamedAggregate| {
            properties.is_number_of_records
                || properties.is_number_of_values
                || properties.follows_from_number_of_records
        };
        let weighted = sample.source.brought.weight.is_some();
        if !self.holds_all()
            || weighted && !self.task.aggregates.iter().all(is_asked)
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
            let counted = self.in_time(|| sample.source.records.counted(COUNTED_ROWS, self.deadline))?;
            if let Some((rows, stats)) = counted.flatten() {
                (facts.rows, sample) = (Some(Number::exact(rows)), sample.after(&stats));
            }
        }
        if facts.rows.is_none() && sample.share() < 1.0 && !weighted {
            let figures = self.figures(&mut sample, &facts);
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

    fn is_complete(&self, asked: &NamedAggregate) -> Result<bool> {
        let column = asked.bound.arguments.first().and_then(|argument| argument.column());
        let Some(column) = column.filter(|_| asked.bound.properties.is_number_of_values) else { return Ok(false) };
        let column = self.whole.place(column);
        Ok(self.in_time(|| self.whole.is_complete(column, self.deadline))?.unwrap_or(false))
    }

    /// Estimates the number of records if that costs less than it saves. `saved` is the fraction of the
    /// remaining reading that a known number saves. Also returns the number's error as a fraction of the
    /// figures' error, and the cost.
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
            // The count ran out of time, so the figures do without it.
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

/// Returns the estimates of a table when they reach the goal or a limit. Calls `tell` with each coarser estimate. The
/// caller must not use these to decide when to stop; [`estimates`] allows that.
///
/// # Errors
///
/// As [`Estimation::new`].
pub fn estimate(snapshot: &Snapshot, options: &EstimateOptions, tell: &mut dyn FnMut(&Estimate)) -> Result<Estimate> {
    check(options)?;
    estimate_of(Records::new(snapshot, &options.query, &options.run)?, options, tell)
}

/// Like [`estimate()`], for any population.
///
/// # Errors
///
/// As [`Estimation::new`].
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

/// Iterator of narrowing estimates; each record is read once. The caller may stop at any estimate, so the
/// intervals are wider than with [`estimate()`].
///
/// # Errors
///
/// As [`Estimation::new`], now or with a stage.
pub fn estimates(snapshot: &Snapshot, options: &EstimateOptions) -> Result<Estimation> {
    check(options)?;
    estimates_of(Records::new(snapshot, &options.query, &options.run)?, options)
}

/// Like [`estimates`], for any population.
///
/// # Errors
///
/// As [`Estimation::new`], now or with a stage.
pub fn estimates_of<P: Population>(records: P, options: &EstimateOptions) -> Result<Estimation<P>> {
    Estimation::new(records, options, true)
}

fn part(stored: &Schema, columns: &[usize]) -> SchemaRef {
    Arc::new(Schema::new(columns.iter().map(|column| stored.fields()[*column].clone()).collect::<Vec<_>>()))
}

fn range(low: f64, high: f64) -> Option<PriorityRange> {
    PriorityRange::between(Threshold::from_fraction(low), Threshold::from_fraction(high))
}

fn empty(schema: &Schema) -> Vec<arrow_array::ArrayRef> {
    schema.fields().iter().map(|field| arrow_array::new_empty_array(field.data_type())).collect()
}
