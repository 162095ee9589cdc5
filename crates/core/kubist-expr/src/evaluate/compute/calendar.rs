//! Fields of dates and times, and sums of times and intervals.

use crate::bound::Part;
use crate::moment::{DAY, SECOND, days_since_epoch, month_of};

/// A field of a date or time; `unit` is the unit of `value` in nanoseconds.
pub(super) fn part(part: Part, unit: i128, value: i128) -> i128 {
    let nanoseconds = value * unit;
    let of_day = nanoseconds.rem_euclid(DAY);
    let of_minute = of_day % (60 * SECOND);
    match part {
        Part::Hour => of_day / (3_600 * SECOND),
        Part::Minute => of_day / (60 * SECOND) % 60,
        Part::Second => of_minute / SECOND,
        Part::Millisecond => of_minute / 1_000_000,
        Part::Microsecond => of_minute / 1_000,
        Part::Nanosecond => of_minute,
        _ => i128::from(of_date(part, nanoseconds.div_euclid(DAY) as i64)),
    }
}

fn of_date(part: Part, days: i64) -> i64 {
    // 1970-01-01 was a Thursday.
    let iso_day_of_week = (days + 3).rem_euclid(7) + 1;
    let (year, month) = month_of(days);
    match part {
        Part::Century if year > 0 => (year - 1) / 100 + 1,
        Part::Century => year / 100 - 1,
        Part::Decade => year / 10,
        Part::Year => year,
        Part::Quarter => (month - 1) / 3 + 1,
        Part::Month => month,
        Part::Day => days - days_since_epoch(year, month, 1) + 1,
        Part::DayOfYear => days - days_since_epoch(year, 1, 1) + 1,
        Part::DayOfWeek => iso_day_of_week % 7,
        Part::IsoDayOfWeek => iso_day_of_week,
        // A week belongs to the year of its Thursday.
        Part::IsoYear | Part::Week => {
            let thursday = days + 4 - iso_day_of_week;
            let (year, _) = month_of(thursday);
            if part == Part::IsoYear { year } else { (thursday - days_since_epoch(year, 1, 1)) / 7 + 1 }
        }
        Part::Hour | Part::Minute | Part::Second | Part::Millisecond | Part::Microsecond | Part::Nanosecond => 0,
    }
}

/// Adds months, and then units. A day that the new month lacks becomes its last day. `None` if the result is out of
/// range.
pub(crate) fn shifted(value: i128, months: i128, units: i128, day: i128) -> Option<i128> {
    if months == 0 {
        return value.checked_add(units);
    }
    let days = i64::try_from(value.div_euclid(day)).ok()?;
    let (year, month) = month_of(days);
    let day_of_month = days - days_since_epoch(year, month, 1);
    let moved = i64::try_from(months).ok().filter(|months| months.abs() < 1 << 40)?;
    let since = year.checked_mul(12)? + month - 1 + moved;
    let first = |since: i64| days_since_epoch(since.div_euclid(12), since.rem_euclid(12) + 1, 1);
    let last = first(since + 1) - first(since) - 1;
    let days = first(since) + day_of_month.min(last);
    i128::from(days).checked_mul(day)?.checked_add(value.rem_euclid(day))?.checked_add(units)
}
