//! Sizes and deletion of a whole store.
//!
//! Only files with names of the store are counted and removed, so nothing outside the directory is touched. If another
//! machine has a file open, it finds that the file is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::Path;

use crate::disk::{DirectoryEntry, Sort};
use crate::{Error, Result, Size, StoredKind, names};

use super::numbered::{CLAIMS, ENTRIES, LOGS, MARK, SEAL};
use super::{LocalStore, temporary};

/// The folder, suffix and kind of files. Logs are deleted last, so no segment outlives the log that names it.
const FOLDERS: [(&str, &str, StoredKind); 5] = [
    ("segments", ".seg", StoredKind::Segment),
    (temporary::FOLDER, "", StoredKind::Temporary),
    (LOGS, ".ack", StoredKind::Log),
    (LOGS, ".log", StoredKind::Log),
    (LOGS, SEAL, StoredKind::Log),
];

const OF_WRITERS: [&str; 2] = [CLAIMS, ENTRIES];

pub(super) fn sizes(store: &LocalStore) -> Result<Vec<Size>> {
    let mut sizes: Vec<Size> = Vec::new();
    let mut count = |kind: StoredKind, name: String, path: &Path| {
        match store.disk.find(path) {
            Ok(Some(found)) if found.sort != Sort::Directory => {
                let bytes = if kind == StoredKind::Segment { found.taken } else { found.bytes };
                sizes.push(Size { kind, name, bytes });
            }
            Ok(_) => {}
            Err(error) => return Err(Error::io("measure", path, error)),
        }
        Ok(())
    };
    for name in super::objects::list(store, "")? {
        let path = store.root.join(&name);
        count(StoredKind::Object, name, &path)?;
    }
    let folders = own_folders(store)?;
    for (folder, ending, kind) in FOLDERS.into_iter().filter(|(folder, ..)| folders.contains(*folder)) {
        for listed in files(store, folder, ending)? {
            let name = listed.name[..listed.name.len() - ending.len()].to_owned();
            count(kind, name, &store.root.join(folder).join(&listed.name))?;
        }
    }
    if folders.contains(LOGS) {
        sizes.extend(sizes_of_numbered(store)?);
    }
    Ok(sizes)
}

fn sizes_of_numbered(store: &LocalStore) -> Result<Vec<Size>> {
    let bytes = |path: &Path| match store.disk.find(path) {
        Ok(Some(found)) if found.sort == Sort::File => Ok(found.bytes),
        Ok(_) => Ok(0),
        Err(error) => Err(Error::io("measure", path, error)),
    };
    let mut sizes: BTreeMap<String, u64> = BTreeMap::new();
    for (writer, folder) in folders_of_writers(store)? {
        let folder = store.root.join(LOGS).join(folder);
        for listed in numbered(store, &folder)? {
            *sizes.entry(writer.clone()).or_default() += bytes(&folder.join(listed))?;
        }
    }
    let mut sizes: Vec<Size> =
        sizes.into_iter().map(|(name, bytes)| Size { kind: StoredKind::Log, name, bytes }).collect();
    let mark = bytes(&store.root.join(LOGS).join(MARK))?;
    sizes.extend((mark > 0).then(|| Size { kind: StoredKind::Temporary, name: MARK.into(), bytes: mark }));
    Ok(sizes)
}

fn folders_of_writers(store: &LocalStore) -> Result<Vec<(String, String)>> {
    let listed = store.folders.list(&store.root.join(LOGS))?;
    let folders = listed.into_iter().filter(|listed| listed.sort == Sort::Directory);
    Ok(folders
        .filter_map(|listed| {
            let writer = OF_WRITERS.iter().find_map(|ending| listed.name.strip_suffix(ending))?.to_owned();
            names::check_part(&writer).is_ok().then_some((writer, listed.name))
        })
        .collect())
}

fn numbered(store: &LocalStore, folder: &Path) -> Result<Vec<String>> {
    let listed = store.folders.list(folder)?.into_iter().filter(|listed| listed.sort != Sort::Directory);
    let is_number = |name: &String| name.len() == 20 && name.bytes().all(|byte| byte.is_ascii_digit());
    Ok(listed.map(|listed| listed.name).filter(is_number).collect())
}

