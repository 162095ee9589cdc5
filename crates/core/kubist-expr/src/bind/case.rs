//! `CASE`: all branches are numbers, times, conditions or texts. A comparison with a `CASE` of texts compares
//! each text and becomes a `CASE` of conditions, which is 1 or 0.

use super::texts::text_of;
use super::{Names, among as among_of, as_test, compare, condition_of, meaning_of, shared};
use crate::arithmetic::{Numeric, common_kind, numeric, step};
use crate::bound::{self, Choice, Compute, Operand, Step, Test, Text, TextCall, TextFunction};
use crate::domain::{Family, Point, Position};
use crate::error::ExprError;
use crate::meaning::{Meaning, computed, describe, family};
use crate::measured;
use crate::number::{self, Decimal};
use crate::syntax::{Op, Syntax};
use crate::unit::Unit;
use crate::value::Literal;
use arrow_schema::DataType;
use std::sync::Arc;

/// Limit of the comparisons between the texts of a `CASE` and a list.
const MOST_COMPARISONS: usize = 1 << 18;

pub(super) fn bind(
    operand: Option<Box<Syntax>>,
    whens: Vec<(Syntax, Syntax)>,
    otherwise: Option<Box<Syntax>>,
    names: &Names,
) -> Result<Meaning, ExprError> {
    let (mut tests, mut values) = (Vec::with_capacity(whens.len()), Vec::with_capacity(whens.len() + 1));
    let mut number = None;
    let operand = match operand.map(|operand| meaning_of(*operand, names)).transpose()? {
        None => None,
        Some(Meaning::Operand(operand)) => {
            let (operand, known) = shared(*operand);
            number = known;
            Some(operand)
        }
        Some(other) => {
            let found = describe(&other);
            return Err(ExprError::type_mistake(format!(
                "CASE takes a column or a computed number, not {found}: write CASE WHEN with conditions"
            )));
        }
    };
    for (when, then) in whens {
        tests.push(match &operand {
            None => condition_of(when, names)?,
            Some(operand) => compare(Op::Eq, operand.clone().into(), meaning_of(when, names)?)?,
        });
        values.push(meaning_of(then, names)?);
    }
    values.push(match otherwise {
        Some(otherwise) => meaning_of(*otherwise, names)?,
        None => Meaning::Literal(Literal::Null),
    });
    let (values, unit) = measured::branches(values, &names.units)?;
    of_kind(Picks::Case { known: number, tests }, values, unit)
}

type Shared = Option<Arc<Compute>>;

pub(super) enum Picks {
    /// The last value has no test.
    Case {
        known: Shared,
        tests: Vec<Test>,
    },
    Coalesce,
}

impl Picks {
    fn name(&self) -> &'static str {
        match self {
            Picks::Case { .. } => "CASE",
            Picks::Coalesce => "coalesce",
        }
    }
}

#[derive(Clone, PartialEq)]
enum Kind {
    Null,
    Number,
    Condition,
    Text,
    Written,
    /// Dates and times of the same type.
    Time(DataType),
    AnyTime,
}

fn kind(value: &Meaning) -> Result<Kind, ExprError> {
    Ok(match value {
        Meaning::Literal(Literal::Null) => Kind::Null,
        Meaning::Literal(Literal::Number(_)) => Kind::Number,
        Meaning::Literal(Literal::Bool(_)) | Meaning::Test(_) => Kind::Condition,
        Meaning::Literal(Literal::Text(_)) => Kind::Written,
        Meaning::Choice(_) => Kind::Text,
        Meaning::Literal(Literal::Moment { .. }) => Kind::AnyTime,
        Meaning::Operand(operand) => match family(operand) {
            Family::Null => Kind::Null,
            Family::Bool => Kind::Condition,
            Family::Int { .. } | Family::Decimal { .. } | Family::Float(_) => Kind::Number,
            Family::Text => Kind::Text,
            Family::Instant { .. } | Family::TimeOfDay { .. } | Family::Duration { .. } => match &**operand {
                Operand::Column(column) => Kind::Time(column.data_type.clone()),
                Operand::Compute(compute) => compute.stored.clone().map_or(Kind::Number, Kind::Time),
                Operand::Text(_) => Kind::Text,
            },
            Family::Binary | Family::Other => return Err(no_value(value)),
        },
        Meaning::Literal(Literal::Binary(_) | Literal::Quantity(_)) => return Err(no_value(value)),
    })
}

