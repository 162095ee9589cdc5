//! Ranks and their leader in one process.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use kubist::store::MemoryStore;
use kubist::{Declared, Dimension, Domain, ErrorKind, NewColumn, Query, Table, TableOptions, Value, WriterOptions};

use crate::failure::{Failure, Result};
use crate::queue::{Queue, Ready};
use crate::{Kind, Leader, Patience, Ring, StepOptions, StepWriter, Values, WhenFull};

fn never() -> bool {
    false
}

fn patience(seconds: u64) -> Patience<'static> {
    Patience::new(Duration::from_secs(seconds), &never)
}

fn table(name: &str) -> Table {
    let fields = vec![Field::new("x", DataType::Float64, false), Field::new("n", DataType::Int64, false)];
    let domain = Domain::Linear(Value::Float(0.0), Value::Float(1.0));
    let options = TableOptions {
        dimensions: vec![Dimension { column: "x".into(), domain }],
        identity: vec!["n".into()],
        ..TableOptions::default()
    };
    Table::create(Arc::new(MemoryStore::new(name)), Arc::new(Schema::new(fields)), &options).unwrap()
}

fn rows(table: &Table) -> u64 {
    table.snapshot().unwrap().count(Query::default()).unwrap()
}

fn ring(ranks: u32, lane_bytes: u64) -> Ring {
    let bytes = Ring::bytes_for(ranks, lane_bytes);
    let memory: &'static mut [u64] = vec![0; bytes as usize / 8].leak();
    // SAFETY: the memory is leaked, and nothing else uses it.
    unsafe { Ring::make(memory.as_mut_ptr().cast(), bytes, ranks) }.unwrap()
}

fn lead(table: &Table, ring: Ring) -> Leader {
    let options = StepOptions { name: Some("node".into()), ..StepOptions::default() };
    Leader::start(table, ring, &options, &patience(60)).unwrap()
}

fn attach(table: &Table, ring: Ring, rank: u32) -> StepWriter {
    StepWriter::attach(table, ring, rank, &StepOptions::default()).unwrap()
}

fn put<T>(writer: &mut StepWriter, column: &str, kind: Kind, values: &[T], seconds: u64) -> Result<()> {
    // SAFETY: the values have this kind and outlive the call.
    let values = unsafe { Values::from_raw(kind, values.as_ptr().cast(), values.len() as u64, 0) }?;
    writer.put(column, values, &patience(seconds))
}

fn put_x(writer: &mut StepWriter, rows: usize) {
    put(writer, "x", Kind::F64, &vec![0.5; rows], 60).unwrap();
}

fn put_n(writer: &mut StepWriter, rows: usize) {
    put(writer, "n", Kind::I64, &(0..rows as i64).collect::<Vec<_>>(), 60).unwrap();
}

fn write(writer: &mut StepWriter, step: i64, rows: usize) {
    writer.begin(step).unwrap();
    put_x(writer, rows);
    put_n(writer, rows);
    writer.end(None, &patience(60)).unwrap();
}

fn refused<T>(done: Result<T>, kind: ErrorKind, words: &[&str]) {
    let failure = done.err().unwrap();
    assert_eq!(failure.kind, kind, "{failure}");
    words.iter().for_each(|word| assert!(failure.message.contains(word), "{failure} lacks {word}"));
}

fn until_there_is_room(writer: &mut StepWriter, mut act: impl FnMut(&mut StepWriter) -> Result<()>) {
    let once = || match act(writer) {
        Err(failure) if failure.kind == ErrorKind::Busy => Ok(None),
        done => done.map(Some),
    };
    patience(60).poll(&|| "room".into(), once).unwrap();
}

