//! Concurrent clients that pan over a large table: the time to their first points, and the server's load.
//! `make bench-view`; ROWS, CLIENTS and SECONDS set the size, TABLE names an existing table with three
//! dimensions.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, Float32Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use kubist::{Dimension, Domain, Table, TableOptions, Value, WriterOptions};
use kubist_server::{Options, Server};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::json;

/// Cells and points per cell are as in the page's requests.
const CELLS: usize = 12;
const CELL_ROWS: f64 = 8192.0;
const CELL: f64 = 1.0 / 16.0;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn main() {
    let (rows, clients) = (number("ROWS", 100_000_000), number("CLIENTS", 20));
    let seconds = number("SECONDS", 60);
    let directory = tempfile::tempdir_in(std::env::var("DATA").unwrap_or(".".into())).expect("a folder for the table");
    let location = std::env::var("TABLE").unwrap_or_else(|_| {
        let location = directory.path().join("load.kubist").to_str().expect("a plain path").to_string();
        let begin = Instant::now();
        fill(&location, rows);
        println!("{rows} rows written in {:.1} s", begin.elapsed().as_secs_f64());
        location
    });
    let ground = Arc::new(Ground::of(&location));
    let server = Server::start(&Options { tables: vec![location], ..Options::default() }).expect("a server");
    let over = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..clients)
        .map(|client| {
            let (over, address, ground) = (over.clone(), server.address(), ground.clone());
            std::thread::spawn(move || pan(address, client, &ground, &over))
        })
        .collect();
    std::thread::sleep(Duration::from_secs(seconds));
    over.store(true, Ordering::Relaxed);
    let (mut waits, mut bytes, mut failures) = (Vec::new(), 0, 0);
    for thread in threads {
        let done = thread.join().expect("a client");
        waits.extend(done.waits);
        bytes += done.bytes;
        failures += done.failures;
    }
    waits.sort_unstable();
    let at = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize].as_secs_f64() * 1000.0;
    println!("{clients} clients for {seconds} s: {} views, {failures} failures, {} MB", waits.len(), bytes / 1_000_000);
    println!("first points after {:.0} ms (median), {:.0} ms (p95), {:.0} ms (worst)", at(0.5), at(0.95), at(1.0));
    println!("at most {} MB of memory", peak_memory());
}

struct Ground {
    name: String,
    rows: u64,
    axes: Vec<String>,
    low: Vec<f64>,
    span: Vec<f64>,
    color: String,
}

impl Ground {
    fn of(location: &str) -> Ground {
        let snapshot = Table::open(location).and_then(|table| table.snapshot()).expect("a table");
        let info = snapshot.info().expect("a table");
        let axes: Vec<String> =
            info.about.dimensions.iter().take(3).map(|dimension| dimension.column.clone()).collect();
        assert_eq!(axes.len(), 3, "three dimensions are needed");
        let low: Vec<f64> = info.about.dimensions.iter().map(|dimension| dimension.low.unwrap_or(0.0)).collect();
        let span = info
            .about
            .dimensions
            .iter()
            .zip(&low)
            .map(|(dimension, low)| dimension.high.unwrap_or(1.0) - low)
            .collect();
        let other =
            info.about.columns.iter().rev().find(|column| !axes.contains(&column.name)).expect("a fourth column");
        let color = other.name.clone();
        Ground { name: kubist_server::name_of(location), rows: info.about.rows, axes, low, span, color }
    }
}

