//! Power failures at every step. Acknowledged writes survive, other writes are complete or absent, and a crash never
//! looks like damage.
//!
//! `SEED=n` runs only this seed, `SEEDS=n` the first n.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::common::{bytes, for_seeds, open, payloads};
use kubist_simulate::{Liar, Lie, SimDisk};
use kubist_store::{LocalStore, Result, Store};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

#[derive(Default)]
struct ExpectedLog {
    acknowledged: Vec<Vec<u8>>,
    in_flight: Option<Vec<u8>>,
}

impl ExpectedLog {
    fn write(&mut self, store: &dyn Store, random: &mut StdRng) -> Result<()> {
        let mut log = store.own_log("w")?;
        self.check(&payloads(&store.read_log("w", 0)?));
        loop {
            let entry = bytes(random, 3_000);
            self.in_flight = Some(entry.clone());
            log.append(&entry)?;
            self.acknowledged.push(entry);
            self.in_flight = None;
        }
    }

    /// The log has the acknowledged entries, and perhaps one more. Once an owner has taken it, its content is settled.
    fn check(&mut self, found: &[Vec<u8>]) {
        let count = self.acknowledged.len();
        assert!(found.len() >= count, "{count} acknowledged, {} there", found.len());
        assert!(found[..count] == self.acknowledged, "an acknowledged entry changed");
        match &found[count..] {
            [] => {}
            [more] => {
                assert!(self.in_flight.as_ref() == Some(more), "an entry from nowhere");
                self.acknowledged.push(more.clone());
            }
            more => panic!("{} entries too many", more.len()),
        }
        self.in_flight = None;
    }
}

#[test]
fn acknowledged_entries_survive_every_crash() {
    for_seeds(600, |seed| {
        let mut random = StdRng::seed_from_u64(seed);
        let machine = SimDisk::new(seed);
        let mut expected = ExpectedLog::default();
        for _ in 0..random.random_range(1..6) {
            machine.crash_after(random.random_range(0..80));
            let crashed = open(&machine).and_then(|store| expected.write(&store, &mut random));
            assert!(crashed.is_err() && machine.crashes() > 0);
            let store = open(&machine).unwrap();
            // A reader sees no damage, even before an owner has cut a torn tail.
            if !expected.acknowledged.is_empty() {
                let tail = store.read_log("w", 0).unwrap();
                let count = expected.acknowledged.len();
                assert!(payloads(&tail)[..count] == expected.acknowledged);
            }
            drop(store.own_log("w").unwrap());
            expected.check(&payloads(&store.read_log("w", 0).unwrap()));
            machine.crash();
            let store = open(&machine).unwrap();
            assert!(payloads(&store.read_log("w", 0).unwrap()) == expected.acknowledged);
        }
    });
}

#[test]
fn what_a_reader_calls_durable_survives() {
    for_seeds(300, |seed| {
        let mut random = StdRng::seed_from_u64(seed);
        let machine = SimDisk::new(seed);
        let writer = machine.process();
        let store = LocalStore::on_disk(writer.clone(), Path::new("/data/store")).unwrap();
        writer.kill_after(random.random_range(0..60));
        let _ = ExpectedLog::default().write(&store, &mut random);
        let reader = open(&machine).unwrap();
        let Ok(tail) = reader.read_log("w", 0) else {
            return;
        };
        machine.crash();
        // A log that never had an entry may be gone.
        let after = open(&machine).unwrap().read_log("w", 0);
        let after = after.map_or(Vec::new(), |tail| tail.entries);
        let durable = |entry: &&kubist_store::LogEntry| {
            let next = tail.entries.iter().find(|next| next.position > entry.position);
            next.map_or(tail.next, |next| next.position) <= tail.durable
        };
        for entry in tail.entries.iter().filter(durable) {
            assert!(after.contains(entry), "lost the entry at {}", entry.position);
        }
    });
}

