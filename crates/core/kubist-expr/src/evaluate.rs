//! Evaluation of tests: the rows for which a test is true, and the rows for which it is false.
//!
//! A caller requests the true rows, the false rows, or both, as one bit per row. `NOT` swaps the two sets. Rows
//! for which the test is unknown, as for null or NaN, are in neither set.

pub(crate) mod compute;
mod listed;
mod shape;
pub(crate) mod text;

use crate::bound::{Operand, PointList, Sides, Test, Text};
use crate::cell::{Cell, unsupported, with_native_values};
use crate::domain::Range;
use crate::error::ExprError;
use crate::like::Pattern;
use crate::rows::Rows;
use crate::syntax::Op;
use crate::vector::{Values, Vector};
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Decimal256Type, Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, PrimitiveArray};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, NullBuffer, i256};
use arrow_schema::DataType;
use arrow_select::take::take;
use compute::vector;
use listed::ValueSet;
use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

pub(crate) fn lengths(text: &Text, rows: &Rows<'_>) -> Result<(Vec<i128>, Option<NullBuffer>), ExprError> {
    let array = text::array(text, rows)?;
    let texts = text::strings(array.as_ref())?;
    let length = |row| texts(row).map_or(0, |text| text.chars().count() as i128);
    Ok(((0..array.len()).map(length).collect(), array.logical_nulls()))
}

/// Returns one bit per row for each `wanted` truth value. Every test and number is computed once.
pub(crate) fn answers<const N: usize>(
    test: &Test,
    rows: &Rows<'_>,
    wanted: [bool; N],
) -> Result<[BooleanBuffer; N], ExprError> {
    rows.go_on()?;
    let count = rows.count();
    match test {
        Test::Constant(constant) => Ok(wanted.map(|answer| filled(count, *constant == Some(answer)))),
        Test::Not(test) => answers(test, rows, wanted.map(|answer| !answer)),
        Test::And(tests) => join(tests, rows, wanted, true),
        Test::Or(tests) => join(tests, rows, wanted, false),
        Test::IsTruth(test, truth) => {
            let found = match truth {
                Some(truth) => {
                    let [found] = answers(test, rows, [*truth])?;
                    found
                }
                None => {
                    let [yes, no] = answers(test, rows, [true, false])?;
                    !&(&yes | &no)
                }
            };
            Ok(wanted.map(|answer| if answer { found.clone() } else { !&found }))
        }
        Test::Same(one, others) => same(one, others, rows, wanted),
        Test::Once(compute, test) => {
            let numbers = vector(compute, rows)?;
            rows.knowing(compute, numbers, || answers(test, rows, wanted))
        }
        Test::IsNull(operand) => {
            let nulls = match operand {
                Operand::Column(column) => rows.stored(column)?.logical_nulls(),
                Operand::Compute(compute) => vector(compute, rows)?.nulls,
                Operand::Text(call) => text::called(call, rows)?.logical_nulls(),
            };
            Ok(wanted.map(|answer| match (&nulls, answer) {
                (None, _) => filled(count, !answer),
                (Some(nulls), true) => !nulls.inner(),
                (Some(nulls), false) => nulls.inner().clone(),
            }))
        }
        Test::Within { operand, range, .. } => {
            each_value(operand, rows, wanted, &|array, answer| within(array, range, answer))
        }
        Test::Among { operand, points, null } => {
            each_value(operand, rows, wanted, &|array, answer| match *null && !answer {
                true => Ok(filled(array.len(), false)),
                false => among(array, &points.points, answer),
            })
        }
        Test::IsNan(operand) => {
            each_value(operand, rows, wanted, &|array, answer| classify(array, |v| v.is_nan() == answer))
        }
        Test::IsFinite { operand, .. } => {
            each_value(operand, rows, wanted, &|array, answer| classify(array, |v| v.is_finite() == answer))
        }
        Test::Like { operand, pattern, .. } => {
            each_value(operand, rows, wanted, &|array, answer| like(array, pattern, answer, rows))
        }
        Test::Compare { op, sides } => compare(*op, sides, rows, wanted),
        Test::InShape { shape, point } => shape::inside(shape, point, rows, wanted),
    }
}

