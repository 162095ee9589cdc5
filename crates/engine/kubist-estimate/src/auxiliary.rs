//! Auxiliary variables: predictions of each record's features from its position.
//!
//! For regions of space ([`Subregions`]), the manifest has the number of records and the bounds of each
//! column. A few representative records between these bounds predict the features of all records in the
//! region. The total of predictions is known for all records and for the sample, and the difference
//! corrects the estimate (regression estimator: Särndal, Swensson and Wretman, Model Assisted
//! Survey Sampling, 1992, chapter 6; in Monte Carlo methods a control variate). If predictions are wrong,
//! the residuals widen the measured interval.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::ArrayRef;
use kubist_population::{REPRESENTATIVES, SubregionLocator, Subregions};

use crate::control::Control;

const MOST_CELLS: usize = 1 << 18;

const EACH: f64 = 1.0 / REPRESENTATIVES as f64;

pub struct Auxiliary {
    locator: Arc<dyn SubregionLocator>,
    firsts: Vec<u32>,
    groups: Vec<u32>,
    /// Features of all aggregates by entry.
    features: Vec<f64>,
    width: usize,
    of: Vec<Range<usize>>,
    index: HashMap<u64, u32>,
    /// By group: mean per feature over all records in subregions.
    centers: Vec<f64>,
    rows: f64,
    /// Variance of `rows`, an approximate number from the manifest.
    size_variance: f64,
    /// By group: covariance of `rows` with each feature's total about the mean. By group and aggregate:
    /// covariances of these totals.
    size_covariances: Vec<f64>,
    total_covariances: Vec<Vec<Vec<f64>>>,
    random_groups: usize,
}

/// The representative records that meet the condition, at most [`REPRESENTATIVES`] in each subregion.
pub struct Representatives<'a> {
    /// Their numbers, ascending; subregion i has [`REPRESENTATIVES`] numbers from i * REPRESENTATIVES.
    pub numbers: &'a [u64],
    pub features: Vec<Vec<Vec<f64>>>,
    pub keys: Vec<u64>,
}

pub struct Expected {
    pub of: Arc<Auxiliary>,
    /// By group, random group and feature; empty until the group has a prediction.
    cells: Vec<Vec<f64>>,
    /// By random group: number of sampled records in subregions.
    inside: Vec<f64>,
}

impl Auxiliary {
    /// `cluster_size` is the mean number of records that share a priority. Returns `None` if there are too many
    /// cells, or if a feature is not finite.
    pub fn new(
        subregions: Subregions,
        representatives: &Representatives,
        random_groups: usize,
        cluster_size: f64,
    ) -> Option<Auxiliary> {
        let mut of: Vec<Range<usize>> = Vec::new();
        for features in &representatives.features {
            let first = of.last().map_or(0, |last| last.end);
            of.push(first..first + features.len());
        }
        let width = of.last().map_or(0, |last| last.end);
        let columns: Vec<&Vec<f64>> = representatives.features.iter().flatten().collect();
        let mut found = Auxiliary {
            locator: subregions.locator,
            firsts: vec![0],
            groups: Vec::new(),
            features: Vec::new(),
            width,
            of,
            index: HashMap::new(),
            centers: Vec::new(),
            rows: subregions.rows.iter().sum(),
            size_variance: 0.0,
            size_covariances: Vec::new(),
            total_covariances: Vec::new(),
            random_groups,
        };
        let (mut row, mut last) = (0, None);
        for subregion in 0..subregions.rows.len() {
            let first = found.groups.len();
            while representatives
                .numbers
                .get(row)
                .is_some_and(|number| *number < ((subregion + 1) * REPRESENTATIVES) as u64)
            {
                let key = representatives.keys[row];
                let group = match last.filter(|(known, _)| *known == key) {
                    Some((_, group)) => group,
                    None => {
                        let groups = found.index.len() as u32;
                        *found.index.entry(key).or_insert(groups)
                    }
                };
                last = Some((key, group));
                let entry = match found.groups[first..].iter().position(|known| *known == group) {
                    Some(entry) => first + entry,
                    None => {
                        found.groups.push(group);
                        found.features.resize(found.features.len() + width, 0.0);
                        found.groups.len() - 1
                    }
                };
                let sums = &mut found.features[entry * width..(entry + 1) * width];
                sums.iter_mut().zip(&columns).for_each(|(sum, column)| *sum += column[row] * EACH);
                row += 1;
            }
            found.firsts.push(found.groups.len() as u32);
            if found.index.len() * width * random_groups > MOST_CELLS {
                return None;
            }
        }
        if width == 0 || !found.features.iter().all(|feature| feature.is_finite()) {
            return None;
        }
        found.center(&subregions.rows, &subregions.variances, cluster_size);
        Some(found)
    }

