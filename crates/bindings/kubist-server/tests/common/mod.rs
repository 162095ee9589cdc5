//! A table, a server, and a minimal HTTP client.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, BooleanArray, Float32Array, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use kubist::{Dimension, Domain, Table, TableOptions, WriterOptions};
use kubist_server::{Limits, Options, Server};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;

pub fn schema() -> Arc<Schema> {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("x", DataType::Float64, true),
        Field::new("y", DataType::Float32, false),
        Field::new("n", DataType::Int64, false),
        Field::new("kind", DataType::Utf8, true),
        Field::new("wet", DataType::Boolean, false),
        Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false),
    ]))
}

pub fn rows(ids: std::ops::Range<i64>) -> RecordBatch {
    let mut random = StdRng::seed_from_u64(ids.start as u64);
    let count = (ids.end - ids.start) as usize;
    let x: Vec<Option<f64>> = (0..count)
        .map(|row| match row % 97 {
            0 => None,
            1 => Some(f64::NAN),
            2..20 => Some((row % 9) as f64 / 8.0),
            _ => Some(random.random::<f64>().powi(3)),
        })
        .collect();
    let y = (0..count).map(|row| if row % 5 == 0 { (row % 9) as f32 / 8.0 } else { random.random::<f32>() });
    let kinds = ["water", "oil", "air"];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(ids.clone())),
        Arc::new(Float64Array::from(x)),
        Arc::new(Float32Array::from_iter_values(y)),
        Arc::new(Int64Array::from_iter_values(ids.clone().map(|id| id % 17))),
        Arc::new(StringArray::from_iter(ids.clone().map(|id| (id % 11 != 0).then(|| kinds[(id % 3) as usize])))),
        Arc::new(BooleanArray::from_iter(ids.clone().map(|id| Some(id % 2 == 0)))),
        Arc::new(arrow_array::TimestampSecondArray::from_iter_values(ids.map(|id| 1_700_000_000 + id % 100))),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

pub struct World {
    #[expect(dead_code, reason = "the table lives as long")]
    pub directory: tempfile::TempDir,
    pub table: Table,
    pub server: Server,
}

pub fn append(table: &Table, ids: std::ops::Range<i64>) {
    let mut writer = table.writer(&WriterOptions::default()).unwrap();
    writer.append(&rows(ids)).unwrap();
    writer.commit().unwrap();
}

pub fn limits() -> Limits {
    Limits { stall: Duration::from_secs(2), ..Limits::default() }
}

pub fn world(rows: i64, options: Options) -> World {
    let directory = tempfile::tempdir().unwrap();
    let location = directory.path().join("run.kubist").to_str().unwrap().to_string();
    let dimension = |name: &str| Dimension { column: name.into(), domain: Domain::Learned };
    let table_options = TableOptions {
        dimensions: vec![dimension("x"), dimension("y"), dimension("n")],
        identity: vec!["id".into()],
        capacity: Some(256),
        ..TableOptions::default()
    };
    let table = Table::create(&location, schema(), &table_options).unwrap();
    append(&table, 0..rows);
    let server = Server::start(&Options { tables: vec![location], ..options }).unwrap();
    World { directory, table, server }
}

#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub whole: bool,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl World {
    pub fn get(&self, path: &str) -> Reply {
        self.send(&format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"))
    }

    pub fn post(&self, path: &str, body: &Value) -> Reply {
        self.post_text(path, &body.to_string())
    }

    pub fn post_text(&self, path: &str, body: &str) -> Reply {
        self.send(&format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        ))
    }

    pub fn send(&self, request: &str) -> Reply {
        send(self.server.address(), request.as_bytes())
    }
}

pub fn connect(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    socket
}

pub fn send(address: SocketAddr, request: &[u8]) -> Reply {
    let mut socket = connect(address);
    // The server may respond and close before everything is sent.
    let _ = socket.write_all(request);
    let mut answer = Vec::new();
    let ended = socket.read_to_end(&mut answer).is_ok();
    reply(&answer, ended)
}

fn reply(answer: &[u8], ended: bool) -> Reply {
    let end = answer.windows(4).position(|part| part == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("no head: {:?}", String::from_utf8_lossy(answer)));
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers: Vec<(String, String)> = lines
        .map(|line| line.split_once(':').unwrap())
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_string()))
        .collect();
    let of = |name: &str| headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    let rest = &answer[end + 4..];
    let (body, whole) = match of("transfer-encoding").as_deref() {
        Some("chunked") => unchunked(rest),
        _ => {
            let length = of("content-length").map_or(rest.len(), |length| length.parse().unwrap());
            (rest.to_vec(), rest.len() == length)
        }
    };
    Reply { status, headers, body, whole: whole && ended }
}

fn unchunked(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        let Some(end) = rest.windows(2).position(|part| part == b"\r\n") else { return (body, false) };
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap().trim(), 16).unwrap();
        rest = &rest[end + 2..];
        if length == 0 {
            return (body, true);
        }
        if rest.len() < length + 2 {
            body.extend_from_slice(rest);
            return (body, false);
        }
        body.extend_from_slice(&rest[..length]);
        rest = &rest[length + 2..];
    }
}

/// A schema with its reference resolved; its own fields take precedence.
pub fn resolved(description: &Value, schema: &Value) -> Value {
    let Some(target) = schema["$ref"].as_str() else { return schema.clone() };
    let target = description.pointer(target.trim_start_matches('#')).unwrap_or_else(|| panic!("{target} is not there"));
    let mut whole = resolved(description, target);
    for (key, said) in schema.as_object().into_iter().flatten().filter(|(key, _)| *key != "$ref") {
        whole[key] = said.clone();
    }
    whole
}
