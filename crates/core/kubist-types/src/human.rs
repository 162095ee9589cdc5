//! Numbers for people, as all interfaces print them: grouped digits, binary units, short durations.

/// `1234567` as `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `1 row`, `2 rows`.
pub fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

/// A finite number, plain or in percent: `0.01` or `1%`.
pub fn number_or_percent(text: &str) -> Option<f64> {
    let text = text.trim();
    let (number, divisor) = match text.strip_suffix('%') {
        Some(percent) => (percent.trim(), 100.0),
        None => (text, 1.0),
    };
    number.parse::<f64>().ok().filter(|number| number.is_finite()).map(|number| number / divisor)
}

/// `1536` as `1.5 KiB`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut size = bytes as f64;
    let mut unit = "B";
    for next in UNITS {
        if size < 1023.5 {
            break;
        }
        size /= 1024.0;
        unit = next;
    }
    if size < 99.95 { format!("{size:.1} {unit}") } else { format!("{size:.0} {unit}") }
}

/// A rate with a metric prefix: `2.13 M`.
pub fn rate(per_second: f64) -> String {
    match per_second {
        r if !r.is_finite() => "–".to_string(),
        r if r >= 999_500_000.0 => format!("{:.2} G", r / 1e9),
        r if r >= 999_500.0 => format!("{:.2} M", r / 1e6),
        r if r >= 999.5 => format!("{:.0} k", r / 1e3),
        r => format!("{r:.0}"),
    }
}

/// `0.0123` as `12.3 ms`, `75` as `1:15`.
pub fn duration(seconds: f64) -> String {
    if seconds < 0.9995 {
        format!("{:.1} ms", seconds * 1e3)
    } else if seconds < 59.95 {
        format!("{seconds:.1} s")
    } else {
        if !seconds.is_finite() {
            return "–".to_string();
        }
        let whole = seconds.round() as u64;
        match whole / 3600 {
            0 => format!("{}:{:02}", whole / 60, whole % 60),
            hours => format!("{hours}:{:02}:{:02}", whole / 60 % 60, whole % 60),
        }
    }
}

/// A fraction with three significant digits: `0.145`, `1`, `2.5e-6`.
pub fn fraction(value: f64) -> String {
    if value == 0.0 || value == 1.0 || !value.is_finite() {
        return value.to_string();
    }
    if value.abs() < 1e-4 {
        return format!("{value:.2e}");
    }
    let decimals = (2 - value.abs().log10().floor() as i32).max(0) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

/// An integer with all digits, any other number with at most seven: `0.1273`, `481,000`, `3.02e-7`.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return value.to_string();
    }
    if value.fract() == 0.0 && value.abs() < 1e15 {
        return grouped(&(value + 0.0).to_string());
    }
    // Parsing gives the shortest decimal form of the rounded number.
    let rounded = format!("{value:.6e}").parse::<f64>().unwrap_or(value);
    match exponent(rounded) {
        PLAIN_FROM..PLAIN_TO => grouped(&rounded.to_string()),
        _ => format!("{rounded:e}"),
    }
}

const PLAIN_FROM: i32 = -4;
const PLAIN_TO: i32 = 12;

/// The power of ten of a number's first digit; `i32::MIN` for zero.
fn exponent(value: f64) -> i32 {
    let text = format!("{value:e}");
    text.split_once('e').filter(|_| value != 0.0).and_then(|(_, power)| power.parse().ok()).unwrap_or(i32::MIN)
}

/// Inserts commas before the decimal point.
pub fn grouped(number: &str) -> String {
    let (sign, digits) = number.split_at(usize::from(number.starts_with('-')));
    let (whole, rest) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    if whole.is_empty() || !whole.bytes().all(|digit| digit.is_ascii_digit()) {
        return number.into();
    }
    let groups = whole.as_bytes().rchunks(3).rev().map(|group| group.iter().map(|digit| char::from(*digit)));
    let groups: Vec<String> = groups.map(Iterator::collect).collect();
    format!("{sign}{}{rest}", groups.join(","))
}

