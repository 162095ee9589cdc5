//! Moments of two variables, for covariance and correlation.

use crate::aggregate::Shift;
use crate::totals::Complete;

/// The features n, xy, y and x, each value reduced by its shift.
pub fn features(values: &Complete, shifts: &[Shift]) -> Vec<Vec<f64>> {
    let (a, b) = (shifts[0], shifts[1]);
    let products = values.of_both(|x, y| a.of(x) * b.of(y));
    vec![values.present(), products, values.of_both(|_, y| b.of(y)), values.of(|x| a.of(x))]
}

pub struct Joint {
    pub n: f64,
    pub x: f64,
    pub y: f64,
    pub covariance: f64,
}

impl Joint {
    pub const WIDTH: usize = 4;

    /// Uses totals that begin with the totals of [`features`]; `None` without records.
    pub fn of(totals: &[f64]) -> Option<Joint> {
        let n = totals[0];
        let (products, y, x) = (totals[1] / n, totals[2] / n, totals[3] / n);
        (n > 0.0).then_some(Joint { n, x, y, covariance: products - x * y })
    }

    /// Derivatives of the covariance with respect to each total.
    pub fn gradient(&self) -> [f64; Joint::WIDTH] {
        let Joint { n, x, y, covariance } = *self;
        [(x * y - covariance) / n, 1.0 / n, -x / n, -y / n]
    }
}
