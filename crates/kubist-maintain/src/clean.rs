//! Cleaning: files that no snapshot of now needs, after a time of grace.
//!
//! A segment without live runs is noted as garbage when it is first noticed, and
//! deleted by a later call once it has been garbage for the retention time, so
//! that readers of older snapshots have that long to finish. A segment that a
//! live writer may still append to is left alone, that of a rewrite or a checkpoint for ten
//! minutes after it was made (it may not be published yet), and so are the logs.
//!
//! What can go is deleted before anything is written: people clean when the disk is full.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use kubist_catalog::core::Core;
use kubist_catalog::error::store_error;
use kubist_catalog::segment::unix_ms;
use kubist_catalog::{checkpoint, write_checkpoint};
use kubist_format::names::REWRITE_SEGMENT;
use kubist_format::names::{GARBAGE, PAGES_SEGMENT};
use kubist_format::names::{REWRITES, number_of};
use kubist_types::error::Result;

const KEPT_REWRITES: u64 = 64;
/// A rewriter publishes its segment within this time of making it; so does who writes a
/// checkpoint.
const REWRITE_TIME: Duration = Duration::from_secs(600);

/// What [`Table::clean`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Cleaning {
    pub segments_deleted: u64,
    pub bytes_deleted: u64,
    /// Noted as garbage, for a later call.
    pub segments_waiting: u64,
}

/// Deletes what has been garbage for `retention`, and notes what is garbage
/// now. Snapshots taken longer ago may then answer `SnapshotExpired`.
pub fn clean(core: &Arc<Core>, retention: Duration) -> Result<Cleaning> {
    core.check_process()?;
    core.check_still_there()?;
    let now = unix_ms();
    let mut report = Cleaning::default();
    free(core, retention, now, &mut report)?;
    // Now there may be room for a checkpoint, and that may let go of more.
    write_checkpoint::write(core)?;
    for segment in free(core, retention, now, &mut report)? {
        core.store.put_if_absent(&note_of(&segment), &now.to_le_bytes()).map_err(store_error)?;
        report.segments_waiting += 1;
    }
    Ok(report)
}

/// Where it is noted since when a segment has been garbage.
fn note_of(segment: &str) -> String {
    format!("{GARBAGE}{segment}")
}

/// Deletes what has been garbage for `retention`, writing nothing, and gives the segments
/// that wait. What was never noted has been garbage for no time.
fn free(core: &Core, retention: Duration, now: u64, report: &mut Cleaning) -> Result<Vec<String>> {
    let segments = core.store.segments().map_err(store_error)?;
    let needed = needed(core)?;
    for note in core.store.list(GARBAGE).map_err(store_error)? {
        let segment = &note[GARBAGE.len()..];
        if needed.contains(segment) || !segments.iter().any(|listed| listed == segment) {
            core.store.delete(&note).map_err(store_error)?;
        }
    }
    let mut waiting = Vec::new();
    for segment in segments.iter().filter(|segment| !needed.contains(*segment)) {
        let since = core.store.get(&note_of(segment)).map_err(store_error)?;
        let since = since.and_then(|bytes| Some(u64::from_le_bytes(bytes.as_ref().try_into().ok()?)));
        let age = Duration::from_millis(now.saturating_sub(since.unwrap_or(now)));
        if age < retention || !delete_if_free(core, segment, &segments, now, report)? {
            waiting.push(segment.clone());
            continue;
        }
        core.store.delete(&note_of(segment)).map_err(store_error)?;
    }
    // Rewrites that the checkpoint holds. The last ones stay, so that a reader
    // that is behind notices the gap and starts from the checkpoint.
    let held = checkpoint::load(core)?.map_or(0, |held| held.state.rewrites());
    for name in core.store.list(REWRITES).map_err(store_error)? {
        if number_of(&name) + KEPT_REWRITES < held {
            core.store.delete(&name).map_err(store_error)?;
        }
    }
    Ok(waiting)
}

/// The segments that the table needs as it is now, those of checkpoints included.
fn needed(core: &Core) -> Result<HashSet<String>> {
    let mut needed: HashSet<String> = core.page_segments()?.into_iter().collect();
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

/// Deletes a segment unless somebody may still name it: a writer that is alive, in
/// whose newest segment a commit may be under way, or a rewriter that has not
/// published yet.
fn delete_if_free(core: &Core, segment: &str, all: &[String], now: u64, report: &mut Cleaning) -> Result<bool> {
    let parts = |name: &str| -> Option<(String, u64)> {
        let (owner, number) = name.rsplit_once('-')?;
        Some((owner.to_string(), number.parse().ok()?))
    };
    let Some((owner, number)) = parts(segment) else { return Ok(false) };
    let mut log = None;
    let of_no_writer = [REWRITE_SEGMENT, PAGES_SEGMENT].iter().any(|prefix| segment.starts_with(prefix));
    if of_no_writer && !core.store.logs().map_err(store_error)?.contains(&owner) {
        if Duration::from_millis(now.saturating_sub(number)) < REWRITE_TIME {
            return Ok(false);
        }
    } else {
        match core.store.own_log(&owner) {
            Ok(own) => log = Some(own),
            Err(kubist_store::Error::Busy { .. }) => {
                let newer = all.iter().filter_map(|other| parts(other)).any(|(o, n)| o == owner && n > number);
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
