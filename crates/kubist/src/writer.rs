//! A writer: rows in, durable commits out.
//!
//! Rows gather in memory; past a bound they move, distributed over parts of
//! space, to scratch files. A commit sorts part by part, cuts the rows into runs
//! by the cutoffs, writes the runs to the writer's segment, makes them durable,
//! and then appends one entry to the writer's log. Until that entry is durable
//! nothing of the commit is visible; from then on all of it is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::RecordBatch;
use arrow_data::transform::MutableArrayData;
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use kubist_index::cube::CubeId;
use kubist_index::grid::Scale;
use kubist_index::layout::{Capacity, Known, Placed, Placement, cutoff_for, place};
use kubist_index::priority::Threshold;
use kubist_index::state::{Commit, Run, RunId};
use kubist_store::{LogOwner, Segment};
use rayon::prelude::*;

use crate::build::{EncodedRun, SortedRows};
use crate::entry::{CommitEntry, Location};
use crate::error::{Error, Result, store_error};
use crate::frame::{self, Frame};
use crate::options::{Cancel, WriterOptions};
use crate::spill::{Part, Spill};
use crate::table::{Core, View};

const DEFAULT_MEMORY: usize = 256 << 20;
/// What sorting takes beside the values themselves, bytes a row.
const SORT_BYTES: usize = 48;
/// A larger batch is taken in slices of this size.
const SLICE_ROWS: usize = 1 << 18;
/// Rows of runs that are encoded side by side before they are written.
const GROUP_ROWS: usize = 1 << 19;
/// A segment larger than this is followed by a new one.
const SEGMENT_BYTES: u64 = 1 << 30;

/// Appends to a table under a name of its own. Dropping it discards what was
/// not committed and gives the name back.
pub struct Writer {
    core: Arc<Core>,
    log: Box<dyn LogOwner>,
    segment: Option<Box<dyn Segment>>,
    next_segment: u64,
    /// Commits and rows before the pending ones.
    sequence: u64,
    rows: u64,
    memory: usize,
    cancel: Cancel,
    pending: Pending,
}

/// Rows since the last commit.
#[derive(Default)]
struct Pending {
    batches: Vec<RecordBatch>,
    bytes: usize,
    rows: u64,
    spill: Option<Spill>,
}

/// What a commit did.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Committed {
    pub writer: String,
    /// Which commit of this writer it is, from 1; 0 if there was nothing to commit.
    pub sequence: u64,
    pub rows: u64,
    pub bytes_written: u64,
    pub seconds: f64,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Writer({:?} of {:?})", self.name(), self.core.store.location())
    }
}

/// Cutoffs and fill of the table as this writer knows it.
struct Seen<'a>(&'a View);

impl Known for Seen<'_> {
    fn cutoff(&self, cube: CubeId) -> Threshold {
        self.0.directory.cutoff(cube)
    }

    fn rows_below(&self, cube: CubeId, fraction: f64) -> f64 {
        let at = fraction * 18_446_744_073_709_551_616.0;
        let runs = self.0.directory.runs_of(cube).iter();
        runs.map(|run| {
            let (first, last) = (run.priorities.0 as f64, run.priorities.1 as f64);
            run.rows as f64 * ((at - first) / (last - first).max(1.0)).clamp(0.0, 1.0)
        })
        .sum()
    }
}

/// Bytes of a batch in memory, as far as it uses its buffers.
fn batch_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|array| array.to_data().get_slice_memory_size().unwrap_or(0)).sum()
}

/// A copy that shares no memory: callers may reuse their buffers after `append`.
fn own(batch: &RecordBatch) -> Result<RecordBatch> {
    let columns = batch.columns().iter().map(|array| {
        let data = array.to_data();
        let mut copy = MutableArrayData::new(vec![&data], false, data.len());
        copy.try_extend(0, 0, data.len())?;
        Ok(arrow_array::make_array(copy.freeze()))
    });
    Ok(RecordBatch::try_new(batch.schema(), columns.collect::<Result<_>>()?)?)
}

