//! Units of operands: the unit of a result, and the conversion of operands with different units.
//!
//! In sums and comparisons, a number without a unit takes the unit of the other side; in products it is a
//! factor. Operands are converted to the unit of the first, and different kinds are refused.

use crate::bound::{Compute, Function, Kind, Operand, Step};
use crate::domain::Family;
use crate::error::ExprError;
use crate::meaning::{Meaning, computed, family};
use crate::number::{Decimal, MOST_WIDTH_DIGITS, Number};
use crate::unit::{Change, Quantity, Role, Unit, Units};
use crate::value::Literal;
use std::borrow::Cow;
use std::sync::Arc;

type Of = Option<Arc<Unit>>;

fn subject(operand: &Operand) -> String {
    match operand {
        Operand::Column(column) => format!("column `{}`", column.name),
        Operand::Compute(_) | Operand::Text(_) => "what is computed".to_owned(),
    }
}

/// A literal with a unit, such as `20um`.
fn written(meaning: &Meaning) -> Option<Quantity> {
    match meaning {
        Meaning::Literal(Literal::Quantity(quantity)) => Some(quantity.clone()),
        _ => None,
    }
}

/// Like [`written`], but also accepts a text where numbers are expected: `'20 um'`.
fn quantity(meaning: &Meaning) -> Option<Quantity> {
    match meaning {
        Meaning::Literal(Literal::Text(text)) => Quantity::parse(text),
        other => written(other),
    }
}

fn is_number(operand: &Operand) -> bool {
    matches!(family(operand), Family::Int { .. } | Family::Decimal { .. } | Family::Float(_))
}

/// Whether its numbers are values on a scale, as in a column, and not differences.
fn is_value(operand: &Operand) -> bool {
    fn computed(of: &Compute) -> bool {
        use Function::{Bin, Ceil, Floor, Greatest, Least, Round, RoundTo};
        match &of.step {
            Step::Column(_) | Step::Int(_) | Step::Float(_) => true,
            Step::Cast(of, _) => computed(of),
            Step::Known(of) => computed(&of.0),
            Step::Once(_, of) => computed(of),
            Step::Case(whens, otherwise) => {
                whens.iter().map(|(_, value)| value).chain(otherwise.as_deref()).all(computed)
            }
            Step::Call(Least | Greatest | Floor | Ceil | Round | RoundTo(_) | Bin(_), of) => of.iter().all(computed),
            Step::Coalesce(of) => of.iter().all(computed),
            Step::Call(..) | Step::Truth(_) | Step::Length(_) => false,
        }
    }
    match operand {
        Operand::Column(_) => true,
        Operand::Compute(of) => computed(of),
        Operand::Text(_) => false,
    }
}

/// A function's operands as plain numbers, and the unit of the result.
pub(crate) fn resolve(
    function: Function,
    mut operands: Vec<Meaning>,
    units: &Arc<Units>,
) -> Result<(Vec<Meaning>, Of), ExprError> {
    match function {
        Function::Add
        | Function::Subtract
        | Function::Remainder
        | Function::Least
        | Function::Greatest
        | Function::Hypot => alike(operands, units, quantity),
        Function::Atan2 => Ok((alike(operands, units, quantity)?.0, None)),
        Function::Multiply | Function::Divide => product(operands, function == Function::Divide, units),
        Function::Power => {
            let power = match operands.get(1) {
                Some(Meaning::Literal(Literal::Number(power))) => Some(power.as_f64()),
                _ => None,
            };
            let base = operands.first_mut().map(|base| taken(base, units)).transpose()?.flatten();
            Ok((operands, base.zip(power).and_then(|(base, power)| base.to_the(power)).map(Arc::new)))
        }
        Function::Sqrt => {
            let of = operands.first_mut().map(|of| taken(of, units)).transpose()?.flatten();
            Ok((operands, of.and_then(|of| of.to_the(0.5)).map(Arc::new)))
        }
        Function::Negate
        | Function::Abs
        | Function::Periodic(_)
        | Function::Floor
        | Function::Ceil
        | Function::Round
        | Function::RoundTo(_)
        | Function::Bin(_) => {
            let of = operands.first_mut().map(|of| taken(of, units)).transpose()?.flatten();
            Ok((operands, of))
        }
        Function::Separation => Ok((operands, Some(Arc::new(Unit::new("deg", units))))),
        _ => Ok((operands, None)),
    }
}

