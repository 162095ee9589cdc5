//! Cleaning: files that no snapshot of now needs, after a time of grace.
//!
//! A segment without live runs is noted as garbage when it is first noticed, and
//! deleted by a later call once it has been garbage for the retention time, so
//! that readers of older snapshots have that long to finish. A segment that a
//! live writer may still append to is left alone, and so are the logs; that of a rewrite
//! or a checkpoint is not noted for ten minutes after it was made. A rewriter that publishes
//! later either sees the note and gives up, or is seen by the cleaner (`publish`).
//!
//! Garbage is deleted before anything is written: users clean when the disk is full.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use kubist_catalog::core::Core;
use kubist_catalog::error::store_error;
use kubist_catalog::segment::unix_ms;
use kubist_catalog::stop::stoppable;
use kubist_catalog::{checkpoint, write_checkpoint};
use kubist_format::names::REWRITE_SEGMENT;
use kubist_format::names::{CHECKPOINTS, GARBAGE, PAGES_SEGMENT};
use kubist_format::names::{REWRITES, number_of};
use kubist_types::Cancel;
use kubist_types::error::Result;
use kubist_write::publish::{KEPT_REWRITES, SHARED_REWRITE_TIME, fence, note_of};

/// A rewrite or a checkpoint that takes longer than this, from its segment to its entry, may
/// find the segment noted, and is then given up.
const REWRITE_TIME: Duration = Duration::from_secs(600);

/// What `Table::clean` did.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Cleaning {
    pub segments_deleted: u64,
    pub bytes_deleted: u64,
    /// Noted as garbage, for a later call.
    pub segments_waiting: u64,
}

/// Deletes what has been garbage for `retention`, and notes what is garbage
/// now. Snapshots taken longer ago may then answer `SnapshotExpired`. Whatever stops it, the
/// next call goes on from there.
///
/// # Errors
///
/// `Cancelled`; as of [`Core::view`]; a storage error.
pub fn clean(core: &Arc<Core>, retention: Duration, cancel: &Cancel) -> Result<Cleaning> {
    clean_as_of(core, retention, unix_ms(), cancel)
}

/// The same by another clock, in milliseconds since 1970.
///
/// # Errors
///
/// As of [`clean`].
pub fn clean_as_of(core: &Arc<Core>, retention: Duration, now: u64, cancel: &Cancel) -> Result<Cleaning> {
    core.check_process()?;
    core.check_still_there()?;
    let mut report = Cleaning::default();
    let mut round = Round { core, retention, now, cancel, report: &mut report };
    stoppable(cancel, || -> Result<()> {
        // What no fence is needed for may make room for the fence.
        round.free(false)?;
        write_checkpoint::write(core, cancel)?;
        round.note()?;
        round.report.segments_waiting = round.free(true)?;
        Ok(())
    })?;
    Ok(report)
}

/// One call of [`clean`].
struct Round<'a> {
    core: &'a Core,
    retention: Duration,
    /// Milliseconds since 1970.
    now: u64,
    cancel: &'a Cancel,
    report: &'a mut Cleaning,
}

