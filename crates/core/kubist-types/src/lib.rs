//! Types that all layers of the engine share, without I/O: errors, options, queries, costs and cancellation.

pub mod cancel;
pub mod compression;
pub mod dimensions;
pub mod error;
pub mod human;
pub mod info;
pub mod metadata;
pub mod options;
pub mod query;
pub mod shown;
pub mod stats;
pub mod steps;
pub mod thinned;
pub mod type_names;

pub use cancel::Cancel;
pub use compression::Compression;
pub use dimensions::dimensions_from_json;
pub use error::{Error, ErrorKind, Result};
pub use info::ColumnInfo;
pub use metadata::{Metadata, PERIOD, Period, SPHERE, sphere};
pub use options::{
    Accuracy, CommitOptions, Dimension, Domain, Replication, Strata, TableOptions, Value, WriterOptions,
};
pub use query::{Bound, PerCell, QuerySpec, SpecVersion, Width};
pub use stats::{Cost, Stats};
pub use thinned::{ColumnSum, Thinned};
