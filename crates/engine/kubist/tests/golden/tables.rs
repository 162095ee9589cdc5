//! Recipes of the golden tables: schemas, commits and queries that together cover all chapters of
//! FORMAT.md. Values follow from row numbers, so every machine writes the same rows.
#![allow(dead_code)] // each program takes what it needs

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, Float32Array, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use kubist::{
    CommitOptions, Compression, CopyOptions, Declared, Dimension, Domain, GridOptions, Metadata, NewColumn,
    OptimizeOptions, Replication, Table, TableOptions, Value, WriterOptions,
};

use super::questions::{Ask, Which};
use super::values::{self, all_types, fraction, mix};

pub struct Golden {
    pub name: &'static str,
    write: fn(&str),
    ask: fn() -> Vec<Ask>,
    pub more: Option<fn() -> RecordBatch>,
}

pub const TABLES: [Golden; 16] = [
    Golden { name: "types", write: types, ask: ask_types, more: Some(more_types) },
    Golden { name: "dimensions", write: dimensions, ask: ask_dimensions, more: Some(more_dimensions) },
    Golden { name: "lookups", write: lookups, ask: ask_droplets, more: Some(more_droplets) },
    Golden { name: "merged", write: merged, ask: ask_droplets, more: Some(more_droplets) },
    Golden { name: "outlook", write: outlook, ask: ask_droplets, more: Some(more_droplets) },
    Golden { name: "full", write: full, ask: ask_droplets, more: Some(more_droplets) },
    Golden { name: "ranges", write: ranges, ask: ask_ranges, more: Some(more_ranges) },
    Golden { name: "steps", write: steps, ask: ask_steps, more: Some(more_droplets) },
    Golden { name: "copied", write: copied, ask: ask_steps, more: Some(more_droplets) },
    Golden { name: "altered", write: altered, ask: ask_altered, more: Some(more_droplets) },
    Golden { name: "pages", write: pages, ask: ask_droplets, more: Some(more_droplets) },
    Golden { name: "commits", write: commits, ask: ask_droplets, more: Some(more_droplets) },
    Golden { name: "bounds", write: bounds, ask: ask_bounds, more: Some(more_droplets) },
    Golden { name: "small", write: small, ask: ask_bounds, more: Some(more_droplets) },
    Golden { name: "grids", write: grids, ask: ask_grids, more: Some(more_grids) },
    Golden { name: "damaged", write: damaged, ask: Vec::new, more: None },
];

impl Golden {
    pub fn is_sound(&self) -> bool {
        self.more.is_some()
    }

    pub fn write(&self, at: &Path) {
        (self.write)(at.to_str().expect("a path in UTF-8"));
    }

    pub fn questions(&self) -> Vec<Ask> {
        let everything = Ask::Rows { which: Which::default() };
        let own = (self.ask)();
        let of_all = [Ask::Columns, Ask::Info, Ask::Verify { deep: false }, Ask::Verify { deep: true }, Ask::Salvage];
        std::iter::once(everything).chain(own).chain(of_all).collect()
    }
}

fn which(filter: &str) -> Which {
    Which { filter: Some(filter.into()), ..Which::default() }
}

fn within(bounds: &[(&str, f64, f64)]) -> Which {
    let bounds = bounds.iter().map(|(column, low, high)| (column.to_string(), Some(*low), Some(*high)));
    Which { bounds: bounds.collect(), ..Which::default() }
}

fn sampled(sample: f64) -> Which {
    Which { sample: Some(sample), ..Which::default() }
}

fn linear(column: &str, low: i128, high: i128) -> Dimension {
    Dimension { column: column.into(), domain: Domain::Linear(Value::Int(low), Value::Int(high)) }
}

fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>) -> RecordBatch {
    RecordBatch::try_new(schema.clone(), columns).expect("columns of the schema")
}

fn commit(table: &Table, writer: &str, rows: &RecordBatch, step: Option<i64>) {
    let mut writer =
        table.writer(&WriterOptions { name: Some(writer.into()), ..Default::default() }).expect("a free name");
    writer.append(rows).expect("rows of the table");
    writer.commit_as(&CommitOptions { step, token: step.map(|step| format!("step {step}")) }).expect("a commit");
}

fn optimize(table: &Table) {
    let options = OptimizeOptions { debt_share: 0.0, ..Default::default() };
    table.optimize(&options, &mut |_, _| {}).expect("an optimized table");
}

