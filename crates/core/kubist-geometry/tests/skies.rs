//! Shapes on the sky against vectors, with poles, seams, tangents and whole turns.

use kubist_geometry::{Containment, Moc, Point, SkyPolygon, healpix, sky};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const CASES: u64 = 5_000;

type Vector = [f64; 3];

fn vector([longitude, latitude]: Point) -> Vector {
    let (longitude, latitude) = (longitude.to_radians(), latitude.to_radians());
    [latitude.cos() * longitude.cos(), latitude.cos() * longitude.sin(), latitude.sin()]
}

fn dot(a: Vector, b: Vector) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn product(a: Vector, b: Vector) -> Vector {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

fn position(rng: &mut SmallRng) -> Point {
    let special = |rng: &mut SmallRng, values: &[f64], width: f64| {
        values[rng.random_range(0..values.len())] + [0.0, width * rng.random_range(-1.0..1.0)][rng.random_range(0..2)]
    };
    match rng.random_range(0..3) {
        0 => [special(rng, &[0.0, 360.0, 180.0, -180.0], 2.0), special(rng, &[-60.0, 0.0, 41.8, 60.0], 1.0)],
        1 => [rng.random_range(-180.0..360.0), special(rng, &[-89.9, 89.9], 0.1).clamp(-90.0, 90.0)],
        _ => [rng.random_range(0.0..360.0), rng.random_range(-1.0..1.0f64).asin().to_degrees()],
    }
}

fn a_box(rng: &mut SmallRng) -> (Point, Point) {
    let low = position(rng);
    let size = [0.0, 0.1, 3.0, 40.0][rng.random_range(0..4)];
    let high = [low[0] + size * rng.random_range(0.0..3.0), (low[1] + size * rng.random_range(0.0..1.0)).min(90.0)];
    match rng.random_range(0..12) {
        0 => ([f64::NEG_INFINITY, low[1]], [f64::INFINITY, high[1]]),
        1 => ([low[0], f64::NEG_INFINITY], [high[0], f64::INFINITY]),
        _ => (low, high),
    }
}

fn inside(low: Point, high: Point) -> impl Iterator<Item = Point> {
    let longitudes = (low[0].max(-360.0), high[0].min(720.0));
    let latitudes = (low[1].max(-90.0), high[1].min(90.0));
    let at = |(low, high): (f64, f64), part: u32| (low + (high - low) * f64::from(part) / 5.0).min(high);
    (0..36).map(move |part| [at(longitudes, part % 6), at(latitudes, part / 6)])
}

#[test]
fn separations_have_all_digits_at_every_distance() {
    for seed in 0..CASES {
        let rng = &mut SmallRng::seed_from_u64(seed);
        let one = position(rng);
        let mut other = position(rng);
        match rng.random_range(0..3) {
            0 => {
                other = [
                    one[0] + rng.random_range(-1e-9..1e-9),
                    (one[1] + rng.random_range(-1e-9..1e-9)).clamp(-90.0, 90.0),
                ]
            }
            1 => {
                other = [
                    one[0] + 180.0 + rng.random_range(-1e-9..1e-9),
                    (-one[1] + rng.random_range(-1e-9..1e-9)).clamp(-90.0, 90.0),
                ]
            }
            _ => {}
        }
        let (a, b) = (vector(one), vector(other));
        let across = product(a, b);
        let expected = dot(across, across).sqrt().atan2(dot(a, b)).to_degrees();
        let found = sky::separation(one, other);
        // Vectors lose digits below about 1e-14 degrees.
        assert!((found - expected).abs() < 2e-13, "seed {seed}: {one:?} {other:?} {found} {expected}");
        assert_eq!(found, sky::separation(other, one), "seed {seed}");
        assert_eq!(sky::separation(one, one), 0.0);
    }
    let tiny = sky::separation([10.0, 0.0], [10.0 + 1e-12, 0.0]);
    assert!((tiny / 1e-12 - 1.0).abs() < 2e-3, "{tiny:e}");
    assert!((sky::separation([359.0, 0.0], [1.0, 0.0]) - 2.0).abs() < 1e-14);
    assert_eq!(sky::separation([77.0, 90.0], [3.0, -90.0]), 180.0);
    assert!(sky::separation([0.0, 91.0], [0.0, 0.0]).is_nan());
}

#[test]
fn bounds_of_separations_hold_and_are_narrow() {
    let mut excess = 0.0;
    for seed in 0..CASES {
        let rng = &mut SmallRng::seed_from_u64(seed);
        let ((low, high), from) = (a_box(rng), position(rng));
        let (nearest, farthest) = sky::separations(low, high, from);
        let mut found = [180.0f64, 0.0];
        for point in inside(low, high) {
            let apart = sky::separation(point, from);
            found = [found[0].min(apart), found[1].max(apart)];
            assert!(nearest <= apart && apart <= farthest, "seed {seed}: {low:?} {high:?} {from:?} {point:?}");
        }
        if high[0] - low[0] < 0.5 && high[1] - low[1] < 0.5 {
            excess = f64::max(excess, (found[0] - nearest).max(farthest - found[1]));
        }
    }
    assert!(excess < 0.1, "{excess}");
}

#[test]
fn distances_in_periodic_space_are_bounded() {
    for seed in 0..CASES {
        let rng = &mut SmallRng::seed_from_u64(seed);
        let period = rng.random_range(0.1..30.0);
        let low =
            [rng.random_range(-80.0..80.0), period * f64::from(rng.random_range(-4..4)) / 2.0][rng.random_range(0..2)];
        let high = low + period * rng.random_range(0.0..1.3);
        let (least, most) = sky::distances(low, high, period);
        for part in 0..=20 {
            let number = (low + (high - low) * f64::from(part) / 20.0).min(high);
            let found = sky::distance(number, period);
            let expected = (number - period * (number / period).round()).abs();
            assert!((found - expected).abs() < 1e-12, "{number} {period}");
            assert!(least <= found && found <= most, "seed {seed}: {low} {high} {period} {number}");
        }
    }
}

#[test]
fn cells_have_their_centres_and_nest() {
    for seed in 0..CASES {
        let rng = &mut SmallRng::seed_from_u64(seed);
        let (order, at) = (rng.random_range(0..=healpix::DEEPEST), position(rng));
        let cell = healpix::cell(order, at);
        assert!(cell < 12 << (2 * order));
        let deepest = healpix::cell(healpix::DEEPEST, at);
        assert_eq!(deepest >> (2 * (healpix::DEEPEST - order)), cell, "seed {seed}: {at:?}");
        let centre = healpix::centre(order, cell);
        let apart = sky::separation(at, centre);
        assert!(apart <= healpix::radius(order), "seed {seed}: {at:?} {apart} {}", healpix::radius(order));
        if order < 24 {
            let random = rng.random_range(0..12u64 << (2 * order));
            assert_eq!(healpix::cell(order, healpix::centre(order, random)), random, "order {order}");
        }
    }
}

#[test]
fn cells_have_equal_areas() {
    let rng = &mut SmallRng::seed_from_u64(7);
    let mut counts = [0u32; 192];
    for _ in 0..192_000 {
        let at = [rng.random_range(0.0..360.0), rng.random_range(-1.0..1.0f64).asin().to_degrees()];
        counts[healpix::cell(2, at) as usize] += 1;
    }
    assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
}

#[test]
fn bounds_of_cells_hold() {
    let mut exact = 0;
    for seed in 0..CASES {
        let rng = &mut SmallRng::seed_from_u64(seed);
        let ((low, high), order) = (a_box(rng), rng.random_range(0..12));
        let (first, last) = healpix::cells(order, low, high);
        let cells = inside(low, high).map(|at| healpix::cell(order, at));
        let (least, most) = cells.fold((u64::MAX, 0), |(least, most), cell| (least.min(cell), most.max(cell)));
        assert!(first <= least && most <= last, "seed {seed}: {low:?} {high:?} {order}");
        exact += u64::from(first == least && last == most);
    }
    // A box near the side of a cell may count as meeting its neighbour.
    assert!(exact > CASES / 20, "{exact}");
}

#[test]
fn cells_of_several_orders_are_those_written() {
    let mut places = [0; 3];
    for seed in 0..CASES {
        let rng = &mut SmallRng::seed_from_u64(seed);
        let mut cells: Vec<(u32, u64, u64)> = Vec::new();
        for _ in 0..rng.random_range(1..6) {
            let order = rng.random_range(0..8);
            let first = rng.random_range(0..12u64 << (2 * order));
            let last = (first + rng.random_range(0..5)).min((12 << (2 * order)) - 1);
            cells.push((order, first, last));
        }
        let text =
            cells.iter().map(|(order, first, last)| format!("{order}/{first}-{last}")).collect::<Vec<_>>().join(" ");
        let moc = Moc::parse(&text).unwrap();
        let expected =
            |at| cells.iter().any(|(order, first, last)| (*first..=*last).contains(&healpix::cell(*order, at)));
        let (low, high) = a_box(rng);
        let containment = moc.containment(low, high);
        places[containment as usize] += 1;
        for at in inside(low, high) {
            assert_eq!(moc.has(at), expected(at), "seed {seed}: {text} {at:?}");
            match containment {
                Containment::Inside => assert!(expected(at), "seed {seed}: {text} {low:?} {high:?}"),
                Containment::Outside => assert!(!expected(at), "seed {seed}: {text} {low:?} {high:?}"),
                Containment::Undecided => {}
            }
        }
    }
    assert!(places.iter().all(|count| *count > 100), "{places:?}");
    for text in ["", "5/", "3", "30/1", "1/48", "1/3-2", "a/1", "1/x", "0/-1"] {
        assert!(Moc::parse(text).is_err(), "{text}");
    }
    assert!(Moc::parse("5/8-10,42-46,48 6/4500 29/").is_ok());
}

#[test]
fn polygons_on_the_sky_are_left_of_their_edges() {
    let (mut places, mut has) = ([0; 3], 0);
    for seed in 0..CASES {
        let rng = &mut SmallRng::seed_from_u64(seed);
        let centre = position(rng);
        let size = [0.01, 1.0, 20.0, 60.0][rng.random_range(0..4)];
        let corners: Vec<Point> = (0..3)
            .map(|corner| {
                around(
                    centre,
                    size * rng.random_range(0.5..1.0),
                    f64::from(corner) * 120.0 + rng.random_range(0.0..80.0),
                )
            })
            .collect();
        let Ok(polygon) = SkyPolygon::new(&[corners.clone()]) else { continue };
        let [a, b, c] = [0, 1, 2].map(|corner: usize| vector(corners[corner]));
        let sides = |at: Point| [product(a, b), product(b, c), product(c, a)].map(|side| dot(side, vector(at)));
        let expected = |at: Point| {
            let sides = sides(at);
            let is_near = sides.iter().any(|side| side.abs() < 1e-13);
            (!is_near).then(|| sides.iter().all(|side| *side > 0.0))
        };
        let check = |at: Point| {
            if let Some(expected) = expected(at) {
                assert_eq!(polygon.has(at), expected, "seed {seed}: {corners:?} {at:?}");
            }
        };
        for _ in 0..10 {
            let at = around(centre, size * rng.random_range(0.0..1.2), rng.random_range(0.0..360.0));
            check(at);
            has += u32::from(polygon.has(at));
            check(position(rng));
        }
        let (mut low, mut high) = a_box(rng);
        if rng.random_bool(0.5) {
            low = around(centre, size * rng.random_range(0.0..1.0), rng.random_range(0.0..360.0));
            high = low.map(|one| one + size * rng.random_range(0.0..0.2));
        }
        let containment = polygon.containment(low, high);
        places[containment as usize] += 1;
        for at in inside(low, high) {
            match containment {
                Containment::Inside => assert!(polygon.has(at), "seed {seed}: {corners:?} {low:?} {high:?} {at:?}"),
                Containment::Outside => assert!(!polygon.has(at), "seed {seed}: {corners:?} {low:?} {high:?} {at:?}"),
                Containment::Undecided => {}
            }
        }
    }
    assert!(has > 10_000 && places.iter().all(|count| *count > 100), "{has} {places:?}");
}

fn around([longitude, latitude]: Point, distance: f64, bearing: f64) -> Point {
    let (d, b, up) = (distance.to_radians(), bearing.to_radians(), latitude.to_radians());
    let sine = up.sin() * d.cos() + up.cos() * d.sin() * b.cos();
    let east = -b.sin() * d.sin() * up.cos();
    [longitude + east.atan2(d.cos() - up.sin() * sine).to_degrees(), sine.clamp(-1.0, 1.0).asin().to_degrees()]
}

#[test]
fn mistakes_are_refused_by_name() {
    for (text, mistake) in [
        ("0 0, 10 0", "2 different corners"),
        ("0 0, 10 0, 10 95", "latitude"),
        ("0 0, 120 0, 240 0", "reaches"),
        ("0 0, 10 10, 10 0, 0 10", "crosses or touches itself"),
        ("0 0, 10 0, x 10", "is no point"),
    ] {
        let error = SkyPolygon::parse(text).unwrap_err();
        assert!(error.contains(mistake), "{text}: {error}");
    }
    let pole = SkyPolygon::parse("0 80, 90 80, 180 80, 270 80").unwrap();
    assert!(pole.has([12.0, 90.0]) && pole.has([45.0, 84.0]) && !pole.has([45.0, 79.0]));
    let seam = SkyPolygon::parse("355 -5, 5 -5, 5 5, 355 5").unwrap();
    assert!(seam.has([0.0, 0.0]) && seam.has([359.0, 1.0]) && seam.has([-1.0, 1.0]) && !seam.has([180.0, 0.0]));
}
