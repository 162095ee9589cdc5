//! Cleaning: files that no snapshot of now needs, after a time of grace.
//!
//! A segment without live runs is noted as garbage when it is first noticed, and
//! deleted by a later call once it has been garbage for the retention time, so
//! that readers of older snapshots have that long to finish. A segment that a
//! live writer may still append to is left alone, and so are the logs.

use std::collections::HashSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::checkpoint;
use crate::error::{Result, store_error};
use crate::table::{Core, REWRITES, Table, number_of};

const GARBAGE: &str = "garbage/";
const KEPT_REWRITES: u64 = 64;

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
        let core = &self.core;
        core.check_process()?;
        // In this order: a run that is committed in between names a segment that
        // was not listed, or one of a live writer.
        let segments = core.store.segments().map_err(store_error)?;
        self.checkpoint()?;
        let view = core.view()?;
        let needed: HashSet<&str> = view
            .directory
            .runs()
            .iter()
            .chain(view.directory.replicas())
            .map(|run| run.payload.segment.as_ref())
            .collect();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut report = Cleaning::default();
        for segment in segments.iter().filter(|segment| !needed.contains(segment.as_str())) {
            let noted = format!("{GARBAGE}{segment}");
            core.store.put_if_absent(&noted, &(now.as_millis() as u64).to_le_bytes()).map_err(store_error)?;
            let since = core.store.get(&noted).map_err(store_error)?;
            let since = since.and_then(|bytes| Some(u64::from_le_bytes(bytes.as_ref().try_into().ok()?)));
            let age = now.saturating_sub(Duration::from_millis(since.unwrap_or(now.as_millis() as u64)));
            if age < retention || may_still_grow(core, segment, &segments) {
                report.segments_waiting += 1;
                continue;
            }
            let bytes = core.store.segment_len(segment).map_err(store_error)?.unwrap_or(0);
            core.store.delete_segment(segment).map_err(store_error)?;
            core.store.delete(&noted).map_err(store_error)?;
            report.segments_deleted += 1;
            report.bytes_deleted += bytes;
        }
        // Rewrites that the checkpoint holds. The last ones stay, so that a reader
        // that is behind notices the gap and starts from the checkpoint.
        let held = checkpoint::load(core)?.map_or(0, |(state, _)| state.rewrites());
        for name in core.store.list(REWRITES).map_err(store_error)? {
            if number_of(&name) + KEPT_REWRITES < held {
                core.store.delete(&name).map_err(store_error)?;
            }
        }
        Ok(report)
    }
}

/// Is it the newest segment of a writer that is alive?
fn may_still_grow(core: &Core, segment: &str, all: &[String]) -> bool {
    let Some((writer, number)) = segment.rsplit_once('-') else { return false };
    if !core.store.logs().is_ok_and(|logs| logs.iter().any(|log| log == writer)) {
        return false;
    }
    let newer = all.iter().filter_map(|other| other.rsplit_once('-')).any(|(w, n)| w == writer && n > number);
    !newer && matches!(core.store.own_log(writer), Err(kubist_store::Error::Busy { .. }))
}
