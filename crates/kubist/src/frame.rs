//! The frame of a table: how its rows map to space and to priorities.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrowPrimitiveType, RecordBatch};
use kubist_index::cube::{Geometry, Interleaver, MortonKey};
use kubist_index::grid::Scale;
use kubist_index::order::{self, Keyed};
use kubist_index::{priority, with_exact_primitive};
use rayon::prelude::*;

use crate::schema::TableSchema;

/// Rows that one thread prepares at a time.
const SLICE_ROWS: usize = 1 << 16;

pub struct Frame {
    pub geometry: Geometry,
    /// One a dimension.
    pub scales: Vec<Scale>,
    interleaver: Interleaver,
    dimensions: Vec<usize>,
    identity: Vec<usize>,
    seed: u64,
}

/// Rows of a batch in space and in priority.
pub struct Places {
    /// `coordinates[d][row]`.
    pub coordinates: Vec<Vec<u32>>,
    pub keys: Vec<MortonKey>,
    pub priorities: Vec<u64>,
}

impl Frame {
    pub fn new(schema: &TableSchema, geometry: Geometry, scales: Vec<Scale>, seed: u64) -> Frame {
        let (dimensions, identity) = (schema.dimensions.clone(), schema.identity.clone());
        Frame { geometry, scales, interleaver: Interleaver::new(geometry), dimensions, identity, seed }
    }

    /// Coordinates of a stored column that is dimension `d`.
    pub fn coordinates(&self, d: usize, array: &dyn Array) -> Vec<u32> {
        let (scale, bits) = (&self.scales[d], self.geometry.bits());
        let data_type = array.data_type();
        with_exact_primitive!(data_type, T => coordinates_of::<T>(array, scale, bits),
            _ => unreachable!("{data_type} was refused as a dimension"))
    }

    /// Where all rows of a stored batch lie, prepared in parallel.
    pub fn places(&self, batch: &RecordBatch) -> Places {
        let slices: Vec<Places> = (0..batch.num_rows())
            .step_by(SLICE_ROWS)
            .collect::<Vec<_>>()
            .into_par_iter()
            .map(|first| self.places_of_slice(&batch.slice(first, SLICE_ROWS.min(batch.num_rows() - first))))
            .collect();
        if slices.len() == 1 {
            return slices.into_iter().next().expect("one slice");
        }
        let mut places = Places {
            coordinates: vec![Vec::with_capacity(batch.num_rows()); self.dimensions.len()],
            keys: Vec::with_capacity(batch.num_rows()),
            priorities: Vec::with_capacity(batch.num_rows()),
        };
        for slice in slices {
            for (all, part) in places.coordinates.iter_mut().zip(slice.coordinates) {
                all.extend_from_slice(&part);
            }
            places.keys.extend_from_slice(&slice.keys);
            places.priorities.extend_from_slice(&slice.priorities);
        }
        places
    }

    fn places_of_slice(&self, batch: &RecordBatch) -> Places {
        let dimensions = self.dimensions.iter().enumerate();
        let coordinates: Vec<Vec<u32>> =
            dimensions.map(|(d, column)| self.coordinates(d, batch.column(*column).as_ref())).collect();
        let mut keys = Vec::new();
        self.interleaver.keys(&coordinates, &mut keys);
        let identity: Vec<&dyn Array> = self.identity.iter().map(|column| batch.column(*column).as_ref()).collect();
        Places { coordinates, keys, priorities: priority::priorities(&identity, batch.num_rows(), self.seed) }
    }

    /// Priorities from identity columns alone, in their order.
    pub fn priorities(&self, identity: &[&dyn Array], rows: usize) -> Vec<u64> {
        priority::priorities(identity, rows, self.seed)
    }
}

fn coordinates_of<T: ArrowPrimitiveType>(array: &dyn Array, scale: &Scale, bits: u32) -> Vec<u32>
where
    T::Native: Keyed,
{
    let array = array.as_primitive::<T>();
    let place = |value: &T::Native| scale.coordinate(value.number(), bits);
    match array.nulls() {
        None => array.values().iter().map(place).collect(),
        Some(nulls) => {
            let values = array.values().iter().zip(nulls);
            values.map(|(value, valid)| if valid { place(value) } else { scale.coordinate(f64::NAN, bits) }).collect()
        }
    }
}

/// The values of a dimension as numbers, for learning a scale; nulls left out.
pub fn numbers(array: &dyn Array) -> Vec<f64> {
    let keys = order::keys(array).unwrap_or_default();
    let rows = (0..array.len()).filter(|row| array.is_valid(*row));
    rows.map(|row| order::number(array.data_type(), keys[row])).collect()
}