impl Writer {
    pub(crate) fn open(core: Arc<Core>, options: &WriterOptions) -> Result<Writer> {
        core.check_process()?;
        let log = match &options.name {
            Some(name) => core.store.own_log(name).map_err(store_error)?,
            None => first_free_log(&core)?,
        };
        let view = core.view()?;
        let own = view.writers.get(log.writer()).copied().unwrap_or_default();
        let prefix = format!("{}-", log.writer());
        let taken = core.store.segments().map_err(store_error)?;
        let numbers = taken.iter().filter_map(|name| name.strip_prefix(&prefix)?.parse::<u64>().ok());
        Ok(Writer {
            next_segment: numbers.max().unwrap_or(0) + 1,
            memory: options.memory_bytes.unwrap_or(DEFAULT_MEMORY),
            cancel: options.cancel.clone(),
            segment: None,
            sequence: own.commits,
            rows: own.rows,
            pending: Pending::default(),
            log,
            core,
        })
    }

    /// The name under which it writes.
    pub fn name(&self) -> &str {
        self.log.writer()
    }

    /// Rows appended since the last commit.
    pub fn pending_rows(&self) -> u64 {
        self.pending.rows
    }

    /// Checks a batch against the table's columns and keeps a copy for the next
    /// commit. After an error, and after cancelling, the rows of this batch may
    /// be pending in part: `discard` or drop the writer.
    pub fn append(&mut self, batch: &RecordBatch) -> Result<()> {
        self.core.check_process()?;
        for first in (0..batch.num_rows()).step_by(SLICE_ROWS) {
            self.cancel.check()?;
            let slice = batch.slice(first, SLICE_ROWS.min(batch.num_rows() - first));
            let stored = self.core.schema.to_stored(&slice, self.log.writer(), self.rows + self.pending.rows)?;
            let stored = own(&stored)?;
            self.pending.rows += stored.num_rows() as u64;
            self.pending.bytes += batch_bytes(&stored) + stored.num_rows() * SORT_BYTES;
            self.pending.batches.push(stored);
            if self.pending.bytes > self.memory {
                self.spill()?;
            }
        }
        if batch.num_rows() == 0 {
            self.core.schema.to_stored(batch, self.log.writer(), 0)?;
        }
        Ok(())
    }

    /// Forgets what was appended since the last commit.
    pub fn discard(&mut self) {
        self.pending = Pending::default();
    }

    /// Makes everything appended since the last commit durable and visible,
    /// whole. After an error the rows are no longer pending and not in the table
    /// (after a failed write to the log, the table knows once it is reopened).
    pub fn commit(&mut self) -> Result<Committed> {
        self.core.check_process()?;
        let begin = Instant::now();
        let pending = std::mem::take(&mut self.pending);
        if pending.rows == 0 {
            return Ok(Committed { writer: self.name().into(), sequence: 0, rows: 0, bytes_written: 0, seconds: 0.0 });
        }
        let (rows, sequence) = (pending.rows, self.sequence + 1);
        let (entry, mut bytes_written) = self.write(pending, sequence).inspect_err(|_| self.segment = None)?;
        let bytes = entry.encode(&self.core.geometry);
        bytes_written += bytes.len() as u64;
        self.log.append(&bytes).map_err(store_error)?;
        self.sequence = sequence;
        self.rows += rows;
        if self.segment.as_ref().is_some_and(|segment| segment.len() > SEGMENT_BYTES) {
            self.segment = None;
        }
        let seconds = begin.elapsed().as_secs_f64();
        Ok(Committed { writer: self.name().into(), sequence, rows, bytes_written, seconds })
    }

    /// The frame, learned from the pending rows if no writer has published one.
    fn frame(&self, batches: &[RecordBatch]) -> Result<Arc<Frame>> {
        if let Some(frame) = self.core.frame()? {
            return Ok(frame);
        }
        let learn = |(dimension, column): (&crate::entry::HeaderDimension, &usize)| match dimension.domain {
            Some((low, high)) => Scale::linear(low, high).map_err(Error::invalid),
            None => {
                let values = batches.iter().flat_map(|batch| frame::numbers(batch.column(*column).as_ref()));
                Ok(if dimension.scale == "quantile" {
                    Scale::learn_quantile(values)
                } else {
                    Scale::learn_linear(values)
                })
            }
        };
        let dimensions = self.core.header.dimensions.iter().zip(&self.core.schema.dimensions);
        let scales: Vec<Scale> = dimensions.map(learn).collect::<Result<_>>()?;
        self.core.publish_grid(&scales)
    }

