//! Where a location leads: a directory, or a table of a cluster.
//!
//! A location is a path, `file://` and a path, or `cassandra://hosts/keyspace/table`. This is
//! the one place that tells them apart; everything else works on a store.

use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[cfg(feature = "cassandra")]
use kubist_cassandra::CassandraStore;
use kubist_format::names::{COPY, DROPPED, SALVAGE, TABLE, UNFINISHED};
use kubist_store::{LocalStore, Store, open_local};
use kubist_types::{Error, Result};

use crate::error::store_error;
use crate::files::{HALF_COPIED, HALF_DROPPED};
use kubist_types::shown::without_password;

/// A location, read.
pub enum Place {
    Directory {
        location: String,
        path: PathBuf,
    },
    #[cfg(feature = "cassandra")]
    Cassandra {
        place: kubist_cassandra::Place,
    },
}

impl Place {
    pub fn of(location: &str) -> Result<Place> {
        #[cfg(feature = "cassandra")]
        if location.starts_with(kubist_cassandra::SCHEME) {
            let place = kubist_cassandra::Place::parse(location).map_err(Error::Invalid)?;
            return Ok(Place::Cassandra { place });
        }
        let path = location.strip_prefix("file://").unwrap_or(location);
        if path.is_empty() {
            return Err(Error::invalid("the location of a table is empty"));
        }
        match path.split_once("://") {
            // The rest may hold a password.
            Some((scheme, _)) => Err(Error::invalid(format!("tables on {scheme:?} are not supported here"))),
            // A location of another kind, mistyped, may hold one too.
            None => Ok(Place::Directory { location: without_password(location), path: path.into() }),
        }
    }

    /// The store of the table that is here, or of what is left of it.
    pub fn store(&self) -> Result<Arc<dyn Store>> {
        let not = |location: &str, why: &str| Error::NotATable { location: location.into(), why: why.into() };
        match self {
            Place::Directory { location, path } => {
                let why = match look(path, fs::metadata(path))? {
                    None if look(path, fs::symlink_metadata(path))?.is_some() => "it is a link that leads nowhere",
                    None => "there is nothing",
                    Some(found) if !found.is_dir() => "it is a file, not a directory",
                    Some(_) if !holds_any(path)? => "the directory holds no table",
                    Some(_) => return Ok(Arc::new(open_local(path).map_err(store_error)?)),
                };
                Err(not(location, why))
            }
            #[cfg(feature = "cassandra")]
            Place::Cassandra { place } => match CassandraStore::open(place.clone()) {
                Ok(store) => Ok(Arc::new(store)),
                Err(kubist_store::Error::Missing { file }) => Err(not(&file, "there is nothing")),
                Err(error) => Err(store_error(error)),
            },
        }
    }

    /// Is a table here?
    pub fn has_table(&self) -> Result<bool> {
        match self {
            Place::Directory { path, .. } => holds(path, TABLE),
            #[cfg(feature = "cassandra")]
            Place::Cassandra { .. } => match self.store() {
                Ok(store) => Ok(store.get(TABLE).map_err(store_error)?.is_some()),
                Err(Error::NotATable { .. }) => Ok(false),
                Err(error) => Err(error),
            },
        }
    }

    /// An empty store, made if nothing is here.
    pub fn vacant(&self) -> Result<Arc<dyn Store>> {
        let taken = |location: &str, why: &str| Error::Exists { location: location.into(), why: why.into() };
        const TABLE_THERE: &str = "a table is there; open it, or create with exist_ok";
        match self {
            Place::Directory { location, path } => {
                let why = match look(path, fs::metadata(path))? {
                    None if look(path, fs::symlink_metadata(path))?.is_some() => "it is a link that leads nowhere",
                    None => return Ok(Arc::new(LocalStore::create(path).map_err(store_error)?)),
                    Some(found) if !found.is_dir() => "it is a file",
                    Some(_) if is_free(path)? => return Ok(Arc::new(LocalStore::create(path).map_err(store_error)?)),
                    Some(_) if holds(path, DROPPED)? => HALF_DROPPED,
                    Some(_) if holds(path, TABLE)? => TABLE_THERE,
                    Some(_) if holds(path, UNFINISHED)? => HALF_COPIED,
                    Some(_) => "the directory is not empty and holds no table",
                };
                Err(taken(location, why))
            }
            #[cfg(feature = "cassandra")]
            Place::Cassandra { place } => {
                let store = CassandraStore::create(place.clone()).map_err(store_error)?;
                let there = |name| store.get(name).map(|found| found.is_some()).map_err(store_error);
                let why = match () {
                    () if store.is_empty().map_err(store_error)? => return Ok(Arc::new(store)),
                    () if is_bare(&store).map_err(store_error)? => return Ok(Arc::new(store)),
                    () if there(DROPPED)? => HALF_DROPPED,
                    () if there(TABLE)? => TABLE_THERE,
                    () if there(UNFINISHED)? => HALF_COPIED,
                    () => "something is there that is no table",
                };
                Err(taken(store.location(), why))
            }
        }
    }
}