#[test]
fn a_column_that_found_no_room_is_put_again() {
    let (table, ring) = (table("room"), ring(1, 4096));
    let failing = StepOptions { when_full: WhenFull::Fail, ..StepOptions::default() };
    let mut writer = StepWriter::attach(&table, ring, 0, &failing).unwrap();
    let n: Vec<i64> = (0..400).collect();
    writer.begin(1).unwrap();
    put_x(&mut writer, 400);
    refused(put(&mut writer, "n", Kind::I64, &n, 60), ErrorKind::Busy, &["the ring is full"]);
    refused(writer.end(None, &patience(60)), ErrorKind::InvalidInput, &["lacks columns", "n"]);
    let mut leader = lead(&table, ring);
    until_there_is_room(&mut writer, |writer| put(writer, "n", Kind::I64, &n, 60));
    until_there_is_room(&mut writer, |writer| writer.end(None, &patience(60)).map(drop));
    writer.close(&patience(60)).unwrap();
    leader.close(&patience(60)).unwrap();
    assert_eq!(rows(&table), 400);
}

fn one_of_two(name: &str, other: impl FnOnce(StepWriter), told: &[&str]) {
    let (table, ring) = (table(name), ring(2, 1 << 16));
    let mut leader = lead(&table, ring);
    let (mut first, mut second) = (attach(&table, ring, 0), attach(&table, ring, 1));
    write(&mut first, 1, 3);
    write(&mut second, 1, 4);
    write(&mut first, 2, 3);
    other(second);
    refused(first.wait(2, &patience(60)), ErrorKind::Unavailable, told);
    first.wait(1, &patience(60)).unwrap();
    drop(first);
    refused(leader.close(&patience(60)), ErrorKind::Unavailable, told);
    assert_eq!(rows(&table), 7);
}

#[test]
fn a_rank_that_is_dropped_in_a_step_stops_its_node() {
    let drop_it = |mut second: StepWriter| {
        second.begin(2).unwrap();
        put_x(&mut second, 3);
    };
    one_of_two("dropped", drop_it, &["rank 1 of this node", "has given up: step 2 is not written"]);
}

#[test]
fn a_rank_that_is_dropped_between_steps_stops_its_node() {
    one_of_two("gone", drop, &["rank 1 of this node", "has given up: no step was lost"]);
}

#[test]
fn a_rank_that_closes_in_a_step_stops_its_node() {
    let close_it = |mut second: StepWriter| {
        second.begin(2).unwrap();
        put_x(&mut second, 3);
        let _ = second.close(&patience(60));
    };
    one_of_two("closed", close_it, &["rank 1 of this node, which closed in a step: step 2 is not written"]);
}

#[test]
fn a_rank_that_passes_a_step_by_stops_its_node() {
    let silent = "rank 1 of this node has neither ended nor abandoned step 2";
    let close_it = |mut second: StepWriter| {
        let _ = second.close(&patience(60));
    };
    one_of_two("silent", close_it, &[silent]);
    let go_on = |mut second: StepWriter| {
        second.begin(3).unwrap();
        let _ = put(&mut second, "x", Kind::F64, &[0.5], 60);
        let _ = put(&mut second, "n", Kind::I64, &[1i64], 60);
        let _ = second.end(None, &patience(60));
        let _ = second.close(&patience(60));
    };
    one_of_two("later", go_on, &[silent]);
}

/// It owns the memory of the node.
#[test]
fn a_leader_that_stopped_ends_once_all_ranks_have() {
    let (table, ring) = (table("stopped"), ring(2, 1 << 16));
    let mut leader = lead(&table, ring);
    let (first, mut second) = (attach(&table, ring, 0), attach(&table, ring, 1));
    drop(first);
    let _ = second.close(&patience(60));
    refused(leader.close(&patience(60)), ErrorKind::Unavailable, &["rank 0 of this node"]);
}

