//! Queries compared with brute force on random tables: 1 to 8 dimensions, all types, nulls, NaN,
//! infinities, values outside the domain, identical points, small, large and spilled commits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::fresh::{elsewhere, fresh_store};
use crate::values::{Number, array, at_most, dimension_types, equal, literal, number, other_types, plain, value};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::*;
use arrow_schema::{DataType, Field, Schema};
use arrow_select::concat::concat_batches;
use kubist::{
    Bound, Cancel, Compression, Dimension, Domain, Error, GridOptions, NewColumn, OptimizeOptions, PerCell, Query,
    Table, TableOptions, Value, VerifyOptions, WriterOptions,
};
use kubist_index::priority::{Threshold, is_identity_type, priorities};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

struct Case {
    table: Table,
    lookup: Vec<String>,
    truth: RecordBatch,
    dimensions: Vec<String>,
    numbers: Vec<String>,
    priorities: Option<Vec<u64>>,
}

fn table(rng: &mut SmallRng) -> Case {
    let k = rng.random_range(1..=8);
    let mut fields = vec![Field::new("rid", DataType::Int64, false)];
    let dimensions: Vec<String> = (0..k).map(|d| format!("d{d}")).collect();
    for name in &dimensions {
        fields.push(Field::new(name, dimension_types().choose(rng).unwrap().clone(), true));
    }
    for column in 0..rng.random_range(0..3) {
        fields.push(Field::new(format!("c{column}"), other_types().choose(rng).unwrap().clone(), true));
    }
    let mut schema = Arc::new(Schema::new(fields));
    let identity: Vec<String> = match rng.random_range(0..4) {
        0 => vec![],
        1 => vec!["d0".into()],
        2 => vec!["rid".into()],
        _ => vec!["rid".into(), "d0".into()],
    };
    let names = schema.fields().iter().filter(|field| is_identity_type(field.data_type())).map(|field| field.name());
    let lookup: Vec<String> = match rng.random_bool(0.7) {
        true => names.filter(|_| rng.random_bool(0.4)).cloned().collect(),
        false => vec![],
    };
    let domains = [Domain::Learned, Domain::Quantile, Domain::Linear(Value::Int(0), Value::Int(40))];
    let options = TableOptions {
        dimensions: dimensions
            .iter()
            .map(|name| Dimension { column: name.clone(), domain: domains.choose(rng).unwrap().clone() })
            .collect(),
        identity: identity.clone(),
        lookup: lookup.clone(),
        capacity: Some(*[16, 64, 300].choose(rng).unwrap()),
        seed: rng.random(),
        compression: *[Compression::Fast, Compression::Balanced, Compression::Small].choose(rng).unwrap(),
        ..Default::default()
    };
    let mut table = Table::create(fresh_store("oracle"), schema.clone(), &options).unwrap();
    let held = *[0, 20, 1 << 18].choose(rng).unwrap();
    table.limit_runs_in_memory(held);
    let mut batches = Vec::new();
    let mut numbers = vec!["rid".to_string()];
    let mut added = Vec::new();
    let mut rid = 0i64;
    for commit in 0..rng.random_range(1..8) {
        let memory = *[None, Some(1), Some(40_000)].choose(rng).unwrap();
        let name = ["ada", "ben"].choose(rng).unwrap().to_string();
        let mut writer =
            table.writer(&WriterOptions { name: Some(name), memory_bytes: memory, ..Default::default() }).unwrap();
        let rows = *[0, 1, 30, 700, 3000].choose(rng).unwrap() + commit;
        let same = rng.random_bool(0.15);
        for _ in 0..rng.random_range(1..3) {
            let mut columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from_iter_values(rid..rid + rows as i64))];
            rid += rows as i64;
            let mut given = vec![0];
            for (column, field) in schema.fields().iter().enumerate().skip(1) {
                if let Some((_, default)) = added.iter().find(|(name, _)| name == field.name() && rng.random_bool(0.3))
                {
                    columns.push(repeated(default, rows));
                    continue;
                }
                given.push(column);
                let made = array(rng, field.data_type(), rows);
                columns.push(match same && rows > 0 {
                    true => arrow_select::take::take(&made, &UInt32Array::from(vec![0; rows]), None).unwrap(),
                    false => made,
                });
            }
            let batch = RecordBatch::try_new(schema.clone(), columns).unwrap();
            writer.append(&batch.project(&given).unwrap()).unwrap();
            batches.push(batch);
            if rng.random_bool(0.1) {
                schema = add_column(rng, &table, &schema, &mut batches, &mut numbers, &mut added);
            }
        }
        let committed = writer.commit().unwrap();
        if rng.random_bool(0.3) {
            optimize(rng, &table);
        }
        if rng.random_bool(0.15) {
            regrid(rng, &table, &schema);
        }
        if rng.random_bool(0.2) {
            assert!(table.checkpoint().unwrap());
        }
        if rng.random_bool(0.2) {
            table.clean(std::time::Duration::ZERO).unwrap();
        }
        if rng.random_bool(0.1) {
            schema = add_column(rng, &table, &schema, &mut batches, &mut numbers, &mut added);
        }
        if rng.random_bool(0.3) {
            table = Table::open(elsewhere(&table.core().store)).unwrap();
            table.limit_runs_in_memory(held);
        }
        assert_eq!(
            committed.rows,
            batches.iter().rev().map(|b| b.num_rows() as u64).take(2).sum::<u64>().min(committed.rows)
        );
    }
    let truth = concat_batches(&schema, &batches).unwrap();
    let known = (!identity.is_empty()).then(|| {
        let columns: Vec<&dyn Array> =
            identity.iter().map(|name| truth.column_by_name(name).unwrap().as_ref()).collect();
        priorities(&columns, truth.num_rows(), options.seed)
    });
    Case { table, lookup, truth, dimensions, numbers, priorities: known }
}

