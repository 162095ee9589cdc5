//! Compares units in expressions with arithmetic in SI units: every column is converted by hand, and every random
//! comparison must select the same rows.

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int32Array, RecordBatch};
use arrow_schema::{Field, Schema};
use kubist_expr::{ExprError, Expression, Grouping, Meant, Predicate, in_unit_of, never};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::sync::Arc;

const ROWS: usize = 400;

const LENGTHS: [(&str, &str, f64); 3] = [("x", "m", 1.0), ("y", "cm", 1e-2), ("d", "um", 1e-6)];
const TIMES: [(&str, &str, f64); 2] = [("t", "s", 1.0), ("h", "hour", 3600.0)];
const WRITTEN: [(&str, f64); 4] = [("m", 1.0), ("mm", 1e-3), ("um", 1e-6), ("km", 1e3)];

fn batch() -> RecordBatch {
    let mut random = SmallRng::seed_from_u64(1);
    let mut fields = Vec::new();
    let mut columns: Vec<ArrayRef> = Vec::new();
    for (name, unit, si) in LENGTHS.into_iter().chain(TIMES) {
        let values = (0..ROWS).map(|_| random.random_range(-2.0..3.0) / si);
        columns.push(Arc::new(Float64Array::from_iter_values(values)));
        let metadata = [("unit".to_owned(), unit.to_owned())].into_iter().collect::<std::collections::HashMap<_, _>>();
        fields.push(Field::new(name, columns[columns.len() - 1].data_type().clone(), true).with_metadata(metadata));
    }
    columns.push(Arc::new(Int32Array::from_iter_values((0..ROWS as i32).map(|row| row % 7 - 3))));
    fields.push(Field::new("n", columns[columns.len() - 1].data_type().clone(), true));
    columns.push(Arc::new(BooleanArray::from_iter((0..ROWS).map(|row| Some(row % 3 == 0)))));
    fields.push(Field::new("on", columns[columns.len() - 1].data_type().clone(), true));
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

struct Made {
    sql: String,
    si: Vec<f64>,
}

fn length(batch: &RecordBatch, random: &mut SmallRng, depth: usize) -> Made {
    if depth == 0 || random.random_bool(0.2) {
        let (name, _, si) = *LENGTHS.choose(random).unwrap();
        let values = Expression::parse(name, batch.schema_ref()).unwrap().evaluate(batch, &never).unwrap();
        return Made { sql: name.into(), si: values.into_iter().map(|value| value * si).collect() };
    }
    let one = length(batch, random, depth - 1);
    let with = |sql: String, of: &dyn Fn(f64, usize) -> f64| Made {
        si: one.si.iter().enumerate().map(|(row, value)| of(*value, row)).collect(),
        sql,
    };
    let number = random.random_range(1..40);
    let (unit, si) = *WRITTEN.choose(random).unwrap();
    let n = |row: usize| (row as i32 % 7 - 3) as f64;
    match random.random_range(0..11) {
        0 => with(format!("({} + {number}{unit})", one.sql), &|value, _| value + f64::from(number) * si),
        1 => with(format!("('{number} {unit}' - {})", one.sql), &|value, _| f64::from(number) * si - value),
        2 => with(format!("({} * {number})", one.sql), &|value, _| value * f64::from(number)),
        3 => with(format!("abs({}) / {number}", one.sql), &|value, _| value.abs() / f64::from(number)),
        4 => with(format!("({} * n)", one.sql), &|value, row| value * n(row)),
        5 => with(format!("(CASE WHEN on THEN {} ELSE {number}{unit} END)", one.sql), &|value, row| {
            if row % 3 == 0 { value } else { f64::from(number) * si }
        }),
        6 => with(format!("({} * ({number}{unit} / 1mm))", one.sql), &|value, _| value * f64::from(number) * si * 1e3),
        kind => {
            let other = length(batch, random, depth - 1);
            let both = one.si.iter().zip(&other.si);
            let (sql, si) = match kind {
                7 => (format!("({} + {})", one.sql, other.sql), both.map(|(a, b)| a + b).collect()),
                8 => (format!("least({}, {})", one.sql, other.sql), both.map(|(a, b)| a.min(*b)).collect()),
                9 => (format!("hypot({}, {})", one.sql, other.sql), both.map(|(a, b)| a.hypot(*b)).collect()),
                _ => (
                    format!("sqrt(({}) ^ 2 + ({}) ^ 2)", one.sql, other.sql),
                    both.map(|(a, b)| (a * a + b * b).sqrt()).collect(),
                ),
            };
            Made { sql, si }
        }
    }
}

fn selected(batch: &RecordBatch, sql: &str) -> Vec<bool> {
    let predicate = Predicate::parse(sql, batch.schema_ref()).unwrap_or_else(|error| panic!("{sql}: {error}"));
    predicate.evaluate(batch, &never).unwrap().iter().map(|found| found == Some(true)).collect()
}

#[test]
fn comparisons_of_lengths_select_the_rows_that_si_units_select() {
    let (batch, mut random) = (batch(), SmallRng::seed_from_u64(2));
    let mut met = 0;
    for _ in 0..300 {
        let made = length(&batch, &mut random, 3);
        let (number, (unit, si)) = (random.random_range(-30..60), *WRITTEN.choose(&mut random).unwrap());
        let other = length(&batch, &mut random, 1);
        for (sql, than) in [
            (format!("{} > {number}{unit}", made.sql), vec![f64::from(number) * si; ROWS]),
            (format!("{} > '{number} {unit}'", made.sql), vec![f64::from(number) * si; ROWS]),
            (format!("{} > {}", made.sql, other.sql), other.si.clone()),
            (format!("NOT ({} / 1s <= {number}{unit} / 1s)", made.sql), vec![f64::from(number) * si; ROWS]),
        ] {
            let found = selected(&batch, &sql);
            for row in 0..ROWS {
                let (one, other) = (made.si[row], than[row]);
                if (one - other).abs() > 1e-9 * (one.abs() + other.abs() + 1e-6) {
                    assert_eq!(found[row], one > other, "{sql}: {one} and {other}");
                    met += usize::from(one > other);
                }
            }
        }
    }
    assert!(met > 20_000, "{met}");
}

#[test]
fn results_have_the_units_that_their_operands_make() {
    let batch = batch();
    let unit = |sql: &str| {
        let expression = Expression::parse(sql, batch.schema_ref()).unwrap_or_else(|error| panic!("{sql}: {error}"));
        expression.unit().map(str::to_owned)
    };
    for (sql, expected) in [
        ("x", Some("m")),
        // The factor may change the length or the unit, so the unit is uncertain.
        ("y * 2", None),
        ("y / 100", None),
        ("floor(t / 86400)", None),
        ("x + 2 * y", None),
        ("(x * 1e6) ^ 2 / t", None),
        ("greatest(2 * x, y)", None),
        ("CASE WHEN on THEN 3 * x ELSE x END", None),
        ("(2 * x)::int64", None),
        ("pi() * x", None),
        ("-1 * x", Some("m")),
        ("1 / t", Some("s^-1")),
        ("x * n * on", Some("m")),
        ("t / 1day", None),
        ("x / y", None),
        ("(1 / t) * h", None),
        ("x / y * t", Some("s")),
        ("x + y", Some("m")),
        ("x * x", Some("m^2")),
        ("x / t", Some("m/s")),
        ("x * y", Some("m cm")),
        ("x / x", None),
        ("n / t", Some("s^-1")),
        ("sqrt(x ^ 2 / t)", Some("m/s^(1/2)")),
        ("power(d, 3)", Some("um^3")),
        ("round(x, 1) + 0", Some("m")),
        ("bin(d, 1mm)", Some("um")),
        ("x::int64", Some("m")),
        ("CASE WHEN on THEN 1cm ELSE x END", Some("m")),
        ("ln(x)", None),
        ("atan2(x, y)", None),
        ("x > y", None),
        ("n", None),
    ] {
        assert_eq!(unit(sql).as_deref(), expected, "{sql}");
    }
}

#[test]
fn quotients_of_one_kind_are_plain_numbers_whatever_the_units() {
    let batch = batch();
    let values = |sql: &str| {
        let expression = Expression::parse(sql, batch.schema_ref()).unwrap_or_else(|error| panic!("{sql}: {error}"));
        expression.evaluate(&batch, &never).unwrap()
    };
    let (x, y, t, h) = (values("x"), values("y"), values("t"), values("h"));
    let close = |sql: &str, of: &dyn Fn(usize) -> f64| {
        for (row, value) in values(sql).into_iter().enumerate() {
            assert!((value - of(row)).abs() <= 1e-12 * of(row).abs(), "{sql}: {value} and {}", of(row));
        }
    };
    close("x / y", &|row| x[row] / (y[row] / 100.0));
    close("t / 1min", &|row| t[row] / 60.0);
    close("h / 1s", &|row| h[row] * 3600.0);
    close("t * (1 / 1min)", &|row| t[row] / 60.0);
    close("t / '2 min'", &|row| t[row] / 120.0);
    close("3 * x / 1cm", &|row| 300.0 * x[row]);
    close("floor(t / 0.1min)", &|row| (t[row] / 6.0).floor());
    assert_eq!(values("t / 1min"), values("t / 60"));
}

#[test]
fn what_is_of_different_kinds_is_refused() {
    let batch = batch();
    assert_eq!(selected(&batch, "n + 1cm > 2"), selected(&batch, "n > 1"));
    for (sql, message) in [
        ("x > t", "column `x` is in m, and column `t` in s: these are of different kinds"),
        ("x + t > 1", "column `x` is in m, and column `t` in s: these are of different kinds"),
        ("x * 2 > 3s", "what is computed is in m, and cannot be compared with 3 s: s is of another kind"),
        ("x + 1s > 2cm", "column `x` is in m, and 1 s cannot be added to it: s is of another kind"),
        ("x * x > 2cm", "what is computed is in m^2, and cannot be compared with 2 cm"),
        ("x / y > 2cm", "what is computed has no unit, so it cannot be compared with 2 cm"),
        ("x / x > 2cm", "what is computed has no unit, so it cannot be compared with 2 cm"),
        ("n * 3 > 1cm", "what is computed has no unit, so it cannot be compared with 1 cm"),
        ("x * 3parsnip > 1", "the unit `parsnip` of 3 parsnip is not known"),
        ("bin(n, 1mm) = 0", "column `n` has no unit, so 1 mm is no width of it"),
        ("bin(x, 1s) = 0", "column `x` is in m, and 1 s is no width of it: s is of another kind"),
        ("CASE WHEN on THEN x ELSE t END > 1", "these are of different kinds"),
        ("ln(3cm) > 1", "`ln` takes numbers, not the quantity 3 cm"),
        ("2 ^ 3cm > 1", "takes numbers, not the quantity 3 cm"),
    ] {
        let error = match Predicate::parse(sql, batch.schema_ref()) {
            Ok(_) => panic!("{sql} was taken"),
            Err(error) => error,
        };
        assert!(matches!(error, ExprError::Type { .. }) && error.to_string().contains(message), "{sql}: {error}");
    }
}

#[test]
fn a_column_that_is_no_word_is_to_be_quoted() {
    let field = |name: &str| Field::new(name, arrow_schema::DataType::Float64, true);
    let schema = Schema::new(vec![field("B-V"), field("Bx")]);
    let refused = |sql: &str| Expression::parse(sql, &schema).unwrap_err().to_string();
    assert!(refused("B-V").contains("no column `B`; `B-V` is a column: write \"B-V\""), "{}", refused("B-V"));
    assert!(Expression::parse("\"B-V\" * 2", &schema).is_ok());
}

#[test]
fn widths_and_ends_have_units() {
    let batch = batch();
    let bins = |sql: &str| Grouping::parse(sql, batch.schema_ref()).unwrap().evaluate(&batch, &never).unwrap();
    assert_eq!(&bins("bin(d, 1mm)"), &bins("bin(d, 1000)"));
    assert_eq!(&bins("bin(y, '0.5 m')"), &bins("bin(y, 50)"));
    let column = batch.schema_ref().field(1).clone();
    assert_eq!(in_unit_of(&column, "2 m", Meant::Value), Ok(Some(200.0)));
    assert_eq!(in_unit_of(&column, "2", Meant::Distance), Ok(None));
    assert!(in_unit_of(&column, "2 s", Meant::Distance).unwrap_err().to_string().contains("of another kind"));
    let doubled = Expression::parse("d * 2", batch.schema_ref()).unwrap();
    assert_eq!(doubled.in_its_unit("1mm", Meant::Value), Ok(Some(1000.0)));
}

fn with_units(columns: Vec<(&str, &str, ArrayRef)>) -> RecordBatch {
    let field = |(name, unit, values): &(&str, &str, ArrayRef)| {
        let unit = ("unit".to_owned(), unit.to_string());
        let metadata = std::collections::HashMap::from([unit]);
        Field::new(*name, values.data_type().clone(), true).with_metadata(metadata)
    };
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    RecordBatch::try_new(Arc::new(schema), columns.into_iter().map(|(_, _, values)| values).collect()).unwrap()
}

#[test]
fn a_difference_of_temperatures_is_none_itself() {
    let degrees = |values: [f64; 3]| Arc::new(Float64Array::from_iter_values(values)) as ArrayRef;
    let batch = with_units(vec![("a", "°C", degrees([30.0, 20.0, -5.0])), ("b", "°C", degrees([20.0, 19.0, 30.0]))]);
    for sql in ["a - b > '5 K'", "abs(a - b) < 1K", "a * 2 > 300K", "hypot(a, b) IN (300K)"] {
        let error = Predicate::parse(sql, batch.schema_ref()).map(drop).unwrap_err().to_string();
        assert!(error.contains("a scale with another zero"), "{sql}: {error}");
    }
    assert_eq!(selected(&batch, "a - b > '5 °C'"), [true, false, false]);
    for sql in ["a > 293.15K", "CAST(a AS double) > 293.15K", "least(a, 40) > '293.15 K'"] {
        assert_eq!(selected(&batch, sql), [true, false, false], "{sql}");
    }
}

#[test]
fn whole_numbers_stay_whole_in_smaller_units() {
    let first = 1i64 << 60;
    let times = Arc::new(arrow_array::Int64Array::from_iter_values([first + 999, first + 998]));
    let batch = with_units(vec![("t", "ns", times)]);
    assert_eq!(selected(&batch, &format!("t + 1us = {}", first + 1_999)), [true, false]);
}

#[test]
fn widths_may_have_a_factor_without_end_and_plain_numbers_a_unit_of_one() {
    let values = |values: [f64; 3]| Arc::new(Float64Array::from_iter_values(values)) as ArrayRef;
    let batch = with_units(vec![("angle", "rad", values([0.01, 0.02, 0.04])), ("w", "1", values([1.0, 2.0, 3.0]))]);
    let bins = |sql: &str| Grouping::parse(sql, batch.schema_ref()).unwrap().evaluate(&batch, &never).unwrap();
    assert_eq!(&bins("bin(angle, 1deg)"), &bins("bin(angle, 0.0174532925199433)"));
    assert_eq!(Expression::parse("angle * w", batch.schema_ref()).unwrap().unit(), Some("rad"));
}

#[test]
fn a_unit_behind_a_blank_is_told_how_to_be_written() {
    let batch = batch();
    let error = Predicate::parse("x > 20 um", batch.schema_ref()).unwrap_err().to_string();
    assert_eq!(
        error,
        "at character 8: `um` is not expected after 20; write `20um` or `'20 um'` for a value with a unit"
    );
}
