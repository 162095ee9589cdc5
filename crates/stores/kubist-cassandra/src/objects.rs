//! Objects: small values that are put once.
//!
//! A lightweight transaction claims a name with a unique number (nonce), by which a repeated claim recognizes that it
//! has won. A value that is too large for a row is first written as blocks under this number. So a name never leads to
//! an incomplete value.
//!
//! The objects of a folder form one partition. The list of a store's folders only grows.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use futures_util::future::{try_join, try_join_all};
use futures_util::stream::{StreamExt, TryStreamExt, iter};
use kubist_store::names::{check_object, object_and_folder};
use kubist_store::{Error, Result, Size, StoredKind};
use uuid::Uuid;

use crate::cluster::{Agreed, Link};
use crate::names::{self, Kind};
use crate::{blocks, identity};

/// The maximum length of a value that is stored in the row.
const IN_ROW: usize = 4 << 10;

// A read repairs only the columns that it requests.
const FIND: &str =
    "SELECT nonce, length, checksum, value FROM kubist_objects WHERE store = ? AND folder = ? AND name = ?";
const CLAIM: &str = "INSERT INTO kubist_objects (store, folder, name, nonce, length, checksum, value) \
                     VALUES (?, ?, ?, ?, ?, ?, ?) IF NOT EXISTS";
const DELETE: &str = "DELETE FROM kubist_objects WHERE store = ? AND folder = ? AND name = ? IF nonce = ?";
const LIST: &str = "SELECT name, nonce, length, checksum, value FROM kubist_objects WHERE store = ? AND folder = ?";
const LIST_AFTER: &str = "SELECT name, nonce, length, checksum, value FROM kubist_objects \
                          WHERE store = ? AND folder = ? AND name > ?";
const ANY: &str =
    "SELECT name, nonce, length, checksum, value FROM kubist_objects WHERE store = ? AND folder = ? LIMIT 1";

/// Folders that this handle knows to be in the list, and not to be objects.
#[derive(Debug, Default)]
pub struct Folders(Mutex<HashSet<String>>);

fn parts(name: &str) -> (&str, &str) {
    name.split_at(name.rfind('/').map_or(0, |slash| slash + 1))
}

/// The name of an object's blocks, which no segment can have.
fn blocks_of(nonce: Uuid) -> String {
    format!("object/{nonce}")
}

pub async fn put_if_absent(link: &Link, store: Uuid, folders: &Folders, name: &str, value: &[u8]) -> Result<bool> {
    check_object(name)?;
    let (folder, leaf) = parts(name);
    // A name that a majority has is permanent.
    let (taken, ()) = try_join(exists(link, store, name), check_not_folder(link, store, name)).await?;
    if taken {
        return Ok(false);
    }
    list_folder(link, store, folders, folder, name).await?;
    let nonce = Uuid::new_v4();
    let in_row = value.len() <= IN_ROW;
    if !in_row {
        blocks::write_all(link, store, &blocks_of(nonce), value).await?;
    }
    let (length, checksum) = (value.len() as i64, i64::from(crc32c::crc32c(value)));
    let row = in_row.then(|| Bytes::copy_from_slice(value));
    let won = link.decide(CLAIM, &(store, folder, leaf, nonce, length, checksum, row)).await?.won(nonce);
    if !won && !in_row {
        blocks::delete(link, store, &blocks_of(nonce), value.len() as u64).await?;
    }
    if won && folder.is_empty() {
        identity::keep(link, store).await?;
    }
    Ok(won)
}

struct ObjectRow {
    nonce: Uuid,
    length: u64,
    checksum: i64,
    value: Option<Bytes>,
}

/// Reads an object's row from a majority. A deletion requests only the nonce for its condition, so it may repair only
/// this column. If the row is incomplete, it is therefore read again with serial consistency.
async fn find(link: &Link, store: Uuid, name: &str) -> Result<Option<ObjectRow>> {
    let (folder, leaf) = parts(name);
    type Row = (Option<Uuid>, Option<i64>, Option<i64>, Option<Bytes>);
    for agreed in [Agreed::Enough, Agreed::Serially] {
        match link.first::<Row>(FIND, &(store, folder, leaf), agreed).await? {
            None => return Ok(None),
            Some((Some(nonce), Some(length), Some(checksum), value)) if value.is_some() || length > IN_ROW as i64 => {
                return Ok(Some(ObjectRow { nonce, length: length as u64, checksum, value }));
            }
            Some(_) => {}
        }
    }
    let what = "its row is incomplete".into();
    Err(Error::Damaged { file: format!("{}/{name}", link.location), offset: 0, what })
}

async fn exists(link: &Link, store: Uuid, name: &str) -> Result<bool> {
    Ok(find(link, store, name).await?.is_some())
}

/// Refuses a name that is a folder of objects.
async fn check_not_folder(link: &Link, store: Uuid, name: &str) -> Result<()> {
    // In the order of names, `0` follows the slash.
    let below = names::between(link, store, Kind::Folder, &format!("{name}/"), &format!("{name}0")).await?;
    for folder in below {
        if !is_folder_empty(link, store, &folder).await? {
            return Err(object_and_folder(name));
        }
    }
    Ok(())
}

