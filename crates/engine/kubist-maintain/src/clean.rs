//! Cleaning: deletes files that no current snapshot needs, after a retention time.
//!
//! **Segments.** The first call that finds a segment without live runs notes it as garbage. A later call deletes it
//! after the retention time, so readers of older snapshots have that long to finish. Logs stay, and so do segments that
//! a running writer may append to.
//!
//! A segment of a rewrite or checkpoint may be published later, so it gets no note in its first ten minutes. It gets
//! one earlier if a rewrite names it, or if a checkpoint has its number or a later one. On stores where changes become
//! visible late, the time is one hour without exceptions (`publish`).
//!
//! **Holes.** Most dead bytes share a segment with live runs. If the store can punch holes (`Capabilities::punches`),
//! one object lists all dead ranges. A call after the retention time frees the ranges that are still dead. Dead bytes
//! never become live again (I6), because only a live run can pass its bytes on under a new id. The list is valid if the
//! rewrites that made the ranges dead are durable, so the fence comes first. In a segment that a running writer may
//! append to, only ranges before the last live run count.
//!
//! **Holds.** While a process holds a snapshot (`kubist_catalog::hold`), rewrites stay, and so does everything that
//! died after the hold began.
//!
//! A call frees space before it writes, because users clean when the disk is full.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use kubist_catalog::core::Core;
use kubist_catalog::error::{bad_entry, is_damage, store_error};
use kubist_catalog::segment::unix_ms;
use kubist_catalog::stop::stoppable;
use kubist_catalog::view::View;
use kubist_catalog::{checkpoint, hold, write_checkpoint};
use kubist_format::entry::RewriteEntry;
use kubist_format::holes::{self, Holes};
use kubist_format::names::{CHECKPOINTS, GARBAGE, HOLES, PAGES_SEGMENT};
use kubist_format::names::{REWRITE_SEGMENT, REWRITES, number_of, rewrite_name};
use kubist_store::{BLOCK_BYTES, LogOwner, StoreExt};
use kubist_types::Cancel;
use kubist_types::error::Result;
use kubist_write::publish::{KEPT_REWRITES, SHARED_REWRITE_TIME, fence, note_of};

use crate::holes::LiveParts;

/// Time that a rewrite or checkpoint has to publish its segment. If cleaning notes the segment later, its writer gives
/// it up.
const REWRITE_TIME: Duration = Duration::from_secs(600);
const HELD_LOGS: usize = 64;
const PUNCHED_AT_ONCE: usize = 1024;
/// Minimum number of bytes after the last live run for which cleaning takes an idle writer's log.
const LEAST_TAIL: u64 = 64 << 10;

#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Cleaning {
    pub segments_deleted: u64,
    pub bytes_deleted: u64,
    pub segments_waiting: u64,
    /// Bytes of freed holes, in segments that stay.
    pub bytes_released: u64,
    /// Bytes of holes that wait for a later call.
    pub bytes_waiting: u64,
}

/// Frees garbage that is older than `retention`, and notes new garbage. Older snapshots may then fail with
/// `SnapshotExpired`, and the next call continues an interrupted one.
///
/// # Errors
///
/// The errors of [`Core::view`].
pub fn clean(core: &Arc<Core>, retention: Duration, cancel: &Cancel) -> Result<Cleaning> {
    clean_as_of(core, retention, unix_ms(), cancel)
}

/// [`clean`] with a given time, in milliseconds since 1970.
///
/// # Errors
///
/// The same as [`clean`].
pub fn clean_as_of(core: &Arc<Core>, retention: Duration, now: u64, cancel: &Cancel) -> Result<Cleaning> {
    core.check_process()?;
    core.check_still_there()?;
    let mut round = Round { core, retention, now, cancel, report: Cleaning::default(), live: None };
    stoppable(cancel, || -> Result<()> {
        // This may make space for the fence.
        round.free(false)?;
        round.release_noted()?;
        round.release()?;
        write_checkpoint::write(core, cancel)?;
        round.note()?;
        round.report.segments_waiting = round.free(true)?;
        Ok(())
    })?;
    Ok(round.report)
}

struct Round<'a> {
    core: &'a Core,
    retention: Duration,
    now: u64,
    cancel: &'a Cancel,
    report: Cleaning,
    live: Option<(Arc<View>, Arc<LiveParts>)>,
}

