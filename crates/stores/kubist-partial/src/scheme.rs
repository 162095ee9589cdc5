//! Partial copies at paths: a scheme around the scheme of directories.

use std::fmt;
use std::sync::Arc;

use kubist_store::{Content, PATHS, Result, Scheme, Store, StoreLocation};

use crate::store::PartialStore;

/// Wraps the scheme of paths. A directory with the object `partial` is a partial copy.
pub struct PartialCopies(pub Arc<dyn Scheme>);

impl Scheme for PartialCopies {
    fn name(&self) -> &'static str {
        PATHS
    }

    fn read(&self, location: &str) -> Result<Arc<dyn StoreLocation>, String> {
        Ok(Arc::new(At(self.0.read(location)?)))
    }
}

struct At(Arc<dyn StoreLocation>);

fn seen(store: Arc<dyn Store>) -> Result<Arc<dyn Store>> {
    Ok(match PartialStore::open(store.clone())? {
        Some(partial) => Arc::new(partial),
        None => store,
    })
}

impl fmt::Display for At {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl StoreLocation for At {
    fn find(&self) -> Result<Content> {
        match self.0.find()? {
            Content::Store(store) => Ok(Content::Store(seen(store)?)),
            found => Ok(found),
        }
    }

    fn create(&self) -> Result<Arc<dyn Store>> {
        seen(self.0.create()?)
    }

    fn has_other_files(&self) -> Result<bool> {
        self.0.has_other_files()
    }

    fn noun(&self) -> &'static str {
        self.0.noun()
    }

    fn others(&self) -> Vec<String> {
        self.0.others()
    }

    fn beside(&self, suffix: &str, requests: usize) -> String {
        self.0.beside(suffix, requests)
    }

    fn absolute(&self) -> String {
        self.0.absolute()
    }
}
