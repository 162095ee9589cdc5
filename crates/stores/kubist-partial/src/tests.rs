//! A partial copy of a store in memory.

use std::sync::Arc;

use kubist_store::{Error, Memories, MemoryStore, Partial, Store, StoreExt, locate, register};

use crate::{PartialStore, Recorder};

/// A source with one object, one log and one segment of 600,000 bytes, whose name is unique to the test.
fn source(name: &str) -> (String, Arc<dyn Store>, Vec<u8>) {
    register(Arc::new(Memories));
    let location = format!("memory://{name}");
    let store = locate(&location).unwrap().create().unwrap();
    store.put_if_absent("table", name.as_bytes()).unwrap();
    store.put_if_absent("unread", b"of no interest").unwrap();
    let mut log = store.own_log("w").unwrap();
    let first = log.append(b"first").unwrap();
    log.append(b"second").unwrap();
    assert!(first < log.position());
    let bytes: Vec<u8> = (0..600_000u32).map(|n| (n * 7 / 3) as u8).collect();
    let mut segment = store.create_segment("s").unwrap();
    segment.append(&[&bytes]).unwrap();
    segment.sync().unwrap();
    (location, store, bytes)
}

fn begun(own: &Arc<dyn Store>, location: &str, store: Arc<dyn Store>) -> PartialStore {
    let recorder = Recorder::new(store);
    recorder.get("table").unwrap();
    recorder.read_log("w", 0).unwrap();
    let manifest = recorder.manifest(["s".to_string()].into_iter()).unwrap();
    PartialStore::begin(own.clone(), location).unwrap().renewed(&manifest).unwrap()
}

fn reopened(own: &Arc<dyn Store>) -> PartialStore {
    PartialStore::open(own.clone()).unwrap().unwrap()
}

#[test]
fn reads_are_held_fetched_or_not_here() {
    let (location, store, bytes) = source("reads");
    let own: Arc<dyn Store> = Arc::new(MemoryStore::new("copy"));
    let first = store.segment_len("s").unwrap().unwrap() - bytes.len() as u64;
    let copy = begun(&own, &location, store.clone());
    assert_eq!(copy.get("table").unwrap().unwrap(), "reads");
    assert_eq!((copy.list("").unwrap(), copy.logs().unwrap()), (vec!["table".to_string()], vec!["w".to_string()]));
    assert_eq!(copy.read_log("w", 0).unwrap(), store.read_log("w", 0).unwrap());
    let range = first + 1000..first + 400_000;
    let missing = |copy: &PartialStore| match copy.read("s", std::slice::from_ref(&range)) {
        Err(Error::NotHere { bytes, .. }) => bytes,
        other => panic!("{other:?}"),
    };
    assert_eq!(missing(&copy), 399_000);

    copy.fetch_missing(true);
    copy.read("s", &[first + 2000..first + 2010, first + 300_000..first + 300_001]).unwrap();
    assert_eq!((missing(&reopened(&own)), copy.held_bytes()), (398_989, 11));
    let read = copy.read("s", &[range.clone(), first + 2005..first + 2100]).unwrap();
    assert_eq!((&read[0][..], &read[1][..]), (&bytes[1000..400_000], &bytes[2005..2100]));
    assert_eq!(copy.held_bytes(), 399_000);
    let other = reopened(&own);
    assert_eq!(other.read("s", std::slice::from_ref(&range)).unwrap()[0], bytes[1000..400_000]);

    copy.forget("s", first + 5000..first + 5001).unwrap();
    assert!(matches!(reopened(&own).read("s", &[first + 4999..first + 5002]), Err(Error::NotHere { .. })));
    assert_eq!(copy.read("s", std::slice::from_ref(&range)).unwrap()[0], bytes[1000..400_000]);
    assert!(matches!(copy.read("absent", &[0..1]), Err(Error::Missing { .. })));
}

#[test]
fn one_handle_fetches_and_none_writes() {
    let (location, store, _) = source("writes");
    let own: Arc<dyn Store> = Arc::new(MemoryStore::new("copy"));
    let copy = begun(&own, &location, store);
    copy.fetch_missing(true);
    copy.read("s", &[20..30]).unwrap();
    let other = reopened(&own);
    other.fetch_missing(true);
    assert!(matches!(other.read("s", &[40..50]), Err(Error::Busy { .. })));
    copy.fetch_missing(false);
    other.read("s", &[40..50]).unwrap();
    // The first handle sees what the other one fetched.
    copy.read("s", &[20..30, 40..50]).unwrap();

    assert!(matches!(copy.put_if_absent("a", b""), Err(Error::Io { .. })));
    assert!(matches!(copy.delete("table"), Err(Error::Io { .. })));
    assert!(copy.create_segment("t").is_err() && copy.own_log("w").is_err() && copy.delete_segment("s").is_err());
    assert!(copy.erase(&[]).is_err());
    assert!(copy.partial().is_some());
}

#[test]
fn a_killed_copy_goes_on_and_another_source_is_refused() {
    let (location, store, bytes) = source("killed");
    let own: Arc<dyn Store> = Arc::new(MemoryStore::new("copy"));
    let unfinished = PartialStore::begin(own.clone(), &location).unwrap();
    assert!(!unfinished.is_begun() && unfinished.get("unfinished").unwrap().is_some());
    let copy = begun(&own, &location, store.clone());
    copy.want(b"{}", false).unwrap();
    copy.fetch_missing(true);
    copy.read("s", &[100..200]).unwrap();
    drop(copy);
    let copy = begun(&own, &location, store);
    assert_eq!((copy.queries(), copy.held_bytes()), (vec![("{}".into(), false)], 100));
    assert_eq!(own.list("manifests/").unwrap(), ["manifests/00000000000000000002"]);
    copy.want(b"{}", true).unwrap();
    assert_eq!(reopened(&own).wanted(), ["{}"]);
    assert!(matches!(PartialStore::begin(own.clone(), "memory://other"), Err(Error::Exists { .. })));
    assert!(bytes.len() > 200);

    // Another store at the location of the source.
    let replaced: Arc<dyn Store> = Arc::new(MemoryStore::new("copy"));
    let (other, store, _) = source("replaced");
    let copy = begun(&replaced, &location, store);
    assert_ne!(other, location);
    copy.fetch_missing(true);
    assert!(matches!(copy.read("s", &[100..200]), Err(Error::Refused { .. })));
}
