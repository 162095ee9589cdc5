//! A shared store keeps its guarantees on a file system with every weakness of network file systems. A store that
//! ignores one of them breaks.

#![allow(clippy::single_range_in_vec_init)] // a list of one range is meant

use crate::common;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::{STORE, for_seeds};
use bytes::Bytes;
use kubist_simulate::{Call, Liar, Lie, Mount, Network, Rule, SimDisk, Task};
use kubist_store::disk::Disk;
use kubist_store::{
    Capabilities, Error, LocalStore, LogOwner, LogTail, Result, Segment, Size, Store, StoreExt, StoredKind,
    conformance, stoppable,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

fn machines(seed: u64, rules: &[Rule]) -> (SimDisk, [Arc<Mount>; 2]) {
    let server = SimDisk::new(seed);
    let network = Network::new(&server, rules);
    let mounts = [Mount::new(&network), Mount::new(&network)];
    (server, mounts)
}

fn open(disk: Arc<dyn Disk>) -> Result<LocalStore> {
    LocalStore::on_disk(disk, Path::new(STORE))
}

/// A store on two machines: each call goes to the other machine's handle, once this sees earlier changes. Owned logs
/// and segments stay with the first.
#[derive(Debug)]
struct Alternating {
    stores: [LocalStore; 2],
    calls: AtomicUsize,
}

impl Alternating {
    fn next(&self) -> &LocalStore {
        let store = &self.stores[self.calls.fetch_add(1, Ordering::Relaxed) % 2];
        store.catch_up().unwrap();
        store
    }
}

impl Store for Alternating {
    fn location(&self) -> &str {
        self.stores[0].location()
    }
    fn capabilities(&self) -> Capabilities {
        self.stores[0].capabilities()
    }
    fn put_if_absent(&self, name: &str, value: &[u8]) -> Result<bool> {
        self.next().put_if_absent(name, value)
    }
    fn get(&self, name: &str) -> Result<Option<Bytes>> {
        self.next().get(name)
    }
    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.next().list(prefix)
    }
    fn delete(&self, name: &str) -> Result<()> {
        self.next().delete(name)
    }
    fn create_segment(&self, name: &str) -> Result<Box<dyn Segment>> {
        self.stores[0].create_segment(name)
    }
    fn read(&self, segment: &str, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.next().read(segment, ranges)
    }
    fn segment_len(&self, segment: &str) -> Result<Option<u64>> {
        self.next().segment_len(segment)
    }
    fn segments(&self) -> Result<Vec<String>> {
        self.next().segments()
    }
    fn delete_segment(&self, segment: &str) -> Result<()> {
        self.next().delete_segment(segment)
    }
    fn own_log(&self, writer: &str) -> Result<Box<dyn LogOwner>> {
        self.stores[0].own_log(writer)
    }
    fn logs(&self) -> Result<Vec<String>> {
        self.next().logs()
    }
    fn read_log(&self, writer: &str, from: u64) -> Result<LogTail> {
        self.next().read_log(writer, from)
    }
    fn sizes(&self) -> Result<Vec<Size>> {
        self.next().sizes()
    }
    fn erase(&self, objects: &[String]) -> Result<()> {
        self.stores[1].erase(objects)?;
        self.stores[0].catch_up()?;
        self.stores[0].erase(objects)
    }
}

#[test]
fn two_machines_keep_the_promises_of_one_store() {
    for seed in 0..3 {
        conformance::run(&mut || {
            let (_, mounts) = machines(seed, &Rule::ALL);
            let stores = mounts.map(|mount| open(mount.process()).unwrap());
            assert!(
                !stores[0].capabilities().staleness.is_zero(),
                "a network's directory is shared from the beginning"
            );
            Arc::new(Alternating { stores, calls: AtomicUsize::new(0) })
        });
    }
}

#[test]
#[ignore = "needs two mounts: make test-mounts"]
fn two_mounts_that_misbehave_keep_them_too() {
    let mounts =
        std::env::var("KUBIST_TEST_MOUNTS").expect("KUBIST_TEST_MOUNTS names two folders, with a colon between");
    let (one, other) = mounts.split_once(':').expect("two folders");
    let mut stores = 0;
    conformance::run(&mut || {
        stores += 1;
        let name = format!("store-{}-{stores}", std::process::id());
        let stores = [one, other].map(|mount| LocalStore::create(&Path::new(mount).join(&name)).unwrap());
        assert!(!stores[0].capabilities().staleness.is_zero(), "FUSE's file systems are those of several machines");
        Arc::new(Alternating { stores, calls: AtomicUsize::new(0) })
    });
}

