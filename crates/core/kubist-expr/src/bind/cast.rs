//! `CAST(value AS type)`, `value::type`.

use super::against;
use crate::arithmetic::truth;
use crate::bound::{Cast, Compute, Kind, Operand, Step};
use crate::domain::{Family, Position};
use crate::error::{ExprError, shortened};
use crate::evaluate::compute::vector;
use crate::meaning::{Meaning, computed, describe, family};
use crate::moment::Moment;
use crate::never;
use crate::number::{Decimal, Number};
use crate::rows::Rows;
use crate::syntax::Op;
use crate::types::HUGE;
use crate::value::Literal;
use crate::vector::Values;
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Schema};
use std::sync::Arc;

const LAST: i128 = 10i128.pow(38) - 1;

pub(super) fn bind(value: Meaning, to: DataType) -> Result<Meaning, ExprError> {
    match value {
        Meaning::Literal(Literal::Null) => Ok(Meaning::Literal(Literal::Null)),
        Meaning::Literal(Literal::Text(text)) => text_literal(&text, to),
        Meaning::Literal(Literal::Moment { moment, text }) => moment_literal(moment, &text, to),
        Meaning::Literal(Literal::Number(number)) => number_literal(number, to),
        Meaning::Literal(Literal::Bool(truth)) if to == DataType::Boolean => Ok(Meaning::Literal(Literal::Bool(truth))),
        Meaning::Literal(Literal::Bool(truth)) => {
            number_literal(Number::Finite(Decimal::from_integer(truth.into())), to)
        }
        Meaning::Test(test) if to == DataType::Boolean => Ok(Meaning::Test(test)),
        Meaning::Test(test) => operand(truth(*test), to),
        Meaning::Operand(found) => operand(*found, to),
        other => Err(refused(&describe(&other), &to)),
    }
}

fn refused(what: &str, to: &DataType) -> ExprError {
    let to = if *to == HUGE { "int128".to_owned() } else { to.to_string() };
    ExprError::type_mistake(format!("{what} cannot be cast to {to}"))
}

/// Returns a decimal column as integers with all digits; `None` for other columns and types, and beyond 128 bits.
fn decimals(operand: &Operand, to: &DataType) -> Option<Compute> {
    let column = operand.column()?;
    let scale = match column.data_type {
        DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale) => scale,
        _ => return None,
    };
    let (first, last) = match Family::of(to) {
        _ if *to == HUGE => (-LAST, LAST),
        Family::Int { first, last } => (first, last),
        _ => return None,
    };
    let power = 10i128.checked_pow(scale.unsigned_abs().into())?;
    let (multiplier, divisor) = if scale < 0 { (power, 1) } else { (1, power) };
    let without_point = Compute::new(Kind::Int, Step::Column(column.clone()));
    let step = Step::Cast(Box::new(without_point), Cast::Decimal { multiplier, divisor, first, last });
    let stored = Some(to.clone()).filter(|to| *to != HUGE);
    Some(Compute { kind: Kind::Int, stored, unit: column.unit.clone(), step })
}

fn operand(operand: Operand, to: DataType) -> Result<Meaning, ExprError> {
    if let Some(whole) = decimals(&operand, &to) {
        return Ok(Operand::Compute(whole).into());
    }
    let (from, into) = (family(&operand), Family::of(&to));
    let described = describe(&Meaning::from(operand.clone()));
    let cast = match (from, into) {
        (Family::Null, _) => return Ok(Meaning::Literal(Literal::Null)),
        (Family::Bool, Family::Bool) => return Ok(operand.into()),
        (Family::Int { .. } | Family::Float(_), Family::Bool) => {
            return against(Op::Ne, operand, &Literal::Number(Number::Finite(Decimal::from_integer(0))))
                .map(Meaning::from);
        }
        (Family::Bool | Family::Int { .. } | Family::Decimal { .. } | Family::Float(_), Family::Float(_)) => {
            Cast::Float
        }
        (Family::Bool | Family::Int { .. } | Family::Decimal { .. } | Family::Float(_), _) if to == HUGE => {
            Cast::Whole { first: -LAST, last: LAST }
        }
        (
            Family::Bool | Family::Int { .. } | Family::Decimal { .. } | Family::Float(_),
            Family::Int { first, last },
        ) => Cast::Whole { first, last },
        (Family::Instant { .. } | Family::TimeOfDay { .. } | Family::Duration { .. }, Family::Int { first, last }) => {
            Cast::Whole { first, last }
        }
        (Family::Instant { unit: from, .. }, Family::Instant { unit: into, first, last }) => {
            Cast::Scaled { multiplier: (from / into).max(1), divisor: (into / from).max(1), first, last }
        }
        _ => return Err(refused(&described, &to)),
    };
    let kind = match Family::of(&to) {
        Family::Float(_) if to == DataType::Float32 => Kind::F32,
        Family::Float(_) => Kind::F64,
        _ => Kind::Int,
    };
    let stored = (kind == Kind::Int && to != HUGE).then_some(to);
    let unit = operand.unit().filter(|_| !matches!(into, Family::Instant { .. })).cloned();
    let step = Step::Cast(Box::new(computed(operand)), cast);
    Ok(Operand::Compute(Compute { kind, stored, unit, step }).into())
}

