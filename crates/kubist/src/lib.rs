//! The Kubist engine: tables of point-like records that keep a uniform random
//! sample of every region at hand.
//!
//! [`Table::create`] or [`Table::open`] give a handle; [`Table::writer`] appends
//! and commits; [`Table::snapshot`] pins a moment, and [`Snapshot::query`] asks
//! it for any region at any precision. ARCHITECTURE.md walks through the modules.

mod build;
mod codec;
mod entry;
mod error;
mod fetch;
mod frame;
mod maps;
mod options;
mod query;
mod schema;
mod snapshot;
mod spill;
mod table;
mod verify;
mod writer;

pub use error::{Error, Result};
pub use kubist_store as store;
pub use options::*;
pub use query::{QueryStream, Refine};
pub use snapshot::{ColumnInfo, DimensionInfo, Info, Snapshot, WriterInfo};
pub use table::Table;
pub use verify::VerifyReport;
pub use writer::{Committed, Writer};