#[test]
fn a_real_directory_that_is_shared_keeps_them_too() {
    let root = tempfile::tempdir().unwrap();
    let mut stores = 0;
    conformance::run(&mut || {
        stores += 1;
        let store = LocalStore::create(&root.path().join(format!("store-{stores}"))).unwrap();
        let store = store.with_staleness(Duration::ZERO);
        store.share().unwrap();
        Arc::new(store)
    });
}

#[test]
fn logs_are_kept_to_one_owner_by_claims() {
    for seed in 0..10 {
        conformance::claims(&mut || {
            let (_, mounts) = machines(seed, &Rule::ALL);
            let [one, other] = mounts.map(|mount| Arc::new(open(mount.process()).unwrap()));
            // The new owner waits for the lapse itself.
            (one, other, Box::new(|_| {}))
        });
    }
}

/// If no process dies, exactly one put of a name wins.
fn puts(seed: u64, rules: &[Rule], lie: Option<Lie>) -> std::result::Result<(), String> {
    const NAMES: [&str; 3] = ["table", "rewrites/1", "rewrites/2"];
    let (server, mounts) = machines(seed, rules);
    let put = |machine: usize| -> Task<'_, Vec<bool>> {
        let mount = &mounts[machine % 2];
        Box::new(move |process| {
            let disk: Arc<dyn Disk> = mount.of(process);
            let disk = lie.map_or(disk.clone(), |lie| Arc::new(Liar::new(disk, lie)) as Arc<dyn Disk>);
            let store = open(disk).unwrap();
            let value = format!("of {machine}");
            NAMES.map(|name| store.put_if_absent(name, value.as_bytes()).unwrap()).into()
        })
    };
    let told = server.interleave((0..4).map(put).collect());
    let store = open(mounts[0].process()).unwrap();
    for (place, name) in NAMES.iter().enumerate() {
        let winners: Vec<usize> = (0..4).filter(|machine| told[*machine][place]).collect();
        let [winner] = winners[..] else { return Err(format!("{name} was won by {winners:?}")) };
        let value = store.get(name).map_err(|error| error.to_string())?;
        if value.as_deref() != Some(format!("of {winner}").as_bytes()) {
            return Err(format!("{name}, won by {winner}, is {value:?}"));
        }
    }
    Ok(())
}

#[test]
fn a_name_is_won_by_one_process_of_all_machines() {
    for_seeds(100, |seed| puts(seed, &Rule::ALL, None).unwrap());
}

