//! The joint moments of two numbers: what covariance and correlation have in common.

use crate::aggregate::Shift;
use crate::totals::Complete;

/// The features of two numbers, less a shift each.
pub fn features(values: &Complete, shifts: &[Shift]) -> Vec<Vec<f64>> {
    let (a, b) = (shifts[0], shifts[1]);
    let products = values.of_both(|x, y| a.of(x) * b.of(y));
    vec![values.present(), products, values.of_both(|_, y| b.of(y)), values.of(|x| a.of(x))]
}

/// What the totals of [`features`] amount to.
pub struct Joint {
    /// How many records there are.
    pub n: f64,
    /// The means of the numbers, less their shifts.
    pub x: f64,
    pub y: f64,
    /// Divided by n.
    pub covariance: f64,
}

impl Joint {
    /// How many features there are.
    pub const WIDTH: usize = 4;

    /// From totals that begin with those of [`features`]; `None` without records.
    pub fn of(totals: &[f64]) -> Option<Joint> {
        let n = totals[0];
        let (products, y, x) = (totals[1] / n, totals[2] / n, totals[3] / n);
        (n > 0.0).then_some(Joint { n, x, y, covariance: products - x * y })
    }

    /// How the covariance changes with each of the totals.
    pub fn gradient(&self) -> [f64; Joint::WIDTH] {
        let Joint { n, x, y, covariance } = *self;
        [(x * y - covariance) / n, 1.0 / n, -x / n, -y / n]
    }
}
