//! The bins of a histogram in one dimension.

use crate::aggregate::Pilot;
use crate::call::Call;
use kubist_expr::Meant;
use kubist_types::human::{grouped, number};
use kubist_types::steps::{self, LEAST};

pub const MOST_BINS: f64 = 65_536.0;

#[derive(Clone, Debug, PartialEq)]
pub struct Bins {
    pub count: usize,
    /// A width without a range makes `count` the limit.
    pub width: Option<f64>,
    /// The default is the range of the pilot's values.
    pub range: Option<(f64, f64)>,
    pub form: Form,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Form {
    /// Equal ratios instead of equal differences.
    pub log: bool,
    /// The number of bins is approximate.
    pub round: bool,
}

impl Form {
    /// Parses the trailing words `log` and `round`, and returns the number of arguments before them. The
    /// first `directions` arguments are always values.
    pub fn of(call: &Call, directions: usize) -> (Form, usize) {
        let (mut form, mut count) = (Form::default(), call.arguments.len());
        while count > directions {
            match call.arguments[count - 1].to_ascii_lowercase().as_str() {
                "log" => form.log = true,
                "round" => form.round = true,
                _ => break,
            }
            count -= 1;
        }
        (form, count)
    }
}

impl Bins {
    /// Parses a number of bins, or with a unit their width, in the unit of argument `of`.
    pub fn of(call: &Call, argument: usize, of: usize, range: Option<(f64, f64)>, form: Form) -> Result<Bins, String> {
        if let Some(width) = call.with_unit(argument, of, Meant::Distance)? {
            return Bins::wide(width, range, form);
        }
        let count = call.number(argument)?;
        if !(1.0..=MOST_BINS).contains(&count) || count.fract() != 0.0 {
            return Err(format!("a histogram has 1 to {MOST_BINS} bins, found {count}"));
        }
        match range {
            Some((low, high)) if low >= high => Err("the lower end must be below the upper end".into()),
            Some((low, _)) if form.log && low <= 0.0 => {
                Err(format!("logarithmic bins begin above 0, found {low}; the first bin also has smaller values"))
            }
            _ => Ok(Bins { count: count as usize, width: None, range, form }),
        }
    }

    fn wide(width: f64, range: Option<(f64, f64)>, form: Form) -> Result<Bins, String> {
        if !(width.is_finite() && width > 0.0) {
            return Err(format!("the width of a bin must be above 0, found {width}"));
        }
        if form != Form::default() {
            return Err("bins with a width cannot be log or round: give their number instead".into());
        }
        let Some((low, high)) = range else {
            return Ok(Bins { count: MOST_BINS as usize, width: Some(width), range, form });
        };
        let bins = steps::part(low, high, width);
        if low >= high || (bins - bins.round()).abs() > 1e-6 || !(1.0..=MOST_BINS).contains(&bins.round()) {
            return Err(format!(
                "from {low} to {high} there are {bins} bins of width {width}: it must be an integer from 1 to \
                 {MOST_BINS}"
            ));
        }
        Ok(Bins { count: bins.round() as usize, width: None, range, form })
    }

    pub fn axis(&self, pilot: &Pilot, argument: usize) -> Axis {
        let known = pilot.ends.get(argument).copied().flatten();
        let positive = pilot.positive.get(argument).copied().flatten();
        let (low, high) = self.range.unwrap_or(match (known, positive, self.form.log) {
            (Some((_, high)), Some(low), true) if low < high => (low, high),
            (_, Some(only), true) => ((only / 2.0).max(LEAST), (only * 2.0).min(f64::MAX)),
            (_, None, true) => (1.0, 10.0),
            (Some((low, high)), ..) if low < high => (low, high),
            (Some((only, _)), ..) => steps::around(only),
            (None, ..) => (0.0, 1.0),
        });
        if let Some(width) = self.width {
            let (edges, of_more) = steps::widths(low, high, width, self.count);
            return Axis { edges, of_more };
        }
        let edges = match self.form {
            Form { log: false, round: false } => steps::equal(low, high, self.count),
            Form { log: false, round: true } => steps::round(low, high, self.count),
            Form { log: true, round: false } => steps::geometric(low, high, self.count),
            Form { log: true, round: true } => steps::decades(low, high, self.count),
        };
        Axis { edges, of_more: false }
    }
}

/// Ascending edges, where the outer bins include the values beyond.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    edges: Vec<f64>,
    /// Further bins of the requested width were cut off.
    of_more: bool,
}

impl Axis {
    pub fn bins(&self) -> usize {
        self.edges.len() - 1
    }

    pub fn cut_off(&self) -> Option<String> {
        let [.., begin, _] = self.edges[..] else { return None };
        self.of_more.then(|| {
            format!(
                "a histogram has at most {} bins; the last one has all values above {}: use wider bins, or give the \
                 ends",
                grouped(&self.bins().to_string()),
                number(begin)
            )
        })
    }

