//! The exchange of two sites: columns, retractions, commits, metadata.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{BooleanArray, RecordBatch, UInt32Array, make_array};
use arrow_select::filter::filter_record_batch;
use arrow_select::take::take;
use kubist::{CopyOptions, Table, WriterOptions};
use kubist_catalog::core::Core;
use kubist_catalog::error::{bad_entry, store_error};
use kubist_catalog::schema::TableSchema;
use kubist_catalog::segment::unix_ms;
use kubist_catalog::settle::settle;
use kubist_catalog::snapshot::Snapshot;
use kubist_format::entry::CommitEntry;
use kubist_format::names::COPY;
use kubist_maintain::retract::retract_up_to;
use kubist_read::runs::read_run;
use kubist_store::StoreExt;
use kubist_types::{Cancel, Error, Result};
use kubist_write::writer::{Origin, Writer};
use serde::Serialize;

use crate::metadata::{self, merge};
use crate::peer::{self, Peer};
use crate::site::{Base, Commit, Site, Source, StepOf, retracted_token};

/// Maximum wait for a commit that its writer is making durable.
const PATIENCE: Duration = Duration::from_secs(5);

/// Options of [`sync`].
#[derive(Clone, Debug)]
pub struct SyncOptions {
    /// Copies changes of the second table into the first.
    pub pull: bool,
    /// Copies changes of the first table into the second.
    pub push: bool,
    /// The memory for the rows of one commit, or `None` for the default of writers.
    pub memory_bytes: Option<usize>,
    /// Ends the call between two commits, so commits that arrived stay.
    pub cancel: Cancel,
}

impl Default for SyncOptions {
    fn default() -> SyncOptions {
        SyncOptions { pull: true, push: true, memory_bytes: None, cancel: Cancel::default() }
    }
}

/// The changes that one site received.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// New commits.
    pub commits: u64,
    /// The rows of the new commits.
    pub rows: u64,
    /// Rows that the other site had retracted.
    pub retracted: u64,
    /// New columns.
    pub columns: Vec<String>,
    /// Commits that the other site has only in its first copy, so that another site must bring them.
    pub waits: Vec<String>,
}

/// The result of [`sync`].
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Synced {
    /// The table that was created, if one was missing.
    pub created: Option<String>,
    /// Changes that the first table received.
    pub came: Moved,
    /// Changes that the second table received.
    pub went: Moved,
    /// Metadata that both sites changed and that stay different.
    pub conflicts: Vec<String>,
    /// Duration in seconds.
    pub seconds: f64,
}

/// Exchanges the changes of two copies of a table, or creates a missing table as a copy of the other. The call can be
/// killed at any time and repeated; it calls `progress(done, all)` in rows.
///
/// # Errors
///
/// `Invalid` if the tables are not copies of one table, or the same one; `Refused` if their histories differ, or if
/// rows to retract cannot be distinguished from others; `SnapshotExpired` if commits that the other site lacks were
/// cleaned away; `Cancelled`; `Damaged`; a storage error.
pub fn sync(a: &str, b: &str, options: &SyncOptions, progress: &mut dyn FnMut(u64, u64)) -> Result<Synced> {
    let (begin, is_missing) =
        (Instant::now(), |error: &Error| matches!(error, Error::Missing { .. } | Error::NotATable { .. }));
    let mut synced = match (Table::open(a), Table::open(b)) {
        (Ok(table), _) | (_, Ok(table)) if table.core().store.partial().is_some() => {
            let location = table.location();
            return Err(Error::invalid(format!(
                "{location} is a partial copy: `kubist deepen {location}` brings it up to date"
            )));
        }
        (Ok(a), Ok(b)) => exchange(a.core(), b.core(), options, progress)?,
        (Ok(from), Err(error)) if options.push && is_missing(&error) => {
            Synced { went: copy(&from, b, options, progress)?, created: Some(b.into()), ..Synced::default() }
        }
        (Err(error), Ok(from)) if options.pull && is_missing(&error) => {
            Synced { came: copy(&from, a, options, progress)?, created: Some(a.into()), ..Synced::default() }
        }
        (Err(error), _) | (_, Err(error)) => return Err(error),
    };
    synced.seconds = begin.elapsed().as_secs_f64();
    Ok(synced)
}

