//! The conformance suite and specific tests on a real service.

use std::sync::Arc;

use crate::common::{Bucket, address, fresh_at, store};
use kubist_object::{Location, ObjectStore};
use kubist_store::{Error, LogTail, Store, StoreExt, conformance};

fn known_store() -> (Arc<ObjectStore>, Location, Bucket) {
    let location = fresh_at(&address(), "");
    let store = Arc::new(ObjectStore::create(location.clone()).unwrap());
    let bucket = Bucket::of(&location);
    (store, location, bucket)
}

fn payloads(tail: &LogTail) -> Vec<&[u8]> {
    tail.entries.iter().map(|entry| &entry.bytes[..]).collect()
}

#[test]
#[ignore = "needs an S3 service: KUBIST_TEST_S3"]
fn a_bucket_keeps_the_promises_of_a_store() {
    conformance::run(&mut || store());
}

#[test]
#[ignore = "needs an S3 service: KUBIST_TEST_S3"]
fn a_bucket_keeps_logs_to_one_owner_by_claims() {
    conformance::claims(&mut || {
        let (store, location, bucket) = known_store();
        let other = Arc::new(ObjectStore::open(location).unwrap());
        (store, other, Box::new(move |writer| bucket.forget_claims(writer)))
    });
}

#[test]
#[ignore = "needs an S3 service: KUBIST_TEST_S3"]
fn an_entry_is_one_put_and_reading_on_lists_nothing() {
    let (store, location, _) = known_store();
    let mut log = store.own_log("w").unwrap();
    let before = store.traffic().unwrap();
    for number in 0..10u8 {
        log.append(&[number; 100]).unwrap();
    }
    let after = store.traffic().unwrap();
    assert_eq!((after.puts - before.puts, after.lists - before.lists), (10, 0));
    assert_eq!(after.gets, before.gets);

    let reader = ObjectStore::open(location).unwrap();
    let begin = reader.traffic().unwrap();
    assert_eq!(reader.logs().unwrap(), ["w"]);
    let all = reader.read_log("w", 0).unwrap();
    assert_eq!(all.entries.len(), 10);
    assert_eq!(reader.traffic().unwrap().lists, begin.lists);
    // One request for the next writer, and one for the next entry.
    let known = reader.traffic().unwrap();
    assert_eq!(reader.logs().unwrap(), ["w"]);
    assert_eq!(reader.read_log("w", all.next).unwrap().entries.len(), 0);
    let now = reader.traffic().unwrap();
    assert_eq!((now.gets - known.gets, now.lists - known.lists), (3, 0));
}

#[test]
#[ignore = "needs an S3 service: KUBIST_TEST_S3"]
fn pieces_of_any_length_are_read_with_one_request_for_what_is_near() {
    let (store, location, bucket) = known_store();
    let mut segment = store.create_segment("s").unwrap();
    // A piece in one request, a piece in full parts, and a piece with a partial last part.
    let lengths = [1usize, 5 << 20, 8 << 20, 20 << 20, 17];
    let bytes = |index: usize, length: usize| (0..length).map(|at| (at * 31 + index * 7) as u8).collect::<Vec<u8>>();
    let mut offsets = Vec::new();
    for (index, length) in lengths.iter().enumerate() {
        let whole = bytes(index, *length);
        let (first, second) = whole.split_at(length / 3);
        offsets.push(segment.append(&[first, second]).unwrap());
        segment.sync().unwrap();
        assert_eq!(store.segment_len("s").unwrap(), Some(segment.len()));
    }
    assert_eq!(bucket.keys("segments/s").len(), lengths.len() + 1);
    assert_eq!(store.segment_bytes("s").unwrap(), Some(lengths.iter().sum::<usize>() as u64));
    let reader = ObjectStore::open(location).unwrap();
    for (index, (offset, length)) in offsets.iter().zip(lengths).enumerate() {
        let found = reader.read("s", &[*offset..offset + length as u64]).unwrap();
        assert!(found[0] == bytes(index, length), "piece {index}");
    }
    let seen = std::sync::Mutex::new(Vec::new());
    let begin = offsets[1];
    let near = [begin + 50..begin + 60, begin..begin + 10, begin + 20..begin + 21];
    reader.read_watched("s", &near, &|request| seen.lock().unwrap().push(request)).unwrap();
    let seen = seen.into_inner().unwrap();
    assert_eq!((seen.len(), seen[0].bytes), (1, 60));
    assert!(seen[0].host.as_ref().is_some_and(|host| address().contains(host.as_str())));
    let lost = "segments/s/00000002";
    bucket.delete(lost);
    assert!(matches!(reader.read("s", &[offsets[2]..offsets[2] + 1]), Err(Error::Damaged { .. })));
}

