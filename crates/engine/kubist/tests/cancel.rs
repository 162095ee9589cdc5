//! Every long call stops soon after cancellation and leaves the table valid. A switch sets itself at a
//! given check, so tests need no clock. Afterwards a call may check about once more per thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::common::watchdog::within_a_minute;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kubist::store::{LocalStore, MemoryStore, Store};
use kubist::{
    Bound, Cancel, CopyOptions, Dimension, Domain, Error, EstimateOptions, Location, NewColumn, OptimizeOptions,
    PerCell, Query, QueryStream, Result, RunOptions, Table, TableOptions, Value, VerifyOptions, WriterOptions,
};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const ROWS: i64 = 150_000;
const OF_PATH: i64 = 3;
const LATE_LOOKS: u64 = 100;
const ROWS_A_LOOK: u64 = 65_536;

fn schema() -> SchemaRef {
    let field = |name: &str, data_type| Field::new(name, data_type, false);
    Arc::new(Schema::new(vec![
        field("id", DataType::Int64),
        field("path", DataType::Int64),
        field("x", DataType::Float64),
        field("y", DataType::Float64),
    ]))
}

fn rows(seed: u64, rows: i64) -> RecordBatch {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut column = || Float64Array::from_iter_values((0..rows).map(|_| random.random::<f64>()));
    let (x, y): (ArrayRef, ArrayRef) = (Arc::new(column()), Arc::new(column()));
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
    let paths: ArrayRef = Arc::new(Int64Array::from_iter_values((0..rows).map(|id| id / OF_PATH)));
    RecordBatch::try_new(schema(), vec![ids, paths, x, y]).unwrap()
}

fn made(commits: u64, of_commit: i64) -> (Arc<dyn Store>, Table) {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new("cancelled"));
    let table = made_in(store.clone());
    let mut writer = table.writer(&WriterOptions::default()).unwrap();
    for commit in 0..commits {
        writer.append(&rows(commit, of_commit)).unwrap();
        writer.commit().unwrap();
    }
    drop(writer);
    (store, table)
}

fn made_in(store: Arc<dyn Store>) -> Table {
    let dimension =
        |name: &str| Dimension { column: name.into(), domain: Domain::Linear(Value::Int(0), Value::Int(1)) };
    let options = TableOptions {
        dimensions: vec![dimension("x"), dimension("y")],
        identity: vec!["path".into()],
        lookup: vec!["path".into()],
        ..TableOptions::default()
    };
    Table::create(store, schema(), &options).unwrap()
}

fn commit_each(table: &Table, writers: u64) {
    for writer in 0..writers {
        let name = Some(format!("w{writer}"));
        let mut writer = table.writer(&WriterOptions { name, ..WriterOptions::default() }).unwrap();
        writer.append(&rows(7, 100)).unwrap();
        writer.commit().unwrap();
    }
}

fn set_at(look: u64) -> (Cancel, Arc<AtomicU64>) {
    let looks = Arc::new(AtomicU64::new(0));
    let counted = looks.clone();
    (Cancel::asking(move || counted.fetch_add(1, Ordering::Relaxed) + 1 >= look), looks)
}

fn ids(stream: QueryStream) -> Result<Vec<i64>> {
    let mut ids = Vec::new();
    for batch in stream {
        ids.extend_from_slice(batch?["id"].as_primitive::<Int64Type>().values());
    }
    ids.sort_unstable();
    Ok(ids)
}

