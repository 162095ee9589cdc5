//! Binds operators and functions: the kind of number that they compute in, and the results of constant
//! expressions.

mod intervals;
mod parts;
mod periods;
mod sky;

use crate::bound::{Compute, Function, Kind, Operand, Step, Test};
use crate::domain::{Family, Range};
use crate::error::{ExprError, shortened};
use crate::evaluate::compute::vector;
use crate::meaning::{Meaning, computed, describe, describe_operand, family, kind_of};
use crate::measured;
use crate::names;
use crate::never;
use crate::number::{Decimal, Number};
use crate::parse::ADD_INTERVAL;
use crate::rows::Rows;
use crate::unit::{Quantity, Units};
use crate::value::Literal;
use crate::vector::Values;
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Schema};
use std::sync::Arc;

const FUNCTIONS: &[(&str, Function, usize, usize)] = &[
    ("+", Function::Add, 2, 2),
    ("&", Function::BitAnd, 2, 2),
    ("|", Function::BitOr, 2, 2),
    ("~", Function::BitNot, 1, 1),
    ("<<", Function::ShiftLeft, 2, 2),
    (">>", Function::ShiftRight, 2, 2),
    ("xor", Function::BitXor, 2, 2),
    ("-", Function::Subtract, 2, 2),
    ("*", Function::Multiply, 2, 2),
    ("/", Function::Divide, 2, 2),
    ("%", Function::Remainder, 2, 2),
    ("negate", Function::Negate, 1, 1),
    ("abs", Function::Abs, 1, 1),
    ("ceil", Function::Ceil, 1, 1),
    ("ceiling", Function::Ceil, 1, 1),
    ("cos", Function::Cos, 1, 1),
    ("acos", Function::Acos, 1, 1),
    ("asin", Function::Asin, 1, 1),
    ("atan", Function::Atan, 1, 1),
    ("atan2", Function::Atan2, 2, 2),
    ("degrees", Function::Degrees, 1, 1),
    ("exp", Function::Exp, 1, 1),
    ("floor", Function::Floor, 1, 1),
    ("greatest", Function::Greatest, 1, usize::MAX),
    ("hypot", Function::Hypot, 2, 2),
    ("least", Function::Least, 1, usize::MAX),
    ("ln", Function::Ln, 1, 1),
    ("log10", Function::Log10, 1, 1),
    ("log2", Function::Log2, 1, 1),
    ("pow", Function::Power, 2, 2),
    ("power", Function::Power, 2, 2),
    ("radians", Function::Radians, 1, 1),
    ("separation", Function::Separation, 4, 4),
    ("sign", Function::Sign, 1, 1),
    ("sin", Function::Sin, 1, 1),
    ("sqrt", Function::Sqrt, 1, 1),
    ("tan", Function::Tan, 1, 1),
];

const KNOWN_FUNCTIONS: &str = "abs, acos, asin, atan, atan2, bin, ceil, coalesce, contains, cos, date_part, date_trunc, \
                               degrees, ends_with, exp, floor, greatest, healpix, hypot, ifnull, in_moc, in_polygon, \
                               in_sky_polygon, isfinite, isnan, least, length, ln, log10, log2, lower, nullif, periodic, \
                               pi, power, radians, regexp_matches, round, separation, sign, sin, sqrt, starts_with, \
                               substr, tan, upper, xor, and the parts of a time such as hour";

