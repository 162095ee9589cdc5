//! Builds an index in one pass over a file. The blocks that get a sorted copy are chosen at the end. If blocks must be
//! decoded, copies of likely blocks are made during the pass. Otherwise the chosen blocks are read again.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use kubist_types::{Cancel, Error, ErrorKind, Result};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::fetch::FetchedValues;
use crate::layout::{Block, Storage, Variable};
use crate::schedule::{self, Policy};
use crate::shape::{Rect, Tiling};
use crate::sidecar::{Index, Indexed, Writing};
use crate::sorted::{self, Sorted, SortedBlock};
use crate::source::{Reads, Source};
use crate::spread::{self, BlockSample, CopyPredictor};
use crate::summary::{Summaries, Summary};

/// The bytes that a task reads, which fit into a core's cache.
const TASK_BYTES: u64 = 1 << 20;
/// Tasks of Parquet files are larger, because the pages at their ends are decoded twice.
const TASK_BYTES_OF_PAGES: u64 = 16 << 20;
/// A build needs all ranges, so ranges up to this distance form one request.
const GAP: u64 = 1 << 20;
/// The number of random blocks of an older index that are read again before the others are trusted. If a fraction f of
/// all blocks changed, the probability that no checked block changed is (1 - f)^512: 1 in 170 for f = 1 %.
const CHECKED: usize = 512;
const MAX_REPORTED: usize = 100;
/// The number of tasks whose sorted copies are in memory together.
const WAVE: usize = 16;
/// One in this many tasks runs first, to predict the blocks with a sorted copy.
const FIRST: usize = 16;
/// The maximum bytes of sorted copies in memory before the choice is known.
const HELD: u64 = 256 << 20;

#[derive(Clone, Debug)]
pub struct BuildOptions {
    /// If `None`, as in an existing index, and otherwise all.
    pub variables: Option<Vec<String>>,
    /// If `None`, as in an existing index, and otherwise the default.
    pub block: Option<Block>,
    /// The fraction of blocks that get a sorted copy: those with the greatest gain. If `None`, as in an existing index,
    /// and otherwise 0.
    pub sorted: Option<f64>,
    pub workers: usize,
}

impl Default for BuildOptions {
    fn default() -> BuildOptions {
        BuildOptions { variables: None, block: None, sorted: None, workers: workers() }
    }
}

pub fn workers() -> usize {
    std::thread::available_parallelism().map_or(4, usize::from)
}

/// It is called with the completed and the total bytes.
pub type Progress<'a> = &'a (dyn Fn(u64, u64) + Sync);

/// Writes the index of a file to `path`. An older index provides the summaries of unchanged blocks.
///
/// # Errors
///
/// `Invalid` if a variable does not exist, or none is numeric; `Refused` if the file changes during the
/// build; `Permission`, `NoSpace`, a storage error; `Cancelled`.
pub fn build(
    source: &Source,
    path: &Path,
    options: &BuildOptions,
    older: Option<&Index>,
    progress: Progress<'_>,
    cancel: &Cancel,
) -> Result<Index> {
    let wanted = wanted(source, options)?;
    let mut writing = Writing::create(path)?;
    let total: u64 = wanted.iter().map(|at| stored_bytes(source, &source.layout.variables[*at])).sum();
    let building = IndexBuild {
        source,
        block: options.block.clone().unwrap_or_default(),
        sorted: options.sorted.unwrap_or(0.0),
        options,
        older,
        progress,
        cancel,
        total,
        done: AtomicU64::new(0),
        damaged: Mutex::default(),
    };
    let mut variables: Vec<Option<Indexed>> = vec![None; source.layout.variables.len()];
    for at in wanted {
        variables[at] = Some(building.variable(at, &mut writing)?);
    }
    source.unchanged()?;
    let mut index = Index {
        key: *source.key(),
        layout: source.layout.clone(),
        device: source.measure(options.workers)?,
        block: building.block,
        sorted: building.sorted,
        variables,
        damaged: building.damaged.into_inner().unwrap_or_else(PoisonError::into_inner),
        bytes: 0,
        path: path.to_path_buf(),
    };
    index.bytes = writing.finish(&index)?;
    Ok(index)
}

fn wanted(source: &Source, options: &BuildOptions) -> Result<Vec<usize>> {
    let variables = &source.layout.variables;
    let named = |name: &String| {
        variables.iter().position(|variable| variable.name == *name).ok_or_else(|| {
            let left_out = source.layout.left_out.iter().find(|left| left.split(':').next() == Some(name.as_str()));
            let known: Vec<&str> = variables.iter().map(|variable| variable.name.as_str()).collect();
            Error::invalid(match left_out {
                Some(why) => format!("{}: variable {why}", source.path().display()),
                None => format!(
                    "{}: there is no variable {name:?}; there are {}",
                    source.path().display(),
                    known.join(", ")
                ),
            })
        })
    };
    let wanted: Vec<usize> = match &options.variables {
        Some(names) => names.iter().map(named).collect::<Result<_>>()?,
        None => (0..variables.len()).collect(),
    };
    match wanted.is_empty() {
        true => Err(Error::invalid(format!("{}: it has no arrays of numbers", source.path().display()))),
        false => Ok(wanted),
    }
}