/// Adds a folder to the list, if none of its parents is an object.
async fn list_folder(link: &Link, store: Uuid, folders: &Folders, folder: &str, name: &str) -> Result<()> {
    let known = || folders.0.lock().unwrap_or_else(PoisonError::into_inner);
    if folder.is_empty() || known().contains(folder) {
        return Ok(());
    }
    let above = folder.match_indices('/').map(|(slash, _)| exists(link, store, &folder[..slash]));
    if try_join_all(above).await?.contains(&true) {
        return Err(object_and_folder(name));
    }
    names::add(link, store, Kind::Folder, folder).await?;
    known().insert(folder.to_owned());
    Ok(())
}

pub async fn get(link: &Link, store: Uuid, name: &str) -> Result<Option<Bytes>> {
    check_object(name)?;
    loop {
        let Some(ObjectRow { nonce, length, checksum, value }) = find(link, store, name).await? else {
            return Ok(None);
        };
        let value = match value {
            Some(value) => Some(value),
            None => {
                let whole = 0..length;
                let read = blocks::read(link, store, &blocks_of(nonce), &[whole]).await?;
                read.into_iter().next().and_then(|value| value.ok())
            }
        };
        match value {
            Some(value) if i64::from(crc32c::crc32c(&value)) == checksum => return Ok(Some(value)),
            None if !exists_as(link, store, name, nonce).await? => {}
            _ => {
                let what = "its checksum is wrong, or a part of it is missing".into();
                return Err(Error::Damaged { file: format!("{}/{name}", link.location), offset: 0, what });
            }
        }
    }
}

async fn exists_as(link: &Link, store: Uuid, name: &str, nonce: Uuid) -> Result<bool> {
    Ok(find(link, store, name).await?.is_some_and(|found| found.nonce == nonce))
}

/// The names in order, with the sizes of the values.
pub async fn list(link: &Link, store: Uuid, prefix: &str) -> Result<Vec<(String, u64)>> {
    list_after(link, store, prefix, "").await
}

/// The names after `after`, in order. Reads only these names from the folder of the prefix.
pub async fn list_after(link: &Link, store: Uuid, prefix: &str, after: &str) -> Result<Vec<(String, u64)>> {
    let (own, _) = parts(prefix);
    let below = async {
        let mut folders = names::list(link, store, Kind::Folder).await?;
        folders.retain(|folder| folder != own && folder.starts_with(prefix));
        let found = iter(&folders).map(|folder| in_folder(link, store, folder, "")).buffered(link.location.parallel);
        Ok(found.try_collect::<Vec<_>>().await?.concat())
    };
    let (mut found, below) =
        try_join(in_folder(link, store, own, after.strip_prefix(own).unwrap_or("")), below).await?;
    found.extend(below);
    found.retain(|(name, _)| name.starts_with(prefix) && name.as_str() > after);
    found.sort_unstable();
    Ok(found)
}

/// The objects of a folder after a name, or all its objects.
async fn in_folder(link: &Link, store: Uuid, folder: &str, after: &str) -> Result<Vec<(String, u64)>> {
    type Row = (String, Option<Uuid>, Option<i64>, Option<i64>, Option<Bytes>);
    let found: Vec<Row> = match after {
        "" => link.all(LIST, &(store, folder), Agreed::Enough).await?,
        after => link.all(LIST_AFTER, &(store, folder, after), Agreed::Enough).await?,
    };
    Ok(found.into_iter().map(|(name, _, length, ..)| (format!("{folder}{name}"), length.unwrap_or(0) as u64)).collect())
}

async fn is_folder_empty(link: &Link, store: Uuid, folder: &str) -> Result<bool> {
    type Row = (String, Option<Uuid>, Option<i64>, Option<i64>, Option<Bytes>);
    let found: Option<Row> = link.first(ANY, &(store, folder), Agreed::Enough).await?;
    Ok(found.is_none())
}

pub async fn is_empty(link: &Link, store: Uuid) -> Result<bool> {
    let mut folders = names::list(link, store, Kind::Folder).await?;
    folders.push(String::new());
    let empty = iter(&folders).map(|folder| is_folder_empty(link, store, folder)).buffered(link.location.parallel);
    empty.try_fold(true, async |all, empty| Ok(all && empty)).await
}

pub async fn delete(link: &Link, store: Uuid, name: &str) -> Result<()> {
    check_object(name)?;
    let (folder, leaf) = parts(name);
    loop {
        let Some(ObjectRow { nonce, length, value, .. }) = find(link, store, name).await? else { return Ok(()) };
        let decision = link.decide(DELETE, &(store, folder, leaf, nonce)).await?;
        // The object was deleted, and another one was put.
        if !decision.applied && decision.uuid("nonce").is_some() {
            continue;
        }
        if value.is_none() {
            blocks::delete(link, store, &blocks_of(nonce), length).await?;
        }
        return Ok(());
    }
}

pub async fn sizes(link: &Link, store: Uuid) -> Result<Vec<Size>> {
    let found = list(link, store, "").await?;
    Ok(found.into_iter().map(|(name, bytes)| Size { kind: StoredKind::Object, name, bytes }).collect())
}
