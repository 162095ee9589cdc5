//! The store that docs/stores.md shows keeps the trait's promises, and the page shows it as it is.

#[rustfmt::skip] // as it stands on the page
#[path = "example/bucket.rs"]
mod bucket;

#[rustfmt::skip]
#[path = "example/scheme.rs"]
mod scheme;

use std::sync::Arc;

use bucket::Bucket;
use kubist_store::{Error, Found, Scheme, Store, conformance};
use scheme::Buckets;

#[test]
fn it_keeps_the_promises() {
    conformance::run(&mut || Arc::new(Bucket::default()));
}

/// As when the first owner did not renew its claim in time, and lives all the same.
#[test]
fn an_owner_whose_claim_lapsed_is_fenced() {
    let bucket = Bucket::default();
    let mut slow = bucket.own_log("w").unwrap();
    slow.append(b"acknowledged").unwrap();
    bucket.values.lock().unwrap().remove("claim/w");
    let mut owner = bucket.own_log("w").unwrap();
    for _ in 0..2 {
        let answer = slow.append(b"too late");
        assert!(matches!(answer, Err(Error::Refused { .. })), "{answer:?}");
    }
    owner.append(b"new").unwrap();
    let tail = bucket.read_log("w", 0).unwrap();
    let entries: Vec<_> = tail.entries.iter().map(|entry| &entry.bytes[..]).collect();
    assert_eq!(entries, [&b"acknowledged"[..], b"new"]);
    assert_eq!(tail.next, owner.position());
}

#[test]
fn the_page_shows_it_as_it_is() {
    let page = include_str!("../../../docs/stores.md");
    let (store, scheme) = (include_str!("example/bucket.rs"), include_str!("example/scheme.rs"));
    for (file, text) in [("bucket", store), ("scheme", scheme)] {
        assert!(page.contains(&format!("```rust\n{text}```\n")), "docs/stores.md has another tests/example/{file}.rs");
    }
    assert!(store.lines().count() < 150, "{} lines", store.lines().count());
}

#[test]
fn its_scheme_leads_to_one_store_of_a_name() {
    let buckets = Buckets::default();
    let at = || buckets.read("bucket://runs").unwrap();
    assert!(matches!(at().find(), Ok(Found::Nothing)));
    at().create().unwrap().put_if_absent("table", b"x").unwrap();
    assert!(matches!(at().find(), Ok(Found::Store(store)) if store.get("table").unwrap().is_some()));
    assert!(matches!(buckets.read(&at().beside(".fit", 8)).unwrap().find(), Ok(Found::Nothing)));
}