    fn spill(&mut self) -> Result<()> {
        let frame = self.frame(&self.pending.batches)?;
        let batches = std::mem::take(&mut self.pending.batches);
        self.pending.bytes = 0;
        if self.pending.spill.is_none() {
            let scratch = self.core.store.scratch().map_err(store_error)?;
            self.pending.spill = Some(Spill::new(scratch, &frame, &batches));
        }
        let spill = self.pending.spill.as_ref().expect("made above");
        spill.add(&frame, batches, &self.cancel)
    }

    /// Writes the pending rows as runs and makes them durable.
    fn write(&mut self, mut pending: Pending, sequence: u64) -> Result<(CommitEntry, u64)> {
        let view = self.core.view()?;
        let frame = self.frame(&pending.batches)?;
        let geometry = self.core.geometry;
        let seen = Seen(&view);
        let capacity = Capacity::new(self.core.header.capacity);
        let mut output = Output { writer: self, commit: Commit { runs: vec![], cutoffs: vec![] }, sequence, bytes: 0 };
        let batches = std::mem::take(&mut pending.batches);
        let mut upper: BTreeMap<CubeId, (Threshold, Vec<RecordBatch>)> = BTreeMap::new();
        let parts: Vec<Part> = match pending.spill.take() {
            None => vec![Part::in_memory(batches)],
            Some(spill) => {
                let cancel = output.writer.cancel.clone();
                spill.add(&frame, batches, &cancel)?;
                let bound = output.writer.memory;
                spill.into_parts(&frame, SORT_BYTES, bound, &cancel)?
            }
        };
        // Cutoffs of the cubes above the parts, from the counts alone.
        let mut above: BTreeMap<CubeId, Threshold> = BTreeMap::new();
        for part in &parts {
            for cube in geometry.ancestors(part.cube) {
                if !above.contains_key(&cube) {
                    let floor = geometry.parent(cube).map_or(Threshold::NONE, |parent| above[&parent]);
                    let inside = parts.iter().filter(|other| geometry.contains(cube, other.cube));
                    let arriving = inside.map(|part| part.rows).sum::<u64>() as f64 * (1.0 - floor.to_fraction());
                    above.insert(cube, cutoff_for(&geometry, &capacity, &seen, cube, arriving, floor));
                }
            }
        }
        output.commit.cutoffs.extend(above.iter().map(|(cube, cutoff)| (*cube, *cutoff)));
        for part in parts {
            let (cube, ancestors) = (part.cube, geometry.ancestors(part.cube).collect::<Vec<_>>());
            for batches in part.load(output.writer.memory) {
                let batches = batches?;
                output.writer.cancel.check()?;
                let sorted = SortedRows::new(&frame, concat_batches(&self_schema(output.writer), &batches)?);
                drop(batches);
                let mut own: Vec<u32> = (0..sorted.order.len() as u32).collect();
                // The first ancestor whose cutoff admits a row keeps it.
                for ancestor in &ancestors {
                    let cutoff = above[ancestor];
                    let (kept, rest): (Vec<u32>, Vec<u32>) =
                        own.into_iter().partition(|row| cutoff.admits(sorted.priorities[*row as usize]));
                    own = rest;
                    if !kept.is_empty() {
                        let rows = kept.iter().map(|row| sorted.order[*row as usize]).collect::<Vec<_>>();
                        let rows = take_record_batch(sorted.batch(), &arrow_array::UInt32Array::from(rows))?;
                        upper.entry(*ancestor).or_insert_with(|| (cutoff, vec![])).1.push(rows);
                    }
                }
                let floor = ancestors.last().map_or(Threshold::NONE, |parent| above[parent]);
                let mut placed = Placed::default();
                let key = |row: u32| sorted.keys[row as usize];
                place(&geometry, &capacity, &seen, cube, floor, &key, &sorted.priorities, own, &mut placed);
                output.commit.cutoffs.append(&mut placed.cutoffs);
                output.write(&sorted, &placed.placements)?;
            }
        }
        for (cube, (cutoff, batches)) in upper {
            let sorted = SortedRows::new(&frame, concat_batches(&self_schema(output.writer), &batches)?);
            let within = (0..sorted.order.len() as u32).collect();
            output.write(&sorted, &[Placement { cube, within, overflow: vec![], cutoff }])?;
        }
        let Output { mut commit, bytes, .. } = output;
        // The same cube may have been passed through by several loads of one part.
        commit.cutoffs.sort_unstable();
        commit.cutoffs.dedup_by_key(|(cube, _)| *cube);
        self.cancel.check()?;
        self.segment()?.sync().map_err(store_error)?;
        Ok((CommitEntry { sequence, rows: pending.rows, commit }, bytes))
    }