/// Each acknowledged entry is in the log once and in order, although owners are killed or suspended. Readers saw a
/// prefix of the log.
fn appends(seed: u64, rules: &[Rule], lie: Option<Lie>) -> std::result::Result<(), String> {
    let (server, mounts) = machines(seed, rules);
    let disk = |mount: &Arc<Mount>, process| -> Arc<dyn Disk> {
        let disk: Arc<dyn Disk> = mount.of(process);
        lie.map_or(disk.clone(), |lie| Arc::new(Liar::new(disk, lie)))
    };
    drop(open(disk(&mounts[0], server.process())).unwrap().own_log("w").unwrap());
    type Did = std::result::Result<(Vec<String>, Vec<Bytes>), String>;
    let append = |number: usize| -> Task<'_, Did> {
        let (mount, disk) = (&mounts[number % 2], &disk);
        Box::new(move |process| {
            let mut random = StdRng::seed_from_u64(seed * 10 + number as u64);
            if random.random_bool(0.3) {
                process.kill_after(random.random_range(0..200));
            }
            let disk = disk(mount, process);
            let (mut acknowledged, mut count) = (Vec::new(), 0);
            let is_dead = |error: &Error| error.to_string().contains("is dead");
            for _ in 0..6 {
                let taken = open(disk.clone()).and_then(|store| store.own_log("w"));
                let mut log = match taken {
                    Ok(log) => log,
                    Err(Error::Busy { .. }) => continue,
                    Err(error) if is_dead(&error) => break,
                    Err(error) => return Err(format!("{number}: {error}")),
                };
                for _ in 0..random.random_range(1..4) {
                    count += 1;
                    let entry = format!("{number}:{count}");
                    match log.append(entry.as_bytes()) {
                        Ok(_) => acknowledged.push(entry),
                        Err(error) if is_dead(&error) || matches!(error, Error::Refused { .. }) => break,
                        Err(error) => return Err(format!("{number}: {error}")),
                    }
                    if random.random_bool(0.1) {
                        disk.pause(Duration::from_secs(45));
                    }
                }
            }
            Ok((acknowledged, Vec::new()))
        })
    };
    let read = |number: usize| -> Task<'_, Did> {
        let (mount, disk) = (&mounts[number % 2], &disk);
        Box::new(move |process| {
            let store = open(disk(mount, process)).map_err(|error| error.to_string())?;
            let (mut seen, mut next) = (Vec::new(), 0);
            for _ in 0..20 {
                let tail = store.read_log("w", next).map_err(|error| format!("reader {number}: {error}"))?;
                if tail.next < next {
                    return Err(format!("reader {number}: the log went back from {next} to {}", tail.next));
                }
                seen.extend(tail.entries.into_iter().map(|entry| entry.bytes));
                next = tail.next;
            }
            Ok((Vec::new(), seen))
        })
    };
    let mut tasks: Vec<_> = (0..4).map(append).collect();
    tasks.extend([read(4), read(5)]);
    let did = server.interleave(tasks).into_iter().collect::<std::result::Result<Vec<_>, _>>()?;
    server.crash();
    let after = open(Mount::new(&Network::new(&server, rules)).process()).map_err(|error| error.to_string())?;
    let found: Vec<Bytes> = match lie {
        Some(Lie::OneMachine) => {
            let disk = Liar::new(Mount::new(&Network::new(&server, rules)).process(), Lie::OneMachine);
            let tail = open(Arc::new(disk)).and_then(|store| store.read_log("w", 0));
            tail.map_err(|error| error.to_string())?.entries.into_iter().map(|entry| entry.bytes).collect()
        }
        _ => {
            let tail = after.read_log("w", 0).map_err(|error| error.to_string())?;
            tail.entries.into_iter().map(|entry| entry.bytes).collect()
        }
    };
    if found.iter().collect::<BTreeSet<_>>().len() != found.len() {
        return Err("an entry is there twice".into());
    }
    for (number, (acknowledged, seen)) in did.iter().enumerate() {
        let mut left = found.iter();
        if let Some(lost) = acknowledged.iter().find(|entry| !left.any(|there| *there == entry.as_bytes())) {
            return Err(format!("{lost}, acknowledged to {number}, is not there, or not in its place"));
        }
        if seen[..] != found[..seen.len().min(found.len())] {
            return Err(format!("reader {number} saw something else"));
        }
    }
    Ok(())
}

#[test]
fn acknowledged_entries_of_all_machines_stay_in_order() {
    for_seeds(60, |seed| appends(seed, &Rule::ALL, None).unwrap());
}

/// One machine writes a segment, and another machine reads it.
fn segment(seed: u64, rules: &[Rule], lie: Option<Lie>) -> std::result::Result<(), String> {
    let (server, mounts) = machines(seed, rules);
    let [one, other] = mounts.each_ref().map(|mount| {
        let disk: Arc<dyn Disk> = mount.process();
        open(lie.map_or(disk.clone(), |lie| Arc::new(Liar::new(disk, lie)))).unwrap()
    });
    let mut written = one.create_segment("s").unwrap();
    let mut expected: Vec<(u64, Vec<u8>)> = Vec::new();
    for round in 0..6u8 {
        let bytes = vec![round; 700];
        let offset = written.append(&[&bytes]).unwrap();
        written.sync().unwrap();
        expected.push((offset, bytes));
        let known = other.segment_len("s").map_err(|error| error.to_string())?;
        if known.is_none_or(|length| length < written.len()) {
            return Err(format!("{known:?} bytes are said to be there, {} were synced", written.len()));
        }
        for (offset, bytes) in &expected {
            let read = other.read("s", &[*offset..*offset + bytes.len() as u64]).map_err(|error| error.to_string())?;
            if read[0] != *bytes {
                return Err(format!("other bytes than were synced at {offset}"));
            }
        }
    }
    drop(written);
    one.delete_segment("s").unwrap();
    match other.read("s", &[16..17]) {
        Err(Error::Missing { .. }) => {}
        Ok(_) => {}
        Err(error) => return Err(format!("a segment that was deleted is {error}")),
    }
    assert!(server.crashes() == 0);
    Ok(())
}

