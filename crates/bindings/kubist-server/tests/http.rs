//! The HTTP interface returns the engine's results from one snapshot, in every format.

use crate::common;
use std::collections::{BTreeMap, HashMap};
use std::io::Cursor;
use std::time::Duration;

use crate::common::{append, send, world};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch};
use arrow_select::concat::concat_batches;
use kubist::{Bound, EstimateOptions, PerCell, Query, Value as End};
use kubist_server::{Options, Server};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

fn by_id(bytes: &[u8]) -> BTreeMap<i64, RecordBatch> {
    let reader = arrow_ipc::reader::StreamReader::try_new(Cursor::new(bytes), None).unwrap();
    sorted(reader.map(Result::unwrap).collect())
}

fn sorted(batches: Vec<RecordBatch>) -> BTreeMap<i64, RecordBatch> {
    let mut found = BTreeMap::new();
    for batch in batches {
        for (row, id) in batch["id"].as_primitive::<Int64Type>().values().iter().enumerate() {
            assert!(found.insert(*id, batch.slice(row, 1)).is_none(), "{id} came twice");
        }
    }
    found
}

#[test]
fn answers_are_the_engines() {
    let world = world(20_000, Options::default());
    let snapshot = world.table.snapshot().unwrap();
    let mut random = StdRng::seed_from_u64(1);
    for round in 0..12 {
        let (low, width) = (random.random::<f64>() * 0.5, random.random::<f64>() * 0.5);
        let sample = 10f64.powf(-2.0 * random.random::<f64>());
        let asked = json!({
            "box": {"x": [low, low + width], "n": [2, null]}, "where": "y < 0.9 AND NOT wet", "sample": sample,
        });
        let bound = |column: &str, low, high| Bound { column: column.into(), low, high };
        let query = Query {
            bounds: vec![
                bound("x", Some(End::Float(low)), Some(End::Float(low + width))),
                bound("n", Some(End::Int(2)), None),
            ],
            filter: Some("y < 0.9 AND NOT wet".into()),
            sample: Some(sample),
            ..Query::default()
        };
        let expected = sorted(snapshot.query(&query).unwrap().map(Result::unwrap).collect());
        let reply = world.post("/v1/tables/run/query", &asked);
        assert_eq!(reply.status, 200, "{reply:?}");
        assert!(reply.whole);
        assert_eq!(reply.header("kubist-fraction").unwrap().parse::<f64>().unwrap(), sample);
        assert_eq!(by_id(&reply.body), expected, "round {round}");
        let count = world.post("/v1/tables/run/count", &asked).json();
        assert_eq!(count["count"], expected.len());
        let mut csv = asked.clone();
        csv["format"] = "csv".into();
        let text = String::from_utf8(world.post("/v1/tables/run/query", &csv).body).unwrap();
        assert_eq!(text.lines().count(), expected.len() + 1);
        assert!(text.starts_with("id,x,y,n,kind,wet,at\n"));
    }
    let limited = world.post("/v1/tables/run/query", &json!({"limit": 100, "columns": ["id"]}));
    let stream = snapshot.query(&Query { limit: Some(100), ..Query::default() }).unwrap();
    let ids: Vec<i64> =
        stream.flat_map(|batch| batch.unwrap()["id"].as_primitive::<Int64Type>().values().to_vec()).collect();
    let reader = arrow_ipc::reader::StreamReader::try_new(Cursor::new(&limited.body), None).unwrap();
    let batches: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
    let batch = concat_batches(&batches[0].schema(), &batches).unwrap();
    assert_eq!(batch["id"].as_primitive::<Int64Type>().values().to_vec(), ids, "in ascending order of priority");
    assert!(limited.header("kubist-fraction").unwrap().parse::<f64>().unwrap() < 0.02);
}

