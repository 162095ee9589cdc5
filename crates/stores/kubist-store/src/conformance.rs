//! The conformance suite tests the guarantees of the trait on any store.
//!
//! ```
//! use std::sync::Arc;
//! use kubist_store::{MemoryStore, conformance};
//!
//! conformance::run(&mut || Arc::new(MemoryStore::new("a")));
//! ```
//!
//! Each store has its own tests with crashes and several processes.

#![allow(clippy::single_range_in_vec_init)] // a list of one range is meant

use std::sync::Arc;

use crate::{BLOCK_BYTES, Error, Fencing, LogTail, Store, StoreExt, StoredKind};

/// Runs all checks, each on a new empty store from `make`.
///
/// # Panics
///
/// If the store breaks a guarantee. The message names it.
pub fn run(make: &mut dyn FnMut() -> Arc<dyn Store>) {
    objects_are_written_once(&*make());
    objects_are_listed_by_prefix(&*make());
    an_object_is_no_folder(&*make());
    one_of_many_puts_wins(make());
    impossible_names_are_refused(&*make());
    segments_give_back_what_was_appended(&*make());
    segments_grow_between_syncs(&*make());
    several_segments_are_read_at_once(&*make());
    reads_outside_a_segment_are_damage(&*make());
    segments_are_made_once_listed_and_deleted(&*make());
    parts_of_segments_are_given_back(&*make());
    logs_give_back_what_was_appended(&*make());
    logs_are_read_from_any_position(&*make());
    logs_are_read_piece_by_piece(&*make());
    an_entry_comes_after_the_segment_that_it_names(&*make());
    a_log_has_one_owner(&*make());
    logs_are_apart(&*make());
    scratch_gives_back_what_was_appended(&*make());
    sizes_count_all_that_is_kept(&*make());
    an_erased_store_is_empty(&*make());
}

fn an_entry_comes_after_the_segment_that_it_names(store: &dyn Store) {
    let mut log = store.own_log("w").unwrap();
    let mut segment = store.create_segment("s").unwrap();
    let mut written = Vec::new();
    for round in 0..3u8 {
        let bytes = noise(1000 + round as usize, round.into());
        let offset = segment.append(&[&bytes]).unwrap();
        assert_eq!(log.append_after(segment.as_mut(), &[round]).unwrap(), log.position());
        written.push((offset, bytes));
        log.append_after(segment.as_mut(), b"again").unwrap();
        let tail = store.read_log("w", 0).unwrap();
        assert_eq!((tail.entries.len(), tail.durable), (written.len() * 2, log.position()));
        for (offset, bytes) in &written {
            assert!(store.read("s", &[*offset..offset + bytes.len() as u64]).unwrap()[0] == bytes[..]);
        }
    }
}

fn objects_are_written_once(store: &dyn Store) {
    assert_eq!(store.get("table").unwrap(), None);
    assert!(store.put_if_absent("table", b"first").unwrap());
    assert!(!store.put_if_absent("table", b"second").unwrap());
    assert_eq!(store.get("table").unwrap().unwrap(), "first");
    assert!(store.put_if_absent("empty", b"").unwrap());
    assert_eq!(store.get("empty").unwrap().unwrap(), "");
    let big = noise(3_000_000, 1);
    assert!(store.put_if_absent("deep/er/big", &big).unwrap());
    assert_eq!(store.get("deep/er/big").unwrap().unwrap(), big);
    store.delete("table").unwrap();
    store.delete("table").unwrap();
    store.delete("never/there").unwrap();
    assert_eq!(store.get("table").unwrap(), None);
    assert!(store.put_if_absent("table", b"third").unwrap());
    assert_eq!(store.get("table").unwrap().unwrap(), "third");
}

