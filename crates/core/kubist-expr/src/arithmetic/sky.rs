//! Positions: on the sky, in periodic space, and in shapes.

use super::{arithmetic, arity, numeric, step};
use crate::bound::{Function, Kind, Test};
use crate::error::ExprError;
use crate::meaning::{Meaning, describe};
use crate::number::Number;
use crate::unit::Units;
use crate::value::Literal;
use kubist_geometry::{Moc, Polygon, Shape, SkyPolygon, healpix as cells};
use std::sync::Arc;

pub(super) fn healpix(mut operands: Vec<Meaning>, units: &Arc<Units>) -> Result<Meaning, ExprError> {
    let (Some(side), [_, _]) = (operands.pop(), operands.as_slice()) else { return Err(arity("healpix", 3, 3)) };
    let order = match &side {
        Meaning::Literal(Literal::Number(Number::Finite(side))) => side.as_integer().and_then(cells::order_of),
        _ => None,
    };
    let order = order.ok_or_else(|| {
        ExprError::type_mistake(format!(
            "`healpix` takes a longitude, a latitude and the number of cells along a base cell, a power of two up to \
             2^29, not {}",
            describe(&side)
        ))
    })?;
    arithmetic("healpix", Function::Healpix(order), operands, units)
}

pub(super) fn periodic(mut operands: Vec<Meaning>, units: &Arc<Units>) -> Result<Meaning, ExprError> {
    let (Some(period), [_]) = (operands.pop(), operands.as_slice()) else { return Err(arity("periodic", 2, 2)) };
    let of_literal = match &period {
        Meaning::Literal(Literal::Number(Number::Finite(period))) => Some(period.as_f64()),
        _ => None,
    };
    let found = of_literal.filter(|period| *period > 0.0 && period.is_finite()).ok_or_else(|| {
        ExprError::type_mistake(format!(
            "`periodic` takes a difference and a period above 0, not {}",
            describe(&period)
        ))
    })?;
    arithmetic("periodic", Function::Periodic(found), operands, units)
}

pub(super) fn inside(name: &str, mut operands: Vec<Meaning>) -> Result<Test, ExprError> {
    let (Some(text), [_, _]) = (operands.pop(), operands.as_slice()) else { return Err(arity(name, 3, 3)) };
    let Meaning::Literal(Literal::Text(text)) = text else {
        let found = describe(&text);
        return Err(ExprError::type_mistake(format!(
            "`{name}` takes a text in quotes as its last operand, not {found}"
        )));
    };
    let shape = match name {
        "in_polygon" => Polygon::parse(&text).map(Shape::Polygon),
        "in_sky_polygon" => SkyPolygon::parse(&text).map(Shape::SkyPolygon),
        _ => Moc::parse(&text).map(Shape::Moc),
    };
    let shape = shape.map_err(|why| ExprError::type_mistake(format!("`{name}`: {why}")))?;
    let coordinate = |operand| numeric(name, operand).map(|operand| step(operand, Kind::F64));
    let mut point = operands.into_iter().map(coordinate).collect::<Result<Vec<_>, _>>()?.into_iter();
    match (point.next().flatten(), point.next().flatten()) {
        (Some(x), Some(y)) => Ok(Test::InShape { shape: Arc::new(shape), point: Box::new([x, y]) }),
        _ => Ok(Test::Constant(None)),
    }
}
