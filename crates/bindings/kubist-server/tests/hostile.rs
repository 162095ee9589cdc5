//! Clients that send wrong, too many or too slow requests, or have no access.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use crate::common::{connect, limits, resolved, send, world};
use kubist_server::{DESCRIPTION, Limits, Options, Server};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Map, Value, json};

fn anything(random: &mut StdRng, depth: u32) -> Value {
    let texts = ["", "x", "y", "id", "kind", "x < 1", "\u{0}", "'", "DROP", "x OR", "../../etc/passwd", "9e999", "🦀"];
    match random.random_range(0..if depth == 0 { 7 } else { 9 }) {
        0 => Value::Null,
        1 => json!(random.random::<bool>()),
        2 => json!(random.random_range(-3i64..20)),
        3 => json!(random.random::<i64>()),
        4 => json!(random.random::<f64>()),
        5 => json!([1e308, -1e308, 5e-324, 1.0, 0.0][random.random_range(0..5)]),
        6 => json!(texts.choose(random).unwrap()),
        7 => (0..random.random_range(0..4)).map(|_| anything(random, depth - 1)).collect(),
        _ => {
            let keys = (0..random.random_range(0..3)).map(|_| texts.choose(random).unwrap().to_string());
            let keys: Vec<String> = keys.collect();
            Value::Object(keys.into_iter().map(|key| (key, anything(random, depth - 1))).collect())
        }
    }
}

/// A value that a schema allows, or occasionally another one.
fn of_schema(description: &Value, schema: &Value, name: &str, random: &mut StdRng) -> Value {
    if random.random_bool(0.04) {
        return anything(random, 3);
    }
    let schema = &resolved(description, schema);
    let of_schema = |schema: &Value, name: &str, random: &mut StdRng| of_schema(description, schema, name, random);
    if let Some(options) = schema["anyOf"].as_array() {
        return of_schema(options.choose(random).unwrap(), name, random);
    }
    if let Some(options) = schema["enum"].as_array() {
        return options.choose(random).unwrap().clone();
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => vec!["null"],
    };
    let columns = ["id", "x", "y", "n", "kind", "wet", "at", "nothing"];
    match *kinds.choose(random).unwrap() {
        "number" => {
            let low = schema["minimum"].as_f64().or(schema["exclusiveMinimum"].as_f64()).unwrap_or(-1.0);
            let high = schema["maximum"].as_f64().unwrap_or(2.0);
            json!(low + (high - low) * random.random::<f64>())
        }
        "integer" => {
            let low = schema["minimum"].as_i64().unwrap_or(-5);
            let high = schema["maximum"].as_i64().unwrap_or(1000);
            let high = if random.random_bool(0.9) { high.min(low + 300) } else { high.saturating_add(2) };
            json!(random.random_range(low..=high))
        }
        "boolean" => json!(random.random::<bool>()),
        "null" => Value::Null,
        "string" => match name {
            "where" => {
                let wheres =
                    ["x < 0.5", "NOT wet", "kind LIKE 'w%'", "n IN (1, 2)", "x <", "(((", "nothing = 1", "at > 5"];
                json!(wheres.choose(random).unwrap())
            }
            "aggregates" => {
                let aggregates =
                    ["mean(y)", "count()", "p95(x)", "histogram(n, 4)", "max(nothing)", "mean(", "sum(x + n)"];
                json!(aggregates.choose(random).unwrap())
            }
            "version" => json!("0-0"),
            _ => json!(columns.choose(random).unwrap()),
        },
        "array" => {
            let least = schema["minItems"].as_u64().unwrap_or(0);
            let most = schema["maxItems"].as_u64().unwrap_or(3).min(least + 3);
            (0..random.random_range(least..=most)).map(|_| of_schema(&schema["items"], name, random)).collect()
        }
        _ => {
            let mut made = Map::new();
            let required: Vec<&str> =
                schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let mut properties: Vec<_> = schema["properties"].as_object().into_iter().flatten().collect();
            if schema["maxProperties"] == 1 {
                // A region has one kind; more would nest regions without end.
                let (key, of) = *properties.choose(random).unwrap();
                made.insert(key.clone(), of_schema(of, key, random));
                properties.clear();
            }
            for (key, of) in properties {
                let skips = if required.contains(&key.as_str()) { 0.03 } else { 0.7 };
                if !random.random_bool(skips) {
                    made.insert(key.clone(), of_schema(of, key, random));
                }
            }
            if schema["additionalProperties"].is_object() {
                for _ in 0..random.random_range(0..3) {
                    let column = columns.choose(random).unwrap().to_string();
                    made.insert(column, of_schema(&schema["additionalProperties"], "box", random));
                }
            }
            if random.random_bool(0.03) {
                made.insert("unheard_of".into(), anything(random, 1));
            }
            Value::Object(made)
        }
    }
}

