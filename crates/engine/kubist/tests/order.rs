//! Ordered results compared with a sort in memory, for any columns, directions, memory limits and layouts.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, Decimal128Array, DictionaryArray, Float32Array, Int64Array, RecordBatch, TimestampMillisecondArray,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow_select::concat::concat_batches;
use kubist::store::MemoryStore;
use kubist::{
    Dimension, Domain, ErrorKind, EstimateOptions, PerCell, Query, Request, RunOptions, Snapshot, Table, TableOptions,
    Value, WriterOptions,
};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

#[derive(Clone, Debug, PartialEq)]
struct Row {
    id: i64,
    x: Option<f32>,
    wide: Option<i128>,
    kind: Option<String>,
    time: i64,
}

fn schema() -> SchemaRef {
    let text = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("x", DataType::Float32, true),
        Field::new("wide", DataType::Decimal128(38, 2), true),
        Field::new("Kind of it", text, true),
        Field::new("time", DataType::Timestamp(TimeUnit::Millisecond, None), false),
    ]))
}

fn rows(seed: u64, count: i64) -> Vec<Row> {
    let mut random = SmallRng::seed_from_u64(seed);
    let row = |id| Row {
        id,
        x: match random.random_range(0..12) {
            0 => None,
            1 => Some(f32::NAN),
            2 => Some(-0.0),
            3 => Some(0.0),
            4 => Some(f32::NEG_INFINITY),
            _ => Some((random.random_range(-40..40) as f32) / 8.0),
        },
        wide: (random.random_range(0..9) > 0).then(|| random.random_range(-5..5) * (i128::from(i64::MAX) * 64)),
        kind: (random.random_range(0..9) > 0).then(|| {
            let letters = random.random_range(0..12);
            (0..letters).map(|_| ['a', 'b', '\0', 'é'][random.random_range(0..4)]).collect()
        }),
        time: random.random_range(-50..50),
    };
    (0..count).map(row).collect()
}

fn batch(rows: &[Row]) -> RecordBatch {
    let kinds: DictionaryArray<arrow_array::types::Int32Type> = rows.iter().map(|row| row.kind.as_deref()).collect();
    let wide: Decimal128Array = rows.iter().map(|row| row.wide).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.id))),
        Arc::new(Float32Array::from_iter(rows.iter().map(|row| row.x))),
        Arc::new(wide.with_precision_and_scale(38, 2).unwrap()),
        Arc::new(kinds),
        Arc::new(TimestampMillisecondArray::from_iter_values(rows.iter().map(|row| row.time))),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn made(rows: &[Row], of_commit: usize, identity: &[&str]) -> Table {
    let dimension = |name: &str, low: i128, high: i128| Dimension {
        column: name.into(),
        domain: Domain::Linear(Value::Int(low), Value::Int(high)),
    };
    let options = TableOptions {
        dimensions: vec![dimension("x", -5, 5), dimension("time", -50, 50)],
        identity: identity.iter().map(|name| name.to_string()).collect(),
        capacity: Some(256),
        ..TableOptions::default()
    };
    let table = Table::create(Arc::new(MemoryStore::new("ordered")), schema(), &options).unwrap();
    let mut writer = table.writer(&WriterOptions::default()).unwrap();
    for rows in rows.chunks(of_commit) {
        writer.append(&batch(rows)).unwrap();
        writer.commit().unwrap();
    }
    drop(writer);
    table
}

fn answer(snapshot: &Snapshot, request: impl Into<Request>) -> RecordBatch {
    let stream = snapshot.query(request).unwrap();
    let schema = stream.schema();
    concat_batches(&schema, &stream.map(Result::unwrap).collect::<Vec<_>>()).unwrap()
}

fn ids(snapshot: &Snapshot, request: impl Into<Request>) -> Vec<i64> {
    answer(snapshot, request)["id"].as_primitive::<Int64Type>().values().to_vec()
}

fn compared(one: &Row, other: &Row, term: &str) -> Ordering {
    fn by<T>(one: Option<T>, other: Option<T>, descending: bool, compare: impl Fn(&T, &T) -> Ordering) -> Ordering {
        match (one, other) {
            (Some(one), Some(other)) if descending => compare(&other, &one),
            (Some(one), Some(other)) => compare(&one, &other),
            (one, other) => one.is_none().cmp(&other.is_none()),
        }
    }
    let down = term.ends_with(" DESC");
    match term.trim_end_matches(" DESC") {
        "id" => by(Some(one.id), Some(other.id), down, Ord::cmp),
        "x" => {
            let rank = |row: &Row| row.x.map_or(2, |x| i32::from(x.is_nan()));
            let number = |row: &Row| row.x.filter(|x| !x.is_nan());
            rank(one)
                .cmp(&rank(other))
                .then_with(|| by(number(one), number(other), down, |one, other| one.partial_cmp(other).unwrap()))
        }
        "wide" => by(one.wide, other.wide, down, Ord::cmp),
        "\"Kind of it\"" => by(one.kind.as_deref(), other.kind.as_deref(), down, |a, b| a.as_bytes().cmp(b.as_bytes())),
        "time" => by(Some(one.time), Some(other.time), down, Ord::cmp),
        other => panic!("{other}"),
    }
}

