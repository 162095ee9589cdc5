//! A scheme that adds the cache to network stores, if the environment names a cache folder.

use std::fmt;
use std::sync::Arc;

use kubist_store::{Content, Latency, Result, Scheme, Store, StoreExt, StoreLocation};

use crate::folder::warn_once;
use crate::settings::folder_of_environment;
use crate::store::Cached;

/// Wraps a scheme, and puts a cache in front of its network stores.
pub struct FarScheme(pub Arc<dyn Scheme>);

impl Scheme for FarScheme {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn read(&self, location: &str) -> Result<Arc<dyn StoreLocation>, String> {
        Ok(Arc::new(Far(self.0.read(location)?)))
    }
}

struct Far(Arc<dyn StoreLocation>);

fn cached(store: Arc<dyn Store>) -> Arc<dyn Store> {
    let Some(identity) = store.identity().filter(|_| store.capabilities().latency == Latency::Network) else {
        return store;
    };
    match folder_of_environment() {
        Ok(Some(folder)) => Arc::new(Cached::new(store, identity, folder)),
        Ok(None) => store,
        Err(why) => {
            warn_once(why);
            store
        }
    }
}

impl fmt::Display for Far {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl StoreLocation for Far {
    fn find(&self) -> Result<Content> {
        Ok(match self.0.find()? {
            Content::Store(store) => Content::Store(cached(store)),
            other => other,
        })
    }

    fn ahead(&self) -> Option<Arc<dyn Store>> {
        self.0.ahead()
    }

    fn create(&self) -> Result<Arc<dyn Store>> {
        self.0.create().map(cached)
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
