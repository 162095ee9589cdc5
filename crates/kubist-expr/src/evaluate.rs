//! Which rows of a batch answer a test with true, and which with false.
//!
//! There is no array of three-valued answers: each test can be asked for the
//! rows that are certainly true, or for those that are certainly false, as one
//! bit a row. `NOT` asks its operand for the other half; nulls and NaN, being in
//! neither, need no bookkeeping.

use crate::bound::{Column, Kind, Operand, PointList, Sides, Test};
use crate::cell::Cell;
use crate::compute::{Values, Vector, vector};
use crate::domain::{Range, value_type};
use crate::error::ExprError;
use crate::syntax::Op;
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Decimal256Type, Float16Type, Float32Type, Float64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Datum, LargeStringArray, PrimitiveArray, RecordBatch, Scalar, StringArray,
    StringViewArray,
};
use arrow_buffer::{BooleanBuffer, NullBuffer, i256};
use arrow_schema::DataType;
use arrow_select::take::take;
use kubist_index::with_exact_primitive;
use std::cmp::Ordering;
use std::ops::Bound;

/// The rows of `batch` that answer `test` with `answer`, one bit each.
pub(crate) fn rows(test: &Test, batch: &RecordBatch, answer: bool) -> Result<BooleanBuffer, ExprError> {
    let count = batch.num_rows();
    match test {
        Test::Constant(constant) => Ok(filled(count, *constant == Some(answer))),
        Test::Not(test) => rows(test, batch, !answer),
        Test::And(tests) => join(tests, batch, answer, answer),
        Test::Or(tests) => join(tests, batch, answer, !answer),
        Test::IsTruth(test, truth) => {
            let found = match truth {
                Some(truth) => rows(test, batch, *truth)?,
                None => !&(&rows(test, batch, true)? | &rows(test, batch, false)?),
            };
            Ok(if answer { found } else { !&found })
        }
        Test::Same(left, right) => {
            let (left_true, left_false) = (rows(left, batch, true)?, rows(left, batch, false)?);
            let (right_true, right_false) = (rows(right, batch, answer)?, rows(right, batch, !answer)?);
            Ok(&(&left_true & &right_true) | &(&left_false & &right_false))
        }
        Test::IsNull(operand) => {
            let nulls = match operand {
                Operand::Column(column) => stored(column, batch)?.logical_nulls(),
                Operand::Compute(compute) => vector(compute, batch)?.nulls,
            };
            Ok(match (nulls, answer) {
                (None, _) => filled(count, !answer),
                (Some(nulls), true) => !nulls.inner(),
                (Some(nulls), false) => nulls.into_inner(),
            })
        }
        Test::Within { operand, range, .. } => each_value(operand, batch, &|array| within(array, range, answer)),
        Test::Among { null: true, .. } if !answer => Ok(filled(count, false)),
        Test::Among { operand, points, .. } => {
            each_value(operand, batch, &|array| among(array, &points.points, answer))
        }
        Test::IsNan(operand) => each_value(operand, batch, &|array| classify(array, |v| v.is_nan() == answer)),
        Test::IsFinite { operand, .. } => {
            each_value(operand, batch, &|array| classify(array, |v| v.is_finite() == answer))
        }
        Test::Like { column, pattern, ignore_case, .. } => {
            on_values(stored(column, batch)?.as_ref(), &|array| like(array, pattern, *ignore_case, answer))
        }
        Test::Compare { op, sides } => compare(*op, sides, batch, answer),
    }
}

/// The rows where all tests (`every`) or any test give `answer`; stops when the
/// rest cannot change it.
fn join(tests: &[Test], batch: &RecordBatch, answer: bool, every: bool) -> Result<BooleanBuffer, ExprError> {
    let mut found = filled(batch.num_rows(), every);
    for test in tests {
        let next = rows(test, batch, answer)?;
        found = if every { &found & &next } else { &found | &next };
        let settled = if every { !found.has_true() } else { !found.has_false() };
        if settled {
            break;
        }
    }
    Ok(found)
}

fn filled(count: usize, bit: bool) -> BooleanBuffer {
    if bit { BooleanBuffer::new_set(count) } else { BooleanBuffer::new_unset(count) }
}

