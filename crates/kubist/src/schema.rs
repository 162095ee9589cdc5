//! A table's columns: as the user sees them, as they are stored, and the way
//! between the two.
//!
//! Stored columns are plain: dictionaries and views become their values. Behind
//! the user's columns stands a hidden one, the step of the simulation; a table
//! without identity gets two more, the writer's name and a row counter, which
//! stand in. Bad columns are refused here, by name, before a row
//! is touched.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, StringArray, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kubist_index::{order, priority};

use crate::error::{Error, Result};
use crate::options::TableOptions;

/// The longest text or binary value.
const MOST_BYTES: usize = 1 << 20;
/// The hidden column of every table.
pub const STEP: &str = "_kubist_step";
/// The step of rows that were committed without one.
pub const NO_STEP: i64 = i64::MIN;
/// Hidden identity columns of a table without identity.
const WRITER: &str = "_kubist_writer";
const ROW: &str = "_kubist_row";

#[derive(Debug)]
pub struct TableSchema {
    /// As the user sees it.
    pub user: SchemaRef,
    /// As it is stored: the user's columns in their order, then the hidden ones.
    pub stored: SchemaRef,
    /// Stored columns that are dimensions, in their order.
    pub dimensions: Vec<usize>,
    /// Stored columns that decide the priority, in their order.
    pub identity: Vec<usize>,
    hidden: bool,
}

impl TableSchema {
    pub fn new(schema: &Schema, options: &TableOptions) -> Result<TableSchema> {
        let names: Vec<&str> = options.dimensions.iter().map(|dimension| dimension.column.as_str()).collect();
        TableSchema::from_names(schema, &names, &options.identity)
    }

    pub fn from_names(schema: &Schema, dimensions: &[&str], identity: &[String]) -> Result<TableSchema> {
        let mut user = Vec::new();
        for (place, field) in schema.fields().iter().enumerate() {
            let name = field.name();
            if schema.fields()[..place].iter().any(|other| other.name() == name) {
                return Err(Error::invalid(format!("column {name:?} appears twice")));
            }
            if [STEP, WRITER, ROW].contains(&name.as_str()) {
                return Err(Error::invalid(format!("the column name {name:?} is reserved")));
            }
            let data_type = user_type(field.data_type()).ok_or_else(|| {
                Error::invalid(format!("column {name:?} has the type {}, which is not supported", field.data_type()))
            })?;
            user.push(Arc::new(field.as_ref().clone().with_data_type(data_type)));
        }
        let find = |name: &str, role: &str| {
            schema.index_of(name).map_err(|_| {
                let known: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
                Error::invalid(format!(
                    "the {role} column {name:?} is not in the data; its columns are {}",
                    known.join(", ")
                ))
            })
        };
        if dimensions.is_empty() || dimensions.len() > kubist_index::cube::MAX_DIMENSIONS {
            return Err(Error::invalid(format!("a table has 1 to 8 dimensions, found {}", dimensions.len())));
        }
        let mut places = Vec::new();
        for name in dimensions {
            let place = find(name, "dimension")?;
            if !order::is_dimension_type(schema.field(place).data_type()) {
                let data_type = schema.field(place).data_type();
                return Err(Error::invalid(format!(
                    "column {name:?} has the type {data_type} and cannot be a dimension: \
                     dimensions are integers, floats, dates, times or timestamps"
                )));
            }
            if places.contains(&place) {
                return Err(Error::invalid(format!("column {name:?} is given twice as a dimension")));
            }
            places.push(place);
        }
        let mut identities = Vec::new();
        for name in identity {
            let place = find(name, "identity")?;
            if !priority::is_identity_type(schema.field(place).data_type()) {
                let data_type = schema.field(place).data_type();
                return Err(Error::invalid(format!(
                    "column {name:?} has the type {data_type} and cannot be an identity"
                )));
            }
            if identities.contains(&place) {
                return Err(Error::invalid(format!("column {name:?} is given twice in the identity")));
            }
            identities.push(place);
        }
        let hidden = identity.is_empty();
        let mut stored: Vec<Arc<Field>> = user
            .iter()
            .map(|field| Arc::new(field.as_ref().clone().with_data_type(stored_type(field.data_type()))))
            .collect();
        stored.push(Arc::new(Field::new(STEP, DataType::Int64, false)));
        if hidden {
            identities = vec![stored.len(), stored.len() + 1];
            stored.push(Arc::new(Field::new(WRITER, DataType::Utf8, false)));
            stored.push(Arc::new(Field::new(ROW, DataType::UInt64, false)));
        }
        Ok(TableSchema {
            user: Arc::new(Schema::new_with_metadata(user, schema.metadata().clone())),
            stored: Arc::new(Schema::new_with_metadata(stored, schema.metadata().clone())),
            dimensions: places,
            identity: identities,
            hidden,
        })
    }

