//! Where a table is, or may come to be.
//!
//! A location is text; the scheme registered for it says how to reach a store
//! ([`kubist_store::locate`]). Here is decided what of a table is in that store, and in words
//! that are the same for every scheme. No scheme is named here, and none may be.

use std::fmt;
use std::sync::Arc;

use kubist_expr::nearest;
use kubist_format::names::{COPY, DROPPED, SALVAGE, TABLE, UNFINISHED};
use kubist_store::{Found, Store, StoreLocation, locate};
use kubist_types::shown::without_password;
use kubist_types::{Error, Result};

use crate::error::store_error;
use crate::files::{HALF_COPIED, HALF_DROPPED};
use crate::look::{FirstLook, both};

/// A location, read.
pub struct TableLocation(Arc<dyn StoreLocation>);

impl fmt::Display for TableLocation {
    /// A location of another kind, mistyped, may hold a password too.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&without_password(&self.0.to_string()))
    }
}

impl TableLocation {
    /// Parses a location; the store is not asked yet.
    ///
    /// # Errors
    ///
    /// `Invalid` if it makes no sense to its scheme, or there is no such scheme.
    pub fn of(location: &str) -> Result<TableLocation> {
        locate(location).map(TableLocation).map_err(Error::Invalid)
    }

    /// The store of the table that is here, or of what is left of it.
    ///
    /// # Errors
    ///
    /// `NotATable`, `Missing`, or a storage error.
    pub fn store(&self) -> Result<Arc<dyn Store>> {
        self.store_of(self.0.find().map_err(store_error)?)
    }

    fn store_of(&self, found: Found) -> Result<Arc<dyn Store>> {
        let why = match found {
            Found::Store(store) if is_any_there(store.as_ref())? => return Ok(store),
            Found::Store(_) => format!("{} holds no table", self.0.noun()),
            Found::NoStore(what) => what.into(),
            Found::Nothing => {
                let (location, others) = (self.to_string(), self.0.others());
                let name = |location: &'_ str| location.rsplit('/').next().unwrap_or_default().to_string();
                let names: Vec<String> = others.iter().map(|other| name(other)).collect();
                let near = nearest(&name(&location), names.iter().map(String::as_str));
                let places = near.into_iter().filter_map(|near| names.iter().position(|name| name == near));
                // What cannot be asked is no table that anybody would open.
                let is_table =
                    |other: &&String| TableLocation::of(other).is_ok_and(|it| it.has_table().unwrap_or(false));
                let meant = places.filter_map(|place| others.get(place)).find(is_table);
                let hint = meant.map_or(String::new(), |meant| format!("; did you mean {meant}?"));
                return Err(Error::Missing { location, hint });
            }
        };
        Err(Error::NotATable { location: self.to_string(), why })
    }

    /// The store of the table that is here, and what opening asks it for first, if that was asked for
    /// meanwhile: where a store can be asked before it is known to be there.
    ///
    /// # Errors
    ///
    /// As of [`TableLocation::store`].
    pub fn store_and_look(&self) -> Result<(Arc<dyn Store>, Option<FirstLook>)> {
        let Some(ahead) = self.0.ahead() else { return Ok((self.store()?, None)) };
        let (look, found) = both(ahead.as_ref(), || FirstLook::at(ahead.as_ref()), || self.0.find());
        match found.map_err(store_error)? {
            Found::Store(store) => Ok((store, Some(look.map_err(store_error)?))),
            found => Ok((self.store_of(found)?, None)),
        }
    }

    /// Is a table here?
    ///
    /// # Errors
    ///
    /// A storage error.
    pub fn has_table(&self) -> Result<bool> {
        match self.0.find().map_err(store_error)? {
            Found::Store(store) => is_there(store.as_ref(), TABLE),
            Found::NoStore(_) | Found::Nothing => Ok(false),
        }
    }

    /// An empty store, made if nothing is here.
    ///
    /// # Errors
    ///
    /// `Exists` says what is there; a storage error.
    pub fn vacant(&self) -> Result<Arc<dyn Store>> {
        let why = match self.0.find().map_err(store_error)? {
            Found::Nothing => None,
            Found::NoStore(what) => Some(what.into()),
            Found::Store(store) => self.taken_by(store.as_ref())?,
        };
        match why {
            None => self.0.create().map_err(store_error),
            Some(why) => Err(Error::Exists { location: self.to_string(), why }),
        }
    }

    /// Why no table can be made in the store that is here; `None` if nothing is in it, or no
    /// more than a copy has made before it set its mark.
    fn taken_by(&self, store: &dyn Store) -> Result<Option<String>> {
        if !self.0.has_foreign().map_err(store_error)? && is_bare(store).map_err(store_error)? {
            return Ok(None);
        }
        Ok(Some(match () {
            () if is_there(store, DROPPED)? => HALF_DROPPED.into(),
            () if is_there(store, TABLE)? => "a table is there; open it, or create with exist_ok".into(),
            () if is_there(store, UNFINISHED)? => HALF_COPIED.into(),
            () => format!("{} is not empty and holds no table", self.0.noun()),
        }))
    }

    /// The store that is here, made if nothing is; what is in it is for the caller to know.
    ///
    /// # Errors
    ///
    /// A storage error.
    pub fn open_or_create(&self) -> Result<Arc<dyn Store>> {
        self.0.create().map_err(store_error)
    }

    /// The location of a store of its own beside this one, under a name that goes on with
    /// `suffix`; if the store bounds its requests, with `requests` on their way at once.
    ///
    /// # Errors
    ///
    /// `Invalid` if the scheme cannot name it.
    pub fn beside(&self, suffix: &str, requests: usize) -> Result<TableLocation> {
        TableLocation::of(&self.0.beside(suffix, requests))
    }
}

/// Whether the name is taken, by an object or by anything else.
fn is_there(store: &dyn Store, name: &str) -> Result<bool> {
    use kubist_store::Error::{Damaged, Irregular, Newer};
    match store.get(name) {
        Ok(found) => Ok(found.is_some()),
        Err(Damaged { .. } | Irregular { .. } | Newer { .. }) => Ok(true),
        Err(error) => Err(store_error(error)),
    }
}

/// Is there a table, or what is left of one, or what was to become one?
fn is_any_there(store: &dyn Store) -> Result<bool> {
    Ok(is_there(store, TABLE)? || is_there(store, DROPPED)? || is_there(store, UNFINISHED)?)
}

/// Is there nothing in a store but the empty log of a maker that has not set its mark yet, or
/// did not live to?
///
/// # Errors
///
/// The store's, as of [`Store::list`], [`Store::segments`] and [`Store::logs`].
pub fn is_bare(store: &dyn Store) -> kubist_store::Result<bool> {
    Ok(store.list("")?.is_empty()
        && store.segments()?.is_empty()
        && store.logs()?.iter().all(|log| [COPY, SALVAGE].contains(&log.as_str())))
}

/// A location that leads to the same table from any directory.
pub fn absolute(location: &str) -> String {
    locate(location).map_or_else(|_| location.into(), |location| location.absolute())
}