#[test]
fn cells_and_inclusion_are_the_engines() {
    let world = world(20_000, Options::default());
    let snapshot = world.table.snapshot().unwrap();
    let widths = vec![("x".to_string(), 0.25.into()), ("y".to_string(), 0.5.into())];
    let query = Query {
        per_cell: Some(PerCell { rows: 7, widths }),
        inclusion: Some("p".into()),
        filter: Some("NOT wet".into()),
        ..Query::default()
    };
    let expected = sorted(snapshot.query(&query).unwrap().map(Result::unwrap).collect());
    assert!(expected.len() > 40);
    let asked = json!({
        "per_cell": {"rows": 7, "widths": {"x": 0.25, "y": 0.5}}, "inclusion": "p", "where": "NOT wet",
    });
    let reply = world.post("/v1/tables/run/query", &asked);
    assert_eq!(by_id(&reply.body), expected);
    for wrong in [json!({"rows": 0, "widths": {"x": 1}}), json!({"rows": 1, "widths": {"wet": 1}}), json!({"rows": 1})]
    {
        assert_eq!(world.post("/v1/tables/run/query", &json!({"per_cell": wrong})).status, 400, "{wrong}");
    }
}

#[test]
fn trajectories_are_the_engines() {
    let world = world(20_000, Options::default());
    let snapshot = world.table.snapshot().unwrap();
    let through = Query { filter: Some("id < 3".into()), ..Query::default() };
    let query = Query { sample: Some(0.5), ..Query::default() };
    let stream = snapshot.trajectories(&through, "n", &query).unwrap();
    let expected = sorted(stream.map(Result::unwrap).collect());
    let asked = json!({"where": "id < 3", "by": "n", "sample": 0.5});
    let reply = world.post("/v1/tables/run/trajectories", &asked);
    assert_eq!((reply.status, reply.whole), (200, true), "{reply:?}");
    assert_eq!(by_id(&reply.body), expected);
    let unknown = world.post("/v1/tables/run/trajectories", &json!({"by": "nothing"}));
    assert_eq!((unknown.status, unknown.json()["error"]["code"].clone()), (400, "invalid".into()));
}

#[test]
fn a_download_is_a_file_by_an_address() {
    let world = world(3_000, Options::default());
    let path = "/v1/tables/run/query?ask=%7B%22format%22%3A%22parquet%22%2C%22box%22%3A%7B%22n%22%3A%5B0%2C7%5D%7D%7D";
    let reply = world.get(path);
    assert_eq!((reply.status, reply.whole), (200, true));
    assert_eq!(reply.header("content-disposition"), Some("attachment; filename=\"run.parquet\""));
    let bytes = bytes::Bytes::from(reply.body);
    let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReader::try_new(bytes, 1024).unwrap();
    let rows: usize = reader.map(|batch| batch.unwrap().num_rows()).sum();
    assert_eq!(rows, (0..3_000).filter(|id| id % 17 <= 7).count());
}

fn frames(bytes: &[u8], axes: usize, columns: usize) -> HashMap<usize, Vec<(Vec<f32>, Vec<f32>)>> {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let real = |at: usize| f32::from_bits(word(at));
    let (mut at, mut found, mut done) = (0, HashMap::new(), 0);
    while at < bytes.len() {
        let (cell, rows, last) = (word(at) as usize, word(at + 4) as usize, word(at + 8));
        at += 16;
        let records: &mut Vec<_> = found.entry(cell).or_default();
        for row in 0..rows {
            let position = (0..axes).map(|axis| real(at + 4 * (row * axes + axis))).collect();
            let values = (0..columns).map(|column| real(at + 4 * (rows * axes + column * rows + row))).collect();
            records.push((position, values));
        }
        at += 4 * rows * (axes + columns);
        if last == 1 {
            assert_eq!((cell, rows), (done, 0), "cells come in order");
            done += 1;
        }
    }
    found
}

