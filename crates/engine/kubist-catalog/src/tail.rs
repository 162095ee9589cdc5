//! `Tail`: the state after all log entries that a handle has read so far.
//!
//! Joining takes no I/O, and after an error all entries before the bad one are joined, so joining can continue.

use std::sync::Arc;

use kubist_format::alteration::Alteration;
use kubist_format::chain::Chain;
use kubist_format::entry::{CommitEntry, RewriteEntry};
use kubist_format::error::EntryError;
use kubist_format::history::{Declared, History};
use kubist_format::location::{Location, Origin};
use kubist_index::cube::CubeId;
use kubist_index::priority::Threshold;
use kubist_index::spread::SpreadSet;
use kubist_index::state::{Run, RunId, State};
use kubist_store::{LogTail, Stamp};
use kubist_types::{Cancel, Result};

use crate::chains::{self, ComparedStamps};
use crate::checkpoint::LoadedCheckpoint;
use crate::directory::{Base, Changes, Directory, Runs};
use crate::error::bad_entry;
use crate::files::TableFiles;
use crate::look::FirstLook;
use crate::proven_positions::{self, ProvenPositions};
use crate::schema::TableSchema;
use crate::view::{Joined, View};

#[derive(Default)]
pub struct Tail {
    pub begun: bool,
    /// The checkpoint from which the handle started to follow.
    pub checkpoint: Option<String>,
    pub base: Option<Arc<Base>>,
    pub state: State<Location>,
    pub history: History,
    /// Number of rewrites that must be joined before the declarations in alterations apply.
    pub needs_rewrites: u64,
    needs_columns: usize,
    removed: Arc<SpreadSet<RunId>>,
    /// The newest schema; `None` means the columns of the creation.
    schema: Option<Arc<TableSchema>>,
    view: Option<Arc<View>>,
    /// Whether the state changed after the view was built, or an error occurred.
    stale: bool,
    changes: Option<Changes>,
    /// Numbers of joined entries, and of entries that a checkpoint covers.
    joined: Joined,
    pub checkpointed: Joined,
    /// Number of runs in the state when newer checkpoints were last searched.
    pub looked_at: usize,
    /// The proven log positions, for which segments were examined if `looked_at_segments`.
    pub proven: ProvenPositions,
    pub looked_at_segments: bool,
    /// True if the table was seen after the last read.
    pub is_known_there: bool,
    pub first_look: Option<FirstLook>,
    /// The logs that existed when they were last followed.
    pub logs: Vec<String>,
    pub seen: ComparedStamps,
    /// Whether the last error was an entry that does not follow the joined ones.
    pub is_misfit: bool,
    /// The newest checkpoint before the last listing of rewrites, which were all joined.
    pub listed_at: Option<Option<String>>,
}

fn columns_of<'a>(runs: impl Iterator<Item = &'a Arc<Run<Location>>>) -> usize {
    let last = runs.filter_map(|run| run.payload.ranges.as_ref()?.of().last_column());
    last.max().map_or(0, |last| last + 1)
}

impl Tail {
    /// Forgets the joined entries, but not the proven log positions.
    pub fn forget(&mut self) {
        let proven = std::mem::take(&mut self.proven);
        *self = Tail { proven, joined: self.joined, checkpointed: self.joined, ..Tail::default() };
    }

    /// Restarts, from a checkpoint if there is one.
    pub fn begin(&mut self, held: Option<LoadedCheckpoint>) {
        self.forget();
        (self.begun, self.stale) = (true, true);
        if let Some(held) = held {
            self.proven.join(held.proven());
            (self.checkpoint, self.base) = (Some(held.name), held.base);
            (self.state, self.history) = (held.state, held.history);
            self.needs_columns = columns_of(self.state.live());
        }
    }

    pub fn joined(&self) -> Joined {
        self.joined
    }

    pub fn is_stale(&self) -> bool {
        self.stale
    }