// Every type; dimensions of time and of floats with NaN and null.

fn typed_schema() -> SchemaRef {
    let own = [
        Field::new("id", DataType::Int64, false),
        Field::new("x", DataType::Float32, true),
        Field::new("at", DataType::Timestamp(TimeUnit::Microsecond, None), true),
    ];
    let others =
        all_types().into_iter().enumerate().map(|(n, data_type)| Field::new(format!("c{n}"), data_type, n != 4));
    Arc::new(Schema::new(own.into_iter().chain(others).collect::<Vec<_>>()))
}

fn typed(rows: Range<u64>) -> RecordBatch {
    let schema = typed_schema();
    let columns = schema.fields().iter().enumerate().map(|(n, field)| match n {
        0 => Arc::new(Int64Array::from_iter_values(rows.clone().map(|row| row as i64 - 100))) as ArrayRef,
        _ => values::column(field.data_type(), rows.clone(), n as u64, field.is_nullable()),
    });
    batch(&schema, columns.collect())
}

fn types(at: &str) {
    let options = TableOptions {
        dimensions: vec![linear("x", -1000, 1000), linear("at", 0, 4096)],
        identity: ["id", "c0", "c11", "c24", "c28", "c35"].map(String::from).to_vec(),
        capacity: Some(64),
        seed: 11,
        units: vec![("x".into(), "m".into())],
        metadata: Metadata::from([("run".into(), "types".into())]),
        ..Default::default()
    };
    let table = Table::create(at, typed_schema(), &options).expect("a free folder");
    commit(&table, "first", &typed(0..300), None);
    commit(&table, "second", &typed(300..400), None);
}

fn more_types() -> RecordBatch {
    typed(400..450)
}

fn ask_types() -> Vec<Ask> {
    let columns = |names: &[&str]| Some(names.iter().map(|name| name.to_string()).collect());
    let filters = [
        "c0 AND c1 > 100",
        "c9 > 1e3",
        "c8 = 18446744073709551615",
        "c4 <= -9223372036854775808",
        "c12 < DATE '1970-02-01'",
        "c26 >= 0 AND c27 IS NULL",
        "c28 LIKE 'droplet 1%'",
        "c28 = '' OR c29 IS NULL",
        "c35 IN ('name 1', 'name 3') AND NOT (c36 > 5)",
        "c31 = X''",
        "x IS NULL AND at IS NOT NULL",
    ];
    let mut asked: Vec<Ask> = filters
        .into_iter()
        .map(|filter| Ask::Rows { which: Which { columns: columns(&["id", "x", "c28"]), ..which(filter) } })
        .collect();
    asked.extend([
        Ask::Rows { which: within(&[("x", -100.0, 1e5), ("at", -100.0, 2000.0)]) },
        Ask::Rows { which: Which { limit: Some(5), ..Which::default() } },
        Ask::Count { which: Which { bounds: vec![("at".into(), None, Some(0.0))], ..Which::default() } },
        Ask::Rows { which: sampled(0.1) },
    ]);
    asked
}

// Eight dimensions, one with a learned quantile grid.

fn eight_schema() -> SchemaRef {
    let fields = (0..8)
        .map(|d| Field::new(format!("d{d}"), if d % 2 == 0 { DataType::Float64 } else { DataType::UInt16 }, false));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn eight(rows: Range<u64>) -> RecordBatch {
    let columns = (0..8u64).map(|d| match d % 2 {
        0 => {
            Arc::new(Float64Array::from_iter_values(rows.clone().map(|row| (9.0 * fraction(row, d)).exp()))) as ArrayRef
        }
        _ => values::column(&DataType::UInt16, rows.clone(), d, false),
    });
    batch(&eight_schema(), columns.collect())
}

fn dimensions(at: &str) {
    let dimension = |d: u32| Dimension {
        column: format!("d{d}"),
        domain: match d % 3 {
            0 => Domain::Quantile,
            1 => Domain::Learned,
            _ => Domain::Linear(Value::Float(0.5), Value::Float(9000.0)),
        },
    };
    let options = TableOptions {
        dimensions: (0..8).map(dimension).collect(),
        identity: vec!["d0".into(), "d1".into()],
        capacity: Some(64),
        ..Default::default()
    };
    let table = Table::create(at, eight_schema(), &options).expect("a free folder");
    commit(&table, "all", &eight(0..600), None);
    commit(&table, "all", &eight(600..800), None);
}

fn more_dimensions() -> RecordBatch {
    eight(800..900)
}

fn ask_dimensions() -> Vec<Ask> {
    let inner = within(&[("d0", 1.0, 500.0), ("d1", 10.0, 3000.0), ("d6", 2.0, 4000.0)]);
    vec![
        Ask::Rows { which: inner.clone() },
        Ask::Rows { which: Which { sample: Some(0.25), ..inner } },
        Ask::Rows { which: Which { per_cell: Some((2, vec![("d2".into(), 3000.0)])), ..Which::default() } },
    ]
}

// Droplets with few columns, for tables that do not test types.

const BOX: f64 = 1000.0;

fn droplet_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("pid", DataType::Int64, false),
        Field::new("x", DataType::Float32, true),
        Field::new("y", DataType::Float32, false),
        Field::new("age", DataType::Float64, true),
        Field::new("name", DataType::Utf8, true),
    ]))
}

