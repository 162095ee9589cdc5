//! The scheme `s3`: turns the text of a location into a store.

use std::fmt;
use std::sync::{Arc, OnceLock};

use kubist_one::SealedStore;
use kubist_store::{Content, Error, Result, Scheme, Store, StoreLocation};

use crate::client::Link;
use crate::location::Location;
use crate::remote::RemoteFile;
use crate::store::ObjectStore;

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
    /// Shared by handles that are created before the store is found.
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
    fn find(&self) -> Result<Content> {
        let link = self.link()?;
        let failed = match ObjectStore::find(link.clone()) {
            Ok(store) => return Ok(Content::Store(Arc::new(store))),
            Err(Error::Missing { .. }) => None,
            // For users who may not list objects, a missing key is reported as forbidden.
            Err(error @ Error::Io { .. }) => Some(error),
            Err(error) => return Err(error),
        };
        match (SealedStore::open(Arc::new(RemoteFile::of_bucket(&link))), failed) {
            (Ok(Some(store)), _) => Ok(Content::Store(Arc::new(store))),
            (_, Some(error)) => Err(error),
            (Ok(None), None) => Ok(Content::NoStore("it is an object that is no sealed file")),
            (Err(Error::Missing { .. }), None) => Ok(Content::Nothing),
            (Err(error), None) => Err(error),
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
