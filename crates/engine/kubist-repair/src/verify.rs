//! Looking whether a table is sound.
//!
//! The quick look reads what leads to the rows: header, grid, logs, rewrites,
//! checkpoints, all zone maps and lookups, and sees that every live run's segment is there
//! and long enough, and that its ranges are those of its zone map. The deep one also reads
//! every page and recomputes what should hold: each row's cube, priority and zone from its
//! values, each zone map exactly (I1, I2), cutoffs (I3), that each replica holds the rows
//! of the runs that it names inside its cube, no more and no less (I4), and that lookups
//! name the zones that hold a value, these and no others. Findings are listed, with what
//! each damaged location costs; nothing is changed.
//!
//! A finding is damage. What could not be read for another reason is tried again (`patient`)
//! and then listed apart: nothing is known of it.

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
use crate::readable::{Loss, Lost, Sound, Unread, loss, unknown_columns};
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
use walk::{Placed, Seen, Waiting, length};

/// How thoroughly [`verify`] looks.
#[derive(Clone, Debug, Default)]
pub struct VerifyOptions {
    /// Read every page, not only what leads to them.
    pub deep: bool,
    pub cancel: Cancel,
}

impl VerifyOptions {
    pub fn deep() -> VerifyOptions {
        VerifyOptions { deep: true, ..VerifyOptions::default() }
    }
}

/// What [`verify`] saw.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct VerifyReport {
    /// Every page was read.
    pub deep: bool,
    /// In live runs; in a deep look, such as were read.
    pub rows: u64,
    pub runs: u64,
    pub replicas: u64,
    pub pages: u64,
    /// Read and checked.
    pub bytes: u64,
    /// Rows that cannot be read, and how many of those replicas still hold (known
    /// from a deep look only).
    pub rows_lost: u64,
    pub rows_recoverable: u64,
    /// What each damaged location costs.
    pub losses: Vec<Loss>,
    /// One line for each thing that is wrong; empty if the table is sound, as far as it
    /// could be read.
    pub findings: Vec<String>,
    /// Rows that could not be read because the storage failed or did not answer: they may be
    /// sound.
    pub rows_unread: u64,
    /// One line for each thing that could not be read, and why; the same again may succeed.
    pub unread: Vec<String>,
}

/// Findings beyond this number are only counted.
const MOST_FINDINGS: usize = 100;
/// The number of things that could not be read after which verifying ends.
const MOST_UNREAD: usize = 100;
const NOT_LOOKED_AT: &str = "the rest was not looked at";

impl VerifyReport {
    /// Everything could be read, and nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty() && self.unread.is_empty()
    }

    /// Notes what could not be read.
    fn miss(&mut self, what: String) {
        if self.unread.len() < MOST_UNREAD && !self.unread.contains(&what) {
            self.unread.push(what);
        }
    }

    /// Notes rows that could not be read; those of a replica are in its sources.
    fn miss_rows(&mut self, run: &Run<Location>, unread: &Unread) {
        self.rows_unread += if run.is_replica() { 0 } else { unread.rows };
        self.miss(format!(
            "{}: {} records could not be read (cube {:#x})",
            unread.error,
            unread.rows,
            run.cube.to_u128()
        ));
    }

    /// Damage is a finding, what could not be read is listed apart; anything else is an error.
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

    /// Notes rows that cannot be read; those of a replica are still in its sources.
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

