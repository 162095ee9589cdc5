//! Objects: small files that appear under their name completely and never change.
//!
//! An object's bytes are synced before link(2) gives them their name. Of several links to one name, exactly one
//! succeeds. Each call that reports the name as present has synced the directory.

use std::io;
use std::path::Path;

use bytes::Bytes;

use crate::disk::{Sort, irregular};
use crate::{Error, Result, Stamp, format, names};

use super::{LocalStore, temporary};

pub(super) fn put_if_absent(store: &LocalStore, name: &str, value: &[u8]) -> Result<bool> {
    names::check_object(name)?;
    let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
    let folder = store.folders.ensure(folder).map_err(|error| match error {
        Error::Irregular { found: Sort::File, .. } => names::object_and_folder(name),
        other => other,
    })?;
    let path = folder.join(file);
    let won = sort(store, &path)?.is_none() && temporary::publish(store, &format::object(value), &path)?;
    if !won {
        match sort(store, &path)? {
            None | Some(Sort::File) => {}
            Some(Sort::Directory) => return Err(names::object_and_folder(name)),
            Some(other) => return Err(Error::io("create", &path, irregular(&path, other, Sort::File))),
        }
    }
    store.folders.sync(&folder)?;
    Ok(won)
}

pub(super) fn get(store: &LocalStore, name: &str) -> Result<Option<Bytes>> {
    names::check_object(name)?;
    let path = store.root.join(name);
    store.retry_while_stale(|| match store.whole(&path) {
        Ok(None) => Ok(None),
        Ok(Some(bytes)) => format::object_value(bytes, &path.display().to_string()).map(Some),
        Err(error) if is_no_object(&error) => Ok(None),
        Err(error) => Err(error),
    })
}

pub(super) fn stamp(store: &LocalStore, name: &str) -> Result<Stamp> {
    names::check_object(name)?;
    store.stamp_of(&store.root.join(name))
}

/// True if a folder of objects is at the path, or an object at the path of a folder.
fn is_no_object(error: &Error) -> bool {
    match error {
        Error::Irregular { found, .. } => matches!(found, Sort::Directory | Sort::File),
        Error::Io { source, .. } => is_absence(source),
        _ => false,
    }
}

pub(super) fn list(store: &LocalStore, prefix: &str) -> Result<Vec<String>> {
    let folder = prefix.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut found = Vec::new();
    if folder.is_empty() || names::check_object(folder).is_ok() {
        gather(store, folder, prefix, &mut found)?;
    }
    found.sort_unstable();
    Ok(found)
}

fn gather(store: &LocalStore, folder: &str, prefix: &str, found: &mut Vec<String>) -> Result<()> {
    let listed = match store.folders.list(&store.root.join(folder)) {
        // The folder is an object, or is below one.
        Err(Error::Irregular { found: Sort::File, .. }) => return Ok(()),
        listed => listed?,
    };
    for listed in listed {
        let name = match folder {
            "" => listed.name,
            folder => format!("{folder}/{}", listed.name),
        };
        if names::check_object(&name).is_err() {
            continue;
        }
        if listed.sort == Sort::Directory {
            let below = format!("{name}/");
            if below.starts_with(prefix) || prefix.starts_with(&below) {
                gather(store, &name, prefix, found)?;
            }
        } else if name.starts_with(prefix) {
            found.push(name);
        }
    }
    Ok(())
}

pub(super) fn delete(store: &LocalStore, name: &str) -> Result<()> {
    names::check_object(name)?;
    let path = store.root.join(name);
    match store.disk.unlink(&path) {
        Err(error) if !is_absence(&error) && sort(store, &path)? != Some(Sort::Directory) => {
            Err(Error::io("delete", &path, error))
        }
        _ => Ok(()),
    }
}

/// True if there is nothing, a folder of objects, or an object at the path of a folder.
fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory)
}

fn sort(store: &LocalStore, path: &Path) -> Result<Option<Sort>> {
    match store.disk.find(path) {
        Ok(found) => Ok(found.map(|found| found.sort)),
        Err(error) => Err(Error::io("open", path, error)),
    }
}
