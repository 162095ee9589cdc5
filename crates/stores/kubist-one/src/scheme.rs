//! Paths of sealed files: a scheme around the scheme of directories.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use kubist_store::{Content, Error, PATHS, Result, Scheme, Store, StoreLocation};

use crate::format::MAGIC;
use crate::local::LocalFile;
use crate::sealed::SealedStore;

/// Wraps the scheme of paths. A regular file with the magic of a sealed file is a store; its name does not matter.
pub struct SealedFiles(pub Arc<dyn Scheme>);

impl Scheme for SealedFiles {
    fn name(&self) -> &'static str {
        PATHS
    }

    fn read(&self, location: &str) -> Result<Arc<dyn StoreLocation>, String> {
        let inner = self.0.read(location)?;
        // The path is absolute, because other processes may open it from another directory.
        Ok(Arc::new(At { path: inner.absolute().into(), inner }))
    }
}

struct At {
    inner: Arc<dyn StoreLocation>,
    path: PathBuf,
}

impl At {
    fn sealed(&self) -> Result<Option<SealedStore>> {
        if !self.path.is_file() {
            return Ok(None);
        }
        let file = match LocalFile::open(&self.path) {
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        match file.head(MAGIC.len())? == MAGIC {
            true => SealedStore::open(Arc::new(file)),
            false => Ok(None),
        }
    }
}

impl fmt::Display for At {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(out)
    }
}

impl StoreLocation for At {
    fn find(&self) -> Result<Content> {
        match self.sealed()? {
            Some(store) => Ok(Content::Store(Arc::new(store))),
            None => self.inner.find(),
        }
    }

    fn create(&self) -> Result<Arc<dyn Store>> {
        match self.sealed()? {
            Some(store) => Ok(Arc::new(store)),
            None => self.inner.create(),
        }
    }

    fn has_other_files(&self) -> Result<bool> {
        if self.path.is_file() { Ok(false) } else { self.inner.has_other_files() }
    }

    fn noun(&self) -> &'static str {
        if self.path.is_file() { "the file" } else { self.inner.noun() }
    }

    fn others(&self) -> Vec<String> {
        self.inner.others()
    }

    fn beside(&self, suffix: &str, requests: usize) -> String {
        self.inner.beside(suffix, requests)
    }

    fn absolute(&self) -> String {
        self.inner.absolute()
    }
}
