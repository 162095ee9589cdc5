//! Every query against a brute-force answer, on random tables: 1 to 8
//! dimensions, every supported type, nulls, NaN, infinities, values outside the
//! domain, identical points, big and small commits, spilled and not.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::*;
use arrow_schema::{DataType, Field, IntervalUnit, Schema, TimeUnit};
use arrow_select::concat::concat_batches;
use half::f16;
use kubist::store::MemoryStore;
use kubist::{
    Bound, Dimension, Domain, NewColumn, OptimizeOptions, PerCell, Query, Table, TableOptions, Value, VerifyOptions,
    WriterOptions,
};
use kubist_index::priority::{Threshold, priorities};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

fn dimension_types() -> Vec<DataType> {
    use DataType::*;
    vec![
        Float32,
        Float32,
        Float64,
        Float16,
        Int8,
        Int16,
        Int32,
        Int64,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
        Date32,
        Date64,
        Time32(TimeUnit::Second),
        Time64(TimeUnit::Nanosecond),
        Timestamp(TimeUnit::Microsecond, None),
        Timestamp(TimeUnit::Second, Some("UTC".into())),
    ]
}

fn other_types() -> Vec<DataType> {
    use DataType::*;
    vec![
        Boolean,
        Utf8,
        LargeUtf8,
        Utf8View,
        Binary,
        LargeBinary,
        BinaryView,
        FixedSizeBinary(3),
        Decimal32(7, 2),
        Decimal64(12, 3),
        Decimal128(30, 4),
        Decimal256(50, 2),
        Duration(TimeUnit::Millisecond),
        Interval(IntervalUnit::YearMonth),
        Interval(IntervalUnit::DayTime),
        Interval(IntervalUnit::MonthDayNano),
        Dictionary(Box::new(Int32), Box::new(Utf8)),
        Dictionary(Box::new(Int32), Box::new(Int16)),
    ]
}

