//! Checks the bytes that a partial copy holds. Its source has the rest.

use std::sync::Arc;

use kubist_catalog::core::Core;
use kubist_catalog::error::is_damage;
use kubist_catalog::fetch::Piece;
use kubist_catalog::snapshot::Snapshot;
use kubist_format::location::Location;
use kubist_index::state::Run;
use kubist_read::runs;
use kubist_store::{Partial, Store};
use kubist_types::error::Result;

use super::{VerifyOptions, VerifyReport};

/// Checks the manifest and the held zone maps, and in a deep check all held chunks.
///
/// # Errors
///
/// `Cancelled`; `NotATable`; a storage error. Damage is in the report.
pub fn check(
    store: &Arc<dyn Store>,
    partial: &dyn Partial,
    options: &VerifyOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<VerifyReport> {
    let (cancel, bytes) = (&options.cancel, partial.held_bytes());
    let mut report = VerifyReport { deep: options.deep, bytes, held: Some(bytes), ..VerifyReport::default() };
    let seen = Core::open(store.clone(), cancel).and_then(|core| {
        let snapshot = Snapshot::now(&core, cancel)?;
        snapshot.view.runs.base.as_ref().map_or(Ok(()), |base| base.check(&core, cancel))?;
        let mut all = Vec::new();
        snapshot.view.runs.each(&core, cancel, |run| all.push(run.clone()))?;
        Ok((snapshot, all))
    });
    let (snapshot, all) = match seen {
        Err(error) if is_damage(&error) => {
            report.note(error)?;
            return Ok(report);
        }
        seen => seen?,
    };
    let is_held = |run: &&Arc<Run<Location>>| {
        let location = &run.payload;
        let map = location.map_offset..location.map_offset + u64::from(location.map_length);
        partial.missing(&[(&location.segment, &[map])]) == 0
    };
    let held: Vec<&Arc<Run<Location>>> = all.iter().filter(is_held).collect();
    for (number, run) in held.iter().enumerate() {
        cancel.check()?;
        report.runs += 1;
        if let Err(error) = check_run(&snapshot, partial, run, &mut report) {
            report.note(error)?;
        }
        progress((number + 1) as u64, held.len() as u64);
    }
    Ok(report)
}

fn check_run(
    snapshot: &Snapshot,
    partial: &dyn Partial,
    run: &Arc<Run<Location>>,
    report: &mut VerifyReport,
) -> Result<()> {
    let (maps, _) = snapshot.zone_maps(std::iter::once(run), false)?;
    let (map, location) = (&maps[0], &run.payload);
    report.rows += run.rows;
    if !report.deep {
        return Ok(());
    }
    for page in 0..map.pages() {
        let mut holds_some = false;
        for column in 0..map.columns.len() {
            let chunk = map.chunk(page, column);
            let (offset, length) = (location.data_offset + chunk.offset, u64::from(chunk.length));
            if partial.missing(&[(&location.segment, &[offset..offset + length])]) > 0 {
                continue;
            }
            holds_some = true;
            let piece = Piece { segment: location.segment.clone(), offset, length };
            match snapshot.core.fetch(&[piece]) {
                Ok(found) if crc32c::crc32c(&found.pieces[0]) == chunk.checksum => {}
                Ok(_) => {
                    let name = snapshot.view.schema.stored.field(column).name();
                    let what = format!("the checksum does not match (column {name:?}, page {page})");
                    report.note(runs::damaged(snapshot, run, chunk.offset, what))?;
                }
                Err(error) => report.note(error)?,
            }
        }
        report.pages += u64::from(holds_some);
    }
    Ok(())
}