fn valid(found: BooleanBuffer, nulls: Option<&NullBuffer>) -> BooleanBuffer {
    match nulls {
        Some(nulls) if nulls.null_count() > 0 => &found & nulls.inner(),
        _ => found,
    }
}

/// A column of the batch, as it is stored.
fn stored<'a>(column: &Column, batch: &'a RecordBatch) -> Result<&'a ArrayRef, ExprError> {
    let mistake =
        |found: String| ExprError::Batch { column: column.name.clone(), expected: column.data_type.clone(), found };
    let array = batch.column_by_name(&column.name).ok_or_else(|| mistake(String::new()))?;
    if value_type(array.data_type()) != &column.data_type {
        return Err(mistake(format!(", but one of type {}", array.data_type())));
    }
    Ok(array)
}

/// A column of the batch without its dictionary.
pub(crate) fn array(column: &Column, batch: &RecordBatch) -> Result<ArrayRef, ExprError> {
    let mut array = stored(column, batch)?.clone();
    while let Some(dictionary) = array.as_any_dictionary_opt() {
        array = take(dictionary.values().as_ref(), dictionary.keys(), None)?;
    }
    Ok(array)
}

/// Applies `ask` to the values of an array; if it has a dictionary, to each of
/// the dictionary's values once.
fn on_values(
    array: &dyn Array,
    ask: &dyn Fn(&dyn Array) -> Result<BooleanBuffer, ExprError>,
) -> Result<BooleanBuffer, ExprError> {
    let Some(dictionary) = array.as_any_dictionary_opt() else { return ask(array) };
    if dictionary.values().len() > 2 * array.len() {
        return on_values(take(dictionary.values().as_ref(), dictionary.keys(), None)?.as_ref(), ask);
    }
    let answers = BooleanArray::new(on_values(dictionary.values().as_ref(), ask)?, None);
    let answers = take(&answers, dictionary.keys(), None)?;
    let answers = answers.as_boolean();
    Ok(valid(answers.values().clone(), answers.nulls()))
}

fn each_value(
    operand: &Operand,
    batch: &RecordBatch,
    ask: &dyn Fn(&dyn Array) -> Result<BooleanBuffer, ExprError>,
) -> Result<BooleanBuffer, ExprError> {
    match operand {
        Operand::Column(column) => on_values(stored(column, batch)?.as_ref(), ask),
        Operand::Compute(compute) => {
            let Vector { values, nulls } = vector(compute, batch)?;
            match values {
                // 128-bit integers travel as decimals of scale zero.
                Values::Int(values) => ask(&PrimitiveArray::<Decimal128Type>::new(values.into(), nulls)),
                Values::F32(values) => ask(&PrimitiveArray::<Float32Type>::new(values.into(), nulls)),
                Values::F64(values) => ask(&PrimitiveArray::<Float64Type>::new(values.into(), nulls)),
            }
        }
    }
}

/// Runs `$body` with `$values` bound to the native values of a fixed-width array.
macro_rules! with_native_values {
    ($array:expr, $values:ident => $body:expr, _ => $otherwise:expr) => {{
        let array: &dyn Array = $array;
        with_exact_primitive!(
            array.data_type(),
            T => {
                let $values: &[<T as arrow_array::ArrowPrimitiveType>::Native] = array.as_primitive::<T>().values();
                $body
            },
            _ => match array.data_type() {
                DataType::Decimal128(_, _) => {
                    let $values: &[i128] = array.as_primitive::<Decimal128Type>().values();
                    $body
                }
                DataType::Decimal256(_, _) => {
                    let $values: &[i256] = array.as_primitive::<Decimal256Type>().values();
                    $body
                }
                _ => $otherwise,
            }
        )
    }};
}