fn copy(from: &Table, to: &str, options: &SyncOptions, progress: &mut dyn FnMut(u64, u64)) -> Result<Moved> {
    let (since, cancel) = (unix_ms(), &options.cancel);
    let site = Site::read(from.core(), cancel)?;
    let base = serde_json::to_vec(&site.as_base()).map_err(Error::internal)?;
    let copying = CopyOptions {
        memory_bytes: options.memory_bytes,
        objects: vec![(Base::name(), base)],
        cancel: cancel.clone(),
        ..CopyOptions::default()
    };
    let token = site.snapshot.token();
    let rows = from.at(&token)?.copy_to(to, &copying, progress)?.rows;
    let other = Table::open(to)?;
    let metadata = metadata::entries(&site.snapshot.view.schema);
    remember(from.core(), other.core(), since, metadata, true, options)?;
    let commits = site.have().values().sum();
    Ok(Moved { commits, rows, ..Moved::default() })
}

/// Records the exchange at writable sites, so that after a `whole` exchange the next one can end early if nothing is
/// new.
fn remember(
    a: &Arc<Core>,
    b: &Arc<Core>,
    since: u64,
    metadata: metadata::Entries,
    whole: bool,
    options: &SyncOptions,
) -> Result<()> {
    let token = |core: &Arc<Core>| match whole {
        true => Ok(Snapshot::now(core, &options.cancel)?.token().to_string()),
        false => Ok::<_, Error>(String::new()),
    };
    let (of_a, of_b) = (token(a)?, token(b)?);
    let of = |here: &str, there: &str| Peer {
        here: here.into(),
        there: there.into(),
        metadata: metadata.clone(),
        hold: String::new(),
    };
    for (core, other, now, is_written) in
        [(a, b, of(&of_a, &of_b), options.pull), (b, a, of(&of_b, &of_a), options.push)]
    {
        match peer::record(core, &other.header.id, since, now) {
            Err(_) if !is_written => {}
            done => done?,
        }
    }
    Ok(())
}

fn exchange(a: &Arc<Core>, b: &Arc<Core>, options: &SyncOptions, progress: &mut dyn FnMut(u64, u64)) -> Result<Synced> {
    let (since, cancel) = (unix_ms(), &options.cancel);
    let (at_a, at_b) = (a.store.location(), b.store.location());
    if a.header.id == b.header.id {
        return Err(Error::invalid(format!(
            "{at_a} and {at_b} have the same id, {}: they are one table, or a copy of its files. Make copies for other \
             sites with `kubist sync {at_a} NEW`",
            a.header.id
        )));
    }
    let last = peer::last(a, &b.header.id)?;
    let token = |core: &Arc<Core>| Ok::<_, Error>(Snapshot::now(core, cancel)?.token().to_string());
    if let Some(last) = &last
        && options.pull
        && options.push
        && (token(a)?, token(b)?) == (last.here.clone(), last.there.clone())
    {
        return Ok(Synced::default());
    }
    let mut synced = Synced::default();
    if options.pull {
        synced.came = receive(b, a, options, progress)?;
    }
    if options.push {
        synced.went = receive(a, b, options, progress)?;
    }
    let common = last.map_or_else(Vec::new, |last| last.metadata);
    let merged = merge(a, b, common, (options.pull, options.push), cancel)?;
    synced.conflicts = merged.conflicts;
    let is_all = options.pull && options.push && synced.conflicts.is_empty();
    let whole = is_all && synced.came.waits.is_empty() && synced.went.waits.is_empty();
    remember(a, b, since, merged.common, whole, options)?;
    Ok(synced)
}

