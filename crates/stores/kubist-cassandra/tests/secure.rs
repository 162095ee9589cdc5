//! A node that requires TLS and a password. A client with both can connect; otherwise an immediate error names the
//! missing one.
//!
//! `KUBIST_TEST_CASSANDRA_CA` is the certificate of the node that `scripts/cassandra.py up --secure` started.

use std::io::copy;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::STRANGER;
use kubist_cassandra::{CassandraStore, Location};
use kubist_store::{Error, Store};

const HOST: &str = "127.0.0.9";
/// The limit for immediate errors, which is longer than any response, and much shorter than the patience below.
const AT_ONCE: Duration = Duration::from_secs(5);

fn authority() -> String {
    std::env::var("KUBIST_TEST_CASSANDRA_CA").expect("KUBIST_TEST_CASSANDRA_CA names no file")
}

fn file(folder: &Path, name: &str, text: &str) -> String {
    let file = folder.join(name);
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

fn create(login: &str, settings: &str) -> (kubist_store::Result<CassandraStore>, Duration) {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
    let location = format!("cassandra://{login}{HOST}/kubist_secure/t{now:x}?patience=60&{settings}");
    let begin = Instant::now();
    (CassandraStore::create(Location::parse(&location).unwrap()), begin.elapsed())
}

#[test]
#[ignore = "needs a secure Cassandra node: KUBIST_TEST_CASSANDRA_CA"]
fn who_has_password_and_certificate_gets_in() {
    let settings = format!("tls=on&ca={}", authority());
    let store = create("cassandra:cassandra@", &settings).0.unwrap();
    assert!(store.put_if_absent("table", b"kept").unwrap());
    store.own_log("w").unwrap().append(b"entry").unwrap();
    let login = "cassandra://cassandra:cassandra@";
    let location = store.location().replace("cassandra://cassandra@", login);
    assert!(!store.location().contains(login));
    let other = CassandraStore::open(Location::parse(&location).unwrap()).unwrap();
    assert_eq!(other.get("table").unwrap().unwrap(), "kept");
    assert_eq!(other.read_log("w", 0).unwrap().entries.len(), 1);
}

#[test]
#[ignore = "needs a secure Cassandra node: KUBIST_TEST_CASSANDRA_CA"]
fn who_has_not_is_told_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let right = format!("tls=on&ca={}", authority());
    let wrong = format!("tls=on&ca={}", file(folder.path(), "stranger.pem", STRANGER));
    for (login, settings, word) in [
        ("cassandra:wrong@", right.as_str(), "incorrect"),
        ("nobody:cassandra@", &right, "incorrect"),
        ("cassandra@", &right, "KUBIST_CASSANDRA_PASSWORD"),
        ("", &right, "user and a password"),
        ("cassandra:cassandra@", "", "tls=on"),
        ("cassandra:cassandra@", &wrong, "UnknownIssuer"),
    ] {
        let (store, took) = create(login, settings);
        match store {
            Err(error @ Error::Unreachable { .. }) => {
                let text = error.to_string();
                println!("{took:?}: {text}");
                assert!(text.contains(HOST) && text.contains(word), "{login} {settings}: {text}");
                assert!(!text.contains(":wrong") && !text.contains(":cassandra@"), "{text}");
            }
            other => panic!("{login} {settings}: {other:?}"),
        }
        assert!(took < AT_ONCE, "{login} {settings}: {took:?}");
    }
}

fn elsewhere() -> String {
    let listener = TcpListener::bind("127.0.0.8:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for client in listener.incoming().map(Result::unwrap) {
            let node = TcpStream::connect((HOST, 9042)).unwrap();
            for (mut from, mut to) in [(&client, &node), (&node, &client)].map(|(from, to)| (clone(from), clone(to))) {
                std::thread::spawn(move || copy(&mut from, &mut to));
            }
        }
    });
    address
}

fn clone(stream: &TcpStream) -> TcpStream {
    stream.try_clone().unwrap()
}

#[test]
#[ignore = "needs a secure Cassandra node: KUBIST_TEST_CASSANDRA_CA"]
fn a_certificate_for_another_address_is_refused() {
    let location = format!("cassandra://cassandra:cassandra@{}/k/t?tls=on&ca={}", elsewhere(), authority());
    match CassandraStore::open(Location::parse(&location).unwrap()) {
        Err(error @ Error::Unreachable { .. }) => {
            assert!(error.to_string().contains("127.0.0.8") && error.to_string().contains("not valid for"), "{error}");
        }
        other => panic!("the certificate is not for that address, and yet: {other:?}"),
    }
}

#[test]
fn a_file_without_certificates_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.pem").display().to_string();
    let empty = file(folder.path(), "empty.pem", "");
    let broken = file(folder.path(), "broken.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    for named in [missing, empty, broken] {
        match create("", &format!("tls=on&ca={named}")).0 {
            Err(error @ Error::Io { .. }) => assert!(error.to_string().contains(&named), "{error}"),
            other => panic!("{named}: {other:?}"),
        }
    }
}
