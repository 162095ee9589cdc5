//! The deep check finds inconsistent tables with valid checksums.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use arrow_select::concat::concat_batches;
use kubist_index::cube::CubeId;
use kubist_index::layout::Placement;
use kubist_index::priority::{PriorityRange, Threshold};
use kubist_index::state::{Run, RunId};
use kubist_store::MemoryStore;

use kubist::Cancel;
use kubist::Table;
use kubist::VerifyOptions;
use kubist::{Dimension, Domain, TableOptions, Value, WriterOptions};
use kubist_catalog::frame::Frame;
use kubist_format::bounds::Values;
use kubist_format::encode::RunEncoding;
use kubist_format::location::Location;
use kubist_format::zone_map::{ColumnZones, LazyPriorities, LazyZones, ZoneMap};
use kubist_read::runs::read_run;
use kubist_write::build::SortedRows;
use kubist_write::publish::{Replacement, publish, write_segment};

const ROWS: i64 = 20;

fn table() -> Table {
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("name", DataType::Utf8, false),
    ]));
    let domain = Domain::Linear(Value::Int(0), Value::Int(ROWS as i128));
    let options = TableOptions {
        dimensions: vec![Dimension { column: "id".into(), domain }],
        identity: vec!["id".into()],
        ..TableOptions::default()
    };
    let table = Table::create(Arc::new(MemoryStore::new("wrong")), schema.clone(), &options).unwrap();
    let names = StringArray::from_iter_values((0..ROWS).map(|id| format!("record {id}")));
    let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from_iter_values(0..ROWS)), Arc::new(names)];
    let mut writer = table.writer(&WriterOptions::default()).unwrap();
    writer.append(&RecordBatch::try_new(schema, columns).unwrap()).unwrap();
    writer.commit().unwrap();
    table
}

fn only_run(table: &Table) -> (Arc<Run<Location>>, RecordBatch) {
    let snapshot = table.snapshot().unwrap();
    let run = snapshot.pinned().directory().unwrap().runs().next().unwrap().clone();
    let rows = read_run(snapshot.pinned(), &run).unwrap().0;
    assert_eq!((run.cube, rows.num_rows() as i64), (CubeId::root(0), ROWS));
    (run, rows)
}

fn run(table: &Table, cube: CubeId, rows: RecordBatch, change: impl Fn(&mut ZoneMap)) -> Run<Location> {
    let core = table.core();
    let count = rows.num_rows() as u32;
    let how = RunEncoding::default();
    let sorted = SortedRows::new(&grid(table), &rows.schema(), how, &[rows], &Cancel::default()).unwrap();
    let placement = Placement {
        cube,
        within: (0..count).collect(),
        overflow: vec![],
        cutoff: Threshold::ALL,
        is_one_of_many: false,
    };
    let encoded = sorted.encode(&placement, &Default::default());
    let mut map = ZoneMap::decode(&encoded.map).unwrap();
    change(&mut map);
    let map = map.encode();
    let parts: Vec<&[u8]> = encoded.data.iter().chain([&map]).map(Vec::as_slice).collect();
    let view = core.view(&kubist::Cancel::default()).unwrap();
    let (segment, data_offset) = write_segment(core, &view, |segment| Ok(segment.append(&parts).unwrap())).unwrap();
    let payload = Location {
        segment: segment.into(),
        data_offset,
        data_length: encoded.data_length,
        map_offset: data_offset + encoded.data_length,
        map_length: map.len() as u32,
        low: encoded.low,
        high: encoded.high,
        origin: None,
        lookup: None,
        ranges: None,
    };
    Run { id: RunId(0), cube, rows: encoded.rows, priorities: encoded.priorities, copies: vec![], payload }
}

fn publish_as(table: &Table, replacement: Replacement) {
    assert!(publish(table.core(), replacement, &Default::default()).unwrap());
}

fn findings(table: &Table) -> (usize, Vec<String>) {
    let look = |deep| {
        let options = VerifyOptions { deep, ..VerifyOptions::default() };
        table.verify(&options, &mut |_, _| {}).unwrap().findings
    };
    (look(false).len(), look(true))
}

fn grid(table: &Table) -> Arc<Frame> {
    table.core().frame(&table.core().created, 0).unwrap().unwrap()
}

fn left(table: &Table) -> (CubeId, RecordBatch) {
    let frame = grid(table);
    let cube = frame.geometry.children(CubeId::root(0)).next().unwrap();
    let (_, rows) = only_run(table);
    let positions = frame.positions(std::slice::from_ref(&rows));
    let inside = (0..rows.num_rows()).filter(|row| frame.geometry.contains_key(cube, positions.keys[*row]));
    let rows: Vec<RecordBatch> = inside.map(|row| rows.slice(row, 1)).collect();
    (cube, concat_batches(&rows[0].schema(), &rows).unwrap())
}

