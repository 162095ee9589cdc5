//! Figures in the exact type of their column: integers, decimals, dates and times with all digits, each an
//! integer number of the type's units.

use std::sync::Arc;

use arrow_array::{ArrayRef, Decimal128Array, Decimal256Array, Int64Array, UInt64Array, new_null_array};
use arrow_buffer::i256;
use arrow_cast::cast;
use arrow_cast::display::array_value_to_string;
use arrow_schema::{DataType, TimeUnit};

use kubist_types::error::{Error, Result};

/// The type of integers of up to 128 bits.
pub const HUGE: DataType = DataType::Decimal128(38, 0);

/// A value and the bounds of its interval in an exact type; `None` if unknown or unbounded.
#[derive(Clone, Debug, PartialEq)]
pub struct ExactInterval {
    pub data_type: DataType,
    pub value: Option<i256>,
    pub low: Option<i256>,
    pub high: Option<i256>,
}

/// A value for JSON: a 64-bit integer is a number, and other values are text.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(untagged)]
pub enum JsonValue {
    Integer(i64),
    Text(String),
}

impl ExactInterval {
    /// Rounds the value to the nearest integer, and the interval outwards.
    pub fn rounded(data_type: &DataType, value: Option<f64>, low: f64, high: f64) -> ExactInterval {
        let unit = unit(data_type);
        let whole = |number: f64| i256::from_f64(number).filter(|_| number.is_finite());
        ExactInterval {
            data_type: data_type.clone(),
            value: value.and_then(|value| whole((value * unit).round())),
            low: whole((low * unit).floor()),
            high: whole((high * unit).ceil()),
        }
    }

    pub fn bounded(&mut self, low: f64, high: f64) {
        // Floats above 2^53 may be rounded, so the bound moves outwards.
        let unit = unit(&self.data_type);
        let is_rounded = |end: f64| (end * unit).abs() >= 2f64.powi(53);
        let low = if is_rounded(low) { low.next_down() } else { low };
        let high = if is_rounded(high) { high.next_up() } else { high };
        let wider = ExactInterval::rounded(&self.data_type, None, low, high);
        self.low = self.low.or(wider.low);
        self.high = self.high.or(wider.high);
    }

    pub fn text(&self, value: i256) -> String {
        let array = array(&[Some(value)], &self.data_type);
        array.ok().and_then(|array| array_value_to_string(&array, 0).ok()).unwrap_or_else(|| value.to_string())
    }

    pub fn texts(&self) -> [Option<String>; 3] {
        [self.value, self.low, self.high].map(|value| value.map(|value| self.text(value)))
    }

    /// `integer`, `decimal`, `date`, `timestamp` or `time`; with nanoseconds `timestamp_ns` or `time_ns`.
    pub fn kind(&self) -> &'static str {
        match &self.data_type {
            kind if is_integer(kind) => "integer",
            DataType::Date32 | DataType::Date64 => "date",
            DataType::Timestamp(TimeUnit::Nanosecond, _) => "timestamp_ns",
            DataType::Timestamp(..) => "timestamp",
            DataType::Time64(TimeUnit::Nanosecond) => "time_ns",
            DataType::Time32(_) | DataType::Time64(_) => "time",
            _ => "decimal",
        }
    }

    pub fn json_values(&self) -> [Option<JsonValue>; 3] {
        let small = |value: i256| value.to_i128().filter(|_| self.is_integer()).and_then(|value| value.try_into().ok());
        let json = |value: i256| small(value).map_or_else(|| JsonValue::Text(self.text(value)), JsonValue::Integer);
        [self.value, self.low, self.high].map(|value| value.map(json))
    }

    pub fn is_integer(&self) -> bool {
        is_integer(&self.data_type)
    }
}

/// The type of exact figures: durations become integers in their unit.
pub fn of(data_type: DataType) -> DataType {
    if matches!(data_type, DataType::Duration(_)) { HUGE } else { data_type }
}

/// True for values of up to 128 bits, so that expressions keep all digits.
pub fn is_narrow(data_type: &DataType) -> bool {
    !matches!(data_type, DataType::Decimal256(39.., _))
}

pub fn is_integer(data_type: &DataType) -> bool {
    data_type.is_integer() || *data_type == HUGE
}

pub fn unit(data_type: &DataType) -> f64 {
    match data_type {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => 10f64.powi((*scale).into()),
        _ => 1.0,
    }
}

/// The exact type of sums; `None` for times, which have no sums.
pub fn of_sums(data_type: &DataType) -> Option<DataType> {
    match data_type {
        kind if is_integer(kind) => Some(HUGE),
        DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale) => {
            Some(DataType::Decimal128(38, *scale))
        }
        DataType::Decimal256(_, scale) => Some(DataType::Decimal256(76, *scale)),
        _ => None,
    }
}

/// [`HUGE`] integers become 64-bit integers if all fit. 128-bit decimals become 256-bit decimals if one
/// does not fit.
pub fn array(values: &[Option<i256>], data_type: &DataType) -> Result<ArrayRef> {
    let small: Option<Vec<Option<i64>>> = values
        .iter()
        .map(|value| value.map_or(Some(None), |value| i64::try_from(value.to_i128()?).ok().map(Some)))
        .collect();
    if values.iter().all(Option::is_none) {
        return Ok(new_null_array(data_type, values.len()));
    }
    match (data_type, small) {
        (kind, Some(small)) if *kind == HUGE => Ok(Arc::new(Int64Array::from(small))),
        (DataType::Decimal128(_, scale), _) => {
            let most = 10i128.pow(38);
            let fit: Option<Vec<Option<i128>>> = values
                .iter()
                .map(|value| {
                    let Some(value) = value else { return Some(None) };
                    value.to_i128().filter(|value| value.abs() < most).map(Some)
                })
                .collect();
            match fit {
                Some(fit) => Ok(Arc::new(Decimal128Array::from(fit).with_data_type(data_type.clone()))),
                None => wide(values, &DataType::Decimal256(76, *scale)),
            }
        }
        (DataType::Decimal256(_, _), _) => wide(values, data_type),
        (DataType::UInt64, _) => {
            let value = |value: i256| value.to_i128().and_then(|value| u64::try_from(value).ok());
            let values = values.iter().map(|each| each.and_then(value));
            Ok(Arc::new(values.collect::<UInt64Array>()))
        }
        (DataType::Date32 | DataType::Time32(_), Some(small)) => {
            let days = cast(&Int64Array::from(small), &DataType::Int32).map_err(Error::kernel)?;
            cast(&days, data_type).map_err(Error::kernel)
        }
        (DataType::Decimal32(_, _) | DataType::Decimal64(_, _), Some(small)) => {
            let unscaled = Int64Array::from(small);
            let unscaled = unscaled.reinterpret_cast::<arrow_array::types::Decimal64Type>();
            let scale = match data_type {
                DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) => *scale,
                _ => 0,
            };
            let wide: ArrayRef = Arc::new(unscaled.with_data_type(DataType::Decimal64(18, scale)));
            cast(&wide, data_type).map_err(Error::kernel)
        }
        (_, Some(small)) => cast(&Int64Array::from(small), data_type).map_err(Error::kernel),
        (_, None) => Err(Error::invalid(format!("a figure does not fit the type {data_type}"))),
    }
}

fn wide(values: &[Option<i256>], data_type: &DataType) -> Result<ArrayRef> {
    Ok(Arc::new(Decimal256Array::from(values.to_vec()).with_data_type(data_type.clone())))
}
