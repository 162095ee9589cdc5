//! A sealed file returns the written content, keeps the read part of the trait's guarantees, and is refused after any
//! change.

use std::path::PathBuf;

use kubist_store::{Abilities, Answers, Latency, Reads, Stamp, Stamps, StoreExt, Watch, conformance};
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::extents::checksum;
use crate::format::{FOOTER_BYTES, HEADER_BYTES};
use crate::{LocalFile, SealedFiles, SealedStore, Source};

/// A store whose writes go to a packer, and whose reads each use a newly sealed file.
#[derive(Debug)]
struct Resealed {
    packer: Packer,
    _folder: TempDir,
}

impl Resealed {
    fn new() -> Resealed {
        let folder = tempfile::tempdir().unwrap();
        Resealed { packer: Packer::create(&folder.path().join("t")).unwrap(), _folder: folder }
    }

    fn sealed(&self) -> SealedStore {
        self.packer.write_end().unwrap();
        opened(&self.packer.file.temporary).unwrap().unwrap()
    }
}

fn opened(path: &Path) -> Result<Option<SealedStore>> {
    SealedStore::open(Arc::new(LocalFile::open(path)?))
}

impl Store for Resealed {
    fn location(&self) -> &str {
        self.packer.location()
    }
    fn capabilities(&self) -> Capabilities {
        self.packer.capabilities()
    }
    fn abilities(&self) -> Abilities<'_> {
        Abilities { reads: Some(self), stamps: Some(self), ..Abilities::default() }
    }
    fn put_if_absent(&self, name: &str, value: &[u8]) -> Result<bool> {
        self.packer.put_if_absent(name, value)
    }
    fn get(&self, name: &str) -> Result<Option<Bytes>> {
        self.sealed().get(name)
    }
    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.sealed().list(prefix)
    }
    fn delete(&self, name: &str) -> Result<()> {
        self.packer.delete(name)
    }
    fn create_segment(&self, name: &str) -> Result<Box<dyn Segment>> {
        self.packer.create_segment(name)
    }
    fn read(&self, segment: &str, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.sealed().read(segment, ranges)
    }
    fn segment_len(&self, segment: &str) -> Result<Option<u64>> {
        self.sealed().segment_len(segment)
    }
    fn segments(&self) -> Result<Vec<String>> {
        self.sealed().segments()
    }
    fn delete_segment(&self, segment: &str) -> Result<()> {
        self.packer.delete_segment(segment)
    }
    fn own_log(&self, writer: &str) -> Result<Box<dyn LogOwner>> {
        self.packer.own_log(writer)
    }
    fn logs(&self) -> Result<Vec<String>> {
        self.sealed().logs()
    }
    fn read_log(&self, writer: &str, from: u64) -> Result<LogTail> {
        self.sealed().read_log(writer, from)
    }
    fn sizes(&self) -> Result<Vec<Size>> {
        self.sealed().sizes()
    }
    fn erase(&self, objects: &[String]) -> Result<()> {
        self.packer.erase(objects)
    }
}

impl Reads for Resealed {
    fn read_segments(&self, wanted: &[(&str, &[Range<u64>])], watch: Watch<'_>) -> Result<Answers> {
        StoreExt::read_segments(&self.sealed(), wanted, watch)
    }
    fn read_short(&self, wanted: &[(&str, &[Range<u64>])], watch: Watch<'_>) -> Result<Answers> {
        StoreExt::read_short(&self.sealed(), wanted, watch)
    }
    fn list_after(&self, prefix: &str, after: &str) -> Result<Vec<String>> {
        StoreExt::list_after(&self.sealed(), prefix, after)
    }
    fn waited(&self) -> bool {
        false
    }
}

impl Stamps for Resealed {
    fn stamp(&self, name: &str) -> Result<Stamp> {
        StoreExt::stamp(&self.sealed(), name)
    }
    fn log_stamps(&self, entries: &[(&str, u64)]) -> Result<Vec<Stamp>> {
        StoreExt::log_stamps(&self.sealed(), entries)
    }
}

#[test]
fn a_sealed_file_keeps_the_read_part_of_the_promises() {
    conformance::run(&mut || Arc::new(Resealed::new()));
}

