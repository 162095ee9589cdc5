//! The location of a table, and the URL schemes of every program with the engine: `file`, `memory` and,
//! with the features of the same names, `cassandra` and `s3`. The feature `s3` includes `http` and `https`,
//! for sealed files on web servers.
//!
//! The first use of a location registers the schemes. A program adds its own with
//! [`kubist_store::register`]. Object stores are read through the cache in `KUBIST_CACHE`.

use std::sync::{Arc, Once};

use kubist_catalog::location::TableLocation;
use kubist_one::SealedFiles;
#[cfg(feature = "s3")]
use kubist_store::Scheme;
use kubist_store::{Directories, Memories, Store, StoreLocation, register};
use kubist_types::{Cancel, Error, Result};

/// Registers the schemes. Schemes that the program registered earlier under these names stay.
fn register_all() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        register(Arc::new(SealedFiles(Arc::new(Directories))));
        register(Arc::new(Memories));
        #[cfg(feature = "cassandra")]
        register(Arc::new(kubist_cassandra::Clusters));
        #[cfg(feature = "s3")]
        {
            use kubist_object::{Buckets, Sites};
            let schemes: [Arc<dyn Scheme>; 3] = [Arc::new(Buckets), Arc::new(Sites::Http), Arc::new(Sites::Https)];
            for scheme in schemes {
                register(Arc::new(kubist_cache::FarScheme(scheme)));
            }
        }
    });
}

/// The location of a table: a directory, a URL such as `cassandra://hosts/keyspace/table`, or an opened
/// store. Strings and stores convert to it.
pub struct Location {
    address: Address,
    pub(crate) cancel: Cancel,
}

enum Address {
    Text(String),
    Opened(Arc<dyn Store>),
}

impl Location {
    fn of(address: Address) -> Location {
        Location { address, cancel: Cancel::default() }
    }

    /// Parses the location of a store without a table, such as a catalogue, and sends no request.
    ///
    /// # Errors
    ///
    /// `Invalid` if the scheme is unknown or cannot parse the location.
    pub fn parse(location: &str) -> Result<Arc<dyn StoreLocation>> {
        register_all();
        kubist_store::locate(location).map_err(Error::Invalid)
    }

    /// Lets `cancel` end calls with this location, and calls of the handles that they return.
    pub fn cancelled_by(self, cancel: &Cancel) -> Location {
        Location { cancel: cancel.clone(), ..self }
    }

    /// Finds the store of a registered scheme, and sends no request.
    ///
    /// # Errors
    ///
    /// `Invalid` if the scheme is unknown or cannot parse the location.
    pub(crate) fn find(&self) -> Result<TableLocation> {
        register_all();
        match &self.address {
            Address::Text(location) => TableLocation::of(location),
            Address::Opened(store) => Ok(TableLocation::Held(store.clone())),
        }
    }
}

impl From<&str> for Location {
    fn from(location: &str) -> Location {
        Location::of(Address::Text(location.into()))
    }
}

impl From<&String> for Location {
    fn from(location: &String) -> Location {
        Location::of(Address::Text(location.clone()))
    }
}

impl From<Arc<dyn Store>> for Location {
    fn from(store: Arc<dyn Store>) -> Location {
        Location::of(Address::Opened(store))
    }
}

impl<S: Store + 'static> From<Arc<S>> for Location {
    fn from(store: Arc<S>) -> Location {
        Location::of(Address::Opened(store))
    }
}
