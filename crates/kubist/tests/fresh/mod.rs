//! Where tests keep their tables: in memory, or where `KUBIST_TEST_STORE` says, a location
//! without the table's name: `cassandra://hosts/keyspace`, `s3://bucket`. So the same tests try any engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use kubist::store::{MemoryStore, Store, locate, register};
use kubist_cassandra::Clusters;
use kubist_object::Buckets;

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A store with nothing in it.
pub fn fresh_store(name: &str) -> Arc<dyn Store> {
    let Ok(location) = std::env::var("KUBIST_TEST_STORE") else { return Arc::new(MemoryStore::new(name)) };
    let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
    let table = format!("{location}/{name}-{now:x}-{}", COUNT.fetch_add(1, Ordering::Relaxed));
    register(Arc::new(Clusters));
    register(Arc::new(Buckets));
    locate(&table).unwrap().create().unwrap()
}
