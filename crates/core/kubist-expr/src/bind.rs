//! Binding of names and literals to columns and typed tests.
//!
//! All type errors appear here, so evaluation and zones rely on correct types. The bound form is linear in the
//! text, because `IN` and `BETWEEN` store the operand of several comparisons once.

mod case;
mod cast;
mod choose;
mod texts;

use crate::arithmetic::{self, call};
use crate::bound::{Column, Compute, Known, Operand, PointList, Points, Sides, Step, Test};
use crate::domain::{Family, Mismatch, Position, Range};
use crate::error::ExprError;
use crate::meaning::{Meaning, computed, describe, describe_operand, family};
use crate::measured;
use crate::moment::Moment;
use crate::names::Names;
use crate::number::Number;
use crate::syntax::{Op, Syntax};
use crate::value::Literal;
use arrow_buffer::i256;
use arrow_schema::Schema;
use kubist_index::gradual::Never;
use std::sync::Arc;

/// Limit of an expression's tests and steps: each takes some hundred bytes of memory, and time per row.
const MOST_PARTS: usize = 1 << 18;

pub(crate) fn bind(syntax: Syntax, schema: &Schema) -> Result<Meaning, ExprError> {
    let meaning = meaning_of(syntax, &Names::new(schema))?;
    let size = match &meaning {
        Meaning::Literal(_) => 1,
        Meaning::Operand(operand) => operand.size(),
        Meaning::Test(test) => test.size(),
        Meaning::Choice(choice) => choice.size(),
    };
    if size > MOST_PARTS {
        return Err(ExprError::TooLarge {
            limit: format!("{MOST_PARTS} conditions and computations; values for one column can be listed by IN"),
        });
    }
    Ok(meaning)
}

pub(crate) fn condition(syntax: Syntax, schema: &Schema) -> Result<Test, ExprError> {
    as_test(bind(syntax, schema)?)
}

pub(crate) fn column_against(op: Op, column: Arc<Column>, literal: &Literal) -> Result<Test, ExprError> {
    against(op, Operand::Column(column), literal)
}

pub(crate) fn mismatch(subject: &str, literal: &Literal, reason: Mismatch) -> ExprError {
    let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    ExprError::type_mistake(format!("{subject} cannot be compared with {}{reason}", literal.described()))
}

/// Only dispatches: it recurses, so its stack frame must stay small.
fn meaning_of(syntax: Syntax, names: &Names) -> Result<Meaning, ExprError> {
    match syntax {
        Syntax::Literal(literal) => Ok(Meaning::Literal(literal)),
        Syntax::Column { name, quoted } => named(names, &name, quoted),
        Syntax::Not(operand) => bind_not(*operand, names),
        Syntax::And(operands) => bind_and(operands, names),
        Syntax::Or(operands) => bind_or(operands, names),
        Syntax::IsNull(operand) => bind_is_null(*operand, names),
        Syntax::IsTruth { operand, truth } => bind_is_truth(*operand, truth, names),
        Syntax::Compare { op, left, right } => bind_compare(op, *left, *right, names),
        Syntax::Between { operand, low, high } => bind_between(*operand, *low, *high, names),
        Syntax::In { operand, items } => among(meaning_of(*operand, names)?, all(items, names)?),
        Syntax::Like { operand, pattern, escape, ignore_case } => {
            texts::like(meaning_of(*operand, names)?, meaning_of(*pattern, names)?, escape, ignore_case)
        }
        Syntax::Call { name, operands } => bind_call(&name, all(operands, names)?, names),
        Syntax::Case { operand, whens, otherwise } => case::bind(operand, whens, otherwise, names),
        Syntax::Cast { operand, to } => cast::bind(meaning_of(*operand, names)?, to),
    }
}

fn bind_call(name: &str, operands: Vec<Meaning>, names: &Names) -> Result<Meaning, ExprError> {
    let lower = name.to_ascii_lowercase();
    match lower.as_str() {
        "coalesce" | "ifnull" => choose::coalesce(&lower, operands, names),
        "nullif" => choose::nullif(operands, names),
        _ => match texts::function(&lower) {
            Some(function) => texts::call(&lower, function, operands, names),
            None => call(name, operands, &names.units),
        },
    }
}

