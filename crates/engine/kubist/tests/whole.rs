//! Copies with and without another grid, drops at any time, and the disk use by purpose.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kubist::store::{LocalStore, MemoryStore, Store};
use kubist::{
    Bound, Cancel, CommitOptions, CopyOptions, Declared, Dimension, Domain, Error, Metadata, NewColumn,
    OptimizeOptions, Query, Snapshot, Table, TableOptions, Value, Writer, WriterOptions,
};
use kubist_simulate::SimDisk;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

fn options(identity: &[&str]) -> TableOptions {
    TableOptions {
        dimensions: vec![Dimension { column: "x".into(), domain: Domain::Learned }],
        identity: identity.iter().map(|name| name.to_string()).collect(),
        capacity: Some(64),
        seed: 7,
        units: vec![("x".into(), "m".into())],
        metadata: Metadata::from([("run".into(), "airway-7".into())]),
        ..Default::default()
    }
}

fn schema() -> Arc<Schema> {
    let field = |name: &str, data_type| Field::new(name, data_type, false);
    Arc::new(Schema::new(vec![
        field("id", DataType::Int64),
        field("x", DataType::Float64),
        field("y", DataType::Float64),
    ]))
}

fn rows(ids: std::ops::Range<i64>) -> RecordBatch {
    let coordinate = |factor: i64| Float64Array::from_iter_values(ids.clone().map(|id| (id * factor % 1009) as f64));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(ids.clone())),
        Arc::new(coordinate(7919)),
        Arc::new(coordinate(104_729)),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn writer(table: &Table, name: &str) -> Writer {
    table.writer(&WriterOptions { name: Some(name.into()), ..Default::default() }).unwrap()
}

fn age() -> NewColumn {
    let (data_type, default) = (DataType::Float64, Value::Float(0.5));
    NewColumn { name: "age".into(), data_type, nullable: false, default, unit: Some("s".into()), accuracy: None }
}

fn lived_in(table: &Table) {
    table.declare_writers(&Declared::Names(["ada", "ben"].map(String::from).into())).unwrap();
    let (mut ada, mut ben) = (writer(table, "ada"), writer(table, "ben"));
    for step in 0..4 {
        for (number, w) in [&mut ada, &mut ben].into_iter().enumerate() {
            let first = step * 2000 + number as i64 * 1000;
            if (step, number) != (3, 1) {
                w.append(&rows(first..first + 1000)).unwrap();
                w.commit_as(&CommitOptions { step: Some(step), token: Some(format!("{step}")) }).unwrap();
            }
        }
        if step == 1 {
            let all = OptimizeOptions { debt_share: 0.0, ..Default::default() };
            table.optimize(&all, &mut |_, _| {}).unwrap();
            table.add_column(&age()).unwrap();
        }
    }
    ada.append(&rows(9000..9500)).unwrap();
    ada.commit().unwrap();
    table.declare_writers_after(3, &Declared::Count(3)).unwrap();
}

fn ids(snapshot: &Snapshot, query: &Query) -> Vec<i64> {
    let batches = snapshot.query(query).unwrap().map(Result::unwrap);
    batches.flat_map(|batch| batch["id"].as_primitive::<Int64Type>().values().to_vec()).collect()
}

fn sorted(mut ids: Vec<i64>) -> Vec<i64> {
    ids.sort_unstable();
    ids
}

fn sound(table: &Table) {
    let report = table.verify(&kubist::VerifyOptions::deep(), &mut |_, _| {}).unwrap();
    assert_eq!(report.findings, Vec::<String>::new());
}

fn alike(one: &Snapshot, other: &Snapshot) {
    let range = |column: &str, low, high| Bound {
        column: column.into(),
        low: Some(Value::Int(low)),
        high: Some(Value::Int(high)),
    };
    let everything = Query::default();
    for query in [
        everything.clone(),
        Query { bounds: vec![range("x", 100, 300), range("y", 0, 500)], ..everything.clone() },
        Query { sample: Some(0.1), ..everything.clone() },
        Query { window: Some((0.2, 0.3)), filter: Some("age = 0.5".into()), ..everything.clone() },
        Query { steps: Some((Some(1), Some(2))), ..everything.clone() },
    ] {
        assert_eq!(sorted(ids(one, &query)), sorted(ids(other, &query)), "{query:?}");
    }
    let lowest = Query { limit: Some(200), ..everything };
    assert_eq!(ids(one, &lowest), ids(other, &lowest));
}

