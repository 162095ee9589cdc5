//! A web server in this process that serves one file by range requests, and counts them.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

#[derive(Clone, Debug, Default)]
pub struct Served {
    pub bytes: Vec<u8>,
    pub tag: Option<&'static str>,
    pub ignores_ranges: bool,
    pub delay: Duration,
    pub requests: u64,
    pub sent: u64,
}

pub struct Site {
    pub address: String,
    pub served: Arc<Mutex<Served>>,
}

impl Site {
    pub fn start(bytes: Vec<u8>) -> Site {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/data/t.kubist1", listener.local_addr().unwrap());
        let served = Arc::new(Mutex::new(Served { bytes, tag: Some("\"one\""), ..Served::default() }));
        let shared = served.clone();
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let shared = shared.clone();
                thread::spawn(move || serve(connection, &shared));
            }
        });
        Site { address, served }
    }
}

fn serve(connection: TcpStream, served: &Mutex<Served>) {
    connection.set_nodelay(true).unwrap();
    let mut writer = connection.try_clone().unwrap();
    let mut lines = BufReader::new(connection).lines();
    while let Some(Ok(first)) = lines.next() {
        let (mut range, mut words) = (None, first.split(' '));
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        while let Some(Ok(line)) = lines.next().filter(|line| line.as_ref().is_ok_and(|line| !line.is_empty())) {
            let (name, value) = line.split_once(':').unwrap_or((&line, ""));
            if name.eq_ignore_ascii_case("range") {
                range = value
                    .trim()
                    .strip_prefix("bytes=")
                    .and_then(|range| range.split_once('-'))
                    .map(|(from, to)| (from.parse::<usize>().ok(), to.parse::<usize>().ok()));
            }
        }
        let (head, body, delay) = {
            let mut served = served.lock().unwrap();
            served.requests += 1;
            let (head, body) = if path == "/data/t.kubist1" { answer(&served, range) } else { (head(404, ""), vec![]) };
            served.sent += body.len() as u64;
            (head, body, served.delay)
        };
        thread::sleep(delay);
        let body = if method == "HEAD" { &[][..] } else { &body };
        if writer.write_all(&[head.as_bytes(), body].concat()).is_err() {
            return;
        }
    }
}

fn head(status: u16, headers: &str) -> String {
    let length = if headers.contains("Content-Length") { "" } else { "Content-Length: 0\r\n" };
    format!("HTTP/1.1 {status} Said\r\n{length}{headers}\r\n")
}

fn answer(served: &Served, range: Option<(Option<usize>, Option<usize>)>) -> (String, Vec<u8>) {
    let all = served.bytes.len();
    let tag = served.tag.map_or(String::new(), |tag| format!("ETag: {tag}\r\n"));
    let (start, end) = match range.filter(|_| !served.ignores_ranges) {
        None => {
            return (head(200, &format!("{tag}Content-Length: {all}\r\n")), served.bytes.clone());
        }
        Some((None, count)) => (all.saturating_sub(count.unwrap_or(0)), all),
        Some((Some(start), end)) => (start, end.map_or(all, |end| (end + 1).min(all))),
    };
    if start >= end {
        return (head(416, &tag), Vec::new());
    }
    let range = format!("{tag}Content-Range: bytes {start}-{}/{all}\r\nContent-Length: {}\r\n", end - 1, end - start);
    (head(206, &range), served.bytes[start..end].to_vec())
}