#[test]
fn what_is_synced_is_read_by_other_machines_and_what_is_deleted_is_missing() {
    for_seeds(40, |seed| segment(seed, &Rule::ALL, None).unwrap());
}

fn failing(seed: u64, lie: Option<Lie>) -> std::result::Result<(), String> {
    let (server, mounts) = machines(seed, &[Rule::LateErrors]);
    let disk: Arc<dyn Disk> = mounts[0].process();
    let store = open(lie.map_or(disk.clone(), |lie| Arc::new(Liar::new(disk, lie)))).unwrap();
    let mut log = store.own_log("w").unwrap();
    log.append(b"before").unwrap();
    server.fail(Call::Write, seed % 3);
    let acknowledged: Vec<String> = (0..3)
        .map(|number| format!("entry {number}"))
        .take_while(|entry| log.append(entry.as_bytes()).is_ok())
        .collect();
    drop(log);
    server.calm();
    let tail = open(mounts[1].process()).and_then(|store| store.read_log("w", 0)).map_err(|error| error.to_string())?;
    let found: Vec<&[u8]> = tail.entries.iter().skip(1).map(|entry| &entry.bytes[..]).collect();
    match acknowledged.iter().zip(&found).all(|(entry, found)| entry.as_bytes() == *found)
        && found.len() >= acknowledged.len()
    {
        true => Ok(()),
        false => Err(format!("{acknowledged:?} were acknowledged, {found:?} are there")),
    }
}

#[test]
fn errors_that_come_late_are_heard() {
    for_seeds(50, |seed| failing(seed, None).unwrap());
}

/// A machine that did not find an entry takes the log, and must then see this entry.
fn taken_over(seed: u64, staleness: Option<Duration>) -> std::result::Result<(), String> {
    let (_, mounts) = machines(seed, &[Rule::OldNames]);
    let [one, other] = mounts.map(|mount| open(mount.process()).unwrap());
    let other = match staleness {
        Some(staleness) => other.with_staleness(staleness),
        None => other,
    };
    let mut owner = one.own_log("w").unwrap();
    let mut next = 0;
    for round in 0..5u8 {
        owner.append(&[round]).unwrap();
        // The entry is absent, and its absence is cached.
        next = other.read_log("w", next).map_err(|error| error.to_string())?.next;
    }
    owner.append(b"last").unwrap();
    drop(owner);
    drop(other.own_log("w").map_err(|error| error.to_string())?);
    let found = other.read_log("w", 0).map_err(|error| error.to_string())?.entries.len();
    if found == 6 { Ok(()) } else { Err(format!("the next owner sees {found} of 6 entries")) }
}

#[test]
fn the_next_owner_sees_every_entry() {
    for_seeds(40, |seed| taken_over(seed, None).unwrap());
}

/// An entry that is missing in a listing is found by its number.
fn listed(seed: u64) -> (bool, bool) {
    let (_, mounts) = machines(seed, &[Rule::OldListings]);
    let [one, other] = mounts.map(|mount| open(mount.process()).unwrap());
    one.put_if_absent("rewrites/1", b"first").unwrap();
    other.list("rewrites/").unwrap();
    one.put_if_absent("rewrites/2", b"second").unwrap();
    let by_list = other.list("rewrites/").unwrap().len() == 2;
    (by_list, other.get("rewrites/2").unwrap().is_some())
}

#[test]
fn each_rule_breaks_a_store_that_does_not_reckon_with_it() {
    let broken = |rule: Rule, play: &dyn Fn(u64) -> std::result::Result<(), String>| {
        let found = (0..300).find_map(|seed| Some((seed, play(seed).err()?)));
        println!("{rule:?}: {found:?}");
        assert!(found.is_some(), "three hundred seeds did not notice {rule:?}");
    };
    // A store that assumes it is alone uses locks, lengths and cached open files.
    let alone = Some(Lie::OneMachine);
    for rule in [Rule::OldLengths, Rule::AfterClose, Rule::Gone] {
        broken(rule, &|seed| segment(seed, &[rule], alone));
    }
    broken(Rule::OwnLocks, &|seed| appends(seed, &[Rule::OwnLocks], alone));
    broken(Rule::LateErrors, &|seed| failing(seed, Some(Lie::Errors)));
    broken(Rule::LostAnswers, &|seed| puts(seed, &[Rule::LostAnswers], Some(Lie::OneName)));
    broken(Rule::OldNames, &|seed| taken_over(seed, Some(Duration::ZERO)));
    broken(Rule::OldListings, &|seed| if listed(seed).0 { Ok(()) } else { Err("an object is not listed".into()) });
    assert!((0..300).all(|seed| listed(seed).1), "an object was not found by its name");
}

