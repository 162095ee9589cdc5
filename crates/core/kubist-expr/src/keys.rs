//! The range of a column's values that a predicate can select. Sorted indexes prune by it before they read zones.

use crate::Predicate;
use crate::bound::{Operand, PointList, Points, Sides, Test};
use crate::cell::Cell;
use crate::domain::{Point, Span, value_type};
use crate::error::ExprError;
use crate::names::Names;
use crate::zone::{Nulls, Verdict, Zone, verdict};
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Decimal256Type};
use arrow_array::{Array, ArrowPrimitiveType};
use arrow_buffer::i256;
use arrow_schema::{DataType, Schema};
use kubist_index::gradual::{self, Stop};
use kubist_index::with_exact_primitive;
use std::sync::Arc;

/// A superset of the values of selected rows in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    /// The lowest and highest order key of the numbers; `None` if there are none.
    pub numbers: Option<(u64, u64)>,
    /// NaN or null is possible.
    pub others: bool,
}

/// Limit of a condition's size for [`contracted`], which takes about 130 verdicts.
const MOST_CONTRACTED: usize = 4096;

const NONE: Keys = Keys { numbers: None, others: false };
const ANY: Keys = Keys { numbers: Some((0, u64::MAX)), others: true };

impl Keys {
    fn of_span(span: Option<&Span>) -> Keys {
        Keys { numbers: span.map(|span| (span.low, span.high)), others: false }
    }

    fn both(self, other: Keys) -> Keys {
        let numbers = self.numbers.zip(other.numbers).map(|(a, b)| (a.0.max(b.0), a.1.min(b.1)));
        Keys { numbers: numbers.filter(|(low, high)| low <= high), others: self.others && other.others }
    }

    fn either(self, other: Keys) -> Keys {
        let numbers = match (self.numbers, other.numbers) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (one, other) => one.or(other),
        };
        Keys { numbers, others: self.others || other.others }
    }
}

impl Predicate {
    /// The keys that selected rows can have in a column, which is a schema index.
    pub fn keys_of(&self, column: usize) -> Keys {
        let keys = keys(&self.test, column);
        if !self.computes() || self.size() > MOST_CONTRACTED {
            return keys;
        }
        let mut found = None;
        self.test.each_column(&mut |one| {
            if one.index == column && found.is_none() {
                found = Some(one.numbers);
            }
        });
        found.map_or(keys, |numbers| contracted(&self.test, column, keys, numbers))
    }

    pub fn computes(&self) -> bool {
        computes(&self.test)
    }

    /// The predicate `column IN values`, for millions of values of the column's type. `column` is an exact name.
    /// Null and NaN equal nothing. `stopped` is called at intervals.
    ///
    /// # Errors
    ///
    /// [`ExprError::UnknownColumn`], [`ExprError::Type`] if the types differ, or [`ExprError::Stopped`].
    pub fn among(
        schema: &Schema,
        column: &str,
        values: &dyn Array,
        stopped: &dyn Fn() -> bool,
    ) -> Result<Predicate, ExprError> {
        let column = Names::new(schema).column(column, true)?;
        if values.data_type() != value_type(&column.data_type) {
            let (name, found) = (&column.name, values.data_type());
            return Err(ExprError::type_mistake(format!(
                "column `{name}` of type {} cannot be compared with values of type {found}",
                column.data_type
            )));
        }
        let stop = StopCheck(stopped);
        let mut found = Vec::with_capacity(values.len());
        for piece in gradual::pieces(values.len(), &stop) {
            let piece = piece?;
            found.extend(points(&values.slice(piece.start, piece.len()))?);
        }
        let points = PointList::new(found, &stop)?;
        let ranges = points.ranges();
        let mut spans: Vec<Span> = Vec::with_capacity(ranges.len());
        for piece in gradual::pieces(ranges.len(), &stop) {
            spans.extend(ranges[piece?].iter().filter_map(|range| range.span(&column.data_type)));
        }
        let part = format!("\"{}\" IN ({} values)", column.name.replace('"', "\"\""), spans.len());
        let test = match spans.is_empty() {
            true => Test::Constant(Some(false)),
            false => Test::Among {
                operand: Operand::Column(column),
                points: Arc::new(Points { points, spans }),
                null: false,
            },
        };
        Ok(Predicate { test, parts: vec![part] })
    }
}

struct StopCheck<'a>(&'a dyn Fn() -> bool);

impl Stop for StopCheck<'_> {
    type Stopped = ExprError;

    fn look(&self) -> Result<(), ExprError> {
        if (self.0)() { Err(ExprError::Stopped) } else { Ok(()) }
    }
}

