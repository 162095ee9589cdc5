//! Where an axis has its marks, and what stands beside them.

/// How an axis maps values to its length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// In proportion.
    Linear,
    /// Values are positive.
    Log,
    /// Values are seconds since 1970-01-01, shown as dates and times.
    Calendar,
}

/// Marks in ascending order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Ticks {
    /// Value and label.
    pub major: Vec<(f64, String)>,
    pub minor: Vec<f64>,
    /// What all labels have in common: a power of ten, a date.
    pub common: Option<String>,
}

/// About `most` marks between `low` and `high` (finite, ascending).
pub(crate) fn ticks(scale: Scale, low: f64, high: f64, most: usize) -> Ticks {
    match scale {
        Scale::Linear => linear(low, high, most),
        Scale::Log => logarithmic(low, high, most),
        Scale::Calendar => calendar(low, high, most),
    }
}

/// The smallest of 1, 2, 5 times a power of ten that is at least `step`.
pub(crate) fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let leading = step / power;
    power * [1.0, 2.0, 5.0].into_iter().find(|round| leading <= round * (1.0 + 1e-9)).unwrap_or(10.0)
}

/// A round number (1, 2 or 5 times a power of ten) as text.
pub(crate) fn shown(round: f64) -> String {
    let exponent = (round.log10() + 1e-9).floor() as i32;
    match (exponent, (round / 10f64.powi(exponent)).round() as i64) {
        (-3..=4, _) => format!("{:.*}", (-exponent).max(0) as usize, round),
        (_, 1) => format!("10{}", superscript(exponent)),
        (_, leading) => format!("{leading}·10{}", superscript(exponent)),
    }
}

/// All multiples of `step` within the ends.
fn multiples(low: f64, high: f64, step: f64) -> Vec<f64> {
    let slack = step * 1e-6;
    let first = ((low - slack) / step).ceil();
    let count = (((high + slack) / step).floor() - first).clamp(-1.0, 1000.0) as i64;
    // + 0.0 makes of -0 a 0.
    (0..=count).map(|index| (first + index as f64) * step + 0.0).collect()
}

fn linear(low: f64, high: f64, most: usize) -> Ticks {
    const FEWEST: usize = 3;
    let mut step = round_step((high - low) / most.max(1) as f64);
    let mut values = multiples(low, high, step);
    while values.len() < FEWEST && step > 0.0 {
        step = round_step(step * 0.4);
        values = multiples(low, high, step);
    }
    let largest = low.abs().max(high.abs());
    let exponent = if (1e-3..1e6).contains(&largest) { 0 } else { largest.log10().floor() as i32 };
    let unit = 10f64.powi(exponent);
    let decimals = (-((step / unit).log10() + 1e-9).floor()).clamp(0.0, 12.0) as usize;
    let label = |value: &f64| grouped(&format!("{:.decimals$}", value / unit));
    Ticks {
        major: values.iter().map(|value| (*value, label(value))).collect(),
        minor: Vec::new(),
        common: (exponent != 0).then(|| format!("×10{}", superscript(exponent))),
    }
}

fn logarithmic(low: f64, high: f64, most: usize) -> Ticks {
    let decades = (low.log10().ceil() as i32..=high.log10().floor() as i32).collect::<Vec<_>>();
    let stride = decades.len().div_ceil(most.max(1)).max(1);
    let span = high.log10() - low.log10();
    if span < 0.7 {
        return linear(low, high, most);
    }
    let plain = low >= 0.999e-3 && high <= 1.001e4;
    let label = |value: f64| {
        let exponent = value.log10().floor() as i32;
        let exponent = if value / 10f64.powi(exponent) > 9.99 { exponent + 1 } else { exponent };
        let leading = (value / 10f64.powi(exponent)).round();
        match (plain, leading as i64) {
            (true, _) => format!("{:.*}", (-exponent).max(0) as usize, value),
            (false, 1) => format!("10{}", superscript(exponent)),
            (false, leading) => format!("{leading}·10{}", superscript(exponent)),
        }
    };
    let within = |value: &f64| (low * (1.0 - 1e-9)..=high * (1.0 + 1e-9)).contains(value);
    let (first, last) = (low.log10().floor() as i32, high.log10().floor() as i32);
    let of = |steps: &[f64], every: usize| {
        let powers = (first..=last).filter(move |power| power.rem_euclid(every as i32) == 0);
        let values = powers.flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)));
        values.filter(within).collect::<Vec<f64>>()
    };
    let dense: [&[f64]; 2] = [&[1.0, 2.0, 5.0], &[1.0, 3.0]];
    let dense = dense.into_iter().map(|steps| of(steps, 1)).find(|values| values.len() <= most.max(5));
    let major = dense.unwrap_or_else(|| of(&[1.0], stride));
    let minor = if stride == 1 && span < 8.0 { of(&[2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0], 1) } else { Vec::new() };
    Ticks { major: major.into_iter().map(|value| (value, label(value))).collect(), minor, common: None }
}

