//! Histograms: how many records lie in each of many equal bins, in one or two directions.
//!
//! The outermost bins hold what lies beyond them, so that bins add up to all records whose
//! values are there. Each bin is a count like any other; where records of one identity come
//! together its spread is measured between random groups of identities.

use crate::aggregate::{Accumulator, Aggregate, Bound, Definition, Found, Pilot, Properties, Records, Rows, same};
use crate::call::Call;
use crate::distribution::{population, student};
use crate::interval::{Conditions, Interval};

pub const DEFINITION: Definition = Definition {
    listed: "histogram(x, bins), histogram2d(x, y, bins_x, bins_y)",
    documented: [
        "`histogram(x, 20)`, `histogram(x, 20, low, high)`, `histogram2d(x, y, 64, 64)`",
        "records in each bin; outer bins hold what lies beyond them",
        "each bin is a count",
    ],
    is_named: |name| matches!(name, "histogram" | "histogram2d"),
    bind: |call: &Call| {
        let bins = if call.name == "histogram" { one_direction(call)? } else { two_directions(call)? };
        Ok(Bound::new(call.expressions(bins.len())?, Binned { bins }))
    },
};

/// Bins, at most.
const MOST_BINS: f64 = 65_536.0;

/// Bins in one direction, and where the first begins and the last ends.
#[derive(Clone, Debug, PartialEq)]
struct Bins {
    count: usize,
    range: Option<(f64, f64)>,
}

fn one_direction(call: &Call) -> Result<Vec<Bins>, String> {
    call.takes(1..=4, "a value, a number of bins, and perhaps a lower and an upper end")?;
    Ok(vec![match call.arguments.len() {
        1 => Bins { count: 20, range: None },
        2 => bins(call, 1, None)?,
        4 => bins(call, 1, Some((call.number(2)?, call.number(3)?)))?,
        _ => return Err("give both ends, or none".into()),
    }])
}

fn two_directions(call: &Call) -> Result<Vec<Bins>, String> {
    call.takes(2..=8, "two values, two numbers of bins, and perhaps the ends of both")?;
    let (x, y) = match call.arguments.len() {
        2 => return Ok(vec![Bins { count: 32, range: None }; 2]),
        4 => (None, None),
        8 => (Some((call.number(4)?, call.number(5)?)), Some((call.number(6)?, call.number(7)?))),
        _ => return Err("give histogram2d(x, y, bins_x, bins_y), and all ends or none".into()),
    };
    let both = vec![bins(call, 2, x)?, bins(call, 3, y)?];
    match (both[0].count * both[1].count) as f64 <= MOST_BINS {
        true => Ok(both),
        false => Err(format!("a histogram has at most {MOST_BINS} bins in all")),
    }
}

fn bins(call: &Call, argument: usize, range: Option<(f64, f64)>) -> Result<Bins, String> {
    let bins = call.number(argument)?;
    if !(1.0..=MOST_BINS).contains(&bins) || bins.fract() != 0.0 {
        return Err(format!("a histogram has 1 to {MOST_BINS} bins, found {bins}"));
    }
    if range.is_some_and(|(low, high)| low >= high) {
        return Err("the lower end must be below the upper end".into());
    }
    Ok(Bins { count: bins as usize, range })
}

#[derive(Clone, Debug)]
struct Binned {
    bins: Vec<Bins>,
}

impl Aggregate for Binned {
    fn properties(&self) -> Properties {
        Properties::default()
    }

    fn accumulator(&self, pilot: &Pilot) -> Box<dyn Accumulator> {
        let axis = |(bins, ends): (&Bins, &Option<(f64, f64)>)| {
            let (low, high) = bins.range.unwrap_or(match *ends {
                Some((low, high)) if low < high => (low, high),
                Some((only, _)) => (only - 0.5, only + 0.5),
                None => (0.0, 1.0),
            });
            Axis { low, high, bins: bins.count }
        };
        Box::new(Histogram::new(self.bins.iter().zip(pilot.ends).map(axis).collect(), pilot.clustered))
    }
}

