//! The conformance suite and specific tests on a real cluster.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;

use crate::common::{Database, STRANGER, fresh, hosts, store};
use kubist_cassandra::{CassandraStore, Location};
use kubist_store::{Error, LogTail, Store, StoreExt, conformance};
use uuid::Uuid;

const KEYSPACE: &str = "kubist_tests";

fn known_store(database: &Database) -> (Arc<CassandraStore>, Location, Uuid) {
    let location = fresh("");
    let store = Arc::new(CassandraStore::create(location.clone()).unwrap());
    let id = database.id(&location);
    (store, location, id)
}

fn payloads(tail: &LogTail) -> Vec<&[u8]> {
    tail.entries.iter().map(|entry| &entry.bytes[..]).collect()
}

fn forget_holder(database: &Database, id: Uuid) {
    let forget =
        format!("UPDATE {KEYSPACE}.kubist_epochs SET holder = null WHERE store = ? AND writer = 'w' IF EXISTS");
    database.run(&forget, (id,));
}

fn write_row(database: &Database, id: Uuid, position: u64, epoch: i64, bytes: &[u8]) {
    let insert = format!(
        "INSERT INTO {KEYSPACE}.kubist_log (store, writer, bucket, position, epoch, part, length, checksum, bytes) \
         VALUES (?, 'w', 0, ?, ?, 0, ?, ?, ?) USING TIMESTAMP 1"
    );
    let checksum = i64::from(crc32c::crc32c(bytes));
    database.run(&insert, (id, position as i64, epoch, bytes.len() as i64, checksum, bytes));
}

#[test]
#[ignore = "needs a Cassandra cluster: KUBIST_TEST_CASSANDRA"]
fn a_cluster_keeps_the_promises_of_a_store() {
    conformance::run(&mut || store());
}

#[test]
#[ignore = "needs a Cassandra cluster: KUBIST_TEST_CASSANDRA"]
fn a_cluster_keeps_logs_to_one_owner_by_claims() {
    conformance::claims(&mut || {
        let database = Database::open();
        let (store, location, id) = known_store(&database);
        let other = Arc::new(CassandraStore::open(location).unwrap());
        (store, other, Box::new(move |_| forget_holder(&database, id)))
    });
}

#[test]
#[ignore = "needs a Cassandra cluster: KUBIST_TEST_CASSANDRA"]
fn an_owner_that_slept_is_refused_and_what_it_wrote_is_void() {
    let database = Database::open();
    let (store, location, id) = known_store(&database);
    let mut slept = store.own_log("w").unwrap();
    slept.append(b"first").unwrap();
    let other = CassandraStore::open(location).unwrap();
    assert!(matches!(other.own_log("w"), Err(Error::Busy { .. })));
    forget_holder(&database, id);
    let mut owner = other.own_log("w").unwrap();
    assert_eq!(owner.position(), slept.position());
    for _ in 0..2 {
        let answer = slept.append(b"too late");
        assert!(matches!(answer, Err(Error::Refused { .. })), "{answer:?}");
    }
    assert_eq!(payloads(&store.read_log("w", 0).unwrap()), [b"first"]);
    owner.append(b"second").unwrap();
    assert_eq!(payloads(&store.read_log("w", 0).unwrap()), [&b"first"[..], b"second"]);
    // This must not release the claim of the other owner.
    drop(slept);
    assert!(matches!(store.own_log("w"), Err(Error::Busy { .. })));
    drop(owner);
    assert_eq!(store.own_log("w").unwrap().position(), store.read_log("w", 0).unwrap().next);
}