fn receive(
    from: &Arc<Core>,
    to: &Arc<Core>,
    options: &SyncOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Moved> {
    let cancel = &options.cancel;
    let (source, mut target) = (Site::read(from, cancel)?, Site::read(to, cancel)?);
    check(&source, &target)?;
    let mut moved = Moved { columns: to.add_columns_of(&source.snapshot.view.schema, cancel)?, ..Moved::default() };
    let retracted = source.steps().1;
    progress(0, 0);
    moved.retracted = retract(&target, &retracted, cancel)?;
    target = Site::read(to, cancel)?;
    let have = target.have();
    let missing: Vec<(Source, u64, u64)> = source
        .have()
        .into_iter()
        .map(|(of, theirs)| (of.clone(), have.get(&of).copied().unwrap_or(0), theirs))
        .filter(|(_, ours, theirs)| ours < theirs)
        .collect();
    let mut transfer = Transfer { source: &source, retracted: &retracted, options, progress, done: 0, all: 0 };
    for (of, ours, _) in &missing {
        let commits = source.logs.get(of).map_or(0, |(_, commits)| commits.len());
        transfer.all += (commits as u64).saturating_sub(ours.saturating_sub(source.began_with(of)));
    }
    for (of, ours, theirs) in missing {
        if ours < source.began_with(&of) {
            moved.waits.push(format!(
                "commits {} to {} of writer {:?} of site {}, which {} began with",
                ours + 1,
                source.began_with(&of),
                of.writer,
                of.site,
                source.location()
            ));
            continue;
        }
        let (commits, rows) = transfer.bring(&target, &of, theirs)?;
        (moved.commits, moved.rows) = (moved.commits + commits, moved.rows + rows);
    }
    Ok(moved)
}

fn check(source: &Site, target: &Site) -> Result<()> {
    let (from, to) = (source.location(), target.location());
    if source.base.root != target.base.root {
        return Err(Error::invalid(format!(
            "{from} and {to} are not copies of one table for several sites, so they may have the same rows. Make such a \
             copy with `kubist sync {from} NEW`"
        )));
    }
    let forked = |of: &Source, number: u64| {
        Error::Refused(format!(
            "commit {number} of writer {:?} of site {} differs in {from} and {to}: the files of a table were copied or \
             restored, and both were written to. Make a new copy with `kubist sync` of the one to keep",
            of.writer, of.site
        ))
    };
    let have = target.have();
    for (of, theirs) in source.have() {
        let ours = have.get(&of).copied().unwrap_or(0);
        if of.site == target.id() && theirs > ours {
            return Err(forked(&of, theirs));
        }
        let number = ours.min(theirs);
        if let (Some(a), Some(b)) = (source.commit(&of, number), target.commit(&of, number))
            && a.salt != b.salt
        {
            return Err(forked(&of, number));
        }
    }
    Ok(())
}

/// Retracts steps of the other site's commits; returns the number of rows.
fn retract(site: &Site, retracted: &BTreeSet<StepOf>, cancel: &Cancel) -> Result<u64> {
    // By step: the logs and last positions of commits to retract.
    let mut steps: BTreeMap<i64, BTreeMap<String, u64>> = BTreeMap::new();
    let mut marks: BTreeSet<(String, i64, u64)> = BTreeSet::new();
    let live = site.steps().0;
    for (of, log, position) in live.iter().filter(|(of, _, _)| retracted.contains(of)) {
        let end = steps.entry(of.2).or_default().entry((*log).to_owned()).or_default();
        *end = (*end).max(*position);
        marks.insert(((*log).to_owned(), of.2, *position));
    }
    let location = site.location();
    for (step, position) in site.base_marks() {
        let (gone, stay): (Vec<&StepOf>, Vec<&StepOf>) =
            site.base.steps.iter().filter(|of| of.2 == step).partition(|of| retracted.contains(of));
        match (gone.is_empty(), stay.first()) {
            (true, _) => {}
            (false, None) => {
                steps.entry(step).or_default().insert(COPY.into(), position);
                marks.insert((COPY.into(), step, position));
            }
            (false, Some((of, _, _))) => {
                return Err(Error::Refused(format!(
                    "{location}: another site retracted rows of step {step}, and rows of writer {:?} of site {} stay, but \
                     both are in the first commit of this copy: retract the steps after {} here, or make a new copy",
                    of.writer,
                    of.site,
                    step.saturating_sub(1)
                )));
            }
        }
    }
    let Some(first) = steps.keys().next().copied() else { return Ok(0) };
    let all: BTreeSet<(String, i64, u64)> = {
        let of_logs = live.iter().map(|(of, log, position)| ((*log).to_owned(), of.2, *position));
        of_logs.chain(site.base_marks().into_iter().map(|(step, position)| (COPY.to_owned(), step, position))).collect()
    };
    let reached = |step: i64, ends: &BTreeMap<String, u64>| -> BTreeSet<(String, i64, u64)> {
        let is_reached =
            |(log, of, position): &&(String, i64, u64)| *of >= step && ends.get(log).is_some_and(|end| position <= end);
        all.iter().filter(is_reached).cloned().collect()
    };
    let mut ends: BTreeMap<String, u64> = BTreeMap::new();
    for (log, position) in steps.values().flatten() {
        let end = ends.entry(log.clone()).or_default();
        *end = (*end).max(*position);
    }
    // One retraction, if it withdraws no other commit; otherwise one per step, last step first.
    let works = match reached(first, &ends) == marks {
        true => vec![(first, ends)],
        false => steps.into_iter().rev().collect(),
    };
    // Checked before the first retraction: all or nothing.
    let staying: BTreeSet<i64> = all.difference(&marks).map(|(_, step, _)| *step).collect();
    let mixed = works.iter().find(|(step, ends)| !reached(*step, ends).is_subset(&marks)).map(|(step, _)| *step);
    let mixed = mixed.or_else(|| marks.iter().map(|(_, step, _)| *step).filter(|step| staying.contains(step)).min());
    if let Some(step) = mixed {
        return Err(Error::Refused(format!(
            "{location}: another site retracted rows of step {step}, and later rows of it or of a later step stay here: retract \
             the steps after {} here, then sync again",
            step.saturating_sub(1)
        )));
    }
    let mut rows = 0;
    for (step, ends) in works {
        let ends: Vec<(String, u64)> = ends.into_iter().collect();
        rows += retract_up_to(&site.core, step.saturating_sub(1), &ends, cancel)?.rows;
    }
    Ok(rows)
}

struct Transfer<'a> {
    source: &'a Site,
    retracted: &'a BTreeSet<StepOf>,
    options: &'a SyncOptions,
    progress: &'a mut dyn FnMut(u64, u64),
    done: u64,
    all: u64,
}