const MINUTE: f64 = 60.0;
const HOUR: f64 = 3600.0;
const DAY: f64 = 86_400.0;
const MONTH: f64 = 30.44 * DAY;
const YEAR: f64 = 365.25 * DAY;

fn calendar(low: f64, high: f64, most: usize) -> Ticks {
    let rough = (high - low) / most.max(1) as f64;
    if rough > 28.0 * DAY {
        return months(low, high, rough);
    }
    let clock = [
        1.0,
        2.0,
        5.0,
        10.0,
        15.0,
        30.0,
        MINUTE,
        2.0 * MINUTE,
        5.0 * MINUTE,
        10.0 * MINUTE,
        15.0 * MINUTE,
        30.0 * MINUTE,
        HOUR,
        2.0 * HOUR,
        3.0 * HOUR,
        6.0 * HOUR,
        12.0 * HOUR,
        DAY,
        2.0 * DAY,
        7.0 * DAY,
        14.0 * DAY,
        28.0 * DAY,
    ];
    let step = if rough < 1.0 {
        round_step(rough)
    } else {
        clock.into_iter().find(|step| *step >= rough).unwrap_or(28.0 * DAY)
    };
    let values = multiples(low, high, step);
    let one_day = (low / DAY).floor() == (high / DAY).floor();
    let decimals = (-(step.log10() + 1e-9).floor()).clamp(0.0, 9.0) as usize;
    let label = |value: f64| {
        let (day, second) = ((value / DAY).floor(), value.rem_euclid(DAY));
        let (year, month, date) = civil(day as i64);
        let minutes = (second / MINUTE).floor() as i64;
        let time = format!("{:02}:{:02}", minutes / 60, minutes % 60);
        let seconds = second - minutes as f64 * MINUTE;
        let width = if decimals > 0 { decimals + 3 } else { 2 };
        match step {
            step if step >= DAY => format!("{year:04}-{month:02}-{date:02}"),
            step if step < MINUTE => format!("{time}:{seconds:0width$.decimals$}"),
            _ if one_day => time,
            _ => format!("{month:02}-{date:02} {time}"),
        }
    };
    let (year, month, date) = civil((low / DAY).floor() as i64);
    let common = match (one_day, step < DAY) {
        (true, true) => Some(format!("{year:04}-{month:02}-{date:02}")),
        (false, true) if step >= MINUTE => Some(format!("{year:04}")),
        _ => None,
    };
    Ticks { major: values.into_iter().map(|value| (value, label(value))).collect(), minor: Vec::new(), common }
}

fn months(low: f64, high: f64, rough: f64) -> Ticks {
    let step = match rough / MONTH {
        step if step <= 1.0 => 1,
        step if step <= 3.0 => 3,
        step if step <= 6.0 => 6,
        _ => 12 * round_step(rough / YEAR).max(1.0) as i64,
    };
    let (first_year, ..) = civil((low / DAY).floor() as i64);
    let (last_year, ..) = civil((high / DAY).floor() as i64);
    let all = (first_year * 12..=last_year * 12 + 11).filter(|month| month.rem_euclid(step) == 0);
    let moments = all.map(|month| (days(month.div_euclid(12), month.rem_euclid(12) + 1) as f64 * DAY, month));
    let within = moments.filter(|(value, _)| (low..=high).contains(value));
    let label = |month: i64| match step < 12 {
        true => format!("{:04}-{:02}", month.div_euclid(12), month.rem_euclid(12) + 1),
        false => format!("{:04}", month.div_euclid(12)),
    };
    Ticks { major: within.map(|(value, month)| (value, label(month))).collect(), minor: Vec::new(), common: None }
}

