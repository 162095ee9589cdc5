//! Damaged and hostile logs: an error that names the object and the line, never a panic and never half a line.

use kubist::store::Store;
use kubist_names::{Catalogue, log, sync};

use crate::{run, shown, site, store};

fn replaced(from: &dyn Store, name: &str, bytes: &[u8]) -> std::sync::Arc<dyn Store> {
    let to = store("replaced");
    for object in from.list("").unwrap() {
        let value = from.get(&object).unwrap().unwrap();
        to.put_if_absent(&object, if object == name { bytes } else { &value }).unwrap();
    }
    to
}

#[test]
fn every_cut_and_every_changed_byte_of_a_log_is_found() {
    let from = store("from");
    let mut catalogue = Catalogue::create_in(from.clone(), Some("bsc")).unwrap();
    catalogue.add(&[run("a", "x", 1.0)]).unwrap();
    catalogue.add(&[run("b", "y", 2.0)]).unwrap();
    catalogue.add(&[run("c", "y", 2.0)]).unwrap();
    every_damage_is_found(from.as_ref(), "ops/bsc/0000000002");
    every_damage_is_found(from.as_ref(), "ops/bsc/0000000003");
    catalogue.prune().unwrap();
    every_damage_is_found(from.as_ref(), "state/0000000001");
}

fn every_damage_is_found(from: &dyn Store, name: &str) {
    let value = from.get(name).unwrap().unwrap();
    let mut wrong: Vec<Vec<u8>> = (0..value.len()).map(|length| value[..length].to_vec()).collect();
    for place in 0..value.len() {
        let mut bytes = value.to_vec();
        bytes[place] = bytes[place].wrapping_add(1);
        wrong.push(bytes);
    }
    for bytes in wrong {
        let error = Catalogue::open_in(replaced(from, name, &bytes)).err().map(|error| error.to_string());
        let error = error.unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&bytes)));
        assert!(error.contains(&format!("{name}, line ")), "{error}");
    }
}

#[test]
fn hostile_lines_are_refused_with_their_place() {
    let line = |rest: &str| {
        let json = format!("{{\"v\":1,\"n\":1,\"prev\":\"0\",\"id\":\"x\",\"at\":0,{rest}}}");
        [&log::sealed(json.as_bytes())[..], b"\n"].concat()
    };
    let deep = format!("\"before\":0,\"ops\":{}", "[".repeat(5000));
    let long = format!("\"before\":0,\"ops\":[{{\"name\":\"{}\"}}]", "x".repeat(2000));
    for rest in [
        "\"before\":9007199254740992,\"ops\":[{\"name\":\"a\",\"set\":{\"tag\":\"x\"}}]",
        "\"before\":5",
        "\"before\":0,\"ops\":[{\"name\":\"a\",\"gone\":{\"../x\":[1]}}]",
        "\"before\":0,\"ops\":[{\"name\":\"a\",\"gone\":{\"x\":[18446744073709551615]}}]",
        "\"before\":0,\"ops\":[{\"name\":\"a\\u0007b\",\"set\":{\"tag\":\"x\"}}]",
        "\"before\":0,\"ops\":[{\"name\":\"a\",\"set\":{\"colour\":\"x\"}}]",
        "\"before\":0,\"more\":1",
        &deep,
        &long,
    ] {
        let hostile = store("hostile");
        Catalogue::create_in(hostile.clone(), Some("evil")).unwrap();
        hostile.put_if_absent("ops/evil/0000000001", &line(rest)).unwrap();
        let error =
            Catalogue::open_in(hostile).err().map(|error| error.to_string()).unwrap_or_else(|| panic!("{rest}"));
        assert!(error.contains("ops/evil/0000000001, line 1"), "{error}");
    }
    for name in ["ops/evil/x", "packs/evil/2-1", "ops/.x", "packs/evil/0000000001-0000000002"] {
        let hostile = store("hostile");
        Catalogue::create_in(hostile.clone(), Some("evil")).unwrap();
        if hostile.put_if_absent(name, &line("\"before\":0")).is_ok() {
            assert!(Catalogue::open_in(hostile).is_err(), "{name}");
        }
    }
}

#[test]
fn a_damaged_peer_gives_nothing() {
    let from = store("from");
    let mut peer = Catalogue::create_in(from.clone(), Some("peer")).unwrap();
    peer.add(&[run("a", "x", 1.0)]).unwrap();
    peer.add(&[run("b", "x", 1.0)]).unwrap();
    let mut own = site("own");
    // The peer is damaged after it was opened.
    from.delete("ops/peer/0000000002").unwrap();
    from.put_if_absent("ops/peer/0000000002", b"{}\n").unwrap();
    let error = sync(&mut own, &mut peer).unwrap_err().to_string();
    assert!(error.contains("ops/peer/0000000002, line 1"), "{error}");
    assert!(shown(&own).is_empty() && own.sites().is_empty());
}

#[test]
fn a_missing_line_is_named() {
    let from = store("from");
    let mut catalogue = Catalogue::create_in(from.clone(), Some("bsc")).unwrap();
    (0..3).for_each(|number| catalogue.add(&[run(&format!("{number}"), "x", 1.0)]).unwrap());
    from.delete("ops/bsc/0000000002").unwrap();
    let error = Catalogue::open_in(from).err().unwrap().to_string();
    assert!(error.contains("line 2 of its log is missing"), "{error}");
}