/// A value for every type, from a small integer; many rows share one.
fn array(rng: &mut SmallRng, data_type: &DataType, rows: usize) -> ArrayRef {
    let spread = *[3i64, 50, 1000, 100_000].choose(rng).unwrap();
    let nulls = *[0.0, 0.0, 0.1, 0.9].choose(rng).unwrap();
    let wild = rng.random_bool(0.5);
    let numbers: Vec<Option<i64>> =
        (0..rows).map(|_| (!rng.random_bool(nulls)).then(|| rng.random_range(-spread..=spread))).collect();
    let special = [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 1e30, -1e-30, f64::MIN_POSITIVE];
    match data_type {
        DataType::Float16 | DataType::Float32 | DataType::Float64 => {
            let values: Vec<Option<f64>> = numbers
                .iter()
                .map(|n| {
                    n.map(|n| {
                        if wild && n % 17 == 0 { special[(n.unsigned_abs() / 17 % 9) as usize] } else { n as f64 / 7.0 }
                    })
                })
                .collect();
            match data_type {
                DataType::Float16 => Arc::new(values.iter().map(|v| v.map(f16::from_f64)).collect::<Float16Array>()),
                DataType::Float32 => Arc::new(values.iter().map(|v| v.map(|v| v as f32)).collect::<Float32Array>()),
                _ => Arc::new(Float64Array::from(values)),
            }
        }
        DataType::Int64 | DataType::UInt64 if wild => {
            let values: Vec<Option<i64>> =
                numbers.iter().map(|n| n.map(|n| n.wrapping_mul(0x1234_5678_9abc_def1))).collect();
            match data_type {
                DataType::Int64 => Arc::new(Int64Array::from(values)),
                _ => Arc::new(values.iter().map(|v| v.map(|v| v as u64)).collect::<UInt64Array>()),
            }
        }
        DataType::Int8 => Arc::new(numbers.iter().map(|n| n.map(|n| n as i8)).collect::<Int8Array>()),
        DataType::UInt8 => Arc::new(numbers.iter().map(|n| n.map(|n| n as u8)).collect::<UInt8Array>()),
        DataType::Int16 => Arc::new(numbers.iter().map(|n| n.map(|n| n as i16)).collect::<Int16Array>()),
        DataType::UInt16 => Arc::new(numbers.iter().map(|n| n.map(|n| n as u16)).collect::<UInt16Array>()),
        DataType::UInt32 => Arc::new(numbers.iter().map(|n| n.map(|n| n as u32)).collect::<UInt32Array>()),
        DataType::UInt64 => Arc::new(numbers.iter().map(|n| n.map(|n| n.unsigned_abs())).collect::<UInt64Array>()),
        DataType::Boolean => Arc::new(numbers.iter().map(|n| n.map(|n| n % 2 == 0)).collect::<BooleanArray>()),
        DataType::Interval(IntervalUnit::DayTime) => {
            let value = |n: i64| arrow_buffer::IntervalDayTime::new(n as i32, 2);
            Arc::new(numbers.iter().map(|n| n.map(value)).collect::<IntervalDayTimeArray>())
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let value = |n: i64| arrow_buffer::IntervalMonthDayNano::new(n as i32, 2, n);
            Arc::new(numbers.iter().map(|n| n.map(value)).collect::<IntervalMonthDayNanoArray>())
        }
        DataType::Interval(_) => {
            Arc::new(numbers.iter().map(|n| n.map(|n| n as i32)).collect::<IntervalYearMonthArray>())
        }
        DataType::FixedSizeBinary(_) => {
            let values = numbers.iter().map(|n| n.map(|n| n.to_be_bytes()[5..].to_vec()));
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, 3).unwrap())
        }
        DataType::Utf8View
        | DataType::BinaryView
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Binary
        | DataType::LargeBinary => {
            let text = StringArray::from_iter(numbers.iter().map(|n| {
                n.map(|n| format!("{}{n}", ["", "drop", "längere Zeichenkette "][(n.unsigned_abs() % 3) as usize]))
            }));
            arrow_cast::cast(&text, data_type).unwrap()
        }
        DataType::Dictionary(_, values) if **values == DataType::Utf8 => {
            let text = StringArray::from_iter(numbers.iter().map(|n| n.map(|n| format!("name {}", n % 9))));
            arrow_cast::cast(&text, data_type).unwrap()
        }
        DataType::Date32 | DataType::Int32 | DataType::Time32(_) => {
            let narrow = Int32Array::from_iter(numbers.iter().map(|n| n.map(|n| n.unsigned_abs() as i32)));
            arrow_cast::cast(&narrow, data_type).unwrap()
        }
        DataType::Decimal32(_, _)
        | DataType::Decimal64(_, _)
        | DataType::Decimal128(_, _)
        | DataType::Decimal256(_, _) => {
            let small = Int64Array::from_iter(numbers.iter().map(|n| n.map(|n| n % 9999)));
            arrow_cast::cast(&small, data_type).unwrap()
        }
        DataType::Dictionary(_, values) => {
            let small = Int16Array::from_iter(numbers.iter().map(|n| n.map(|n| n as i16)));
            arrow_cast::cast(&arrow_cast::cast(&small, values).unwrap(), data_type).unwrap()
        }
        other => {
            let wide = Int64Array::from_iter(numbers.iter().map(|n| n.map(i64::abs)));
            arrow_cast::cast(&wide, other).unwrap()
        }
    }
}

/// A value as a number that compares as the column does; `None`: NaN or null.
enum Number {
    Int(i128),
    Float(f64),
}

fn number(array: &dyn Array, row: usize) -> Option<Number> {
    if array.is_null(row) {
        return None;
    }
    let float = |value: f64| (!value.is_nan()).then_some(Number::Float(value));
    match array.data_type() {
        DataType::Float16 => float(array.as_primitive::<types::Float16Type>().value(row).to_f64()),
        DataType::Float32 => float(array.as_primitive::<types::Float32Type>().value(row) as f64),
        DataType::Float64 => float(array.as_primitive::<types::Float64Type>().value(row)),
        DataType::UInt64 => Some(Number::Int(array.as_primitive::<types::UInt64Type>().value(row) as i128)),
        DataType::Date32 | DataType::Time32(_) => {
            let ints = arrow_cast::cast(&array.slice(row, 1), &DataType::Int32).unwrap();
            Some(Number::Int(ints.as_primitive::<types::Int32Type>().value(0) as i128))
        }
        _ => {
            let ints = arrow_cast::cast(&array.slice(row, 1), &DataType::Int64).unwrap();
            Some(Number::Int(ints.as_primitive::<Int64Type>().value(0) as i128))
        }
    }
}

fn value(number: &Number) -> Value {
    match number {
        Number::Int(value) => Value::Int(*value),
        Number::Float(value) => Value::Float(*value),
    }
}

fn at_most(a: &Number, b: &Number) -> bool {
    match (a, b) {
        (Number::Int(a), Number::Int(b)) => a <= b,
        (Number::Float(a), Number::Float(b)) => a <= b,
        _ => unreachable!("one column has one kind of number"),
    }
}