#[test]
#[ignore = "needs a Cassandra cluster: KUBIST_TEST_CASSANDRA"]
fn requests_that_come_late_change_nothing() {
    let database = Database::open();
    let (store, _, id) = known_store(&database);
    let mut end = 0;
    for entry in [b"a", b"b", b"c"] {
        end = store.own_log("w").unwrap().append(entry).unwrap();
    }
    let before = store.read_log("w", 0).unwrap();
    for epoch in 1..=2 {
        for position in 0..=end + 1 {
            let own = before.entries.iter().zip(1..).any(|(entry, of)| (entry.position, of) == (position, epoch));
            if !own {
                write_row(&database, id, position, epoch, b"late");
            }
        }
    }
    assert_eq!(store.read_log("w", 0).unwrap(), before);
    let mut owner = store.own_log("w").unwrap();
    assert_eq!(owner.position(), end);
    owner.append(b"d").unwrap();
    assert_eq!(payloads(&store.read_log("w", 0).unwrap()), [b"a", b"b", b"c", b"d"]);
}

#[test]
#[ignore = "needs a Cassandra cluster: KUBIST_TEST_CASSANDRA"]
fn a_reader_settles_what_a_dead_taker_left_open() {
    let database = Database::open();
    for seen in [false, true] {
        let (store, location, id) = known_store(&database);
        let end = store.own_log("w").unwrap().append(b"acknowledged").unwrap();
        // An unacknowledged entry, and a new owner that died after its fence.
        if seen {
            write_row(&database, id, end, 1, b"unanswered");
        }
        let fence = format!(
            "INSERT INTO {KEYSPACE}.kubist_epochs (store, writer, epoch, nonce) VALUES (?, 'w', 2, uuid()) IF NOT EXISTS"
        );
        database.run(&fence, (id,));
        let tail = store.read_log("w", 0).unwrap();
        let expected: &[&[u8]] = if seen { &[b"acknowledged", b"unanswered"] } else { &[b"acknowledged"] };
        assert_eq!(payloads(&tail), expected);
        assert_eq!(tail.durable, tail.next);
        // A write that arrives now is void.
        write_row(&database, id, tail.next, 1, b"late");
        let other = CassandraStore::open(location).unwrap();
        assert_eq!(other.read_log("w", 0).unwrap(), tail);
        other.own_log("w").unwrap().append(b"new").unwrap();
        assert_eq!(payloads(&store.read_log("w", tail.next).unwrap()), [b"new"]);
    }
}

#[test]
#[ignore = "needs a Cassandra cluster: KUBIST_TEST_CASSANDRA"]
fn entries_of_any_size_come_back_and_a_hole_is_damage() {
    let database = Database::open();
    let (store, _, id) = known_store(&database);
    let mut owner = store.own_log("w").unwrap();
    // Empty entries, entries with many rows, and entries across the end of a partition.
    let sizes = [0, 1, 65_536, 65_537, 3_000_000, 20_000_000, 5];
    let mut positions = vec![0];
    for (index, size) in sizes.into_iter().enumerate() {
        positions.push(owner.append(&vec![index as u8; size]).unwrap());
    }
    let tail = store.read_log("w", 0).unwrap();
    let found: Vec<_> = tail.entries.iter().map(|entry| (entry.bytes.len(), entry.position)).collect();
    assert_eq!(found, sizes.into_iter().zip(positions.iter().copied()).collect::<Vec<_>>());
    assert!(tail.entries.iter().enumerate().all(|(index, entry)| entry.bytes.iter().all(|byte| *byte == index as u8)));
    let hole =
        format!("DELETE FROM {KEYSPACE}.kubist_log WHERE store = ? AND writer = 'w' AND bucket = 0 AND position = ?");
    database.run(&hole, (id, positions[2] as i64));
    match store.read_log("w", 0) {
        Err(Error::Damaged { offset, .. }) => assert_eq!(offset, positions[2]),
        other => panic!("a log with a hole gave {:?}", other.map(|tail| tail.entries.len())),
    }
    let sound = store.read_sound_log("w", 0).unwrap();
    assert_eq!(sound.entries, tail.entries[..2]);
    assert!(sound.damage.is_some());
    // Taking the log does not cut the following entries either.
    drop(owner);
    for _ in 0..2 {
        assert!(matches!(store.own_log("w"), Err(Error::Damaged { .. })));
        let answer = store.read_log("w", 0);
        assert!(matches!(answer, Err(Error::Damaged { offset, .. }) if offset == positions[2]));
    }
}

