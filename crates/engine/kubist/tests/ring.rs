//! A simulated cluster that reports locations: splits by host, and the time per stage of a query.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use crate::common::forward::forward;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Float32Array, Int64Array, RecordBatch};
use bytes::Bytes;
use kubist::store::{
    Abilities, Answers, Capabilities, Latency, Locality, MemoryStore, Reads, ReplicaLocation, Replicas, Request,
    Result, Store, StoreExt, Watch,
};
use kubist::{
    Bound, Dimension, Domain, OptimizeOptions, Query, QueryStream, Replication, Table, TableOptions, Value,
    WriterOptions,
};
use kubist_index::priority::name_hash;
use kubist_model::{Fit, Fitted, Model};

const HOSTS: usize = 6;
const KEPT_BY: usize = 3;
const PARTITION: u64 = 8 << 10;

#[derive(Debug)]
struct Ring(MemoryStore);

fn host(index: usize) -> String {
    format!("10.0.0.{}", index % HOSTS)
}

impl Store for Ring {
    forward!(0:
        location put_if_absent get list delete create_segment read segment_len segments delete_segment
        own_log logs read_log sizes erase
    );

    fn capabilities(&self) -> Capabilities {
        Capabilities { locality: Locality::Hosts, latency: Latency::Network, ..self.0.capabilities() }
    }

    fn abilities(&self) -> Abilities<'_> {
        Abilities { reads: Some(self), replicas: Some(self), ..self.0.abilities() }
    }
}

impl Replicas for Ring {
    fn hosts(&self) -> Vec<String> {
        (0..HOSTS).map(host).collect()
    }

    fn replica_locations(&self, offsets: &[(&str, u64)]) -> Result<Vec<ReplicaLocation>> {
        let location = |(segment, offset): &(&str, u64)| {
            let token = name_hash(&format!("{segment} {}", offset / PARTITION)) as i64;
            let first = (token as i128 - i64::MIN as i128) as usize >> 58;
            ReplicaLocation { token, hosts: (first..first + KEPT_BY).map(host).collect() }
        };
        Ok(offsets.iter().map(location).collect())
    }
}

impl Reads for Ring {
    fn read_segments(&self, wanted: &[(&str, &[Range<u64>])], watch: Watch<'_>) -> Result<Answers> {
        Ok(wanted.iter().map(|(segment, ranges)| self.from_hosts(segment, ranges, watch)).collect())
    }

    fn read_short(&self, wanted: &[(&str, &[Range<u64>])], watch: Watch<'_>) -> Result<Answers> {
        Reads::read_segments(self, wanted, watch)
    }

    fn list_after(&self, prefix: &str, after: &str) -> Result<Vec<String>> {
        self.0.list_after(prefix, after)
    }

    fn waited(&self) -> bool {
        false
    }
}

impl Ring {
    fn from_hosts(&self, segment: &str, ranges: &[Range<u64>], watch: Watch<'_>) -> Result<Vec<Bytes>> {
        let asked = Instant::now();
        let found = self.0.read(segment, ranges)?;
        for (range, bytes) in ranges.iter().zip(&found) {
            let host = Replicas::replica_locations(self, &[(segment, range.start)])?[0].hosts[0].clone();
            let sent = Instant::now();
            watch(Request {
                asked,
                sent,
                answered: Instant::now(),
                bytes: bytes.len() as u64,
                host: Some(host),
                cached: false,
            });
        }
        Ok(found)
    }
}

const ROWS: i64 = 60_000;

fn table(store: Arc<dyn Store>) -> Table {
    let number = |name: &str, id: i64| (name_hash(&format!("{name} {id}")) >> 40) as f32 / (1u64 << 24) as f32;
    let column = |name: &str, first: i64| -> ArrayRef {
        Arc::new((first..first + ROWS / 4).map(|id| number(name, id)).collect::<Float32Array>())
    };
    let batch = |first: i64| {
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + ROWS / 4));
        RecordBatch::try_from_iter([("id", ids), ("x", column("x", first)), ("y", column("y", first))]).unwrap()
    };
    let dimension =
        |name: &str| Dimension { column: name.into(), domain: Domain::Linear(Value::Int(0), Value::Int(1)) };
    let options = TableOptions {
        dimensions: vec![dimension("x"), dimension("y")],
        identity: vec!["id".into()],
        capacity: Some(512),
        replication: Replication::Outlook { boost: 1.0 },
        ..TableOptions::default()
    };
    let table = Table::create(store, batch(0).schema(), &options).unwrap();
    let mut writer = table.writer(&WriterOptions::default()).unwrap();
    for first in (0..ROWS).step_by(ROWS as usize / 4) {
        writer.append(&batch(first)).unwrap();
        writer.commit().unwrap();
    }
    drop(writer);
    table.optimize(&OptimizeOptions::default(), &mut |_, _| {}).unwrap();
    assert!(table.snapshot().unwrap().info().unwrap().replica_rows > 0);
    table
}