#[test]
fn cells_that_fill_space_hold_each_record_once() {
    let world = world(20_000, Options::default());
    let snapshot = world.table.snapshot().unwrap();
    let mut positions = HashMap::new();
    for batch in snapshot.query(Query::default()).unwrap() {
        let batch = batch.unwrap();
        let x = batch["x"].as_primitive::<arrow_array::types::Float64Type>();
        let ids = batch["id"].as_primitive::<Int64Type>().values();
        let drawn = x.iter().zip(ids).filter_map(|(x, id)| Some((*id, x.filter(|x| x.is_finite())?)));
        positions.extend(drawn);
    }
    // Cells that meet at round numbers, where many rows are, and are open at the outer sides. The second axis
    // is a float32, an integer or a time, so cells also end between its values.
    for (axis, middle) in [("y", 0.375), ("y", 0.1), ("n", 7.5), ("n", 8.0), ("at", 1_700_000_049.5)] {
        let mut cells = Vec::new();
        for (low, high) in [(Value::Null, json!(0.25)), (json!(0.25), json!(0.5)), (json!(0.5), Value::Null)] {
            for (bottom, top) in [(Value::Null, json!(middle)), (json!(middle), Value::Null)] {
                for window in [[0.0, 0.3], [0.3, 1.0]] {
                    cells.push(
                        json!({"low": [low, bottom], "high": [high, top], "window": window, "origin": [0.25, 0]}),
                    );
                }
            }
        }
        let columns = json!([{"name": "id"}, {"name": "wet"}, {"name": "kind", "values": ["oil", "water"]},
            {"name": "id", "values": ["20000", "19999"]}]);
        let asked = json!({"position": ["x", axis], "columns": columns, "cells": cells});
        let reply = world.post("/v1/tables/run/points", &asked);
        assert_eq!((reply.status, reply.whole), (200, true), "{axis} {:?}", String::from_utf8_lossy(&reply.body));
        let mut seen = HashMap::new();
        for (cell, records) in frames(&reply.body, 2, 4) {
            let (low, high) = [(f64::MIN, 0.25), (0.25, 0.5), (0.5, f64::MAX)][cell / 4];
            for (position, values) in records {
                let id = values[0] as i64;
                assert!(seen.insert(id, cell).is_none(), "{id} came twice on {axis}");
                assert!(positions[&id] >= low && positions[&id] < high);
                assert_eq!(position[0], (positions[&id] - 0.25) as f32, "less the origin");
                assert_eq!(values[1], (id % 2 == 0) as u8 as f32);
                let kind = if id % 11 == 0 { f32::NAN } else { [1.0, 0.0, -1.0][(id % 3) as usize] };
                assert!(values[2] == kind || (values[2].is_nan() && kind.is_nan()), "{id}");
                assert_eq!(values[3], if id == 19_999 { 1.0 } else { -1.0 }, "a number by its index too");
            }
        }
        assert_eq!(seen.len(), positions.len(), "all that have a position, on {axis} at {middle}");
    }
}

