//! Failing system calls and full disks. Each failure is reported, its handle refuses to continue, and a new handle
//! continues without loss.

#![allow(clippy::single_range_in_vec_init)] // a list of one range is meant

use crate::common::{bytes, file, for_seeds, open, payloads};
use kubist_simulate::{Call, SimDisk};
use kubist_store::disk::{Disk, Open};
use kubist_store::{Error, LogOwner, Result, Segment, Store, StoreExt};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

#[derive(Default)]
struct Promised {
    entries: Vec<Vec<u8>>,
    perhaps: Vec<Vec<u8>>,
    objects: Vec<(String, Vec<u8>)>,
    parts: Vec<(String, u64, Vec<u8>)>,
}

impl Promised {
    fn work(&mut self, machine: &SimDisk, random: &mut StdRng) -> Result<()> {
        let store = open(machine)?;
        let name = format!("rewrites/{}", random.random::<u64>());
        let value = bytes(random, 1_000);
        if store.put_if_absent(&name, &value)? {
            self.objects.push((name, value));
        }
        let mut segment = store.create_segment(&format!("s-{}", random.random::<u64>()))?;
        let mut log = store.own_log("w")?;
        for _ in 0..3 {
            let part = bytes(random, 5_000);
            let synced = segment.append(&[&part]).and_then(|offset| {
                segment.sync()?;
                Ok(offset)
            });
            match synced {
                Ok(offset) => self.parts.push((segment.name().to_owned(), offset, part)),
                Err(error) => return Err(assert_segment_refuses(&mut *segment, error)),
            }
            let entry = bytes(random, 5_000);
            match log.append(&entry) {
                Ok(_) => self.entries.push(entry),
                Err(error) => {
                    // The operation was refused before any attempt, so its result is certainly absent.
                    if !matches!(error, Error::Refused { .. }) {
                        self.perhaps.push(entry);
                    }
                    return Err(assert_log_refuses(&mut *log, error));
                }
            }
        }
        store.delete("absent")?;
        store.list("")?;
        store.segments()?;
        store.read_log("w", 0)?;
        let scratch = store.scratch()?;
        let offset = scratch.append(b"spilled")?;
        assert_eq!(scratch.read(offset..offset + 7)?, "spilled");
        Ok(())
    }

    fn check(&self, machine: &SimDisk) {
        let store = open(machine).unwrap();
        for (name, value) in &self.objects {
            assert!(store.get(name).unwrap().unwrap() == value, "{name} changed");
        }
        for (name, offset, part) in &self.parts {
            let read = store.read(name, &[*offset..offset + part.len() as u64]).unwrap();
            assert!(read[0] == part, "{name} changed");
        }
        if self.entries.is_empty() {
            return;
        }
        let found = payloads(&store.read_log("w", 0).unwrap());
        let certain: Vec<_> = found.iter().filter(|entry| !self.perhaps.contains(entry)).cloned().collect();
        let expected: Vec<_> = self.entries.iter().filter(|entry| !self.perhaps.contains(entry)).cloned().collect();
        assert!(certain == expected, "{} entries of {}", certain.len(), expected.len());
    }
}

fn assert_log_refuses(log: &mut dyn LogOwner, cause: Error) -> Error {
    assert_refuses(log.append(b"no").map(drop), &cause);
    assert_refuses(log.append(b"never").map(drop), &cause);
    cause
}

fn assert_segment_refuses(segment: &mut dyn Segment, cause: Error) -> Error {
    assert_refuses(segment.append(&[b"no"]).map(drop), &cause);
    assert_refuses(segment.sync(), &cause);
    cause
}

fn assert_refuses(answer: Result<()>, first: &Error) {
    match (answer, first) {
        (Err(Error::Refused { .. }), Error::Refused { .. }) => {}
        (Err(Error::Refused { cause, .. }), first) => assert_eq!(cause, first.to_string()),
        (answer, first) => panic!("after `{first}` came {answer:?}"),
    }
}

#[test]
fn every_failing_call_is_reported_and_survived() {
    for call in Call::ALL {
        eprintln!("failing: {call:?}");
        for_seeds(120, |seed| {
            let mut random = StdRng::seed_from_u64(seed);
            let machine = SimDisk::new(seed);
            let mut promised = Promised::default();
            if random.random_bool(0.5) {
                promised.work(&machine, &mut random).unwrap();
            }
            machine.fail(call, random.random_range(0..12));
            let outcome = promised.work(&machine, &mut random);
            // A failure that is not reported affected a clean-up or an acknowledgement, or is reported later.
            let harmless = [Call::Open, Call::Find, Call::List, Call::Unlink, Call::Lock, Call::Write].contains(&call);
            assert!(outcome.is_err() || machine.failures_left() || harmless, "{call:?} failed and nobody was told");
            machine.calm();
            promised.work(&machine, &mut random).unwrap();
            promised.check(&machine);
            machine.crash();
            promised.check(&machine);
            promised.work(&machine, &mut random).unwrap();
            machine.crash();
            promised.check(&machine);
        });
    }
}