/// Gives cells one number per axis and ordered bounds, which a schema cannot express.
fn fit(body: &mut Value, random: &mut StdRng) {
    if body.get("absolute").is_some_and(Value::is_string) {
        body["absolute"] = json!(0.1);
    }
    let Some(axes) = body["position"].as_array().map(Vec::len) else { return };
    for cell in body["cells"].as_array_mut().into_iter().flatten().filter(|cell| cell.is_object()) {
        let mut numbers = |low: f64, high: f64| -> Value {
            (0..axes).map(|_| json!(low + (high - low) * random.random::<f64>())).collect()
        };
        (cell["low"], cell["high"], cell["origin"]) = (numbers(-0.5, 0.4), numbers(0.5, 1.5), numbers(-1.0, 1.0));
        cell["window"] = json!([random.random::<f64>() * 0.5, 0.5 + random.random::<f64>() * 0.5]);
    }
    let drawn = ["x", "y", "n", "at", "id"];
    body["position"] = (0..axes).map(|axis| json!(drawn[(axis + random.random_range(0..5)) % 5])).collect();
}

#[test]
fn whatever_the_description_allows_is_answered_or_refused() {
    let description: Value = serde_json::from_str(DESCRIPTION).unwrap();
    let options = Options { limits: limits(), ..Options::default() };
    let world = world(3_000, options);
    let mut random = StdRng::seed_from_u64(7);
    let mut seen = std::collections::BTreeMap::new();
    let posts: Vec<(&String, &Value)> =
        description["paths"].as_object().unwrap().iter().filter(|(_, of)| of["post"].is_object()).collect();
    for _ in 0..3_000 {
        let (path, of) = posts.choose(&mut random).unwrap();
        let schema = &of["post"]["requestBody"]["content"]["application/json"]["schema"];
        let mut body = of_schema(&description, schema, "body", &mut random);
        if random.random_bool(0.8) {
            fit(&mut body, &mut random);
        }
        let mut body = body.to_string();
        if random.random_bool(0.03) {
            let cut = random.random_range(0..=body.len());
            body = String::from_utf8_lossy(&body.as_bytes()[..cut]).into_owned();
        }
        let reply = world.post_text(&path.replace("{table}", "run"), &body);
        let classes = &of["post"]["responses"];
        let described = classes.get(reply.status.to_string()).or(classes.get(format!("{}XX", reply.status / 100)));
        assert!(described.is_some(), "{path} {body}: {} is not described", reply.status);
        assert!(reply.status < 500, "{path} {body}: {:?}", String::from_utf8_lossy(&reply.body));
        assert!(reply.whole, "{path} {body}: cut off");
        if reply.status != 200 {
            assert!(reply.json()["error"]["message"].as_str().is_some_and(|message| !message.is_empty()));
        }
        *seen.entry(((*path).clone(), reply.status == 200)).or_insert(0) += 1;
    }
    for (path, _) in &posts {
        for answered in [true, false] {
            let count = seen.get(&((*path).clone(), answered)).copied().unwrap_or(0);
            assert!(count >= 15, "{path} answered {answered}: {count} times; {seen:?}");
        }
    }
}

#[test]
fn every_address_of_the_description_is_there() {
    let description: Value = serde_json::from_str(DESCRIPTION).unwrap();
    let world = world(10, Options::default());
    for (path, of) in description["paths"].as_object().unwrap() {
        let path = path.replace("{table}", "run");
        for method in ["get", "post", "put", "delete"] {
            let request =
                format!("{} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n", method.to_uppercase());
            let reply = world.send(&request);
            assert_eq!(
                of[method].is_object(),
                ![404, 405].contains(&reply.status),
                "{method} {path}: {}",
                reply.status
            );
        }
    }
    assert_eq!(world.get("/v1/openapi.json").json(), description);
}

