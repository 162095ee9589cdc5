//! Locations of tables, whose scheme selects the store ([`kubist_store::locate`]). This module decides whether the
//! store contains a table, with the same rules and messages for every scheme.

use std::fmt;
use std::sync::Arc;

use kubist_expr::nearest;
use kubist_format::names::{COPY, DROPPED, SALVAGE, TABLE, UNFINISHED};
use kubist_store::{Content, Store, StoreLocation, locate};
use kubist_types::shown::without_password;
use kubist_types::{Error, Result};

use crate::error::store_error;
use crate::files::{HALF_COPIED, HALF_DROPPED};
use crate::look::{FirstLook, in_parallel};

pub enum TableLocation {
    Named(Arc<dyn StoreLocation>),
    Held(Arc<dyn Store>),
}

impl fmt::Display for TableLocation {
    /// Removes passwords, which a mistyped location may contain.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let location = match self {
            TableLocation::Named(named) => named.to_string(),
            TableLocation::Held(store) => store.location().to_string(),
        };
        out.write_str(&without_password(&location))
    }
}

impl TableLocation {
    /// Parses a location without a request to the store.
    ///
    /// # Errors
    ///
    /// `Invalid` if the scheme is unknown or cannot parse the location.
    pub fn of(location: &str) -> Result<TableLocation> {
        locate(location).map(TableLocation::Named).map_err(Error::Invalid)
    }

    /// Opens the store of a table, which may be partly copied or dropped. A store that is already held is not read.
    ///
    /// # Errors
    ///
    /// `NotATable`, `Missing`, or a storage error.
    pub fn store(&self) -> Result<Arc<dyn Store>> {
        match self {
            TableLocation::Named(named) => self.store_of(named.as_ref(), named.find().map_err(store_error)?),
            TableLocation::Held(store) => Ok(store.clone()),
        }
    }

    fn store_of(&self, named: &dyn StoreLocation, found: Content) -> Result<Arc<dyn Store>> {
        let why = match found {
            Content::Store(store) if is_any_there(store.as_ref())? => return Ok(store),
            Content::Store(_) => format!("{} holds no table", named.noun()),
            Content::NoStore(what) => what.into(),
            Content::Nothing => {
                let (location, others) = (self.to_string(), named.others());
                let name = |location: &'_ str| location.rsplit('/').next().unwrap_or_default().to_string();
                let names: Vec<String> = others.iter().map(|other| name(other)).collect();
                let near = nearest(&name(&location), names.iter().map(String::as_str));
                let places = near.into_iter().filter_map(|near| names.iter().position(|name| name == near));
                let is_table =
                    |other: &&String| TableLocation::of(other).is_ok_and(|it| it.has_table().unwrap_or(false));
                let meant = places.filter_map(|place| others.get(place)).find(is_table);
                let hint = meant.map_or(String::new(), |meant| format!("; did you mean {meant}?"));
                return Err(Error::Missing { location, hint });
            }
        };
        Err(Error::NotATable { location: self.to_string(), why })
    }

    /// Like [`TableLocation::store`]. On a remote store the first requests of opening run in parallel; their results
    /// are returned if they found a table.
    ///
    /// # Errors
    ///
    /// The errors of [`TableLocation::store`].
    pub fn store_and_look(&self) -> Result<(Arc<dyn Store>, Option<FirstLook>)> {
        let TableLocation::Named(named) = self else { return Ok((self.store()?, None)) };
        let Some(ahead) = named.ahead() else { return Ok((self.store()?, None)) };
        let (look, found) = in_parallel(ahead.as_ref(), || FirstLook::at(ahead.as_ref()), || named.find());
        match found.map_err(store_error)? {
            // The location may be a sealed file, not a directory of objects.
            Content::Store(store) => Ok((store, look.ok().filter(|look| look.table.is_some()))),
            found => Ok((self.store_of(named.as_ref(), found)?, None)),
        }
    }

