use std::cell::Cell as StdCell;
use std::cmp::Ordering;

use arrow_buffer::i256;
use half::f16;

use super::conditions::{Cond, Expr, Lit, sample};
use super::tables::Cell;

fn holds(op: &str, order: Option<Ordering>) -> Option<bool> {
    let order = order?;
    Some(match op {
        "=" => order.is_eq(),
        "<>" => order.is_ne(),
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        _ => order.is_ge(),
    })
}

fn rational(value: i128, scale: i32, mantissa: i128, exponent: i32) -> Ordering {
    let power = |n: u32| i256::from_i128(10).checked_pow(n);
    let (value, mantissa) = (i256::from_i128(value), i256::from_i128(mantissa));
    let shift = scale + exponent;
    let far = |this: i256| this.cmp(&i256::ZERO);
    if shift >= 0 {
        match power(shift as u32).and_then(|p| mantissa.checked_mul(p)) {
            Some(scaled) => value.cmp(&scaled),
            None => far(mantissa).reverse(),
        }
    } else {
        match power((-shift) as u32).and_then(|p| value.checked_mul(p)) {
            Some(scaled) => scaled.cmp(&mantissa),
            None if value == i256::ZERO => far(mantissa).reverse(),
            None => far(value),
        }
    }
}

fn float_against(value: f64, literal: &Lit, round: impl Fn(f64) -> f64, greatest: f64) -> Option<Ordering> {
    if value.is_nan() {
        return None;
    }
    match literal {
        Lit::Inf(negative) => value.partial_cmp(&if *negative { f64::NEG_INFINITY } else { f64::INFINITY }),
        Lit::Number(text, ..) => {
            let rounded = round(text.parse::<f64>().unwrap());
            if rounded.is_finite() {
                return value.partial_cmp(&rounded);
            }
            Some(if rounded > 0.0 {
                if value <= greatest { Ordering::Less } else { Ordering::Greater }
            } else if value < -greatest {
                Ordering::Less
            } else {
                Ordering::Greater
            })
        }
        other => panic!("{other:?}"),
    }
}

pub fn against(cell: &Cell, literal: &Lit) -> Option<Ordering> {
    match (cell, literal) {
        (Cell::Null, _) | (_, Lit::Null | Lit::NaN) => None,
        (Cell::Bool(a), Lit::Bool(b)) => Some(a.cmp(b)),
        (Cell::Text(a), Lit::Text(b)) => Some(a.as_bytes().cmp(b.as_bytes())),
        (Cell::Bytes(a), Lit::Bytes(b)) => Some(a.cmp(b)),
        (Cell::F64(v), literal) => float_against(*v, literal, |x| x, f64::MAX),
        (Cell::F32(v), literal) => float_against((*v).into(), literal, |x| (x as f32).into(), f32::MAX.into()),
        (Cell::F16(v), literal) => {
            float_against(v.to_f64(), literal, |x| f16::from_f64_const(x).to_f64(), f16::MAX.to_f64())
        }
        (Cell::Int(_) | Cell::Decimal(..) | Cell::Time(..), Lit::Inf(negative)) => {
            Some(if *negative { Ordering::Greater } else { Ordering::Less })
        }
        (Cell::Int(v), Lit::Number(_, m, e)) => Some(rational(*v, 0, *m, *e)),
        (Cell::Time(v, _, _), Lit::Number(_, m, e)) => Some(rational(*v, 0, *m, *e)),
        (Cell::Decimal(v, scale), Lit::Number(_, m, e)) => Some(rational(*v, *scale, *m, *e)),
        (Cell::Time(v, unit, _), Lit::Time(_, nanoseconds, more)) => {
            Some((v * unit).cmp(nanoseconds).then(if *more { Ordering::Less } else { Ordering::Equal }))
        }
        other => panic!("{other:?}"),
    }
}

#[derive(Clone, Copy, Debug)]
enum Num {
    Int(i128),
    F32(f32),
    F64(f64),
}

impl Num {
    fn f64(self) -> f64 {
        match self {
            Num::Int(v) => v as f64,
            Num::F32(v) => v.into(),
            Num::F64(v) => v,
        }
    }
}