fn droplets(rows: Range<u64>) -> RecordBatch {
    let coordinate = |row: u64, salt: u64| match row.is_multiple_of(2) {
        true => (BOX * fraction(row, salt)) as f32,
        false => (BOX / 2.0 + 20.0 * fraction(row, salt)) as f32,
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(rows.clone().map(|row| row as i64))),
        Arc::new(Float32Array::from_iter(rows.clone().map(|row| (row % 97 != 5).then(|| coordinate(row, 1))))),
        Arc::new(Float32Array::from_iter_values(rows.clone().map(|row| coordinate(row, 2)))),
        Arc::new(Float64Array::from_iter(
            rows.clone().map(|row| (row % 13 != 7).then(|| if row % 50 == 3 { f64::NAN } else { fraction(row, 3) })),
        )),
        Arc::new(StringArray::from_iter(
            rows.map(|row| (row % 31 != 4).then(|| format!("droplet {}", mix(row) % 200))),
        )),
    ];
    batch(&droplet_schema(), columns)
}

fn droplet_options() -> TableOptions {
    TableOptions {
        dimensions: vec![linear("x", 0, BOX as i128), linear("y", 0, BOX as i128)],
        identity: vec!["pid".into()],
        capacity: Some(64),
        ..Default::default()
    }
}

fn more_droplets() -> RecordBatch {
    droplets(1_000_000..1_000_300)
}

fn ask_droplets() -> Vec<Ask> {
    let cluster = within(&[("x", 500.0, 510.0), ("y", 495.0, 515.0)]);
    let estimate = |aggregates: &[&str], group_by: &[&str], which: Which| Ask::Estimate {
        aggregates: aggregates.iter().map(|text| text.to_string()).collect(),
        group_by: group_by.iter().map(|text| text.to_string()).collect(),
        which,
    };
    vec![
        Ask::Rows { which: cluster.clone() },
        Ask::Count { which: within(&[("x", 100.0, 900.0)]) },
        Ask::Rows { which: Which { sample: Some(0.2), ..cluster.clone() } },
        Ask::Rows { which: Which { window: Some((0.25, 0.5)), inclusion: Some("p".into()), ..cluster.clone() } },
        Ask::Rows { which: Which { limit: Some(7), ..Which::default() } },
        Ask::Rows { which: Which { limit: Some(40), ..which("age < 0.5 AND y > 100") } },
        Ask::Rows {
            which: Which { per_cell: Some((3, vec![("x".into(), 250.0), ("y".into(), 500.0)])), ..Which::default() },
        },
        Ask::Lookup { which: which("pid = 42") },
        Ask::Lookup { which: which("name IN ('droplet 7', 'droplet 150') AND age >= 0") },
        Ask::Rows { which: which("x IS NULL OR age * 2 > x") },
        Ask::Refine { which: cluster.clone(), start: 0.1, factor: 3.0 },
        Ask::PerPart { which: sampled(0.7), parts: 3 },
        Ask::Trajectories {
            through: Which { sample: Some(0.3), ..cluster },
            by: "name".into(),
            which: Which::default(),
        },
        estimate(&["count()", "sum(y)", "min(age)", "p50(y)", "histogram(x, 4)"], &[], sampled(1.0)),
        estimate(&["count()", "mean(y)"], &[], sampled(0.25)),
        estimate(&["count()"], &["name"], Which { sample: Some(1.0), ..which("name < 'droplet 110'") }),
    ]
}