fn replicate(table: &Table, cube: CubeId, rows: RecordBatch) {
    let (source, _) = only_run(table);
    let replica = Run { copies: vec![source.id], ..run(table, cube, rows, |_| {}) };
    publish_as(table, Replacement { copied: vec![source], runs: vec![Arc::new(replica)], ..Replacement::default() });
}

#[test]
fn a_sound_replica_is_sound() {
    let table = table();
    let (cube, rows) = left(&table);
    replicate(&table, cube, rows);
    assert_eq!(findings(&table), (0, vec![]));
}

#[test]
fn replicas_must_hold_the_rows_of_their_sources() {
    let table = table();
    let (cube, rows) = left(&table);
    replicate(&table, cube, rows.slice(1, rows.num_rows() - 1));
    let (_, found) = findings(&table);
    assert!(found.len() == 1 && found[0].contains("the runs that it copies"), "{found:?}");
    let table = self::table();
    let twice = concat_batches(&rows.schema(), [&rows.slice(1, rows.num_rows() - 1), &rows.slice(1, 1)]).unwrap();
    replicate(&table, cube, twice);
    let (_, found) = findings(&table);
    assert!(found.len() == 1 && found[0].contains("its records are not those"), "{found:?}");
}

#[test]
fn replicas_must_not_overlap() {
    let table = table();
    let (cube, rows) = left(&table);
    let (source, _) = only_run(&table);
    // Publishing does not compare the copies within one entry.
    let replica = || Arc::new(Run { copies: vec![source.id], ..run(&table, cube, rows.clone(), |_| {}) });
    let runs = vec![replica(), replica()];
    publish_as(&table, Replacement { copied: vec![source.clone()], runs, ..Replacement::default() });
    let (quick, found) = findings(&table);
    assert!(quick == 1 && found.len() == 1 && found[0].contains("another replica in its cube"), "{found:?}");
}

#[test]
fn rows_must_be_as_many_as_were_committed() {
    let table = table();
    let (source, rows) = only_run(&table);
    let fewer = run(&table, CubeId::root(0), rows.slice(0, 19), |_| {});
    publish_as(&table, Replacement { inputs: vec![source], runs: vec![Arc::new(fewer)], ..Replacement::default() });
    let (quick, found) = findings(&table);
    assert!(quick == 1 && found.len() == 1 && found[0].contains("the logs count 20 records"), "{found:?}");
}

#[test]
fn rows_must_not_lie_below_a_cube_that_admits_them() {
    let table = table();
    let (cube, rows) = left(&table);
    let (source, all) = only_run(&table);
    let of = |cube, rows| Arc::new(run(&table, cube, rows, |_| {}));
    let runs = vec![of(cube, rows.clone()), of(CubeId::root(0), all.slice(0, 20))];
    publish_as(&table, Replacement { inputs: vec![source], runs, ..Replacement::default() });
    let (_, found) = findings(&table);
    assert!(found.iter().any(|what| what.contains("belongs above its cube")), "{found:?}");
    assert!(found.iter().any(|what| what.contains("the logs count")), "{found:?}");
}

fn with_wrong_bounds(zones: &ColumnZones) -> LazyZones {
    let mut wrong = zones.clone();
    wrong.max[0] += 1;
    LazyZones::new(wrong, Values::Keys)
}

fn with_wrong_priorities(priorities: &[PriorityRange]) -> LazyPriorities {
    let mut wrong = priorities.to_vec();
    wrong[0].first = 0;
    wrong.into()
}

#[test]
fn zone_maps_must_be_exact() {
    type Change = fn(&mut ZoneMap);
    let changes: [(Change, &str); 2] = [
        (|map| map.columns[1] = with_wrong_bounds(&map.columns[1]), "bounds or nulls of column \"name\""),
        (|map| map.priorities = with_wrong_priorities(&map.priorities), "other priorities"),
    ];
    for (change, expected) in changes {
        let table = table();
        let (source, rows) = only_run(&table);
        let lying = run(&table, CubeId::root(0), rows, change);
        publish_as(&table, Replacement { inputs: vec![source], runs: vec![Arc::new(lying)], ..Replacement::default() });
        let (quick, found) = findings(&table);
        assert!(quick == 0 && found.len() == 1 && found[0].contains(expected), "{expected}: {found:?}");
    }
}