fn cell_number(cell: &Cell) -> Option<Num> {
    Some(match cell {
        Cell::Null => return None,
        Cell::Int(v) => Num::Int(*v),
        Cell::F16(v) => Num::F32(v.to_f32()),
        Cell::F32(v) => Num::F32(*v),
        Cell::F64(v) => Num::F64(*v),
        Cell::Decimal(v, scale) if *scale >= 0 => Num::F64(*v as f64 / 10f64.powi(*scale)),
        Cell::Decimal(v, scale) => Num::F64(*v as f64 * 10f64.powi(-scale)),
        other => panic!("{other:?}"),
    })
}

fn literal_number(literal: &Lit, other: Option<Num>) -> Option<Num> {
    let value = match literal {
        Lit::Null => return None,
        Lit::Number(text, mantissa, 0) => match other {
            Some(Num::Int(_)) | None => return Some(Num::Int(*mantissa)),
            _ => text.parse().unwrap(),
        },
        Lit::Number(text, ..) => text.parse().unwrap(),
        Lit::Inf(negative) => {
            if *negative {
                f64::NEG_INFINITY
            } else {
                f64::INFINITY
            }
        }
        Lit::NaN => f64::NAN,
        other => panic!("{other:?}"),
    };
    let fits = (value as f32).is_finite() || matches!(literal, Lit::Inf(_) | Lit::NaN);
    Some(match other {
        Some(Num::F32(_)) if fits => Num::F32(value as f32),
        _ => Num::F64(value),
    })
}

/// The type of an expression is the same for every row, so evaluation with a null per type finds it.
fn kind_of(expr: &Expr) -> Option<Num> {
    match expr {
        Expr::Column(index) => cell_number(&sample(*index)),
        Expr::Literal(_) => None,
        Expr::Arithmetic(op, a, b) => {
            let (x, y) = (kind_of(a), kind_of(b));
            let (x, y) = match (x, y) {
                (Some(x), Some(y)) => (x, y),
                (Some(x), None) => (x, typed(b, Some(x)).unwrap_or(x)),
                (None, Some(y)) => (typed(a, Some(y)).unwrap_or(y), y),
                (None, None) => return None,
            };
            Some(match (x, y) {
                (Num::Int(_), Num::Int(_)) if *op != "/" => Num::Int(0),
                (Num::F32(_), Num::F32(_)) => Num::F32(0.0),
                _ => Num::F64(0.0),
            })
        }
        Expr::Function(name, a) => match (kind_of(a)?, *name) {
            (_, "sqrt") => Some(Num::F64(0.0)),
            (kind, _) => Some(kind),
        },
        Expr::Truth(_) => None,
        Expr::Case(_, a, b) => match (kind_of(a)?, b.as_ref().map(|b| kind_of(b))) {
            (kind, None) => Some(kind),
            (Num::Int(_), Some(Some(Num::Int(_)))) => Some(Num::Int(0)),
            (Num::F32(_), Some(Some(Num::F32(_)))) => Some(Num::F32(0.0)),
            _ => Some(Num::F64(0.0)),
        },
    }
}

fn typed(expr: &Expr, other: Option<Num>) -> Option<Num> {
    match expr {
        Expr::Literal(literal) => literal_number(literal, other),
        Expr::Truth(_) => other,
        _ => None,
    }
}

thread_local! {
    static BEYOND: StdCell<bool> = const { StdCell::new(false) };
}

pub fn went_beyond() -> bool {
    BEYOND.replace(false)
}

fn fitting(result: Option<i128>) -> Option<Num> {
    BEYOND.set(BEYOND.get() || result.is_none());
    result.map(Num::Int)
}