#[test]
fn a_column_that_was_cut_off_is_put_again_with_other_values() {
    let (table, ring) = (table("cut"), ring(1, 4096));
    let mut writer = attach(&table, ring, 0);
    writer.begin(1).unwrap();
    for _ in 0..2 {
        refused(put(&mut writer, "x", Kind::F64, &[0.25; 2000], 0), ErrorKind::Busy, &["room in the ring"]);
    }
    refused(writer.end(None, &patience(0)), ErrorKind::Busy, &["room in the ring"]);
    let mut leader = lead(&table, ring);
    put(&mut writer, "x", Kind::F64, &[0.75; 1200], 60).unwrap();
    put(&mut writer, "n", Kind::I64, &[3i64; 1200], 60).unwrap();
    writer.end(None, &patience(60)).unwrap();
    writer.close(&patience(60)).unwrap();
    leader.close(&patience(60)).unwrap();
    let of_last = Query { filter: Some("x = 0.75 and n = 3".into()), ..Query::default() };
    assert_eq!((rows(&table), table.snapshot().unwrap().count(of_last).unwrap()), (1200, 1200));
}

#[test]
fn a_step_that_was_cut_off_can_be_abandoned() {
    let (table, ring) = (table("cut-abandoned"), ring(1, 4096));
    let mut writer = attach(&table, ring, 0);
    writer.begin(1).unwrap();
    refused(put(&mut writer, "x", Kind::F64, &[0.25; 2000], 0), ErrorKind::Busy, &["room in the ring"]);
    refused(writer.abandon(&patience(0)), ErrorKind::Busy, &["room in the ring"]);
    let mut leader = lead(&table, ring);
    writer.abandon(&patience(60)).unwrap();
    write(&mut writer, 2, 5);
    writer.close(&patience(60)).unwrap();
    leader.close(&patience(60)).unwrap();
    assert_eq!(rows(&table), 5);
}

fn batch(rows: usize) -> RecordBatch {
    let x = Float64Array::from(vec![0.5; rows]);
    let n = Int64Array::from_iter_values(0..rows as i64);
    let columns: Vec<(&str, ArrayRef)> = vec![("x", Arc::new(x)), ("n", Arc::new(n))];
    RecordBatch::try_from_iter(columns).unwrap()
}

#[test]
fn a_batch_that_is_larger_than_the_ring_is_refused_or_waits() {
    let (table, ring) = (table("larger"), ring(1, 4096));
    let failing = StepOptions { when_full: WhenFull::Fail, ..StepOptions::default() };
    let mut writer = StepWriter::attach(&table, ring, 0, &failing).unwrap();
    writer.begin(1).unwrap();
    let put = writer.put_batch(&batch(300), &patience(60));
    refused(put, ErrorKind::InvalidInput, &["do not fit into the ring of 4096 bytes", "when_full"]);
    let mut leader = lead(&table, ring);
    writer.put_batch(&batch(200), &patience(60)).unwrap();
    writer.end(None, &patience(60)).unwrap();
    writer.close(&patience(60)).unwrap();
    leader.close(&patience(60)).unwrap();
    assert_eq!(rows(&table), 200);
}

#[test]
fn a_batch_that_found_no_room_is_put_again() {
    for (rows_of_batch, when_full) in [
        (200, WhenFull::Fail),
        (250, WhenFull::Block),
        (251, WhenFull::Block),
        (252, WhenFull::Block),
        (300, WhenFull::Block),
        (600, WhenFull::Block),
        (5000, WhenFull::Block),
    ] {
        let (table, ring) = (table("batch-again"), ring(1, 4096));
        let options = StepOptions { when_full, ..StepOptions::default() };
        let mut writer = StepWriter::attach(&table, ring, 0, &options).unwrap();
        writer.begin(1).unwrap();
        let mut early = 0;
        while writer.put_batch(&batch(rows_of_batch), &patience(0)).is_ok() {
            early += 1;
        }
        let mut leader = lead(&table, ring);
        until_there_is_room(&mut writer, |writer| writer.put_batch(&batch(rows_of_batch), &patience(60)));
        until_there_is_room(&mut writer, |writer| writer.end(None, &patience(60)).map(drop));
        writer.close(&patience(60)).unwrap();
        leader.close(&patience(60)).unwrap();
        assert_eq!(rows(&table), (early + 1) * rows_of_batch as u64, "{rows_of_batch} {when_full:?}");
    }
}