fn computes(test: &Test) -> bool {
    let is_computed = |operand: &Operand| matches!(operand, Operand::Compute(_));
    match test {
        Test::Within { operand, .. }
        | Test::Among { operand, .. }
        | Test::Like { operand, .. }
        | Test::IsFinite { operand, .. }
        | Test::IsNull(operand)
        | Test::IsNan(operand) => is_computed(operand),
        Test::Compare { sides, .. } => matches!(**sides, Sides::Int { .. } | Sides::Float { .. }),
        Test::Once(..) | Test::InShape { .. } => true,
        Test::IsTruth(test, _) | Test::Not(test) => computes(test),
        Test::Same(test, others) => computes(test) || others.iter().any(computes),
        Test::And(tests) | Test::Or(tests) => tests.iter().any(computes),
        Test::Constant(_) => false,
    }
}

/// Removes from both ends of a column's range the values that cannot match, whatever the other columns are. A
/// sphere thus gets its bounding box. `numbers` are the keys that are not NaN.
fn contracted(test: &Test, column: usize, keys: Keys, numbers: (u64, u64)) -> Keys {
    let anything = Zone { min: 0, max: u64::MAX, nulls: Nulls::Some };
    let can_be = |zone: Zone| {
        let of_column = |other: usize| if other == column { zone } else { anything };
        verdict(test, &of_column) != Verdict::None
    };
    let can_match = |min: u64, max: u64| can_be(Zone { min, max, nulls: Nulls::None });
    let is_nan = || numbers.1 < u64::MAX && can_match(u64::MAX, u64::MAX);
    let others = keys.others && (can_be(Zone { nulls: Nulls::All, ..anything }) || is_nan());
    let Some((first, last)) = keys.numbers.map(|(low, high)| (low.max(numbers.0), high.min(numbers.1))) else {
        return Keys { others, ..keys };
    };
    if first > last || !can_match(first, last) {
        return Keys { numbers: None, others };
    }
    let (mut low, mut end) = (first, last);
    while low < end {
        let middle = low + (end - low) / 2;
        if can_match(first, middle) { end = middle } else { low = middle + 1 }
    }
    let (mut begin, mut high) = (low, last);
    while begin < high {
        let middle = begin + (high - begin).div_ceil(2);
        if can_match(middle, last) { begin = middle } else { high = middle - 1 }
    }
    Keys { numbers: Some((low, high)), others }
}

fn keys(test: &Test, column: usize) -> Keys {
    let is_it = |operand: &Operand| operand.column().is_some_and(|found| found.index == column);
    match test {
        Test::Constant(Some(true)) => ANY,
        Test::Constant(_) => NONE,
        Test::Within { operand, span, .. } | Test::IsFinite { operand, span } if is_it(operand) => {
            Keys::of_span(span.as_ref())
        }
        Test::Among { operand, points, .. } if is_it(operand) => {
            points.spans.iter().map(|span| Keys::of_span(Some(span))).fold(NONE, Keys::either)
        }
        Test::IsNull(operand) | Test::IsNan(operand) if is_it(operand) => Keys { numbers: None, others: true },
        Test::IsTruth(test, Some(true)) => keys(test, column),
        Test::And(tests) => tests.iter().map(|test| keys(test, column)).fold(ANY, Keys::both),
        Test::Or(tests) => tests.iter().map(|test| keys(test, column)).fold(NONE, Keys::either),
        _ => ANY,
    }
}

fn whole<T: ArrowPrimitiveType>(values: &dyn Array) -> Vec<Point>
where
    T::Native: Cell,
{
    let values = values.as_primitive::<T>().iter().flatten();
    values.map(|value| Point::Whole(i256::from_i128(value.as_i128()))).collect()
}

fn floats<T: ArrowPrimitiveType>(values: &dyn Array) -> Vec<Point>
where
    T::Native: Cell,
{
    let values = values.as_primitive::<T>().iter().flatten().map(Cell::as_f64);
    values.filter(|value| !value.is_nan()).map(|value| Point::Float(value + 0.0)).collect()
}