#[test]
fn a_store_becomes_shared_and_its_logs_go_on() {
    for_seeds(50, |seed| {
        let server = SimDisk::new(seed);
        let [first, second] = [open(server.process()).unwrap(), open(server.process()).unwrap()];
        let (mut one, mut idle) = (first.own_log("one").unwrap(), first.own_log("idle").unwrap());
        one.append(b"before").unwrap();
        let seen = second.read_log("one", 0).unwrap();
        second.share().unwrap();
        second.share().unwrap();
        for log in [&mut one, &mut idle] {
            let answer = log.append(b"too late");
            assert!(matches!(answer, Err(Error::Refused { .. })), "{answer:?}");
        }
        drop((one, idle));
        // The handle that did not know takes the log again.
        let mut one = first.own_log("one").unwrap();
        one.append(b"after").unwrap();
        drop(one);
        let network = Network::new(&server, &Rule::ALL);
        let other = open(Mount::new(&network).process()).unwrap();
        let mut one = other.own_log("one").unwrap();
        one.append(b"elsewhere").unwrap();
        for store in [&first, &second, &other] {
            let tail = store.read_log("one", 0).unwrap();
            let entries: Vec<&[u8]> = tail.entries.iter().map(|entry| &entry.bytes[..]).collect();
            assert_eq!(entries, [&b"before"[..], b"after", b"elsewhere"]);
            assert_eq!(store.read_log("one", seen.next).unwrap().entries.len(), 2);
            let mut from = 0;
            for expected in &tail.entries {
                let piece = store.read_log_piece("one", from, 1).unwrap();
                assert_eq!(piece.entries, std::slice::from_ref(expected));
                from = piece.next;
            }
            assert_eq!((store.read_log_piece("one", from, 1).unwrap().entries.len(), from), (0, tail.next));
            assert!(matches!(store.capabilities().fencing, kubist_store::Fencing::Claim { .. }));
            assert_eq!(store.check_log("one").unwrap(), [""; 0]);
        }
        let sizes = other.sizes().unwrap();
        assert!(sizes.iter().any(|size| size.kind == StoredKind::Log && size.name == "one"), "{sizes:?}");
    });
}

#[test]
fn damage_of_an_entry_is_told() {
    let server = SimDisk::new(1);
    let store = open(server.process()).unwrap();
    store.share().unwrap();
    let mut log = store.own_log("w").unwrap();
    for entry in [b"first", b"other", b"third"] {
        log.append(entry).unwrap();
    }
    drop(log);
    let entry = |number: u64| common::file(&format!("logs/w.entries/{number:020}"));
    assert!(server.damage(&entry(2), |bytes| bytes[44] ^= 1));
    let fresh = || open(server.process()).unwrap();
    assert!(matches!(fresh().read_log("w", 0), Err(Error::Damaged { .. })));
    let sound = fresh().read_sound_log("w", 0).unwrap();
    let entries: Vec<&[u8]> = sound.entries.iter().map(|entry| &entry.bytes[..]).collect();
    assert_eq!(entries, [b"first", b"third"]);
    assert_eq!(sound.broken.iter().map(|broken| broken.position).collect::<Vec<_>>(), [2]);
    assert_eq!(fresh().check_log("w").unwrap().len(), 1);
    // A missing file: no owner continues after the gap.
    server.process().unlink(&entry(2)).unwrap();
    assert!(matches!(fresh().own_log("w").map(|_| ()), Err(Error::Damaged { .. })));
}

