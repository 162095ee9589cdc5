//! A column's name, type, unit and metadata.

use crate::metadata::Metadata;

/// A column as it is described to people.
#[derive(Clone, Debug, serde::Serialize)]
pub struct ColumnInfo {
    pub name: String,
    pub data_type: String,
    pub nullable: bool,
    pub unit: Option<String>,
    /// How far its stored values may be from those that were given, in its unit: a number, or one
    /// with `rel` behind it. `None`: they are the same.
    pub accuracy: Option<String>,
    /// The column's other metadata.
    pub metadata: Metadata,
    /// It came after the creation: data may lack it, and has its default then.
    pub added: bool,
    /// In words; none is null.
    pub default: Option<String>,
}
