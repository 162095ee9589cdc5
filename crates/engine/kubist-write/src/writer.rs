//! A writer: appends rows and makes durable commits.
//!
//! Rows are collected in memory; above a limit they are distributed over parts of space in scratch files. A commit
//! sorts part by part, cuts the rows into runs by the cutoffs, writes the runs to the writer's segment, syncs it, and
//! appends one entry to the writer's log, which makes the commit visible.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Instant;

use arrow_array::RecordBatch;
use kubist_index::state::Commit;
use kubist_store::{LogOwner, Segment, StoreExt};
use rayon::prelude::*;

use crate::claim::Claim;
use crate::grid::frame_for;
use crate::incoming::{own, slices};
use crate::names::{first_free_log, own_log};
use crate::output::{DEFAULT_MEMORY, identify};
use crate::remaining::RemainingDirectories;
use crate::runs::{PART_SHARE, Prepared, Runs, SORT_BYTES};
use crate::spill::{Part, Spill, batch_bytes};
use kubist_catalog::chains;
use kubist_catalog::core::Core;
use kubist_catalog::directory::Directory;
use kubist_catalog::error::store_error;
use kubist_catalog::frame::Frame;
use kubist_catalog::proven_positions;
use kubist_catalog::schema::{NO_STEP, TableSchema};
use kubist_catalog::segment::unix_ms;
use kubist_catalog::stop::stoppable;
use kubist_catalog::view::View;
use kubist_catalog::weights::Weigher;
use kubist_catalog::write_checkpoint;
use kubist_format::chain::Chain;
use kubist_format::entry::{CommitEntry, Link, StepMark};
use kubist_format::location::Location;
use kubist_types::cancel::Cancel;
use kubist_types::error::{Error, Result};
use kubist_types::options::{CommitOptions, WriterOptions};
use kubist_types::thinned::Thinned;

/// Commits with more rows first distribute them over parts of space.
const ONE_PART_ROWS: u64 = 1 << 19;
/// Size after which a new segment starts, because a running writer's newest segment cannot be deleted.
const SEGMENT_BYTES: u64 = 256 << 20;

/// Background work that follows a writer's commits, where `admit` delays the next commit while too much is left.
pub trait Behind: Send + Sync {
    /// # Errors
    ///
    /// `Cancelled`.
    fn admit(&self, cancel: &Cancel) -> Result<()>;

    fn committed(&self, rows: u64);
}

/// Owns one log; dropping it discards uncommitted rows and releases the name.
pub struct Writer {
    /// The first field, so that it is dropped before the log.
    claim: Option<Claim>,
    core: Arc<Core>,
    /// The last known columns, until a batch with other columns makes the writer read them again.
    schema: Arc<TableSchema>,
    log: Box<dyn LogOwner>,
    segment: Option<Box<dyn Segment>>,
    segment_bytes: u64,
    next_segment: u64,
    /// Number of commits and of rows (`rows`) before the pending ones.
    sequence: u64,
    rows: u64,
    /// The link of the next log entry, but its random number is this one plus the sequence number.
    link: Link,
    memory: usize,
    cancel: Cancel,
    pending: Pending,
    weigher: Weigher,
    failed: Option<String>,
    header_is_synced: Cell<bool>,
    behind: Option<Box<dyn Behind>>,
}

#[derive(Default)]
struct Pending {
    batches: Vec<RecordBatch>,
    bytes: usize,
    rows: u64,
    spill: Option<Spill>,
    /// The first pending rows, which `lay_out` has written as runs.
    laid_out: Option<Prepared>,
    torn: bool,
}

impl Pending {
    fn rows_laid_out(&self) -> u64 {
        self.laid_out.as_ref().map_or(0, |done| rows_of(&done.commit))
    }