fn interrupt<T: PartialEq + std::fmt::Debug + Send + 'static>(
    what: &'static str,
    least: u64,
    call: impl Fn(Cancel) -> Result<T> + Send + Sync + 'static,
) {
    let call = Arc::new(call);
    let (whole, (cancel, looks)) = (call.clone(), set_at(u64::MAX));
    let expected = within_a_minute(what, move || whole(cancel)).unwrap();
    let all = looks.load(Ordering::Relaxed);
    assert!(all >= least, "{what} looked {all} times at its switch, and not {least} times");
    let mut random = SmallRng::seed_from_u64(what.bytes().map(u64::from).sum());
    for round in 0..6 {
        let look = if round == 0 { 1 } else { random.random_range(1..=all) };
        let (again, (cancel, looks)) = (call.clone(), set_at(look));
        match within_a_minute(what, move || again(cancel)) {
            Err(Error::Cancelled) => {}
            Ok(found) => assert_eq!(found, expected, "{what}"),
            Err(other) => panic!("{what}, set at look {look} of {all}: {other}"),
        }
        let late = looks.load(Ordering::Relaxed).saturating_sub(look);
        assert!(late <= LATE_LOOKS, "{what}: {late} looks after it was set at look {look} of {all}");
    }
}

fn run(cancel: Cancel) -> RunOptions {
    RunOptions { cancel, ..RunOptions::default() }
}

#[test]
fn questions_stop_at_any_moment_and_the_next_one_is_answered() {
    let (_, table) = made(1, ROWS);
    let snapshot = Arc::new(table.snapshot().unwrap());
    let ask = |query: Query| {
        let snapshot = snapshot.clone();
        move |cancel: Cancel| ids(snapshot.query(run(cancel).of(query.clone()))?)
    };
    let all = ROWS as u64 / ROWS_A_LOOK;
    let cells =
        |rows, width: f64| Some(PerCell { rows, widths: vec![("x".into(), width.into()), ("y".into(), width.into())] });
    let filter = Some("x * y < 0.25 AND NOT (x > 0.9 OR y > 0.9)".to_string());
    interrupt("query", all, ask(Query::default()));
    interrupt("query where", all, ask(Query { filter: filter.clone(), ..Query::default() }));
    interrupt("limit", 4 * all, ask(Query { limit: Some(100_000), ..Query::default() }));
    interrupt("limit of all", 4 * all, ask(Query { limit: Some(u64::MAX), ..Query::default() }));
    interrupt("per_cell of many rows", 4 * all, ask(Query { per_cell: cells(20_000, 0.5), ..Query::default() }));
    interrupt("per_cell of many cells", 4 * all, ask(Query { per_cell: cells(1, 0.004), ..Query::default() }));
    let ordered = Query::default().order_by(["y desc"]);
    interrupt("order_by", 4 * all, ask(ordered.clone()));
    let spilled = snapshot.clone();
    interrupt("order_by in a scratch file", 4 * all, move |cancel| {
        let run = RunOptions { memory_bytes: Some(1 << 20), ..run(cancel) };
        ids(spilled.query(run.of(ordered.clone()))?)
    });
    let counted = snapshot.clone();
    let of_filter = filter.clone();
    interrupt("count", all, move |cancel| {
        counted.count(run(cancel).of(Query { filter: of_filter.clone(), ..Query::default() }))
    });
    let refined = snapshot.clone();
    interrupt("refine", all, move |cancel| {
        let mut found = Vec::new();
        for step in refined.refine(run(cancel).of(Query::default()), 0.01, 8.0)? {
            found.extend(ids(step?)?);
        }
        Ok(found)
    });
    let of_paths = snapshot.clone();
    interrupt("trajectories", all, move |cancel| {
        let bound = Bound { column: "x".into(), low: None, high: Some(Value::Float(0.3)) };
        let through = run(cancel.clone()).of(Query { bounds: vec![bound], ..Query::default() });
        ids(of_paths.trajectories(through, "path", run(cancel).of(Query::default()))?)
    });
    let cut = snapshot.clone();
    interrupt("splits", all, move |cancel| {
        let parts = cut.splits(run(cancel).of(Query::default()), 300)?;
        Ok(parts.iter().map(|part| part.rows).collect::<Vec<u64>>())
    });
    let estimated = snapshot.clone();
    interrupt("estimate", all, move |cancel| {
        let options = EstimateOptions {
            aggregates: vec!["mean(x)".into(), "p95(y)".into(), "histogram(x, 20)".into(), "count_distinct(id)".into()],
            query: Query { sample: Some(1.0), ..Query::default() },
            run: run(cancel),
            ..EstimateOptions::default()
        };
        Ok(estimated.estimate(&options, &mut |_| {})?.figures.iter().map(|figure| figure.value).collect::<Vec<_>>())
    });
    assert_eq!(table.snapshot().unwrap().count(Query::default()).unwrap(), ROWS as u64);
    assert_eq!(ids(snapshot.query(Query::default()).unwrap()).unwrap(), (0..ROWS).collect::<Vec<_>>());
}