fn regrid(rng: &mut SmallRng, table: &Table, schema: &Schema) {
    let can = |field: &&Arc<Field>| kubist_index::order::is_dimension_type(field.data_type());
    let names: Vec<String> = schema.fields().iter().filter(can).map(|field| field.name().clone()).collect();
    let count = rng.random_range(1..=8.min(names.len()));
    let chosen: Vec<String> = names.choose_multiple(rng, count).cloned().collect();
    let mut domain = || match rng.random_range(0..4) {
        0 => Domain::Learned,
        1 => Domain::Quantile,
        _ => Domain::Linear(Value::Int(-3), Value::Int(17)),
    };
    let dimensions = chosen.into_iter().map(|column| Dimension { column, domain: domain() }).collect();
    let mut options = GridOptions { dimensions: Some(dimensions), cancel: Cancel::default(), ..GridOptions::default() };
    if rng.random_bool(0.3) {
        options.dimensions = None;
    }
    if rng.random_bool(0.4) {
        options.cancel = Cancel::default();
        let switch = options.cancel.clone();
        match table.regrid(&options, &mut |_, _| switch.set()) {
            Ok(_) | Err(Error::Cancelled) => (),
            Err(error) => assert!(error.to_string().contains("no values of it to learn"), "{error}"),
        }
    } else if let Err(error) = table.regrid(&options, &mut |_, _| {}) {
        assert!(error.to_string().contains("no values of it to learn"), "{error}");
    }
}

fn repeated(value: &ArrayRef, rows: usize) -> ArrayRef {
    arrow_select::take::take(value, &UInt32Array::from(vec![0; rows]), None).unwrap()
}