    fn center(&mut self, rows: &[f64], variances: &[f64], cluster_size: f64) {
        let width = self.width;
        let size_variances: Vec<f64> =
            rows.iter().zip(variances).map(|(rows, variance)| rows * variance * cluster_size).collect();
        let size_variance: f64 = size_variances.iter().sum();
        self.centers = vec![0.0; self.index.len() * width];
        let mut sums = self.centers.clone();
        let empty = || self.of.iter().map(|of| vec![0.0; of.len() * of.len()]).collect();
        let mut pairs: Vec<Vec<Vec<f64>>> = (0..self.index.len()).map(|_| empty()).collect();
        for subregion in 0..rows.len() {
            for entry in self.firsts[subregion] as usize..self.firsts[subregion + 1] as usize {
                let (group, features) = (self.groups[entry] as usize, &self.features[entry * width..][..width]);
                for (feature, value) in features.iter().enumerate() {
                    self.centers[group * width + feature] += rows[subregion] * value / self.rows;
                    sums[group * width + feature] += size_variances[subregion] * value;
                }
                for (of, sums) in self.of.iter().zip(&mut pairs[group]) {
                    let features = &features[of.clone()];
                    let products = features.iter().flat_map(|a| features.iter().map(move |b| a * b));
                    sums.iter_mut()
                        .zip(products)
                        .for_each(|(sum, product)| *sum += size_variances[subregion] * product);
                }
            }
        }
        for (group, pairs) in pairs.iter_mut().enumerate() {
            for (of, pairs) in self.of.iter().zip(pairs) {
                let of_group = |numbers: &[f64], feature: usize| numbers[group * width + of.start + feature];
                for (at, sum) in pairs.iter_mut().enumerate() {
                    let (a, b) = (at / of.len(), at % of.len());
                    let (mean_a, mean_b) = (of_group(&self.centers, a), of_group(&self.centers, b));
                    *sum += mean_a * mean_b * size_variance - mean_a * of_group(&sums, b) - mean_b * of_group(&sums, a);
                }
            }
        }
        sums.iter_mut().zip(&self.centers).for_each(|(sum, mean)| *sum -= mean * size_variance);
        (self.size_variance, self.size_covariances, self.total_covariances) = (size_variance, sums, pairs);
    }
}

impl Expected {
    pub fn nothing(of: Arc<Auxiliary>) -> Expected {
        Expected { of, cells: Vec::new(), inside: Vec::new() }
    }

    pub fn add(&mut self, columns: &[ArrayRef], priorities: &[u64]) {
        let of = &*self.of;
        let (width, random_groups) = (of.width, of.random_groups);
        for (subregion, priority) in of.locator.of(columns).into_iter().zip(priorities) {
            let Some(subregion) = subregion else { continue };
            if self.inside.is_empty() {
                self.inside = vec![0.0; random_groups];
                self.cells = vec![Vec::new(); of.index.len()];
            }
            let random_group = (priority & (random_groups as u64 - 1)) as usize;
            self.inside[random_group] += 1.0;
            for entry in of.firsts[subregion as usize] as usize..of.firsts[subregion as usize + 1] as usize {
                let cells = &mut self.cells[of.groups[entry] as usize];
                if cells.is_empty() {
                    *cells = vec![0.0; random_groups * width];
                }
                let features = &of.features[entry * width..(entry + 1) * width];
                let cells = &mut cells[random_group * width..(random_group + 1) * width];
                cells.iter_mut().zip(features).for_each(|(sum, feature)| *sum += feature);
            }
        }
    }

    pub fn merge(&mut self, other: Expected) {
        if self.inside.is_empty() {
            (self.cells, self.inside) = (other.cells, other.inside);
            return;
        }
        for (mine, theirs) in self.cells.iter_mut().zip(other.cells) {
            match mine.is_empty() {
                true => *mine = theirs,
                false => mine.iter_mut().zip(&theirs).for_each(|(sum, more)| *sum += more),
            }
        }
        self.inside.iter_mut().zip(&other.inside).for_each(|(sum, more)| *sum += more);
    }

    pub fn of_rows(&self) -> Option<Control<'_>> {
        (!self.inside.is_empty()).then_some(Control {
            cells: &[],
            width: 1,
            first: 0,
            centers: &[],
            size_variance: self.of.size_variance,
            size_covariances: &[],
            total_covariances: &[],
            inside: &self.inside,
            rows: self.of.rows,
        })
    }

    pub fn control(&self, key: u64, aggregate: usize) -> Option<Control<'_>> {
        let of = &*self.of;
        let (group, features) = (*of.index.get(&key)? as usize, &of.of[aggregate]);
        let cells = self.cells.get(group).filter(|cells| !cells.is_empty() && !features.is_empty())?;
        Some(Control {
            cells,
            width: of.width,
            first: features.start,
            centers: &of.centers[group * of.width..][features.clone()],
            size_variance: of.size_variance,
            size_covariances: &of.size_covariances[group * of.width..][features.clone()],
            total_covariances: &of.total_covariances[group][aggregate],
            inside: &self.inside,
            rows: of.rows,
        })
    }
}