fn sorted(by_priority: &[i64], rows: &[Row], terms: &[String]) -> Vec<i64> {
    let mut ids = by_priority.to_vec();
    ids.sort_by(|one, other| {
        let (one, other) = (&rows[*one as usize], &rows[*other as usize]);
        terms.iter().map(|term| compared(one, other, term)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    });
    ids
}

#[test]
fn any_order_is_that_of_a_sort_in_memory() {
    let rows = rows(1, 20_000);
    let table = made(&rows, 3_000, &["id"]);
    let snapshot = table.snapshot().unwrap();
    let by_priority = |query: Query| ids(&snapshot, query.limit(u64::MAX));
    let mut random = SmallRng::seed_from_u64(2);
    for round in 0..30 {
        let mut columns = ["id", "x", "wide", "\"Kind of it\"", "time"];
        columns.shuffle(&mut random);
        let terms: Vec<String> = columns[..random.random_range(1..=3)]
            .iter()
            .map(|column| if random.random() { format!("{column} DESC") } else { column.to_string() })
            .collect();
        let mut query = Query::new();
        if random.random_range(0..3) == 0 {
            query = query.filter("x > 1 OR x IS NULL");
        }
        if random.random_range(0..3) == 0 {
            query = query.sample(0.3);
        }
        let mut expected = sorted(&by_priority(query.clone()), &rows, &terms);
        let limit = (random.random_range(0..2) == 0).then(|| random.random_range(0..3_000));
        if let Some(limit) = limit {
            expected.truncate(limit as usize);
        }
        let asked = Query { limit, ..query.order_by(terms.clone()) };
        // In memory, in some sorted runs, and in more runs than one merge takes.
        for memory_bytes in [None, Some(400_000), Some(10_000)] {
            let run = RunOptions { memory_bytes, ..RunOptions::default() };
            let found = ids(&snapshot, run.of(asked.clone()));
            assert_eq!(found, expected, "round {round}: {asked:?} in {memory_bytes:?}");
        }
        assert_eq!(snapshot.count(&asked).unwrap(), expected.len() as u64, "{asked:?}");
    }
}

#[test]
fn the_first_of_an_order_are_found_in_few_runs() {
    let rows = rows(5, 60_000);
    let table = made(&rows, 60_000, &["id"]);
    let snapshot = table.snapshot().unwrap();
    let first = |query: Query| {
        let mut stream = snapshot.query(query).unwrap();
        let mut found = Vec::new();
        while let Some(batch) = stream.next().transpose().unwrap() {
            found.extend_from_slice(batch["id"].as_primitive::<Int64Type>().values());
        }
        (found, stream.stats().rows_read)
    };
    for (order, expected) in [("id", (0..10).collect::<Vec<i64>>()), ("id desc", (59_990..60_000).rev().collect())] {
        let (found, read) = first(Query::new().order_by([order]).limit(10));
        assert_eq!(found, expected, "{order}");
        assert!(read < 12_000, "{order}: {read} rows read");
    }
    let (found, _) = first(Query::new().order_by(["id"]).filter("id >= 40000").limit(3));
    assert_eq!(found, [40_000, 40_001, 40_002]);
    let terms = ["time DESC".to_string(), "id".to_string()];
    let by_priority = ids(&snapshot, Query::new().limit(u64::MAX));
    assert_eq!(first(Query::new().order_by(terms.clone()).limit(9)).0, sorted(&by_priority, &rows, &terms)[..9]);
}

#[test]
fn trajectories_come_one_after_the_other_in_order_of_time() {
    let rows = rows(9, 20_000);
    for identity in [&["id"][..], &["id", "x"], &[]] {
        let table = made(&rows, 3_000, identity);
        let snapshot = table.snapshot().unwrap();
        let by_priority = ids(&snapshot, Query::new().limit(u64::MAX));
        let terms = ["\"Kind of it\"", "time"].into_iter().chain(identity.iter().copied());
        let terms: Vec<String> = terms.map(str::to_owned).collect();
        let through = Query::new().filter("x > 4");
        let kinds: std::collections::BTreeSet<&str> =
            rows.iter().filter(|row| row.x.is_some_and(|x| x > 4.0)).filter_map(|row| row.kind.as_deref()).collect();
        let mut expected = sorted(&by_priority, &rows, &terms);
        expected.retain(|id| rows[*id as usize].kind.as_deref().is_some_and(|kind| kinds.contains(kind)));
        assert!(expected.len() > 1_000 && expected.len() < rows.len());
        for memory_bytes in [None, Some(10_000)] {
            let run = RunOptions { memory_bytes, ..RunOptions::default() };
            let paths = |query: Query| {
                let stream = snapshot.trajectories(through.clone(), "kind of it", run.clone().of(query)).unwrap();
                let found = stream.flat_map(|batch| batch.unwrap()["id"].as_primitive::<Int64Type>().values().to_vec());
                found.collect::<Vec<i64>>()
            };
            assert_eq!(paths(Query::new()), expected, "{identity:?} in {memory_bytes:?}");
            assert_eq!(paths(Query::new().columns(["id"]).order_by(terms.clone()).limit(77)), expected[..77]);
            let sampled: Vec<i64> = by_priority.iter().filter(|id| expected.contains(id)).take(77).copied().collect();
            assert_eq!(paths(Query::new().columns(["id"]).limit(77)), sorted(&sampled, &rows, &terms));
            let in_reverse = paths(Query::new().order_by(["time desc", "id"]));
            let mut times: Vec<i64> = in_reverse.iter().map(|id| rows[*id as usize].time).collect();
            assert!(times.len() == expected.len() && times.is_sorted_by(|one, other| one >= other));
            times.dedup();
            assert!(times.len() > 50);
        }
    }
}

#[test]
fn values_stay_with_their_records_and_columns_of_the_order_need_not_be_asked_for() {
    let rows = rows(3, 5_000);
    let table = made(&rows, 700, &["id"]);
    let snapshot = table.snapshot().unwrap();
    let run = RunOptions { memory_bytes: Some(50_000), ..RunOptions::default() };
    let all = answer(&snapshot, run.clone().of(Query::new().order_by(["time", "id desc"])));
    assert_eq!(all.schema().fields(), schema().fields());
    for row in 0..all.num_rows() {
        let id = all["id"].as_primitive::<Int64Type>().value(row);
        let given = &rows[id as usize];
        let (x, wide) = (all["x"].as_primitive::<Float32Type>(), all["wide"].as_primitive::<Decimal128Type>());
        assert_eq!(x.is_valid(row).then(|| x.value(row).to_bits()), given.x.map(f32::to_bits));
        assert_eq!(wide.is_valid(row).then(|| wide.value(row)), given.wide);
    }
    let ordered = ids(&snapshot, Query::new().order_by(["KIND OF IT desc", "time"]).columns(["id"]));
    let expected = ids(&snapshot, Query::new().order_by(["`Kind of it` DESC", "time asc"]));
    assert_eq!(ordered, expected);
    let none = Query::new().order_by(["x"]).columns(Vec::<String>::new());
    assert_eq!(answer(&snapshot, none).num_rows(), 5_000);
    let with_share = answer(&snapshot, run.of(Query::new().order_by(["x"]).sample(0.5).inclusion("p")));
    assert!(with_share["p"].as_primitive::<arrow_array::types::Float64Type>().values().iter().all(|p| *p == 0.5));
    let no_sample = Query::new().order_by(["x"]).limit(5).inclusion("p");
    assert!(snapshot.query(no_sample).err().unwrap().to_string().contains("no sample"));
}

#[test]
fn a_limit_takes_the_first_of_an_order_and_without_one_the_lowest_priorities() {
    let rows = rows(4, 4_000);
    let table = made(&rows, 4_000, &["id"]);
    let snapshot = table.snapshot().unwrap();
    let terms = ["x DESC".to_string(), "id".to_string()];
    let by_priority = ids(&snapshot, Query::new().limit(u64::MAX));
    assert_eq!(ids(&snapshot, Query::new().limit(500)), by_priority[..500]);
    let ordered = Query::new().limit(20).order_by(terms.clone());
    assert_eq!(ids(&snapshot, ordered.clone()), sorted(&by_priority, &rows, &terms)[..20]);
    assert_eq!(snapshot.count(ordered.clone()).unwrap(), 20);
    assert!(snapshot.query(ordered.clone().limit(0)).unwrap().next().is_none());
    // Samples and cells choose rows before the order applies.
    let tenth = ids(&snapshot, Query::new().limit(u64::MAX).sample(0.1));
    assert_eq!(ids(&snapshot, ordered.clone().sample(0.1)), sorted(&tenth, &rows, &terms)[..20]);
    let of_cells = PerCell { rows: 2, widths: vec![("time".into(), 10.0.into())] };
    let cells = Query { per_cell: Some(of_cells), ..Query::default() };
    let chosen = ids(&snapshot, cells.clone());
    let in_order = sorted(&chosen, &rows, &terms);
    assert_eq!(ids(&snapshot, cells.clone().order_by(terms.clone())), in_order);
    let first = cells.clone().order_by(terms.clone()).limit(20);
    assert_eq!(ids(&snapshot, first.clone()), in_order[..20]);
    assert_eq!(snapshot.count(first).unwrap(), 20);
    assert_eq!(ids(&snapshot, cells.limit(20)), chosen[..20]);
    assert_eq!(ids(&snapshot, Query::new().order_by(["priority"])), by_priority);
    let reversed: Vec<i64> = by_priority.iter().rev().copied().collect();
    assert_eq!(ids(&snapshot, Query::new().order_by(["priority desc"])), reversed);
    assert_eq!(ids(&snapshot, Query::new().limit(7).order_by(["Priority DESC"])), reversed[..7]);
}

#[test]
fn the_order_does_not_depend_on_how_rows_are_stored() {
    let mut rows = rows(5, 6_000);
    let asked = Query::new().order_by(["time"]).columns(["time", "x", "id"]);
    let one = made(&rows, 6_000, &["time"]);
    rows.shuffle(&mut SmallRng::seed_from_u64(6));
    let other = made(&rows, 500, &["time"]);
    let [one, other] = [one, other].map(|table| answer(&table.snapshot().unwrap(), asked.clone()));
    assert_eq!(one, other);
}

#[test]
fn paths_come_one_after_the_other_in_order_of_time() {
    let rows: Vec<Row> = rows(7, 8_000).into_iter().map(|row| Row { id: row.id % 200, ..row }).collect();
    let table = made(&rows, 1_000, &["id"]);
    let snapshot = table.snapshot().unwrap();
    let through = Query::new().filter("x > 4.8");
    let paths = snapshot.trajectories(&through, "ID", Query::new().order_by(["id", "time"])).unwrap();
    let found: Vec<RecordBatch> = paths.map(Result::unwrap).collect();
    let found = concat_batches(&schema(), &found).unwrap();
    let times = found["time"].as_primitive::<arrow_array::types::TimestampMillisecondType>().values().to_vec();
    let found: Vec<(i64, i64)> = found["id"].as_primitive::<Int64Type>().values().iter().copied().zip(times).collect();
    let passing = |id: i64| rows.iter().any(|row| row.id == id && row.x.is_some_and(|x| x > 4.8));
    let mut expected: Vec<(i64, i64)> =
        rows.iter().filter(|row| passing(row.id)).map(|row| (row.id, row.time)).collect();
    expected.sort_unstable();
    assert!(!expected.is_empty() && expected.len() < rows.len());
    assert_eq!(found, expected);
}

#[test]
fn what_cannot_be_ordered_is_refused_in_words() {
    let table = made(&rows(8, 300), 300, &["id"]);
    let snapshot = table.snapshot().unwrap();
    let refused = |query: Query| match snapshot.query(query) {
        Err(error) if error.kind() == ErrorKind::InvalidInput => error.to_string(),
        Err(error) => panic!("{error:?}"),
        Ok(_) => panic!("it was answered"),
    };
    for (query, words) in [
        (Query::new().order_by(["tiem"]), "order_by: no column `tiem`; did you mean `time`?"),
        (
            Query::new().order_by(["x descending"]),
            "order_by: x descending: at character 3: `descending` is not expected here",
        ),
        (Query::new().order_by(["x", "X desc"]), "\"X desc\" is given twice"),
        (Query::new().order_by(Vec::<String>::new()), "it names no column"),
        (Query::new().order_by(["\"priority\""]), "no column `priority`"),
    ] {
        let message = refused(query.clone());
        assert!(message.contains(words), "{query:?}: {message}");
    }
    let ordered = Query::new().order_by(["x"]);
    assert!(snapshot.splits(&ordered, 3).unwrap_err().to_string().contains("cannot be cut"));
    let options = EstimateOptions { aggregates: vec!["count()".into()], query: ordered, ..EstimateOptions::default() };
    assert!(snapshot.estimate(&options, &mut |_| {}).unwrap_err().to_string().contains("no order"));
    let run = RunOptions { memory_bytes: Some(1_000), most_scratch: Some(2_000), ..RunOptions::default() };
    let stream = snapshot.query(run.of(Query::new().order_by(["x"]))).unwrap();
    let ended: Vec<_> = stream.collect();
    assert!(ended.last().unwrap().as_ref().unwrap_err().to_string().contains("scratch space"));
}