fn add_column(
    rng: &mut SmallRng,
    table: &Table,
    schema: &Schema,
    batches: &mut [RecordBatch],
    numbers: &mut Vec<String>,
    added: &mut Vec<(String, ArrayRef)>,
) -> Arc<Schema> {
    let name = format!("a{}", schema.fields().len());
    let text = rng.random_bool(0.3);
    let (data_type, default, value) = match text {
        true => {
            let data_type = [DataType::Utf8, DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))];
            let data_type = data_type.choose(rng).unwrap().clone();
            let default = arrow_cast::cast(&StringArray::from(vec!["before"]), &data_type).unwrap();
            (data_type, default, Value::Text("before".into()))
        }
        false => {
            let data_type = dimension_types().choose(rng).unwrap().clone();
            let default = array(rng, &data_type, 1);
            let known = number(default.as_ref(), 0);
            let unknown = if default.is_null(0) { Value::Null } else { Value::Float(f64::NAN) };
            numbers.push(name.clone());
            (data_type, default, known.as_ref().map_or(unknown, value))
        }
    };
    let column = NewColumn {
        name: name.clone(),
        data_type: data_type.clone(),
        nullable: true,
        default: value,
        unit: None,
        accuracy: None,
    };
    table.add_column(&column).unwrap();
    added.push((name.clone(), default.clone()));
    let mut fields = schema.fields().to_vec();
    fields.push(Arc::new(Field::new(name, data_type, true)));
    let schema = Arc::new(Schema::new(fields));
    for batch in batches {
        let mut columns = batch.columns().to_vec();
        columns.push(repeated(&default, batch.num_rows()));
        *batch = RecordBatch::try_new(schema.clone(), columns).unwrap();
    }
    schema
}

fn optimize(rng: &mut SmallRng, table: &Table) {
    let options = OptimizeOptions {
        debt_share: *[0.01, 0.3].choose(rng).unwrap(),
        rows_at_once: *[100, 1000, 1_000_000].choose(rng).unwrap(),
        replication: ["none", "outlook", "outlook(1)", "full"].choose(rng).map(|policy| policy.parse().unwrap()),
        few_lookups: *[1, 5, 32].choose(rng).unwrap(),
        ..Default::default()
    };
    table.optimize(&options, &mut |_, _| {}).unwrap();
}

fn rids(batches: &[RecordBatch]) -> Vec<i64> {
    let columns = batches.iter().map(|batch| batch.column_by_name("rid").unwrap().as_primitive::<Int64Type>());
    columns.flat_map(|column| column.values().to_vec()).collect()
}

fn look_up(rng: &mut SmallRng, case: &Case, query: &mut Query, matching: &mut Vec<usize>) {
    let Some(name) = case.lookup.choose(rng) else { return };
    let column = plain(case.truth.column_by_name(name).unwrap());
    let count = if rng.random_bool(0.7) { rng.random_range(1..4) } else { rng.random_range(9..70) };
    let rows: Vec<usize> = (0..count).map(|_| rng.random_range(0..case.truth.num_rows())).collect();
    let listed: Vec<String> = rows.iter().map(|row| literal(&column, *row).unwrap_or("NULL".into())).collect();
    let mut filter = match &listed[..] {
        [one] => format!("{name} = {one}"),
        list if rng.random_bool(0.3) => {
            list.iter().map(|one| format!("{name} = {one}")).collect::<Vec<_>>().join(" OR ")
        }
        list => format!("{name} IN ({})", list.join(", ")),
    };
    if let Some(other) = query.filter.take() {
        filter = format!("({other}) AND ({filter})");
    }
    query.filter = Some(filter);
    matching.retain(|row| rows.iter().any(|listed| equal(&column, *listed, *row)));
}

