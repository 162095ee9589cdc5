//! Objects of the store: `objects/NAME`, each put once.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use futures_util::future::{try_join, try_join_all};
use kubist_store::names::{check_object, check_part, object_and_folder};
use kubist_store::{Error, Result};

use crate::client::Link;
use crate::frame::Kind;

pub const FOLDER: &str = "objects";

#[derive(Debug, Default)]
pub struct Folders(Mutex<HashSet<String>>);

pub fn key(name: &str) -> String {
    format!("{FOLDER}/{name}")
}

pub async fn put_if_absent(link: &Link, folders: &Folders, name: &str, value: &[u8]) -> Result<bool> {
    check_object(name)?;
    try_join(check_not_folder(link, name), check_parents(link, folders, name)).await?;
    link.put_once(&key(name), Kind::Value, value).await
}

async fn check_not_folder(link: &Link, name: &str) -> Result<()> {
    match link.list(&key(name), None, 1).await?.is_empty() {
        true => Ok(()),
        false => Err(object_and_folder(name)),
    }
}

async fn check_parents(link: &Link, folders: &Folders, name: &str) -> Result<()> {
    let known = || folders.0.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((folder, _)) = name.rsplit_once('/') else { return Ok(()) };
    if known().contains(folder) {
        return Ok(());
    }
    let above = name.match_indices('/').map(async |(slash, _)| link.length(&key(&name[..slash])).await);
    if try_join_all(above).await?.iter().any(Option::is_some) {
        return Err(object_and_folder(name));
    }
    known().insert(folder.to_owned());
    Ok(())
}

pub async fn get(link: &Link, name: &str) -> Result<Option<Bytes>> {
    check_object(name)?;
    match link.get(&key(name)).await? {
        None => Ok(None),
        Some(found) if found.kind == Kind::Value => Ok(Some(found.payload)),
        Some(found) => {
            let what = format!("it is not a value but {:?}", found.kind);
            Err(Error::Damaged { file: link.file(&key(name)), offset: 32, what })
        }
    }
}

/// The names that begin with `prefix` and come after `after`, in order.
pub async fn list(link: &Link, prefix: &str, after: &str) -> Result<Vec<String>> {
    let folder = prefix.rsplit_once('/').map_or("", |(folder, _)| folder);
    if !folder.is_empty() && folder.split('/').any(|part| check_part(part).is_err()) {
        return Ok(Vec::new());
    }
    let whole = if folder.is_empty() { FOLDER.to_owned() } else { key(folder) };
    // If a service ignores this setting, the listing only takes longer.
    let behind = after.starts_with(&format!("{folder}/")) && check_object(after).is_ok();
    let listed = link.list(&whole, behind.then(|| key(after)).as_deref(), usize::MAX).await?;
    let names = listed.into_iter().filter_map(|(key, _)| Some(key.strip_prefix(FOLDER)?.strip_prefix('/')?.to_owned()));
    let mut names: Vec<String> = names.filter(|name| name.starts_with(prefix) && name.as_str() > after).collect();
    names.sort_unstable();
    Ok(names)
}

pub async fn delete(link: &Link, name: &str) -> Result<()> {
    check_object(name)?;
    link.delete(&key(name)).await
}

/// Deletes an object, or all objects of a folder if the name ends in a slash.
pub async fn erase(link: &Link, name: &str) -> Result<()> {
    match name.strip_suffix('/') {
        Some(folder) => {
            check_object(folder)?;
            link.delete_folder(&key(folder)).await
        }
        None => delete(link, name).await,
    }
}