fn all(syntax: Vec<Syntax>, names: &Names) -> Result<Vec<Meaning>, ExprError> {
    syntax.into_iter().map(|syntax| meaning_of(syntax, names)).collect()
}

fn condition_of(syntax: Syntax, names: &Names) -> Result<Test, ExprError> {
    as_test(meaning_of(syntax, names)?)
}

fn conditions(operands: Vec<Syntax>, names: &Names) -> Result<Vec<Test>, ExprError> {
    operands.into_iter().map(|operand| condition_of(operand, names)).collect()
}

fn bind_not(operand: Syntax, names: &Names) -> Result<Meaning, ExprError> {
    condition_of(operand, names).map(not).map(Meaning::from)
}

fn bind_and(operands: Vec<Syntax>, names: &Names) -> Result<Meaning, ExprError> {
    conditions(operands, names).map(Test::all).map(Meaning::from)
}

fn bind_or(operands: Vec<Syntax>, names: &Names) -> Result<Meaning, ExprError> {
    conditions(operands, names).map(Test::Or).map(Meaning::from)
}

fn bind_is_null(operand: Syntax, names: &Names) -> Result<Meaning, ExprError> {
    is_null(meaning_of(operand, names)?).map(Meaning::from)
}

fn is_null(operand: Meaning) -> Result<Test, ExprError> {
    Ok(match operand {
        Meaning::Literal(literal) => Test::Constant(Some(literal == Literal::Null)),
        Meaning::Operand(operand) => Test::IsNull(*operand),
        Meaning::Test(test) => Test::IsTruth(test, None),
        Meaning::Choice(choice) => case::is_null(*choice)?,
    })
}

fn bind_is_truth(operand: Syntax, truth: Option<bool>, names: &Names) -> Result<Meaning, ExprError> {
    condition_of(operand, names).map(|test| Meaning::from(Test::IsTruth(Box::new(test), truth)))
}

fn bind_compare(op: Op, left: Syntax, right: Syntax, names: &Names) -> Result<Meaning, ExprError> {
    compare(op, meaning_of(left, names)?, meaning_of(right, names)?).map(Meaning::from)
}

fn bind_between(operand: Syntax, low: Syntax, high: Syntax, names: &Names) -> Result<Meaning, ExprError> {
    between(meaning_of(operand, names)?, meaning_of(low, names)?, meaning_of(high, names)?)
}

fn between(operand: Meaning, low: Meaning, high: Meaning) -> Result<Meaning, ExprError> {
    match operand {
        Meaning::Operand(operand) => {
            let (operand, number) = shared(*operand);
            let from = compare(Op::Ge, operand.clone().into(), low)?;
            let upto = compare(Op::Le, operand.into(), high)?;
            Ok(once(number, Test::all(vec![from, upto])).into())
        }
        Meaning::Literal(literal) => {
            let from = compare(Op::Ge, Meaning::Literal(literal.clone()), low)?;
            let upto = compare(Op::Le, Meaning::Literal(literal), high)?;
            Ok(Test::all(vec![from, upto]).into())
        }
        Meaning::Test(test) => {
            let number = arithmetic::truth(*test).into();
            between(number, low, high)
        }
        Meaning::Choice(_) => Err(ExprError::type_mistake("BETWEEN takes no CASE of texts: compare it with = or IN")),
    }
}

/// Prepares an operand for several comparisons: [`once`] computes its number before the tests.
fn shared(operand: Operand) -> (Operand, Option<Arc<Compute>>) {
    match operand {
        Operand::Column(_) | Operand::Text(_) => (operand, None),
        Operand::Compute(compute) => {
            let number = Arc::new(compute);
            let step = Step::Known(Known(number.clone()));
            let known =
                Compute { stored: number.stored.clone(), unit: number.unit.clone(), ..Compute::new(number.kind, step) };
            (Operand::Compute(known), Some(number))
        }
    }
}

fn once(number: Option<Arc<Compute>>, test: Test) -> Test {
    match number {
        Some(number) => Test::Once(number, Box::new(test)),
        None => test,
    }
}

/// A column, or a named number such as `inf` if no column has that name.
fn named(names: &Names, name: &str, quoted: bool) -> Result<Meaning, ExprError> {
    let number = match name.to_ascii_lowercase().as_str() {
        "inf" | "infinity" => Some(Number::Infinite { negative: false }),
        "nan" => Some(Number::NaN),
        _ => None,
    };
    match number {
        Some(number) if !quoted && !names.knows(name) => Ok(Meaning::from(number)),
        _ => names.column(name, quoted).map(|column| Meaning::from(Operand::Column(column))),
    }
}