/// Combines tests by AND (`all`) or OR. Stops when the remaining tests cannot change the result.
fn join<const N: usize>(
    tests: &[Test],
    rows: &Rows<'_>,
    wanted: [bool; N],
    all: bool,
) -> Result<[BooleanBuffer; N], ExprError> {
    // If all tests must agree on a truth value, further tests remove rows; otherwise they add rows.
    let narrows = wanted.map(|answer| answer == all);
    let mut found = narrows.map(|narrows| filled(rows.count(), narrows));
    for test in tests {
        let next = answers(test, rows, wanted)?;
        for ((found, next), narrows) in found.iter_mut().zip(&next).zip(narrows) {
            *found = if narrows { &*found & next } else { &*found | next };
        }
        let mut parts = found.iter().zip(narrows);
        if parts.all(|(found, narrows)| if narrows { !found.has_true() } else { !found.has_false() }) {
            break;
        }
    }
    Ok(found)
}

fn same<const N: usize>(
    one: &Test,
    others: &[Test],
    rows: &Rows<'_>,
    wanted: [bool; N],
) -> Result<[BooleanBuffer; N], ExprError> {
    let [yes, no] = answers(one, rows, [true, false])?;
    let mut one_of = [true, false].map(|_| filled(rows.count(), false));
    let mut all_of = [true, false].map(|_| filled(rows.count(), true));
    for other in others {
        let next = answers(other, rows, [true, false])?;
        for (next, (one_of, all_of)) in next.iter().zip(one_of.iter_mut().zip(&mut all_of)) {
            *one_of = &*one_of | next;
            *all_of = &*all_of & next;
        }
    }
    Ok(wanted.map(|answer| match answer {
        true => &(&yes & &one_of[0]) | &(&no & &one_of[1]),
        false => &(&yes & &all_of[1]) | &(&no & &all_of[0]),
    }))
}

/// Calls `each` for each branch of a `CASE`, with the rows whose first true test it has. Returns the remaining rows.
pub(crate) fn untold<T>(
    whens: &[(Test, T)],
    rows: &Rows<'_>,
    each: &mut dyn FnMut(&BooleanBuffer, &T) -> Result<(), ExprError>,
) -> Result<BooleanBuffer, ExprError> {
    let mut left = filled(rows.count(), true);
    for (test, then) in whens {
        if !left.has_true() {
            break;
        }
        let [holds] = rows.part(&left, |part| answers(test, part, [true]))?;
        if !holds.has_true() {
            continue;
        }
        let mut takes = BooleanBufferBuilder::new(rows.count());
        takes.append_n(rows.count(), false);
        for (row, holds) in left.set_indices().zip(&holds) {
            takes.set_bit(row, holds);
        }
        let takes = takes.finish();
        left = &left & &!&takes;
        each(&takes, then)?;
    }
    Ok(left)
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

type Ask<'a> = &'a dyn Fn(&dyn Array, bool) -> Result<BooleanBuffer, ExprError>;

fn on_values<const N: usize>(
    array: &dyn Array,
    wanted: [bool; N],
    ask: Ask<'_>,
) -> Result<[BooleanBuffer; N], ExprError> {
    let Some(dictionary) = array.as_any_dictionary_opt() else { return each(wanted, |answer| ask(array, answer)) };
    if dictionary.values().len() > 2 * array.len() {
        return on_values(take(dictionary.values().as_ref(), dictionary.keys(), None)?.as_ref(), wanted, ask);
    }
    let of_values = on_values(dictionary.values().as_ref(), wanted, ask)?;
    let mut of_values = of_values.into_iter();
    each(wanted, |_| {
        let answers = BooleanArray::new(of_values.next().unwrap_or_else(|| filled(0, false)), None);
        let answers = take(&answers, dictionary.keys(), None)?;
        let answers = answers.as_boolean();
        Ok(valid(answers.values().clone(), answers.nulls()))
    })
}

fn each<const N: usize>(
    wanted: [bool; N],
    mut ask: impl FnMut(bool) -> Result<BooleanBuffer, ExprError>,
) -> Result<[BooleanBuffer; N], ExprError> {
    let mut found = wanted.map(|_| filled(0, false));
    for (found, answer) in found.iter_mut().zip(wanted) {
        *found = ask(answer)?;
    }
    Ok(found)
}

fn each_value<const N: usize>(
    operand: &Operand,
    rows: &Rows<'_>,
    wanted: [bool; N],
    ask: Ask<'_>,
) -> Result<[BooleanBuffer; N], ExprError> {
    match operand {
        Operand::Column(column) => on_values(rows.stored(column)?.as_ref(), wanted, ask),
        Operand::Text(call) => on_values(text::called(call, rows)?.as_ref(), wanted, ask),
        Operand::Compute(compute) => {
            let Vector { values, nulls } = vector(compute, rows)?;
            let array: ArrayRef = match values {
                Values::Int(values) => Arc::new(PrimitiveArray::<Decimal128Type>::new(values.into(), nulls)),
                Values::F32(values) => Arc::new(PrimitiveArray::<Float32Type>::new(values.into(), nulls)),
                Values::F64(values) => Arc::new(PrimitiveArray::<Float64Type>::new(values.into(), nulls)),
            };
            each(wanted, |answer| ask(array.as_ref(), answer))
        }
    }
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
            other => return Err(unsupported(other)),
        }
    }};
}

