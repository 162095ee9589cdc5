//! Parses fractions, error goals, times, windows and sizes.

use std::num::{IntErrorKind, ParseIntError};

use kubist::Absolute;
use kubist_plot::SIDES;
use kubist_types::human::number_or_percent;

/// A fraction in (0, 1] or in percent.
pub fn fraction(text: &str) -> Result<f64, String> {
    match number(text)? {
        fraction if fraction > 0.0 && fraction <= 1.0 => Ok(fraction),
        _ => Err("a fraction is above 0 and at most 1 (100%)".to_string()),
    }
}

/// A positive fraction, also in percent.
pub fn share(text: &str) -> Result<f64, String> {
    match number(text)? {
        share if share > 0.0 && share.is_finite() => Ok(share),
        _ => Err("a fraction is above 0".to_string()),
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Goal {
    Share(f64),
    Absolute(Absolute),
}

impl Goal {
    pub fn share(&self) -> Option<f64> {
        if let Goal::Share(share) = self { Some(*share) } else { None }
    }

    pub fn absolute(&self) -> Option<Absolute> {
        if let Goal::Absolute(value) = self { Some(value.clone()) } else { None }
    }
}

/// Relative, as `1%` or `0.01`, or absolute, as `0.01 abs` or with a unit, `0.1 mm`.
pub fn goal(text: &str) -> Result<Goal, String> {
    let text = text.trim();
    if text.ends_with('%') || text.parse::<f64>().is_ok() {
        return share(text).map(Goal::Share);
    }
    let begins_with_digit = text.starts_with(|first: char| first.is_ascii_digit() || first == '.');
    match text.strip_suffix("abs").map(|number| number.trim().parse::<f64>()) {
        Some(Ok(value)) if value > 0.0 && value.is_finite() => Ok(Goal::Absolute(Absolute::Number(value))),
        Some(_) => Err(format!("{text:?}: an absolute error is a number above 0, like '0.01 abs'")),
        None if begins_with_digit => Ok(Goal::Absolute(Absolute::Quantity(text.to_owned()))),
        None => Err(format!("{text:?} is not an error (like 0.01, 1%, '0.01 abs' or '0.1 mm')")),
    }
}

/// A plain number is in seconds.
pub fn seconds(text: &str) -> Result<std::time::Duration, String> {
    let seconds = kubist_expr::seconds(text).map_err(|error| error.to_string())?;
    std::time::Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// `LO:HI` with `0 <= LO < HI <= 1`, where a missing bound is 0 or 1.
pub fn window(text: &str) -> Result<(f64, f64), String> {
    let (low, high) = text.split_once(':').ok_or("expected LO:HI")?;
    let low = if low.is_empty() { 0.0 } else { number(low)? };
    let high = if high.is_empty() { 1.0 } else { number(high)? };
    if low >= 0.0 && low < high && high <= 1.0 {
        Ok((low, high))
    } else {
        Err("a window needs 0 <= LO < HI <= 1".to_string())
    }
}

/// A step, or a closed range `LO:HI` of steps, open if a bound is missing.
pub fn steps(text: &str) -> Result<(Option<i64>, Option<i64>), String> {
    let (low, high) = text.split_once(':').unwrap_or((text, text));
    let end = |text: &str| match text.trim() {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| format!("{text:?} is not a step: expected 3, 3:7, :7 or 3:")),
    };
    Ok((end(low)?, end(high)?))
}

/// The reason, without the digits and target types of the standard library.
pub fn why_no_integer(error: &ParseIntError) -> &'static str {
    match error.kind() {
        IntErrorKind::PosOverflow => "the number is too large",
        IntErrorKind::NegOverflow => "the number is too small",
        _ => "expected an integer",
    }
}

/// A number, or a percentage.
fn number(text: &str) -> Result<f64, String> {
    number_or_percent(text).ok_or_else(|| format!("{:?} is not a fraction (like 0.01 or 1%)", text.trim()))
}

/// A size in bytes: `256MiB`, `1GB`, `65536`.
pub fn bytes(text: &str) -> Result<usize, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit: f64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kib" => 1024.0,
        "m" | "mib" => 1024f64.powi(2),
        "g" | "gib" => 1024f64.powi(3),
        "t" | "tib" => 1024f64.powi(4),
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "tb" => 1e12,
        _ => return Err(format!("{text:?} is not a size (like 256MiB)")),
    };
    match number.parse::<f64>() {
        Ok(number) if number * unit >= 1.0 && number * unit < usize::MAX as f64 => Ok((number * unit) as usize),
        _ => Err(format!("{text:?} is not a size (like 256MiB)")),
    }
}

/// Width and height in pixels: `1200x900`.
pub fn size(text: &str) -> Result<(u32, u32), String> {
    match text.split_once(['x', 'X']).map(|(w, h)| (w.parse::<u32>(), h.parse::<u32>())) {
        Some((Ok(width), Ok(height))) if SIDES.contains(&width) && SIDES.contains(&height) => Ok((width, height)),
        _ => Err(format!("expected WIDTHxHEIGHT, each {} to {} pixels", SIDES.start(), SIDES.end())),
    }
}

pub fn frame_rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (0.01..=100.0).contains(&rate) => Ok(rate),
        _ => Err("expected a number of frames per second, 0.01 to 100".to_string()),
    }
}

/// `LO:HI` of numbers; a bound may be missing.
pub fn number_range(text: &str) -> Result<(Option<f64>, Option<f64>), String> {
    let (low, high) = text.split_once(':').ok_or("expected LO:HI")?;
    let end = |text: &str| match text.trim() {
        "" => Ok(None),
        text => text.parse::<f64>().ok().filter(|v| v.is_finite()).map(Some).ok_or(format!("{text:?} is not a number")),
    };
    match (end(low)?, end(high)?) {
        (Some(low), Some(high)) if low >= high => Err("LO must be below HI".to_string()),
        ends => Ok(ends),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_and_windows() {
        assert_eq!(fraction("0.01"), Ok(0.01));
        assert_eq!(fraction("1%"), Ok(0.01));
        assert_eq!(steps("3"), Ok((Some(3), Some(3))));
        assert_eq!(steps("-3:"), Ok((Some(-3), None)));
        assert!(steps("first").is_err());
        assert_eq!(fraction("1"), Ok(1.0));
        assert!(fraction("0").is_err() && fraction("1.5").is_err() && fraction("nan").is_err());
        assert_eq!(window("0:0.1"), Ok((0.0, 0.1)));
        assert_eq!(window("10%:"), Ok((0.1, 1.0)));
        assert!(window("0.5:0.5").is_err() && window("0.5").is_err() && window("-1:0.5").is_err());
    }

    #[test]
    fn sizes_and_ranges() {
        assert_eq!(bytes("256MiB"), Ok(256 << 20));
        assert_eq!(bytes("1.5 GB"), Ok(1_500_000_000));
        assert_eq!(bytes("65536"), Ok(65536));
        assert!(bytes("lots").is_err() && bytes("0").is_err() && bytes("1e3").is_err());
        assert_eq!(size("1200x900"), Ok((1200, 900)));
        assert!(size("10x10").is_err() && size("1200").is_err());
        assert_eq!(number_range("1e-6:"), Ok((Some(1e-6), None)));
        assert!(number_range("2:1").is_err());
    }
}
