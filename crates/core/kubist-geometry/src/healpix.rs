//! Cells of equal area on the sky in nested order (Gorski and others, "HEALPix: A Framework for High-Resolution
//! Discretization and Fast Analysis of Data Distributed on the Sphere", 2005).

use crate::Point;
use crate::sky::separations;

/// The deepest order, whose cells have a side of about 0.4 milliarcseconds.
pub const DEEPEST: u32 = 29;
/// Above this sine of the latitude, the distance from the pole is more precise than the sine.
const NEAR_POLE: f64 = 0.99;
const MOST_CELLS: u32 = 64;

const RING_OF_FACE: [f64; 12] = [2.0, 2.0, 2.0, 2.0, 3.0, 3.0, 3.0, 3.0, 4.0, 4.0, 4.0, 4.0];
const TURN_OF_FACE: [f64; 12] = [1.0, 3.0, 5.0, 7.0, 0.0, 2.0, 4.0, 6.0, 1.0, 3.0, 5.0, 7.0];

/// Returns the order for a number of cells along a base cell: a power of two, at most 2^29.
pub fn order_of(side: i128) -> Option<u32> {
    let order = side.checked_ilog2()?;
    (order <= DEEPEST && side == 1 << order).then_some(order)
}

pub fn cell(order: u32, [longitude, latitude]: Point) -> u64 {
    let side = (1u64 << order) as f64;
    let sine = latitude.to_radians().sin();
    let turn = longitude.rem_euclid(360.0) / 90.0;
    let turn = if turn < 4.0 { turn } else { 0.0 };
    let last = (1i64 << order) - 1;
    let (face, x, y) = if sine.abs() <= 2.0 / 3.0 {
        let (along, up) = (side * (0.5 + turn), side * (sine * 0.75));
        let (falling, rising) = ((along - up) as i64, (along + up) as i64);
        let (of_falling, of_rising) = (falling >> order, rising >> order);
        let face = match of_falling.cmp(&of_rising) {
            std::cmp::Ordering::Equal => of_falling | 4,
            std::cmp::Ordering::Less => of_falling,
            std::cmp::Ordering::Greater => of_rising + 8,
        };
        (face, rising & last, last - (falling & last))
    } else {
        let quarter = turn.floor().min(3.0);
        let within = turn - quarter;
        let from_pole = match sine.abs() < NEAR_POLE {
            true => (3.0 * (1.0 - sine.abs())).sqrt(),
            false => (90.0 - latitude.abs()).to_radians().sin() / ((1.0 + sine.abs()) / 3.0).sqrt(),
        };
        let ring = side * from_pole;
        let (falling, rising) = ((within * ring) as i64, ((1.0 - within) * ring) as i64);
        let (falling, rising) = (falling.min(last), rising.min(last));
        match sine >= 0.0 {
            true => (quarter as i64, last - rising, last - falling),
            false => (quarter as i64 + 8, falling, rising),
        }
    };
    ((face as u64) << (2 * order)) | spread(x as u64) | spread(y as u64) << 1
}

/// Spreads the bits of a number; a zero follows each bit.
fn spread(number: u64) -> u64 {
    let steps = [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555),
    ];
    steps.iter().fold(number, |bits, (shift, mask)| (bits | bits << shift) & mask)
}

fn gathered(bits: u64) -> u64 {
    let steps = [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff),
    ];
    steps.iter().fold(bits & 0x5555_5555_5555_5555, |bits, (shift, mask)| (bits | bits >> shift) & mask)
}

pub fn centre(order: u32, cell: u64) -> Point {
    let (face, within) = ((cell >> (2 * order)) as usize, cell & ((1 << (2 * order)) - 1));
    let side = (1u64 << order) as f64;
    let at = |bits| (gathered(bits) as f64 + 0.5) / side;
    let (x, y) = (at(within), at(within >> 1));
    let ring = RING_OF_FACE[face] - x - y;
    let (width, latitude) = if ring < 1.0 {
        (ring, 90.0 - 2.0 * (ring / 6f64.sqrt()).asin().to_degrees())
    } else if ring > 3.0 {
        (4.0 - ring, 2.0 * ((4.0 - ring) / 6f64.sqrt()).asin().to_degrees() - 90.0)
    } else {
        (1.0, ((2.0 - ring) * 2.0 / 3.0).asin().to_degrees())
    };
    let turn = (TURN_OF_FACE[face] * width + x - y).rem_euclid(8.0 * width);
    [turn / width * 45.0, latitude]
}

/// An upper bound of the angle between a cell's centre and its points.
pub fn radius(order: u32) -> f64 {
    // The largest cell meets the edge of a polar cap (`max_pixrad` of the HEALPix library).
    let side = (1u64 << order) as f64;
    let in_cap = 1.0 - 1.0 / side;
    let one = [45.0 / side, (2.0f64 / 3.0).asin().to_degrees()];
    let other = [0.0, (1.0 - in_cap * in_cap / 3.0).asin().to_degrees()];
    crate::sky::separation(one, other) * 1.01
}

pub(crate) fn touches(order: u32, cell: u64, low: Point, high: Point) -> bool {
    separations(low, high, centre(order, cell)).0 <= radius(order)
}

/// Bounds of the cells that the positions in a box have.
pub fn cells(order: u32, low: Point, high: Point) -> (u64, u64) {
    (end(order, low, high, false), end(order, low, high, true))
}

/// Returns a cell at or below all cells of the box or, with `top`, at or above all cells.
fn end(order: u32, low: Point, high: Point, top: bool) -> u64 {
    let whole = |at: u32, cell: u64| {
        let below = 2 * (order - at);
        if top { ((cell + 1) << below) - 1 } else { cell << below }
    };
    let mut left = MOST_CELLS;
    let first = |cells: std::ops::Range<u64>| -> Vec<u64> { if top { cells.collect() } else { cells.rev().collect() } };
    let mut stack: Vec<(u32, u64)> = first(0..12).into_iter().map(|cell| (0, cell)).collect();
    while let Some((at, cell)) = stack.pop() {
        if left == 0 {
            return whole(at, cell);
        }
        left -= 1;
        if !touches(at, cell, low, high) {
            continue;
        }
        if at == order {
            return cell;
        }
        stack.extend(first(4 * cell..4 * cell + 4).into_iter().map(|cell| (at + 1, cell)));
    }
    if top { (12 << (2 * order)) - 1 } else { 0 }
}