/// Packs one bit per value, in 64-bit words so that the compiler can vectorise the test.
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

fn comparable<T: Cell>(values: &[T]) -> BooleanBuffer {
    pack(values, |value| value.partial_cmp(&value).is_some())
}

/// Null and NaN are in neither result.
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
            _ => return Err(unsupported(data_type))
        ),
        (data_type, Range::Float(low, high)) => with_native_values!(
            array,
            values => between(values, Cell::from_float(*low), Cell::from_float(*high), answer),
            _ => return Err(unsupported(data_type))
        ),
        (_, Range::Bytes(low, high)) => with_bytes!(array, row => bytes_within(array.len(), row, low, high, answer)),
    };
    Ok(valid(found, array.nulls()))
}

fn bytes_within<'a>(
    count: usize,
    row: impl Fn(usize) -> &'a [u8],
    low: &Bound<Arc<[u8]>>,
    high: &Bound<Arc<[u8]>>,
    answer: bool,
) -> BooleanBuffer {
    if let (Bound::Included(low), Bound::Included(high)) = (low, high)
        && low == high
    {
        return BooleanBuffer::collect_bool(count, |index| (row(index) == &**low) == answer);
    }
    BooleanBuffer::collect_bool(count, |index| {
        let value = row(index);
        let above = match low {
            Bound::Included(low) => value >= &**low,
            Bound::Excluded(low) => value > &**low,
            Bound::Unbounded => true,
        };
        let below = match high {
            Bound::Included(high) => value <= &**high,
            Bound::Excluded(high) => value < &**high,
            Bound::Unbounded => true,
        };
        (above && below) == answer
    })
}

/// Null and NaN are in neither result.
fn among(array: &dyn Array, points: &PointList, answer: bool) -> Result<BooleanBuffer, ExprError> {
    let found = match (array.data_type(), points) {
        (DataType::Boolean, PointList::Whole(points)) => {
            let values = array.as_boolean().values();
            let holds = |value: i256| points.contains(&value) == answer;
            let (no, yes) = (holds(i256::ZERO), holds(i256::ONE));
            BooleanBuffer::collect_bool(values.len(), |row| if values.value(row) { yes } else { no })
        }
        (data_type, PointList::Whole(points)) => with_native_values!(
            array,
            values => ValueSet::whole(points, values.len()).rows(values, answer),
            _ => return Err(unsupported(data_type))
        ),
        (data_type, PointList::Float(points)) => with_native_values!(
            array,
            values => ValueSet::floats(points).rows(values, answer),
            _ => return Err(unsupported(data_type))
        ),
        (_, PointList::Bytes(points)) => with_bytes!(array, row => {
            BooleanBuffer::collect_bool(array.len(), |index| {
                points.binary_search_by(|point| (**point).cmp(row(index))).is_ok() == answer
            })
        }),
    };
    Ok(valid(found, array.nulls()))
}

/// Tests floats; values of other types count as zero.
fn classify(array: &dyn Array, test: impl Fn(f64) -> bool) -> Result<BooleanBuffer, ExprError> {
    let found = match array.data_type() {
        DataType::Float16 => pack(array.as_primitive::<Float16Type>().values(), |value| test(value.to_f64())),
        DataType::Float32 => pack(array.as_primitive::<Float32Type>().values(), |value| test(value.into())),
        DataType::Float64 => pack(array.as_primitive::<Float64Type>().values(), test),
        _ => filled(array.len(), test(0.0)),
    };
    Ok(valid(found, array.nulls()))
}

/// Number of steps of a pattern search between two checks for cancellation.
const STEPS_AT_ONCE: usize = 1 << 20;

