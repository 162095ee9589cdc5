//! Marks of an axis and their labels, where any two numbers give only a few marks, all finite.

use kubist_types::steps::{LEAST, MARKS, Step, marks, resolution};

/// The mapping from values to an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// Linear.
    Linear,
    /// Logarithmic, for positive values.
    Log,
    /// Seconds since 1970-01-01, shown as dates and times.
    Calendar,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Ticks {
    pub major: Vec<(f64, String)>,
    pub minor: Vec<f64>,
    /// The common part of all labels: a power of ten or a date.
    pub common: Option<String>,
}

/// About `most` marks between `low` and `high`; none unless these are finite and ascending.
pub(crate) fn ticks(scale: Scale, low: f64, high: f64, most: usize) -> Ticks {
    if !(low.is_finite() && high.is_finite() && low < high) {
        return Ticks::default();
    }
    match scale {
        Scale::Linear => linear(low, high, most),
        Scale::Log => logarithmic(low.max(LEAST), high.max(LEAST), most),
        Scale::Calendar => calendar(low, high, most),
    }
}

pub(crate) fn shown(step: Step) -> String {
    let (digits, power) = step.shortest();
    power_text(digits.into(), power, (-3..=4).contains(&power))
}

/// A plain number, or a number with a power of ten.
fn power_text(digits: i64, power: i32, is_plain: bool) -> String {
    match (is_plain, power, digits) {
        (true, 0.., _) => format!("{digits}{}", "0".repeat(power as usize)),
        (true, ..) => format!("{:.*}", power.unsigned_abs() as usize, digits as f64 / 10f64.powi(-power)),
        (_, _, 1) => format!("10{}", superscript(power)),
        _ => format!("{digits}·10{}", superscript(power)),
    }
}

fn linear(low: f64, high: f64, most: usize) -> Ticks {
    const FEWEST: usize = 3;
    let (step, values) = marks(low, high, most, FEWEST);
    let largest = low.abs().max(high.abs());
    let exponent = if (1e-3..1e6).contains(&largest) { 0 } else { largest.log10().floor() as i32 };
    let label = |count: i64| grouped(&step.text(count, exponent));
    Ticks {
        major: values.into_iter().map(|(count, value)| (value, label(count))).collect(),
        minor: Vec::new(),
        common: (exponent != 0).then(|| format!("×10{}", superscript(exponent))),
    }
}

fn logarithmic(low: f64, high: f64, most: usize) -> Ticks {
    let (first, last) = (low.log10().floor() as i32, high.log10().floor() as i32);
    let span = high.log10() - low.log10();
    if span < 0.7 {
        return linear(low, high, most);
    }
    let decades = (last - low.log10().ceil() as i32 + 1).max(0) as usize;
    let stride = decades.div_ceil(most.max(1)).max(1);
    let is_plain = low >= 0.999e-3 && high <= 1.001e4;
    let value = |(digits, power): (i64, i32)| format!("{digits}e{power}").parse::<f64>().unwrap_or(f64::NAN);
    let within = |at: &(i64, i32)| {
        let value = value(*at);
        value.is_finite() && value >= low * (1.0 - 1e-9) && value * (1.0 - 1e-9) <= high
    };
    let of = |digits: &[i64], every: usize| {
        let powers = (first..=last).filter(move |power| power.rem_euclid(every as i32) == 0);
        powers.flat_map(|power| digits.iter().map(move |digits| (*digits, power))).filter(within).collect::<Vec<_>>()
    };
    let dense: [&[i64]; 2] = [&[1, 2, 5], &[1, 3]];
    let dense = dense.into_iter().map(|digits| of(digits, 1)).find(|values| values.len() <= most.max(5));
    let major = dense.unwrap_or_else(|| of(&[1], stride));
    let minor = if stride == 1 && span < 8.0 { of(&[2, 3, 4, 5, 6, 7, 8, 9], 1) } else { Vec::new() };
    Ticks {
        major: major.into_iter().map(|at| (value(at), power_text(at.0, at.1, is_plain))).collect(),
        minor: minor.into_iter().map(value).collect(),
        common: None,
    }
}

