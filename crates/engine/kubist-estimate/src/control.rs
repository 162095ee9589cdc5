//! The control variate of a group and aggregate: predicted totals of the sample, compared with those of all
//! records.

/// A difference below this fraction of its operands is a rounding error.
const ROUNDED: f64 = 1e-9;

#[derive(Clone, Copy, Debug)]
pub struct Control<'a> {
    /// By random group, `width` numbers each; this aggregate's features begin at `first`.
    pub cells: &'a [f64],
    pub width: usize,
    pub first: usize,
    pub centers: &'a [f64],
    pub size_variance: f64,
    pub size_covariances: &'a [f64],
    pub total_covariances: &'a [f64],
    /// By random group: sampled records in subregions. `rows` is the number of all records in subregions.
    pub inside: &'a [f64],
    pub rows: f64,
}

#[cfg(test)]
impl<'a> Control<'a> {
    pub fn of_test(cells: &'a [f64], centers: &'a [f64], inside: &'a [f64], rows: f64) -> Control<'a> {
        let (size_covariances, total_covariances) = (&[0.0, 3.0], &[0.0, 0.0, 0.0, 50.0]);
        Control {
            cells,
            width: 2,
            first: 0,
            centers,
            size_variance: 1000.0,
            size_covariances,
            total_covariances,
            inside,
            rows,
        }
    }
}

impl Control<'_> {
    /// By random group: the predicted sum of a feature over the sampled records, minus the population mean
    /// for each. Its expectation is 0.
    pub fn expected(&self, feature: usize) -> Vec<f64> {
        let Some(center) = self.centers.get(feature) else { return vec![0.0; self.inside.len()] };
        let cells = self.cells.chunks_exact(self.width).zip(self.inside);
        let expected = cells.map(|(cell, inside)| {
            let (sum, mean) = (cell[self.first + feature], center * inside);
            // A constant prediction has no information, so only rounding error would remain.
            if (sum - mean).abs() > ROUNDED * (sum.abs() + mean.abs()) { sum - mean } else { 0.0 }
        });
        expected.collect()
    }

    /// By random group: the number of sampled records in subregions minus its expectation.
    pub fn rows(&self, p: f64) -> Vec<f64> {
        let each = p * self.rows / self.inside.len() as f64;
        self.inside.iter().map(|inside| inside - each).collect()
    }

    /// The covariance of the known totals of two features, each with two coefficients: one for the
    /// prediction, one for the number of records.
    pub fn variance(&self, (one, [a, b]): (usize, [f64; 2]), (other, [c, d]): (usize, [f64; 2])) -> f64 {
        let features = self.centers.len();
        let of_totals = if one.max(other) < features { self.total_covariances[one * features + other] } else { 0.0 };
        a * c * of_totals
            + a * d * self.covariance_with_size(one)
            + b * (c * self.covariance_with_size(other) + d * self.size_variance)
    }

    /// The covariance of a feature with the number of records in subregions.
    pub fn covariance(&self, (one, [a, b]): (usize, [f64; 2])) -> f64 {
        a * self.covariance_with_size(one) + b * self.size_variance
    }

    fn covariance_with_size(&self, feature: usize) -> f64 {
        self.size_covariances.get(feature).copied().unwrap_or(0.0)
    }
}
