//! Errors of drawing.

use arrow_schema::{ArrowError, DataType};
use kubist_types::Cancel;

pub(crate) type Steps<'a> = kubist_index::gradual::Steps<'a, Cancel>;

/// An error of drawing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A batch lacks a column.
    #[error("the result has no column {column:?}")]
    Missing {
        /// The column.
        column: String,
    },
    /// The values of a column are not numbers, dates or times.
    #[error("column {column:?} ({data_type}) cannot be drawn: it must contain numbers, dates or times")]
    NotDrawable {
        /// The column.
        column: String,
        /// Its type.
        data_type: DataType,
    },
    /// The values of a column cannot be converted to numbers.
    #[error("column {column:?}: {source}")]
    Values {
        /// The column.
        column: String,
        /// Arrow's error.
        source: ArrowError,
    },
    /// A column of strings has too many different ones.
    #[error("column {column:?} has more than {most} different texts: colours cannot show them")]
    TooManyTexts {
        /// The column.
        column: String,
        /// Most that can be drawn.
        most: usize,
    },
    /// The output could not be written.
    #[error("cannot write the plot: {0}")]
    Io(#[source] std::io::Error),
    /// The cancel switch was set.
    #[error("cancelled")]
    Cancelled,
    /// The image cannot be encoded in this format.
    #[error("cannot write the plot: {0}")]
    Encoding(String),
}

impl From<kubist_types::Error> for Error {
    /// Drawing calls the engine only to check for cancellation.
    fn from(_: kubist_types::Error) -> Error {
        Error::Cancelled
    }
}
