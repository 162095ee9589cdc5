//! Directories whose names survive a crash.
//!
//! A file is durable only if every directory above it is durable, so a handle syncs the path to a folder once before it
//! writes there. A failed sync of a directory is remembered, because a second sync could succeed although the names are
//! not on disk.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::disk::{DirectoryEntry, Disk, Sort, irregular};
use crate::{Error, Result};

#[derive(Debug)]
pub(super) struct Folders {
    disk: Arc<dyn Disk>,
    root: PathBuf,
    known: Mutex<FolderStates>,
}

#[derive(Debug, Default)]
struct FolderStates {
    durable: HashSet<PathBuf>,
    failed: HashMap<PathBuf, String>,
}

impl Folders {
    pub fn new(disk: Arc<dyn Disk>, root: &Path) -> Folders {
        Folders { disk, root: root.to_path_buf(), known: Mutex::default() }
    }

    /// Durably creates a folder ("rewrites", "a/b", or "" for the root).
    pub fn ensure(&self, folder: &str) -> Result<PathBuf> {
        let mut path = self.root.clone();
        for part in folder.split('/').filter(|part| !part.is_empty()) {
            let parent = path.clone();
            path.push(part);
            if self.known().durable.contains(&path) {
                continue;
            }
            create_or_find(&*self.disk, &path)?;
            self.sync(&parent)?;
            self.known().durable.insert(path.clone());
        }
        Ok(path)
    }

    pub fn sync(&self, path: &Path) -> Result<()> {
        if let Some(cause) = self.known().failed.get(path) {
            return Err(Error::Refused { file: path.display().to_string(), cause: cause.clone() });
        }
        sync(&*self.disk, path).inspect_err(|error| {
            let failed = &mut self.known().failed;
            failed.insert(path.to_path_buf(), error.to_string());
        })
    }

    /// Lists a folder; empty if there is no such folder.
    pub fn list(&self, path: &Path) -> Result<Vec<DirectoryEntry>> {
        match self.disk.read_directory(path) {
            Ok(listed) => Ok(listed),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(Error::io("list", path, error)),
        }
    }

    /// The sorted names that end in `suffix`, without the suffix. Files of all types count, because a link must not
    /// make a log look absent.
    pub fn names(&self, folder: &str, suffix: &str) -> Result<Vec<String>> {
        let mut names: Vec<String> = self
            .list(&self.root.join(folder))?
            .into_iter()
            .filter_map(|DirectoryEntry { mut name, .. }| {
                let length = name.strip_suffix(suffix)?.len();
                name.truncate(length);
                Some(name)
            })
            .filter(|name| crate::names::check_part(name).is_ok())
            .collect();
        names.sort_unstable();
        Ok(names)
    }

    fn known(&self) -> MutexGuard<'_, FolderStates> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn create_or_find(disk: &dyn Disk, path: &Path) -> Result<()> {
    let mut outcome = disk.create_directory(path);
    if outcome.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists) {
        outcome = match disk.find(path) {
            Ok(Some(found)) if found.sort != Sort::Directory => Err(irregular(path, found.sort, Sort::Directory)),
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
    }
    outcome.map_err(|error| Error::io("create the directory", path, error))
}

pub(super) fn create_with_parents(disk: &dyn Disk, path: &Path) -> Result<()> {
    let mut missing = Vec::new();
    for above in path.ancestors().filter(|above| !above.as_os_str().is_empty()) {
        match disk.find(above) {
            Ok(Some(_)) => {
                // The process that created it may have died before it was durable. Only the lowest directory can be in
                // this state, because each directory is synced before the next is created. A directory that this
                // process may not read is older.
                match sync(disk, parent(above)) {
                    Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied => {}
                    outcome => outcome?,
                }
                break;
            }
            Ok(None) => missing.push(above),
            Err(error) => return Err(Error::io("open", above, error)),
        }
    }
    for directory in missing.into_iter().rev() {
        create_or_find(disk, directory)?;
        sync(disk, parent(directory))?;
    }
    Ok(())
}

fn sync(disk: &dyn Disk, path: &Path) -> Result<()> {
    disk.sync_directory(path).map_err(|error| Error::io("sync the directory", path, error))
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) => Path::new("."),
        None => path,
    }
}