fn points(values: &dyn Array) -> Result<Vec<Point>, ExprError> {
    fn bytes<B: AsRef<[u8]>>(values: impl Iterator<Item = Option<B>>) -> Vec<Point> {
        values.flatten().map(|value| Point::Bytes(value.as_ref().into())).collect()
    }
    use arrow_array::types::{Float16Type, Float32Type, Float64Type};
    let data_type = values.data_type();
    Ok(match data_type {
        DataType::Float16 => floats::<Float16Type>(values),
        DataType::Float32 => floats::<Float32Type>(values),
        DataType::Float64 => floats::<Float64Type>(values),
        DataType::Boolean => {
            values.as_boolean().iter().flatten().map(|value| Point::Whole(i256::from_i128(value.into()))).collect()
        }
        DataType::Decimal128(..) => whole::<Decimal128Type>(values),
        DataType::Decimal256(..) => {
            values.as_primitive::<Decimal256Type>().iter().flatten().map(Point::Whole).collect()
        }
        DataType::Utf8 => bytes(values.as_string::<i32>().iter()),
        DataType::LargeUtf8 => bytes(values.as_string::<i64>().iter()),
        DataType::Utf8View => bytes(values.as_string_view().iter()),
        DataType::Binary => bytes(values.as_binary::<i32>().iter()),
        DataType::LargeBinary => bytes(values.as_binary::<i64>().iter()),
        DataType::BinaryView => bytes(values.as_binary_view().iter()),
        DataType::FixedSizeBinary(_) => bytes(values.as_fixed_size_binary().iter()),
        other => with_exact_primitive!(other, T => whole::<T>(values),
            _ => return Err(ExprError::type_mistake(format!("values of type {data_type} have no order")))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::never;
    use arrow_array::{Float32Array, Int64Array, RecordBatch, StringArray};
    use arrow_schema::Field;
    use kubist_index::order;

    fn schema() -> Schema {
        Schema::new(vec![
            Field::new("x", DataType::Float32, true),
            Field::new("n", DataType::Int64, true),
            Field::new("s", DataType::Utf8, true),
        ])
    }

    fn of(sql: &str, column: usize) -> Keys {
        Predicate::parse(sql, &schema()).unwrap().keys_of(column)
    }

    #[test]
    fn ranges_meet_and_spread() {
        let n = |values: &[i64]| order::keys(&Int64Array::from(values.to_vec())).unwrap();
        let ends = n(&[3, 9]);
        let between = Keys { numbers: Some((ends[0], ends[1])), others: false };
        for same in ["n BETWEEN 3 AND 9", "n >= 3 AND s = 'a' AND n < 10", "n = 3 OR n = 9", "n IN (9, 5, 3, NULL)"] {
            assert_eq!(of(same, 1), between, "{same}");
        }
        assert_eq!(of("n > 3 AND n < 3", 1), NONE);
        assert_eq!(of("FALSE", 1), NONE);
        let two = n(&[2])[0];
        assert_eq!(of("n + 1 = 3", 1), Keys { numbers: Some((two, two)), others: false });
        assert_eq!(of("n % 5 = 3", 1), Keys { others: false, ..ANY });
        for open in ["s = 'a'", "n = 3 OR s = 'a'", "NOT n = 3", "TRUE"] {
            assert_eq!(of(open, 1), ANY, "{open}");
        }
    }

    #[test]
    fn what_is_no_number_is_kept_apart() {
        let x = |value: f32| order::keys(&Float32Array::from(vec![value])).unwrap()[0];
        let found = of("x >= 0.5 OR isnan(x)", 0);
        assert_eq!(found, Keys { numbers: Some((x(0.5), x(f32::INFINITY))), others: true });
        assert!(!of("(x >= 0.5 OR isnan(x)) AND x <= 1", 0).others);
        assert_eq!(of("x IS NULL", 0), Keys { numbers: None, others: true });
        assert_eq!(of("x IS NULL AND x > 1", 0), NONE);
    }

    #[test]
    fn values_are_found_whatever_their_number_and_order() {
        let batch = RecordBatch::try_new(
            Arc::new(schema()),
            vec![
                Arc::new(Float32Array::from(vec![Some(-0.0), Some(f32::NAN), None, Some(2.5)])),
                Arc::new(Int64Array::from(vec![Some(7), Some(-7), None, Some(1)])),
                Arc::new(StringArray::from(vec![Some("a"), Some("b"), None, Some("")])),
            ],
        )
        .unwrap();
        let found = |column: &str, values: &dyn Array| -> Vec<bool> {
            let predicate = Predicate::among(&schema(), column, values, &never).unwrap();
            predicate.evaluate(&batch, &never).unwrap().iter().flatten().collect()
        };
        let many: Vec<i64> = (0..100).rev().chain(0..100).collect();
        assert_eq!(found("n", &Int64Array::from(many)), [true, false, false, true]);
        assert_eq!(found("x", &Float32Array::from(vec![Some(0.0), Some(f32::NAN), None])), [true, false, false, false]);
        assert_eq!(found("s", &StringArray::from(vec![Some(""), None, Some("b")])), [false, true, false, true]);
        assert_eq!(found("n", &Int64Array::from(Vec::<i64>::new())), [false; 4]);
        assert!(Predicate::among(&schema(), "n", &StringArray::from(vec!["a"]), &never).is_err());
    }
}
