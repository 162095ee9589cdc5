//! Plans the next stage of reading, and decides when to stop.

use std::collections::HashMap;
use std::time::Instant;

use super::{EstimateQuery, Facts, Sample};
use crate::distribution::normal;
use crate::figure::{Figure, Outlook, Stop};
use kubist_population::{MOST_PART, Population};

/// Factor by which a stage reads more, because the measured variance is an estimate.
const MARGIN: f64 = 1.1;
const LEAST_GROWTH: f64 = 1.3;
const MOST_GROWTH: f64 = 64.0;
/// Growth of a stage without a goal, or if a caller watches.
const GROWTH: f64 = 4.0;
/// If more than this fraction is needed, all records are read, and the result is exact.
const NEARLY_ALL: f64 = 0.5;
/// Fraction of the remaining time that the next stage may take.
const PART_OF_TIME: f64 = 0.5;
/// Fraction of the remaining rows or bytes for the next stage: deeper cubes examine more rows per used row.
const PART_OF_REST: f64 = 0.75;

/// Approximate number of progress reports before the goal.
const LOOKS: f64 = 5.0;

/// An outlook needs at least this number of records to read.
const MUCH_READING: f64 = 250_000.0;

/// Accumulators that keep every value discard some after this many records.
const MOST_UNSEEN: f64 = (1 << 22) as f64;

