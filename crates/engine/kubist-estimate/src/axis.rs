//! The bins of a histogram in one direction: how they are asked for, and where their edges are.

use crate::aggregate::Pilot;
use crate::call::Call;
use kubist_expr::Meant;
use kubist_types::human::{grouped, number};

/// Bins, at most.
pub const MOST_BINS: f64 = 65_536.0;
/// What the steps between round edges begin with.
const ROUND: [f64; 4] = [1.0, 2.0, 2.5, 5.0];

/// Bins in one direction, as they are asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Bins {
    pub count: usize,
    /// How wide they are, where that is given and the range is not: then `count` bounds them.
    pub width: Option<f64>,
    /// Where the first begins and the last ends; without it the ends of the pilot's values.
    pub range: Option<(f64, f64)>,
    pub form: Form,
}

/// How edges follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Form {
    /// Equal ratios instead of equal differences.
    pub log: bool,
    /// Edges are round numbers, and about as many bins as are asked for.
    pub round: bool,
}

impl Form {
    /// From the words behind the other arguments, of which so many are no numbers; and how many
    /// arguments stand before the words.
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
    /// The number of bins is this argument, or with a unit their width, in that of the argument
    /// that they are `of`.
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
                Err(format!("logarithmic bins begin above 0, found {low}: what lies below is in the first bin anyway"))
            }
            _ => Ok(Bins { count: count as usize, width: None, range, form }),
        }
    }

    /// Bins of a width: from end to end, or where the values are.
    fn wide(width: f64, range: Option<(f64, f64)>, form: Form) -> Result<Bins, String> {
        if !(width.is_finite() && width > 0.0) {
            return Err(format!("the width of a bin is above 0, found {width}"));
        }
        if form != Form::default() {
            return Err("bins of a width are neither log nor round: give their number".into());
        }
        let Some((low, high)) = range else {
            return Ok(Bins { count: MOST_BINS as usize, width: Some(width), range, form });
        };
        let bins = (high - low) / width;
        if low >= high || (bins - bins.round()).abs() > 1e-6 || !(1.0..=MOST_BINS).contains(&bins.round()) {
            return Err(format!(
                "from {low} to {high} there are {bins} bins of {width}: 1 to {MOST_BINS} whole ones are wanted"
            ));
        }
        Ok(Bins { count: bins.round() as usize, width: None, range, form })
    }

    /// Where they are, by what a pilot knows of an argument.
    pub fn axis(&self, pilot: &Pilot, argument: usize) -> Axis {
        let known = pilot.ends.get(argument).copied().flatten();
        let positive = pilot.positive.get(argument).copied().flatten();
        let (low, high) = self.range.unwrap_or(match (known, positive, self.form.log) {
            (Some((_, high)), Some(low), true) if low < high => (low, high),
            (_, Some(only), true) => (only / 2.0, only * 2.0),
            (_, None, true) => (1.0, 10.0),
            (Some((low, high)), ..) if low < high => (low, high),
            (Some((only, _)), ..) => (only - 0.5, only + 0.5),
            (None, ..) => (0.0, 1.0),
        });
        if let Some(width) = self.width {
            let wanted = (high / width).ceil() - (low / width).floor();
            return Axis { of_more: wanted > self.count as f64, ..Axis::new(multiples(low, high, width, self.count)) };
        }
        let edges = match self.form {
            Form { log: false, round: false } => equal(low, high, self.count),
            Form { log: false, round: true } => round(low, high, self.count),
            Form { log: true, round: false } => {
                let inner = equal(low.ln(), high.ln(), self.count).into_iter().map(f64::exp);
                ends_kept(inner.collect(), low, high)
            }
            Form { log: true, round: true } => decades(low, high, self.count),
        };
        Axis::new(edges)
    }
}

fn equal(low: f64, high: f64, count: usize) -> Vec<f64> {
    let edges = (0..=count).map(|edge| low + (high - low) * edge as f64 / count as f64);
    ends_kept(edges.collect(), low, high)
}

/// Rounding does not move the ends.
fn ends_kept(mut edges: Vec<f64>, low: f64, high: f64) -> Vec<f64> {
    if let [first, .., last] = &mut edges[..] {
        (*first, *last) = (low, high);
    }
    edges
}

/// Multiples of a width around `low` to `high`, so many bins at most.
fn multiples(low: f64, high: f64, width: f64, most: usize) -> Vec<f64> {
    let (first, last) = ((low / width).floor(), (high / width).ceil());
    let bins = (last - first).clamp(1.0, most as f64);
    // Where widths are parts of 1 the edges are the nearest numbers to what they read as.
    let (inverse, is_part) = ((1.0 / width).round(), 1.0 / (1.0 / width).round() == width);
    let edge = |index: f64| if is_part { index / inverse } else { index * width };
    (0..=bins as usize).map(|bin| edge(first + bin as f64)).collect()
}

