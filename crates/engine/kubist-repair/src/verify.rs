//! Checks a table for damage.
//!
//! The quick check reads the metadata: header, grid, logs, rewrites, checkpoints, zone maps and secondary indexes. It
//! compares cutoffs with the entries that set them (I3), and the column bounds in each run's entry with its zone map.
//!
//! The deep check also reads every page. From the values, it recomputes all zone maps, and for each row the cube, the
//! priority and the zone (I1, I2). It compares each replica with the rows of its source runs inside its cube (I4), and
//! each secondary index with the zones that contain a value.

mod entries;
mod lookups;
mod replicas;
mod rows;
mod walk;

use std::collections::HashSet;
use std::sync::Arc;

use kubist_index::state::{Run, RunId};
use kubist_store::Store;

use crate::gather::{self, Gaps};
use crate::ledger::{PageLedger, undecided};
use crate::patient::Patient;
use crate::readable::{Loss, LostRows, Unread, ValidRows, loss, unknown_columns};
use crate::recover::recover;
use kubist_catalog::core::Core;
use kubist_catalog::error::{is_damage, is_unread, store_error};
use kubist_catalog::location::TableLocation;
use kubist_catalog::snapshot::Snapshot;
use kubist_format::location::Location;
use kubist_format::zone_map::ZoneMap;
use kubist_read::runs;
use kubist_types::cancel::Cancel;
use kubist_types::error::{Error, Result};

use lookups::Postings;
use replicas::Ledger;
use walk::{Placed, Waiting, WalkFindings, length};

#[derive(Clone, Debug, Default)]
pub struct VerifyOptions {
    /// Reads every page, not only the metadata.
    pub deep: bool,
    pub cancel: Cancel,
}

impl VerifyOptions {
    pub fn deep() -> VerifyOptions {
        VerifyOptions { deep: true, ..VerifyOptions::default() }
    }
}

#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct VerifyReport {
    /// True if every page was to be read.
    pub deep: bool,
    /// Rows in live primary runs; after a deep check, only the rows that were read.
    pub rows: u64,
    pub runs: u64,
    pub replicas: u64,
    pub pages: u64,
    pub bytes: u64,
    /// Damaged rows; replicas or replaced runs still contain `rows_recoverable` rows. Deep check only.
    pub rows_lost: u64,
    pub rows_recoverable: u64,
    pub losses: Vec<Loss>,
    /// One line for each problem; empty if everything readable is intact.
    pub findings: Vec<String>,
    /// Rows that could not be read and may be intact.
    pub rows_unread: u64,
    /// One line for each failed read with its cause.
    pub unread: Vec<String>,
}

/// Limit of findings; one more line says that there are more.
const MOST_FINDINGS: usize = 100;
const MOST_UNREAD: usize = 100;
const NOT_LOOKED_AT: &str = "the rest was not looked at";

impl VerifyReport {
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty() && self.unread.is_empty()
    }

    fn miss(&mut self, what: String) {
        if self.unread.len() < MOST_UNREAD && !self.unread.contains(&what) {
            self.unread.push(what);
        }
    }

    /// Counts unread rows. Replicas do not count, because their source runs contain these rows too.
    fn miss_rows(&mut self, run: &Run<Location>, unread: &Unread) {
        self.rows_unread += if run.is_replica() { 0 } else { unread.rows };
        self.miss(format!(
            "{}: {} records could not be read (cube {:#x})",
            unread.error,
            unread.rows,
            run.cube.to_u128()
        ));
    }

    /// Records damage as a finding, and a failed read as unread; returns other errors.
    fn note(&mut self, error: Error) -> Result<()> {
        match error {
            damage if is_damage(&damage) => self.find(damage.to_string()),
            unread if is_unread(&unread) => self.miss(unread.to_string()),
            other => return Err(other),
        }
        Ok(())
    }

    fn find(&mut self, what: String) {
        match self.findings.len() {
            MOST_FINDINGS => self.findings.push("there are more findings".into()),
            more if more > MOST_FINDINGS => {}
            _ if self.findings.contains(&what) => {}
            _ => self.findings.push(what),
        }
    }

    /// Records a loss. A damaged replica loses no row, because its source runs contain the rows too.
    fn lose(&mut self, run: &Run<Location>, loss: Loss) {
        if run.is_replica() {
            return self.find(format!("{}: costs no row, for it holds copies", loss.what));
        }
        self.find(loss.message());
        self.rows_lost += loss.rows;
        if self.losses.len() < MOST_FINDINGS {
            self.losses.push(loss);
        }
    }
}

