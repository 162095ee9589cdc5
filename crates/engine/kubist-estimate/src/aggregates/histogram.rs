//! Histograms in one or two dimensions.
//!
//! The outer bins include the values beyond their edges, so the bins add up to all records with values. Their
//! outer edges are the minimum and maximum if all records were read; otherwise they are bounds from zone maps,
//! or infinite. For clustered samples, the variance of a bin's count is measured between random groups of
//! identities.

use crate::aggregate::{
    Accumulator, Aggregate, AggregateValue, Bound, Definition, Pilot, Properties, Records, Rows, same,
};
use crate::axis::{Axis, Bins, Form, MOST_BINS};
use crate::call::Call;
use crate::distribution::{population, student};
use crate::interval::{Conditions, Interval};

pub const DEFINITION: Definition = Definition {
    listed: "histogram(x, bins), histogram2d(x, y, bins_x, bins_y)",
    documented: [
        "`histogram(x, 20)`, `histogram(x, 20, low, high)`, `histogram2d(x, y, 64, 64)`; log or round as the last argument; `histogram(x, 1mm)`: bins of that width",
        "records in each bin; outer bins include the values beyond them, and their ends show the range",
        "each bin is a count",
    ],
    is_named: |name| matches!(name, "histogram" | "histogram2d"),
    bind: |call: &Call| {
        let bins = if call.name == "histogram" { one_direction(call)? } else { two_directions(call)? };
        Ok(Bound::new(call.expressions(bins.len())?, Binned { bins }))
    },
};

fn one_direction(call: &Call) -> Result<Vec<Bins>, String> {
    call.takes(1..=6, "a value, a number of bins, optionally a lower and an upper end, log and round")?;
    let (form, count) = Form::of(call, 1);
    Ok(vec![match count {
        1 => Bins { count: 20, width: None, range: None, form },
        2 => Bins::of(call, 1, 0, None, form)?,
        4 => Bins::of(call, 1, 0, Some((call.number_beside(2, 0)?, call.number_beside(3, 0)?)), form)?,
        _ => return Err("give both ends, or none".into()),
    }])
}

fn two_directions(call: &Call) -> Result<Vec<Bins>, String> {
    call.takes(2..=10, "two values, two numbers of bins, optionally both ends of each, log and round")?;
    let (form, count) = Form::of(call, 2);
    let (x, y) = match count {
        2 => return Ok(vec![Bins { count: 32, width: None, range: None, form }; 2]),
        4 => (None, None),
        8 => {
            let end = |index: usize, of: usize| call.number_beside(index, of);
            (Some((end(4, 0)?, end(5, 0)?)), Some((end(6, 1)?, end(7, 1)?)))
        }
        _ => return Err("write histogram2d(x, y, bins_x, bins_y), with all four ends or none".into()),
    };
    let both = vec![Bins::of(call, 2, 0, x, form)?, Bins::of(call, 3, 1, y, form)?];
    if both.iter().any(|bins| bins.width.is_some()) {
        return Err("two-dimensional bins with a width need the ends of both dimensions".into());
    }
    match (both[0].count * both[1].count) as f64 <= MOST_BINS {
        true => Ok(both),
        false => Err(format!("a histogram has at most {MOST_BINS} bins in all")),
    }
}

#[derive(Clone, Debug)]
struct Binned {
    bins: Vec<Bins>,
}

impl Aggregate for Binned {
    fn properties(&self) -> Properties {
        Properties { outer_bins: true, ..Properties::default() }
    }

    fn accumulator(&self, pilot: &Pilot) -> Box<dyn Accumulator> {
        let axes = self.bins.iter().enumerate().map(|(argument, bins)| bins.axis(pilot, argument));
        Box::new(Histogram::new(axes.collect(), pilot.clustered))
    }
}

const NONE: (f64, f64) = (f64::INFINITY, f64::NEG_INFINITY);

const GROUPS: usize = 32;

#[derive(Clone, Debug)]
struct Histogram {
    axes: Vec<Axis>,
    /// By dimension: the range of the added values.
    met: Vec<(f64, f64)>,
    groups: usize,
    /// Numbers of records: `cells[bin * groups + group]`.
    cells: Vec<f64>,
}

impl Histogram {
    fn new(axes: Vec<Axis>, clustered: bool) -> Histogram {
        let groups = if clustered { GROUPS } else { 1 };
        let bins: usize = axes.iter().map(Axis::bins).product();
        Histogram { met: vec![NONE; axes.len()], axes, groups, cells: vec![0.0; bins * groups] }
    }