#[test]
fn a_log_whose_sync_failed_is_continued_by_a_fresh_owner() {
    for_seeds(100, |seed| {
        let machine = SimDisk::new(seed);
        let store = open(&machine).unwrap();
        let mut log = store.own_log("w").unwrap();
        log.append(b"first").unwrap();
        machine.fail(Call::Sync, 0);
        let error = log.append(b"second").unwrap_err();
        assert!(error.to_string().contains(file("logs/w.log").to_str().unwrap()), "{error}");
        assert_log_refuses(&mut *log, error);
        drop(log);
        let mut log = store.own_log("w").unwrap();
        let settled = payloads(&store.read_log("w", 0).unwrap());
        log.append(b"third").unwrap();
        machine.crash();
        let after = payloads(&open(&machine).unwrap().read_log("w", 0).unwrap());
        assert_eq!(after, [settled, vec![b"third".to_vec()]].concat());
    });
}

#[test]
fn a_full_disk_is_told_as_such_and_left_behind() {
    for_seeds(200, |seed| {
        let mut random = StdRng::seed_from_u64(seed);
        let machine = SimDisk::new(seed);
        let mut promised = Promised::default();
        promised.work(&machine, &mut random).unwrap();
        machine.set_capacity(Some(machine.used() + random.random_range(0..20_000)));
        let full = loop {
            match promised.work(&machine, &mut random) {
                Ok(()) => {}
                Err(error) => break error,
            }
        };
        assert!(matches!(full, Error::NoSpace { .. }), "{full}");
        promised.check(&machine);
        machine.set_capacity(None);
        promised.work(&machine, &mut random).unwrap();
        machine.crash();
        promised.check(&machine);
    });
}

#[test]
fn a_folder_whose_sync_failed_is_not_trusted_by_that_handle() {
    let machine = SimDisk::new(3);
    let store = open(&machine).unwrap();
    store.put_if_absent("rewrites/1", b"").unwrap();
    machine.fail(Call::SyncDirectory, 0);
    let answer = store.put_if_absent("rewrites/2", b"");
    assert!(matches!(answer, Err(Error::Io { .. })), "{answer:?}");
    let answer = store.put_if_absent("rewrites/2", b"");
    assert!(matches!(answer, Err(Error::Refused { .. })), "{answer:?}");
    assert!(store.put_if_absent("table", b"").unwrap());
    let fresh = open(&machine).unwrap();
    assert!(!fresh.put_if_absent("rewrites/2", b"other").unwrap());
}

#[test]
fn what_a_dead_process_left_in_tmp_is_cleared_away() {
    for_seeds(100, |seed| {
        let mut random = StdRng::seed_from_u64(seed);
        let machine = SimDisk::new(seed);
        let temporaries = |store: &dyn Store| -> u64 {
            store.put_if_absent("a", b"").unwrap();
            machine.used()
        };
        let before = temporaries(&open(&machine).unwrap());
        let process = machine.process();
        process.kill_after(random.random_range(0..20));
        if let Ok(store) = kubist_store::LocalStore::open_on(process, &file("")) {
            let _ = store.put_if_absent("a", &[0; 5_000]);
            let _ = store.put_if_absent("b", &[0; 5_000]);
        }
        let store = open(&machine).unwrap();
        store.delete("b").unwrap();
        drop(store.scratch().unwrap());
        assert_eq!(temporaries(&store), before);
    });
}

#[test]
fn what_a_living_process_has_in_tmp_is_left_alone() {
    let machine = SimDisk::new(5);
    open(&machine).unwrap().put_if_absent("a", b"").unwrap();
    let living = machine.process();
    let path = file("tmp/0123456789abcdef");
    let made = living.open(&path, Open::Create).unwrap();
    assert!(made.try_lock().unwrap());
    open(&machine).unwrap().put_if_absent("b", b"").unwrap();
    assert!(machine.contents(&path).is_some());
    living.kill();
    open(&machine).unwrap().put_if_absent("c", b"").unwrap();
    assert!(machine.contents(&path).is_none());
}
