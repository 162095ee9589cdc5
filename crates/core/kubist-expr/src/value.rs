//! Untyped literals that a user writes or passes.

use crate::error::shortened;
use crate::moment::Moment;
use crate::number::{Decimal, Number};
use crate::unit::Quantity;
use std::fmt;
use std::sync::Arc;

/// A literal, which takes the type of the column that it is compared with.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Matches nothing, as in SQL.
    Null,
    Bool(bool),
    /// Compared with dates, times and durations, it counts the column's unit.
    Int(i128),
    /// Compared with decimals, it stands for its shortest decimal text.
    Float(f64),
    /// Compared with dates and times, it is ISO 8601.
    Text(String),
    Binary(Vec<u8>),
}

macro_rules! value_from {
    ($($source:ty => $value:ident => $made:expr;)*) => {$(
        impl From<$source> for Value {
            fn from($value: $source) -> Value {
                $made
            }
        }
    )*};
}
value_from! {
    bool => value => Value::Bool(value);
    i32 => value => Value::Int(value.into());
    i64 => value => Value::Int(value.into());
    u64 => value => Value::Int(value.into());
    i128 => value => Value::Int(value);
    f64 => value => Value::Float(value);
    &str => value => Value::Text(value.to_owned());
    String => value => Value::Text(value);
    Vec<u8> => value => Value::Binary(value);
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Literal::from(self).fmt(f)
    }
}

/// Numbers keep their digits as written, and dates are instants. Texts and bytes are shared between comparisons with
/// many columns.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Number(Number),
    Quantity(Quantity),
    Text(Arc<str>),
    Binary(Arc<[u8]>),
    /// `DATE '...'`, `TIME '...'`, `TIMESTAMP '...'`.
    Moment {
        moment: Moment,
        text: Arc<str>,
    },
}

impl From<&Value> for Literal {
    fn from(value: &Value) -> Literal {
        match value {
            Value::Null => Literal::Null,
            Value::Bool(value) => Literal::Bool(*value),
            Value::Int(value) => Literal::Number(Number::Finite(Decimal::from_integer(*value))),
            Value::Float(value) => Literal::Number(Number::from_f64(*value)),
            Value::Text(value) => Literal::Text(value.as_str().into()),
            Value::Binary(value) => Literal::Binary(value.as_slice().into()),
        }
    }
}

impl Literal {
    /// Formats it for messages, shortened if it is long.
    pub(crate) fn described(&self) -> String {
        let noun = match self {
            Literal::Null => return "NULL".to_owned(),
            Literal::Bool(_) => "the boolean",
            Literal::Number(_) => "the number",
            Literal::Quantity(_) => "the quantity",
            Literal::Text(_) => "the text",
            Literal::Binary(_) => "the bytes",
            Literal::Moment { .. } => "the time",
        };
        format!("{noun} {}", shortened(&self.to_string()))
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Literal::Null => f.write_str("NULL"),
            Literal::Bool(value) => f.write_str(if *value { "TRUE" } else { "FALSE" }),
            Literal::Number(number) => number.fmt(f),
            Literal::Quantity(quantity) => quantity.fmt(f),
            Literal::Text(text) => write!(f, "'{}'", text.replace('\'', "''")),
            Literal::Binary(bytes) => {
                f.write_str("X'")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02X}"))?;
                f.write_str("'")
            }
            Literal::Moment { moment, text } => {
                let kind = if moment.of_day { "TIME" } else { "TIMESTAMP" };
                write!(f, "{kind} '{text}'")
            }
        }
    }
}
