//! Columns of an answer as numbers that can be drawn.

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, RecordBatch};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, TimeUnit};

use super::ticks::Scale;
use crate::failure::{Failure, Result};

/// Where the points are and what colours them; missing numbers are NaN.
#[derive(Clone, Debug, Default)]
pub struct Points {
    pub x: Vec<f64>,
    pub y: Vec<f64>,
    pub value: Option<Vec<f64>>,
}

impl Points {
    /// Adds a batch; columns are found by name.
    pub fn add(&mut self, batch: &RecordBatch, axes: [&str; 2], color: Option<&str>) -> Result<()> {
        let column = |name: &str| {
            let array = batch.column_by_name(name).ok_or_else(|| Failure::usage(format!("no column {name:?}")))?;
            numbers(name, array.as_ref())
        };
        self.x.extend(column(axes[0])?);
        self.y.extend(column(axes[1])?);
        if let Some(name) = color {
            self.value.get_or_insert_default().extend(column(name)?);
        }
        Ok(())
    }

    pub fn len(&self) -> usize {
        self.x.len()
    }
}

/// How a column is drawn along an axis; a failure names one that cannot be.
pub fn scale(field: &Field) -> Result<Scale> {
    let mut data_type = field.data_type();
    if let DataType::Dictionary(_, values) = data_type {
        data_type = values;
    }
    match data_type {
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => Ok(Scale::Calendar),
        DataType::Boolean | DataType::Time32(_) | DataType::Time64(_) | DataType::Duration(_) => Ok(Scale::Linear),
        data_type if data_type.is_numeric() => Ok(Scale::Linear),
        data_type => Err(Failure::usage(format!("column {:?} ({data_type}) cannot be drawn", field.name()))),
    }
}

/// The column's unit: its metadata's, or seconds for times.
pub fn unit(field: &Field) -> Option<String> {
    let told = ["unit", "units"].into_iter().find_map(|key| field.metadata().get(key));
    match field.data_type() {
        DataType::Time32(_) | DataType::Time64(_) | DataType::Duration(_) => Some("s".to_string()),
        _ => told.filter(|unit| !unit.trim().is_empty()).cloned(),
    }
}

/// Dates and times in seconds; what is missing as NaN.
fn numbers(name: &str, array: &dyn Array) -> Result<Vec<f64>> {
    let failed = |error| Failure::usage(format!("column {name:?}: {error}"));
    let per_second = match array.data_type() {
        DataType::Date32 => 1.0 / 86_400.0,
        DataType::Date64 => 1e3,
        DataType::Timestamp(unit, _) | DataType::Time32(unit) | DataType::Time64(unit) | DataType::Duration(unit) => {
            match unit {
                TimeUnit::Second => 1.0,
                TimeUnit::Millisecond => 1e3,
                TimeUnit::Microsecond => 1e6,
                TimeUnit::Nanosecond => 1e9,
            }
        }
        _ => {
            let floats = cast(array, &DataType::Float64).map_err(failed)?;
            let floats = floats.as_primitive::<Float64Type>();
            return Ok(floats.iter().map(|value| value.unwrap_or(f64::NAN)).collect());
        }
    };
    let whole = match array.data_type() {
        DataType::Date32 | DataType::Time32(_) => cast(array, &DataType::Int32),
        _ => cast(array, &DataType::Int64),
    };
    let floats = whole.and_then(|whole| cast(&whole, &DataType::Float64)).map_err(failed)?;
    let floats = floats.as_primitive::<Float64Type>();
    Ok(floats.iter().map(|value| value.map_or(f64::NAN, |value| value / per_second)).collect())
}

/// The least and greatest finite number.
pub fn extent(numbers: &[f64]) -> Option<(f64, f64)> {
    numbers.iter().filter(|number| number.is_finite()).fold(None, |extent, &number| match extent {
        None => Some((number, number)),
        Some((low, high)) => Some((number.min(low), number.max(high))),
    })
}

/// The numbers at these shares of the ascending finite ones.
pub fn quantiles<const N: usize>(numbers: impl Iterator<Item = f64>, shares: [f64; N]) -> Option<[f64; N]> {
    let mut finite: Vec<f64> = numbers.filter(|number| number.is_finite()).collect();
    let last = finite.len().checked_sub(1)?;
    Some(shares.map(|share| *finite.select_nth_unstable_by((share * last as f64).round() as usize, f64::total_cmp).1))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{BooleanArray, Date32Array, Float32Array, StringArray, TimestampMillisecondArray};

    use super::*;

    #[test]
    fn columns_become_numbers() {
        let batch = RecordBatch::try_from_iter([
            ("x", Arc::new(Float32Array::from(vec![Some(0.5), None])) as _),
            ("t", Arc::new(TimestampMillisecondArray::from(vec![1500, 2000])) as _),
            ("d", Arc::new(Date32Array::from(vec![1, 2])) as _),
            ("b", Arc::new(BooleanArray::from(vec![true, false])) as _),
            ("s", Arc::new(StringArray::from(vec!["a", "b"])) as _),
        ])
        .unwrap();
        let mut points = Points::default();
        points.add(&batch, ["x", "t"], Some("b")).unwrap();
        points.add(&batch, ["d", "t"], Some("b")).unwrap();
        assert_eq!(points.x[0], 0.5);
        assert!(points.x[1].is_nan());
        assert_eq!((points.x[2], points.y[0]), (86_400.0, 1.5));
        assert_eq!(points.value.as_deref(), Some(&[1.0, 0.0, 1.0, 0.0][..]));
        let schema = batch.schema();
        assert_eq!(scale(schema.field(1)).unwrap(), Scale::Calendar);
        assert!(scale(schema.field(4)).unwrap_err().message.contains("\"s\" (Utf8) cannot be drawn"));
    }

    #[test]
    fn extents_ignore_what_is_not_finite() {
        assert_eq!(extent(&[3.0, f64::NAN, -1.0, f64::INFINITY]), Some((-1.0, 3.0)));
        assert_eq!(extent(&[f64::NAN]), None);
        let hundred = (0..=100).map(f64::from);
        assert_eq!(quantiles(hundred, [0.01, 0.99]), Some([1.0, 99.0]));
        assert_eq!(quantiles([f64::NAN].into_iter(), [0.5]), None);
    }
}