fn question(rng: &mut SmallRng, case: &Case) -> (Query, Vec<usize>) {
    let truth = &case.truth;
    let mut query = Query::default();
    let mut matching: Vec<usize> = (0..truth.num_rows()).collect();
    if truth.num_rows() > 0 && rng.random_bool(0.8) {
        for name in case.dimensions.iter().chain(&case.numbers) {
            if !rng.random_bool(if case.numbers.contains(name) { 0.2 } else { 0.5 }) {
                continue;
            }
            let column = truth.column_by_name(name).unwrap().as_ref();
            let mut end =
                |p| rng.random_bool(p).then(|| number(column, rng.random_range(0..truth.num_rows()))).flatten();
            let (mut low, mut high) = (end(0.8), end(0.8));
            if let (Some(a), Some(b)) = (&low, &high)
                && !at_most(a, b)
            {
                std::mem::swap(&mut low, &mut high);
            }
            if low.is_none() && high.is_none() {
                continue;
            }
            matching.retain(|row| {
                number(column, *row).is_some_and(|value| {
                    low.as_ref().is_none_or(|low| at_most(low, &value))
                        && high.as_ref().is_none_or(|high| at_most(&value, high))
                })
            });
            query.bounds.push(Bound {
                column: name.clone(),
                low: low.as_ref().map(value),
                high: high.as_ref().map(value),
            });
        }
    }
    let d0 = truth.column_by_name("d0").unwrap();
    match rng.random_range(0..6) {
        0 => {
            query.filter = Some("rid % 3 = 1".into());
            matching.retain(|row| row % 3 == 1);
        }
        1 => {
            query.filter = Some("d0 IS NULL OR rid BETWEEN 100 AND 900".into());
            matching.retain(|row| d0.is_null(*row) || (100..=900).contains(row));
        }
        2 => {
            query.filter = Some("NOT (rid < 50 OR rid IN (60, 61, 70))".into());
            matching.retain(|row| *row >= 50 && ![60, 61, 70].contains(row));
        }
        3 => {
            let step = *[1, 7, 10_000].choose(rng).unwrap();
            let listed: Vec<usize> = (0..60).map(|number| 13 + number * step).collect();
            query.filter =
                Some(format!("rid IN ({})", listed.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")));
            matching.retain(|row| listed.contains(row));
        }
        _ => {}
    }
    if truth.num_rows() > 0 && rng.random_bool(0.4) {
        look_up(rng, case, &mut query, &mut matching);
    }
    if let Some(priorities) = &case.priorities {
        if rng.random_bool(0.5) {
            let sample = *[0.001, 0.02, 0.3, 0.9, 1.0].choose(rng).unwrap();
            query.sample = Some(sample);
            matching.retain(|row| Threshold::from_fraction(sample).admits(priorities[*row]));
        }
        if rng.random_bool(0.3) {
            let (low, high) = *[(0.0, 0.1), (0.05, 0.6), (0.5, 1.0)].choose(rng).unwrap();
            query.window = Some((low, high));
            let (first, last) = (Threshold::from_fraction(low), Threshold::from_fraction(high));
            matching.retain(|row| !first.admits(priorities[*row]) && last.admits(priorities[*row]));
        }
    }
    (query, matching)
}

fn check(rng: &mut SmallRng, case: &Case, label: &str) -> u64 {
    let (mut query, mut matching) = question(rng, case);
    let snapshot = case.table.snapshot().unwrap();
    assert_eq!(snapshot.count(&query).unwrap(), matching.len() as u64, "{label}: count of {query:?}");
    let limit = match rng.random_bool(0.3) {
        true => Some(*[0u64, 1, 5, 100, 5000].choose(rng).unwrap()),
        false => None,
    };
    query.limit = limit;
    if rng.random_bool(0.3) {
        query.columns = Some(vec!["rid".into(), case.dimensions[0].clone()]);
    }
    let mut stream = snapshot.query(&query).unwrap();
    let batches: Vec<RecordBatch> = stream.by_ref().map(Result::unwrap).collect();
    let found = rids(&batches);
    let stats = stream.stats();
    assert_eq!(stats.rows_returned, found.len() as u64);
    assert!(stats.rows_read >= stats.rows_returned, "{label}: {stats:?}");
    if let Some(limit) = limit {
        assert_eq!(found.len(), matching.len().min(limit as usize), "{label}: {query:?}");
        if let Some(priorities) = &case.priorities {
            let got: Vec<u64> = found.iter().map(|rid| priorities[*rid as usize]).collect();
            assert!(got.is_sorted(), "{label}: not ascending: {query:?}");
            matching.sort_by_key(|row| priorities[*row]);
            let expected: Vec<u64> = matching.iter().take(limit as usize).map(|row| priorities[*row]).collect();
            assert_eq!(got, expected, "{label}: {query:?}");
            if limit > 0 && matching.len() > limit as usize {
                let next = Threshold::from_fraction(stream.fraction());
                assert!(next.to_u128() <= priorities[matching[limit as usize]] as u128, "{label}");
            }
        }
    } else {
        let mut sorted = found.clone();
        sorted.sort_unstable();
        let expected: Vec<i64> = matching.iter().map(|row| *row as i64).collect();
        assert_eq!(sorted, expected, "{label}: {query:?}");
    }
    for batch in &batches {
        let wanted = UInt64Array::from_iter_values(rids(std::slice::from_ref(batch)).into_iter().map(|rid| rid as u64));
        for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
            let original = case.truth.column_by_name(field.name()).unwrap();
            assert_eq!(original.data_type(), column.data_type(), "{label}: {field}");
            let expected = arrow_select::take::take(original, &wanted, None).unwrap();
            let (expected, found) = (plain(&expected), plain(column));
            if expected.as_ref() != found.as_ref() {
                assert_eq!(format!("{expected:?}"), format!("{found:?}"), "{label}: {field}");
            }
        }
    }
    stats.runs_looked_up
}

fn seeds(all: u64) -> u64 {
    std::env::var("SEEDS").map_or(all, |seeds| seeds.parse().unwrap())
}

fn each_seed(seeds: u64, play: impl Fn(u64) + Sync) {
    let next = AtomicU64::new(0);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                return;
            }
            play(seed);
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
}

