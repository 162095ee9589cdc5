//! Text for people: the engine's own rules, for what Python prints.

use pyo3::prelude::*;

/// A name or a value on one line: characters that a terminal acts on are escaped.
#[pyfunction]
pub fn printable(text: &str) -> String {
    kubist::printable(text).into_owned()
}

/// The same for text of several lines, whose ends stay.
#[pyfunction]
pub fn printable_lines(text: &str) -> String {
    kubist::printable_lines(text).into_owned()
}

/// A location without its password and its token.
#[pyfunction]
pub fn without_password(location: &str) -> String {
    kubist::without_password(location)
}
