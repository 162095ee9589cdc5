//! The message of a selecting thread to its stream.

use std::collections::VecDeque;

use arrow_array::RecordBatch;
use kubist_types::Stats;

pub struct Delivery {
    pub batches: VecDeque<RecordBatch>,
    pub stats: Stats,
    pub fraction: f64,
}
