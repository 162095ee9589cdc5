//! Why there is no picture.

use arrow_schema::{ArrowError, DataType};
use kubist_types::Cancel;

/// Looks at a switch once in a few thousand steps.
pub(crate) type Steps<'a> = kubist_index::gradual::Steps<'a, Cancel>;

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A batch lacks a column: name another one.
    #[error("no column {column:?}")]
    Missing {
        /// Its name.
        column: String,
    },
    /// A column's values are no numbers, dates or times: name another one.
    #[error("column {column:?} ({data_type}) cannot be drawn")]
    NotDrawable {
        /// Its name.
        column: String,
        /// What it holds.
        data_type: DataType,
    },
    /// A column's values do not become numbers.
    #[error("column {column:?}: {source}")]
    Values {
        /// Its name.
        column: String,
        /// What Arrow said.
        source: ArrowError,
    },
    /// The picture's bytes could not be written.
    #[error("the picture: {0}")]
    Io(#[source] std::io::Error),
    /// The switch was set that stops drawing.
    #[error("cancelled")]
    Cancelled,
    /// There is no PNG of this picture.
    #[error("the picture: {0}")]
    Encoding(String),
}

impl From<kubist_types::Error> for Error {
    /// Drawing asks the engine for nothing but whether to go on.
    fn from(_: kubist_types::Error) -> Error {
        Error::Cancelled
    }
}