#[test]
fn a_ring_that_is_exactly_full_takes_the_call_again() {
    for when_full in [WhenFull::Block, WhenFull::Fail] {
        let (table, ring) = (table("exact"), ring(1, 4096));
        let options = StepOptions { when_full, ..StepOptions::default() };
        let mut writer = StepWriter::attach(&table, ring, 0, &options).unwrap();
        writer.begin(1).unwrap();
        put(&mut writer, "x", Kind::F64, &vec![0.5; (4096 - 2 * 32) / 8], 0).unwrap();
        refused(writer.end(None, &patience(0)), ErrorKind::InvalidInput, &["lacks columns"]);
        let n: Vec<i64> = (0..504).collect();
        refused(put(&mut writer, "n", Kind::I64, &n, 0), ErrorKind::Busy, &[]);
        let mut leader = lead(&table, ring);
        until_there_is_room(&mut writer, |writer| put(writer, "n", Kind::I64, &n, 60));
        until_there_is_room(&mut writer, |writer| writer.end(None, &patience(60)).map(drop));
        writer.close(&patience(60)).unwrap();
        leader.close(&patience(60)).unwrap();
    }
}

#[test]
fn a_column_that_was_added_meanwhile_is_taken() {
    let (table, ring) = (table("added"), ring(1, 1 << 16));
    let mut leader = lead(&table, ring);
    let age = NewColumn {
        name: "age".into(),
        data_type: DataType::Float64,
        nullable: true,
        default: Value::Null,
        unit: None,
        accuracy: None,
    };
    table.add_column(&age).unwrap();
    let mut writer = attach(&table, ring, 0);
    writer.begin(1).unwrap();
    put_x(&mut writer, 5);
    put_n(&mut writer, 5);
    put(&mut writer, "age", Kind::F64, &[2.0; 5], 60).unwrap();
    writer.end(None, &patience(60)).unwrap();
    write(&mut writer, 2, 3);
    writer.close(&patience(60)).unwrap();
    leader.close(&patience(60)).unwrap();
    assert_eq!(rows(&table), 8);
}

#[test]
fn a_step_takes_several_batches_through_a_ring() {
    let (table, ring) = (table("batches"), ring(1, 1 << 16));
    let mut leader = lead(&table, ring);
    let mut writer = attach(&table, ring, 0);
    writer.begin(1).unwrap();
    for rows in [3, 0, 5] {
        let x = Float64Array::from(vec![0.5; rows]);
        let columns: Vec<(&str, ArrayRef)> =
            vec![("x", Arc::new(x)), ("n", Arc::new(Int64Array::from_iter_values(0..rows as i64)))];
        writer.put_batch(&RecordBatch::try_from_iter(columns).unwrap(), &patience(60)).unwrap();
    }
    put_x(&mut writer, 2);
    put_n(&mut writer, 2);
    writer.end(None, &patience(60)).unwrap();
    writer.close(&patience(60)).unwrap();
    leader.close(&patience(60)).unwrap();
    assert_eq!(rows(&table), 10);
}

#[test]
fn a_token_is_refused_where_a_leader_commits() {
    let (table, ring) = (table("token"), ring(1, 1 << 16));
    let mut writer = attach(&table, ring, 0);
    writer.begin(1).unwrap();
    refused(writer.end(Some("once"), &patience(60)), ErrorKind::Unsupported, &["once"]);
    writer.end(None, &patience(60)).unwrap();
    let mut leader = lead(&table, ring);
    writer.close(&patience(60)).unwrap();
    leader.close(&patience(60)).unwrap();
}

