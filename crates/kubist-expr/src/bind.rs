//! From names and literals to columns and typed tests.
//!
//! All mistakes of meaning are found here, once, so that evaluation and zones
//! have nothing left to doubt.

use crate::arithmetic::call;
use crate::bound::{Column, Compute, Kind, Operand, PointList, Points, Sides, Step, Test};
use crate::domain::{Family, Mismatch, Place, Range, Width, value_type};
use crate::error::ExprError;
use crate::evaluate;
use crate::moment::Moment;
use crate::names;
use crate::number::Number;
use crate::syntax::{Op, Syntax};
use crate::value::Literal;
use arrow_array::StringArray;
use arrow_buffer::i256;
use arrow_schema::Schema;
use kubist_index::order;
use std::sync::Arc;

/// What an expression turns out to be.
#[derive(Clone)]
pub(crate) enum Meaning {
    Literal(Literal),
    Operand(Box<Operand>),
    Test(Box<Test>),
}

impl From<Test> for Meaning {
    fn from(test: Test) -> Meaning {
        Meaning::Test(Box::new(test))
    }
}

impl From<Operand> for Meaning {
    fn from(operand: Operand) -> Meaning {
        Meaning::Operand(Box::new(operand))
    }
}

impl From<Number> for Meaning {
    fn from(number: Number) -> Meaning {
        Meaning::Literal(Literal::Number(number))
    }
}

/// Binds an expression that must be a condition.
pub(crate) fn condition(syntax: Syntax, schema: &Schema) -> Result<Test, ExprError> {
    as_test(bind(syntax, schema)?)
}

/// Looks a column up; `exactly`, or else ignoring case if need be.
pub(crate) fn column(schema: &Schema, name: &str, exactly: bool) -> Result<Column, ExprError> {
    let index = names::find(schema, name, exactly)?;
    let field = schema.field(index);
    let data_type = value_type(field.data_type()).clone();
    let numbers = order::number_keys(&data_type);
    Ok(Column { index, name: field.name().clone(), data_type, numbers })
}

/// `column op literal`.
pub(crate) fn column_against(op: Op, column: Column, literal: &Literal) -> Result<Test, ExprError> {
    against(op, Operand::Column(column), literal)
}

/// The error that `literal` does not go with what `subject` describes.
pub(crate) fn mismatch(subject: &str, literal: &Literal, reason: Mismatch) -> ExprError {
    let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    ExprError::type_mistake(format!("{subject} cannot be compared with {}{reason}", literal.described()))
}

/// Only tells the cases apart: this is what recurs, and its frame stays small.
pub(crate) fn bind(syntax: Syntax, schema: &Schema) -> Result<Meaning, ExprError> {
    match syntax {
        Syntax::Literal(literal) => Ok(Meaning::Literal(literal)),
        Syntax::Column { name, quoted } => named(schema, &name, quoted),
        Syntax::Not(operand) => bind_not(*operand, schema),
        Syntax::And(operands) => bind_and(operands, schema),
        Syntax::Or(operands) => bind_or(operands, schema),
        Syntax::IsNull(operand) => bind_is_null(*operand, schema),
        Syntax::IsTruth { operand, truth } => bind_is_truth(*operand, truth, schema),
        Syntax::Compare { op, left, right } => bind_compare(op, *left, *right, schema),
        Syntax::Between { operand, low, high } => bind_between(*operand, *low, *high, schema),
        Syntax::In { operand, items } => among(bind(*operand, schema)?, all(items, schema)?),
        Syntax::Like { operand, pattern, ignore_case } => {
            like(bind(*operand, schema)?, bind(*pattern, schema)?, ignore_case)
        }
        Syntax::Call { name, operands } => call(&name, all(operands, schema)?),
    }
}

fn all(syntax: Vec<Syntax>, schema: &Schema) -> Result<Vec<Meaning>, ExprError> {
    syntax.into_iter().map(|syntax| bind(syntax, schema)).collect()
}

fn conditions(operands: Vec<Syntax>, schema: &Schema) -> Result<Vec<Test>, ExprError> {
    operands.into_iter().map(|operand| condition(operand, schema)).collect()
}

fn bind_not(operand: Syntax, schema: &Schema) -> Result<Meaning, ExprError> {
    condition(operand, schema).map(not).map(Meaning::from)
}

fn bind_and(operands: Vec<Syntax>, schema: &Schema) -> Result<Meaning, ExprError> {
    conditions(operands, schema).map(Test::all).map(Meaning::from)
}

fn bind_or(operands: Vec<Syntax>, schema: &Schema) -> Result<Meaning, ExprError> {
    conditions(operands, schema).map(Test::Or).map(Meaning::from)
}

fn bind_is_null(operand: Syntax, schema: &Schema) -> Result<Meaning, ExprError> {
    Ok(Meaning::from(match bind(operand, schema)? {
        Meaning::Literal(literal) => Test::Constant(Some(literal == Literal::Null)),
        Meaning::Operand(operand) => Test::IsNull(*operand),
        Meaning::Test(test) => Test::IsTruth(test, None),
    }))
}

