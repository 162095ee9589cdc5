//! Copies all intact rows of a damaged table into a new table.
//!
//! The metadata is read as far as possible (`gather`): an older checkpoint, the readable commits of a damaged log, and
//! rewrites up to the first unreadable one. The result is an earlier snapshot, or one with fewer commits, so no row
//! appears twice. Lost rows are taken from replaced runs and replicas (`recover`).
//!
//! The new table has the same columns, grid, identity and seed, so its samples contain the same rows. Rows keep their
//! steps; the writer `salvage` commits each step once.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;
use kubist_index::order::Keyed;
use kubist_index::state::{Run, RunId};
use kubist_store::Store;

use crate::gather;
use crate::ledger::{PageLedger, undecided};
use crate::patient::Patient;
use crate::readable::{Loss, loss, unknown_columns};
use crate::recover::recover;
use kubist_catalog::core::Core;
use kubist_catalog::create::fresh_id;
use kubist_catalog::error::{bad_entry, is_damage, store_error};
use kubist_catalog::location::TableLocation;
use kubist_catalog::schema::{NO_STEP, TableSchema};
use kubist_catalog::segment::unix_ms;
use kubist_catalog::snapshot::Snapshot;
use kubist_format::alteration::{self, Alteration};
use kubist_format::chain::Chain;
use kubist_format::location::Location;
use kubist_format::names::GRID;
use kubist_format::names::SALVAGE;
use kubist_maintain::drop::{drop_table, vacant_for_copy};
use kubist_types::cancel::Cancel;
use kubist_types::error::{Error, Result};
use kubist_types::options::{CommitOptions, WriterOptions};
use kubist_write::unfinished::Unfinished;
use kubist_write::writer::Writer;

use crate::gather::Gaps;

#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct SalvageReport {
    pub rows: u64,
    /// Rows from replicas or replaced runs; part of `rows`.
    pub rows_recovered: u64,
    /// Committed rows that the new table lacks, if they can be counted.
    pub rows_lost: u64,
    pub commits_lost: u64,
    /// More rows may be lost than `rows_lost`; `notes` gives the reason.
    pub uncounted: bool,
    /// The first unreadable alteration and all later ones, so that the new table lacks the columns, units and metadata
    /// that they added.
    pub alterations_lost: u64,
    pub losses: Vec<Loss>,
    pub notes: Vec<String>,
}

impl SalvageReport {
    pub fn is_whole(&self) -> bool {
        self.losses.is_empty() && self.notes.is_empty()
    }
}

struct Pass<'a> {
    step: i64,
    pages: &'a mut PageLedger,
    writer: &'a mut Writer,
    cancel: &'a Cancel,
}

