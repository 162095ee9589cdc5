//! The store in docs/stores.md passes the conformance suite, and the page quotes it exactly.

use std::sync::Arc;

use crate::bucket::Bucket;
use crate::scheme::Buckets;
use kubist_store::{Content, Scheme, conformance};

#[test]
fn it_keeps_the_promises() {
    conformance::run(&mut || Arc::new(Bucket::default()));
}

#[test]
fn an_owner_whose_claim_lapsed_is_fenced() {
    conformance::claims(&mut || {
        let bucket = Bucket::default();
        let values = bucket.values.clone();
        let lapse = move |writer: &str| drop(values.lock().unwrap().remove(&format!("claim/{writer}")));
        (Arc::new(bucket.clone()), Arc::new(bucket), Box::new(lapse))
    });
}

#[test]
fn the_page_shows_it_as_it_is() {
    let page = include_str!("../../../../docs/stores.md");
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
    assert!(matches!(at().find(), Ok(Content::Nothing)));
    at().create().unwrap().put_if_absent("table", b"x").unwrap();
    assert!(matches!(at().find(), Ok(Content::Store(store)) if store.get("table").unwrap().is_some()));
    assert!(matches!(buckets.read(&at().beside(".fit", 8)).unwrap().find(), Ok(Content::Nothing)));
}
