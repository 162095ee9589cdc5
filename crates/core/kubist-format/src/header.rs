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

/// The version of the format: new tables have it, and a table of a higher one is refused.
pub const FORMAT_VERSION: u32 = 1;

/// What a table is, fixed at its creation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    pub format_version: u32,
    pub created_by: String,
    pub dimensions: Vec<HeaderDimension>,
    pub identity: Vec<String>,
    pub capacity: u32,
    pub seed: u64,
    /// Tells it from another table that is made at its location.
    pub id: String,
    /// Which records the optimizer copies downwards.
    pub replication: Replication,
    /// Which encodings writers choose from, unless an alteration says otherwise.
    pub compression: Compression,
    /// Columns by whose values records are found without a scan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lookup: Vec<String>,
    /// How far stored values of columns may be from those that were given.
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
    let stream = Stream::begin(reader.rest(), MOST_STREAM_BYTES).map_err(|error| bad(&error))?;
    Ok((header, stream.schema().as_ref().clone()))
}
