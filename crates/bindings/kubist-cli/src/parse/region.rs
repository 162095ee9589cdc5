//! Parses boxes, orders, cells, and values by the type of their column.

use std::str::FromStr;

use arrow_schema::{DataType, Field, Schema};
use kubist::{Bound, PerCell, Value};
use kubist_types::Width;

use super::parts;
use crate::failure::{Failure, Result};

#[derive(Clone, Debug, PartialEq)]
pub struct Range {
    pub column: String,
    pub low: Option<String>,
    pub high: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Ranges(pub Vec<Range>);

impl FromStr for Ranges {
    type Err = String;

    fn from_str(text: &str) -> Result<Ranges, String> {
        parts(text, "COLUMN=LOW:HIGH")?
            .into_iter()
            .map(|(column, ends)| {
                let (low, high) = split_ends(&column, &ends)?;
                Ok(Range { column, low, high })
            })
            .collect::<Result<_, String>>()
            .map(Ranges)
    }
}

/// Splits `LOW:HIGH`, or `LOW..HIGH` for bounds that contain colons, like times. A missing bound is open, and a
/// single value is both bounds.
pub fn split_ends(column: &str, ends: &str) -> Result<(Option<String>, Option<String>), String> {
    let end = |text: &str| (!text.trim().is_empty()).then(|| text.trim().to_string());
    let (low, high) = match (ends.split_once(".."), ends.matches(':').count()) {
        (Some((low, high)), _) => (low, high),
        (None, 0) => (ends, ends),
        (None, 1) => ends.split_once(':').unwrap_or((ends, ends)),
        (None, _) => {
            return Err(format!("{column}={ends}: write LOW..HIGH if a bound contains colons"));
        }
    };
    if high.contains("..") || high.starts_with('.') && ends.contains("...") {
        return Err(format!("{column}={ends}: expected LOW:HIGH"));
    }
    Ok((end(low), end(high)))
}

pub fn bounds<'a>(ranges: impl IntoIterator<Item = &'a Ranges>, schema: &Schema) -> Result<Vec<Bound>> {
    let mut bounds = Vec::new();
    for range in ranges.into_iter().flat_map(|ranges| &ranges.0) {
        let field = column(schema, &range.column)?;
        let end = |text: &Option<String>| text.as_deref().map(|text| value(text, field)).transpose();
        bounds.push(Bound { column: field.name().clone(), low: end(&range.low)?, high: end(&range.high)? });
    }
    Ok(bounds)
}

/// The column of this name by the engine's rule.
pub fn column<'a>(schema: &'a Schema, name: &str) -> Result<&'a Field> {
    Ok(schema.field(kubist_expr::column_index(schema, name).map_err(Failure::usage)?))
}

/// Such as `diameter desc,"a, b"`.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderBy(pub Vec<String>);

/// Terms between commas outside quotes and parentheses.
pub fn order_by(text: &str) -> Result<OrderBy, String> {
    terms(text, "diameter desc,pid").map(OrderBy)
}

#[derive(Clone, Debug, PartialEq)]
pub struct Columns(pub Vec<String>);

pub fn columns(text: &str) -> Result<Columns, String> {
    terms(text, "x,sqrt(vx*vx + vy*vy) AS speed").map(Columns)
}

fn terms(text: &str, like: &str) -> Result<Vec<String>, String> {
    match kubist_expr::split(text) {
        Some(terms) if !terms.is_empty() => Ok(terms.into_iter().map(str::to_owned).collect()),
        _ => Err(format!("{text:?}: expected columns separated by commas, like '{like}'")),
    }
}

/// A value of a column's type: integers exactly, other numbers as floats, the rest (dates, numbers with units)
/// as text for the engine.
pub fn value(text: &str, field: &Field) -> Result<Value> {
    let mut data_type = field.data_type();
    if let DataType::Dictionary(_, values) = data_type {
        data_type = values;
    }
    let value = match data_type {
        DataType::Boolean => text.to_ascii_lowercase().parse().map(Value::Bool).ok(),
        _ if !data_type.is_numeric() && !matches!(data_type, DataType::Duration(_)) => {
            Some(Value::Text(text.to_string()))
        }
        _ => match (text.parse(), text.parse::<f64>()) {
            (Ok(whole), _) => Some(Value::Int(whole)),
            (_, Ok(number)) => (!number.is_nan()).then_some(Value::Float(number)),
            // The engine reads a number with a unit.
            _ => text
                .starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))
                .then(|| Value::Text(text.to_string())),
        },
    };
    value.ok_or_else(|| Failure::usage(format!("{text:?} is not a value for column {:?} ({data_type})", field.name())))
}

