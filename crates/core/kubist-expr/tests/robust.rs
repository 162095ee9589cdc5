//! No text, however long or deeply nested, makes the crate panic, overflow the stack or take long.

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use kubist_expr::{ExprError, Expression, Grouping, Nulls, Predicate, Zone, never};
use proptest::prelude::*;
use std::cell::Cell;
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
    match predicate.evaluate(batch, &never) {
        Ok(found) => assert_eq!(found.len(), batch.num_rows()),
        Err(ExprError::Overflow { .. }) => {}
        Err(other) => return Err(other),
    }
    if let Ok(grouping) = Grouping::parse(sql, batch.schema_ref()) {
        let _ = grouping.evaluate(batch, &never);
    }
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
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "CAST",
    "AS",
    "int64",
    "date",
    "bin",
    "round",
    "date_trunc",
    "'day'",
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
    // Half of Rust's default thread stack must suffice without optimisation.
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
                ("CASE WHEN d THEN ", " END"),
                ("CASE WHEN ", " THEN d END"),
                ("CASE a + 1 WHEN 2 THEN d ELSE ", " END"),
                ("CAST(", " AS boolean)"),
                ("(", ""),
            ] {
                let result = try_it(&deep(open, close, levels), &batch);
                assert!(
                    levels == 60 || matches!(result, Err(ExprError::TooDeep { .. })),
                    "{open} {levels}: {result:?}"
                );
            }
            for (start, more) in [
                ("a > ", "- "),
                ("a = 1", "+ 1"),
                ("a = 2", " ^ 2"),
                ("a = 1", "*a"),
                ("d", " IS TRUE"),
                ("a = 1", "::int64"),
            ] {
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
    let found = Predicate::parse(&sql, batch.schema_ref()).unwrap().evaluate(&batch, &never).unwrap();
    assert_eq!(found.true_count(), 1);
}

fn counted(sql: &str) -> (usize, usize) {
    let batch = batch();
    let predicate = Predicate::parse(sql, batch.schema_ref()).unwrap_or_else(|error| panic!("{error}: {sql:.200}"));
    let looks = Cell::new(0);
    let look = || {
        looks.set(looks.get() + 1);
        false
    };
    predicate.evaluate(&batch, &look).unwrap();
    predicate.verdict(&|_| Zone { min: 0, max: u64::MAX, nulls: Nulls::Some });
    (0..4).for_each(|column| drop((predicate.keys_of(column), predicate.columns())));
    (predicate.size(), looks.get())
}

fn nested(levels: usize, start: &str, wrap: impl Fn(usize, String) -> String) -> String {
    (0..levels).fold(start.to_owned(), |inner, level| wrap(level, inner))
}

