//! The `alterations/` objects: changes of a table after its creation.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{Field, Schema};
use kubist_index::accuracy::Accuracy;
use kubist_index::grid::Scale;
use kubist_index::strata::Strata;
use kubist_ipc::Stream;
use kubist_types::{Compression, Error, Metadata, Result};
use serde::{Deserialize, Serialize};

use crate::chain::Chain;
use crate::column_type::stored_type;
use crate::error::EntryError;
use crate::history::Declared;
use crate::names::ALTERATIONS;
use crate::wire::{MOST_STREAM_BYTES, Reader};

#[derive(Clone, Debug)]
pub enum Alteration {
    /// Adds a column. `default` is one value of the stored type, rounded to the error bound.
    AddColumn {
        field: Field,
        default: ArrayRef,
        accuracy: Option<Accuracy>,
    },
    /// Adds the column with the sample fraction of a record's step, null in existing rows.
    KeptBelow {
        column: String,
    },
    Set {
        column: Option<String>,
        values: Metadata,
    },
    Grid(NewGrid),
    Compression {
        compression: Compression,
    },
    Strata {
        strata: Strata,
    },
    Weight {
        scale: f64,
    },
    Writers(NewWriters),
}

/// Other writers, declared by a simulation that continues from a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewWriters {
    pub after: i64,
    pub writers: Declared,
    /// Number of rewrites at that time, which a reader applies first. Otherwise a step from the earlier writers
    /// that a rewrite retracted could appear complete with the new writers.
    pub rewrites: u64,
}

/// A published grid after the first, which never changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewGrid {
    /// The number of the grid, from 1.
    pub grid: u32,
    pub dimensions: Vec<GridDimension>,
    pub reason: String,
    /// Creation time in milliseconds since 1970.
    pub unix_ms: u64,
    /// Approximate number of rows in the table at that time.
    pub rows: u64,
    /// A token by which the creating process recognizes the grid.
    pub token: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GridDimension {
    pub column: String,
    pub scale: Scale,
}

#[derive(Serialize, Deserialize)]
struct Linked {
    previous: Chain,
    #[serde(flatten)]
    head: Head,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Head {
    AddColumn {
        accuracy: Option<Accuracy>,
    },
    KeptBelow {
        column: String,
    },
    Set {
        column: Option<String>,
        values: Metadata,
    },
    Grid(NewGrid),
    Compression {
        compression: Compression,
    },
    Strata {
        strata: Strata,
    },
    Weight {
        scale: f64,
    },
    Writers(NewWriters),
    #[serde(other)]
    Unknown,
}

pub fn name_of(number: u64) -> String {
    format!("{ALTERATIONS}{number:020}")
}

impl Alteration {
    /// Encodes the length of the JSON head, the head and, for a column, an Arrow IPC stream with the field and its
    /// default as one row. `previous` is the chain of the earlier alterations.
    ///
    /// # Errors
    ///
    /// `Invalid` or `Internal` if Arrow cannot encode the default.
    pub fn encode(&self, previous: Chain) -> Result<Vec<u8>> {
        let head = match self {
            Alteration::AddColumn { accuracy, .. } => Head::AddColumn { accuracy: *accuracy },
            Alteration::KeptBelow { column } => Head::KeptBelow { column: column.clone() },
            Alteration::Set { column, values } => Head::Set { column: column.clone(), values: values.clone() },
            Alteration::Grid(grid) => Head::Grid(grid.clone()),
            Alteration::Compression { compression } => Head::Compression { compression: *compression },
            Alteration::Strata { strata } => Head::Strata { strata: *strata },
            Alteration::Weight { scale } => Head::Weight { scale: *scale },
            Alteration::Writers(writers) => Head::Writers(writers.clone()),
        };
        let json = serde_json::to_vec(&Linked { previous, head }).map_err(Error::internal)?;
        let mut out = (json.len() as u32).to_le_bytes().to_vec();
        out.extend_from_slice(&json);
        if let Alteration::AddColumn { field, default, .. } = self {
            let value = arrow_cast::cast(default, field.data_type()).map_err(Error::invalid)?;
            let schema = Arc::new(Schema::new(vec![field.clone()]));
            let mut writer = StreamWriter::try_new(&mut out, &schema).map_err(Error::internal)?;
            let batch = RecordBatch::try_new(schema, vec![value]).map_err(Error::invalid)?;
            writer.write(&batch).and_then(|()| writer.finish()).map_err(Error::internal)?;
        }
        Ok(out)
    }

    /// Returns the chain before the alteration, and the alteration.
    ///
    /// # Errors
    ///
    /// [`EntryError`] if the bytes are invalid or from a newer version.
    pub fn decode(bytes: &[u8]) -> std::result::Result<(Chain, Alteration), EntryError> {
        let bad = |error: &dyn std::fmt::Display| EntryError::Bad(error.to_string());
        let mut reader = Reader::new(bytes);
        let length = reader.u32()? as usize;
        let linked = serde_json::from_slice(reader.bytes(length)?).map_err(|error| bad(&error))?;
        let Linked { previous, head } = linked;
        let alteration = match head {
            Head::KeptBelow { column } => Alteration::KeptBelow { column },
            Head::Set { column, values } => Alteration::Set { column, values },
            Head::Grid(grid) => {
                let scales = grid.dimensions.iter().map(|dimension| &dimension.scale);
                scales.map(Scale::check).collect::<std::result::Result<(), _>>().map_err(|error| bad(&error))?;
                Alteration::Grid(grid)
            }
            Head::Compression { compression } => Alteration::Compression { compression },
            Head::Strata { strata } => Alteration::Strata { strata },
            Head::Weight { scale } if scale > 0.0 && scale.is_finite() => Alteration::Weight { scale },
            Head::Weight { scale } => return Err(bad(&format!("{scale} is no scale of weights"))),
            Head::Writers(new) => match new.writers.size() {
                0 => return Err(bad(&"it declares no writer")),
                _ => Alteration::Writers(new),
            },
            Head::Unknown => {
                return Err(EntryError::Newer("it is an alteration of a kind that this version does not know".into()));
            }
            Head::AddColumn { accuracy } => {
                let mut stream = Stream::begin(reader.rest(), MOST_STREAM_BYTES).map_err(|error| bad(&error))?;
                let batch = stream.next().map_err(|error| bad(&error))?.ok_or_else(|| bad(&"it has no default"))?;
                if (batch.num_columns(), batch.num_rows()) != (1, 1) {
                    return Err(bad(&"it adds more or less than one column"));
                }
                let field = batch.schema().field(0).clone();
                let default = arrow_cast::cast(batch.column(0), &stored_type(field.data_type()));
                Alteration::AddColumn { field, default: default.map_err(|error| bad(&error))?, accuracy }
            }
        };
        Ok((previous, alteration))
    }
}
