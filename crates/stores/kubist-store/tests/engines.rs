//! Every store passes the conformance suite.

use std::path::Path;
use std::sync::Arc;

use kubist_simulate::SimDisk;
use kubist_store::{LocalStore, MemoryStore, conformance};

#[test]
fn memory() {
    conformance::run(&mut || Arc::new(MemoryStore::new("test")));
}

#[test]
fn local() {
    let root = tempfile::tempdir().unwrap();
    let mut stores = 0;
    conformance::run(&mut || {
        stores += 1;
        let path = root.path().join(format!("a/store-{stores}"));
        Arc::new(LocalStore::create(&path).unwrap())
    });
}

#[test]
fn local_on_a_simulated_disk() {
    for seed in 0..5 {
        conformance::run(&mut || {
            let process = SimDisk::new(seed).process();
            Arc::new(LocalStore::on_disk(process, Path::new("/data/store")).unwrap())
        });
    }
}