/// Formats numbers with the same decimals and power of ten, which show two significant digits of `error`, the
/// error of one number.
pub fn same_decimals(numbers: &[f64], error: f64) -> Vec<String> {
    let finite = || numbers.iter().copied().filter(|number| number.is_finite());
    let highest = finite().map(exponent).max().unwrap_or(0);
    if !(error.is_finite() && error > 0.0) || highest == i32::MIN {
        return numbers.iter().map(|value| number(*value)).collect();
    }
    // Rounding first: an error of 0.0996 is shown as 0.10.
    let last = exponent(format!("{error:.1e}").parse().unwrap_or(error)) - 1;
    let power = if (PLAIN_FROM..PLAIN_TO).contains(&highest) { 0 } else { highest };
    // A double has at most 17 significant digits.
    let decimals = (power - last).clamp(0, (power - highest + 17).max(0)) as usize;
    let step = 10f64.powi(last.max(0));
    let shown = |value: &f64| match (value.is_finite(), power) {
        (false, _) => value.to_string(),
        (true, 0) if last > 0 => grouped(&fixed((value / step).round() * step, 0)),
        (true, 0) => grouped(&fixed(*value, decimals)),
        (true, _) => format!("{}e{power}", fixed(over(*value, power), decimals)),
    };
    numbers.iter().map(shown).collect()
}

/// Divides by a power of ten in two steps, because the divisor may be subnormal.
fn over(value: f64, power: i32) -> f64 {
    const SUBNORMAL: i32 = -300;
    match power < SUBNORMAL {
        true => value * 10f64.powi(-SUBNORMAL) / 10f64.powi(power - SUBNORMAL),
        false => value / 10f64.powi(power),
    }
}

fn fixed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    match text.strip_prefix('-') {
        Some(zeros) if zeros.bytes().all(|letter| matches!(letter, b'0' | b'.')) => zeros.into(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(counted(1, "row"), "1 row");
        assert_eq!(counted(2000, "row"), "2,000 rows");
        assert_eq!(bytes(17), "17 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(1024 * 1024 - 1), "1.0 MiB");
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
        assert_eq!(rate(2_130_000.0), "2.13 M");
        assert_eq!(duration(0.0123), "12.3 ms");
        assert_eq!(duration(75.0), "1:15");
        assert_eq!(duration(3675.0), "1:01:15");
        assert_eq!(number(-0.107_877_542_439_382_52), "-0.1078775");
        assert_eq!((number(360.0), number(2e-5)), ("360".to_string(), "2e-5".to_string()));
        assert_eq!((number(20_000_123.0), number(-1234567.89)), ("20,000,123".to_string(), "-1,234,568".to_string()));
        assert_eq!((number(0.0), number(6.02214076e23)), ("0".to_string(), "6.022141e23".to_string()));
        assert_eq!(number(-0.0), "0");
        assert_eq!((number(f64::NAN), number(f64::NEG_INFINITY)), ("NaN".to_string(), "-inf".to_string()));
        assert_eq!(fraction(0.145_163), "0.145");
        assert_eq!(fraction(0.01), "0.01");
        assert_eq!(fraction(1.0), "1");
        assert_eq!(fraction(0.000_002_5), "2.50e-6");
    }

    #[test]
    fn numbers_have_the_digits_of_their_error() {
        assert_eq!(same_decimals(&[12.34567, 0.0457], 0.0457), ["12.346", "0.046"]);
        assert_eq!(same_decimals(&[3.0213e-7, 2.64e-8], 2.64e-8), ["3.02e-7", "0.26e-7"]);
        assert_eq!(same_decimals(&[1234567.0, 4567.0], 4567.0), ["1,234,600", "4,600"]);
        assert_eq!(same_decimals(&[0.5, 0.0996], 0.0996), ["0.50", "0.10"]);
        assert_eq!(same_decimals(&[0.0, 36.0], 36.0), ["0", "36"]);
        assert_eq!(same_decimals(&[-2.5e20, 1e19], 1e19), ["-2.50e20", "0.10e20"]);
        assert_eq!(same_decimals(&[1.0, 1e-300], 1e-300), ["1.00000000000000000", "0.00000000000000000"]);
        assert_eq!(same_decimals(&[1.5, f64::INFINITY], f64::INFINITY), ["1.5", "inf"]);
        assert_eq!(same_decimals(&[1e-320, 2e-321], 2e-321), ["1.00e-320", "0.20e-320"]);
        assert_eq!(same_decimals(&[f64::MAX, 1e307], 1e307), ["1.80e308", "0.10e308"]);
        assert_eq!(same_decimals(&[0.0, 0.0], 0.0), ["0", "0"]);
    }

    #[test]
    fn zero_has_no_sign() {
        assert_eq!(same_decimals(&[-30.0, 2900.0], 2900.0), ["0", "2,900"]);
        assert_eq!(same_decimals(&[-0.004, 0.5], 0.5), ["0.00", "0.50"]);
        assert_eq!(same_decimals(&[-1e17, 1e20], 1e20), ["0.0e20", "1.0e20"]);
        assert_eq!(same_decimals(&[-0.06, 0.5], 0.5), ["-0.06", "0.50"]);
    }
}