#[test]
fn what_is_bound_and_asked_is_linear_in_the_text() {
    let many = |count: usize, part: &str| vec![part; count].join(", ");
    let sum = format!("least({})", many(1_000, "a"));
    for sql in [
        // Each level would repeat its operand if lists and ranges became one comparison per item.
        format!("d{}", " IN (d, TRUE)".repeat(30)),
        format!("d{}", " IN (d, (NOT d), NULL, TRUE, FALSE)".repeat(100)),
        nested(45, "d", |level, inner| format!("({inner} = (a > {level}))")),
        nested(30, "d", |level, inner| format!("({inner}) = (a > {level})")),
        nested(30, "d", |level, inner| format!("({inner}) <> (b > {level})")),
        nested(30, "d", |_, inner| format!("({inner}) IS UNKNOWN")),
        nested(30, "d", |_, inner| format!("({inner}) IN (({inner_of}), d)", inner_of = "a > 1")),
        nested(20, "d", |_, inner| format!("NOT (({inner}) = d) IS NOT UNKNOWN")),
        nested(60, "a", |_, inner| format!("abs({inner})")) + " BETWEEN b AND 7",
        format!("{sum} IN ({})", many(1_000, "b")),
        format!("{sum} BETWEEN {sum} AND b"),
        format!("{sum} IN ({}, b)", many(1_000, "7")),
        format!("NULL IN ({})", many(1_000, "a")),
        nested(50, "a > 1", |level, inner| format!("CASE WHEN b > {level} THEN d ELSE {inner} END")),
        nested(50, "d", |_, inner| format!("CASE WHEN {inner} THEN a > 1 ELSE b > 1 END")),
        nested(50, "a", |level, inner| format!("CASE {inner} WHEN {level} THEN a * 2 ELSE 7 END")) + " > 1",
        format!("CASE {sum} {} END = 1", vec!["WHEN a THEN b"; 1_000].join(" ")),
        format!("CASE {sum} {} END = 'x'", vec!["WHEN a THEN c"; 1_000].join(" ")),
        format!("CASE {} END IN ('x', 'y', 'z')", vec!["WHEN d THEN c"; 1_000].join(" ")),
        nested(50, "a", |_, inner| format!("CAST({inner} AS int64)")) + " > 1",
    ] {
        let (size, asked) = counted(&sql);
        assert!(size <= sql.len() + 8, "{size} parts of {} characters: {sql:.200}", sql.len());
        assert!(asked <= size + 1, "{asked} of {size} parts were asked: {sql:.200}");
    }
}

#[test]
fn answers_of_lists_are_those_of_their_comparisons() {
    let batch = batch();
    let of = |sql: &str| Predicate::parse(sql, batch.schema_ref()).unwrap().evaluate(&batch, &never).unwrap();
    for (list, comparisons) in [
        ("(a > 0) IN (d, (b > 0), NULL)", "(a > 0) = d OR (a > 0) = (b > 0) OR (a > 0) = NULL"),
        ("(a > 0) IN (TRUE, FALSE, TRUE, NULL)", "(a > 0) = TRUE OR (a > 0) = FALSE OR (a > 0) = NULL"),
        ("d IN (d, TRUE) IN (d, TRUE)", "(d = d OR d = TRUE) = d OR (d = d OR d = TRUE) = TRUE"),
        ("FALSE IN (d, (a > 0))", "FALSE = d OR FALSE = (a > 0)"),
        ("NULL IN (d, (a > 0))", "NULL = d OR NULL = (a > 0)"),
        ("a * 2 IN (b, 14, NULL)", "a * 2 = b OR a * 2 = 14 OR a * 2 = NULL"),
        ("a + 1 BETWEEN b AND 8", "a + 1 >= b AND a + 1 <= 8"),
        ("7 IN (a, b, NULL)", "7 = a OR 7 = b OR 7 = NULL"),
    ] {
        for (open, close) in [("", ""), ("NOT (", ")"), ("(", ") IS UNKNOWN")] {
            let (one, other) = (format!("{open}{list}{close}"), format!("{open}{comparisons}{close}"));
            assert_eq!(of(&one), of(&other), "{one}");
        }
    }
}

#[test]
fn long_literals_are_not_multiplied() {
    let batch = batch();
    let columns = vec!["c"; 50_000].join(",");
    let long = "x".repeat(1 << 20);
    assert_eq!(try_it(&format!("'{long}' IN ({columns})"), &batch), Ok(()));
    assert_eq!(try_it(&format!("c > '{long}'{}", " AND c > 'x'".repeat(50_000)), &batch), Ok(()));
    let long = "1".repeat(1 << 20);
    for refused in [
        format!("{long} IN ({})", columns.replace('c', "a")),
        format!("a = 0.{long}"),
        format!("DATE '2020-01-01' = '2020-01-01T00:00:00.{long}'"),
        format!("c LIKE '{long}%_'"),
        format!("nope_{long} = 1"),
        format!("a = '{long}'"),
        format!("a {long}"),
    ] {
        let message = try_it(&refused, &batch).unwrap_err().to_string();
        assert!(message.len() < 1_000, "{message:.2000}");
    }
    assert_eq!(try_it("a < 1e999999999 AND b > -1e-999999999", &batch), Ok(()));
    assert_eq!(try_it(&format!("a = {0}7.{0}", "0".repeat(100_000)), &batch), Ok(()));
}