#[test]
fn nothing_but_the_tables_is_read() {
    let world = world(10, Options::default());
    let outside = [
        "/../../etc/passwd",
        "/v1/tables/..",
        "/v1/tables/%2e%2e/count",
        "/v1/tables//",
        "/app.js/..",
        "/.git",
        "/v1/tables/run.kubist",
        "/v1/tables/run/segments",
        "//etc/passwd",
        "/%00",
    ];
    for path in outside {
        let status = world.get(path).status;
        assert!(status == 404 || status == 405, "{path}: {status}");
    }
}

#[test]
fn strangers_are_refused() {
    let world = world(10, Options::default());
    for host in ["evil.example", "127.0.0.1.evil.example:80"] {
        let reply = world.send(&format!("GET /v1/tables HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"));
        assert_eq!(reply.status, 403);
    }
    let forged = "POST /v1/tables/run/count HTTP/1.1\r\nhost: localhost\r\norigin: http://evil.example\r\nconnection: close\r\n\
                  content-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
    assert_eq!(world.send(forged).status, 403);
    let simple = "POST /v1/tables/run/count HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                  content-type: text/plain\r\ncontent-length: 2\r\n\r\n{}";
    assert_eq!(world.send(simple).status, 415, "what a page may send without asking first");
}

#[test]
fn off_loopback_a_token_is_demanded() {
    let everywhere = Options { address: [0, 0, 0, 0].into(), ..Options::default() };
    for token in [None, Some("short".to_string()), Some("with spaces and more of it".to_string())] {
        let refused = Server::start(&Options { token, ..everywhere.clone() }).map(|_| ()).unwrap_err();
        assert!(refused.to_string().contains("token"), "{refused}");
    }
    let token = "0123456789abcdef".to_string();
    let world = world(10, Options { address: [127, 0, 0, 1].into(), token: Some(token.clone()), ..Options::default() });
    assert_eq!(world.get("/v1/tables").status, 401);
    assert_eq!(world.get("/").status, 401);
    let with = |line: &str| {
        world.send(&format!("GET /v1/tables HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{line}\r\n\r\n"))
    };
    assert_eq!(with(&format!("authorization: Bearer {token}")).status, 200);
    assert_eq!(with("authorization: Bearer 0123456789abcdeX").status, 401);
    let first = world.get(&format!("/?token={token}"));
    assert_eq!((first.status, first.header("location")), (303, Some("/")));
    let cookie = first.header("set-cookie").unwrap().split(';').next().unwrap().to_string();
    assert_eq!(with(&format!("cookie: {cookie}")).status, 200);
    // Servers on two ports of a machine share cookies, so a browser sends both.
    let other = "fedcba9876543210".to_string();
    let beside = self::world(10, Options { token: Some(other.clone()), ..Options::default() });
    let second = beside.get(&format!("/?token={other}"));
    let second = second.header("set-cookie").unwrap().split(';').next().unwrap().to_string();
    assert_ne!(cookie.split('=').next(), second.split('=').next(), "one would overwrite the other");
    assert_eq!(with(&format!("cookie: {second}; {cookie}")).status, 200);
    assert_eq!(with(&format!("cookie: {second}")).status, 401);
}

#[test]
fn too_much_is_refused() {
    let world = world(10, Options { limits: limits(), ..Options::default() });
    let long = format!("{{\"where\": \"{}\"}}", "x".repeat(300_000));
    assert_eq!(world.post_text("/v1/tables/run/count", &long).status, 413);
    let headers = format!("GET /v1 HTTP/1.1\r\nhost: localhost\r\nx-long: {}\r\n\r\n", "y".repeat(100_000));
    assert_eq!(world.send(&headers).status, 431);
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(world.post_text("/v1/tables/run/count", &deep).status, 400);
    let nested = format!("{{\"where\": \"{}x = 1{}\"}}", "(".repeat(50_000), ")".repeat(50_000));
    assert_eq!(world.post_text("/v1/tables/run/count", &nested).status, 400);
    assert_eq!(world.get("/v1").status, 200, "it goes on");
}