fn compute(expr: &Expr, row: &dyn Fn(usize) -> Cell) -> Option<Num> {
    match expr {
        Expr::Column(index) => cell_number(&row(*index)),
        Expr::Literal(_) | Expr::Truth(_) => panic!("alone"),
        Expr::Case(cond, a, b) => {
            let kind = kind_of(expr);
            let value = match answer(cond, row) {
                Some(true) => compute(a, row)?,
                _ => compute(b.as_ref()?, row)?,
            };
            Some(match kind {
                Some(Num::F64(_)) => Num::F64(value.f64()),
                _ => value,
            })
        }
        Expr::Function(name, a) => {
            let value = compute(a, row)?;
            match (value, *name) {
                (Num::Int(v), "-") => fitting(v.checked_neg()),
                (Num::Int(v), "abs") => fitting(v.checked_abs()),
                (v, "sqrt") => Some(Num::F64(v.f64().sqrt())),
                (Num::Int(v), _) => Some(Num::Int(v)),
                (Num::F32(v), name) => Some(Num::F32(match name {
                    "-" => -v,
                    "abs" => v.abs(),
                    "floor" => v.floor(),
                    _ => v.ceil(),
                })),
                (Num::F64(v), name) => Some(Num::F64(match name {
                    "-" => -v,
                    "abs" => v.abs(),
                    "floor" => v.floor(),
                    _ => v.ceil(),
                })),
            }
        }
        Expr::Arithmetic(op, a, b) => {
            let side = |this: &Expr, other: &Expr| match this {
                Expr::Literal(literal) => literal_number(literal, kind_of(other)),
                Expr::Truth(cond) => answer(cond, row).map(|truth| match kind_of(other) {
                    Some(Num::F32(_)) => Num::F32(truth.into()),
                    Some(Num::F64(_)) => Num::F64(truth.into()),
                    _ => Num::Int(truth.into()),
                }),
                _ => compute(this, row),
            };
            let (x, y) = (side(a, b)?, side(b, a)?);
            if matches!(*op, "/" | "%") && y.f64() == 0.0 {
                return None;
            }
            match (x, y) {
                (Num::Int(x), Num::Int(y)) if *op != "/" => match *op {
                    "+" => fitting(x.checked_add(y)),
                    "-" => fitting(x.checked_sub(y)),
                    "*" => fitting(x.checked_mul(y)),
                    "%" => Some(Num::Int(x.wrapping_rem(y))),
                    "least" => Some(Num::Int(x.min(y))),
                    _ => Some(Num::Int(x.max(y))),
                },
                (Num::F32(x), Num::F32(y)) => Some(Num::F32(match *op {
                    "+" => x + y,
                    "-" => x - y,
                    "*" => x * y,
                    "/" => x / y,
                    "%" => x % y,
                    _ if x.is_nan() || y.is_nan() => f32::NAN,
                    "least" => {
                        if y < x {
                            y
                        } else {
                            x
                        }
                    }
                    _ => {
                        if y > x {
                            y
                        } else {
                            x
                        }
                    }
                })),
                (x, y) => {
                    let (x, y) = (x.f64(), y.f64());
                    Some(Num::F64(match *op {
                        "+" => x + y,
                        "-" => x - y,
                        "*" => x * y,
                        "/" => x / y,
                        "%" => x % y,
                        _ if x.is_nan() || y.is_nan() => f64::NAN,
                        "least" => {
                            if y < x {
                                y
                            } else {
                                x
                            }
                        }
                        _ => {
                            if y > x {
                                y
                            } else {
                                x
                            }
                        }
                    }))
                }
            }
        }
    }
}

fn order(a: &Expr, b: &Expr, row: &dyn Fn(usize) -> Cell) -> Option<Ordering> {
    match (a, b) {
        (Expr::Column(index), Expr::Literal(literal)) => against(&row(*index), literal),
        (Expr::Literal(_), _) => order(b, a, row).map(Ordering::reverse),
        (expr, Expr::Literal(literal)) => match compute(expr, row)? {
            Num::Int(v) => against(&Cell::Int(v), literal),
            Num::F32(v) => against(&Cell::F32(v), literal),
            Num::F64(v) => against(&Cell::F64(v), literal),
        },
        (Expr::Column(x), Expr::Column(y)) => match (row(*x), row(*y)) {
            (Cell::Null, _) | (_, Cell::Null) => None,
            (Cell::Bool(a), Cell::Bool(b)) => Some(a.cmp(&b)),
            (Cell::Text(a), Cell::Text(b)) => Some(a.cmp(&b)),
            (Cell::Bytes(a), Cell::Bytes(b)) => Some(a.cmp(&b)),
            (Cell::Time(a, p, _), Cell::Time(b, q, _)) => Some((a * p).cmp(&(b * q))),
            (Cell::Decimal(a, s), Cell::Decimal(b, t)) => Some(rational(a, s, b, -t)),
            (Cell::Int(a), Cell::Decimal(b, t)) => Some(rational(a, 0, b, -t)),
            (Cell::Decimal(a, s), Cell::Int(b)) => Some(rational(a, s, b, 0)),
            (a, b) => numbers(cell_number(&a)?, cell_number(&b)?),
        },
        (a, b) => numbers(compute(a, row)?, compute(b, row)?),
    }
}

