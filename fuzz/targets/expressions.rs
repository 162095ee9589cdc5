//! Arbitrary text as a condition and as an expression: parsed, bound, judged and evaluated. A condition and
//! its negation never hold for the same row, and parentheses do not change the meaning.
#![no_main]

use std::sync::{Arc, LazyLock};

use arrow_array::types::Int8Type;
use arrow_array::{Array, ArrayRef, BooleanArray, Decimal128Array, DictionaryArray, Float32Array, Float64Array, Int64Array};
use arrow_array::{BinaryArray, RecordBatch, StringArray, TimestampMillisecondArray};
use kubist_expr::{ExprError, Expression, Grouping, Nulls, Predicate, Zone, never};
use libfuzzer_sys::fuzz_target;

static ROWS: LazyLock<RecordBatch> = LazyLock::new(|| {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("a", Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(7), Some(0)]))),
        ("b", Arc::new(Float64Array::from(vec![f64::NAN, -0.0, 1.0, f64::INFINITY]))),
        ("c", Arc::new(StringArray::from(vec![Some(""), Some("é"), None, Some("abcabc")]))),
        ("d", Arc::new(BooleanArray::from(vec![Some(true), Some(false), Some(true), None]))),
        ("f", Arc::new(Float32Array::from(vec![Some(0.1), None, Some(f32::NAN), Some(-3.5)]))),
        ("m", Arc::new(Decimal128Array::from(vec![Some(150), Some(-1), None, Some(i128::MAX)]))),
        ("t", Arc::new(TimestampMillisecondArray::from(vec![0, -1, 1_600_000_000_000, i64::MAX]))),
        ("x", Arc::new(BinaryArray::from(vec![b"".as_slice(), b"\0", b"\xff\xff", b"abc"]))),
        ("k", Arc::new([Some("p"), None, Some("q"), Some("p")].into_iter().collect::<DictionaryArray<Int8Type>>())),
    ];
    RecordBatch::try_from_iter(columns).expect("columns of one length")
});

/// The result, unless an integer overflowed.
fn computed<T>(found: Result<T, ExprError>) -> Option<T> {
    match found {
        Err(ExprError::Overflow { .. }) => None,
        found => Some(found.expect("what is bound can be computed")),
    }
}

fuzz_target!(|text: &str| {
    let rows = &*ROWS;
    if let Ok(expression) = Expression::parse(text, rows.schema_ref()) {
        if let Some(numbers) = computed(expression.evaluate(rows, &never)) {
            assert_eq!(numbers.len(), rows.num_rows());
        }
        if expression.whole_type().is_some() {
            computed(expression.wholes(rows, &never));
        }
    }
    if let Ok(grouping) = Grouping::parse(text, rows.schema_ref())
        && let Some(values) = computed(grouping.evaluate(rows, &never))
    {
        assert_eq!(values.data_type(), grouping.data_type());
    }
    let Ok(predicate) = Predicate::parse(text, rows.schema_ref()) else { return };
    assert!(predicate.size() <= text.len() + 8, "{} parts", predicate.size());
    let Some(found) = computed(predicate.evaluate(rows, &never)) else { return };
    predicate.verdict(&|_| Zone { min: 0, max: u64::MAX, nulls: Nulls::Some });
    for column in predicate.columns() {
        predicate.keys_of(column);
        predicate.values_of(column, rows.schema_ref().field(column).data_type());
    }
    // Another pair of parentheses may exceed the nesting limit.
    if let Ok(not) = Predicate::parse(&format!("NOT ({text})"), rows.schema_ref()) {
        let Some(not) = computed(not.evaluate(rows, &never)) else { return };
        assert!((0..rows.num_rows()).all(|row| !(found.value(row) && not.value(row))));
    }
    if let Ok(same) = Predicate::parse(&format!("({text})"), rows.schema_ref()) {
        assert_eq!(same.evaluate(rows, &never).as_ref(), Ok(&found));
    }
});