fn ids(stream: QueryStream) -> Vec<i64> {
    let mut ids: Vec<i64> = Vec::new();
    for batch in stream {
        let batch = batch.unwrap();
        ids.extend(batch.column_by_name("id").unwrap().as_primitive::<Int64Type>().values());
    }
    ids.sort_unstable();
    ids
}

fn questions() -> Vec<Query> {
    let low = |column: &str, low: f64, high: f64| Bound {
        column: column.into(),
        low: Some(Value::Float(low)),
        high: Some(Value::Float(high)),
    };
    vec![
        Query::default(),
        Query { sample: Some(0.3), ..Query::default() },
        Query { bounds: vec![low("x", 0.2, 0.4), low("y", 0.1, 0.8)], ..Query::default() },
        Query { filter: Some("x + y < 0.7".into()), window: Some((0.1, 0.6)), ..Query::default() },
    ]
}

#[test]
fn parts_by_host_are_the_whole_answer_and_lie_where_they_say() {
    let ring = Arc::new(Ring(MemoryStore::new("ring")));
    let snapshot = table(ring.clone()).snapshot().unwrap();
    let table = Table::open(ring).unwrap();
    for query in questions() {
        let whole = ids(snapshot.query(&query).unwrap());
        for parts in [1, 4, 6, 12] {
            let splits = snapshot.splits_by_host(&query, parts).unwrap();
            assert_eq!(splits.len(), parts);
            let read = |split| ids(table.read_split(split).unwrap());
            let mut all: Vec<i64> = splits.iter().flat_map(read).collect();
            all.sort_unstable();
            assert!(all == whole, "{query:?} in {parts} parts: {} of {} rows", all.len(), whole.len());
        }
    }
    // Apart from runs with random names, each host holds nearly all of its split, and no split exceeds twice the mean.
    let splits = snapshot.splits_by_host(Query::default(), HOSTS).unwrap();
    let firsts: std::collections::BTreeSet<_> = splits.iter().map(|split| &split.preferred_hosts[0]).collect();
    assert!(firsts.len() >= HOSTS - 2, "{firsts:?}");
    for split in &splits {
        let text = serde_json::to_string(split).unwrap();
        assert_eq!(&serde_json::from_str::<kubist::Split>(&text).unwrap(), split);
        let fair = ROWS as u64 / HOSTS as u64;
        assert!((fair / 2..fair * 2).contains(&split.rows), "{} of {fair}", split.rows);
    }
}

#[test]
fn compact_parts_name_their_hosts_and_a_directory_has_none() {
    let snapshot = table(Arc::new(Ring(MemoryStore::new("ring")))).snapshot().unwrap();
    let splits = snapshot.splits(Query::default(), 5).unwrap();
    assert!(splits.iter().any(|split| !split.preferred_hosts.is_empty()));
    let nowhere = table(Arc::new(MemoryStore::new("memory"))).snapshot().unwrap();
    let query = Query::default();
    assert_eq!(nowhere.splits_by_host(&query, 5).unwrap(), nowhere.splits(&query, 5).unwrap());
    assert!(nowhere.splits(&query, 5).unwrap().iter().all(|split| split.preferred_hosts.is_empty()));
}

fn fitted(model: Model) -> Fitted {
    let fit = Fit { model, nodes: HOSTS as u32, requests: vec![], levels: vec![], client: vec![] };
    let measured = Vec::new();
    Fitted { location: "ring".into(), hosts: vec![], table: None, decode_ms_per_byte: 0.0, fit, measured }
}

#[test]
fn a_query_says_where_its_time_went() {
    let ring = Arc::new(Ring(MemoryStore::new("ring")));
    table(ring.clone());
    let fitted = fitted(Model::AS_PRINTED);
    for query in questions() {
        let snapshot = Table::open(ring.clone()).unwrap().snapshot().unwrap();
        let rows = ids(snapshot.query(&query).unwrap()).len() as u64;
        let explanation = snapshot.plan(&query).unwrap().explain(Some(&fitted)).unwrap();
        let (stats, stages) = (&explanation.stats, &explanation.stages);
        assert_eq!(stats.rows_returned, rows);
        assert_eq!(stages.bytes, stats.bytes_read, "{query:?}");
        assert_eq!(stages.requests, explanation.requests.len() as u64);
        let mut hosts: BTreeMap<String, u64> = BTreeMap::new();
        for request in &explanation.requests {
            let moments = [0.0, request.asked, request.sent, request.answered, request.decoded, stats.seconds];
            assert!(moments.is_sorted(), "{moments:?}");
            *hosts.entry(request.host.clone().unwrap()).or_default() += 1;
        }
        assert_eq!(hosts, stages.hosts);
        assert!(stages.planned_seconds > 0.0 && stages.planned_seconds < stats.seconds);
        assert!(stages.decoded_seconds > 0.0);
        let predicted = explanation.predicted.unwrap();
        assert_eq!(predicted.prediction.requests, stages.requests as f64);
        assert!((stats.seconds / predicted.seconds - 1.0 - predicted.error).abs() < 1e-9);
        assert_eq!(snapshot.plan(&query).unwrap().explain(None).unwrap().predicted, None);
    }
}