impl Transfer<'_> {
    /// Copies commits of a source up to a number, and returns the numbers of commits and rows.
    fn bring(&mut self, target: &Site, of: &Source, last: u64) -> Result<(u64, u64)> {
        let (source, cancel) = (self.source, &self.options.cancel);
        let Some((log, commits)) = source.logs.get(of) else { return Ok((0, 0)) };
        let name = target.log_of(of)?;
        let options = WriterOptions {
            name: Some(name.clone()),
            memory_bytes: self.options.memory_bytes,
            cancel: cancel.clone(),
            ..WriterOptions::default()
        };
        let mut writer = Writer::open(target.core.clone(), &options, None)?;
        // Another sync may have copied some commits.
        let view = target.core.view(cancel)?;
        let here = view.history.writers.get(&name).map_or(0, |progress| progress.commits);
        let first = target.began_with(of) + here + 1;
        let missing: Vec<(u64, &Commit)> =
            (source.began_with(of) + 1..=last).zip(commits).filter(|(number, _)| *number >= first).collect();
        let (Some((_, next)), Some((_, end))) = (missing.first(), missing.last()) else { return Ok((0, 0)) };
        let patience = PATIENCE + source.core.store.capabilities().fencing.outlives();
        settle(&source.core, log, end.end, patience, cancel)?;
        let tail = source.core.store.read_log(log, next.begin).map_err(store_error)?;
        let (mut forest, mut rows) = (source.core.forest(), 0);
        for ((number, _), stored) in missing.iter().zip(&tail.entries) {
            (self.progress)(self.done, self.all);
            cancel.check()?;
            let entry = CommitEntry::decode(&stored.bytes, &mut forest)
                .map_err(|error| bad_entry(source.location(), &format!("logs/{log}.log"), stored.position, error))?;
            rows += self.bring_one(&mut writer, target, (of, *number), entry)?;
            self.done += 1;
        }
        Ok((missing.len() as u64, rows))
    }

    fn bring_one(
        &self,
        writer: &mut Writer,
        target: &Site,
        (of, number): (&Source, u64),
        entry: CommitEntry,
    ) -> Result<u64> {
        let is_gone = |step: i64| self.retracted.contains(&(of.clone(), number, step));
        let all = entry.step.map(|mark| mark.step).into_iter().chain(entry.steps.iter().map(|(step, _)| *step));
        let mut gone: BTreeSet<i64> = all.filter(|step| is_gone(*step)).collect();
        // The commit may have been retracted before it arrived at the source.
        gone.extend(self.retracted.iter().filter(|one| &one.0 == of && one.1 == number).map(|one| one.2));
        let schema = target.core.view(&self.options.cancel)?.schema.clone();
        let from = &self.source.snapshot.view.schema;
        let mut rows = 0;
        if !entry.step.is_some_and(|mark| gone.contains(&mark.step)) {
            for run in &entry.commit.runs {
                let (batch, _) = read_run(&self.source.snapshot, run).map_err(|error| self.expired(error))?;
                let batch = without(batch, from.step(), &gone)?;
                rows += batch.num_rows() as u64;
                writer.keep(fitted(&batch, from, &schema)?)?;
            }
        }
        let gone: Vec<i64> = gone.into_iter().collect();
        writer.commit_origin(Origin {
            salt: entry.link.map(|link| link.salt),
            token: if gone.is_empty() { entry.token } else { Some(retracted_token(&gone)) },
            step: entry.step.filter(|mark| !gone.contains(&mark.step)),
            steps: entry.steps.into_iter().filter(|(step, _)| !gone.contains(step)).collect(),
            thinned: entry.thinned.into_iter().filter(|(step, _)| !gone.contains(step)).collect(),
        })?;
        Ok(rows)
    }

    fn expired(&self, error: Error) -> Error {
        let location = self.source.location();
        match error {
            Error::SnapshotExpired { why, .. } => Error::SnapshotExpired {
                location: location.into(),
                why: format!(
                    "commits that the other site lacks were cleaned away ({why}); make a new copy with `kubist sync {location} NEW`"
                ),
            },
            other => other,
        }
    }
}

fn without(batch: RecordBatch, step: usize, gone: &BTreeSet<i64>) -> Result<RecordBatch> {
    if gone.is_empty() {
        return Ok(batch);
    }
    let steps = batch.column(step).as_primitive::<Int64Type>();
    let kept: BooleanArray = steps.values().iter().map(|step| Some(!gone.contains(step))).collect();
    filter_record_batch(&batch, &kept).map_err(Error::kernel)
}

/// Orders the columns of a batch for the other table, which may have added them in another order.
fn fitted(batch: &RecordBatch, from: &TableSchema, to: &TableSchema) -> Result<RecordBatch> {
    let columns =
        to.stored.fields().iter().enumerate().map(|(index, field)| match from.stored.index_of(field.name()) {
            Ok(column) => Ok(batch.column(column).clone()),
            Err(_) => {
                let default = make_array(to.default_of(index).to_data());
                take(&default, &UInt32Array::from(vec![0; batch.num_rows()]), None).map_err(Error::kernel)
            }
        });
    RecordBatch::try_new(to.stored.clone(), columns.collect::<Result<_>>()?).map_err(Error::kernel)
}
