use std::time::Duration;

use crate::goal::Absolute;
use kubist_read::request::RunOptions;
use kubist_types::QuerySpec;
use kubist_types::error::{Error, Result};
use kubist_types::human;

/// Aggregates, records and goals of an estimate.
///
/// Reading stops when all goals (`error`, `absolute`) or one of the limits (`query.sample`, `within`, `max_rows`,
/// `max_bytes`) are reached. Without goals and limits, the goal is a relative error of 1 %.
#[derive(Clone, Debug)]
pub struct EstimateOptions {
    /// Calls such as `mean(ux)`, `p95(diameter)` or `histogram(x, 20)`; a text can hold several, separated by commas.
    /// `AS` names an aggregate (see docs/estimates.md).
    pub aggregates: Vec<String>,
    /// Columns and expressions such as `kind` or `bin(diameter, 1e-6)`; a text can hold several, separated by commas
    /// (see docs/expressions.md).
    pub group_by: Vec<String>,
    /// `window` and `sample` limit the priorities to read; figures still describe all records. `limit`,
    /// `per_cell`, `order_by` and `columns` are refused.
    pub query: QuerySpec,
    /// With `part`, figures describe that part only.
    pub run: RunOptions,
    /// Largest half-width of an interval, relative to its value.
    pub error: Option<f64>,
    /// Largest half-width of an interval, in the unit of the value or in a unit of the same dimension.
    pub absolute: Option<Absolute>,
    pub within: Option<Duration>,
    /// The limit is approximate.
    pub max_rows: Option<u64>,
    /// The limit is approximate.
    pub max_bytes: Option<u64>,
    /// Coverage probability of the intervals, in (0, 1).
    pub confidence: f64,
    /// Fraction of records in each tail that is read completely, in (0, 0.1]: for sums, means, ratios and
    /// variances of columns with heavy tails.
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

pub fn check(options: &EstimateOptions) -> Result<()> {
    let EstimateOptions { query, confidence, error, tails, .. } = options;
    if options.aggregates.is_empty() {
        return Err(Error::invalid("no aggregate is given: name at least one aggregate, such as mean(x)"));
    }
    let chosen = query.limit.is_some() || query.per_cell.is_some() || query.columns.is_some();
    if chosen || query.order_by.is_some() {
        return Err(Error::invalid(
            "an estimate takes no limit, no per_cell, no columns and no order_by: max_rows limits the records read",
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
