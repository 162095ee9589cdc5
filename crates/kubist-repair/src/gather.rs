//! The state of a damaged table, as far as it can be known.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubist_index::state::State;

use kubist_catalog::checkpoint;
use kubist_catalog::core::Core;
use kubist_catalog::directory::{Directory, Runs};
use kubist_catalog::error::is_damage;
use kubist_catalog::error::store_error;
use kubist_catalog::schema::TableSchema;
use kubist_catalog::snapshot::Snapshot;
use kubist_catalog::view::View;
use kubist_format::alteration::{self, Alteration};
use kubist_format::entry::{CommitEntry, RewriteEntry};
use kubist_format::history::History;
use kubist_format::location::{Location, Origin};
use kubist_format::names::CHECKPOINTS;
use kubist_format::names::{REWRITES, number_of};
use kubist_types::error::{Error, Result};

/// A snapshot of what can be read; what could not, and what that means, in `notes`.
pub fn snapshot(core: &Arc<Core>, notes: &mut Vec<String>) -> Result<Snapshot> {
    let (mut state, mut history) = newest_checkpoint(core, notes)?;
    let logs = core.store.logs().map_err(store_error)?;
    for (writer, _) in
        state.positions().filter(|(writer, position)| *position > 0 && !logs.iter().any(|log| log == writer))
    {
        notes.push(format!("the log of writer {writer:?} is missing: what it held beyond the checkpoint is not known"));
    }
    for writer in logs {
        follow(core, &writer, &mut state, &mut history, notes)?;
    }
    follow_rewrites(core, &mut state, &mut history, notes)?;
    let runs = Runs::new(None, Directory::new(core.geometry, &state), Default::default());
    let view = View::new(schema(core, notes)?, runs, history, &state);
    Ok(Snapshot::new(core.clone(), Arc::new(view)))
}

/// The columns that are known: those of the creation, and of alterations up to the
/// first that cannot be read.
fn schema(core: &Core, notes: &mut Vec<String>) -> Result<Arc<TableSchema>> {
    let mut schema = core.created.clone();
    loop {
        let name = alteration::name_of(schema.version + 1);
        let found = match core.store.get(&name).map_err(store_error) {
            Ok(None) => return Ok(schema),
            Ok(Some(bytes)) => Alteration::decode(&bytes).ok().and_then(|one| schema.altered(&one).ok()),
            Err(error) if is_damage(&error) => None,
            Err(error) => return Err(error),
        };
        let Some(next) = found else {
            notes.push(format!(
                "{}/{name} cannot be read: columns that were added from there on are left out",
                core.store.location()
            ));
            return Ok(schema);
        };
        schema = Arc::new(next);
    }
}

/// The newest checkpoint that can be read, or the beginning.
fn newest_checkpoint(core: &Core, notes: &mut Vec<String>) -> Result<(State<Location>, History)> {
    for name in core.store.list(CHECKPOINTS).map_err(store_error)?.iter().rev() {
        match checkpoint::read(core, name).and_then(|held| held.map(|held| held.whole(core)).transpose()) {
            Ok(Some(held)) => return Ok(held),
            Ok(None) => {}
            Err(error) if is_damage(&error) => notes.push(format!("{error}: an older one is used, or the logs alone")),
            Err(error) => return Err(error),
        }
    }
    Ok(Default::default())
}

/// Reads on in a log, up to the first entry that is not whole or makes no sense.
fn follow(
    core: &Core,
    writer: &str,
    state: &mut State<Location>,
    history: &mut History,
    notes: &mut Vec<String>,
) -> Result<()> {
    let known = state.position(writer);
    let (read, damage) = core.store.read_sound_log(writer, known).map_err(store_error)?;
    let mut wrong = damage.map(|error| store_error(error).to_string());
    for (place, found) in read.entries.iter().enumerate() {
        let after = read.entries.get(place + 1).map_or(read.next, |next| next.position);
        let next = history.writers.get(writer).map_or(0, |progress| progress.commits) + 1;
        let mut entry = match CommitEntry::decode(&found.bytes, &core.geometry) {
            Ok(entry) if entry.sequence == next => entry,
            _ => {
                wrong = Some(format!(
                    "the log of {writer} in {} makes no sense at position {}",
                    core.store.location(),
                    found.position
                ));
                break;
            }
        };
        history.commit(writer, after, &entry);
        let step = entry.step.map(|mark| mark.step);
        let origin = Arc::new(Origin { writer: writer.into(), position: after, step });
        for run in &mut entry.commit.runs {
            Arc::make_mut(run).payload.origin = Some(origin.clone());
        }
        state.commit(writer, after, entry.commit);
    }
    if let Some(wrong) = wrong {
        let held = history.writers.get(writer).map_or(0, |progress| progress.commits);
        notes.push(format!(
            "{wrong}: the first {held} commits of writer {writer:?} are known; how many came after is not, and \
             their rows are here only if they were rewritten"
        ));
    }
    Ok(())
}

/// Applies rewrites in turn. The first that cannot be read ends it: those behind it
/// replace runs that nobody knows, and without them all rows are still there, as
/// long as what they replaced was not cleaned away.
fn follow_rewrites(
    core: &Core,
    state: &mut State<Location>,
    history: &mut History,
    notes: &mut Vec<String>,
) -> Result<()> {
    let names = core.store.list(REWRITES).map_err(store_error)?;
    let names: BTreeMap<u64, String> = names.into_iter().map(|name| (number_of(&name), name)).collect();
    let mut behind = BTreeSet::new();
    let Some(last) = names.keys().next_back().copied() else { return Ok(()) };
    for number in state.rewrites() + 1..=last {
        let entry = match names.get(&number) {
            None => Err(format!("{}/{REWRITES}{number:020} is missing", core.store.location())),
            Some(name) => read_rewrite(core, name)?,
        };
        let mut entry = match entry {
            Ok(entry) => entry,
            Err(wrong) => {
                notes.push(format!(
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
        // What it read of a log may be lost: its own rows are here all the same.
        for (writer, needed) in std::mem::take(&mut entry.rewrite.needs) {
            if state.position(&writer) < needed && behind.insert(writer.clone()) {
                notes.push(format!(
                    "the log of writer {writer:?} is not known as far as rewrite {number} had read it: commits that \
                     were not rewritten are lost"
                ));
            }
        }
        state.rewrite(number, entry.rewrite).map_err(|error| Error::Io(error.to_string()))?;
    }
    Ok(())
}

/// `Ok(Err(_))` says what is wrong with its bytes.
fn read_rewrite(core: &Core, name: &str) -> Result<std::result::Result<RewriteEntry, String>> {
    let bytes = match core.store.get(name).map_err(store_error) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Ok(Err(format!("{}/{name} is missing", core.store.location()))),
        Err(error) if is_damage(&error) => return Ok(Err(error.to_string())),
        Err(error) => return Err(error),
    };
    let entry = RewriteEntry::decode(&bytes, &core.geometry);
    Ok(entry.map_err(|_| format!("{}/{name} makes no sense", core.store.location())))
}