struct Needed {
    pages: HashSet<Arc<str>>,
    live: Arc<LiveParts>,
}

impl Needed {
    fn contains(&self, segment: &str) -> bool {
        self.pages.contains(segment) || self.live.contains(segment)
    }
}

impl Round<'_> {
    fn needed(&mut self) -> Result<Needed> {
        let mut pages: HashSet<Arc<str>> = self.core.page_segments()?.into_iter().collect();
        let (view, live) = self.live()?;
        pages.extend(view.runs.base.iter().flat_map(|base| base.segments().cloned()));
        Ok(Needed { pages, live })
    }

    fn live(&mut self) -> Result<(Arc<View>, Arc<LiveParts>)> {
        let now = self.core.view(self.cancel)?;
        let same = |view: &View| view.rewrites == now.rewrites && view.positions == now.positions;
        if let Some((_, live)) = self.live.as_ref().filter(|(view, _)| same(view)) {
            return Ok((now, live.clone()));
        }
        let (core, cancel) = (self.core, self.cancel);
        let (view, live) = core.view_with(cancel, |view| {
            let mut live = LiveParts::default();
            view.runs.each(core, cancel, |run| live.add(run))?;
            Ok(live)
        })?;
        Ok(self.live.insert((view, Arc::new(live))).clone())
    }

    /// Returns the segments that may be noted or deleted, all segments, and the number of unneeded segments that may
    /// still be published.
    fn garbage(&mut self) -> Result<(Vec<String>, Vec<String>, u64)> {
        let segments = self.core.store.segments().map_err(store_error)?;
        let needed = self.needed()?;
        for note in self.core.store.list(GARBAGE).map_err(store_error)? {
            self.cancel.check()?;
            let segment = &note[GARBAGE.len()..];
            // The list may lack a newer segment with a valid note, so the store is asked.
            let is_gone = match self.core.store.segment_len(segment) {
                Err(kubist_store::Error::InvalidName { .. }) => true,
                length => length.map_err(store_error)?.is_none(),
            };
            if needed.contains(segment) || is_gone {
                self.core.store.delete(&note).map_err(store_error)?;
            }
        }
        let unneeded: Vec<String> = segments.iter().filter(|segment| !needed.contains(segment)).cloned().collect();
        let newest = newest_checkpoint(self.core)?;
        let young = unneeded.iter().filter(|segment| self.is_young(segment) && !self.is_too_late(segment, newest));
        let young: HashSet<&String> = young.collect();
        let published = self.published(young.iter().copied())?;
        let is_new = |segment: &String| young.contains(segment) && !published.contains(segment.as_str());
        let (new, garbage): (Vec<String>, Vec<String>) = unneeded.iter().cloned().partition(is_new);
        // A published segment that is not live has died.
        let needed = self.needed()?;
        let garbage = garbage.into_iter().filter(|segment| !needed.contains(segment)).collect();
        Ok((garbage, segments, new.len() as u64))
    }

    fn is_late(&self) -> bool {
        !self.core.store.capabilities().staleness.is_zero()
    }

    fn is_young(&self, segment: &str) -> bool {
        let time = if self.is_late() { SHARED_REWRITE_TIME } else { REWRITE_TIME };
        is_of_no_writer(segment)
            && made(segment).is_some_and(|(_, at)| self.now.saturating_sub(at) < time.as_millis() as u64)
    }

    fn is_too_late(&self, segment: &str, newest: Option<u64>) -> bool {
        !self.is_late() && checkpoint_of(segment).is_some_and(|own| newest.is_some_and(|newest| own <= newest))
    }

    /// The segments that rewrites name, from the first rewrite that may name the given segments. Empty if rewrites may
    /// become visible late.
    fn published<'a>(&self, segments: impl Iterator<Item = &'a String>) -> Result<HashSet<Arc<str>>> {
        let mut published = HashSet::new();
        let Some(first) = segments.filter_map(|segment| rewrite_of(segment)).min().filter(|_| !self.is_late()) else {
            return Ok(published);
        };
        for name in self.core.store.list_after(REWRITES, &rewrite_name(first.saturating_sub(1))).map_err(store_error)? {
            self.cancel.check()?;
            let Some(bytes) = self.core.store.get(&name).map_err(store_error)? else { continue };
            let entry = self.core.decoded(|forest| RewriteEntry::decode(&bytes, forest));
            let entry = entry.map_err(|error| bad_entry(self.core.store.location(), &name, 0, error))?;
            published.extend(entry.rewrite.runs.iter().flat_map(|run| run.payload.segments()).cloned());
        }
        Ok(published)
    }

    fn note(&mut self) -> Result<()> {
        for segment in self.garbage()?.0 {
            self.cancel.check()?;
            self.core.store.put_if_absent(&note_of(&segment), &self.now.to_le_bytes()).map_err(store_error)?;
        }
        Ok(())
    }

    /// Deletes garbage after the retention time, and returns the number of segments that wait. A segment without a note
    /// has age zero. Segments of rewrites and checkpoints need the fence, after which their publisher finds the note.
    /// Without a fence, nothing is written.
    fn free(&mut self, with_fence: bool) -> Result<u64> {
        let core = self.core;
        let (garbage, segments, mut waiting) = self.garbage()?;
        let held = hold::oldest(core, self.now)?;
        let mut due = Vec::new();
        for segment in garbage {
            self.cancel.check()?;
            let note = core.store.get(&note_of(&segment)).map_err(store_error)?;
            let since = note.and_then(|bytes| Some(u64::from_le_bytes(bytes.as_ref().try_into().ok()?)));
            let age = self.now.checked_sub(since.unwrap_or(self.now)).map(Duration::from_millis);
            // A time in the future is a rewriter's reservation.
            let is_held = held.is_some_and(|held| since.unwrap_or(self.now) >= held);
            match is_held || age.is_none_or(|age| age < self.retention) || (is_of_no_writer(&segment) && !with_fence) {
                true => waiting += 1,
                false => due.push(segment),
            }
        }
        // The last rewrites stay, so that a late reader detects the gap and starts from the checkpoint.
        let covered = checkpoint::load(core, self.cancel)?.map_or(0, |found| found.state.rewrites());
        let mut rewrites = core.store.list(REWRITES).map_err(store_error)?;
        // These rewrites show which young segments were published.
        let young = segments.iter().filter(|segment| !self.is_late() && self.is_young(segment));
        let young = young.filter_map(|segment| rewrite_of(segment));
        let covered = covered.saturating_sub(KEPT_REWRITES).min(young.min().unwrap_or(u64::MAX));
        rewrites.retain(|name| held.is_none() && number_of(name) < covered);
        if !due.is_empty() || !rewrites.is_empty() {
            // Another machine may have committed into a due segment, and then started its next one. All readers must
            // see the checkpoint before a rewrite is deleted.
            core.store.catch_up().map_err(store_error)?;
        }
        if due.iter().any(|segment| segment.starts_with(REWRITE_SEGMENT)) {
            fence(core)?;
        }
        let newest = newest_checkpoint(core)?;
        if due.iter().any(|segment| may_get_a_checkpoint(segment, newest)) {
            write_checkpoint::write_anew(core, self.cancel)?;
        }
        waiting += self.delete(&due, &segments)?;
        for name in rewrites {
            self.cancel.check()?;
            core.store.delete(&name).map_err(store_error)?;
        }
        Ok(waiting)
    }

    /// Returns the number of segments that stay because they may be needed.
    fn delete(&mut self, due: &[String], all: &[String]) -> Result<u64> {
        let core = self.core;
        let logs: HashSet<String> = core.store.logs().map_err(store_error)?.into_iter().collect();
        let mut of_owners: HashMap<Option<String>, Vec<&String>> = HashMap::new();
        for segment in due {
            let Some((owner, _)) = made(segment) else { continue };
            let of_writer = Some(owner).filter(|owner| !is_of_no_writer(segment) || logs.contains(owner));
            of_owners.entry(of_writer).or_default().push(segment);
        }
        let newest = newest(all, &logs);
        let of_owners: Vec<(Option<String>, Vec<&String>)> = of_owners.into_iter().collect();
        let mut deleted = 0;
        for some in of_owners.chunks(HELD_LOGS) {
            let (mut held, mut free): (Vec<Box<dyn LogOwner>>, Vec<&String>) = (Vec::new(), Vec::new());
            for (owner, segments) in some {
                self.cancel.check()?;
                match owner.as_ref().map(|owner| (owner, core.store.own_log(owner))) {
                    None => free.extend(segments),
                    Some((_, Ok(log))) => {
                        held.push(log);
                        free.extend(segments);
                    }
                    // A commit may be writing into the owner's newest segment.
                    Some((owner, Err(kubist_store::Error::Busy { .. }))) => {
                        free.extend(segments.iter().filter(|segment| newest.get(owner) != Some(*segment)));
                    }
                    Some((_, Err(error))) => return Err(store_error(error)),
                }
            }
            // Checked again while no commit is possible, because a later checkpoint has a higher number than the
            // deleted pages.
            let taken = newest_checkpoint(core)?;
            let needed = self.needed()?;
            for segment in free.into_iter().filter(|segment| !needed.contains(segment)) {
                self.cancel.check()?;
                if may_get_a_checkpoint(segment, taken) {
                    continue;
                }
                let bytes = core.store.segment_bytes(segment).map_err(store_error)?.unwrap_or(0);
                core.store.delete_segment(segment).map_err(store_error)?;
                core.store.delete(&note_of(segment)).map_err(store_error)?;
                deleted += 1;
                self.report.bytes_deleted += bytes;
            }
            drop(held);
        }
        self.report.segments_deleted += deleted;
        Ok(due.len() as u64 - deleted)
    }

    /// Frees noted holes after the retention time; deletes unreadable notes.
    fn release_noted(&mut self) -> Result<()> {
        let core = self.core;
        let held = hold::oldest(core, self.now)?;
        for name in core.store.list(HOLES).map_err(store_error)? {
            self.cancel.check()?;
            if held.is_some_and(|held| number_of(&name) >= held) {
                continue;
            }
            let age = self.now.checked_sub(number_of(&name)).map(Duration::from_millis);
            if age.is_some_and(|age| age < self.retention) {
                continue;
            }
            // A note from the future: a clock was set back since.
            let noted = match age {
                Some(_) => read_note(core, &name)?,
                None => Vec::new(),
            };
            let (_, live) = self.live()?;
            let still = |Holes { segment, ranges }| Holes { ranges: live.holes_in(&segment, &ranges), segment };
            // Other segments are deleted as a whole, or a writer may still commit into them.
            let noted = noted.into_iter().filter(|of| live.contains(&of.segment));
            self.punch(noted.map(still))?;
            core.store.delete(&name).map_err(store_error)?;
        }
        Ok(())
    }

    /// Frees the holes of segments, or notes them for a later call.
    fn release(&mut self) -> Result<()> {
        let core = self.core;
        // Without a retention time all holes are freed now, and a held snapshot may need any hole.
        let is_held = self.retention.is_zero() && hold::oldest(core, self.now)?.is_some();
        if !core.store.capabilities().punches || is_held {
            return Ok(());
        }
        let (holes, bytes) = self.holes()?;
        if holes.is_empty() {
            return Ok(());
        }
        if self.retention.is_zero() {
            fence(core)?;
            return self.punch(holes.into_iter());
        }
        self.report.bytes_waiting = bytes;
        // One note lists all holes, so a few notes suffice for each retention time.
        let notes = core.store.list(HOLES).map_err(store_error)?;
        let is_young = |name: &String| {
            let age = self.now.checked_sub(number_of(name)).map(Duration::from_millis);
            age.is_some_and(|age| age < self.retention / 4)
        };
        if !notes.iter().any(is_young) {
            fence(core)?;
            let name = format!("{HOLES}{:020}", self.now);
            core.store.put_if_absent(&name, &holes::encode(&holes)).map_err(store_error)?;
        }
        Ok(())
    }

    /// New holes of segments where no run can be committed, and their bytes.
    fn holes(&mut self) -> Result<(Vec<Holes>, u64)> {
        let core = self.core;
        // Listed before the view is read: if a writer has a newer segment, its older ones are committed.
        let segments = core.store.segments().map_err(store_error)?;
        let logs: HashSet<String> = core.store.logs().map_err(store_error)?.into_iter().collect();
        let newest = newest(&segments, &logs);
        let idle = self.idle_logs(&newest)?;
        // While the logs of idle writers are owned, no commit into their newest segments is possible.
        let (_, live) = self.live()?;
        let (mut holes, mut bytes) = (Vec::new(), 0);
        for segment in segments.into_iter().filter(|segment| live.contains(segment)) {
            self.cancel.check()?;
            let length = core.store.segment_len(&segment).map_err(store_error)?.unwrap_or(0);
            let taken = core.store.segment_bytes(&segment).map_err(store_error)?.unwrap_or(0);
            let is_open = made(&segment).is_some_and(|(owner, _)| {
                newest.get(&owner) == Some(&segment) && !idle.iter().any(|log| log.writer() == owner)
            });
            let ranges = live.holes(&segment, if is_open { length.min(live.end(&segment)) } else { length });
            let left = length - ranges.iter().map(|range| range.end - range.start).sum::<u64>();
            // A file system needs some space to record holes.
            if taken > left + BLOCK_BYTES * (2 + ranges.len() as u64 / 64) {
                bytes += taken - left;
                holes.push(Holes { segment, ranges });
            }
        }
        Ok((holes, bytes))
    }

    /// Takes the logs of idle writers whose newest segment has many bytes after its last live run.
    fn idle_logs(&mut self, newest: &HashMap<String, String>) -> Result<Vec<Box<dyn LogOwner>>> {
        let core = self.core;
        let ((_, live), mut idle) = (self.live()?, Vec::new());
        for (owner, segment) in newest.iter().filter(|(_, segment)| live.contains(segment)) {
            self.cancel.check()?;
            let length = core.store.segment_len(segment).map_err(store_error)?.unwrap_or(0);
            if length.saturating_sub(live.end(segment)) < LEAST_TAIL || idle.len() >= HELD_LOGS {
                continue;
            }
            match core.store.own_free_log(owner) {
                Ok(log) => idle.push(log),
                Err(kubist_store::Error::Busy { .. }) => {}
                Err(error) => return Err(store_error(error)),
            }
        }
        Ok(idle)
    }

    fn punch(&mut self, holes: impl Iterator<Item = Holes>) -> Result<()> {
        let core = self.core;
        let taken =
            |segment: &str| -> Result<u64> { Ok(core.store.segment_bytes(segment).map_err(store_error)?.unwrap_or(0)) };
        for Holes { segment, ranges } in holes {
            let before = taken(&segment)?;
            for some in ranges.chunks(PUNCHED_AT_ONCE) {
                self.cancel.check()?;
                match core.store.punch(&segment, some) {
                    Err(kubist_store::Error::Missing { .. }) => break,
                    punched => punched.map_err(store_error)?,
                }
            }
            self.report.bytes_released += before.saturating_sub(taken(&segment)?);
        }
        Ok(())
    }
}

