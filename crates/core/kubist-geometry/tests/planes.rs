//! Polygons of a plane against the angle that their border turns around a point.

use kubist_geometry::{Containment, Point, Polygon};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::f64::consts::TAU;

const CASES: u64 = 5_000;

/// A ring around a centre, whose corners often lie on a coarse grid.
fn ring(rng: &mut SmallRng, centre: Point, size: f64) -> Vec<Point> {
    let corners = rng.random_range(3..12);
    let on_grid = rng.random_bool(0.5);
    let corner = |step: u32, rng: &mut SmallRng| {
        let (angle, length) = (TAU * f64::from(step) / f64::from(corners), size * rng.random_range(0.3..1.0));
        let point = [centre[0] + length * angle.cos(), centre[1] + length * angle.sin()];
        if on_grid { point.map(|one: f64| (one * 4.0).round() / 4.0) } else { point }
    };
    (0..corners).map(|step| corner(step, rng)).collect()
}

fn polygon(rng: &mut SmallRng) -> Option<(Vec<Vec<Point>>, Polygon)> {
    let mut rings = vec![ring(rng, [0.0, 0.0], 3.0)];
    if rng.random_bool(0.3) {
        rings.push(ring(rng, [0.1, 0.1], 0.5));
    }
    Polygon::new(&rings).ok().map(|polygon| (rings, polygon))
}

fn turns(ring: &[Point], [x, y]: Point) -> f64 {
    let angle = |corner: &Point| (corner[1] - y).atan2(corner[0] - x);
    let next = ring.iter().cycle().skip(1);
    let turn = |(a, b): (&Point, &Point)| {
        let turn = angle(b) - angle(a);
        turn - TAU * (turn / TAU).round()
    };
    ring.iter().zip(next).map(turn).sum::<f64>() / TAU
}

fn distance(ring: &[Point], point: Point) -> f64 {
    let next = ring.iter().cycle().skip(1);
    let of_edge = |(a, b): (&Point, &Point)| {
        let (along, from) = ([b[0] - a[0], b[1] - a[1]], [point[0] - a[0], point[1] - a[1]]);
        let length = along[0] * along[0] + along[1] * along[1];
        let part = ((along[0] * from[0] + along[1] * from[1]) / length).clamp(0.0, 1.0);
        (from[0] - part * along[0]).hypot(from[1] - part * along[1])
    };
    ring.iter().zip(next).map(of_edge).fold(f64::INFINITY, f64::min)
}

#[test]
fn points_are_inside_where_the_border_turns_around_them() {
    let (mut inside, mut cases) = (0, 0);
    for seed in 0..CASES {
        let rng = &mut SmallRng::seed_from_u64(seed);
        let Some((rings, polygon)) = polygon(rng) else { continue };
        cases += 1;
        for _ in 0..40 {
            let point = match rng.random_bool(0.3) {
                true => [0, 1].map(|_| f64::from(rng.random_range(-14..14)) / 4.0),
                false => [0, 1].map(|_| rng.random_range(-3.5..3.5)),
            };
            let near = rings.iter().map(|ring| distance(ring, point)).fold(f64::INFINITY, f64::min);
            if near < 1e-9 {
                continue;
            }
            let around: i64 = rings.iter().map(|ring| turns(ring, point).round() as i64).sum();
            let holes: i64 = rings[1..].iter().map(|ring| turns(ring, point).round().abs() as i64).sum();
            let expected = turns(&rings[0], point).round() as i64 != 0 && holes == 0;
            assert_eq!(polygon.has(point), expected, "seed {seed}: {point:?} of {rings:?} ({around})");
            inside += u32::from(expected);
        }
        assert!(rings.iter().flatten().all(|corner| polygon.has(*corner)), "seed {seed}");
    }
    assert!(cases > CASES / 2 && inside > 10_000, "{cases} {inside}");
}