fn numbers(a: Num, b: Num) -> Option<Ordering> {
    match (a, b) {
        (Num::Int(a), Num::Int(b)) => Some(a.cmp(&b)),
        (Num::F32(a), Num::F32(b)) => a.partial_cmp(&b),
        (a, b) => a.f64().partial_cmp(&b.f64()),
    }
}

fn like(text: &[char], pattern: &[char]) -> bool {
    match pattern {
        [] => text.is_empty(),
        ['%', rest @ ..] => (0..=text.len()).any(|skip| like(&text[skip..], rest)),
        ['_', rest @ ..] => !text.is_empty() && like(&text[1..], rest),
        [c, rest @ ..] => text.first() == Some(c) && like(&text[1..], rest),
    }
}

pub fn answer(cond: &Cond, row: &dyn Fn(usize) -> Cell) -> Option<bool> {
    match cond {
        Cond::Constant(answer) => *answer,
        Cond::Compare(op, a, b) => holds(op, order(a, b, row)),
        Cond::Between(negated, column, low, high) => {
            let cell = row(*column);
            let (low, high) = (holds(">=", against(&cell, low)), holds("<=", against(&cell, high)));
            and([low, high].into_iter()).map(|inside| inside != *negated)
        }
        Cond::In(negated, column, items) => {
            let cell = row(*column);
            or(items.iter().map(|item| holds("=", against(&cell, item)))).map(|listed| listed != *negated)
        }
        Cond::IsNull(negated, column) => Some((row(*column) == Cell::Null) != *negated),
        Cond::IsNan(column) => cell_number(&row(*column)).map(|number| number.f64().is_nan()),
        Cond::IsFinite(column) => cell_number(&row(*column)).map(|number| number.f64().is_finite()),
        Cond::Flag(column) => match row(*column) {
            Cell::Bool(flag) => Some(flag),
            _ => None,
        },
        Cond::Like(negated, ignore_case, column, pattern) => match row(*column) {
            Cell::Text(text) => {
                let fold = |text: &str| if *ignore_case { text.to_lowercase() } else { text.to_owned() };
                let (text, pattern) = (fold(&text), fold(pattern));
                let found = like(&text.chars().collect::<Vec<_>>(), &pattern.chars().collect::<Vec<_>>());
                Some(found != *negated)
            }
            _ => None,
        },
        Cond::Is(inner, truth) => {
            let (negated, wanted) = match truth.strip_prefix("NOT ") {
                Some(wanted) => (true, wanted),
                None => (false, *truth),
            };
            let wanted = match wanted {
                "TRUE" => Some(true),
                "FALSE" => Some(false),
                _ => None,
            };
            Some((answer(inner, row) == wanted) != negated)
        }
        Cond::Same(a, b) => Some(answer(a, row)? == answer(b, row)?),
        Cond::Not(inner) => answer(inner, row).map(|answer| !answer),
        Cond::And(all) => and(all.iter().map(|cond| answer(cond, row))),
        Cond::Or(any) => or(any.iter().map(|cond| answer(cond, row))),
    }
}

fn and(mut answers: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let all: Vec<_> = answers.by_ref().collect();
    if all.contains(&Some(false)) {
        Some(false)
    } else if all.contains(&None) {
        None
    } else {
        Some(true)
    }
}

fn or(answers: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    and(answers.map(|answer| answer.map(|answer| !answer))).map(|answer| !answer)
}
