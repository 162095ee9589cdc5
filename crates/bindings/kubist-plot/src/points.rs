//! Columns of a query result as numbers to draw.

use std::collections::HashMap;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, RecordBatch};
use arrow_cast::cast;
use arrow_schema::{DataType, TimeUnit};
use kubist_index::priority::priorities;
use kubist_types::human::count;
use kubist_types::{Cancel, Period};

use crate::error::{Error, Steps};

/// Positions and values of points; missing numbers are NaN.
#[derive(Clone, Debug, Default)]
pub struct Points {
    pub(crate) axes: [String; 2],
    /// Empty, one column, or red, green and blue.
    pub(crate) color: Vec<String>,
    pub(crate) x: Vec<f64>,
    pub(crate) y: Vec<f64>,
    /// The lengths after which x and y repeat.
    period: [Option<f64>; 2],
    /// A string is a number; `None` unless a single column colours the points.
    pub(crate) value: Option<Vec<f64>>,
    pub(crate) names: Names,
    /// Empty unless columns are red, green and blue.
    pub(crate) rgb: Vec<[f32; 3]>,
}

pub(crate) type Names = HashMap<u64, String>;

/// Colours cannot show more strings.
const MOST_NAMES: usize = 100_000;

impl Points {
    /// No points yet, with these columns: horizontal and vertical, and for colour none, one, or red, green and
    /// blue.
    pub fn new(axes: [&str; 2], color: &[&str]) -> Points {
        Points {
            axes: axes.map(str::to_owned),
            color: color.iter().map(|name| name.to_string()).collect(),
            value: (color.len() == 1).then(Vec::new),
            ..Points::default()
        }
    }

    /// Adds the rows of a batch by column names.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] if the batch lacks a column; [`Error::Values`] if its values are not numbers. Then
    /// no row is added.
    pub fn add(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        let column = |name: &str| {
            let array = batch.column_by_name(name).ok_or_else(|| Error::Missing { column: name.to_owned() })?;
            numbers(name, array.as_ref())
        };
        let (x, y) = (column(&self.axes[0])?, column(&self.axes[1])?);
        let schema = batch.schema();
        let period = |name: &String| Some(Period::of(schema.field_with_name(name).ok()?)?.length());
        self.period = [period(&self.axes[0]), period(&self.axes[1])];
        match &self.color[..] {
            [name] => {
                let array = batch.column_by_name(name).ok_or_else(|| Error::Missing { column: name.clone() })?;
                let value = match is_text(array.data_type()) {
                    true => coded(name, array.as_ref(), &mut self.names)?,
                    false => numbers(name, array.as_ref())?,
                };
                self.value.get_or_insert_default().extend(value);
            }
            [red, green, blue] => {
                let [red, green, blue] = [column(red)?, column(green)?, column(blue)?];
                let channels = red.into_iter().zip(green).zip(blue);
                self.rgb.extend(channels.map(|((red, green), blue)| [red as f32, green as f32, blue as f32]));
            }
            _ => {}
        }
        self.x.extend(x);
        self.y.extend(y);
        Ok(())
    }

    /// Moves points outside an axis with fixed ends to their images inside, along axes that repeat.
    pub fn wrap(&mut self, ends: [(Option<f64>, Option<f64>); 2]) {
        for ((numbers, ends), period) in [&mut self.x, &mut self.y].into_iter().zip(ends).zip(self.period) {
            let (Some(period), (Some(low), Some(high))) = (period, ends) else { continue };
            for number in numbers.iter_mut().filter(|number| **number < low || **number > high) {
                let image = *number + ((low - *number) / period).ceil() * period;
                if image <= high {
                    *number = image;
                }
            }
        }
    }

    /// Makes positions without a logarithm missing, along the logarithmic axes.
    pub fn keep_positive(&mut self, axes: [bool; 2]) {
        for (numbers, _) in [&mut self.x, &mut self.y].into_iter().zip(axes).filter(|(_, is_log)| *is_log) {
            numbers.iter_mut().filter(|number| **number <= 0.0).for_each(|number| *number = f64::NAN);
        }
    }

