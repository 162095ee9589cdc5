//! Dates and times of day in ISO 8601, exact to any fraction of a second.
//!
//! Text without an offset is UTC, because stored instants are UTC and a zone only affects display.

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Moment {
    /// Nanoseconds since 1970-01-01T00:00:00Z, or since midnight.
    pub nanoseconds: i128,
    /// There are digits below nanoseconds.
    pub finer: bool,
    pub of_day: bool,
}

pub(crate) const SECOND: i128 = 1_000_000_000;
pub(crate) const DAY: i128 = 86_400 * SECOND;

const LONGEST: usize = 256;

impl Moment {
    /// Reads `2020-01-31`, `2020-01-31T12:00`, `2020-01-31 12:00:00.25+01:00`, `12:00:00`. Years have four
    /// digits, or up to nine after a sign.
    pub(crate) fn parse(text: &str) -> Option<Moment> {
        // A text may be parsed again for each of many columns.
        if text.len() > LONGEST {
            return None;
        }
        let text = text.trim();
        if !text.is_ascii() {
            return None;
        }
        let Some((days, rest)) = date(text) else {
            let (nanoseconds, finer, rest) = clock(text)?;
            return rest.is_empty().then_some(Moment { nanoseconds, finer, of_day: true });
        };
        let midnight = days as i128 * DAY;
        if rest.is_empty() {
            return Some(Moment { nanoseconds: midnight, finer: false, of_day: false });
        }
        let rest = rest.strip_prefix(['T', 't', ' '])?;
        let (since_midnight, finer, rest) = clock(rest)?;
        let nanoseconds = midnight + since_midnight - offset(rest.trim_start())?;
        Some(Moment { nanoseconds, finer, of_day: false })
    }
}

fn digits(text: &str, count: usize) -> Option<(i64, &str)> {
    let head = text.get(..count)?;
    if count == 0 || !head.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some((head.parse().ok()?, &text[count..]))
}

fn date(text: &str) -> Option<(i64, &str)> {
    let (sign, unsigned) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    let length = unsigned.find('-')?;
    let signed = unsigned.len() < text.len();
    if length != 4 && !(signed && (4..=9).contains(&length)) {
        return None;
    }
    let (year, rest) = digits(unsigned, length)?;
    let (month, rest) = digits(rest.strip_prefix('-')?, 2)?;
    let (day, rest) = digits(rest.strip_prefix('-')?, 2)?;
    let year = sign * year;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let month_days = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    (1..=month_days).contains(&day).then(|| (days_since_epoch(year, month, day), rest))
}

/// Days since 1970-01-01 in the proleptic Gregorian calendar. Eras of 400 years have 146,097 days; years start
/// in March, so that leap days come last.
pub(crate) fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

pub(crate) fn month_of(days: i64) -> (i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month)
}

/// Nanoseconds since midnight, whether there are digits below them, and the text after `hh:mm[:ss[.fraction]]`.
fn clock(text: &str) -> Option<(i128, bool, &str)> {
    let (hours, rest) = digits(text, 2)?;
    let (minutes, rest) = digits(rest.strip_prefix(':')?, 2)?;
    let (seconds, rest) = match rest.strip_prefix(':') {
        Some(rest) => digits(rest, 2)?,
        None => (0, rest),
    };
    if hours > 23 || minutes > 59 || seconds > 59 {
        return None;
    }
    let whole = (hours * 3600 + minutes * 60 + seconds) as i128 * SECOND;
    let Some(rest) = rest.strip_prefix('.') else {
        return Some((whole, false, rest));
    };
    let length = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (fraction, rest) = rest.split_at(length);
    if fraction.is_empty() {
        return None;
    }
    let (kept, lost) = fraction.split_at(length.min(9));
    let nanoseconds: i128 = format!("{kept:0<9}").parse().ok()?;
    Some((whole + nanoseconds, lost.bytes().any(|byte| byte != b'0'), rest))
}

/// The offset from UTC in nanoseconds: nothing, `Z`, `+hh[[:]mm]`.
fn offset(text: &str) -> Option<i128> {
    let (sign, rest) = match text.as_bytes().first() {
        None => return Some(0),
        Some(b'Z' | b'z') if text.len() == 1 => return Some(0),
        Some(b'+') => (1, &text[1..]),
        Some(b'-') => (-1, &text[1..]),
        _ => return None,
    };
    let (hours, rest) = digits(rest, 2)?;
    let rest = rest.strip_prefix(':').unwrap_or(rest);
    let minutes = if rest.is_empty() { 0 } else { digits(rest, 2).filter(|(_, rest)| rest.is_empty())?.0 };
    (hours <= 23 && minutes <= 59).then_some(sign * (hours * 3600 + minutes * 60) as i128 * SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nanoseconds(text: &str) -> Option<i128> {
        Moment::parse(text).map(|moment| moment.nanoseconds)
    }

    #[test]
    fn reads_what_calendars_say() {
        assert_eq!(nanoseconds("1970-01-01"), Some(0));
        assert_eq!(nanoseconds("1969-12-31T23:59:59Z"), Some(-SECOND));
        assert_eq!(nanoseconds("2000-03-01"), Some(11_017 * DAY));
        assert_eq!(nanoseconds("2020-02-29 00:00"), Some(18_321 * DAY));
        assert_eq!(nanoseconds("0000-01-01"), Some(-719_528 * DAY));
        assert_eq!(nanoseconds("+12020-01-01"), nanoseconds("2020-01-01").map(|n| n + 25 * 146_097 * DAY));
        assert_eq!(nanoseconds("1970-01-01T01:00:00.5+01:00"), Some(SECOND / 2));
        assert_eq!(nanoseconds("1970-01-01T00:00:00 -0130"), Some(5400 * SECOND));
        assert_eq!(nanoseconds("12:30"), Some(45_000 * SECOND));
        let fine = Moment::parse("00:00:00.0000000001").unwrap();
        assert_eq!((fine.nanoseconds, fine.finer, fine.of_day), (0, true, true));
    }

    #[test]
    fn months_are_those_of_their_days() {
        for (year, month) in (-2_000..4_000).step_by(7).flat_map(|year| (1..=12).map(move |month| (year, month))) {
            let first = days_since_epoch(year, month, 1);
            assert_eq!((month_of(first), month_of(first + 27)), ((year, month), (year, month)));
            assert_eq!(month_of(first - 1), if month == 1 { (year - 1, 12) } else { (year, month - 1) });
        }
    }

    #[test]
    fn refuses_what_calendars_do_not_know() {
        for text in [
            "",
            "2020",
            "2020-1-1",
            "2020-13-01",
            "2021-02-29",
            "1900-02-29",
            "2020-01-01T",
            "2020-01-01T25:00",
            "2020-01-01T12:00:60",
            "2020-01-01x",
            "2020-01-01T12:00:00.",
            "2020-01-01T12:00+1",
            "12:00Z",
            "20200-01-01",
            "2020-01-01T12:00+01:000",
            "-",
            "é2020-01-01",
        ] {
            assert_eq!(Moment::parse(text), None, "{text}");
        }
    }
}