struct Case {
    table: Table,
    truth: RecordBatch,
    dimensions: Vec<String>,
    /// Other columns that hold numbers.
    numbers: Vec<String>,
    /// Known unless the table has no identity.
    priorities: Option<Vec<u64>>,
}

fn table(rng: &mut SmallRng) -> Case {
    let k = rng.random_range(1..=8);
    let mut fields = vec![Field::new("rid", DataType::Int64, false)];
    let dimensions: Vec<String> = (0..k).map(|d| format!("d{d}")).collect();
    for name in &dimensions {
        fields.push(Field::new(name, dimension_types().choose(rng).unwrap().clone(), true));
    }
    for place in 0..rng.random_range(0..3) {
        fields.push(Field::new(format!("c{place}"), other_types().choose(rng).unwrap().clone(), true));
    }
    let mut schema = Arc::new(Schema::new(fields));
    let identity: Vec<String> = match rng.random_range(0..4) {
        0 => vec![],
        1 => vec!["d0".into()],
        2 => vec!["rid".into()],
        _ => vec!["rid".into(), "d0".into()],
    };
    let domains = [Domain::Learned, Domain::Quantile, Domain::Linear(Value::Int(0), Value::Int(40))];
    let options = TableOptions {
        dimensions: dimensions
            .iter()
            .map(|name| Dimension { column: name.clone(), domain: domains.choose(rng).unwrap().clone() })
            .collect(),
        identity: identity.clone(),
        capacity: Some(*[16, 64, 300].choose(rng).unwrap()),
        seed: rng.random(),
        ..Default::default()
    };
    let store = Arc::new(MemoryStore::new("oracle"));
    let mut table = Table::create_in(store.clone(), schema.clone(), &options).unwrap();
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
            for (place, field) in schema.fields().iter().enumerate().skip(1) {
                if let Some((_, default)) = added.iter().find(|(name, _)| name == field.name() && rng.random_bool(0.3))
                {
                    columns.push(repeated(default, rows));
                    continue;
                }
                given.push(place);
                let made = array(rng, field.data_type(), rows);
                columns.push(match same && rows > 0 {
                    true => arrow_select::take::take(&made, &UInt32Array::from(vec![0; rows]), None).unwrap(),
                    false => made,
                });
            }
            let batch = RecordBatch::try_new(schema.clone(), columns).unwrap();
            // Without the columns that are to have their defaults.
            writer.append(&batch.project(&given).unwrap()).unwrap();
            batches.push(batch);
            if rng.random_bool(0.1) {
                // While rows are pending; the next batch has the column.
                schema = add_column(rng, &table, &schema, &mut batches, &mut numbers, &mut added);
            }
        }
        let committed = writer.commit().unwrap();
        if rng.random_bool(0.3) {
            optimize(rng, &table);
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
            table = Table::open_in(store.clone()).unwrap();
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
    Case { table, truth, dimensions, numbers, priorities: known }
}

fn repeated(value: &ArrayRef, rows: usize) -> ArrayRef {
    arrow_select::take::take(value, &UInt32Array::from(vec![0; rows]), None).unwrap()
}

/// Adds a column to the table, and its default to all rows of the truth.
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
            (data_type, default, known.as_ref().map_or(unknown, self::value))
        }
    };
    let column =
        NewColumn { name: name.clone(), data_type: data_type.clone(), nullable: true, default: value, unit: None };
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

/// Rewrites some of the table, as much at once as chance says.
fn optimize(rng: &mut SmallRng, table: &Table) {
    let options = OptimizeOptions {
        debt_share: *[0.01, 0.3].choose(rng).unwrap(),
        rows_at_once: *[100, 1000, 1_000_000].choose(rng).unwrap(),
        replication: ["none", "outlook", "outlook(1)", "full"].choose(rng).map(|policy| policy.parse().unwrap()),
        ..Default::default()
    };
    table.optimize(&options, &mut |_, _| {}).unwrap();
}

fn rids(batches: &[RecordBatch]) -> Vec<i64> {
    let columns = batches.iter().map(|batch| batch.column_by_name("rid").unwrap().as_primitive::<Int64Type>());
    columns.flat_map(|column| column.values().to_vec()).collect()
}

