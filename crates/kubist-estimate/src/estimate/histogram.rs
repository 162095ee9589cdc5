//! Histograms: how many records lie in each of many equal bins, in one or two directions.
//!
//! The outermost bins hold what lies beyond them, so that bins add up to all records whose
//! values are there. Each bin is a count like any other; where records of one identity come
//! together its spread is measured between random groups of identities.

use crate::estimate::distribution::{population, student};

/// Random groups of identities in each bin.
const GROUPS: usize = 32;

#[derive(Clone, Debug)]
pub struct Histogram {
    axes: Vec<Axis>,
    groups: usize,
    /// `cells[bin * groups + group]` records.
    cells: Vec<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    pub low: f64,
    pub high: f64,
    pub bins: usize,
}

impl Axis {
    fn bin(&self, value: f64) -> usize {
        let place = (value - self.low) / (self.high - self.low) * self.bins as f64;
        (place.max(0.0) as usize).min(self.bins - 1)
    }

    /// The ends of a bin.
    pub fn ends(&self, bin: usize) -> (f64, f64) {
        let edge = |bin: usize| match bin == self.bins {
            true => self.high,
            false => self.low + (self.high - self.low) * bin as f64 / self.bins as f64,
        };
        (edge(bin), edge(bin + 1))
    }
}

impl Histogram {
    pub fn new(axes: Vec<Axis>, clustered: bool) -> Histogram {
        let groups = if clustered { GROUPS } else { 1 };
        let bins: usize = axes.iter().map(|axis| axis.bins).product();
        Histogram { axes, groups, cells: vec![0.0; bins * groups] }
    }

    pub fn add(&mut self, values: &[&[f64]], rows: impl Iterator<Item = usize>, priorities: Option<&[u64]>) {
        for row in rows {
            if values.iter().any(|values| values[row].is_nan()) {
                continue;
            }
            let bin =
                self.axes.iter().zip(values).fold(0, |bin, (axis, values)| bin * axis.bins + axis.bin(values[row]));
            let group = priorities.map_or(0, |priorities| priorities[row] as usize & (self.groups - 1));
            self.cells[bin * self.groups + group] += 1.0;
        }
    }

    /// The same bins, with nothing in them.
    pub fn hollow(&self) -> Histogram {
        Histogram { cells: vec![0.0; self.cells.len()], axes: self.axes.clone(), ..*self }
    }

    /// How many numbers it holds.
    pub fn counts(&self) -> usize {
        self.cells.len()
    }

    /// How many bins it has.
    pub fn size(&self) -> usize {
        self.cells.len() / self.groups
    }

    pub fn merge(&mut self, other: Histogram) {
        self.cells.iter_mut().zip(&other.cells).for_each(|(count, more)| *count += more);
    }

    /// The ends of each bin, by direction, and its number of records: value, low, high, and
    /// how many were read.
    pub fn bins(&self, p: f64, alpha: f64) -> impl Iterator<Item = (Vec<(f64, f64)>, [f64; 4])> + '_ {
        self.cells.chunks_exact(self.groups).enumerate().map(move |(bin, cells)| {
            let mut ends = Vec::with_capacity(self.axes.len());
            let mut left = bin;
            for axis in self.axes.iter().rev() {
                ends.push(axis.ends(left % axis.bins));
                left /= axis.bins;
            }
            ends.reverse();
            let found: f64 = cells.iter().sum();
            let (mut low, mut high) = population(found, p, alpha);
            let occupied = cells.iter().filter(|count| **count > 0.0).count() as f64;
            if self.groups > 1 && p < 1.0 && occupied >= 2.0 {
                let mean = found / self.groups as f64;
                let spread: f64 = cells.iter().map(|count| (count - mean).powi(2)).sum();
                let error = ((1.0 - p) * spread * occupied / (occupied - 1.0)).sqrt() / p;
                let half = student(alpha, occupied - 1.0) * error;
                (low, high) = ((found / p - half).max(found), found / p + half);
            } else if self.groups > 1 && p < 1.0 {
                // Of none or one identity: how many records others have is not known.
                high = f64::INFINITY;
            }
            (ends, [found / p, low, high, found])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_one_bin() {
        let axes = vec![Axis { low: 0.0, high: 1.0, bins: 4 }, Axis { low: -1.0, high: 1.0, bins: 2 }];
        let mut histogram = Histogram::new(axes, false);
        let x = [0.0, 0.25, 0.2499, 1.0, -5.0, 9.0, f64::NAN];
        let y = [-1.0, 0.0, -0.1, 1.0, 0.5, -7.0, 0.0];
        histogram.add(&[&x, &y], 0..7, None);
        let counts: Vec<f64> = histogram.bins(1.0, 0.05).map(|(_, [value, ..])| value).collect();
        assert_eq!(counts, [2.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0]);
        let ends: Vec<_> = histogram.bins(1.0, 0.05).map(|(ends, _)| ends).collect();
        assert_eq!(ends[0], [(0.0, 0.25), (-1.0, 0.0)]);
        assert_eq!(ends[7], [(0.75, 1.0), (0.0, 1.0)]);
    }

    #[test]
    fn empty_bins_may_hold_something() {
        let mut histogram = Histogram::new(vec![Axis { low: 0.0, high: 2.0, bins: 2 }], false);
        histogram.add(&[&[0.5; 30]], 0..30, Some(&[1; 30]));
        let bins: Vec<_> = histogram.bins(0.1, 0.05).collect();
        assert!(bins[0].1[1] >= 200.0 && bins[0].1[0] == 300.0 && bins[0].1[2] > 300.0);
        assert!(bins[1].1[0] == 0.0 && bins[1].1[2] > 30.0, "{bins:?}");
    }
}