fn number_literal(number: Number, to: DataType) -> Result<Meaning, ExprError> {
    let whole = match &number {
        Number::Finite(decimal) => decimal.as_integer(),
        _ => None,
    };
    let constant = match whole {
        Some(whole) => Compute::new(Kind::Int, Step::Int(whole)),
        None => Compute::new(Kind::F64, Step::Float(number.as_f64())),
    };
    let compute = match operand(Operand::Compute(constant), to)? {
        Meaning::Operand(operand) => computed(*operand),
        other => return Ok(other),
    };
    let one_row = RecordBatchOptions::new().with_row_count(Some(1));
    let batch = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &one_row)?;
    let found = vector(&compute, &Rows::new(&batch, &never))?;
    let missing = found.nulls.is_some_and(|nulls| nulls.null_count() > 0);
    let number = match found.values {
        _ if missing => None,
        Values::Int(values) => values.first().map(|value| Number::Finite(Decimal::from_integer(*value))),
        Values::F32(values) => values.first().map(|value| Number::from_f64((*value).into())),
        Values::F64(values) => values.first().map(|value| Number::from_f64(*value)),
    };
    Ok(Meaning::Literal(number.map_or(Literal::Null, Literal::Number)))
}

fn text_literal(text: &Arc<str>, to: DataType) -> Result<Meaning, ExprError> {
    let mistake = || ExprError::type_mistake(format!("the text '{}' is no {to}", shortened(text)));
    match Family::of(&to) {
        Family::Bool => match text.to_ascii_lowercase().as_str() {
            "true" => Ok(Meaning::Literal(Literal::Bool(true))),
            "false" => Ok(Meaning::Literal(Literal::Bool(false))),
            _ => Err(mistake()),
        },
        Family::Instant { .. } => {
            let moment = Moment::parse(text).filter(|moment| !moment.of_day).ok_or_else(mistake)?;
            moment_literal(moment, text, to)
        }
        _ => {
            let (negative, size) = match text.trim().strip_prefix('-') {
                Some(size) => (true, size),
                None => (false, text.trim()),
            };
            let number = Number::Finite(Decimal::parse(size).ok_or_else(mistake)?);
            number_literal(if negative { number.negated() } else { number }, to)
        }
    }
}

/// A literal as a date or timestamp, rounded down to its unit as a column would be.
fn moment_literal(moment: Moment, text: &Arc<str>, to: DataType) -> Result<Meaning, ExprError> {
    let into = Family::of(&to);
    let (Family::Instant { unit, .. }, false) = (into, moment.of_day) else {
        return Err(refused(&Literal::Moment { moment, text: text.clone() }.described(), &to));
    };
    let nanoseconds = moment.nanoseconds.div_euclid(unit) * unit;
    let down = Moment { nanoseconds, finer: false, of_day: false };
    let literal = Literal::Moment { moment: down, text: text.clone() };
    match into.position(&literal) {
        Ok(Position::At(_)) => Ok(Meaning::Literal(literal)),
        _ => Err(ExprError::type_mistake(format!("the time '{}' is beyond those of {to}", shortened(text)))),
    }
}
