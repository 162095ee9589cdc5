//! Columns with error bounds: each value is rounded once, and queries, rewrites, copies and salvages use
//! the stored value.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kubist::store::{MemoryStore, Store};
use kubist::{
    Accuracy, Cancel, CopyOptions, Dimension, Domain, Error, EstimateOptions, NewColumn, OptimizeOptions, Query,
    Replication, Snapshot, Table, TableOptions, Value, VerifyOptions, WriterOptions,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const ROWS: usize = 4000;

static COLUMNS: [(&str, DataType, Option<&str>); 10] = [
    ("id", DataType::Int64, None),
    ("x", DataType::Float64, Some("1e-3")),
    ("y", DataType::Float32, Some("2e-4")),
    ("speed", DataType::Float64, Some("1e-3 rel")),
    ("heat", DataType::Float32, Some("0.02 rel")),
    ("half", DataType::Float16, Some("0.5")),
    ("count", DataType::UInt32, Some("10")),
    ("small", DataType::Int8, Some("0.1 rel")),
    ("ticks", DataType::Int64, Some("1e5")),
    ("exact", DataType::Float64, None),
];

fn schema() -> SchemaRef {
    let fields = COLUMNS.iter().map(|(name, data_type, _)| {
        let field = Field::new(*name, data_type.clone(), *name == "heat");
        match *name {
            "x" => field.with_metadata(HashMap::from([("unit".to_string(), "m".to_string())])),
            _ => field,
        }
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn options() -> TableOptions {
    let bounds = COLUMNS.iter().filter_map(|(name, _, bound)| Some((name.to_string(), Value::Text((*bound)?.into()))));
    let domain = Domain::Linear(Value::Int(-100), Value::Int(100));
    let dimension = |name: &str| Dimension { column: name.into(), domain: domain.clone() };
    TableOptions {
        dimensions: vec![dimension("x"), dimension("y")],
        identity: vec!["id".into()],
        capacity: Some(64),
        replication: Replication::Full { height: 3 },
        accuracy: bounds.collect(),
        ..TableOptions::default()
    }
}

fn given(rng: &mut StdRng, first: usize) -> RecordBatch {
    rows(rng, first, true)
}

fn rows(rng: &mut StdRng, first: usize, with_odd: bool) -> RecordBatch {
    let special = [0.0, -0.0, f64::NAN, f64::INFINITY, f64::MIN_POSITIVE, 5e-324, f64::MAX, -1e-9, 3e38];
    let columns = COLUMNS.iter().map(|(name, data_type, _)| -> ArrayRef {
        if *name == "id" {
            return Arc::new(Int64Array::from_iter_values((first..first + ROWS).map(|id| id as i64)));
        }
        let wide = |value: f64| if *name == "ticks" { value * 1e12 } else { value * 100.0 };
        let values: Vec<Option<f64>> = (0..ROWS)
            .map(|_| match rng.random_range(0..100u32) {
                0 if with_odd && !data_type.is_integer() => Some(special[rng.random_range(0..special.len())]),
                1 if *name == "heat" => None,
                _ => Some(wide(rng.random_range(-1.0..1.0))),
            })
            .collect();
        let values = values.into_iter().map(|value| match data_type {
            DataType::UInt32 => value.map(f64::abs),
            _ => value,
        });
        cast(&Float64Array::from_iter(values), data_type).unwrap()
    });
    RecordBatch::try_new(schema(), columns.collect()).unwrap()
}

fn expected(batch: &RecordBatch) -> RecordBatch {
    let columns = batch.columns().iter().zip(&COLUMNS).map(|(array, (_, _, bound))| match bound {
        Some(bound) => bound.parse::<Accuracy>().unwrap().round(array),
        None => array.clone(),
    });
    RecordBatch::try_new(batch.schema(), columns.collect()).unwrap()
}

fn bits(batches: &[RecordBatch]) -> BTreeMap<i64, Vec<String>> {
    let mut rows = BTreeMap::new();
    for batch in batches {
        let ids = batch.column_by_name("id").unwrap().as_primitive::<Int64Type>().values().to_vec();
        let columns: Vec<_> = COLUMNS.iter().map(|(name, _, _)| batch.column_by_name(name).unwrap()).collect();
        for (row, id) in ids.into_iter().enumerate() {
            let of = |array: &&ArrayRef| match array.is_null(row) {
                true => "null".to_string(),
                false => match array.data_type() {
                    DataType::Float64 => format!("{:x}", array.as_primitive::<Float64Type>().value(row).to_bits()),
                    DataType::Float32 => format!("{:x}", array.as_primitive::<Float32Type>().value(row).to_bits()),
                    DataType::Float16 => format!("{:x}", array.as_primitive::<Float16Type>().value(row).to_bits()),
                    _ => format!("{:?}", array.slice(row, 1)),
                },
            };
            assert!(rows.insert(id, columns.iter().map(of).collect()).is_none(), "record {id} is there twice");
        }
    }
    rows
}

fn read(snapshot: &Snapshot, query: &Query) -> Vec<RecordBatch> {
    snapshot.query(query).unwrap().collect::<kubist::Result<_>>().unwrap()
}

fn stored(table: &Table) -> BTreeMap<i64, Vec<String>> {
    bits(&read(&table.snapshot().unwrap(), &Query::default()))
}

fn sound(table: &Table) {
    let deep = VerifyOptions { deep: true, ..VerifyOptions::default() };
    let findings = table.verify(&deep, &mut |_, _| {}).unwrap().findings;
    assert!(findings.is_empty(), "{findings:?}");
}

fn in_memory(name: &str) -> Arc<dyn Store> {
    Arc::new(MemoryStore::new(name))
}

fn filled(store: Arc<dyn Store>) -> (Table, Vec<RecordBatch>) {
    let mut rng = StdRng::seed_from_u64(7);
    let table = Table::create(store, schema(), &options()).unwrap();
    let mut writer = table.writer(&WriterOptions::default()).unwrap();
    let mut all = Vec::new();
    for commit in 0..4 {
        let batch = given(&mut rng, commit * ROWS);
        for part in 0..1 + commit {
            let (from, to) = (part * ROWS / (1 + commit), (part + 1) * ROWS / (1 + commit));
            writer.append(&batch.slice(from, to - from)).unwrap();
        }
        writer.commit().unwrap();
        all.push(batch);
    }
    (table, all)
}

#[test]
fn values_are_rounded_once_and_never_again() {
    let (table, all) = filled(in_memory("rounded"));
    let wanted = bits(&all.iter().map(expected).collect::<Vec<_>>());
    assert_eq!(stored(&table), wanted);
    sound(&table);

    table.optimize(&OptimizeOptions::default(), &mut |_, _| {}).unwrap();
    assert_eq!(stored(&table), wanted);
    table.set_compression(kubist::Compression::Small).unwrap();
    let all = OptimizeOptions { recompress: true, ..OptimizeOptions::default() };
    table.optimize(&all, &mut |_, _| {}).unwrap();
    assert_eq!(stored(&table), wanted);
    sound(&table);

    let bounds = |table: &Table| -> Vec<_> {
        table.snapshot().unwrap().columns().into_iter().map(|column| column.accuracy).collect()
    };
    let snapshot = table.snapshot().unwrap();
    let same = CopyOptions::default();
    let other =
        CopyOptions { dimensions: Some(["speed", "x"].map(Dimension::learned).into()), ..CopyOptions::default() };
    for options in [same, other] {
        let store = in_memory("copy");
        snapshot.copy_to(store.clone(), &options, &mut |_, _| {}).unwrap();
        let copy = Table::open(store).unwrap();
        assert_eq!((stored(&copy), bounds(&copy)), (wanted.clone(), bounds(&table)));
        let mut writer = copy.writer(&WriterOptions::default()).unwrap();
        let again = given(&mut StdRng::seed_from_u64(8), 9 * ROWS);
        writer.append(&again).unwrap();
        writer.append(&read(&snapshot, &Query::default())[0].slice(0, 0)).unwrap();
        writer.commit().unwrap();
        let mut both = wanted.clone();
        both.extend(bits(&[expected(&again)]));
        assert_eq!(stored(&copy), both);
        sound(&copy);
    }
    let (store, from) = (in_memory("salvaged"), in_memory("again"));
    filled(from.clone());
    Table::salvage(from, store.clone(), &Cancel::default(), &mut |_, _| {}).unwrap();
    let salvaged = Table::open(store).unwrap();
    assert_eq!((stored(&salvaged), bounds(&salvaged)), (wanted, bounds(&table)));
}

#[test]
fn questions_are_about_the_stored_values() {
    let (table, all) = filled(in_memory("asked"));
    let snapshot = table.snapshot().unwrap();
    let rows: Vec<RecordBatch> = all.iter().map(expected).collect();
    let ends = || (Value::Float(-25.0), Value::Float(17.3));
    let column = |name: &str| {
        let of = |batch: &RecordBatch| cast(batch.column_by_name(name).unwrap(), &DataType::Float64).unwrap();
        rows.iter().flat_map(|batch| of(batch).as_primitive::<Float64Type>().values().to_vec()).collect::<Vec<_>>()
    };
    for name in ["x", "y"] {
        let query = Query::new().between(name, ends().0, ends().1);
        let inside = column(name).into_iter().filter(|value| (-25.0..=17.3).contains(value)).count();
        assert_eq!(snapshot.count(&query).unwrap() as usize, inside, "{name}");
    }
    for name in ["x", "speed", "count", "ticks"] {
        let value = column(name).into_iter().find(|value| (1.0..1e15).contains(&value.abs())).unwrap();
        let equal = column(name).into_iter().filter(|other| *other == value).count();
        assert!(equal > 0);
        let found = snapshot.count(Query::new().filter(format!("{name} = {value:?}"))).unwrap();
        assert_eq!(found as usize, equal, "{name} = {value}");
    }
    let options = EstimateOptions {
        aggregates: vec!["sum(count)".into()],
        query: Query { sample: Some(1.0), ..Query::default() },
        ..EstimateOptions::default()
    };
    let figure = &snapshot.estimate(&options, &mut |_| {}).unwrap().figures[0];
    let sum: f64 = column("count").iter().sum();
    assert_eq!((figure.exact, figure.value), (true, Some(sum)));
}

/// Bounds as wide as cubes move values across borders and out of the domain.
#[test]
fn rows_lie_where_their_stored_values_are() {
    let domains = [Domain::Linear(Value::Float(-97.3), Value::Float(41.0)), Domain::Learned, Domain::Quantile];
    for (number, domain) in domains.into_iter().enumerate() {
        let accuracy = [("x", "40"), ("y", "0.3 rel")].map(|(name, bound)| (name.into(), Value::Text(bound.into())));
        let dimension = |name: &str| Dimension { column: name.into(), domain: domain.clone() };
        let options = TableOptions {
            dimensions: vec![dimension("x"), dimension("y")],
            accuracy: accuracy.to_vec(),
            capacity: Some(16),
            ..options()
        };
        let table = Table::create(in_memory("wide"), schema(), &options).unwrap();
        let mut writer = table.writer(&WriterOptions::default()).unwrap();
        let mut rng = StdRng::seed_from_u64(number as u64);
        let mut stored = Vec::new();
        for commit in 0..3 {
            let batch = rows(&mut rng, commit * ROWS, commit > 0);
            writer.append(&batch).unwrap();
            writer.commit().unwrap();
            let values = |name: &str, bound: &str| {
                let rounded = bound.parse::<Accuracy>().unwrap().round(batch.column_by_name(name).unwrap());
                cast(&rounded, &DataType::Float64).unwrap().as_primitive::<Float64Type>().values().to_vec()
            };
            stored.extend(values("x", "40").into_iter().zip(values("y", "0.3 rel")));
        }
        let check = |table: &Table| {
            let snapshot = table.snapshot().unwrap();
            for (low, high) in [(-64.0, -64.0), (-63.9, 63.9), (0.0, 64.0), (64.0, 1e9), (-1e9, -97.0), (-0.0, 24.0)] {
                let inside = |value: &f64| (low..=high).contains(value);
                let found = |query: Query| snapshot.count(&query).unwrap() as usize;
                let ends = || (Value::Float(low), Value::Float(high));
                let of_x = stored.iter().filter(|(x, _)| inside(x)).count();
                let of_y = stored.iter().filter(|(_, y)| inside(y)).count();
                assert_eq!(found(Query::new().between("x", ends().0, ends().1)), of_x, "{number}: x {low}..{high}");
                assert_eq!(found(Query::new().between("y", ends().0, ends().1)), of_y, "{number}: y {low}..{high}");
                let filter = format!("x >= {low:?} and x <= {high:?}");
                assert_eq!(found(Query::new().filter(filter)), of_x, "{number}: where {low}..{high}");
            }
            sound(table);
        };
        check(&table);
        table.optimize(&OptimizeOptions::default(), &mut |_, _| {}).unwrap();
        check(&table);
    }
}

#[test]
fn what_cannot_have_an_accuracy_is_refused() {
    let refused = |column: &str, bound: Value, change: &dyn Fn(&mut TableOptions), why: &str| {
        let mut options = TableOptions { accuracy: vec![(column.into(), bound)], ..options() };
        change(&mut options);
        let schema = schema();
        let fields = schema.fields().iter().cloned().chain([Arc::new(Field::new("name", DataType::Utf8, true))]);
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        match Table::create(in_memory("refused"), schema, &options) {
            Err(error) => {
                let message = error.to_string();
                assert!(message.contains(why) && message.contains(column), "{message}");
            }
            Ok(_) => panic!("{column}: {why}"),
        }
    };
    let none = |_: &mut TableOptions| {};
    refused("id", Value::Float(2.0), &none, "of the identity");
    refused("name", Value::Float(2.0), &none, "Utf8");
    refused("exact", Value::Float(0.1), &|options| options.lookup = vec!["exact".into()], "for lookups");
    refused("x", Value::Float(0.0), &none, "found 0");
    refused("x", Value::Float(-1e-3), &none, "found -0.001");
    refused("x", Value::Float(f64::NAN), &none, "found NaN");
    refused("x", Value::Float(f64::INFINITY), &none, "found inf");
    refused("x", Value::Int(0), &none, "found 0");
    refused("x", Value::Text("1.5 rel".into()), &none, "found 1.5");
    refused("x", Value::Text("0 rel".into()), &none, "found 0");
    refused("x", Value::Text("little".into()), &none, "\"little\"");
    refused("x", Value::Text("1 kg".into()), &none, "kg");
    refused("y", Value::Text("1 mm".into()), &none, "no unit");
    refused("x", Value::Null, &none, "neither a number nor text");
    refused("nowhere", Value::Float(1.0), &none, "no column");
    let twice = |options: &mut TableOptions| options.accuracy.push(("X".into(), Value::Float(1.0)));
    refused("x", Value::Float(1.0), &twice, "twice");
}

#[test]
fn bounds_are_in_the_unit_of_the_column() {
    let store = in_memory("units");
    let options = TableOptions { accuracy: vec![("x".into(), Value::Text("1mm".into()))], ..options() };
    let table = Table::create(store.clone(), schema(), &options).unwrap();
    let info = table.snapshot().unwrap().info().unwrap();
    assert_eq!(info.about.columns[1].accuracy.as_deref(), Some("0.001"));
    assert_eq!(info.about.columns[2].accuracy, None);
    let again = |bound: Option<&str>| {
        let accuracy = bound.map(|bound| ("x".to_string(), Value::Text(bound.into()))).into_iter().collect();
        Table::create(store.clone(), schema(), &TableOptions { accuracy, exist_ok: true, ..options.clone() })
    };
    again(Some("1000 um")).unwrap();
    for other in [Some("2 mm"), Some("1e-3 rel"), None] {
        match again(other) {
            Err(Error::Exists { why, .. }) => assert!(why.contains("accuracy"), "{why}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_column_that_comes_later_may_have_a_bound() {
    let store = in_memory("added");
    let table = Table::create(store.clone(), schema(), &options()).unwrap();
    let mut writer = table.writer(&WriterOptions::default()).unwrap();
    let batch = given(&mut StdRng::seed_from_u64(3), 0);
    writer.append(&batch).unwrap();
    writer.commit().unwrap();
    let age = |accuracy: Value| NewColumn {
        name: "age".into(),
        data_type: DataType::Float64,
        nullable: false,
        default: Value::Float(0.3),
        unit: Some("s".into()),
        accuracy: Some(accuracy),
    };
    for (wrong, why) in [(Value::Float(-1.0), "found -1"), (Value::Text("1 m".into()), "age")] {
        let message = table.add_column(&age(wrong)).unwrap_err().to_string();
        assert!(message.contains(why) && message.contains("age"), "{message}");
    }
    let text = NewColumn { data_type: DataType::Utf8, default: Value::Text("".into()), ..age(Value::Float(1.0)) };
    assert!(table.add_column(&text).unwrap_err().to_string().contains("Utf8"));
    table.add_column(&age(Value::Text("100 ms".into()))).unwrap();

    let known = schema();
    let field = Field::new("age", DataType::Float64, false);
    let fields = known.fields().iter().cloned().chain([Arc::new(field.clone())]);
    let ages: ArrayRef = Arc::new(Float64Array::from_iter_values((0..ROWS).map(|row| row as f64 * 0.01)));
    let more = given(&mut StdRng::seed_from_u64(4), ROWS);
    let columns = more.columns().iter().cloned().chain([ages.clone()]).collect();
    writer.append(&RecordBatch::try_new(Arc::new(Schema::new(fields.collect::<Vec<_>>())), columns).unwrap()).unwrap();
    writer.commit().unwrap();

    let accuracy = Accuracy::absolute(0.1).unwrap();
    let mut wanted = accuracy.round(&ages).as_primitive::<Float64Type>().values().to_vec();
    wanted.extend(vec![0.25; ROWS]);
    wanted.sort_by(f64::total_cmp);
    let ages = |table: &Table| {
        let asked = Query { columns: Some(vec!["age".into()]), ..Query::default() };
        let of = |batch: RecordBatch| batch.column(0).as_primitive::<Float64Type>().values().to_vec();
        let mut ages: Vec<f64> = read(&table.snapshot().unwrap(), &asked).into_iter().flat_map(of).collect();
        ages.sort_by(f64::total_cmp);
        ages
    };
    for table in [&table, &Table::open(store.clone()).unwrap()] {
        assert_eq!(ages(table), wanted);
        let columns = table.snapshot().unwrap().columns();
        assert_eq!(columns.last().unwrap().accuracy.as_deref(), Some("0.1"));
    }
    let again = |bound: Option<Value>, knows: bool| {
        let mut accuracy = options().accuracy;
        accuracy.extend(bound.map(|bound| ("age".to_string(), bound)));
        let fields =
            schema().fields().iter().cloned().chain(knows.then(|| Arc::new(field.clone()))).collect::<Vec<_>>();
        let options = TableOptions { accuracy, exist_ok: true, ..options() };
        Table::create(store.clone(), Arc::new(Schema::new(fields)), &options)
    };
    again(None, false).unwrap();
    again(Some(Value::Float(0.1)), true).unwrap();
    for other in [None, Some(Value::Float(0.2))] {
        match again(other, true) {
            Err(Error::Exists { why, .. }) => assert!(why.contains("accuracy"), "{why}"),
            other => panic!("{other:?}"),
        }
    }
    table.optimize(&OptimizeOptions::default(), &mut |_, _| {}).unwrap();
    let copied = in_memory("copied");
    table.snapshot().unwrap().copy_to(copied.clone(), &CopyOptions::default(), &mut |_, _| {}).unwrap();
    for table in [&table, &Table::open(copied).unwrap()] {
        assert_eq!(ages(table), wanted);
        assert_eq!(table.snapshot().unwrap().columns().last().unwrap().accuracy.as_deref(), Some("0.1"));
        sound(table);
    }
}

#[test]
fn rounded_values_take_fewer_bytes() {
    let bytes = |accuracy: Vec<(String, Value)>| {
        let options = TableOptions { accuracy, capacity: None, ..options() };
        let table = Table::create(in_memory("sized"), schema(), &options).unwrap();
        let mut writer = table.writer(&WriterOptions::default()).unwrap();
        let mut rng = StdRng::seed_from_u64(1);
        for commit in 0..3 {
            writer.append(&rows(&mut rng, commit * ROWS, false)).unwrap();
        }
        writer.commit().unwrap();
        let found = table.snapshot().unwrap().columns_use().unwrap();
        let of = |name: &str| found.columns.iter().find(|column| column.name == name).unwrap().bytes_per_row;
        COLUMNS.iter().map(|(name, _, _)| of(name)).collect::<Vec<f64>>()
    };
    let (all, rounded) = (bytes(vec![]), bytes(options().accuracy));
    for ((name, _, bound), (all, rounded)) in COLUMNS.iter().zip(all.into_iter().zip(rounded)) {
        match bound {
            Some(_) if *name == "small" => assert!(rounded <= all * 1.05, "{name}: {rounded} bytes, {all} before"),
            Some(_) => assert!(rounded < 0.9 * all, "{name}: {rounded} bytes, {all} before"),
            None => assert!(rounded <= all * 1.05 + 0.05, "{name}: {rounded} bytes, {all} before"),
        }
    }
}
