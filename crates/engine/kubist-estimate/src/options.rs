//! What a caller asks of an estimate.

use std::time::Duration;

use crate::goal::Absolute;
use kubist_read::request::RunOptions;
use kubist_types::QuerySpec;
use kubist_types::error::{Error, Result};
use kubist_types::human;

/// What to estimate, of which records, and how well.
///
/// Reading stops as soon as the goals (`error`, `absolute`) are reached, or one of the
/// bounds (`query.sample`, `within`, `max_rows`, `max_bytes`). Without any of them the goal is a
/// relative error of 1 %.
#[derive(Clone, Debug)]
pub struct EstimateOptions {
    /// As `mean(ux)`, `p95(diameter)`, `histogram(x, 20)`, or several between commas; see
    /// docs/estimates.md.
    pub aggregates: Vec<String>,
    /// Columns and expressions by whose values records are grouped, as `kind` or
    /// `bin(diameter, 1e-6)`, or several between commas; see docs/expressions.md.
    pub group_by: Vec<String>,
    /// Which records: box, filter, steps; `window` and `sample` bound the priorities that
    /// are read, and figures are of all records.
    /// It takes no limit, no cells and no columns.
    pub query: QuerySpec,
    /// How they are read; `part` makes figures of that part.
    pub run: RunOptions,
    /// Half of each interval is at most this share of its value.
    pub error: Option<f64>,
    /// Half of each interval is at most this, in the unit of the value or in another of its kind.
    pub absolute: Option<Absolute>,
    /// Time to answer in.
    pub within: Option<Duration>,
    /// About how many records are read at most.
    pub max_rows: Option<u64>,
    /// About how many bytes are read at most.
    pub max_bytes: Option<u64>,
    /// How often intervals hold the truth.
    pub confidence: f64,
    /// This share of the records at either end of each argument's values is read whatever
    /// its priority, so that a heavy tail adds no chance. For sums, means, ratios and
    /// variances of columns.
    pub tails: Option<f64>,
}

impl Default for EstimateOptions {
    fn default() -> EstimateOptions {
        EstimateOptions {
            aggregates: vec![],
            group_by: vec![],
            query: QuerySpec::default(),
            run: RunOptions::default(),
            error: None,
            absolute: None,
            within: None,
            max_rows: None,
            max_bytes: None,
            confidence: 0.95,
            tails: None,
        }
    }
}

/// Refuses options that make no sense.
pub fn check(options: &EstimateOptions) -> Result<()> {
    let EstimateOptions { query, confidence, error, tails, .. } = options;
    if options.aggregates.is_empty() {
        return Err(Error::invalid("estimate what? Name at least one aggregate, like mean(x)"));
    }
    let chosen = query.limit.is_some() || query.per_cell.is_some() || query.columns.is_some();
    if chosen || query.order_by.is_some() {
        return Err(Error::invalid(
            "an estimate takes no limit, no per_cell, no columns and no order: max_rows bounds what is read",
        ));
    }
    if let Some(sample) = query.sample {
        let low = query.window.map_or(0.0, |window| window.0);
        if !(sample > low && sample <= 1.0) {
            return Err(Error::invalid(format!("sample must be above {low} and at most 1, found {sample}")));
        }
    }
    if !(*confidence > 0.0 && *confidence < 1.0) {
        return Err(Error::invalid(format!("confidence must be between 0 and 1, found {confidence}")));
    }
    if let Some(error) = error.filter(|error| !(*error > 0.0 && error.is_finite())) {
        return Err(Error::invalid(format!("error must be above 0, found {error}")));
    }
    if let Some(error) = error.filter(|error| *error >= 1.0) {
        let percent = human::number(error * 100.0);
        return Err(Error::invalid(format!(
            "an error of {error} is {percent} % of the value: write '{error}%', or '{error} abs' in the value's unit"
        )));
    }
    if let Some(share) = tails.filter(|share| !(*share > 0.0 && *share <= 0.1)) {
        return Err(Error::invalid(format!("tails must be in (0, 0.1], found {share}")));
    }
    if options.max_rows == Some(0) || options.max_bytes == Some(0) {
        return Err(Error::invalid("max_rows and max_bytes must be above 0"));
    }
    Ok(())
}
