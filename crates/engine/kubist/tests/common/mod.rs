//! Commits with known rows, and checks of a snapshot: whole commits, a prefix of every writer's commits, and each row
//! once with its values.

pub mod forward;
pub mod gated;
pub mod planted;
pub mod proxy;
pub mod site;
pub mod stopping;
pub mod watchdog;
pub mod work;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int64Type};
use arrow_array::{ArrayRef, Float32Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kubist::{
    CommitOptions, Committed, Dimension, Domain, Query, Replication, Result, Snapshot, TableOptions, Value, Writer,
};
use kubist_index::priority::name_hash;

const IDS: i64 = 1_000;
const COMMITS: i64 = 100_000;

pub fn schema() -> SchemaRef {
    let field = |name: &str, data_type| Field::new(name, data_type, false);
    Arc::new(Schema::new(vec![
        field("id", DataType::Int64),
        field("x", DataType::Float32),
        field("y", DataType::Float32),
    ]))
}

pub fn options() -> TableOptions {
    let dimension =
        |name: &str| Dimension { column: name.into(), domain: Domain::Linear(Value::Int(0), Value::Int(1)) };
    TableOptions {
        dimensions: vec![dimension("x"), dimension("y")],
        identity: vec!["id".into()],
        lookup: vec!["id".into()],
        capacity: Some(64),
        replication: Replication::Outlook { boost: 1.0 },
        exist_ok: true,
        ..Default::default()
    }
}

pub fn name(writer: i64) -> String {
    format!("rank-{writer}")
}

fn size(commit: i64) -> i64 {
    let dice = name_hash(&format!("size of {commit}")) as i64 & 0xffff;
    if dice % 10 == 0 { 1 + dice % 500 } else { 1 + dice % 40 }
}

fn position(id: i64) -> (f32, f32) {
    let hash = name_hash(&id.to_string());
    ((hash & 0xffff) as f32 / 65536.0, (hash >> 20 & 0xffff) as f32 / 65536.0)
}

pub fn rows(writer: i64, commit: i64) -> RecordBatch {
    let commit = writer * COMMITS + commit;
    let ids = commit * IDS..commit * IDS + size(commit);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(ids.clone())),
        Arc::new(Float32Array::from_iter_values(ids.clone().map(|id| position(id).0))),
        Arc::new(Float32Array::from_iter_values(ids.map(|id| position(id).1))),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

/// Uses a token, so that a retry counts once.
pub fn commit(to: &mut Writer, writer: i64, commit: i64) -> Result<Committed> {
    to.append(&rows(writer, commit))?;
    to.commit_as(&CommitOptions { token: Some(format!("commit {commit}")), step: None })
}

pub fn commits(snapshot: &Snapshot) -> std::result::Result<BTreeMap<i64, i64>, Wrong> {
    let mut counts = BTreeMap::new();
    for (writer, commits) in whole_commits(snapshot)? {
        if !commits.iter().copied().eq(0..commits.len() as i64) {
            return Err(Wrong::Rows(format!("of writer {writer} only commits {commits:?} are there")));
        }
        counts.insert(writer, commits.len() as i64);
    }
    Ok(counts)
}

pub fn whole_commits(snapshot: &Snapshot) -> std::result::Result<BTreeMap<i64, Vec<i64>>, Wrong> {
    let mut ids = Vec::new();
    for batch in snapshot.query(Query::default())? {
        let batch = batch?;
        let (x, y) = (batch["x"].as_primitive::<Float32Type>(), batch["y"].as_primitive::<Float32Type>());
        for (row, id) in batch["id"].as_primitive::<Int64Type>().values().iter().enumerate() {
            if (x.value(row), y.value(row)) != position(*id) {
                return Err(Wrong::Rows(format!("row {id} has other values")));
            }
            ids.push(*id);
        }
    }
    let count = ids.len() as u64;
    if snapshot.rows()? != count {
        return Err(Wrong::Rows(format!("{count} rows were found and {:?} counted", snapshot.rows())));
    }
    if let Some(id) = ids.last() {
        let found = snapshot.count(&Query { filter: Some(format!("id = {id}")), ..Query::default() })?;
        if found != 1 {
            return Err(Wrong::Rows(format!("row {id} was looked up and found {found} times")));
        }
    }
    ids.sort_unstable();
    if let Some(pair) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Wrong::Rows(format!("row {} is there twice", pair[0])));
    }
    let mut found: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for of_commit in ids.chunk_by(|a, b| a / IDS == b / IDS) {
        let commit = of_commit[0] / IDS;
        if of_commit.len() as i64 != size(commit) {
            return Err(Wrong::Rows(format!("{} of {} rows of commit {commit}", of_commit.len(), size(commit))));
        }
        found.entry(commit / COMMITS).or_default().push(commit % COMMITS);
    }
    Ok(found)
}

#[derive(Debug)]
pub enum Wrong {
    Rows(#[expect(dead_code, reason = "its Debug form is the message")] String),
    Error(kubist::Error),
}

impl From<kubist::Error> for Wrong {
    fn from(error: kubist::Error) -> Wrong {
        Wrong::Error(error)
    }
}