fn bind_is_truth(operand: Syntax, truth: Option<bool>, schema: &Schema) -> Result<Meaning, ExprError> {
    condition(operand, schema).map(|test| Meaning::from(Test::IsTruth(Box::new(test), truth)))
}

fn bind_compare(op: Op, left: Syntax, right: Syntax, schema: &Schema) -> Result<Meaning, ExprError> {
    compare(op, bind(left, schema)?, bind(right, schema)?).map(Meaning::from)
}

fn bind_between(operand: Syntax, low: Syntax, high: Syntax, schema: &Schema) -> Result<Meaning, ExprError> {
    let operand = bind(operand, schema)?;
    let from = compare(Op::Ge, operand.clone(), bind(low, schema)?)?;
    let upto = compare(Op::Le, operand, bind(high, schema)?)?;
    Ok(Meaning::from(Test::all(vec![from, upto])))
}

/// A column or, where no column has that name, a number with a name.
fn named(schema: &Schema, name: &str, quoted: bool) -> Result<Meaning, ExprError> {
    let error = match column(schema, name, quoted) {
        Ok(column) => return Ok(Meaning::from(Operand::Column(column))),
        Err(error) => error,
    };
    match (quoted, &error, name.to_ascii_lowercase().as_str()) {
        (false, ExprError::UnknownColumn { .. }, "inf" | "infinity") => {
            Ok(Meaning::from(Number::Infinite { negative: false }))
        }
        (false, ExprError::UnknownColumn { .. }, "nan") => Ok(Meaning::from(Number::NaN)),
        _ => Err(error),
    }
}

fn not(test: Test) -> Test {
    match test {
        Test::Constant(answer) => Test::Constant(answer.map(|answer| !answer)),
        Test::Not(test) => *test,
        test => Test::Not(Box::new(test)),
    }
}

pub(crate) fn describe(bound: &Meaning) -> String {
    match bound {
        Meaning::Literal(literal) => literal.described(),
        Meaning::Operand(operand) => describe_operand(operand),
        Meaning::Test(_) => "a condition".to_owned(),
    }
}

pub(crate) fn describe_operand(operand: &Operand) -> String {
    match operand {
        Operand::Column(column) => format!("column `{}` of type {}", column.name, column.data_type),
        Operand::Compute(_) => "a computed number".to_owned(),
    }
}