#[test]
fn checks_and_copies_stop_at_any_moment() {
    let (store, table) = made(6, 20_000);
    let rows = table.snapshot().unwrap().rows().unwrap();
    let table = Arc::new(table);
    let checked = table.clone();
    interrupt("verify", 2, move |cancel| {
        let report = checked.verify(&VerifyOptions { cancel, ..VerifyOptions::deep() }, &mut |_, _| {})?;
        Ok((report.rows, report.findings))
    });
    let copied = table.snapshot().unwrap();
    interrupt("copy", 2, move |cancel| {
        let to = Arc::new(MemoryStore::new("copy"));
        let options = CopyOptions { cancel, ..CopyOptions::default() };
        copied.copy_to(to.clone(), &options, &mut |_, _| {})?;
        Table::open(to)?.snapshot()?.rows()
    });
    interrupt("salvage", 2, move |cancel| {
        let to = Arc::new(MemoryStore::new("saved"));
        Ok(Table::salvage(store.clone(), to, &cancel, &mut |_, _| {})?.rows)
    });
    assert_eq!(table.snapshot().unwrap().count(Query::default()).unwrap(), rows);
    let report = table.verify(&VerifyOptions::deep(), &mut |_, _| {}).unwrap();
    assert!(report.findings.is_empty(), "{report:?}");
}

#[test]
fn what_follows_the_logs_stops_at_any_moment() {
    const COMMITS: u64 = 30;
    let (store, table) = made(COMMITS, 200);
    let (committed, table) = (COMMITS * 200, Arc::new(table));
    let opened = store.clone();
    interrupt("open", COMMITS, move |cancel| {
        Table::open(Location::from(opened.clone()).cancelled_by(&cancel))?.cancelled_by(&cancel).snapshot()?.rows()
    });
    let moment = table.snapshot().unwrap().token();
    let mut writer = table.writer(&WriterOptions::default()).unwrap();
    writer.append(&rows(7, 100)).unwrap();
    writer.commit().unwrap();
    drop(writer);
    table.snapshot().unwrap();
    let (meant, of_moment) = (table.clone(), moment.clone());
    interrupt("at", COMMITS, move |cancel| meant.cancelled_by(&cancel).at(&of_moment)?.rows());
    let described = table.clone();
    interrupt("info", 2, move |cancel| {
        let info = described.cancelled_by(&cancel).snapshot()?.info()?;
        Ok((info.about.rows, info.runs))
    });
    let checked = store.clone();
    interrupt("verify of logs", 2 * COMMITS, move |cancel| {
        let options = VerifyOptions { cancel, ..VerifyOptions::default() };
        let report = Table::open(checked.clone())?.verify(&options, &mut |_, _| {})?;
        Ok((report.rows, report.findings))
    });
    assert_eq!(table.at(&moment).unwrap().rows().unwrap(), committed);
    assert_eq!(table.snapshot().unwrap().rows().unwrap(), committed + 100);
}

#[test]
fn what_keeps_a_table_small_stops_at_any_moment_and_the_table_is_sound() {
    let sound = |store: &Arc<dyn Store>| {
        let table = Table::open(store.clone()).unwrap();
        assert_eq!(table.snapshot().unwrap().count(Query::default()).unwrap(), 8_000);
        let report = table.verify(&VerifyOptions::deep(), &mut |_, _| {}).unwrap();
        assert!(report.findings.is_empty(), "{report:?}");
    };
    interrupt("checkpoint", 4, move |cancel| {
        let (store, _) = made(8, 1_000);
        let written = Table::open(store.clone()).and_then(|table| {
            table.limit_runs_in_memory(1);
            table.cancelled_by(&cancel).checkpoint()
        });
        sound(&store);
        written
    });
    interrupt("clean", 8, move |cancel| {
        let (store, table) = made(8, 1_000);
        table.optimize(&OptimizeOptions::default(), &mut |_, _| {})?;
        let cleaned = table.cancelled_by(&cancel).clean(Duration::ZERO);
        sound(&store);
        table.clean(Duration::ZERO)?;
        sound(&store);
        cleaned.map(drop)
    });
}