#[test]
fn queries_equal_brute_force() {
    let runs_looked_up = AtomicU64::new(0);
    let seeds = seeds(160);
    each_seed(seeds, |seed| {
        let mut rng = SmallRng::seed_from_u64(seed);
        let case = table(&mut rng);
        let report = case.table.verify(&VerifyOptions::deep(), &mut |_, _| {}).unwrap();
        assert_eq!(report.findings, Vec::<String>::new(), "seed {seed}");
        assert_eq!(report.rows, case.truth.num_rows() as u64, "seed {seed}");
        for round in 0..20 {
            let found = check(&mut rng, &case, &format!("seed {seed}, round {round}"));
            runs_looked_up.fetch_add(found, Ordering::Relaxed);
        }
    });
    let runs_looked_up = runs_looked_up.into_inner();
    assert!(seeds < 160 || runs_looked_up > 10_000, "{runs_looked_up}");
}

fn first_domain(case: &Case, name: &str) -> Option<(f64, f64)> {
    let core = case.table.core();
    let schema = core.view(&Cancel::default()).unwrap().schema.clone();
    let column = schema.column(name).unwrap();
    (0..=schema.newest_grid()).find_map(|grid| {
        let frame = core.frame(&schema, grid).unwrap()?;
        let d = frame.dimensions.iter().position(|dimension| *dimension == column)?;
        Some(frame.scales[d].domain())
    })
}

