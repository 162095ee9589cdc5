//! Estimates of tables whose rows are sampled with unequal probabilities.
//!
//! Totals and their functions use Horvitz and Thompson's estimator, so means, proportions and other ratios
//! of totals are Hájek's (Särndal, Swensson and Wretman, Model Assisted Survey Sampling, 1992, 5.7). Known
//! numbers of records and auxiliary variables are not used, because a sum in proportion to the weight would
//! get worse. Aggregates of the values themselves, such as quantiles, read all rows or are refused.

use crate::accumulate::Task;
use crate::options::EstimateOptions;
use kubist_types::error::{Error, Result};

/// True if an aggregate needs all rows of a table with weights.
///
/// # Errors
///
/// `Invalid` names the aggregate or the option that weights do not support.
pub(super) fn reads_all(task: &Task, options: &EstimateOptions, watched: bool, low: f64, end: f64) -> Result<bool> {
    if options.tails.is_some() {
        return Err(Error::invalid(
            "tails: the rows of this table are sampled with unequal probabilities; its weights should prefer the tails",
        ));
    }
    if low > 0.0 {
        return Err(Error::invalid(format!(
            "window: the rows of this table are sampled with unequal probabilities, and above {low} there are none of \
             large weight; ask for sample={end} or a window from 0"
        )));
    }
    let needs_all = |name: &&str| {
        let asked = task.aggregates.iter().find(|asked| asked.name == *name);
        let properties = asked.map(|asked| asked.bound.properties).unwrap_or_default();
        !properties.takes_certain && properties.extremum.is_none()
    };
    let names: Vec<&str> = task.aggregates.iter().map(|asked| asked.name.as_str()).filter(needs_all).collect();
    let limited =
        end < 1.0 || watched || options.within.is_some() || options.max_rows.is_some() || options.max_bytes.is_some();
    match names.is_empty() || !limited {
        true => Ok(!names.is_empty()),
        false => Err(Error::invalid(format!(
            "{}: the rows of this table are sampled with unequal probabilities, so this needs all rows; ask without \
             sample, within, max_rows, max_bytes and progressive",
            names.join(", ")
        ))),
    }
}