/// Conditions that need exponential memory or time in a naive parser, and similar ones.
#[test]
fn any_condition_is_survived() {
    let world = world(3_000, Options { limits: limits(), ..Options::default() });
    let nested = |levels: usize, wrap: &dyn Fn(usize, String) -> String| {
        (0..levels).fold("wet".to_string(), |inner, level| wrap(level, inner))
    };
    let many = |count: usize, part: &str, glue: &str| vec![part; count].join(glue);
    let long = "x".repeat(120_000);
    let conditions = [
        format!("wet{}", " IN (wet, TRUE)".repeat(30)),
        nested(45, &|level, inner| format!("({inner} = (n > {level}))")),
        nested(45, &|level, inner| format!("({inner} <> (x > {level})) IS NOT UNKNOWN")),
        nested(60, &|_, inner| format!("({inner} IN (wet, (n > 1), NULL))")),
        format!("wet{}", " IS UNKNOWN IN (wet, FALSE)".repeat(60)),
        format!("least({}) IN ({}) AND n > 1", many(8_000, "n", ","), many(8_000, "x", ",")),
        format!("least({}) BETWEEN x AND y", many(8_000, "n", ",")),
        format!("'{long}' IN ({})", many(20_000, "kind", ",")),
        format!("{} IN ({})", "9".repeat(100_000), many(40_000, "x", ",")),
        format!("kind LIKE '{}z'", "%a_".repeat(1_300)),
        format!("kind ILIKE '{}'", "%É".repeat(30_000)),
        format!("n IN ({})", (0..30_000).map(|n| n.to_string()).collect::<Vec<_>>().join(",")),
        format!("x < {}", many(50_000, "1e999999999", " OR x < ")[..150_000].trim_end_matches(|c: char| c != '9')),
        format!("at > '2020-01-01T00:00:00.{}'", "0".repeat(150_000)),
        many(30_000, "wet", " = "),
        many(50_000, "NOT", " "),
        "(".repeat(100_000),
    ];
    for condition in &conditions {
        let asks: [(&str, Value); 3] = [
            ("count", json!({"where": condition})),
            ("query", json!({"where": condition, "limit": 3})),
            ("estimate", json!({"aggregates": [format!("mean({condition})")], "where": condition})),
        ];
        for (path, body) in asks.iter().filter(|(path, _)| condition.len() < 1_000 || *path == "count") {
            let reply = world.post(&format!("/v1/tables/run/{path}"), body);
            assert!([200, 400].contains(&reply.status), "{path} {condition:.100}: {}", reply.status);
            assert!(reply.whole, "{path} {condition:.100}");
        }
    }
    assert_eq!(world.get("/v1").status, 200, "it goes on");
}

