//! Deletes all files of a table, and no others.
//!
//! A durable marker is written before the first file is deleted, and is deleted last. While it exists, the location can
//! only be dropped again, so a drop can be interrupted at any time.

use std::sync::Arc;

use kubist_store::Store;

use kubist_catalog::error::store_error;
use kubist_catalog::location::TableLocation;
use kubist_catalog::stop::stoppable;
use kubist_format::names::{
    ALTERATIONS, CHECKPOINTS, CLAIMS, DROPPED, GARBAGE, GRID, HOLDS, HOLES, LEASES, REWRITES, SYNC, TABLE, UNFINISHED,
    WRITERS,
};
use kubist_types::{Cancel, Error, Result};

#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Dropped {
    pub files: u64,
    pub bytes: u64,
    /// Files that do not belong to the table.
    pub files_left: u64,
}

const FOLDERS: [&str; 9] = [REWRITES, CHECKPOINTS, GARBAGE, HOLDS, HOLES, LEASES, CLAIMS, ALTERATIONS, SYNC];

fn is_ours(name: &str) -> bool {
    [TABLE, GRID, WRITERS, DROPPED, UNFINISHED].contains(&name) || FOLDERS.iter().any(|folder| name.starts_with(folder))
}

/// Deletes the table, and its directory if that is then empty. Files of other programs stay, and links are not
/// followed.
///
/// # Errors
///
/// `NotATable`; `Busy` while a writer runs, without `force`; `Cancelled`, after which the table is complete or can only
/// be dropped again; a storage error.
pub fn drop_at(location: &TableLocation, force: bool, cancel: &Cancel) -> Result<Dropped> {
    let store = stoppable(cancel, || location.store())?;
    stoppable(cancel, || drop_table(store.as_ref(), force, cancel))
}

/// # Errors
///
/// The same as [`drop_at`].
pub fn drop_table(store: &dyn Store, force: bool, cancel: &Cancel) -> Result<Dropped> {
    cancel.check()?;
    // A file of another program may have the same name.
    let there = |name| store.get(name).map(|found| found.is_some()).map_err(store_error);
    let begun = there(DROPPED)?;
    let is_table = begun || there(TABLE)?;
    if !is_table && !there(UNFINISHED)? {
        return Err(Error::NotATable { location: store.location().into(), why: "it holds no table".into() });
    }
    let mut logs = Vec::new();
    take_logs(store, force, &mut logs, cancel)?;
    let mark = if is_table { DROPPED } else { UNFINISHED };
    if is_table {
        store.put_if_absent(DROPPED, b"").map_err(store_error)?;
    }
    // Also takes logs that have appeared. A later writer sees the marker.
    let taken = take_logs(store, force, &mut logs, cancel).and_then(|()| {
        let sizes = store.sizes().map_err(store_error)?;
        cancel.check()?;
        Ok(sizes)
    });
    let sizes = match taken {
        Ok(sizes) => sizes,
        Err(error) => {
            if is_table && !begun {
                store.delete(DROPPED).map_err(store_error)?;
            }
            return Err(error);
        }
    };
    let (mut dropped, mut objects) = (Dropped::default(), Vec::new());
    for size in sizes.into_iter().filter(|size| size.name != mark) {
        if size.kind == kubist_store::StoredKind::Object {
            if !is_ours(&size.name) {
                dropped.files_left += 1;
                continue;
            }
            objects.push(size.name);
        }
        dropped.files += 1;
        dropped.bytes += size.bytes;
    }
    store.delete(TABLE).map_err(store_error)?;
    objects.extend(FOLDERS.map(String::from));
    objects.push(mark.into());
    store.erase(&objects).map_err(store_error)?;
    Ok(dropped)
}

/// Returns an empty store, without the files of an interrupted copy.
///
/// # Errors
///
/// `Exists` if the location holds something else; `Busy` while another process copies to it; `Cancelled`; a storage
/// error.
pub fn vacant_for_copy(location: &TableLocation, cancel: &Cancel) -> Result<Arc<dyn Store>> {
    let left = match stoppable(cancel, || location.store()) {
        Ok(store) => {
            let there = |name| store.get(name).map(|found| found.is_some()).map_err(store_error);
            (there(UNFINISHED)? && !there(TABLE)? && !there(DROPPED)?).then_some(store)
        }
        Err(Error::NotATable { .. } | Error::Missing { .. }) => None,
        Err(error) => return Err(error),
    };
    if let Some(left) = left {
        stoppable(cancel, || drop_table(left.as_ref(), false, cancel))?;
    }
    stoppable(cancel, || location.vacant())
}

/// Takes all other logs, so that no writer can run. With `force`, it takes no log.
fn take_logs(
    store: &dyn Store,
    force: bool,
    taken: &mut Vec<Box<dyn kubist_store::LogOwner>>,
    cancel: &Cancel,
) -> Result<()> {
    for writer in store.logs().map_err(store_error)? {
        cancel.check()?;
        if force || taken.iter().any(|log| log.writer() == writer) {
            continue;
        }
        match store.own_log(&writer) {
            Ok(log) => taken.push(log),
            Err(kubist_store::Error::Damaged { .. } | kubist_store::Error::Irregular { .. }) => {}
            // With any other error, a writer may still run.
            Err(error) => return Err(store_error(error)),
        }
    }
    Ok(())
}