/// Runs `$body` with `$row` bound to a function from a row to its bytes.
macro_rules! with_bytes {
    ($array:expr, $row:ident => $body:expr) => {{
        let array: &dyn Array = $array;
        match array.data_type() {
            DataType::Utf8 => {
                let array = array.as_string::<i32>();
                let $row = |row: usize| array.value(row).as_bytes();
                $body
            }
            DataType::LargeUtf8 => {
                let array = array.as_string::<i64>();
                let $row = |row: usize| array.value(row).as_bytes();
                $body
            }
            DataType::Utf8View => {
                let array = array.as_string_view();
                let $row = |row: usize| array.value(row).as_bytes();
                $body
            }
            DataType::Binary => {
                let array = array.as_binary::<i32>();
                let $row = |row: usize| array.value(row);
                $body
            }
            DataType::LargeBinary => {
                let array = array.as_binary::<i64>();
                let $row = |row: usize| array.value(row);
                $body
            }
            DataType::BinaryView => {
                let array = array.as_binary_view();
                let $row = |row: usize| array.value(row);
                $body
            }
            DataType::FixedSizeBinary(_) => {
                let array = array.as_fixed_size_binary();
                let $row = |row: usize| array.value(row);
                $body
            }
            other => return Err(foreign(other)),
        }
    }};
}

fn foreign(data_type: &DataType) -> ExprError {
    ExprError::Evaluation { message: format!("values of type {data_type} cannot be compared so") }
}

/// One bit a value. Whole words at a time, so that the compiler can vectorise
/// the test and the packing.
fn pack<T: Copy>(values: &[T], test: impl Fn(T) -> bool) -> BooleanBuffer {
    let mut words: Vec<u64> = Vec::with_capacity(values.len().div_ceil(64));
    let chunks = values.chunks_exact(64);
    let rest = chunks.remainder();
    for chunk in chunks {
        let mut bytes = [0u8; 64];
        for (byte, value) in bytes.iter_mut().zip(chunk) {
            *byte = u8::from(test(*value));
        }
        let mut word = 0u64;
        for (index, eight) in bytes.chunks_exact(8).enumerate() {
            // Gathers the low bits of eight bytes, the first one lowest.
            let mut lanes = [0u8; 8];
            lanes.copy_from_slice(eight);
            let bits = u64::from_le_bytes(lanes).wrapping_mul(0x0102_0408_1020_4080) >> 56;
            word |= bits << (8 * index);
        }
        words.push(word);
    }
    if !rest.is_empty() {
        let bit = |(index, value): (usize, &T)| u64::from(test(*value)) << index;
        words.push(rest.iter().enumerate().map(bit).fold(0, |word, bit| word | bit));
    }
    BooleanBuffer::new(words.into(), 0, values.len())
}

/// All values but NaN.
fn comparable<T: Cell>(values: &[T]) -> BooleanBuffer {
    pack(values, |value| value.partial_cmp(&value).is_some())
}

/// Is the value inside (`answer`) or outside the range; neither for null, NaN.
fn within(array: &dyn Array, range: &Range, answer: bool) -> Result<BooleanBuffer, ExprError> {
    fn between<T: Cell>(values: &[T], low: T, high: T, answer: bool) -> BooleanBuffer {
        match answer {
            true => pack(values, |value| (value >= low) & (value <= high)),
            false => pack(values, |value| (value < low) | (value > high)),
        }
    }
    let found = match (array.data_type(), range) {
        (_, Range::Empty) if answer => filled(array.len(), false),
        (DataType::Boolean, _) => {
            let holds = |value: i256| match range {
                Range::Whole(low, high) => (*low <= value && value <= *high) == answer,
                _ => !answer,
            };
            match (holds(i256::ZERO), holds(i256::ONE)) {
                (false, true) => array.as_boolean().values().clone(),
                (true, false) => !array.as_boolean().values(),
                (both, _) => filled(array.len(), both),
            }
        }
        (_, Range::Empty) => {
            with_native_values!(
                array,
                values => comparable(values),
                _ => filled(array.len(), true)
            )
        }
        (data_type, Range::Whole(low, high)) => with_native_values!(
            array,
            values => between(values, Cell::from_whole(*low), Cell::from_whole(*high), answer),
            _ => return Err(foreign(data_type))
        ),
        (data_type, Range::Float(low, high)) => with_native_values!(
            array,
            values => between(values, Cell::from_float(*low), Cell::from_float(*high), answer),
            _ => return Err(foreign(data_type))
        ),
        (_, Range::Bytes(low, high)) => with_bytes!(array, row => bytes_within(array.len(), row, low, high, answer)),
    };
    Ok(valid(found, array.nulls()))
}