#[test]
fn what_writes_stops_at_any_moment_and_the_table_is_sound() {
    let sound = |table: &Table, commits: &[u64]| {
        let snapshot = table.snapshot().unwrap();
        let count = snapshot.count(&Query { filter: Some("x >= 0".into()), ..Query::default() }).unwrap();
        assert!(commits.contains(&count), "{count} rows, and not {commits:?}");
        let report = table.verify(&VerifyOptions::deep(), &mut |_, _| {}).unwrap();
        assert!(report.findings.is_empty(), "{report:?}");
    };
    interrupt("commit", 2, move |cancel| {
        let (_, table) = made(1, 2_000);
        let done = (|| {
            let mut writer = table.writer(&WriterOptions { cancel, ..WriterOptions::default() })?;
            writer.append(&rows(7, 30_000))?;
            writer.commit()
        })();
        sound(&table, if done.is_ok() { &[32_000] } else { &[2_000] });
        done.map(|_| ())
    });
    interrupt("add_column", 3, move |cancel| {
        let (_, table) = made(2, 2_000);
        let column = NewColumn {
            name: "z".into(),
            data_type: DataType::Float64,
            nullable: true,
            default: Value::Null,
            unit: None,
            accuracy: None,
        };
        let done = table.cancelled_by(&cancel).add_column(&column);
        sound(&table, &[4_000]);
        assert!(done.is_err() || table.schema()?.index_of("z").is_ok());
        done
    });
    interrupt("optimize", 2, move |cancel| {
        let (_, table) = made(8, 4_000);
        let replication = Some("outlook".parse().unwrap());
        let options = OptimizeOptions { cancel, replication, ..OptimizeOptions::default() };
        let done = table.optimize(&options, &mut |_, _| {});
        sound(&table, &[32_000]);
        done.map(|_| ())
    });
}

#[test]
fn a_drop_stops_at_any_moment_and_leaves_a_table_or_what_can_be_dropped() {
    const WRITERS: u64 = 8;
    interrupt("drop", 2 * WRITERS, move |cancel| {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new("dropped"));
        commit_each(&made_in(store.clone()), WRITERS);
        let done = Table::drop_at(Location::from(store.clone()).cancelled_by(&cancel), false);
        match Table::open(store.clone()) {
            Ok(table) => {
                assert!(matches!(done, Err(Error::Cancelled)), "{done:?}");
                assert_eq!(table.snapshot()?.count(Query::default())?, WRITERS * 100);
                commit_each(&table, WRITERS);
            }
            Err(_) if done.is_err() => drop(Table::drop_at(store.clone(), false)?),
            Err(error) => assert!(matches!(error, Error::NotATable { .. } | Error::Missing { .. }), "{error}"),
        }
        done.map(|dropped| dropped.files)
    });
}

#[test]
fn sharing_stops_at_any_moment_and_the_table_is_sound() {
    const WRITERS: u64 = 8;
    interrupt("share", WRITERS, move |cancel| {
        let folder = tempfile::tempdir().unwrap();
        let store = LocalStore::create(&folder.path().join("t")).unwrap().with_staleness(Duration::ZERO);
        let table = made_in(Arc::new(store));
        commit_each(&table, WRITERS);
        let done = table.cancelled_by(&cancel).share();
        assert!(done.is_err() || table.is_shared());
        commit_each(&table, WRITERS);
        assert_eq!(table.snapshot()?.count(Query::default())?, 2 * WRITERS * 100);
        let report = table.verify(&VerifyOptions::deep(), &mut |_, _| {})?;
        assert!(report.findings.is_empty(), "{report:?}");
        done
    });
}
