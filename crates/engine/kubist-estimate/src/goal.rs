//! The absolute goal of an estimate.

use kubist_expr::error_in;
use kubist_types::error::{Error, Result};
use serde::Deserialize;

/// Largest half-width of every interval, in the figure's unit.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Absolute {
    Number(f64),
    /// A text such as `0.1 mas`, converted to the unit of the value.
    Quantity(String),
}

impl Absolute {
    /// The goal in `unit`, the unit of the figures of `aggregate`.
    ///
    /// # Errors
    ///
    /// `Invalid` if the goal is not above 0, or has another dimension than the figures.
    pub fn of(&self, aggregate: &str, unit: Option<&str>) -> Result<f64> {
        let refused = |what: String| Err(Error::invalid(what));
        let (size, text) = match (self, unit) {
            (Absolute::Number(size), _) => (*size, size.to_string()),
            (Absolute::Quantity(text), Some(unit)) => match error_in(text, unit, aggregate) {
                Ok(Some(size)) => (size, text.clone()),
                Ok(None) => {
                    return refused(format!(
                        "the goal {text:?} is neither a number nor a number with a unit, such as '0.1 mm'"
                    ));
                }
                Err(error) => return refused(format!("the goal: {error}")),
            },
            (Absolute::Quantity(text), None) => {
                return refused(format!(
                    "the goal {text} has a unit but {aggregate} has none: estimate it separately, or give a number \
                     such as '0.01 abs'"
                ));
            }
        };
        match size > 0.0 && size.is_finite() {
            true => Ok(size),
            false => refused(format!("absolute must be above 0, found {text}")),
        }
    }
}
