//! The scheme `file`: a path, or `file://` and a path.

use std::fmt;
use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::scheme::{PATHS, unsupported};
use crate::{Content, Error, LocalStore, Result, Scheme, Store, StoreLocation, open_local};

/// The scheme `file`: stores in directories.
#[derive(Debug, Clone, Copy)]
pub struct Directories;

impl Scheme for Directories {
    fn name(&self) -> &'static str {
        PATHS
    }

    fn read(&self, location: &str) -> Result<Arc<dyn StoreLocation>, String> {
        let path = location.strip_prefix("file://").unwrap_or(location);
        match path.split_once("://") {
            Some((scheme, _)) => Err(unsupported(scheme)),
            None if path.is_empty() => Err("the location of a table is empty".into()),
            None => Ok(Arc::new(Directory { given: location.into(), path: path.into() })),
        }
    }
}

/// The number of neighbouring names to read for a suggestion.
const MOST_OTHERS: usize = 10_000;

struct Directory {
    given: String,
    path: PathBuf,
}

impl fmt::Display for Directory {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.given)
    }
}

impl StoreLocation for Directory {
    fn find(&self) -> Result<Content> {
        let path = &self.path;
        match look(path, fs::metadata(path))? {
            None if look(path, fs::symlink_metadata(path))?.is_some() => Ok(Content::NoStore("it is a broken link")),
            None => Ok(Content::Nothing),
            Some(found) if !found.is_dir() => Ok(Content::NoStore("it is a file, not a directory")),
            Some(_) => Ok(Content::Store(Arc::new(open_local(path)?))),
        }
    }

    fn create(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(LocalStore::create(&self.path)?))
    }

    /// The folders of a log do not count, because they may exist before the rest of a new store.
    fn has_other_files(&self) -> Result<bool> {
        let failed = |error| Error::io("list", &self.path, error);
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            if name != "logs" && name != "tmp" {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn noun(&self) -> &'static str {
        "the directory"
    }

    fn others(&self) -> Vec<String> {
        let given = Path::new(&self.given);
        let folder = given.parent().filter(|folder| !folder.as_os_str().is_empty());
        let Ok(entries) = fs::read_dir(folder.unwrap_or(Path::new("."))) else { return Vec::new() };
        let names = entries.take(MOST_OTHERS).filter_map(|entry| Some(entry.ok()?.file_name()));
        names.map(|name| given.with_file_name(name).to_string_lossy().into_owned()).collect()
    }

    fn beside(&self, suffix: &str, _requests: usize) -> String {
        format!("{}{suffix}", self.given.trim_end_matches('/'))
    }

    fn absolute(&self) -> String {
        let path = std::path::absolute(&self.path).ok();
        path.map_or_else(|| self.given.clone(), |path| path.to_string_lossy().into_owned())
    }
}

/// Returns `None` only if there is certainly nothing at the path.
fn look(path: &Path, found: io::Result<Metadata>) -> Result<Option<Metadata>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(Error::io("examine", path, error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_beside_is_a_path_that_goes_on() {
        for (location, other) in [("/data/run", "/data/run.fit"), ("file:///data/run/", "file:///data/run.fit")] {
            assert_eq!(Directories.read(location).unwrap().beside(".fit", 8), other);
        }
    }

    #[test]
    fn looking_makes_nothing_and_sees_what_is_no_store() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| Directories.read(folder.path().join(name).to_str().unwrap()).unwrap();
        fs::write(folder.path().join("file"), "").unwrap();
        std::os::unix::fs::symlink("nowhere", folder.path().join("link")).unwrap();
        assert!(matches!(at("t").find(), Ok(Content::Nothing)));
        assert!(matches!(at("file/t").find(), Ok(Content::Nothing)));
        assert!(matches!(at("file").find(), Ok(Content::NoStore("it is a file, not a directory"))));
        assert!(matches!(at("link").find(), Ok(Content::NoStore("it is a broken link"))));
        at("t").create().unwrap();
        assert!(matches!(at("t").find(), Ok(Content::Store(_))) && !at("t").has_other_files().unwrap());
        fs::write(folder.path().join("t/.hidden"), "").unwrap();
        assert!(at("t").has_other_files().unwrap());
    }
}
