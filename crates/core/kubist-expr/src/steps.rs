//! Error propagation through step functions.
//!
//! The derivative of `round`, `floor`, `bin` and similar functions does not bound the error of their result.
//! They are monotone, so the images of an interval's bounds do. An expression is decomposed from the outside
//! until the rest is smooth.

use crate::bound::{Cast, Compute, Function, Kind, Step};
use crate::evaluate::compute::vector;
use crate::expression::Expression;
use crate::never;
use crate::rows::Rows;
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::Schema;
use std::sync::Arc;

/// The behaviour of a computed number under small changes of its inputs.
#[derive(Clone, Debug)]
pub enum Smoothness {
    Smooth,
    Stepped(Expression, Steps),
    Broken,
}

#[derive(Clone, Debug)]
pub struct Steps(Vec<Stage>);

#[derive(Clone, Debug)]
enum Stage {
    Unary(Function),
    Whole,
    /// A function of the number and a constant; the constant may come first.
    With {
        function: Function,
        constant: f64,
        first: bool,
    },
}

impl Steps {
    /// For all numbers from `low` to `high`.
    pub fn image(&self, low: f64, high: f64) -> (f64, f64) {
        self.0.iter().fold((low, high), |(low, high), stage| {
            let (one, other) = (stage.of(low), stage.of(high));
            if one.is_nan() || other.is_nan() {
                return (f64::NEG_INFINITY, f64::INFINITY);
            }
            let turns = matches!(stage, Stage::Unary(Function::Abs)) && low <= 0.0 && high >= 0.0;
            (if turns { 0.0 } else { one.min(other) }, one.max(other))
        })
    }
}

impl Stage {
    fn of(&self, value: f64) -> f64 {
        match self {
            Stage::Whole => value.round_ties_even(),
            Stage::Unary(Function::Negate) => -value,
            Stage::Unary(Function::Abs) => value.abs(),
            Stage::Unary(
                Function::Floor | Function::Ceil | Function::Round | Function::RoundTo(_) | Function::Bin(_),
            ) if value.is_infinite() => value,
            Stage::Unary(function) => computed(*function, vec![number(value)]),
            Stage::With { function, constant, first: true } => {
                computed(*function, vec![number(*constant), number(value)])
            }
            Stage::With { function, constant, .. } => computed(*function, vec![number(value), number(*constant)]),
        }
    }
}

fn number(value: f64) -> Compute {
    Compute::new(Kind::F64, Step::Float(value))
}

fn computed(function: Function, operands: Vec<Compute>) -> f64 {
    let one_row = RecordBatchOptions::new().with_row_count(Some(1));
    let compute = Compute::new(Kind::F64, Step::Call(function, operands));
    let found = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &one_row)
        .map_err(Into::into)
        .and_then(|batch| vector(&compute, &Rows::new(&batch, &never)));
    match found {
        Ok(found) if found.nulls.as_ref().is_none_or(|nulls| nulls.null_count() == 0) => {
            found.values.into_f64().first().copied().unwrap_or(f64::NAN)
        }
        _ => f64::NAN,
    }
}

impl Expression {
    pub fn smoothness(&self) -> Smoothness {
        self.number().map_or(Smoothness::Broken, smoothness)
    }
}

