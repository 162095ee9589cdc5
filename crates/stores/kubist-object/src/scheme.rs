//! The scheme `s3`: turns the text of a location into a store.

use std::fmt;
use std::sync::{Arc, OnceLock};

use kubist_store::{Error, Found, Result, Scheme, Store, StoreLocation};

use crate::client::Link;
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
        Ok(Arc::new(Located { location: Location::parse(location)?, link: OnceLock::new() }))
    }
}

struct Located {
    location: Location,
    /// The connection, shared by handles that are created before the store is found.
    link: OnceLock<Link>,
}

impl Located {
    fn link(&self) -> Result<Link> {
        match self.link.get() {
            Some(link) => Ok(link.clone()),
            None => {
                let link = Link::open(self.location.clone())?;
                Ok(self.link.get_or_init(|| link).clone())
            }
        }
    }
}

impl fmt::Display for Located {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.location.fmt(out)
    }
}

impl StoreLocation for Located {
    fn find(&self) -> Result<Found> {
        match ObjectStore::find(self.link()?) {
            Ok(store) => Ok(Found::Store(Arc::new(store))),
            Err(Error::Missing { .. }) => Ok(Found::Nothing),
            Err(error) => Err(error),
        }
    }

    fn ahead(&self) -> Option<Arc<dyn Store>> {
        Some(Arc::new(ObjectStore::ahead(self.link().ok()?)))
    }

    fn create(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(ObjectStore::create(self.location.clone())?))
    }

    fn beside(&self, suffix: &str, requests: usize) -> String {
        self.location.beside(suffix, requests)
    }
}
