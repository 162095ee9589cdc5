//! Accepted expressions, and the messages for others.

use arrow_array::{Array, ArrayRef, BooleanArray, Float32Array, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_array::{NullArray, TimestampMillisecondArray, TimestampSecondArray};
use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit};
use kubist_expr::{ALL_INSIDE, ExprError, Nulls, Predicate, SOME_INSIDE, Value, Verdict, Zone, key_range, never};
use std::sync::Arc;

fn batch() -> RecordBatch {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("pid", Arc::new(Int64Array::from(vec![Some(1), Some(2), Some(3), None]))),
        ("Diameter", Arc::new(Float32Array::from(vec![1e-5, 0.1, f32::NAN, f32::INFINITY]))),
        ("x", Arc::new(Float64Array::from(vec![-0.0, 1.5, f64::NAN, -2.0]))),
        ("deposited", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None, Some(true)]))),
        ("time", Arc::new(TimestampMillisecondArray::from(vec![0, 1, 86_400_000, -1]))),
        ("my col", Arc::new(StringArray::from(vec!["a", "b'c", "%", "\n"]))),
        ("pos.x", Arc::new(Int64Array::from(vec![1, 2, 3, 4]))),
        ("Mass", Arc::new(Int64Array::from(vec![1, 2, 3, 4]))),
        ("mass", Arc::new(Int64Array::from(vec![4, 3, 2, 1]))),
        ("nothing", Arc::new(NullArray::new(4))),
        ("order", Arc::new(Int64Array::from(vec![1, 2, 3, 4]))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn rows(sql: &str) -> Vec<usize> {
    let batch = batch();
    let predicate = Predicate::parse(sql, batch.schema_ref()).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let found = predicate.evaluate(&batch, &never).unwrap();
    assert_eq!(found.null_count(), 0);
    (0..4).filter(|row| found.value(*row)).collect()
}

fn error(sql: &str) -> String {
    match Predicate::parse(sql, batch().schema_ref()) {
        Ok(predicate) => panic!("{sql} was taken: {predicate:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn nan_and_null_answer_no_comparison_nor_its_negation() {
    assert_eq!(rows("x > 0"), [1]);
    assert_eq!(rows("NOT (x > 0)"), [0, 3]);
    assert_eq!(rows("x <> 1.5"), [0, 3]);
    assert_eq!(rows("NOT x = 1.5"), [0, 3]);
    assert_eq!(rows("x NOT IN (1.5)"), [0, 3]);
    assert_eq!(rows("x NOT IN (1.5, NULL)"), []);
    assert_eq!(rows("x IN (1.5, NULL)"), [1]);
    assert_eq!(rows("x = x"), [0, 1, 3]);
    assert_eq!(rows("x IS NULL"), []);
    assert_eq!(rows("isnan(x)"), [2]);
    assert_eq!(rows("NOT isnan(x)"), [0, 1, 3]);
    assert_eq!(rows("(x > 0) IS UNKNOWN"), [2]);
    assert_eq!(rows("(x > 0) IS NOT TRUE"), [0, 2, 3]);
    assert_eq!(rows("pid <> 2"), [0, 2]);
    assert_eq!(rows("pid IS NULL OR pid = 1"), [0, 3]);
    assert_eq!(rows("isnan(pid)"), []);
    assert_eq!(rows("isfinite(pid)"), [0, 1, 2]);
    assert_eq!(rows("nothing IS NULL"), [0, 1, 2, 3]);
    assert_eq!(rows("nothing > 1 OR nothing = pid OR nothing LIKE 'a' OR nothing"), []);
}

#[test]
fn literals_adopt_the_type_that_they_meet() {
    assert_eq!(rows("diameter = 0.1"), [1]);
    assert_eq!(rows("x = 0"), [0]);
    assert_eq!(rows("x >= 0.0 AND x <= -0.0"), [0]);
    assert_eq!(rows("x < 0"), [3]);
    assert_eq!(rows("diameter <= 1e300"), [0, 1]);
    assert_eq!(rows("diameter > 1e300"), [3]);
    assert_eq!(rows("diameter <= inf"), [0, 1, 3]);
    assert_eq!(rows("isfinite(diameter)"), [0, 1]);
    assert_eq!(rows("pid >= 1.5"), [1, 2]);
    assert_eq!(rows("pid = 2.5"), []);
    assert_eq!(rows("pid <> 2.5"), [0, 1, 2]);
    assert_eq!(rows("pid < 99999999999999999999999999999999999999999999999999999999999999999999999999999"), [0, 1, 2]);
    assert_eq!(rows("pid > -1e400"), [0, 1, 2]);
    assert_eq!(rows("time > '1970-01-01'"), [1, 2]);
    assert_eq!(rows("time < '1970-01-01T00:00:00.0005Z'"), [0, 3]);
    assert_eq!(rows("time = TIMESTAMP '1970-01-02 00:00:00'"), [2]);
    assert_eq!(rows("time >= DATE '1970-01-01' and time < 2"), [0, 1]);
    assert_eq!(rows("deposited"), [0, 3]);
    assert_eq!(rows("NOT deposited"), [1]);
    assert_eq!(rows("deposited = false"), [1]);
    assert_eq!(rows("deposited <> (pid = 1)"), []);
    assert_eq!(rows("(pid > 1) = deposited"), []);
    assert_eq!(rows("(pid > 1) = (x > 0)"), [0, 1]);
}

#[test]
fn arithmetic_follows_the_rules() {
    assert_eq!(rows("pid / 2 = 0.5"), [0]);
    assert_eq!(rows("pid / 0 IS NULL"), [0, 1, 2, 3]);
    assert_eq!(rows("x / 0 IS NULL AND x % 0 IS NULL AND isnan(x) IS NOT TRUE"), [0, 1, 3]);
    assert_eq!(rows("pid / (pid - 2) IS NULL"), [1, 3]);
    assert_eq!(rows("pid % 2 = 1"), [0, 2]);
    assert_eq!(rows("pid % 0 IS NULL"), [0, 1, 2, 3]);
    assert_eq!(rows("-pid % 2 = -1"), [0, 2]);
    assert_eq!(rows("-pid ^ 2 = -9"), [2]);
    assert_eq!(rows("2 ^ 3 ^ 2 = 512 AND mass = 4"), [0]);
    assert_eq!(rows("pid + 2 * 3 - 1 = 6"), [0]);
    assert_eq!(rows("9223372036854775807 + pid > 9223372036854775808"), [1, 2]);
    assert_eq!(rows("sqrt(power(x, 2)) = abs(x)"), [0, 1, 3]);
    assert_eq!(rows("least(mass, \"Mass\", 2) = 2"), [1, 2]);
    assert_eq!(rows("greatest(x, 0) = 0"), [0, 3]);
    assert_eq!(rows("diameter * 2 = 0.2"), [1]);
    assert_eq!(rows("diameter * 1e300 > 1e299"), [1, 3]);
    assert_eq!(rows("diameter * 1e39 < 1.1e38"), [0, 1]);
    assert_eq!(rows("floor(x) = 1 OR ceil(x) = -2"), [1, 3]);
    assert_eq!(rows("exp(ln(mass)) > 3.9"), [0]);
    assert_eq!(rows("log10(mass * 100 / mass) = 2 AND sin(x * 0) = 0 AND cos(x * 0) = 1"), [0, 1, 3]);
    assert_eq!(rows("1 + NULL IS NULL"), [0, 1, 2, 3]);
    assert_eq!(rows("1 < 2 AND 0.1 = 1e-1 AND 'a' < 'b' AND 1 / 3 > 0.33"), [0, 1, 2, 3]);
}

#[test]
fn names_are_found_as_documented() {
    assert_eq!(rows("\"my col\" = 'b''c'"), [1]);
    assert_eq!(rows("`my col` LIKE '!%' ESCAPE '!'"), [2]);
    // As in DuckDB, a backslash is an ordinary character without ESCAPE.
    assert_eq!(rows("`my col` LIKE '\\%'"), []);
    assert_eq!(rows("\"my col\" LIKE '_'"), [0, 2, 3]);
    assert_eq!(rows("DIAMETER > 1"), [3]);
    assert_eq!(rows("mass = 4"), [0]);
    assert_eq!(rows("Mass = 4"), [3]);
    assert_eq!(rows("pos.x > 3"), [3]);
    assert_eq!(rows("order = 2 AND time = 1"), [1]);
    assert_eq!(error("MASS = 4"), "column `MASS` is ambiguous: `Mass`, `mass`");
    assert!(
        error("\"diameter\" > 1").starts_with("no column `diameter`; did you mean `Diameter`?; the columns are `pid`")
    );
    assert!(error("diametr > 1").contains("did you mean `Diameter`"));
    assert!(error("\"my col\" = \"abc\"").contains("a text takes single quotes"));
    assert!(error("nowhere > 1").starts_with("no column `nowhere`; the columns are `pid`, `Diameter`, `x`"));
}

#[test]
fn precedence_is_that_of_sql() {
    assert_eq!(rows("mass = 4 OR mass = 3 AND mass = 1"), [0]);
    assert_eq!(rows("NOT mass = 4 AND mass > 2"), [1]);
    assert_eq!(rows("mass BETWEEN 1 AND 2 AND pid IS NULL"), [3]);
    assert_eq!(rows("mass NOT BETWEEN 2 AND 3"), [0, 3]);
    assert_eq!(rows("mass BETWEEN 3 AND 2"), []);
    assert_eq!(rows("mass IN (1, 2 * 2)"), [0, 3]);
    assert_eq!(rows("mass IN (pid, 4)"), [0]);
    assert_eq!(rows("mass = 1 IS NOT FALSE"), [3]);
    assert_eq!(rows("TRUE"), [0, 1, 2, 3]);
    assert_eq!(rows("NULL OR FALSE"), []);
    assert_eq!(rows("+mass == 4"), [0]);
    assert_eq!(rows("mass>=4"), [0]);
}

#[test]
fn mistakes_name_what_is_wrong() {
    for (sql, message) in [
        ("", "at character 1: the expression is empty"),
        ("  ", "at character 1: the expression is empty"),
        ("x >", "expected a value after `>` at character 4"),
        ("x > 1 AND", "at character 10: the end is not expected here"),
        ("x 5", "at character 3: the number 5 is not expected here"),
        ("(x > 1", "at character 7: expected `)`, found the end"),
        ("é > 1 )", "at character 7: `)` is not expected here"),
        ("x > 1e", "at character 5: `1e` is not a number"),
        ("x > 1_000", "at character 5: `1_000` is not a number"),
        ("x > 0x10", "at character 5: `0x10` is not a number"),
        ("x > 2020-01-31", "at character 5: 2020-01-31 is a difference of numbers: a date is in quotes, '2020-01-31'"),
        ("x = 'abc", "at character 5: the ' that opens here is never closed"),
        ("x = X'0'", "at character 5: X'...' takes an even number of hexadecimal digits"),
        ("x = \u{1}", "at character 5: unexpected character '\\u{1}'"),
        ("1 < x < 2", "at character 7: comparisons do not chain: write `a < x AND x < b`"),
        ("x BETWEEN 1 OR 2", "at character 13: BETWEEN expects AND, found `OR`"),
        ("x IS 5", "at character 6: IS expects NULL, TRUE, FALSE or UNKNOWN, found the number 5"),
        ("time > DATE 'today'", "at character 8: DATE 'today' is no ISO 8601 date or time"),
        ("x > 1 -- c", "a comment is not supported in an expression"),
        ("EXISTS (SELECT 1)", "EXISTS is not supported in an expression"),
        ("pid IN (SELECT 1)", "SELECT is not supported in an expression"),
        ("x > 1 && x < 2", "`&&` is not supported in an expression; write AND"),
        (
            "time > INTERVAL '1 day'",
            "an INTERVAL that is not added to a time is not supported in an expression; write t + INTERVAL 1 DAY",
        ),
        (
            "time + INTERVAL 'a' > time",
            "at character 17: INTERVAL expects a number and a unit, as in INTERVAL 3 DAY or INTERVAL '3 days'",
        ),
        ("time + INTERVAL 1 eon > time", "INTERVAL has no unit 'eon'"),
        (
            "time + INTERVAL 1 microsecond > time",
            "the interval is no multiple of the unit of Timestamp(ms): cast the time, as in d::timestamp + INTERVAL 1 HOUR",
        ),
        (
            "extract(eon FROM time) = 1",
            "a time has no part 'eon'; the parts are century, decade, year, isoyear, quarter, month, week, weekofyear, day, dayofmonth, dayofyear, doy, dayofweek, weekday, dow, isodow, hour, minute, second, millisecond, microsecond, nanosecond, epoch",
        ),
        ("hour(x) = 1", "`hour` takes a date, a timestamp or a time, not column `x` of type Float64"),
        ("x & 1 = 1", "`&` takes integers: cast the operands, as in x::int64"),
        ("(x > 1) & (x < 2)", "`&` is for integers: write AND between conditions"),
        ("upper(x) = 'A'", "`upper` takes a text, not column `x` of type Float64"),
        (
            "contains(\"my col\", x)",
            "`contains` takes a text in quotes as its second operand, not column `x` of type Float64",
        ),
        ("substr(\"my col\", 1.5) = 'a'", "`substr` takes integers as position and length, as in substr(s, 1, 3)"),
        ("regexp_matches(\"my col\", 'a', 'z')", "regexp_matches has no option 'z'; the options are c, i, l, m and s"),
        (
            "regexp_matches(\"my col\", '\\w{900}')",
            "the expression is too large: more than 1 MiB of a compiled regular expression",
        ),
        (
            &["regexp_matches(\"my col\", 'a')"; 65].join(" OR "),
            "the expression is too large: more than 64 regular expressions",
        ),
        (
            "coalesce(x, 'a') = 1",
            "coalesce gives column `x` of type Float64 in one branch and the text 'a' in another: all must be numbers, times of one type, conditions or texts",
        ),
        ("x IS DISTINCT FROM 1", "IS DISTINCT FROM is not supported in an expression"),
        ("\"my col\" SIMILAR TO 'a'", "SIMILAR is not supported in an expression"),
        ("\"my col\" ~ 'a'", "`~` is not supported in an expression"),
        (
            "\"my col\" LIKE 'a' ESCAPE '!!'",
            "at character 26: ESCAPE takes one character, as in LIKE 'a\\_%' ESCAPE '\\'",
        ),
        ("\"my col\" LIKE 'a!' ESCAPE '!'", "a pattern cannot end with its escape character !"),
        ("(pid, x) IN ((1, 2))", "a row value `(a, b)` is not supported in an expression"),
        ("count(*) > 1", "the aggregate `count` is not supported in an expression"),
        ("x > E'a'", "the literal E'...' is not supported in an expression"),
        ("SELECT x FROM t", "SELECT is not supported in an expression"),
        ("x > 5; DROP TABLE t", "at character 6: `;` is not expected here"),
        (
            "cot(x) > 1",
            "the function `cot` is not supported in an expression; known are abs, acos, asin, atan, atan2, bin, ceil, \
             coalesce, contains, cos, date_part, date_trunc, degrees, ends_with, exp, floor, greatest, healpix, hypot, \
             ifnull, in_moc, in_polygon, in_sky_polygon, isfinite, isnan, least, length, ln, log10, log2, lower, nullif, \
             periodic, pi, power, radians, regexp_matches, round, separation, sign, sin, sqrt, starts_with, substr, tan, \
             upper, xor, and the parts of a time such as hour",
        ),
        ("x > 'abc'", "column `x` of type Float64 cannot be compared with the text 'abc'"),
        ("pid = TRUE", "column `pid` of type Int64 cannot be compared with the boolean TRUE"),
        ("\"my col\" < 5", "column `my col` of type Utf8 cannot be compared with the number 5"),
        ("x IN (1, 'a')", "column `x` of type Float64 cannot be compared with the text 'a'"),
        (
            "time > 'tomorrow'",
            "column `time` of type Timestamp(ms) cannot be compared with the text 'tomorrow': that is no ISO 8601 \
             date or time",
        ),
        (
            "time > '12:00'",
            "column `time` of type Timestamp(ms) cannot be compared with the text '12:00': that is a time of day \
             without a date",
        ),
        ("x + 1 = 'a'", "a computed number cannot be compared with the text 'a'"),
        ("x AND TRUE", "column `x` of type Float64 is not a condition: compare it with something"),
        ("5", "the number 5 is not a condition: compare it with something"),
        ("(x > 1) > TRUE", "two conditions can be compared with = and <> only"),
        ("-time > 1", "`-` takes numbers, not column `time` of type Timestamp(ms)"),
        ("sqrt() > 1", "`sqrt` takes 1 operand"),
        ("power(x) > 1", "`power` takes 2 operands"),
        ("least() > 1", "`least` takes 1 or more operands"),
        ("isnan(x, x)", "`isnan` takes 1 operand"),
        ("x LIKE 'a'", "LIKE takes a text column, not column `x` of type Float64"),
        ("\"my col\" ILIKE 5", "ILIKE takes a text as pattern, not the number 5"),
        ("'a' LIKE 'a'", "LIKE takes a text column, not the text 'a'"),
    ] {
        assert_eq!(error(sql), message, "{sql}");
    }
}

#[test]
fn types_without_an_order_can_only_be_null() {
    let list = DataType::new_list(DataType::Int64, true);
    let schema = Schema::new(vec![
        Field::new("list", list.clone(), true),
        Field::new("point", DataType::Struct(Fields::empty()), true),
    ]);
    assert!(Predicate::parse("list IS NOT NULL AND point IS NULL", &schema).is_ok());
    let error = Predicate::parse("list = 5", &schema).unwrap_err();
    assert!(matches!(error, ExprError::Type { .. }), "{error}");
    assert!(Predicate::parse("list = list", &schema).is_err());
    assert!(Predicate::range(&schema, "list", Some(&Value::Int(1)), None).is_err());
    assert!(key_range(&list, Some(&Value::Int(1)), None).is_err());
    assert_eq!(key_range(&list, None, None), Ok(Some((0, u64::MAX))));
}

#[test]
fn predicates_join_and_say_what_they_are() {
    let batch = batch();
    let schema = batch.schema_ref();
    let pid = Predicate::range(schema, "pid", Some(&1i64.into()), Some(&2.5.into())).unwrap();
    assert_eq!(pid.to_string(), "(\"pid\" >= 1) AND (\"pid\" <= 25e-1)");
    let where_ = Predicate::parse(" mass = 4 OR mass = 3 ", schema).unwrap();
    let both = pid.clone().and(where_).and(Predicate::always());
    assert_eq!(both.to_string(), "(\"pid\" >= 1) AND (\"pid\" <= 25e-1) AND (mass = 4 OR mass = 3)");
    assert_eq!(both.columns(), [0, 8]);
    assert_eq!(both.evaluate(&batch, &never).unwrap().true_count(), 2);
    assert!(!both.is_always());
    assert!(Predicate::always().and(Predicate::always()).is_always());
    assert!(Predicate::parse("TRUE AND NOT FALSE", schema).unwrap().is_always());
    assert_eq!(Predicate::always().to_string(), "TRUE");
    assert_eq!(Predicate::always().evaluate(&batch, &never).unwrap().true_count(), 4);
    assert_eq!(Predicate::range(schema, "x", None, None).unwrap().evaluate(&batch, &never).unwrap().true_count(), 4);
    let inside = Predicate::range(schema, "x", Some(&f64::NEG_INFINITY.into()), None).unwrap();
    assert_eq!(inside.evaluate(&batch, &never).unwrap().true_count(), 3);
    assert!(Predicate::range(schema, "X", None, None).is_err());
    let null = Predicate::range(schema, "pid", Some(&Value::Null), None).unwrap();
    assert_eq!(null.evaluate(&batch, &never).unwrap().true_count(), 0);
}

#[test]
fn a_batch_that_does_not_fit_is_refused() {
    let batch = batch();
    let predicate = Predicate::parse("x > 1", batch.schema_ref()).unwrap();
    let missing = predicate.evaluate(&batch.project(&[0]).unwrap(), &never).unwrap_err();
    assert_eq!(missing.to_string(), "the batch has no column `x` of type Float64");
    let other = RecordBatch::try_from_iter([("x", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]).unwrap();
    let other = predicate.evaluate(&other, &never).unwrap_err();
    assert_eq!(other.to_string(), "the batch has no column `x` of type Float64, but one of type Int64");
}

#[test]
fn zones_decide_what_they_can() {
    let schema = Schema::new(vec![
        Field::new("t", DataType::Timestamp(TimeUnit::Second, None), true),
        Field::new("name", DataType::Utf8, true),
        Field::new("x", DataType::Float32, true),
    ]);
    let key = |array: ArrayRef| kubist_index::order::keys(array.as_ref()).unwrap()[0];
    let t = |seconds: i64| key(Arc::new(TimestampSecondArray::from(vec![seconds])));
    let name = |text: &str| key(Arc::new(StringArray::from(vec![text])));
    let x = |value: f32| key(Arc::new(Float32Array::from(vec![value])));
    // 2020 exactly; names from "run-1" to "run-7"; from 1 to NaN, with nulls.
    let zones = [
        Zone { min: t(1_577_836_800), max: t(1_609_459_199), nulls: Nulls::None },
        Zone { min: name("run-1"), max: name("run-7"), nulls: Nulls::None },
        Zone { min: x(1.0), max: x(f32::NAN), nulls: Nulls::Some },
    ];
    for (sql, verdict) in [
        ("t >= '2020-01-01' AND t < '2021-01-01'", Verdict::All),
        ("t BETWEEN '2020-01-01' AND '2020-12-31'", Verdict::Some),
        ("t >= '2021-01-01'", Verdict::None),
        ("NOT t >= '2021-01-01'", Verdict::All),
        ("t IS NULL", Verdict::None),
        ("name LIKE 'run%'", Verdict::All),
        ("name LIKE 'run-8_'", Verdict::None),
        ("name LIKE 'run-3_'", Verdict::Some),
        ("name NOT LIKE 'walk%'", Verdict::All),
        ("name ILIKE 'walk%'", Verdict::Some),
        ("name IN ('a', 'z')", Verdict::None),
        ("name > 'run-0' AND name < 'run-8'", Verdict::All),
        ("x >= 1", Verdict::Some),
        ("x < 1", Verdict::None),
        ("NOT x < 1", Verdict::Some),
        ("(x < 1) IS NOT TRUE", Verdict::All),
        ("(x < 1) IS UNKNOWN OR x > 0", Verdict::Some),
        ("isnan(x)", Verdict::Some),
        ("x < 0.5 OR t IS NOT NULL", Verdict::All),
        ("x < 0.5 AND sin(x) > 0", Verdict::None),
        ("x IS NOT NULL AND t > '2022-01-01'", Verdict::None),
        ("x + 1 < 0", Verdict::None),
        ("x % 3 < 1", Verdict::Some),
    ] {
        let predicate = Predicate::parse(sql, &schema).unwrap();
        assert_eq!(predicate.verdict(&|column| zones[column]), verdict, "{sql}");
    }
    let data_type = schema.field(0).data_type();
    assert_eq!(key_range(data_type, Some(&"2020-01-01".into()), Some(&"2019-01-01".into())), Ok(None));
}

#[test]
fn a_predicate_of_ranges_alone_says_which() {
    let schema = batch().schema();
    let columns = |sql: &str| {
        let predicate = Predicate::parse(sql, &schema).unwrap();
        predicate.key_ranges().map(|ranges| ranges.iter().map(|range| range.column).collect::<Vec<_>>())
    };
    assert_eq!(columns("pid >= 2 AND x < 1.5 AND pid <= 3"), Some(vec![0, 2]));
    assert_eq!(columns("pid = 2"), Some(vec![0]));
    assert_eq!(columns("pid IN (2, 5, NULL) AND x < 1.5"), Some(vec![0, 2]));
    for other in ["pid = 2 OR x < 1", "NOT x < 1", "x < 1 AND x IS NOT NULL", "x + 1 < 2", "pid > 3 AND pid < 3"] {
        assert_eq!(columns(other), None, "{other}");
    }
    // For a column without nulls and NaN, key ranges and the verdict agree.
    let key = |value: i64| (value as u64) ^ 1 << 63;
    for sql in ["pid >= 2 AND pid <= 30", "pid IN (2, 3, 30, 31)", "pid >= 3 AND pid IN (3, 30)"] {
        let predicate = Predicate::parse(sql, &schema).unwrap();
        let ends = [(-5, 1), (0, 2), (2, 2), (2, 30), (3, 7), (4, 29), (30, 30), (30, 31), (31, 40), (32, 40), (0, 99)];
        let (min, max): (Vec<u64>, Vec<u64>) = ends.map(|(min, max)| (key(min), key(max))).into_iter().unzip();
        let mut zones = [SOME_INSIDE | ALL_INSIDE; 11];
        predicate.key_ranges().unwrap().iter().for_each(|ranges| ranges.narrow(&min, &max, &mut zones));
        for (zone, (min, max)) in zones.into_iter().zip(min.into_iter().zip(max)) {
            let expected = match zone {
                zone if zone & ALL_INSIDE != 0 => Verdict::All,
                zone if zone & SOME_INSIDE != 0 => Verdict::Some,
                _ => Verdict::None,
            };
            assert_eq!(predicate.verdict(&|_| Zone { min, max, nulls: Nulls::None }), expected, "{sql}");
        }
    }
}

#[test]
fn a_list_holds_what_stands_in_it_however_far_apart() {
    let numbers: Vec<i64> = (-700..700).chain([i64::MIN, i64::MIN + 1, i64::MAX - 1, i64::MAX]).collect();
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
    let batch = RecordBatch::try_new(schema.clone(), vec![Arc::new(Int64Array::from(numbers.clone()))]).unwrap();
    let near: Vec<i64> = (-40..40).map(|number| number * 7).collect();
    let far: Vec<i64> = near.iter().copied().chain([i64::MAX, i64::MIN, 1 << 40]).collect();
    let high: Vec<i64> = (0..50).map(|number| i64::MAX - 3 * number).collect();
    for listed in [&near[..], &far, &high, &near[..9], &near[..2]] {
        let list = listed.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
        for (sql, wanted) in [(format!("n IN ({list})"), true), (format!("n NOT IN ({list})"), false)] {
            let found = Predicate::parse(&sql, &schema).unwrap().evaluate(&batch, &never).unwrap();
            let expected: Vec<bool> = numbers.iter().map(|number| listed.contains(number) == wanted).collect();
            assert_eq!(found.iter().flatten().collect::<Vec<_>>(), expected, "{sql}");
        }
    }
}