const MINUTE: f64 = 60.0;
const HOUR: f64 = 3600.0;
const DAY: f64 = 86_400.0;
const MONTH: f64 = 30.44 * DAY;
const YEAR: f64 = 365.25 * DAY;

/// Largest timestamp in seconds.
const LAST: f64 = 9.2e18;
/// The finest timestamp.
const NANOSECOND: f64 = 1e-9;

#[derive(Clone, Copy)]
struct Moment {
    value: f64,
    second: i64,
    nanoseconds: i64,
}

fn calendar(low: f64, high: f64, most: usize) -> Ticks {
    let (low, high) = (low.clamp(-LAST, LAST), high.clamp(-LAST, LAST));
    if low >= high {
        return Ticks::default();
    }
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
    let least = rough.max(resolution(low, high));
    let (step, decimals, moments) = if least < 1.0 {
        let step = Step::at_least(least.max(NANOSECOND), MARKS);
        let (digits, power) = step.shortest();
        let units = 10i64.pow(power.unsigned_abs().min(9));
        let moment = |(count, value): (i64, f64)| {
            let parts = count * i64::from(digits);
            let nanoseconds = parts.rem_euclid(units) * (1_000_000_000 / units);
            Moment { value, second: parts.div_euclid(units), nanoseconds }
        };
        let moments: Vec<Moment> = step.within(low, high).into_iter().map(moment).collect();
        (step.value(), power.unsigned_abs() as usize, moments)
    } else {
        let step = clock.into_iter().find(|step| *step >= least).unwrap_or(28.0 * DAY);
        let (first, last) = ((low / step).ceil() as i64, (high / step).floor() as i64);
        let seconds = (first..=last).map(|count| count * step as i64);
        let moments = seconds.map(|second| Moment { value: second as f64, second, nanoseconds: 0 });
        (step, 0, moments.collect())
    };
    let one_day = (low / DAY).floor() == (high / DAY).floor();
    let label = |Moment { second, nanoseconds, .. }: &Moment| {
        let (day, second) = (second.div_euclid(DAY as i64), second.rem_euclid(DAY as i64));
        let (_, month, date) = civil(day);
        let time = format!("{:02}:{:02}", second / 3600, second / 60 % 60);
        let fraction = format!("{nanoseconds:09}");
        match step {
            step if step >= DAY => date_text(day),
            step if step < 1.0 => format!("{time}:{:02}.{}", second % 60, &fraction[..decimals]),
            step if step < MINUTE => format!("{time}:{:02}", second % 60),
            _ if one_day => time,
            _ => format!("{month:02}-{date:02} {time}"),
        }
    };
    let first_day = (low / DAY).floor() as i64;
    let common = match (one_day, step < DAY) {
        (true, true) => Some(date_text(first_day)),
        (false, true) if step >= MINUTE => Some(year_text(civil(first_day).0)),
        _ => None,
    };
    Ticks { major: moments.iter().map(|moment| (moment.value, label(moment))).collect(), minor: Vec::new(), common }
}

fn date_text(day: i64) -> String {
    let (year, month, date) = civil(day);
    format!("{}-{month:02}-{date:02}", year_text(year))
}

fn year_text(year: i64) -> String {
    format!("{}{:04}", if year < 0 { "−" } else { "" }, year.abs())
}

fn months(low: f64, high: f64, rough: f64) -> Ticks {
    let step = match rough / MONTH {
        step if step <= 1.0 => 1,
        step if step <= 3.0 => 3,
        step if step <= 6.0 => 6,
        _ => 12 * Step::at_least((rough / YEAR).max(1.0), MARKS).value() as i64,
    };
    let month_of = |moment: f64| {
        let (year, month, _) = civil((moment / DAY).floor() as i64);
        year * 12 + month - 1
    };
    let (first, last) = (month_of(low).div_euclid(step), month_of(high).div_euclid(step));
    let all = (first..=last).map(|count| count * step);
    let moments = all.map(|month| (days(month.div_euclid(12), month.rem_euclid(12) + 1) as f64 * DAY, month));
    let within = moments.filter(|(value, _)| (low..=high).contains(value));
    let label = |month: i64| match (year_text(month.div_euclid(12)), step < 12) {
        (year, true) => format!("{year}-{:02}", month.rem_euclid(12) + 1),
        (year, false) => year,
    };
    Ticks { major: within.map(|(value, month)| (value, label(month))).collect(), minor: Vec::new(), common: None }
}

