//! A store of its own for each test, on the cluster that `KUBIST_TEST_CASSANDRA` names: hosts,
//! separated by commas.
#![allow(dead_code)] // each test takes what it needs

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use kubist_cassandra::{CassandraStore, Place};

static COUNT: AtomicU32 = AtomicU32::new(0);

pub fn hosts() -> String {
    std::env::var("KUBIST_TEST_CASSANDRA").expect("KUBIST_TEST_CASSANDRA names no hosts: see scripts/cassandra.py")
}

/// A place where nothing is, with these settings.
pub fn fresh(settings: &str) -> Place {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let table = format!("t{now:x}-{}", COUNT.fetch_add(1, Ordering::Relaxed));
    Place::parse(&format!("cassandra://{}/kubist_tests/{table}?{settings}", hosts())).unwrap()
}

pub fn store() -> Arc<CassandraStore> {
    Arc::new(CassandraStore::create(fresh("")).unwrap())
}