fn lookups(at: &str) {
    let options = TableOptions { lookup: vec!["pid".into(), "name".into()], seed: 5, ..droplet_options() };
    let table = Table::create(at, droplet_schema(), &options).expect("a free folder");
    for commits in 0..4 {
        commit(&table, ["a", "b"][commits as usize % 2], &droplets(commits * 200..(commits + 1) * 200), None);
    }
}

fn merged(at: &str) {
    let options = TableOptions { lookup: vec!["pid".into(), "name".into()], ..droplet_options() };
    let table = Table::create(at, droplet_schema(), &options).expect("a free folder");
    for commits in 0..6 {
        commit(&table, ["a", "b"][commits as usize % 2], &droplets(commits * 150..(commits + 1) * 150), None);
    }
    let options = OptimizeOptions { debt_share: f64::INFINITY, few_lookups: 2, ..Default::default() };
    let report = table.optimize(&options, &mut |_, _| {}).expect("an optimized table");
    assert!(report.lookups_merged > 2, "{report:?}");
    commit(&table, "a", &droplets(900..1000), None);
}

fn outlook(at: &str) {
    let options = TableOptions {
        replication: Replication::Outlook { boost: 1.0 },
        lookup: vec!["pid".into()],
        ..droplet_options()
    };
    let table = Table::create(at, droplet_schema(), &options).expect("a free folder");
    commit(&table, "rank-0", &droplets(0..1200), None);
    optimize(&table);
    commit(&table, "rank-1", &droplets(1200..1400), None);
}

fn full(at: &str) {
    let options = TableOptions {
        replication: Replication::Full { height: 3 },
        identity: vec![],
        seed: u64::MAX,
        ..droplet_options()
    };
    let table = Table::create(at, droplet_schema(), &options).expect("a free folder");
    commit(&table, "rank-0", &droplets(0..700), None);
    commit(&table, "rank-1", &droplets(700..900), None);
    optimize(&table);
}

// Columns that are not dimensions; each commit has one range of their values.

fn stretch_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::UInt32, false),
        Field::new("x", DataType::Float64, false),
        Field::new("time", DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())), false),
        Field::new("level", DataType::Int16, true),
        Field::new("tag", DataType::Binary, true),
    ]))
}

/// One commit has only nulls in `level`, another has none.
fn stretch(commit: u64) -> RecordBatch {
    let rows = commit * 200..(commit + 1) * 200;
    let levels = rows.clone().map(|row| match commit % 3 {
        0 => None,
        1 => Some(row as i16 - 300),
        _ => (row % 4 != 0).then_some(row as i16 * 10),
    });
    let columns: Vec<ArrayRef> = vec![
        Arc::new(arrow_array::UInt32Array::from_iter_values(rows.clone().map(|row| row as u32))),
        Arc::new(Float64Array::from_iter_values(rows.clone().map(|row| fraction(row, 9)))),
        Arc::new(
            arrow_array::TimestampMillisecondArray::from_iter_values(
                rows.clone().map(|row| 1_700_000_000_000 + row as i64 * 1000),
            )
            .with_timezone("UTC"),
        ),
        Arc::new(arrow_array::Int16Array::from_iter(levels)),
        Arc::new(arrow_array::BinaryArray::from_iter(rows.map(|row| (row % 5 != 0).then(|| row.to_be_bytes())))),
    ];
    batch(&stretch_schema(), columns)
}

fn ranges(at: &str) {
    let options = TableOptions {
        dimensions: vec![Dimension {
            column: "x".into(),
            domain: Domain::Linear(Value::Float(0.0), Value::Float(1.0)),
        }],
        identity: vec!["id".into()],
        capacity: Some(64),
        ..Default::default()
    };
    let table = Table::create(at, stretch_schema(), &options).expect("a free folder");
    (0..5).for_each(|commits| commit(&table, "clock", &stretch(commits), None));
    assert!(table.checkpoint().expect("a checkpoint"));
    commit(&table, "clock", &stretch(5), None);
}

fn more_ranges() -> RecordBatch {
    stretch(6)
}

