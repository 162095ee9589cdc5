//! What was expected of drawn records, beside what is expected of all.

/// Sums that are this much smaller than what they are made of are as good as 0.
const ROUNDED: f64 = 1e-9;

/// What is expected of the drawn records of one group, in the features of one aggregate.
#[derive(Clone, Copy, Debug)]
pub struct Control<'a> {
    /// By random group: `width` numbers, of which these begin at `first`.
    pub cells: &'a [f64],
    pub width: usize,
    pub first: usize,
    pub centers: &'a [f64],
    pub loose: f64,
    pub loose_features: &'a [f64],
    pub loose_pairs: &'a [f64],
    /// By random group: the records that lie in parcels, and how many there are in all.
    pub inside: &'a [f64],
    pub rows: f64,
}

#[cfg(test)]
impl<'a> Control<'a> {
    /// Of two features, of which nothing is loose but the number of records.
    pub fn of_test(cells: &'a [f64], centers: &'a [f64], inside: &'a [f64], rows: f64) -> Control<'a> {
        let (loose_features, loose_pairs) = (&[0.0, 3.0], &[0.0, 0.0, 0.0, 50.0]);
        Control { cells, width: 2, first: 0, centers, loose: 1000.0, loose_features, loose_pairs, inside, rows }
    }
}

impl Control<'_> {
    /// By random group: what is expected of the drawn records in a feature, less what is expected of all on average; in all
    /// records that is 0.
    pub fn expected(&self, feature: usize) -> Vec<f64> {
        let Some(center) = self.centers.get(feature) else { return vec![0.0; self.inside.len()] };
        let cells = self.cells.chunks_exact(self.width).zip(self.inside);
        let expected = cells.map(|(cell, inside)| {
            let (sum, mean) = (cell[self.first + feature], center * inside);
            // What all records are expected to have alike says nothing, and rounds.
            if (sum - mean).abs() > ROUNDED * (sum.abs() + mean.abs()) { sum - mean } else { 0.0 }
        });
        expected.collect()
    }

    /// By random group of a sample of share `p`: how many of the drawn records lie in parcels, less how many there should.
    pub fn rows(&self, p: f64) -> Vec<f64> {
        let each = p * self.rows / self.inside.len() as f64;
        self.inside.iter().map(|inside| inside - each).collect()
    }

    /// How what is known of all records varies together in two features, of which what is expected counts so many times,
    /// and the number of records so many times.
    pub fn variance(&self, (one, [a, b]): (usize, [f64; 2]), (other, [c, d]): (usize, [f64; 2])) -> f64 {
        let features = self.centers.len();
        let together = if one.max(other) < features { self.loose_pairs[one * features + other] } else { 0.0 };
        a * c * together + a * d * self.with_rows(one) + b * (c * self.with_rows(other) + d * self.loose)
    }

    /// How it varies together with the number of records in parcels.
    pub fn covariance(&self, (one, [a, b]): (usize, [f64; 2])) -> f64 {
        a * self.with_rows(one) + b * self.loose
    }

    fn with_rows(&self, feature: usize) -> f64 {
        self.loose_features.get(feature).copied().unwrap_or(0.0)
    }
}