    fn check(&self) -> Result<()> {
        match self.torn {
            false => Ok(()),
            true => Err(Error::Refused(
                "records of an earlier append were lost when it failed: discard, and append again".into(),
            )),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Committed {
    pub writer: String,
    /// Counts this writer's commits from 1; 0 if there was nothing to commit.
    pub sequence: u64,
    pub rows: u64,
    /// Rows outside the domain; if there are many, the optimizer makes a new grid.
    pub rows_outside: u64,
    pub bytes_written: u64,
    pub seconds: f64,
    /// A commit with this token existed, so nothing was committed.
    pub repeated: bool,
}

/// The commit of another table that a writer repeats.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// The random number by which histories of a log differ; `None`: a new one.
    pub salt: Option<u64>,
    pub token: Option<String>,
    pub step: Option<StepMark>,
    /// Number of copied rows per original step.
    pub steps: Vec<(i64, u64)>,
    pub thinned: Vec<(i64, Thinned)>,
}

/// A number that is unlikely to repeat, but may be predictable.
fn random() -> u64 {
    RandomState::new().hash_one(unix_ms())
}

fn rows_of(commit: &Commit<Location>) -> u64 {
    commit.runs.iter().map(|run| run.rows).sum()
}

/// A new grid may need a column that was added while rows were pending.
fn widened(schema: &TableSchema, batches: Vec<RecordBatch>) -> Result<Vec<RecordBatch>> {
    batches.iter().map(|batch| schema.widened(batch)).collect()
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Writer({:?} of {:?})", self.name(), self.core.store.location())
    }
}

impl Writer {
    /// Opens a writer by taking its log.
    ///
    /// # Errors
    ///
    /// `Busy` if the name has an owner; `Damaged` if its log is damaged; `Invalid` for an invalid name; the errors
    /// of [`Core::view`].
    pub fn open(core: Arc<Core>, options: &WriterOptions, behind: Option<Box<dyn Behind>>) -> Result<Writer> {
        core.check_process()?;
        // Before the log is taken: this read detects a lost log, which must not be started again.
        core.view(&options.cancel)?;
        let log = stoppable(&options.cancel, || match &options.name {
            Some(name) => own_log(&core, name),
            None => first_free_log(&core),
        })?;
        // A drop marks the table before it looks for writers.
        core.check_still_there()?;
        // The new log exists, so its initialization must not be interrupted.
        let view = core.view(&Cancel::default())?;
        proven_positions::check_owned(&core, &view, log.as_ref())?;
        let own = view.history.writers.get(log.writer()).cloned().unwrap_or_default();
        let prefix = format!("{}-", log.writer());
        let taken = core.store.segments().map_err(store_error)?;
        let numbers = taken.iter().filter_map(|name| name.strip_prefix(&prefix)?.parse::<u64>().ok());
        Ok(Writer {
            claim: None,
            // Names are never reused, because readers may have cleaned files open.
            next_segment: (numbers.max().unwrap_or(0) + 1).max(unix_ms()),
            memory: options.memory_bytes.unwrap_or(DEFAULT_MEMORY),
            cancel: options.cancel.clone(),
            schema: view.schema.clone(),
            segment: None,
            segment_bytes: 0,
            sequence: own.commits,
            rows: own.rows,
            link: Link { previous: chains::logged(&core, log.writer(), &view.history), salt: random(), alterations: 0 },
            pending: Pending::default(),
            weigher: Weigher::default(),
            failed: None,
            header_is_synced: Cell::new(false),
            behind,
            log,
            core,
        })
    }

    pub fn name(&self) -> &str {
        self.log.writer()
    }

    pub fn pending_rows(&self) -> u64 {
        self.pending.rows
    }