fn ask_ranges() -> Vec<Ask> {
    [
        "level IS NULL",
        "level > 0 AND level < 100",
        "time >= TIMESTAMP '2023-11-14T22:20:00Z' AND time < TIMESTAMP '2023-11-14T22:23:20Z'",
        "tag = X'00000000000001a1'",
        "id IN (3, 700, 701, 5000)",
    ]
    .into_iter()
    .flat_map(|filter| [Ask::Rows { which: which(filter) }, Ask::Count { which: which(filter) }])
    .collect()
}

fn steps(at: &str) {
    let table = Table::create(at, droplet_schema(), &droplet_options()).expect("a free folder");
    let names = ["rank-0", "rank-1", "rank-2"];
    let declared = Declared::Names(BTreeSet::from(names.map(String::from)));
    table.declare_writers(&declared).expect("no other declaration");
    let of = |writer: u64, step: u64, attempt: u64| {
        let first = (attempt * 100 + step * 10 + writer) * 100;
        droplets(first..first + 60 + writer)
    };
    for step in 0..3 {
        for writer in 0..3 {
            commit(&table, names[writer as usize], &of(writer, step, 0), Some(step as i64));
        }
    }
    assert!(table.checkpoint().expect("a checkpoint"));
    optimize(&table);
    table.retract(1).expect("steps after 1 taken back");
    for writer in 0..2 {
        commit(&table, names[writer as usize], &of(writer, 2, 1), Some(2));
    }
    let mut last =
        table.writer(&WriterOptions { name: Some(names[2].into()), ..Default::default() }).expect("a free name");
    last.abandon(2).expect("an abandoned step");
    drop(last);
    assert!(table.checkpoint().expect("a checkpoint"));
    commit(&table, names[0], &of(0, 3, 1), Some(3));
    commit(&table, "outside", &droplets(50_000..50_050), None);
}

fn copied(at: &str) {
    let folder = tempfile::tempdir().expect("a folder for the original");
    let original = folder.path().join("steps");
    let original = original.to_str().expect("a path in UTF-8");
    steps(original);
    let snapshot = Table::open(original).expect("the table just written").snapshot().expect("a snapshot");
    snapshot.copy_to(at, &CopyOptions::default(), &mut |_, _| {}).expect("a copy");
}

fn ask_steps() -> Vec<Ask> {
    let of = |low: Option<i64>, high: Option<i64>| Which { steps: Some((low, high)), ..Which::default() };
    vec![
        Ask::CompleteSteps,
        Ask::Rows { which: of(None, None) },
        Ask::Rows { which: of(Some(1), Some(2)) },
        Ask::Rows { which: Which { sample: Some(0.4), ..of(Some(2), None) } },
        Ask::AtStep { step: 1, which: Which::default() },
        Ask::AtStep { step: 3, which: Which::default() },
    ]
}

/// Later columns of many types with defaults; units and metadata that are set, changed and removed.
fn altered(at: &str) {
    let options = TableOptions {
        units: vec![("x".into(), "mm".into())],
        metadata: Metadata::from([("solver".into(), "alya".into()), ("mesh".into(), serde_json::json!({"cells": 7}))]),
        lookup: vec!["name".into()],
        ..droplet_options()
    };
    let table = Table::create(at, droplet_schema(), &options).expect("a free folder");
    commit(&table, "early", &droplets(0..300), None);
    let column = |name: &str, data_type: DataType, default: Value| NewColumn {
        name: name.into(),
        nullable: default == Value::Null,
        data_type,
        default,
        unit: None,
        accuracy: None,
    };
    let added = [
        NewColumn { unit: Some("K".into()), ..column("heat", DataType::Float64, Value::Float(293.15)) },
        column(
            "kind",
            DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
            Value::Text("water".into()),
        ),
        column("seen", DataType::Timestamp(TimeUnit::Second, None), Value::Text("2020-02-29T12:00:00".into())),
        column("nothing", DataType::Decimal128(20, 3), Value::Null),
        column("flag", DataType::Boolean, Value::Bool(true)),
        column("raw", DataType::FixedSizeBinary(2), Value::Binary(vec![1, 255])),
    ];
    added.iter().for_each(|column| table.add_column(column).expect("a new column"));
    table.set_unit("x", Some("m")).expect("a unit");
    table.set_unit("heat", None).expect("no unit");
    let values = Metadata::from([("solver".into(), serde_json::Value::Null), ("note".into(), "öl".into())]);
    table.set_metadata(None, &values).expect("metadata");
    table.set_metadata(Some("age"), &Metadata::from([("from".into(), 0.into())])).expect("metadata of a column");
    let known = droplets(300..500);
    let heat_field = Arc::new(Field::new("heat", DataType::Float64, false));
    let fields: Vec<_> = droplet_schema().fields().iter().cloned().chain([heat_field]).collect();
    let heat: ArrayRef = Arc::new(Float64Array::from_iter_values((300..500).map(|row| row as f64 / 8.0)));
    let columns = known.columns().iter().cloned().chain([heat]).collect();
    let schema = Arc::new(Schema::new(fields));
    commit(&table, "late", &batch(&schema, columns), None);
}

