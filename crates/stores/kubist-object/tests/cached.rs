//! The cache in front of a bucket, and the requests that reach the service, which runs in this process.

use std::path::Path;
use std::sync::Arc;

use crate::common::fresh_on;
use crate::common::service::{Does, Service};
use kubist_cache::{BLOCK_BYTES, Cached, Folder};
use kubist_object::{Location, ObjectStore};
use kubist_store::{Error, Store, StoreExt, conformance};
use tempfile::tempdir;

fn at(service: &Service) -> Location {
    fresh_on(&service.address, "&region=us-east-1&patience=1")
}

fn cached(location: &Location, root: &Path) -> Cached {
    let store = ObjectStore::create(location.clone()).unwrap();
    let identity = store.identity().unwrap();
    Cached::new(Arc::new(store), identity, Folder::open(root.into(), 64 << 20).unwrap())
}

fn fill(store: &dyn Store, lengths: [usize; 2]) -> [u64; 2] {
    let mut segment = store.create_segment("s").unwrap();
    lengths.map(|length| {
        let offset = segment.append(&[&bytes(0..length as u64)]).unwrap();
        segment.sync().unwrap();
        offset
    })
}

fn bytes(range: std::ops::Range<u64>) -> Vec<u8> {
    range.map(|at| (at % 251) as u8).collect()
}

#[test]
fn a_store_behind_a_cache_keeps_the_promises() {
    let (service, root) = (Service::start(), tempdir().unwrap());
    conformance::run(&mut || Arc::new(cached(&at(&service), root.path())));
}

#[test]
fn a_block_is_read_once_by_all_handles() {
    let (service, root) = (Service::start(), tempdir().unwrap());
    let location = at(&service);
    let store = cached(&location, root.path());
    let [first, second] = fill(&store, [3 * BLOCK_BYTES as usize + 100, 50]);
    let whole = |begin: u64, range: std::ops::Range<u64>| begin + range.start..begin + range.end;
    let ranges = [
        whole(first, 10..20),
        whole(first, BLOCK_BYTES - 5..BLOCK_BYTES + 5),
        // A read up to the end of a piece, and a piece that is shorter than a block.
        whole(first, 3 * BLOCK_BYTES..3 * BLOCK_BYTES + 100),
        whole(second, 0..50),
        whole(second, 7..7),
    ];
    let expected = [
        bytes(10..20),
        bytes(BLOCK_BYTES - 5..BLOCK_BYTES + 5),
        bytes(3 * BLOCK_BYTES..3 * BLOCK_BYTES + 100),
        bytes(0..50),
        Vec::new(),
    ];
    let read = |store: &Cached| assert!(store.read("s", &ranges).unwrap() == expected);
    let begin = store.traffic().unwrap();
    // Requests wait for each other, so they must run in parallel.
    service.does(|_| Does::ServeTogether(2));
    read(&store);
    let after = store.traffic().unwrap();
    // There is one more request if a block between two others is not worth reading.
    assert!((2..=3).contains(&(after.gets - begin.gets)));
    assert!((1..=2).contains(&(after.round_trips - begin.round_trips)));
    assert_eq!(after.cache.unwrap().misses, 4);
    let other = cached(&location, root.path());
    let begin = other.traffic().unwrap();
    service.does(|_| Does::Refuse(503, "SlowDown"));
    read(&store);
    read(&other);
    let after = other.traffic().unwrap();
    assert_eq!((after.gets, after.round_trips), (begin.gets, begin.round_trips));
    assert_eq!(after.cache.unwrap().hits, 4);
    // Only a damaged copy is read again.
    service.does(|_| Does::Serve);
    let segment = root.path().join(format!("v1/{:032x}/segments/s", other.identity().unwrap()));
    let damaged = segment.join(format!("{:012x}", first / BLOCK_BYTES));
    let mut copy = std::fs::read(&damaged).unwrap();
    copy[100] ^= 1;
    std::fs::write(&damaged, copy).unwrap();
    read(&other);
    assert_eq!(other.traffic().unwrap().gets, begin.gets + 1);
    // The underlying store returns no copy.
    let itself = other.uncached().unwrap();
    itself.read("s", &ranges[..1]).unwrap();
    assert_eq!(other.traffic().unwrap().gets, begin.gets + 2);
}

#[test]
fn what_is_missing_is_told_as_without_a_cache() {
    let (service, root) = (Service::start(), tempdir().unwrap());
    let store = cached(&at(&service), root.path());
    let [first, _] = fill(&store, [1000, 50]);
    let plain = store.uncached().unwrap();
    for ranges in [vec![first + 990..first + 1001], vec![first..first + 10, first + 2000..first + 2001], vec![5..4]] {
        let (found, expected) = (store.read("s", &ranges).unwrap_err(), plain.read("s", &ranges).unwrap_err());
        assert_eq!(found.to_string(), expected.to_string());
        assert!(matches!(found, Error::Damaged { .. }));
    }
    assert!(matches!(store.read("../s", &[0..1]), Err(Error::InvalidName { .. })));
    assert!(matches!(store.read("absent", &[0..1]), Err(Error::Missing { .. })));
    fill_as(&store, "absent");
    assert_eq!(store.read("absent", &[0..1]).unwrap()[0], [0][..]);
}

fn fill_as(store: &dyn Store, name: &str) {
    let mut segment = store.create_segment(name).unwrap();
    segment.append(&[&[0; 10]]).unwrap();
    segment.sync().unwrap();
}

#[test]
fn a_store_made_anew_gets_no_old_bytes() {
    let (service, root) = (Service::start(), tempdir().unwrap());
    let location = at(&service);
    let store = cached(&location, root.path());
    let [first, _] = fill(&store, [1000, 50]);
    store.put_if_absent("checkpoints/1", b"old").unwrap();
    assert_eq!(store.get_immutable("checkpoints/1").unwrap().unwrap(), "old");
    store.read("s", &[first..first + 10]).unwrap();
    ObjectStore::create(location.clone()).unwrap().erase(&["checkpoints/1".into()]).unwrap();
    // A copy counts only while the same object exists.
    assert_eq!(store.get_immutable("checkpoints/1").unwrap(), None);
    assert_eq!(store.get("checkpoints/1").unwrap(), None);
    store.put_if_absent("checkpoints/1", b"new").unwrap();
    assert_eq!(store.get_immutable("checkpoints/1").unwrap().unwrap(), "new");
    store.delete("checkpoints/1").unwrap();
    let anew = cached(&location, root.path());
    assert_eq!(anew.get_immutable("checkpoints/1").unwrap(), None);
    assert!(matches!(anew.read("s", &[first..first + 10]), Err(Error::Missing { .. })));
    fill_as(&anew, "s");
    assert_eq!(anew.read("s", &[0..4]).unwrap()[0], [0; 4][..]);
}
