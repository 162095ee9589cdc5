//! From a location to a store: what a scheme offers, and the registry of those that are known.
//!
//! A location is `scheme://...`, or a path, which is of the scheme [`PATHS`]. A
//! program registers the schemes that it offers; the engine asks for a location and learns no
//! more than [`StoreLocation`] offers. Nothing here may know what a table
//! is, or which schemes there are.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use crate::{Result, Store};

/// The scheme of a location that names none.
pub const PATHS: &str = "file";

/// A way to stores: what stands before `://` in their locations.
pub trait Scheme: Send + Sync {
    /// What stands before `://`: `file`, `memory`, `cassandra`.
    fn name(&self) -> &'static str;

    /// Reads a location of this scheme, given whole. Nothing is looked at or connected to yet.
    ///
    /// # Errors
    ///
    /// What is wrong with it, in words that do not repeat it: it may hold a password.
    fn read(&self, location: &str) -> Result<Arc<dyn StoreLocation>, String>;
}

/// A location that was read, where a store is or may come to be.
///
/// As text it has no password: messages show it, and other processes are given it.
pub trait StoreLocation: Send + Sync + fmt::Display {
    /// What is here. Nothing is made or changed.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from being certain: that nothing is here must be known.
    fn find(&self) -> Result<Found>;

    /// A handle to the store that may be here, for asking it before it is known to be: where
    /// finding it takes the time of a network. What it answers counts once [`StoreLocation::find`]
    /// has found the store.
    fn ahead(&self) -> Option<Arc<dyn Store>> {
        None
    }

    /// Opens the store that is here, or makes an empty one where nothing is. Two that do so at
    /// once get the same store.
    ///
    /// # Errors
    ///
    /// As of any operation on the store.
    fn create(&self) -> Result<Arc<dyn Store>>;

    /// Is something here that is not the store's, such as files of others in its directory?
    ///
    /// # Errors
    ///
    /// As of [`StoreLocation::find`].
    fn has_foreign(&self) -> Result<bool> {
        Ok(false)
    }

    /// What messages call what is here: "the directory".
    fn noun(&self) -> &'static str {
        "it"
    }

    /// Locations beside this one where something is, as texts like this one: what may be meant
    /// where nothing is here. As many as are quickly found.
    fn others(&self) -> Vec<String> {
        Vec::new()
    }

    /// The location, as text, of a store of its own beside this one: under a name that goes on
    /// with `suffix`, reached in the same way (with the same password), and, if the store
    /// bounds its requests, with `requests` on their way at once.
    fn beside(&self, suffix: &str, requests: usize) -> String;

    /// A location that leads here from any process, whatever its working directory is.
    fn absolute(&self) -> String {
        self.to_string()
    }
}

/// What is at a location.
#[derive(Debug)]
pub enum Found {
    /// Certainly nothing.
    Nothing,
    /// Something that is no store and that none can be made of: what it is, as a sentence
    /// that begins with "it is".
    NoStore(&'static str),
    /// A store, perhaps an empty one.
    Store(Arc<dyn Store>),
}

static SCHEMES: RwLock<BTreeMap<&'static str, Arc<dyn Scheme>>> = RwLock::new(BTreeMap::new());

/// Makes a scheme known to this process. The first of a name stays: `false` says that there is
/// one already.
pub fn register(scheme: Arc<dyn Scheme>) -> bool {
    let mut schemes = SCHEMES.write().unwrap_or_else(PoisonError::into_inner);
    let taken = schemes.contains_key(scheme.name());
    schemes.entry(scheme.name()).or_insert(scheme);
    !taken
}

/// Reads a location by its scheme.
///
/// # Errors
///
/// What is wrong with it, in words that do not repeat a password: no registered scheme has its
/// scheme, or [`Scheme::read`] refuses it.
pub fn locate(location: &str) -> Result<Arc<dyn StoreLocation>, String> {
    let name = location.split_once("://").map_or(PATHS, |(name, _)| name);
    let known = SCHEMES.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
    known.ok_or_else(|| unsupported(name))?.read(location)
}

/// Only the scheme is repeated: the rest may hold a password.
pub(crate) fn unsupported(scheme: &str) -> String {
    format!("tables on {scheme:?} are not supported here")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Directories, Memories};

    #[test]
    fn the_first_scheme_of_a_name_stays() {
        register(Arc::new(Memories));
        assert!(!register(Arc::new(Memories)));
        assert_eq!(locate("memory://first").map(|at| at.to_string()), Ok("memory://first".into()));
    }

    #[test]
    fn other_schemes_are_refused_without_a_word_of_what_follows() {
        register(Arc::new(Directories));
        for location in ["ftp://ada:secret@h/t", "file://ftp://ada:secret@h/t"] {
            let why = locate(location).map(|at| at.to_string()).unwrap_err();
            assert!(why.contains("\"ftp\"") && !why.contains("secret"), "{why}");
        }
    }
}
