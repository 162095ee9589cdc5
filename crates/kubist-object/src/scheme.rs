//! The scheme `s3`: from the text of a location to a store.

use std::fmt;
use std::sync::Arc;

use kubist_store::{Error, Found, Result, Scheme, Store, StoreLocation};

use crate::location::Location;
use crate::store::ObjectStore;

/// The scheme `s3`: stores in buckets.
#[derive(Debug, Clone, Copy)]
pub struct Buckets;

impl Scheme for Buckets {
    fn name(&self) -> &'static str {
        "s3"
    }

    fn read(&self, location: &str) -> Result<Arc<dyn StoreLocation>, String> {
        Ok(Arc::new(Located(Location::parse(location)?)))
    }
}

struct Located(Location);

impl fmt::Display for Located {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl StoreLocation for Located {
    fn find(&self) -> Result<Found> {
        match ObjectStore::open(self.0.clone()) {
            Ok(store) => Ok(Found::Store(Arc::new(store))),
            Err(Error::Missing { .. }) => Ok(Found::Nothing),
            Err(error) => Err(error),
        }
    }

    fn create(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(ObjectStore::create(self.0.clone())?))
    }

    fn beside(&self, suffix: &str, requests: usize) -> String {
        self.0.beside(suffix, requests)
    }
}
