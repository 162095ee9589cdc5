//! The registry of schemes, which turn locations into stores.
//!
//! A location is `scheme://...`, or a path, which has the scheme [`PATHS`]. A program registers the schemes that it
//! offers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use crate::{Result, Store};

/// The scheme of a location that names none.
pub const PATHS: &str = "file";

/// A kind of location, identified by the text before `://`.
pub trait Scheme: Send + Sync {
    /// The text before `://`: `file`, `memory`, `cassandra`.
    fn name(&self) -> &'static str;

    /// Parses a location of this scheme without any I/O.
    ///
    /// # Errors
    ///
    /// The reason why the location is invalid. The text must not repeat the location, which may contain a password.
    fn read(&self, location: &str) -> Result<Arc<dyn StoreLocation>, String>;
}

/// A parsed location, where a store is or can be created. Its text contains no password, because messages show it and
/// other processes receive it.
pub trait StoreLocation: Send + Sync + fmt::Display {
    /// Returns what is at the location, without changing anything.
    ///
    /// # Errors
    ///
    /// Any error that leaves the result uncertain. [`Content::Nothing`] is returned only if it is certain.
    fn find(&self) -> Result<Content>;

    /// A handle to a store that may not exist, for stores on a network: the caller can send requests before
    /// [`StoreLocation::find`] has responded. Their results count only once the store was found.
    fn ahead(&self) -> Option<Arc<dyn Store>> {
        None
    }

    /// Opens the store at this location, or creates an empty one. Concurrent calls get the same store.
    ///
    /// # Errors
    ///
    /// As for any operation on the store.
    fn create(&self) -> Result<Arc<dyn Store>>;

    /// Whether anything other than the store is at the location, such as other files in its directory.
    ///
    /// # Errors
    ///
    /// As for [`StoreLocation::find`].
    fn has_other_files(&self) -> Result<bool> {
        Ok(false)
    }

    /// The word for this location in messages, such as "the directory".
    fn noun(&self) -> &'static str {
        "it"
    }

    /// Nearby locations where something exists, to suggest them in messages. Empty if they are slow to find.
    fn others(&self) -> Vec<String> {
        Vec::new()
    }

    /// The location of a store next to this one: its name continues with `suffix`, and it has the same password. A
    /// store that limits its concurrent requests may run `requests` at a time.
    fn beside(&self, suffix: &str, requests: usize) -> String;

    /// A location that is valid in any process, independent of the working directory.
    fn absolute(&self) -> String {
        self.to_string()
    }
}

/// The content of a location.
#[derive(Debug)]
pub enum Content {
    /// There is certainly nothing.
    Nothing,
    /// Something else. The text is a sentence that begins with "it is".
    NoStore(&'static str),
    /// A store, perhaps an empty one.
    Store(Arc<dyn Store>),
}

static SCHEMES: RwLock<BTreeMap<&'static str, Arc<dyn Scheme>>> = RwLock::new(BTreeMap::new());

/// Registers a scheme. Returns `false` if the name is taken; the first scheme stays.
pub fn register(scheme: Arc<dyn Scheme>) -> bool {
    let mut schemes = SCHEMES.write().unwrap_or_else(PoisonError::into_inner);
    let taken = schemes.contains_key(scheme.name());
    schemes.entry(scheme.name()).or_insert(scheme);
    !taken
}

/// Parses a location by its scheme.
///
/// # Errors
///
/// The reason, without any password: the scheme is not registered, or [`Scheme::read`] refuses the location.
pub fn locate(location: &str) -> Result<Arc<dyn StoreLocation>, String> {
    let name = location.split_once("://").map_or(PATHS, |(name, _)| name);
    let known = SCHEMES.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
    known.ok_or_else(|| unsupported(name))?.read(location)
}

/// The message names only the scheme, because the rest may contain a password.
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
