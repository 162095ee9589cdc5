//! `Frame`: the mapping of rows to coordinates of a grid and to priorities.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, RecordBatch, UInt32Array};
use arrow_schema::DataType;
use arrow_select::take::take;
use kubist_index::cube::{Geometry, Interleaver, MAX_DIMENSIONS, MortonKey};
use kubist_index::grid::Scale;
use kubist_index::order::{self, Keyed};
use kubist_index::with_exact_primitive;
use rayon::prelude::*;

use kubist_format::zone_map::ZoneMap;

use crate::sampling::Prioritised;

const SLICE_ROWS: usize = 1 << 16;

pub struct Frame {
    pub geometry: Geometry,
    pub scales: Vec<Scale>,
    pub dimensions: Vec<usize>,
    domains: Vec<(u32, u32)>,
    interleaver: Interleaver,
    prioritised: Prioritised,
    seed: u64,
}

pub struct Positions {
    pub keys: Vec<MortonKey>,
    pub priorities: Vec<u64>,
    pub outside: u64,
}

impl Frame {
    pub fn new(
        geometry: Geometry,
        scales: Vec<Scale>,
        dimensions: Vec<usize>,
        prioritised: Prioritised,
        seed: u64,
    ) -> Frame {
        let ends = |scale: &Scale| {
            let (low, high) = scale.domain();
            (scale.coordinate(low, geometry.bits()), scale.coordinate(high, geometry.bits()))
        };
        let domains = scales.iter().map(ends).collect();
        Frame { geometry, scales, dimensions, domains, interleaver: Interleaver::new(geometry), prioritised, seed }
    }

    /// The key of null is 0.
    pub fn identity_keys(&self, batch: &RecordBatch) -> Vec<Vec<u64>> {
        let keys_of = |column: &usize| {
            let array = batch.column(*column);
            let mut keys = order::keys(array)?;
            if let Some(nulls) = array.nulls() {
                keys.iter_mut().zip(nulls).filter(|(_, valid)| !valid).for_each(|(key, _)| *key = 0);
            }
            Some(keys)
        };
        self.prioritised.identity.iter().filter_map(keys_of).collect()
    }

    pub fn coordinates(&self, d: usize, array: &dyn Array) -> Vec<u32> {
        let (scale, bits) = (&self.scales[d], self.geometry.bits());
        let data_type = array.data_type();
        with_exact_primitive!(data_type, T => coordinates_of::<T>(array, scale, bits),
            _ => unreachable!("{data_type} was refused as a dimension"))
    }

    /// The lowest order key of this type whose coordinate in dimension `d` is at least `coordinate`.
    pub fn first_key(&self, d: usize, data_type: &DataType, coordinate: u32) -> Option<u64> {
        let (mut low, mut high) = order::number_keys(data_type);
        let reaches =
            |key| self.scales[d].coordinate(order::number(data_type, key), self.geometry.bits()) >= coordinate;
        if !reaches(high) {
            return None;
        }
        // Coordinates increase with keys.
        while low < high {
            let middle = low + (high - low) / 2;
            if reaches(middle) { high = middle } else { low = middle + 1 }
        }
        Some(low)
    }

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
        let outside = positions.iter().map(|positions| positions.outside).sum();
        let (keys, priorities): (Vec<_>, Vec<_>) =
            positions.into_iter().map(|positions| (positions.keys, positions.priorities)).unzip();
        Positions { keys: keys.concat(), priorities: priorities.concat(), outside }
    }

    fn positions_of_slice(&self, batch: &RecordBatch) -> Positions {
        let columns: Vec<ArrayRef> = self.prioritised.columns().map(|column| batch.column(column).clone()).collect();
        let (mut keys, coordinates) = (Vec::new(), self.coordinates_of(batch));
        self.interleaver.keys(&coordinates, &mut keys);
        let priorities = self.prioritised.priorities(&columns, batch.num_rows(), self.seed);
        Positions { keys, priorities, outside: self.outside(&coordinates, batch.num_rows()) }
    }

    /// Excludes null and NaN, because no domain contains them.
    fn outside(&self, coordinates: &[Vec<u32>], rows: usize) -> u64 {
        let nowhere = self.geometry.last_coordinate();
        let is_out = |value: u32, (low, high): (u32, u32)| (value < low) | ((value > high) & (value != nowhere));
        // No early exit, so that the loop vectorizes.
        let leaves = |(column, ends): (&Vec<u32>, &(u32, u32))| {
            column.iter().fold(false, |out, value| out | is_out(*value, *ends))
        };
        if !coordinates.iter().zip(&self.domains).any(leaves) {
            return 0;
        }
        let row_is_out =
            |row: &usize| coordinates.iter().zip(&self.domains).any(|(column, ends)| is_out(column[*row], *ends));
        (0..rows).filter(row_is_out).count() as u64
    }

    /// Whether the domain contains a box of coordinates.
    pub fn domain_contains(&self, low: &[u32], high: &[u32]) -> bool {
        let ends = low.iter().zip(high).zip(&self.domains);
        ends.into_iter().all(|((low, high), (first, last))| first <= low && high <= last)
    }

    pub fn keys(&self, batch: &RecordBatch) -> Vec<MortonKey> {
        let mut keys = Vec::new();
        self.interleaver.keys(&self.coordinates_of(batch), &mut keys);
        keys
    }

    pub fn coordinates_of(&self, batch: &RecordBatch) -> Vec<Vec<u32>> {
        let dimensions = self.dimensions.iter().enumerate();
        dimensions.map(|(d, column)| self.coordinates(d, batch.column(*column).as_ref())).collect()
    }

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
                // The scale is monotone, so the bounds of zones suffice.
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
}

fn coordinates_of<T: ArrowPrimitiveType>(array: &dyn Array, scale: &Scale, bits: u32) -> Vec<u32>
where
    T::Native: Keyed,
{
    let array = array.as_primitive::<T>();
    let Some(nulls) = array.nulls() else { return scale.coordinates(array.values(), bits) };
    let numbers = array.values().iter().zip(nulls);
    let numbers = numbers.map(|(value, valid)| if valid { value.number() } else { f64::NAN });
    scale.coordinates(&numbers.collect::<Vec<f64>>(), bits)
}

/// Null becomes NaN.
pub fn numbers(array: &dyn Array) -> Vec<f64> {
    let keys = order::keys(array).unwrap_or_default();
    let number = |(row, key): (usize, &u64)| match array.is_valid(row) {
        true => order::number(array.data_type(), *key),
        false => f64::NAN,
    };
    keys.iter().enumerate().map(number).collect()
}