#[test]
fn per_cell_equals_brute_force() {
    for seed in 0..seeds(40) {
        let mut rng = SmallRng::seed_from_u64(1000 + seed);
        let case = table(&mut rng);
        let Some(priorities) = &case.priorities else { continue };
        let (mut query, mut matching) = question(&mut rng, &case);
        let domains: Vec<Option<(f64, f64)>> = case.dimensions.iter().map(|name| first_domain(&case, name)).collect();
        let widths = [0.5, 3.0, 40.0];
        let grid: Vec<(usize, f64)> =
            (0..case.dimensions.len().min(2)).map(|d| (d, *widths.choose(&mut rng).unwrap())).collect();
        let rows = rng.random_range(1..4);
        let named = grid.iter().map(|(d, width)| (case.dimensions[*d].clone(), (*width).into())).collect();
        query.per_cell = Some(PerCell { rows, widths: named });
        let snapshot = case.table.snapshot().unwrap();
        let answer = snapshot.query(&query).and_then(|stream| stream.collect::<kubist::Result<Vec<RecordBatch>>>());
        let is_far = |d: usize, width: f64, value: f64| {
            let low = domains[d].map_or(0.0, |(low, _)| low);
            value.is_finite() && ((value - low) / width).floor().abs() > 9e18
        };
        let far = grid.iter().any(|(d, width)| {
            let column = case.truth.column_by_name(&case.dimensions[*d]).unwrap();
            let of_row = |row: &usize| match number(column.as_ref(), *row) {
                _ if column.is_null(*row) => false,
                None => false,
                Some(Number::Int(value)) => is_far(*d, *width, value as f64),
                Some(Number::Float(value)) => is_far(*d, *width, value),
            };
            domains[*d].is_some_and(|(_, high)| is_far(*d, *width, high)) || matching.iter().any(of_row)
        });
        if far {
            let refused = matches!(&answer, Err(kubist::Error::Invalid(message)) if message.contains("wider cells"));
            assert!(refused, "seed {seed}: {query:?}");
            continue;
        }
        let found: Vec<u64> = rids(&answer.unwrap()).iter().map(|rid| priorities[*rid as usize]).collect();
        matching.sort_by_key(|row| priorities[*row]);
        let mut fill = std::collections::HashMap::new();
        let mut expected = Vec::new();
        for row in matching {
            let cell: Vec<String> = grid
                .iter()
                .map(|(d, width)| {
                    let column = case.truth.column_by_name(&case.dimensions[*d]).unwrap();
                    let low = domains[*d].map_or(0.0, |(low, _)| low);
                    match (column.is_null(row), number(column.as_ref(), row)) {
                        (true, _) => "null".into(),
                        (_, None) => "nan".into(),
                        (_, Some(Number::Int(value))) => {
                            format!("{}", ((value as f64 - low) / width).floor())
                        }
                        (_, Some(Number::Float(value))) => {
                            format!("{}", ((value - low) / width).floor())
                        }
                    }
                })
                .collect();
            let count = fill.entry(cell).or_insert(0);
            *count += 1;
            if *count <= rows {
                expected.push(priorities[row]);
            }
        }
        assert_eq!(found, expected, "seed {seed}: {query:?}");
    }
}

#[test]
fn a_million_identical_points() {
    let schema = Arc::new(Schema::new(vec![
        Field::new("rid", DataType::Int64, false),
        Field::new("x", DataType::Float32, false),
        Field::new("y", DataType::Float32, false),
    ]));
    let dimension = |name: &str| Dimension { column: name.into(), domain: Domain::Learned };
    let options = TableOptions {
        dimensions: vec![dimension("x"), dimension("y")],
        identity: vec!["rid".into()],
        ..Default::default()
    };
    let table = Table::create(fresh_store("same"), schema.clone(), &options).unwrap();
    let rows = 1_000_000;
    let column = |value: f32| Arc::new(Float32Array::from(vec![value; rows])) as ArrayRef;
    let batch = RecordBatch::try_new(
        schema,
        vec![Arc::new(Int64Array::from_iter_values(0..rows as i64)), column(0.25), column(-3.0)],
    )
    .unwrap();
    let memory_bytes = Some(16 << 20);
    let mut writer = table.writer(&WriterOptions { memory_bytes, ..Default::default() }).unwrap();
    writer.append(&batch).unwrap();
    writer.commit().unwrap();
    let snapshot = table.snapshot().unwrap();
    let at = |x: f64| Query {
        bounds: vec![Bound { column: "x".into(), low: Some(Value::Float(x)), high: Some(Value::Float(x)) }],
        ..Default::default()
    };
    assert_eq!(snapshot.count(at(0.25)).unwrap(), rows as u64);
    assert_eq!(snapshot.count(at(0.26)).unwrap(), 0);
    let sample = snapshot.count(&Query { sample: Some(0.01), ..at(0.25) }).unwrap();
    assert!((9_500..10_500).contains(&sample), "{sample}");
    assert_eq!(snapshot.query(Query::default()).unwrap().map(|batch| batch.unwrap().num_rows()).sum::<usize>(), rows);
}