#[test]
fn places_of_boxes_hold_for_every_point() {
    let mut places = [0; 3];
    for seed in 0..CASES {
        let rng = &mut SmallRng::seed_from_u64(seed);
        let Some((rings, polygon)) = polygon(rng) else { continue };
        for _ in 0..10 {
            let size = [0.0, 0.05, 0.5, 3.0][rng.random_range(0..4)];
            let mut low = [0, 1].map(|_| rng.random_range(-3.5..3.5));
            if rng.random_bool(0.3) {
                low = low.map(|one: f64| (one * 4.0).round() / 4.0);
            }
            let mut high = low.map(|one| one + size * rng.random_range(0.0..1.0));
            if rng.random_bool(0.1) {
                let d = rng.random_range(0..2);
                (low[d], high[d]) = (f64::NEG_INFINITY, f64::INFINITY);
            }
            let containment = polygon.containment(low, high);
            places[containment as usize] += 1;
            let finite = |d: usize| (low[d].max(-4.0), high[d].min(4.0));
            for part in 0..25 {
                let at = |d: usize, part: u32| finite(d).0 + (finite(d).1 - finite(d).0) * f64::from(part) / 4.0;
                let point = [at(0, part % 5).min(high[0]), at(1, part / 5).min(high[1])];
                match containment {
                    Containment::Inside => assert!(polygon.has(point), "seed {seed}: {low:?} {high:?} {rings:?}"),
                    Containment::Outside => assert!(!polygon.has(point), "seed {seed}: {low:?} {high:?} {rings:?}"),
                    Containment::Undecided => {}
                }
            }
        }
    }
    assert!(places.iter().all(|count| *count > 1_000), "{places:?}");
}

#[test]
fn edges_and_touching_boxes_are_decided_exactly() {
    let square = Polygon::parse("0 0, 1 0, 1 1, 0 1, 0 0; 0.25 0.25, 0.75 0.25, 0.75 0.75, 0.25 0.75").unwrap();
    for point in [[0.0, 0.0], [1.0, 0.5], [0.5, 1.0], [0.25, 0.5], [0.75, 0.75], [0.1, 0.5]] {
        assert!(square.has(point), "{point:?}");
    }
    for point in [[0.5, 0.5], [-f64::MIN_POSITIVE, 0.5], [1.0f64.next_up(), 0.5], [f64::NAN, 0.5], [0.5, f64::INFINITY]]
    {
        assert!(!square.has(point), "{point:?}");
    }
    let containment = |low, high| square.containment(low, high);
    assert_eq!(containment([1.0, 0.0], [2.0, 1.0]), Containment::Undecided);
    assert_eq!(containment([1.0f64.next_up(), 0.0], [2.0, 1.0]), Containment::Outside);
    assert_eq!(containment([0.3, 0.3], [0.7, 0.7]), Containment::Outside);
    assert_eq!(containment([0.05, 0.05], [0.2, 0.95]), Containment::Inside);
    assert_eq!(containment([-1.0, -1.0], [2.0, 2.0]), Containment::Undecided);
    assert_eq!(containment([f64::NEG_INFINITY, 2.0], [f64::INFINITY, 3.0]), Containment::Outside);
}

#[test]
fn mistakes_are_refused_by_name() {
    for (text, mistake) in [
        ("", "is no point"),
        ("0 0, 1 0", "2 different corners"),
        ("0 0, 1 0, 0 0", "2 different corners"),
        ("0 0, 1 1, 2 2", "touches itself"),
        ("0 0, 1 1, 1 0, 0 1", "crosses or touches itself"),
        ("0 0, 2 0, 2 2, 1 0, 0 2", "crosses or touches itself"),
        ("0 0, 1 0, nan 1", "is no point"),
        ("0 0, 1 0, 1e300 1", "too far"),
        ("0 0, 1 0 5, 1 1", "is no point"),
        ("0 0, 4 0, 4 4, 0 4; 1 1, 5 1, 2 2", "crosses"),
        ("0 0, 1 0, 1 1; 5 5, 6 5, 6 6", "hole 1 of the polygon is outside"),
    ] {
        let error = Polygon::parse(text).unwrap_err();
        assert!(error.contains(mistake), "{text}: {error}");
    }
}