/// A file with two objects, a log and two segments, one in two extents.
fn small(folder: &Path) -> PathBuf {
    let path = folder.join("small");
    let packer = Packer::create(&path).unwrap();
    packer.put_if_absent("table", b"header").unwrap();
    packer.put_if_absent("rewrites/01", b"").unwrap();
    let mut log = packer.own_log("w").unwrap();
    log.append(b"one").unwrap();
    log.append(b"two").unwrap();
    let mut segments = ["a", "b"].map(|name| packer.create_segment(name).unwrap());
    for segment in [0, 1, 0] {
        segments[segment].append(&[b"rows of it"]).unwrap();
        segments[segment].sync().unwrap();
    }
    let length = packer.seal().unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), length);
    path
}

/// Reads everything, with the checksums of the store only.
fn contents(store: &SealedStore) -> Result<Vec<Bytes>> {
    store.check(&mut |_, _| Ok(()))?;
    let mut all = vec![store.get("table")?.unwrap_or_default(), store.get("rewrites/01")?.unwrap_or_default()];
    all.extend(store.read_log("w", 0)?.entries.into_iter().map(|entry| entry.bytes));
    all.extend(store.read("a", &[0..20, 5..15])?);
    all.extend(store.read("b", &[0..10])?);
    Ok(all)
}

const CONTENTS: [&str; 7] = ["header", "", "one", "two", "rows of itrows of it", "of itrows ", "rows of it"];

#[test]
fn every_flipped_bit_and_every_other_length_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = small(folder.path());
    assert_eq!(contents(&opened(&path).unwrap().unwrap()).unwrap(), CONTENTS);
    let (good, bad) = (std::fs::read(&path).unwrap(), folder.path().join("bad"));
    let is_refused = |bytes: &[u8]| {
        std::fs::write(&bad, bytes).unwrap();
        match opened(&bad) {
            Ok(None) => true,
            Ok(Some(store)) => matches!(contents(&store), Err(Error::Damaged { .. })),
            Err(error) => matches!(error, Error::Damaged { .. } | Error::Newer { .. }),
        }
    };
    for bit in 0..good.len() * 8 {
        let mut bytes = good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(is_refused(&bytes), "bit {bit}");
    }
    for length in 0..good.len() {
        assert!(is_refused(&good[..length]), "{length}");
    }
    assert!(is_refused(&[&good[..], &[0]].concat()));
    std::fs::write(&bad, &good[..good.len() - 1]).unwrap();
    let error = opened(&bad).map(drop).unwrap_err().to_string();
    assert!(error.contains("truncated"), "{error}");
}

#[test]
fn bytes_of_another_file_or_position_are_refused() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (path, other) = (small(one.path()), small(two.path()));
    let (good, foreign) = (std::fs::read(&path).unwrap(), std::fs::read(other).unwrap());
    assert_eq!(good.len(), foreign.len());
    // The contents are equal, but halves of different files are no file.
    for cut in [16, HEADER_BYTES as usize, 40, good.len() - FOOTER_BYTES as usize] {
        std::fs::write(&path, [&good[..cut], &foreign[cut..]].concat()).unwrap();
        let found = opened(&path).map(|store| contents(&store.unwrap()));
        // The header alone has no bytes that differ before the random number.
        let is_whole = matches!(&found, Ok(Ok(all)) if *all == CONTENTS);
        assert!(is_whole == (cut == 16) && (is_whole || matches!(found, Err(Error::Damaged { .. }))), "{cut}");
    }
    // The extents are equally long, so each is at a wrong position.
    let mut exchanged = good.clone();
    let at = |word: &[u8]| good.windows(3).position(|found| found == word).unwrap();
    let (first, second) = (at(b"one"), at(b"two"));
    exchanged[first..first + 3].copy_from_slice(b"two");
    exchanged[second..second + 3].copy_from_slice(b"one");
    std::fs::write(&path, exchanged).unwrap();
    let answer = opened(&path).unwrap().unwrap().read_log("w", 0);
    assert!(matches!(answer, Err(Error::Damaged { .. })), "{answer:?}");
}