/// The chain breaks at a partition's end, with nothing in the next partition.
#[test]
#[ignore = "needs a Cassandra cluster: KUBIST_TEST_CASSANDRA"]
fn a_log_that_breaks_off_at_the_end_of_a_partition_is_damaged() {
    let database = Database::open();
    for of_another_epoch in [false, true] {
        let (store, _, id) = known_store(&database);
        let mut owner = store.own_log("w").unwrap();
        owner.append(b"first").unwrap();
        let lost = owner.append(b"second").unwrap();
        owner.append(&vec![3; 20_000_000]).unwrap();
        if of_another_epoch {
            drop(owner);
            owner = store.own_log("w").unwrap();
        }
        owner.append(b"behind").unwrap();
        drop(owner);
        let remove = "WHERE store = ? AND writer = 'w' AND bucket = 0 AND position >= ?";
        database.run(&format!("DELETE FROM {KEYSPACE}.kubist_log {remove}"), (id, lost as i64));
        let sound = store.read_sound_log("w", 0).unwrap();
        assert_eq!(sound.next, lost);
        assert!(matches!(sound.damage, Some(Error::Damaged { offset, .. }) if offset == lost), "{:?}", sound.damage);
    }
}

/// The object was put, so it is not absent, but it is unreadable.
#[test]
#[ignore = "needs a Cassandra cluster: KUBIST_TEST_CASSANDRA"]
fn an_object_that_is_there_in_part_is_damaged() {
    let database = Database::open();
    let (store, _, id) = known_store(&database);
    let part = "SET nonce = uuid(), length = 4 WHERE store = ? AND folder = '' AND name = 'table'";
    database.run(&format!("UPDATE {KEYSPACE}.kubist_objects {part}"), (id,));
    for answer in [store.get("table").map(drop), store.put_if_absent("table", b"another").map(drop)] {
        assert!(matches!(answer, Err(Error::Damaged { .. })), "{answer:?}");
    }
}

/// Otherwise, bytes that a deletion left could become a part of the new segment.
#[test]
#[ignore = "needs a Cassandra cluster: KUBIST_TEST_CASSANDRA"]
fn the_name_of_a_deleted_segment_stays_taken() {
    let store = store();
    let mut segment = store.create_segment("made").unwrap();
    segment.append(&[b"bytes"]).unwrap();
    segment.sync().unwrap();
    for name in ["made", "never made"] {
        let name = name.replace(' ', "-");
        store.delete_segment(&name).unwrap();
        assert!(matches!(store.create_segment(&name), Err(Error::Exists { .. })));
        assert!(matches!(store.read(&name, &[0..1]), Err(Error::Missing { .. })));
    }
    // Late writes of its owner do not restore it.
    let _ = segment.append(&[b"more"]).and_then(|_| segment.sync());
    assert_eq!(store.segment_len("made").unwrap(), None);
    assert!(store.sizes().unwrap().is_empty());
}

/// A child holds a log until it is killed; otherwise nothing happens.
#[test]
fn in_a_child() {
    let Ok(location) = std::env::var("KUBIST_CHILD_HOLDS") else { return };
    let store = CassandraStore::open(Location::parse(&location).unwrap()).unwrap();
    let mut owner = store.own_log("w").unwrap();
    owner.append(b"of the dead").unwrap();
    println!("\nheld");
    std::thread::park();
}

#[test]
#[ignore = "needs a Cassandra cluster: KUBIST_TEST_CASSANDRA"]
fn the_log_of_a_killed_process_is_free_at_once() {
    let location = fresh("");
    let store = CassandraStore::create(location.clone()).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["promises::in_a_child", "--exact", "--nocapture"])
        .env("KUBIST_CHILD_HOLDS", location.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "held"));
    assert!(matches!(store.own_log("w"), Err(Error::Busy { .. })));
    child.kill().unwrap();
    child.wait().unwrap();
    store.own_log("w").unwrap().append(b"of the living").unwrap();
    assert_eq!(payloads(&store.read_log("w", 0).unwrap()), [&b"of the dead"[..], b"of the living"]);
}

