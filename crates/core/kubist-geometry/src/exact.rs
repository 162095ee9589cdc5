//! Exact tests in the plane: on which side of a line a point is, and whether two segments meet. Rounding errors never
//! change a result, so all tests of a polygon agree with each other. The method is from Shewchuk, "Adaptive Precision
//! Floating-Point Arithmetic and Fast Robust Geometric Predicates", 1997.

use crate::Point;
use std::cmp::Ordering;

/// Bound of the rounding error of the determinant in [`turn`], relative to the sum of its two products:
/// (3 + 16ε)ε with ε = 2^-53.
const QUICK: f64 = 3.330_669_073_875_471_6e-16;

/// Returns the side of the line from `a` to `b` where `c` is: `Greater` for left, `Less` for right, `Equal` for on the
/// line. The product of any two coordinates must be finite. The calculation is exact only if rounding could change the
/// sign.
pub(crate) fn turn(a: Point, b: Point, c: Point) -> Ordering {
    let (left, right) = ((a[0] - c[0]) * (b[1] - c[1]), (a[1] - c[1]) * (b[0] - c[0]));
    let found = left - right;
    if found.abs() > QUICK * (left.abs() + right.abs()) { found.total_cmp(&0.0) } else { exactly(a, b, c) }
}

/// Returns the exact result of [`turn`]: multiplies the determinant out into six products, and adds them without
/// rounding.
fn exactly(a: Point, b: Point, c: Point) -> Ordering {
    let products = [(a[0], b[1]), (-a[0], c[1]), (-c[0], b[1]), (-a[1], b[0]), (a[1], c[0]), (c[1], b[0])];
    // The sum is stored as numbers of increasing size whose bits do not overlap, so the largest nonzero one has the
    // sign of the sum.
    let (mut sum, mut count) = ([0.0; 12], 0);
    for (one, other) in products {
        let product = one * other;
        for mut carried in [one.mul_add(other, -product), product] {
            for component in &mut sum[..count] {
                let total = carried + *component;
                let of_component = total - carried;
                *component = (carried - (total - of_component)) + (*component - of_component);
                carried = total;
            }
            sum[count] = carried;
            count += 1;
        }
    }
    let largest = sum.iter().rev().find(|component| **component != 0.0);
    largest.map_or(Ordering::Equal, |largest| largest.total_cmp(&0.0))
}

/// Whether the closed segments `ab` and `cd` have a common point.
pub(crate) fn meet(a: Point, b: Point, c: Point, d: Point) -> bool {
    let (of_c, of_d, of_a, of_b) = (turn(a, b, c), turn(a, b, d), turn(c, d, a), turn(c, d, b));
    let is_across = |one: Ordering, other: Ordering| one != other && one.is_ne() && other.is_ne();
    (is_across(of_c, of_d) && is_across(of_a, of_b))
        || (of_c.is_eq() && is_between(a, b, c))
        || (of_d.is_eq() && is_between(a, b, d))
        || (of_a.is_eq() && is_between(c, d, a))
        || (of_b.is_eq() && is_between(c, d, b))
}

/// Whether the segments cross at one point that is an end of neither; segments on the same line do not cross.
pub(crate) fn cross(a: Point, b: Point, c: Point, d: Point) -> bool {
    let is_across = |one: Ordering, other: Ordering| one != other && one.is_ne() && other.is_ne();
    is_across(turn(a, b, c), turn(a, b, d)) && is_across(turn(c, d, a), turn(c, d, b))
}

/// Whether a point is in the smallest box around `a` and `b`. A point on their line is then between them.
pub(crate) fn is_between(a: Point, b: Point, point: Point) -> bool {
    (0..2).all(|d| a[d].min(b[d]) <= point[d] && point[d] <= a[d].max(b[d]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_on_and_beside_a_line_are_told_apart() {
        // Rounding alone would decide these points near the line y = x.
        let (a, b) = ([12.0, 12.0], [24.0, 24.0]);
        for step in 0..256 {
            let place = 0.5 + f64::from(step) * f64::EPSILON / 2.0;
            assert_eq!(turn(a, b, [place, place]), Ordering::Equal);
            assert_eq!(turn(a, b, [place, place.next_up()]), Ordering::Greater);
            assert_eq!(turn(a, b, [place.next_up(), place]), Ordering::Less);
        }
        assert_eq!(turn([0.0, 0.0], [1e22, 1e22], [1.0, 1.0]), Ordering::Equal);
        assert_eq!(turn([-0.1, -0.3], [0.2, 0.6], [0.1, 0.3]), turn([0.2, 0.6], [0.1, 0.3], [-0.1, -0.3]));
    }

    #[test]
    fn segments_meet_at_ends_and_inside() {
        let of = |d: [f64; 8]| ([d[0], d[1]], [d[2], d[3]], [d[4], d[5]], [d[6], d[7]]);
        let check = |given, meets, crosses| {
            let (a, b, c, d) = of(given);
            assert_eq!((meet(a, b, c, d), cross(a, b, c, d)), (meets, crosses), "{given:?}");
        };
        check([0., 0., 2., 2., 0., 2., 2., 0.], true, true);
        check([0., 0., 2., 2., 1., 1., 3., 0.], true, false);
        check([0., 0., 2., 2., 1., 1., 3., 3.], true, false);
        check([0., 0., 2., 2., 3., 3., 4., 4.], false, false);
        check([0., 0., 2., 2., 0., 1., 1., 2.], false, false);
    }
}
