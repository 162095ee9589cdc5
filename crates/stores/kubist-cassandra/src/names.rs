//! Lists of names, with one partition for each kind of thing in a store.
//!
//! A name is added before its segment or object is written, and removed after the deletion, so a list may briefly have
//! an extra name, but never lacks one. The name of a log is added last, because the log is empty before.

use kubist_store::Result;
use uuid::Uuid;

use crate::cluster::{Agreed, Link};

const ADD: &str = "INSERT INTO kubist_names (store, kind, name) VALUES (?, ?, ?) USING TIMESTAMP 1";
const REMOVE: &str = "DELETE FROM kubist_names WHERE store = ? AND kind = ? AND name = ?";
const LIST: &str = "SELECT name FROM kubist_names WHERE store = ? AND kind = ?";
const BETWEEN: &str = "SELECT name FROM kubist_names WHERE store = ? AND kind = ? AND name >= ? AND name < ?";

#[derive(Clone, Copy)]
pub enum Kind {
    Segment,
    Log,
    /// The name of a folder, which ends in a slash.
    Folder,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Segment => "segment",
            Kind::Log => "log",
            Kind::Folder => "folder",
        }
    }
}

pub async fn add(link: &Link, store: Uuid, kind: Kind, name: &str) -> Result<()> {
    link.run(ADD, &(store, kind.word(), name)).await
}

pub async fn remove(link: &Link, store: Uuid, kind: Kind, name: &str) -> Result<()> {
    link.run(REMOVE, &(store, kind.word(), name)).await
}

pub async fn list(link: &Link, store: Uuid, kind: Kind) -> Result<Vec<String>> {
    let found: Vec<(String,)> = link.all(LIST, &(store, kind.word()), Agreed::Enough).await?;
    Ok(found.into_iter().map(|(name,)| name).collect())
}

pub async fn between(link: &Link, store: Uuid, kind: Kind, low: &str, high: &str) -> Result<Vec<String>> {
    let found: Vec<(String,)> = link.all(BETWEEN, &(store, kind.word(), low, high), Agreed::Enough).await?;
    Ok(found.into_iter().map(|(name,)| name).collect())
}
