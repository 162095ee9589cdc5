//! Each kind of region over random cases. A definition gives a point's distance from the boundary, negative inside;
//! rows closer to it than rounding errors are not compared.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Float32Array, Float64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use kubist_expr::{Nulls, Predicate, Verdict, Zone, never};
use kubist_index::order;
use kubist_region::{PERIOD, Period, Region};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

const CASES: u64 = 5_000;
const NEAR: f64 = 1e-9;

type Vector = [f64; 3];
type Definition = Box<dyn Fn(Vector) -> f64>;

fn minus(a: Vector, b: Vector) -> Vector {
    [0, 1, 2].map(|d| a[d] - b[d])
}

fn dot(a: Vector, b: Vector) -> f64 {
    (0..3).map(|d| a[d] * b[d]).sum()
}

fn length(a: Vector) -> f64 {
    dot(a, a).sqrt()
}

fn named(at: Vector) -> Value {
    json!({"x": at[0], "y": at[1], "z": at[2]})
}

fn point(rng: &mut SmallRng) -> Vector {
    [0, 1, 2].map(|_| {
        if rng.random_bool(0.3) { f64::from(rng.random_range(-2..3)) / 2.0 } else { rng.random_range(-1.0..1.0) }
    })
}

fn nearest(difference: f64, period: f64) -> f64 {
    difference - period * (difference / period).round()
}

fn region(rng: &mut SmallRng, kind: usize) -> (Value, Definition) {
    let (a, b) = (point(rng), point(rng));
    let radius: f64 = if rng.random_bool(0.2) { 0.5 } else { rng.random_range(0.0..1.2) };
    match kind {
        0 => {
            (json!({"sphere": {"center": named(a), "radius": radius}}), Box::new(move |p| length(minus(p, a)) - radius))
        }
        1 => {
            let radii = [0, 1, 2].map(|_| rng.random_range(0.1..1.5));
            let far = move |p: Vector| length([0, 1, 2].map(|d| (p[d] - a[d]) / radii[d])) - 1.0;
            (json!({"ellipsoid": {"center": named(a), "radii": named(radii)}}), Box::new(far))
        }
        2 | 3 => {
            let mut end = b;
            if a == b || rng.random_bool(0.3) {
                end = [a[0], a[1], a[2] + 1.0];
            }
            let last = if kind == 2 { radius } else { rng.random_range(0.0..1.0) };
            let long = length(minus(end, a));
            let axis = minus(end, a).map(|one| one / long);
            let far = move |p: Vector| {
                let along = dot(minus(p, a), axis);
                let across = length(minus(minus(p, a), axis.map(|one| one * along)));
                let wide = radius + (last - radius) * along / long;
                (across - wide).max(-along).max(along - long)
            };
            let value = match kind {
                2 => json!({"cylinder": {"from": named(a), "to": named(end), "radius": radius}}),
                _ => json!({"frustum": {"from": named(a), "to": named(end), "radius_from": radius, "radius_to": last}}),
            };
            (value, Box::new(far))
        }
        4 => {
            let normal = if length(b) > 0.0 { b } else { [1.0, 0.0, 0.0] };
            let (low, high) = (-radius, radius / 2.0);
            let far = move |p: Vector| (low - dot(p, normal)).max(dot(p, normal) - high);
            (json!({"slab": {"normal": named(normal), "low": low, "high": high}}), Box::new(far))
        }
        5 => {
            let normal = if length(b) > 0.0 { b } else { [0.0, 0.0, -1.0] };
            let far = move |p: Vector| -dot(minus(p, a), normal);
            (json!({"half_space": {"normal": named(normal), "point": named(a)}}), Box::new(far))
        }
        6 => {
            let turn = |angle: f64| [a[0] + radius * angle.cos(), a[1] + radius * angle.sin()];
            let corners = [0.1, 2.3, 4.0].map(turn);
            let side = move |p: Vector, one: usize| {
                let (from, to) = (corners[one], corners[(one + 1) % 3]);
                (to[1] - from[1]) * (p[0] - from[0]) - (to[0] - from[0]) * (p[1] - from[1])
            };
            let far = move |p: Vector| (0..3).map(|one| side(p, one)).fold(p[2] - 0.5, f64::max);
            let polygon = json!({"polygon": {"columns": ["x", "y"], "coordinates": [corners]}});
            (json!({"intersection": [polygon, {"box": {"z": [null, 0.5]}}]}), Box::new(far))
        }
        7 => {
            let period = rng.random_range(0.5..2.5);
            let radius = radius.min(period / 2.0);
            let far = move |p: Vector| {
                let [x, y, z] = minus(p, a);
                length([nearest(x, period), nearest(y, period), z]) - radius
            };
            let sphere = json!({"sphere": {"center": named(a), "radius": radius}});
            (json!({"periodic": {"period": {"x": period, "y": period}, "region": sphere}}), Box::new(far))
        }
        8 => {
            let (period, low) = (rng.random_range(1.5..2.5), rng.random_range(-3.0..3.0));
            let high = low + rng.random_range(0.0..period * 1.1);
            let far = move |p: Vector| {
                let middle = low / 2.0 + high / 2.0;
                nearest(p[0] - middle, period).abs() - (high - low) / 2.0
            };
            let range = json!({"box": {"x": [low, high]}});
            (json!({"periodic": {"period": {"x": period}, "region": range}}), Box::new(far))
        }
        _ => {
            let inner = rng.random_range(0..9);
            let (one, of_one) = region(rng, inner);
            let other = rng.random_range(0..9);
            let (other, of_other) = region(rng, other);
            match rng.random_range(0..4) {
                0 => (json!({"union": [one, other]}), Box::new(move |p| of_one(p).min(of_other(p)))),
                1 => (json!({"intersection": [one, other]}), Box::new(move |p| of_one(p).max(of_other(p)))),
                2 => (json!({"difference": [one, other]}), Box::new(move |p| of_one(p).max(-of_other(p)))),
                _ => (json!({"complement": one}), Box::new(move |p| -of_one(p))),
            }
        }
    }
}