    /// True if the alterations describe all columns and grids of the joined runs.
    pub fn is_described(&self, files: &TableFiles) -> bool {
        let schema = self.schema(files);
        let newest = files.forest().trees().map(|tree| tree.grid()).max().unwrap_or(0);
        newest <= schema.newest_grid()
            && self.needs_columns <= schema.stored.fields().len()
            && self.history.needs_alterations <= schema.version
    }

    pub fn schema<'a>(&'a self, files: &'a TableFiles) -> &'a Arc<TableSchema> {
        self.schema.as_ref().unwrap_or(&files.created)
    }

    /// Joins entries of a writer's log up to `last_position`.
    ///
    /// # Errors
    ///
    /// `Damaged`, `Newer` or `Cancelled`.
    pub fn join_log(
        &mut self,
        files: &TableFiles,
        writer: &str,
        read: LogTail,
        last_position: u64,
        cancel: &Cancel,
    ) -> Result<()> {
        let name: Arc<str> = writer.into();
        let last = read.entries.len().saturating_sub(1);
        for (index, found) in read.entries.iter().enumerate() {
            cancel.check()?;
            let bad = |error| bad_entry(files.store.location(), &format!("log of {writer}"), found.position, error);
            let after = if index == last { read.next } else { read.entries[index + 1].position };
            if after > last_position {
                break;
            }
            let mut entry = files.decoded(|forest| CommitEntry::decode(&found.bytes, forest)).map_err(bad)?;
            let next = self.history.writers.get(writer).map_or(0, |progress| progress.commits) + 1;
            if entry.sequence != next {
                let what = format!("it has commit {} where {next} is next", entry.sequence);
                return Err(bad(EntryError::Bad(what)));
            }
            let previous = chains::logged(files, writer, &self.history);
            if entry.link.map(|link| link.previous) != Some(previous) {
                self.is_misfit = true;
                return Err(bad(EntryError::Bad("the entry before it is not the one that it follows".into())));
            }
            self.stale = true;
            self.history.commit(writer, (found.position, after), &entry, &found.bytes);
            self.needs_columns = self.needs_columns.max(columns_of(entry.commit.runs.iter()));
            self.joined.entries += 1;
            self.joined.runs += entry.commit.runs.len() as u64;
            let step = entry.step.map(|mark| mark.step);
            let origin = Arc::new(Origin { writer: name.clone(), position: after, step });
            for run in &mut entry.commit.runs {
                Arc::make_mut(run).payload.origin = Some(origin.clone());
            }
            let gained = self.gained(&entry.commit.runs, &entry.commit.cutoffs);
            self.state.commit(writer, after, entry.commit);
            self.changed(gained);
        }
        Ok(())
    }

    /// # Errors
    ///
    /// `Damaged` or `Newer`.
    pub fn join_rewrite(&mut self, files: &TableFiles, name: &str, bytes: &[u8]) -> Result<()> {
        let number = self.state.rewrites() + 1;
        let bad = |error| bad_entry(files.store.location(), name, 0, error);
        let entry = files.decoded(|forest| RewriteEntry::decode(bytes, forest)).map_err(bad)?;
        if entry.previous != chains::rewritten(files, number - 1, &self.history) {
            self.is_misfit = true;
            return Err(bad(EntryError::Bad(format!("rewrite {} is not the one that it follows", number - 1))));
        }
        for (writer, needed) in &entry.rewrite.needs {
            let end = self.state.position(writer);
            self.is_misfit |= end < *needed;
            proven_positions::check_need(files, writer, end, number, *needed, &self.history)?;
        }
        self.stale = true;
        self.needs_columns = self.needs_columns.max(columns_of(entry.rewrite.runs.iter()));
        let needs = entry.retract_after.map(|after| (after, entry.rewrite.needs.clone()));
        let mut gained = self.gained(&entry.rewrite.runs, &entry.rewrite.cutoffs);
        if self.changes.is_some() {
            gained.removed.extend(entry.rewrite.removes.iter().filter(|run| !self.state.removed().contains(run)));
        }
        self.state.rewrite(number, entry.rewrite).map_err(|error| bad(EntryError::Bad(error.to_string())))?;
        self.history.rewritten = Chain::after_entry(bytes);
        self.seen.objects.insert(name.to_string(), Stamp::Unknown);
        self.changed(gained);
        if let Some((after, needs)) = needs {
            self.history.retract(after, &needs);
        }
        self.joined.entries += 1;
        Ok(())
    }

