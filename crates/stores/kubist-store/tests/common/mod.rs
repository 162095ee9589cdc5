//! Shared code of the simulated tests.

use std::path::{Path, PathBuf};

use kubist_simulate::SimDisk;
use kubist_store::{LocalStore, LogTail, Result};
use rand::Rng;
use rand::rngs::StdRng;

pub const STORE: &str = "/data/store";

pub fn open(machine: &SimDisk) -> Result<LocalStore> {
    LocalStore::on_disk(machine.process(), Path::new(STORE))
}

pub fn file(name: &str) -> PathBuf {
    Path::new(STORE).join(name)
}

/// Runs a test with many seeds, and prints the seed that fails. `SEED=n` runs only this seed, `SEEDS=n` the first n.
pub fn for_seeds(usual: u64, test: impl Fn(u64)) {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SEEDS").unwrap_or(usual),
    };
    for seed in seeds {
        let run = std::panic::AssertUnwindSafe(|| test(seed));
        if let Err(panic) = std::panic::catch_unwind(run) {
            eprintln!("broken by SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

pub fn bytes(random: &mut StdRng, most: usize) -> Vec<u8> {
    let most = if random.random_bool(0.5) { most } else { most.min(40) };
    let mut bytes = vec![0; random.random_range(0..most)];
    random.fill(&mut bytes[..]);
    bytes
}

pub fn payloads(tail: &LogTail) -> Vec<Vec<u8>> {
    tail.entries.iter().map(|entry| entry.bytes.to_vec()).collect()
}
