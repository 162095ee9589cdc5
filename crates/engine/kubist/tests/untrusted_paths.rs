//! Links, pipes and folders in place of a table's files: nothing outside its directory changes, nothing
//! hangs, and the error names the obstacle. An unreadable path is not reported as absent.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use crate::common::{commit, commits, name, options, schema};
use kubist::{Error, ErrorKind, NewColumn, OptimizeOptions, Query, Result, Table, Value, VerifyOptions, WriterOptions};

const HANGS: Duration = Duration::from_secs(60);

struct Workdir {
    folder: tempfile::TempDir,
}

impl Workdir {
    fn new() -> Workdir {
        let workdir = Workdir { folder: tempfile::tempdir().unwrap() };
        let table = Table::create(&workdir.location(), schema(), &options()).unwrap();
        let mut log = table.writer(&WriterOptions { name: Some(name(0)), ..Default::default() }).unwrap();
        (0..8).for_each(|number| drop(commit(&mut log, 0, number).unwrap()));
        drop(log);
        optimize(&table).unwrap();
        table.clean(Duration::from_secs(86_400)).unwrap();
        fs::create_dir_all(workdir.outside()).unwrap();
        for name in ["0123456789abcdef", "letter", "w.log", "00000000000000000001"] {
            fs::write(workdir.outside().join(name), format!("somebody's own {name}")).unwrap();
        }
        workdir
    }

    fn table(&self) -> PathBuf {
        self.folder.path().join("table")
    }

    fn location(&self) -> String {
        self.table().display().to_string()
    }

    fn outside(&self) -> PathBuf {
        self.folder.path().join("outside")
    }
}

fn optimize(table: &Table) -> Result<()> {
    let options = OptimizeOptions { debt_share: 0.0, ..Default::default() };
    table.optimize(&options, &mut |_, _| {}).map(drop)
}