fn repeated(rng: &mut SmallRng, kind: usize, periods: [Period; 2]) -> (Value, Definition) {
    let (value, far): (Value, Definition) = match kind {
        8 => {
            let low = rng.random_range(-4.0..4.0);
            let high = low + rng.random_range(0.0..periods[0].length() * 1.1);
            let (text, number) = (json!(low), json!(high));
            (json!({"box": {"x": [text, number]}}), Box::new(move |p: Vector| (low - p[0]).max(p[0] - high)))
        }
        kind => region(rng, kind),
    };
    let images = move |p: Vector| {
        let image = |x: i32, y: i32| {
            let [by_x, by_y] = [f64::from(x) * periods[0].length(), f64::from(y) * periods[1].length()];
            far([p[0] + by_x, p[1] + by_y, p[2]])
        };
        let most = if kind == 8 { [6, 0] } else { [3, 3] };
        (-most[0]..=most[0])
            .flat_map(|x| (-most[1]..=most[1]).map(move |y| (x, y)))
            .map(|(x, y)| image(x, y))
            .fold(f64::INFINITY, f64::min)
    };
    (value, Box::new(images))
}

/// Returns the batch in a table with these periods: values outside their intervals become the bounds.
fn within(batch: &RecordBatch, periods: [Period; 2]) -> RecordBatch {
    let inside = |value: f64, period: Period| value.clamp(period.first + 1e-5, period.last - 1e-5);
    let x = batch.column(0).as_any().downcast_ref::<Float32Array>().unwrap();
    let y = batch.column(1).as_any().downcast_ref::<Float64Array>().unwrap();
    let x: Float32Array = x.unary(|value| inside(value.into(), periods[0]) as f32);
    let y: Float64Array = y.unary(|value| value.clamp(periods[1].first, periods[1].last));
    let fields =
        batch.schema_ref().fields().iter().zip(periods.map(Some).into_iter().chain([None])).map(|(field, period)| {
            let metadata = period.map(|period| (PERIOD.to_owned(), period.to_string()));
            Field::clone(field).with_metadata(metadata.into_iter().collect::<HashMap<_, _>>())
        });
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    RecordBatch::try_new(schema, vec![Arc::new(x), Arc::new(y), batch.column(2).clone()]).unwrap()
}

