//! The CQL tables, which all Kubist tables of a keyspace share, and their creation; FORMAT.md describes the columns.
//!
//! The id of a CQL table is derived from its name, so clients that create it concurrently through different nodes
//! create the same table. Data has the timestamp 1, so any deletion is later, and a repeated or late request changes
//! nothing.

use kubist_store::Result;
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_128;

use crate::cluster::{Agreed, Link};
use crate::replication::replication;

/// How long a deletion is remembered: a short time, because reading over many deleted names would be slow, and a
/// replica that restores a name later does no harm (see the crate).
const GRACE_SECONDS: u32 = 3600;

const TABLES: [(&str, &str, &str); 7] = [
    // A name that reappears would lead to a dropped table, so these deletions are remembered for ten days.
    ("kubist_tables", "name text PRIMARY KEY, id uuid", " AND gc_grace_seconds = 864000"),
    ("kubist_names", "store uuid, kind text, name text, PRIMARY KEY ((store, kind), name)", ""),
    (
        "kubist_objects",
        "store uuid, folder text, name text, nonce uuid, length bigint, checksum bigint, value blob, \
         PRIMARY KEY ((store, folder), name)",
        "",
    ),
    (
        "kubist_segments",
        "store uuid, name text, nonce uuid, length bigint, gone boolean, PRIMARY KEY ((store, name))",
        "",
    ),
    // The blocks are already compressed.
    (
        "kubist_blocks",
        "store uuid, name text, bucket int, start bigint, bytes blob, PRIMARY KEY ((store, name, bucket), start)",
        " AND compression = {'enabled': 'false'}",
    ),
    (
        "kubist_epochs",
        "store uuid, writer text, epoch bigint, start bigint, nonce uuid, holder text static, \
         PRIMARY KEY ((store, writer), epoch)",
        " AND CLUSTERING ORDER BY (epoch DESC)",
    ),
    (
        "kubist_log",
        "store uuid, writer text, bucket int, position bigint, epoch bigint, part int, \
         length bigint, checksum bigint, bytes blob, PRIMARY KEY ((store, writer, bucket), position, epoch, part)",
        "",
    ),
];

pub async fn is_there(link: &Link) -> Result<bool> {
    let found: Vec<(String,)> = link
        .all(
            "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?",
            &(&link.location.keyspace,),
            Agreed::One,
        )
        .await?;
    Ok(TABLES.iter().all(|(name, ..)| found.iter().any(|(found,)| found == name)))
}

pub async fn make(link: &Link) -> Result<()> {
    let keyspace = &link.location.keyspace;
    let found: Vec<(String,)> = link
        .all("SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = ?", &(keyspace,), Agreed::One)
        .await?;
    if found.is_empty() {
        let nodes = link.nodes();
        let asked = link.location.replication.as_deref().and_then(replication);
        let asked = asked.or_else(|| replication(&nodes.clamp(1, 3).to_string()));
        let replication = asked.expect("a number is a replication");
        link.alter(&format!("CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = {replication}")).await?;
    }
    for (name, columns, more) in TABLES {
        let id = Uuid::from_u128(xxh3_128(format!("{keyspace}.{name}").as_bytes()));
        let grace = match more.contains("gc_grace") {
            true => String::new(),
            false => format!(" AND gc_grace_seconds = {GRACE_SECONDS}"),
        };
        link.alter(&format!(
            "CREATE TABLE IF NOT EXISTS {keyspace}.{name} ({columns}) WITH ID = {id} \
             AND speculative_retry = '50ms'{more}{grace}"
        ))
        .await?;
    }
    Ok(())
}
