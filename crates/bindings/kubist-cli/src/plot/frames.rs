//! The frames of an animation: the rows per value of a column, or per equal part of its range.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, Int64Array};
use arrow_cast::cast;
use arrow_schema::{DataType, Field};
use kubist::{Cancel, Query, RunOptions};
use kubist_types::{human, steps};

use super::PlotRequest;
use crate::failure::{Failure, Result};

/// Columns with more values need --frames.
const MOST_VALUES: usize = 1000;
/// Rows to sample for the values.
const SAMPLED: u64 = 8192;

pub struct Frame {
    pub label: String,
    condition: String,
}

impl Frame {
    pub fn of(&self, query: &Query) -> Query {
        Query { filter: both(query.filter.as_deref(), &self.condition), ..query.clone() }
    }
}

/// One for each value in the region, or `count` equal parts.
pub fn frames(asked: &PlotRequest, column: &Field, count: Option<u32>, cancel: &Cancel) -> Result<Vec<Frame>> {
    let name = quoted(column.name());
    let Some(count) = count else {
        let values = distinct(asked, column, cancel)?;
        let frame = |value: &Key| Frame {
            label: with_unit(&format!("{} = {}", column.name(), value.shown(column)), column),
            condition: format!("{name} = {}", value.literal()),
        };
        return Ok(values.iter().map(frame).collect());
    };
    let sample = values_of(asked, column, &format!("{name} IS NOT NULL"), cancel)?;
    let (Some(first), Some(last)) = (sample.first(), sample.last()) else { return Ok(Vec::new()) };
    let edges = edges(column, first, last, count)?;
    let width = match &edges[..] {
        [Key::Float(low), Key::Float(high), ..] => high - low,
        _ => 1.0,
    };
    let parts = edges.windows(2).enumerate().map(|(part, ends)| {
        // The outer parts are open, because the sample may lack the minimum and maximum.
        let from = (part > 0).then(|| format!("{name} >= {}", ends[0].literal()));
        let to = (part + 2 < edges.len()).then(|| format!("{name} < {}", ends[1].literal()));
        let [low, high] = [&ends[0], &ends[1]].map(|end| end.rounded(column, width));
        let column_name = column.name();
        let (condition, label) = match (from, to) {
            (Some(from), Some(to)) => (format!("{from} AND {to}"), format!("{low} ≤ {column_name} < {high}")),
            (Some(from), None) => (from, format!("{column_name} ≥ {low}")),
            (None, Some(to)) => (to, format!("{column_name} < {high}")),
            (None, None) => (format!("{name} IS NOT NULL"), column_name.clone()),
        };
        Frame { label: with_unit(&label, column), condition }
    });
    Ok(parts.collect())
}

fn with_unit(label: &str, column: &Field) -> String {
    kubist_plot::unit(column).map_or_else(|| label.to_string(), |unit| format!("{label} {unit}"))
}

/// Ascending. Samples the column, then the rows with other values, until no rows remain.
fn distinct(asked: &PlotRequest, column: &Field, cancel: &Cancel) -> Result<BTreeSet<Key>> {
    let name = quoted(column.name());
    let mut found = BTreeSet::new();
    loop {
        let known: Vec<String> = found.iter().map(Key::literal).collect();
        let condition = match known.is_empty() {
            true => format!("{name} IS NOT NULL"),
            false => format!("{name} NOT IN ({})", known.join(", ")),
        };
        let fresh = values_of(asked, column, &condition, cancel)?;
        if fresh.is_empty() {
            return Ok(found);
        }
        let before = found.len();
        found.extend(fresh);
        // A long decimal differs from its floating point number, so excluding it never succeeds.
        if found.len() == before {
            return Ok(found);
        }
        if found.len() > MOST_VALUES {
            return Err(Failure::usage(format!(
                "--animate {}: the column has more than {} values; divide it into equal parts with --frames",
                column.name(),
                human::count(MOST_VALUES as u64),
            )));
        }
    }
}

