//! The schemes that every program made of the engine knows: `file`, `memory` and, with the
//! features of these names, `cassandra` and `s3`. Stores that have a number of their own and are far
//! away are read through the cache of `KUBIST_CACHE`. They are registered when a table is first asked for, so
//! nobody has to; a program adds its own with [`kubist_store::register`].

use std::sync::{Arc, Once};

use kubist_catalog::location::TableLocation;
use kubist_store::{Directories, Memories, register};
use kubist_types::Result;

/// Makes the schemes known. Those of the same name that a program registered before stay.
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

/// Reads a location of a scheme that is known.
pub fn table_location(location: &str) -> Result<TableLocation> {
    register_all();
    TableLocation::of(location)
}