fn ask_altered() -> Vec<Ask> {
    let mut asked: Vec<Ask> = [
        "heat < 50",
        "kind = 'water' AND pid < 8",
        "seen >= TIMESTAMP '2020-01-01T00:00:00' AND pid IN (1, 499)",
        "nothing IS NULL AND flag AND raw = X'01ff' AND name = 'droplet 7'",
    ]
    .into_iter()
    .map(|filter| Ask::Rows { which: which(filter) })
    .collect();
    asked.extend(ask_droplets());
    asked
}

/// Columns with absolute and relative error bounds, from the start and added later, with NaN and
/// infinities.
fn bounds(at: &str) {
    let options = TableOptions {
        accuracy: vec![("x".into(), Value::Float(0.01)), ("age".into(), Value::Text("1e-3 rel".into()))],
        ..droplet_options()
    };
    let table = Table::create(at, droplet_schema(), &options).expect("a free folder");
    commit(&table, "first", &droplets(0..600), None);
    let heat = NewColumn {
        name: "heat".into(),
        data_type: DataType::Float64,
        nullable: false,
        default: Value::Float(293.15),
        unit: Some("K".into()),
        accuracy: Some(Value::Text("500 mK".into())),
    };
    table.add_column(&heat).expect("a new column");
    let odd = [-0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE, 0.0];
    let heats = (600..900u64).map(|row| odd.get(row as usize % 40).copied().unwrap_or(300.0 * fraction(row, 9)));
    let field = Arc::new(Field::new("heat", DataType::Float64, false));
    let fields: Vec<_> = droplet_schema().fields().iter().cloned().chain([field]).collect();
    let heats: ArrayRef = Arc::new(Float64Array::from_iter_values(heats));
    let columns = droplets(600..900).columns().iter().cloned().chain([heats]).collect();
    commit(&table, "second", &batch(&Arc::new(Schema::new(fields)), columns), None);
    optimize(&table);
}

fn ask_bounds() -> Vec<Ask> {
    let mut asked: Vec<Ask> = ["heat < 5", "heat = 293.5 AND pid < 9", "age BETWEEN 0.25 AND 0.5"]
        .into_iter()
        .map(|filter| Ask::Rows { which: which(filter) })
        .collect();
    asked.extend(ask_droplets());
    asked
}

/// The smallest encodings, with cubes large enough for them: leaves, and an inner cube with a few zones.
fn small(at: &str) {
    let options = TableOptions {
        capacity: Some(512),
        compression: Compression::Small,
        accuracy: vec![("y".into(), Value::Float(0.01))],
        ..droplet_options()
    };
    let table = Table::create(at, droplet_schema(), &options).expect("a free folder");
    let heat = NewColumn {
        name: "heat".into(),
        data_type: DataType::Float64,
        nullable: false,
        default: Value::Float(293.5),
        unit: None,
        accuracy: None,
    };
    table.add_column(&heat).expect("a new column");
    commit(&table, "first", &droplets(0..2000), None);
    commit(&table, "second", &droplets(2000..2400), None);
    optimize(&table);
}

fn pages(at: &str) {
    let options = TableOptions { capacity: Some(16), lookup: vec!["name".into()], ..droplet_options() };
    let table = Table::create(at, droplet_schema(), &options).expect("a free folder");
    table.limit_runs_in_memory(0);
    commit(&table, "rank-0", &droplets(0..1800), None);
    commit(&table, "rank-1", &droplets(1800..2600), None);
    assert!(table.snapshot().expect("a snapshot").info().expect("figures").runs > 256);
    assert!(table.checkpoint().expect("a checkpoint"));
    commit(&table, "rank-0", &droplets(2600..2700), None);
}