pub(super) fn erase(store: &LocalStore, objects: &[String]) -> Result<()> {
    let own = own_folders(store)?;
    store.known.clear();
    if own.contains(LOGS) {
        erase_numbered(store)?;
    }
    for (folder, ending, _) in FOLDERS.into_iter().filter(|(folder, ..)| own.contains(*folder)) {
        for listed in files(store, folder, ending)? {
            let path = store.root.join(folder).join(&listed.name);
            store.open_files.forget(&path);
            unlink(store, &path)?;
        }
        remove_or_sync(store, &store.root.join(folder))?;
    }
    // Listings do not follow links to folders.
    let here: BTreeSet<String> = super::objects::list(store, "")?.into_iter().collect();
    let emptied: Vec<&str> = objects.iter().filter_map(|name| name.strip_suffix('/')).collect();
    let objects: Vec<&String> = objects.iter().filter(|name| here.contains(*name)).collect();
    let Some((last, others)) = objects.split_last() else { return remove_or_sync(store, &store.root) };
    let mut folders: BTreeSet<_> =
        own.iter().filter(|folder| emptied.contains(&folder.as_str())).map(|folder| store.root.join(folder)).collect();
    for name in others {
        unlink(store, &store.root.join(name))?;
        folders.extend(name.match_indices('/').map(|(end, _)| store.root.join(&name[..end])));
    }
    for folder in folders.into_iter().rev() {
        remove_or_sync(store, &folder)?;
    }
    // A power failure must not restore other objects without the last one.
    store.folders.sync(&store.root)?;
    unlink(store, &store.root.join(last))?;
    for (end, _) in last.rmatch_indices('/') {
        remove_or_sync(store, &store.root.join(&last[..end]))?;
    }
    remove_or_sync(store, &store.root)
}

/// Deletes the numbered files. The mark comes last, so that a repeated call knows that the store is shared.
fn erase_numbered(store: &LocalStore) -> Result<()> {
    let logs = store.root.join(LOGS);
    for (_, folder) in folders_of_writers(store)? {
        let folder = logs.join(folder);
        for name in numbered(store, &folder)? {
            unlink(store, &folder.join(name))?;
        }
        remove_or_sync(store, &folder)?;
    }
    store.folders.sync(&logs)?;
    unlink(store, &logs.join(MARK))
}

/// The folders of the store that are not links.
fn own_folders(store: &LocalStore) -> Result<BTreeSet<String>> {
    let listed = store.folders.list(&store.root)?;
    Ok(listed.into_iter().filter(|listed| listed.sort == Sort::Directory).map(|listed| listed.name).collect())
}

fn files(store: &LocalStore, folder: &str, ending: &str) -> Result<Vec<DirectoryEntry>> {
    let mut listed = store.folders.list(&store.root.join(folder))?;
    listed.retain(|listed| {
        let is_ours = |name| match folder {
            temporary::FOLDER => temporary::is_name(name),
            _ => names::check_part(name).is_ok(),
        };
        listed.sort != Sort::Directory && listed.name != MARK && listed.name.strip_suffix(ending).is_some_and(is_ours)
    });
    Ok(listed)
}

fn unlink(store: &LocalStore, path: &Path) -> Result<()> {
    match store.disk.unlink(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io("delete", path, error)),
        _ => Ok(()),
    }
}

/// Removes a folder, unless other programs have files in it.
fn remove_or_sync(store: &LocalStore, path: &Path) -> Result<()> {
    match store.disk.remove_directory(path) {
        Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => store.folders.sync(path),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        // The current directory and a mount point cannot be removed, even if they are empty.
        Err(error) if matches!(error.kind(), ErrorKind::ResourceBusy | ErrorKind::InvalidInput) => Ok(()),
        Err(error) => Err(Error::io("remove the directory", path, error)),
        Ok(()) => Ok(()),
    }
}
