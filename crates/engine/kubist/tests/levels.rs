//! Incremental checkpoints: pages of older levels stay, and the manifest equals that of the logs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Float32Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kubist::store::LocalStore;
use kubist::{
    Bound, CommitOptions, Dimension, Domain, Error, OptimizeOptions, Query, Snapshot, Table, TableOptions, Value,
    VerifyOptions, Writer, WriterOptions,
};
use kubist_catalog::directory::Base;
use kubist_catalog::segment::unix_ms;
use kubist_format::entry::Page;
use kubist_index::cube::CubeId;
use kubist_index::priority::Threshold;
use kubist_index::state::RunId;
use kubist_maintain::clean::clean_as_of;
use kubist_simulate::{SimDisk, SimProcess};
use kubist_types::Cancel;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

fn schema() -> SchemaRef {
    let floats = ["x", "y"].map(|name| Field::new(name, DataType::Float32, false));
    Arc::new(Schema::new([vec![Field::new("id", DataType::Int64, false)], floats.to_vec()].concat()))
}

fn rows(first: i64, count: i64, rng: &mut SmallRng) -> RecordBatch {
    let width = [1.0, 0.3, 0.05][rng.random_range(0..3)];
    let mut column = || {
        let low = rng.random::<f32>() * (1.0 - width);
        Arc::new(Float32Array::from_iter_values((0..count).map(|_| low + width * rng.random::<f32>()))) as ArrayRef
    };
    let columns = vec![Arc::new(Int64Array::from_iter_values(first..first + count)) as ArrayRef, column(), column()];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn options() -> TableOptions {
    let dimension =
        |name: &str| Dimension { column: name.into(), domain: Domain::Linear(Value::Int(0), Value::Int(1)) };
    TableOptions {
        dimensions: vec![dimension("x"), dimension("y")],
        identity: vec!["id".into()],
        capacity: Some(16),
        exist_ok: true,
        ..Default::default()
    }
}

fn open(at: &str) -> Table {
    let table = Table::open(at).unwrap();
    table.limit_runs_in_memory(0);
    table
}

fn writer(table: &Table, name: &str) -> Writer {
    table.writer(&WriterOptions { name: Some(name.into()), ..Default::default() }).unwrap()
}

fn base(table: &Table) -> Option<Arc<Base>> {
    table.core().view(&Cancel::default()).unwrap().runs.base.clone()
}

fn levels(table: &Table) -> Vec<String> {
    base(table).iter().flat_map(|base| base.segments().map(|segment| segment.to_string())).collect()
}

type List = (BTreeSet<RunId>, BTreeMap<CubeId, Threshold>);

fn list(table: &Table) -> List {
    let (core, cancel) = (table.core(), Cancel::default());
    let directory = core.view(&cancel).unwrap().runs.directory(core, &cancel).unwrap();
    let runs: Vec<RunId> = directory.all().map(|run| run.id).collect();
    let found: BTreeSet<RunId> = runs.iter().copied().collect();
    assert_eq!(runs.len(), found.len(), "a run is there twice");
    (found, directory.cutoffs().collect())
}

fn ids(snapshot: &Snapshot, query: &Query) -> Result<Vec<i64>, Error> {
    let mut ids: Vec<i64> = Vec::new();
    for batch in snapshot.query(query)? {
        ids.extend_from_slice(batch?.column(0).as_primitive::<Int64Type>().values());
    }
    ids.sort_unstable();
    Ok(ids)
}

fn question(rng: &mut SmallRng) -> Query {
    let half = [0.01, 0.1, 0.6][rng.random_range(0..3)];
    let mut bound = |name: &str| {
        let middle: f64 = rng.random();
        Bound { column: name.into(), low: Some(Value::Float(middle - half)), high: Some(Value::Float(middle + half)) }
    };
    let bounds = vec![bound("x"), bound("y")];
    let sample = [None, Some(0.003), Some(0.05), Some(0.3), Some(0.7)][rng.random_range(0..5)];
    let window = rng.random_bool(0.2).then(|| {
        let low = rng.random_range(0.0..0.9);
        (low, low + 0.1)
    });
    Query { bounds, sample, window, ..Query::default() }
}

fn by_id(id: i64) -> Query {
    let end = || Some(Value::Int(id.into()));
    Query { bounds: vec![Bound { column: "id".into(), low: end(), high: end() }], ..Query::default() }
}

fn segments(at: &str) -> Vec<PathBuf> {
    let files = std::fs::read_dir(format!("{at}/segments")).unwrap().map(|file| file.unwrap().path());
    files.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("pages-")).collect()
}