fn batch(rng: &mut SmallRng) -> RecordBatch {
    let width = [0.0, 0.01, 0.2, 2.0][rng.random_range(0..4)];
    let (rows, centre) = (rng.random_range(1..8), point(rng));
    let odd = rng.random_bool(0.1);
    let mut column = |d: usize| -> Vec<Option<f64>> {
        let value = |_| match odd && rng.random_bool(0.2) {
            true => {
                if rng.random_bool(0.5) {
                    None
                } else {
                    Some(f64::NAN)
                }
            }
            false => Some(centre[d] + width * rng.random_range(-1.0..1.0)),
        };
        (0..rows).map(value).collect()
    };
    let narrow: Float32Array = column(0).into_iter().map(|one| one.map(|one| one as f32)).collect();
    let columns: [(&str, ArrayRef); 3] = [
        ("x", Arc::new(narrow)),
        ("y", Arc::new(Float64Array::from(column(1)))),
        ("z", Arc::new(Float64Array::from(column(2)))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
}

fn zone(array: &dyn Array) -> Zone {
    let keys = order::keys(array).unwrap();
    let valid: Vec<u64> = (0..array.len()).filter(|row| array.is_valid(*row)).map(|row| keys[row]).collect();
    let nulls = match (valid.len(), array.null_count()) {
        (0, _) => Nulls::All,
        (_, 0) => Nulls::None,
        _ => Nulls::Some,
    };
    Zone { min: valid.iter().copied().min().unwrap_or(0), max: valid.iter().copied().max().unwrap_or(0), nulls }
}

fn position(batch: &RecordBatch, row: usize) -> Option<Vector> {
    let value = |column: usize| -> Option<f64> {
        let array = batch.column(column);
        let number = match array.data_type() {
            DataType::Float32 => array.as_any().downcast_ref::<Float32Array>()?.value(row).into(),
            _ => array.as_any().downcast_ref::<Float64Array>()?.value(row),
        };
        (array.is_valid(row) && !number.is_nan()).then_some(number)
    };
    Some([value(0)?, value(1)?, value(2)?])
}

fn check_kind(kind: usize) {
    check(|rng| {
        let (value, far) = region(rng, kind);
        (value, far, batch(rng))
    });
}

fn check_repeated(kind: usize) {
    check(|rng| {
        let periods = [0, 1].map(|_| {
            let first = if rng.random_bool(0.5) { 0.0 } else { rng.random_range(-3.0..1.0) };
            Period::new(first, first + rng.random_range(1.2..2.5)).unwrap()
        });
        let (value, far) = repeated(rng, kind, periods);
        (value, far, within(&batch(rng), periods))
    });
}

fn check(case: impl Fn(&mut SmallRng) -> (Value, Definition, RecordBatch)) {
    let (mut verdicts, mut inside, mut outside) = ([0; 3], 0, 0);
    for seed in 0..CASES {
        let rng = &mut SmallRng::seed_from_u64(seed);
        let (value, far, batch) = case(rng);
        let read: Region = serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{value}: {error}"));
        assert_eq!(serde_json::from_value::<Region>(serde_json::to_value(&read).unwrap()).unwrap(), read);
        let Ok(predicate) = read.predicate(batch.schema_ref()) else { continue };
        let found = predicate.evaluate(&batch, &never).unwrap();
        let zones: Vec<Zone> = batch.columns().iter().map(|array| zone(array.as_ref())).collect();
        let verdict = predicate.verdict(&|column| zones[column]);
        verdicts[verdict as usize] += 1;
        for row in 0..batch.num_rows() {
            let is_inside = found.value(row);
            match verdict {
                Verdict::None => assert!(!is_inside, "seed {seed}: {value}\n{batch:?}"),
                Verdict::All => assert!(is_inside, "seed {seed}: {value}\n{batch:?}"),
                Verdict::Some => {}
            }
            for (column, array) in batch.columns().iter().enumerate().filter(|_| is_inside) {
                let key = order::keys(array.as_ref()).unwrap()[row];
                let keys = predicate.keys_of(column);
                let holds = match array.is_valid(row) && key <= order::number_keys(array.data_type()).1 {
                    true => keys.numbers.is_some_and(|(low, high)| low <= key && key <= high),
                    false => keys.others,
                };
                assert!(holds, "seed {seed}: {value}, column {column}\n{batch:?}");
            }
            let Some(at) = position(&batch, row) else { continue };
            let distance = far(at);
            if distance.abs() > NEAR {
                assert_eq!(is_inside, distance < 0.0, "seed {seed}: {value} {at:?} {distance}");
                *(if is_inside { &mut inside } else { &mut outside }) += 1;
            }
        }
    }
    assert!(inside > CASES / 8 && outside > CASES / 8, "{inside} {outside}");
    assert!(verdicts.iter().all(|count| *count > CASES / 50), "{verdicts:?}");
}

#[test]
fn spheres() {
    check_kind(0);
}

#[test]
fn ellipsoids() {
    check_kind(1);
}

#[test]
fn cylinders() {
    check_kind(2);
}

#[test]
fn frustums() {
    check_kind(3);
}

#[test]
fn slabs() {
    check_kind(4);
}

#[test]
fn half_spaces() {
    check_kind(5);
}

#[test]
fn polygons_with_ranges() {
    check_kind(6);
}

#[test]
fn periodic_spheres() {
    check_kind(7);
}

#[test]
fn periodic_boxes() {
    check_kind(8);
}

#[test]
fn spheres_of_a_periodic_table() {
    check_repeated(0);
}

#[test]
fn cylinders_of_a_periodic_table() {
    check_repeated(2);
}

#[test]
fn frustums_of_a_periodic_table() {
    check_repeated(3);
}

#[test]
fn polygons_of_a_periodic_table() {
    check_repeated(6);
}

#[test]
fn boxes_of_a_periodic_table() {
    check_repeated(8);
}

#[test]
fn periods_are_lengths_or_intervals() {
    for (text, first, last) in [("25", 0.0, 25.0), ("-12.5:12.5", -12.5, 12.5)] {
        let period: Period = text.parse().unwrap();
        assert_eq!((period.first, period.last, &period.to_string()[..]), (first, last, text));
    }
    for text in ["", "x", "0", "-1", "2:1", "nan", "1:inf", "1:2:3"] {
        assert!(text.parse::<Period>().is_err(), "{text}");
    }
}

#[test]
fn combinations() {
    check_kind(9);
}

fn selected(value: Value, batch: &RecordBatch) -> Vec<usize> {
    let region: Region = serde_json::from_value(value).unwrap();
    let predicate = region.predicate(batch.schema_ref()).unwrap();
    predicate.evaluate(batch, &never).unwrap().values().set_indices().collect()
}

#[test]
fn boundaries_belong_to_a_region() {
    let column = |values: Vec<f64>| Arc::new(Float64Array::from(values)) as ArrayRef;
    let batch =
        RecordBatch::try_from_iter([("x", column(vec![0.1, 0.0, 0.3, 1.0])), ("y", column(vec![0.0, 0.3, 0.4, 1.0]))])
            .unwrap();
    assert_eq!(selected(json!({"sphere": {"center": {"x": 0, "y": 0}, "radius": 0.1}}), &batch), [0]);
    assert_eq!(selected(json!({"sphere": {"center": {"x": 0, "y": 0}, "radius": 0.5}}), &batch), [0, 1, 2]);
    assert_eq!(selected(json!({"sphere": {"center": {"x": 1, "y": 1}, "radius": 0}}), &batch), [3]);
    assert_eq!(selected(json!({"box": {"x": [0.1, 0.3]}}), &batch), [0, 2]);
    // The boundary of the removed region stays in the difference.
    let ring = json!({"difference": [{"box": {"x": [0, 1]}}, {"box": {"x": [0.1, 0.3]}}]});
    assert_eq!(selected(ring, &batch), [1, 3]);
    let seam = json!({"periodic": {"period": {"x": 1}, "region": {"box": {"x": [0.9, 1.1]}}}});
    assert_eq!(selected(seam, &batch), [0, 1, 3]);
}

#[test]
fn numbers_have_the_units_of_their_columns() {
    let with = |name: &str, unit: &str| {
        Field::new(name, DataType::Float64, true).with_metadata(HashMap::from([("unit".to_owned(), unit.to_owned())]))
    };
    let schema =
        Schema::new(vec![with("x", "m"), with("y", "m"), with("h", "cm"), with("ra", "rad"), with("dec", "rad")]);
    let column = |value: f64| Arc::new(Float64Array::from(vec![value])) as ArrayRef;
    let columns = vec![column(0.02), column(0.0), column(2.0), column(0.1), column(0.0)];
    let batch = RecordBatch::try_new(Arc::new(schema), columns).unwrap();
    let has = |value: Value| selected(value, &batch) == [0];
    assert!(has(json!({"sphere": {"center": {"x": "1 cm", "y": 0}, "radius": "11 mm"}})));
    assert!(!has(json!({"sphere": {"center": {"x": "1 cm", "y": 0}, "radius": "9 mm"}})));
    // The axes of an ellipsoid may have different units.
    assert!(has(json!({"ellipsoid": {"center": {"x": 0.02, "h": 2}, "radii": {"x": "1 mm", "h": "1 mm"}}})));
    assert!(has(json!({"cone": {"center": [5.7295, 0], "radius": 0.001}})));
    let error = |value: Value| {
        let region: Region = serde_json::from_value(value).unwrap();
        region.predicate(batch.schema_ref()).unwrap_err().to_string()
    };
    let found = error(json!({"sphere": {"center": {"x": 0, "h": 0}, "radius": 1}}));
    assert!(found.contains("no distance between") && found.contains("cm"), "{found}");
    let found = error(json!({"sphere": {"center": {"x": "1 s", "y": 0}, "radius": 1}}));
    assert!(found.contains("column `x`"), "{found}");
}

#[test]
fn a_condition_shows_its_region() {
    let schema = Schema::new(vec![Field::new("x", DataType::Float64, true)]);
    let region: Region = serde_json::from_value(json!({"box": {"x": [0, 1]}})).unwrap();
    let both = Predicate::parse("x > 0.5", &schema).unwrap().and(region.predicate(&schema).unwrap());
    assert_eq!(both.to_string(), r#"(x > 0.5) AND (region {"box":{"x":[0,1]}})"#);
}