    /// # Errors
    ///
    /// A storage error.
    pub fn has_table(&self) -> Result<bool> {
        match self {
            TableLocation::Held(store) => is_there(store.as_ref(), TABLE),
            TableLocation::Named(named) => match named.find().map_err(store_error)? {
                Content::Store(store) => is_there(store.as_ref(), TABLE),
                Content::NoStore(_) | Content::Nothing => Ok(false),
            },
        }
    }

    /// Returns an empty store, and creates it if nothing is here; a store that is already held is not read.
    ///
    /// # Errors
    ///
    /// `Exists` describes the existing content; a storage error.
    pub fn vacant(&self) -> Result<Arc<dyn Store>> {
        let named = match self {
            TableLocation::Named(named) => named.as_ref(),
            TableLocation::Held(store) => return Ok(store.clone()),
        };
        let why = match named.find().map_err(store_error)? {
            Content::Nothing => None,
            Content::NoStore(what) => Some(what.into()),
            Content::Store(store) => taken_by(named, store.as_ref())?,
        };
        match why {
            None => named.create().map_err(store_error),
            Some(why) => Err(Error::Exists { location: self.to_string(), why }),
        }
    }

    /// Creates the store if missing; the caller checks its content.
    ///
    /// # Errors
    ///
    /// A storage error.
    pub fn open_or_create(&self) -> Result<Arc<dyn Store>> {
        match self {
            TableLocation::Named(named) => named.create().map_err(store_error),
            TableLocation::Held(store) => Ok(store.clone()),
        }
    }

    /// The location of a store next to this one, with `suffix` added to its name. A store with a limit of parallel
    /// requests may run `requests`.
    ///
    /// # Errors
    ///
    /// `Invalid` if the scheme cannot name it.
    pub fn beside(&self, suffix: &str, requests: usize) -> Result<TableLocation> {
        match self {
            TableLocation::Named(named) => TableLocation::of(&named.beside(suffix, requests)),
            TableLocation::Held(_) => Err(Error::invalid(format!("{self} is a store: there is no place beside it"))),
        }
    }
}

/// The reason why no table can be created here; `None` if the store is empty, or has only the first files of a copy.
fn taken_by(named: &dyn StoreLocation, store: &dyn Store) -> Result<Option<String>> {
    if !named.has_other_files().map_err(store_error)? && is_bare(store).map_err(store_error)? {
        return Ok(None);
    }
    Ok(Some(match () {
        () if is_there(store, DROPPED)? => HALF_DROPPED.into(),
        () if is_there(store, TABLE)? => {
            "a table is there; open it, or create with exist_ok, which keeps its rows".into()
        }
        () if is_there(store, UNFINISHED)? => HALF_COPIED.into(),
        () => format!("{} is not empty and holds no table", named.noun()),
    }))
}

fn is_there(store: &dyn Store, name: &str) -> Result<bool> {
    use kubist_store::Error::{Damaged, Irregular, Newer};
    match store.get(name) {
        Ok(found) => Ok(found.is_some()),
        Err(Damaged { .. } | Irregular { .. } | Newer { .. }) => Ok(true),
        Err(error) => Err(store_error(error)),
    }
}

fn is_any_there(store: &dyn Store) -> Result<bool> {
    Ok(is_there(store, TABLE)? || is_there(store, DROPPED)? || is_there(store, UNFINISHED)?)
}

/// Whether a store contains at most the empty log of a copy or salvage.
///
/// # Errors
///
/// The errors of [`Store::list`], [`Store::segments`] and [`Store::logs`].
pub fn is_bare(store: &dyn Store) -> kubist_store::Result<bool> {
    Ok(store.list("")?.is_empty()
        && store.segments()?.is_empty()
        && store.logs()?.iter().all(|log| [COPY, SALVAGE].contains(&log.as_str())))
}

/// Returns a location that is independent of the current directory.
pub fn absolute(location: &str) -> String {
    locate(location).map_or_else(|_| location.into(), |location| location.absolute())
}
