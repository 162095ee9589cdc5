//! The scheme `cassandra`: turns the text of a location into a store.

use std::fmt;
use std::sync::Arc;

use kubist_store::{Content, Error, Result, Scheme, Store, StoreLocation};

use crate::location::Location;
use crate::store::CassandraStore;

/// Stores in tables of a cluster.
#[derive(Debug, Clone, Copy)]
pub struct Clusters;

impl Scheme for Clusters {
    fn name(&self) -> &'static str {
        "cassandra"
    }

    fn read(&self, location: &str) -> Result<Arc<dyn StoreLocation>, String> {
        Ok(Arc::new(Located { given: location.into(), location: Location::parse(location)? }))
    }
}

struct Located {
    given: String,
    location: Location,
}

impl fmt::Display for Located {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.location.fmt(out)
    }
}

impl StoreLocation for Located {
    fn find(&self) -> Result<Content> {
        match CassandraStore::open(self.location.clone()) {
            Ok(store) => Ok(Content::Store(Arc::new(store))),
            Err(Error::Missing { .. }) => Ok(Content::Nothing),
            Err(error) => Err(error),
        }
    }

    fn create(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(CassandraStore::create(self.location.clone())?))
    }

    fn beside(&self, suffix: &str, requests: usize) -> String {
        let (path, settings) = self.given.split_once('?').unwrap_or((&self.given, ""));
        format!("{path}{suffix}?{settings}&parallel={requests}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_beside_has_the_same_way_to_it() {
        for (location, other) in [
            ("cassandra://ada:s@h,i/k/t", "cassandra://ada:s@h,i/k/t.fit?&parallel=8"),
            ("cassandra://h/k/t?patience=3", "cassandra://h/k/t.fit?patience=3&parallel=8"),
        ] {
            let beside = Clusters.read(location).unwrap().beside(".fit", 8);
            assert_eq!(beside, other);
            assert!(Clusters.read(&beside).is_ok());
        }
    }

    #[test]
    fn as_text_it_has_no_password() {
        let shown = Clusters.read("cassandra://ada:secret@h/k/t").unwrap().to_string();
        assert_eq!(shown, "cassandra://ada@h/k/t");
    }
}