pub(crate) fn call(name: &str, mut operands: Vec<Meaning>, units: &Arc<Units>) -> Result<Meaning, ExprError> {
    let lower = name.to_ascii_lowercase();
    if lower == "isnan" || lower == "isfinite" {
        let operand = operands.pop();
        let (Some(operand), true) = (operand, operands.is_empty()) else { return Err(arity(&lower, 1, 1)) };
        return class_of(&lower, operand).map(Meaning::from);
    }
    match lower.as_str() {
        "round" => return rounded(operands, units),
        "bin" => return binned(operands, units),
        "date_trunc" => return periods::truncated(operands),
        "healpix" => return sky::healpix(operands, units),
        "periodic" => return sky::periodic(operands, units),
        "in_polygon" | "in_sky_polygon" | "in_moc" => return sky::inside(&lower, operands).map(Meaning::from),
        "date_part" | "datepart" => return parts::named(operands),
        "epoch" => return parts::epoch(operands),
        ADD_INTERVAL => return intervals::added(operands),
        "pi" if operands.is_empty() => return Ok(Meaning::from(Number::from_f64(std::f64::consts::PI))),
        _ => {}
    }
    if let Some(part) = parts::part(&lower) {
        let [operand] = <[Meaning; 1]>::try_from(operands).map_err(|_| arity(&lower, 1, 1))?;
        return parts::of(&lower, part, operand);
    }
    let Some((_, function, least, most)) = FUNCTIONS.iter().find(|(known, ..)| *known == lower) else {
        let hint = match lower.as_str() {
            "log" => "; write ln or log10".to_owned(),
            "mod" => "; write a % b".to_owned(),
            _ if names::needs_clock(&lower) => names::NO_CLOCK.to_owned(),
            _ => format!("; known are {KNOWN_FUNCTIONS}"),
        };
        return Err(ExprError::Unsupported { construct: format!("the function `{}`", shortened(name)), hint });
    };
    if !(*least..=*most).contains(&operands.len()) {
        return Err(arity(&lower, *least, *most));
    }
    arithmetic(&lower, *function, operands, units)
}

fn arity(name: &str, least: usize, most: usize) -> ExprError {
    let more = if most > least { " or more" } else { "" };
    let plural = if least == 1 && most == 1 { "" } else { "s" };
    ExprError::type_mistake(format!("`{name}` takes {least}{more} operand{plural}"))
}

fn rounded(mut operands: Vec<Meaning>, units: &Arc<Units>) -> Result<Meaning, ExprError> {
    let function = match operands.len() {
        1 => Function::Round,
        2 => match operands.pop() {
            Some(Meaning::Literal(Literal::Number(Number::Finite(digits)))) => match digits.as_integer() {
                Some(digits @ -400..=400) => Function::RoundTo(digits as i32),
                _ => {
                    return Err(ExprError::type_mistake(format!("round to {digits} digits: a whole number is needed")));
                }
            },
            _ => return Err(ExprError::type_mistake("`round` takes a value and a number of digits")),
        },
        _ => return Err(ExprError::type_mistake("`round` takes 1 or 2 operands")),
    };
    arithmetic("round", function, operands, units)
}

/// `bin(x, width)`: the largest multiple of the width that is not above x.
fn binned(mut operands: Vec<Meaning>, units: &Arc<Units>) -> Result<Meaning, ExprError> {
    let width = match (operands.pop(), operands.as_slice()) {
        (Some(width), [of]) => Some(measured::width(of, width)?),
        _ => None,
    };
    let Some(Meaning::Literal(Literal::Number(Number::Finite(width)))) = width else {
        return Err(ExprError::type_mistake("`bin` takes a value and the width of a bin, as in bin(x, 0.01)"));
    };
    let Some(found) = width.as_width() else {
        return Err(ExprError::type_mistake(format!(
            "bins of width {width}: it must be above 0, a float, and of at most 15 digits"
        )));
    };
    arithmetic("bin", Function::Bin(found), operands, units)
}

pub(crate) fn truth(test: Test) -> Operand {
    Operand::Compute(Compute::new(Kind::Int, Step::Truth(Box::new(test))))
}