fn contents(at: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(at).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

type Command = (&'static str, fn(&str) -> Result<()>);
const COMMANDS: [Command; 9] = [
    ("query", |at| {
        let found = Table::open(at)?.snapshot()?.query(Query::default())?;
        found.collect::<Result<Vec<_>>>().map(drop)
    }),
    ("verify", |at| {
        let looked = Table::open(at)?.verify(&VerifyOptions::deep(), &mut |_, _| {})?;
        match looked.findings.is_empty() {
            true => Ok(()),
            false => Err(Error::Damaged { file: String::new(), offset: 0, what: looked.findings.join("; ") }),
        }
    }),
    ("write", |at| {
        let options = WriterOptions { name: Some(name(0)), ..Default::default() };
        commit(&mut Table::open(at)?.writer(&options)?, 0, 8).map(drop)
    }),
    ("write by another", |at| {
        let options = WriterOptions { name: Some(name(1)), ..Default::default() };
        commit(&mut Table::open(at)?.writer(&options)?, 1, 0).map(drop)
    }),
    ("optimize", |at| optimize(&Table::open(at)?)),
    ("alter", |at| {
        let (data_type, default) = (arrow_schema::DataType::Float64, Value::Float(0.5));
        let column = NewColumn { name: "age".into(), data_type, nullable: false, default, unit: None, accuracy: None };
        Table::open(at)?.add_column(&column).map(drop)
    }),
    ("checkpoint", |at| Table::open(at)?.checkpoint().map(drop)),
    ("clean", |at| Table::open(at)?.clean(Duration::ZERO).map(drop)),
    ("drop", |at| Table::drop_at(at, false).map(drop)),
];

fn do_everything(workdir: &Workdir, at: &Path, sort: &str) -> Vec<&'static str> {
    let mut refused = Vec::new();
    for (what, command) in COMMANDS {
        let (sender, receiver) = mpsc::channel();
        let location = workdir.location();
        std::thread::spawn(move || sender.send(command(&location)));
        let done = receiver.recv_timeout(HANGS);
        match done.unwrap_or_else(|_| panic!("{what} with {} as {sort} does not end", at.display())) {
            Ok(()) => {}
            Err(Error::Damaged { file, what: why, .. })
                if Path::new(&file) == at || (what == "verify" && why.contains(&at.display().to_string())) =>
            {
                assert!(why.contains(sort), "{what}: {why}");
                refused.push(what);
            }
            Err(Error::Invalid(why))
                if sort == "a directory" && why.contains(&*at.file_name().unwrap().to_string_lossy()) => {}
            Err(Error::NotATable { .. } | Error::Damaged { .. }) => {}
            Err(error) => panic!("{what} with {} as {sort}: {error:?}", at.display()),
        }
    }
    refused
}

#[test]
fn no_command_follows_a_folder_that_is_a_link() {
    for (folder, expected) in [
        ("tmp", &["write by another", "optimize", "alter", "clean", "drop"][..]),
        ("logs", &["query", "write", "write by another", "optimize", "alter", "clean"]),
        ("segments", &["query", "write by another", "clean"]),
        ("rewrites", &["query", "write", "optimize", "clean"]),
        ("checkpoints", &["query", "write", "optimize", "clean"]),
        ("garbage", &["clean"]),
        ("leases", &["optimize"]),
    ] {
        let workdir = Workdir::new();
        let at = workdir.table().join(folder);
        if at.exists() {
            fs::remove_dir_all(&at).unwrap();
        }
        symlink(workdir.outside(), &at).unwrap();
        let before = contents(&workdir.outside());
        let refused = do_everything(&workdir, &at, "a symbolic link");
        for command in expected {
            assert!(refused.contains(command), "{command} with {folder}: {refused:?}");
        }
        assert_eq!(contents(&workdir.outside()), before, "{folder}");
    }
}

#[test]
fn no_command_reads_or_waits_for_what_is_no_file() {
    for file in ["table", "logs/rank-0.log", "logs/rank-0.ack", "rewrites/", "checkpoints/", "segments/"] {
        for sort in ["a symbolic link", "a named pipe", "a directory"] {
            let workdir = Workdir::new();
            let at = match file.strip_suffix('/') {
                None => workdir.table().join(file),
                Some(folder) => fs::read_dir(workdir.table().join(folder))
                    .unwrap()
                    .map(|entry| entry.unwrap().path())
                    .max()
                    .unwrap(),
            };
            fs::remove_file(&at).unwrap();
            // The checkpoint already contains the rewrites.
            if file == "rewrites/" {
                fs::remove_dir_all(workdir.table().join("checkpoints")).unwrap();
            }
            match sort {
                "a symbolic link" => symlink(workdir.outside().join("letter"), &at).unwrap(),
                "a named pipe" => assert!(std::process::Command::new("mkfifo").arg(&at).status().unwrap().success()),
                _ => fs::create_dir(&at).unwrap(),
            }
            let before = contents(&workdir.outside());
            let refused = do_everything(&workdir, &at, sort);
            let is_object = !file.starts_with("logs") && !file.starts_with("segments");
            let told = ["query", "verify"].iter().any(|command| refused.contains(command))
                || is_object && sort == "a directory";
            assert!(told, "{file} as {sort}: {refused:?}");
            assert_eq!(contents(&workdir.outside()), before, "{file} as {sort}");
        }
    }
}

#[test]
fn a_table_whose_link_is_taken_away_is_as_before() {
    let workdir = Workdir::new();
    let tmp = workdir.table().join("tmp");
    fs::remove_dir_all(&tmp).unwrap();
    symlink(workdir.outside(), &tmp).unwrap();
    let table = Table::open(&workdir.location()).unwrap();
    table.writer(&WriterOptions { name: Some(name(1)), ..Default::default() }).unwrap_err();
    fs::remove_file(&tmp).unwrap();
    let table = Table::open(&workdir.location()).unwrap();
    assert_eq!(commits(&table.snapshot().unwrap()).unwrap()[&0], 8);
    assert_eq!(table.verify(&VerifyOptions::deep(), &mut |_, _| {}).unwrap().findings, Vec::<String>::new());
}

/// A loop of links is unreadable even for root.
#[test]
fn what_cannot_be_looked_at_is_not_said_to_be_absent() {
    let folder = tempfile::tempdir().unwrap();
    symlink("loop", folder.path().join("loop")).unwrap();
    let name = "x".repeat(300);
    for path in ["loop".into(), "loop/table".into(), name] {
        let location = folder.path().join(&path).display().to_string();
        let create = kubist::TableOptions { exist_ok: true, ..options() };
        for (what, answer) in [
            ("open", Table::open(&location).map(drop)),
            ("create", Table::create(&location, schema(), &options()).map(drop)),
            ("create with exist_ok", Table::create(&location, schema(), &create).map(drop)),
            ("drop", Table::drop_at(&location, true).map(drop)),
        ] {
            let unavailable = matches!(&answer, Err(error @ (Error::Unavailable(_) | Error::Permission(_))) if error.to_string().contains(&location));
            assert!(unavailable, "{what} {path}: {answer:?}");
        }
    }
    symlink("nowhere", folder.path().join("dangling")).unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    for (path, why) in [("dangling", "broken link"), ("nothing", "does not exist"), ("file", "a file")] {
        let opened = Table::open(folder.path().join(path).to_str().unwrap());
        let error = opened.unwrap_err();
        assert!(error.kind() == ErrorKind::NotFound && error.to_string().contains(why), "{error}");
    }
}
