//! `LIKE`, and functions of texts: `lower`, `length`, `contains`, `regexp_matches` and others.
//!
//! Patterns and positions are literals, so a pattern is prepared once and its prefix excludes zones.

use super::{Names, against, within};
use crate::bound::{Compute, Kind, Operand, Step, Test, Text, TextCall, TextFunction};
use crate::domain::{Family, Range};
use crate::error::ExprError;
use crate::like::Pattern;
use crate::meaning::{Meaning, describe, family};
use crate::number::Number;
use crate::syntax::Op;
use crate::value::Literal;
use std::sync::Arc;

#[derive(Clone, Copy)]
pub(super) enum Function {
    Case(TextFunction),
    Substring,
    Length,
    StartsWith,
    EndsWith,
    Contains,
    Matches,
}

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "upper" | "ucase" => Function::Case(TextFunction::Upper),
        "lower" | "lcase" => Function::Case(TextFunction::Lower),
        "substr" | "substring" => Function::Substring,
        "length" | "char_length" | "len" => Function::Length,
        "starts_with" | "prefix" => Function::StartsWith,
        "ends_with" | "suffix" => Function::EndsWith,
        "contains" => Function::Contains,
        "regexp_matches" => Function::Matches,
        _ => return None,
    })
}

pub(super) fn call(
    name: &str,
    function: Function,
    operands: Vec<Meaning>,
    names: &Names,
) -> Result<Meaning, ExprError> {
    let mut operands = operands.into_iter();
    let of = match operands.next() {
        Some(of) => text(name, of)?,
        None => return Err(ExprError::type_mistake(format!("`{name}` takes a text"))),
    };
    let others: Vec<Meaning> = operands.collect();
    if let Text::Null = of {
        return Ok(Meaning::Literal(Literal::Null));
    }
    let computed = |function| Ok(Operand::Text(Arc::new(TextCall { function, operands: vec![of.clone()] })).into());
    match (function, others.as_slice()) {
        (Function::Case(function), []) => computed(function),
        (Function::Substring, [start]) => computed(substring(name, start, None)?),
        (Function::Substring, [start, length]) => computed(substring(name, start, Some(length))?),
        (Function::Length, []) => Ok(Operand::Compute(Compute::new(Kind::Int, Step::Length(Box::new(of)))).into()),
        (Function::StartsWith | Function::EndsWith | Function::Contains, [part]) => {
            let part = match part {
                Meaning::Literal(Literal::Text(part)) => part,
                Meaning::Literal(Literal::Null) => return Ok(Test::Constant(None).into()),
                other => return Err(takes_literal(name, other)),
            };
            let operand = operand_of(of);
            if let Function::StartsWith = function {
                return Ok(within(operand, Range::prefix(part.as_bytes())).into());
            }
            let escaped: String = part
                .chars()
                .flat_map(|char| ['%', '_', '\\'].contains(&char).then_some('\\').into_iter().chain([char]))
                .collect();
            let behind = if let Function::Contains = function { "%" } else { "" };
            let pattern = Pattern::new(&format!("%{escaped}{behind}"), Some('\\'), false)?;
            Ok(Test::Like { operand, pattern: Arc::new(pattern), span: None }.into())
        }
        (Function::Matches, [pattern, options @ ..]) if options.len() < 2 => {
            let expression = match pattern {
                Meaning::Literal(Literal::Text(expression)) => expression,
                Meaning::Literal(Literal::Null) => return Ok(Test::Constant(None).into()),
                other => return Err(takes_literal(name, other)),
            };
            let options = match options {
                [] => "",
                [Meaning::Literal(Literal::Text(options))] => &**options,
                [other, ..] => return Err(takes_literal(name, other)),
            };
            names.count_regular()?;
            let pattern = Arc::new(Pattern::of_expression(expression, options)?);
            Ok(Test::Like { operand: operand_of(of), pattern, span: None }.into())
        }
        (Function::Case(_) | Function::Length, _) => Err(ExprError::type_mistake(format!("`{name}` takes 1 text"))),
        (Function::Substring, _) => {
            Err(ExprError::type_mistake(format!("`{name}` takes a text, a position from 1 and a number of characters")))
        }
        (Function::Matches, _) => {
            Err(ExprError::type_mistake(format!("`{name}` takes a text, a regular expression and options")))
        }
        _ => Err(ExprError::type_mistake(format!("`{name}` takes a text and the text to search for"))),
    }
}