    fn segment(&mut self) -> Result<&mut Box<dyn Segment>> {
        if self.segment.is_none() {
            let name = format!("{}-{:06}", self.log.writer(), self.next_segment);
            self.next_segment += 1;
            self.segment = Some(self.core.store.create_segment(&name).map_err(store_error)?);
        }
        Ok(self.segment.as_mut().expect("made above"))
    }
}

fn self_schema(writer: &Writer) -> arrow_schema::SchemaRef {
    writer.core.schema.stored.clone()
}

/// The first of `writer-1`, `writer-2`, … that nobody owns.
fn first_free_log(core: &Core) -> Result<Box<dyn LogOwner>> {
    for number in 1..=10_000 {
        match core.store.own_log(&format!("writer-{number}")) {
            Err(kubist_store::Error::Busy { .. }) => {}
            other => return other.map_err(store_error),
        }
    }
    Err(Error::Busy(format!("{}: ten thousand writers are at work", core.store.location())))
}

/// Runs on their way to the segment.
struct Output<'a> {
    writer: &'a mut Writer,
    commit: Commit<Location>,
    sequence: u64,
    bytes: u64,
}

impl Output<'_> {
    /// Encodes placements in parallel, group by group, and appends each group:
    /// first the data of its runs, then their zone maps side by side, so that a
    /// reader gets the maps of neighbouring cubes in one piece.
    fn write(&mut self, rows: &SortedRows, placements: &[Placement]) -> Result<()> {
        let mut rest = placements;
        while !rest.is_empty() {
            self.writer.cancel.check()?;
            let mut total = 0;
            let count = rest.iter().take_while(|placement| {
                total += placement.within.len() + placement.overflow.len();
                total <= GROUP_ROWS
            });
            let (group, later) = rest.split_at(count.count().max(1));
            rest = later;
            let runs: Vec<EncodedRun> = group.par_iter().map(|placement| rows.encode(placement)).collect();
            self.append(runs)?;
        }
        Ok(())
    }

    fn append(&mut self, runs: Vec<EncodedRun>) -> Result<()> {
        let origin = Core::origin(self.writer.log.writer());
        let segment = self.writer.segment()?;
        let name: Arc<str> = segment.name().into();
        let data = runs.iter().flat_map(|run| &run.data);
        let parts: Vec<&[u8]> = data.chain(runs.iter().map(|run| &run.map)).map(Vec::as_slice).collect();
        let mut data_offset = segment.append(&parts).map_err(store_error)?;
        let mut map_offset = data_offset + runs.iter().map(|run| run.data_length).sum::<u64>();
        for run in runs {
            let payload = Location {
                segment: name.clone(),
                data_offset,
                data_length: run.data_length,
                map_offset,
                map_length: run.map.len() as u32,
                low: run.low,
                high: run.high,
            };
            data_offset += run.data_length;
            map_offset += run.map.len() as u64;
            self.bytes += run.data_length + run.map.len() as u64;
            let id = RunId::new(origin, self.sequence, self.commit.runs.len() as u32);
            let EncodedRun { cube, rows, priorities, .. } = run;
            self.commit.runs.push(Run { id, cube, rows, priorities, copies: vec![], payload });
        }
        Ok(())
    }
}
