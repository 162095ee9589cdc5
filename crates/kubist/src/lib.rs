//! The Kubist engine: tables of point-like records that keep a uniform random
//! sample of every region at hand.
//!
//! [`Table::create`] or [`Table::open`] give a handle; [`Table::writer`] appends
//! and commits; [`Table::snapshot`] pins a moment, and [`Snapshot::query`] asks
//! it for any region at any precision. ARCHITECTURE.md walks through the modules.

mod alter;
mod bucket;
mod build;
mod checkpoint;
mod clean;
mod codec;
mod column_type;
mod copy;
mod create;
mod default;
mod directory;
mod disk_use;
mod drop;
mod entry;
mod error;
mod estimate;
mod explain;
mod fetch;
mod frame;
mod heal;
mod heat;
mod history;
mod lease;
mod lookup;
mod maps;
mod measure;
mod mend;
mod moment;
mod optimize;
mod options;
mod output;
mod place;
mod query;
mod ranges;
mod replicate;
mod rewrite;
mod ring;
mod runs;
mod salvage;
mod schema;
mod seen;
mod shown;
mod snapshot;
mod sound;
mod spill;
mod splits;
mod survey;
mod table;
mod trace;
mod verify;
pub mod workers;
mod writer;

pub use alter::{Metadata, NewColumn};
pub use clean::Cleaning;
pub use copy::{Copied, CopyOptions};
pub use disk_use::DiskUse;
pub use drop::Dropped;
pub use error::{Error, Result};
pub use estimate::{Estimate, EstimateOptions, Estimation, Figure, Stop};
pub use explain::{Explanation, Predicted, RequestTimes, Stages};
pub use heal::Healing;
pub use history::Declared;
pub use kubist_model as model;
pub use kubist_store as store;
pub use measure::{Fitted, TableSize};
pub use moment::Moment;
pub use optimize::{OptimizeOptions, OptimizeReport};
pub use options::*;
pub use query::{QueryStream, Refine};
pub use rewrite::Retraction;
pub use salvage::SalvageReport;
pub use shown::{printable, printable_lines, without_password};
pub use snapshot::{ColumnInfo, DimensionInfo, Info, Snapshot, WriterInfo};
pub use sound::{Extent, Loss};
pub use splits::Split;
pub use table::Table;
pub use trace::Trace;
pub use verify::{VerifyOptions, VerifyReport};
pub use writer::{Committed, Writer};
