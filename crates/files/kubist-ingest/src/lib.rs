//! Ingestion: files of any format become commits of a table.
//!
//! The driver [`ingest`] opens the files, creates or checks the table, and commits each step that the table lacks. A
//! [`Host`] opens files and shows progress. A file is a [`Source`] of facts, steps and batches of rows: [`Native`] for
//! Parquet, Arrow, CSV and NPZ, and a source in the Python package for formats that Python libraries read.
//!
//! Guarantees:
//!
//! - A step is committed as a whole, with a token from its file and label. A repeated call skips it.
//! - A file that fails leaves no rows and no columns. A new table without rows is deleted.
//! - A value that does not fit into the table's column is an error with file, column and row.
//! - Each part of a file is in the table, or in the report with the reason.

mod appender;
mod error;
mod headers;
mod ingestion;
mod narrow;
mod native;
mod paths;
mod plan;
mod report;
mod request;
mod rows;
mod source;
mod table;
mod union;

pub use error::{Error, Failed, Result};
pub use ingestion::ingest;
pub use native::Native;
pub use paths::expanded;
pub use plan::plan;
pub use report::{Ordered, Parts, Plan, Report, Taken, outside};
pub use request::{NewTable, Request};
pub use source::{Facts, Host, IngestedSteps, Opened, Progress, Source, State, Step};
