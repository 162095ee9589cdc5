//! A directory from an untrusted source, with links, pipes, sockets and folders at the paths of the store's files. No
//! call touches anything outside the directory or blocks for ever. The error names the path.

#![allow(clippy::single_range_in_vec_init)] // a list of one range is meant

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use kubist_store::disk::Sort;
use kubist_store::{Error, LocalStore, Result, Store, StoreExt, open_local};
use rustix::fs::{CWD, FileType, Mode, mknodat};

const HANGS: Duration = Duration::from_secs(10);

/// A store with objects at two depths, a log and a segment, next to a folder with other files.
struct Workdir {
    folder: tempfile::TempDir,
}

impl Workdir {
    fn new() -> Workdir {
        let workdir = Workdir { folder: tempfile::tempdir().unwrap() };
        let store = LocalStore::create(&workdir.root()).unwrap();
        store.put_if_absent("table", b"header").unwrap();
        store.put_if_absent("rewrites/1", b"rewrite").unwrap();
        store.own_log("w").unwrap().append(b"entry").unwrap();
        let mut segment = store.create_segment("s").unwrap();
        segment.append(&[b"rows"]).unwrap();
        segment.sync().unwrap();
        for name in ["tmp", "logs", "segments", "rewrites"] {
            fs::create_dir_all(workdir.outside().join(name)).unwrap();
        }
        for name in ["0123456789abcdef", "letter", "table", "tmp/letter", "logs/w.log", "logs/w.ack", "segments/s.seg"]
        {
            fs::write(workdir.outside().join(name), format!("somebody's own {name}")).unwrap();
        }
        workdir
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("table")
    }

    fn outside(&self) -> PathBuf {
        self.folder.path().join("outside")
    }

    fn open(&self) -> LocalStore {
        open_local(&self.root()).unwrap()
    }

    fn remove(&self, name: &str) -> PathBuf {
        let at = self.root().join(name);
        match at.is_dir() {
            true => fs::remove_dir_all(&at).unwrap(),
            false => fs::remove_file(&at).unwrap(),
        }
        at
    }
}

fn contents(at: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(at).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            let bytes = if path.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
            found.insert(path, bytes);
        }
    }
    found
}

type Operation = (&'static str, fn(&LocalStore) -> Result<()>);
const OPERATIONS: [Operation; 17] = [
    ("list", |store| store.list("").map(drop)),
    ("get", |store| store.get("table").map(drop)),
    ("get below", |store| store.get("rewrites/1").map(drop)),
    ("logs", |store| store.logs().map(drop)),
    ("read_log", |store| store.read_log("w", 0).map(drop)),
    ("check_log", |store| store.check_log("w").map(drop)),
    ("own_log", |store| store.own_log("w")?.append(b"more").map(drop)),
    ("own another", |store| store.own_log("v")?.append(b"first").map(drop)),
    ("segments", |store| store.segments().map(drop)),
    ("segment_len", |store| store.segment_len("s").map(drop)),
    ("read", |store| store.read("s", &[16..20]).map(drop)),
    ("put", |store| store.put_if_absent("rewrites/2", b"2").map(drop)),
    ("put taken", |store| store.put_if_absent("table", b"2").map(drop)),
    ("create_segment", |store| store.create_segment("t").map(drop)),
    ("scratch", |store| store.scratch()?.append(b"spilled").map(drop)),
    ("sizes", |store| store.sizes().map(drop)),
    ("delete", |store| store.delete("rewrites/1").and(store.delete_segment("s"))),
];

/// The operations whose error names `at` and this type.
fn ask_everything(store: &LocalStore, at: &Path, sort: Sort) -> Vec<&'static str> {
    let mut refused = Vec::new();
    for (operation, ask) in OPERATIONS {
        match ask(store) {
            Ok(()) => {}
            Err(Error::Irregular { file, found, .. }) => {
                assert_eq!((Path::new(&file), found), (at, sort), "{operation}");
                refused.push(operation);
            }
            // An object's name may not be a folder, and earlier operations deleted other objects.
            Err(Error::InvalidName { .. } | Error::Missing { .. }) => {}
            Err(error) => panic!("{operation} with {} as {sort}: {error:?}", at.display()),
        }
    }
    refused
}

fn within_bounds<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(HANGS).unwrap_or_else(|error| panic!("{what}: {error}"))
}