/// The condition takes minutes, but its client disconnects at once.
#[test]
fn who_leaves_an_evaluation_gives_its_place_back() {
    let limits = Limits { concurrent_requests: 1, request_patience: Duration::from_secs(50), ..Limits::default() };
    let world = world(200_000, Options { limits, ..Options::default() });
    let terms = vec!["power(x,y)"; 20_000].join(",");
    let body = json!({"where": format!("least({terms}) > 7")}).to_string();
    let request = format!(
        "POST /v1/tables/run/count HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut leaving = connect(world.server.address());
    leaving.write_all(request.as_bytes()).unwrap();
    // It occupies the only slot once another request has to wait.
    std::thread::sleep(Duration::from_millis(300));
    drop(leaving);
    assert_eq!(world.post("/v1/tables/run/count", &json!({})).status, 200);
}

#[test]
fn noise_is_no_harm() {
    let world = world(10, Options::default());
    let mut random = StdRng::seed_from_u64(3);
    for _ in 0..60 {
        let length = random.random_range(1..400);
        let mut noise: Vec<u8> = (0..length).map(|_| random.random()).collect();
        if random.random_bool(0.5) {
            noise =
                [b"POST /v1/tables/run/query HTTP/1.1\r\nhost: localhost\r\n".to_vec(), noise, b"\r\n\r\n".to_vec()]
                    .concat();
        }
        let mut socket = connect(world.server.address());
        let _ = socket.write_all(&noise);
        let _ = socket.shutdown(std::net::Shutdown::Write);
        let _ = socket.read_to_end(&mut Vec::new());
    }
    assert_eq!(world.get("/v1").status, 200);
}

#[test]
fn who_leaves_or_does_not_read_gives_way() {
    let limits = Limits { concurrent_requests: 1, stall: Duration::from_millis(700), ..Limits::default() };
    let world = world(400_000, Options { limits, ..Options::default() });
    let ask = "POST /v1/tables/run/query HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 16\r\n\r\n{\"format\":\"csv\"}";
    // A client that never reads takes the only slot for a response larger than all buffers, then one that
    // disconnects. Each time the next request succeeds.
    let mut idle = connect(world.server.address());
    idle.write_all(ask.as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(world.post("/v1/tables/run/count", &json!({})).status, 200);
    let mut answer = Vec::new();
    let cut = idle.read_to_end(&mut answer);
    assert!(
        cut.is_err() || !answer.ends_with(b"0\r\n\r\n"),
        "what was not read in time is cut off, which the client can see"
    );
    for _ in 0..5 {
        let mut leaving = connect(world.server.address());
        leaving.write_all(ask.as_bytes()).unwrap();
        leaving.read_exact(&mut [0; 64]).unwrap();
        drop(leaving);
        assert_eq!(world.post("/v1/tables/run/count", &json!({})).status, 200);
    }
}

#[test]
fn who_leaves_an_estimate_gives_its_place_back() {
    // The stall timeout would free the slot too late for the next request.
    let limits = Limits {
        concurrent_requests: 1,
        request_patience: Duration::from_secs(60),
        stall: Duration::from_secs(600),
        ..Limits::default()
    };
    let world = world(400_000, Options { limits, ..Options::default() });
    // An error after all rows are read, for a thousand estimates.
    let body = r#"{"aggregates": ["mean(x)", "p95(y)", "count_distinct(id)"], "group_by": ["n", "kind"], "error": 1e-9, "progressive": true}"#;
    let ask = format!(
        "POST /v1/tables/run/estimate HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    for _ in 0..5 {
        let mut leaving = connect(world.server.address());
        leaving.write_all(ask.as_bytes()).unwrap();
        leaving.read_exact(&mut [0; 256]).unwrap();
        drop(leaving);
        assert_eq!(world.post("/v1/tables/run/count", &json!({})).status, 200, "the only slot is free again");
    }
}

#[test]
fn who_never_reads_keeps_no_connection() {
    let limits = Limits { connections: 1, stall: Duration::from_millis(500), ..Limits::default() };
    let world = world(400_000, Options { limits, ..Options::default() });
    let ask = "POST /v1/tables/run/query HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 16\r\n\r\n{\"format\":\"csv\"}";
    let mut idle = connect(world.server.address());
    idle.write_all(ask.as_bytes()).unwrap();
    // The only connection is free again while the idle client keeps its end open.
    assert_eq!(world.post("/v1/tables/run/count", &json!({})).status, 200);
    drop(idle);
}

#[test]
fn who_does_not_finish_a_request_is_let_go() {
    let patience = Duration::from_millis(300);
    let limits = Limits { stall: patience, head: patience, ..Limits::default() };
    let world = world(10, Options { limits, ..Options::default() });
    for begun in [
        "GET /v1 HTTP/1.1\r\nhost: loc",
        "POST /v1/tables/run/count HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{",
    ] {
        let begin = Instant::now();
        let mut slow = connect(world.server.address());
        slow.write_all(begun.as_bytes()).unwrap();
        let _ = slow.read_to_end(&mut Vec::new());
        assert!(begin.elapsed() < Duration::from_secs(50), "{begun}");
    }
}

#[test]
fn too_many_get_503() {
    let limits = Limits { concurrent_requests: 1, request_patience: Duration::from_millis(50), ..Limits::default() };
    let world = world(400_000, Options { limits, ..Options::default() });
    let ask = "POST /v1/tables/run/query HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 16\r\n\r\n{\"format\":\"csv\"}";
    let mut first = connect(world.server.address());
    first.write_all(ask.as_bytes()).unwrap();
    first.read_exact(&mut [0; 64]).unwrap();
    let second = send(
        world.server.address(),
        ask.replace("host: localhost\r\n", "host: localhost\r\nconnection: close\r\n").as_bytes(),
    );
    assert_eq!((second.status, second.header("retry-after")), (503, Some("1")));
}