/// Two factors, or a dividend and a divisor. A quotient of the same kind of unit is a plain number: `time /
/// 1day` counts days.
fn product(mut operands: Vec<Meaning>, divides: bool, units: &Arc<Units>) -> Result<(Vec<Meaning>, Of), ExprError> {
    let scales = operands.iter().any(scales);
    let of: Vec<Of> = operands.iter_mut().map(|operand| taken(operand, units)).collect::<Result<_, _>>()?;
    let found = match &of[..] {
        [Some(one), Some(other)] => {
            let wanted = if divides { Some((**one).clone()) } else { one.to_the(-1.0) };
            if let Some(change) = wanted.map(|unit| unit.factor_from(other)).transpose()?.flatten() {
                let last = operands.pop().map(|operand| change.of(operand));
                operands.extend(last);
                return Ok((operands, None));
            }
            one.times(other, if divides { -1 } else { 1 })
        }
        [None, Some(other)] if divides => other.to_the(-1.0),
        _ => of.into_iter().flatten().next().map(|unit| (*unit).clone()),
    };
    let found = found.map(|unit| if scales { unit.times_a_number() } else { unit });
    Ok((operands, found.map(Arc::new)))
}

fn scales(factor: &Meaning) -> bool {
    match factor {
        Meaning::Literal(Literal::Number(number)) => number.as_f64().abs() != 1.0,
        _ => false,
    }
}

/// Returns an operand's unit, and removes it from a literal.
fn taken(operand: &mut Meaning, units: &Arc<Units>) -> Result<Of, ExprError> {
    if let Some(quantity) = quantity(operand) {
        let unit = Unit::new(&quantity.unit, units).checked(&quantity)?;
        *operand = Meaning::from(Number::Finite(quantity.number));
        return Ok(Some(Arc::new(unit)));
    }
    match operand {
        Meaning::Operand(operand) if is_number(operand) => Ok(operand.unit().cloned()),
        _ => Ok(None),
    }
}

pub(crate) fn branches(values: Vec<Meaning>, units: &Arc<Units>) -> Result<(Vec<Meaning>, Of), ExprError> {
    // In a `CASE` a text is always text, never a quantity.
    alike(values, units, written)
}

/// Operands as numbers of the same unit, and that unit: of the first column or computed number, or else of the
/// first literal.
fn alike(
    operands: Vec<Meaning>,
    units: &Arc<Units>,
    quantity: fn(&Meaning) -> Option<Quantity>,
) -> Result<(Vec<Meaning>, Of), ExprError> {
    let of_operand = |meaning: &Meaning| match meaning {
        Meaning::Operand(operand) if is_number(operand) => operand.unit().map(|unit| (subject(operand), unit.clone())),
        _ => None,
    };
    let found = operands.iter().find_map(of_operand);
    let found = match found.is_some() {
        true => found,
        false => {
            let first = operands.iter().find_map(quantity);
            let with_unit = |of: Quantity| {
                let unit = Unit::new(&of.unit, units).checked(&of)?;
                Ok::<_, ExprError>((of.to_string(), Arc::new(unit)))
            };
            first.map(with_unit).transpose()?
        }
    };
    let Some((what, unit)) = found else { return Ok((operands, None)) };
    let (mut known, mut scaled) = (true, unit.scaled);
    let mut alike = Vec::with_capacity(operands.len());
    for operand in operands {
        if let Some(quantity) = quantity(&operand) {
            alike.push(Meaning::from(unit.distance(&quantity, &what, Role::Added)?));
            continue;
        }
        let Some((other, of)) = of_operand(&operand) else {
            alike.push(operand);
            continue;
        };
        let change = unit.change_from(&of, [&what, &other])?;
        known &= !matches!(change, Change::Unknown);
        scaled |= of.scaled;
        alike.push(change.of(operand));
    }
    let unit = if scaled { Arc::new(unit.times_a_number()) } else { unit };
    Ok((alike, known.then_some(unit)))
}

impl Change {
    fn of(self, of: Meaning) -> Meaning {
        match (of, self) {
            (Meaning::Operand(operand), change) => changed(*operand, change).into(),
            (Meaning::Literal(Literal::Number(Number::Finite(number))), Change::Times(by)) => {
                Meaning::from(Number::Finite(number.times(&by)))
            }
            (Meaning::Literal(Literal::Number(number)), Change::Over(by)) => {
                Meaning::from(Number::from_f64(number.as_f64() / by.as_f64()))
            }
            (other, _) => other,
        }
    }
}

