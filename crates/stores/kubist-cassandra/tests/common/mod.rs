//! A new store per test, on the cluster `KUBIST_TEST_CASSANDRA`: hosts separated by commas.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use kubist_cassandra::{CassandraStore, Location};

static COUNT: AtomicU32 = AtomicU32::new(0);

pub const STRANGER: &str = "\
-----BEGIN CERTIFICATE-----
MIIBPzCB5qADAgECAgkAnEPm1txZ9pYwCgYIKoZIzj0EAwIwEzERMA8GA1UEAxMI
c3RyYW5nZXIwIBcNMjYxMTIyMTQyMTIyWhgPMjEyNjEwMjkxNDIxMjJaMBMxETAP
BgNVBAMTCHN0cmFuZ2VyMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE8GRIWnif
dbT/P0GCXq95I0R4S5uBdACxPjT3qLnwFbyOf7uKMbd9j9T2UyqGtxcL6NVyn22o
M1yRO0o/MD0RNaMhMB8wHQYDVR0OBBYEFEmmX/Yfu5iJWiqMVzdWtRQ7MSJLMAoG
CCqGSM49BAMCA0gAMEUCIQDfguKgLHPLKqLl9z3TniKlHXA9k/otasXP9fodNQ0d
0AIgesVErG2K8dvJLpq0W5fog6ix9hhD/H3mZCJH6jeLJEs=
-----END CERTIFICATE-----
";

pub fn hosts() -> String {
    std::env::var("KUBIST_TEST_CASSANDRA").expect("KUBIST_TEST_CASSANDRA names no hosts: see scripts/cassandra.py")
}

pub fn fresh(settings: &str) -> Location {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let table = format!("t{now:x}-{}", COUNT.fetch_add(1, Ordering::Relaxed));
    Location::parse(&format!("cassandra://{}/kubist_tests/{table}?{settings}", hosts())).unwrap()
}

pub fn store() -> Arc<CassandraStore> {
    Arc::new(CassandraStore::create(fresh("")).unwrap())
}

pub struct Database {
    runtime: tokio::runtime::Runtime,
    session: scylla::client::session::Session,
}

impl Database {
    pub fn open() -> Database {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let hosts = hosts();
        let hosts: Vec<&str> = hosts.split(',').collect();
        let builder = scylla::client::session_builder::SessionBuilder::new().known_nodes(&hosts);
        let session = runtime.block_on(builder.build()).unwrap();
        Database { runtime, session }
    }

    pub fn run(&self, cql: &str, values: impl scylla::serialize::row::SerializeRow) {
        self.runtime.block_on(self.session.query_unpaged(cql, values)).unwrap();
    }

    pub fn id(&self, location: &Location) -> uuid::Uuid {
        let cql = format!("SELECT id FROM {}.kubist_tables WHERE name = ?", location.keyspace);
        let found = self.runtime.block_on(self.session.query_unpaged(cql, (&location.table,))).unwrap();
        found.into_rows_result().unwrap().single_row::<(uuid::Uuid,)>().unwrap().0
    }
}
