//! The Kubist engine: tables of particles or catalogue rows in which any region, and a uniform random
//! sample of it, is fast to read.
//!
//! [`Table::create`] or [`Table::open`] returns a handle. [`Table::writer`] appends and commits rows.
//! [`Table::snapshot`] returns an immutable view, and [`Snapshot::query`] reads a region, in full or as a
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
//! // A directory, a URL such as cassandra://hosts/keyspace/table, or a store.
//! let table = Table::create(Arc::new(MemoryStore::new("run")), rows.schema(), &options)?;
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
//! [`Error::NoSpace`], [`Error::Permission`] or [`Error::Unsupported`]. `# Errors` sections mention this
//! only for calls without other errors.
//!
//! This crate combines the engine's lower layers; see ARCHITECTURE.md.

#![deny(missing_docs)]

mod advice;
mod explain;
mod info;
mod location;
mod partial;
mod recording;
mod sealed;
mod snapshot;
mod table;

pub use explain::{Explanation, HandleTraffic, Plan, Predicted, RequestTimes, Stages};
pub use info::{About, DeclaredWriters, DimensionInfo, Info, ThinnedSteps, WriterInfo};
pub use kubist_catalog::alter::NewColumn;
pub use kubist_catalog::token::SnapshotToken;
pub use kubist_estimate::{Absolute, Estimate, EstimateOptions, Figure, Stop};
pub use kubist_format::history::Declared;
pub use kubist_maintain::copy::CopyOptions;
pub use kubist_maintain::optimize::OptimizeReport;
pub use kubist_maintain::policy::OptimizeOptions;
pub use kubist_maintain::regrid::GridOptions;
pub use kubist_read::request::{Part, Request, RunOptions};
pub use kubist_read::splits::Split;
pub use kubist_read::stream::QueryStream;
pub use kubist_repair::salvage::SalvageReport;
pub use kubist_repair::verify::{VerifyOptions, VerifyReport};
pub use kubist_store as store;
pub use kubist_types::query::Region;
pub use kubist_types::{
    Accuracy, Bound, Cancel, ColumnInfo, CommitOptions, Compression, Dimension, Domain, Error, ErrorKind, Metadata,
    PerCell, QuerySpec as Query, Replication, Result, Stats, Strata, TableOptions, Thinned, Value, WriterOptions,
};
pub use kubist_write::writer::{Committed, Writer};
pub use location::Location;
pub use partial::PartialCopy;
pub use sealed::Packed;
pub use snapshot::Snapshot;
pub use table::{Regridded, Table};
