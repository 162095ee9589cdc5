//! The description of a column for people.

use crate::metadata::Metadata;

#[derive(Clone, Debug, serde::Serialize)]
pub struct ColumnInfo {
    pub name: String,
    pub data_type: String,
    pub nullable: bool,
    pub unit: Option<String>,
    /// The error bound of stored values: a number in the column's unit, or one followed by `rel`. `None` means
    /// exact.
    pub accuracy: Option<String>,
    pub metadata: Metadata,
    /// Added after creation, so older rows have its default.
    pub added: bool,
    /// `None` means null.
    pub default: Option<String>,
}