/// Three grids with rows each, from writers that kept an older grid, and moved or written later. The second
/// has an added column as dimension.
fn grids(at: &str) {
    let options = TableOptions { capacity: Some(16), lookup: vec!["name".into()], ..droplet_options() };
    let table = Table::create(at, droplet_schema(), &options).expect("a free folder");
    commit(&table, "rank-0", &droplets(0..300), None);
    let column = NewColumn {
        name: "heat".into(),
        data_type: DataType::Float64,
        nullable: false,
        default: Value::Float(293.15),
        unit: None,
        accuracy: None,
    };
    table.add_column(&column).expect("an added column");
    // With little memory, rows are distributed by the current grid.
    let late = |name: &str, rows: Range<u64>| {
        let options = WriterOptions { name: Some(name.into()), memory_bytes: Some(1), ..Default::default() };
        let mut writer = table.writer(&options).expect("a free name");
        writer.append(&droplets(rows)).expect("rows of the table");
        writer
    };
    let mut by_first = late("rank-1", 300..350);
    let second = GridOptions {
        dimensions: Some(vec![linear("heat", 0, 1000), Dimension::learned("age"), linear("x", -10, 40)]),
        ..Default::default()
    };
    table.regrid(&second, &mut |_, _| {}).expect("a second grid");
    let mut by_second = late("rank-2", 350..450);
    let y = Dimension { column: "y".into(), domain: Domain::Quantile };
    let third = GridOptions { dimensions: Some(vec![y]), ..Default::default() };
    table.regrid(&third, &mut |_, _| {}).expect("a third grid");
    by_first.commit().expect("a commit by the first grid");
    by_second.commit().expect("a commit by the second grid");
    commit(&table, "rank-0", &droplets(450..900), None);
    assert_eq!(table.snapshot().expect("a snapshot").info().expect("figures").rows_to_move, 150);
    table.limit_runs_in_memory(0);
    assert!(table.checkpoint().expect("a checkpoint"));
    commit(&table, "rank-0", &droplets(900..950), None);
}

fn ask_grids() -> Vec<Ask> {
    let hot = within(&[("heat", 293.0, 294.0), ("x", 400.0, 600.0)]);
    let mut asked = ask_droplets();
    asked.extend([Ask::Rows { which: hot.clone() }, Ask::PerPart { which: hot, parts: 5 }]);
    asked
}

fn more_grids() -> RecordBatch {
    droplets(1_000_000..1_000_300)
}

fn commits(at: &str) {
    let options = TableOptions { lookup: vec!["pid".into()], ..droplet_options() };
    let table = Table::create(at, droplet_schema(), &options).expect("a free folder");
    for commits in 0..20 {
        commit(&table, ["a", "b", "c"][commits as usize % 3], &droplets(commits * 50..(commits + 1) * 50), None);
        if commits % 10 == 9 {
            optimize(&table);
        }
    }
    for _ in 0..2 {
        table.clean(Duration::ZERO).expect("a clean table");
    }
    commit(&table, "a", &droplets(1000..1050), None);
}

/// A copy of `outlook` with changed bytes in its two largest segments, where replicas hold some of the lost pages.
fn damaged(at: &str) {
    let folder = tempfile::tempdir().expect("a folder for the sound table");
    let sound = folder.path().join("sound");
    let sound = sound.to_str().expect("a path in UTF-8");
    outlook(sound);
    let table = Table::open(sound).expect("the table just written");
    let snapshot = table.snapshot().expect("a snapshot");
    let options = CopyOptions { capacity: Some(32), ..CopyOptions::default() };
    snapshot.copy_to(at, &options, &mut |_, _| {}).expect("a copy");
    optimize(&Table::open(at).expect("the copy"));
    let listed = std::fs::read_dir(Path::new(at).join("segments")).expect("segments");
    let mut segments: Vec<_> = listed.map(|entry| entry.expect("a segment").path()).collect();
    segments.sort();
    for segment in segments {
        let mut bytes = std::fs::read(&segment).expect("a segment");
        for offset in [bytes.len() / 3, bytes.len() / 2] {
            bytes[offset] ^= 0x40;
        }
        std::fs::write(&segment, bytes).expect("the damaged segment");
    }
}