fn values_of(asked: &PlotRequest, column: &Field, condition: &str, cancel: &Cancel) -> Result<BTreeSet<Key>> {
    let query = Query {
        columns: Some(vec![column.name().clone()]),
        filter: both(asked.query.filter.as_deref(), condition),
        limit: Some(SAMPLED),
        sample: None,
        ..asked.query.clone()
    };
    let mut values = BTreeSet::new();
    for batch in &mut asked.snapshot.query(RunOptions::with_cancel(cancel).of(query))? {
        values.extend(keys(batch?.column(0), column)?);
    }
    Ok(values)
}

fn both(filter: Option<&str>, condition: &str) -> Option<String> {
    Some(filter.map_or_else(|| condition.to_string(), |filter| format!("({filter}) AND {condition}")))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// In ascending order, for `count` equal parts.
fn edges(column: &Field, first: &Key, last: &Key, count: u32) -> Result<Vec<Key>> {
    Ok(match (first, last) {
        (Key::Float(low), Key::Float(high)) => {
            steps::equal(*low, *high, count as usize).into_iter().map(Key::Float).collect()
        }
        (Key::Int(low), Key::Int(high)) => {
            // The last edge is exclusive, and each part contains at least one value.
            let (span, count) = (high - low + 1, i128::from(count));
            let parts = count.min(span);
            (0..=parts).map(|edge| Key::Int(low + span * edge / parts)).collect()
        }
        _ => {
            return Err(Failure::usage(format!(
                "--frames: column {:?} ({}) cannot be divided into equal parts",
                column.name(),
                column.data_type()
            )));
        }
    })
}

/// A value with the order of its column; dates and times are integers in their unit.
#[derive(Clone, Debug)]
enum Key {
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        match (self, other) {
            (Key::Bool(one), Key::Bool(other)) => one.cmp(other),
            (Key::Int(one), Key::Int(other)) => one.cmp(other),
            (Key::Float(one), Key::Float(other)) => one.total_cmp(other),
            (Key::Text(one), Key::Text(other)) => one.cmp(other),
            // All values of a column have the same variant.
            _ => Ordering::Equal,
        }
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Key {}

impl Key {
    fn literal(&self) -> String {
        match self {
            Key::Bool(value) => value.to_string(),
            Key::Int(value) => value.to_string(),
            Key::Float(value) => format!("{value:?}"),
            Key::Text(value) => format!("'{}'", value.replace('\'', "''")),
        }
    }

    /// Text for people, with enough digits to distinguish values at this distance.
    fn rounded(&self, column: &Field, distance: f64) -> String {
        match self {
            Key::Float(value) if distance > 0.0 && (1e-4..1e6).contains(&value.abs().max(distance)) => {
                format!("{value:.*}", (2.0 - distance.log10()).clamp(0.0, 12.0) as usize)
            }
            Key::Float(value) if distance > 0.0 => format!("{value:.3e}"),
            key => key.shown(column),
        }
    }

    fn shown(&self, column: &Field) -> String {
        match self {
            Key::Bool(value) => value.to_string(),
            // A float32 has a shorter text than the same number as float64.
            Key::Float(value) if column.data_type() == &DataType::Float32 => (*value as f32).to_string(),
            Key::Float(value) => value.to_string(),
            Key::Text(value) => value.clone(),
            Key::Int(value) => date(*value, column.data_type()).unwrap_or_else(|| value.to_string()),
        }
    }
}

/// `None` for other types.
fn date(number: i128, data_type: &DataType) -> Option<String> {
    if !data_type.is_temporal() || matches!(data_type, DataType::Duration(_) | DataType::Interval(_)) {
        return None;
    }
    let whole: ArrayRef = Arc::new(Int64Array::from(vec![i64::try_from(number).ok()?]));
    let narrow = match data_type {
        DataType::Date32 | DataType::Time32(_) => cast(&whole, &DataType::Int32).ok()?,
        _ => whole,
    };
    let text = cast(&narrow, data_type).and_then(|value| cast(&value, &DataType::Utf8)).ok()?;
    text.is_valid(0).then(|| text.as_string::<i32>().value(0).to_string())
}

fn keys(array: &ArrayRef, column: &Field) -> Result<Vec<Key>> {
    let failed = |error| Failure::usage(format!("--animate {}: {error}", column.name()));
    let array = match array.data_type() {
        DataType::Dictionary(_, values) => &cast(array, values).map_err(failed)?,
        _ => array,
    };
    let as_type = |to: &DataType| cast(array, to).map_err(failed);
    Ok(match array.data_type() {
        DataType::Boolean => array.as_boolean().iter().flatten().map(Key::Bool).collect(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            as_type(&DataType::Utf8)?.as_string::<i32>().iter().flatten().map(|text| Key::Text(text.into())).collect()
        }
        DataType::UInt64 => {
            array.as_primitive::<UInt64Type>().iter().flatten().map(|number| Key::Int(number.into())).collect()
        }
        DataType::Date32 | DataType::Time32(_) => {
            whole(&cast(&as_type(&DataType::Int32)?, &DataType::Int64).map_err(failed)?)
        }
        data_type if data_type.is_integer() || data_type.is_temporal() => whole(&as_type(&DataType::Int64)?),
        data_type if data_type.is_numeric() => {
            let numbers = as_type(&DataType::Float64)?;
            let numbers = numbers.as_primitive::<Float64Type>().iter().flatten();
            numbers.filter(|number| number.is_finite()).map(Key::Float).collect()
        }
        data_type => {
            return Err(Failure::usage(format!(
                "--animate: column {:?} ({data_type}) has a type that cannot be animated",
                column.name()
            )));
        }
    })
}

fn whole(numbers: &ArrayRef) -> Vec<Key> {
    numbers.as_primitive::<Int64Type>().iter().flatten().map(|number| Key::Int(number.into())).collect()
}

#[cfg(test)]
mod tests {
    use arrow_array::{Float32Array, TimestampMillisecondArray};
    use arrow_schema::TimeUnit;

    use super::*;

    #[test]
    fn parts_are_equal_and_leave_no_gap() {
        let number = Field::new("n", DataType::Int64, true);
        let whole = |low, high, count| edges(&number, &Key::Int(low), &Key::Int(high), count).unwrap();
        assert_eq!(whole(0, 9, 5), [0, 2, 4, 6, 8, 10].map(Key::Int));
        assert_eq!(whole(0, 2, 100), [0, 1, 2, 3].map(Key::Int));
        let float = edges(&number, &Key::Float(0.0), &Key::Float(1.0), 4).unwrap();
        assert_eq!(float, [0.0, 0.25, 0.5, 0.75, 1.0].map(Key::Float));
        assert!(edges(&number, &Key::Text("a".into()), &Key::Text("b".into()), 4).is_err());
    }

    #[test]
    fn values_are_shown_as_their_type_has_them() {
        let shown = |array: ArrayRef, data_type: DataType| {
            let field = Field::new("c", data_type, true);
            keys(&array, &field).unwrap().iter().map(|key| (key.literal(), key.shown(&field))).collect::<Vec<_>>()
        };
        let floats: ArrayRef = Arc::new(Float32Array::from(vec![Some(0.3), None, Some(f32::NAN)]));
        assert_eq!(shown(floats, DataType::Float32), [("0.30000001192092896".into(), "0.3".into())]);
        let dates: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![1_700_000_000_000]));
        let date = "2023-11-14T22:13:20".to_string();
        assert_eq!(shown(dates, DataType::Timestamp(TimeUnit::Millisecond, None)), [("1700000000000".into(), date)]);
        let number = Field::new("n", DataType::Float64, true);
        let rounded = |value: f64, distance| Key::Float(value).rounded(&number, distance);
        assert_eq!((rounded(5.6486374999999995, 1.7), rounded(250.0, 125.0)), ("5.6".to_string(), "250".to_string()));
        assert_eq!((rounded(1.5e-7, 1e-8), rounded(2.0, 0.0)), ("1.500e-7".to_string(), "2".to_string()));
    }
}
