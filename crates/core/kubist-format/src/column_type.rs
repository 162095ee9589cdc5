//! The column types that Kubist accepts, and the types in which their values are stored.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;

use kubist_types::error::{Error, Result};

/// Maximum length of a text or binary value.
const MOST_BYTES: usize = 1 << 20;

/// Returns the type of a column in results, or `None` if Kubist does not support `data_type`.
///
/// It is `data_type` itself. Only dictionaries change: they get 32-bit keys, because a result may have more distinct
/// values than any written batch.
pub fn user_type(data_type: &DataType) -> Option<DataType> {
    use DataType::*;
    match data_type {
        odd if !kubist_ipc::is_plain(odd) => None,
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

/// Returns the type in which the values are stored: the value type of a dictionary, and the `Large` type of a view.
pub fn stored_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => stored_type(values),
        DataType::Utf8View => DataType::LargeUtf8,
        DataType::BinaryView => DataType::LargeBinary,
        other => other.clone(),
    }
}

/// Refuses values that are longer than 1 MiB in their stored type, because a page has thousands of rows.
///
/// # Errors
///
/// `Invalid` names the column, the row (its index in `array` plus `first_row`) and the length.
pub fn check_lengths(name: &str, array: &ArrayRef, first_row: usize) -> Result<()> {
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
            "column {name:?} holds {} bytes in row {} of the batch; a value may have up to {MOST_BYTES}",
            length(row),
            first_row + row
        ))),
    }
}