    pub fn bin(&self, value: f64) -> usize {
        self.edges.partition_point(|edge| *edge <= value).saturating_sub(1).min(self.bins() - 1)
    }

    /// Outer bins are extended to `all`.
    pub fn ends(&self, bin: usize, all: (f64, f64)) -> (f64, f64) {
        let (low, high) = (self.edges[bin], self.edges[bin + 1]);
        let low = if bin == 0 { low.min(all.0) } else { low };
        let high = if bin + 1 == self.bins() { high.max(all.1) } else { high };
        (low, high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(count: usize, ends: (f64, f64), form: Form) -> Vec<f64> {
        let positive = [(ends.0 > 0.0).then_some(ends.0).or(Some(1e-3))];
        let pilot = Pilot {
            shifts: &[crate::aggregate::Shift::NONE],
            ends: &[Some(ends)],
            positive: &positive,
            clustered: false,
            groups: 1,
        };
        Bins { count, width: None, range: None, form }.axis(&pilot, 0).edges
    }

    #[test]
    fn edges_are_equal_round_or_of_equal_ratio() {
        let round = Form { round: true, log: false };
        assert_eq!(edges(4, (0.5, 2.5), Form::default()), [0.5, 1.0, 1.5, 2.0, 2.5]);
        assert_eq!(edges(10, (0.013, 0.987), round), [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]);
        assert_eq!(edges(7, (-12.0, 17.0), round), [-15.0, -10.0, -5.0, 0.0, 5.0, 10.0, 15.0, 20.0]);
        assert_eq!(edges(2, (1e12 + 1.0, 1e12 + 5.0), round), [1e12, 1e12 + 2.5, 1e12 + 5.0]);
        let log = edges(3, (1.0, 1000.0), Form { log: true, round: false });
        assert!(log.iter().zip([1.0, 10.0, 100.0, 1000.0]).all(|(edge, wanted)| (edge / wanted - 1.0).abs() < 1e-12));
        assert_eq!(edges(3, (0.02, 7.0), Form { log: true, round: true }), [0.01, 0.1, 1.0, 10.0]);
        assert_eq!(edges(2, (-5.0, 0.1), Form { log: true, round: false })[0], 1e-3);
        assert_eq!(edges(2, (0.02, 7.0), Form { log: true, round: true }), [0.01, 1.0, 10.0]);
        assert_eq!(edges(1, (1e-300, 1e300), Form { log: true, round: true }).len(), 2);
    }

    #[test]
    fn bins_of_extreme_values_are_finite_and_hold_them() {
        let ends = [(-1.0, f64::MAX), (f64::MIN, f64::MAX), (f64::MAX, f64::MAX), (0.0, 5e-324), (5e-324, 5e-324)];
        let ends = ends.into_iter().chain([(9.2e18, 9.2e18), (1.0, 1.0f64.next_up()), (-1e300, 1e-300)]);
        for (low, high) in ends {
            for form in [(false, false), (false, true), (true, false), (true, true)] {
                let pilot = Pilot {
                    shifts: &[crate::aggregate::Shift::NONE],
                    ends: &[Some((low, high))],
                    positive: &[(high > 0.0).then_some(if low > 0.0 { low } else { high })],
                    clustered: false,
                    groups: 1,
                };
                let form = Form { log: form.0, round: form.1 };
                for width in
                    [None, Some(5e-324), Some(1e300)].into_iter().take(if form.log || form.round { 1 } else { 3 })
                {
                    let bins = Bins { count: 20, width, range: None, form };
                    let axis = bins.axis(&pilot, 0);
                    assert!(
                        axis.bins() <= 20 && axis.edges.iter().all(|edge| edge.is_finite()),
                        "{low} {high}: {axis:?}"
                    );
                    assert!(axis.edges.windows(2).all(|pair| pair[0] < pair[1]), "{low} {high}: {axis:?}");
                    let is_held = |value: f64| {
                        let ends = axis.ends(axis.bin(value), (low, high));
                        ends.0 <= value && value <= ends.1
                    };
                    assert!(is_held(low) && is_held(high), "{low} {high}: {axis:?}");
                }
            }
        }
    }

    #[test]
    fn outer_bins_hold_and_say_what_lies_beyond() {
        let axis = Axis { edges: vec![0.0, 1.0, 2.0], of_more: false };
        assert_eq!([-7.0, 0.0, 0.999, 1.0, 2.0, f64::INFINITY].map(|value| axis.bin(value)), [0, 0, 0, 1, 1, 1]);
        assert_eq!([axis.ends(0, (-7.0, 1.5)), axis.ends(1, (-7.0, 1.5))], [(-7.0, 1.0), (1.0, 2.0)]);
    }
}