#[test]
fn histograms_count_the_sample() {
    let world = world(20_000, Options::default());
    let answer = world.post(
        "/v1/tables/run/histogram",
        &json!({"columns": ["x", "n", "kind", "at", "wet"], "bins": 16, "limit": 5000}),
    );
    let answer = answer.json();
    assert_eq!(answer["rows"], 5000);
    let columns = answer["columns"].as_array().unwrap();
    let sum =
        |column: &Value| column["counts"].as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).sum::<u64>();
    for column in [&columns[0], &columns[1], &columns[3], &columns[4]] {
        assert_eq!(sum(column) + column["missing"].as_u64().unwrap(), 5000, "{column}");
    }
    assert_eq!((columns[1]["low"].as_f64(), columns[1]["high"].as_f64()), (Some(0.0), Some(16.0)));
    assert_eq!(columns[1]["distinct"].as_array().unwrap().len(), 17);
    assert_eq!(columns[2]["known"], 3);
    let all = world.post("/v1/tables/run/histogram", &json!({"limit": 5000, "bins": 16})).json();
    let names: Vec<&str> =
        all["columns"].as_array().unwrap().iter().map(|column| column["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["id", "x", "y", "n", "kind", "wet", "at"], "all that can be drawn");
    assert_eq!(all["columns"][1], columns[0]);
}

#[test]
fn estimates_are_the_engines() {
    let world = world(20_000, Options::default());
    let options = EstimateOptions {
        aggregates: vec!["mean(y)".into(), "count()".into()],
        group_by: vec!["kind".into()],
        query: Query { filter: Some("n < 9".into()), sample: Some(0.2), ..Query::default() },
        ..EstimateOptions::default()
    };
    let estimate = world.table.snapshot().unwrap().estimate(&options, &mut |_| {}).unwrap();
    let mut asked = json!({
        "aggregates": ["mean(y)", "count()"], "group_by": ["kind"], "where": "n < 9", "sample": 0.2,
    });
    let answer = world.post("/v1/tables/run/estimate", &asked).json();
    let figures = answer["figures"].as_array().unwrap();
    assert_eq!(figures.len(), estimate.figures.len());
    for (figure, expected) in figures.iter().zip(&estimate.figures) {
        assert_eq!(figure["aggregate"], expected.aggregate);
        assert_eq!(figure["value"].as_f64(), expected.value);
        assert_eq!(figure["low"].as_f64(), Some(expected.low));
        assert_eq!(figure["exact"], expected.exact);
    }
    assert_eq!(answer["fraction"].as_f64(), Some(estimate.fraction));
    assert!(figures.iter().any(|figure| figure["group"] == json!({"kind": null})));
    asked["format"] = "arrow".into();
    let reply = world.post("/v1/tables/run/estimate", &asked);
    let mut reader = arrow_ipc::reader::StreamReader::try_new(Cursor::new(&reply.body), None).unwrap();
    let batch = reader.next().unwrap().unwrap();
    let about: Value = serde_json::from_str(&batch.schema().metadata()["kubist"]).unwrap();
    assert_eq!(about["stopped"], "sample");
    let mut expected = estimate.to_batch().unwrap();
    expected.remove_column(expected.schema().index_of("rows_read").unwrap());
    for field in expected.schema().fields() {
        assert_eq!(
            batch[field.name().as_str()].to_data(),
            expected[field.name().as_str()].to_data(),
            "{}",
            field.name()
        );
    }
}

#[test]
fn figures_are_of_expressions_and_have_all_their_digits() {
    let world = world(2_000, Options::default());
    let far = (1i64 << 60) + 999;
    let of = |aggregate: &str, group_by: Value| {
        let asked = json!({"aggregates": [aggregate], "group_by": group_by, "sample": 1});
        world.post("/v1/tables/run/estimate", &asked).json()
    };
    let only = |aggregate: &str| of(aggregate, json!([]))["figures"][0]["value"].clone();
    assert_eq!(only(&format!("max(id * 0 + {far})")), far);
    assert_eq!(only(&format!("sum(id * 0 + {far})")), (2_000 * i128::from(far)).to_string());
    assert_eq!(only("max(at)"), "2023-11-14T22:14:59");
    assert_eq!(only("median(date_trunc('minute', at))"), "2023-11-14T22:14:00");
    assert_eq!(only("sum(wet * id) / sum(wet)"), 999.0);
    let groups = of("count()", json!(["bin(n, 5)", "wet AND n < 3"]));
    let figures = groups["figures"].as_array().unwrap();
    assert_eq!(figures.len(), 5);
    assert_eq!(figures[0]["group"], json!({"bin(n, 5)": "0", "wet AND n < 3": "false"}));
    let counted: i64 = figures.iter().map(|figure| figure["value"].as_i64().unwrap()).sum();
    assert_eq!(counted, 2_000);
    let refused = of("count()", json!(["CASE WHEN wet THEN 1 ELSE 'a' END"]));
    assert!(refused.to_string().contains("the number 1 in one branch and the text 'a' in another"), "{refused}");
    let asked = json!({"where": "id * 9223372036854775807 * 9223372036854775807 * id > 0"});
    let reply = world.post("/v1/tables/run/count", &asked);
    assert!(
        reply.status == 400 && reply.json().to_string().contains("does not fit an integer of 128 bits"),
        "{reply:?}"
    );
}

#[test]
fn estimates_narrow_as_the_engines_do() {
    let world = world(60_000, Options::default());
    let options = EstimateOptions {
        aggregates: vec!["mean(y)".into(), "sum(n)".into()],
        query: Query { filter: Some("n < 9".into()), ..Query::default() },
        error: Some(0.002),
        ..EstimateOptions::default()
    };
    let steps: Vec<_> = world.table.snapshot().unwrap().estimates(&options).unwrap().map(Result::unwrap).collect();
    assert!(steps.len() > 2, "{} steps", steps.len());
    let mut asked = json!({
        "aggregates": ["mean(y)", "sum(n)"], "where": "n < 9", "error": 0.002, "progressive": true,
    });
    let reply = world.post("/v1/tables/run/estimate", &asked);
    assert_eq!((reply.header("content-type"), reply.whole), (Some("application/x-ndjson"), true));
    let text = String::from_utf8(reply.body).unwrap();
    let answer: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    asked["format"] = "arrow".into();
    let reply = world.post("/v1/tables/run/estimate", &asked);
    let mut rest = Cursor::new(&reply.body[..]);
    assert_eq!(answer.len(), steps.len());
    // Sums over threads depend on their order.
    let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs();
    for (step, answer) in steps.iter().zip(&answer) {
        assert_eq!(answer["fraction"].as_f64(), Some(step.fraction));
        assert_eq!(answer["stopped"], serde_json::to_value(step.stopped).unwrap());
        let mut stream = arrow_ipc::reader::StreamReader::try_new(&mut rest, None).unwrap();
        let batch = stream.next().unwrap().unwrap();
        assert!(stream.next().is_none(), "one batch an estimate");
        let about: Value = serde_json::from_str(&batch.schema().metadata()["kubist"]).unwrap();
        assert_eq!(about["fraction"].as_f64(), Some(step.fraction));
        let ends =
            ["low", "high"].map(|end| batch[end].as_primitive::<arrow_array::types::Float64Type>().values().to_vec());
        for (index, expected) in step.figures.iter().enumerate() {
            let figure = &answer["figures"][index];
            assert!(close(figure["value"].as_f64().unwrap(), expected.value.unwrap()));
            assert!(close(figure["low"].as_f64().unwrap(), expected.low));
            assert!(close(ends[0][index], expected.low) && close(ends[1][index], expected.high));
        }
    }
    assert_eq!(rest.position() as usize, reply.body.len(), "nothing more came");
    let wrong = world.post("/v1/tables/run/estimate", &json!({"aggregates": ["mean("], "progressive": true}));
    assert_eq!(wrong.status, 400);
}

#[test]
fn a_version_is_one_moment() {
    let world = world(1_000, Options::default());
    let first = world.get("/v1/tables/run").json();
    let version = first["version"].as_str().unwrap().to_string();
    assert_eq!(
        world.get(&format!("/v1/tables/run/changes?version={version}&patience=0")).json()["version"],
        first["version"]
    );
    let (address, path) = (world.server.address(), format!("/v1/tables/run/changes?version={version}&patience=30"));
    let waiting = std::thread::spawn(move || {
        send(address, format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").as_bytes())
    });
    append(&world.table, 1_000..1_500);
    let changed = waiting.join().unwrap().json();
    assert_eq!(changed["rows"], 1_500);
    assert_ne!(changed["version"], first["version"]);
    let count = |version: &str| world.post("/v1/tables/run/count", &json!({"version": version}));
    assert_eq!(count(&version).json()["count"], 1_000, "the moment before stays");
    let now = world.get("/v1/tables/run").json()["version"].clone();
    world.table.optimize(&kubist::OptimizeOptions::default(), &mut |_, _| {}).unwrap();
    assert_eq!(world.get("/v1/tables/run").json()["version"], now);
    // A snapshot whose files were cleaned is refused, whether or not a client used it before.
    let optimize = |begin: i64| {
        append(&world.table, begin..begin + 500);
        world.table.optimize(&kubist::OptimizeOptions::default(), &mut |_, _| {}).unwrap();
    };
    (0..5).for_each(|round| optimize(2_000 + round * 500));
    world.table.clean(Duration::ZERO).unwrap();
    world.table.clean(Duration::ZERO).unwrap();
    let whole = json!({"version": version, "where": "id >= 0"});
    let gone = world.post("/v1/tables/run/count", &whole);
    assert_eq!((gone.status, gone.json()["error"]["code"].clone()), (410, "gone".into()), "{gone:?}");
}

#[test]
fn a_version_stays_while_a_thousand_commits_pass() {
    let world = world(300, Options::default());
    let about = world.get("/v1/tables/run").json();
    let asked = json!({"version": about["version"], "where": "id >= 0", "columns": ["id"], "format": "csv"});
    let rows = || {
        let reply = world.post("/v1/tables/run/query", &asked);
        assert_eq!((reply.status, reply.whole), (200, true), "{:?}", String::from_utf8_lossy(&reply.body));
        let mut lines: Vec<String> = String::from_utf8(reply.body).unwrap().lines().map(String::from).collect();
        lines.sort();
        lines
    };
    let before = rows();
    assert_eq!(before.len(), 301);
    let mut writer = world.table.writer(&kubist::WriterOptions::default()).unwrap();
    for commit in 1..=1_000 {
        writer.append(&common::rows(1_000 + commit..1_001 + commit)).unwrap();
        writer.commit().unwrap();
        // Other clients use the newest snapshot; a rarely used one is in no cache.
        if commit % 5 == 0 {
            world.get("/v1/tables/run");
        }
        if commit % 100 == 0 {
            assert_eq!(rows(), before, "after {commit} commits");
        }
    }
    assert_eq!(world.get("/v1/tables/run").json()["rows"], 1_300);
    let location = world.table.location().to_string();
    let other = Server::start(&Options { tables: vec![location], ..Options::default() }).unwrap();
    let version = about["version"].as_str().unwrap();
    let request =
        format!("GET /v1/tables/run?version={version} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let found = send(other.address(), request.as_bytes()).json();
    assert_eq!((&found["rows"], &found["version"]), (&about["rows"], &about["version"]));
    let token: kubist::SnapshotToken = version.parse().unwrap();
    assert_eq!(world.table.at(&token).unwrap().rows().unwrap(), 300);
}

#[test]
fn a_table_that_is_made_anew_is_served() {
    let world = world(100, Options::default());
    let rows = |world: &common::World| world.get("/v1/tables/run").json()["rows"].clone();
    let version = world.get("/v1/tables/run").json()["version"].as_str().unwrap().to_string();
    assert_eq!(rows(&world), 100);
    let (at, schema) = (world.table.location().to_string(), world.table.schema().unwrap());
    kubist::Table::drop_at(&at, false).unwrap();
    assert_eq!(world.get("/v1/tables/run").status, 404);
    let dimensions = vec![kubist::Dimension { column: "x".into(), domain: kubist::Domain::Learned }];
    let options = kubist::TableOptions { dimensions, ..Default::default() };
    let table = kubist::Table::create(&at, schema, &options).unwrap();
    assert_eq!(rows(&world), 0);
    append(&table, 0..100);
    assert_eq!(rows(&world), 100);
    let reply = world.post("/v1/tables/run/count", &json!({"version": version}));
    assert_eq!((reply.status, reply.json()["error"]["code"].clone()), (410, "replaced".into()), "{reply:?}");
}

#[test]
fn made_up_versions_are_refused() {
    let world = world(100, Options::default());
    let token = world.table.snapshot().unwrap().token();
    let status = |version: String| world.post("/v1/tables/run/count", &json!({"version": version})).status;
    assert_eq!(status(token.to_string()), 200);
    assert_eq!(status("0-0".into()), 400);
    assert_eq!(status(String::new()), 400);
    let mut elsewhere = token.clone();
    elsewhere.positions.push(("../../../../etc/passwd".into(), 1));
    assert_eq!(status(elsewhere.to_string()), 410);
    let mut later = token.clone();
    later.positions[0].1 += 1;
    assert_eq!(status(later.to_string()), 410);
    let mut altered = token.clone();
    altered.alterations += 1;
    assert_eq!(status(altered.to_string()), 410);
    let other = kubist::SnapshotToken { table: "another".into(), ..token };
    let reply = world.post("/v1/tables/run/count", &json!({"version": other.to_string()}));
    assert_eq!((reply.status, reply.json()["error"]["code"].clone()), (410, "replaced".into()), "{reply:?}");
}

#[test]
fn the_page_is_carried_along() {
    let world = world(10, Options::default());
    for (path, kind) in [("/", "text/html"), ("/app.js", "text/javascript"), ("/app.css", "text/css")] {
        let reply = world.get(path);
        assert_eq!((reply.status, reply.whole), (200, true), "{path}");
        assert!(reply.header("content-type").unwrap().starts_with(kind));
        assert!(reply.header("content-security-policy").unwrap().contains("default-src 'self'"));
        assert!(reply.body.len() > 200, "{path}");
    }
}
