//! Keys of rows for secondary indexes.

use arrow_array::{Array, RecordBatch};
use arrow_buffer::NullBuffer;
use kubist_format::lookup::keys;
use rayon::prelude::*;

const KEYED_ROWS: usize = 1 << 16;

/// The stored columns with a secondary index, and the seed of their keys.
#[derive(Clone)]
pub struct LookupColumns {
    pub seed: u64,
    pub columns: Vec<usize>,
}

#[derive(Default)]
pub struct Keys(Vec<(Vec<u32>, Option<NullBuffer>)>);

impl LookupColumns {
    pub fn keys(&self, batch: &RecordBatch) -> Keys {
        let keys = self.columns.iter().map(|column| {
            let array = batch.column(*column);
            let firsts: Vec<usize> = (0..array.len()).step_by(KEYED_ROWS).collect();
            let of_some = firsts.into_par_iter().flat_map_iter(|first| {
                keys(array.slice(first, KEYED_ROWS.min(array.len() - first)).as_ref(), self.seed)
            });
            (of_some.collect(), array.logical_nulls())
        });
        Keys(keys.collect())
    }
}

impl Keys {
    /// For each column, `key << 32 | zone` of every row with a value, in the order of the run. `zones` has the rows per
    /// zone.
    pub fn postings(&self, order: &[u32], zones: &[u8]) -> Vec<Vec<u64>> {
        let of_column = |(keys, nulls): &(Vec<u32>, Option<NullBuffer>)| {
            let mut rest = order;
            let mut postings = Vec::with_capacity(order.len());
            for (zone, rows) in zones.iter().enumerate() {
                let (rows, later) = rest.split_at(*rows as usize);
                rest = later;
                let valued =
                    rows.iter().filter(|row| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(**row as usize)));
                postings.extend(valued.map(|row| (keys[*row as usize] as u64) << 32 | zone as u64));
            }
            postings
        };
        self.0.iter().map(of_column).collect()
    }
}
