mod types;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type, Int32Type, Int64Type, UInt64Type};
use arrow_array::*;
use arrow_cast::display::array_value_to_string;
use arrow_schema::{DataType, IntervalUnit};
use half::f16;
use kubist::Value;
use kubist_index::order::is_dimension_type;
use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use types::all_types;

pub fn dimension_types() -> Vec<DataType> {
    all_types().into_iter().filter(is_dimension_type).collect()
}

pub fn other_types() -> Vec<DataType> {
    all_types().into_iter().filter(|data_type| !is_dimension_type(data_type)).collect()
}

pub fn array(rng: &mut SmallRng, data_type: &DataType, rows: usize) -> ArrayRef {
    let spread = *[3i64, 50, 1000, 100_000].choose(rng).unwrap();
    let nulls = *[0.0, 0.0, 0.1, 0.9].choose(rng).unwrap();
    let wild = rng.random_bool(0.5);
    let numbers: Vec<Option<i64>> =
        (0..rows).map(|_| (!rng.random_bool(nulls)).then(|| rng.random_range(-spread..=spread))).collect();
    let special = [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 1e30, -1e-30, f64::MIN_POSITIVE];
    match data_type {
        DataType::Float16 | DataType::Float32 | DataType::Float64 => {
            let values: Vec<Option<f64>> = numbers
                .iter()
                .map(|n| {
                    n.map(|n| {
                        if wild && n % 17 == 0 { special[(n.unsigned_abs() / 17 % 9) as usize] } else { n as f64 / 7.0 }
                    })
                })
                .collect();
            match data_type {
                DataType::Float16 => Arc::new(values.iter().map(|v| v.map(f16::from_f64)).collect::<Float16Array>()),
                DataType::Float32 => Arc::new(values.iter().map(|v| v.map(|v| v as f32)).collect::<Float32Array>()),
                _ => Arc::new(Float64Array::from(values)),
            }
        }
        DataType::Int64 | DataType::UInt64 if wild => {
            let values: Vec<Option<i64>> =
                numbers.iter().map(|n| n.map(|n| n.wrapping_mul(0x1234_5678_9abc_def1))).collect();
            match data_type {
                DataType::Int64 => Arc::new(Int64Array::from(values)),
                _ => Arc::new(values.iter().map(|v| v.map(|v| v as u64)).collect::<UInt64Array>()),
            }
        }
        DataType::Int8 => Arc::new(numbers.iter().map(|n| n.map(|n| n as i8)).collect::<Int8Array>()),
        DataType::UInt8 => Arc::new(numbers.iter().map(|n| n.map(|n| n as u8)).collect::<UInt8Array>()),
        DataType::Int16 => Arc::new(numbers.iter().map(|n| n.map(|n| n as i16)).collect::<Int16Array>()),
        DataType::UInt16 => Arc::new(numbers.iter().map(|n| n.map(|n| n as u16)).collect::<UInt16Array>()),
        DataType::UInt32 => Arc::new(numbers.iter().map(|n| n.map(|n| n as u32)).collect::<UInt32Array>()),
        DataType::UInt64 => Arc::new(numbers.iter().map(|n| n.map(|n| n.unsigned_abs())).collect::<UInt64Array>()),
        DataType::Boolean => Arc::new(numbers.iter().map(|n| n.map(|n| n % 2 == 0)).collect::<BooleanArray>()),
        DataType::Interval(IntervalUnit::DayTime) => {
            let value = |n: i64| arrow_buffer::IntervalDayTime::new(n as i32, 2);
            Arc::new(numbers.iter().map(|n| n.map(value)).collect::<IntervalDayTimeArray>())
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let value = |n: i64| arrow_buffer::IntervalMonthDayNano::new(n as i32, 2, n);
            Arc::new(numbers.iter().map(|n| n.map(value)).collect::<IntervalMonthDayNanoArray>())
        }
        DataType::Interval(_) => {
            Arc::new(numbers.iter().map(|n| n.map(|n| n as i32)).collect::<IntervalYearMonthArray>())
        }
        DataType::FixedSizeBinary(_) => {
            let values = numbers.iter().map(|n| n.map(|n| n.to_be_bytes()[5..].to_vec()));
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, 3).unwrap())
        }
        DataType::Utf8View
        | DataType::BinaryView
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Binary
        | DataType::LargeBinary => {
            let text = StringArray::from_iter(numbers.iter().map(|n| {
                n.map(|n| format!("{}{n}", ["", "drop", "längere Zeichenkette "][(n.unsigned_abs() % 3) as usize]))
            }));
            arrow_cast::cast(&text, data_type).unwrap()
        }
        DataType::Dictionary(_, values) if **values == DataType::Utf8 => {
            let text = StringArray::from_iter(numbers.iter().map(|n| n.map(|n| format!("name {}", n % 9))));
            arrow_cast::cast(&text, data_type).unwrap()
        }
        DataType::Date32 | DataType::Int32 | DataType::Time32(_) => {
            let narrow = Int32Array::from_iter(numbers.iter().map(|n| n.map(|n| n.unsigned_abs() as i32)));
            arrow_cast::cast(&narrow, data_type).unwrap()
        }
        DataType::Decimal32(_, _)
        | DataType::Decimal64(_, _)
        | DataType::Decimal128(_, _)
        | DataType::Decimal256(_, _) => {
            let small = Int64Array::from_iter(numbers.iter().map(|n| n.map(|n| n % 9999)));
            arrow_cast::cast(&small, data_type).unwrap()
        }
        DataType::Dictionary(_, values) => {
            let small = Int16Array::from_iter(numbers.iter().map(|n| n.map(|n| n as i16)));
            arrow_cast::cast(&arrow_cast::cast(&small, values).unwrap(), data_type).unwrap()
        }
        other => {
            let wide = Int64Array::from_iter(numbers.iter().map(|n| n.map(i64::abs)));
            arrow_cast::cast(&wide, other).unwrap()
        }
    }
}

