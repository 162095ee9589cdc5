//! Which store a table's name leads to.
//!
//! A name is bound to a random id, by lightweight transaction; all else is kept under the
//! id. A table that is made under the name of one that was dropped has another id, so that
//! nothing late of the old one, be it a write, a deletion or a replica that slept, touches
//! the new one.

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

/// The id that the name has, or gets now.
pub async fn bind(link: &Link) -> Result<Uuid> {
    match find(link).await? {
        Some(id) => Ok(id),
        None => bind_to(link, Uuid::new_v4()).await,
    }
}

/// The id that the name has; `id`, if it had none.
async fn bind_to(link: &Link, id: Uuid) -> Result<Uuid> {
    let decision = link.decide(BIND, &(&link.location.table, id)).await?;
    Ok(if decision.applied { id } else { decision.uuid("id").unwrap_or(id) })
}

/// Makes sure that the name still leads to this store, which a process that found it empty
/// may just have ended. To be called once something is in it.
pub async fn keep(link: &Link, id: Uuid) -> Result<()> {
    match bind_to(link, id).await? == id {
        true => Ok(()),
        false => Err(Error::Missing { file: format!("{} (it was dropped, and made anew)", link.location) }),
    }
}

/// Takes the name from a store in which nothing is left. If something came into it just
/// then, it gets the name back: each put into it makes sure of that too.
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
