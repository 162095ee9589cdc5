//! A dictionary behaves like a sorted map, through checkpoints, compactions and reopening.

use std::ops::Bound;
use std::path::Path;

use kubist_kv::{Batch, Error, Snapshot, Writer};
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::{Model, contents, disk};

#[derive(Clone, Debug)]
enum Step {
    Commit(Vec<(Vec<u8>, Option<Vec<u8>>)>),
    Checkpoint,
    Compact,
    Reopen,
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(0u8..4, 0..5),
        (0u16..600).prop_map(|number| format!("prefix/{number:05}").into_bytes()),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let change = (key(), prop::option::weighted(0.7, prop::collection::vec(any::<u8>(), 0..200)));
    prop_oneof![
        8 => prop::collection::vec(change, 0..80).prop_map(Step::Commit),
        1 => Just(Step::Checkpoint),
        1 => Just(Step::Compact),
        1 => Just(Step::Reopen),
    ]
}

fn batch(changes: &[(Vec<u8>, Option<Vec<u8>>)], model: &mut Model) -> Batch {
    let mut batch = Batch::new();
    for (key, value) in changes {
        match value {
            Some(value) => {
                batch.put(key, value).unwrap();
                model.insert(key.clone(), value.clone());
            }
            None => {
                batch.delete(key).unwrap();
                model.remove(key);
            }
        }
    }
    batch
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn it_is_a_sorted_map(steps in prop::collection::vec(step(), 1..40), low in key(), high in key()) {
        let folder = tempfile::tempdir().unwrap();
        let disk = disk(folder.path());
        let (mut writer, mut model) = (Writer::open(&disk, folder.path(), "k").unwrap(), Model::new());
        let mut old: Vec<(Snapshot, Model)> = Vec::new();
        for step in steps {
            match step {
                Step::Commit(changes) => {
                    old.push((writer.snapshot(), model.clone()));
                    writer.commit(&batch(&changes, &mut model)).unwrap();
                }
                Step::Checkpoint => writer.checkpoint().unwrap(),
                Step::Compact => writer.compact().unwrap(),
                Step::Reopen => {
                    drop(writer);
                    writer = Writer::open(&disk, folder.path(), "k").unwrap();
                }
            }
            let now = writer.snapshot();
            prop_assert_eq!(&contents(&now).unwrap(), &model);
            let other = Snapshot::open(&disk, folder.path(), "k").unwrap();
            prop_assert_eq!(&contents(&other).unwrap(), &model);
            prop_assert_eq!(now.get(&low).unwrap(), model.get(&low).cloned());
            if low <= high {
                let range = (Bound::Excluded(&low[..]), Bound::Included(&high[..]));
                let found: Model = now.range(range).unwrap().map(Result::unwrap).collect();
                let expected: Model = match low == high {
                    true => Model::new(),
                    false => {
                        let range = model.range::<[u8], _>(range);
                        range.map(|(key, value)| (key.clone(), value.clone())).collect()
                    }
                };
                prop_assert_eq!(found, expected);
            }
        }
        // Commits, checkpoints and compactions do not change snapshots.
        for (snapshot, expected) in old {
            prop_assert_eq!(contents(&snapshot).unwrap(), expected);
        }
    }
}

#[test]
fn many_keys_make_a_tree_of_several_levels() {
    let folder = tempfile::tempdir().unwrap();
    let disk = disk(folder.path());
    let mut random = StdRng::seed_from_u64(1);
    let (mut writer, mut model) = (Writer::open(&disk, folder.path(), "k").unwrap(), Model::new());
    for _ in 0..40 {
        let changes: Vec<_> = (0..2000)
            .map(|_| {
                let key = random.random_range(0..60_000u32).to_be_bytes().to_vec();
                (key, random.random_bool(0.8).then(|| vec![random.random(); random.random_range(0..100)]))
            })
            .collect();
        writer.commit(&batch(&changes, &mut model)).unwrap();
    }
    assert_eq!(contents(&writer.snapshot()).unwrap(), model);
    writer.compact().unwrap();
    let all: u64 = model.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum();
    assert!(writer.file_bytes() < 2 * all, "{} bytes for {all}", writer.file_bytes());
    drop(writer);
    assert_eq!(contents(&Snapshot::open(&disk, folder.path(), "k").unwrap()).unwrap(), model);
    let mut writer = Writer::open(&disk, folder.path(), "k").unwrap();
    let everything: Vec<_> = model.keys().map(|key| (key.clone(), None)).collect();
    writer.commit(&batch(&everything, &mut model)).unwrap();
    assert_eq!((writer.snapshot().keys(), contents(&writer.snapshot()).unwrap()), (0, Model::new()));
}

#[test]
fn a_file_that_grows_is_compacted() {
    let folder = tempfile::tempdir().unwrap();
    let disk = disk(folder.path());
    let mut writer = Writer::open(&disk, folder.path(), "k").unwrap();
    let value = vec![5; 1 << 20];
    for round in 0..100u8 {
        let mut batch = Batch::new();
        batch.put(&[round % 4], &value).unwrap();
        writer.commit(&batch).unwrap();
    }
    assert!(writer.file_bytes() < 40 << 20, "{}", writer.file_bytes());
    let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(files.len(), 2, "the file and its lock: {files:?}");
    assert_eq!(writer.snapshot().get(&[3]).unwrap(), Some(value));
}

#[test]
fn a_keyspace_has_one_writer_and_others_are_apart() {
    let folder = tempfile::tempdir().unwrap();
    let disk = disk(folder.path());
    let open = |name: &str| Writer::open(&disk, folder.path(), name);
    let mut one = open("one").unwrap();
    assert!(matches!(open("one"), Err(Error::Busy { .. })));
    let mut other = open("one.00000001").unwrap();
    for (writer, value) in [(&mut one, b"1"), (&mut other, b"2")] {
        let mut batch = Batch::new();
        batch.put(b"key", value).unwrap();
        writer.commit(&batch).unwrap();
    }
    drop(one);
    let one = open("one").unwrap();
    assert_eq!(one.snapshot().get(b"key").unwrap().unwrap(), b"1");
    assert_eq!(other.snapshot().get(b"key").unwrap().unwrap(), b"2");
    assert!(matches!(Snapshot::open(&disk, folder.path(), "absent"), Err(Error::Missing { .. })));
    for name in ["", "../x", "a/b", ".hidden"] {
        assert!(matches!(open(name), Err(Error::Invalid(_))), "{name}");
    }
}

#[test]
fn the_longest_keys_and_long_values() {
    let folder = tempfile::tempdir().unwrap();
    let disk = disk(folder.path());
    let mut writer = Writer::open(&disk, folder.path(), "k").unwrap();
    let (long, value) = (vec![9; 64 << 10], vec![8; 40 << 20]);
    let mut batch = Batch::new();
    batch.put(b"", b"").unwrap();
    batch.put(&long, &value).unwrap();
    batch.put(&[&long[..7], &[1]].concat(), &long).unwrap();
    assert!(matches!(batch.put(&vec![0; (64 << 10) + 1], b""), Err(Error::Invalid(_))));
    writer.commit(&batch).unwrap();
    drop(writer);
    let snapshot = Snapshot::open(&disk, Path::new(folder.path()), "k").unwrap();
    assert_eq!(snapshot.get(b"").unwrap().unwrap(), b"");
    assert!(snapshot.get(&long).unwrap().unwrap() == value);
    assert_eq!(snapshot.keys(), 3);
}
