//! A writer: rows in, durable commits out.
//!
//! Rows gather in memory; past a bound they move, distributed over parts of
//! space, to scratch files. A commit sorts part by part, cuts the rows into runs
//! by the cutoffs, writes the runs to the writer's segment, makes them durable,
//! and then appends one entry to the writer's log. Until that entry is durable
//! nothing of the commit is visible; from then on all of it is.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow_data::transform::MutableArrayData;
use arrow_schema::DataType;
use arrow_select::take::take;
use kubist_index::cube::CubeId;
use kubist_index::fit::{has_left, outgrown};
use kubist_index::grid::Scale;
use kubist_index::layout::{Capacity, Placement, cutoff_for};
use kubist_index::plain;
use kubist_index::priority::Threshold;
use kubist_index::state::Commit;
use kubist_store::{LogOwner, Segment};
use rayon::prelude::*;

use crate::build::{EncodedRun, SortedRows};
use crate::output::{DEFAULT_MEMORY, Output, identify};
use crate::seen::Seen;
use crate::spill::{Part, Spill, batch_bytes};
use kubist_catalog::alter::{next_grid, rescaled};
use kubist_catalog::core::Core;
use kubist_catalog::error::store_error;
use kubist_catalog::frame::{self, Frame};
use kubist_catalog::schema::{NO_STEP, TableSchema};
use kubist_catalog::segment::unix_ms;
use kubist_catalog::view::View;
use kubist_catalog::vouched;
use kubist_catalog::write_checkpoint;
use kubist_format::entry::{CommitEntry, StepMark};
use kubist_format::location::Location;
use kubist_types::cancel::Cancel;
use kubist_types::error::{Error, Result};
use kubist_types::options::{CommitOptions, WriterOptions};
use kubist_types::thinned::Thinned;

/// What sorting takes beside the values themselves, bytes a row.
const SORT_BYTES: usize = 48;
/// More rows than this are distributed over parts of space before they are sorted.
const ONE_PART_ROWS: u64 = 1 << 19;
/// Of the memory, what the parts that are at work may take, one to this many.
const PART_SHARE: usize = 8;
/// A larger batch is taken in slices of this size.
const SLICE_ROWS: usize = 1 << 18;
/// So much may the values of dictionaries and views in a slice take, written out.
const SLICE_BYTES: usize = 64 << 20;
/// A segment larger than this is followed by a new one.
const SEGMENT_BYTES: u64 = 1 << 30;

/// A commit of so many rows may have a grid made for it, and that is judged by some of them.
const BULK_ROWS: u64 = 1 << 14;
const COMPARED_ROWS: u64 = 1 << 15;
/// Rows that tell whether that is worth it.
const LOOKED_AT_ROWS: u64 = 1 << 11;

/// How long somebody else may hold a log without being its writer.
const MOMENT: Duration = Duration::from_millis(100);

/// What works behind a writer's commits, and may make them wait.
pub trait Behind: Send + Sync {
    /// Waits while there is too much left to do.
    ///
    /// # Errors
    ///
    /// `Cancelled`.
    fn admit(&self, cancel: &Cancel) -> Result<()>;

    /// Learns that so many rows were committed.
    fn committed(&self, rows: u64);
}

/// Appends to a table under a name of its own. Dropping it discards what was
/// not committed and gives the name back.
pub struct Writer {
    core: Arc<Core>,
    /// The columns as last looked at: a batch that names others looks again.
    schema: Arc<TableSchema>,
    log: Box<dyn LogOwner>,
    segment: Option<Box<dyn Segment>>,
    next_segment: u64,
    /// Commits and rows before the pending ones.
    sequence: u64,
    rows: u64,
    memory: usize,
    cancel: Cancel,
    pending: Pending,
    /// Why a commit failed, if the disk was at fault.
    failed: Option<String>,
    /// The table's header and grid are known to be durable.
    settled: Cell<bool>,
    behind: Option<Box<dyn Behind>>,
}

/// Rows since the last commit.
#[derive(Default)]
struct Pending {
    batches: Vec<RecordBatch>,
    bytes: usize,
    rows: u64,
    spill: Option<Spill>,
    /// A spill failed: rows are missing.
    torn: bool,
}