pub fn stored_bytes(source: &Source, variable: &Variable) -> u64 {
    variable.stored_bytes(Rect::whole(&source.layout.shape(variable)).len())
}

struct IndexBuild<'a> {
    source: &'a Source,
    block: Block,
    sorted: f64,
    options: &'a BuildOptions,
    older: Option<&'a Index>,
    progress: Progress<'a>,
    cancel: &'a Cancel,
    total: u64,
    done: AtomicU64,
    damaged: Mutex<Vec<String>>,
}

impl IndexBuild<'_> {
    fn variable(&self, at: usize, writing: &mut Writing) -> Result<Indexed> {
        let variable = &self.source.layout.variables[at];
        let tiling = self.source.layout.tiling(variable, &self.block)?;
        let mut summaries = Summaries::new(variable, &tiling);
        let blocks: Vec<u64> = summaries.blocks().collect();
        let known = self.known(variable, &tiling);
        let trusted = self.are_as_before(variable, &tiling, &blocks, &known)?;
        let known = |block: u64| known(block).filter(|_| trusted);
        let needed: Vec<u64> = blocks.iter().copied().filter(|block| known(*block).is_none()).collect();
        let tasks = tasks(variable, &tiling, &needed);
        let (found, copies) = self.looked(variable, &tiling, &tasks)?;
        for block in blocks {
            if let Some(summary) = known(block) {
                summaries.set(block, summary);
            }
        }
        for (block, summary, _) in &found {
            summaries.set(*block, *summary);
        }
        let sorted = (self.sorted > 0.0).then(|| self.sorted(variable, &tiling, &found, copies, writing));
        Ok(Indexed { tiling: tiling.clone(), summaries, sorted: sorted.transpose()? })
    }

    fn looked(&self, variable: &Variable, tiling: &Tiling, tasks: &[Vec<u64>]) -> Result<(Vec<BlockSample>, Copies)> {
        let run = |tasks: &[&Vec<u64>], sorted_copies: Option<&SortedCopies>| -> Result<Vec<BlockSample>> {
            let task = |index: usize| self.summaries(variable, tiling, tasks[index], sorted_copies);
            let (found, _) = schedule::run(tasks.len(), self.options.workers, Policy::default(), self.cancel, &task)?;
            Ok(found.into_iter().flatten().collect())
        };
        let is_decoded = match &variable.storage {
            Storage::Chunks { filters, .. } => !filters.is_empty(),
            Storage::Pages { .. } => true,
            _ => false,
        };
        if self.sorted == 0.0 || !is_decoded || tasks.len() < FIRST {
            return Ok((run(&tasks.iter().collect::<Vec<_>>(), None)?, Copies::new()));
        }
        let is_first = |at: usize| at.is_multiple_of(FIRST);
        let part = |first: bool| -> Vec<&Vec<u64>> {
            tasks.iter().enumerate().filter(|(at, _)| is_first(*at) == first).map(|(_, task)| task).collect()
        };
        let mut found = run(&part(true), None)?;
        let values = found.iter().map(|(block, ..)| tiling.rect(*block).len()).sum();
        let sorted_copies = SortedCopies {
            likely: CopyPredictor::of(&found, values, self.sorted),
            copies: Mutex::default(),
            bytes: AtomicU64::new(0),
        };
        found.extend(run(&part(false), Some(&sorted_copies))?);
        found.sort_by_key(|(block, ..)| *block);
        Ok((found, sorted_copies.copies.into_inner().unwrap_or_else(PoisonError::into_inner)))
    }

    /// The older summaries of blocks whose bytes did not move. If sorted copies are wanted, there are none, because the
    /// copies are chosen among all blocks.
    fn known<'a>(&'a self, variable: &'a Variable, tiling: &'a Tiling) -> impl Fn(u64) -> Option<Summary> + 'a {
        let before = self.older.filter(|_| self.sorted == 0.0).and_then(|older| {
            let at = older.layout.variables.iter().position(|old| old.name == variable.name)?;
            let (old, indexed) = (&older.layout.variables[at], older.variables[at].as_ref()?);
            let same = old.number == variable.number
                && old.big_endian == variable.big_endian
                && old.packing == variable.packing
                && indexed.tiling.block() == tiling.block();
            same.then_some((older, old, indexed))
        });
        move |block| {
            let (older, old, indexed) = before?;
            let rect = tiling.rect(block);
            if rect.is_empty() {
                return Some(Summary::nothing());
            }
            // The whole block existed before, at the same bytes.
            let whole = Rect::whole(&older.layout.shape(old));
            if whole.intersect(&rect)? != rect {
                return None;
            }
            let [old_block] = indexed.tiling.blocks_over(&rect)[..] else { return None };
            if indexed.tiling.rect(old_block) != rect || !same_bytes(old, variable, &indexed.tiling, tiling, &rect) {
                return None;
            }
            Some(indexed.summaries.get(old_block)).filter(|summary| !summary.is_unreadable())
        }
    }

    /// Compares a sample of the blocks to reuse with the file: the last block, after which the file grew, and random
    /// other blocks.
    fn are_as_before(
        &self,
        variable: &Variable,
        tiling: &Tiling,
        blocks: &[u64],
        known: &dyn Fn(u64) -> Option<Summary>,
    ) -> Result<bool> {
        let mut old: Vec<u64> =
            blocks.iter().copied().filter(|block| !tiling.rect(*block).is_empty() && known(*block).is_some()).collect();
        let last = old.last().copied();
        // The order depends on the file's bytes, so that no attacker can predict it.
        old.sort_by_cached_key(|block| xxh3_64_with_seed(&block.to_le_bytes(), self.source.key().hash));
        old.truncate(CHECKED);
        old.extend(last.filter(|last| !old.contains(last)));
        old.sort_unstable();
        for some in tasks(variable, tiling, &old) {
            let now = self.summaries(variable, tiling, &some, None)?;
            if now.iter().any(|(block, summary, _)| known(*block) != Some(*summary)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn summaries(
        &self,
        variable: &Variable,
        tiling: &Tiling,
        blocks: &[u64],
        sorted_copies: Option<&SortedCopies>,
    ) -> Result<Vec<BlockSample>> {
        let rects: Vec<Rect> = blocks.iter().map(|block| tiling.rect(*block)).collect();
        let look = |block: u64, found: &FetchedValues<'_>| {
            let sample = if self.sorted > 0.0 { spread::sampled(variable, found) } else { Vec::new() };
            let summary = Summary::of_found(variable, found);
            if let Some(sorted_copies) = sorted_copies {
                sorted_copies.look(variable, block, &summary, found);
            }
            (summary, sample)
        };
        let one = |blocks: &[u64], rects: &[Rect]| -> Result<Vec<(Summary, Vec<u64>)>> {
            let fetched = self.source.fetch(variable, rects, GAP, false, &Reads::default(), self.cancel)?;
            blocks.iter().zip(rects).map(|(block, rect)| Ok(look(*block, &fetched.found(rect)?))).collect()
        };
        let found = match one(blocks, &rects) {
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                let each =
                    blocks.iter().zip(&rects).map(|(block, rect)| match one(&[*block], std::slice::from_ref(rect)) {
                        Err(error) if error.kind() == ErrorKind::Corrupt => {
                            let mut damaged = self.damaged.lock().unwrap_or_else(PoisonError::into_inner);
                            let message = error.to_string();
                            if damaged.len() < MAX_REPORTED && !damaged.contains(&message) {
                                damaged.push(message);
                            }
                            Ok(vec![(Summary::unknown(), Vec::new())])
                        }
                        other => other,
                    });
                each.collect::<Result<Vec<_>>>()?.concat()
            }
            other => other?,
        };
        let bytes: u64 = rects.iter().map(Rect::len).sum::<u64>() * variable.number.bytes();
        let all: u64 = Rect::whole(tiling.shape()).len() * variable.number.bytes();
        let share = stored_bytes(self.source, variable) as f64 * bytes as f64 / all.max(1) as f64;
        let done = self.done.fetch_add(share as u64, Ordering::Relaxed) + share as u64;
        (self.progress)(done.min(self.total), self.total);
        Ok(blocks.iter().zip(found).map(|(block, (summary, keys))| (*block, summary, keys)).collect())
    }

    fn sorted(
        &self,
        variable: &Variable,
        tiling: &Tiling,
        found: &[BlockSample],
        mut copies: Copies,
        writing: &mut Writing,
    ) -> Result<Sorted> {
        if variable.needs_library().is_some() {
            return Ok(Sorted::default());
        }
        let values = Rect::whole(tiling.shape()).len();
        let chosen = spread::chosen(found, values, (found.len() as f64 * self.sorted.min(1.0)).floor() as usize);
        let mut sorted = Sorted::default();
        let mut put = |block: u64, (mut copy, bytes): SortedCopy| -> Result<()> {
            copy.offset = writing.put(&bytes)?;
            sorted.blocks.push((block, copy));
            Ok(())
        };
        let mut others = Vec::new();
        for block in chosen {
            match copies.remove(&block) {
                Some(copy) => put(block, copy)?,
                None => others.push(block),
            }
        }
        drop(copies);
        let tasks = tasks(variable, tiling, &others);
        for wave in tasks.chunks(WAVE) {
            let task = |index: usize| {
                let rects: Vec<Rect> = wave[index].iter().map(|block| tiling.rect(*block)).collect();
                let fetched = self.source.fetch(variable, &rects, 0, false, &Reads::default(), self.cancel)?;
                rects.iter().map(|rect| Ok(sorted::encode(variable, &fetched.found(rect)?))).collect::<Result<Vec<_>>>()
            };
            let (made, _) = schedule::run(wave.len(), self.options.workers, Policy::default(), self.cancel, &task)?;
            for (block, made) in wave.iter().flatten().zip(made.into_iter().flatten()) {
                made.map_or(Ok(()), |copy| put(*block, copy))?;
            }
        }
        sorted.blocks.sort_by_key(|(block, _)| *block);
        Ok(sorted)
    }
}