#[test]
fn no_folder_of_the_store_is_reached_through_a_link() {
    for (folder, expected) in [
        ("tmp", &["own another", "put", "scratch"][..]),
        ("logs", &["logs", "read_log", "check_log", "own_log", "own another"]),
        ("segments", &["segments", "segment_len", "read", "create_segment", "delete"]),
        ("rewrites", &["get below", "put", "delete"]),
    ] {
        for dangling in [false, true] {
            let workdir = Workdir::new();
            let at = workdir.remove(folder);
            symlink(if dangling { "../nowhere".into() } else { workdir.outside().join(folder) }, &at).unwrap();
            let before = contents(&workdir.outside());
            let refused = ask_everything(&workdir.open(), &at, Sort::Link);
            for operation in expected {
                assert!(refused.contains(operation), "{operation} with {folder} as a link: {refused:?}");
            }
            let _ = workdir.open().erase(&["rewrites/".into(), "table".into()]);
            assert_eq!(contents(&workdir.outside()), before, "{folder}");
            assert!(!workdir.folder.path().join("nowhere").exists());
        }
    }
}

#[test]
fn a_link_that_comes_after_the_store_was_opened_is_not_followed_either() {
    for folder in ["tmp", "logs", "segments", "rewrites"] {
        let workdir = Workdir::new();
        let store = workdir.open();
        store.put_if_absent("rewrites/3", b"3").unwrap();
        drop(store.own_log("w").unwrap());
        store.read_log("w", 0).unwrap();
        let at = workdir.remove(folder);
        symlink(workdir.outside().join(folder), &at).unwrap();
        let before = contents(&workdir.outside());
        assert!(!ask_everything(&store, &at, Sort::Link).is_empty(), "{folder}");
        assert_eq!(contents(&workdir.outside()), before, "{folder}");
    }
}

/// A child process would hold the locks of other tests' logs until its exec.
fn make_pipe(at: &Path) {
    let mode = Mode::RUSR | Mode::WUSR;
    mknodat(CWD, at, FileType::Fifo, mode, 0).unwrap();
}

fn replace(at: &Path, sort: Sort, outside: &Path) {
    match sort {
        Sort::Link => symlink(outside, at).unwrap(),
        Sort::Directory => fs::create_dir(at).unwrap(),
        Sort::Socket => drop(UnixListener::bind(at).unwrap()),
        Sort::Pipe => make_pipe(at),
        other => panic!("{other}"),
    }
}

#[test]
fn what_is_no_regular_file_is_refused_at_once() {
    for (file, expected) in [
        ("table", &["get", "put taken"][..]),
        ("rewrites/1", &["get below"]),
        ("logs/w.log", &["read_log", "check_log", "own_log"]),
        ("logs/w.ack", &["read_log", "check_log", "own_log"]),
        ("segments/s.seg", &["segment_len", "read"]),
    ] {
        for sort in [Sort::Link, Sort::Pipe, Sort::Socket, Sort::Directory] {
            // Among objects, a folder is permitted.
            let is_object = !file.starts_with("logs") && !file.starts_with("segments");
            let workdir = Workdir::new();
            let at = workdir.remove(file);
            replace(&at, sort, &workdir.outside().join(file));
            let (before, store) = (contents(&workdir.outside()), workdir.open());
            let asked_at = at.clone();
            let what = format!("{file} as {sort}");
            let refused = within_bounds(&what, move || ask_everything(&store, &asked_at, sort));
            for operation in expected.iter().filter(|_| !is_object || sort != Sort::Directory) {
                assert!(refused.contains(operation), "{operation} with {what}: {refused:?}");
            }
            assert!(workdir.open().logs().unwrap().contains(&"w".to_string()), "{what}");
            assert_eq!(contents(&workdir.outside()), before, "{what}");
        }
    }
}

#[test]
fn the_sound_part_of_a_log_that_is_a_link_is_none() {
    let workdir = Workdir::new();
    let at = workdir.remove("logs/w.log");
    symlink(workdir.outside().join("logs/w.log"), &at).unwrap();
    let sound = workdir.open().read_sound_log("w", 0).unwrap();
    assert_eq!(sound.entries, []);
    assert!(matches!(sound.damage, Some(Error::Irregular { .. })), "{:?}", sound.damage);
}