fn objects_are_listed_by_prefix(store: &dyn Store) {
    assert_eq!(store.list("").unwrap(), [""; 0]);
    assert_eq!(store.list("rewrites/").unwrap(), [""; 0]);
    for name in ["rewrites/02", "rewrites/10", "table", "rewrites/01", "rewrite", "a/b/c"] {
        assert!(store.put_if_absent(name, name.as_bytes()).unwrap());
    }
    store.own_log("w").unwrap().append(b"entry").unwrap();
    store.create_segment("s").unwrap().sync().unwrap();
    let lists: [(&str, &[&str]); 9] = [
        ("", &["a/b/c", "rewrite", "rewrites/01", "rewrites/02", "rewrites/10", "table"]),
        ("rewrites/", &["rewrites/01", "rewrites/02", "rewrites/10"]),
        ("rewrites/0", &["rewrites/01", "rewrites/02"]),
        ("rewr", &["rewrite", "rewrites/01", "rewrites/02", "rewrites/10"]),
        ("a/", &["a/b/c"]),
        ("a/b/c", &["a/b/c"]),
        ("table/", &[]),
        ("../", &[]),
        ("logs/", &[]),
    ];
    for (prefix, names) in lists {
        assert_eq!(store.list(prefix).unwrap(), names, "prefix {prefix:?}");
        for after in ["", "a/b/c", "rewrites/", "rewrites/01", "rewrites/011", "rewrites/10", "s", "table", "z"] {
            let behind: Vec<&str> = names.iter().copied().filter(|name| *name > after).collect();
            assert_eq!(store.list_after(prefix, after).unwrap(), behind, "prefix {prefix:?} after {after:?}");
        }
    }
}

fn an_object_is_no_folder(store: &dyn Store) {
    store.put_if_absent("a/b", b"").unwrap();
    store.put_if_absent("c", b"").unwrap();
    for name in ["a", "c/d", "a/b/c/d"] {
        let answer = store.put_if_absent(name, b"");
        assert!(matches!(answer, Err(Error::InvalidName { .. })), "{name}: {answer:?}");
        assert_eq!(store.get(name).unwrap(), None);
        store.delete(name).unwrap();
    }
    assert_eq!(store.list("").unwrap(), ["a/b", "c"]);
}

fn one_of_many_puts_wins(store: Arc<dyn Store>) {
    for round in 0..20 {
        let name = format!("rewrites/{round}");
        let put = |thread: u8| {
            let value = [thread; 100];
            (store.put_if_absent(&name, &value).unwrap(), value)
        };
        let winners: Vec<[u8; 100]> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || put(thread))).collect();
            let results = threads.into_iter().map(|thread| thread.join().unwrap());
            results.filter(|(won, _)| *won).map(|(_, value)| value).collect()
        });
        assert_eq!(winners.len(), 1, "several puts of one name won, or none");
        assert_eq!(store.get(&name).unwrap().unwrap(), &winners[0][..]);
    }
}

fn impossible_names_are_refused(store: &dyn Store) {
    let refused = |what: &str, answer: Result<(), Error>| {
        assert!(matches!(answer, Err(Error::InvalidName { .. })), "{what}: {answer:?}");
    };
    for name in ["", ".hidden", "..", "a b", "\u{e9}", "a\0b", "a\\b", &"x".repeat(129)] {
        refused(name, store.put_if_absent(name, b"").map(drop));
        refused(name, store.get(name).map(drop));
        refused(name, store.delete(name));
        refused(name, store.create_segment(name).map(drop));
        refused(name, store.read(name, &[]).map(drop));
        refused(name, store.segment_len(name).map(drop));
        refused(name, store.delete_segment(name));
        refused(name, store.own_log(name).map(drop));
        refused(name, store.read_log(name, 0).map(drop));
    }
    for name in ["/a", "a/", "a//b", "a/../b", "logs/w", "segments", "tmp/x"] {
        refused(name, store.put_if_absent(name, b"").map(drop));
        refused(name, store.create_segment(&format!("{name}/")).map(drop));
    }
}

fn segments_give_back_what_was_appended(store: &dyn Store) {
    let mut segment = store.create_segment("rank-0.1").unwrap();
    assert_eq!(segment.name(), "rank-0.1");
    let mut expected = Vec::new();
    for round in 0..200u64 {
        let parts: Vec<Vec<u8>> = (0..round % 4)
            .map(|part| noise((round * 97 + part * 13) as usize % 5_000, round))
            .chain((round % 50 == 7).then(|| noise(700_000, round)))
            .collect();
        let slices: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        let before = segment.len();
        let offset = segment.append(&slices).unwrap();
        assert_eq!(offset, before, "an append begins where the segment ended");
        let bytes = parts.concat();
        assert_eq!(segment.len(), offset + bytes.len() as u64);
        expected.push((offset, bytes));
    }
    segment.sync().unwrap();
    assert_eq!(store.segment_len("rank-0.1").unwrap(), Some(segment.len()));
    let ranges: Vec<_> = expected.iter().rev().map(|(offset, bytes)| *offset..offset + bytes.len() as u64).collect();
    let read = store.read("rank-0.1", &ranges).unwrap();
    assert_eq!(read.len(), ranges.len(), "one answer for each range");
    for (read, (offset, bytes)) in read.iter().zip(expected.iter().rev()) {
        assert!(read == bytes, "other bytes than were appended at {offset}");
    }
    assert!(store.read("rank-0.1", &[]).unwrap().is_empty());
}