type SortedCopy = (SortedBlock, Vec<u8>);
type Copies = HashMap<u64, SortedCopy>;

struct SortedCopies {
    likely: CopyPredictor,
    copies: Mutex<Copies>,
    bytes: AtomicU64,
}

impl SortedCopies {
    fn look(&self, variable: &Variable, block: u64, summary: &Summary, found: &FetchedValues<'_>) {
        if self.bytes.load(Ordering::Relaxed) >= HELD || !self.likely.has(summary) {
            return;
        }
        let Some(copy) = sorted::encode(variable, found) else { return };
        self.bytes.fetch_add(copy.1.len() as u64, Ordering::Relaxed);
        self.copies.lock().unwrap_or_else(PoisonError::into_inner).insert(block, copy);
    }
}

fn same_bytes(old: &Variable, new: &Variable, old_tiling: &Tiling, tiling: &Tiling, rect: &Rect) -> bool {
    match (&old.storage, &new.storage) {
        (Storage::Contiguous { offset: a }, Storage::Contiguous { offset: b }) => {
            a == b && old_tiling.shape()[1..] == tiling.shape()[1..]
        }
        (Storage::Records { .. }, Storage::Records { .. }) => {
            old.storage == new.storage && old_tiling.shape()[1..] == tiling.shape()[1..]
        }
        (
            Storage::Chunks { shape, filters, fill, table },
            Storage::Chunks { shape: other, filters: others, fill: other_fill, table: new },
        ) => {
            let place = |tiling: &Tiling, table: &[crate::layout::Chunk]| {
                let [chunk] = tiling.chunks_over(rect)[..] else { return None };
                let at = table.binary_search_by_key(&chunk, |chunk| chunk.number).ok();
                Some(at.map(|at| (table[at].offset, table[at].bytes, table[at].skipped)))
            };
            let (before, now) = (place(old_tiling, table), place(tiling, new));
            shape == other && filters == others && fill == other_fill && before.is_some() && before == now
        }
        _ => false,
    }
}

