//! Values of every type, equal on every machine, and their text. A value depends on type, row and salt.
//! Columns contain nulls, extremes, NaN, infinities and both zeros.
#![allow(dead_code)] // each program takes what it needs

#[path = "../values/types.rs"]
mod types;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, FixedSizeBinaryArray, Float16Array, Float32Array, Float64Array,
    RecordBatch, StringArray, make_array,
};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_cast::cast;
use arrow_data::ArrayData;
use arrow_schema::DataType;
use half::f16;

pub use types::all_types;

/// The finalizer of SplitMix64.
pub fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

pub fn fraction(row: u64, salt: u64) -> f64 {
    (mix(mix(salt) ^ row) >> 11) as f64 / (1u64 << 53) as f64
}

/// If nullable, about one value in nine is null.
pub fn column(data_type: &DataType, rows: std::ops::Range<u64>, salt: u64, nullable: bool) -> ArrayRef {
    let dice: Vec<Option<u64>> = rows
        .map(|row| mix(mix(salt) ^ row))
        .map(|dice| (!nullable || !dice.is_multiple_of(9)).then_some(dice))
        .collect();
    let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, f64::MAX, f64::MIN_POSITIVE, -5e-324];
    let float = |dice: u64| match dice >> 8 & 15 {
        kind @ 0..8 => special[kind as usize],
        _ => (dice >> 20) as i32 as f64 / 1024.0,
    };
    let text = |dice: u64| match dice >> 8 & 7 {
        0 => String::new(),
        1 => "längere Zeichenkette, 長い文字列 ".repeat(1 + (dice >> 20 & 3) as usize),
        2 => format!("{}\u{0}\"'\\\n", dice >> 60),
        _ => format!("droplet {}", dice >> 12 & 31),
    };
    let bytes = |dice: u64| dice.to_le_bytes()[..(dice >> 8 & 7) as usize].to_vec();
    match data_type {
        DataType::Boolean => Arc::new(BooleanArray::from_iter(dice.iter().map(|d| d.map(|d| d >> 8 & 1 == 1)))),
        DataType::Float16 => {
            Arc::new(dice.iter().map(|d| d.map(|d| f16::from_f64(float(d)))).collect::<Float16Array>())
        }
        DataType::Float32 => Arc::new(dice.iter().map(|d| d.map(|d| float(d) as f32)).collect::<Float32Array>()),
        DataType::Float64 => Arc::new(dice.iter().map(|d| d.map(float)).collect::<Float64Array>()),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            to(&(Arc::new(StringArray::from_iter(dice.iter().map(|d| d.map(text)))) as ArrayRef), data_type)
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            to(&(Arc::new(BinaryArray::from_iter(dice.iter().map(|d| d.map(bytes)))) as ArrayRef), data_type)
        }
        DataType::FixedSizeBinary(length) => {
            let values = dice.iter().map(|d| d.map(|d| d.to_le_bytes()[1..1 + *length as usize].to_vec()));
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, *length).expect("of one length"))
        }
        DataType::Dictionary(_, values) => {
            let few: Vec<Option<u64>> = dice.iter().map(|d| d.map(|d| d % 7)).collect();
            let plain: ArrayRef = match values.as_ref() {
                DataType::Utf8 => Arc::new(StringArray::from_iter(few.iter().map(|d| d.map(|d| format!("name {d}"))))),
                other => fixed_width(other, &few),
            };
            to(&plain, data_type)
        }
        other => fixed_width(other, &dice),
    }
}

fn fixed_width(data_type: &DataType, dice: &[Option<u64>]) -> ArrayRef {
    let width = data_type.primitive_width().expect("a type of fixed width");
    let mut bytes = Vec::with_capacity(width * dice.len());
    for dice in dice {
        let digits = match data_type {
            DataType::Decimal32(digits, _) | DataType::Decimal64(digits, _) => Some(*digits),
            DataType::Decimal128(digits, _) | DataType::Decimal256(digits, _) => Some(*digits),
            _ => None,
        };
        let most = match digits {
            Some(digits) => 10i128.pow(digits.min(30) as u32) - 1,
            None if data_type.is_unsigned_integer() => (1 << (8 * width)) - 1,
            None => i128::MAX >> (128 - 8 * width.min(16)),
        };
        let least = match data_type.is_unsigned_integer() {
            true => 0,
            false if digits.is_some() => -most,
            false => -most - 1,
        };
        let value = match (dice.unwrap_or(0), dice.unwrap_or(0) >> 8 & 31) {
            (0, _) => 0,
            (_, 0) => most,
            (_, 1) => least,
            (dice, _) => ((dice >> 16) as i128 % 4096 - 100).clamp(least, most),
        };
        let mut wide = [if value < 0 { 255 } else { 0 }; 32];
        wide[..16].copy_from_slice(&value.to_le_bytes());
        bytes.extend_from_slice(&wide[..width]);
    }
    let nulls = NullBuffer::from_iter(dice.iter().map(Option::is_some));
    let data = ArrayData::builder(data_type.clone())
        .len(dice.len())
        .add_buffer(Buffer::from_vec(bytes))
        .align_buffers(true)
        .nulls(Some(nulls));
    make_array(data.build().expect("values of the type"))
}

fn to(array: &ArrayRef, data_type: &DataType) -> ArrayRef {
    cast(array, data_type).expect("a cast between the same values")
}

fn text(array: &ArrayRef, row: usize) -> String {
    if array.is_null(row) {
        return "null".into();
    }
    let hex = |bytes: &[u8]| format!("x{}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    match array.data_type() {
        DataType::Boolean => array.as_boolean().value(row).to_string(),
        DataType::Float16 => format!("{:?}", array.as_primitive::<Float16Type>().value(row).to_f64()),
        DataType::Float32 => format!("{:?}", array.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => format!("{:?}", array.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8 => format!("{:?}", array.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => format!("{:?}", array.as_string::<i64>().value(row)),
        DataType::Utf8View => format!("{:?}", array.as_string_view().value(row)),
        DataType::Binary => hex(array.as_binary::<i32>().value(row)),
        DataType::LargeBinary => hex(array.as_binary::<i64>().value(row)),
        DataType::BinaryView => hex(array.as_binary_view().value(row)),
        DataType::FixedSizeBinary(_) => hex(array.as_fixed_size_binary().value(row)),
        other => {
            let data = array.to_data();
            let width = other.primitive_width().expect("all others have a fixed width");
            let at = (data.offset() + row) * width;
            let bytes = &data.buffers()[0].as_slice()[at..at + width];
            match other.is_integer() {
                false => hex(bytes),
                true => {
                    let negative = other.is_signed_integer() && bytes[width - 1] & 128 != 0;
                    let mut wide = [if negative { 255 } else { 0 }; 16];
                    wide[..width].copy_from_slice(bytes);
                    i128::from_le_bytes(wide).to_string()
                }
            }
        }
    }
}

pub fn rows(batch: &RecordBatch) -> Vec<String> {
    let schema = batch.schema();
    let plain = batch.columns().iter().map(|array| match array.data_type() {
        DataType::Dictionary(_, values) => to(array, values),
        _ => array.clone(),
    });
    let plain: Vec<ArrayRef> = plain.collect();
    let row = |row: usize| {
        let cells =
            plain.iter().zip(schema.fields()).map(|(array, field)| format!("{}={}", field.name(), text(array, row)));
        cells.collect::<Vec<_>>().join(" ")
    };
    (0..batch.num_rows()).map(row).collect()
}