impl Pending {
    fn check(&self) -> Result<()> {
        match self.torn {
            false => Ok(()),
            true => Err(Error::Refused(
                "rows of an earlier append were lost when it failed: discard, and append again".into(),
            )),
        }
    }
}

/// What became of the rows of a part.
#[derive(Default)]
struct Made {
    /// Rows for the cubes above it.
    upper: Vec<(CubeId, RecordBatch)>,
    cutoffs: Vec<(CubeId, Threshold)>,
    runs: Vec<EncodedRun>,
    outside: u64,
}

/// The runs of a commit, before it is said in the log.
#[derive(Default)]
struct Prepared {
    commit: Commit<Location>,
    bytes: u64,
    /// Rows outside of the grid's domain.
    outside: u64,
}

/// What a commit did.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Committed {
    pub writer: String,
    /// Which commit of this writer it is, from 1; 0 if there was nothing to commit.
    pub sequence: u64,
    pub rows: u64,
    /// Rows that lie outside of the domain of the grid in some dimension. They are kept and
    /// found all the same; the optimizer makes a grid that fits when there are many.
    pub rows_outside: u64,
    pub bytes_written: u64,
    pub seconds: f64,
    /// Its token was known: it had been committed before and was not again.
    pub repeated: bool,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Writer({:?} of {:?})", self.name(), self.core.store.location())
    }
}

/// A copy that shares no memory: callers may reuse their buffers after `append`.
fn own(batch: &RecordBatch) -> Result<RecordBatch> {
    let columns = batch.columns().iter().map(|array| {
        let data = array.to_data();
        let mut copy = MutableArrayData::new(vec![&data], false, data.len());
        copy.try_extend(0, 0, data.len()).map_err(Error::invalid)?;
        Ok(arrow_array::make_array(copy.freeze()))
    });
    RecordBatch::try_new(batch.schema(), columns.collect::<Result<_>>()?).map_err(Error::invalid)
}

/// The rows of a batch in slices that fit into memory once they are written out, whatever
/// dictionaries and views they share values in.
fn slices(batch: &RecordBatch) -> Vec<Range<usize>> {
    let expand = |column: &&ArrayRef| {
        matches!(column.data_type(), DataType::Dictionary(_, _) | DataType::Utf8View | DataType::BinaryView)
    };
    let expanding: Vec<&ArrayRef> = batch.columns().iter().filter(expand).collect();
    let bytes = |rows: &Range<usize>| {
        let of_column = |column: &&ArrayRef| plain::bytes(&column.slice(rows.start, rows.len()));
        expanding.iter().map(of_column).fold(0, usize::saturating_add)
    };
    let mut slices = Vec::new();
    for first in (0..batch.num_rows()).step_by(SLICE_ROWS) {
        // The first slice that is to be judged is the last here.
        let mut open = vec![first..batch.num_rows().min(first + SLICE_ROWS)];
        while let Some(rows) = open.pop() {
            if rows.len() == 1 || bytes(&rows) <= SLICE_BYTES {
                slices.push(rows);
            } else {
                let middle = rows.start + rows.len() / 2;
                open.extend([middle..rows.end, rows.start..middle]);
            }
        }
    }
    slices
}

/// Rows that were pending when a column was added have it not, and perhaps a grid needs it.
fn widened(schema: &TableSchema, batches: Vec<RecordBatch>) -> Result<Vec<RecordBatch>> {
    batches.iter().map(|batch| schema.widened(batch)).collect()
}