fn no_value(value: &Meaning) -> ExprError {
    ExprError::type_mistake(format!("CASE gives numbers, times, conditions or texts, not {}", describe(value)))
}

fn met(one: Kind, other: Kind) -> Option<Kind> {
    match (one, other) {
        (Kind::Null, kind) | (kind, Kind::Null) => Some(kind),
        (Kind::AnyTime, Kind::Time(kind)) | (Kind::Time(kind), Kind::AnyTime) => Some(Kind::Time(kind)),
        (Kind::Written, kind @ (Kind::Text | Kind::Time(_) | Kind::AnyTime))
        | (kind @ (Kind::Text | Kind::Time(_) | Kind::AnyTime), Kind::Written) => Some(kind),
        (one, other) => (one == other).then_some(one),
    }
}

pub(super) fn of_kind(picks: Picks, values: Vec<Meaning>, unit: Option<Arc<Unit>>) -> Result<Meaning, ExprError> {
    let mut common = Kind::Null;
    let mut first = None;
    for value in &values {
        let next = kind(value)?;
        let Some(met) = met(common, next.clone()) else {
            return Err(mixed(picks.name(), first.unwrap_or(value), value));
        };
        if next != Kind::Null && first.is_none() {
            first = Some(value);
        }
        common = met;
    }
    match common {
        Kind::Null => Ok(Meaning::Literal(Literal::Null)),
        Kind::Number => {
            let number = numbers(picks, values)?;
            Ok(Operand::Compute(Compute { unit, ..number }).into())
        }
        Kind::Condition => {
            let answers = values.into_iter().map(as_test).collect::<Result<_, _>>()?;
            conditions(picks, answers).map(Meaning::from)
        }
        Kind::Time(stored) => times(picks, values, stored),
        Kind::AnyTime => Err(ExprError::type_mistake(
            "CASE gives times of no type: cast them, as in TIMESTAMP '2020-01-01'::timestamp",
        )),
        Kind::Text | Kind::Written => texts(picks, values),
    }
}

fn mixed(name: &str, one: &Meaning, other: &Meaning) -> ExprError {
    ExprError::type_mistake(format!(
        "{name} gives {} in one branch and {} in another: all must be numbers, times of one type, conditions or texts",
        describe(one),
        describe(other)
    ))
}

fn case(picks: Picks, kind: bound::Kind, mut values: Vec<Option<Compute>>) -> Compute {
    let (known, tests) = match picks {
        Picks::Case { known, tests } => (known, tests),
        Picks::Coalesce => return Compute::new(kind, Step::Coalesce(values.into_iter().flatten().collect())),
    };
    let null = || Compute::new(kind, Step::Case(Vec::new(), None));
    let otherwise = values.pop().flatten().map(Box::new);
    let whens = tests.into_iter().zip(values.into_iter().map(|value| value.unwrap_or_else(null)));
    let case = Compute::new(kind, Step::Case(whens.collect(), otherwise));
    match known {
        Some(number) => Compute::new(kind, Step::Once(number, Box::new(case))),
        None => case,
    }
}

fn numbers(picks: Picks, values: Vec<Meaning>) -> Result<Compute, ExprError> {
    let values = values.into_iter().map(|value| numeric("CASE", value)).collect::<Result<Vec<Numeric>, _>>()?;
    let kind = common_kind(&values);
    Ok(case(picks, kind, values.into_iter().map(|value| step(value, kind)).collect()))
}

fn conditions(picks: Picks, answers: Vec<Test>) -> Result<Test, ExprError> {
    let truth = |answer: Test| match answer {
        Test::Constant(None) => None,
        Test::Constant(Some(truth)) => Some(Compute::new(bound::Kind::Int, Step::Int(truth.into()))),
        test => Some(Compute::new(bound::Kind::Int, Step::Truth(Box::new(test)))),
    };
    let case = case(picks, bound::Kind::Int, answers.into_iter().map(truth).collect());
    super::against(Op::Eq, Operand::Compute(case), &Literal::Number(number::Number::Finite(Decimal::from_integer(1))))
}