#[test]
fn a_copy_has_everything_that_the_rows_have() {
    for identity in [&["id"][..], &[]] {
        let table = Table::create(Arc::new(MemoryStore::new("one")), schema(), &options(identity)).unwrap();
        lived_in(&table);
        let (folder, snapshot) = (tempfile::tempdir().unwrap(), table.snapshot().unwrap());
        let at = folder.path().join("copy").display().to_string();
        let mut told = Vec::new();
        let memory_bytes = Some(100_000);
        let copied = snapshot
            .copy_to(&at, &CopyOptions { memory_bytes, ..Default::default() }, &mut |done, all| told.push((done, all)))
            .unwrap();
        assert_eq!((copied.rows, told.last()), (7500, Some(&(7500, 7500))));
        let copy = Table::open(&at).unwrap();
        sound(&copy);
        let now = copy.snapshot().unwrap();
        alike(&snapshot, &now);
        let (own, other) = (snapshot.info().unwrap(), now.info().unwrap());
        let about = |info: &kubist::Info| {
            let parts = (
                &info.about.dimensions,
                &info.about.identity,
                info.about.capacity,
                info.about.seed,
                &info.about.columns,
                &info.about.metadata,
            );
            serde_json::to_value(parts).unwrap()
        };
        assert_eq!(about(&own), about(&other));
        assert_eq!((snapshot.complete_steps(), now.complete_steps()), (vec![0, 1, 2], vec![0, 1, 2, 3]));
        assert_eq!(now.at_step(1).unwrap().rows().unwrap(), 4500);
        assert_eq!(own.about.writers.len(), 2);
        assert_eq!(other.about.writers.iter().map(|writer| writer.rows).collect::<Vec<_>>(), [7500]);

        let mut ada = writer(&copy, "ada");
        ada.append(&rows(20_000..27_500)).unwrap();
        ada.commit().unwrap();
        let half = Query { sample: Some(0.5), ..Default::default() };
        let (old, new): (Vec<i64>, Vec<i64>) =
            ids(&copy.snapshot().unwrap(), &half).into_iter().partition(|id| *id < 20_000);
        assert_eq!(sorted(old), sorted(ids(&snapshot, &half)));
        let positions =
            |ids: &[i64], first: i64| ids.iter().map(|id| id - first).collect::<std::collections::BTreeSet<_>>();
        let ada_before: Vec<i64> = ids(&snapshot, &half).into_iter().filter(|id| *id < 1000).collect();
        assert_ne!(positions(&new, 20_000).range(..1000).copied().collect::<Vec<_>>(), sorted(ada_before));
        assert_eq!(copy.retract(1).unwrap().rows, 3000);
        assert_eq!(copy.snapshot().unwrap().rows().unwrap(), 12_000);
        sound(&copy);
        let memory = Arc::new(MemoryStore::new("two"));
        let now = copy.snapshot().unwrap();
        now.copy_to(memory.clone(), &CopyOptions::default(), &mut |_, _| {}).unwrap();
        alike(&now, &Table::open(memory).unwrap().snapshot().unwrap());
    }
}