impl Writer {
    /// Takes a writer's log; each name has one owner at a time.
    ///
    /// # Errors
    ///
    /// `Busy` if the name has an owner; `Damaged` if its log is; `Invalid` if it cannot be a name;
    /// as of [`Core::view`]; a storage error.
    pub fn open(core: Arc<Core>, options: &WriterOptions, behind: Option<Box<dyn Behind>>) -> Result<Writer> {
        core.check_process()?;
        // Before a log is made: where one is lost, none may begin anew.
        core.view(&options.cancel)?;
        let log = match &options.name {
            Some(name) => own_log(&core, name)?,
            None => first_free_log(&core)?,
        };
        // Whoever drops the table says so before looking whether a writer is at work.
        core.check_still_there()?;
        // A log is there now that nobody knew of: what makes it a writer's is not interrupted.
        let view = core.view(&Cancel::default())?;
        vouched::check_owned(&core, &view, log.as_ref())?;
        let own = view.history.writers.get(log.writer()).cloned().unwrap_or_default();
        let prefix = format!("{}-", log.writer());
        let taken = core.store.segments().map_err(store_error)?;
        let numbers = taken.iter().filter_map(|name| name.strip_prefix(&prefix)?.parse::<u64>().ok());
        Ok(Writer {
            // Names are never used again, also after a cleaning: readers hold files open.
            next_segment: (numbers.max().unwrap_or(0) + 1).max(unix_ms()),
            memory: options.memory_bytes.unwrap_or(DEFAULT_MEMORY),
            cancel: options.cancel.clone(),
            schema: view.schema.clone(),
            segment: None,
            sequence: own.commits,
            rows: own.rows,
            pending: Pending::default(),
            failed: None,
            settled: Cell::new(false),
            behind,
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
    ///
    /// # Errors
    ///
    /// `Invalid` names the column, the row or the value that does not fit; `Cancelled`; `Refused`
    /// after an earlier failure; `NoSpace` and other storage errors of the scratch space.
    pub fn append(&mut self, batch: &RecordBatch) -> Result<()> {
        self.core.check_process()?;
        self.check_standing()?;
        self.pending.check()?;
        if batch.schema().fields().iter().any(|field| self.schema.user.index_of(field.name()).is_err()) {
            self.schema = self.core.view(&self.cancel)?.schema.clone();
        }
        let name = format!("{}{}", self.core.header.writer_tag, self.log.writer());
        let before = self.rows + self.pending.rows;
        for some in slices(batch).chunks(rayon::current_num_threads()) {
            self.cancel.check()?;
            let schema = &self.schema;
            let stored = some.par_iter().map(|rows| {
                let slice = batch.slice(rows.start, rows.len());
                own(&schema.to_stored(&slice, &name, before + rows.start as u64)?)
            });
            for stored in stored.collect::<Result<Vec<_>>>()? {
                self.keep(stored)?;
            }
        }
        if batch.num_rows() == 0 {
            self.schema.to_stored(batch, &name, 0)?;
        }
        Ok(())
    }

    /// Keeps rows in stored form, hidden columns too, that nobody else holds.
    ///
    /// # Errors
    ///
    /// `Cancelled`; `Refused` after an earlier failure; a storage error of the scratch space.
    pub fn keep(&mut self, stored: RecordBatch) -> Result<()> {
        self.pending.rows += stored.num_rows() as u64;
        self.pending.bytes += batch_bytes(&stored);
        self.pending.batches.push(stored);
        if self.pending.bytes > self.memory {
            self.pending.torn = true;
            self.spill()?;
            self.pending.torn = false;
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
    ///
    /// # Errors
    ///
    /// `Cancelled`; `Refused` after an earlier failure; `NotATable` if the table was dropped; as of
    /// [`Core::view`]; a storage error.
    pub fn commit(&mut self) -> Result<Committed> {
        self.commit_as(&CommitOptions::default())
    }

    /// The same, as a step of a simulation, or under a token that makes a retry
    /// of a commit whose answer was lost the same commit.
    ///
    /// # Errors
    ///
    /// `Invalid` if the step does not go up; as of [`Writer::commit`].
    pub fn commit_as(&mut self, options: &CommitOptions) -> Result<Committed> {
        self.commit_with(options, None)
    }

    /// The same for a step of which only a sample was appended: what is known of all its
    /// records stays with it. The column `kept_below` of the rows must say the same
    /// (see [`Core::keep_below`]).
    ///
    /// # Errors
    ///
    /// `Invalid` without a step; as of [`Writer::commit_as`].
    pub fn commit_thinned(&mut self, options: &CommitOptions, thinned: Thinned) -> Result<Committed> {
        let Some(step) = options.step else {
            return Err(Error::invalid("only the records of a step can be thinned: give one"));
        };
        self.commit_with(options, Some((step, thinned)))
    }

    fn commit_with(&mut self, options: &CommitOptions, thinned: Option<(i64, Thinned)>) -> Result<Committed> {
        self.check_standing()?;
        let committed = self.try_commit(options, thinned);
        if let Err(error) = &committed {
            self.discard();
            self.note(error);
        }
        committed
    }

    /// How many rows this writer committed under a token; `None` if it has not used it.
    ///
    /// # Errors
    ///
    /// As of [`Core::view`].
    pub fn committed(&self, token: &str) -> Result<Option<u64>> {
        let view = self.core.view(&self.cancel)?;
        Ok(view.history.token(self.name(), token).map(|(_, rows)| rows))
    }

    /// After a failed write or sync nobody knows what is on disk.
    fn check_standing(&self) -> Result<()> {
        let refused = |cause: &String| {
            let name = self.name();
            let location = self.core.store.location();
            Error::Refused(format!(
                "writer {name:?} of {location} stopped after a commit that failed ({cause}): open a new writer to go on"
            ))
        };
        self.failed.as_ref().map_or(Ok(()), |cause| Err(refused(cause)))
    }

    fn note(&mut self, error: &Error) {
        use Error::{NoSpace, Permission, Refused, Unavailable, Unsupported};
        if matches!(error, Unavailable(_) | NoSpace(_) | Permission(_) | Unsupported(_) | Refused(_)) {
            self.failed.get_or_insert_with(|| error.to_string());
        }
    }

    fn try_commit(&mut self, options: &CommitOptions, thinned: Option<(i64, Thinned)>) -> Result<Committed> {
        self.core.check_process()?;
        self.pending.check()?;
        let begin = Instant::now();
        if let Some(token) = &options.token {
            if let Some((sequence, rows)) = self.core.view(&self.cancel)?.history.token(self.name(), token) {
                self.discard();
                let writer = self.name().into();
                return Ok(Committed { writer, sequence, rows, repeated: true, ..Committed::default() });
            }
        }
        if let Some(step) = options.step {
            self.check_step(step)?;
        }
        if let Some(behind) = &self.behind {
            behind.admit(&self.cancel)?;
        }
        let pending = std::mem::take(&mut self.pending);
        // A step may be empty for a writer, but it has to be said.
        if pending.rows == 0 && options.step.is_none() && options.token.is_none() {
            let writer = self.name().into();
            return Ok(Committed { writer, ..Committed::default() });
        }
        let rows = pending.rows;
        let Prepared { commit, bytes, outside } = match rows {
            0 => Prepared::default(),
            _ => self.write(pending, options.step).inspect_err(|_| self.segment = None)?,
        };
        let step = options.step.map(|step| StepMark { step, abandoned: false });
        let token = options.token.clone();
        let thinned = thinned.into_iter().collect();
        let entry = CommitEntry { sequence: 0, rows, token, step, steps: vec![], thinned, commit };
        Ok(Committed { rows_outside: outside, ..self.log_entry(entry, bytes, begin)? })
    }

    /// Commits rows that brought their steps along, so many of each, and what is known of those that
    /// were thinned.
    ///
    /// # Errors
    ///
    /// As of [`Writer::commit`].
    pub fn commit_copied(&mut self, steps: Vec<(i64, u64)>, thinned: Vec<(i64, Thinned)>) -> Result<Committed> {
        let (begin, pending) = (Instant::now(), std::mem::take(&mut self.pending));
        let rows = pending.rows;
        let Prepared { commit, bytes, outside } = match rows {
            0 => Prepared::default(),
            _ => self.write(pending, None)?,
        };
        let entry = CommitEntry { sequence: 0, rows, token: None, step: None, steps, thinned, commit };
        Ok(Committed { rows_outside: outside, ..self.log_entry(entry, bytes, begin)? })
    }

    /// Says that this writer has nothing for a step and never will.
    ///
    /// # Errors
    ///
    /// `Invalid` if the step does not go up; as of [`Writer::commit`].
    pub fn abandon(&mut self, step: i64) -> Result<Committed> {
        self.core.check_process()?;
        self.check_standing()?;
        self.check_step(step)?;
        let commit = Commit { runs: vec![], cutoffs: vec![] };
        let step = Some(StepMark { step, abandoned: true });
        let entry = CommitEntry { sequence: 0, rows: 0, token: None, step, steps: vec![], thinned: vec![], commit };
        self.log_entry(entry, 0, Instant::now()).inspect_err(|error| self.note(error))
    }

    /// The last step that this writer has committed or abandoned, and that was not retracted.
    ///
    /// # Errors
    ///
    /// As of reading the table.
    pub fn last_step(&self) -> Result<Option<i64>> {
        Ok(self.core.view(&self.cancel)?.history.last_step(self.name()))
    }

    /// Steps of a writer go up, so that each is one commit.
    fn check_step(&self, step: i64) -> Result<()> {
        let name = self.name();
        match self.last_step()? {
            _ if step == NO_STEP => Err(Error::invalid(format!("{step} cannot be a step"))),
            Some(last) if step <= last => Err(Error::invalid(format!(
                "writer {name:?} has committed or abandoned step {last}; the next must be later, found {step} \
                 (to go back, retract the steps first)"
            ))),
            _ => Ok(()),
        }
    }

    /// Appends an entry, under the next number.
    fn log_entry(&mut self, mut entry: CommitEntry, bytes: u64, begin: Instant) -> Result<Committed> {
        let (sequence, rows) = (self.sequence + 1, entry.rows);
        entry.sequence = sequence;
        identify(&mut entry.commit.runs, Core::origin(self.log.writer()), sequence);
        let runs = entry.commit.runs.len() as u64;
        let entry = entry.encode(&self.core.forest());
        self.log.append(&entry).map_err(store_error)?;
        self.sequence = sequence;
        self.rows += rows;
        if self.segment.as_ref().is_some_and(|segment| segment.len() > SEGMENT_BYTES) {
            self.segment = None;
        }
        if write_checkpoint::is_due(&self.core, runs) {
            // The commit is done; a checkpoint only makes opening faster.
            let _ = write_checkpoint::write(&self.core, &self.cancel);
        }
        if let Some(behind) = &self.behind {
            behind.committed(rows);
        }
        let (writer, seconds) = (self.name().into(), begin.elapsed().as_secs_f64());
        let bytes_written = bytes + entry.len() as u64;
        Ok(Committed { writer, sequence, rows, bytes_written, seconds, ..Committed::default() })
    }

    /// The frame of the newest grid, learned from the pending rows if none is published. Rows
    /// that are more than all that were there make one for themselves if they do not fit it.
    fn frame(&self, view: &View, batches: &[RecordBatch]) -> Result<Arc<Frame>> {
        let schema = &view.schema;
        if let Some(mut frame) = self.core.newest_frame(schema)? {
            let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>();
            if rows >= BULK_ROWS && rows > view.rows() {
                if let Some(fitting) = self.fitting(view, &frame, rows, batches)? {
                    frame = fitting;
                }
            }
            if !self.settled.get() {
                // Another process may just be making them durable: a commit must
                // not outlive the header and the grid that it was placed by.
                self.core.settle_objects()?;
                self.settled.set(true);
            }
            return Ok(frame);
        }
        let learn = |(dimension, column): (&kubist_format::header::HeaderDimension, &usize)| match dimension.domain {
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
        let dimensions = self.core.header.dimensions.iter().zip(&self.core.created.dimensions);
        let scales: Vec<Scale> = dimensions.map(learn).collect::<Result<_>>()?;
        self.core.publish_grid(&scales)
    }

    /// The frame of a new grid for many rows, if they have outgrown the newest.
    fn fitting(&self, view: &View, frame: &Frame, rows: u64, batches: &[RecordBatch]) -> Result<Option<Arc<Frame>>> {
        let sample = |most: u64| -> Result<Vec<Vec<f64>>> {
            let step = rows.div_ceil(most).max(1) as usize;
            let sampled = |column: &usize| -> Result<Vec<f64>> {
                let some = |batch: &RecordBatch| {
                    let rows = UInt32Array::from_iter_values((0..batch.num_rows() as u32).step_by(step));
                    take(batch.column(*column), &rows, None).map_err(Error::kernel)
                };
                let sampled = batches.iter().map(some).collect::<Result<Vec<ArrayRef>>>()?;
                Ok(sampled.iter().flat_map(|array| frame::numbers(array.as_ref())).collect())
            };
            frame.dimensions.iter().map(sampled).collect()
        };
        if !has_left(&frame.scales, &sample(LOOKED_AT_ROWS)?) {
            return Ok(None);
        }
        let sample = sample(COMPARED_ROWS)?;
        let Some(scales) = outgrown(&frame.geometry, &frame.scales, &sample) else { return Ok(None) };
        let schema = &view.schema;
        let why = "a commit had more rows than the table, and had outgrown the one before";
        self.core.publish_next_grid(next_grid(schema, rescaled(schema, scales), view.rows() + rows, why))?;
        // Its own, or that of somebody else who was at it.
        let schema = self.core.view(&self.cancel)?.schema.clone();
        self.core.settle_schema(&schema)?;
        self.core.newest_frame(&schema)
    }

    fn spill(&mut self) -> Result<()> {
        let view = self.core.view(&self.cancel)?;
        let schema = view.schema.clone();
        let batches = widened(&schema, std::mem::take(&mut self.pending.batches))?;
        self.pending.bytes = 0;
        if self.pending.spill.is_none() {
            let frame = self.frame(&view, &batches)?;
            let scratch = self.core.store.scratch().map_err(store_error)?;
            self.pending.spill = Some(Spill::new(Some(scratch.into()), &frame, &batches));
        }
        let spill = self.pending.spill.as_mut().expect("made above");
        spill.add(batches, &self.cancel)
    }

    /// Writes the pending rows as runs and makes them durable.
    fn write(&mut self, mut pending: Pending, step: Option<i64>) -> Result<Prepared> {
        let (view, known) = self.core.view_with(&self.cancel, |runs| runs.worth_knowing(&self.core, &self.cancel))?;
        self.core.settle_schema(&view.schema)?;
        let schema = view.schema.clone();
        let batches = widened(&schema, std::mem::take(&mut pending.batches))?;
        // What was spilled lies in parts of an older grid's space, perhaps: it stays there.
        let frame = match &pending.spill {
            Some(spill) => spill.frame().clone(),
            None => self.frame(&view, &batches)?,
        };
        let geometry = frame.geometry;
        let seen = Seen::all(known);
        let capacity = Capacity::for_commits(self.core.header.capacity);
        let (memory, cancel) = (self.memory, self.cancel.clone());
        let parts: Vec<Part> = match pending.spill.take() {
            None if pending.rows <= ONE_PART_ROWS => vec![Part::whole(&frame, batches)],
            spill => {
                let mut spill = spill.unwrap_or_else(|| Spill::new(None, &frame, &batches));
                spill.add(batches, &cancel)?;
                spill.into_parts(SORT_BYTES, memory / PART_SHARE, &cancel)?
            }
        };
        let sorted = |batches: Vec<RecordBatch>| -> Result<SortedRows> {
            // Those that were spilled before a column was added, too.
            let ready = |batch: &RecordBatch| schema.with_step(schema.widened(batch)?, step);
            SortedRows::new(&frame, &schema.stored, &batches.iter().map(ready).collect::<Result<Vec<_>>>()?, &cancel)
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
        let mut cutoffs: Vec<(CubeId, Threshold)> = above.iter().map(|(cube, cutoff)| (*cube, *cutoff)).collect();
        let core = self.core.clone();
        let mut output = Output::new(&core, &frame.dimensions, self.segment()?.as_mut(), memory, &cancel);
        let lookup = output.lookup_columns();
        let make = |part: Part| -> Result<Made> {
            cancel.check()?;
            let (cube, mut made) = (part.cube, Made::default());
            let sorted = sorted(part.load()?)?;
            made.outside = sorted.outside;
            // The first ancestor whose cutoff admits a row keeps it.
            let ancestors: Vec<(CubeId, Threshold)> =
                geometry.ancestors(cube).map(|ancestor| (ancestor, above[&ancestor])).collect();
            let highest = ancestors.iter().map(|(_, cutoff)| *cutoff).max().unwrap_or(Threshold::NONE);
            let (kept, own): (Vec<u32>, Vec<u32>) =
                sorted.all().partition(|row| highest.admits(sorted.priorities[*row as usize]));
            let mut kept_by: BTreeMap<CubeId, Vec<u32>> = BTreeMap::new();
            for row in kept {
                let mut admitting =
                    ancestors.iter().filter(|(_, cutoff)| cutoff.admits(sorted.priorities[row as usize]));
                let (ancestor, _) = admitting.next().expect("the highest cutoff admits it");
                kept_by.entry(*ancestor).or_default().push(row);
            }
            for (ancestor, rows) in kept_by {
                made.upper.push((ancestor, sorted.take(&rows)?));
            }
            let floor = ancestors.last().map_or(Threshold::NONE, |(_, cutoff)| *cutoff);
            let placed = sorted.place(&geometry, &capacity, &seen, cube, floor, own);
            made.runs = sorted.encode_all(&placed.placements, &lookup.keys(sorted.batch()), &cancel)?;
            made.cutoffs = placed.cutoffs;
            Ok(made)
        };
        let largest = parts.iter().map(|part| part.bytes + part.rows * SORT_BYTES as u64).max().unwrap_or(0);
        let at_once =
            (memory as u64 / PART_SHARE as u64 * 4 / largest.max(1)).clamp(1, 8 * rayon::current_num_threads() as u64);
        let mut upper: BTreeMap<CubeId, Vec<RecordBatch>> = BTreeMap::new();
        let (mut parts, mut done, mut outside) = (parts.into_iter(), Vec::new(), 0);
        loop {
            let some: Vec<Part> = parts.by_ref().take(at_once as usize).collect();
            if some.is_empty() && done.is_empty() {
                break;
            }
            let append = || -> Result<()> {
                for Made { upper: rows, cutoffs: of_part, runs, outside: of_rows } in done {
                    outside += of_rows;
                    rows.into_iter().for_each(|(cube, rows)| upper.entry(cube).or_default().push(rows));
                    cutoffs.extend(of_part);
                    output.append(runs)?;
                }
                Ok(())
            };
            // What is ready is written while the next parts are made.
            let (appended, made) =
                rayon::join(append, || some.into_par_iter().map(make).collect::<Result<Vec<Made>>>());
            appended?;
            done = made?;
        }
        let upper: Vec<(CubeId, Vec<RecordBatch>)> = upper.into_iter().collect();
        let encode = |(cube, batches): &(CubeId, Vec<RecordBatch>)| -> Result<Vec<EncodedRun>> {
            cancel.check()?;
            let (sorted, cutoff) = (sorted(batches.clone())?, above[cube]);
            let within = sorted.all().collect();
            let placement = Placement { cube: *cube, within, overflow: vec![], cutoff };
            sorted.encode_all(&[placement], &lookup.keys(sorted.batch()), &cancel)
        };
        for some in upper.chunks(8 * rayon::current_num_threads()) {
            for runs in some.par_iter().map(encode).collect::<Result<Vec<_>>>()? {
                output.append(runs)?;
            }
        }
        cancel.check()?;
        let (runs, bytes) = output.finish()?;
        self.segment()?.sync().map_err(store_error)?;
        // The same cube may have been passed through by several parts of one grid point.
        cutoffs.sort_unstable();
        cutoffs.dedup_by_key(|(cube, _)| *cube);
        Ok(Prepared { commit: Commit { runs, cutoffs }, bytes, outside })
    }

    fn segment(&mut self) -> Result<&mut Box<dyn Segment>> {
        if self.segment.is_none() {
            let name = format!("{}-{:013}", self.log.writer(), self.next_segment);
            self.next_segment += 1;
            self.segment = Some(self.core.store.create_segment(&name).map_err(store_error)?);
        }
        Ok(self.segment.as_mut().expect("made above"))
    }
}

/// A writer's log. Cleaning and rewriting take a log for a moment: look again before
/// calling it busy.
fn own_log(core: &Core, name: &str) -> Result<Box<dyn LogOwner>> {
    let begin = Instant::now();
    loop {
        match core.store.own_log(name) {
            Err(kubist_store::Error::Busy { .. }) if begin.elapsed() < MOMENT => std::thread::sleep(MOMENT / 20),
            other => return other.map_err(store_error),
        }
    }
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