    /// The factor from channels to 255. Channels have 8 or 16 bits, as in LAS, or are from 0 to 1.
    pub(crate) fn channel_scale(&self) -> f32 {
        match self.rgb.iter().flatten().copied().fold(0.0, f32::max) {
            most if most > 255.0 => 1.0 / 257.0,
            most if most > 1.0 => 1.0,
            _ => 255.0,
        }
    }

    /// Whether there are no points.
    pub fn is_empty(&self) -> bool {
        self.x.is_empty()
    }

    /// Number of points whose x or y is missing or infinite.
    pub fn nowhere(&self) -> usize {
        self.x.iter().zip(&self.y).filter(|(x, y)| !(x.is_finite() && y.is_finite())).count()
    }

    /// The caption about points that cannot be drawn; empty if all can.
    pub fn not_drawn(&self) -> String {
        match self.nowhere() as u64 {
            0 => String::new(),
            nowhere => {
                let [x, y] = &self.axes;
                format!(" ({} not drawn: no position along {x} and {y})", count(nowhere))
            }
        }
    }

    /// Number of points.
    pub fn len(&self) -> usize {
        self.x.len()
    }
}

/// Minimum and maximum of x and y.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extents {
    pub(crate) x: Option<(f64, f64)>,
    pub(crate) y: Option<(f64, f64)>,
}

impl Extents {
    /// Extends them to these points.
    pub fn include(&mut self, points: &Points) {
        let wider = |known: Option<(f64, f64)>, numbers: &[f64]| match (known, extent(numbers)) {
            (Some((low, high)), Some((least, most))) => Some((low.min(least), high.max(most))),
            (known, found) => known.or(found),
        };
        self.x = wider(self.x, &points.x);
        self.y = wider(self.y, &points.y);
    }
}

pub(crate) fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_text(values),
        data_type => matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View),
    }
}

/// A number for each string, the same in every batch; missing values as NaN.
fn coded(name: &str, array: &dyn Array, names: &mut Names) -> Result<Vec<f64>, Error> {
    let texts = cast(array, &DataType::Utf8).map_err(|source| Error::Values { column: name.to_owned(), source })?;
    let hashes = priorities(&[texts.as_ref()], texts.len(), 0);
    let code = |(text, hash): (Option<&str>, u64)| {
        let Some(text) = text else { return f64::NAN };
        // 52 bits, which every float can represent.
        let code = (hash >> 12) as f64;
        names.entry(code.to_bits()).or_insert_with(|| text.to_owned());
        code
    };
    let codes: Vec<f64> = texts.as_string::<i32>().iter().zip(hashes).map(code).collect();
    match names.len() > MOST_NAMES {
        true => Err(Error::TooManyTexts { column: name.to_owned(), most: MOST_NAMES }),
        false => Ok(codes),
    }
}

