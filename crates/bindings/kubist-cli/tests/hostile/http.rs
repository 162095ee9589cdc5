//! Clients of `kubist view` that send wrong, absurd, slow or incomplete requests, while the server survives and
//! responds to correct ones.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::command::{self, sound_rows};
use super::{Attack, FINE, Outcome, Verdict, set};

const PATIENCE: Duration = Duration::from_secs(10);

struct Http {
    folder: PathBuf,
    server: Child,
    address: String,
    rows: u64,
    half_open: Vec<TcpStream>,
}

impl Drop for Http {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

pub fn prepare(folder: &Path) -> Box<dyn Attack> {
    let table = folder.join("table");
    set::copied(&set::newest().join("outlook/table"), &table);
    let rows = sound_rows(&table).expect("a sound table");
    let (server, address) = serve(folder);
    Box::new(Http { folder: folder.to_path_buf(), server, address, rows, half_open: Vec::new() })
}

fn serve(folder: &Path) -> (Child, String) {
    let server = command::start(folder, &["view", "table"]);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(30) {
        let output = fs::read_to_string(folder.join("stdout")).unwrap_or_default();
        let address =
            output.lines().find_map(|line| line.split_once("http://").map(|(_, rest)| rest.trim_end_matches('/')));
        if let Some(address) = address.map(|address| address.split(['/', '?', ' ']).next().unwrap_or(address)) {
            return (server, address.to_string());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("the server does not say where it is");
}

fn request(address: &str, path: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST /v1/tables/table/{path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

fn sent(address: &str, bytes: &[u8], patience: Duration) -> std::io::Result<Vec<u8>> {
    let mut connection = TcpStream::connect(address)?;
    connection.set_read_timeout(Some(patience))?;
    connection.set_write_timeout(Some(patience))?;
    // The server may close before everything is sent.
    let _ = connection.write_all(bytes);
    let mut answer = Vec::new();
    match connection.take(1 << 20).read_to_end(&mut answer) {
        Err(error) if answer.is_empty() => Err(error),
        _ => Ok(answer),
    }
}

fn absurd(random: &mut StdRng) -> (&'static str, String) {
    let numbers =
        ["0", "-1", "1e-300", "1e308", "1e999", "18446744073709551615", "NaN", "null", "\"\"", "[]", "{}", "5e-324"];
    let mut of = || *numbers.choose(random).expect("numbers");
    let bodies = [
        ("query", format!(r#"{{"sample": {}, "limit": {}}}"#, of(), of())),
        ("query", format!(r#"{{"window": [{}, {}]}}"#, of(), of())),
        ("query", format!(r#"{{"per_cell": {{"rows": {}, "widths": {{"x": {}, "y": {}}}}}}}"#, of(), of(), of())),
        ("query", format!(r#"{{"box": {{"x": [{}, {}], "nothing": {}}}}}"#, of(), of(), of())),
        ("query", format!(r#"{{"per_cell": {{"rows": 20000, "widths": {{"x": 1e9}}}}, "limit": {}}}"#, of())),
        ("trajectories", format!(r#"{{"by": "name", "sample": {}, "limit": {}}}"#, of(), of())),
        ("histogram", format!(r#"{{"columns": ["x", "y"], "bins": {}, "limit": {}}}"#, of(), of())),
        (
            "estimate",
            format!(
                r#"{{"aggregates": ["mean(x)", "histogram(y, {})"], "error": {}, "within": {}}}"#,
                of(),
                of(),
                of()
            ),
        ),
        (
            "points",
            format!(
                r#"{{"position": ["x", "y"], "columns": [], "cells": [{{"low": [{}, {}], "high": [{}, 1], "window": [0, {}], "origin": [0, {}]}}]}}"#,
                of(),
                of(),
                of(),
                of(),
                of()
            ),
        ),
        ("count", format!(r#"{{"where": "{}"}}"#, "(".repeat(30_000))),
        ("count", format!(r#"{{"where": "pid > 1{}"}}"#, " IN (pid > 2, TRUE)".repeat(40))),
        ("count", format!("{}{}", "[".repeat(100_000), "]".repeat(100_000))),
        ("count", format!(r#"{{"version": {}, "steps": [{}, {}]}}"#, of(), of(), of())),
    ];
    bodies.choose(random).expect("bodies").clone()
}

impl Attack for Http {
    fn play(&mut self, random: &mut StdRng) -> Verdict {
        let address = self.address.clone();
        let whole = request(&address, "count", r#"{"where": "x > 10"}"#);
        let kind = random.random_range(0..9);
        let short = Duration::from_millis(300);
        match kind {
            0 => {
                let mut bytes = whole.into_bytes();
                for _ in 0..random.random_range(1..20) {
                    let at = random.random_range(0..bytes.len());
                    bytes[at] = random.random();
                }
                let _ = sent(&address, &bytes, short);
            }
            1 => {
                let bytes: Vec<u8> = (0..random.random_range(1..5000)).map(|_| random.random()).collect();
                let _ = sent(&address, &bytes, short);
            }
            2 => {
                let giant = "a".repeat(random.random_range(1000..2_000_000));
                let _ = sent(
                    &address,
                    format!("GET /v1 HTTP/1.1\r\nhost: {address}\r\nx: {giant}\r\n\r\n").as_bytes(),
                    short,
                );
            }
            3 => {
                let many: String = (0..random.random_range(10..20_000)).map(|n| format!("h{n}: {n}\r\n")).collect();
                let _ = sent(&address, format!("GET /v1 HTTP/1.1\r\nhost: {address}\r\n{many}\r\n").as_bytes(), short);
            }
            4 => {
                let lies = [
                    "content-length: 99999999999999999999",
                    "content-length: -1",
                    "content-length: 5\r\ncontent-length: 6",
                    "transfer-encoding: chunked",
                ];
                let lie = lies.choose(random).expect("lies");
                let _ = sent(&address, whole.replace("content-length:", &format!("{lie}\r\nx:")).as_bytes(), short);
            }
            5 | 6 => {
                let (path, body) = absurd(random);
                // Abandons slow requests, which the server must notice.
                match sent(&address, request(&address, path, &body).as_bytes(), PATIENCE) {
                    Ok(answer) if answer.starts_with(b"HTTP/1.1 5") && !answer.starts_with(b"HTTP/1.1 503") => {
                        return (
                            Outcome::Wrong,
                            format!(
                                "{path} {}: {}",
                                &body[..body.len().min(200)],
                                String::from_utf8_lossy(&answer[..answer.len().min(200)])
                            ),
                        );
                    }
                    _ => {}
                }
            }
            7 => {
                let some = if random.random_ratio(1, 4) { 300 } else { 5 };
                for _ in 0..some {
                    if let Ok(mut connection) = TcpStream::connect(&address) {
                        let cut = random.random_range(0..whole.len());
                        let _ = connection.write_all(&whole.as_bytes()[..cut]);
                        self.half_open.push(connection);
                    }
                }
                let more = self.half_open.len().saturating_sub(600);
                self.half_open.drain(..more);
            }
            _ => {
                let path = [
                    "/v1/tables/../../etc/passwd",
                    "/v1/tables/%00",
                    "/%2e%2e/%2e%2e",
                    "/v1/tables/table/changes?patience=1e99&version=x",
                    "//",
                    "/v1/tables/table/query?ask=%7B",
                ]
                .choose(random)
                .expect("paths");
                let _ = sent(
                    &address,
                    format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").as_bytes(),
                    short,
                );
            }
        }
        self.still_answers(kind)
    }
}

impl Http {
    fn still_answers(&mut self, after: u32) -> Verdict {
        let told = |what: &str| format!("{what} after an attack of kind {after}");
        let shown = |answer: &[u8]| String::from_utf8_lossy(&answer[..answer.len().min(300)]).into_owned();
        let verdict = match sent(&self.address, request(&self.address, "count", "{}").as_bytes(), PATIENCE) {
            Ok(answer) if shown(&answer).contains(&format!("\"count\":{}", self.rows)) => return FINE,
            Ok(answer) if answer.starts_with(b"HTTP/1.1 200") => (Outcome::Wrong, told(&shown(&answer))),
            Ok(answer) => (Outcome::Hang, told(&format!("a good question is refused: {}", shown(&answer)))),
            Err(error) => match self.server.try_wait() {
                Ok(None) => (Outcome::Hang, told(&format!("a good question is not answered: {error}"))),
                ended => (Outcome::Abort, told(&format!("the server ended: {ended:?}"))),
            },
        };
        // A new server, so that each failure counts once.
        self.half_open.clear();
        let _ = self.server.kill();
        let _ = self.server.wait();
        (self.server, self.address) = serve(&self.folder);
        verdict
    }
}
