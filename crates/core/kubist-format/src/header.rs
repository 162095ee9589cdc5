//! The `table` object: what a table is, fixed at its creation.

use std::collections::BTreeMap;

use arrow_ipc::writer::StreamWriter;
use arrow_schema::Schema;
use kubist_index::accuracy::Accuracy;
use kubist_index::outlook::Replication;
use kubist_ipc::Stream;
use kubist_types::{Compression, Metadata};
use serde::{Deserialize, Serialize};

use crate::error::EntryError;
use crate::wire::{MOST_STREAM_BYTES, Reader};

/// The newest version of the format that this code reads.
pub const FORMAT_VERSION: u32 = 3;
/// The versions of new tables: without bounds of errors, and with them, which a program that does
/// not know them must not write to.
const WITHOUT_BOUNDS: u32 = 2;
const WITH_BOUNDS: u32 = 3;

/// The version of a new table whose columns have these bounds: the oldest that can be.
pub fn version_of_new(accuracy: &BTreeMap<String, Accuracy>) -> u32 {
    if accuracy.is_empty() { WITHOUT_BOUNDS } else { WITH_BOUNDS }
}

/// What a table is, fixed at its creation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    pub format_version: u32,
    pub created_by: String,
    pub dimensions: Vec<HeaderDimension>,
    pub identity: Vec<String>,
    pub capacity: u32,
    pub seed: u64,
    /// How priorities are made; so far always "hash".
    pub priority: String,
    /// Tells it from another table that is made at its location.
    #[serde(default)]
    pub id: String,
    /// Which records the optimizer copies downwards.
    #[serde(default)]
    pub replication: Replication,
    /// How hard numbers are pressed, from version 2 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compression: Option<Compression>,
    /// Columns by whose values records are found without a scan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lookup: Vec<String>,
    /// How far stored values of columns may be from those that were given, from version 3 on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub accuracy: BTreeMap<String, Accuracy>,
    /// In a copy of a table without identity: put before the writers' names that
    /// stand in for one, so that its own rows are not taken for copied ones.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub writer_tag: String,
    /// The table's metadata, as of its creation.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
}

impl Header {
    /// How runs of the table are written, unless an alteration says otherwise: how hard numbers
    /// are pressed; `None`: as version 1 of the format has them.
    pub fn of_runs(&self) -> Option<Compression> {
        (self.format_version > 1).then(|| self.compression.unwrap_or_default())
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeaderDimension {
    pub column: String,
    /// "linear" or "quantile".
    pub scale: String,
    /// Given at creation; otherwise learned from the first commit.
    pub domain: Option<(f64, f64)>,
}

/// The `table` object: the header as JSON behind its length, then the schema as
/// an Arrow IPC stream without batches.
///
/// # Errors
///
/// Arrow's, if the schema cannot be encoded.
pub fn encode_header(header: &Header, schema: &Schema) -> Result<Vec<u8>, arrow_schema::ArrowError> {
    let json = serde_json::to_vec_pretty(header).expect("a header is plain data");
    let mut out = Vec::new();
    out.extend_from_slice(&(json.len() as u32).to_le_bytes());
    out.extend_from_slice(&json);
    StreamWriter::try_new(&mut out, schema)?.finish()?;
    Ok(out)
}

/// The inverse.
///
/// # Errors
///
/// [`EntryError::Bad`] if the bytes are no such thing, [`EntryError::Newer`] if a newer version
/// wrote them.
pub fn decode_header(bytes: &[u8]) -> Result<(Header, Schema), EntryError> {
    let mut reader = Reader::new(bytes);
    let length = reader.u32()? as usize;
    let json = reader.bytes(length)?;
    let bad = |error: &dyn std::fmt::Display| EntryError::Bad(error.to_string());
    let value: serde_json::Value = serde_json::from_slice(json).map_err(|error| bad(&error))?;
    let version = value["format_version"].as_u64().unwrap_or(0);
    if version > FORMAT_VERSION as u64 {
        return Err(EntryError::Newer(format!(
            "it has format version {version}; this Kubist reads up to {FORMAT_VERSION}"
        )));
    }
    let header: Header = serde_json::from_value(value).map_err(|error| bad(&error))?;
    if header.priority != "hash" {
        return Err(EntryError::Newer(format!("its priorities are of the kind {:?}", header.priority)));
    }
    let stream = Stream::begin(reader.rest(), MOST_STREAM_BYTES).map_err(|error| bad(&error))?;
    Ok((header, stream.schema().as_ref().clone()))
}