pub(crate) fn not(test: Test) -> Test {
    match test {
        Test::Constant(answer) => Test::Constant(answer.map(|answer| !answer)),
        Test::Not(test) => *test,
        test => Test::Not(Box::new(test)),
    }
}

pub(crate) fn as_test(bound: Meaning) -> Result<Test, ExprError> {
    match bound {
        Meaning::Test(test) => Ok(*test),
        Meaning::Literal(Literal::Bool(answer)) => Ok(Test::Constant(Some(answer))),
        Meaning::Literal(Literal::Null) => Ok(Test::Constant(None)),
        Meaning::Operand(operand) if family(&operand) == Family::Bool => {
            against(Op::Eq, *operand, &Literal::Bool(true))
        }
        Meaning::Operand(operand) if family(&operand) == Family::Null => Ok(Test::Constant(None)),
        other => {
            Err(ExprError::type_mistake(format!("{} is not a condition: compare it with something", describe(&other))))
        }
    }
}

fn within(operand: Operand, range: Range) -> Test {
    let span = operand.column().and_then(|column| range.span(&column.data_type));
    Test::Within { operand, range, span }
}

fn against(op: Op, operand: Operand, literal: &Literal) -> Result<Test, ExprError> {
    let family = family(&operand);
    let literal = &*measured::number(&operand, literal)?;
    let position = family.position(literal).map_err(|reason| mismatch(&describe_operand(&operand), literal, reason))?;
    Ok(match (family.range(op, &position), op) {
        (None, _) => Test::Constant(None),
        (Some(range), Op::Ne) => not(within(operand, range)),
        (Some(range), _) => within(operand, range),
    })
}

fn compare(op: Op, left: Meaning, right: Meaning) -> Result<Test, ExprError> {
    if let Some(test) = flag_against(op, &left, &right).or_else(|| flag_against(op, &right, &left)) {
        return test;
    }
    let (left, right) = (as_number_beside(left, &right), right);
    let (right, left) = (as_number_beside(right, &left), left);
    match (left, right) {
        (Meaning::Literal(left), Meaning::Literal(right)) => compare_literals(op, &left, &right),
        (Meaning::Literal(literal), Meaning::Operand(operand)) => against(op.flipped(), *operand, &literal),
        (Meaning::Operand(operand), Meaning::Literal(literal)) => against(op, *operand, &literal),
        (Meaning::Operand(left), Meaning::Operand(right)) => compare_operands(op, *left, *right),
        (Meaning::Choice(choice), Meaning::Literal(literal)) => case::against(op, *choice, &literal),
        (Meaning::Literal(literal), Meaning::Choice(choice)) => case::against(op.flipped(), *choice, &literal),
        (left, right) => {
            let mistake = format!("{} cannot be compared with {}", describe(&left), describe(&right));
            let (Ok(left), Ok(right)) = (as_test(left), as_test(right)) else {
                return Err(ExprError::type_mistake(mistake));
            };
            compare_tests(op, left, right)
        }
    }
}

/// A boolean column compared with 1 or 0 becomes a test that zone maps can decide.
fn flag_against(op: Op, flag: &Meaning, literal: &Meaning) -> Option<Result<Test, ExprError>> {
    let (Meaning::Operand(operand), Meaning::Literal(Literal::Number(Number::Finite(number)))) = (flag, literal) else {
        return None;
    };
    let truth = match number.as_integer()? {
        0 => false,
        1 => true,
        _ => return None,
    };
    let is_flag = operand.column().is_some() && family(operand) == Family::Bool;
    (is_flag && matches!(op, Op::Eq | Op::Ne)).then(|| against(op, *operand.clone(), &Literal::Bool(truth)))
}

fn is_number(meaning: &Meaning) -> bool {
    match meaning {
        Meaning::Literal(literal) => matches!(literal, Literal::Number(_)),
        Meaning::Operand(operand) => {
            matches!(family(operand), Family::Int { .. } | Family::Decimal { .. } | Family::Float(_))
        }
        Meaning::Test(_) | Meaning::Choice(_) => false,
    }
}