fn segments_grow_between_syncs(store: &dyn Store) {
    let mut segment = store.create_segment("s").unwrap();
    segment.sync().unwrap();
    let first = segment.append(&[b"one"]).unwrap();
    segment.sync().unwrap();
    assert_eq!(store.read("s", &[first..first + 3]).unwrap(), ["one"]);
    let second = segment.append(&[b"two", b"three"]).unwrap();
    segment.sync().unwrap();
    segment.sync().unwrap();
    drop(segment);
    assert!(second >= first + 3);
    let ranges = [second + 3..second + 8, first..first + 3, second..second];
    assert_eq!(store.read("s", &ranges).unwrap(), ["three", "one", ""]);
}

fn several_segments_are_read_at_once(store: &dyn Store) {
    for name in ["a", "b"] {
        let mut segment = store.create_segment(name).unwrap();
        segment.append(&[b"bytes of ", name.as_bytes()]).unwrap();
        segment.sync().unwrap();
    }
    let begin = store.segment_len("a").unwrap().unwrap() - 10;
    let (two, one) = ([begin + 9..begin + 10, begin..begin + 5], [begin + 6..begin + 10]);
    let wanted: [(&str, &[_]); 4] = [("b", &two), ("absent", &one), ("a", &one), ("a", &[begin..begin + 11])];
    let found = store.read_segments(&wanted, &|_| {}).unwrap();
    let [two, absent, one, beyond] = &found[..] else { panic!("one answer for each") };
    assert_eq!(two.as_ref().unwrap(), &["b", "bytes"]);
    assert_eq!(one.as_ref().unwrap(), &["of a"]);
    assert!(matches!(absent, Err(Error::Missing { .. })), "{absent:?}");
    assert!(matches!(beyond, Err(Error::Damaged { .. })), "{beyond:?}");
    assert!(store.read_segments(&[], &|_| {}).unwrap().is_empty());
}

#[allow(clippy::reversed_empty_ranges)]
fn reads_outside_a_segment_are_damage(store: &dyn Store) {
    let mut segment = store.create_segment("s").unwrap();
    let offset = segment.append(&[b"bytes"]).unwrap();
    segment.sync().unwrap();
    let end = segment.len();
    for range in [offset..end + 1, end..end + 1, end + 9..end + 10, end..offset, 0..u64::MAX] {
        let answer = store.read("s", &[offset..end, range.clone()]);
        match answer {
            Err(Error::Damaged { offset, .. }) => assert_eq!(offset, range.start),
            answer => panic!("reading {range:?} of {end} gave {answer:?}"),
        }
    }
    let answer = store.read("absent", &[0..1]);
    assert!(matches!(answer, Err(Error::Missing { .. })), "{answer:?}");
    assert_eq!(store.segment_len("absent").unwrap(), None);
}

fn segments_are_made_once_listed_and_deleted(store: &dyn Store) {
    assert_eq!(store.segments().unwrap(), [""; 0]);
    for name in ["b", "a.1", "c"] {
        store.create_segment(name).unwrap().sync().unwrap();
    }
    let answer = store.create_segment("b").map(|_| ());
    assert!(matches!(answer, Err(Error::Exists { .. })), "{answer:?}");
    assert_eq!(store.segments().unwrap(), ["a.1", "b", "c"]);
    store.delete_segment("b").unwrap();
    store.delete_segment("b").unwrap();
    assert_eq!(store.segments().unwrap(), ["a.1", "c"]);
    assert_eq!(store.segment_len("b").unwrap(), None);
    let answer = store.read("b", &[0..0]);
    assert!(matches!(answer, Err(Error::Missing { .. })), "{answer:?}");
}

