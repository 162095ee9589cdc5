//! The id of the store to which a table's name leads.
//!
//! A lightweight transaction binds a name to a random id, under which all data is stored. A table that is dropped and
//! created again under the same name has another id, so late writes, deletions and replicas of the old table never
//! affect it.

use kubist_store::{Error, Result};
use uuid::Uuid;

use crate::cluster::{Agreed, Link};

const FIND: &str = "SELECT id FROM kubist_tables WHERE name = ?";
const BIND: &str = "INSERT INTO kubist_tables (name, id) VALUES (?, ?) IF NOT EXISTS";
const UNBIND: &str = "DELETE FROM kubist_tables WHERE name = ? IF id = ?";

pub async fn find(link: &Link) -> Result<Option<Uuid>> {
    let found: Option<(Option<Uuid>,)> = link.first(FIND, &(&link.location.table,), Agreed::Enough).await?;
    Ok(found.and_then(|(id,)| id))
}

/// Returns the id of the name, and binds it if necessary.
pub async fn bind(link: &Link) -> Result<Uuid> {
    match find(link).await? {
        Some(id) => Ok(id),
        None => bind_to(link, Uuid::new_v4()).await,
    }
}

/// Binds the name to `id` unless it has an id, and returns the id of the name.
async fn bind_to(link: &Link, id: Uuid) -> Result<Uuid> {
    let decision = link.decide(BIND, &(&link.location.table, id)).await?;
    Ok(if decision.applied { id } else { decision.uuid("id").unwrap_or(id) })
}

/// Binds the name again after a write, because another process may have dropped the store while it was empty.
pub async fn keep(link: &Link, id: Uuid) -> Result<()> {
    match bind_to(link, id).await? == id {
        true => Ok(()),
        false => Err(Error::Missing { file: format!("{} (it was dropped and created again)", link.location) }),
    }
}

/// Unbinds the name of an empty store; a concurrent write binds the name again, because each write checks this.
pub async fn end(link: &Link, id: Uuid, is_empty: impl AsyncFn() -> Result<bool>) -> Result<()> {
    if !is_empty().await? {
        return Ok(());
    }
    link.decide(UNBIND, &(&link.location.table, id)).await?;
    if !is_empty().await? {
        keep(link, id).await?;
    }
    Ok(())
}