fn bytes_within<'a>(
    count: usize,
    row: impl Fn(usize) -> &'a [u8],
    low: &Bound<Vec<u8>>,
    high: &Bound<Vec<u8>>,
    answer: bool,
) -> BooleanBuffer {
    if let (Bound::Included(low), Bound::Included(high)) = (low, high)
        && low == high
    {
        return BooleanBuffer::collect_bool(count, |index| (row(index) == low.as_slice()) == answer);
    }
    BooleanBuffer::collect_bool(count, |index| {
        let value = row(index);
        let above = match low {
            Bound::Included(low) => value >= low.as_slice(),
            Bound::Excluded(low) => value > low.as_slice(),
            Bound::Unbounded => true,
        };
        let below = match high {
            Bound::Included(high) => value <= high.as_slice(),
            Bound::Excluded(high) => value < high.as_slice(),
            Bound::Unbounded => true,
        };
        (above && below) == answer
    })
}

/// Is the value one of the points (`answer`) or not; neither for null, NaN.
fn among(array: &dyn Array, points: &PointList, answer: bool) -> Result<BooleanBuffer, ExprError> {
    fn listed<T: Cell>(values: &[T], points: Vec<T>, answer: bool) -> BooleanBuffer {
        // A few points are faster compared with all; values that are no numbers
        // compare with none and answer nothing.
        let found = |value: T| match points.len() {
            0..=8 => points.contains(&value),
            _ => points.binary_search_by(|point| point.partial_cmp(&value).unwrap_or(Ordering::Less)).is_ok(),
        };
        match answer {
            true => pack(values, found),
            false => pack(values, |value| value.partial_cmp(&value).is_some() && !found(value)),
        }
    }
    let found = match (array.data_type(), points) {
        (DataType::Boolean, PointList::Whole(points)) => {
            let values = array.as_boolean().values();
            let holds = |value: i256| points.contains(&value) == answer;
            let (no, yes) = (holds(i256::ZERO), holds(i256::ONE));
            BooleanBuffer::collect_bool(values.len(), |row| if values.value(row) { yes } else { no })
        }
        (data_type, PointList::Whole(points)) => with_native_values!(
            array,
            values => listed(values, points.iter().map(|point| Cell::from_whole(*point)).collect(), answer),
            _ => return Err(foreign(data_type))
        ),
        (data_type, PointList::Float(points)) => with_native_values!(
            array,
            values => listed(values, points.iter().map(|point| Cell::from_float(*point)).collect(), answer),
            _ => return Err(foreign(data_type))
        ),
        (_, PointList::Bytes(points)) => with_bytes!(array, row => {
            BooleanBuffer::collect_bool(array.len(), |index| {
                points.binary_search_by(|point| point.as_slice().cmp(row(index))).is_ok() == answer
            })
        }),
    };
    Ok(valid(found, array.nulls()))
}

/// Tests the class of a float; every other value counts as zero.
fn classify(array: &dyn Array, test: impl Fn(f64) -> bool) -> Result<BooleanBuffer, ExprError> {
    let found = match array.data_type() {
        DataType::Float16 => pack(array.as_primitive::<Float16Type>().values(), |value| test(value.to_f64())),
        DataType::Float32 => pack(array.as_primitive::<Float32Type>().values(), |value| test(value.into())),
        DataType::Float64 => pack(array.as_primitive::<Float64Type>().values(), test),
        _ => filled(array.len(), test(0.0)),
    };
    Ok(valid(found, array.nulls()))
}

pub(crate) fn like(
    array: &dyn Array,
    pattern: &str,
    ignore_case: bool,
    answer: bool,
) -> Result<BooleanBuffer, ExprError> {
    let pattern: Box<dyn Datum> = match array.data_type() {
        DataType::LargeUtf8 => Box::new(Scalar::new(LargeStringArray::from(vec![pattern]))),
        DataType::Utf8View => Box::new(Scalar::new(StringViewArray::from(vec![pattern]))),
        _ => Box::new(Scalar::new(StringArray::from(vec![pattern]))),
    };
    use arrow_string::like as kernel;
    let matches = match ignore_case {
        true => kernel::ilike(&array, pattern.as_ref())?,
        false => kernel::like(&array, pattern.as_ref())?,
    };
    let found = if answer { matches.values().clone() } else { !matches.values() };
    Ok(valid(found, matches.nulls()))
}