fn fill(location: &str, rows: u64) {
    let names = ["x", "y", "z", "speed"];
    let mut fields = vec![Field::new("id", DataType::Int64, false)];
    fields.extend(names.map(|name| Field::new(name, DataType::Float32, false)));
    let schema = Arc::new(Schema::new(fields));
    let ends = || Domain::Linear(Value::Float(0.0), Value::Float(1.0));
    let dimension = |name: &&str| Dimension { column: name.to_string(), domain: ends() };
    let options = TableOptions {
        dimensions: names[..3].iter().map(dimension).collect(),
        identity: vec!["id".into()],
        ..TableOptions::default()
    };
    let table = Table::create(location, schema.clone(), &options).expect("a table");
    let mut writer = table.writer(&WriterOptions::default()).expect("a writer");
    let mut random = SmallRng::seed_from_u64(1);
    let centers: Vec<[f32; 3]> = (0..200).map(|_| random.random()).collect();
    let batch = 1_000_000.min(rows);
    for first in (0..rows).step_by(batch as usize) {
        let count = batch.min(rows - first) as usize;
        let mut columns = vec![Vec::with_capacity(count); 4];
        for row in 0..count {
            let center = centers[random.random_range(0..centers.len())];
            for axis in 0..3 {
                let value: f32 = random.random();
                columns[axis].push(if row % 2 == 0 {
                    value
                } else {
                    (center[axis] + 0.02 * (value - 0.5)).clamp(0.0, 1.0)
                });
            }
            columns[3].push(random.random());
        }
        let ids = Int64Array::from_iter_values(first as i64..(first as i64 + count as i64));
        let mut arrays: Vec<ArrayRef> = vec![Arc::new(ids)];
        arrays.extend(columns.into_iter().map(|column| Arc::new(Float32Array::from(column)) as ArrayRef));
        writer.append(&RecordBatch::try_new(schema.clone(), arrays).expect("a batch")).expect("room");
        if first % 20_000_000 == 0 {
            writer.commit().expect("room");
        }
    }
    writer.commit().expect("room");
}

struct Done {
    waits: Vec<Duration>,
    bytes: u64,
    failures: u64,
}

/// Moves through space and requests the visible cells at each position; sometimes disconnects early.
fn pan(address: SocketAddr, client: u64, ground: &Ground, over: &AtomicBool) -> Done {
    let mut random = SmallRng::seed_from_u64(100 + client);
    let mut position: [f64; 3] = random.random();
    let mut done = Done { waits: Vec::new(), bytes: 0, failures: 0 };
    let share = (CELL_ROWS / (ground.rows as f64 * 0.5 * CELL.powi(3))).min(1.0);
    while !over.load(Ordering::Relaxed) {
        for axis in &mut position {
            *axis = (*axis + 0.1 * (random.random::<f64>() - 0.5)).clamp(0.0, 1.0 - CELL);
        }
        let cells: Vec<_> = (0..CELLS)
            .map(|cell| {
                let offset = [cell % 3, cell / 3 % 2, cell / 6];
                let at = |axis: usize, share: f64| ground.low[axis] + ground.span[axis] * share;
                let end = |side: f64| -> Vec<f64> {
                    (0..3).map(|axis| at(axis, position[axis] + (offset[axis] as f64 + side) * CELL)).collect()
                };
                let (low, high) = (end(0.0), end(1.0));
                json!({"low": low, "high": high, "origin": low, "window": [0.0, share]})
            })
            .collect();
        let asked = json!({"position": ground.axes, "columns": [{"name": ground.color}], "cells": cells}).to_string();
        let leaves = random.random_bool(0.2);
        match ask(address, &ground.name, &asked, leaves) {
            Some((wait, bytes)) => {
                done.waits.push(wait);
                done.bytes += bytes;
            }
            None => done.failures += 1,
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    done
}

/// Time to the first points, and all bytes; `None` if the request was refused or cut off.
fn ask(address: SocketAddr, table: &str, body: &str, leaves: bool) -> Option<(Duration, u64)> {
    let begin = Instant::now();
    let mut socket = TcpStream::connect(address).ok()?;
    let head = format!(
        "POST /v1/tables/{table}/points HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all(format!("{head}{body}").as_bytes()).ok()?;
    let mut buffer = vec![0; 1 << 16];
    let mut bytes = socket.read(&mut buffer).ok()? as u64;
    if !buffer.starts_with(b"HTTP/1.1 200") {
        return None;
    }
    let wait = begin.elapsed();
    let mut last = [0; 5];
    if leaves {
        return Some((wait, bytes));
    }
    loop {
        let read = socket.read(&mut buffer).ok()?;
        if read == 0 {
            return (&last == b"0\r\n\r\n").then_some((wait, bytes));
        }
        if read >= 5 {
            last.copy_from_slice(&buffer[read - 5..read]);
        } else {
            last.rotate_left(read);
            last[5 - read..].copy_from_slice(&buffer[..read]);
        }
        bytes += read as u64;
    }
}

/// Peak memory of clients and server together, in MB (10^6 bytes).
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024 / 1_000_000
}
