use serde::{Deserialize, Serialize};

use crate::fit::{Fit, Measured};

/// The scalability model of a location, and its measurements, with sizes in bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fitted {
    /// The location, without a password.
    pub location: String,
    /// The nodes of a cluster; empty for a directory.
    pub hosts: Vec<String>,
    pub table: Option<TableSize>,
    /// Time of this machine to decode stored bytes of rows, on all cores.
    pub decode_ms_per_byte: f64,
    #[serde(flatten)]
    pub fit: Fit,
    pub measured: Vec<Measured>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableSize {
    pub rows: u64,
    /// Stored bytes of a row over all columns.
    pub bytes_per_row: f64,
    pub capacity: u32,
}