/// Dates and times in seconds, missing values as NaN.
fn numbers(name: &str, array: &dyn Array) -> Result<Vec<f64>, Error> {
    let failed = |source| Error::Values { column: name.to_owned(), source };
    const DAY: f64 = 86_400.0;
    let (seconds, per_second) = match array.data_type() {
        DataType::Date32 => (DAY, 1.0),
        DataType::Date64 => (1.0, 1e3),
        DataType::Timestamp(unit, _) | DataType::Time32(unit) | DataType::Time64(unit) | DataType::Duration(unit) => {
            match unit {
                TimeUnit::Second => (1.0, 1.0),
                TimeUnit::Millisecond => (1.0, 1e3),
                TimeUnit::Microsecond => (1.0, 1e6),
                TimeUnit::Nanosecond => (1.0, 1e9),
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
    Ok(floats.iter().map(|value| value.map_or(f64::NAN, |value| value * seconds / per_second)).collect())
}

pub(crate) fn extent(numbers: &[f64]) -> Option<(f64, f64)> {
    numbers.iter().filter(|number| number.is_finite()).fold(None, |extent, &number| match extent {
        None => Some((number, number)),
        Some((low, high)) => Some((number.min(low), number.max(high))),
    })
}

/// Quantiles of the finite numbers. A search digit by digit needs no copy and can be cancelled; `numbers`
/// returns a new iterator on each call.
pub(crate) fn quantiles<const N: usize, I: Iterator<Item = f64>>(
    numbers: impl Fn() -> I,
    shares: [f64; N],
    cancel: &Cancel,
) -> Result<Option<[f64; N]>, Error> {
    const DIGIT: u32 = 16;
    let mut steps = Steps::new(cancel);
    let mut count = 0usize;
    for number in numbers() {
        steps.step(1)?;
        count += usize::from(number.is_finite());
    }
    let Some(last) = count.checked_sub(1) else { return Ok(None) };
    let mut found = shares;
    for share in &mut found {
        let mut rank = (*share * last as f64).round() as usize;
        let mut prefix = 0u64;
        for shift in [48, 32, 16, 0] {
            let mut counts = vec![0usize; 1 << DIGIT];
            for key in numbers().filter(|number| number.is_finite()).map(ascending_key) {
                steps.step(1)?;
                if key.checked_shr(shift + DIGIT).unwrap_or(0) == prefix {
                    counts[(key >> shift) as usize & 0xffff] += 1;
                }
            }
            let mut digit = 0;
            while rank >= counts[digit] {
                rank -= counts[digit];
                digit += 1;
            }
            prefix = prefix << DIGIT | digit as u64;
        }
        *share = f64::from_bits(if prefix >> 63 == 1 { prefix ^ (1 << 63) } else { !prefix });
    }
    Ok(Some(found))
}

fn ascending_key(number: f64) -> u64 {
    let bits = number.to_bits();
    if bits >> 63 == 1 { !bits } else { bits ^ (1 << 63) }
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
        let mut points = Points::new(["x", "t"], &["b"]);
        points.add(&batch).unwrap();
        points.add(&batch).unwrap();
        assert_eq!((points.x[0], points.x[2], points.y[0]), (0.5, 0.5, 1.5));
        assert!(points.x[1].is_nan());
        assert_eq!((points.len(), points.nowhere()), (4, 2));
        assert_eq!(points.value.as_deref(), Some(&[1.0, 0.0, 1.0, 0.0][..]));
        let mut days = Points::new(["d", "t"], &[]);
        days.add(&batch).unwrap();
        assert_eq!((days.x[0], days.value), (86_400.0, None));
    }

    #[test]
    fn a_batch_that_cannot_be_read_adds_nothing() {
        let batch = RecordBatch::try_from_iter([
            ("x", Arc::new(Float32Array::from(vec![0.5])) as _),
            ("s", Arc::new(StringArray::from(vec!["a"])) as _),
        ])
        .unwrap();
        let mut points = Points::new(["x", "x"], &["y"]);
        let missing = points.add(&batch).unwrap_err();
        assert!(matches!(&missing, Error::Missing { column } if column == "y"), "{missing}");
        assert!(points.is_empty() && points.value == Some(Vec::new()));
    }

    #[test]
    fn extents_ignore_what_is_not_finite() {
        assert_eq!(extent(&[3.0, f64::NAN, -1.0, f64::INFINITY]), Some((-1.0, 3.0)));
        assert_eq!(extent(&[f64::NAN]), None);
        let hundred = || (0..=100).rev().map(f64::from);
        assert_eq!(quantiles(hundred, [0.01, 0.99], &Cancel::default()).unwrap(), Some([1.0, 99.0]));
        let extremes = [-5e-324, f64::MAX, 0.0, f64::MIN, f64::INFINITY, 5e-324, 1.0];
        let found = quantiles(|| extremes.into_iter(), [0.0, 0.2, 0.4, 0.6, 1.0], &Cancel::default()).unwrap();
        assert_eq!(found, Some([f64::MIN, -5e-324, 0.0, 5e-324, f64::MAX]));
        assert_eq!(quantiles(|| [f64::NAN].into_iter(), [0.5], &Cancel::default()).unwrap(), None);
    }
}
