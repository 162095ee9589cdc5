//! Text for people, by the engine's rules.

use pyo3::prelude::*;

use crate::error::invalid;

/// Escapes control characters.
#[pyfunction]
pub fn printable(text: &str) -> String {
    kubist_types::shown::printable(text).into_owned()
}

/// Escapes control characters, but keeps line breaks.
#[pyfunction]
pub fn printable_lines(text: &str) -> String {
    kubist_types::shown::printable_lines(text).into_owned()
}

/// Each note has the reason and a suggestion.
#[pyfunction]
pub fn unit_notes(units: Vec<(String, String)>) -> Vec<String> {
    kubist_expr::unit_notes(units.iter().map(|(column, unit)| (column.as_str(), unit.as_str())))
}

/// The terms between commas outside quotes and parentheses; `None` if a term is empty, or a quote or a
/// parenthesis is not closed.
#[pyfunction]
pub fn terms(text: &str) -> Option<Vec<String>> {
    let terms = kubist_expr::split(text).filter(|terms| !terms.is_empty())?;
    Some(terms.into_iter().map(str::to_owned).collect())
}

/// Parses a duration to seconds.
#[pyfunction]
pub fn seconds(py: Python<'_>, text: &str) -> PyResult<f64> {
    kubist_expr::seconds(text).map_err(|error| invalid(py, &error.to_string()))
}

#[pyfunction]
pub fn without_password(location: &str) -> String {
    kubist_types::shown::without_password(location)
}

/// Writes `1536` as `1.5 KiB`.
#[pyfunction]
pub fn size(bytes: u64) -> String {
    kubist_types::human::bytes(bytes)
}

/// Writes `0.0123` seconds as `12.3 ms`.
#[pyfunction]
pub fn duration(seconds: f64) -> String {
    kubist_types::human::duration(seconds)
}

/// Writes three digits.
#[pyfunction]
pub fn fraction(share: f64) -> String {
    kubist_types::human::fraction(share)
}

/// Writes the significant digits.
#[pyfunction]
pub fn number(value: f64) -> String {
    kubist_types::human::number(value)
}

/// Text such as `3.02e-7 ± 0.26e-7 m`.
#[pyfunction]
#[pyo3(signature = (value, low, high, exact, unit))]
pub fn figure(value: Option<f64>, low: f64, high: f64, exact: bool, unit: Option<&str>) -> String {
    kubist_estimate::in_words(value, low, high, exact, unit)
}

/// Text such as `0.5:1 m`.
#[pyfunction]
#[pyo3(signature = (low, high, unit))]
pub fn bin_in_words(low: f64, high: f64, unit: Option<&str>) -> String {
    kubist_estimate::bin_in_words((low, high), unit)
}

/// Writes times as times, and other values as numbers.
#[pyfunction]
pub fn bound_in_words(value: f64, data_type: &str) -> String {
    kubist_estimate::bound_in_words(value, &data_type.parse().unwrap_or(arrow_schema::DataType::Null))
}

/// The texts have all digits; None is an unbounded end.
#[pyfunction]
#[pyo3(signature = (value, low, high, exact, unit))]
pub fn figure_of_texts(
    value: Option<&str>,
    low: Option<&str>,
    high: Option<&str>,
    exact: bool,
    unit: Option<&str>,
) -> String {
    kubist_estimate::texts_in_words([value, low, high], exact, unit)
}