#[test]
fn a_copy_can_have_another_grid() {
    let table = Table::create(Arc::new(MemoryStore::new("one")), schema(), &options(&["id"])).unwrap();
    lived_in(&table);
    let snapshot = table.snapshot().unwrap();
    let given = |column: &str, domain| Dimension { column: column.into(), domain };
    let between = |low, high| Domain::Linear(Value::Int(low), Value::Int(high));
    for (dimensions, capacity) in [
        (vec![given("x", between(0, 2000))], None),
        (vec![given("x", Domain::Quantile)], Some(500)),
        (vec![given("y", between(0, 1)), Dimension::learned("x")], None),
        (vec![Dimension::learned("y")], Some(16)),
    ] {
        let store = Arc::new(MemoryStore::new("copy"));
        let options = CopyOptions { dimensions: Some(dimensions.clone()), capacity, ..Default::default() };
        snapshot.copy_to(store.clone(), &options, &mut |_, _| {}).unwrap();
        let copy = Table::open(store).unwrap();
        sound(&copy);
        alike(&snapshot, &copy.snapshot().unwrap());
        let info = copy.snapshot().unwrap().info().unwrap();
        assert_eq!(info.about.capacity, capacity.unwrap_or(64));
        assert_eq!(info.about.dimensions.len(), dimensions.len());
        for (dimension, given) in info.about.dimensions.iter().zip(&dimensions) {
            assert_eq!(dimension.column, given.column);
            match given.domain {
                Domain::Linear(_, Value::Int(high)) => assert_eq!(dimension.high, Some(high as f64)),
                Domain::Quantile => assert_eq!(dimension.scale, "quantile"),
                _ => assert!(dimension.low.unwrap() <= 20.0 && dimension.high.unwrap() >= 990.0, "{dimension:?}"),
            }
        }
    }
    for (options, part) in [
        (CopyOptions { dimensions: Some(vec![Dimension::learned("age")]), ..Default::default() }, "was added later"),
        (
            CopyOptions { dimensions: Some(vec![Dimension::learned("z")]), ..Default::default() },
            "\"z\" is not in the data",
        ),
        (CopyOptions { capacity: Some(3), ..Default::default() }, "capacity"),
    ] {
        let error = snapshot.copy_to(Arc::new(MemoryStore::new("no")), &options, &mut |_, _| {}).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn a_copy_can_widen_columns() {
    let table = Table::create(Arc::new(MemoryStore::new("one")), narrow(), &options(&["id"])).unwrap();
    let batch = |first: i64, wide: &SchemaRef| {
        let ids = Int64Array::from_iter_values(first..first + 500);
        let numbers = Float64Array::from_iter_values((0..500).map(|row| row as f64 / 8.0));
        let columns: Vec<ArrayRef> = wide
            .fields()
            .iter()
            .map(|field| match field.name().as_str() {
                "id" => arrow_cast::cast(&ids, field.data_type()).unwrap(),
                _ => arrow_cast::cast(&numbers, field.data_type()).unwrap(),
            })
            .collect();
        RecordBatch::try_new(wide.clone(), columns).unwrap()
    };
    let mut one = writer(&table, "one");
    one.append(&batch(0, &narrow())).unwrap();
    one.commit().unwrap();
    let column = |name: &str, data_type, default| NewColumn {
        name: name.into(),
        data_type,
        nullable: true,
        default,
        unit: None,
        accuracy: None,
    };
    table.add_column(&column("kind", DataType::Int8, Value::Int(7))).unwrap();
    let snapshot = table.snapshot().unwrap();
    let types = |types: &[(&str, DataType)]| CopyOptions {
        types: types.iter().map(|(name, wide)| (name.to_string(), wide.clone())).collect(),
        ..Default::default()
    };
    let store = Arc::new(MemoryStore::new("wide"));
    let wider = [("id", DataType::UInt64), ("x", DataType::Float64), ("kind", DataType::Int32)];
    snapshot.copy_to(store.clone(), &types(&wider), &mut |_, _| {}).unwrap();
    let copy = Table::open(store).unwrap();
    sound(&copy);
    for (name, wide) in &wider {
        assert_eq!(copy.schema().unwrap().field_with_name(name).unwrap().data_type(), wide);
    }
    // The identity is hashed as a number, so samples stay the same.
    let half = Query { sample: Some(0.5), ..Default::default() };
    let of_copy = copy.snapshot().unwrap();
    let wide_ids = |snapshot: &Snapshot| {
        let batches = snapshot.query(&half).unwrap().map(Result::unwrap);
        let ids = batches.map(|batch| arrow_cast::cast(&batch["id"], &DataType::UInt64).unwrap());
        let mut ids: Vec<u64> = ids.flat_map(|ids| ids.as_primitive::<UInt64Type>().values().to_vec()).collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(wide_ids(&snapshot), wide_ids(&of_copy));
    let wide = Arc::new(Schema::new(vec![
        Field::new("x", DataType::Float64, false),
        Field::new("id", DataType::UInt64, false),
    ]));
    let refused = one.append(&batch(1 << 40, &wide)).unwrap_err().to_string();
    assert!(refused.contains("kubist copy --types") && refused.contains("with the type uint64"), "{refused}");
    let mut two = writer(&copy, "two");
    two.append(&batch(1 << 40, &wide)).unwrap();
    two.commit().unwrap();
    let kinds = Query { filter: Some("kind = 7 AND id >= 1099511627776".into()), ..Default::default() };
    assert_eq!(copy.snapshot().unwrap().count(&kinds).unwrap(), 500);
    sound(&copy);
    for (narrower, part) in [
        (("id", DataType::Int16), "no wider number"),
        (("id", DataType::Float64), "is of the identity"),
        (("x", DataType::Utf8), "no wider number"),
        (("y", DataType::Int64), "no column"),
    ] {
        let error = snapshot.copy_to(Arc::new(MemoryStore::new("no")), &types(&[narrower]), &mut |_, _| {});
        let error = error.unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

fn narrow() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("x", DataType::Float32, false), Field::new("id", DataType::UInt32, false)]))
}

#[test]
fn a_copy_of_a_step_of_nothing_and_one_that_is_stopped() {
    let table = Table::create(Arc::new(MemoryStore::new("one")), schema(), &options(&[])).unwrap();
    let empty = Arc::new(MemoryStore::new("empty"));
    let copied = table.snapshot().unwrap().copy_to(empty.clone(), &CopyOptions::default(), &mut |_, _| {}).unwrap();
    assert_eq!((copied.rows, Table::open(empty).unwrap().snapshot().unwrap().rows().unwrap()), (0, 0));
    lived_in(&table);
    let (of_step, store) = (table.snapshot().unwrap().at_step(1).unwrap(), Arc::new(MemoryStore::new("step")));
    of_step.copy_to(store.clone(), &CopyOptions::default(), &mut |_, _| {}).unwrap();
    let copy = Table::open(store).unwrap().snapshot().unwrap();
    assert_eq!((copy.rows().unwrap(), copy.complete_steps()), (4500, vec![0, 1]));
    let store = Arc::new(MemoryStore::new("stopped"));
    let cancel = Cancel::default();
    let options = CopyOptions { cancel: cancel.clone(), memory_bytes: Some(10_000), ..Default::default() };
    let stopped = table.snapshot().unwrap().copy_to(store.clone(), &options, &mut |_, _| cancel.set());
    assert!(matches!(stopped, Err(Error::Cancelled)), "{stopped:?}");
    assert_eq!(store.sizes().unwrap(), []);
    let taken = Arc::new(MemoryStore::new("taken"));
    let other = Table::create(taken.clone(), schema(), &options_of_another()).unwrap();
    let refused = table.snapshot().unwrap().copy_to(taken, &CopyOptions::default(), &mut |_, _| {});
    assert!(matches!(refused, Err(Error::Exists { .. })), "{refused:?}");
    assert_eq!(other.snapshot().unwrap().about().unwrap().seed, 3);
}

fn options_of_another() -> TableOptions {
    TableOptions { seed: 3, ..options(&["id"]) }
}

fn files(at: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(at) else { return vec![] };
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> =
        paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect();
    found.sort();
    found
}

#[test]
fn a_dropped_table_leaves_what_is_not_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("t");
    let name = at.display().to_string();
    let make = || {
        let table = Table::create(&name, schema(), &options(&["id"])).unwrap();
        lived_in(&table);
        assert!(table.checkpoint().unwrap());
        table.clean(Duration::ZERO).unwrap();
        table
    };
    drop(make());
    let table = Table::open(&name).unwrap();
    let many = files(&at).len() as u64;
    let dropped = Table::drop_at(&name, false).unwrap();
    assert_eq!((dropped.files, dropped.files_left), (many, 0));
    assert!(!at.exists() && folder.path().exists());
    let gone = table.snapshot().and_then(|snapshot| snapshot.query(Query::default())?.collect::<Result<Vec<_>, _>>());
    assert!(matches!(gone, Err(Error::NotATable { .. })), "{gone:?}");
    assert!(matches!(Table::drop_at(&name, false), Err(Error::Missing { .. })));

    make();
    let elsewhere = folder.path().join("elsewhere");
    std::fs::create_dir_all(elsewhere.join("more")).unwrap();
    for path in [at.join("README"), at.join("notes/a"), elsewhere.join("x.seg"), elsewhere.join("more/0001")] {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "mine").unwrap();
    }
    std::fs::rename(at.join("segments"), elsewhere.join("segments")).unwrap();
    std::os::unix::fs::symlink(elsewhere.join("segments"), at.join("segments")).unwrap();
    let _ = std::fs::remove_dir_all(at.join("garbage"));
    std::os::unix::fs::symlink(elsewhere.join("more"), at.join("garbage")).unwrap();
    let outside = files(&elsewhere);
    let dropped = Table::drop_at(&name, false).unwrap();
    assert!(dropped.files_left >= 2, "{dropped:?}");
    assert_eq!(files(&elsewhere), outside);
    assert!(at.join("README").exists() && at.join("notes/a").exists() && !at.join("table").exists());
    assert!(matches!(Table::open(&name), Err(Error::NotATable { .. })));

    let other = folder.path().join("other");
    std::fs::create_dir_all(other.join("logs")).unwrap();
    std::fs::write(other.join("table"), "kitchen").unwrap();
    std::fs::write(other.join("logs/web.log"), "GET /").unwrap();
    Table::drop_at(other.to_str().unwrap(), true).unwrap_err();
    assert_eq!(files(&other).len(), 2);
}

