//! The Kubist engine: tables of particles or catalogue rows, laid out so that a uniform random sample of any region
//! is fast to read.
//!
//! [`Table::create`] or [`Table::open`] returns a handle. [`Table::writer`] appends and commits rows.
//! [`Table::snapshot`] returns an immutable view, and [`Snapshot::query`] reads any region of it, in full or as a
//! sample.
//!
//! ```
//! use std::sync::Arc;
//!
//! use arrow_array::{ArrayRef, Float64Array, RecordBatch};
//! use kubist::store::MemoryStore;
//! use kubist::{Dimension, Domain, Query, Table, TableOptions, WriterOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let x: ArrayRef = Arc::new(Float64Array::from_iter_values((0..10_000).map(|n| n as f64 / 1e4)));
//! let rows = RecordBatch::try_from_iter([("x", x)])?;
//!
//! let dimensions = vec![Dimension { column: "x".into(), domain: Domain::Learned }];
//! let options = TableOptions { dimensions, ..TableOptions::default() };
//! // Table::create takes a location: a directory, or cassandra://hosts/keyspace/table.
//! let table = Table::create_in(Arc::new(MemoryStore::new("run")), rows.schema(), &options)?;
//!
//! let mut writer = table.writer(&WriterOptions::default())?;
//! writer.append(&rows)?;
//! writer.commit()?;
//!
//! // A uniform sample of a region: the records whose priority is below 0.1.
//! let query = Query::new().between("x", kubist::Value::Float(0.2), kubist::Value::Float(0.4)).sample(0.1);
//! let mut found = 0;
//! for batch in table.snapshot()?.query(&query)? {
//!     found += batch?.num_rows();
//! }
//! assert!((150..250).contains(&found));
//! # Ok(())
//! # }
//! ```
//!
//! Every call that reads or writes the store can fail with a storage error: [`Error::Unavailable`],
//! [`Error::NoSpace`], [`Error::Permission`] or [`Error::Unsupported`]. An `# Errors` section mentions it only if
//! the call has no other error.
//!
//! This crate only combines the engine's lower layers, which ARCHITECTURE.md describes.

#![deny(missing_docs)]

mod explain;
mod info;
mod schemes;
mod snapshot;
mod table;

pub use explain::{Explanation, HandleTraffic, Plan, Predicted, RequestTimes, Stages};
pub use info::{About, DeclaredWriters, DimensionInfo, Info, ThinnedSteps, WriterInfo};
pub use kubist_cache as cache;
pub use kubist_catalog::alter::NewColumn;
pub use kubist_catalog::schema::KEPT_BELOW;
pub use kubist_catalog::token::SnapshotToken;
pub use kubist_catalog::trace::Trace;
pub use kubist_estimate::{
    Absolute, Estimate, EstimateOptions, Estimation, Figure, Outlook, Own, Stop, bin_in_words, estimate_of,
    estimates_of, in_words, texts_in_words, values_in_words,
};
pub use kubist_expr::{ExprError, Meant, column_index, in_unit_of, nearest, seconds, unit_notes};
pub use kubist_format::history::Declared;
pub use kubist_maintain::background::ReadOptimizer;
pub use kubist_maintain::clean::Cleaning;
pub use kubist_maintain::column_use::{ColumnUse, ColumnsUse};
pub use kubist_maintain::copy::{Copied, CopyOptions};
pub use kubist_maintain::disk_use::DiskUse;
pub use kubist_maintain::drop::Dropped;
pub use kubist_maintain::optimize::OptimizeReport;
pub use kubist_maintain::policy::OptimizeOptions;
pub use kubist_maintain::regrid::GridOptions;
pub use kubist_maintain::retract::Retraction;
pub use kubist_model as model;
pub use kubist_read::plan::PlanOutline;
pub use kubist_read::refine::Refine;
pub use kubist_read::request::{Part, Request, RunOptions};
pub use kubist_read::splits::Split;
pub use kubist_read::stream::QueryStream;
pub use kubist_read::workers;
pub use kubist_repair::readable::{Extent, Loss};
pub use kubist_repair::salvage::SalvageReport;
pub use kubist_repair::verify::{VerifyOptions, VerifyReport};
pub use kubist_store as store;
pub use kubist_types::human;
pub use kubist_types::shown::{printable, printable_lines, without_password};
pub use kubist_types::steps;
pub use kubist_types::type_names::data_type;
pub use kubist_types::{
    Accuracy, Bound, Cancel, ColumnInfo, ColumnSum, CommitOptions, Compression, Dimension, Domain, Error, ErrorKind,
    Metadata, PerCell, QuerySpec, Replication, Result, SpecVersion, Stats, TableOptions, Thinned, Value, Width,
    WriterOptions, dimensions_from_json,
};
pub use kubist_write::writer::{Committed, Writer};
pub use snapshot::Snapshot;
pub use table::{Regridded, Table, read_split};

/// The usual name of a [`QuerySpec`], which selects the rows of a result.
pub type Query = QuerySpec;
