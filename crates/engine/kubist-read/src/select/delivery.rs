//! What a selecting thread hands to its stream.

use std::collections::VecDeque;

use arrow_array::RecordBatch;
use kubist_types::Stats;

/// What a selecting thread sends.
pub struct Delivery {
    pub batches: VecDeque<RecordBatch>,
    pub stats: Stats,
    pub fraction: f64,
}