fn bytes(path: &Path) -> u64 {
    path.metadata().unwrap().len()
}

#[derive(Default)]
struct RemainingDirectories {
    most_levels: usize,
    removed: usize,
    merged: usize,
}

fn history(seed: u64, seen: &mut RemainingDirectories) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("t").display().to_string();
    let reference = Table::create(&at, schema(), &TableOptions { lookup: vec!["id".into()], ..options() }).unwrap();
    let others = || {
        [u64::MAX, [100, 400, 1600][seed as usize % 3]].map(|runs| {
            let table = Table::open(&at).unwrap();
            table.limit_runs_in_memory(runs);
            table
        })
    };
    let (mut works, [mut holds, mut follows], mut next, mut steps) = (open(&at), others(), 0, 0);
    for step in 0..40 {
        let what = rng.random_range(0..12);
        match what {
            0..=4 => {
                let mut writer = writer(&works, ["ada", "bob"][rng.random_range(0..2)]);
                let count = [40, 300, 2_000][rng.random_range(0..3)];
                writer.append(&rows(next, count, &mut rng)).unwrap();
                next += count;
                steps += 1;
                writer.commit_as(&CommitOptions { token: None, step: Some(steps) }).unwrap();
            }
            5 => {
                let replication = ["none", "outlook(-1)", "full"][rng.random_range(0..3)].parse().ok();
                let rows_at_once = rng.random_range(20..2_000);
                let one_round = rng.random();
                let few_lookups = rng.random_range(1..8);
                let options =
                    OptimizeOptions { rows_at_once, replication, one_round, few_lookups, ..Default::default() };
                works.optimize(&options, &mut |_, _| {}).unwrap();
            }
            6 => {
                steps -= rng.random_range(0..2).min(steps);
                works.retract(steps).unwrap();
            }
            7 => drop(works.clean(Duration::ZERO).unwrap()),
            8 => (works, [holds, follows]) = (open(&at), others()),
            _ => {
                let before = levels(&open(&at));
                assert!(works.checkpoint().unwrap());
                let after = levels(&open(&at));
                seen.merged += usize::from(before.iter().any(|level| !after.contains(level)));
            }
        }
        let expected = list(&reference);
        assert!(base(&reference).is_none());
        let fresh = open(&at);
        assert_eq!(list(&fresh), expected, "SEED={seed}, step {step}, {what}");
        for table in [&works, &holds, &follows] {
            assert_eq!(list(table), expected, "SEED={seed}, step {step}, {what}");
        }
        if let Some(base) = base(&fresh) {
            seen.most_levels = seen.most_levels.max(base.segments().count());
            seen.removed += usize::from(!base.removed.is_empty());
            let mut on_pages = BTreeSet::new();
            let each = |page: &Page| -> Result<(), Error> {
                on_pages.extend(page.runs.iter().map(|run| run.id));
                Ok(())
            };
            base.each(fresh.core(), &Cancel::default(), each).unwrap();
            let share = base.removed.len() * 16 <= base.pages.iter().map(|page| page.summary.runs as usize).sum();
            assert!(share, "SEED={seed}, step {step}: {} runs are no more", base.removed.len());
            let known = base.removed.iter().all(|run| on_pages.contains(run));
            assert!(known, "SEED={seed}, step {step}: what was removed from no page is remembered");
        }
        let truth = reference.snapshot().unwrap();
        let others = [&fresh, &holds, &follows].map(|table| table.snapshot().unwrap());
        for number in 0..8 {
            let query = if number > 1 { question(&mut rng) } else { by_id(rng.random_range(0..next.max(1))) };
            let known = ids(&truth, &query).unwrap();
            for snapshot in &others {
                assert_eq!(ids(snapshot, &query).unwrap(), known, "SEED={seed}, step {step}, {what}, {query:?}");
            }
        }
    }
    for held in [0, u64::MAX] {
        let table = Table::open(&at).unwrap();
        table.limit_runs_in_memory(held);
        let report = table.verify(&VerifyOptions::deep(), &mut |_, _| {}).unwrap();
        assert_eq!(report.findings, Vec::<String>::new(), "SEED={seed}");
        assert_eq!(report.rows, table.snapshot().unwrap().rows().unwrap(), "SEED={seed}");
    }
}

