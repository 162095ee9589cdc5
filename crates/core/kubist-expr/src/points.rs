//! The few values of a column that a predicate can select, for a secondary index.

use crate::Predicate;
use crate::bound::Test;
use crate::cell::Cell;
use crate::domain::{Point, Range, value_type};
use arrow_array::builder::{FixedSizeBinaryBuilder, PrimitiveBuilder};
use arrow_array::types::{Decimal128Type, Decimal256Type};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, LargeBinaryArray};
use arrow_array::{LargeStringArray, StringArray};
use arrow_buffer::i256;
use arrow_schema::DataType;
use kubist_index::with_exact_primitive;
use std::ops::Bound;
use std::sync::Arc;

/// A range of integers with at most this many values counts as a list.
const MOST_OF_A_RANGE: usize = 64;

impl Predicate {
    /// Returns values of the plain type `data_type` such that each selected row has one in the column with this schema
    /// index. Null and NaN are excluded; `None` if there are too many values.
    pub fn values_of(&self, column: usize, data_type: &DataType) -> Option<ArrayRef> {
        array(points(&self.test, column)?, data_type)
    }
}

fn points(test: &Test, column: usize) -> Option<Vec<Point>> {
    let is_it = |operand: &crate::bound::Operand| operand.column().is_some_and(|found| found.index == column);
    match test {
        Test::Constant(Some(false) | None) => Some(Vec::new()),
        Test::Within { operand, range, .. } if is_it(operand) => of_range(range),
        Test::Among { operand, points, .. } if is_it(operand) => {
            Some(points.points.ranges().iter().filter_map(of_range).flatten().collect())
        }
        Test::IsTruth(test, Some(true)) => points(test, column),
        // All rows satisfy every part, so the part with the fewest values is the most selective.
        Test::And(tests) => tests.iter().filter_map(|test| points(test, column)).min_by_key(Vec::len),
        Test::Or(tests) => {
            let parts: Option<Vec<Vec<Point>>> = tests.iter().map(|test| points(test, column)).collect();
            Some(parts?.into_iter().flatten().collect())
        }
        _ => None,
    }
}

fn of_range(range: &Range) -> Option<Vec<Point>> {
    match range {
        Range::Empty => Some(Vec::new()),
        Range::Whole(low, high) => {
            let more = high.checked_sub(*low)?.to_i128().and_then(|more| usize::try_from(more).ok())?;
            let value = |index: usize| Point::Whole(low.wrapping_add(i256::from_i128(index as i128)));
            (more < MOST_OF_A_RANGE).then(|| (0..=more).map(value).collect())
        }
        Range::Float(low, high) => (low == high).then(|| vec![Point::Float(*low)]),
        Range::Bytes(Bound::Included(low), Bound::Included(high)) => {
            (low == high).then(|| vec![Point::Bytes(low.clone())])
        }
        Range::Bytes(..) => None,
    }
}

fn cells<T: ArrowPrimitiveType>(points: &[Point], data_type: &DataType) -> ArrayRef
where
    T::Native: Cell,
{
    let mut values = PrimitiveBuilder::<T>::with_capacity(points.len()).with_data_type(data_type.clone());
    for point in points {
        match point {
            Point::Whole(value) => values.append_value(T::Native::from_whole(*value)),
            Point::Float(value) => values.append_value(T::Native::from_float(*value)),
            Point::Bytes(_) => {}
        }
    }
    Arc::new(values.finish())
}

