//! Groups rows by location in space before they are sorted: column by column, in buckets by the highest bits of their
//! keys. Encoding gathers every column in another order than that of arrival, so without buckets each value would be a
//! cache miss.

use arrow_array::builder::BooleanBufferBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray, RecordBatch, UInt32Array};
use arrow_buffer::NullBuffer;
use arrow_select::concat::concat;
use arrow_select::take::take;
use kubist_index::cube::MortonKey;
use kubist_index::with_exact_primitive;
use rayon::prelude::*;
use std::ops::Range;
use std::sync::Arc;

use kubist_types::{Cancel, Error, Result};

/// Up to this many rows fit in a cache and need no buckets.
const FEW_ROWS: usize = 1 << 17;
const BUCKET_ROWS: usize = 512;
/// Limit of buckets (as bits), because each open bucket takes a cache line.
const MOST_BUCKET_BITS: u32 = 11;

pub struct Places(pub Vec<u32>);

pub struct Buckets {
    pub places: Places,
    pub rows: Vec<Range<usize>>,
}

impl Buckets {
    /// Buckets by the highest bits in which the keys differ; `None` for few rows.
    pub fn new(keys: &[MortonKey]) -> Option<Buckets> {
        if keys.len() < FEW_ROWS {
            return None;
        }
        let differing = keys.par_iter().map(|key| key ^ keys[0]).reduce(|| 0, |a, b| a | b);
        let bits = (keys.len() / BUCKET_ROWS).ilog2().min(MOST_BUCKET_BITS);
        let shift = (128 - differing.leading_zeros()).saturating_sub(bits);
        let bucket = |key: &MortonKey| (key >> shift) as usize & ((1 << bits) - 1);
        let mut next = vec![0u32; (1 << bits) + 1];
        keys.iter().for_each(|key| next[bucket(key) + 1] += 1);
        for index in 1..next.len() {
            next[index] += next[index - 1];
        }
        let rows = next.windows(2).map(|pair| pair[0] as usize..pair[1] as usize).collect();
        let indices = keys.iter().map(|key| {
            let slot = &mut next[bucket(key)];
            *slot += 1;
            *slot - 1
        });
        Some(Buckets { places: Places(indices.collect()), rows })
    }
}

impl Places {
    pub fn scatter<T: Copy + Default>(&self, values: impl Iterator<Item = T>) -> Vec<T> {
        let mut scattered = vec![T::default(); self.0.len()];
        for (index, value) in self.0.iter().zip(values) {
            scattered[*index as usize] = value;
        }
        scattered
    }

    /// Joins all batches, with the rows at their new indices.
    ///
    /// # Errors
    ///
    /// `Cancelled`, or `Internal` if Arrow fails.
    pub fn scatter_batches(&self, batches: &[RecordBatch], cancel: &Cancel) -> Result<RecordBatch> {
        let schema = batches[0].schema();
        let columns = (0..schema.fields().len()).into_par_iter().map(|column| {
            cancel.check()?;
            let parts: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(column).as_ref()).collect();
            with_exact_primitive!(parts[0].data_type(), T => return Ok(self.scatter_values::<T>(&parts)), _ => {});
            let mut from = vec![0u32; self.0.len()];
            self.0.iter().zip(0..).for_each(|(index, row)| from[*index as usize] = row);
            take(&concat(&parts).map_err(Error::kernel)?, &UInt32Array::from(from), None).map_err(Error::kernel)
        });
        RecordBatch::try_new(schema, columns.collect::<Result<Vec<ArrayRef>>>()?).map_err(Error::kernel)
    }

    /// Only values that are not null, which may be few.
    fn scatter_values<T: ArrowPrimitiveType>(&self, parts: &[&dyn Array]) -> ArrayRef {
        let data_type = parts[0].data_type().clone();
        let parts: Vec<&PrimitiveArray<T>> = parts.iter().map(|part| part.as_primitive::<T>()).collect();
        let nulls: usize = parts.iter().map(|part| part.null_count()).sum();
        if nulls == 0 {
            let values = parts.iter().flat_map(|part| part.values().iter().copied());
            return Arc::new(PrimitiveArray::<T>::new(self.scatter(values).into(), None).with_data_type(data_type));
        }
        let mut values = vec![T::default_value(); self.0.len()];
        let mut valid = BooleanBufferBuilder::new(self.0.len());
        valid.append_n(self.0.len(), false);
        let mut rest = &self.0[..];
        for part in parts {
            let (indices, later) = rest.split_at(part.len());
            rest = later;
            let mut bring = |row: usize| {
                values[indices[row] as usize] = part.value(row);
                valid.set_bit(indices[row] as usize, true);
            };
            match part.nulls() {
                None => (0..part.len()).for_each(bring),
                Some(nulls) => nulls.valid_indices().for_each(&mut bring),
            }
        }
        let nulls = NullBuffer::new(valid.finish());
        Arc::new(PrimitiveArray::<T>::new(values.into(), Some(nulls)).with_data_type(data_type))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Float32Array, Int64Array, StringArray};
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn rows_stay_whole_and_buckets_are_in_order() {
        let mut rng = SmallRng::seed_from_u64(5);
        for mask in [u128::MAX, 0xff, 0] {
            let keys: Vec<MortonKey> = (0..150_000).map(|_| rng.random::<u128>() >> 32 & mask).collect();
            let numbers = Int64Array::from_iter_values(0..150_000);
            let text = StringArray::from_iter((0..150_000).map(|row| (row % 7 != 0).then(|| row.to_string())));
            let halves = Float32Array::from_iter_values((0..150_000).map(|row| row as f32 / 2.0));
            let rare = Float32Array::from_iter((0..150_000).map(|row| (row % 1000 == 3).then_some(row as f32)));
            let columns: [(&str, ArrayRef); 4] =
                [("n", Arc::new(numbers)), ("t", Arc::new(text)), ("h", Arc::new(halves)), ("r", Arc::new(rare))];
            let batch =
                RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap();
            let buckets = Buckets::new(&keys).unwrap();
            let moved = buckets
                .places
                .scatter_batches(&[batch.slice(0, 123), batch.slice(123, 150_000 - 123)], &Cancel::default());
            let moved = moved.unwrap();
            let rows: Vec<i64> = moved.column(0).as_primitive::<arrow_array::types::Int64Type>().values().to_vec();
            let from = UInt32Array::from_iter_values(rows.iter().map(|row| *row as u32));
            assert_eq!(moved, arrow_select::take::take_record_batch(&batch, &from).unwrap());
            let mut all = rows.clone();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..150_000));
            let moved_keys = buckets.places.scatter(keys.iter().copied());
            let filled: Vec<&[MortonKey]> =
                buckets.rows.iter().map(|rows| &moved_keys[rows.clone()]).filter(|keys| !keys.is_empty()).collect();
            assert!(filled.windows(2).all(|pair| pair[0].iter().max() < pair[1].iter().min()));
        }
        assert!(Buckets::new(&[1; 100]).is_none());
    }
}