/// Year, month and day of the proleptic Gregorian calendar from days since 1970 (Hinnant, "chrono-compatible
/// low-level date algorithms").
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

/// The inverse of [`civil`] for the first day of a month.
fn days(year: i64, month: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

pub(crate) fn whole(value: f64) -> String {
    grouped(&format!("{value:.0}"))
}

/// Commas group the integer part from five digits on, and the minus sign is a true one.
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
    use proptest::prelude::*;

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

    fn numbers() -> impl Strategy<Value = f64> {
        const EXTREMES: [f64; 9] =
            [0.0, LEAST, -LEAST, f64::MAX, f64::MIN, 9.3e18, -9.3e18, 9_007_199_254_740_992.0, 1.7e9];
        let of_bits = any::<u64>().prop_map(f64::from_bits).prop_filter("finite", |number| number.is_finite());
        prop_oneof![prop::sample::select(&EXTREMES[..]), of_bits, -1e10..1e10f64]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]

        #[test]
        fn marks_are_few_finite_and_ascending(a in numbers(), b in numbers(), ulps in 0u8..3, most in 1usize..14) {
            let b = if ulps > 0 { (0..ulps).fold(a, |b, _| b.next_up()) } else { b };
            let (low, high) = (a.min(b), a.max(b));
            for scale in [Scale::Linear, Scale::Log, Scale::Calendar] {
                let Ticks { major, minor, common } = ticks(scale, low, high, most);
                prop_assert!(major.len() <= 4 * most + 12 && minor.len() < 100, "{scale:?}: {major:?}");
                for found in [major.iter().map(|(value, _)| *value).collect(), minor] {
                    prop_assert!(found.iter().all(|value| value.is_finite()), "{scale:?}: {found:?}");
                    prop_assert!(found.windows(2).all(|pair| pair[0] < pair[1]), "{scale:?}: {found:?}");
                    let slack = (high / 2.0 - low / 2.0) * 1e-4 + resolution(low, high);
                    let slack = if scale == Scale::Calendar { slack + NANOSECOND } else { slack };
                    let is_within = |value: &f64| *value >= low - slack && *value <= high + slack;
                    let skipped = scale == Scale::Log && low <= 0.0;
                    prop_assert!(skipped || found.iter().all(is_within), "{scale:?}: {found:?}");
                }
                let mut labels: Vec<&String> = major.iter().map(|(_, label)| label).collect();
                labels.dedup();
                prop_assert_eq!(labels.len(), major.len(), "{:?}: {:?} {:?}", scale, &major, common);
            }
        }
    }

    #[test]
    fn extreme_ranges_have_marks() {
        let of = |low, high| ticks(Scale::Linear, low, high, 5);
        assert_eq!(
            of(0.0, f64::MAX).major.iter().map(|(value, _)| *value).collect::<Vec<_>>(),
            [0.0, 5e307, 1e308, 1.5e308]
        );
        assert_eq!(of(f64::MIN, f64::MAX).common.as_deref(), Some("×10³⁰⁸"));
        assert_eq!(
            of(f64::MIN, f64::MAX).major.iter().map(|(_, label)| label.as_str()).collect::<Vec<_>>(),
            ["−1", "0", "1"]
        );
        assert_eq!(of(0.0, 1e-323).major.iter().map(|(_, label)| label.as_str()).collect::<Vec<_>>(), ["0", "5", "10"]);
        assert_eq!(labels(Scale::Log, LEAST, f64::MAX)[0], "10⁻³¹⁸");
        let ends = ticks(Scale::Calendar, -9.223e18, 9.223e18, 5);
        assert_eq!(ends.major[0].1, "−200000000000");
        // Labels of close marks differ.
        assert_eq!(labels(Scale::Linear, 1.0, 1.0 + 2e-12)[1], "1.0000000000005");
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
