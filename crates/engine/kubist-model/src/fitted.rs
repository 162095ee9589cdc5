//! The scalability model of one location, with what it was fitted to.

use serde::{Deserialize, Serialize};

use crate::fit::{Fit, Measured};

/// The scalability model of one location, and what it was fitted to. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fitted {
    /// Without a password.
    pub location: String,
    /// The nodes of a cluster; none of a directory.
    pub hosts: Vec<String>,
    /// Of the table at the location, if there is one.
    pub table: Option<TableSize>,
    /// What this machine needs to decode stored bytes of records, on all cores.
    pub decode_ms_per_byte: f64,
    #[serde(flatten)]
    /// The model and how well it fits.
    pub fit: Fit,
    /// What it was fitted to.
    pub measured: Vec<Measured>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
/// What a model needs to know of a table to speak of its queries.
pub struct TableSize {
    /// Its rows.
    pub rows: u64,
    /// Stored bytes of a row, of all columns.
    pub bytes_per_row: f64,
    /// Rows of a cube: the table's capacity.
    pub capacity: u32,
}
