//! Estimates over subsampled steps, where writers kept only a sample.
//!
//! A subsampled step has all its records below a priority threshold. Records below the lowest threshold of
//! all steps are a uniform sample, and no estimate reads beyond it. Records that writers always kept form a
//! certainty stratum if the aggregates support one. Without a condition, the stored counts and sums are
//! exact.

use kubist_population::{Number, Population, SampledStep};
use kubist_types::error::{Error, Result};
use kubist_types::thinned::{ColumnSum, Thinned};

use super::{EstimateQuery, Sample};
use crate::accumulate::Task;
use crate::aggregate::Total;
use crate::figure::Figure;
use crate::options::EstimateOptions;

const MOST_WHOLE: f64 = 9_007_199_254_740_992.0;

pub struct KnownTotals {
    whole: Thinned,
    /// All records of the steps are selected, as one group.
    of_all: bool,
    /// Selects the always-kept records, if they form a certainty stratum.
    always: Option<String>,
}

impl KnownTotals {
    /// The totals of subsampled steps; `None` if no selected step was subsampled.
    ///
    /// # Errors
    ///
    /// `Invalid` if nothing was kept at the requested priorities, or if tails are requested, because they
    /// may be incomplete.
    pub fn of(records: &impl Population, options: &EstimateOptions, task: &Task) -> Result<Option<KnownTotals>> {
        let Some(SampledStep { whole, column }) = records.kept() else { return Ok(None) };
        let (below, low) = (whole.below, options.query.window.map_or(0.0, |window| window.0));
        if below <= low {
            return Err(Error::invalid(format!(
                "records of these steps were only kept below priority {below}: no sample starts at {low}"
            )));
        }
        if options.tails.is_some() && below < 1.0 {
            return Err(Error::invalid(format!(
                "tails: only the records below priority {below} of these steps were written, so their tails are \
                 incomplete"
            )));
        }
        let of_all = records.is_all() && options.group_by.is_empty();
        let apart = whole.always > 0 && task.aggregates.iter().all(|asked| asked.bound.properties.takes_certain);
        let always = apart.then(|| format!("\"{column}\" = 1"));
        Ok(Some(KnownTotals { whole, of_all, always }))
    }

    pub fn below(&self) -> f64 {
        self.whole.below
    }

    /// The exact number of records; `None` unless all are selected.
    pub fn rows(&self) -> Option<Number> {
        self.of_all.then(|| Number::exact(self.whole.rows))
    }
}

impl<P: Population> EstimateQuery<P> {
    pub(super) fn kept_always(&self) -> Option<String> {
        self.known.as_ref()?.always.clone()
    }

    /// If true, statistics of the stored records hold for all.
    pub(super) fn holds_all(&self) -> bool {
        self.known.as_ref().is_none_or(|known| known.below() >= 1.0)
    }

    /// Replaces sums and means of columns by the exact totals of the writers.
    pub(super) fn with_totals(&self, mut figures: Vec<Figure>) -> Vec<Figure> {
        let Some(known) = self.known.as_ref().filter(|known| known.of_all) else { return figures };
        for figure in figures.iter_mut().filter(|figure| !figure.exact) {
            let asked = self.task.aggregates.iter().find(|asked| asked.name == figure.aggregate);
            let Some(bound) = asked.map(|asked| &asked.bound) else { continue };
            let column = bound.arguments.first().and_then(|argument| argument.column());
            let name = column.map(|column| self.visible.field(column).name());
            let sum = name.and_then(|name| known.whole.sums.get(name));
            let (Some(total), Some(ColumnSum { values, sum })) = (bound.properties.total, sum) else { continue };
            if bound.own.is_some() && sum.abs() > MOST_WHOLE {
                continue;
            }
            let value = match total {
                Total::Sum => *sum,
                Total::Mean if *values == 0 => continue,
                Total::Mean => sum / *values as f64,
            };
            *figure = Figure {
                value: Some(value),
                low: value,
                high: value,
                own: None,
                fraction: 1.0,
                rows: *values,
                exact: true,
                ..figure.clone()
            };
        }
        figures
    }

    pub(super) fn warning_of_thinned(&self, sample: &Sample<P>) -> Option<String> {
        let below = self.known.as_ref()?.below();
        let wanted = self.options.query.sample.unwrap_or(1.0);
        (sample.at >= self.end && below < wanted).then(|| {
            format!("these steps were thinned when they were written: the table has only a sample of fraction {below}")
        })
    }
}