/// Random groups of identities in each bin.
const GROUPS: usize = 32;

#[derive(Clone, Debug)]
struct Histogram {
    axes: Vec<Axis>,
    groups: usize,
    /// `cells[bin * groups + group]` records.
    cells: Vec<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Axis {
    low: f64,
    high: f64,
    bins: usize,
}

impl Axis {
    fn bin(&self, value: f64) -> usize {
        let bin = (value - self.low) / (self.high - self.low) * self.bins as f64;
        (bin.max(0.0) as usize).min(self.bins - 1)
    }

    /// The ends of a bin.
    fn ends(&self, bin: usize) -> (f64, f64) {
        let edge = |bin: usize| match bin == self.bins {
            true => self.high,
            false => self.low + (self.high - self.low) * bin as f64 / self.bins as f64,
        };
        (edge(bin), edge(bin + 1))
    }
}

impl Histogram {
    fn new(axes: Vec<Axis>, clustered: bool) -> Histogram {
        let groups = if clustered { GROUPS } else { 1 };
        let bins: usize = axes.iter().map(|axis| axis.bins).product();
        Histogram { axes, groups, cells: vec![0.0; bins * groups] }
    }

    fn add_values(&mut self, values: &[&[f64]], rows: impl Iterator<Item = usize>, priorities: Option<&[u64]>) {
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

    /// The ends of each bin, by direction, and its number of records: value, low, high, and
    /// how many were read.
    fn bins(&self, p: f64, alpha: f64) -> impl Iterator<Item = (Vec<(f64, f64)>, [f64; 4])> + '_ {
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

impl Accumulator for Histogram {
    fn add(&mut self, records: &Records, rows: Rows, priorities: Option<&[u64]>) {
        self.add_values(&records.features, rows, priorities);
    }

    fn merge(&mut self, other: Box<dyn Accumulator>) {
        let other = same::<Histogram>(other);
        self.cells.iter_mut().zip(&other.cells).for_each(|(count, more)| *count += more);
    }

    /// The same bins, with nothing in them.
    fn hollow(&self) -> Box<dyn Accumulator> {
        Box::new(Histogram { cells: vec![0.0; self.cells.len()], axes: self.axes.clone(), ..*self })
    }

    fn figures(&mut self, conditions: &Conditions) -> Vec<Found> {
        let bins = self.bins(conditions.p, conditions.alpha);
        let found = bins.map(|(bin, [value, low, high, records])| Found {
            own: None,
            bin,
            interval: Interval { low, high, ..Interval::exact(value) },
            records,
        });
        found.collect()
    }

    fn numbers(&self) -> usize {
        self.cells.len()
    }

    /// How many bins it has.
    fn size(&self) -> usize {
        self.cells.len() / self.groups
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
        histogram.add_values(&[&x, &y], 0..7, None);
        let counts: Vec<f64> = histogram.bins(1.0, 0.05).map(|(_, [value, ..])| value).collect();
        assert_eq!(counts, [2.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0]);
        let ends: Vec<_> = histogram.bins(1.0, 0.05).map(|(ends, _)| ends).collect();
        assert_eq!(ends[0], [(0.0, 0.25), (-1.0, 0.0)]);
        assert_eq!(ends[7], [(0.75, 1.0), (0.0, 1.0)]);
    }

    #[test]
    fn empty_bins_may_hold_something() {
        let mut histogram = Histogram::new(vec![Axis { low: 0.0, high: 2.0, bins: 2 }], false);
        histogram.add_values(&[&[0.5; 30]], 0..30, Some(&[1; 30]));
        let bins: Vec<_> = histogram.bins(0.1, 0.05).collect();
        assert!(bins[0].1[1] >= 200.0 && bins[0].1[0] == 300.0 && bins[0].1[2] > 300.0);
        assert!(bins[1].1[0] == 0.0 && bins[1].1[2] > 30.0, "{bins:?}");
    }
}