    /// A user's batch in stored form. Columns are matched by name, in any order;
    /// `first_row` counts the writer's rows before it.
    pub fn to_stored(&self, batch: &RecordBatch, writer: &str, first_row: u64) -> Result<RecordBatch> {
        let given = batch.schema();
        for field in given.fields() {
            if self.user.index_of(field.name()).is_err() {
                return Err(Error::invalid(format!(
                    "column {:?} of the data is not in the table; its columns are {}",
                    field.name(),
                    column_names(&self.user)
                )));
            }
        }
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.stored.fields().len());
        for (field, stored) in self.user.fields().iter().zip(self.stored.fields()) {
            let name = field.name();
            let array = batch.column_by_name(name).ok_or_else(|| {
                Error::invalid(format!(
                    "column {name:?} of the table is missing in the data; it has {}",
                    column_names(&given)
                ))
            })?;
            let array = to_type(array, stored.data_type()).ok_or_else(|| {
                let (found, wanted) = (array.data_type(), field.data_type());
                Error::invalid(format!("column {name:?} has the type {found} in the data and {wanted} in the table"))
            })??;
            if !stored.is_nullable() && array.null_count() > 0 {
                let row = (0..array.len()).find(|row| array.is_null(*row)).unwrap_or(0);
                return Err(Error::invalid(format!(
                    "column {name:?} must not be null, and is in row {row} of the batch"
                )));
            }
            check_lengths(name, &array)?;
            columns.push(array);
        }
        let rows = batch.num_rows();
        columns.push(Arc::new(Int64Array::from_value(NO_STEP, rows)));
        if self.hidden {
            columns.push(Arc::new(StringArray::from_iter_values(std::iter::repeat_n(writer, rows))));
            columns.push(Arc::new(UInt64Array::from_iter_values(first_row..first_row + rows as u64)));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(self.stored.clone(), columns, &options)?)
    }

    /// Where the hidden step column stands.
    pub fn step(&self) -> usize {
        self.user.fields().len()
    }

    /// The same rows, all of one step.
    pub fn with_step(&self, batch: RecordBatch, step: Option<i64>) -> Result<RecordBatch> {
        let Some(step) = step else { return Ok(batch) };
        let mut columns = batch.columns().to_vec();
        columns[self.step()] = Arc::new(Int64Array::from_value(step, batch.num_rows()));
        Ok(RecordBatch::try_new(batch.schema(), columns)?)
    }

    /// A stored column as the user sees it.
    pub fn to_user(&self, column: usize, array: ArrayRef) -> Result<ArrayRef> {
        let wanted = self.user.field(column).data_type();
        if array.data_type() == wanted { Ok(array) } else { Ok(arrow_cast::cast(&array, wanted)?) }
    }

    /// The user's column of this name.
    pub fn column(&self, name: &str) -> Result<usize> {
        self.user.index_of(name).map_err(|_| {
            Error::invalid(format!("there is no column {name:?}; the table has {}", column_names(&self.user)))
        })
    }
}

