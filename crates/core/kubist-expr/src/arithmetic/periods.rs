//! `date_trunc`: rounds dates and times down to the beginning of a period.

use crate::bound::{Compute, Function, Kind, Operand, Period, Step};
use crate::domain::Family;
use crate::error::{ExprError, shortened};
use crate::meaning::{Meaning, computed, describe, family};
use crate::moment::{DAY, SECOND};
use crate::value::Literal;
use arrow_schema::DataType;

const LENGTHS: [(&str, i128); 7] = [
    ("microsecond", SECOND / 1_000_000),
    ("millisecond", SECOND / 1_000),
    ("second", SECOND),
    ("minute", 60 * SECOND),
    ("hour", 3_600 * SECOND),
    ("day", DAY),
    ("week", 7 * DAY),
];

/// Weeks begin on Monday; 1970-01-01 was a Thursday.
const FIRST_MONDAY: i128 = 4 * DAY;

const MONTHS: [(&str, i128); 5] = [("month", 1), ("quarter", 3), ("year", 12), ("decade", 120), ("century", 1_200)];

pub(super) fn truncated(mut operands: Vec<Meaning>) -> Result<Meaning, ExprError> {
    let (time, name) = (operands.pop(), operands.pop());
    let (Some(time), Some(Meaning::Literal(Literal::Text(name))), true) = (time, name, operands.is_empty()) else {
        return Err(ExprError::type_mistake("`date_trunc` takes a period and a time, as in date_trunc('hour', t)"));
    };
    let described = describe(&time);
    let operand = match time {
        Meaning::Literal(Literal::Null) => return Ok(Meaning::Literal(Literal::Null)),
        Meaning::Operand(operand) => *operand,
        _ => return Err(takes_times(&described)),
    };
    let unit = match family(&operand) {
        Family::Null => return Ok(Meaning::Literal(Literal::Null)),
        Family::Instant { unit, .. } => unit,
        _ => return Err(takes_times(&described)),
    };
    let Some(period) = period(&name.to_ascii_lowercase(), unit) else {
        let names = LENGTHS.iter().chain(&MONTHS).map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        return Err(ExprError::type_mistake(format!(
            "date_trunc: there is no period '{}'; the periods are {names}",
            shortened(&name)
        )));
    };
    let stored = stored_type(&operand);
    let step = Step::Call(Function::Truncate(period), vec![computed(operand)]);
    Ok(Operand::Compute(Compute { stored, ..Compute::new(Kind::Int, step) }).into())
}

fn takes_times(found: &str) -> ExprError {
    ExprError::type_mistake(format!("`date_trunc` takes a date or a timestamp, not {found}"))
}

pub(super) fn stored_type(operand: &Operand) -> Option<DataType> {
    match operand {
        Operand::Column(column) => Some(column.data_type.clone()),
        Operand::Compute(compute) => compute.stored.clone(),
        Operand::Text(_) => None,
    }
}

fn period(name: &str, unit: i128) -> Option<Period> {
    let is_it = |known: &&(&str, i128)| known.0 == name || name.strip_suffix('s') == Some(known.0);
    if let Some((_, months)) = MONTHS.iter().find(is_it) {
        return Some(Period::Months { months: *months, day: (DAY / unit).max(1) });
    }
    let (name, length) = LENGTHS.iter().find(is_it)?;
    let offset = if *name == "week" { FIRST_MONDAY / unit } else { 0 };
    Some(Period::Units { length: (length / unit).max(1), offset })
}

/// Months and nanoseconds of a unit of intervals.
pub(super) fn lengths_of(name: &str) -> Option<(i128, i128)> {
    let is_it = |known: &&(&str, i128)| known.0 == name || name.strip_suffix('s') == Some(known.0);
    let months = MONTHS.iter().find(is_it).map(|(_, months)| (*months, 0));
    months.or_else(|| LENGTHS.iter().find(is_it).map(|(_, length)| (0, *length)))
}