#[test]
fn the_list_of_runs_is_that_of_the_logs() {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SEEDS").unwrap_or(20),
    };
    let (mut seen, many) = (RemainingDirectories::default(), seeds.end - seeds.start >= 20);
    seeds.for_each(|seed| history(seed, &mut seen));
    let RemainingDirectories { most_levels, removed, merged } = seen;
    assert!(!many || most_levels >= 4 && removed > 10 && merged > 10, "{most_levels} {removed} {merged}");
}

#[test]
fn ids_are_found_whatever_is_held() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("t").display().to_string();
    let table = Table::create(&at, schema(), &TableOptions { lookup: vec!["id".into()], ..options() }).unwrap();
    let (mut rng, mut next) = (SmallRng::seed_from_u64(3), 0);
    let mut commit = |count: i64| {
        let mut writer = writer(&table, "ada");
        writer.append(&rows(next, count, &mut rng)).unwrap();
        writer.commit().unwrap();
        next += count;
    };
    commit(12_000);
    assert!(table.checkpoint().unwrap());
    let reader = Table::open(&at).unwrap();
    let find = |what: &str| assert_eq!(ids(&reader.snapshot().unwrap(), &by_id(17)).unwrap(), [17], "{what}");
    let runs = base(&reader).unwrap().runs();
    reader.limit_runs_in_memory(runs + 5);
    (0..4).for_each(|_| drop(ids(&reader.snapshot().unwrap(), &Query::default()).unwrap()));
    find("held");
    for number in 0..3 {
        commit(3_000);
        find(&format!("after commit {number}"));
    }
    for limit in [0, u64::MAX, 0, runs + 5] {
        reader.limit_runs_in_memory(limit);
        commit(50);
        find(&format!("with at most {limit} runs"));
    }
}

fn grown(at: &str, commits: i64, count: i64) -> Table {
    let table = Table::create(at, schema(), &options()).unwrap();
    table.limit_runs_in_memory(0);
    let mut writer = writer(&table, "ada");
    let mut rng = SmallRng::seed_from_u64(1);
    for commit in 0..commits {
        writer.append(&rows(commit * count, count, &mut rng)).unwrap();
        writer.commit().unwrap();
        assert!(table.checkpoint().unwrap());
    }
    table
}

#[test]
fn checkpoints_write_little_again() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("t").display().to_string();
    drop(grown(&at, 64, 1_500));
    let written: u64 = segments(&at).iter().map(|path| bytes(path)).sum();
    let base = base(&open(&at)).unwrap();
    // Complete checkpoints would write 32 times the newest one.
    assert!(written < 6 * base.bytes(), "{written} bytes were written for {}", base.bytes());
    assert!(base.segments().count() <= 8, "{:?}", base.segments().collect::<Vec<_>>());
}

#[test]
fn a_checkpoint_of_few_runs_has_one_level() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("t").display().to_string();
    let table = grown(&at, 5, 1_500);
    assert!(levels(&open(&at)).len() > 1);
    table.limit_runs_in_memory(1 << 18);
    let mut writer = writer(&table, "bob");
    writer.append(&rows(1 << 30, 500, &mut SmallRng::seed_from_u64(2))).unwrap();
    writer.commit().unwrap();
    assert!(table.checkpoint().unwrap());
    assert_eq!(levels(&open(&at)).len(), 1);
}

