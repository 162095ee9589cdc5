//! Which types a column may have, how each is stored, and what passes for it.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;

use kubist_types::error::{Error, Result};

/// The longest text or binary value.
const MOST_BYTES: usize = 1 << 20;

/// The type under which a table keeps a column; `None`: not supported.
/// Dictionaries get 32-bit keys, because a batch of an answer may hold more
/// distinct values than any batch that was written.
pub fn user_type(data_type: &DataType) -> Option<DataType> {
    use DataType::*;
    match data_type {
        // Parameters that no values can have.
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
pub fn stored_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => stored_type(values),
        DataType::Utf8View => DataType::LargeUtf8,
        DataType::BinaryView => DataType::LargeBinary,
        other => other.clone(),
    }
}

/// An array as `wanted`, if nothing is lost by it: the same values in another
/// layout, a wider number, or integers that a float has all of. `None` if it cannot be.
///
/// # Errors
///
/// `Invalid` names the row of an integer that the float has not.
pub fn to_type(array: &ArrayRef, wanted: &DataType) -> Option<Result<ArrayRef>> {
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
        (found, Float16 | Float32 | Float64) if found.is_integer() => return Some(exact_floats(array, found, wanted)),
        (found, wanted) => found == wanted,
    };
    same.then(|| arrow_cast::cast(array, wanted).map_err(Error::invalid))
}

/// Integers as floats, each of them the very same number.
fn exact_floats(array: &ArrayRef, integers: &DataType, wanted: &DataType) -> Result<ArrayRef> {
    let given = arrow_cast::cast(array, integers).map_err(Error::kernel)?;
    let floats = arrow_cast::cast(&given, wanted).map_err(Error::kernel)?;
    let back = arrow_cast::cast(&floats, integers).map_err(Error::kernel)?;
    if back.to_data() == given.to_data() {
        return Ok(floats);
    }
    let differs = |row: &usize| back.slice(*row, 1).to_data() != given.slice(*row, 1).to_data();
    let row = (0..given.len()).find(differs).unwrap_or(0);
    let value = arrow_cast::display::array_value_to_string(&given, row).map_err(Error::kernel)?;
    Err(Error::invalid(format!("row {row} of the batch holds {value}, which {wanted} cannot hold exactly")))
}

/// Refuses values too long to be held in a page of thousands of them.
///
/// # Errors
///
/// `Invalid` names the column, the row and the length.
pub fn check_lengths(name: &str, array: &ArrayRef) -> Result<()> {
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