    fn add_values(&mut self, values: &[&[f64]], rows: impl Iterator<Item = usize>, priorities: Option<&[u64]>) {
        for row in rows {
            if values.iter().any(|values| values[row].is_nan()) {
                continue;
            }
            let mut bin = 0;
            for ((axis, met), values) in self.axes.iter().zip(&mut self.met).zip(values) {
                let value = values[row];
                *met = (met.0.min(value), met.1.max(value));
                bin = bin * axis.bins() + axis.bin(value);
            }
            let group = priorities.map_or(0, |priorities| priorities[row] as usize & (self.groups - 1));
            self.cells[bin * self.groups + group] += 1.0;
        }
    }

    /// For each bin: its edges in each dimension, then value, low, high and the number of sampled records.
    fn bins(&self, p: f64, alpha: f64) -> impl Iterator<Item = (Vec<(f64, f64)>, [f64; 4])> + '_ {
        self.cells.chunks_exact(self.groups).enumerate().map(move |(bin, cells)| {
            let mut ends = Vec::with_capacity(self.axes.len());
            let mut left = bin;
            for (axis, met) in self.axes.iter().zip(&self.met).rev() {
                ends.push(axis.ends(left % axis.bins(), if p >= 1.0 { *met } else { NONE }));
                left /= axis.bins();
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
                // The variance of at most one identity is unknown.
                high = f64::INFINITY;
            }
            (ends, [found / p, low, high, found])
        })
    }
}

impl Accumulator for Histogram {
    fn add(&mut self, records: &Records, rows: Rows, priorities: Option<&[u64]>) {
        self.add_values(&records.features, rows, priorities);
    }

    fn merge(&mut self, other: Box<dyn Accumulator>) {
        let other = same::<Histogram>(other);
        self.cells.iter_mut().zip(&other.cells).for_each(|(count, more)| *count += more);
        let both = self.met.iter_mut().zip(&other.met);
        both.for_each(|(met, more)| *met = (met.0.min(more.0), met.1.max(more.1)));
    }

    fn hollow(&self) -> Box<dyn Accumulator> {
        let (cells, met) = (vec![0.0; self.cells.len()], vec![NONE; self.axes.len()]);
        Box::new(Histogram { cells, met, axes: self.axes.clone(), ..*self })
    }

    fn figures(&mut self, conditions: &Conditions) -> Vec<AggregateValue> {
        let bins = self.bins(conditions.p, conditions.alpha);
        let found = bins.map(|(bin, [value, low, high, records])| AggregateValue {
            own: None,
            bin,
            interval: Interval { low, high, ..Interval::exact(value) },
            records,
        });
        found.collect()
    }

    fn remark(&self, _conditions: &Conditions) -> Option<String> {
        self.axes.iter().find_map(Axis::cut_off)
    }

    fn numbers(&self) -> usize {
        self.cells.len()
    }

    fn size(&self) -> usize {
        self.cells.len() / self.groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(count: usize, low: f64, high: f64) -> Axis {
        let pilot = Pilot { shifts: &[], ends: &[], positive: &[], clustered: false, groups: 1 };
        Bins { count, width: None, range: Some((low, high)), form: Form::default() }.axis(&pilot, 0)
    }

    #[test]
    fn every_value_is_in_one_bin() {
        let axes = vec![axis(4, 0.0, 1.0), axis(2, -1.0, 1.0)];
        let mut histogram = Histogram::new(axes, false);
        let x = [0.0, 0.25, 0.2499, 1.0, -5.0, 9.0, f64::NAN];
        let y = [-1.0, 0.0, -0.1, 1.0, 0.5, -7.0, 0.0];
        histogram.add_values(&[&x, &y], 0..7, None);
        let counts: Vec<f64> = histogram.bins(1.0, 0.05).map(|(_, [value, ..])| value).collect();
        assert_eq!(counts, [2.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0]);
        let ends: Vec<_> = histogram.bins(1.0, 0.05).map(|(ends, _)| ends).collect();
        assert_eq!(ends[0], [(-5.0, 0.25), (-7.0, 0.0)]);
        assert_eq!(ends[7], [(0.75, 9.0), (0.0, 1.0)]);
        let ends: Vec<_> = histogram.bins(0.5, 0.05).map(|(ends, _)| ends).collect();
        assert_eq!(ends[0], [(0.0, 0.25), (-1.0, 0.0)]);
    }

    #[test]
    fn empty_bins_may_hold_something() {
        let mut histogram = Histogram::new(vec![axis(2, 0.0, 2.0)], false);
        histogram.add_values(&[&[0.5; 30]], 0..30, Some(&[1; 30]));
        let bins: Vec<_> = histogram.bins(0.1, 0.05).collect();
        assert!(bins[0].1[1] >= 200.0 && bins[0].1[0] == 300.0 && bins[0].1[2] > 300.0);
        assert!(bins[1].1[0] == 0.0 && bins[1].1[2] > 30.0, "{bins:?}");
    }
}
