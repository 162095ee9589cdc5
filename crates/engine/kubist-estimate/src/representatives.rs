//! Representative values of rows whose bounds per column are known.

use std::sync::Arc;

use arrow_array::{ArrayRef, ArrowPrimitiveType, Float64Array, PrimitiveArray};
use arrow_schema::DataType;
use kubist_index::order::{self, Keyed};
use kubist_index::with_exact_primitive;
use kubist_population::REPRESENTATIVES;

/// Steps of the permutation per column, because values that rise together would look correlated. The first
/// eight columns get different permutations.
const STEPS: [usize; 4] = [1, 3, 5, 7];

/// [`REPRESENTATIVES`] equidistant values between each pair of bounds (order keys); null without numeric bounds.
/// `None` for types without intermediate values, such as text.
pub fn between(data_type: &DataType, ends: &[Option<(u64, u64)>], number: usize) -> Option<ArrayRef> {
    let (first, last) = order::number_keys(data_type);
    let ends = ends.iter().map(|ends| ends.filter(|(low, high)| first <= *low && low <= high && *high <= last));
    if matches!(data_type, DataType::Float16 | DataType::Float32 | DataType::Float64) {
        let value = |low: f64, high: f64, part: f64| low * (1.0 - part) + high * part;
        let values = ends.flat_map(|ends| {
            let ends = ends.map(|(low, high)| (order::number(data_type, low), order::number(data_type, high)));
            let ends = ends.filter(|(low, high)| low.is_finite() && high.is_finite());
            (0..REPRESENTATIVES).map(move |row| {
                ends.map(|(low, high)| value(low, high, (permuted(row, number) as f64 + 0.5) / REPRESENTATIVES as f64))
            })
        });
        return arrow_cast::cast(&Float64Array::from_iter(values), data_type).ok();
    }
    let keys = ends.flat_map(|ends| {
        let key = move |(low, high): (u64, u64), row| {
            let part = (high - low) as u128 * (2 * permuted(row, number) + 1) as u128 / (2 * REPRESENTATIVES) as u128;
            low + part as u64
        };
        (0..REPRESENTATIVES).map(move |row| ends.map(|ends| key(ends, row)))
    });
    with_exact_primitive!(data_type, T => Some(of_keys::<T>(keys, data_type)), _ => None)
}

fn permuted(row: usize, number: usize) -> usize {
    (row * STEPS[number % STEPS.len()] + number) % REPRESENTATIVES
}

fn of_keys<T: ArrowPrimitiveType>(keys: impl Iterator<Item = Option<u64>>, data_type: &DataType) -> ArrayRef
where
    T::Native: Keyed,
{
    let values = keys.map(|key| key.map(T::Native::from_key));
    Arc::new(PrimitiveArray::<T>::from_iter(values).with_data_type(data_type.clone()))
}
