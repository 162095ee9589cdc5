//! No text, however odd or deep or long, makes the crate panic, overflow the
//! stack or take long.

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use kubist_expr::{ExprError, Nulls, Predicate, Zone};
use proptest::prelude::*;
use std::sync::Arc;

fn batch() -> RecordBatch {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("a", Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(7)]))),
        ("b", Arc::new(Float64Array::from(vec![f64::NAN, -0.0, 1.0]))),
        ("c", Arc::new(StringArray::from(vec!["", "é", "abc"]))),
        ("d", Arc::new(BooleanArray::from(vec![true, false, true]))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn try_it(sql: &str, batch: &RecordBatch) -> Result<(), ExprError> {
    let predicate = Predicate::parse(sql, batch.schema_ref())?;
    let found = predicate.evaluate(batch)?;
    assert_eq!(found.len(), batch.num_rows());
    predicate.verdict(&|_| Zone { min: 0, max: u64::MAX, nulls: Nulls::Some });
    assert!(Predicate::parse(&predicate.to_string(), batch.schema_ref()).is_ok(), "{predicate}");
    Ok(())
}

const WORDS: &[&str] = &[
    "a",
    "b",
    "c",
    "d",
    "nope",
    "\"c\"",
    "(",
    ")",
    "(",
    ")",
    ",",
    ".",
    "+",
    "-",
    "*",
    "/",
    "%",
    "^",
    "=",
    "<>",
    "<",
    "<=",
    ">",
    ">=",
    "!=",
    "AND",
    "OR",
    "NOT",
    "IN",
    "BETWEEN",
    "LIKE",
    "ILIKE",
    "IS",
    "NULL",
    "TRUE",
    "FALSE",
    "UNKNOWN",
    "DATE",
    "TIME",
    "'2020-01-01'",
    "'a%'",
    "'\\'",
    "X'00'",
    "X'",
    "'",
    "\"",
    "1",
    "0",
    "2.5",
    "1e9",
    "1e-400",
    "1e400",
    "170141183460469231731687303715884105728",
    "inf",
    "nan",
    "abs",
    "sqrt",
    "least",
    "isnan",
    "isfinite",
    "power",
    "CASE",
    "--",
    "::",
    "||",
    "é",
    "\u{0}",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn any_text_is_survived(sql in any::<String>()) {
        let _ = try_it(&sql, &batch());
    }

    #[test]
    fn any_words_are_survived(words in prop::collection::vec(prop::sample::select(WORDS), 0..24), glue in any::<bool>()) {
        let _ = try_it(&words.join(if glue { "" } else { " " }), &batch());
    }

    #[test]
    fn any_pattern_and_date_is_survived(text in "[-+:TZ.0-9%_\\\\'a ]{0,30}") {
        let text = text.replace('\'', "''");
        let _ = try_it(&format!("c LIKE '{text}' OR c ILIKE '{text}'"), &batch());
        let _ = try_it(&format!("TIMESTAMP '{text}' < '2020-01-01'"), &batch());
    }
}

#[test]
fn depth_is_bounded_and_the_stack_small() {
    // The stack that Rust gives a thread, halved, and no optimisation assumed.
    let test = || {
        let batch = batch();
        let deep =
            |open: &str, close: &str, levels: usize| format!("{}a > 1{}", open.repeat(levels), close.repeat(levels));
        for levels in [60, 1000, 100_000] {
            for (open, close) in [
                ("(", ")"),
                ("NOT ", ""),
                ("NOT(", ")"),
                ("abs(", ")"),
                ("a IN ((", "))"),
                ("least(1, ", ")"),
                ("(", ""),
            ] {
                let result = try_it(&deep(open, close, levels), &batch);
                assert!(
                    levels == 60 || matches!(result, Err(ExprError::TooDeep { .. })),
                    "{open} {levels}: {result:?}"
                );
            }
            for (start, more) in
                [("a > ", "- "), ("a = 1", "+ 1"), ("a = 2", " ^ 2"), ("a = 1", "*a"), ("d", " IS TRUE")]
            {
                let result = try_it(&format!("{start}{}", more.repeat(levels)), &batch);
                assert!(levels == 60 || result.is_err(), "{more} {levels}");
            }
        }
        assert!(try_it(&deep("(", ")", 60), &batch).is_ok());
        assert!(try_it(&format!("a = 1{}", " + 1".repeat(120)), &batch).is_ok());
        assert!(try_it(&deep("NOT (", ")", 30), &batch).is_ok());
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(test).unwrap().join().unwrap();
}

#[test]
fn width_is_not_bounded() {
    let batch = batch();
    let many = |part: &str, glue: &str| vec![part; 20_000].join(glue);
    assert_eq!(try_it(&many("a <> 3", " AND "), &batch), Ok(()));
    assert_eq!(try_it(&many("(b > 3 AND c = 'x')", " OR "), &batch), Ok(()));
    assert_eq!(try_it(&format!("a IN ({})", many("7", ",")), &batch), Ok(()));
    let points: Vec<String> = (0..20_000).map(|i| i.to_string()).collect();
    let sql = format!("a IN ({})", points.join(", "));
    let found = Predicate::parse(&sql, batch.schema_ref()).unwrap().evaluate(&batch).unwrap();
    assert_eq!(found.true_count(), 1);
}