fn compare(op: Op, sides: &Sides, batch: &RecordBatch, answer: bool) -> Result<BooleanBuffer, ExprError> {
    let count = batch.num_rows();
    let holds = |order: Option<Ordering>| order.is_some_and(|order| op.holds(order) == answer);
    let (found, left, right) = match sides {
        Sides::Int { left, left_factor, right, right_factor } => {
            let (a, b) = (vector(left, batch)?, vector(right, batch)?);
            let (x, y) = (a.values.into_ints(), b.values.into_ints());
            let found = BooleanBuffer::collect_bool(count, |row| {
                holds(Some((x[row] * left_factor).cmp(&(y[row] * right_factor))))
            });
            (found, a.nulls, b.nulls)
        }
        Sides::Float { left, right } => {
            let (a, b) = (vector(left, batch)?, vector(right, batch)?);
            // 32-bit floats keep their order in 64 bits.
            let (x, y) = (a.values.into_f64(), b.values.into_f64());
            let found = BooleanBuffer::collect_bool(count, |row| holds(x[row].partial_cmp(&y[row])));
            (found, a.nulls, b.nulls)
        }
        Sides::Wide { left, left_factor, right, right_factor } => {
            let (a, b) = (array(left, batch)?, array(right, batch)?);
            let (x, y) = (wide(a.as_ref(), *left_factor)?, wide(b.as_ref(), *right_factor)?);
            let found = BooleanBuffer::collect_bool(count, |row| holds(Some(x[row].cmp(&y[row]))));
            (found, a.nulls().cloned(), b.nulls().cloned())
        }
        Sides::Bytes { left, right } => {
            let (a, b) = (array(left, batch)?, array(right, batch)?);
            let found = with_bytes!(a.as_ref(), x => with_bytes!(b.as_ref(), y => {
                BooleanBuffer::collect_bool(count, |row| holds(Some(x(row).cmp(y(row)))))
            }));
            (found, a.nulls().cloned(), b.nulls().cloned())
        }
    };
    Ok(valid(valid(found, left.as_ref()), right.as_ref()))
}

/// Unscaled integers times a factor; beyond 256 bits, the nearest that there is.
fn wide(array: &dyn Array, factor: i256) -> Result<Vec<i256>, ExprError> {
    fn scaled<T: Copy>(values: &[T], factor: i256, widen: impl Fn(T) -> i256) -> Vec<i256> {
        let scaled = |value: i256| match value.checked_mul(factor) {
            Some(product) => product,
            None if value.is_negative() => i256::MIN,
            None => i256::MAX,
        };
        values.iter().map(|value| scaled(widen(*value))).collect()
    }
    fn widened<T: Cell>(values: &[T], factor: i256) -> Vec<i256> {
        scaled(values, factor, |value| i256::from_i128(value.as_i128()))
    }
    if let Some(array) = array.as_primitive_opt::<Decimal256Type>() {
        return Ok(scaled(array.values(), factor, |value| value));
    }
    with_native_values!(array, values => Ok(widened(values, factor)), _ => Err(foreign(array.data_type())))
}

/// The values of a fixed-width array as numbers of a kind. Decimals are scaled
/// by a division, which rounds once for up to 15 digits.
pub(crate) fn values_of(array: &dyn Array, kind: Kind) -> Result<Values, ExprError> {
    fn numbers<T: Cell>(values: &[T], kind: Kind) -> Values {
        match kind {
            Kind::Int => Values::Int(values.iter().map(|value| value.as_i128()).collect()),
            Kind::F32 => Values::F32(values.iter().map(|value| value.as_f64() as f32).collect()),
            Kind::F64 => Values::F64(values.iter().map(|value| value.as_f64()).collect()),
        }
    }
    let mut numbers = with_native_values!(
        array,
        values => numbers(values, kind),
        _ => return Err(foreign(array.data_type()))
    );
    let scale = match array.data_type() {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => i32::from(*scale),
        _ => 0,
    };
    if let (Values::F64(values), true) = (&mut numbers, scale != 0) {
        let size = 10f64.powi(scale.abs());
        values.iter_mut().for_each(|value| *value = if scale > 0 { *value / size } else { *value * size });
    }
    Ok(numbers)
}
