//! Where tests keep their tables: in memory, or where `KUBIST_TEST_STORE` says, a location
//! without the table's name: `cassandra://hosts/keyspace`, `s3://bucket`. So the same tests try any engine.
//! `KUBIST_TEST_MOUNTS` names two mounts of one folder, with a colon between: two machines.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use kubist::store::{Found, LocalStore, MemoryStore, Store, StoreExt, locate, register};
use kubist_cassandra::Clusters;
use kubist_object::Buckets;

static COUNT: AtomicU32 = AtomicU32::new(0);

/// Two mounts of one folder, if there are such.
pub fn mounts() -> Option<[PathBuf; 2]> {
    let both = std::env::var("KUBIST_TEST_MOUNTS").ok()?;
    let (one, other) = both.split_once(':').expect("two folders");
    Some([one.into(), other.into()])
}

/// A path on one mount, as the other one has it.
pub fn on_the_other(path: &Path) -> PathBuf {
    let [one, other] = mounts().expect("two mounts");
    match path.strip_prefix(&one) {
        Ok(name) => other.join(name),
        Err(_) => one.join(path.strip_prefix(&other).expect("a path on one of them")),
    }
}

/// A store with nothing in it.
pub fn fresh_store(name: &str) -> Arc<dyn Store> {
    if let Some([one, _]) = mounts() {
        return Arc::new(LocalStore::create(&one.join(fresh_name(name))).unwrap());
    }
    let Ok(location) = std::env::var("KUBIST_TEST_STORE") else { return Arc::new(MemoryStore::new(name)) };
    register(Arc::new(Clusters));
    register(Arc::new(Buckets));
    locate(&format!("{location}/{}", fresh_name(name))).unwrap().create().unwrap()
}

/// A name that nothing has.
pub fn fresh_name(name: &str) -> String {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
    format!("{name}-{now:x}-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// The same store as somebody else opens it, on the other machine if there are two, who sees all
/// that was done before. In memory there is nobody else.
pub fn elsewhere(store: &Arc<dyn Store>) -> Arc<dyn Store> {
    if mounts().is_some() {
        let store = LocalStore::create(&on_the_other(Path::new(store.location()))).unwrap();
        store.catch_up().unwrap();
        return Arc::new(store);
    }
    match std::env::var("KUBIST_TEST_STORE") {
        Err(_) => store.clone(),
        Ok(_) => match locate(store.location()).unwrap().find().unwrap() {
            Found::Store(store) => store,
            _ => panic!("{} is gone", store.location()),
        },
    }
}