fn as_number_beside(one: Meaning, other: &Meaning) -> Meaning {
    let number = is_number(other);
    match one {
        Meaning::Test(test) if number => arithmetic::truth(*test).into(),
        Meaning::Operand(operand) if number && family(&operand) == Family::Bool => {
            Operand::Compute(computed(*operand)).into()
        }
        same => same,
    }
}

fn compare_tests(op: Op, left: Test, right: Test) -> Result<Test, ExprError> {
    match op {
        Op::Eq => Ok(same(left, vec![right])),
        Op::Ne => Ok(not(same(left, vec![right]))),
        _ => Err(ExprError::type_mistake("two conditions can be compared with = and <> only")),
    }
}

fn same(one: Test, others: Vec<Test>) -> Test {
    match (one, others.as_slice()) {
        (Test::Constant(None), _) => Test::Constant(None),
        (Test::Constant(Some(true)), _) => any(others),
        (Test::Constant(Some(false)), _) => any(others.into_iter().map(not).collect()),
        (_, [Test::Constant(None)]) => Test::Constant(None),
        (one, [Test::Constant(Some(true))]) => one,
        (one, [Test::Constant(Some(false))]) => not(one),
        (one, _) => Test::Same(Box::new(one), others),
    }
}

fn any(mut tests: Vec<Test>) -> Test {
    if tests.len() == 1 { tests.swap_remove(0) } else { Test::Or(tests) }
}

fn compare_literals(op: Op, left: &Literal, right: &Literal) -> Result<Test, ExprError> {
    let order = match (left, right) {
        (Literal::Null, _) | (_, Literal::Null) => None,
        (Literal::Bool(left), Literal::Bool(right)) => Some(left.cmp(right)),
        (Literal::Number(left), Literal::Number(right)) => left.compare(right),
        (Literal::Text(left), Literal::Text(right)) => Some(left.cmp(right)),
        (Literal::Binary(left), Literal::Binary(right)) => Some(left.cmp(right)),
        _ => {
            let instant = |literal: &Literal| match literal {
                Literal::Moment { moment, .. } => Some(*moment),
                Literal::Text(text) => Moment::parse(text),
                _ => None,
            };
            match (instant(left), instant(right)) {
                (Some(a), Some(b)) if a.of_day == b.of_day && !a.finer && !b.finer => {
                    Some(a.nanoseconds.cmp(&b.nanoseconds))
                }
                _ => return Err(mismatch(&left.described(), right, None)),
            }
        }
    };
    Ok(Test::Constant(order.map(|order| op.holds(order))))
}

fn compare_operands(op: Op, left: Operand, right: Operand) -> Result<Test, ExprError> {
    use Family::{Binary, Bool, Decimal, Duration, Float, Instant, Int, Null, Text, TimeOfDay};
    let (left, right) = measured::comparable(left, right)?;
    let sides = match (family(&left), family(&right)) {
        (Null, _) | (_, Null) => return Ok(Test::Constant(None)),
        (Bool, Bool) => return compare_tests(op, as_test(left.into())?, as_test(right.into())?),
        (Int { .. }, Int { .. }) => in_integers(left, 1, right, 1),
        (Instant { unit: a, .. }, Instant { unit: b, .. })
        | (TimeOfDay { unit: a, .. }, TimeOfDay { unit: b, .. })
        | (Duration { unit: a }, Duration { unit: b }) => in_integers(left, a, right, b),
        (Text, Text) if left.column().is_none() || right.column().is_none() => {
            Sides::Texts { left: texts::text_of(left), right: texts::text_of(right) }
        }
        (a, b) => match (a, b, left, right) {
            (Text, Text, Operand::Column(left), Operand::Column(right))
            | (Binary, Binary, Operand::Column(left), Operand::Column(right)) => Sides::Bytes { left, right },
            (
                Int { .. } | Decimal { .. },
                Int { .. } | Decimal { .. },
                Operand::Column(left),
                Operand::Column(right),
            ) => in_decimals(left, scale(&a), right, scale(&b)),
            (Int { .. } | Decimal { .. } | Float(_), Int { .. } | Decimal { .. } | Float(_), left, right) => {
                in_floats(left, right)
            }
            (_, _, left, right) => {
                return Err(ExprError::type_mistake(format!(
                    "{} cannot be compared with {}",
                    describe_operand(&left),
                    describe_operand(&right)
                )));
            }
        },
    };
    Ok(Test::Compare { op, sides: Box::new(sides) })
}