/// `K:x=0.1,y=1mm`: the K rows of lowest priority in each cell.
pub fn per_cell(text: &str) -> Result<PerCell, String> {
    let shape = "K:COLUMN=WIDTH,... with K at least 1";
    let (rows, widths) = text.split_once(':').ok_or_else(|| format!("expected {shape}"))?;
    let rows = rows.trim().parse().ok().filter(|rows| *rows > 0).ok_or_else(|| format!("expected {shape}"))?;
    let widths = parts(widths, "COLUMN=WIDTH")?
        .into_iter()
        .map(|(column, width)| match width.parse::<f64>() {
            Ok(number) if number > 0.0 && number.is_finite() => Ok((column, Width::Number(number))),
            Err(_) if width.starts_with(|c: char| c.is_ascii_digit() || c == '.') => Ok((column, Width::Text(width))),
            _ => Err(format!("{column}={width}: the width of a cell is a number above 0, optionally with a unit")),
        })
        .collect::<Result<_, String>>()?;
    Ok(PerCell { rows, widths })
}

#[cfg(test)]
mod tests {
    use arrow_schema::TimeUnit;

    use super::*;

    fn schema() -> Schema {
        Schema::new(vec![
            Field::new("x", DataType::Float32, true),
            Field::new("pid", DataType::UInt64, true),
            Field::new("when", DataType::Timestamp(TimeUnit::Second, None), true),
            Field::new("kind", DataType::Utf8, true),
        ])
    }

    fn one(text: &str) -> Result<Bound> {
        let ranges: Ranges = text.parse().map_err(Failure::usage)?;
        Ok(bounds([&ranges], &schema())?.remove(0))
    }

    #[test]
    fn a_box_has_typed_ends() {
        let bound = one("x=0.1:0.2").unwrap();
        assert_eq!((bound.low, bound.high), (Some(Value::Float(0.1)), Some(Value::Float(0.2))));
        let bound = one("x=-1e-3:").unwrap();
        assert_eq!((bound.low, bound.high), (Some(Value::Float(-1e-3)), None));
        let bound = one("pid=18446744073709551615").unwrap();
        assert_eq!(bound.low, Some(Value::Int(u64::MAX.into())));
        assert_eq!(bound.low, bound.high);
        let bound = one("when=2020-01-01:2020-01-02").unwrap();
        assert_eq!(bound.low, Some(Value::Text("2020-01-01".into())));
        let bound = one("when=2020-01-01T10:00:00..2020-01-01T11:00").unwrap();
        assert_eq!(bound.low, Some(Value::Text("2020-01-01T10:00:00".into())));
        assert_eq!(bound.high, Some(Value::Text("2020-01-01T11:00".into())));
        assert_eq!(one("x=inf:").unwrap().low, Some(Value::Float(f64::INFINITY)));
        assert_eq!(one("kind=7").unwrap().low, Some(Value::Text("7".into())));
        assert_eq!(one("x=:").unwrap().low, None);
    }

    #[test]
    fn several_ranges_in_one_box() {
        let ranges: Ranges = "x=0.1:0.2, pid=:5".parse().unwrap();
        assert_eq!(bounds([&ranges], &schema()).unwrap().len(), 2);
    }

    #[test]
    fn a_wrong_box_says_what_is_wrong() {
        for (text, message) in [
            ("x", "expected COLUMN=LOW:HIGH"),
            ("x=", "expected COLUMN=LOW:HIGH"),
            ("=1:2", "expected COLUMN=LOW:HIGH"),
            ("x=1:2,3", "\"3\": expected COLUMN=LOW:HIGH"),
            ("x=1...2", "expected LOW:HIGH"),
            ("when=10:00:11:00", "LOW..HIGH"),
            ("y=1:2", "no column `y`; did you mean `x`?; the columns are `x`, `pid`, `when`, `kind`"),
            ("x=a:b", "\"a\" is not a value for column \"x\" (Float32)"),
            ("x=nan:", "\"nan\" is not a value"),
        ] {
            let failure = one(text).unwrap_err();
            assert!(failure.message.contains(message), "{text}: {}", failure.message);
        }
    }

    #[test]
    fn cells() {
        let cell = per_cell("3:x=0.1,y=1mm").unwrap();
        assert_eq!((cell.rows, cell.widths), (3, vec![("x".into(), 0.1.into()), ("y".into(), "1mm".into())]));
        assert!(per_cell("0:x=1").is_err() && per_cell("x=1").is_err() && per_cell("1:x=0").is_err());
        assert!(per_cell("1:x=wide").is_err());
    }
}
