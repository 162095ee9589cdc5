//! Auxiliary variables: predictions of each record's features from its position.
//!
//! For regions of space ([`Parcels`]), the manifest has the number of records and the bounds of each
//! column. A few representative records between these bounds predict the features of all records in the
//! region. The total of predictions is known for all records and for the sample, and the difference
//! corrects the estimate (regression estimator: Särndal, Swensson and Wretman, Model Assisted
//! Survey Sampling, 1992, chapter 6; in Monte Carlo methods a control variate). If predictions are wrong,
//! the residuals widen the measured interval.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::ArrayRef;
use kubist_population::{LIKE, Parcels, Places};

use crate::control::Control;

const MOST_CELLS: usize = 1 << 18;

const EACH: f64 = 1.0 / LIKE as f64;

pub struct Auxiliary {
    places: Arc<dyn Places>,
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
    loose: f64,
    /// By group: covariance of `rows` with each feature's total about the mean. By group and aggregate:
    /// covariances of these totals.
    loose_features: Vec<f64>,
    loose_pairs: Vec<Vec<Vec<f64>>>,
    random_groups: usize,
}

/// The representative records that meet the condition, at most [`LIKE`] in each subregion.
pub struct Like<'a> {
    /// Their numbers, ascending; subregion i has [`LIKE`] numbers from i * LIKE.
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
    /// `together` is the mean number of records that share a priority. Returns `None` if there are too many
    /// cells, or if a feature is not finite.
    pub fn new(parcels: Parcels, like: &Like, random_groups: usize, together: f64) -> Option<Auxiliary> {
        let mut of: Vec<Range<usize>> = Vec::new();
        for made in &like.features {
            let first = of.last().map_or(0, |last| last.end);
            of.push(first..first + made.len());
        }
        let width = of.last().map_or(0, |last| last.end);
        let columns: Vec<&Vec<f64>> = like.features.iter().flatten().collect();
        let mut found = Auxiliary {
            places: parcels.places,
            firsts: vec![0],
            groups: Vec::new(),
            features: Vec::new(),
            width,
            of,
            index: HashMap::new(),
            centers: Vec::new(),
            rows: parcels.rows.iter().sum(),
            loose: 0.0,
            loose_features: Vec::new(),
            loose_pairs: Vec::new(),
            random_groups,
        };
        let (mut row, mut last) = (0, None);
        for parcel in 0..parcels.rows.len() {
            let first = found.groups.len();
            while like.numbers.get(row).is_some_and(|number| *number < ((parcel + 1) * LIKE) as u64) {
                let key = like.keys[row];
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
        found.center(&parcels.rows, &parcels.variances, together);
        Some(found)
    }

    fn center(&mut self, rows: &[f64], variances: &[f64], together: f64) {
        let width = self.width;
        let loose: Vec<f64> = rows.iter().zip(variances).map(|(rows, variance)| rows * variance * together).collect();
        let all_loose: f64 = loose.iter().sum();
        self.centers = vec![0.0; self.index.len() * width];
        let mut sums = self.centers.clone();
        let empty = || self.of.iter().map(|of| vec![0.0; of.len() * of.len()]).collect();
        let mut pairs: Vec<Vec<Vec<f64>>> = (0..self.index.len()).map(|_| empty()).collect();
        for parcel in 0..rows.len() {
            for entry in self.firsts[parcel] as usize..self.firsts[parcel + 1] as usize {
                let (group, features) = (self.groups[entry] as usize, &self.features[entry * width..][..width]);
                for (feature, value) in features.iter().enumerate() {
                    self.centers[group * width + feature] += rows[parcel] * value / self.rows;
                    sums[group * width + feature] += loose[parcel] * value;
                }
                for (of, sums) in self.of.iter().zip(&mut pairs[group]) {
                    let features = &features[of.clone()];
                    let products = features.iter().flat_map(|a| features.iter().map(move |b| a * b));
                    sums.iter_mut().zip(products).for_each(|(sum, product)| *sum += loose[parcel] * product);
                }
            }
        }
        for (group, pairs) in pairs.iter_mut().enumerate() {
            for (of, pairs) in self.of.iter().zip(pairs) {
                let of_group = |numbers: &[f64], feature: usize| numbers[group * width + of.start + feature];
                for (at, sum) in pairs.iter_mut().enumerate() {
                    let (a, b) = (at / of.len(), at % of.len());
                    let (mean_a, mean_b) = (of_group(&self.centers, a), of_group(&self.centers, b));
                    *sum += mean_a * mean_b * all_loose - mean_a * of_group(&sums, b) - mean_b * of_group(&sums, a);
                }
            }
        }
        sums.iter_mut().zip(&self.centers).for_each(|(sum, mean)| *sum -= mean * all_loose);
        (self.loose, self.loose_features, self.loose_pairs) = (all_loose, sums, pairs);
    }
}

impl Expected {
    pub fn nothing(of: Arc<Auxiliary>) -> Expected {
        Expected { of, cells: Vec::new(), inside: Vec::new() }
    }

    pub fn add(&mut self, columns: &[ArrayRef], priorities: &[u64]) {
        let of = &*self.of;
        let (width, random_groups) = (of.width, of.random_groups);
        for (parcel, priority) in of.places.of(columns).into_iter().zip(priorities) {
            let Some(parcel) = parcel else { continue };
            if self.inside.is_empty() {
                self.inside = vec![0.0; random_groups];
                self.cells = vec![Vec::new(); of.index.len()];
            }
            let random_group = (priority & (random_groups as u64 - 1)) as usize;
            self.inside[random_group] += 1.0;
            for entry in of.firsts[parcel as usize] as usize..of.firsts[parcel as usize + 1] as usize {
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
            loose: self.of.loose,
            loose_features: &[],
            loose_pairs: &[],
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
            loose: of.loose,
            loose_features: &of.loose_features[group * of.width..][features.clone()],
            loose_pairs: &of.loose_pairs[group][aggregate],
            inside: &self.inside,
            rows: of.rows,
        })
    }
}