/// A store may free the ranges or not.
fn parts_of_segments_are_given_back(store: &dyn Store) {
    let (bytes, block) = (noise(40 * BLOCK_BYTES as usize, 4), BLOCK_BYTES);
    let mut segment = store.create_segment("s").unwrap();
    let first = segment.append(&[&bytes]).unwrap();
    segment.sync().unwrap();
    let length = segment.len();
    let taken = store.segment_bytes("s").unwrap().unwrap();
    let (one, other) = (first + 3 * block + 5..first + 9 * block, first + 20 * block..first + 31 * block + 7);
    for _ in 0..2 {
        store.punch("s", &[one.clone(), first + 12 * block..first + 12 * block + 9, other.clone()]).unwrap();
    }
    assert_eq!(store.segment_len("s").unwrap(), Some(length));
    let left = store.segment_bytes("s").unwrap().unwrap();
    // All whole blocks are freed, or none.
    assert!(left == taken || store.capabilities().punches && (14..=17).contains(&((taken - left) / block)), "{left}");
    let later = segment.append(&[b"later"]).unwrap();
    segment.sync().unwrap();
    let kept = [first..one.start, one.end..other.start, other.end..first + bytes.len() as u64];
    for (read, range) in store.read("s", &kept).unwrap().iter().zip(&kept) {
        assert!(read == &bytes[(range.start - first) as usize..(range.end - first) as usize], "{range:?} has changed");
    }
    assert_eq!(store.read("s", &[later..later + 5]).unwrap(), ["later"]);
    let gone = store.read("s", &[one.clone(), other]).unwrap();
    assert_eq!(gone[0].len() as u64, one.end - one.start, "a read of what was given back is whole");
}

fn logs_give_back_what_was_appended(store: &dyn Store) {
    let answer = store.read_log("w", 0);
    assert!(matches!(answer, Err(Error::Missing { .. })), "{answer:?}");
    assert_eq!(store.logs().unwrap(), [""; 0]);
    let mut log = store.own_log("w").unwrap();
    assert_eq!(log.writer(), "w");
    assert_eq!(payloads(&store.read_log("w", 0).unwrap()), [b""; 0]);
    let entries = [noise(10, 1), Vec::new(), noise(2_000_000, 2), noise(1, 3)];
    for (number, entry) in entries.iter().enumerate() {
        let position = log.append(entry).unwrap();
        assert_eq!(position, log.position());
        let tail = store.read_log("w", 0).unwrap();
        assert!(payloads(&tail) == entries[..=number], "entry {number}");
        assert_eq!((tail.next, tail.durable), (position, position));
    }
    drop(log);
    let mut log = store.own_log("w").unwrap();
    assert_eq!(log.position(), store.read_log("w", 0).unwrap().next);
    log.append(b"more").unwrap();
    let tail = store.read_log("w", 0).unwrap();
    assert!(payloads(&tail)[..4] == entries);
    assert_eq!(payloads(&tail)[4], b"more");
    assert_eq!(store.logs().unwrap(), ["w"]);
}

fn logs_are_read_from_any_position(store: &dyn Store) {
    let mut log = store.own_log("w").unwrap();
    let mut after = vec![store.read_log("w", 0).unwrap().next];
    for entry in 0..10u8 {
        after.push(log.append(&[entry; 5]).unwrap());
    }
    assert!(after.windows(2).all(|pair| pair[0] < pair[1]), "positions grow: {after:?}");
    let all = store.read_log("w", 0).unwrap();
    for (entry, found) in all.entries.iter().enumerate() {
        for position in [found.position, after[entry]] {
            let tail = store.read_log("w", position).unwrap();
            assert_eq!(tail.entries, all.entries[entry..], "from {position}");
            assert_eq!(tail.next, all.next);
        }
    }
    let tail = store.read_log("w", all.next).unwrap();
    assert_eq!((tail.entries.len(), tail.next), (0, all.next));
    log.append(b"new").unwrap();
    let tail = store.read_log("w", all.next).unwrap();
    assert_eq!(payloads(&tail), [b"new"]);
}

fn logs_are_read_piece_by_piece(store: &dyn Store) {
    let mut log = store.own_log("w").unwrap();
    for length in [100, 0, 3000, 1, 0, 0, 700] {
        log.append(&noise(length, length as u64)).unwrap();
    }
    let all = store.read_log("w", 0).unwrap();
    for bytes in [0, 1, 1000, 1 << 40] {
        let (mut from, mut found) = (0, Vec::new());
        loop {
            let piece = store.read_log_piece("w", from, bytes).unwrap();
            from = piece.next;
            if piece.entries.is_empty() {
                break;
            }
            found.extend(piece.entries);
        }
        assert_eq!((found, from), (all.entries.clone(), all.next), "pieces of {bytes} bytes");
    }
}