/// Compares as the column does; `None` for NaN and null.
pub enum Number {
    Int(i128),
    Float(f64),
}

pub fn number(array: &dyn Array, row: usize) -> Option<Number> {
    if array.is_null(row) {
        return None;
    }
    let float = |value: f64| (!value.is_nan()).then_some(Number::Float(value));
    match array.data_type() {
        DataType::Float16 => float(array.as_primitive::<Float16Type>().value(row).to_f64()),
        DataType::Float32 => float(array.as_primitive::<Float32Type>().value(row) as f64),
        DataType::Float64 => float(array.as_primitive::<Float64Type>().value(row)),
        DataType::UInt64 => Some(Number::Int(array.as_primitive::<UInt64Type>().value(row) as i128)),
        DataType::Date32 | DataType::Time32(_) => {
            let ints = arrow_cast::cast(&array.slice(row, 1), &DataType::Int32).unwrap();
            Some(Number::Int(ints.as_primitive::<Int32Type>().value(0) as i128))
        }
        _ => {
            let ints = arrow_cast::cast(&array.slice(row, 1), &DataType::Int64).unwrap();
            Some(Number::Int(ints.as_primitive::<Int64Type>().value(0) as i128))
        }
    }
}

pub fn value(number: &Number) -> Value {
    match number {
        Number::Int(value) => Value::Int(*value),
        Number::Float(value) => Value::Float(*value),
    }
}

pub fn at_most(a: &Number, b: &Number) -> bool {
    match (a, b) {
        (Number::Int(a), Number::Int(b)) => a <= b,
        (Number::Float(a), Number::Float(b)) => a <= b,
        _ => unreachable!("one column has one kind of number"),
    }
}

pub fn plain(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Dictionary(_, values) => arrow_cast::cast(array, values).unwrap(),
        _ => array.clone(),
    }
}

pub fn literal(array: &ArrayRef, row: usize) -> Option<String> {
    let array = plain(&array.slice(row, 1));
    if array.is_null(0) {
        return None;
    }
    let bytes = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    Some(match array.data_type() {
        DataType::Boolean => array.as_boolean().value(0).to_string(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            format!("'{}'", array_value_to_string(&array, 0).unwrap())
        }
        DataType::Binary => format!("X'{}'", bytes(array.as_binary::<i32>().value(0))),
        DataType::LargeBinary => format!("X'{}'", bytes(array.as_binary::<i64>().value(0))),
        DataType::BinaryView => format!("X'{}'", bytes(array.as_binary_view().value(0))),
        DataType::FixedSizeBinary(_) => format!("X'{}'", bytes(array.as_fixed_size_binary().value(0))),
        DataType::Decimal32(_, _)
        | DataType::Decimal64(_, _)
        | DataType::Decimal128(_, _)
        | DataType::Decimal256(_, _) => array_value_to_string(&array, 0).unwrap(),
        _ => match number(array.as_ref(), 0) {
            None => "nan".into(),
            Some(Number::Int(value)) => value.to_string(),
            Some(Number::Float(value)) => format!("{value:?}"),
        },
    })
}

pub fn equal(array: &ArrayRef, a: usize, b: usize) -> bool {
    if array.is_null(a) || array.is_null(b) {
        return false;
    }
    if array.data_type().is_floating() {
        let value = |row| match number(array.as_ref(), row) {
            Some(Number::Float(value)) => value,
            _ => f64::NAN,
        };
        return value(a) == value(b);
    }
    array.slice(a, 1) == array.slice(b, 1)
}