#[test]
fn too_large_an_expression_is_refused_and_a_long_list_is_not() {
    let batch = batch();
    let too_large = |sql: &str| matches!(try_it(sql, &batch), Err(ExprError::TooLarge { .. }));
    assert!(too_large(&vec!["d"; 300_000].join(" OR ")));
    assert!(too_large(&format!("least({}) = 1", vec!["a"; 300_000].join(","))));
    assert!(too_large(&format!("a = 1{}", " ".repeat(17 << 20))));
    let list: Vec<String> = (0..400_000).rev().map(|value| value.to_string()).collect();
    let predicate = Predicate::parse(&format!("a IN ({})", list.join(",")), batch.schema_ref()).unwrap();
    assert!(predicate.size() < 4);
    assert_eq!(predicate.evaluate(&batch, &never).unwrap().true_count(), 1);
}

#[test]
fn many_columns_are_found_by_maps() {
    let fields: Vec<Field> = (0..50_000).map(|i| Field::new(format!("Column{i}"), DataType::Int64, true)).collect();
    let schema = Schema::new(fields);
    let each: Vec<String> = (0..50_000).map(|i| format!("column{i} > 1")).collect();
    assert_eq!(Predicate::parse(&each.join(" AND "), &schema).unwrap().columns().len(), 50_000);
    let none = format!("column1 IN ({})", vec!["nan"; 50_000].join(","));
    assert!(Predicate::parse(&none, &schema).is_ok());
}

#[test]
fn an_evaluation_stops_when_it_is_told() {
    let batch = batch();
    for sql in [
        "a + b * 2 > 3 OR c LIKE '%b%' OR (a > 1) = d",
        "least(a, 1, 2) IN (b, a)",
        "a > 1",
        "CASE a + 1 WHEN b THEN d ELSE c = 'x' END",
    ] {
        let predicate = Predicate::parse(sql, batch.schema_ref()).unwrap();
        let looks = Cell::new(0);
        let last = |most: usize| {
            looks.set(0);
            predicate.evaluate(&batch, &|| {
                looks.set(looks.get() + 1);
                looks.get() > most
            })
        };
        assert!(last(usize::MAX).is_ok());
        for most in 0..looks.replace(0) {
            assert_eq!(last(most), Err(ExprError::Stopped), "{sql}");
            assert_eq!(looks.get(), most + 1, "nothing is done after that");
        }
        last(usize::MAX).unwrap();
    }
    let expression = Expression::parse("a + sqrt(b)", batch.schema_ref()).unwrap();
    assert_eq!(expression.evaluate(&batch, &|| true), Err(ExprError::Stopped));
    let grouping = Grouping::parse("CASE WHEN d THEN c ELSE 'x' END", batch.schema_ref()).unwrap();
    assert_eq!(grouping.evaluate(&batch, &|| true).unwrap_err(), ExprError::Stopped);
}

/// One pattern and one value may be long: the search must check for cancellation.
#[test]
fn a_search_for_a_pattern_stops_when_it_is_told() {
    let value = "a".repeat(1 << 20);
    let batch = RecordBatch::try_from_iter([("c", Arc::new(StringArray::from(vec![value])) as ArrayRef)]).unwrap();
    let sql = format!("c LIKE '%_{}b%'", "a".repeat(4_000));
    let predicate = Predicate::parse(&sql, batch.schema_ref()).unwrap();
    let looks = Cell::new(0);
    let stopped = || {
        looks.set(looks.get() + 1);
        looks.get() > 3
    };
    assert_eq!(predicate.evaluate(&batch, &stopped), Err(ExprError::Stopped));
}