fn like(array: &dyn Array, pattern: &Pattern, answer: bool, rows: &Rows<'_>) -> Result<BooleanBuffer, ExprError> {
    fn texts<'a>(array: &'a dyn Array) -> Result<Box<dyn Fn(usize) -> &'a str + 'a>, ExprError> {
        Ok(match array.data_type() {
            DataType::Utf8 => {
                let array = array.as_string::<i32>();
                Box::new(|row| array.value(row))
            }
            DataType::LargeUtf8 => {
                let array = array.as_string::<i64>();
                Box::new(|row| array.value(row))
            }
            DataType::Utf8View => {
                let array = array.as_string_view();
                Box::new(|row| array.value(row))
            }
            other => return Err(unsupported(other)),
        })
    }
    let text = texts(array)?;
    let mut steps = 0;
    let mut go_on = |more: usize| {
        steps += more;
        if steps < STEPS_AT_ONCE {
            return Ok(());
        }
        steps = 0;
        rows.go_on()
    };
    let mut found = BooleanBufferBuilder::new(array.len());
    for row in 0..array.len() {
        // Null rows are skipped, because their hidden text may be long.
        let matches = array.is_valid(row) && pattern.matches(text(row), &mut go_on)? == answer;
        found.append(matches);
    }
    Ok(found.finish())
}

struct Ordered<const N: usize> {
    op: Op,
    count: usize,
    wanted: [bool; N],
}

impl<const N: usize> Ordered<N> {
    fn rows(&self, order: impl Fn(usize) -> Option<Ordering>) -> [BooleanBuffer; N] {
        self.wanted.map(|answer| {
            let holds = |order: Ordering| self.op.holds(order) == answer;
            BooleanBuffer::collect_bool(self.count, |row| order(row).is_some_and(holds))
        })
    }
}

fn compare<const N: usize>(
    op: Op,
    sides: &Sides,
    rows: &Rows<'_>,
    wanted: [bool; N],
) -> Result<[BooleanBuffer; N], ExprError> {
    let collect = Ordered { op, count: rows.count(), wanted };
    let (found, left, right) = match sides {
        Sides::Int { left, left_factor, right, right_factor } => {
            let (a, b) = (vector(left, rows)?, vector(right, rows)?);
            let (x, y) = (a.values.into_ints(), b.values.into_ints());
            let found = collect.rows(|row| Some((x[row] * left_factor).cmp(&(y[row] * right_factor))));
            (found, a.nulls, b.nulls)
        }
        Sides::Float { left, right } => {
            let (a, b) = (vector(left, rows)?, vector(right, rows)?);
            // Conversion from 32 to 64 bits keeps the order of floats.
            let (x, y) = (a.values.into_f64(), b.values.into_f64());
            (collect.rows(|row| x[row].partial_cmp(&y[row])), a.nulls, b.nulls)
        }
        Sides::Wide { left, left_factor, right, right_factor } => {
            let (a, b) = (rows.array(left)?, rows.array(right)?);
            let (x, y) = (wide(a.as_ref(), *left_factor)?, wide(b.as_ref(), *right_factor)?);
            (collect.rows(|row| Some(x[row].cmp(&y[row]))), a.nulls().cloned(), b.nulls().cloned())
        }
        Sides::Bytes { left, right } => by_bytes(&collect, &rows.array(left)?, &rows.array(right)?)?,
        Sides::Texts { left, right } => by_bytes(&collect, &text::array(left, rows)?, &text::array(right, rows)?)?,
    };
    Ok(found.map(|found| valid(valid(found, left.as_ref()), right.as_ref())))
}

type Compared<const N: usize> = ([BooleanBuffer; N], Option<NullBuffer>, Option<NullBuffer>);

fn by_bytes<const N: usize>(collect: &Ordered<N>, left: &ArrayRef, right: &ArrayRef) -> Result<Compared<N>, ExprError> {
    let found = with_bytes!(left.as_ref(), x => with_bytes!(right.as_ref(), y => {
        let order: &dyn Fn(usize) -> Option<Ordering> = &|row| Some(x(row).cmp(y(row)));
        collect.rows(order)
    }));
    Ok((found, left.nulls().cloned(), right.nulls().cloned()))
}

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
    with_native_values!(array, values => Ok(widened(values, factor)), _ => Err(unsupported(array.data_type())))
}