/// What is at a path; `None` only if it is certain that nothing is.
fn look(path: &Path, found: io::Result<Metadata>) -> Result<Option<Metadata>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(cannot("look at", path, error)),
    }
}

/// Is the name taken, by whatever? A link is no way to a table's own file.
fn holds(directory: &Path, name: &str) -> Result<bool> {
    let path = directory.join(name);
    Ok(look(&path, fs::symlink_metadata(&path))?.is_some())
}

/// Is there a table, or what is left of one, or what was to become one?
fn holds_any(directory: &Path) -> Result<bool> {
    Ok(holds(directory, TABLE)? || holds(directory, DROPPED)? || holds(directory, UNFINISHED)?)
}

/// Is nothing in a directory, or no more than a copy has made before it set its mark?
fn is_free(directory: &Path) -> Result<bool> {
    let listed: io::Result<Vec<_>> =
        fs::read_dir(directory).and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect());
    let names = listed.map_err(|error| cannot("list", directory, error))?;
    Ok(names.is_empty()
        || names.iter().all(|name| name == "logs" || name == "tmp")
            && open_local(directory).and_then(|store| is_bare(&store)).map_err(store_error)?)
}

/// Is there nothing in a store but the empty log of a maker that has not set its mark yet, or
/// did not live to?
pub fn is_bare(store: &dyn Store) -> kubist_store::Result<bool> {
    Ok(store.list("")?.is_empty()
        && store.segments()?.is_empty()
        && store.logs()?.iter().all(|log| [COPY, SALVAGE].contains(&log.as_str())))
}

fn cannot(operation: &str, path: &Path, error: io::Error) -> Error {
    Error::io(format!("cannot {operation} {}: {error}", path.display()), error)
}

/// The location of a place of its own beside this one, under a name that goes on with
/// `suffix`; if it is a cluster, with so many requests on their way at once.
pub fn beside(location: &str, suffix: &str, in_flight: usize) -> String {
    match location.split_once("://") {
        Some((scheme, rest)) if scheme != "file" => {
            let (place, settings) = rest.split_once('?').unwrap_or((rest, ""));
            format!("{scheme}://{place}{suffix}?{settings}&parallel={in_flight}")
        }
        _ => format!("{}{suffix}", location.trim_end_matches('/')),
    }
}

/// A location that leads to the same table from any directory.
pub fn absolute(location: &str) -> String {
    let path = match Place::of(location) {
        Ok(Place::Directory { path, .. }) => std::path::absolute(path).ok(),
        _ => None,
    };
    path.map_or(location.into(), |path| path.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_beside_has_the_same_way_to_it() {
        for (location, other) in [
            ("/data/run", "/data/run.fit"),
            ("file:///data/run/", "file:///data/run.fit"),
            ("cassandra://ada:s@h,i/k/t", "cassandra://ada:s@h,i/k/t.fit?&parallel=8"),
            ("cassandra://h/k/t?patience=3", "cassandra://h/k/t.fit?patience=3&parallel=8"),
        ] {
            assert_eq!(beside(location, ".fit", 8), other);
        }
    }

    #[test]
    fn other_schemes_are_refused_without_a_word_of_what_follows() {
        let error = Place::of("ftp://ada:secret@h/t").err().unwrap().to_string();
        assert!(error.contains("\"ftp\"") && !error.contains("secret"), "{error}");
    }
}