/// One random question and its brute-force answer: the matching rows.
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
            if let (Some(a), Some(b)) = (&low, &high) {
                if !at_most(a, b) {
                    std::mem::swap(&mut low, &mut high);
                }
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
        _ => {}
    }
    if let Some(priorities) = &case.priorities {
        if rng.random_bool(0.5) {
            let precision = *[0.001, 0.02, 0.3, 0.9, 1.0].choose(rng).unwrap();
            query.precision = Some(precision);
            matching.retain(|row| Threshold::from_fraction(precision).admits(priorities[*row]));
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

fn check(rng: &mut SmallRng, case: &Case, label: &str) {
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
                let next = Threshold::from_fraction(stream.precision());
                assert!(next.to_u128() <= priorities[matching[limit as usize]] as u128, "{label}");
            }
        }
    } else {
        let mut sorted = found.clone();
        sorted.sort_unstable();
        let expected: Vec<i64> = matching.iter().map(|row| *row as i64).collect();
        assert_eq!(sorted, expected, "{label}: {query:?}");
    }
    // Every value of every returned row is what was written.
    for batch in &batches {
        let wanted = UInt64Array::from_iter_values(rids(std::slice::from_ref(batch)).into_iter().map(|rid| rid as u64));
        for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
            let original = case.truth.column_by_name(field.name()).unwrap();
            assert_eq!(original.data_type(), column.data_type(), "{label}: {field}");
            let expected = arrow_select::take::take(original, &wanted, None).unwrap();
            let plain = |array: &ArrayRef| match array.data_type() {
                DataType::Dictionary(_, values) => arrow_cast::cast(array, values).unwrap(),
                _ => array.clone(),
            };
            let (expected, found) = (plain(&expected), plain(column));
            // NaN equals NaN through Debug.
            if expected.as_ref() != found.as_ref() {
                assert_eq!(format!("{expected:?}"), format!("{found:?}"), "{label}: {field}");
            }
        }
    }
}

#[test]
fn queries_equal_brute_force() {
    for seed in 0..160 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let case = table(&mut rng);
        let report = case.table.verify(&VerifyOptions::deep(), &mut |_, _| {}).unwrap();
        assert_eq!(report.findings, Vec::<String>::new(), "seed {seed}");
        assert_eq!(report.rows, case.truth.num_rows() as u64, "seed {seed}");
        for round in 0..20 {
            check(&mut rng, &case, &format!("seed {seed}, round {round}"));
        }
    }
}

#[test]
fn per_cell_equals_brute_force() {
    for seed in 0..40 {
        let mut rng = SmallRng::seed_from_u64(1000 + seed);
        let case = table(&mut rng);
        let Some(priorities) = &case.priorities else { continue };
        let (mut query, mut matching) = question(&mut rng, &case);
        let info = case.table.snapshot().unwrap().info().unwrap();
        let widths = [0.5, 3.0, 40.0];
        let grid: Vec<(usize, f64)> =
            (0..case.dimensions.len().min(2)).map(|d| (d, *widths.choose(&mut rng).unwrap())).collect();
        let rows = rng.random_range(1..4);
        let named = grid.iter().map(|(d, width)| (case.dimensions[*d].clone(), *width)).collect();
        query.per_cell = Some(PerCell { rows, widths: named });
        let batches: Vec<RecordBatch> =
            case.table.snapshot().unwrap().query(&query).unwrap().map(Result::unwrap).collect();
        let found: Vec<u64> = rids(&batches).iter().map(|rid| priorities[*rid as usize]).collect();
        matching.sort_by_key(|row| priorities[*row]);
        let mut fill = std::collections::HashMap::new();
        let mut expected = Vec::new();
        for row in matching {
            let cell: Vec<String> = grid
                .iter()
                .map(|(d, width)| {
                    let column = case.truth.column_by_name(&case.dimensions[*d]).unwrap();
                    let low = info.dimensions[*d].low.unwrap_or(0.0);
                    match (column.is_null(row), number(column.as_ref(), row)) {
                        (true, _) => "null".into(),
                        (_, None) => "nan".into(),
                        (_, Some(Number::Int(value))) => {
                            format!("{}", ((value as f64 - low) / width).floor().clamp(-9e18, 9e18))
                        }
                        (_, Some(Number::Float(value))) => {
                            format!("{}", ((value - low) / width).floor().clamp(-9e18, 9e18))
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
    let table = Table::create_in(Arc::new(MemoryStore::new("same")), schema.clone(), &options).unwrap();
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
    assert_eq!(snapshot.count(&at(0.25)).unwrap(), rows as u64);
    assert_eq!(snapshot.count(&at(0.26)).unwrap(), 0);
    let sample = snapshot.count(&Query { precision: Some(0.01), ..at(0.25) }).unwrap();
    assert!((9_500..10_500).contains(&sample), "{sample}");
    assert_eq!(
        snapshot.query(&Default::default()).unwrap().map(|batch| batch.unwrap().num_rows()).sum::<usize>(),
        rows
    );
}
