//! Power failures at any call, on a disk that tears, reorders and loses unsynced writes. An acknowledged batch stays,
//! and an unacknowledged batch is complete or absent. `SEEDS=20000` runs a campaign, and `SEED` is its first seed.

use std::path::Path;
use std::sync::Arc;

use kubist_kv::{Batch, Snapshot, Writer};
use kubist_simulate::SimDisk;
use kubist_store::disk::Disk;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::{Model, contents};

fn from_environment(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().map_or(usual, |value| value.parse().unwrap())
}

fn change(random: &mut StdRng, before: &Model) -> (Batch, Model) {
    let (mut batch, mut after) = (Batch::new(), before.clone());
    for _ in 0..random.random_range(1..12) {
        let key = format!("{:03}", random.random_range(0..200)).into_bytes();
        match random.random_bool(0.7) {
            true => {
                let length = if random.random_bool(0.1) { 9000 } else { random.random_range(0..150) };
                let value = vec![random.random(); length];
                batch.put(&key, &value).unwrap();
                after.insert(key, value);
            }
            false => {
                batch.delete(&key).unwrap();
                after.remove(&key);
            }
        }
    }
    (batch, after)
}

fn survive(seed: u64) -> u64 {
    let directory = Path::new("/d");
    let (machine, mut random) = (SimDisk::new(seed), StdRng::seed_from_u64(seed));
    let process = machine.process();
    process.create_directory(directory).unwrap();
    process.sync_directory(Path::new("/")).unwrap();
    let (mut acknowledged, mut commits) = (Model::new(), 0);
    for _ in 0..6 {
        let disk: Arc<dyn Disk> = machine.process();
        machine.crash_after(random.random_range(0..120));
        let mut pending: Option<Model> = None;
        if let Ok(mut writer) = Writer::open(&disk, directory, "k") {
            for _ in 0..30 {
                let done = match random.random_range(0..10) {
                    0 => writer.checkpoint(),
                    1 => writer.compact(),
                    _ => {
                        let (batch, after) = change(&mut random, &acknowledged);
                        pending = Some(after.clone());
                        let done = writer.commit(&batch);
                        if done.is_ok() {
                            (acknowledged, pending) = (after, None);
                            commits += 1;
                        }
                        done
                    }
                };
                if done.is_err() {
                    break;
                }
                // The power may fail during a read too.
                match contents(&writer.snapshot()) {
                    Ok(found) => assert_eq!(found, acknowledged, "seed {seed}"),
                    Err(_) => break,
                }
            }
        }
        machine.crash();
        let disk: Arc<dyn Disk> = machine.process();
        let writer = Writer::open(&disk, directory, "k").unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let found = contents(&writer.snapshot()).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(
            found == acknowledged || pending.as_ref() == Some(&found),
            "seed {seed}: {} keys instead of {}",
            found.len(),
            acknowledged.len()
        );
        let other = Snapshot::open(&disk, directory, "k").unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(contents(&other).unwrap(), found, "seed {seed}");
        acknowledged = found;
        drop(writer);
        // The content of a reopened keyspace is durable.
        machine.crash();
    }
    commits
}

#[test]
fn no_crash_loses_or_divides_a_batch() {
    let first = from_environment("SEED", 0);
    let commits: u64 = (first..first + from_environment("SEEDS", 300)).map(survive).sum();
    assert!(commits > 0);
}