#[test]
fn a_table_that_is_written_to_is_not_dropped_unawares() {
    let store = Arc::new(MemoryStore::new("busy"));
    let table = Table::create(store.clone(), schema(), &options(&["id"])).unwrap();
    let mut w = writer(&table, "w");
    w.append(&rows(0..10)).unwrap();
    w.commit().unwrap();
    let refused = Table::drop_at(store.clone(), false);
    assert!(matches!(refused, Err(Error::Busy(_))), "{refused:?}");
    w.append(&rows(10..20)).unwrap();
    w.commit().unwrap();
    assert_eq!(Table::open(store.clone()).unwrap().snapshot().unwrap().rows().unwrap(), 20);
    Table::drop_at(store.clone(), true).unwrap();
    assert_eq!(store.sizes().unwrap(), []);
    let table = Table::create(store.clone(), schema(), &options(&["id"])).unwrap();
    store.put_if_absent("dropped", b"").unwrap();
    let late = table.writer(&WriterOptions::default());
    assert!(matches!(late, Err(Error::NotATable { .. })), "{late:?}");
    assert!(matches!(Table::open(store.clone()), Err(Error::NotATable { .. })));
    assert!(Table::create(store.clone(), schema(), &options(&["id"])).is_err());
    Table::drop_at(store.clone(), false).unwrap();
    Table::create(store, schema(), &options(&["id"])).unwrap();
}