/// Multiples of a round step around `low` to `high`, about `count` bins and no more.
fn round(low: f64, high: f64, count: usize) -> Vec<f64> {
    let least = (high - low) / count as f64;
    let power = least.log10().floor();
    if !(-300.0..300.0).contains(&power) {
        return equal(low, high, count);
    }
    let steps = [power, power + 1.0].into_iter().flat_map(|power| ROUND.map(|digits| (digits, power as i32)));
    for (digits, power) in steps.filter(|(digits, power)| digits * 10f64.powi(*power) >= least * (1.0 - 1e-9)) {
        let step = digits * 10f64.powi(power);
        let (first, last) = ((low / step).floor(), (high / step).ceil());
        // Divided by a power of ten edges are the nearest numbers to what they read as.
        let edge = |index: f64| match power < 0 {
            true => index * digits / 10f64.powi(-power),
            false => index * step,
        };
        let bins = last - first;
        if (1.0..=count as f64).contains(&bins) && first.abs().max(last.abs()) < 2f64.powi(52) {
            return (0..=bins as usize).map(|bin| edge(first + bin as f64)).collect();
        }
    }
    equal(low, high, count)
}

/// Whole powers of ten around `low` to `high`, and the same number of bins in each decade, or of
/// decades in each bin.
fn decades(low: f64, high: f64, count: usize) -> Vec<f64> {
    let first = low.log10().floor() as i32;
    let last = (high.log10().ceil() as i32).max(first + 1);
    let decades = (last - first) as usize;
    if decades > count {
        let in_each = decades.div_ceil(count);
        return (first..last).step_by(in_each).chain([last]).map(|decade| 10f64.powi(decade)).collect();
    }
    let of_each = count / decades;
    let edges = (first..last)
        .flat_map(|decade| (0..of_each).map(move |part| 10f64.powi(decade) * 10f64.powf(part as f64 / of_each as f64)));
    edges.chain([10f64.powi(last)]).collect()
}

/// The edges of bins, ascending; what lies beyond them is in the outer bins.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    edges: Vec<f64>,
    /// Bins of the width that was asked for would go on behind the last one.
    of_more: bool,
}

impl Axis {
    /// Edges that rounding made equal are one.
    fn new(mut edges: Vec<f64>) -> Axis {
        edges.dedup();
        if let [only] = edges[..] {
            edges = vec![only, only.next_up()];
        }
        Axis { edges, of_more: false }
    }

    pub fn bins(&self) -> usize {
        self.edges.len() - 1
    }

    /// That the last bin holds what further ones would, if it does.
    pub fn cut_off(&self) -> Option<String> {
        let [.., begin, _] = self.edges[..] else { return None };
        self.of_more.then(|| {
            format!(
                "there are {} bins at most, and the last one holds all that is above {}: take wider bins, or give \
                 the ends of a part",
                grouped(&self.bins().to_string()),
                number(begin)
            )
        })
    }

    pub fn bin(&self, value: f64) -> usize {
        self.edges.partition_point(|edge| *edge <= value).saturating_sub(1).min(self.bins() - 1)
    }

    /// The ends of a bin, if all values lie between these.
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
        let pilot = Pilot { shifts: &[0.0], ends: &[Some(ends)], positive: &positive, clustered: false, groups: 1 };
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
        // More decades than bins.
        assert_eq!(edges(2, (0.02, 7.0), Form { log: true, round: true }), [0.01, 1.0, 10.0]);
        assert_eq!(edges(1, (1e-300, 1e300), Form { log: true, round: true }).len(), 2);
    }

    #[test]
    fn bins_of_a_width_begin_at_its_multiples() {
        assert_eq!(multiples(0.013, 0.047, 0.01, 100), [0.01, 0.02, 0.03, 0.04, 0.05]);
        assert_eq!(multiples(-3.0, 4.0, 2.5, 100), [-5.0, -2.5, 0.0, 2.5, 5.0]);
        assert_eq!(multiples(0.0, 1e9, 1.0, 3), [0.0, 1.0, 2.0, 3.0]);
        assert_eq!(multiples(2.0, 2.0, 1.0, 3), [2.0, 3.0]);
    }

    #[test]
    fn outer_bins_hold_and_say_what_lies_beyond() {
        let axis = Axis::new(vec![0.0, 1.0, 2.0]);
        assert_eq!([-7.0, 0.0, 0.999, 1.0, 2.0, f64::INFINITY].map(|value| axis.bin(value)), [0, 0, 0, 1, 1, 1]);
        assert_eq!([axis.ends(0, (-7.0, 1.5)), axis.ends(1, (-7.0, 1.5))], [(-7.0, 1.0), (1.0, 2.0)]);
    }
}
