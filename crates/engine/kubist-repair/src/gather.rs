//! Reads the metadata of a damaged table as far as possible.

use kubist_store::StoreExt;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use kubist_index::state::{RunId, State};

use kubist_catalog::checkpoint::{self, LoadedCheckpoint};
use kubist_catalog::core::Core;
use kubist_catalog::directory::{Directory, Runs};
use kubist_catalog::error::{bad_entry, is_damage, store_error};
use kubist_catalog::proven_positions::{self, ProvenPositions};
use kubist_catalog::schema::TableSchema;
use kubist_catalog::snapshot::Snapshot;
use kubist_catalog::view::View;
use kubist_format::alteration;
use kubist_format::alteration::Alteration;
use kubist_format::entry::{self, CommitEntry, RewriteEntry};
use kubist_format::error::EntryError;
use kubist_format::history::History;
use kubist_format::location::{Location, Origin};
use kubist_format::names::{ALTERATIONS, CHECKPOINTS, REWRITES, number_of};
use kubist_types::Cancel;
use kubist_types::error::{Error, Result};

/// Row counts above this are taken as damaged.
const MOST_ROWS: u64 = 1 << 40;

#[derive(Debug, Default)]
pub struct Gaps {
    pub notes: Vec<String>,
    /// Number of lost commits, with the unreadable entries that can be counted.
    pub commits: u64,
    pub rows: u64,
    /// The loss may be larger than `commits` and `rows`.
    pub uncounted: bool,
    pub alterations: u64,
}

/// Returns a snapshot from the readable metadata.
///
/// # Errors
///
/// `Cancelled`, or a storage error that remains after several attempts. Damage is noted in `gaps`.
pub fn snapshot(core: &Arc<Core>, gaps: &mut Gaps, cancel: &Cancel) -> Result<Snapshot> {
    cancel.check()?;
    let at_work = proven_positions::at_work(core)?;
    let (mut state, mut history, proven) = newest_checkpoint(core, gaps, cancel)?;
    let logs = core.store.logs().map_err(store_error)?;
    let gone = proven.writers().filter(|writer| !logs.iter().any(|log| log == writer));
    for error in gone.filter_map(|writer| proven.shortfall(core, writer, None)) {
        gaps.notes.push(error.to_string());
        gaps.uncounted = true;
    }
    let mut unacknowledged = BTreeSet::new();
    for writer in &logs {
        cancel.check()?;
        let end = follow(core, writer, &mut state, &mut history, gaps, cancel)?;
        if let Some(error) = proven.shortfall(core, writer, Some(end)) {
            gaps.notes.push(error.to_string());
            gaps.uncounted = true;
        } else if state.position(writer) == 0 && is_unacknowledged(core, writer)? {
            unacknowledged.insert(writer.clone());
        }
    }
    let expected = |writer: &str| logs.iter().any(|log| log == writer) || proven.position(writer) == 0;
    let at_work = at_work.into_iter().filter(|(writer, _)| expected(writer)).collect();
    for error in proven_positions::without_log(core, &at_work, &logs, &unacknowledged) {
        gaps.notes.push(error.to_string());
        gaps.uncounted = true;
    }
    follow_rewrites(core, &mut state, &mut history, gaps, cancel)?;
    let runs = Runs::new(None, Directory::new(core.forest(), &state), Default::default());
    let view = View::new(schema(core, gaps)?, runs, history, &state);
    Ok(Snapshot::new(core.clone(), Arc::new(view)).partial())
}

fn is_unacknowledged(core: &Core, writer: &str) -> Result<bool> {
    match core.store.read_log(writer, 0).map_err(store_error) {
        Err(error) if is_damage(&error) => Ok(false),
        read => read.map(|read| read.durable == 0 && read.next > 0),
    }
}

/// The schema after all alterations before the first missing or unreadable one.
fn schema(core: &Core, gaps: &mut Gaps) -> Result<Arc<TableSchema>> {
    let numbers = core.store.list(ALTERATIONS).map_err(store_error)?;
    let last = numbers.iter().map(|name| number_of(name)).max().unwrap_or(0);
    let mut schema = core.created.clone();
    while schema.version < last {
        let name = alteration::name_of(schema.version + 1);
        let altered = read_alteration(core, &name)?.and_then(|alteration| {
            let bad = |error: Error| bad_entry(core.store.location(), &name, 0, EntryError::Bad(error.to_string()));
            schema.with_alteration(&alteration).map_err(|error| bad(error).to_string())
        });
        match altered {
            Ok(next) => schema = Arc::new(next),
            Err(wrong) => {
                gaps.alterations = last - schema.version;
                gaps.notes.push(format!(
                    "{wrong}: what it and the {} alterations behind it say is not known; the values of columns that \
                     they added are lost",
                    gaps.alterations - 1
                ));
                break;
            }
        }
    }
    Ok(schema)
}