#[test]
fn cleaning_leaves_the_levels_that_checkpoints_name() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("t").display().to_string();
    let works = grown(&at, 5, 1_500);
    let reads = open(&at);
    let (pinned, old) = (reads.snapshot().unwrap(), levels(&reads));
    assert!(old.len() > 1);
    let mut writer = writer(&works, "bob");
    let mut rng = SmallRng::seed_from_u64(3);
    let mut truth = 5 * 1_500;
    for _ in 0..24 {
        writer.append(&rows(truth, 700, &mut rng)).unwrap();
        writer.commit().unwrap();
        truth += 700;
        assert!(works.checkpoint().unwrap());
        works.clean(Duration::ZERO).unwrap();
        let all: Vec<i64> = (0..truth).collect();
        assert_eq!(ids(&open(&at).snapshot().unwrap(), &Query::default()).unwrap(), all);
        assert_eq!(ids(&reads.snapshot().unwrap(), &Query::default()).unwrap(), all);
        match ids(&pinned, &Query::default()) {
            Ok(found) => assert_eq!(found, (0..5 * 1_500).collect::<Vec<_>>()),
            Err(Error::SnapshotExpired { .. }) => {}
            Err(other) => panic!("{other}"),
        }
        let there: Vec<String> =
            segments(&at).iter().map(|path| path.file_stem().unwrap().to_str().unwrap().into()).collect();
        let named = works.core().page_segments().unwrap();
        assert!(there.iter().all(|segment| named.iter().any(|named| **named == **segment)), "{there:?} of {named:?}");
    }
    assert!(segments(&at).iter().all(|path| !old.iter().any(|level| path.ends_with(format!("{level}.seg")))));
}

#[test]
fn checkpoints_and_cleaning_race() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("t").display().to_string();
    drop(grown(&at, 5, 1_500));
    let works = |worker: i64| {
        let (mut rng, mut written) = (SmallRng::seed_from_u64(worker as u64), 0);
        let table = open(&at);
        let mut writer = writer(&table, ["bob", "eve"][worker as usize]);
        let (mut most_levels, mut deleted) = (0, 0);
        for round in 0..25 {
            writer.append(&rows((worker + 1) * 1_000_000 + round * 200, 200, &mut rng)).unwrap();
            writer.commit().unwrap();
            written += usize::from(table.checkpoint().unwrap());
            deleted += table.clean(Duration::ZERO).unwrap().segments_deleted;
            most_levels = most_levels.max(levels(&open(&at)).len());
            assert!(
                ids(&open(&at).snapshot().unwrap(), &Query::default()).unwrap().len() >= 7_500 + 200 * round as usize
            );
        }
        assert!(most_levels > 1 && deleted > 0, "{most_levels} levels, {deleted} segments deleted");
        written
    };
    let written = std::thread::scope(|scope| {
        [0, 1].map(|worker| scope.spawn(move || works(worker))).map(|thread| thread.join().unwrap())
    });
    assert!(written.iter().sum::<usize>() > 10, "{written:?}");
    let expected: Vec<i64> = (0..7_500).chain(1_000_000..1_005_000).chain(2_000_000..2_005_000).collect();
    assert_eq!(ids(&open(&at).snapshot().unwrap(), &Query::default()).unwrap(), expected);
    let report = Table::verify_at(&at, &VerifyOptions::default(), &mut |_, _| {}).unwrap();
    assert_eq!(report.findings, Vec::<String>::new());
}

#[test]
fn a_damaged_page_of_an_older_level_is_named_and_costs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("t").display().to_string();
    drop(grown(&at, 5, 1_500));
    let oldest = levels(&open(&at)).remove(0);
    assert!(levels(&open(&at)).len() > 1);
    let file = format!("{at}/segments/{oldest}.seg");
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(&file, bytes).unwrap();
    let error = ids(&open(&at).snapshot().unwrap(), &Query::default()).unwrap_err().to_string();
    assert!(error.contains(&oldest) && error.contains("checksum"), "{error}");
    let report = Table::verify_at(&at, &VerifyOptions::default(), &mut |_, _| {}).unwrap();
    assert!(report.findings.iter().any(|finding| finding.contains(&oldest)), "{report:?}");
    let to = folder.path().join("saved").display().to_string();
    let report = Table::salvage(&at, &to, &Default::default(), &mut |_, _| {}).unwrap();
    assert_eq!((report.rows, report.rows_lost), (5 * 1_500, 0));
}

