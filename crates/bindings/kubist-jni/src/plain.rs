//! The column types that Java reads from raw buffers.
//!
//! A column of another type is converted to the plain type with the same values. The table's description marks
//! it as not exact if conditions would differ on the converted values, as for nanoseconds.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_cast::display::array_value_to_string;
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use kubist::ErrorKind;
use serde::Serialize;

use crate::jvm::{Failure, Result};

pub struct Plain {
    pub data_type: DataType,
    pub name: String,
    /// Conditions give the same result on converted and stored values.
    pub exact: bool,
}

/// `None` if it is not supported.
pub fn plain(stored: &DataType) -> Option<Plain> {
    use DataType::*;
    let as_is = |data_type: DataType, name: &str| Some(Plain { data_type, name: name.into(), exact: true });
    match stored {
        Boolean => as_is(Boolean, "boolean"),
        Int8 => as_is(Int8, "int8"),
        Int16 | UInt8 => as_is(Int16, "int16"),
        Int32 | UInt16 => as_is(Int32, "int32"),
        Int64 | UInt32 => as_is(Int64, "int64"),
        UInt64 => as_is(Decimal128(20, 0), "decimal(20,0)"),
        // A stored comparison would round the constant to 16 bits.
        Float16 => Some(Plain { data_type: Float32, name: "float32".into(), exact: false }),
        Float32 => as_is(Float32, "float32"),
        Float64 => as_is(Float64, "float64"),
        Utf8 | LargeUtf8 | Utf8View => as_is(Utf8, "string"),
        Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => as_is(Binary, "binary"),
        Date32 => as_is(Date32, "date"),
        Date64 => Some(Plain { data_type: Date32, name: "date".into(), exact: false }),
        Timestamp(unit, zone) => Some(Plain {
            data_type: Timestamp(TimeUnit::Microsecond, zone.clone()),
            name: if zone.is_some() { "timestamp".into() } else { "timestamp_ntz".into() },
            exact: *unit == TimeUnit::Microsecond,
        }),
        Decimal32(digits, scale) | Decimal64(digits, scale) | Decimal128(digits, scale)
            if *scale >= 0 && *digits <= 38 =>
        {
            as_is(Decimal128(*digits, *scale), &format!("decimal({digits},{scale})"))
        }
        Dictionary(_, values) => plain(values),
        _ => None,
    }
}

#[derive(Serialize)]
pub struct Column {
    pub name: String,
    /// Null if it is not supported.
    #[serde(rename = "type")]
    pub plain: Option<String>,
    pub stored: String,
    pub nullable: bool,
    pub exact: bool,
}

pub fn described(fields: &Fields) -> Vec<Column> {
    let described = |field: &Arc<Field>| {
        let plain = plain(field.data_type());
        Column {
            name: field.name().clone(),
            exact: plain.as_ref().is_some_and(|plain| plain.exact),
            plain: plain.map(|plain| plain.name),
            stored: field.data_type().to_string(),
            nullable: field.is_nullable(),
        }
    };
    fields.iter().map(described).collect()
}

/// # Errors
///
/// `Unsupported` names a column without a plain type.
pub fn plain_schema(schema: &Schema) -> Result<SchemaRef> {
    let plain_field = |field: &Arc<Field>| {
        let unsupported = || {
            let message =
                format!("column {:?}: the type {} has no counterpart in Java", field.name(), field.data_type());
            Failure::new(ErrorKind::Unsupported, message)
        };
        let plain = plain(field.data_type()).ok_or_else(unsupported)?;
        Ok(Arc::new(Field::new(field.name(), plain.data_type, field.is_nullable())))
    };
    let fields = schema.fields().iter().map(plain_field).collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(Schema::new(fields)))
}

/// # Errors
///
/// `Invalid` names the column, and the row whose value does not fit the plain type.
pub fn converted(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    let convert = |(array, field): (&ArrayRef, &Arc<Field>)| -> Result<ArrayRef> {
        if array.data_type() == field.data_type() {
            return Ok(array.clone());
        }
        let (name, wanted) = (field.name(), field.data_type());
        let plain = cast_with_options(array, wanted, &strict).map_err(|error| {
            Failure::invalid(format!("column {name:?}: a value does not fit the type {wanted}: {error}"))
        })?;
        // Nanoseconds may not fit Java's microseconds.
        if matches!(array.data_type(), DataType::Timestamp(_, _) | DataType::Date64) {
            let back = cast_with_options(&plain, array.data_type(), &strict).ok();
            let is_same = |row: &usize| {
                back.as_ref().is_some_and(|back| back.slice(*row, 1).to_data() == array.slice(*row, 1).to_data())
            };
            let is_whole = back.as_ref().is_some_and(|back| back.to_data() == array.to_data());
            if let Some(row) = (0..array.len()).filter(|_| !is_whole).find(|row| !is_same(row)) {
                let value = array_value_to_string(array, row).unwrap_or_default();
                return Err(Failure::invalid(format!(
                    "column {name:?}, row {row} of the batch: {value} does not fit {wanted}, its type in Java: omit \
                     the column, or round it in the query"
                )));
            }
        }
        Ok(plain)
    };
    let columns = batch.columns().iter().zip(schema.fields()).map(convert).collect::<Result<Vec<_>>>()?;
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let whole = RecordBatch::try_new_with_options(schema.clone(), columns, &rows);
    whole.map_err(|error| Failure::invalid(error.to_string()))
}
