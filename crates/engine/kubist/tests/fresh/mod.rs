//! Test tables in memory, or at `KUBIST_TEST_STORE`, a location without the table's name such as
//! `cassandra://hosts/keyspace` or `s3://bucket`. `KUBIST_TEST_MOUNTS` names two mounts of one folder,
//! separated by a colon, as two machines.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use kubist::store::{Content, LocalStore, MemoryStore, Store, StoreExt, locate, register};
use kubist_cassandra::Clusters;
use kubist_object::Buckets;

static COUNT: AtomicU32 = AtomicU32::new(0);

pub fn mounts() -> Option<[PathBuf; 2]> {
    let both = std::env::var("KUBIST_TEST_MOUNTS").ok()?;
    let (one, other) = both.split_once(':').expect("two folders");
    Some([one.into(), other.into()])
}

pub fn on_the_other(path: &Path) -> PathBuf {
    let [one, other] = mounts().expect("two mounts");
    match path.strip_prefix(&one) {
        Ok(name) => other.join(name),
        Err(_) => one.join(path.strip_prefix(&other).expect("a path on one of them")),
    }
}

pub fn fresh_store(name: &str) -> Arc<dyn Store> {
    if let Some([one, _]) = mounts() {
        return Arc::new(LocalStore::create(&one.join(fresh_name(name))).unwrap());
    }
    let Ok(location) = std::env::var("KUBIST_TEST_STORE") else { return Arc::new(MemoryStore::new(name)) };
    register(Arc::new(Clusters));
    register(Arc::new(Buckets));
    locate(&format!("{location}/{}", fresh_name(name))).unwrap().create().unwrap()
}

pub fn fresh_name(name: &str) -> String {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
    format!("{name}-{now:x}-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// The store of another process or machine, with all changes visible. In memory it is the same store.
pub fn elsewhere(store: &Arc<dyn Store>) -> Arc<dyn Store> {
    if mounts().is_some() {
        let store = LocalStore::create(&on_the_other(Path::new(store.location()))).unwrap();
        store.catch_up().unwrap();
        return Arc::new(store);
    }
    match std::env::var("KUBIST_TEST_STORE") {
        Err(_) => store.clone(),
        Ok(_) => match locate(store.location()).unwrap().find().unwrap() {
            Content::Store(store) => store,
            _ => panic!("{} is gone", store.location()),
        },
    }
}