#[test]
fn a_file_that_changes_while_it_is_open_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let packer = Packer::create(&path).unwrap();
    let mut segment = packer.create_segment("s").unwrap();
    segment.append(&[&vec![1; 1 << 20]]).unwrap();
    segment.sync().unwrap();
    packer.seal().unwrap();
    let store = opened(&path).unwrap().unwrap();
    assert_eq!(store.read("s", &[7..9]).unwrap(), [&[1u8, 1][..]]);
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(100).unwrap();
    for range in [0..10, 500_000..500_010] {
        let answer = store.read("s", std::slice::from_ref(&range));
        assert!(matches!(answer, Err(Error::Refused { .. })), "{range:?}: {answer:?}");
    }
}

#[test]
fn every_write_is_refused_and_names_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(&small(folder.path())).unwrap().unwrap();
    let answers = [
        store.put_if_absent("table", b"").map(drop),
        store.delete("table"),
        store.create_segment("c").map(drop),
        store.delete_segment("a"),
        store.own_log("w").map(drop),
        store.own_free_log("w").map(drop),
        store.erase(&[]),
        StoreExt::share(&store),
    ];
    for answer in answers {
        let Err(Error::Io { source, .. }) = &answer else { panic!("{answer:?}") };
        assert_eq!(source.kind(), io::ErrorKind::ReadOnlyFilesystem);
        let error = answer.unwrap_err().to_string();
        assert!(error.contains(&format!("kubist unpack {} TABLE", store.location())), "{error}");
    }
}

#[test]
fn a_name_is_given_once_and_a_failure_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let (one, two) = (Packer::create(&path).unwrap(), Packer::create(&path).unwrap());
    one.seal().unwrap();
    let answer = two.seal();
    assert!(matches!(answer, Err(Error::Exists { .. })), "{answer:?}");
    assert!(matches!(Packer::create(&path).map(drop), Err(Error::Exists { .. })));
    drop((one, two));
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["t"]);
}

#[test]
fn a_file_is_recognised_by_its_magic() {
    use kubist_store::{Content, Directories, Scheme};
    let folder = tempfile::tempdir().unwrap();
    let path = small(folder.path());
    let at = |path: &Path| SealedFiles(Arc::new(Directories)).read(path.to_str().unwrap()).unwrap();
    let Ok(Content::Store(store)) = at(&path).find() else { panic!("it is a store") };
    assert_eq!(
        (store.get("table").unwrap().unwrap(), store.capabilities().latency),
        ("header".into(), Latency::Device)
    );
    assert_eq!((at(&path).has_other_files().unwrap(), at(&path).noun()), (false, "the file"));
    std::fs::write(folder.path().join("other.kubist1"), "text").unwrap();
    let found = at(&folder.path().join("other.kubist1")).find();
    assert!(matches!(found, Ok(Content::NoStore("it is a file, not a directory"))), "{found:?}");
    assert!(matches!(at(&folder.path().join("absent")).find(), Ok(Content::Nothing)));
    std::fs::write(&path, &std::fs::read(&path).unwrap()[..50]).unwrap();
    assert!(matches!(at(&path).find(), Err(Error::Damaged { .. })));
    at(&folder.path().join("table")).create().unwrap();
    assert!(matches!(at(&folder.path().join("table")).find(), Ok(Content::Store(_))));
}

