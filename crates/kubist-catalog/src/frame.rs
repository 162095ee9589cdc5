//! The frame of a grid: how rows map to its space, and to priorities.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrowPrimitiveType, RecordBatch, UInt32Array};
use arrow_select::take::take;
use kubist_index::cube::{Geometry, Interleaver, MAX_DIMENSIONS, MortonKey};
use kubist_index::grid::Scale;
use kubist_index::order::{self, Keyed};
use kubist_index::{priority, with_exact_primitive};
use rayon::prelude::*;

use kubist_format::zone_map::ZoneMap;

/// Rows that one thread prepares at a time.
const SLICE_ROWS: usize = 1 << 16;

pub struct Frame {
    pub geometry: Geometry,
    /// One a dimension.
    pub scales: Vec<Scale>,
    /// Stored columns that are its dimensions, in their order.
    pub dimensions: Vec<usize>,
    interleaver: Interleaver,
    identity: Vec<usize>,
    seed: u64,
}

/// Rows in space and in priority.
pub struct Positions {
    pub keys: Vec<MortonKey>,
    pub priorities: Vec<u64>,
}

impl Frame {
    /// Of a grid of these stored columns; `identity` are those that decide the priority.
    pub fn new(
        geometry: Geometry,
        scales: Vec<Scale>,
        dimensions: Vec<usize>,
        identity: Vec<usize>,
        seed: u64,
    ) -> Frame {
        Frame { geometry, scales, dimensions, interleaver: Interleaver::new(geometry), identity, seed }
    }

    /// Coordinates of a stored column that is dimension `d`.
    pub fn coordinates(&self, d: usize, array: &dyn Array) -> Vec<u32> {
        let (scale, bits) = (&self.scales[d], self.geometry.bits());
        let data_type = array.data_type();
        with_exact_primitive!(data_type, T => coordinates_of::<T>(array, scale, bits),
            _ => unreachable!("{data_type} was refused as a dimension"))
    }

    /// Where all rows of stored batches lie, prepared in parallel.
    pub fn positions(&self, batches: &[RecordBatch]) -> Positions {
        let slices = batches.iter().flat_map(|batch| {
            let firsts = (0..batch.num_rows()).step_by(SLICE_ROWS);
            firsts.map(|first| batch.slice(first, SLICE_ROWS.min(batch.num_rows() - first)))
        });
        let slices: Vec<RecordBatch> = slices.collect();
        let positions: Vec<Positions> = slices.par_iter().map(|slice| self.positions_of_slice(slice)).collect();
        if positions.len() == 1 {
            return positions.into_iter().next().expect("one slice");
        }
        let (keys, priorities): (Vec<_>, Vec<_>) =
            positions.into_iter().map(|positions| (positions.keys, positions.priorities)).unzip();
        Positions { keys: keys.concat(), priorities: priorities.concat() }
    }

    fn positions_of_slice(&self, batch: &RecordBatch) -> Positions {
        let identity: Vec<&dyn Array> = self.identity.iter().map(|column| batch.column(*column).as_ref()).collect();
        Positions { keys: self.keys(batch), priorities: self.priorities(&identity, batch.num_rows()) }
    }

    /// The Morton keys of a stored batch.
    pub fn keys(&self, batch: &RecordBatch) -> Vec<MortonKey> {
        let mut keys = Vec::new();
        self.interleaver.keys(&self.coordinates_of(batch), &mut keys);
        keys
    }

    /// The coordinates of a stored batch: `[d][row]`.
    pub fn coordinates_of(&self, batch: &RecordBatch) -> Vec<Vec<u32>> {
        let dimensions = self.dimensions.iter().enumerate();
        dimensions.map(|(d, column)| self.coordinates(d, batch.column(*column).as_ref())).collect()
    }

    /// The lowest and the highest coordinates of some rows of a stored batch, whose zones
    /// these are.
    pub fn extent(
        &self,
        batch: &RecordBatch,
        rows: &[u32],
        map: &ZoneMap,
    ) -> ([u32; MAX_DIMENSIONS], [u32; MAX_DIMENSIONS]) {
        let (mut low, mut high) = ([0; MAX_DIMENSIONS], [0; MAX_DIMENSIONS]);
        for (d, column) in self.dimensions.iter().enumerate() {
            let (array, zones) = (batch.column(*column), &map.columns[*column]);
            let (first, last) = order::number_keys(array.data_type());
            let (min, max) = (zones.min.iter().min().copied(), zones.max.iter().max().copied());
            let ends = match (min, max) {
                // The scale is monotone, for all that is a number.
                (Some(min), Some(max)) if zones.nulls.is_empty() && first <= min && max <= last => {
                    let ends = [min, max].map(|key| order::number(array.data_type(), key));
                    ends.map(|number| self.scales[d].coordinate(number, self.geometry.bits()))
                }
                _ => {
                    let rows = UInt32Array::from(rows.to_vec());
                    let of_rows = take(array, &rows, None).expect("rows of the batch");
                    let of_rows = self.coordinates(d, of_rows.as_ref());
                    [of_rows.iter().min().copied().unwrap_or(0), of_rows.iter().max().copied().unwrap_or(0)]
                }
            };
            [low[d], high[d]] = ends;
        }
        (low, high)
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
    let numbers = array.values().iter().map(|value| value.number());
    match array.nulls() {
        None => scale.coordinates(numbers, bits),
        Some(nulls) => {
            let numbers = numbers.zip(nulls).map(|(number, valid)| if valid { number } else { f64::NAN });
            scale.coordinates(numbers, bits)
        }
    }
}

/// The values of a dimension as numbers, for learning a scale; NaN for null.
pub fn numbers(array: &dyn Array) -> Vec<f64> {
    let keys = order::keys(array).unwrap_or_default();
    let number = |(row, key): (usize, &u64)| match array.is_valid(row) {
        true => order::number(array.data_type(), *key),
        false => f64::NAN,
    };
    keys.iter().enumerate().map(number).collect()
}