    /// Checks a batch and stores a copy for the next commit. After an error or a cancellation, some rows may be
    /// pending, so call `discard` or drop the writer.
    ///
    /// # Errors
    ///
    /// `Invalid` names the column, the row or the value that does not fit; `Cancelled`; `Refused` after an earlier
    /// failure; `NoSpace` and other storage errors of the scratch space.
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
            let stored_by = |schema: &TableSchema| {
                let stored = some.par_iter().map(|rows| {
                    let slice = batch.slice(rows.start, rows.len());
                    own(&schema.to_stored(&slice, &name, before + rows.start as u64, rows.start)?)
                });
                stored.collect::<Result<Vec<_>>>()
            };
            let stored = match stored_by(&self.schema) {
                // The row violates a period that may have been removed.
                Err(Error::Invalid(why)) if self.is_altered()? => {
                    stored_by(&self.schema).map_err(|_| Error::Invalid(why))
                }
                stored => stored,
            };
            for stored in stored.map_err(|error| self.located(error))? {
                self.keep(stored)?;
            }
        }
        if batch.num_rows() == 0 {
            self.schema.to_stored(batch, &name, 0, 0).map_err(|error| self.located(error))?;
        }
        Ok(())
    }

    /// Returns whether the schema has changed.
    fn is_altered(&mut self) -> Result<bool> {
        let newest = self.core.view(&self.cancel)?.schema.clone();
        let is_altered = newest.version != self.schema.version;
        self.schema = newest;
        Ok(is_altered)
    }

    fn located(&self, error: Error) -> Error {
        match error {
            Error::Invalid(why) => Error::Invalid(format!("{}: {why}", self.core.store.location())),
            other => other,
        }
    }

    /// Appends rows in stored form, with the hidden columns, whose memory nothing else may own.
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

    /// Writes the pending rows as runs to the segment, so that a long commit needs little memory. They stay invisible
    /// until the next commit. For rows in the order of a dimension, such as frames of a trajectory, the layout is as
    /// good as with a single call, if the domains are given. Domains are learned only from the first call's rows.
    ///
    /// # Errors
    ///
    /// The errors of [`Writer::commit`]. The rows since the last commit are then lost and must be discarded.
    pub fn lay_out(&mut self) -> Result<()> {
        self.core.check_process()?;
        self.check_standing()?;
        self.pending.check()?;
        if self.pending.rows == self.pending.rows_laid_out() {
            return Ok(());
        }
        if self.pending.laid_out.is_none() && self.segment_bytes > 0 {
            // `discard` deletes the segment, so no other commit may use it.
            self.segment = None;
        }
        let view = self.core.view(&self.cancel)?;
        let mut pending = std::mem::take(&mut self.pending);
        match self.laid_out(view, &mut pending, None) {
            Ok(all) => {
                self.pending = Pending { rows: pending.rows, laid_out: Some(all), ..Pending::default() };
                Ok(())
            }
            Err(error) => {
                // Later rows alone are not a complete commit.
                self.pending.torn = true;
                self.note(&error);
                Err(error)
            }
        }
    }

    pub fn discard(&mut self) {
        if std::mem::take(&mut self.pending).laid_out.is_some()
            && let Some(segment) = self.segment.take()
        {
            let name = segment.name().to_owned();
            drop(segment);
            // If the deletion fails, cleaning finds the segment.
            let _ = self.core.store.delete_segment(&name);
        }
    }

    /// Commits the pending rows, which become durable and visible together. After an error the rows are neither pending
    /// nor in the table. After a failed write to the log, their state is certain only when the table is opened again.
    ///
    /// # Errors
    ///
    /// `Refused` after an earlier failure; `NotATable` if the table was dropped; the errors of [`Core::view`].
    pub fn commit(&mut self) -> Result<Committed> {
        self.commit_as(&CommitOptions::default())
    }

    /// Commits as a simulation step, or with a token: a repeated call with the same token commits nothing.
    ///
    /// # Errors
    ///
    /// `Invalid` if the step does not increase; the errors of [`Writer::commit`].
    pub fn commit_as(&mut self, options: &CommitOptions) -> Result<Committed> {
        self.commit_with(options, None)
    }

    /// Commits a subsampled step: the appended rows are a sample, and `thinned` has the totals of all rows. The column
    /// `kept_below` must contain the sample's limits (see [`Core::keep_below`]).
    ///
    /// # Errors
    ///
    /// `Invalid` without a step; the errors of [`Writer::commit_as`].
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

    /// Rows that this writer committed with a token.
    ///
    /// # Errors
    ///
    /// The errors of [`Core::view`].
    pub fn committed(&self, token: &str) -> Result<Option<u64>> {
        let view = self.core.view(&self.cancel)?;
        Ok(view.history.token(self.name(), token).map(|(_, rows)| rows))
    }

    /// Claims `what`, and releases the previous claim. No other writer can claim it until this writer claims something
    /// else, releases it or ends. Check the tokens afterwards, because another writer may already have committed it.
    ///
    /// # Errors
    ///
    /// `Busy` if another writer has claimed it; `Cancelled`; a storage error.
    pub fn take_on(&mut self, what: &str) -> Result<()> {
        self.give_back();
        self.core.check_process()?;
        self.claim = Some(Claim::take(&self.core, self.log.writer(), what, &self.cancel)?);
        Ok(())
    }

    pub fn give_back(&mut self) {
        self.claim = None;
    }

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
        if let Some(behind) = &self.behind {
            behind.admit(&self.cancel)?;
        }
        // A step without rows must still be committed.
        if self.pending.rows == 0 && options.step.is_none() && options.token.is_none() {
            let writer = self.name().into();
            return Ok(Committed { writer, ..Committed::default() });
        }
        // The view is read once, because each read takes several requests on a network.
        let view = self.core.view(&self.cancel)?;
        if let Some(token) = &options.token
            && let Some((sequence, rows)) = view.history.token(self.name(), token)
        {
            self.discard();
            let writer = self.name().into();
            return Ok(Committed { writer, sequence, rows, repeated: true, ..Committed::default() });
        }
        if let Some(step) = options.step {
            self.check_step(&view, step)?;
            if self.pending.laid_out.is_some() {
                return Err(Error::invalid(format!(
                    "step {step}: rows that are laid out before their commit have none"
                )));
            }
        }
        let mut pending = std::mem::take(&mut self.pending);
        let rows = pending.rows;
        let Prepared { commit, bytes, outside } = match rows {
            0 => Prepared::default(),
            _ => self.laid_out(view, &mut pending, options.step)?,
        };
        let step = options.step.map(|step| StepMark { step, abandoned: false });
        let token = options.token.clone();
        let thinned = thinned.into_iter().collect();
        let entry = CommitEntry { sequence: 0, rows, link: None, token, step, steps: vec![], thinned, commit };
        Ok(Committed { rows_outside: outside, ..self.log_entry(entry, bytes, begin)? })
    }

    /// Commits rows with their original steps, and the totals of subsampled steps.
    ///
    /// # Errors
    ///
    /// The errors of [`Writer::commit`].
    pub fn commit_copied(&mut self, steps: Vec<(i64, u64)>, thinned: Vec<(i64, Thinned)>) -> Result<Committed> {
        self.commit_origin(Origin { steps, thinned, ..Origin::default() })
    }

    /// Repeats a commit of another table, with its steps and token, from the rows of [`Writer::keep`] (possibly none).
    ///
    /// # Errors
    ///
    /// The errors of [`Writer::commit`].
    pub fn commit_origin(&mut self, origin: Origin) -> Result<Committed> {
        self.core.check_process()?;
        self.check_standing()?;
        let committed = self.try_commit_origin(origin);
        if let Err(error) = &committed {
            self.discard();
            self.note(error);
        }
        committed
    }

    fn try_commit_origin(&mut self, origin: Origin) -> Result<Committed> {
        let (begin, mut pending) = (Instant::now(), std::mem::take(&mut self.pending));
        let rows = pending.rows;
        let Prepared { commit, bytes, outside } = match rows {
            0 => Prepared::default(),
            _ => self.laid_out(self.core.view(&self.cancel)?, &mut pending, None)?,
        };
        let Origin { salt, token, step, steps, thinned } = origin;
        let link = salt.map(|salt| Link { salt, ..self.link });
        let entry = CommitEntry { sequence: 0, rows, link, token, step, steps, thinned, commit };
        Ok(Committed { rows_outside: outside, ..self.log_entry(entry, bytes, begin)? })
    }

    /// Records that this writer will never commit the step.
    ///
    /// # Errors
    ///
    /// `Invalid` if the step does not increase; the errors of [`Writer::commit`].
    pub fn abandon(&mut self, step: i64) -> Result<Committed> {
        self.core.check_process()?;
        self.check_standing()?;
        let view = self.core.view(&self.cancel)?;
        self.check_step(&view, step)?;
        let commit = Commit { runs: vec![], cutoffs: vec![] };
        let step = Some(StepMark { step, abandoned: true });
        let (steps, thinned) = (vec![], vec![]);
        let entry = CommitEntry { sequence: 0, rows: 0, link: None, token: None, step, steps, thinned, commit };
        self.log_entry(entry, 0, Instant::now()).inspect_err(|error| self.note(error))
    }

    /// The last step that this writer committed or abandoned, unless it was retracted.
    ///
    /// # Errors
    ///
    /// The errors of reading the table.
    pub fn last_step(&self) -> Result<Option<i64>> {
        Ok(self.core.view(&self.cancel)?.history.last_step(self.name()))
    }

    /// Refuses a step that does not increase, so that each step is one commit of a writer.
    fn check_step(&self, view: &View, step: i64) -> Result<()> {
        let name = self.name();
        match view.history.last_step(name) {
            _ if step == NO_STEP => Err(Error::invalid(format!("{step} cannot be a step"))),
            Some(last) if step <= last => Err(Error::invalid(format!(
                "writer {name:?} has committed or abandoned step {last}; the next must be later, found {step} \
                 (to go back, retract the steps first)"
            ))),
            _ => Ok(()),
        }
    }

    fn log_entry(&mut self, mut entry: CommitEntry, bytes: u64, begin: Instant) -> Result<Committed> {
        let (sequence, rows) = (self.sequence + 1, entry.rows);
        entry.sequence = sequence;
        let salt = entry.link.map_or(self.link.salt.wrapping_add(sequence), |link| link.salt);
        entry.link = Some(Link { salt, ..self.link });
        identify(&mut entry.commit.runs, Core::origin(self.log.writer()), sequence);
        let runs = entry.commit.runs.len() as u64;
        let entry = entry.encode(&self.core.forest());
        let appended = match &mut self.segment {
            Some(segment) => self.log.append_after(segment.as_mut(), &entry),
            None => self.log.append(&entry),
        };
        // After an error, the entry may exist and name these runs.
        appended.map_err(store_error).inspect_err(|_| self.segment = None)?;
        self.sequence = sequence;
        self.rows += rows;
        self.link.previous = Chain::after_entry(&entry);
        self.segment_bytes += bytes;
        if self.segment_bytes > SEGMENT_BYTES {
            self.segment = None;
        }
        if write_checkpoint::is_due(&self.core, runs) {
            // An error is ignored, because a checkpoint only makes opening faster.
            let _ = write_checkpoint::write(&self.core, &self.cancel);
        }
        if let Some(behind) = &self.behind {
            behind.committed(rows);
        }
        let (writer, seconds) = (self.name().into(), begin.elapsed().as_secs_f64());
        let bytes_written = bytes + entry.len() as u64;
        Ok(Committed { writer, sequence, rows, bytes_written, seconds, ..Committed::default() })
    }

    fn frame(&self, view: &View, batches: &[RecordBatch], rows_before: u64) -> Result<Arc<Frame>> {
        let frame = frame_for(&self.core, view, batches, rows_before, &self.cancel)?;
        if !self.header_is_synced.get() {
            // A commit must not survive without the header and its grid, which another process may be syncing now.
            self.core.settle_objects()?;
            self.header_is_synced.set(true);
        }
        Ok(frame)
    }

    fn spill(&mut self) -> Result<()> {
        let view = self.core.view(&self.cancel)?;
        let schema = view.schema.clone();
        let batches = widened(&schema, std::mem::take(&mut self.pending.batches))?;
        let batches = self.weighed(&schema, batches)?;
        self.pending.bytes = 0;
        if self.pending.spill.is_none() {
            let frame = self.frame(&view, &batches, view.rows() + self.pending.rows_laid_out())?;
            let scratch = self.core.store.scratch().map_err(store_error)?;
            self.pending.spill = Some(Spill::new(Some(scratch.into()), &frame, &batches));
        }
        let spill = self.pending.spill.as_mut().expect("made above");
        spill.add(batches, &self.cancel)
    }

    fn laid_out(&mut self, view: Arc<View>, pending: &mut Pending, step: Option<i64>) -> Result<Prepared> {
        let done = pending.laid_out.take();
        let all = match done {
            Some(done) if rows_of(&done.commit) == pending.rows => Ok(done),
            Some(mut done) => self.write(view, pending, step, Some(&done.commit)).map(|later| {
                done.join(later);
                done
            }),
            None => self.write(view, pending, step, None),
        };
        all.inspect_err(|_| self.segment = None)
    }

    /// The directories for placement in `view`, or in a newer view if its pages were cleaned.
    fn known(&self, view: Arc<View>) -> Result<(Arc<View>, Vec<Arc<Directory>>)> {
        let load = |view: &View| view.runs.worth_knowing(&self.core, &self.cancel);
        match load(&view) {
            Err(Error::SnapshotExpired { .. }) => self.core.view_with(&self.cancel, load),
            known => Ok((view, known?)),
        }
    }

    /// Writes the pending rows as runs, where `first` has earlier runs of the same commit.
    fn write(
        &mut self,
        view: Arc<View>,
        pending: &mut Pending,
        step: Option<i64>,
        first: Option<&Commit<Location>>,
    ) -> Result<Prepared> {
        let (view, known) = self.known(view)?;
        self.core.settle_schema(&view.schema)?;
        self.link.alterations = view.schema.version;
        let batches = widened(&view.schema, std::mem::take(&mut pending.batches))?;
        if self.schema.version != view.schema.version {
            batches.iter().try_for_each(|batch| view.schema.check_periods(batch))?;
            self.schema = view.schema.clone();
        }
        let batches = self.weighed(&view.schema, batches)?;
        let frame = match &pending.spill {
            Some(spill) => spill.frame().clone(),
            None => self.frame(&view, &batches, view.rows() + first.map_or(0, rows_of))?,
        };
        let (memory, cancel) = (self.memory, self.cancel.clone());
        let rows: u64 = pending.rows - first.map_or(0, rows_of);
        let parts: Vec<Part> = match pending.spill.take() {
            None if rows <= ONE_PART_ROWS => vec![Part::whole(&frame, batches)],
            spill => {
                let mut spill = spill.unwrap_or_else(|| Spill::new(None, &frame, &batches));
                spill.add(batches, &cancel)?;
                spill.into_parts(SORT_BYTES, memory / PART_SHARE, &cancel)?
            }
        };
        let (core, seen) = (self.core.clone(), RemainingDirectories::all(known));
        let seen = match first {
            Some(first) => seen.and(first),
            None => seen,
        };
        let runs =
            Runs { core: &core, frame: &frame, schema: &view.schema, seen: &seen, step, memory, cancel: &cancel };
        runs.write(parts, self.segment()?.as_mut())
    }

    fn weighed(&mut self, schema: &TableSchema, batches: Vec<RecordBatch>) -> Result<Vec<RecordBatch>> {
        let weighed = self.weigher.weighed(&self.core, schema, batches);
        weighed.map_err(|error| self.located(error))
    }

    fn segment(&mut self) -> Result<&mut Box<dyn Segment>> {
        if self.segment.is_none() {
            let name = format!("{}-{:013}", self.log.writer(), self.next_segment);
            self.next_segment += 1;
            self.segment_bytes = 0;
            self.segment = Some(self.core.store.create_segment(&name).map_err(store_error)?);
        }
        Ok(self.segment.as_mut().expect("made above"))
    }
}