/// [`verify`] for the table at a location. Only the header must be readable.
///
/// # Errors
///
/// `NotATable` if there is no table; the errors of [`verify`].
pub fn verify_at(
    location: &TableLocation,
    options: &VerifyOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<VerifyReport> {
    verify_in(location.store()?, None, options, progress)
}

/// Checks the table for damage and calls `progress(done, total)` in bytes. An error means that the check could not run,
/// not that the table is damaged. For a table that is too damaged to open, use [`verify_at`].
///
/// # Errors
///
/// `Cancelled`; `NotATable`; `Replaced`; `Newer`; `Unavailable` if the manifest cannot be read; `SnapshotExpired` if
/// some of its pages were cleaned away during the check. Other failed reads are in the report.
pub fn verify(core: &Arc<Core>, options: &VerifyOptions, progress: &mut dyn FnMut(u64, u64)) -> Result<VerifyReport> {
    core.check_process()?;
    // The table at the location must still be the opened one.
    if let Err(error @ Error::Replaced { .. }) = core.view(&options.cancel) {
        return Err(error);
    }
    verify_in(core.store.clone(), Some(core.runs_in_memory()), options, progress)
}

/// Checks the table with at most `runs_in_memory` runs of the manifest in memory.
fn verify_in(
    store: Arc<dyn Store>,
    runs_in_memory: Option<u64>,
    options: &VerifyOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<VerifyReport> {
    let core = |store: &Arc<dyn Store>| {
        let core = Core::with_header(store.clone())?;
        runs_in_memory.into_iter().for_each(|runs| core.limit_runs_in_memory(runs));
        Ok(core)
    };
    let seen = verify_patiently(Patient::new(store, &options.cancel), &core, options, progress);
    if seen.is_err() {
        // After a cancellation `Patient` returns the last error.
        options.cancel.check()?;
    }
    seen
}

fn verify_patiently(
    store: Arc<dyn Store>,
    core: &dyn Fn(&Arc<dyn Store>) -> Result<Arc<Core>>,
    options: &VerifyOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<VerifyReport> {
    let mut report = VerifyReport { deep: options.deep, ..VerifyReport::default() };
    let gathered = |report: &mut VerifyReport| {
        let mut gaps = Gaps::default();
        let snapshot = gather::snapshot(&core(&store)?, &mut gaps, &options.cancel)?;
        gaps.notes.into_iter().for_each(|note| report.find(note));
        report.rows_lost += gaps.rows;
        Ok(snapshot)
    };
    let mut snapshot = match entries::check(core(&store), &mut report, &options.cancel)? {
        Some(snapshot) => snapshot.partial(),
        // `entries::check` has reported the reason. The readable rest is checked too.
        None => match gathered(&mut report) {
            Err(error) if is_damage(&error) || matches!(error, Error::NotATable { .. }) => return Ok(report),
            snapshot => snapshot.map_err(undecided)?,
        },
    };
    let seen = match WalkFindings::of(&snapshot, options, &mut report) {
        // This has been reported. The logs or an older checkpoint list the same runs.
        Err(error) if is_damage(&error) => {
            snapshot = gathered(&mut report)?;
            WalkFindings::of(&snapshot, options, &mut report)?
        }
        seen => seen?,
    };
    let total = seen.bytes + seen.lookups.values().map(|lookup| lookup.length()).sum::<u64>();
    let sources = match seen.sources(&snapshot, &options.cancel) {
        Err(error) if is_unread(&error) => {
            report.miss(error.to_string());
            report.unread.push(NOT_LOOKED_AT.into());
            return Ok(report);
        }
        sources => sources?,
    };
    let postings = Postings::read(&snapshot, &seen.lookups, &options.cancel, &mut report)?;
    let ledger = Ledger::new(&snapshot, seen.replicas, &sources, &mut report);
    let mut looking = Looking {
        snapshot: &snapshot,
        options,
        absent: seen.absent,
        postings,
        ledger,
        damaged: HashSet::new(),
        pages: PageLedger::default(),
        is_whole: true,
    };
    let (mut waiting, forest) = (Waiting::default(), snapshot.core.forest());
    let walked = snapshot.view.runs.each_in_order(&snapshot.core, &options.cancel, |entry| {
        let some = waiting.take(&forest, entry, options.deep);
        looking.look(&some, &mut report, progress, total)?;
        if looking.is_whole { Ok(()) } else { Err(Error::Cancelled) }
    });
    match walked.and_then(|()| looking.look(&waiting.runs, &mut report, progress, total)) {
        Ok(()) => {}
        Err(_) if !looking.is_whole => options.cancel.check()?,
        // This page was readable in the first pass.
        Err(error) => {
            report.note(error)?;
            looking.is_whole = false;
        }
    }
    let Looking { ledger, damaged, mut pages, is_whole, .. } = looking;
    if !is_whole {
        report.unread.push(NOT_LOOKED_AT.into());
    } else if options.deep {
        ledger.close(&snapshot, &mut report);
        if report.rows_lost > 0 {
            match recover(&snapshot, &damaged, &mut pages, &options.cancel) {
                Ok(recovered) => report.rows_recoverable = recovered.iter().map(|batch| batch.num_rows() as u64).sum(),
                Err(error) if is_unread(&error) => {
                    report.miss(format!("{error}: how many of the lost records replicas hold is not known"));
                }
                Err(error) => return Err(error),
            }
        }
    }
    let committed: u64 = snapshot.view.history.live_rows();
    if report.unread.is_empty() && committed != report.rows + report.rows_lost {
        report.find(format!("the logs count {committed} records, the runs hold {}", report.rows));
    }
    Ok(report)
}

struct Looking<'a> {
    snapshot: &'a Snapshot,
    options: &'a VerifyOptions,
    absent: HashSet<Arc<str>>,
    postings: Postings,
    ledger: Ledger,
    damaged: HashSet<RunId>,
    pages: PageLedger,
    is_whole: bool,
}

impl Looking<'_> {
    fn look(
        &mut self,
        some: &[Placed],
        report: &mut VerifyReport,
        progress: &mut dyn FnMut(u64, u64),
        total: u64,
    ) -> Result<()> {
        let Looking { snapshot, options, .. } = *self;
        self.is_whole &= some.is_empty() || report.unread.len() < MOST_UNREAD;
        if some.is_empty() || !self.is_whole {
            return Ok(());
        }
        options.cancel.check()?;
        let mut missing = HashSet::new();
        for (run, _) in some.iter().filter(|(run, _)| self.absent.contains(&run.payload.segment)) {
            if is_missing(snapshot, run, report)? {
                missing.insert(run.id);
            }
        }
        self.damaged.extend(&missing);
        let there: Vec<&Placed> = some.iter().filter(|(run, _)| !missing.contains(&run.id)).collect();
        let runs: Vec<&Arc<Run<Location>>> = there.iter().map(|(run, _)| run).collect();
        let mut looked_at = Vec::new();
        match options.deep {
            false => self.damaged.extend(check_maps(snapshot, &runs, report)?),
            true => {
                let judge = |index: usize, sound: &ValidRows| {
                    options.cancel.check()?;
                    let (run, highest_above) = there[index];
                    rows::judge(snapshot, run, *highest_above, sound)
                };
                looked_at = self.pages.read_all(snapshot, &runs, judge)?;
            }
        }
        let mut looked_at = looked_at.into_iter();
        for (run, _) in some {
            options.cancel.check()?;
            if report.unread.len() >= MOST_UNREAD {
                self.is_whole = false;
                break;
            }
            match run.is_replica() {
                true => report.replicas += 1,
                false => report.runs += 1,
            }
            if !options.deep {
                report.rows += if run.is_replica() || self.damaged.contains(&run.id) { 0 } else { run.rows };
            } else if missing.contains(&run.id) {
                self.ledger.lose(run.id);
            } else if let Some((sound, judged)) = looked_at.next() {
                if !sound.lost.is_empty() {
                    self.damaged.insert(run.id);
                } else if !self.ledger.concerns(run) {
                    self.pages.forget(run);
                }
                rows::note(snapshot, run, (&sound, judged), &mut self.ledger, &self.postings, report)?;
            }
            report.bytes += length(run, options.deep);
            progress(report.bytes, total);
        }
        Ok(())
    }
}

/// Whether a segment that was missing in the first pass is still missing.
fn is_missing(snapshot: &Snapshot, run: &Arc<Run<Location>>, report: &mut VerifyReport) -> Result<bool> {
    // The zone map may be cached, so one byte of data is read too.
    let first = 0..run.payload.data_length.min(1);
    let read = snapshot.zone_maps(std::iter::once(run), true).and_then(|_| runs::data(snapshot, run, first));
    let why = match read {
        Err(error) if is_damage(&error) => error.to_string(),
        // The pass over its rows reports the failure.
        Err(error) if is_unread(&error) => return Ok(false),
        Err(error) => return Err(error),
        // The first pass used an older listing.
        Ok(_) => return Ok(false),
    };
    let lost = LostRows { rows: run.rows, zones: None, why };
    report.lose(run, loss(snapshot, run, None, &lost)?);
    Ok(true)
}

/// Reads zone maps, and checks that each run ends inside its segment. Returns the lost or unread runs.
fn check_maps(snapshot: &Snapshot, runs: &[&Arc<Run<Location>>], report: &mut VerifyReport) -> Result<Vec<RunId>> {
    let mut left_out = Vec::new();
    let all = snapshot.zone_maps(runs.iter().copied(), true);
    for (index, run) in runs.iter().copied().enumerate() {
        let map = match &all {
            Ok((maps, _)) => Ok(maps[index].clone()),
            Err(_) => snapshot.zone_maps(std::iter::once(run), true).map(|(mut maps, _)| maps.remove(0)),
        };
        let location = &run.payload;
        let end = (location.data_offset + location.data_length).max(location.map_offset + location.map_length as u64);
        let length = snapshot.core.store.segment_len(&location.segment).map_err(store_error);
        let why = match map.and_then(|map| Ok((map, length?.unwrap_or(0)))) {
            Err(error) if is_damage(&error) => error.to_string(),
            Err(error) if is_unread(&error) => {
                report.miss_rows(run, &Unread { rows: run.rows, error });
                left_out.push(run.id);
                continue;
            }
            Err(error) => return Err(error),
            Ok((_, length)) if length < end => {
                let short = format!("the file ends at byte {length}, before the run does");
                runs::damaged(snapshot, run, length.saturating_sub(location.data_offset), short).to_string()
            }
            Ok((map, _)) => {
                check_columns(snapshot, run, &map, report);
                continue;
            }
        };
        report.lose(run, loss(snapshot, run, None, &LostRows { rows: run.rows, zones: None, why })?);
        left_out.push(run.id);
    }
    Ok(left_out)
}

/// Checks that the table has all columns of the run, and that the run's entry and zone map agree.
fn check_columns(snapshot: &Snapshot, run: &Run<Location>, map: &ZoneMap, report: &mut VerifyReport) {
    if let Some((_, what)) = unknown_columns(snapshot, run, map) {
        report.find(what);
    }
    let Some(ranges) = &run.payload.ranges else { return };
    let known = snapshot.view.schema.stored.fields().len();
    let stated = (0..map.columns.len().min(known)).filter_map(|column| Some((column, ranges.zone(column)?)));
    for (column, _) in stated.filter(|(column, stated)| *stated != map.run_zone(*column)) {
        let name = snapshot.view.schema.stored.field(column).name();
        let what = format!("its entry says other ends or nulls of column {name:?} than its zone map");
        report.find(runs::damaged(snapshot, run, 0, what).to_string());
    }
}
