//! The URL schemes that every program with the engine supports: `file`, `memory` and, with the features of
//! the same names, `cassandra` and `s3`.
//!
//! The first use of a location registers them. A program adds its own with [`kubist_store::register`]. Object
//! stores are read through the cache of `KUBIST_CACHE`.

use std::sync::{Arc, Once};

use kubist_catalog::location::TableLocation;
use kubist_store::{Directories, Memories, register};
use kubist_types::Result;

/// Registers the schemes. A scheme of the same name that the program registered earlier stays.
pub fn register_all() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        register(Arc::new(Directories));
        register(Arc::new(Memories));
        #[cfg(feature = "cassandra")]
        register(Arc::new(kubist_cassandra::Clusters));
        #[cfg(feature = "s3")]
        register(Arc::new(kubist_cache::FarScheme(Arc::new(kubist_object::Buckets))));
    });
}

/// Parses a location of a registered scheme.
pub fn table_location(location: &str) -> Result<TableLocation> {
    register_all();
    TableLocation::of(location)
}