fn read_alteration(core: &Core, name: &str) -> Result<std::result::Result<Alteration, String>> {
    let bytes = match object(core, name)? {
        Ok(bytes) => bytes,
        Err(wrong) => return Ok(Err(wrong)),
    };
    or_wrong(Alteration::decode(&bytes).map(|(_, alteration)| alteration), |error| {
        bad_entry(core.store.location(), name, 0, error)
    })
}

/// `Ok(Err(_))` describes the damage or absence of the object.
fn object(core: &Core, name: &str) -> Result<std::result::Result<Bytes, String>> {
    match core.store.get(name).map_err(store_error) {
        Ok(Some(bytes)) => Ok(Ok(bytes)),
        Ok(None) => Ok(Err(format!("{}/{name} is missing", core.store.location()))),
        Err(error) if is_damage(&error) => Ok(Err(error.to_string())),
        Err(error) => Err(error),
    }
}

/// Separates damage from other errors, where an object of a newer Kubist ends the repair with an error.
fn or_wrong<T>(
    decoded: std::result::Result<T, EntryError>,
    told: impl FnOnce(EntryError) -> Error,
) -> Result<std::result::Result<T, String>> {
    match decoded {
        Ok(value) => Ok(Ok(value)),
        Err(error @ EntryError::Newer(_)) => Err(told(error)),
        Err(error @ EntryError::Bad(_)) => Ok(Err(told(error).to_string())),
    }
}

/// Returns the newest readable checkpoint, or the empty state, and the log positions that it proves. If rewrites were
/// cleaned, the logs alone cannot rebuild the table, so a partly readable checkpoint is used.
fn newest_checkpoint(
    core: &Core,
    gaps: &mut Gaps,
    cancel: &Cancel,
) -> Result<(State<Location>, History, ProvenPositions)> {
    let mut in_part = None;
    for name in core.store.list(CHECKPOINTS).map_err(store_error)?.iter().rev() {
        let wrong = match checkpoint::read(core, name) {
            Ok(None) => continue,
            Ok(Some(held)) => match held.whole(core, cancel) {
                Ok(state) => return Ok((state, held.history.clone(), held.proven())),
                Err(error) => {
                    in_part.get_or_insert(held);
                    error
                }
            },
            Err(error) => error,
        };
        match is_damage(&wrong) {
            true => gaps.notes.push(format!("{wrong}: an older one is used, or the logs alone")),
            false => return Err(wrong),
        }
    }
    let first = core.store.list(REWRITES).map_err(store_error)?.iter().map(|name| number_of(name)).min();
    let leads_on = |held: &LoadedCheckpoint| held.state.rewrites() == 0 || first == Some(1);
    let Some(held) = in_part.filter(|held| !leads_on(held)) else { return Ok(Default::default()) };
    let (state, lost) = held.readable_state(core, cancel)?;
    gaps.notes.push(format!(
        "{lost} runs are on pages of the list of runs that cannot be read, and the rewrites that led to them were cleaned \
         away: their rows are lost"
    ));
    Ok((state, held.history.clone(), held.proven()))
}

fn follow(
    core: &Core,
    writer: &str,
    state: &mut State<Location>,
    history: &mut History,
    gaps: &mut Gaps,
    cancel: &Cancel,
) -> Result<u64> {
    let known = state.position(writer);
    let found = core.store.read_sound_log(writer, known).map_err(store_error)?;
    let whole = found.entries.into_iter().map(|entry| (entry.position, entry.bytes, true));
    let broken = found.broken.into_iter().map(|entry| (entry.position, entry.bytes, false));
    let mut entries: Vec<(u64, Bytes, bool)> = whole.chain(broken).collect();
    entries.sort_by_key(|(position, ..)| *position);
    let ends: Vec<u64> = entries.iter().skip(1).map(|(position, ..)| *position).chain([found.next]).collect();
    let commits = |history: &History| history.writers.get(writer).map_or(0, |progress| progress.commits);
    let (mut wrong, mut unread) = (found.damage.map(|error| store_error(error).to_string()), Vec::new());
    for ((position, bytes, is_whole), after) in entries.into_iter().zip(ends) {
        cancel.check()?;
        let name = format!("log of {writer}");
        let bad = |error| bad_entry(core.store.location(), &name, position, error);
        let entry = match core.decoded(|forest| CommitEntry::decode(&bytes, forest)) {
            // The bytes of an entry with a wrong checksum may look like any kind or version.
            Err(_) if !is_whole => None,
            decoded => or_wrong(decoded, bad)?.ok(),
        };
        let entry = entry.filter(|entry| match is_whole {
            true => entry.sequence > commits(history),
            false => entry.sequence == commits(history) + 1 && bears_out(writer, entry),
        });
        let Some(mut entry) = entry else {
            unread.push(bytes);
            let nonsense =
                || format!("the log of {writer} in {} makes no sense at position {position}", core.store.location());
            wrong.get_or_insert_with(nonsense);
            continue;
        };
        gaps.miss(&mut unread, commits(history), Some(entry.sequence));
        history.commit(writer, (position, after), &entry, &bytes);
        let step = entry.step.map(|mark| mark.step);
        let origin = Arc::new(Origin { writer: writer.into(), position: after, step });
        for run in &mut entry.commit.runs {
            Arc::make_mut(run).payload.origin = Some(origin.clone());
        }
        state.commit(writer, after, entry.commit);
    }
    if let Some(wrong) = wrong {
        gaps.miss(&mut unread, commits(history), None);
        gaps.notes.push(format!(
            "{wrong}: {} commits of writer {writer:?} are known; the rows of those that cannot be read are here only if \
             they were rewritten",
            commits(history)
        ));
    }
    Ok(found.next)
}