#[test]
#[ignore = "needs a Cassandra cluster: KUBIST_TEST_CASSANDRA"]
fn a_store_made_under_the_name_of_another_has_nothing_of_it() {
    let (location, old) = (fresh(""), "old");
    let store = CassandraStore::create(location.clone()).unwrap();
    store.put_if_absent("table", b"the old one").unwrap();
    let mut owner = store.own_log("w").unwrap();
    owner.append(b"of the old one").unwrap();
    let mut segment = store.create_segment("s").unwrap();
    segment.append(&[old.as_bytes()]).unwrap();
    segment.sync().unwrap();
    store.erase(&["table".into()]).unwrap();
    assert!(matches!(CassandraStore::open(location.clone()), Err(Error::Missing { .. })));
    let anew = CassandraStore::create(location.clone()).unwrap();
    assert!(anew.sizes().unwrap().is_empty());
    anew.put_if_absent("table", b"the new one").unwrap();
    anew.own_log("w").unwrap().append(b"of the new one").unwrap();
    // Handles of the old store do not affect the new one.
    let answer = owner.append(b"more of the old one");
    assert!(matches!(answer, Err(Error::Refused { .. })), "{answer:?}");
    let _ = segment.append(&[b"more"]).and_then(|_| segment.sync());
    assert!(store.put_if_absent("table", b"the old one again").is_err());
    assert!(store.get("grid").unwrap().is_none());
    let found = CassandraStore::open(location).unwrap();
    assert_eq!(found.get("table").unwrap().unwrap(), "the new one");
    assert_eq!(payloads(&found.read_log("w", 0).unwrap()), [b"of the new one"]);
    assert_eq!(found.segments().unwrap(), [""; 0]);
}

#[test]
#[ignore = "needs a Cassandra cluster: KUBIST_TEST_CASSANDRA"]
fn many_clients_make_the_same_keyspace() {
    let database = Database::open();
    let keyspace = format!("kubist_made_{}", std::process::id());
    let location = Location::parse(&format!("cassandra://{}/{keyspace}/t", hosts())).unwrap();
    assert!(matches!(CassandraStore::open(location.clone()), Err(Error::Missing { .. })));
    std::thread::scope(|scope| {
        let create = || CassandraStore::create(location.clone()).unwrap().put_if_absent("table", b"mine").unwrap();
        let clients: Vec<_> = (0..3).map(|_| scope.spawn(create)).collect();
        let winners = clients.into_iter().map(|client| client.join().unwrap());
        assert_eq!(winners.filter(|won| *won).count(), 1);
    });
    assert_eq!(CassandraStore::open(location).unwrap().get("table").unwrap().unwrap(), "mine");
    database.run(&format!("DROP KEYSPACE {keyspace}"), ());
}

#[test]
#[ignore = "needs a Cassandra cluster: KUBIST_TEST_CASSANDRA"]
fn a_node_without_tls_is_told_from_one_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let authority = folder.path().join("ca.pem");
    std::fs::write(&authority, STRANGER).unwrap();
    match CassandraStore::create(fresh(&format!("tls=on&ca={}", authority.display()))) {
        Err(error @ Error::Unreachable { .. }) => assert!(error.to_string().contains("does not use TLS"), "{error}"),
        other => panic!("it has no TLS, and yet: {other:?}"),
    }
}

#[test]
fn a_cluster_that_is_not_there_is_named() {
    let location = Location::parse("cassandra://ada:secret@127.0.0.1:9/science/drops").unwrap();
    match CassandraStore::open(location) {
        Err(error @ Error::Unreachable { .. }) => {
            let text = error.to_string();
            assert!(text.contains("127.0.0.1:9") && text.contains("science/drops"), "{text}");
            assert!(!text.contains("secret"), "{text}");
        }
        other => panic!("nobody listens there, and yet: {other:?}"),
    }
}