#[test]
fn a_store_of_one_machine_is_not_changed_through_a_network() {
    let server = SimDisk::new(1);
    let alone = open(server.process()).unwrap();
    alone.put_if_absent("table", b"header").unwrap();
    let mut segment = alone.create_segment("s").unwrap();
    segment.append(&[b"rows"]).unwrap();
    segment.sync().unwrap();
    alone.own_log("w").unwrap().append(b"entry").unwrap();
    let mount = Mount::new(&Network::new(&server, &Rule::ALL));
    let store = open(mount.process()).unwrap();
    assert_eq!(store.get("table").unwrap().unwrap(), "header");
    assert_eq!(store.read_log("w", 0).unwrap().entries.len(), 1);
    let changes: [(&str, Result<()>); 6] = [
        ("a put", store.put_if_absent("rewrites/1", b"rewrite").map(drop)),
        ("a deletion", store.delete("table")),
        ("a new segment", store.create_segment("t").map(drop)),
        ("a segment's deletion", store.delete_segment("s")),
        ("a log taken", store.own_log("w").map(drop)),
        ("its end", store.erase(&["table".into()])),
    ];
    for (what, answer) in changes {
        let text = answer.expect_err(what).to_string();
        assert!(text.contains("make the table shared first (kubist alter --shared)"), "{what}: {text}");
    }
    let end = alone.segment_len("s").unwrap().unwrap();
    assert_eq!(alone.read("s", &[end - 4..end]).unwrap()[0], "rows");
    store.share().unwrap();
    assert!(store.put_if_absent("rewrites/1", b"rewrite").unwrap());
    store.delete_segment("s").unwrap();
    store.own_log("w").unwrap().append(b"another").unwrap();
}

/// A handle waits once, and again only for changes that it has learned of since.
#[test]
fn damage_is_waited_for_once() {
    let (server, mounts) = machines(1, &Rule::ALL);
    let [one, other] = mounts.map(|mount| open(mount.process()).unwrap());
    let mut log = one.own_log("w").unwrap();
    let mut segment = one.create_segment("s").unwrap();
    segment.append(&[b"rows"]).unwrap();
    segment.sync().unwrap();
    log.append(b"first").unwrap();
    other.read_log("w", 0).unwrap();
    assert!(one.put_if_absent("known", b"").unwrap());
    other.catch_up().unwrap();
    other.get("known").unwrap().unwrap();
    let time_of = |look: &dyn Fn() -> bool| {
        let begin = server.clock();
        assert!(look(), "it is not called damaged");
        server.clock() - begin
    };
    let damaged = |at: u64| matches!(other.read("s", &[at..at + 9]), Err(Error::Damaged { .. }));
    let (long, short) = (other.capabilities().staleness, Duration::from_secs(1));
    assert!(time_of(&|| damaged(1 << 20)) >= long);
    for number in 2..20 {
        other.get("known").unwrap().unwrap();
        assert!(time_of(&|| damaged(number << 20)) < short, "it waits for the same again");
    }
    // A new entry may name things that are not visible yet.
    log.append(b"second").unwrap();
    other.catch_up().unwrap();
    other.read_log("w", 0).unwrap();
    assert!(time_of(&|| damaged(1 << 20)) >= long);
    assert!(time_of(&|| damaged(2 << 20)) < short);
}

