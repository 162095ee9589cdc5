//! A small service in this process, which supports the part of S3's protocol that a store needs. It misbehaves on
//! request.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    Serve,
    /// The request is refused with a status and a code.
    Refuse(u16, &'static str),
    /// The request is executed, and the connection ends without a response.
    LoseAnswer,
    /// The request is executed without its condition.
    IgnoreCondition,
    /// There is no response.
    Silence,
    /// The request is executed once this many requests of its kind have arrived.
    ServeTogether(usize),
}

#[derive(Debug, Clone)]
pub struct ObjectRequest {
    pub method: String,
    pub key: String,
}

type Rule = Box<dyn FnMut(&ObjectRequest) -> Does + Send>;

pub struct Service {
    pub address: String,
    rule: Arc<Mutex<Rule>>,
    pub values: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
}

#[derive(Default)]
struct Company {
    come: Mutex<usize>,
    news: Condvar,
}

impl Company {
    fn wait_for(&self, count: usize) {
        let mut come = self.come.lock().unwrap();
        *come += 1;
        self.news.notify_all();
        let _enough = self.news.wait_while(come, |come| *come < count).unwrap();
    }
}

impl Service {
    pub fn start() -> Service {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let rule: Arc<Mutex<Rule>> = Arc::new(Mutex::new(Box::new(|_| Does::Serve)));
        let values: Arc<Mutex<BTreeMap<String, Vec<u8>>>> = Arc::default();
        let (rules, kept, company) = (rule.clone(), values.clone(), Arc::<Company>::default());
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let (rules, kept, company) = (rules.clone(), kept.clone(), company.clone());
                thread::spawn(move || serve(connection, &rules, &kept, &company));
            }
        });
        Service { address, rule, values }
    }

    pub fn does(&self, rule: impl FnMut(&ObjectRequest) -> Does + Send + 'static) {
        *self.rule.lock().unwrap() = Box::new(rule);
    }
}

struct Request {
    method: String,
    key: String,
    query: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let pair = |pair: &str| pair.split_once('=').map(|(name, value)| (name.to_owned(), value.replace("%2F", "/")));
    let key = path.splitn(3, '/').nth(2).unwrap_or("").to_owned();
    Some(Request { method, key, query: query.split('&').filter_map(pair).collect(), headers, body })
}

fn serve(connection: TcpStream, rule: &Mutex<Rule>, values: &Mutex<BTreeMap<String, Vec<u8>>>, company: &Company) {
    connection.set_nodelay(true).unwrap();
    let mut writer = connection.try_clone().unwrap();
    let mut reader = BufReader::new(connection);
    while let Some(request) = read(&mut reader) {
        let asked = ObjectRequest { method: request.method.clone(), key: request.key.clone() };
        let does = (rule.lock().unwrap())(&asked);
        if let Does::ServeTogether(count) = does {
            company.wait_for(count);
        }
        let (status, headers, body) = match does {
            Does::Silence => loop {
                thread::park();
            },
            Does::Refuse(status, code) => refused(status, code),
            does => answer(&request, &mut values.lock().unwrap(), does == Does::IgnoreCondition),
        };
        if does == Does::LoseAnswer {
            return;
        }
        let mut head = format!("HTTP/1.1 {status} Said\r\nContent-Length: {}\r\n{headers}\r\n", body.len());
        if request.method == "HEAD" {
            let length = headers_length(&headers).unwrap_or(body.len());
            head = format!("HTTP/1.1 {status} Said\r\nContent-Length: {length}\r\n{headers}\r\n");
        }
        let sent = if request.method == "HEAD" { &[][..] } else { &body[..] };
        if writer.write_all(&[head.as_bytes(), sent].concat()).is_err() {
            return;
        }
    }
}

fn headers_length(headers: &str) -> Option<usize> {
    headers.split("X-Length: ").nth(1)?.split('\r').next()?.parse().ok()
}

type Answer = (u16, String, Vec<u8>);

fn refused(status: u16, code: &str) -> Answer {
    let body = format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>{code}</Message></Error>");
    (status, "Content-Type: application/xml\r\n".into(), body.into())
}

/// The headers of an object. Equal values have equal tags, as with the MD5 sums of S3.
fn of_object(value: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    format!("ETag: \"{:016x}\"\r\nLast-Modified: Mon, 23 Nov 2026 10:00:00 GMT\r\n", hasher.finish())
}

fn answer(request: &Request, values: &mut BTreeMap<String, Vec<u8>>, ignores: bool) -> Answer {
    let found = values.get(&request.key);
    match (request.method.as_str(), found) {
        ("PUT", Some(_)) if request.headers.contains_key("if-none-match") && !ignores => {
            refused(412, "PreconditionFailed")
        }
        ("PUT", _) => {
            values.insert(request.key.clone(), request.body.clone());
            (200, of_object(&request.body), Vec::new())
        }
        ("DELETE", _) => {
            values.remove(&request.key);
            (204, String::new(), Vec::new())
        }
        ("GET", _) if request.query.contains_key("list-type") => (200, String::new(), listed(request, values).into()),
        ("GET" | "HEAD", None) => refused(404, "NoSuchKey"),
        ("HEAD", Some(value)) => (200, format!("{}X-Length: {}\r\n", of_object(value), value.len()), Vec::new()),
        ("GET", Some(value)) => part(request, value),
        _ => refused(501, "NotImplemented"),
    }
}

fn part(request: &Request, value: &[u8]) -> Answer {
    let range = request.headers.get("range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
    let Some((start, end)) = range else { return (200, of_object(value), value.to_vec()) };
    let end: usize = end.parse().unwrap();
    let (start, end) = match start.parse() {
        Ok(start) => (start, end),
        Err(_) => (value.len().saturating_sub(end), value.len().max(1) - 1),
    };
    if start >= value.len() {
        return refused(416, "InvalidRange");
    }
    let end = end.min(value.len() - 1);
    let headers = format!("{}Content-Range: bytes {start}-{end}/{}\r\n", of_object(value), value.len());
    (206, headers, value[start..=end].to_vec())
}

fn listed(request: &Request, values: &BTreeMap<String, Vec<u8>>) -> String {
    let of = |name: &str| request.query.get(name).cloned().unwrap_or_default();
    let (prefix, after, delimiter) = (of("prefix"), of("start-after"), of("delimiter"));
    let mut text = String::from("<?xml version=\"1.0\"?><ListBucketResult><IsTruncated>false</IsTruncated>");
    let mut folders = Vec::new();
    for (key, value) in values.iter().filter(|(key, _)| key.starts_with(&prefix) && **key > after) {
        match key[prefix.len()..].find('/').filter(|_| !delimiter.is_empty()) {
            Some(end) => folders.push(key[..prefix.len() + end + 1].to_owned()),
            None => write!(
                text,
                "<Contents><Key>{key}</Key><LastModified>2026-11-23T10:00:00Z</LastModified><ETag>e</ETag>\
                 <Size>{}</Size></Contents>",
                value.len()
            )
            .unwrap(),
        }
    }
    folders.dedup();
    for folder in folders {
        write!(text, "<CommonPrefixes><Prefix>{folder}</Prefix></CommonPrefixes>").unwrap();
    }
    text + "</ListBucketResult>"
}