/// Groups blocks into tasks: the blocks of a chunk that must be decoded, and otherwise neighbours.
fn tasks(variable: &Variable, tiling: &Tiling, blocks: &[u64]) -> Vec<Vec<u64>> {
    let width = variable.number.bytes();
    let most = if matches!(variable.storage, Storage::Pages { .. }) { TASK_BYTES_OF_PAGES } else { TASK_BYTES };
    let mut tasks: Vec<Vec<u64>> = Vec::new();
    let (mut bytes, mut chunk, mut end) = (0u64, u64::MAX, u64::MAX);
    for block in blocks.iter().copied() {
        let rect = tiling.rect(block);
        if rect.is_empty() {
            continue;
        }
        let whole = rect.len() * width;
        // The memory that the block adds, and whether it must join the last task or start a new one.
        let (own, joins_last) = match &variable.storage {
            Storage::Chunks { shape, filters, .. } if !filters.is_empty() => match tiling.chunk_of(block) == chunk {
                true => (0, Some(true)),
                false => (shape.iter().product::<u64>() * width, None),
            },
            Storage::Pages { table, .. } => {
                let begin = rect.start[0];
                let page =
                    &table[table.partition_point(|page| page.first_row + page.rows <= begin).min(table.len() - 1)];
                // A task that starts here does not decode the page twice.
                let is_full = bytes >= TASK_BYTES && page.first_row == begin;
                let apart = if begin == end { 0 } else { page.rows * width };
                end = begin + rect.count[0];
                (whole + apart, is_full.then_some(false))
            }
            _ => (whole, None),
        };
        match tasks.last_mut() {
            Some(task) if joins_last.unwrap_or(bytes.saturating_add(own) <= most) => {
                task.push(block);
                bytes += own;
            }
            _ => {
                tasks.push(vec![block]);
                bytes = own;
            }
        }
        chunk = tiling.chunk_of(block);
    }
    tasks
}
