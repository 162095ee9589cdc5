//! Sorts results of any size, within a memory limit.
//!
//! Rows are scanned with keys that compare as bytes (`keys`). Rows beyond the memory limit become sorted
//! runs in a scratch file (`scratch`). These are merged, as many at a time as memory has room for one block
//! per run (`merge`). With `first`, only rows that can be among the first are kept, and runs and zones without
//! such rows are not read (`bar`).

mod bar;
mod keys;
mod merge;
mod scratch;

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::Schema;

use crate::bind::Order;
use crate::execute::{self, Projection, Scanned, Work};
use crate::plan::Planner;
use bar::Bar;
use keys::Keys;
use kubist_index::gradual;
use kubist_types::cancel::Cancel;
use kubist_types::error::Result;
use kubist_types::stats::Stats;
use merge::{Merge, Run, gather};
use scratch::{Block, Spilled};

const BATCH_ROWS: usize = 65_536;
/// Default memory limit for rows in the sort, in bytes.
const DEFAULT_MEMORY: usize = 128 << 20;
const MERGED_RUNS: usize = 64;
/// Smallest and largest number of rows of a block.
const BLOCK_ROWS: (usize, usize) = (16, 8192);

/// A batch of the result, or its end, with the cost since the previous one.
pub struct Sorted {
    pub batch: Option<RecordBatch>,
    pub stats: Stats,
}

/// Sends the rows of a query in order; stops if the receiver is gone.
pub(crate) fn send(planner: Planner, sender: &SyncSender<Result<Sorted>>) {
    let (query, mut stats) = (planner.logical.query.clone(), Stats::default());
    let mut give = |block: Block, stats: &mut Stats| {
        let rows = block.keys.len();
        let batch = query.batch(rows, block.columns, |_| Some(None))?;
        Ok(sender.send(Ok(Sorted { batch: Some(batch), stats: std::mem::take(stats) })).is_ok())
    };
    let Some(order) = &query.order else { return };
    let end = match sorted(planner, order, &mut stats, &mut give) {
        Ok(true) => Ok(Sorted { batch: None, stats }),
        Ok(false) => return,
        Err(error) => Err(error),
    };
    let _ = sender.send(end);
}

/// The sorted rows as indexes into `places`, for columns in `blocks`. Equal rows stay in the given order.
pub(crate) fn ordered(
    order: &Order,
    blocks: &[Vec<ArrayRef>],
    places: &[(usize, usize)],
    cancel: &Cancel,
) -> Result<Vec<usize>> {
    let mut keys = Vec::with_capacity(places.len().div_ceil(BATCH_ROWS));
    for (piece, chosen) in places.chunks(BATCH_ROWS).enumerate() {
        cancel.check()?;
        let ranks: Vec<u64> = (0..chosen.len() as u64).map(|rank| (piece * BATCH_ROWS) as u64 + rank).collect();
        keys.push(Keys::new(order, &gather(blocks, chosen)?, 0, &ranks, cancel)?);
    }
    let mut items: Vec<Item<'_>> = items(&keys).collect();
    gradual::sort(&mut items, cancel)?;
    let kept = order.first.map_or(items.len(), |first| items.len().min(first.try_into().unwrap_or(usize::MAX)));
    Ok(items[..kept].iter().map(|item| item.part as usize * BATCH_ROWS + item.row as usize).collect())
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Item<'a> {
    head: u64,
    key: &'a [u8],
    part: u32,
    row: u32,
}

fn items(keys: &[Keys]) -> impl Iterator<Item = Item<'_>> {
    keys.iter().enumerate().flat_map(|(part, keys)| {
        (0..keys.len()).map(move |row| {
            let key = keys.get(row);
            let mut head = [0; 8];
            let length = key.len().min(8);
            head[..length].copy_from_slice(&key[..length]);
            Item { head: u64::from_be_bytes(head), key, part: part as u32, row: row as u32 }
        })
    })
}

#[derive(Default)]
struct Buffer {
    columns: Vec<Vec<ArrayRef>>,
    keys: Vec<Keys>,
    rows: usize,
    bytes: usize,
}

impl Buffer {
    fn add(&mut self, block: Block) {
        // During the sort, memory has the row, its key, and twice its item.
        self.bytes += bytes_of(&block) + 2 * size_of::<Item<'_>>() * block.keys.len();
        self.rows += block.keys.len();
        self.columns.push(block.columns);
        self.keys.push(block.keys);
    }

