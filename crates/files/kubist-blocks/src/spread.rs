//! Selects the blocks that gain the most from a sorted copy.
//!
//! All copies have about the same size, so the gain per byte is the fraction of queries that hit the block. Queries are
//! assumed to be as frequent in a tail as in the middle of the values, so the range of a block is measured in log-odds
//! of ranks. A sample of all values gives the ranks, and beyond the sample the bounds of blocks.

use arrow_array::{Array, ArrayRef};
use kubist_index::order;

use crate::decode;
use crate::fetch::FetchedValues;
use crate::layout::Variable;
use crate::summary::Summary;

const SAMPLED: usize = 64;

/// The order keys of evenly spaced numbers.
pub fn sampled(variable: &Variable, found: &FetchedValues<'_>) -> Vec<u64> {
    let width = variable.number.bytes() as usize;
    let count = match found {
        FetchedValues::Stored(bytes) => bytes.len() / width,
        FetchedValues::Array(values) => values.len(),
    };
    let step = count.div_ceil(SAMPLED).max(1);
    let places = (step / 2..count).step_by(step);
    let some: Vec<ArrayRef> = match found {
        FetchedValues::Stored(bytes) => {
            let cells: Vec<u8> = places.flat_map(|at| &bytes[at * width..][..width]).copied().collect();
            vec![decode::array(variable, &cells)]
        }
        FetchedValues::Array(values) => places.map(|at| values.slice(at, 1)).collect(),
    };
    some.iter().flat_map(numbers).collect()
}

fn numbers(values: &ArrayRef) -> Vec<u64> {
    let (low, high) = order::number_keys(values.data_type());
    let keys = order::keys(values).unwrap_or_default();
    let is_number = |(at, key): &(usize, u64)| values.is_valid(*at) && (low..=high).contains(key);
    keys.into_iter().enumerate().filter(is_number).map(|(_, key)| key).collect()
}

/// A block, its summary, and the keys of some of its values.
pub type BlockSample = (u64, Summary, Vec<u64>);

/// The distribution of values, from a sample and the bounds of blocks.
pub struct ValueDistribution {
    sample: Vec<u64>,
    least: Vec<u64>,
    greatest: Vec<u64>,
    values: f64,
}

impl ValueDistribution {
    /// `values` is the number of values in these blocks.
    pub fn of(blocks: &[BlockSample], values: u64) -> ValueDistribution {
        let ordered = |keys: &mut dyn Iterator<Item = u64>| {
            let mut keys: Vec<u64> = keys.collect();
            keys.sort_unstable();
            keys
        };
        let numbers = || blocks.iter().filter(|(_, summary, _)| summary.least <= summary.greatest);
        ValueDistribution {
            sample: ordered(&mut blocks.iter().flat_map(|(_, _, keys)| keys.iter().copied())),
            least: ordered(&mut numbers().map(|(_, summary, _)| summary.least)),
            greatest: ordered(&mut numbers().map(|(_, summary, _)| summary.greatest)),
            values: (values as f64).max(1.0),
        }
    }

    /// The fraction of queries that hit a block, in log-odds. `None` if the block's values are equal, missing or
    /// unknown.
    pub fn span(&self, summary: &Summary) -> Option<f64> {
        let odds = |key: u64| self.below(key).ln() - self.above(key).ln();
        let differ = summary.least < summary.greatest && !summary.is_unreadable();
        differ.then(|| odds(summary.greatest) - odds(summary.least))
    }

    fn below(&self, key: u64) -> f64 {
        let up_to = |keys: &[u64]| keys.partition_point(|own| *own <= key);
        self.share(up_to(&self.sample), up_to(&self.least))
    }

    fn above(&self, key: u64) -> f64 {
        let behind = |keys: &[u64]| keys.len() - keys.partition_point(|own| *own < key);
        self.share(behind(&self.sample), behind(&self.greatest))
    }

    /// The rank as a fraction. Each bound of a block counts as at least one value.
    fn share(&self, of_sample: usize, of_ends: usize) -> f64 {
        (of_sample as f64 / (self.sample.len() as f64).max(1.0)).max(of_ends as f64 / self.values)
    }
}

/// The `count` blocks with the greatest gain, ascending. Blocks with equal values gain nothing.
pub fn chosen(blocks: &[BlockSample], values: u64, count: usize) -> Vec<u64> {
    let mut chosen: Vec<u64> =
        spans(&ValueDistribution::of(blocks, values), blocks).into_iter().take(count).map(|(block, _)| block).collect();
    chosen.sort_unstable();
    chosen
}

fn spans(scale: &ValueDistribution, blocks: &[BlockSample]) -> Vec<(u64, f64)> {
    let of = |(block, summary, _): &BlockSample| Some((*block, scale.span(summary)?));
    let mut spans: Vec<(u64, f64)> = blocks.iter().filter_map(of).collect();
    spans.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    spans
}

/// Predicts from some blocks which blocks will be chosen, so that their copies are made while they are decoded.
pub struct CopyPredictor {
    scale: ValueDistribution,
    /// The smallest range of a block that may be chosen.
    least: f64,
}

impl CopyPredictor {
    /// Learns from some blocks with `values` values, if a fraction `share` of all blocks will be chosen. It accepts
    /// twice this fraction, because some blocks do not represent all.
    pub fn of(blocks: &[BlockSample], values: u64, share: f64) -> CopyPredictor {
        let scale = ValueDistribution::of(blocks, values);
        let spans = spans(&scale, blocks);
        let last = (2.0 * share * blocks.len() as f64).ceil() as usize;
        let least = spans.get(last).map_or(f64::NEG_INFINITY, |(_, span)| *span);
        CopyPredictor { scale, least }
    }

    pub fn has(&self, summary: &Summary) -> bool {
        // A block with values beyond the sample is in a tail, and has no range.
        self.scale.span(summary).is_some_and(|span| span.is_nan() || span >= self.least)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::Float32Array;

    use super::*;
    use crate::layout::{Number, Packing, Storage};

    fn variable() -> Variable {
        Variable {
            name: "x".into(),
            dimensions: vec![0],
            number: Number::F32,
            big_endian: false,
            packing: Packing::default(),
            unit: None,
            calendar: None,
            storage: Storage::Contiguous { offset: 0 },
        }
    }

    fn looked(blocks: &[Vec<f32>]) -> Vec<BlockSample> {
        let of = |(at, values): (usize, &Vec<f32>)| {
            let array: ArrayRef = Arc::new(Float32Array::from(values.clone()));
            (at as u64, Summary::of(&array), sampled(&variable(), &FetchedValues::Array(array)))
        };
        blocks.iter().enumerate().map(of).collect()
    }

    #[test]
    fn blocks_that_many_questions_hit_are_chosen() {
        let part = |low: f32, high: f32| (0..1000).map(|at| low + (high - low) * at as f32 / 1000.0).collect();
        let mut blocks: Vec<Vec<f32>> = (0..20).map(|at| part(at as f32, at as f32 + 1.0)).collect();
        blocks.push(part(0.0, 20.0));
        blocks.push(vec![7.0; 1000]);
        assert_eq!(chosen(&looked(&blocks), 22_000, 1), [20]);
        assert_eq!(chosen(&looked(&blocks), 22_000, 3), [0, 19, 20]);
        assert_eq!(chosen(&looked(&blocks), 22_000, 100).len(), 21);
        assert_eq!(chosen(&[], 0, 3), [0u64; 0]);
    }
}