/// The leader may end immediately after the step is durable.
#[test]
fn a_rank_that_closes_hears_of_its_last_step_although_the_leader_ends_then() {
    let table = table("closing");
    for step in 0..400 {
        let ring = ring(1, 1 << 12);
        let mut writer = attach(&table, ring, 0);
        writer.begin(step).unwrap();
        writer.end(None, &patience(60)).unwrap();
        let mut leader = lead(&table, ring);
        writer.close(&patience(60)).unwrap_or_else(|failure| panic!("step {step}: {}", failure.message));
        leader.close(&patience(60)).unwrap();
    }
}

#[test]
fn sizes_beyond_all_memory_are_the_largest_number() {
    assert_eq!(Ring::bytes_for(u32::MAX, u64::MAX), u64::MAX);
    assert_eq!(Ring::bytes_for(2, u64::MAX / 2), u64::MAX);
    assert!(Ring::bytes_for(2, 1 << 20) < 1 << 22);
}

fn open(table: &Table, options: StepOptions) -> StepWriter {
    let options = StepOptions { name: Some("w".into()), queue: Some(2), ..options };
    StepWriter::open(table, &options, &patience(60)).unwrap()
}

#[test]
fn a_step_that_goes_down_is_refused_before_it_ends_the_queue() {
    let table = table("down");
    let mut writer = open(&table, StepOptions::default());
    write(&mut writer, 5, 2);
    for step in [4, 5] {
        refused(writer.begin(step), ErrorKind::InvalidInput, &["step 5"]);
    }
    write(&mut writer, 6, 2);
    writer.close(&patience(60)).unwrap();
    assert_eq!(rows(&table), 4);
}

#[test]
fn with_tokens_a_step_is_abandoned_once_however_often_it_is_said() {
    let table = table("abandoned");
    table.declare_writers(&Declared::Count(1)).unwrap();
    for attempt in 0..2 {
        let mut writer = open(&table, StepOptions { tokens: true, ..StepOptions::default() });
        write(&mut writer, 1, 2);
        writer.begin(2).unwrap();
        writer.abandon(&patience(60)).unwrap();
        write(&mut writer, 3 + attempt, 2);
        writer.close(&patience(60)).unwrap();
    }
    assert_eq!(table.snapshot().unwrap().complete_steps(), [1, 2, 3, 4]);
    assert_eq!(rows(&table), 6);
}

#[test]
fn a_step_that_is_durable_is_so_although_a_later_one_failed() {
    let table = table("later-failed");
    let writer = table.writer(&WriterOptions { name: Some("w".into()), ..WriterOptions::default() }).unwrap();
    let queue = Queue::start(writer, &StepOptions { queue: Some(4), ..StepOptions::default() }).unwrap();
    for step in [5, 6, 6] {
        let _ = queue.push(Ready { step, token: None, batches: Some(vec![]), thinned: None });
    }
    refused(queue.wait(i64::MAX, &patience(60)), ErrorKind::InvalidInput, &["step 6 was not written"]);
    queue.wait(5, &patience(60)).unwrap();
}

#[test]
fn a_failure_that_stays_does_not_ask_to_be_waited_for() {
    for kind in [ErrorKind::Busy, ErrorKind::Cancelled] {
        assert_eq!(Failure::new(kind, "").lasting().kind, ErrorKind::Unavailable);
    }
    assert_eq!(Failure::new(ErrorKind::NoSpace, "").lasting().kind, ErrorKind::NoSpace);
}

#[test]
fn a_batch_with_a_column_twice_is_refused() {
    let table = table("twice");
    let x = || Arc::new(Float64Array::from(vec![0.5]));
    let field = |name, of| Field::new(name, of, false);
    let fields = vec![field("x", DataType::Float64), field("n", DataType::Int64), field("x", DataType::Float64)];
    let n = Arc::new(Int64Array::from(vec![1]));
    let columns: Vec<ArrayRef> = vec![x(), n, x()];
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
    let mut writer = open(&table, StepOptions::default());
    writer.begin(1).unwrap();
    refused(writer.put_batch(&batch, &patience(60)), ErrorKind::InvalidInput, &["\"x\"", "twice"]);
}