#[test]
#[ignore = "needs an S3 service: KUBIST_TEST_S3"]
fn long_logs_are_owned_and_read_in_few_steps() {
    let (store, location, _) = known_store();
    let mut end = 0;
    let mut log = store.own_log("w").unwrap();
    for number in 0..300u32 {
        end = log.append(&number.to_le_bytes()).unwrap();
    }
    drop(log);
    let other = ObjectStore::open(location).unwrap();
    let tail = other.read_log("w", 0).unwrap();
    let expected: Vec<[u8; 4]> = (0..300u32).map(u32::to_le_bytes).collect();
    assert!(payloads(&tail) == expected);
    let before = other.traffic().unwrap();
    assert_eq!(other.own_log("w").unwrap().position(), end);
    let taking = other.traffic().unwrap().gets - before.gets;
    assert!(taking < 20, "{taking} requests to find the end of a log");
}

#[test]
#[ignore = "needs an S3 service: KUBIST_TEST_S3"]
fn other_bytes_are_damage_that_names_the_key() {
    let (store, _, bucket) = known_store();
    store.put_if_absent("table", b"a value").unwrap();
    store.own_log("w").unwrap().append(b"entry").unwrap();
    for (key, read) in [
        ("objects/table", &(|| store.get("table").map(drop)) as &dyn Fn() -> kubist_store::Result<()>),
        ("logs/w/00000000000000000001", &|| store.read_log("w", 0).map(drop)),
    ] {
        let mut bytes = bucket.get(key);
        *bytes.last_mut().unwrap() ^= 1;
        bucket.put(key, bytes);
        let error = read().unwrap_err();
        assert!(matches!(&error, Error::Damaged { file, .. } if file.contains(key)), "{error}");
    }
}

#[test]
#[ignore = "needs an S3 service: KUBIST_TEST_S3"]
fn a_store_that_was_dropped_and_made_anew_is_another() {
    let (store, location, _) = known_store();
    store.own_log("old").unwrap().append(b"x").unwrap();
    let reader = ObjectStore::open(location.clone()).unwrap();
    assert_eq!(reader.logs().unwrap(), ["old"]);
    store.erase(&[]).unwrap();
    assert!(matches!(ObjectStore::open(location.clone()), Err(Error::Missing { .. })));
    let anew = ObjectStore::create(location).unwrap();
    drop(anew.own_log("new").unwrap());
    assert_eq!(reader.logs().unwrap(), ["new"]);
}

#[test]
#[ignore = "needs an S3 service: KUBIST_TEST_S3"]
fn whoever_ends_a_store_has_its_logs_and_leaves_nothing() {
    let (store, _, bucket) = known_store();
    store.put_if_absent("table", b"x").unwrap();
    store.create_segment("s").unwrap();
    let owners = ["v", "w"].map(|writer| store.own_log(writer).unwrap());
    store.erase(&["table".into()]).unwrap();
    drop(owners);
    assert_eq!(bucket.keys(""), [""; 0]);
}

#[test]
#[ignore = "needs an S3 service: KUBIST_TEST_S3"]
fn what_the_service_refuses_is_told() {
    let io = |location: &str, kind, words: &[&str]| {
        let error = ObjectStore::create(Location::parse(location).unwrap()).unwrap_err();
        let Error::Io { source, .. } = &error else { panic!("{location}: {error}") };
        assert_eq!(source.kind(), kind, "{error}");
        assert!(words.iter().all(|word| error.to_string().contains(word)), "{error}");
    };
    let at = address();
    let absent = format!("s3://no-such-bucket/t?endpoint={at}");
    io(&absent, std::io::ErrorKind::Unsupported, &["no such bucket", "s3://no-such-bucket/t"]);
    let elsewhere = format!("s3://kubist-tests/t?endpoint={at}&region=mars-north-1");
    io(&elsewhere, std::io::ErrorKind::Unsupported, &["region"]);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nobody = format!("s3://kubist-tests/t?endpoint=http://{closed}&patience=1");
    let error = ObjectStore::create(Location::parse(&nobody).unwrap()).unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
}