fn class_of(name: &str, operand: Meaning) -> Result<Test, ExprError> {
    let operand = match numeric(name, operand)? {
        Numeric::Null => return Ok(Test::Constant(None)),
        Numeric::Literal(number) => {
            let value = number.as_f64();
            let finite = matches!(number, Number::Finite(_));
            return Ok(Test::Constant(Some(if name == "isnan" { value.is_nan() } else { finite })));
        }
        Numeric::Operand(operand) => operand,
    };
    if name == "isnan" {
        return Ok(Test::IsNan(operand));
    }
    let span = operand.column().and_then(|column| match Family::of(&column.data_type) {
        Family::Float(width) => Range::Float(-width.greatest(), width.greatest()).span(&column.data_type),
        _ => Range::Bytes(std::ops::Bound::Unbounded, std::ops::Bound::Unbounded).span(&DataType::Binary),
    });
    Ok(Test::IsFinite { operand, span })
}

pub(crate) enum Numeric {
    Null,
    Literal(Number),
    Operand(Operand),
}

pub(crate) fn numeric(name: &str, bound: Meaning) -> Result<Numeric, ExprError> {
    match bound {
        Meaning::Literal(Literal::Null) => Ok(Numeric::Null),
        Meaning::Literal(Literal::Number(number)) => Ok(Numeric::Literal(number)),
        Meaning::Literal(Literal::Bool(truth)) => {
            Ok(Numeric::Literal(Number::Finite(Decimal::from_integer(truth.into()))))
        }
        Meaning::Test(test) => Ok(Numeric::Operand(truth(*test))),
        Meaning::Operand(operand) => match family(&operand) {
            Family::Null => Ok(Numeric::Null),
            Family::Bool | Family::Int { .. } | Family::Decimal { .. } | Family::Float(_) => {
                Ok(Numeric::Operand(*operand))
            }
            _ => Err(takes_numbers(name, &describe_operand(&operand))),
        },
        other => Err(takes_numbers(name, &describe(&other))),
    }
}

fn takes_numbers(name: &str, found: &str) -> ExprError {
    let name = if name == "negate" { "-" } else { name };
    ExprError::type_mistake(format!("`{name}` takes numbers, not {found}"))
}

fn arithmetic(
    name: &str,
    function: Function,
    operands: Vec<Meaning>,
    units: &Arc<Units>,
) -> Result<Meaning, ExprError> {
    if let (Function::Negate, [Meaning::Literal(Literal::Quantity(quantity))]) = (function, operands.as_slice()) {
        let number = quantity.number.clone().negated();
        return Ok(Meaning::Literal(Literal::Quantity(Quantity { number, ..quantity.clone() })));
    }
    let are_conditions = !operands.is_empty() && operands.iter().all(|operand| matches!(operand, Meaning::Test(_)));
    let (operands, unit) = measured::resolve(function, operands, units)?;
    let operands = operands.into_iter().map(|operand| numeric(name, operand)).collect::<Result<Vec<_>, _>>()?;
    if operands.iter().any(|operand| matches!(operand, Numeric::Null)) {
        return Ok(Meaning::Literal(Literal::Null));
    }
    if let (Function::Negate, [Numeric::Literal(number)]) = (function, operands.as_slice()) {
        return Ok(Meaning::from(number.clone().negated()));
    }
    let constant = operands.iter().all(|operand| matches!(operand, Numeric::Literal(_)));
    let kind = kind_of_call(function, common_kind(&operands));
    let of_bits = matches!(
        function,
        Function::BitAnd
            | Function::BitOr
            | Function::BitXor
            | Function::BitNot
            | Function::ShiftLeft
            | Function::ShiftRight
    );
    if of_bits && are_conditions {
        return Err(ExprError::type_mistake(format!(
            "`{name}` is for integers: write {} between conditions",
            if function == Function::BitOr { "OR" } else { "AND" }
        )));
    }
    if of_bits && kind != Kind::Int {
        return Err(ExprError::type_mistake(format!("`{name}` takes integers: cast the operands, as in x::int64")));
    }
    let of_operands = if matches!(function, Function::Healpix(_)) { Kind::F64 } else { kind };
    let steps = operands.into_iter().filter_map(|operand| step(operand, of_operands));
    let compute = Compute { unit, ..Compute::new(kind, Step::Call(function, steps.collect())) };
    if constant { folded(&compute) } else { Ok(Operand::Compute(compute).into()) }
}

