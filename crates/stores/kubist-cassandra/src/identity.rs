//! The id of the store that a table's name leads to.
//!
//! A lightweight transaction binds a name to a random id, and all data is stored under the id. A table created under
//! the name of a dropped one has another id, so late writes, deletions and replicas of the old table never affect it.

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

/// Returns the id of the name, which this binds if necessary.
pub async fn bind(link: &Link) -> Result<Uuid> {
    match find(link).await? {
        Some(id) => Ok(id),
        None => bind_to(link, Uuid::new_v4()).await,
    }
}

/// Binds the name to `id` if it has none; returns its id.
async fn bind_to(link: &Link, id: Uuid) -> Result<Uuid> {
    let decision = link.decide(BIND, &(&link.location.table, id)).await?;
    Ok(if decision.applied { id } else { decision.uuid("id").unwrap_or(id) })
}

/// Called after a write: another process may have dropped the store while it was empty.
pub async fn keep(link: &Link, id: Uuid) -> Result<()> {
    match bind_to(link, id).await? == id {
        true => Ok(()),
        false => Err(Error::Missing { file: format!("{} (it was dropped and created again)", link.location) }),
    }
}

/// Unbinds the name of an empty store. After a concurrent write the name is bound again; each write checks that too.
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