    /// Passes the first `most` rows to `give`, in blocks; returns false if `give` does.
    fn in_order(
        &self,
        most: u64,
        block_rows: usize,
        cancel: &Cancel,
        give: &mut dyn FnMut(Block) -> Result<bool>,
    ) -> Result<bool> {
        let mut items: Vec<Item<'_>> = items(&self.keys).collect();
        gradual::sort(&mut items, cancel)?;
        items.truncate(most.try_into().unwrap_or(usize::MAX));
        for chosen in items.chunks(block_rows) {
            cancel.check()?;
            let mut keys = Keys::default();
            chosen.iter().try_for_each(|item| keys.push(item.key))?;
            let places: Vec<(usize, usize)> =
                chosen.iter().map(|item| (item.part as usize, item.row as usize)).collect();
            if !give(Block { columns: gather(&self.columns, &places)?, keys })? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn bytes_of(block: &Block) -> usize {
    block.columns.iter().map(|array| array.get_array_memory_size()).sum::<usize>() + block.keys.size()
}

/// Passes sorted blocks to `give`; returns false if `give` does.
fn sorted(
    mut planner: Planner,
    order: &Order,
    stats: &mut Stats,
    give: &mut dyn FnMut(Block, &mut Stats) -> Result<bool>,
) -> Result<bool> {
    let (query, most) = (planner.logical.query.clone(), order.first.unwrap_or(u64::MAX));
    let (cancel, memory) = (&query.cancel, query.memory_bytes.unwrap_or(DEFAULT_MEMORY));
    let stored = &query.snapshot.view.schema.stored;
    let schema = Schema::new(query.read.iter().map(|column| stored.fields()[*column].clone()).collect::<Vec<_>>());
    let mut spilled = Spilled::new(Arc::new(schema), query.most_scratch);
    let (mut held, mut runs, mut row_bytes) = (Buffer::default(), Vec::<Run>::new(), 64);
    let mut last: Option<Vec<u8>> = None;
    let mut work = keyed(&mut planner, stats)?;
    for scanned in &mut work {
        let (block, of_task) = scanned?;
        stats.add(&of_task);
        cancel.check()?;
        let block = match &last {
            Some(last) => up_to(block, last)?,
            None => block,
        };
        if block.keys.len() == 0 {
            continue;
        }
        held.add(block);
        row_bytes = held.bytes / held.rows;
        let far_more = held.rows as u64 > most.saturating_mul(4).max(2 * BATCH_ROWS as u64);
        let few = most.saturating_mul(row_bytes as u64) <= memory as u64 / 2;
        if held.bytes <= memory && !(far_more && few) {
            continue;
        }
        let full = std::mem::take(&mut held);
        let (mut blocks, block_rows) = (Vec::new(), block_rows(memory, row_bytes));
        if few {
            full.in_order(most, block_rows, cancel, &mut |block| {
                blocks.push(block);
                Ok(true)
            })?;
            last = blocks.last().map(|block| block.keys.get(block.keys.len() - 1).to_vec());
            blocks.into_iter().for_each(|block| held.add(block));
            continue;
        }
        let mut run = Run::new();
        full.in_order(most, block_rows, cancel, &mut |block| {
            run.push_back(spilled.write(&block)?);
            Ok(true)
        })?;
        runs.push(run);
    }
    stats.add(&work.planning);
    let batch_rows = (memory / 8 / row_bytes.max(1)).clamp(BLOCK_ROWS.0, BATCH_ROWS);
    if runs.is_empty() {
        return held.in_order(most, batch_rows, cancel, &mut |block| give(block, stats));
    }
    let block_rows = block_rows(memory, row_bytes);
    let mut run = Run::new();
    held.in_order(most, block_rows, cancel, &mut |block| {
        run.push_back(spilled.write(&block)?);
        Ok(true)
    })?;
    drop(held);
    runs.push(run);
    while runs.len() > MERGED_RUNS {
        let mut merge = Merge::new(&spilled, runs.drain(..MERGED_RUNS), block_rows, most)?;
        let mut run = Run::new();
        while let Some(block) = merge.next(&spilled, cancel)? {
            run.push_back(spilled.write(&block)?);
        }
        runs.push(run);
    }
    let mut merge = Merge::new(&spilled, runs, batch_rows, most)?;
    while let Some(block) = merge.next(&spilled, cancel)? {
        if !give(block, stats)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The number of rows per block, so that memory has room for one block of every merged run.
fn block_rows(memory: usize, row_bytes: usize) -> usize {
    (memory / (2 * MERGED_RUNS) / row_bytes.max(1)).clamp(BLOCK_ROWS.0, BLOCK_ROWS.1)
}

/// Reads rows with their keys, which the reading threads build.
fn keyed(planner: &mut Planner, stats: &mut Stats) -> Result<Work<(Block, Stats)>> {
    let query = planner.logical.query.clone();
    let wanted = Projection { columns: query.read.clone(), priorities: true, coded: vec![] };
    let bar = query.order.as_ref().and_then(|order| Bar::of(&query, order));
    let skips = bar.as_ref().map(Bar::skips).unwrap_or_default();
    let pieces = match &bar {
        Some(bar) => planner.all_pieces(stats)?.ranked(|run| bar.rank(run)),
        None => planner.all_pieces(stats)?,
    };
    let with_keys = move |scanned: Scanned| {
        let Scanned { columns, priorities, stats, .. } = scanned;
        if let Some(bar) = bar.as_ref().filter(|_| !priorities.is_empty()) {
            bar.raise(&columns);
        }
        let keys = match &query.order {
            Some(order) if !priorities.is_empty() => {
                Keys::new(order, &columns, query.needed, &priorities, &query.cancel)?
            }
            _ => Keys::default(),
        };
        Ok((Block { columns, keys }, stats))
    };
    Ok(execute::work(pieces, wanted, skips, with_keys))
}

fn up_to(block: Block, last: &[u8]) -> Result<Block> {
    let rows: Vec<usize> = (0..block.keys.len()).filter(|row| block.keys.get(*row) <= last).collect();
    if rows.len() == block.keys.len() {
        return Ok(block);
    }
    let mut keys = Keys::default();
    rows.iter().try_for_each(|row| keys.push(block.keys.get(*row)))?;
    let places: Vec<(usize, usize)> = rows.into_iter().map(|row| (0, row)).collect();
    Ok(Block { columns: gather(&[block.columns], &places)?, keys })
}
