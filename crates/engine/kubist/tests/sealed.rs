//! A sealed file returns the results of its table, at its path and on a web server, and refuses every
//! write.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use arrow_select::concat::concat_batches;
use kubist::{
    Cancel, CommitOptions, CopyOptions, Dimension, Domain, Error, ErrorKind, Query, Table, TableOptions, Value,
    VerifyOptions, WriterOptions,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::common::site::Site;

fn table(folder: &Path, rows: i64) -> Table {
    let mut random = StdRng::seed_from_u64(7);
    let mut column = || -> ArrayRef { Arc::new(Float64Array::from_iter_values((0..rows).map(|_| random.random()))) };
    let (x, y) = (column(), column());
    let id: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
    let batch = RecordBatch::try_from_iter([("id", id), ("x", x), ("y", y)]).unwrap();
    let dimension =
        |name: &str| Dimension { column: name.into(), domain: Domain::Linear(Value::Int(0), Value::Int(1)) };
    let options = TableOptions {
        dimensions: vec![dimension("x"), dimension("y")],
        identity: vec!["id".into()],
        lookup: vec!["id".into()],
        ..TableOptions::default()
    };
    let table = Table::create(folder.join("t").to_str().unwrap(), batch.schema(), &options).unwrap();
    let mut writer = table.writer(&WriterOptions { name: Some("w".into()), ..WriterOptions::default() }).unwrap();
    let half = batch.num_rows() / 2;
    for (step, part) in [(1, batch.slice(0, half)), (2, batch.slice(half, batch.num_rows() - half))] {
        writer.append(&part).unwrap();
        writer.commit_as(&CommitOptions { step: Some(step), token: None }).unwrap();
    }
    table
}

fn pack(table: &Table, path: &Path) {
    let packed = table.snapshot().unwrap().pack(path, &CopyOptions::default(), &mut |_, _| {}).unwrap();
    assert_eq!(packed.bytes, std::fs::metadata(path).unwrap().len());
    assert_eq!(packed.rows, table.snapshot().unwrap().rows().unwrap());
}

fn open(path: &Path) -> Table {
    Table::open(path.to_str().unwrap()).unwrap()
}

fn box_of(low: f64, high: f64) -> Query {
    Query::new().between("x", Value::Float(low), Value::Float(high)).between("y", Value::Float(low), Value::Float(high))
}

fn rows(table: &Table, query: Query) -> RecordBatch {
    let batches: Vec<_> = table.snapshot().unwrap().query(query).unwrap().map(Result::unwrap).collect();
    concat_batches(&table.schema().unwrap(), &batches).unwrap()
}

fn ids(table: &Table, query: Query) -> Vec<i64> {
    let rows = rows(table, query);
    let column = rows.column_by_name("id").unwrap();
    let mut ids = column.as_any().downcast_ref::<Int64Array>().unwrap().values().to_vec();
    ids.sort_unstable();
    ids
}

fn agree(one: &Table, other: &Table) {
    let lookup = Query::new().filter("id = 1234");
    for query in [Query::new(), box_of(0.2, 0.4), box_of(0.1, 0.9).sample(0.05), lookup, Query::new().steps(2, 2)] {
        let found = ids(one, query.clone());
        assert!(!found.is_empty() && found == ids(other, query));
    }
}

#[test]
fn a_sealed_file_answers_like_its_table_and_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let (source, path) = (table(folder.path(), 20_000), folder.path().join("any name"));
    pack(&source, &path);
    let sealed = open(&path);
    agree(&source, &sealed);
    assert_eq!(sealed.snapshot().unwrap().info().unwrap().about.rows, 20_000);
    assert_eq!(sealed.snapshot().unwrap().complete_steps(), [1, 2]);
    let report = sealed.verify(&VerifyOptions::deep(), &mut |_, _| {}).unwrap();
    assert!(report.findings.is_empty() && report.rows == 20_000, "{report:?}");
    let token = sealed.snapshot().unwrap().token().to_string();
    assert_eq!(open(&path).at(&token.parse().unwrap()).unwrap().rows().unwrap(), 20_000);
    let splits = sealed.snapshot().unwrap().splits(Query::default(), 3).unwrap();
    let part = |split: &kubist::Split| {
        let rows = Table::open(&split.location).and_then(|table| table.read_split(split)).unwrap();
        rows.map(|batch| batch.unwrap().num_rows()).sum::<usize>()
    };
    assert_eq!(splits.iter().map(part).sum::<usize>(), 20_000);

    let back = folder.path().join("back");
    let options = CopyOptions::default();
    Table::unpack(&path, back.to_str().unwrap(), &options, &mut |_, _| {}).unwrap();
    agree(&source, &open(&back));
    let other = folder.path().join("other");
    sealed.snapshot().unwrap().copy_to(other.to_str().unwrap(), &options, &mut |_, _| {}).unwrap();
    agree(&source, &open(&other));
    let again = folder.path().join("again");
    pack(&sealed, &again);
    agree(&source, &open(&again));
    let error = Table::unpack(&folder.path().join("t/table"), "x", &options, &mut |_, _| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    let error = Table::unpack(&folder.path().join("absent"), "x", &options, &mut |_, _| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

#[test]
fn a_sealed_file_refuses_every_change() {
    let folder = tempfile::tempdir().unwrap();
    let (source, path) = (table(folder.path(), 1000), folder.path().join("t.kubist1"));
    pack(&source, &path);
    let (sealed, before) = (open(&path), std::fs::read(&path).unwrap());
    let answers = [
        sealed.writer(&WriterOptions::default()).map(drop),
        sealed.writer(&WriterOptions { name: Some("w".into()), ..WriterOptions::default() }).map(drop),
        sealed.retract(1).map(drop),
        sealed.share(),
        sealed.set_unit("x", Some("m")),
        Table::drop_at(path.to_str().unwrap(), true).map(drop),
    ];
    for (number, answer) in answers.into_iter().enumerate() {
        let error = answer.map_err(|error| (error.kind(), error.to_string()));
        assert!(
            matches!(&error, Err((ErrorKind::Permission, text)) if text.contains("kubist unpack")),
            "{number}: {error:?}"
        );
    }
    let snapshot = source.snapshot().unwrap();
    let error = snapshot.pack(&path, &CopyOptions::default(), &mut |_, _| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
    let error = snapshot.copy_to(path.to_str().unwrap(), &CopyOptions::default(), &mut |_, _| {}).unwrap_err();
    assert!(matches!(&error, Error::Exists { why, .. } if why.contains("a table is there")), "{error}");
    assert!(std::fs::read(&path).unwrap() == before);
}

#[test]
fn a_cancelled_or_failed_pack_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let source = table(folder.path(), 1000);
    let cancel = Cancel::default();
    let options = CopyOptions { cancel: cancel.clone(), ..CopyOptions::default() };
    cancel.set();
    let answer = source.snapshot().unwrap().pack(&folder.path().join("file"), &options, &mut |_, _| {});
    assert!(matches!(answer, Err(Error::Cancelled)), "{answer:?}");
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["t"]);
}

/// Checksums of the store or of the table cover each byte.
#[test]
fn no_flipped_byte_changes_an_answer() {
    let folder = tempfile::tempdir().unwrap();
    let (source, path) = (table(folder.path(), 3000), folder.path().join("t.kubist1"));
    pack(&source, &path);
    let (good, expected) = (std::fs::read(&path).unwrap(), ids(&source, Query::new()));
    let mut random = StdRng::seed_from_u64(3);
    let mut refused = 0;
    for _ in 0..300 {
        let mut bytes = good.clone();
        bytes[random.random_range(0..good.len())] ^= 1 << random.random_range(0..8);
        std::fs::write(&path, &bytes).unwrap();
        let found = Table::open(path.to_str().unwrap()).and_then(|table| {
            let stream = table.snapshot()?.query(Query::new())?;
            stream.collect::<kubist::Result<Vec<_>>>().map(|batches| (table, batches))
        });
        match found {
            Ok((table, _)) => assert_eq!(ids(&table, Query::new()), expected),
            Err(error) => {
                refused += 1;
                let kind = error.kind();
                assert!(matches!(kind, ErrorKind::Corrupt | ErrorKind::NotFound | ErrorKind::Unsupported), "{error}");
            }
        }
        let to = folder.path().join("unpacked");
        let answer = Table::unpack(&path, to.to_str().unwrap(), &CopyOptions::default(), &mut |_, _| {});
        assert!(answer.is_err() && !to.exists(), "{answer:?}");
    }
    assert!(refused > 150, "{refused} of 300 damages were noticed by a query");
}

#[test]
fn a_web_server_needs_few_round_trips() {
    let folder = tempfile::tempdir().unwrap();
    let (source, path) = (table(folder.path(), 200_000), folder.path().join("t.kubist1"));
    pack(&source, &path);
    let site = Site::start(std::fs::read(&path).unwrap());
    site.served.lock().unwrap().delay = Duration::from_millis(5);
    let served = || site.served.lock().unwrap().clone();
    let sealed = Table::open(&site.address).unwrap();
    let opened = sealed.traffic().unwrap();
    println!("open: {opened:?}, {} bytes of {}", served().sent, served().bytes.len());
    assert!(opened.round_trips <= 3 && served().requests <= 3, "{opened:?}");
    let query = box_of(0.4, 0.4707);
    assert_eq!(ids(&sealed, query.clone()), ids(&source, query));
    let asked = sealed.traffic().unwrap();
    println!("box: {asked:?}, {} bytes sent", served().sent);
    assert!(asked.round_trips - opened.round_trips <= 5, "{asked:?}");
    agree(&source, &sealed);
    assert_eq!(sealed.snapshot().unwrap().info().unwrap().about.rows, 200_000);
    let error = sealed.writer(&WriterOptions::default()).map(drop).unwrap_err().to_string();
    assert!(error.contains(&format!("kubist unpack {}", site.address)), "{error}");
}

#[test]
fn other_files_and_servers_are_refused_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let (source, path) = (table(folder.path(), 50_000), folder.path().join("t.kubist1"));
    pack(&source, &path);
    let bytes = std::fs::read(&path).unwrap();
    let site = Site::start(bytes.clone());
    let serve = |change: &dyn Fn(&mut crate::common::site::Served)| change(&mut site.served.lock().unwrap());
    let refused = |kind: ErrorKind, word: &str| {
        let error = Table::open(&site.address).map(drop).unwrap_err();
        assert!(error.kind() == kind && error.to_string().contains(word), "{error}");
    };
    serve(&|served| served.ignores_ranges = true);
    refused(ErrorKind::Unsupported, "range requests");
    serve(&|served| (served.ignores_ranges, served.tag) = (false, None));
    refused(ErrorKind::Unsupported, "ETag");
    serve(&|served| (served.tag, served.bytes) = (Some("\"one\""), b"a page".to_vec()));
    refused(ErrorKind::NotFound, "kubist.connect");
    serve(&|served| served.bytes.clear());
    refused(ErrorKind::NotFound, "no sealed file");
    serve(&|served| served.bytes = bytes[..bytes.len() / 2].to_vec());
    refused(ErrorKind::Corrupt, "truncated");
    serve(&|served| served.bytes.clone_from(&bytes));
    let error = Table::open(&format!("{}x", site.address)).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");

    let sealed = Table::open(&site.address).unwrap();
    serve(&|served| served.tag = Some("\"two\""));
    let error = sealed.snapshot().unwrap().query(Query::new()).unwrap().find_map(Result::err).unwrap();
    assert!(error.kind() == ErrorKind::Expired && error.to_string().contains("replaced"), "{error}");
    let sealed = Table::open(&site.address).unwrap();
    serve(&|served| (served.tag, served.bytes) = (Some("\"three\""), bytes[..1000].to_vec()));
    let error = sealed.snapshot().unwrap().query(Query::new()).unwrap().find_map(Result::err).unwrap();
    assert!(error.kind() == ErrorKind::Expired && error.to_string().contains("replaced"), "{error}");
}
