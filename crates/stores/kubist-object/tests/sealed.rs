//! Sealed files as objects of a bucket, on a small service in this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use kubist_object::{Buckets, Location};
use kubist_one::Packer;
use kubist_store::{Content, Error, Scheme, Store, StoreExt};

use crate::common::fresh_on;
use crate::common::service::{Does, Service};

/// A sealed file with an object and a segment of 1 MiB.
fn sealed() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let packer = Packer::create(&path).unwrap();
    packer.put_if_absent("table", b"header").unwrap();
    let mut segment = packer.create_segment("s").unwrap();
    segment.append(&[&vec![7; 1 << 20]]).unwrap();
    segment.sync().unwrap();
    packer.seal().unwrap();
    std::fs::read(path).unwrap()
}

fn put(service: &Service, bytes: Vec<u8>) -> Location {
    let location = fresh_on(&service.address, "&region=us-east-1");
    service.values.lock().unwrap().insert(location.prefix.clone(), bytes);
    location
}

fn find(location: &Location) -> kubist_store::Result<Content> {
    Buckets.read(&location.to_string()).unwrap().find()
}

#[test]
fn an_object_is_opened_like_a_file() {
    let service = Service::start();
    let location = put(&service, sealed());
    let Ok(Content::Store(store)) = find(&location) else { panic!("it is a store") };
    assert_eq!(store.get("table").unwrap().unwrap(), "header");
    assert_eq!(store.read("s", &[5..9, 1_000_000..1_000_003]).unwrap(), [&[7u8; 4][..], &[7; 3]]);
    assert!(store.identity().is_some());
    let traffic = store.traffic().unwrap();
    // One trip each for the mark of a store in the bucket, the end of the file, and a part of the segment.
    assert_eq!(traffic.round_trips, 3, "{traffic:?}");
    let error = store.own_log("w").map(drop).unwrap_err().to_string();
    assert!(error.contains("kubist unpack"), "{error}");
}

#[test]
fn other_objects_are_no_table() {
    let service = Service::start();
    let found = find(&put(&service, b"text".to_vec()));
    assert!(matches!(found, Ok(Content::NoStore("it is an object that is no sealed file"))), "{found:?}");
    let bytes = sealed();
    let found = find(&put(&service, bytes[..bytes.len() - 9].to_vec()));
    assert!(matches!(found, Err(Error::Damaged { .. })), "{found:?}");
    let absent = fresh_on(&service.address, "&region=us-east-1");
    assert!(matches!(find(&absent), Ok(Content::Nothing)));
}

/// Such a user gets 403 for a key that does not exist.
#[test]
fn permission_to_read_the_object_is_enough() {
    let service = Service::start();
    let location = put(&service, sealed());
    let (key, refused) = (location.prefix.clone(), Arc::new(AtomicU32::new(0)));
    let count = refused.clone();
    service.does(move |asked| match asked.key == key {
        true => Does::Serve,
        false => {
            count.fetch_add(1, Ordering::Relaxed);
            Does::Refuse(403, "AccessDenied")
        }
    });
    assert!(matches!(find(&location), Ok(Content::Store(_))) && refused.load(Ordering::Relaxed) > 0);
    let absent = fresh_on(&service.address, "&region=us-east-1");
    assert!(matches!(find(&absent), Err(Error::Io { .. })));
}

#[test]
fn an_object_that_is_replaced_is_refused() {
    let service = Service::start();
    let location = put(&service, sealed());
    let Ok(Content::Store(store)) = find(&location) else { panic!("it is a store") };
    service.values.lock().unwrap().insert(location.prefix.clone(), sealed());
    let answer = store.read("s", &[5..9]);
    assert!(matches!(answer, Err(Error::Refused { .. })), "{answer:?}");
    service.values.lock().unwrap().remove(&location.prefix);
    let answer = store.read("s", &[5..9]);
    assert!(matches!(answer, Err(Error::Refused { .. })), "{answer:?}");
}
