//! Several processes on one directory, with interleaved calls, where some processes are killed.

use std::collections::BTreeMap;
use std::path::Path;

use crate::common::{STORE, bytes, for_seeds, open, payloads};
use kubist_simulate::{SimDisk, Task};
use kubist_store::{Error, LocalStore, LogEntry, Result, Store};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

#[test]
fn a_name_is_won_by_one_process_and_survives_for_all_who_were_told() {
    const NAMES: [&str; 3] = ["table", "rewrites/1", "rewrites/2"];
    for_seeds(400, |seed| {
        let machine = SimDisk::new(seed);
        let put = |process: u64| -> Task<'_, Vec<(&str, Result<bool>)>> {
            Box::new(move |disk| {
                let mut random = StdRng::seed_from_u64(seed * 10 + process);
                if random.random_bool(0.3) {
                    disk.kill_after(random.random_range(0..60));
                }
                let Ok(store) = LocalStore::on_disk(disk, Path::new(STORE)) else {
                    return Vec::new();
                };
                let value = format!("of process {process}");
                let put = |name| (name, store.put_if_absent(name, value.as_bytes()));
                NAMES.map(put).into()
            })
        };
        let told = machine.interleave((0..3).map(put).collect());
        // All processes see the same value of a name.
        machine.crash();
        let store = open(&machine).unwrap();
        for name in NAMES {
            let of = |wanted: bool| {
                let told = told.iter().enumerate();
                told.filter(move |(_, told)| {
                    told.iter().any(|(n, answer)| *n == name && matches!(answer, Ok(is) if *is == wanted))
                })
                .map(|(process, _)| process)
            };
            let winners: Vec<usize> = of(true).collect();
            assert!(winners.len() <= 1, "{name} was won by {winners:?}");
            let value = store.get(name).unwrap();
            match (winners.first(), value) {
                (Some(winner), Some(value)) => assert_eq!(value, format!("of process {winner}")),
                (Some(winner), None) => panic!("{name}, won by {winner}, is lost"),
                // The winner was killed before it got the result.
                (None, Some(value)) => assert!(value.starts_with(b"of process ")),
                (None, None) => {
                    assert_eq!(of(false).count(), 0, "{name}, reported as taken, is lost")
                }
            }
        }
        for error in told.iter().flatten().filter_map(|(_, answer)| answer.as_ref().err()) {
            assert!(error.to_string().contains("is dead"), "{error}");
        }
    });
}

#[test]
fn a_log_has_one_owner_at_a_time_and_readers_see_it_grow() {
    for_seeds(400, |seed| {
        let machine = SimDisk::new(seed);
        drop(open(&machine).unwrap().own_log("w").unwrap());

        #[derive(Default)]
        struct Did {
            acknowledged: Vec<Vec<u8>>,
            in_flight: Option<Vec<u8>>,
            read: Vec<LogEntry>,
        }

        let append = |process: u64| -> Task<'_, Did> {
            Box::new(move |disk| {
                let mut random = StdRng::seed_from_u64(seed * 10 + process);
                if random.random_bool(0.3) {
                    disk.kill_after(random.random_range(0..100));
                }
                let mut did = Did::default();
                let Ok(store) = LocalStore::open_on(disk, Path::new(STORE)) else {
                    return did;
                };
                for _ in 0..8 {
                    let mut log = match store.own_log("w") {
                        Ok(log) => log,
                        Err(Error::Busy { .. }) => continue,
                        Err(error) => {
                            assert!(error.to_string().contains("is dead"), "{error}");
                            return did;
                        }
                    };
                    for _ in 0..random.random_range(1..4) {
                        let mut entry = format!("{process}:{};", random.random::<u64>()).into_bytes();
                        entry.extend(bytes(&mut random, 2_000));
                        did.in_flight = Some(entry.clone());
                        if log.append(&entry).is_err() {
                            return did;
                        }
                        did.in_flight = None;
                        did.acknowledged.push(entry);
                    }
                }
                did
            })
        };
        let read = || -> Task<'_, Did> {
            Box::new(move |disk| {
                let store = LocalStore::open_on(disk, Path::new(STORE)).unwrap();
                let mut did = Did::default();
                let mut next = 0;
                for _ in 0..12 {
                    let tail = store.read_log("w", next).unwrap();
                    assert!(tail.next >= next && tail.durable <= tail.next);
                    did.read.extend(tail.entries);
                    next = tail.next;
                }
                did
            })
        };
        let mut tasks: Vec<_> = (0..3).map(append).collect();
        tasks.extend([read(), read()]);
        let did = machine.interleave(tasks);

        let store = open(&machine).unwrap();
        drop(store.own_log("w").unwrap());
        machine.crash();
        let tail = open(&machine).unwrap().read_log("w", 0).unwrap();
        let found = payloads(&tail);
        let mut by_process: BTreeMap<usize, Vec<Vec<u8>>> = BTreeMap::new();
        for entry in &found {
            let process = usize::from(entry[0] - b'0');
            by_process.entry(process).or_default().push(entry.clone());
        }
        for (process, did) in did.iter().enumerate() {
            let there = by_process.remove(&process).unwrap_or_default();
            let count = did.acknowledged.len();
            assert!(there.len() >= count && there[..count] == did.acknowledged);
            assert!(
                there[count..].is_empty() || there[count..] == did.in_flight.clone().into_iter().collect::<Vec<_>>()
            );
            // A reader saw a prefix of the present log.
            assert!(did.read == tail.entries[..did.read.len()], "a reader saw something else");
        }
    });
}

#[test]
fn the_same_seed_gives_the_same_history() {
    let history = |seed: u64| {
        let machine = SimDisk::new(seed);
        let task = |process: u8| -> Task<'_, Vec<bool>> {
            Box::new(move |disk| {
                let store = LocalStore::on_disk(disk, Path::new(STORE)).unwrap();
                let put = |name: u8| store.put_if_absent(&format!("n{name}"), &[process]).unwrap();
                (0..5).map(put).collect()
            })
        };
        let won = machine.interleave((0..3).map(task).collect());
        (won, machine.calls())
    };
    for_seeds(20, |seed| assert_eq!(history(seed), history(seed)));
    assert!((1..20).any(|seed| history(seed).0 != history(0).0), "chance has no effect");
}