#[test]
fn folders_that_are_files_are_not_taken_for_empty() {
    for (folder, ask) in [
        ("logs", (|store| store.logs().map(drop)) as fn(&LocalStore) -> Result<()>),
        ("logs", |store| store.read_log("w", 0).map(drop)),
        ("segments", |store| store.segments().map(drop)),
        ("segments", |store| store.segment_len("s").map(drop)),
        ("segments", |store| store.delete_segment("s")),
    ] {
        let workdir = Workdir::new();
        let at = workdir.remove(folder);
        fs::write(&at, "a file").unwrap();
        let answer = ask(&workdir.open());
        let named = matches!(&answer, Err(Error::Irregular { file, found: Sort::File, .. }) if Path::new(file) == at);
        assert!(named, "{folder}: {answer:?}");
    }
}

#[test]
fn only_temporary_files_are_cleared_away() {
    let workdir = Workdir::new();
    let tmp = workdir.root().join("tmp");
    let left_behind = tmp.join("00ff00ff00ff00ff");
    fs::write(&left_behind, "of a dead process").unwrap();
    let others = ["letter", "0123456789ABCDEF", "0123456789abcde", "00123456789abcdef", "+123456789abcdef"];
    for name in others {
        fs::write(tmp.join(name), "mine").unwrap();
    }
    fs::create_dir(tmp.join("0123456789abcdef")).unwrap();
    symlink(workdir.outside().join("letter"), tmp.join("0123456789abcde0")).unwrap();
    make_pipe(&tmp.join("0123456789abcde1"));
    let before = contents(&workdir.outside());
    workdir.open().put_if_absent("a", b"").unwrap();
    assert!(!left_behind.exists());
    let _ = workdir.open().erase(&["table".into()]);
    assert!(others.iter().all(|name| tmp.join(name).exists()));
    assert!(tmp.join("0123456789abcdef").is_dir());
    assert_eq!(contents(&workdir.outside()), before);
}

/// The path of an acknowledgement is a second name of another file.
#[test]
fn what_is_no_acknowledgement_is_replaced_and_not_overwritten() {
    let workdir = Workdir::new();
    let at = workdir.remove("logs/w.ack");
    let letter = workdir.outside().join("letter");
    fs::hard_link(&letter, &at).unwrap();
    let before = contents(&workdir.outside());
    workdir.open().own_log("w").unwrap().append(b"more").unwrap();
    assert_eq!(contents(&workdir.outside()), before);
    assert_eq!(workdir.open().check_log("w").unwrap(), Vec::<String>::new());
}

#[test]
#[cfg(target_os = "linux")]
fn a_link_that_comes_and_goes_leads_nowhere() {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let workdir = Workdir::new();
    let (root, outside) = (workdir.root(), workdir.outside());
    let before = contents(&outside);
    let folders = ["tmp", "logs", "segments", "rewrites"];
    for folder in folders {
        symlink(outside.join(folder), root.join(format!(".{folder}"))).unwrap();
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                for folder in folders {
                    let (folder, link) = (root.join(folder), root.join(format!(".{folder}")));
                    renameat_with(CWD, &folder, CWD, &link, RenameFlags::EXCHANGE).unwrap();
                }
            }
        });
        let mut refused = 0;
        for round in 0..60 {
            // Opening looks for a mark in a folder, where there may be a link.
            let Ok(store) = open_local(&root) else {
                refused += 1;
                continue;
            };
            for (_, ask) in OPERATIONS {
                refused += u64::from(matches!(ask(&store), Err(Error::Irregular { .. })));
            }
            let _ = store.put_if_absent(&format!("rewrites/r{round}"), b"r");
            let _ = store.create_segment(&format!("r{round}"));
        }
        over.store(true, Ordering::Relaxed);
        assert!(refused > 0, "the links were never met");
    });
    assert_eq!(contents(&outside), before);
}

#[test]
fn the_directory_itself_may_be_reached_through_a_link() {
    let workdir = Workdir::new();
    let other = workdir.folder.path().join("other");
    symlink(workdir.root(), &other).unwrap();
    let store = open_local(&other).unwrap();
    assert_eq!(store.get("table").unwrap().unwrap(), "header");
    assert_eq!(store.read("s", &[16..20]).unwrap()[0], "rows");
    store.own_log("w").unwrap().append(b"more").unwrap();
    store.put_if_absent("rewrites/2", b"2").unwrap();
    assert_eq!(store.list("").unwrap(), ["rewrites/1", "rewrites/2", "table"]);
    assert!(workdir.root().join("rewrites/2").is_file());
}
