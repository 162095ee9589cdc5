//! A bound expression: a literal, a column or computed number, or a condition.

use crate::bound::{Choice, Column, Compute, Kind, Operand, Step, Test};
use crate::domain::{Family, Width};
use crate::number::Number;
use crate::value::Literal;

pub(crate) enum Meaning {
    Literal(Literal),
    Operand(Box<Operand>),
    Test(Box<Test>),
    Choice(Box<Choice>),
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

pub(crate) fn describe(bound: &Meaning) -> String {
    match bound {
        Meaning::Literal(literal) => literal.described(),
        Meaning::Operand(operand) => describe_operand(operand),
        Meaning::Test(_) => "a condition".to_owned(),
        Meaning::Choice(_) => "a CASE of texts".to_owned(),
    }
}

pub(crate) fn describe_operand(operand: &Operand) -> String {
    match operand {
        Operand::Column(column) => format!("column `{}` of type {}", column.name, column.data_type),
        Operand::Compute(Compute { stored: Some(stored), .. }) => format!("a computed value of type {stored}"),
        Operand::Compute(_) => "a computed number".to_owned(),
        Operand::Text(_) => "a computed text".to_owned(),
    }
}

pub(crate) fn family(operand: &Operand) -> Family {
    match operand {
        Operand::Column(column) => Family::of(&column.data_type),
        Operand::Compute(Compute { stored: Some(stored), .. }) => Family::of(stored),
        Operand::Compute(compute) => match compute.kind {
            Kind::Int => Family::Int { first: i128::MIN, last: i128::MAX },
            Kind::F32 => Family::Float(Width::F32),
            Kind::F64 => Family::Float(Width::F64),
        },
        Operand::Text(_) => Family::Text,
    }
}

pub(crate) fn computed(operand: Operand) -> Compute {
    match operand {
        Operand::Compute(compute) => compute,
        Operand::Column(column) => {
            let unit = column.unit.clone();
            Compute { unit, ..Compute::new(kind_of(&column), Step::Column(column)) }
        }
        // Callers exclude texts by their family; a text as a number would be null.
        Operand::Text(_) => Compute::new(Kind::Int, Step::Coalesce(Vec::new())),
    }
}

pub(crate) fn kind_of(column: &Column) -> Kind {
    match Family::of(&column.data_type) {
        Family::Float(Width::F16 | Width::F32) => Kind::F32,
        Family::Float(Width::F64) | Family::Decimal { .. } => Kind::F64,
        _ => Kind::Int,
    }
}