#[test]
fn a_drop_that_dies_can_be_done_again() {
    let at = Path::new("/data/t");
    let mut outcomes = [0; 3];
    for seed in 0..300 {
        let mut random = StdRng::seed_from_u64(seed);
        let machine = SimDisk::new(seed);
        let fresh = || Arc::new(LocalStore::on_disk(machine.process(), at).unwrap());
        let table = Table::create(fresh(), schema(), &options(&["id"])).unwrap();
        let mut w = writer(&table, "w");
        for commit in 0..3 {
            w.append(&rows(commit * 100..commit * 100 + 100)).unwrap();
            w.commit().unwrap();
        }
        table.add_column(&age()).unwrap();
        let all = OptimizeOptions { debt_share: 0.0, ..Default::default() };
        table.optimize(&all, &mut |_, _| {}).unwrap();
        drop((w, table));
        let process = machine.process();
        let store = Arc::new(LocalStore::on_disk(process.clone(), at).unwrap());
        process.kill_after(random.random_range(0..150));
        let dropped = Table::drop_at(store, false);
        if random.random_bool(0.7) {
            machine.crash();
        }
        match (&dropped, Table::open(fresh())) {
            (Err(_), Ok(table)) => {
                outcomes[0] += 1;
                assert_eq!(table.snapshot().unwrap().rows().unwrap(), 300);
                sound(&table);
            }
            (_, Err(Error::NotATable { .. })) => outcomes[1 + dropped.is_ok() as usize] += 1,
            (dropped, opened) => panic!("seed {seed}: {dropped:?}, then {opened:?}"),
        }
        match Table::drop_at(fresh(), false) {
            Ok(_) | Err(Error::NotATable { .. }) => {}
            Err(error) => panic!("seed {seed}: {error}"),
        }
        assert_eq!(fresh().sizes().unwrap(), [], "seed {seed}");
    }
    assert!(outcomes.iter().all(|count| *count > 20), "{outcomes:?}");
}

