//! Estimates over steps of which only a sample was written: how far it reaches, and what is known
//! of all records nevertheless.
//!
//! Of each step that was thinned the records below some priority are there. Up to the lowest of
//! these thresholds the records of all steps are a sample like any other, and no estimate reads
//! further. Records that were kept whatever their priority are read whole, where the aggregates
//! can take them apart from the sample. Without a condition the number of records and the sums
//! of columns are those that the writers counted.

use kubist_population::{Kept, Number, Population};
use kubist_types::error::{Error, Result};
use kubist_types::thinned::{ColumnSum, Thinned};

use super::{Question, Sample};
use crate::accumulate::Task;
use crate::aggregate::Total;
use crate::figure::Figure;
use crate::options::EstimateOptions;

/// Whole numbers up to this are floats exactly.
const MOST_WHOLE: f64 = 9_007_199_254_740_992.0;

/// What writers say of the steps that are asked for.
pub struct Known {
    whole: Thinned,
    /// Every record of the steps is asked for, as one group.
    of_all: bool,
    /// The condition of records that were kept whatever their priority, if they are read whole.
    always: Option<String>,
}

impl Known {
    /// `None` if no step that is asked for was thinned.
    ///
    /// # Errors
    ///
    /// `Invalid` for priorities of which nothing was kept, and for tails, which may not be there.
    pub fn of(records: &impl Population, options: &EstimateOptions, task: &Task) -> Result<Option<Known>> {
        let Some(Kept { whole, column }) = records.kept() else { return Ok(None) };
        let (below, low) = (whole.below, options.query.window.map_or(0.0, |window| window.0));
        if below <= low {
            return Err(Error::invalid(format!(
                "records of these steps were kept below priority {below} when they were written: there is no sample \
                 of them from {low} on"
            )));
        }
        if options.tails.is_some() && below < 1.0 {
            return Err(Error::invalid(format!(
                "tails: of these steps the records below priority {below} were written, and their tails are not all there"
            )));
        }
        let of_all = records.is_all() && options.group_by.is_empty();
        let apart = whole.always > 0 && task.aggregates.iter().all(|asked| asked.bound.properties.takes_certain);
        let always = apart.then(|| format!("\"{column}\" = 1"));
        Ok(Some(Known { whole, of_all, always }))
    }

    /// All records below this priority are there.
    pub fn below(&self) -> f64 {
        self.whole.below
    }

    /// How many records there are, where all are asked for.
    pub fn rows(&self) -> Option<Number> {
        self.of_all.then(|| Number::exact(self.whole.rows))
    }
}

impl<P: Population> Question<P> {
    /// The condition of records that are read whole, because they were kept whatever their priority.
    pub(super) fn kept_always(&self) -> Option<String> {
        self.known.as_ref()?.always.clone()
    }

    /// Whether all records were written, so that what is known of those that are there is known of all.
    pub(super) fn holds_all(&self) -> bool {
        self.known.as_ref().is_none_or(|known| known.below() >= 1.0)
    }

    /// Sums and means of columns as the writers of all records found them.
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

    /// That the sample ends where the writers let it end.
    pub(super) fn warning_of_thinned(&self, sample: &Sample<P>) -> Option<String> {
        let below = self.known.as_ref()?.below();
        let wanted = self.options.query.sample.unwrap_or(1.0);
        (sample.at >= self.end && below < wanted).then(|| {
            format!(
                "these steps were thinned when they were written: all that was kept is a sample of fraction {below}"
            )
        })
    }
}