fn takes_literal(name: &str, found: &Meaning) -> ExprError {
    ExprError::type_mistake(format!("`{name}` takes a text in quotes as its second operand, not {}", describe(found)))
}

fn substring(name: &str, start: &Meaning, length: Option<&Meaning>) -> Result<TextFunction, ExprError> {
    let integer = |meaning: &Meaning| match meaning {
        Meaning::Literal(Literal::Number(Number::Finite(number))) => {
            number.as_integer().and_then(|number| i64::try_from(number).ok())
        }
        _ => None,
    };
    let mistake =
        || ExprError::type_mistake(format!("`{name}` takes integers as position and length, as in {name}(s, 1, 3)"));
    let start = integer(start).ok_or_else(mistake)?;
    let length = match length {
        Some(length) => Some(integer(length).filter(|length| *length >= 0).ok_or_else(mistake)?),
        None => None,
    };
    Ok(TextFunction::Substring { start, length })
}

pub(super) fn text(name: &str, of: Meaning) -> Result<Text, ExprError> {
    match of {
        Meaning::Literal(Literal::Null) => Ok(Text::Null),
        Meaning::Literal(Literal::Text(text)) => Ok(Text::Literal(text)),
        Meaning::Choice(choice) => Ok(Text::Choice(choice)),
        Meaning::Operand(operand) if family(&operand) == Family::Text => Ok(text_of(*operand)),
        Meaning::Operand(operand) if family(&operand) == Family::Null => Ok(Text::Null),
        other => Err(ExprError::type_mistake(format!("`{name}` takes a text, not {}", describe(&other)))),
    }
}

pub(super) fn text_of(operand: Operand) -> Text {
    match operand {
        Operand::Column(column) => Text::Column(column),
        Operand::Text(call) => Text::Call(call),
        Operand::Compute(_) => Text::Null,
    }
}

fn operand_of(text: Text) -> Operand {
    match text {
        Text::Column(column) => Operand::Column(column),
        Text::Call(call) => Operand::Text(call),
        other => Operand::Text(Arc::new(TextCall { function: TextFunction::Coalesce, operands: vec![other] })),
    }
}

pub(super) fn like(
    operand: Meaning,
    pattern: Meaning,
    escape: Option<char>,
    ignore_case: bool,
) -> Result<Meaning, ExprError> {
    let name = if ignore_case { "ILIKE" } else { "LIKE" };
    let operand = match operand {
        Meaning::Operand(operand) if family(&operand) == Family::Text => *operand,
        Meaning::Operand(operand) if family(&operand) == Family::Null => return Ok(Test::Constant(None).into()),
        Meaning::Choice(choice) => operand_of(Text::Choice(choice)),
        other => {
            let found = describe(&other);
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
    let special = |char: char| char == '%' || char == '_' || escape == Some(char);
    let fixed = pattern.find(special).unwrap_or(pattern.len());
    let (prefix, rest) = pattern.split_at(fixed);
    if !ignore_case && rest.is_empty() {
        return against(Op::Eq, operand, &Literal::Text(pattern)).map(Meaning::from);
    }
    if !ignore_case && escape != Some('%') && rest.bytes().all(|byte| byte == b'%') {
        return Ok(within(operand, Range::prefix(prefix.as_bytes())).into());
    }
    let prefix = if ignore_case { "" } else { prefix };
    let span = operand.column().and_then(|column| Range::prefix(prefix.as_bytes()).span(&column.data_type));
    let pattern = Arc::new(Pattern::new(&pattern, escape, ignore_case)?);
    Ok(Test::Like { operand, pattern, span }.into())
}