fn smoothness(compute: &Compute) -> Smoothness {
    match stepped(compute, Corners::Jump) {
        // Corners of `abs`, `least` and `greatest` inside the expression are ignored.
        Smoothness::Broken => stepped(compute, Corners::Smooth),
        smoothness => smoothness,
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Corners {
    /// At the corner a derivative would give an error of zero.
    Jump,
    Smooth,
}

fn stepped(compute: &Compute, corners: Corners) -> Smoothness {
    let (mut stages, mut left) = (Vec::new(), compute);
    while !is_smooth(left, corners) {
        let Some((stage, inner)) = outermost(left) else { return Smoothness::Broken };
        stages.extend(stage);
        left = inner;
    }
    if stages.is_empty() {
        return Smoothness::Smooth;
    }
    stages.reverse();
    Smoothness::Stepped(Expression::of_number(left.clone()), Steps(stages))
}

/// The outermost function and its argument, if it has one. The stage is `None` if the function does not change
/// values.
fn outermost(compute: &Compute) -> Option<(Option<Stage>, &Compute)> {
    let (function, operands) = match &compute.step {
        Step::Cast(of, Cast::Float) => return Some((None, of)),
        Step::Cast(of, Cast::Whole { .. }) => return Some((Some(Stage::Whole), of)),
        Step::Call(function, operands) => (*function, operands.as_slice()),
        _ => return None,
    };
    if let [of] = operands {
        return is_monotone(function).then_some((Some(Stage::Unary(function)), of));
    }
    let [one, other] = operands else { return None };
    let (constant, first, of) = match (constant(one), constant(other)) {
        (Some(constant), None) => (constant, true, other),
        (None, Some(constant)) => (constant, false, one),
        _ => return None,
    };
    let sound = match function {
        Function::Add | Function::Subtract | Function::Multiply | Function::Least | Function::Greatest => true,
        Function::Divide => !first,
        _ => false,
    };
    sound.then_some((Some(Stage::With { function, constant, first }), of))
}

pub(crate) fn constant(compute: &Compute) -> Option<f64> {
    match compute.step {
        Step::Int(value) => Some(value as f64),
        Step::Float(value) => Some(value),
        _ => None,
    }
}

/// Rises everywhere, falls everywhere, or turns at 0 as `abs` does.
fn is_monotone(function: Function) -> bool {
    use Function::*;
    rounds(function) || matches!(function, Negate | Abs | Sqrt | Exp | Ln | Log2 | Log10 | Atan | Radians | Degrees)
}

fn rounds(function: Function) -> bool {
    use Function::*;
    matches!(function, Floor | Ceil | Round | RoundTo(_) | Bin(_) | Sign)
}

/// Whether it is differentiable, except at corners.
fn is_smooth(compute: &Compute, corners: Corners) -> bool {
    use Function::*;
    let is_smooth = |compute: &Compute| is_smooth(compute, corners);
    match &compute.step {
        Step::Column(_) | Step::Int(_) | Step::Float(_) => true,
        Step::Call(function, operands)
            if rounds(*function)
                || matches!(function, Healpix(_) | Remainder | Truncate(_) | Part(..) | Shift { .. })
                || matches!(function, BitAnd | BitOr | BitXor | BitNot | ShiftLeft | ShiftRight) =>
        {
            operands.iter().all(|operand| constant(operand).is_some())
        }
        Step::Call(Abs, _) if corners == Corners::Jump => false,
        Step::Call(_, operands) => operands.iter().all(is_smooth),
        Step::Cast(of, Cast::Float) => is_smooth(of),
        Step::Cast(..)
        | Step::Coalesce(_)
        | Step::Length(_)
        | Step::Truth(_)
        | Step::Case(..)
        | Step::Once(..)
        | Step::Known(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::{DataType, Field};

    fn smoothness_of(sql: &str) -> Smoothness {
        let schema =
            Schema::new(vec![Field::new("x", DataType::Float64, true), Field::new("y", DataType::Float64, true)]);
        Expression::parse(sql, &schema).unwrap().smoothness()
    }

    #[test]
    fn images_of_intervals_hold_every_value() {
        for (sql, low, high, image) in [
            ("round(x)", 2.4, 2.6, (2.0, 3.0)),
            ("floor(x / y)", -0.5, 7.25, (-1.0, 7.0)),
            ("10 - ceil(x)", 1.5, 3.0, (7.0, 8.0)),
            ("100 * round(x, 1)", 0.24, 0.26, (20.0, 30.0)),
            ("bin(x, 0.5) / -2", 0.7, 1.2, (-0.5, -0.25)),
            ("abs(x - y)", -1.0, 3.0, (0.0, 3.0)),
            ("round(abs(x))", -2.6, -1.2, (1.0, 3.0)),
            ("least(round(x), 2)", 1.2, 5.0, (1.0, 2.0)),
            ("round(x)::int64", 1.2, f64::INFINITY, (1.0, f64::INFINITY)),
            ("sign(x)", f64::NEG_INFINITY, 2.0, (-1.0, 1.0)),
            ("sqrt(floor(x))", 4.5, 9.5, (2.0, 3.0)),
        ] {
            let Smoothness::Stepped(_, steps) = smoothness_of(sql) else { panic!("{sql}") };
            assert_eq!(steps.image(low, high), image, "{sql}");
        }
    }

    #[test]
    fn what_jumps_within_is_broken() {
        for sql in ["x + floor(y)", "x % 2", "CASE WHEN x > 1 THEN y END", "round(x) / round(y)", "1 / round(x)"] {
            assert!(matches!(smoothness_of(sql), Smoothness::Broken), "{sql}");
        }
        for sql in ["x", "x / y", "hypot(x, y) + 2 * x::float32", "floor(2.5) * x", "x + abs(y)"] {
            assert!(matches!(smoothness_of(sql), Smoothness::Smooth), "{sql}");
        }
    }
}