#[test]
fn all_files_have_a_cause() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("t");
    let table = Table::create(at.to_str().unwrap(), schema(), &options(&["id"])).unwrap();
    let check = || {
        let disk = table.snapshot().unwrap().info().unwrap().disk;
        let taken = |path: &std::path::PathBuf| match path.metadata().unwrap() {
            segment if path.extension().is_some_and(|of| of == "seg") => segment.len().min(segment.blocks() * 512),
            other => other.len(),
        };
        let found: u64 = files(&at).iter().map(taken).sum();
        let parts = [disk.primary, disk.replicas, disk.zone_maps, disk.dead, disk.logs, disk.rewrites];
        assert_eq!(disk.total, found, "{disk:?}");
        assert_eq!(parts.iter().sum::<u64>() + disk.checkpoints + disk.other, found, "{disk:?}");
        disk
    };
    assert_eq!(check().primary, 0);
    lived_in(&table);
    let before = check();
    assert!(before.primary > 0 && before.zone_maps > 0 && before.logs > 0 && before.rewrites > 0, "{before:?}");
    let all = OptimizeOptions { debt_share: 0.0, ..Default::default() };
    table.optimize(&all, &mut |_, _| {}).unwrap();
    assert!(table.checkpoint().unwrap());
    let rewritten = check();
    assert!(rewritten.dead > before.dead && rewritten.checkpoints > 0, "{rewritten:?}");
    table.clean(Duration::ZERO).unwrap();
    assert!(check().dead < rewritten.dead);
    let info = table.snapshot().unwrap().info().unwrap();
    assert_eq!(info.bytes, info.disk.primary + info.disk.replicas + info.disk.zone_maps);
    let age = Query { columns: Some(vec!["age".into()]), ..Default::default() };
    let batches = table.snapshot().unwrap().query(&age).unwrap().map(Result::unwrap);
    let sum: f64 = batches.flat_map(|batch| batch.column(0).as_primitive::<Float64Type>().values().to_vec()).sum();
    assert_eq!(sum, 7500.0 * 0.5);
}

#[test]
fn a_handle_knows_its_table_from_another_at_its_location() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("t").display().to_string();
    let old = Table::create(&name, schema(), &options(&["id"])).unwrap();
    assert!(Table::drop_at(&name, false).unwrap().files > 0);
    let new = Table::create(&name, schema(), &options(&["id"])).unwrap();
    let refused = |result: kubist::Result<()>| assert!(matches!(result, Err(Error::Replaced { .. })), "{result:?}");
    refused(old.writer(&Default::default()).map(drop));
    refused(old.checkpoint().map(drop));
    refused(old.set_metadata(None, &[("a".to_string(), 1.into())].into()));
    lived_in(&new);
    refused(old.snapshot().map(drop));
    assert!(new.verify(&kubist::VerifyOptions::deep(), &mut |_, _| {}).unwrap().findings.is_empty());
}