/// Both checkpoints name the damaged page, and the logs lack the cleaned rewrites.
#[test]
fn a_damaged_page_costs_its_own_runs_at_most() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("t").display().to_string();
    let table = grown(&at, 3, 1_500);
    let options = OptimizeOptions { rows_at_once: 40, ..Default::default() };
    table.optimize(&options, &mut |_, _| {}).unwrap();
    let later = unix_ms() + 7_200_000;
    for _ in 0..2 {
        clean_as_of(table.core(), Duration::ZERO, later, &Cancel::default()).unwrap();
    }
    let oldest = levels(&open(&at)).remove(0);
    let mut writer = writer(&table, "bob");
    for commit in 0..2 {
        writer.append(&rows(4_500 + commit * 300, 300, &mut SmallRng::seed_from_u64(5))).unwrap();
        writer.commit().unwrap();
        assert!(table.checkpoint().unwrap());
    }
    drop((writer, table));
    assert!(!Path::new(&format!("{at}/rewrites/{:020}", 1)).exists());
    let all = base(&open(&at)).unwrap();
    assert_eq!(*all.pages[0].segment, *oldest);
    let page = all.pages.iter().filter(|page| *page.segment == *oldest).nth(3).unwrap();
    let file = format!("{at}/segments/{oldest}.seg");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[page.offset as usize + 60] ^= 4;
    std::fs::write(&file, bytes).unwrap();
    let to = folder.path().join("saved").display().to_string();
    let report = Table::salvage(&at, &to, &Default::default(), &mut |_, _| {}).unwrap();
    assert_eq!(report.rows + report.rows_lost, 5_100, "{report:?}");
    assert!((1..5_100 / 10).contains(&report.rows_lost), "{report:?}");
    assert_eq!(
        ids(&Table::open(&to).unwrap().snapshot().unwrap(), &Query::default()).unwrap().len() as u64,
        report.rows
    );
}

#[test]
fn a_checkpoint_is_killed_anywhere() {
    let at =
        |process: &Arc<SimProcess>| Arc::new(LocalStore::on_disk(process.clone(), Path::new("/data/table")).unwrap());
    for calls in 0.. {
        let machine = SimDisk::new(calls);
        let table = Table::create(at(&machine.process()), schema(), &options()).unwrap();
        table.limit_runs_in_memory(0);
        let mut rng = SmallRng::seed_from_u64(7);
        let mut writer = writer(&table, "ada");
        for commit in 0..5 {
            writer.append(&rows(commit * 400, 400, &mut rng)).unwrap();
            writer.commit().unwrap();
            assert!(commit == 4 || table.checkpoint().unwrap());
        }
        let expected = list(&table);
        drop((writer, table));
        let process = machine.process();
        let dying = Table::open(at(&process)).unwrap();
        dying.limit_runs_in_memory(0);
        process.kill_after(calls);
        let is_done = dying.checkpoint().is_ok();
        drop(dying);
        machine.crash();
        let reopened = Table::open(at(&machine.process())).unwrap();
        reopened.limit_runs_in_memory(0);
        assert_eq!(list(&reopened), expected, "killed after {calls} calls");
        for _ in 0..2 {
            assert!(reopened.checkpoint().unwrap());
            reopened.clean(Duration::ZERO).unwrap();
        }
        let found = ids(&Table::open(at(&machine.process())).unwrap().snapshot().unwrap(), &Query::default());
        assert_eq!(found.unwrap(), (0..2_000).collect::<Vec<_>>(), "killed after {calls} calls");
        if is_done {
            return;
        }
    }
}