/// A call that can be cancelled need not wait.
#[test]
fn every_wait_ends_when_it_is_to_stop() {
    let (server, mounts) = machines(1, &Rule::ALL);
    let [one, other] = mounts.map(|mount| open(mount.process()).unwrap());
    let _log = one.own_log("w").unwrap();
    let mut segment = one.create_segment("s").unwrap();
    segment.append(&[b"rows"]).unwrap();
    segment.sync().unwrap();
    type Wait<'a> = Box<dyn Fn() -> Result<()> + 'a>;
    let waits: [(&str, Wait<'_>); 5] = [
        ("catching up", Box::new(|| other.catch_up())),
        ("damage", Box::new(|| other.read("s", &[1 << 20..1 << 21]).map(drop))),
        ("another look", Box::new(|| (0..).try_for_each(|attempt| other.look_again(attempt).map(drop)))),
        ("what others know", Box::new(|| other.await_seen(&mut || Ok(false)).map(drop))),
        ("somebody's log", Box::new(|| other.own_log("w").map(drop))),
    ];
    for (what, wait) in waits {
        other.learn();
        let set = Arc::new(AtomicUsize::new(0));
        let asked = set.clone();
        let begin = server.clock();
        let ended = stoppable(move || asked.fetch_add(1, Ordering::Relaxed) > 1, wait);
        assert!(matches!(ended, Err(Error::Stopped { .. })), "{what}: {ended:?}");
        assert!(server.clock() - begin < Duration::from_secs(1), "{what}");
        assert!(set.load(Ordering::Relaxed) > 2, "{what}");
    }
    assert!(matches!(other.read("s", &[1 << 20..1 << 21]), Err(Error::Damaged { .. })));
}

/// A report of a change may be wrong, so only the call that looks for the change waits.
#[test]
fn who_was_told_of_something_waits_alone() {
    let (server, mounts) = machines(1, &Rule::ALL);
    let [one, other] = mounts.map(|mount| open(mount.process()).unwrap());
    let mut segment = one.create_segment("s").unwrap();
    segment.append(&[b"rows"]).unwrap();
    segment.sync().unwrap();
    other.catch_up().unwrap();
    let is_there = |name: &str| other.get(name).map(|found| found.is_some());
    let begin = server.clock();
    assert!(!other.await_seen(&mut || is_there("told")).unwrap());
    assert!(server.clock() - begin >= other.capabilities().staleness);
    let begin = server.clock();
    assert!(matches!(other.read("s", &[1 << 20..1 << 21]), Err(Error::Damaged { .. })));
    assert!(server.clock() - begin < Duration::from_secs(1), "it waits for what somebody else was told");
    // A lookup of the name has just failed.
    assert!(one.put_if_absent("told", b"").unwrap());
    assert!(other.await_seen(&mut || is_there("told")).unwrap());
}

/// Its owner may have died before it synced the last entry.
#[test]
fn what_a_log_holds_when_it_is_sealed_survives_a_power_failure() {
    for_seeds(200, |seed| {
        let server = SimDisk::new(seed);
        let process = server.process();
        let store = open(process.clone()).unwrap();
        let mut log = store.own_log("w").unwrap();
        log.append(b"acknowledged").unwrap();
        process.kill_after(seed % 4);
        let _ = log.append(b"perhaps");
        process.kill();
        let other = open(server.process()).unwrap();
        other.share().unwrap();
        let seen = other.read_log("w", 0).unwrap();
        server.crash();
        let after = open(server.process()).unwrap();
        assert_eq!(after.read_log("w", 0).unwrap().entries, seen.entries);
        after.own_log("w").unwrap().append(b"later").unwrap();
        assert_eq!(after.read_log("w", 0).unwrap().entries.len(), seen.entries.len() + 1);
    });
}

/// The file of another program may have a number as its name.
#[test]
fn a_foreign_file_among_entries_is_passed_over() {
    let server = SimDisk::new(1);
    let process = server.process();
    let store = open(process.clone()).unwrap();
    store.share().unwrap();
    let mut log = store.own_log("w").unwrap();
    for entry in [b"first", b"other", b"third", b"forth", b"fifth"] {
        log.append(entry).unwrap();
    }
    drop(log);
    let entry = |number: u64| common::file(&format!("logs/w.entries/{number:020}"));
    let foreign = process.open(&entry(u64::MAX), kubist_store::disk::Open::Create).unwrap();
    foreign.write_at(b"not ours", 0).unwrap();
    assert!(server.damage(&entry(2), |bytes| bytes[44] ^= 1));
    process.unlink(&entry(4)).unwrap();
    let sound = open(server.process()).unwrap().read_sound_log("w", 0).unwrap();
    let entries: Vec<(u64, &[u8])> = sound.entries.iter().map(|entry| (entry.position, &entry.bytes[..])).collect();
    assert_eq!(entries, [(0, &b"first"[..]), (3, b"third"), (5, b"fifth")]);
    assert_eq!(sound.broken.iter().map(|broken| broken.position).collect::<Vec<_>>(), [2, 4]);
    assert_eq!(sound.next, 6);
}

#[test]
fn a_log_that_may_be_free_is_not_waited_for() {
    let (server, mounts) = machines(1, &Rule::ALL);
    let [one, other] = mounts.map(|mount| open(mount.process()).unwrap());
    let owner = one.own_log("w").unwrap();
    let begin = server.clock();
    assert!(matches!(other.own_free_log("w").map(drop), Err(Error::Busy { .. })));
    assert!(server.clock() - begin < Duration::from_secs(1));
    drop(owner);
    other.catch_up().unwrap();
    other.own_free_log("w").unwrap().append(b"given back").unwrap();
}
