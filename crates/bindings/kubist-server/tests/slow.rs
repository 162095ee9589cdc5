//! Clients that are silent, slow or disconnect do not keep others out. Server timeouts are longer than these
//! tests, so only closing such a client can admit the next one.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::common::{World, connect, world};
use kubist_server::{Limits, Options};
use serde_json::json;

const LONG: Duration = Duration::from_secs(600);
const CROWD: usize = 300;

fn limits() -> Limits {
    Limits { stall: LONG, head: LONG, longest: LONG, ..Limits::default() }
}

fn post(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn crowd(world: &World, sent: &str) -> Vec<TcpStream> {
    let one = |_| {
        let mut socket = connect(world.server.address());
        let _ = socket.write_all(sent.as_bytes());
        socket
    };
    (0..CROWD).map(one).collect()
}

#[test]
fn half_open_connections_keep_nobody_out() {
    let world = world(1_000, Options { limits: limits(), ..Options::default() });
    let whole = "GET /v1 HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let half_a_body = post("/v1/tables/run/count", "{}").replace("length: 2", "length: 200");
    for sent in ["", "GET /v1 HTTP/1.1\r\nhost: loc", &half_a_body, whole] {
        let version = world.get("/v1/tables/run").json()["version"].as_str().unwrap().to_string();
        let mut waiting = connect(world.server.address());
        let changes =
            format!("GET /v1/tables/run/changes?version={version}&patience=3 HTTP/1.1\r\nhost: localhost\r\n\r\n");
        waiting.write_all(changes.as_bytes()).unwrap();
        let crowd = crowd(&world, sent);
        for _ in 0..3 {
            assert_eq!(world.post("/v1/tables/run/count", &json!({})).json()["count"], 1_000, "beside {sent:?}");
        }
        let mut answer = [0; 15];
        waiting.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 OK");
        drop(crowd);
    }
}

#[test]
fn who_reads_slowly_gives_way_to_who_waits() {
    // One connection more than slots; slow readers occupy all slots.
    let limits = Limits { concurrent_requests: 2, request_patience: LONG, connections: 3, ..limits() };
    let world = world(400_000, Options { limits, ..Options::default() });
    let ask = post("/v1/tables/run/query", r#"{"format": "csv"}"#);
    for _ in 0..2 {
        let slow: Vec<TcpStream> = (0..3)
            .map(|_| {
                let mut socket = connect(world.server.address());
                socket.write_all(ask.as_bytes()).unwrap();
                socket
            })
            .collect();
        assert_eq!(world.post("/v1/tables/run/count", &json!({})).json()["count"], 400_000);
        drop(slow);
    }
}

#[test]
fn who_hangs_up_stops_the_work_of_any_question() {
    let limits = Limits { concurrent_requests: 1, request_patience: Duration::from_secs(50), ..limits() };
    let world = world(300_000, Options { limits, ..Options::default() });
    // Each takes far longer than its client stays.
    let cells = r#"{"per_cell": {"rows": 20000, "widths": {"x": 0.5}}, "format": "csv"}"#;
    let wide =
        r#"{"aggregates": ["mean(x)", "p95(y)", "count_distinct(id)"], "group_by": ["n", "kind"], "error": 1e-9}"#;
    let requests = [
        ("query", r#"{"format": "csv"}"#),
        ("query", r#"{"limit": 290000, "format": "parquet"}"#),
        ("query", cells),
        ("trajectories", r#"{"by": "id", "box": {"x": [0, 0.9]}}"#),
        ("estimate", wide),
        ("count", r#"{"where": "x * y < 0.5 AND y * y < 0.9"}"#),
        ("histogram", r#"{"limit": 300000, "bins": 4096}"#),
    ];
    for (path, body) in requests {
        let ask = post(&format!("/v1/tables/run/{path}"), body);
        // Also for a client that disconnects with unread requests.
        for sent in [ask.clone(), format!("{ask}{ask}")] {
            let mut leaving = connect(world.server.address());
            leaving.write_all(sent.as_bytes()).unwrap();
            drop(leaving);
            assert_eq!(world.post("/v1/tables/run/count", &json!({})).status, 200, "after {path}");
        }
    }
}

#[test]
fn absurd_numbers_are_refused() {
    let world = world(2_000, Options { limits: limits(), ..Options::default() });
    let cells = |width: f64| json!({"per_cell": {"rows": 1, "widths": {"x": width}}});
    for width in [1e-20, 1e-300, 5e-324, 0.0, -1.0] {
        let reply = world.post("/v1/tables/run/query", &cells(width));
        assert_eq!(reply.status, 400, "{width}");
        assert!(reply.json()["error"]["message"].as_str().unwrap().contains("per_cell"), "{width}");
    }
    assert_eq!(world.post("/v1/tables/run/query", &cells(1e300)).status, 200);
    for (path, body) in [
        ("query", json!({"limit": u64::MAX})),
        ("query", json!({"per_cell": {"rows": 0, "widths": {"x": 1}}})),
        ("query", json!({"window": [0.5, 0.5]})),
        ("query", json!({"sample": 0})),
        ("histogram", json!({"bins": 1_000_000_000_000_000_000u64})),
        ("histogram", json!({"limit": u64::MAX})),
        ("estimate", json!({"aggregates": ["histogram(x, 1e18)"]})),
        ("estimate", json!({"aggregates": ["mean(x)"], "error": 0})),
        ("estimate", json!({"aggregates": ["mean(x)"], "within": 1e300})),
        ("count", json!({"steps": [5, 4]})),
    ] {
        assert_eq!(world.post(&format!("/v1/tables/run/{path}"), &body).status, 400, "{path} {body}");
    }
}
