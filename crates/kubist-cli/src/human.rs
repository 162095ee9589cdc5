//! Numbers as people read them: grouped digits, binary bytes, short durations.

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

/// A number with at most seven significant digits.
pub fn number(value: f64) -> String {
    // Through text, so that what is printed is the shortest that says as much.
    format!("{value:.6e}").parse::<f64>().map_or(value.to_string(), |rounded| rounded.to_string())
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
        assert_eq!((number(360.0), number(2e-5)), ("360".to_string(), "0.00002".to_string()));
        assert_eq!(fraction(0.145_163), "0.145");
        assert_eq!(fraction(0.01), "0.01");
        assert_eq!(fraction(1.0), "1");
        assert_eq!(fraction(0.000_002_5), "2.50e-6");
    }
}
