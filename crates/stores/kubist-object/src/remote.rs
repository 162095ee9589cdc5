//! A sealed file on a service, read by range requests: an object of a bucket, or a file of a web server.
//!
//! Every response must have the length, tag and date of the first response. So all bytes are from one file, even if it
//! is replaced at any time.

use std::fmt;
use std::ops::Range;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use futures_util::future::join_all;
use futures_util::stream::StreamExt;
use kubist_one::Source;
use kubist_store::{Error, Latency, Request, Result, Traffic, Watch};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt};
use tokio::sync::Semaphore;

use crate::client::{Link, waited};
use crate::failure::is_behind;
use crate::latency::LatencyModel;
use crate::ranges::{cut_out, requests};
use crate::traffic::Counts;

type Translate = Box<dyn Fn(&'static str, object_store::Error) -> Error + Send + Sync>;

pub struct RemoteFile {
    pub location: String,
    pub service: Arc<dyn ObjectStore>,
    pub path: Path,
    pub host: Arc<str>,
    pub parallel: usize,
    pub permits: Arc<Semaphore>,
    pub traffic: Arc<Counts>,
    pub latency: Arc<LatencyModel>,
    pub translate: Translate,
    process: u32,
    version: OnceLock<Version>,
}

/// Marks that change with the content of a file.
#[derive(Debug, PartialEq, Eq)]
struct Version {
    bytes: u64,
    tag: Option<String>,
    /// Seconds since 1970; 0 if the service does not report it.
    modified: i64,
}

impl Version {
    fn of(meta: &ObjectMeta) -> Version {
        Version { bytes: meta.size, tag: meta.e_tag.clone(), modified: meta.last_modified.timestamp() }
    }
}

impl fmt::Debug for RemoteFile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "RemoteFile({:?})", self.location)
    }
}

/// The properties of a [`RemoteFile`] that depend on the service.
pub struct Service {
    pub service: Arc<dyn ObjectStore>,
    pub path: Path,
    pub host: Arc<str>,
    pub parallel: usize,
    pub translate: Translate,
}

impl RemoteFile {
    pub fn new(location: String, of: Service) -> RemoteFile {
        RemoteFile {
            location,
            permits: Arc::new(Semaphore::new(of.parallel)),
            traffic: Arc::default(),
            latency: Arc::default(),
            service: of.service,
            path: of.path,
            host: of.host,
            parallel: of.parallel,
            translate: of.translate,
            process: std::process::id(),
            version: OnceLock::new(),
        }
    }

    /// The object whose key is the prefix of a location.
    pub fn of_bucket(link: &Link) -> RemoteFile {
        let location = link.location.clone();
        let translate = {
            let location = location.clone();
            move |operation, error| {
                crate::failure::failed(&location, crate::failure::ObjectRequest { operation, key: "" }, error)
            }
        };
        RemoteFile {
            permits: link.permits.clone(),
            traffic: link.traffic.clone(),
            latency: link.latency.clone(),
            ..RemoteFile::new(
                location.to_string(),
                Service {
                    service: link.bucket.clone(),
                    path: Path::from(location.prefix.as_str()),
                    host: link.host.clone(),
                    parallel: location.parallel,
                    translate: Box::new(translate),
                },
            )
        }
    }

    async fn get(&self, range: GetRange) -> object_store::Result<(Bytes, ObjectMeta)> {
        let _permit = self.permits.acquire().await.expect("it is never closed");
        let _way = self.traffic.send();
        let sent = Instant::now();
        let options = GetOptions { range: Some(range), ..GetOptions::default() };
        let found = self.service.get_opts(&self.path, options).await?;
        let (begun, meta, length) = (Instant::now(), found.meta.clone(), found.range.end - found.range.start);
        let mut stream = pin!(found.into_stream());
        let mut bytes = BytesMut::new();
        // A server may send more bytes than it announced, or fewer.
        while let Some(part) = stream.next().await.filter(|_| bytes.len() as u64 <= length) {
            bytes.extend_from_slice(&part?);
        }
        if bytes.len() as u64 != length {
            let source = format!("the response has not the {length} bytes of its range").into();
            return Err(object_store::Error::Generic { store: "file", source });
        }
        let answered = Instant::now();
        self.traffic.got(length);
        self.latency.answered(begun - sent, length, answered - begun);
        Ok((bytes.freeze(), meta))
    }