/// The number as a step of a computation; `None` for null.
pub(crate) fn step(operand: Numeric, kind: Kind) -> Option<Compute> {
    match operand {
        Numeric::Null => None,
        Numeric::Operand(operand) => Some(computed(operand)),
        Numeric::Literal(number) => {
            let integer = match &number {
                Number::Finite(decimal) if kind == Kind::Int => decimal.as_integer(),
                _ => None,
            };
            Some(Compute::new(kind, integer.map_or(Step::Float(number.as_f64()), Step::Int)))
        }
    }
}

/// From the common kind of the operands.
fn kind_of_call(function: Function, common: Kind) -> Kind {
    match function {
        Function::Divide if common == Kind::Int => Kind::F64,
        Function::Bin(width) if common == Kind::Int && width.exponent != 0 => Kind::F64,
        Function::Healpix(_) => Kind::Int,
        Function::Bin(width) if common == Kind::F32 && width.as_f64() > f32::MAX.into() => Kind::F64,
        Function::Power
        | Function::Sqrt
        | Function::Exp
        | Function::Ln
        | Function::Log2
        | Function::Log10
        | Function::Sin
        | Function::Cos
        | Function::Tan
        | Function::Asin
        | Function::Acos
        | Function::Atan
        | Function::Atan2
        | Function::Hypot
        | Function::Separation
        | Function::Periodic(_)
        | Function::Radians
        | Function::Degrees => Kind::F64,
        _ => common,
    }
}

fn is_truth(operand: &Operand) -> bool {
    match operand {
        Operand::Column(_) => family(operand) == Family::Bool,
        Operand::Compute(compute) => matches!(compute.step, Step::Truth(_)),
        Operand::Text(_) => false,
    }
}

pub(crate) fn common_kind(operands: &[Numeric]) -> Kind {
    let meet = |a: Kind, b: Kind| if a == b { a } else { Kind::F64 };
    let columns = operands.iter().filter_map(|operand| match operand {
        Numeric::Operand(operand) if is_truth(operand) => None,
        Numeric::Operand(Operand::Column(column)) => Some(kind_of(column)),
        Numeric::Operand(Operand::Compute(compute)) => Some(compute.kind),
        _ => None,
    });
    let columns = columns.reduce(meet);
    let literals = operands.iter().filter_map(|operand| match operand {
        Numeric::Literal(number) => Some(match (columns, number) {
            (Some(Kind::F32), number) => {
                let value = number.as_f64();
                let finite = matches!(number, Number::Finite(_));
                if finite && !(value as f32).is_finite() { Kind::F64 } else { Kind::F32 }
            }
            (Some(Kind::F64), _) => Kind::F64,
            (_, Number::Finite(decimal)) if decimal.as_integer().is_some() => Kind::Int,
            _ => Kind::F64,
        }),
        _ => None,
    });
    literals.chain(columns).reduce(meet).unwrap_or(Kind::Int)
}

fn folded(compute: &Compute) -> Result<Meaning, ExprError> {
    let one_row = RecordBatchOptions::new().with_row_count(Some(1));
    let batch = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &one_row)?;
    let result = vector(compute, &Rows::new(&batch, &never))?;
    let null = result.nulls.is_some_and(|nulls| nulls.null_count() > 0);
    let number = match result.values {
        _ if null => None,
        Values::Int(values) => values.first().map(|value| Number::Finite(Decimal::from_integer(*value))),
        Values::F32(values) => values.first().map(|value| Number::from_f64((*value).into())),
        Values::F64(values) => values.first().map(|value| Number::from_f64(*value)),
    };
    Ok(Meaning::Literal(match (number, &compute.unit) {
        (Some(Number::Finite(number)), Some(unit)) => Literal::Quantity(Quantity { number, unit: unit.name.clone() }),
        (number, _) => number.map_or(Literal::Null, Literal::Number),
    }))
}