#[test]
fn one_read_of_the_end_opens_a_file() {
    #[derive(Debug)]
    struct Counted(LocalFile, Mutex<Vec<Range<u64>>>);
    impl Source for Counted {
        fn location(&self) -> &str {
            self.0.location()
        }
        fn latency(&self) -> Latency {
            Latency::Network
        }
        fn tail(&self, bytes: u64) -> Result<(Bytes, u64)> {
            self.0.tail(bytes)
        }
        fn read(&self, ranges: &[Range<u64>], watch: Watch<'_>) -> Result<Vec<Bytes>> {
            self.1.lock().unwrap().extend_from_slice(ranges);
            self.0.read(ranges, watch)
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let packer = Packer::create(&path).unwrap();
    packer.put_if_absent("big", &vec![3; 1 << 20]).unwrap();
    packer.put_if_absent("small", &[4; 1000]).unwrap();
    packer.seal().unwrap();
    let source = Arc::new(Counted(LocalFile::open(&path).unwrap(), Mutex::default()));
    let store = SealedStore::open(source.clone()).unwrap().unwrap();
    assert_eq!(store.get("small").unwrap().unwrap().len(), 1000);
    assert!(source.1.lock().unwrap().is_empty());
    assert_eq!(store.get("big").unwrap().unwrap().len(), 1 << 20);
    assert_eq!(*source.1.lock().unwrap(), [HEADER_BYTES..HEADER_BYTES + (1 << 20)]);
}

/// A file with any bytes as its tree, and right checksums.
fn of_tree(path: &Path, body: &[u8], tree: &[u8]) {
    let nonce = [9; 16];
    let position = HEADER_BYTES + body.len() as u64;
    let extent = Extent { position, length: tree.len() as u64, checksum: checksum(&nonce, position, tree) };
    let footer = Footer { nonce, tree: extent }.encode();
    std::fs::write(path, [&header(&nonce)[..], body, tree, &footer].concat()).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Changed trees with right checksums are refused, or lead to bytes inside the file.
    #[test]
    fn hostile_trees_are_refused_or_harmless(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = small(folder.path());
        let file = std::fs::read(&path).unwrap();
        let footer = Footer::decode(&file, file.len() as u64).unwrap();
        let range = footer.tree.position as usize..footer.tree.end() as usize;
        let mut tree = file[range.clone()].to_vec();
        for (at, byte) in changes {
            let at = at.index(tree.len());
            tree[at] = byte;
        }
        if let Some(cut) = cut {
            tree.truncate(cut.index(tree.len()));
        }
        of_tree(&path, &file[HEADER_BYTES as usize..range.start], &tree);
        if let Ok(Some(store)) = opened(&path) {
            for name in store.list("").unwrap() {
                let _ = store.get(&name);
            }
            for writer in store.logs().unwrap() {
                let _ = store.read_log(&writer, 0);
            }
            let mut all = 0;
            for segment in store.segments().unwrap() {
                let length = store.segment_len(&segment).unwrap().unwrap();
                all += store.read(&segment, &[0..length]).unwrap()[0].len();
            }
            prop_assert!(all <= file.len(), "{all} bytes from a file of {}", file.len());
            let _ = store.check(&mut |_, _| Ok(()));
        }
    }

    #[test]
    fn contents_come_back(
        objects in prop::collection::btree_map("[a-z]{1,8}", prop::collection::vec(any::<u8>(), 0..300), 0..8),
        appends in prop::collection::vec((0usize..4, prop::collection::vec(any::<u8>(), 0..2000), any::<bool>()), 0..30),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        let packer = Packer::create(&path).unwrap();
        for (name, value) in &objects {
            packer.put_if_absent(&format!("o-{name}"), value).unwrap();
        }
        let mut written: Vec<(Box<dyn Segment>, Vec<u8>)> =
            (0..4).map(|number| (packer.create_segment(&format!("s{number}")).unwrap(), Vec::new())).collect();
        for (number, bytes, syncs) in &appends {
            let (segment, all) = &mut written[*number];
            prop_assert_eq!(segment.append(&[bytes]).unwrap(), all.len() as u64);
            all.extend(bytes);
            if *syncs {
                segment.sync().unwrap();
            }
        }
        for (segment, all) in &mut written {
            segment.sync().unwrap();
            let range = 0..all.len() as u64;
            prop_assert_eq!(&packer.read(segment.name(), std::slice::from_ref(&range)).unwrap()[0], &all[..]);
        }
        packer.seal().unwrap();
        let store = opened(&path).unwrap().unwrap();
        store.check(&mut |_, _| Ok(())).unwrap();
        for (name, value) in &objects {
            prop_assert_eq!(store.get(&format!("o-{name}")).unwrap().unwrap(), value);
        }
        for (segment, all) in &written {
            let half = all.len() as u64 / 2;
            let read = store.read(segment.name(), &[0..all.len() as u64, half..all.len() as u64]).unwrap();
            prop_assert!(read[0] == all[..] && read[1] == all[half as usize..]);
        }
    }
}