impl Round<'_> {
    /// Segments that the table does not need, without those that may be published yet, and
    /// how many of the latter there are.
    fn garbage(&self) -> Result<(Vec<String>, Vec<String>, u64)> {
        let segments = self.core.store.segments().map_err(store_error)?;
        let needed = needed(self.core, self.cancel)?;
        for note in self.core.store.list(GARBAGE).map_err(store_error)? {
            self.cancel.check()?;
            let segment = &note[GARBAGE.len()..];
            // Looked for now: one that was made since the list was may have a note that counts.
            let is_gone = match self.core.store.segment_len(segment) {
                Err(kubist_store::Error::InvalidName { .. }) => true,
                length => length.map_err(store_error)?.is_none(),
            };
            if needed.contains(segment) || is_gone {
                self.core.store.delete(&note).map_err(store_error)?;
            }
        }
        let is_late = !self.core.store.capabilities().staleness.is_zero();
        let time = if is_late { SHARED_REWRITE_TIME } else { REWRITE_TIME };
        let is_new = |segment: &String| match made(segment) {
            Some((_, at)) if is_of_no_writer(segment) => self.now.saturating_sub(at) < time.as_millis() as u64,
            _ => false,
        };
        let unneeded = segments.iter().filter(|segment| !needed.contains(*segment)).cloned();
        let (new, garbage): (Vec<String>, Vec<String>) = unneeded.partition(is_new);
        Ok((garbage, segments, new.len() as u64))
    }

    /// Notes what is garbage now.
    fn note(&self) -> Result<()> {
        for segment in self.garbage()?.0 {
            self.cancel.check()?;
            self.core.store.put_if_absent(&note_of(&segment), &self.now.to_le_bytes()).map_err(store_error)?;
        }
        Ok(())
    }

    /// Deletes what has been garbage for the retention time, and says how many segments wait.
    /// What was never noted has been garbage for no time. Only with a fence do segments of
    /// rewrites and checkpoints go, because their publisher must see the note first;
    /// without one nothing is written.
    fn free(&mut self, with_fence: bool) -> Result<u64> {
        let core = self.core;
        let (garbage, segments, mut waiting) = self.garbage()?;
        let mut due = Vec::new();
        for segment in garbage {
            self.cancel.check()?;
            let note = core.store.get(&note_of(&segment)).map_err(store_error)?;
            let since = note.and_then(|bytes| Some(u64::from_le_bytes(bytes.as_ref().try_into().ok()?)));
            let age = self.now.checked_sub(since.unwrap_or(self.now)).map(Duration::from_millis);
            // A rewriter may have reserved it for a while.
            match age.is_none_or(|age| age < self.retention) || (is_of_no_writer(&segment) && !with_fence) {
                true => waiting += 1,
                false => due.push(segment),
            }
        }
        // Rewrites that the checkpoint holds. The last ones stay, so that a reader
        // that is behind notices the gap and starts from the checkpoint.
        let held = checkpoint::load(core, self.cancel)?.map_or(0, |held| held.state.rewrites());
        let mut rewrites = core.store.list(REWRITES).map_err(store_error)?;
        rewrites.retain(|name| number_of(name) + KEPT_REWRITES < held);
        if !due.is_empty() || !rewrites.is_empty() {
            // Another machine may have named one just now, and begun the next since the list. And
            // the checkpoint is seen by all before a rewrite goes.
            core.store.catch_up().map_err(store_error)?;
        }
        if due.iter().any(|segment| segment.starts_with(REWRITE_SEGMENT)) {
            fence(core)?;
        }
        if due.iter().any(|segment| may_get_a_checkpoint(core, segment).unwrap_or(true)) {
            write_checkpoint::write_anew(core, self.cancel)?;
        }
        for segment in due {
            self.cancel.check()?;
            if may_get_a_checkpoint(core, &segment)?
                || !delete_if_free(core, &segment, &segments, self.report, self.cancel)?
            {
                waiting += 1;
                continue;
            }
            core.store.delete(&note_of(&segment)).map_err(store_error)?;
        }
        for name in rewrites {
            self.cancel.check()?;
            core.store.delete(&name).map_err(store_error)?;
        }
        Ok(waiting)
    }
}

/// Has a segment pages of a checkpoint whose number, or a later one, nobody has taken?
fn may_get_a_checkpoint(core: &Core, segment: &str) -> Result<bool> {
    let number = |name: &str| name.split('-').next()?.parse::<u64>().ok();
    let Some(own) = segment.strip_prefix(PAGES_SEGMENT).and_then(number) else { return Ok(false) };
    let names = core.store.list(CHECKPOINTS).map_err(store_error)?;
    Ok(names.last().and_then(|name| number(&name[CHECKPOINTS.len()..])).is_none_or(|newest| newest < own))
}

/// The segments that the table needs as it is now, those of checkpoints included.
fn needed(core: &Core, cancel: &Cancel) -> Result<HashSet<String>> {
    let mut needed: HashSet<String> = core.page_segments()?.into_iter().collect();
    let (view, of_runs) = core.view_with(cancel, |runs| {
        let mut segments: HashSet<Arc<str>> = HashSet::new();
        runs.each(core, cancel, |run| {
            if !segments.contains(&run.payload.segment) {
                segments.insert(run.payload.segment.clone());
            }
        })?;
        Ok(segments)
    })?;
    needed.extend(view.runs.base.as_ref().map(|base| base.segment.to_string()));
    needed.extend(of_runs.iter().map(|segment| segment.to_string()));
    Ok(needed)
}

/// Who made a segment, and when, by its name.
fn made(segment: &str) -> Option<(String, u64)> {
    let (owner, number) = segment.rsplit_once('-')?;
    Some((owner.to_string(), number.parse().ok()?))
}

fn is_of_no_writer(segment: &str) -> bool {
    [REWRITE_SEGMENT, PAGES_SEGMENT].iter().any(|prefix| segment.starts_with(prefix))
}

/// Deletes a segment unless it is named, or a writer that is alive may still name it: in
/// its newest segment a commit may be under way.
fn delete_if_free(core: &Core, segment: &str, all: &[String], report: &mut Cleaning, cancel: &Cancel) -> Result<bool> {
    let Some((owner, number)) = made(segment) else { return Ok(false) };
    let mut log = None;
    if !is_of_no_writer(segment) || core.store.logs().map_err(store_error)?.contains(&owner) {
        match core.store.own_log(&owner) {
            Ok(own) => log = Some(own),
            Err(kubist_store::Error::Busy { .. }) => {
                let newer = all.iter().filter_map(|other| made(other)).any(|(o, n)| o == owner && n > number);
                if !newer {
                    return Ok(false);
                }
            }
            Err(error) => return Err(store_error(error)),
        }
    }
    // Looked at again while nobody can commit into it.
    if needed(core, cancel)?.contains(segment) {
        return Ok(false);
    }
    let bytes = core.store.segment_bytes(segment).map_err(store_error)?.unwrap_or(0);
    core.store.delete_segment(segment).map_err(store_error)?;
    drop(log);
    report.segments_deleted += 1;
    report.bytes_deleted += bytes;
    Ok(true)
}