fn changed(operand: Operand, change: Change) -> Operand {
    let (function, by) = match change {
        Change::None | Change::Unknown => return operand,
        Change::Times(by) => (Function::Multiply, by),
        Change::Over(by) => (Function::Divide, by),
    };
    let of = computed(operand);
    let (kind, by) = match (of.kind, function, by.as_integer().or_else(|| whole(&by))) {
        (Kind::Int, Function::Multiply, Some(whole)) => (Kind::Int, Step::Int(whole)),
        _ => (Kind::F64, Step::Float(by.as_f64())),
    };
    let stored_as = Compute { stored: None, ..of };
    Operand::Compute(Compute::new(kind, Step::Call(function, vec![stored_as, Compute::new(kind, by)])))
}

fn whole(number: &Decimal) -> Option<i128> {
    let value = number.as_f64();
    (value.fract() == 0.0 && value.abs() < 1e15).then_some(value as i128)
}

/// Exact if one unit is an integer multiple of the other.
pub(crate) fn comparable(left: Operand, right: Operand) -> Result<(Operand, Operand), ExprError> {
    let (Some(of_left), Some(of_right)) = (left.unit(), right.unit()) else { return Ok((left, right)) };
    if !is_number(&left) || !is_number(&right) {
        return Ok((left, right));
    }
    let change = of_left.change_from(of_right, [&subject(&left), &subject(&right)])?;
    Ok(match change {
        Change::Over(by) => (changed(left, Change::Times(by)), right),
        change => (left, changed(right, change)),
    })
}

/// Converts a literal to the unit of the compared operand.
pub(crate) fn number<'a>(operand: &Operand, literal: &'a Literal) -> Result<Cow<'a, Literal>, ExprError> {
    use Family::{Decimal, Duration, Float, Int};
    let quantity = match (literal, family(operand)) {
        (Literal::Quantity(quantity), _) => quantity.clone(),
        (Literal::Text(text), Int { .. } | Decimal { .. } | Float(_) | Duration { .. }) => {
            match Quantity::parse(text) {
                Some(quantity) => quantity,
                None => return Ok(Cow::Borrowed(literal)),
            }
        }
        _ => return Ok(Cow::Borrowed(literal)),
    };
    match operand.unit() {
        Some(unit) if is_value(operand) => Ok(Cow::Owned(Literal::Number(unit.number(&quantity, &subject(operand))?))),
        // A temperature difference is not a temperature.
        Some(unit) => Ok(Cow::Owned(Literal::Number(unit.distance(&quantity, &subject(operand), Role::Compared)?))),
        None => Err(ExprError::type_mistake(format!(
            "{} has no unit, so it cannot be compared with {quantity}",
            subject(operand)
        ))),
    }
}

pub(crate) fn width(of: &Meaning, width: Meaning) -> Result<Meaning, ExprError> {
    let Some(quantity) = quantity(&width) else { return Ok(width) };
    let Meaning::Operand(operand) = of else { return Ok(width) };
    match operand.unit() {
        Some(unit) => Ok(Meaning::from(match unit.distance(&quantity, &subject(operand), Role::Width)? {
            // A conversion factor may have infinitely many digits, such as degrees to radians.
            Number::Finite(width) if quantity.unit != unit.name => Number::Finite(width.rounded(MOST_WIDTH_DIGITS)),
            width => width,
        })),
        None => {
            Err(ExprError::type_mistake(format!("{} has no unit, so {quantity} is no width of it", subject(operand))))
        }
    }
}

/// The meaning of a number with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meant {
    /// A value, such as a position or a temperature.
    Value,
    /// A difference between values.
    Distance,
}

/// Converts a number with a unit to the unit of `operand`; `None` if the text has no unit.
pub(crate) fn of_text(text: &str, operand: &Operand, meant: Meant) -> Result<Option<f64>, ExprError> {
    let Some(quantity) = Quantity::parse(text) else { return Ok(None) };
    let what = subject(operand);
    let Some(unit) = operand.unit() else {
        return Err(ExprError::type_mistake(format!("{what} has no unit, so {quantity} cannot be used with it")));
    };
    let number = match meant {
        Meant::Value => unit.number(&quantity, &what),
        Meant::Distance => unit.distance(&quantity, &what, Role::Width),
    };
    Ok(Some(number?.as_f64()))
}