fn a_log_has_one_owner(store: &dyn Store) {
    let mut owner = store.own_log("w").unwrap();
    for _ in 0..2 {
        match store.own_log("w") {
            Err(Error::Busy { writer, .. }) => assert_eq!(writer, "w"),
            Err(error) => panic!("a second owner got {error}"),
            Ok(_) => panic!("a log has two owners"),
        }
    }
    owner.append(b"still mine").unwrap();
    drop(owner);
    store.own_log("w").unwrap().append(b"mine now").unwrap();
    let tail = store.read_log("w", 0).unwrap();
    assert_eq!(payloads(&tail), [&b"still mine"[..], b"mine now"]);
}

/// Two handles to one store, as on two machines, and a function that lets a writer's unrenewed claim lapse.
pub type TwoMachines = (Arc<dyn Store>, Arc<dyn Store>, Box<dyn FnMut(&str)>);

/// Runs the checks for stores with claims ([`claims`](crate::claims)), each on a new empty store from `make`.
///
/// # Panics
///
/// If the store breaks a guarantee. The message names it.
pub fn claims(make: &mut dyn FnMut() -> TwoMachines) {
    let fencing = make().0.capabilities().fencing;
    assert!(matches!(fencing, Fencing::Claim { lapse } if !lapse.is_zero()), "{fencing:?}");
    let (one, other, lapse) = make();
    a_stopped_owner_is_refused(&*one, &*other, lapse);
    let (one, other, lapse) = make();
    logs_change_hands(&*one, &*other, lapse);
}

/// An owner is suspended, and its claim lapses. Another process takes the log, and then the owner continues.
fn a_stopped_owner_is_refused(one: &dyn Store, other: &dyn Store, mut lapse: Box<dyn FnMut(&str)>) {
    let mut stopped = one.own_log("w").unwrap();
    let acknowledged = stopped.append(b"acknowledged").unwrap();
    lapse("w");
    let mut owner = other.own_log("w").unwrap();
    assert!(owner.position() >= acknowledged, "an acknowledged entry was overlooked");
    let taken = owner.append(b"of the next owner").unwrap();
    for _ in 0..2 {
        let answer = stopped.append(b"too late");
        assert!(matches!(answer, Err(Error::Refused { .. })), "{answer:?}");
    }
    // This must not release the new owner's claim.
    drop(stopped);
    assert!(matches!(other.own_log("w"), Err(Error::Busy { .. })), "a claim that was lost was given back");
    assert_eq!(owner.append(b"and another").unwrap(), owner.position());
    assert!(owner.position() > taken);
    for store in [one, other] {
        let tail = store.read_log("w", 0).unwrap();
        assert_eq!(payloads(&tail), [&b"acknowledged"[..], b"of the next owner", b"and another"]);
        assert_eq!((tail.next, tail.durable), (owner.position(), owner.position()));
        assert_eq!(store.read_log("w", acknowledged).unwrap().entries, tail.entries[1..]);
    }
}

/// Each new owner sees all entries.
fn logs_change_hands(one: &dyn Store, other: &dyn Store, mut lapse: Box<dyn FnMut(&str)>) {
    let mut expected: Vec<Vec<u8>> = Vec::new();
    // For each entry, its end at the time when it was the last one.
    let mut ends: Vec<u64> = Vec::new();
    for round in 0..12u8 {
        let store = if round % 2 == 0 { one } else { other };
        let mut owner = store.own_log("w").unwrap();
        for entry in 0..round % 4 {
            expected.push(vec![round; usize::from(entry) * 100]);
            ends.push(owner.append(expected.last().unwrap()).unwrap());
        }
        if round % 3 == 0 {
            // A process that died releases nothing.
            std::mem::forget(owner);
            lapse("w");
        }
    }
    for store in [one, other] {
        let tail = store.read_log("w", 0).unwrap();
        assert_eq!(payloads(&tail), expected);
        let begins = tail.entries.iter().skip(1).map(|entry| entry.position);
        assert!(
            begins.chain([tail.next]).eq(ends.iter().copied()),
            "an entry ends elsewhere than when it was appended"
        );
        assert_eq!(store.logs().unwrap(), ["w"]);
    }
}

