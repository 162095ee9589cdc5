//! Values for each row, used as numbers, conditions and groups.

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int32Type, TimestampMillisecondType};
use arrow_array::{Array, ArrayRef, BooleanArray, Date32Array, Float32Array, Float64Array, Int64Array, RecordBatch};
use arrow_array::{Decimal128Array, StringArray, TimestampMillisecondArray, UInt64Array};
use arrow_schema::DataType;
use kubist_expr::{ExprError, Expression, Grouping, Predicate, never};
use std::sync::Arc;

fn batch() -> RecordBatch {
    let price = Decimal128Array::from(vec![Some(250), None, Some(-1), Some(10i128.pow(30))]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("n", Arc::new(Int64Array::from(vec![Some(7), Some(-7), None, Some(i64::MAX)]))),
        ("x", Arc::new(Float64Array::from(vec![2.5, -2.5, f64::NAN, 1e300]))),
        ("f", Arc::new(Float32Array::from(vec![Some(0.29), Some(-0.5), None, Some(1e-13)]))),
        ("on", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None, Some(true)]))),
        // 2021-03-07 is a Sunday.
        ("t", Arc::new(TimestampMillisecondArray::from(vec![Some(1_615_123_456_789), Some(-1), None, Some(0)]))),
        ("day", Arc::new(Date32Array::from(vec![Some(18_693), Some(-1), None, Some(0)]))),
        ("kind", Arc::new(StringArray::from(vec![Some("a"), Some("b"), None, Some("c")]))),
        ("price", Arc::new(price.with_precision_and_scale(38, 2).unwrap())),
        ("u", Arc::new(UInt64Array::from(vec![0, 1, 2, u64::MAX]))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn numbers(sql: &str) -> Vec<Option<f64>> {
    let batch = batch();
    let expression = Expression::parse(sql, batch.schema_ref()).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let found = expression.evaluate(&batch, &never).unwrap_or_else(|error| panic!("{sql}: {error}"));
    found.into_iter().map(|value| (!value.is_nan()).then_some(value)).collect()
}

fn wholes(sql: &str) -> (DataType, Vec<Option<i128>>) {
    let batch = batch();
    let expression = Expression::parse(sql, batch.schema_ref()).unwrap();
    let found = expression.wholes(&batch, &never).unwrap();
    (expression.whole_type().unwrap(), (0..4).map(|row| found.get(row)).collect())
}

fn rows(sql: &str) -> Vec<usize> {
    let batch = batch();
    let predicate = Predicate::parse(sql, batch.schema_ref()).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let found = predicate.evaluate(&batch, &never).unwrap();
    (0..4).filter(|row| found.value(*row)).collect()
}

fn groups(sql: &str) -> ArrayRef {
    let batch = batch();
    let grouping = Grouping::parse(sql, batch.schema_ref()).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let found = grouping.evaluate(&batch, &never).unwrap();
    assert_eq!(found.data_type(), grouping.data_type(), "{sql}");
    found
}

fn texts(sql: &str) -> Vec<Option<String>> {
    groups(sql).as_string_view().iter().map(|text| text.map(str::to_owned)).collect()
}

fn error(sql: &str) -> String {
    let batch = batch();
    match Grouping::parse(sql, batch.schema_ref()) {
        Err(error) => error.to_string(),
        Ok(grouping) => match grouping.evaluate(&batch, &never) {
            Err(error) => error.to_string(),
            Ok(found) => panic!("{sql} is {found:?}"),
        },
    }
}

#[test]
fn conditions_are_one_and_zero_in_arithmetic() {
    assert_eq!(numbers("on * 3"), [Some(3.0), Some(0.0), None, Some(3.0)]);
    assert_eq!(numbers("(x > 0) + (n > 0) + TRUE"), [Some(3.0), Some(1.0), None, Some(3.0)]);
    assert_eq!(numbers("-on"), [Some(-1.0), Some(0.0), None, Some(-1.0)]);
    assert_eq!(wholes("on"), (DataType::Int64, vec![Some(1), Some(0), None, Some(1)]));
    assert_eq!(wholes("on * n").1, [Some(7), Some(0), None, Some(i64::MAX.into())]);
    assert_eq!(groups("on * f").data_type(), &DataType::Float32);
    assert_eq!(rows("on = 1"), [0, 3]);
    assert_eq!(rows("on <> 1"), [1]);
    assert_eq!(rows("1 = on AND 0 <> on AND on > 0.5 AND on IN (1, 7) AND NOT on IN (0)"), [0, 3]);
    assert_eq!(rows("(x > 0) IN (on, 1)"), [0, 1, 3]);
    assert_eq!(rows("(x > 0) = on * 1 AND (x > 0) BETWEEN 1 AND 2"), [0, 3]);
    assert_eq!(error("on = 'a'"), "column `on` of type Boolean cannot be compared with the text 'a'");
    assert_eq!(error("n = TRUE"), "column `n` of type Int64 cannot be compared with the boolean TRUE");
}

#[test]
fn the_first_condition_that_holds_tells_the_case() {
    assert_eq!(
        numbers("CASE WHEN x > 0 THEN n WHEN x < 0 THEN 2 ELSE 9 END"),
        [Some(7.0), Some(2.0), Some(9.0), Some(i64::MAX as f64)]
    );
    assert_eq!(numbers("CASE WHEN x > 3 THEN 1 END"), [None, None, None, Some(1.0)]);
    assert_eq!(numbers("CASE n WHEN 7 THEN 1 WHEN -7 THEN 2 END"), [Some(1.0), Some(2.0), None, None]);
    assert_eq!(numbers("CASE abs(n) % 2 WHEN 1 THEN x ELSE 0 END"), [Some(2.5), Some(-2.5), Some(0.0), Some(1e300)]);
    assert_eq!(numbers("CASE kind WHEN 'a' THEN 1 WHEN NULL THEN 2 ELSE 3 END"), [1.0, 3.0, 3.0, 3.0].map(Some));
    assert_eq!(
        numbers("1 + CASE WHEN on THEN CASE WHEN n > 9 THEN 5 ELSE 4 END END"),
        [Some(5.0), None, None, Some(6.0)]
    );
    assert_eq!(rows("CASE WHEN n > 0 THEN x > 100 ELSE on END"), [3]);
    assert_eq!(rows("NOT CASE WHEN n > 0 THEN x > 100 ELSE on END"), [0, 1]);
    assert_eq!(rows("CASE WHEN on THEN TRUE ELSE NULL END IS NULL"), [1, 2]);
    assert_eq!(rows("CASE WHEN n > 0 THEN t END > '2021-01-01'"), [0]);
    assert_eq!(rows("CASE WHEN n < 0 THEN t ELSE '2000-01-01' END = '2000-01-01'"), [0, 2, 3]);
    assert_eq!(numbers("CASE WHEN x < 1e9 THEN CAST(x AS int64) ELSE 0 END"), [2.0, -2.0, 0.0, 0.0].map(Some));
    assert!(error("CAST(x AS int64)").contains("000000 does not fit Int64"), "{}", error("CAST(x AS int64)"));
}

#[test]
fn texts_of_a_case_make_groups_and_are_compared() {
    let sql = "CASE WHEN n > 7 THEN 'large' WHEN n > 0 THEN kind ELSE NULL END";
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(texts(sql), [some("a"), None, None, some("large")]);
    assert_eq!(
        texts("CASE n WHEN 7 THEN kind ELSE CASE WHEN on THEN 'yes' ELSE 'no' END END"),
        [some("a"), some("no"), some("no"), some("yes")]
    );
    assert_eq!(rows(&format!("{sql} = 'large'")), [3]);
    assert_eq!(rows(&format!("'large' <> {sql}")), [0]);
    assert_eq!(rows(&format!("{sql} IN ('a', 'b')")), [0]);
    assert_eq!(rows(&format!("{sql} IS NULL")), [1, 2]);
    assert_eq!(rows(&format!("{sql} < 'b'")), [0]);
    assert_eq!(groups("kind").as_string::<i32>().value(1), "b");
}

#[test]
fn branches_of_different_kinds_are_refused() {
    for (sql, message) in [
        ("CASE WHEN on THEN 1 ELSE 'a' END", "CASE gives the number 1 in one branch and the text 'a' in another"),
        ("CASE WHEN on THEN n ELSE kind END", "CASE gives column `n` of type Int64 in one branch and column `kind`"),
        ("CASE WHEN on THEN x > 1 ELSE 1 END", "CASE gives a condition in one branch and the number 1 in another"),
        ("CASE WHEN on THEN t ELSE day END", "in one branch and column `day` of type Date32 in another: all must be"),
        ("CASE WHEN on THEN t ELSE '2000-01-01T00:00:00.0001' END", "of type Timestamp(ms), which has no such value"),
        ("CASE WHEN on THEN t ELSE kind END", "in one branch and column `kind` of type Utf8 in another"),
        ("CASE WHEN x THEN 1 END", "column `x` of type Float64 is not a condition"),
        ("CASE x > 1 WHEN TRUE THEN 1 END", "CASE takes a column or a computed number, not a condition"),
        ("CASE n WHEN 'a' THEN 1 END", "column `n` of type Int64 cannot be compared with the text 'a'"),
        ("CASE WHEN on THEN DATE '2000-01-01' END", "CASE gives times of no type: cast them"),
        ("CASE WHEN on THEN 1", "CASE expects WHEN, ELSE or END, found the end"),
        ("CASE on THEN 1 END", "CASE expects WHEN, found `THEN`"),
        ("CASE WHEN on 1 END", "WHEN expects THEN, found the number 1"),
        ("CASE WHEN on THEN 'a' ELSE 'b' END + 1", "`+` takes numbers, not a CASE of texts"),
        ("CASE WHEN on THEN NULL END", "NULL is the same for every row"),
    ] {
        assert!(error(sql).contains(message), "{sql}: {}", error(sql));
    }
    let long = format!("CASE WHEN on THEN '{}' END", "x".repeat(2_000));
    assert!(matches!(Grouping::parse(&long, batch().schema_ref()), Err(ExprError::TooLarge { .. })));
}

#[test]
fn casts_round_and_refuse_what_does_not_fit() {
    assert_eq!(numbers("CAST(CASE WHEN n < 8 THEN x END AS int32)"), [Some(2.0), Some(-2.0), None, None]);
    assert_eq!(groups("(n % 5)::int32").as_primitive::<Int32Type>().values()[..2], [2, -2]);
    assert_eq!(groups("f::double").data_type(), &DataType::Float64);
    assert_eq!(groups("x::float32").data_type(), &DataType::Float32);
    assert_eq!(groups("on::tinyint").data_type(), &DataType::Int8);
    assert_eq!(numbers("n::boolean::int64"), [Some(1.0), Some(1.0), None, Some(1.0)]);
    assert_eq!(rows("t::date = '2021-03-07'"), [0]);
    assert_eq!(rows("t::date = day"), [0, 1, 3]);
    assert_eq!(rows("day::timestamp_s > '2021-03-06' AND t::timestamp_ns > TIMESTAMP '2021-03-07'"), [0]);
    assert_eq!(rows("day > '2021-03-06'::date AND day = CAST('2021-03-07T12:00' AS date)"), [0]);
    assert_eq!(wholes("t::int64").1, [Some(1_615_123_456_789), Some(-1), None, Some(0)]);
    assert_eq!(rows("n = CAST('7' AS int64) AND x = 2.5::float64 AND n::double precision > 6"), [0]);
    assert_eq!(rows("-n::int64 = -7"), [0]);
    assert_eq!(wholes("price::int128").1, [Some(2), None, Some(0), Some(10i128.pow(28))]);
    assert!(error("price::int64").contains("does not fit Int64"));
    for (sql, message) in [
        ("u::int64", "CAST: 18446744073709551615 does not fit Int64"),
        ("n::smallint", "CAST: 9223372036854775807 does not fit Int16"),
        ("n::uint8", "CAST: -7 does not fit UInt8"),
        ("n::int8", "the type `int8` is not supported in an expression; it has 8 bits to NumPy and 8 bytes to SQL"),
        ("n::float", "write float32 or float64"),
        ("n::decimal(10, 2)", "write int128 or float64"),
        ("n::text", "nothing becomes text or bytes"),
        ("n::integr", "at character 4: there is no type `integr`; the types are tinyint, int16"),
        ("CAST(n int64)", "CAST expects AS and a type, found `int64`"),
        ("n::date", "column `n` of type Int64 cannot be cast to Date32"),
        ("kind::int64", "column `kind` of type Utf8 cannot be cast to Int64"),
        ("day > 'today'::date", "the text 'today' is no Date32"),
        ("n > 1e30::int64", "does not fit Int64"),
    ] {
        assert!(error(sql).contains(message), "{sql}: {}", error(sql));
    }
}

#[test]
fn functions_are_those_of_mathematics() {
    let first = |sql: &str| numbers(sql)[0].unwrap();
    let near =
        |found: f64, expected: f64| assert!((found - expected).abs() <= 1e-12 * expected.abs(), "{found} {expected}");
    near(first("tan(x) * cos(x) / sin(x)"), 1.0);
    near(first("degrees(radians(x))"), 2.5);
    near(first("atan2(x, -1)"), 2.5f64.atan2(-1.0));
    near(first("hypot(x, 6)"), 6.5);
    near(first("asin(sin(x / 5)) + acos(cos(x / 5)) + atan(tan(x / 5))"), 1.5);
    near(first("log2(8 * x / 2.5) + pow(x, 2) + pi()"), 9.25 + std::f64::consts::PI);
    assert_eq!(numbers("round(x)"), [Some(3.0), Some(-3.0), None, Some(1e300)]);
    assert_eq!(numbers("sign(x)"), [Some(1.0), Some(-1.0), None, Some(1.0)]);
    assert_eq!(first("round(x / 1.7, 2)"), 1.47);
    assert_eq!(wholes("round(n, -1)").1[..2], [Some(10), Some(-10)]);
    assert_eq!(wholes("sign(n) + round(n, 3) + ceiling(n)").1[..2], [Some(15), Some(-15)]);
    // In 32 bits, powers of small numbers would become zero.
    near(numbers("power(f, 4)")[3].unwrap() / 1e-52, 1.0 + 4.0 * (f64::from(1e-13f32) / 1e-13 - 1.0));
    for (sql, message) in [
        ("log(x)", "the function `log` is not supported in an expression; write ln or log10"),
        ("round(x, 2, 3)", "`round` takes 1 or 2 operands"),
        ("round(x, n)", "`round` takes a value and a number of digits"),
        ("round(x, 0.5)", "round to 5e-1 digits: a whole number is needed"),
        ("atan2(x)", "`atan2` takes 2 operands"),
        ("sqrt(t)", "`sqrt` takes numbers, not column `t` of type Timestamp(ms)"),
    ] {
        assert!(error(sql).contains(message), "{sql}: {}", error(sql));
    }
}

#[test]
fn bins_begin_at_round_numbers() {
    let bins = |sql: &str| groups(sql).as_primitive::<arrow_array::types::Float64Type>().values().to_vec();
    // 0.29 must be in bin 29 of width 0.01, although 0.29 * 100 is less than 29 in floats.
    for (hundredths, text) in (0..=100).map(|n| (n, format!("{n}e-2"))) {
        let value: f64 = text.parse().unwrap();
        assert_eq!(bins(&format!("bin(x * 0 + {text}, 0.01)"))[0], value, "{hundredths}");
    }
    assert_eq!(bins("bin(x, 0.4)")[..2], [2.4, -2.8]);
    assert_eq!(bins("bin(x * 1e-6, 3e-7)")[0], 24e-7);
    let single = groups("bin(f, 0.01)");
    assert_eq!(single.as_primitive::<arrow_array::types::Float32Type>().values()[..2], [0.29, -0.5]);
    assert_eq!(wholes("bin(n, 5)").1[..2], [Some(5), Some(-10)]);
    assert_eq!(rows("bin(n, 5) = 5 AND bin(n, 2.5) = 5"), [0]);
    // Edges that are closer than floats, and wider than any float.
    assert_eq!(bins("bin(x * 0 + 1.7e308, 0.01)")[0], 1.7e308);
    assert_eq!(bins("bin(n, 1e100)")[0], 0.0);
    assert!(bins("bin(n, 1e100)")[1] < -0.99e100);
    assert_eq!(groups("bin(f, 1e100)").data_type(), &DataType::Float64);
    for sql in
        ["bin(x, 999999999999e300)", "bin(x, 0)", "bin(x, -1)", "bin(x, n)", "bin(x)", "bin(t, 5)", "bin(x, 1, 2)"]
    {
        assert!(error(sql).contains("bin"), "{sql}");
    }
}

#[test]
fn periods_begin_where_calendars_say() {
    for (period, expected) in [
        ("second", "2021-03-07T13:24:16Z"),
        ("minute", "2021-03-07T13:24:00Z"),
        ("Hours", "2021-03-07T13:00:00Z"),
        ("day", "2021-03-07"),
        ("week", "2021-03-01"),
        ("month", "2021-03-01"),
        ("quarter", "2021-01-01"),
        ("year", "2021-01-01"),
        ("decade", "2020-01-01"),
        ("century", "2000-01-01"),
        ("microsecond", "2021-03-07T13:24:16.789Z"),
    ] {
        assert_eq!(rows(&format!("n = 7 AND date_trunc('{period}', t) = '{expected}'")), [0], "{period}");
        let before = groups(&format!("date_trunc('{period}', t)"));
        let before = before.as_primitive::<TimestampMillisecondType>();
        assert!(before.value(1) <= -1 && before.value(1) > -1 - 40 * 366 * 86_400_000 * 3 && before.is_null(2));
    }
    assert_eq!(groups("date_trunc('month', day)").data_type(), &DataType::Date32);
    assert_eq!(rows("date_trunc('week', day) = '2021-03-01' AND date_trunc('hour', day) = day"), [0]);
    assert_eq!(rows("date_trunc('month', t)::date = date_trunc('month', day)"), [0, 1, 3]);
    assert!(
        error("date_trunc('fortnight', t)").contains("there is no period 'fortnight'; the periods are microsecond")
    );
    assert!(error("date_trunc('hour', n)").contains("takes a date or a timestamp, not column `n`"));
    assert!(error("date_trunc(t, 'hour')").contains("as in date_trunc('hour', t)"));
}

#[test]
fn integers_are_exact_or_an_error() {
    assert_eq!(wholes("n * n").1[3], Some(i128::from(i64::MAX).pow(2)));
    assert_eq!(groups("n * n").as_primitive::<Decimal128Type>().value(3), i128::from(i64::MAX).pow(2));
    assert_eq!(wholes("price"), (DataType::Decimal128(38, 2), vec![Some(250), None, Some(-1), Some(10i128.pow(30))]));
    assert_eq!(wholes("n").1, [Some(7), Some(-7), None, Some(i64::MAX.into())]);
    assert!(Expression::parse("n / 2", batch().schema_ref()).unwrap().whole_type().is_none());
    let beyond = error("n * n * n");
    assert!(
        beyond.ends_with(
            "* 9223372036854775807 does not fit an integer of 128 bits: cast it to float64 before, as in x::float64"
        ),
        "{beyond}"
    );
    assert_eq!(numbers("n::float64 * n * n")[0], Some(343.0));
    assert_eq!(
        numbers("(n + CASE WHEN n < -8 THEN 1 END) * 170141183460469231731687303715884105727 IS NULL"),
        [Some(1.0); 4]
    );
}