pub(crate) fn family(operand: &Operand) -> Family {
    match operand {
        Operand::Column(column) => Family::of(&column.data_type),
        Operand::Compute(compute) => match compute.kind {
            Kind::Int => Family::Int { first: i128::MIN, last: i128::MAX },
            Kind::F32 => Family::Float(Width::F32),
            Kind::F64 => Family::Float(Width::F64),
        },
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

/// `operand op literal`.
fn against(op: Op, operand: Operand, literal: &Literal) -> Result<Test, ExprError> {
    let family = family(&operand);
    let place = family.place(literal).map_err(|reason| mismatch(&describe_operand(&operand), literal, reason))?;
    Ok(match (family.range(op, &place), op) {
        (None, _) => Test::Constant(None),
        (Some(range), Op::Ne) => not(within(operand, range)),
        (Some(range), _) => within(operand, range),
    })
}

fn compare(op: Op, left: Meaning, right: Meaning) -> Result<Test, ExprError> {
    match (left, right) {
        (Meaning::Literal(left), Meaning::Literal(right)) => compare_literals(op, &left, &right),
        (Meaning::Literal(literal), Meaning::Operand(operand)) => against(op.flipped(), *operand, &literal),
        (Meaning::Operand(operand), Meaning::Literal(literal)) => against(op, *operand, &literal),
        (Meaning::Operand(left), Meaning::Operand(right)) => compare_operands(op, *left, *right),
        (left, right) => {
            let mistake = format!("{} cannot be compared with {}", describe(&left), describe(&right));
            let (Ok(left), Ok(right)) = (as_test(left), as_test(right)) else {
                return Err(ExprError::type_mistake(mistake));
            };
            same(op, left, right)
        }
    }
}

/// Two conditions have no order, but they can be equal.
fn same(op: Op, left: Test, right: Test) -> Result<Test, ExprError> {
    let test = match (left, right) {
        (Test::Constant(None), _) | (_, Test::Constant(None)) => Test::Constant(None),
        (Test::Constant(Some(answer)), test) | (test, Test::Constant(Some(answer))) => {
            if answer {
                test
            } else {
                not(test)
            }
        }
        (left, right) => Test::Same(Box::new(left), Box::new(right)),
    };
    match op {
        Op::Eq => Ok(test),
        Op::Ne => Ok(not(test)),
        _ => Err(ExprError::type_mistake("two conditions can be compared with = and <> only")),
    }
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
    let sides = match (family(&left), family(&right)) {
        (Null, _) | (_, Null) => return Ok(Test::Constant(None)),
        (Bool, Bool) => return same(op, as_test(left.into())?, as_test(right.into())?),
        (Int { .. }, Int { .. }) => in_integers(left, 1, right, 1),
        (Instant { unit: a, .. }, Instant { unit: b, .. })
        | (TimeOfDay { unit: a, .. }, TimeOfDay { unit: b, .. })
        | (Duration { unit: a }, Duration { unit: b }) => in_integers(left, a, right, b),
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

/// An operand as a number in the kind of its own type.
pub(crate) fn computed(operand: Operand) -> Compute {
    match operand {
        Operand::Compute(compute) => compute,
        Operand::Column(column) => {
            let kind = match Family::of(&column.data_type) {
                Family::Float(Width::F16 | Width::F32) => Kind::F32,
                Family::Float(Width::F64) | Family::Decimal { .. } => Kind::F64,
                _ => Kind::Int,
            };
            Compute { kind, step: Step::Column(column) }
        }
    }
}

fn in_integers(left: Operand, left_factor: i128, right: Operand, right_factor: i128) -> Sides {
    let common = left_factor.min(right_factor);
    // Units divide each other.
    let (left_factor, right_factor) = (left_factor / common, right_factor / common);
    Sides::Int { left: computed(left), left_factor, right: computed(right), right_factor }
}

fn in_floats(left: Operand, right: Operand) -> Sides {
    Sides::Float { left: computed(left), right: computed(right) }
}

fn in_decimals(left: Column, left_scale: i32, right: Column, right_scale: i32) -> Sides {
    let finest = left_scale.max(right_scale);
    let factor = |scale: i32| {
        let ten = i256::from_i128(10);
        (0..finest - scale).try_fold(i256::ONE, |factor, _| factor.checked_mul(ten)).unwrap_or(i256::MAX)
    };
    Sides::Wide { left_factor: factor(left_scale), right_factor: factor(right_scale), left, right }
}

fn among(operand: Meaning, items: Vec<Meaning>) -> Result<Meaning, ExprError> {
    let literals = items.iter().map(|item| match item {
        Meaning::Literal(literal) => Some(literal),
        _ => None,
    });
    let (Meaning::Operand(listed), Some(literals)) = (&operand, literals.collect::<Option<Vec<_>>>()) else {
        let tests = items.into_iter().map(|item| compare(Op::Eq, operand.clone(), item));
        return Ok(Test::Or(tests.collect::<Result<Vec<_>, _>>()?).into());
    };
    let family = family(listed);
    let mut points = Vec::new();
    let mut null = false;
    for literal in literals {
        let place = family.place(literal).map_err(|reason| mismatch(&describe_operand(listed), literal, reason))?;
        match place {
            Place::At(point) => points.push(point),
            Place::Unknown => null = true,
            Place::After(_) | Place::Below => {}
        }
    }
    if points.is_empty() {
        let nowhere = within((**listed).clone(), Range::Empty);
        return Ok(if null { Test::Constant(None) } else { nowhere }.into());
    }
    let points = PointList::new(points);
    let spans = match listed.column() {
        Some(column) => points.ranges().iter().filter_map(|range| range.span(&column.data_type)).collect(),
        None => Vec::new(),
    };
    let points = Arc::new(Points { points, spans });
    Ok(Test::Among { operand: (**listed).clone(), points, null }.into())
}

fn like(operand: Meaning, pattern: Meaning, ignore_case: bool) -> Result<Meaning, ExprError> {
    let name = if ignore_case { "ILIKE" } else { "LIKE" };
    let column = match &operand {
        Meaning::Operand(operand) => operand.column(),
        _ => None,
    };
    let column = match column.map(|column| (Family::of(&column.data_type), column)) {
        Some((Family::Text, column)) => column.clone(),
        Some((Family::Null, _)) => return Ok(Test::Constant(None).into()),
        _ => {
            let found = describe(&operand);
            return Err(ExprError::type_mistake(format!("{name} takes a text column, not {found}")));
        }
    };
    let pattern = match pattern {
        Meaning::Literal(Literal::Text(pattern)) => pattern,
        Meaning::Literal(Literal::Null) => return Ok(Test::Constant(None).into()),
        other => {
            let found = describe(&other);
            return Err(ExprError::type_mistake(format!("{name} takes a text as pattern, not {found}")));
        }
    };
    let fixed = pattern.find(['%', '_', '\\']).unwrap_or(pattern.len());
    let (prefix, rest) = pattern.split_at(fixed);
    if !ignore_case && rest.is_empty() {
        return against(Op::Eq, Operand::Column(column), &Literal::Text(pattern)).map(Meaning::from);
    }
    if !ignore_case && rest.bytes().all(|byte| byte == b'%') {
        return Ok(within(Operand::Column(column), Range::prefix(prefix.as_bytes())).into());
    }
    // A pattern that the kernel cannot take should fail here, not at a batch.
    evaluate::like(&StringArray::from(vec!["probe"]), &pattern, ignore_case, true)?;
    let prefix = if ignore_case { "" } else { prefix };
    let span = Range::prefix(prefix.as_bytes()).span(&column.data_type);
    Ok(Test::Like { column, pattern, ignore_case, span }.into())
}
