//! Objects: small files that appear whole under their name and never change.
//!
//! An object's bytes are synced before link(2) gives them their name, and of
//! several links to one name exactly one succeeds. Everyone who is told that
//! the name is there, winner or not, has synced the directory: who loses may
//! build on the winner's object, and it must not vanish beneath them.

use std::path::Path;

use bytes::Bytes;

use crate::disk::{Open, read_up_to};
use crate::{Error, Result, format, names};

use super::folders::is_absence;
use super::{LocalStore, temporary};

pub(super) fn put_if_absent(store: &LocalStore, name: &str, value: &[u8]) -> Result<bool> {
    names::check_object(name)?;
    let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
    let folder = store.folders.ensure(folder).map_err(|error| match error {
        Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotADirectory => {
            names::object_and_folder(name)
        }
        other => other,
    })?;
    let path = folder.join(file);
    let taken = matches!(store.disk.find(&path), Ok(Some(_)));
    let won = !taken && temporary::publish(store, &format::object(value), &path)?;
    if !won && is_directory(store, &path)? {
        return Err(names::object_and_folder(name));
    }
    store.folders.sync(&folder)?;
    Ok(won)
}

pub(super) fn get(store: &LocalStore, name: &str) -> Result<Option<Bytes>> {
    names::check_object(name)?;
    let path = store.root.join(name);
    let file = match store.disk.open(&path, Open::Read) {
        Ok(file) => file,
        Err(error) if is_absence(&error) => return Ok(None),
        Err(error) => return Err(Error::io("open", &path, error)),
    };
    let length = file.bytes().map_err(|error| Error::io("measure", &path, error))?;
    let mut bytes = vec![0; length as usize];
    match read_up_to(&*file, &mut bytes, 0) {
        Ok(got) => bytes.truncate(got),
        Err(error) if error.kind() == std::io::ErrorKind::IsADirectory => return Ok(None),
        Err(error) => return Err(Error::io("read", &path, error)),
    }
    format::object_value(bytes.into(), &path.display().to_string()).map(Some)
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

/// Adds the objects in `folder` and below whose names begin with `prefix`.
fn gather(store: &LocalStore, folder: &str, prefix: &str, found: &mut Vec<String>) -> Result<()> {
    for listed in store.folders.list(&store.root.join(folder))? {
        let name = match folder {
            "" => listed.name,
            folder => format!("{folder}/{}", listed.name),
        };
        if names::check_object(&name).is_err() {
            continue;
        }
        if listed.is_directory {
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
        Err(error) if !is_absence(&error) && !is_directory(store, &path)? => Err(Error::io("delete", &path, error)),
        _ => Ok(()),
    }
}

fn is_directory(store: &LocalStore, path: &Path) -> Result<bool> {
    match store.disk.find(path) {
        Ok(found) => Ok(found.is_some_and(|found| found.is_directory)),
        Err(error) => Err(Error::io("open", path, error)),
    }
}
