//! `t + INTERVAL 3 DAY` adds days, hours or calendar months to a date or a timestamp, whose type the result keeps. 31
//! January plus one month is the last day of February.

use super::parts::operand;
use super::periods::{lengths_of, stored_type};
use crate::bound::{Compute, Function, Kind, Operand, Step};
use crate::error::{ExprError, shortened};
use crate::evaluate::compute::shifted;
use crate::meaning::{Meaning, computed};
use crate::moment::{DAY, Moment};
use crate::number::Number;
use crate::value::Literal;

/// Builds the sum from a date or timestamp, an integer (negative for `t - INTERVAL 3 DAY`) and the name of a unit. If
/// `t` is a constant, so is the result; otherwise it is computed per row.
///
/// # Errors
///
/// [`ExprError::Type`] if an operand has the wrong type, the unit is unknown, or the interval is no multiple of the
/// time's unit, such as an hour for a date.
pub(super) fn added(operands: Vec<Meaning>) -> Result<Meaning, ExprError> {
    let Ok([time, Meaning::Literal(Literal::Number(Number::Finite(count))), Meaning::Literal(Literal::Text(unit))]) =
        <[Meaning; 3]>::try_from(operands)
    else {
        return Err(ExprError::type_mistake("INTERVAL takes a number and a unit, as in INTERVAL 3 DAY"));
    };
    let Some(count) = count.as_integer().filter(|count| count.abs() < 1 << 62) else {
        return Err(ExprError::type_mistake(format!("INTERVAL {count}: it takes an integer; use a smaller unit")));
    };
    let Some((months, nanoseconds)) = lengths_of(&unit.to_ascii_lowercase()) else {
        return Err(ExprError::type_mistake(format!("INTERVAL has no unit '{}'", shortened(&unit))));
    };
    let (months, nanoseconds) = (months * count, nanoseconds * count);
    if let Meaning::Literal(Literal::Moment { moment, .. }) = &time {
        return moved(*moment, months, nanoseconds);
    }
    let Some((operand, unit)) = operand("+ INTERVAL", time, false)? else {
        return Ok(Meaning::Literal(Literal::Null));
    };
    if nanoseconds % unit != 0 {
        let of = stored_type(&operand).map(|of| of.to_string()).unwrap_or_default();
        return Err(ExprError::type_mistake(format!(
            "the interval is no multiple of the unit of {of}: cast the time, as in d::timestamp + INTERVAL 1 HOUR"
        )));
    }
    let stored = stored_type(&operand);
    let function = Function::Shift { months, units: nanoseconds / unit, day: (DAY / unit).max(1) };
    let step = Step::Call(function, vec![computed(operand)]);
    Ok(Operand::Compute(Compute { stored, ..Compute::new(Kind::Int, step) }).into())
}

fn moved(moment: Moment, months: i128, nanoseconds: i128) -> Result<Meaning, ExprError> {
    if moment.of_day {
        return Err(ExprError::type_mistake("an interval can be added to a date or a timestamp, not to a time of day"));
    }
    let Some(moved) = shifted(moment.nanoseconds, months, nanoseconds, DAY) else {
        return Err(ExprError::type_mistake("the date plus the interval is out of range"));
    };
    let text = format!("{moved} ns since 1970").into();
    Ok(Meaning::Literal(Literal::Moment { moment: Moment { nanoseconds: moved, ..moment }, text }))
}