/// [`verify`] for the table at a location, of which only the header must be
/// readable.
///
/// # Errors
///
/// `NotATable` if there is none; as of [`verify`].
pub fn verify_at(
    location: &TableLocation,
    options: &VerifyOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<VerifyReport> {
    verify_in(location.store()?, None, options, progress)
}

/// Looks whether the table is sound and lists what is wrong; calls
/// `progress(done, total)` with bytes as it goes on. An error means that the
/// check itself could not be done, not that the table is damaged.
///
/// A table that is too damaged to be opened: [`verify_at`].
///
/// # Errors
///
/// `Cancelled`; `NotATable`; `Replaced`; `Newer`; `Unavailable` if the list of what to check cannot be read;
/// `SnapshotExpired` if pages of it were cleaned away meanwhile.
/// What cannot be read of the rest is in the report.
pub fn verify(core: &Arc<Core>, options: &VerifyOptions, progress: &mut dyn FnMut(u64, u64)) -> Result<VerifyReport> {
    core.check_process()?;
    // Of the handle's table, and not of another that is at its location now.
    if let Err(error @ Error::Replaced { .. }) = core.view(&options.cancel) {
        return Err(error);
    }
    verify_in(core.store.clone(), Some(core.runs_in_memory()), options, progress)
}

/// The same for the table in a store, of which only the header must be readable; with a list of no more runs in memory
/// than a handle has, if there is one.
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
        // A cancelled call does not try again: the error is that of the last try.
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
        // It cannot be opened, which was found; the rest of it is looked at all the same.
        None => match gathered(&mut report) {
            Err(error) if is_damage(&error) || matches!(error, Error::NotATable { .. }) => return Ok(report),
            snapshot => snapshot.map_err(undecided)?,
        },
    };
    let seen = match Seen::of(&snapshot, options, &mut report) {
        // The list of runs is damaged, which was found. The logs, or an older list, say the same.
        Err(error) if is_damage(&error) => {
            snapshot = gathered(&mut report)?;
            Seen::of(&snapshot, options, &mut report)?
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
        // The rest of the list is of no use then.
        if looking.is_whole { Ok(()) } else { Err(Error::Cancelled) }
    });
    match walked.and_then(|()| looking.look(&waiting.runs, &mut report, progress, total)) {
        Ok(()) => {}
        Err(_) if !looking.is_whole => options.cancel.check()?,
        // A page of the list that could be read before.
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

/// A look at all runs, some at a time.
struct Looking<'a> {
    snapshot: &'a Snapshot,
    options: &'a VerifyOptions,
    absent: HashSet<Arc<str>>,
    postings: Postings,
    ledger: Ledger,
    damaged: HashSet<RunId>,
    pages: PageLedger,
    /// Nothing was left out, because too much could not be read.
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
                let judge = |index: usize, sound: &Sound| {
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

/// Is a run gone with its segment, which was not there?
fn is_missing(snapshot: &Snapshot, run: &Arc<Run<Location>>, report: &mut VerifyReport) -> Result<bool> {
    // Its zone map may be in memory.
    let first = 0..run.payload.data_length.min(1);
    let read = snapshot.zone_maps(std::iter::once(run), true).and_then(|_| runs::data(snapshot, run, first));
    let why = match read {
        Err(error) if is_damage(&error) => error.to_string(),
        // It is looked at again with its rows.
        Err(error) if is_unread(&error) => return Ok(false),
        // It was cleaned away while this was at work.
        Err(error) => return Err(error),
        // It was not seen yet.
        Ok(_) => return Ok(false),
    };
    let lost = Lost { rows: run.rows, zones: None, why };
    report.lose(run, loss(snapshot, run, None, &lost)?);
    Ok(true)
}

/// Reads zone maps, in one go if all are sound; each run must end inside its segment.
/// Those of which that is not so, or not known.
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
        report.lose(run, loss(snapshot, run, None, &Lost { rows: run.rows, zones: None, why })?);
        left_out.push(run.id);
    }
    Ok(left_out)
}

/// Are the columns of the run known, and does its entry say of each what the zone map does?
fn check_columns(snapshot: &Snapshot, run: &Run<Location>, map: &ZoneMap, report: &mut VerifyReport) {
    if let Some((_, what)) = unknown_columns(snapshot, run, map) {
        report.find(what);
    }
    let Some(ranges) = &run.payload.ranges else { return };
    let known = snapshot.view.schema.stored.fields().len();
    let stated = (0..map.columns.len().min(known)).filter_map(|column| Some((column, ranges.zone(column)?)));
    for (column, _) in stated.filter(|(column, stated)| *stated != map.whole(*column)) {
        let name = snapshot.view.schema.stored.field(column).name();
        let what = format!("its entry says other ends or nulls of column {name:?} than its zone map");
        report.find(runs::damaged(snapshot, run, 0, what).to_string());
    }
}
