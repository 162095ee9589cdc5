//! Verdicts and key ranges of formulas, compared with the rows themselves.

use crate::oracle::Rng;
use crate::rows::zones;
use arrow_array::{ArrayRef, Float32Array, Float64Array, Int32Array, Int64Array, RecordBatch};
use kubist_expr::{ExprError, Nulls, Predicate, Verdict, Zone, never};
use kubist_index::order;
use std::sync::Arc;

const CASES: u64 = 20_000;

fn number(rng: &mut Rng, centre: f64, width: f64) -> f64 {
    let extremes = [0.0, -0.0, 1e300, -1e300, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, f64::MIN_POSITIVE, 9.1e15];
    if rng.chance(3) {
        return rng.pick(&extremes);
    }
    centre + width * (rng.next() as f64 / u64::MAX as f64 - 0.5)
}

fn batch(rng: &mut Rng) -> RecordBatch {
    let rows = 1 + rng.below(6);
    let width = rng.pick(&[0.0, 1e-9, 0.01, 1.0, 20.0]);
    let mut column = || {
        let centre = rng.pick(&[-3.0, -1.0, 0.0, 0.5, 1.0, 1.5707963267948966, 4.0, 250.0]);
        let nulls = rng.chance(20);
        let mut value = || (!(nulls && rng.chance(30))).then(|| number(rng, centre, width));
        (0..rows).map(|_| value()).collect::<Vec<_>>()
    };
    let (x, y, n, k) = (column(), column(), column(), column());
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("x", Arc::new(Float64Array::from(x))),
        ("y", Arc::new(y.iter().map(|y| y.map(|y| y as f32)).collect::<Float32Array>())),
        ("n", Arc::new(n.iter().map(|n| n.map(|n| n as i32)).collect::<Int32Array>())),
        ("k", Arc::new(k.iter().map(|k| k.map(|k| k as i64)).collect::<Int64Array>())),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}

fn formula(rng: &mut Rng, depth: usize) -> String {
    if depth == 0 || rng.chance(15) {
        return rng.pick(&["x", "y", "n", "k", "0", "1", "2", "0.5", "-3", "1e-3", "1.5707963267948966"]).into();
    }
    let (a, b) = (formula(rng, depth - 1), formula(rng, depth - 1));
    match rng.below(31) {
        0..4 => format!("({a} + {b})"),
        4..8 => format!("({a} - {b})"),
        8..10 => format!("({a} * {b})"),
        10..12 => format!("({a} * {a})"),
        12 => format!("({a} / {b})"),
        13 => format!("power({a}, {})", rng.pick(&["2", "3", "-1", "0.5", "0", "-2", b.as_str()])),
        14 => format!("sqrt({a})"),
        15 => format!("sin({a})"),
        16 => format!("cos({a})"),
        17 => format!("atan2({a}, {b})"),
        18 => format!("hypot({a}, {b})"),
        19 => format!("abs({a})"),
        20 => format!("{}({a})", rng.pick(&["floor", "ceil", "round", "sign", "negate", "radians", "degrees"])),
        21 => format!("{}({a})", rng.pick(&["asin", "acos", "atan", "ln", "log10", "log2", "exp", "tan"])),
        22 => format!("{}({a}, {b})", rng.pick(&["least", "greatest"])),
        23 => format!("CASE WHEN {a} > 1 THEN {b} ELSE {a} END"),
        24 => format!("coalesce({a}, {b})"),
        25 => format!("({a} % {b})"),
        26 => format!("CAST({a} AS float32)"),
        27 => format!("separation({a}, {b}, {}, {})", rng.pick(&["0", "250", "x"]), rng.pick(&["1", "-90", "n"])),
        28 => format!("healpix({a}, {b}, {})", rng.pick(&["1", "8", "1048576"])),
        29 => format!("periodic({a}, {})", rng.pick(&["1", "0.3", "360"])),
        _ => format!("(-{a})"),
    }
}

fn condition(rng: &mut Rng, depth: usize) -> String {
    let (a, shallow) = (formula(rng, depth), rng.below(2));
    let b = formula(rng, shallow);
    let op = rng.pick(&["<", "<=", ">", ">=", "=", "<>"]);
    let shape = rng.pick(&[
        "in_polygon(A, B, '-3 -3, 1 -4, 5 1, 0.5 0.5, -1 4')",
        "in_polygon(A, B, '-3 -3, 251 -3, 251 251; -1 -1, 1 -1, 1 1')",
        "in_sky_polygon(A, B, '-3 -3, 4 -3, 5 1, -1 4')",
        "in_sky_polygon(A, B, '200 -30, 300 -30, 250 60')",
        "in_moc(A, B, '1/4,17-19 4/1200-1300 9/1572800-1573000')",
    ]);
    let one = match rng.below(10) {
        8..10 => shape.replace('A', &a).replace('B', &b),
        0 => format!("{a} BETWEEN {} AND {}", rng.below(3), rng.below(9)),
        1 => format!("{a} IN (0, 1, {}, 9007199254740993)", rng.pick(&["2.5", "2", "-3", "16"])),
        2 => format!("isnan({a})"),
        3 => format!("isfinite({a})"),
        4 => format!("({a}) IS NULL"),
        _ => format!("{a} {op} {b}"),
    };
    match rng.below(6) {
        0 => format!("NOT ({one})"),
        1 => format!("({one}) AND {}", condition_of_column(rng)),
        2 => format!("({one}) OR {}", condition_of_column(rng)),
        _ => one,
    }
}