/// Copies the intact rows of the table at `from` into a new table at `to`, which must be empty. Calls
/// `progress(done, total)` in rows, and never changes `from`. After an error or a crash, `to` holds no table, and the
/// call can be repeated once the cause is removed.
///
/// # Errors
///
/// `NotATable` if there is no table at `from`; `Exists` if something is at `to`; `Damaged` or `Newer` if the header
/// cannot be read; `Unavailable` if a read still fails after several attempts; `Cancelled`; `NoSpace` and other storage
/// errors of either store.
pub fn salvage(
    from: &TableLocation,
    to: &TableLocation,
    cancel: &Cancel,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<SalvageReport> {
    let from = from.store()?;
    // Fails on an unreadable table before anything is created at `to`.
    Core::with_header(Patient::new(from.clone(), cancel))?;
    let to = vacant_for_copy(to, cancel)?;
    let from: Arc<dyn Store> = Patient::new(from, cancel);
    let saved = salvage_patiently(from, to, cancel, progress);
    if saved.is_err() {
        cancel.check()?
    }
    saved
}

fn salvage_patiently(
    from: Arc<dyn Store>,
    to: Arc<dyn Store>,
    cancel: &Cancel,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<SalvageReport> {
    let mut report = SalvageReport::default();
    let mut gaps = Gaps::default();
    let gathered = Core::with_header(from.clone()).and_then(|core| gather::snapshot(&core, &mut gaps, cancel));
    let snapshot = gathered.map_err(undecided)?;
    (report.notes, report.commits_lost, report.uncounted) = (gaps.notes, gaps.commits, gaps.uncounted);
    report.alterations_lost = gaps.alterations;
    let options = WriterOptions { name: Some(SALVAGE.into()), cancel: cancel.clone(), ..WriterOptions::default() };
    let (unfinished, writer) = begin(to.clone(), &snapshot, &options)?;
    let saved = fill(&from, &unfinished.core, &snapshot, writer, gaps.rows, &mut report, cancel, progress)
        .and_then(|()| unfinished.finish().map(drop));
    if let Err(error) = saved {
        let _ = drop_table(to.as_ref(), false, &Cancel::default());
        return Err(error);
    }
    Ok(report)
}

/// `rows_lost` is the number of rows in unreadable commits.
#[allow(clippy::too_many_arguments)]
fn fill(
    from: &Arc<dyn Store>,
    to: &Core,
    snapshot: &Snapshot,
    mut writer: Writer,
    rows_lost: u64,
    report: &mut SalvageReport,
    cancel: &Cancel,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<()> {
    copy_objects(from, to, snapshot, &mut report.notes)?;
    let directory = snapshot.view.runs.directory(&snapshot.core, cancel)?;
    let runs: Vec<Arc<Run<Location>>> = directory.runs().cloned().collect();
    let mut pages = PageLedger::default();
    let (damaged, steps) = look(snapshot, &runs, &mut pages, report, cancel)?;
    let recovered = match damaged.is_empty() {
        true => Vec::new(),
        false => recover(snapshot, &damaged, &mut pages, cancel).map_err(undecided)?,
    };
    report.rows_recovered = recovered.iter().map(|batch| batch.num_rows() as u64).sum();
    let lost: u64 = report.losses.iter().map(|loss| loss.rows).sum();
    let total = directory.rows() - lost.min(directory.rows()) + report.rows_recovered;
    let steps: BTreeSet<i64> =
        steps.into_iter().chain(recovered.iter().flat_map(|batch| steps_of(snapshot, batch))).collect();
    let mut thinned = snapshot.view.history.thinned();
    let steps: BTreeSet<i64> = steps.into_iter().chain(thinned.keys().copied()).collect();
    for step in steps {
        let mut pass = Pass { step, pages: &mut pages, writer: &mut writer, cancel };
        for run in &runs {
            report.rows += pass.take_run(snapshot, run)?;
            progress(report.rows, total);
        }
        for batch in &recovered {
            report.rows += pass.take(snapshot, batch)?;
        }
        let step = Some(step).filter(|step| *step != NO_STEP);
        let options = CommitOptions { step, token: None };
        match step.and_then(|step| thinned.remove(&step)) {
            Some(thinned) => writer.commit_thinned(&options, thinned)?,
            None => writer.commit_as(&options)?,
        };
        progress(report.rows, total);
    }
    report.rows_lost = lost.saturating_sub(report.rows_recovered) + rows_lost;
    let committed = snapshot.view.history.live_rows();
    let known = directory.rows();
    if committed != known {
        // Rows of an unreadable commit may be in a readable rewrite, and rows of a readable commit in an unreadable
        // rewrite.
        let rewritten = known.saturating_sub(committed).min(rows_lost);
        report.rows_lost = report.rows_lost - rewritten + committed.saturating_sub(known);
        report.notes.push(format!("the readable commits count {committed} records, the live runs {known}"));
    }
    Ok(())
}

fn begin(to: Arc<dyn Store>, known: &Snapshot, options: &WriterOptions) -> Result<(Unfinished, Writer)> {
    let core = &known.core;
    let mut header = core.header.clone();
    header.id = fresh_id();
    if header.identity.is_empty() {
        // Without an identity, the writer tag decides priorities, so a new tag distinguishes later rows from the
        // salvaged ones.
        header.writer_tag = format!("{}:", unix_ms());
    }
    let names: Vec<&str> = header.dimensions.iter().map(|dimension| dimension.column.as_str()).collect();
    let schema = TableSchema::from_names(&core.created.user, &names, &header.identity, &header.lookup)?
        .sampled(&header.sampling)?;
    Unfinished::begin(to, header, schema, options)
}

fn copy_objects(from: &Arc<dyn Store>, to: &Core, known: &Snapshot, notes: &mut Vec<String>) -> Result<()> {
    let (mut copied, mut chain, to) = (0, Chain::of_alterations(&to.header.id), &to.store);
    for name in (1..=known.view.schema.version).map(alteration::name_of) {
        let missing = || store_error(kubist_store::Error::Missing { file: format!("{}/{name}", from.location()) });
        let bytes = from.get(&name).map_err(store_error)?.ok_or_else(missing)?;
        let (_, alteration) =
            Alteration::decode(&bytes).map_err(|error| bad_entry(from.location(), &name, 0, error))?;
        if !matches!(alteration, Alteration::Writers(_)) {
            copied += 1;
            let bytes = alteration.encode(chain)?;
            chain = Chain::after_entry(&bytes);
            to.put_if_absent(&alteration::name_of(copied), &bytes).map_err(store_error)?;
        }
    }
    // Without a valid grid the new table computes its own.
    let core = Core::with_header(from.clone())?;
    let grid = core.frame(&core.created, 0).and_then(|frame| {
        let bytes = frame.map(|_| from.get(GRID).map_err(store_error)).transpose()?;
        Ok(bytes.flatten())
    });
    match grid {
        Ok(Some(bytes)) => drop(to.put_if_absent(GRID, &bytes).map_err(store_error)?),
        Ok(None) => {}
        Err(error) if !is_damage(&error) => return Err(undecided(error)),
        Err(error) => notes.push(format!("{error}: the grid is made anew, and replicas cannot help")),
    }
    Ok(())
}

/// Reads every run once, reports the losses, and returns the damaged runs and all steps.
fn look(
    snapshot: &Snapshot,
    runs: &[Arc<Run<Location>>],
    pages: &mut PageLedger,
    report: &mut SalvageReport,
    cancel: &Cancel,
) -> Result<(HashSet<RunId>, BTreeSet<i64>)> {
    let (mut damaged, mut steps) = (HashSet::new(), BTreeSet::new());
    for run in runs {
        cancel.check()?;
        let sound = pages.read_whole(snapshot, run)?;
        if let Some((more, what)) = sound.map.as_ref().and_then(|map| unknown_columns(snapshot, run, map))
            && report.alterations_lost < more
        {
            report.alterations_lost = more;
            report.notes.push(format!("{what}: the values of columns that it added are lost"));
        }
        for lost in &sound.lost {
            damaged.insert(run.id);
            report.losses.push(loss(snapshot, run, sound.map.as_deref(), lost)?);
        }
        for batch in sound.batches() {
            steps.extend(steps_of(snapshot, batch));
        }
    }
    Ok((damaged, steps))
}

fn steps_of(snapshot: &Snapshot, batch: &RecordBatch) -> BTreeSet<i64> {
    let column = batch.column(snapshot.view.schema.step()).as_primitive::<Int64Type>();
    column.values().iter().copied().collect()
}

impl Pass<'_> {
    fn take_run(&mut self, snapshot: &Snapshot, run: &Arc<Run<Location>>) -> Result<u64> {
        self.cancel.check()?;
        // Skips the run if its zone map excludes the step.
        if let Ok((maps, _)) = snapshot.zone_maps(std::iter::once(run), true) {
            let (key, zones) = (self.step.key(), &maps[0].columns[snapshot.view.schema.step()]);
            if !zones.min.iter().zip(&zones.max).any(|(min, max)| *min <= key && key <= *max) {
                return Ok(0);
            }
        }
        let mut taken = 0;
        for batch in self.pages.read_whole(snapshot, run)?.batches() {
            taken += self.take(snapshot, batch)?;
        }
        Ok(taken)
    }

    fn take(&mut self, snapshot: &Snapshot, batch: &RecordBatch) -> Result<u64> {
        let steps = batch.column(snapshot.view.schema.step()).as_primitive::<Int64Type>();
        let of_step: BooleanArray = steps.values().iter().map(|step| Some(*step == self.step)).collect();
        let rows = filter_record_batch(batch, &of_step).map_err(Error::kernel)?;
        let taken = rows.num_rows() as u64;
        if taken > 0 {
            self.writer.keep(rows)?;
        }
        Ok(taken)
    }
}