#[test]
fn objects_survive_whole_or_were_never_there() {
    for_seeds(600, |seed| {
        let mut random = StdRng::seed_from_u64(seed);
        let machine = SimDisk::new(seed);
        let mut expected: BTreeMap<String, (Vec<Vec<u8>>, bool)> = BTreeMap::new();
        for _ in 0..random.random_range(1..5) {
            machine.crash_after(random.random_range(0..100));
            if let Ok(store) = open(&machine) {
                loop {
                    let depth = ["", "rewrites/", "a/b/c/"][random.random_range(0..3)];
                    let name = format!("{depth}{}", random.random_range(0..6));
                    let value = bytes(&mut random, 2_000);
                    let (tried, there) = expected.entry(name.clone()).or_default();
                    tried.push(value.clone());
                    match store.put_if_absent(&name, &value) {
                        Ok(true) => {
                            assert!(!*there, "{name} was won twice");
                            (*tried, *there) = (vec![value], true);
                        }
                        Ok(false) => {
                            tried.pop();
                            *there = true;
                        }
                        Err(_) => break,
                    }
                }
            }
            machine.crash();
            let store = open(&machine).unwrap();
            for (name, (tried, there)) in &mut expected {
                match store.get(name).unwrap() {
                    Some(value) => {
                        assert!(tried.contains(&value.to_vec()), "{name} has a strange value");
                        // The object is visible after a restart, so it is on disk.
                        (*tried, *there) = (vec![value.to_vec()], true);
                    }
                    None => {
                        assert!(!*there, "{name} is lost");
                        tried.clear();
                    }
                }
            }
        }
    });
}

#[test]
fn synced_segments_survive() {
    for_seeds(100, |seed| {
        let mut random = StdRng::seed_from_u64(seed);
        let machine = SimDisk::new(seed);
        let mut synced: Vec<(String, u64, Vec<u8>)> = Vec::new();
        let write = |random: &mut StdRng, synced: &mut Vec<_>| -> Result<()> {
            let store = open(&machine)?;
            loop {
                let name = format!("segment-{}", random.random::<u32>());
                let mut segment = store.create_segment(&name)?;
                for _ in 0..random.random_range(0..4) {
                    let part = bytes(random, 350_000);
                    let offset = segment.append(&[&part])?;
                    segment.sync()?;
                    synced.push((name.clone(), offset, part));
                }
            }
        };
        machine.crash_after(random.random_range(0..60));
        write(&mut random, &mut synced).unwrap_err();
        let store = open(&machine).unwrap();
        for (name, offset, part) in &synced {
            let range = *offset..offset + part.len() as u64;
            assert!(store.read(name, &[range]).unwrap()[0] == part, "{name} changed");
        }
        // Unsynced segments may be in any state.
        for name in store.segments().unwrap() {
            store.delete_segment(&name).unwrap();
        }
        assert!(store.segments().unwrap().is_empty());
    });
}

/// The simulation must detect missing syncs, or the other tests prove nothing.
#[test]
fn missing_syncs_are_found_out() {
    for lie in [Lie::Bytes(""), Lie::Names] {
        let mut lost = 0;
        for seed in 0..40 {
            let machine = SimDisk::new(seed);
            let disk = machine.process();
            let store = LocalStore::on_disk(Arc::new(Liar::new(disk, lie)), Path::new("/s"));
            let store = store.unwrap();
            store.put_if_absent("table", b"grid").unwrap();
            store.own_log("w").unwrap().append(b"entry").unwrap();
            machine.crash();
            let kept = LocalStore::on_disk(machine.process(), Path::new("/s")).unwrap();
            let object = kept.get("table").is_ok_and(|value| value.is_some());
            let entry = kept.read_log("w", 0).is_ok_and(|tail| tail.entries.len() == 1);
            lost += usize::from(!object || !entry);
        }
        assert!(lost > 10, "{lost} of 40 noticed {lie:?}");
    }
}