    fn failed(&self, error: object_store::Error) -> Error {
        (self.translate)("read", error)
    }

    fn changed(&self, how: &str) -> Error {
        let cause = format!("the file was {how} after it was opened");
        Error::Refused { file: self.location.clone(), cause }
    }

    fn check_version(&self, meta: &ObjectMeta) -> Result<()> {
        let found = Version::of(meta);
        if found.tag.is_none() && found.modified == 0 {
            let why = "the server reports neither an ETag nor a date of last modification, so a replaced file would \
                       not be noticed";
            let source = std::io::Error::new(std::io::ErrorKind::Unsupported, why);
            return Err(Error::Io { operation: "read", file: self.location.clone(), source });
        }
        match *self.version.get_or_init(|| Version::of(meta)) == found {
            true => Ok(()),
            false => Err(self.changed("replaced")),
        }
    }

    /// Explains a failed read, because the file may have been replaced.
    async fn explained(&self, error: object_store::Error) -> Error {
        if let object_store::Error::NotFound { .. } = error {
            return self.changed("removed");
        }
        self.traffic.got(0);
        match self.service.head(&self.path).await {
            Ok(meta) => self.check_version(&meta).err().unwrap_or_else(|| self.failed(error)),
            Err(object_store::Error::NotFound { .. }) => self.changed("removed"),
            Err(_) => self.failed(error),
        }
    }

    async fn get_tail(&self, bytes: u64) -> Result<(Bytes, u64)> {
        match self.get(GetRange::Suffix(bytes)).await {
            Ok((tail, meta)) => {
                self.check_version(&meta)?;
                Ok((tail, meta.size))
            }
            // An empty file has no valid range.
            Err(error) if is_behind(&error) => Ok((Bytes::new(), 0)),
            Err(object_store::Error::NotFound { .. }) => Err(Error::Missing { file: self.location.clone() }),
            Err(error) => Err(self.failed(error)),
        }
    }

    async fn read_all(&self, ranges: &[Range<u64>], watch: Watch<'_>) -> Result<Vec<Bytes>> {
        let asked = Instant::now();
        let sent = requests(ranges, self.latency.gap(self.parallel));
        let answers = join_all(sent.iter().map(async |range| {
            let begun = Instant::now();
            (begun, self.get(GetRange::Bounded(range.clone())).await)
        }));
        let mut read = Vec::with_capacity(sent.len());
        for (begun, answer) in answers.await {
            match answer {
                Ok((bytes, meta)) => {
                    self.check_version(&meta)?;
                    let (host, count) = (Some(self.host.to_string()), bytes.len() as u64);
                    watch(Request { asked, sent: begun, answered: Instant::now(), bytes: count, host, cached: false });
                    read.push(bytes);
                }
                Err(error) => return Err(self.explained(error).await),
            }
        }
        let short = |range: &Range<u64>| Error::Damaged {
            file: self.location.clone(),
            offset: range.start,
            what: "the service returned fewer bytes than requested".into(),
        };
        ranges.iter().map(|range| cut_out(range, &sent, &read).ok_or_else(|| short(range))).collect()
    }
}

impl Source for RemoteFile {
    fn location(&self) -> &str {
        &self.location
    }

    fn latency(&self) -> Latency {
        Latency::Network
    }

    fn tail(&self, bytes: u64) -> Result<(Bytes, u64)> {
        waited(&self.location, self.process, self.get_tail(bytes))
    }

    fn read(&self, ranges: &[Range<u64>], watch: Watch<'_>) -> Result<Vec<Bytes>> {
        if ranges.iter().all(|range| range.start >= range.end) {
            return Ok(vec![Bytes::new(); ranges.len()]);
        }
        waited(&self.location, self.process, self.read_all(ranges, watch))
    }

    fn traffic(&self) -> Option<Traffic> {
        Some(self.traffic.so_far())
    }
}