/// Year, month and day of the proleptic Gregorian calendar from days since 1970
/// (Hinnant, "chrono-compatible low-level date algorithms").
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Days since 1970 of a month's first day: the inverse of [`civil`].
fn days(year: i64, month: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// A whole number as text.
pub(crate) fn whole(value: f64) -> String {
    grouped(&format!("{value:.0}"))
}

/// With commas between groups of three digits where there are five and more before the point, and
/// a true minus sign.
fn grouped(number: &str) -> String {
    let digits = number.bytes().take_while(|byte| matches!(byte, b'-' | b'0'..=b'9')).count();
    let (whole, rest) = number.split_at(digits);
    let size = whole.trim_start_matches('-').len();
    let mut text = String::with_capacity(number.len() + size / 3);
    for (place, letter) in whole.chars().enumerate() {
        let left = whole.len() - place;
        if size > 4 && left < size && left % 3 == 0 {
            text.push(',');
        }
        text.push(letter);
    }
    minus(&(text + rest))
}

/// With a true minus sign.
fn minus(number: &str) -> String {
    number.replace('-', "−")
}

fn superscript(exponent: i32) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let digit = |c: char| c.to_digit(10).map_or('⁻', |digit| DIGITS[digit as usize]);
    exponent.to_string().chars().map(digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: Scale, low: f64, high: f64) -> Vec<String> {
        ticks(scale, low, high, 6).major.into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn linear_marks_are_round() {
        assert_eq!(labels(Scale::Linear, 0.0, 1.0), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(Scale::Linear, -12.0, 17.0), ["−10", "−5", "0", "5", "10", "15"]);
        let small = ticks(Scale::Linear, 0.0, 4.2e-5, 5);
        assert_eq!(small.common.as_deref(), Some("×10⁻⁵"));
        assert_eq!(small.major[1].1, "1");
        assert_eq!(labels(Scale::Linear, 635_900.0, 637_100.0)[..2], ["636,000", "636,200"]);
        assert_eq!(labels(Scale::Linear, -20_000.0, 0.0)[..2], ["−20,000", "−15,000"]);
        assert_eq!(labels(Scale::Linear, 0.0, 6000.0)[1], "1000");
        let large = ticks(Scale::Linear, 0.0, 2.4e6, 5);
        assert_eq!((large.common.as_deref(), large.major[1].1.as_str()), (Some("×10⁶"), "0.5"));
    }

    #[test]
    fn marks_lie_within_and_ascend() {
        for (low, high) in [(0.0, 1.0), (-1e300, 1e300), (1e-300, 2e-300), (1e9, 1e9 + 1.0), (-0.001, 0.0)] {
            for scale in [Scale::Linear, Scale::Calendar] {
                if scale == Scale::Calendar && high > 1e12 {
                    continue;
                }
                let ticks = ticks(scale, low, high, 7);
                assert!(ticks.major.len() <= 9, "{low} {high}: {}", ticks.major.len());
                assert!(ticks.major.windows(2).all(|pair| pair[0].0 < pair[1].0));
                let slack = (high - low) * 1e-5;
                assert!(ticks.major.iter().all(|(value, _)| (low - slack..=high + slack).contains(value)));
            }
        }
    }

    #[test]
    fn logarithmic_marks() {
        assert_eq!(labels(Scale::Log, 0.009, 200.0), ["0.01", "0.1", "1", "10", "100"]);
        assert_eq!(labels(Scale::Log, 1e-6, 5e-5), ["10⁻⁶", "2·10⁻⁶", "5·10⁻⁶", "10⁻⁵", "2·10⁻⁵", "5·10⁻⁵"]);
        assert_eq!(labels(Scale::Log, 1.0, 400.0), ["1", "3", "10", "30", "100", "300"]);
        assert_eq!(labels(Scale::Log, 1e-6, 2.1e-5), ["10⁻⁶", "2·10⁻⁶", "5·10⁻⁶", "10⁻⁵", "2·10⁻⁵"]);
        assert_eq!(labels(Scale::Log, 1.0, 1e12), ["10⁰", "10³", "10⁶", "10⁹", "10¹²"]);
        assert_eq!(labels(Scale::Log, 20.0, 30.0).first().map(String::as_str), Some("20"));
    }

    #[test]
    fn dates() {
        let day = days(2024, 3) as f64 * DAY;
        assert_eq!(civil(days(2024, 3)), (2024, 3, 1));
        assert_eq!(civil(-1), (1969, 12, 31));
        assert_eq!(labels(Scale::Calendar, day, day + 2.5 * HOUR)[..2], ["00:00", "00:30"]);
        assert_eq!(ticks(Scale::Calendar, day, day + 2.0 * HOUR, 6).common.as_deref(), Some("2024-03-01"));
        assert_eq!(labels(Scale::Calendar, day, day + 10.0 * DAY)[1], "2024-03-04");
        assert_eq!(labels(Scale::Calendar, day, day + 200.0 * DAY)[..2], ["2024-04", "2024-07"]);
        assert_eq!(labels(Scale::Calendar, 0.0, 50.0 * YEAR)[..2], ["1970", "1980"]);
        assert_eq!(labels(Scale::Calendar, day, day + 1.0)[1], "00:00:00.2");
    }
}
