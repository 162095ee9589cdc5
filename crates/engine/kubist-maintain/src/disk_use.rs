//! Sizes of a table's files by purpose, which add up to all of its files.

use kubist_store::StoredKind;

use kubist_catalog::core::Core;
use kubist_catalog::directory::Entry;
use kubist_catalog::error::store_error;
use kubist_format::lookups::LookupBytes;
use kubist_format::names::CHECKPOINTS;
use kubist_format::names::REWRITES;
use kubist_types::Cancel;
use kubist_types::error::Result;

#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct DiskUse {
    /// Data of live primary runs, which have each row once.
    pub primary: u64,
    pub replicas: u64,
    pub zone_maps: u64,
    pub lookups: u64,
    /// Replaced runs that wait for cleaning, failed or unfinished commits, and file headers.
    pub dead: u64,
    pub logs: u64,
    pub rewrites: u64,
    pub checkpoints: u64,
    /// The table's description, alterations, notes, temporary files.
    pub other: u64,
    pub total: u64,
}

impl DiskUse {
    /// # Errors
    ///
    /// The errors of [`Core::view`].
    pub fn of(core: &Core, cancel: &Cancel) -> Result<DiskUse> {
        let (view, mut found) = core.view_with(cancel, |view| {
            let (mut found, mut lookups) = (DiskUse::default(), LookupBytes::default());
            view.runs.each_in_order(core, cancel, |entry| {
                let Entry::Run(run) = entry else { return Ok(()) };
                *match run.is_replica() {
                    true => &mut found.replicas,
                    false => &mut found.primary,
                } += run.payload.data_length;
                found.zone_maps += run.payload.map_length as u64;
                lookups.add(&run);
                Ok(())
            })?;
            found.lookups = lookups.bytes;
            Ok(found)
        })?;
        let pages = view.runs.base.as_ref().map_or(0, |base| base.bytes());
        let mut segments = 0;
        cancel.check()?;
        for size in core.store.sizes().map_err(store_error)? {
            *match size.kind {
                StoredKind::Segment => &mut segments,
                StoredKind::Log => &mut found.logs,
                StoredKind::Object if size.name.starts_with(REWRITES) => &mut found.rewrites,
                StoredKind::Object if size.name.starts_with(CHECKPOINTS) => &mut found.checkpoints,
                StoredKind::Object | StoredKind::Temporary => &mut found.other,
            } += size.bytes;
        }
        let live = found.primary + found.replicas + found.zone_maps + found.lookups;
        found.dead = segments.saturating_sub(live + pages);
        found.checkpoints += pages;
        found.total = live + found.dead + found.logs + found.rewrites + found.checkpoints + found.other;
        Ok(found)
    }
}
