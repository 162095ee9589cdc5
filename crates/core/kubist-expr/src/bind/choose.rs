//! `coalesce`, `ifnull` and `nullif`.

use super::case::{self, Picks};
use super::{Names, compare, shared, texts};
use crate::arithmetic;
use crate::bound::{Operand, TextCall, TextFunction};
use crate::domain::Family;
use crate::error::ExprError;
use crate::meaning::{Meaning, describe, family};
use crate::measured;
use crate::syntax::Op;
use crate::value::Literal;
use std::sync::Arc;

pub(super) fn coalesce(name: &str, values: Vec<Meaning>, names: &Names) -> Result<Meaning, ExprError> {
    if values.is_empty() || (name == "ifnull" && values.len() != 2) {
        let takes = if name == "ifnull" { "2 operands" } else { "1 or more operands" };
        return Err(ExprError::type_mistake(format!("`{name}` takes {takes}")));
    }
    let (values, unit) = measured::branches(values, &names.units)?;
    case::of_kind(Picks::Coalesce, values, unit)
}

pub(super) fn nullif(operands: Vec<Meaning>, names: &Names) -> Result<Meaning, ExprError> {
    let Ok([of, other]) = <[Meaning; 2]>::try_from(operands) else {
        return Err(ExprError::type_mistake("`nullif` takes 2 operands"));
    };
    let operand = match of {
        Meaning::Operand(operand) if family(&operand) != Family::Text => *operand,
        Meaning::Test(test) => arithmetic::truth(*test),
        Meaning::Literal(Literal::Null) => return Ok(Meaning::Literal(Literal::Null)),
        Meaning::Literal(Literal::Text(_)) | Meaning::Operand(_) | Meaning::Choice(_) => {
            let operands = vec![texts::text("nullif", of)?, texts::text("nullif", other)?];
            return Ok(Operand::Text(Arc::new(TextCall { function: TextFunction::NullIf, operands })).into());
        }
        constant => {
            let message = format!("`nullif` takes a column or a computed value first, not {}", describe(&constant));
            return Err(ExprError::type_mistake(message));
        }
    };
    let (operand, known) = shared(operand);
    let equal = compare(Op::Eq, operand.clone().into(), other)?;
    let values = vec![Meaning::Literal(Literal::Null), operand.into()];
    let (values, unit) = measured::branches(values, &names.units)?;
    case::of_kind(Picks::Case { known, tests: vec![equal] }, values, unit)
}