impl<P: Population> EstimateQuery<P> {
    /// Whether to stop, and why; `Progress` means to continue.
    pub(super) fn verdict(&self, sample: &Sample<P>, facts: &Facts, figures: &[Figure]) -> Stop {
        if sample.at >= self.end {
            return if sample.share() >= 1.0 { Stop::Exact } else { Stop::Sample };
        }
        if figures.iter().all(|figure| figure.exact) && !figures.is_empty() {
            return Stop::Exact;
        }
        if self.has_goal() && self.shortfall(figures) <= 1.0 {
            return Stop::Goal;
        }
        let growth = self.growth(sample, facts, figures);
        let bounds = self.bounds(sample);
        match bounds.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)) {
            Some((most, stop)) if most < 1.0 + 0.5 * (growth - 1.0).min(0.5) => stop,
            _ => Stop::Progress,
        }
    }

    /// Returns the upper priority of the next stage; `None` at the end.
    pub(super) fn plan(&self, sample: &mut Sample<P>, facts: &Facts) -> Option<f64> {
        if sample.at >= self.end {
            return None;
        }
        let figures = self.figures(sample, facts);
        let bounds = self.bounds(sample);
        let most = bounds.iter().map(|(most, _)| *most).fold(f64::INFINITY, f64::min);
        let wanted = sample.low + sample.share() * self.growth(sample, facts, &figures).min(most);
        let nearly = sample.low + NEARLY_ALL * (self.end - sample.low);
        let wanted = if wanted >= nearly && most.is_infinite() { self.end } else { wanted.min(self.end) };
        // Quantiles can discard values only after they have seen a sample of all records.
        let unseen = if sample.accumulated.keeps_all() { sample.accumulated.rows() as f64 } else { 0.0 };
        Some(match unseen > 0.0 {
            true => wanted.min(sample.low + sample.share() * (MOST_UNSEEN / unseen).max(LEAST_GROWTH)),
            false => wanted,
        })
    }

    pub(super) fn has_goal(&self) -> bool {
        self.options.error.is_some() || self.options.absolute.is_some()
    }

    fn growth(&self, sample: &Sample<P>, facts: &Facts, figures: &[Figure]) -> f64 {
        if !self.has_goal() {
            let bounded =
                self.deadline.is_some() || self.options.max_rows.is_some() || self.options.max_bytes.is_some();
            return if bounded || self.watched { GROWTH } else { f64::INFINITY };
        }
        let needed = match self.needed(sample, facts, figures) {
            Some(needed) => needed / sample.share() * MARGIN,
            None => 8.0,
        };
        let needed = needed.clamp(LEAST_GROWTH, MOST_GROWTH);
        if self.watched { needed.min(GROWTH) } else { needed }
    }

    /// The sample fraction p that reaches the goal, if predictable. The half-width is k sqrt((1 - p) / p),
    /// plus the error of a known number of records.
    fn needed(&self, sample: &Sample<P>, facts: &Facts, figures: &[Figure]) -> Option<f64> {
        if figures.is_empty() {
            return None;
        }
        let p = sample.share();
        self.shortfalls(figures).try_fold(0.0, |most: f64, (shortfall, figure)| {
            let fixed = if self.rests_on_number(figure) { facts.of_number.powi(2).min(MOST_PART) } else { 0.0 };
            let spread = (shortfall * shortfall - fixed).max(0.0) / (1.0 - fixed) * p / (1.0 - p);
            spread.is_finite().then(|| most.max(spread / (1.0 + spread)))
        })
    }

    fn rests_on_number(&self, figure: &Figure) -> bool {
        let asked = self.task.aggregates.iter().find(|asked| asked.name == figure.aggregate);
        asked.is_some_and(|asked| asked.bound.properties.uses_number_of_records)
    }

    pub(super) fn rows_ahead(&self, sample: &Sample<P>, facts: &Facts, figures: &[Figure]) -> u64 {
        let needed = || self.needed(sample, facts, figures).unwrap_or(1.0);
        let share = if self.has_goal() { needed() } else { 1.0 };
        let most = self.options.max_rows.map_or(f64::INFINITY, |rows| rows as f64);
        (self.expected * share.min(self.end - sample.low)).min(most) as u64
    }

    /// The relative standard error of figures that use the number of records: from the goal, or from the
    /// number of records to draw.
    pub(super) fn error_ahead(&self, sample: &Sample<P>, facts: &Facts, figures: &[Figure]) -> f64 {
        if !self.has_goal() {
            return 1.0 / (self.rows_ahead(sample, facts, figures) as f64).max(1.0).sqrt();
        }
        // If a caller watches, intervals are wider, because it may stop at each of several reports.
        let looks = if self.watched { LOOKS * (LOOKS + 1.0) } else { 1.0 };
        let quantile = normal((1.0 - self.options.confidence) / looks);
        let goals = self
            .shortfalls(figures)
            .filter(|(shortfall, figure)| *shortfall > 0.0 && shortfall.is_finite() && self.rests_on_number(figure));
        let goals = goals.filter_map(|(shortfall, figure)| {
            let half = (figure.high - figure.low) / 2.0 / shortfall;
            Some(half / figure.value?.abs() / quantile)
        });
        let goal = self.options.error.map_or(0.0, |error| error / quantile);
        goals.filter(|error| error.is_finite()).reduce(f64::min).unwrap_or(goal)
    }

    /// The predicted cost of the goal; `None` if it is small.
    pub(super) fn outlook(&self, sample: &Sample<P>, facts: &Facts, figures: &[Figure]) -> Option<Outlook> {
        if !self.has_goal() {
            return None;
        }
        let widest = self.shortfalls(figures).max_by(|one, other| one.0.total_cmp(&other.0));
        let (_, figure) = widest?;
        let width = self.end - sample.low;
        let needed = self.needed(sample, facts, figures).map_or(width, |needed| needed * MARGIN);
        let share = if needed >= NEARLY_ALL * width { width } else { needed };
        let all = self.expected * width;
        let (rows, around_zero) = (self.expected * share, figure.low < 0.0 && figure.high > 0.0);
        (rows >= MUCH_READING).then(|| Outlook {
            rows: rows as u64,
            of: all as u64,
            aggregate: figure.aggregate.clone(),
            around_zero: around_zero && self.options.error.is_some(),
        })
    }

    /// The largest ratio of half-width to goal: at most 1 if all goals are reached.
    fn shortfall(&self, figures: &[Figure]) -> f64 {
        let most = self.shortfalls(figures).map(|(shortfall, _)| shortfall).fold(0.0, f64::max);
        if figures.is_empty() { f64::INFINITY } else { most }
    }

    /// The ratios of half-width to goal, for figures that are not exact.
    fn shortfalls<'a>(&'a self, figures: &'a [Figure]) -> impl Iterator<Item = (f64, &'a Figure)> {
        // The largest bin is the scale of a histogram, so that rare bins do not force a full read.
        let mut largest: HashMap<(&str, usize), f64> = HashMap::new();
        for figure in figures.iter().filter(|figure| !figure.bin.is_empty()) {
            let most = largest.entry((&figure.aggregate, figure.group)).or_insert(f64::MIN_POSITIVE);
            *most = most.max(figure.value.unwrap_or(0.0));
        }
        figures.iter().filter(|figure| !figure.exact).map(move |figure| {
            let half = figure.value.map_or(f64::INFINITY, |value| (value - figure.low).max(figure.high - value));
            let half = if half.is_nan() || half == 0.0 { f64::INFINITY } else { half };
            let scale = match figure.bin.is_empty() {
                true => figure.value.map_or(0.0, f64::abs),
                false => largest[&(figure.aggregate.as_str(), figure.group)],
            };
            let relative = self.options.error.map_or(0.0, |error| half / scale / error);
            let mut asked = self.task.aggregates.iter().zip(&self.absolute);
            let asked = asked.find(|(asked, _)| asked.name == figure.aggregate);
            let absolute = asked.and_then(|(_, absolute)| *absolute).map_or(0.0, |absolute| half / absolute);
            let shortfall = match asked.and_then(|(asked, _)| asked.bound.properties.extremum) {
                // A sample bounds extremes on one side only, and a larger sample does not change that.
                Some(_) => 0.0,
                _ if half.is_infinite() => f64::INFINITY,
                _ => relative.max(absolute),
            };
            (shortfall, figure)
        })
    }

    /// By limit: the factor by which the sample can grow.
    fn bounds(&self, sample: &Sample<P>) -> Vec<(f64, Stop)> {
        let mut bounds = Vec::new();
        let p = sample.share();
        if let Some(rows) = self.options.max_rows {
            bounds.push((rest(rows, sample.stats.rows_read), Stop::Rows));
        }
        if let Some(bytes) = self.options.max_bytes {
            bounds.push((rest(bytes, sample.stats.bytes_read), Stop::Bytes));
        }
        if let Some(deadline) = self.deadline {
            let left = deadline.saturating_duration_since(Instant::now()).as_secs_f64();
            let (seconds, share) = sample.pace;
            let more = PART_OF_TIME * left / seconds.max(1e-6) * share;
            bounds.push((1.0 + more / p, Stop::Time));
        }
        let fullness = sample.accumulated.fullness();
        if fullness > 0.0 {
            bounds.push((1.0 / fullness, Stop::Memory));
        }
        bounds
    }
}

fn rest(most: u64, read: u64) -> f64 {
    1.0 + PART_OF_REST * (most as f64 / (read as f64).max(1.0) - 1.0)
}
