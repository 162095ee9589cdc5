//! Collects results: all of them, or the results with the lowest priorities.

use std::collections::HashMap;

use arrow_array::{RecordBatch, UInt32Array};
use kubist_types::{Error, Result};

/// The number of results that are collected beyond the limit.
const SURPLUS: usize = 1 << 16;

pub(super) struct BatchResult {
    pub batch: RecordBatch,
    pub priorities: Vec<u64>,
    pub count: u64,
}

pub(super) struct LimitedResult {
    limit: Option<u64>,
    held: Vec<(RecordBatch, Vec<u64>)>,
    rows: usize,
}

impl LimitedResult {
    pub fn new(limit: Option<u64>) -> LimitedResult {
        LimitedResult { limit, held: Vec::new(), rows: 0 }
    }

    pub fn take(&mut self, found: BatchResult, take: &mut dyn FnMut(RecordBatch) -> Result<()>) -> Result<()> {
        let Some(limit) = self.limit else {
            return if found.batch.num_rows() > 0 { take(found.batch) } else { Ok(()) };
        };
        self.rows += found.batch.num_rows();
        self.held.push((found.batch, found.priorities));
        match self.rows > limit as usize + SURPLUS.max(limit as usize) {
            true => self.cut(limit as usize),
            false => Ok(()),
        }
    }

    /// Keeps the results with the lowest priorities. If priorities are equal, the first result stays.
    fn cut(&mut self, limit: usize) -> Result<()> {
        let mut all: Vec<(u64, usize, u32)> = Vec::with_capacity(self.rows);
        for (at, (_, priorities)) in self.held.iter().enumerate() {
            all.extend(priorities.iter().enumerate().map(|(row, priority)| (*priority, at, row as u32)));
        }
        if all.len() > limit {
            all.select_nth_unstable(limit);
            all.truncate(limit);
        }
        all.sort_unstable_by_key(|(_, at, row)| (*at, *row));
        let mut rows: HashMap<usize, Vec<u32>> = HashMap::new();
        for (_, at, row) in all {
            rows.entry(at).or_default().push(row);
        }
        let held = std::mem::take(&mut self.held);
        self.rows = 0;
        for (at, (batch, priorities)) in held.into_iter().enumerate() {
            let Some(rows) = rows.remove(&at) else { continue };
            let kept = rows.iter().map(|row| priorities[*row as usize]).collect();
            let batch =
                arrow_select::take::take_record_batch(&batch, &UInt32Array::from(rows)).map_err(Error::kernel)?;
            self.rows += batch.num_rows();
            self.held.push((batch, kept));
        }
        Ok(())
    }

    pub fn finish(&mut self, rows: u64, take: &mut dyn FnMut(RecordBatch) -> Result<()>) -> Result<u64> {
        let Some(limit) = self.limit else { return Ok(rows) };
        self.cut(limit as usize)?;
        for (batch, _) in std::mem::take(&mut self.held) {
            take(batch)?;
        }
        Ok(self.rows as u64)
    }
}
