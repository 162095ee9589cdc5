//! `extract`, `date_part` and functions of a single field, such as `year(t)`.

use crate::bound::{Compute, Function, Kind, Operand, Part, Step};
use crate::domain::Family;
use crate::error::{ExprError, shortened};
use crate::meaning::{Meaning, computed, describe, family};
use crate::moment::SECOND;
use crate::value::Literal;

const PARTS: [(&str, Part); 22] = [
    ("century", Part::Century),
    ("decade", Part::Decade),
    ("year", Part::Year),
    ("isoyear", Part::IsoYear),
    ("quarter", Part::Quarter),
    ("month", Part::Month),
    ("week", Part::Week),
    ("weekofyear", Part::Week),
    ("day", Part::Day),
    ("dayofmonth", Part::Day),
    ("dayofyear", Part::DayOfYear),
    ("doy", Part::DayOfYear),
    ("dayofweek", Part::DayOfWeek),
    ("weekday", Part::DayOfWeek),
    ("dow", Part::DayOfWeek),
    ("isodow", Part::IsoDayOfWeek),
    ("hour", Part::Hour),
    ("minute", Part::Minute),
    ("second", Part::Second),
    ("millisecond", Part::Millisecond),
    ("microsecond", Part::Microsecond),
    ("nanosecond", Part::Nanosecond),
];

pub(super) fn part(name: &str) -> Option<Part> {
    PARTS.iter().find(|(known, _)| *known == name).map(|(_, part)| *part)
}

pub(super) fn named(operands: Vec<Meaning>) -> Result<Meaning, ExprError> {
    let Ok([Meaning::Literal(Literal::Text(name)), time]) = <[Meaning; 2]>::try_from(operands) else {
        return Err(ExprError::type_mistake("`date_part` takes a part and a time, as in date_part('hour', t)"));
    };
    let lower = name.to_ascii_lowercase();
    if lower == "epoch" {
        return epoch(vec![time]);
    }
    let Some(part) = part(&lower) else {
        let names = PARTS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        return Err(ExprError::type_mistake(format!(
            "a time has no part '{}'; the parts are {names}, epoch",
            shortened(&name)
        )));
    };
    of(&lower, part, time)
}

pub(super) fn of(name: &str, part: Part, time: Meaning) -> Result<Meaning, ExprError> {
    let Some((operand, unit)) = operand(name, time, is_of_day(part))? else {
        return Ok(Meaning::Literal(Literal::Null));
    };
    let step = Step::Call(Function::Part(part, unit), vec![computed(operand)]);
    Ok(Operand::Compute(Compute::new(Kind::Int, step)).into())
}

/// `epoch(t)`: seconds since 1970-01-01T00:00:00Z, or since midnight.
pub(super) fn epoch(operands: Vec<Meaning>) -> Result<Meaning, ExprError> {
    let Ok([time]) = <[Meaning; 1]>::try_from(operands) else {
        return Err(ExprError::type_mistake("`epoch` takes 1 operand"));
    };
    let Some((operand, unit)) = operand("epoch", time, true)? else { return Ok(Meaning::Literal(Literal::Null)) };
    let count = Compute { stored: None, ..computed(operand) };
    let (function, by) = match unit <= SECOND {
        true => (Function::Divide, SECOND / unit),
        false => (Function::Multiply, unit / SECOND),
    };
    let step = Step::Call(function, vec![count, Compute::new(Kind::F64, Step::Float(by as f64))]);
    Ok(Operand::Compute(Compute::new(Kind::F64, step)).into())
}

fn is_of_day(part: Part) -> bool {
    use Part::{Hour, Microsecond, Millisecond, Minute, Nanosecond, Second};
    matches!(part, Hour | Minute | Second | Millisecond | Microsecond | Nanosecond)
}

/// Returns the operand and its unit in nanoseconds; `None` for null.
pub(super) fn operand(name: &str, time: Meaning, of_day: bool) -> Result<Option<(Operand, i128)>, ExprError> {
    let described = describe(&time);
    let takes_times = || {
        let times = if of_day { "a date, a timestamp or a time" } else { "a date or a timestamp" };
        ExprError::type_mistake(format!("`{name}` takes {times}, not {described}"))
    };
    match time {
        Meaning::Literal(Literal::Null) => Ok(None),
        Meaning::Operand(operand) => match family(&operand) {
            Family::Null => Ok(None),
            Family::Instant { unit, .. } => Ok(Some((*operand, unit))),
            Family::TimeOfDay { unit, .. } if of_day => Ok(Some((*operand, unit))),
            _ => Err(takes_times()),
        },
        _ => Err(takes_times()),
    }
}