fn logs_are_apart(store: &dyn Store) {
    let mut owners: Vec<_> = ["b", "a", "c"].map(|name| store.own_log(name).unwrap()).into();
    for round in 0..5 {
        for owner in &mut owners {
            let entry = format!("{} {round}", owner.writer());
            owner.append(entry.as_bytes()).unwrap();
        }
    }
    assert_eq!(store.logs().unwrap(), ["a", "b", "c"]);
    for name in ["a", "b", "c"] {
        let expected: Vec<_> = (0..5).map(|round| format!("{name} {round}").into_bytes()).collect();
        assert_eq!(payloads(&store.read_log(name, 0).unwrap()), expected);
    }
    let second = store.read_log("b", 0).unwrap().entries[1].position;
    let logs = [("c", 0), ("a", 0), ("b", second)];
    let apart: Vec<_> = logs.iter().map(|(name, from)| store.read_log(name, *from).unwrap()).collect();
    assert_eq!(store.read_logs(&logs).unwrap(), apart);
    assert!(matches!(store.read_logs(&[("a", 0), ("absent", 0)]), Err(Error::Missing { .. })));
}

fn scratch_gives_back_what_was_appended(store: &dyn Store) {
    let one = store.scratch().unwrap();
    let other = store.scratch().unwrap();
    let mut expected = Vec::new();
    for round in 0..50 {
        let bytes = noise(round * 31 % 4_000, round as u64);
        expected.push((one.append(&bytes).unwrap(), bytes));
        other.append(b"something else").unwrap();
    }
    for (offset, bytes) in &expected {
        let read = one.read(*offset..offset + bytes.len() as u64).unwrap();
        assert_eq!(read, bytes);
    }
    assert!(one.read(0..1_000_000_000).is_err());
    assert_eq!(store.list("").unwrap(), [""; 0]);
}

fn fill(store: &dyn Store) {
    for name in ["table", "deep/er"] {
        store.put_if_absent(name, &noise(1000, 1)).unwrap();
    }
    let mut segment = store.create_segment("s").unwrap();
    segment.append(&[&noise(1000, 2)]).unwrap();
    segment.sync().unwrap();
    store.own_log("w").unwrap().append(&noise(1000, 3)).unwrap();
}

fn sizes_count_all_that_is_kept(store: &dyn Store) {
    assert!(is_empty(store));
    fill(store);
    let sizes = store.sizes().unwrap();
    for (kind, name) in [
        (StoredKind::Object, "table"),
        (StoredKind::Object, "deep/er"),
        (StoredKind::Segment, "s"),
        (StoredKind::Log, "w"),
    ] {
        let found: u64 =
            sizes.iter().filter(|size| size.kind == kind && size.name == name).map(|size| size.bytes).sum();
        assert!((1000..1500).contains(&found), "{kind:?} {name} takes {found} bytes");
    }
    assert!(sizes.len() <= 7 && sizes.iter().map(|size| size.bytes).sum::<u64>() < 5000, "{sizes:?}");
    let length = sizes.iter().find(|size| size.kind == StoredKind::Segment).map(|size| size.bytes);
    assert_eq!(length, store.segment_len("s").unwrap());
}

fn an_erased_store_is_empty(store: &dyn Store) {
    fill(store);
    store.put_if_absent("not/ours", b"stays").unwrap();
    let objects: Vec<String> = ["table", "never/there", "deep/er"].map(String::from).into();
    for _ in 0..2 {
        store.erase(&objects).unwrap();
        assert_eq!(store.list("").unwrap(), ["not/ours"]);
        assert_eq!((store.segments().unwrap(), store.logs().unwrap()), (vec![], vec![]));
    }
    store.erase(&["not/ours".into()]).unwrap();
    assert!(is_empty(store));
}

fn is_empty(store: &dyn Store) -> bool {
    let sizes = store.sizes().unwrap();
    sizes.iter().all(|size| size.kind == StoredKind::Temporary)
        && sizes.iter().map(|size| size.bytes).sum::<u64>() < 100
}

fn payloads(tail: &LogTail) -> Vec<&[u8]> {
    tail.entries.iter().map(|entry| &entry.bytes[..]).collect()
}

fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..bytes).map(|_| next()).collect()
}