fn read_note(core: &Core, name: &str) -> Result<Vec<Holes>> {
    match core.store.get(name).map_err(store_error) {
        Err(error) if is_damage(&error) => Ok(Vec::new()),
        bytes => Ok(bytes?.and_then(|bytes| holes::decode(&bytes).ok()).unwrap_or_default()),
    }
}

fn may_get_a_checkpoint(segment: &str, newest: Option<u64>) -> bool {
    checkpoint_of(segment).is_some_and(|own| newest.is_none_or(|newest| newest < own))
}

fn newest_checkpoint(core: &Core) -> Result<Option<u64>> {
    Ok(core.store.list(CHECKPOINTS).map_err(store_error)?.last().map(|name| number_of(name)))
}

fn checkpoint_of(segment: &str) -> Option<u64> {
    segment.strip_prefix(PAGES_SEGMENT)?.split('-').next()?.parse().ok()
}

/// The number in a rewrite segment's name, a lower bound of the rewrite's number.
fn rewrite_of(segment: &str) -> Option<u64> {
    segment.strip_prefix(REWRITE_SEGMENT)?.split('-').next()?.parse().ok()
}

fn made(segment: &str) -> Option<(String, u64)> {
    let (owner, number) = segment.rsplit_once('-')?;
    Some((owner.to_string(), number.parse().ok()?))
}

fn newest(segments: &[String], logs: &HashSet<String>) -> HashMap<String, String> {
    let mut newest: HashMap<String, (u64, &String)> = HashMap::new();
    for segment in segments {
        let Some((owner, number)) = made(segment) else { continue };
        if !is_of_no_writer(segment) || logs.contains(&owner) {
            let known = newest.entry(owner).or_insert((number, segment));
            *known = (*known).max((number, segment));
        }
    }
    newest.into_iter().map(|(owner, (_, segment))| (owner, segment.clone())).collect()
}

fn is_of_no_writer(segment: &str) -> bool {
    [REWRITE_SEGMENT, PAGES_SEGMENT].iter().any(|prefix| segment.starts_with(prefix))
}
