//! The `table` object.

use std::collections::BTreeMap;

use arrow_ipc::writer::StreamWriter;
use arrow_schema::Schema;
use kubist_index::accuracy::Accuracy;
use kubist_index::outlook::Replication;
use kubist_index::strata::Strata;
use kubist_ipc::Stream;
use kubist_types::options::Sampling;
use kubist_types::{Compression, Metadata};
use serde::{Deserialize, Serialize};

use crate::error::EntryError;
use crate::wire::{MOST_STREAM_BYTES, Reader};

/// The format version of new tables; higher versions are refused.
pub const FORMAT_VERSION: u32 = 1;

/// Properties of a table that are fixed at creation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    pub format_version: u32,
    pub created_by: String,
    pub dimensions: Vec<HeaderDimension>,
    pub identity: Vec<String>,
    pub capacity: u32,
    pub seed: u64,
    /// A random id, which distinguishes the table from later tables at the same location.
    pub id: String,
    pub replication: Replication,
    /// The compression, unless an alteration changes it.
    pub compression: Compression,
    #[serde(default, skip_serializing_if = "Strata::is_default")]
    pub strata: Strata,
    #[serde(default, skip_serializing_if = "Sampling::is_uniform")]
    pub sampling: Sampling,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lookup: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub accuracy: BTreeMap<String, Accuracy>,
    /// A prefix for writers' names where they replace a missing identity. Each copy has its own prefix, so its new rows
    /// get other priorities than its copied rows.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub writer_tag: String,
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeaderDimension {
    pub column: String,
    /// "linear" or "quantile".
    pub scale: String,
    /// The domain, if given at creation; otherwise learned from the first commit.
    pub domain: Option<(f64, f64)>,
}

/// Encodes the length of the JSON header, the header, and the schema as an Arrow IPC stream.
///
/// # Errors
///
/// Arrow's error, if the schema cannot be encoded.
pub fn encode_header(header: &Header, schema: &Schema) -> Result<Vec<u8>, arrow_schema::ArrowError> {
    let json = serde_json::to_vec_pretty(header).expect("a header is plain data");
    let mut out = Vec::new();
    out.extend_from_slice(&(json.len() as u32).to_le_bytes());
    out.extend_from_slice(&json);
    StreamWriter::try_new(&mut out, schema)?.finish()?;
    Ok(out)
}

/// # Errors
///
/// [`EntryError`] if the bytes are invalid or from a newer version.
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
