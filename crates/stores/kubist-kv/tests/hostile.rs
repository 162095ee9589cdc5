//! Damaged and hostile files give an error or the correct content, and never a panic.

use std::path::{Path, PathBuf};

use kubist_kv::{Batch, Error, Snapshot, Writer};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::{Model, contents, disk};

fn keyspace(folder: &Path) -> (PathBuf, Vec<Model>) {
    let disk = disk(folder);
    let mut writer = Writer::open(&disk, folder, "k").unwrap();
    let (mut model, mut all) = (Model::new(), vec![]);
    for round in 0..4u8 {
        let mut batch = Batch::new();
        for number in 0..100u8 {
            let (key, value) = (vec![b'k', number, round], vec![round; usize::from(number) * 2]);
            batch.put(&key, &value).unwrap();
            model.insert(key, value);
        }
        writer.commit(&batch).unwrap();
        if round == 1 {
            writer.checkpoint().unwrap();
        }
        all.push(model.clone());
    }
    (folder.join("k.00000001.kv"), all)
}

fn read(folder: &Path) -> Result<Model, Error> {
    contents(&Snapshot::open(&disk(folder), folder, "k")?)
}

#[test]
fn no_flipped_bit_changes_the_content() {
    let folder = tempfile::tempdir().unwrap();
    let (path, states) = keyspace(folder.path());
    let good = std::fs::read(&path).unwrap();
    let last = states.last().unwrap();
    assert_eq!(&read(folder.path()).unwrap(), last);
    let mut random = StdRng::seed_from_u64(5);
    let mut refused = 0;
    for round in 0..4000 {
        let mut bytes = good.clone();
        // The slots of the superblocks are mostly empty.
        let at = if round % 4 == 0 { random.random_range(0..8192) } else { random.random_range(8192..good.len()) };
        bytes[at] ^= 1 << random.random_range(0..8);
        std::fs::write(&path, &bytes).unwrap();
        match read(folder.path()) {
            Ok(found) => assert!(&found == last, "byte {at} changed the content"),
            Err(Error::Damaged { .. } | Error::Newer { .. }) => refused += 1,
            Err(error) => panic!("byte {at}: {error}"),
        }
    }
    assert!(refused > 500, "{refused}");
}

#[test]
fn a_log_that_was_cut_is_damage() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = keyspace(folder.path());
    let good = std::fs::read(&path).unwrap();
    for length in (0..good.len()).step_by(97) {
        std::fs::write(&path, &good[..length]).unwrap();
        let found = read(folder.path());
        let is_refused = matches!(found, Err(Error::Damaged { .. } | Error::Missing { .. }));
        assert!(is_refused, "{length}: {found:?}");
    }
}

#[test]
fn an_unfinished_batch_is_absent() {
    let folder = tempfile::tempdir().unwrap();
    let (path, states) = keyspace(folder.path());
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[2048..2060].fill(0);
    bytes.truncate(bytes.len() - 5);
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(read(folder.path()).unwrap(), states[2]);
    let disk = disk(folder.path());
    let mut writer = Writer::open(&disk, folder.path(), "k").unwrap();
    let mut batch = Batch::new();
    batch.put(b"new", b"value").unwrap();
    writer.commit(&batch).unwrap();
    drop(writer);
    assert_eq!(read(folder.path()).unwrap().len(), states[2].len() + 1);
}

#[test]
fn random_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = keyspace(folder.path());
    let good = std::fs::read(&path).unwrap();
    let mut random = StdRng::seed_from_u64(6);
    for _ in 0..500 {
        let mut bytes = good.clone();
        for _ in 0..random.random_range(1..200) {
            let at = random.random_range(0..bytes.len());
            bytes[at] = random.random();
        }
        bytes.truncate(random.random_range(0..=good.len()));
        std::fs::write(&path, &bytes).unwrap();
        let _ = read(folder.path());
    }
    std::fs::write(&path, vec![7; 100_000]).unwrap();
    assert!(matches!(read(folder.path()), Err(Error::Damaged { .. })));
}