    /// # Errors
    ///
    /// `Damaged` or `Newer`.
    pub fn join_alteration(&mut self, files: &TableFiles, name: &str, bytes: &[u8]) -> Result<()> {
        let bad = |error| bad_entry(files.store.location(), name, 0, error);
        let (previous, alteration) = Alteration::decode(bytes).map_err(bad)?;
        if previous != chains::altered(files, self.schema(files).version, &self.history) {
            self.is_misfit = true;
            return Err(bad(EntryError::Bad("the alteration before it is not the one that it follows".into())));
        }
        let altered = self.schema(files).with_alteration(&alteration);
        let next = altered.map_err(|error| bad(EntryError::Bad(error.to_string())))?;
        self.schema = Some(Arc::new(next));
        self.history.altered = Chain::after_entry(bytes);
        if let Alteration::Writers(new) = alteration {
            self.needs_rewrites = self.needs_rewrites.max(new.rewrites);
            self.history.declared_anew.push((new.after, new.writers));
        }
        self.stale = true;
        Ok(())
    }

    pub fn join_declared(&mut self, declared: Declared) {
        self.history.declared = Some(declared);
        self.stale = true;
    }

    fn gained(&self, runs: &[Arc<Run<Location>>], cutoffs: &[(CubeId, Threshold)]) -> Changes {
        match self.changes {
            Some(_) => Changes { added: runs.to_vec(), cutoffs: cutoffs.to_vec(), ..Changes::default() },
            None => Changes::default(),
        }
    }

    /// Adds changes, except runs that were there before or appear twice.
    fn changed(&mut self, gained: Changes) {
        let Some(changes) = &mut self.changes else { return };
        let is_new = |run: &Arc<Run<Location>>| self.state.run(run.id).is_some_and(|known| Arc::ptr_eq(known, run));
        changes.added.extend(gained.added.into_iter().filter(is_new));
        changes.cutoffs.extend(gained.cutoffs);
        changes.removed.extend(gained.removed);
    }

    /// The view of the state; it is the same one while nothing changes.
    pub fn view(&mut self, files: &TableFiles) -> Arc<View> {
        if let Some(view) = self.view.as_ref().filter(|_| !self.stale) {
            return view.clone();
        }
        let (view, changes) = (self.view.take(), self.changes.take());
        let changed = view.zip(changes.map(|changes| Arc::new(self.net_changes(changes))));
        let (schema, history) = (self.schema(files).clone(), self.history.clone());
        let mut view = match &changed {
            Some((earlier, changes)) => {
                let runs = earlier.runs.with(files, changes, self.removed.clone());
                View::new(schema, runs, history, &self.state).following(earlier, changes)
            }
            None => {
                self.removed = Arc::new(self.state.removed_elsewhere().collect());
                let recent = Directory::new(files.forest(), &self.state);
                let runs = Runs::new(self.base.clone(), recent, self.removed.clone());
                View::new(schema, runs, history, &self.state)
            }
        };
        view.joined = self.joined;
        let view = Arc::new(view);
        self.view = Some(view.clone());
        self.stale = false;
        self.changes = Some(Changes::default());
        view
    }

    /// Drops runs that were added and removed again, and collects removed runs of the base.
    fn net_changes(&mut self, mut changes: Changes) -> Changes {
        let lives = |run: &Run<Location>| {
            self.state.is_live(run.id) && run.copies.iter().all(|source| self.state.is_live(*source))
        };
        for run in changes.added.extract_if(.., |run| !lives(run)) {
            changes.removed.remove(&run.id);
        }
        let mut elsewhere = changes.removed.iter().filter(|run| self.state.run(**run).is_none()).peekable();
        if elsewhere.peek().is_some() {
            Arc::make_mut(&mut self.removed).extend(elsewhere);
        }
        changes
    }
}