/// Whether an entry with a wrong checksum is plausible: its run ids match its sequence number, and the rows of its runs
/// add up. The locations of the runs are checked when they are read.
fn bears_out(writer: &str, entry: &CommitEntry) -> bool {
    let id = |index: usize| RunId::new(Core::origin(writer), entry.sequence, index as u32);
    let runs = &entry.commit.runs;
    runs.iter().enumerate().all(|(index, run)| run.id == id(index) && run.copies.is_empty())
        && runs.iter().try_fold(0u64, |rows, run| rows.checked_add(run.rows)) == Some(entry.rows)
}

impl Gaps {
    /// Counts the unreadable entries between the first `before` commits and the readable commit number `next`.
    fn miss(&mut self, unread: &mut Vec<Bytes>, before: u64, next: Option<u64>) {
        let between = next.map(|next| next - before - 1);
        let missing = between.unwrap_or(unread.len() as u64);
        self.commits += missing;
        let mut counted = 0;
        for (index, bytes) in unread.drain(..).enumerate() {
            // The head of an entry has kind, sequence number and rows.
            let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
            if bytes.first() == Some(&entry::COMMIT)
                && word(1) == Some(before + 1 + index as u64)
                && let Some(rows) = word(9).filter(|rows| *rows < MOST_ROWS)
            {
                (self.rows, counted) = (self.rows.saturating_add(rows), counted + 1);
            }
        }
        self.uncounted |= counted < missing;
    }
}

/// Applies rewrites up to the first unreadable one, because later ones replace unknown runs. All rows are then still in
/// the older runs, unless these were cleaned.
fn follow_rewrites(
    core: &Core,
    state: &mut State<Location>,
    history: &mut History,
    gaps: &mut Gaps,
    cancel: &Cancel,
) -> Result<()> {
    let names = core.store.list(REWRITES).map_err(store_error)?;
    let names: BTreeMap<u64, String> = names.into_iter().map(|name| (number_of(&name), name)).collect();
    let mut behind = BTreeSet::new();
    let Some(last) = names.keys().next_back().copied() else { return Ok(()) };
    for number in state.rewrites() + 1..=last {
        cancel.check()?;
        let entry = match names.get(&number) {
            None => Err(format!("{}/{REWRITES}{number:020} is missing", core.store.location())),
            Some(name) => read_rewrite(core, name)?,
        };
        let mut entry = match entry {
            Ok(entry) => entry,
            Err(wrong) => {
                gaps.notes.push(format!(
                    "{wrong}: the state before it is taken, which holds all rows that were committed; of the {} \
                     rewrites from there on, steps that were taken back are back again, and rows of files that were \
                     cleaned away since are lost",
                    last + 1 - number
                ));
                return Ok(());
            }
        };
        if let Some(after) = entry.retract_after {
            history.retract(after, &entry.rewrite.needs);
        }
        // The rewrite has read more of a log than is readable, but its own rows are intact.
        for (writer, needed) in std::mem::take(&mut entry.rewrite.needs) {
            if state.position(&writer) < needed && behind.insert(writer.clone()) {
                gaps.uncounted = true;
                gaps.notes.push(format!(
                    "the log of writer {writer:?} is not known as far as rewrite {number} had read it: commits that \
                     were not rewritten are lost"
                ));
            }
        }
        state.rewrite(number, entry.rewrite).map_err(Error::internal)?;
    }
    Ok(())
}

fn read_rewrite(core: &Core, name: &str) -> Result<std::result::Result<RewriteEntry, String>> {
    let bytes = match object(core, name)? {
        Ok(bytes) => bytes,
        Err(wrong) => return Ok(Err(wrong)),
    };
    or_wrong(core.decoded(|forest| RewriteEntry::decode(&bytes, forest)), |error| {
        bad_entry(core.store.location(), name, 0, error)
    })
}