fn scale(family: &Family) -> i32 {
    match family {
        Family::Decimal { scale, .. } => i32::from(*scale),
        _ => 0,
    }
}

fn in_integers(left: Operand, left_factor: i128, right: Operand, right_factor: i128) -> Sides {
    let common = left_factor.min(right_factor);
    // The smaller unit of time divides the larger one, so both divisions are exact.
    let (left_factor, right_factor) = (left_factor / common, right_factor / common);
    Sides::Int { left: computed(left), left_factor, right: computed(right), right_factor }
}

fn in_floats(left: Operand, right: Operand) -> Sides {
    Sides::Float { left: computed(left), right: computed(right) }
}

fn in_decimals(left: Arc<Column>, left_scale: i32, right: Arc<Column>, right_scale: i32) -> Sides {
    let finest = left_scale.max(right_scale);
    let factor = |scale: i32| {
        let ten = i256::from_i128(10);
        (0..finest - scale).try_fold(i256::ONE, |factor, _| factor.checked_mul(ten)).unwrap_or(i256::MAX)
    };
    Sides::Wide { left_factor: factor(left_scale), right_factor: factor(right_scale), left, right }
}

fn among(operand: Meaning, items: Vec<Meaning>) -> Result<Meaning, ExprError> {
    let operand = match items.iter().find(|item| is_number(item)) {
        Some(beside) => as_number_beside(operand, beside),
        None => operand,
    };
    let operand = match operand {
        Meaning::Operand(operand) => *operand,
        Meaning::Choice(choice) => return case::among(*choice, items).map(Meaning::from),
        Meaning::Test(test) => return same_as_one(*test, items).map(Meaning::from),
        Meaning::Literal(literal) => {
            let tests = items.into_iter().map(|item| compare(Op::Eq, Meaning::Literal(literal.clone()), item));
            return Ok(any(tests.collect::<Result<_, _>>()?).into());
        }
    };
    let (mut literals, mut others) = (Vec::new(), Vec::new());
    for item in items {
        match item {
            Meaning::Literal(literal) => literals.push(literal),
            other => others.push(other),
        }
    }
    if others.is_empty() {
        return among_literals(operand, &literals).map(Meaning::from);
    }
    let (operand, number) = shared(operand);
    let mut tests = Vec::with_capacity(others.len() + 1);
    if !literals.is_empty() {
        tests.push(among_literals(operand.clone(), &literals)?);
    }
    for item in others {
        tests.push(compare(Op::Eq, operand.clone().into(), item)?);
    }
    Ok(once(number, any(tests)).into())
}

fn same_as_one(test: Test, items: Vec<Meaning>) -> Result<Test, ExprError> {
    let mut others = Vec::with_capacity(items.len());
    let mut listed = Vec::new();
    for item in items {
        let described = describe(&item);
        match as_test(item) {
            Ok(Test::Constant(answer)) if listed.contains(&answer) => {}
            Ok(other) => {
                if let Test::Constant(answer) = &other {
                    listed.push(*answer);
                }
                others.push(other);
            }
            Err(_) => {
                return Err(ExprError::type_mistake(format!("a condition cannot be compared with {described}")));
            }
        }
    }
    Ok(same(test, others))
}

fn among_literals(operand: Operand, literals: &[Literal]) -> Result<Test, ExprError> {
    let family = family(&operand);
    let mut points = Vec::new();
    let mut null = false;
    for literal in literals {
        let literal = &*measured::number(&operand, literal)?;
        let position =
            family.position(literal).map_err(|reason| mismatch(&describe_operand(&operand), literal, reason))?;
        match position {
            Position::At(point) => points.push(point),
            Position::Unknown => null = true,
            Position::After(_) | Position::Below => {}
        }
    }
    if points.is_empty() {
        return Ok(if null { Test::Constant(None) } else { within(operand, Range::Empty) });
    }
    // The length of the text limits the number of points.
    let Ok(points) = PointList::new(points, &Never);
    let spans = match operand.column() {
        Some(column) => points.ranges().iter().filter_map(|range| range.span(&column.data_type)).collect(),
        None => Vec::new(),
    };
    Ok(Test::Among { operand, points: Arc::new(Points { points, spans }), null })
}