fn times(picks: Picks, values: Vec<Meaning>, stored: DataType) -> Result<Meaning, ExprError> {
    let of_stored = Family::of(&stored);
    let value = |value: Meaning| match value {
        Meaning::Literal(Literal::Null) => Ok(None),
        Meaning::Literal(literal) => match of_stored.position(&literal) {
            Ok(Position::At(Point::Whole(value))) => {
                Ok(Some(Compute::new(bound::Kind::Int, Step::Int(value.as_i128()))))
            }
            _ => Err(ExprError::type_mistake(format!(
                "CASE gives {}, but its other branches are of type {stored}, which has no such value",
                literal.described()
            ))),
        },
        Meaning::Operand(operand) if family(&operand) == Family::Null => Ok(None),
        Meaning::Operand(operand) => Ok(Some(computed(*operand))),
        other => Err(no_value(&other)),
    };
    let values = values.into_iter().map(value).collect::<Result<Vec<_>, _>>()?;
    let case = case(picks, bound::Kind::Int, values);
    Ok(Operand::Compute(Compute { stored: Some(stored), ..case }).into())
}

fn texts(picks: Picks, values: Vec<Meaning>) -> Result<Meaning, ExprError> {
    let text = |value: Meaning| match value {
        Meaning::Literal(Literal::Text(text)) => Ok(Text::Literal(text)),
        Meaning::Choice(choice) => Ok(Text::Choice(choice)),
        Meaning::Operand(operand) => Ok(text_of(*operand)),
        _ => Ok(Text::Null),
    };
    let mut texts = values.into_iter().map(text).collect::<Result<Vec<Text>, ExprError>>()?;
    let (known, tests) = match picks {
        Picks::Case { known, tests } => (known, tests),
        Picks::Coalesce => {
            let call = TextCall { function: TextFunction::Coalesce, operands: texts };
            return Ok(Operand::Text(Arc::new(call)).into());
        }
    };
    let otherwise = texts.pop().unwrap_or(Text::Null);
    Ok(Meaning::Choice(Box::new(Choice { known, whens: tests.into_iter().zip(texts).collect(), otherwise })))
}

impl From<Text> for Meaning {
    fn from(text: Text) -> Meaning {
        match text {
            Text::Null => Meaning::Literal(Literal::Null),
            Text::Literal(text) => Meaning::Literal(Literal::Text(text)),
            Text::Column(column) => Operand::Column(column).into(),
            Text::Choice(choice) => Meaning::Choice(choice),
            Text::Call(call) => Operand::Text(call).into(),
        }
    }
}

fn judged(choice: Choice, judge: &mut dyn FnMut(Meaning) -> Result<Test, ExprError>) -> Result<Test, ExprError> {
    let Choice { known, whens, otherwise } = choice;
    let (mut tests, mut answers) = (Vec::with_capacity(whens.len()), Vec::with_capacity(whens.len() + 1));
    for (test, text) in whens {
        tests.push(test);
        answers.push(judge(text.into())?);
    }
    answers.push(judge(otherwise.into())?);
    conditions(Picks::Case { known, tests }, answers)
}

pub(super) fn against(op: Op, choice: Choice, literal: &Literal) -> Result<Test, ExprError> {
    judged(choice, &mut |text| compare(op, text, Meaning::Literal(literal.clone())))
}

pub(super) fn is_null(choice: Choice) -> Result<Test, ExprError> {
    judged(choice, &mut |text| super::is_null(text))
}

/// `CASE ... END IN (...)` looks up each text in the whole list.
pub(super) fn among(choice: Choice, items: Vec<Meaning>) -> Result<Test, ExprError> {
    let mut literals = Vec::with_capacity(items.len());
    for item in items {
        match item {
            Meaning::Literal(literal) => literals.push(literal),
            other => {
                return Err(ExprError::type_mistake(format!(
                    "a CASE of texts cannot be compared with {}",
                    describe(&other)
                )));
            }
        }
    }
    if literals.len().saturating_mul(choice.size()) > MOST_COMPARISONS {
        return Err(ExprError::TooLarge { limit: format!("{MOST_COMPARISONS} comparisons of a CASE of texts") });
    }
    judged(choice, &mut |text| as_test(among_of(text, literals.iter().cloned().map(Meaning::Literal).collect())?))
}