fn condition_of_column(rng: &mut Rng) -> String {
    format!("{} {} {}", rng.pick(&["x", "y", "n", "k"]), rng.pick(&["<", ">=", "="]), rng.pick(&["0", "1", "0.25"]))
}

#[test]
fn verdicts_and_keys_of_formulas_hold_for_every_row() {
    let mut decided = [0; 3];
    for seed in 0..CASES {
        let mut rng = Rng(seed);
        let batch = batch(&mut rng);
        let depth = 1 + rng.below(3);
        let sql = condition(&mut rng, depth);
        let Ok(predicate) = Predicate::parse(&sql, batch.schema_ref()) else { continue };
        let found = match predicate.evaluate(&batch, &never) {
            Err(ExprError::Overflow { .. }) => continue,
            found => found.unwrap(),
        };
        let mut zones = zones(&batch);
        if rng.chance(30) {
            let wider =
                |zone: &mut Zone| (zone.min, zone.max) = (zone.min.saturating_sub(9), zone.max.saturating_add(9));
            zones.iter_mut().filter(|zone| zone.nulls != Nulls::All).for_each(wider);
        }
        let verdict = predicate.verdict(&|column| zones[column]);
        match verdict {
            Verdict::None => assert_eq!(found.true_count(), 0, "seed {seed}: {sql}\n{batch:?}"),
            Verdict::All => assert_eq!(found.true_count(), batch.num_rows(), "seed {seed}: {sql}\n{batch:?}"),
            Verdict::Some => {}
        }
        decided[verdict as usize] += 1;
        for (column, array) in batch.columns().iter().enumerate() {
            let (keys, of_rows) = (predicate.keys_of(column), order::keys(array.as_ref()).unwrap());
            let numbers = order::number_keys(array.data_type());
            for row in (0..batch.num_rows()).filter(|row| found.value(*row)) {
                let key = of_rows[row];
                let is_number = array.is_valid(row) && numbers.0 <= key && key <= numbers.1;
                let is_inside = match is_number {
                    true => keys.numbers.is_some_and(|(low, high)| low <= key && key <= high),
                    false => keys.others,
                };
                assert!(is_inside, "seed {seed}, column {column}, row {row}: {sql}\n{keys:?}\n{batch:?}");
            }
        }
    }
    assert!(decided.iter().all(|count| *count > CASES / 20), "{decided:?}");
}

fn zone_of(low: f64, high: f64) -> Zone {
    let keys = order::keys(&Float64Array::from(vec![low, high])).unwrap();
    Zone { min: keys[0], max: keys[1], nulls: Nulls::None }
}

#[test]
fn a_sphere_has_a_bounding_box_and_an_inside() {
    let batch = RecordBatch::try_from_iter(
        ["x", "y", "z"].map(|name| (name, Arc::new(Float64Array::from(vec![0.0])) as ArrayRef)),
    );
    let sphere = "(x - 1) * (x - 1) + power(y + 2, 2) + (z - 3) * (z - 3) < 0.25";
    let predicate = Predicate::parse(sphere, batch.unwrap().schema_ref()).unwrap();
    let number = |key| order::number(&arrow_schema::DataType::Float64, key);
    for (column, centre) in [1.0, -2.0, 3.0].into_iter().enumerate() {
        let keys = predicate.keys_of(column);
        let (low, high) = keys.numbers.unwrap();
        assert!(!keys.others);
        let ends = [number(low), number(high)];
        assert!(
            (ends[0] - (centre - 0.5)).abs() < 1e-6 && (ends[1] - (centre + 0.5)).abs() < 1e-6,
            "{column}: {ends:?}"
        );
    }
    let verdict = |centre: [f64; 3], half: f64| {
        predicate.verdict(&|column| zone_of(centre[column] - half, centre[column] + half))
    };
    assert_eq!(verdict([1.0, -2.0, 3.0], 0.2), Verdict::All);
    assert_eq!(verdict([1.5, -2.0, 3.0], 0.2), Verdict::Some);
    assert_eq!(verdict([1.4, -1.6, 3.4], 0.05), Verdict::None);
}