/// Refuses values too long to be held in a page of thousands of them.
fn check_lengths(name: &str, array: &ArrayRef) -> Result<()> {
    let length: Box<dyn Fn(usize) -> usize> = match array.data_type() {
        DataType::Utf8 => Box::new(|row| array.as_string::<i32>().value_length(row) as usize),
        DataType::LargeUtf8 => Box::new(|row| array.as_string::<i64>().value_length(row) as usize),
        DataType::Binary => Box::new(|row| array.as_binary::<i32>().value_length(row) as usize),
        DataType::LargeBinary => Box::new(|row| array.as_binary::<i64>().value_length(row) as usize),
        DataType::FixedSizeBinary(length) if *length as usize > MOST_BYTES => Box::new(|_| *length as usize),
        _ => return Ok(()),
    };
    match (0..array.len()).find(|row| length(*row) > MOST_BYTES) {
        None => Ok(()),
        Some(row) => Err(Error::invalid(format!(
            "column {name:?} holds {} bytes in row {row} of the batch; a value may have up to {MOST_BYTES}",
            length(row)
        ))),
    }
}

fn column_names(schema: &Schema) -> String {
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    names.join(", ")
}

/// The type under which a table keeps a column; `None`: not supported.
/// Dictionaries get 32-bit keys, because a batch of an answer may hold more
/// distinct values than any batch that was written.
fn user_type(data_type: &DataType) -> Option<DataType> {
    use DataType::*;
    match data_type {
        Boolean
        | Int8
        | Int16
        | Int32
        | Int64
        | UInt8
        | UInt16
        | UInt32
        | UInt64
        | Float16
        | Float32
        | Float64
        | Date32
        | Date64
        | Time32(_)
        | Time64(_)
        | Timestamp(_, _)
        | Duration(_)
        | Interval(_)
        | Utf8
        | LargeUtf8
        | Utf8View
        | Binary
        | LargeBinary
        | BinaryView
        | FixedSizeBinary(_)
        | Decimal32(_, _)
        | Decimal64(_, _)
        | Decimal128(_, _)
        | Decimal256(_, _) => Some(data_type.clone()),
        Dictionary(_, values) if !matches!(values.as_ref(), Dictionary(_, _)) => {
            // arrow-cast packs dictionaries of these value types.
            let packs = values.is_integer()
                || matches!(
                    values.as_ref(),
                    Float16
                        | Float32
                        | Float64
                        | Utf8
                        | LargeUtf8
                        | Binary
                        | LargeBinary
                        | Decimal128(_, _)
                        | Date32
                        | Date64
                        | Time32(_)
                        | Time64(_)
                        | Timestamp(_, _)
                );
            packs.then(|| Dictionary(Box::new(Int32), values.clone()))
        }
        _ => None,
    }
}

/// The plain type that holds the same values.
fn stored_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => stored_type(values),
        DataType::Utf8View => DataType::LargeUtf8,
        DataType::BinaryView => DataType::LargeBinary,
        other => other.clone(),
    }
}

/// An array as `wanted`, if nothing is lost by it: the same values in another
/// layout, or a wider number. `None` if it cannot be.
fn to_type(array: &ArrayRef, wanted: &DataType) -> Option<Result<ArrayRef>> {
    use DataType::*;
    if array.data_type() == wanted {
        return Some(Ok(array.clone()));
    }
    let found = match array.data_type() {
        Dictionary(_, values) => values.as_ref(),
        other => other,
    };
    let same = match (found, wanted) {
        (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8) => true,
        (Binary | LargeBinary | BinaryView, Binary | LargeBinary) => true,
        (Int8, Int16 | Int32 | Int64 | Float16 | Float32 | Float64) => true,
        (UInt8, UInt16 | UInt32 | UInt64 | Int16 | Int32 | Int64 | Float16 | Float32 | Float64) => true,
        (Int16, Int32 | Int64 | Float32 | Float64) => true,
        (UInt16, UInt32 | UInt64 | Int32 | Int64 | Float32 | Float64) => true,
        (Int32, Int64 | Float64) | (UInt32, UInt64 | Int64 | Float64) => true,
        (Float16, Float32 | Float64) | (Float32, Float64) => true,
        (found, wanted) => found == wanted,
    };
    same.then(|| Ok(arrow_cast::cast(array, wanted)?))
}