fn array(points: Vec<Point>, data_type: &DataType) -> Option<ArrayRef> {
    let data_type = value_type(data_type);
    with_exact_primitive!(data_type, T => return Some(cells::<T>(&points, data_type)), _ => {});
    let bytes = || {
        points.iter().filter_map(|point| match point {
            Point::Bytes(bytes) => Some(&**bytes),
            _ => None,
        })
    };
    let text = || bytes().filter_map(|bytes| std::str::from_utf8(bytes).ok());
    Some(match data_type {
        DataType::Boolean => {
            let truth = |point: &Point| matches!(point, Point::Whole(value) if *value != i256::ZERO);
            Arc::new(BooleanArray::from(points.iter().map(truth).collect::<Vec<bool>>()))
        }
        DataType::Decimal128(_, _) => cells::<Decimal128Type>(&points, data_type),
        DataType::Decimal256(_, _) => cells::<Decimal256Type>(&points, data_type),
        DataType::Utf8 => Arc::new(StringArray::from_iter_values(text())),
        DataType::LargeUtf8 => Arc::new(LargeStringArray::from_iter_values(text())),
        DataType::Binary => Arc::new(BinaryArray::from_iter_values(bytes())),
        DataType::LargeBinary => Arc::new(LargeBinaryArray::from_iter_values(bytes())),
        DataType::FixedSizeBinary(width) => {
            let mut values = FixedSizeBinaryBuilder::new(*width);
            for value in bytes().filter(|value| value.len() == *width as usize) {
                values.append_value(value).ok()?;
            }
            Arc::new(values.finish()) as Arc<dyn Array>
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::{Field, Schema, TimeUnit};

    fn schema() -> Schema {
        Schema::new(vec![
            Field::new("pid", DataType::Int32, true),
            Field::new("x", DataType::Float32, true),
            Field::new("name", DataType::LargeUtf8, true),
            Field::new("day", DataType::Timestamp(TimeUnit::Second, Some("UTC".into())), true),
            Field::new("tag", DataType::FixedSizeBinary(2), true),
            Field::new("mass", DataType::Decimal128(20, 2), true),
            Field::new("wet", DataType::Boolean, true),
        ])
    }

    fn values(sql: &str, column: usize) -> Option<String> {
        let schema = schema();
        let found = Predicate::parse(sql, &schema).unwrap().values_of(column, schema.field(column).data_type())?;
        assert_eq!(found.data_type(), schema.field(column).data_type());
        assert_eq!(found.null_count(), 0);
        let text = format!("{found:?}");
        let lines = text.lines().filter(|line| line.starts_with("  ")).map(|line| line.trim().trim_end_matches(','));
        Some(lines.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn equalities_and_lists_leave_few_values() {
        let some = |text: &str| Some(text.to_string());
        assert_eq!(values("pid = 17", 0), some("17"));
        assert_eq!(values("x > 3 AND pid IN (18, 17, NULL) AND name = 'a'", 0), some("17 18"));
        assert_eq!(values("x > 3 AND (pid IN (18, 17, 5) AND pid = 5)", 0), some("5"));
        assert_eq!(values("pid = 1 OR pid BETWEEN 7 AND 8", 0), some("1 7 8"));
        assert_eq!(values("(pid = 1) IS TRUE", 0), some("1"));
        assert_eq!(values("name = 'a'", 2), some("\"a\""));
        assert_eq!(values("x = 0.5", 1), some("0.5"));
        assert_eq!(values("tag IN (X'0001', X'000102')", 4), some("[0, 1]"));
        assert_eq!(values("wet", 6), values("wet = TRUE", 6));
        assert!(values("day = '2020-01-01'", 3).unwrap().contains("2020-01-01"));
        assert!(values("mass = 1.5", 5).unwrap().contains("150"));
        for nothing in ["pid = 2.5", "pid = 1 AND pid = 2", "pid = NULL", "pid = nan"] {
            assert_eq!(values(nothing, 0), some(""), "{nothing}");
        }
        for open in ["pid > 3", "pid BETWEEN 0 AND 64", "pid = 1 OR x = 2", "NOT pid = 1", "pid <> 3", "pid + 1 = 3"] {
            assert_eq!(values(open, 0), None, "{open}");
        }
        assert_eq!(values("pid = 17", 1), None);
        assert_eq!(values("name LIKE 'a%'", 2), None);
    }
}
