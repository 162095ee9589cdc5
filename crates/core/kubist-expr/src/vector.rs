//! One number for each row, in one kind of arithmetic.

use crate::bound::Kind;
use crate::cell::{Cell, unsupported, with_native_values};
use crate::error::ExprError;
use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::DataType;

#[derive(Clone)]
pub(crate) struct Vector {
    pub values: Values,
    pub nulls: Option<NullBuffer>,
}

#[derive(Clone)]
pub(crate) enum Values {
    Int(Vec<i128>),
    F32(Vec<f32>),
    F64(Vec<f64>),
}

impl Vector {
    pub(crate) fn part(&self, chosen: &BooleanBuffer) -> Vector {
        fn picked<T: Copy>(values: &[T], chosen: &BooleanBuffer) -> Vec<T> {
            chosen.set_indices().map(|row| values[row]).collect()
        }
        let values = match &self.values {
            Values::Int(values) => Values::Int(picked(values, chosen)),
            Values::F32(values) => Values::F32(picked(values, chosen)),
            Values::F64(values) => Values::F64(picked(values, chosen)),
        };
        let nulls = self.nulls.as_ref().map(|nulls| chosen.set_indices().map(|row| nulls.is_valid(row)).collect());
        Vector { values, nulls }
    }
}

impl Values {
    /// Booleans are 1 and 0. Decimals are divided by their scale, which rounds once for up to 15 digits.
    pub(crate) fn of(array: &dyn Array, kind: Kind) -> Result<Values, ExprError> {
        fn numbers<T: Cell>(values: &[T], kind: Kind) -> Values {
            match kind {
                Kind::Int => Values::Int(values.iter().map(|value| value.as_i128()).collect()),
                Kind::F32 => Values::F32(values.iter().map(|value| value.as_f64() as f32).collect()),
                Kind::F64 => Values::F64(values.iter().map(|value| value.as_f64()).collect()),
            }
        }
        if let Some(truths) = array.as_boolean_opt() {
            return Ok(Values::Int(truths.values().iter().map(i128::from).collect()).into_kind(kind));
        }
        let mut numbers = with_native_values!(
            array,
            values => numbers(values, kind),
            _ => return Err(unsupported(array.data_type()))
        );
        let scale = match array.data_type() {
            DataType::Decimal32(_, scale)
            | DataType::Decimal64(_, scale)
            | DataType::Decimal128(_, scale)
            | DataType::Decimal256(_, scale) => i32::from(*scale),
            _ => 0,
        };
        if let (Values::F64(values), true) = (&mut numbers, scale != 0) {
            let size = 10f64.powi(scale.abs());
            values.iter_mut().for_each(|value| *value = if scale > 0 { *value / size } else { *value * size });
        }
        Ok(numbers)
    }

    /// The numbers in a wider kind, which rounds only integers beyond 2^53.
    pub(crate) fn into_kind(self, kind: Kind) -> Values {
        match (kind, self) {
            (Kind::F64, Values::Int(values)) => Values::F64(values.into_iter().map(|value| value as f64).collect()),
            (Kind::F64, Values::F32(values)) => Values::F64(values.into_iter().map(f64::from).collect()),
            (Kind::F32, Values::Int(values)) => Values::F32(values.into_iter().map(|value| value as f32).collect()),
            (_, same) => same,
        }
    }

    pub(crate) fn into_f64(self) -> Vec<f64> {
        match self.into_kind(Kind::F64) {
            Values::F64(values) => values,
            _ => Vec::new(),
        }
    }

    pub(crate) fn into_ints(self) -> Vec<i128> {
        match self {
            Values::Int(values) => values,
            _ => Vec::new(),
        }
    }
}
