//! Cleaning: files that no snapshot of now needs, after a time of grace.
//!
//! A segment without live runs is noted as garbage when it is first noticed, and
//! deleted by a later call once it has been garbage for the retention time, so
//! that readers of older snapshots have that long to finish. A segment that a
//! live writer may still append to is left alone, and so are the logs; that of a rewrite
//! or a checkpoint is not noted for ten minutes after it was made. Who publishes one later
//! than that sees the note and gives up, or is seen (`rewrite`).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::checkpoint::{self, CHECKPOINTS, PAGES_SEGMENT};
use crate::error::{Result, store_error};
use crate::rewrite::{REWRITE_SEGMENT, fence, unix_ms};
use crate::table::{Core, REWRITES, Table, number_of};

pub(crate) const GARBAGE: &str = "garbage/";
const KEPT_REWRITES: u64 = 64;
/// A rewriter publishes its segment within this time of making it, or has worked in vain; so
/// has who writes a checkpoint.
const REWRITE_TIME: Duration = Duration::from_secs(600);

/// What [`Table::clean`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Cleaning {
    pub segments_deleted: u64,
    pub bytes_deleted: u64,
    /// Noted as garbage, for a later call.
    pub segments_waiting: u64,
}

impl Table {
    /// Deletes what has been garbage for `retention`, and notes what is garbage
    /// now. Snapshots taken longer ago may then answer `SnapshotExpired`.
    pub fn clean(&self, retention: Duration) -> Result<Cleaning> {
        self.clean_as_of(retention, unix_ms())
    }

    /// The same by another clock, in milliseconds since 1970.
    #[doc(hidden)]
    pub fn clean_as_of(&self, retention: Duration, now: u64) -> Result<Cleaning> {
        let core = &self.core;
        core.check_process()?;
        let segments = core.store.segments().map_err(store_error)?;
        self.checkpoint()?;
        let needed = needed(core)?;
        let mut report = Cleaning::default();
        for noted in core.store.list(GARBAGE).map_err(store_error)? {
            let segment = &noted[GARBAGE.len()..];
            // Looked for now: one that was made since the list was may have a note that counts.
            let is_gone = match core.store.segment_len(segment) {
                Err(kubist_store::Error::InvalidName { .. }) => true,
                length => length.map_err(store_error)?.is_none(),
            };
            if needed.contains(segment) || is_gone {
                core.store.delete(&noted).map_err(store_error)?;
            }
        }
        let is_new = |segment: &str| match made(segment) {
            Some((_, at)) if is_of_no_writer(segment) => now.saturating_sub(at) < REWRITE_TIME.as_millis() as u64,
            _ => false,
        };
        let (new, garbage): (Vec<&String>, Vec<&String>) =
            segments.iter().filter(|segment| !needed.contains(*segment)).partition(|segment| is_new(segment));
        report.segments_waiting += new.len() as u64;
        let mut due = Vec::new();
        for segment in garbage {
            let noted = format!("{GARBAGE}{segment}");
            core.store.put_if_absent(&noted, &now.to_le_bytes()).map_err(store_error)?;
            let since = core.store.get(&noted).map_err(store_error)?;
            let since = since.and_then(|bytes| Some(u64::from_le_bytes(bytes.as_ref().try_into().ok()?)));
            match Duration::from_millis(now.saturating_sub(since.unwrap_or(now))) < retention {
                true => report.segments_waiting += 1,
                false => due.push(segment),
            }
        }
        // After the notes: see `rewrite`.
        if due.iter().any(|segment| segment.starts_with(REWRITE_SEGMENT)) {
            fence(core)?;
        }
        if due.iter().any(|segment| self.may_get_a_checkpoint(segment).unwrap_or(true)) {
            self.checkpoint_anew()?;
        }
        for segment in due {
            if self.may_get_a_checkpoint(segment)? || !delete_if_free(core, segment, &segments, &mut report)? {
                report.segments_waiting += 1;
                continue;
            }
            core.store.delete(&format!("{GARBAGE}{segment}")).map_err(store_error)?;
        }
        // Rewrites that the checkpoint holds. The last ones stay, so that a reader
        // that is behind notices the gap and starts from the checkpoint.
        let held = checkpoint::load(core)?.map_or(0, |held| held.state.rewrites());
        for name in core.store.list(REWRITES).map_err(store_error)? {
            if number_of(&name) + KEPT_REWRITES < held {
                core.store.delete(&name).map_err(store_error)?;
            }
        }
        Ok(report)
    }

    /// Has a segment pages of a checkpoint whose number, or a later one, nobody has taken?
    fn may_get_a_checkpoint(&self, segment: &str) -> Result<bool> {
        let number = |name: &str| name.split('-').next()?.parse::<u64>().ok();
        let Some(own) = segment.strip_prefix(PAGES_SEGMENT).and_then(number) else { return Ok(false) };
        let names = self.core.store.list(CHECKPOINTS).map_err(store_error)?;
        Ok(names.last().and_then(|name| number(&name[CHECKPOINTS.len()..])).is_none_or(|newest| newest < own))
    }
}

/// The segments that the table needs as it is now, those of checkpoints included.
fn needed(core: &Core) -> Result<HashSet<String>> {
    let mut needed: HashSet<String> = checkpoint::segments(core)?.iter().map(|segment| segment.to_string()).collect();
    let (view, of_runs) = core.view_with(|runs| {
        let mut segments: HashSet<Arc<str>> = HashSet::new();
        runs.each(core, |run| {
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
fn delete_if_free(core: &Core, segment: &str, all: &[String], report: &mut Cleaning) -> Result<bool> {
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
    if needed(core)?.contains(segment) {
        return Ok(false);
    }
    let bytes = core.store.segment_len(segment).map_err(store_error)?.unwrap_or(0);
    core.store.delete_segment(segment).map_err(store_error)?;
    drop(log);
    report.segments_deleted += 1;
    report.bytes_deleted += bytes;
    Ok(true)
}
