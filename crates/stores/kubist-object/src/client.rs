//! Requests to the service, repeated until they succeed or `patience` has passed.
//!
//! The library retries failed requests after increasing, partly random pauses. This module also retries conditional
//! puts: each has a unique number, so this is safe, but the library cannot know it.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream::{StreamExt, TryStreamExt, iter};
use kubist_store::{Error, Result, Stamp, check_stopped};
use object_store::aws::{AmazonS3, S3ConditionalPut};
use object_store::path::Path;
use object_store::{
    BackoffConfig, Certificate, ClientOptions, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode,
    RetryConfig,
};
use tokio::sync::Semaphore;
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_128;

use crate::contact::FirstContact;
use crate::credentials;
use crate::failure::{ObjectRequest, checked, code, failed, is_absent, is_taken, is_unexplained, may_pass};
use crate::frame::{self, Framed, Kind};
use crate::latency::LatencyModel;
use crate::location::Location;
use crate::process::runtime;
use crate::traffic::Counts;

const CONNECTING: Duration = Duration::from_secs(5);
const ANSWERING: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The interval of cancellation checks while a request runs.
const LOOK: Duration = Duration::from_millis(50);
/// After a cancellation, a request gets this much time to finish. A healthy service then responds, so the outcome is
/// known.
const LAST_ANSWER: Duration = Duration::from_secs(1);
/// The maximum number of tries, which is more than `patience` permits.
const MOST_TRIES: usize = 10_000;

#[derive(Clone, Debug)]
pub struct Link {
    pub location: Arc<Location>,
    pub bucket: Arc<AmazonS3>,
    pub traffic: Arc<Counts>,
    pub latency: Arc<LatencyModel>,
    pub permits: Arc<Semaphore>,
    pub host: Arc<str>,
    process: u32,
    /// True if the store was erased through this handle. Then nothing more may be put.
    ended: Arc<AtomicBool>,
}

/// A range of an object, and the size of the whole object.
pub struct Part {
    pub bytes: Bytes,
    pub whole: u64,
    pub sent: Instant,
    pub answered: Instant,
}

impl Link {
    /// Creates a connection to a bucket, without a request.
    ///
    /// # Errors
    ///
    /// `Io` names the setting, profile or certificate that cannot be used.
    pub fn open(location: Location) -> Result<Link> {
        let unusable = |why: String| Error::Io {
            operation: "reach",
            file: location.to_string(),
            source: std::io::Error::new(std::io::ErrorKind::Unsupported, why),
        };
        let mut builder = credentials::builder(&location).map_err(unusable)?.with_bucket_name(&location.bucket);
        if let Some(endpoint) = &location.endpoint {
            builder = builder.with_config(object_store::aws::AmazonS3ConfigKey::S3Endpoint, endpoint);
        }
        if let Some(region) = &location.region {
            builder = builder.with_region(region);
        }
        if let Some(is) = location.virtual_hosted {
            builder = builder.with_virtual_hosted_style_request(is);
        }
        let endpoint =
            [object_store::aws::AmazonS3ConfigKey::S3Endpoint, object_store::aws::AmazonS3ConfigKey::Endpoint]
                .iter()
                .find_map(|key| builder.get_config_value(key));
        let retry = RetryConfig {
            backoff: BackoffConfig { init_backoff: FIRST_PAUSE, max_backoff: LONGEST_PAUSE, base: 2.0 },
            max_retries: MOST_TRIES,
            retry_timeout: location.patience,
        };
        let mut options = ClientOptions::new()
            .with_allow_http(endpoint.as_deref().is_some_and(|endpoint| endpoint.starts_with("http://")))
            .with_connect_timeout(CONNECTING)
            .with_timeout(ANSWERING.min(location.patience.max(CONNECTING)));
        let bundle = location.authorities.clone().or_else(|| std::env::var("AWS_CA_BUNDLE").ok());
        for certificate in bundle.map(|file| certificates(&file)).transpose().map_err(unusable)?.unwrap_or_default() {
            options = options.with_root_certificate(certificate);
        }
        if !location.patience_is_given {
            builder = builder.with_http_connector(FirstContact::default());
        }
        let builder = builder
            .with_client_options(options)
            .with_retry(retry)
            .with_conditional_put(S3ConditionalPut::ETagMatch)
            // Some services do not support the request that deletes several keys.
            .with_disable_bulk_delete(true);
        let builder = credentials::within_seconds(builder).map_err(|error| unusable(error.to_string()))?;
        let bucket = builder.build().map_err(|error| unusable(error.to_string()))?;
        let host = endpoint.map_or_else(|| "s3.amazonaws.com".into(), |endpoint| host(&endpoint).to_owned());
        Ok(Link {
            permits: Arc::new(Semaphore::new(location.parallel)),
            location: Arc::new(location),
            bucket: Arc::new(bucket),
            traffic: Arc::default(),
            latency: Arc::default(),
            host: host.into(),
            process: std::process::id(),
            ended: Arc::default(),
        })
    }

    /// Runs work on the process's runtime and waits for it.
    ///
    /// # Errors
    ///
    /// `Refused` in a forked process; `Stopped`; errors of the work.
    pub fn wait<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        waited(&self.location.to_string(), self.process, work)
    }

    pub fn runtime(&self) -> Result<&'static tokio::runtime::Runtime> {
        runtime_for(&self.location.to_string())
    }

    pub fn is_this_process(&self) -> bool {
        self.process == std::process::id()
    }

    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    pub fn path(&self, key: &str) -> Path {
        Path::from(format!("{}/{key}", self.location.prefix))
    }

    pub fn file(&self, key: &str) -> String {
        format!("{}/{key}", self.location)
    }

    pub fn failed(&self, operation: &'static str, key: &str, error: object_store::Error) -> Error {
        failed(&self.location, ObjectRequest { operation, key }, error)
    }

    async fn permit(&self) -> tokio::sync::SemaphorePermit<'_> {
        self.permits.acquire().await.expect("it is never closed")
    }

    /// Puts an object if its key is free. If an earlier response was lost, the put's unique number shows whether it
    /// succeeded.
    ///
    /// # Errors
    ///
    /// `Damaged` if an object exists and is damaged; as for [`failed`].
    pub async fn put_once(&self, key: &str, kind: Kind, payload: &[u8]) -> Result<bool> {
        let mark = Uuid::new_v4();
        self.put_marked(key, frame::framed(mark, kind, payload), mark).await
    }

    async fn put_marked(&self, key: &str, bytes: Bytes, mark: Uuid) -> Result<bool> {
        let (path, begin) = (self.path(key), Instant::now());
        let mut pause = FIRST_PAUSE;
        loop {
            let put = {
                let _permit = self.permit().await;
                let _way = self.traffic.send();
                self.traffic.put(bytes.len() as u64);
                self.bucket.put_opts(&path, bytes.clone().into(), PutMode::Create.into()).await
            };
            let error = match put {
                Ok(_) => return Ok(true),
                Err(error) if is_taken(&error) => {
                    // If there is no object, it was deleted in between.
                    if let Some(found) = self.get(key).await? {
                        return Ok(found.mark == mark);
                    }
                    error
                }
                Err(error) if may_pass(&error) => error,
                Err(error) => return Err(self.failed("write", key, error)),
            };
            if begin.elapsed() + pause > self.location.patience {
                return Err(self.failed("write", key, error));
            }
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    /// # Errors
    ///
    /// `Damaged`; `Newer`; as for [`failed`].
    pub async fn get(&self, key: &str) -> Result<Option<Framed>> {
        let read = async {
            let _permit = self.permit().await;
            let _way = self.traffic.send();
            self.bucket.get(&self.path(key)).await?.bytes().await
        };
        match read.await {
            Ok(bytes) => {
                self.traffic.got(bytes.len() as u64);
                frame::read(&bytes, &self.file(key)).map(Some)
            }
            Err(error) if is_absent(&error) => {
                self.traffic.got(0);
                Ok(None)
            }
            Err(error) => Err(self.failed("read", key, error)),
        }
    }

    pub async fn get_part(&self, key: &str, range: std::ops::Range<u64>) -> object_store::Result<Part> {
        let _permit = self.permit().await;
        let _way = self.traffic.send();
        let options = GetOptions { range: Some(GetRange::Bounded(range)), ..GetOptions::default() };
        let sent = Instant::now();
        let found = self.bucket.get_opts(&self.path(key), options).await?;
        let (begun, whole) = (Instant::now(), found.meta.size);
        let bytes = found.bytes().await?;
        let answered = Instant::now();
        self.traffic.got(bytes.len() as u64);
        self.latency.answered(begun - sent, bytes.len() as u64, answered - begun);
        Ok(Part { bytes, whole, sent, answered })
    }

    /// # Errors
    ///
    /// As for [`failed`].
    pub async fn length(&self, key: &str) -> Result<Option<u64>> {
        Ok(self.head(key).await?.map(|found| found.size))
    }

    /// The version mark of an object, which changes with its bytes.
    ///
    /// # Errors
    ///
    /// As for [`failed`].
    pub async fn stamp(&self, key: &str) -> Result<Stamp> {
        let mark = |found: ObjectMeta| match found.e_tag {
            Some(tag) => Stamp::Of(xxh3_128(tag.as_bytes())),
            None => Stamp::Unknown,
        };
        Ok(self.head(key).await?.map_or(Stamp::Absent, mark))
    }

    async fn head(&self, key: &str) -> Result<Option<ObjectMeta>> {
        let _permit = self.permit().await;
        let _way = self.traffic.send();
        self.traffic.got(0);
        match self.bucket.head(&self.path(key)).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) if is_unexplained(&error) => {
                let why = self.why_refused(key).await.unwrap_or(error);
                Err(self.failed("examine", key, why))
            }
            Err(error) => Err(self.failed("examine", key, error)),
        }
    }

    /// The reason for a refused HEAD request. A GET finds it, because the response to HEAD has no body.
    async fn why_refused(&self, key: &str) -> Option<object_store::Error> {
        let options = GetOptions { range: Some(GetRange::Bounded(0..1)), ..GetOptions::default() };
        self.traffic.got(0);
        let said = self.bucket.get_opts(&self.path(key), options).await.err()?;
        (code(&said).is_some() && !is_absent(&said)).then_some(said)
    }

    /// The keys below a folder, or after a key, in order, with their sizes.
    ///
    /// # Errors
    ///
    /// As for [`failed`].
    pub async fn list(&self, folder: &str, after: Option<&str>, most: usize) -> Result<Vec<(String, u64)>> {
        let _permit = self.permit().await;
        let _way = self.traffic.send();
        let path = self.path(folder);
        let listed = match after {
            Some(after) => self.bucket.list_with_offset(Some(&path), &self.path(after)),
            None => self.bucket.list(Some(&path)),
        };
        let listed: Vec<ObjectMeta> = checked(
            &self.location,
            ObjectRequest { operation: "list", key: folder },
            listed.take(most).try_collect().await,
        )?;
        self.traffic.listed(listed.len() as u64);
        let begin = self.location.prefix.len() + 1;
        let mut found: Vec<(String, u64)> = listed
            .into_iter()
            .filter_map(|meta| Some((meta.location.as_ref().get(begin..)?.to_owned(), meta.size)))
            .collect();
        // Some services list the keys in another order.
        found.sort_unstable();
        Ok(found)
    }

    /// # Errors
    ///
    /// As for [`failed`].
    pub async fn folders(&self, folder: &str) -> Result<Vec<String>> {
        let _permit = self.permit().await;
        let _way = self.traffic.send();
        let asked = ObjectRequest { operation: "list", key: folder };
        let listed = self.bucket.list_with_delimiter(Some(&self.path(folder))).await;
        let listed = checked(&self.location, asked, listed)?.common_prefixes;
        self.traffic.listed(listed.len() as u64);
        let mut names: Vec<String> =
            listed.iter().filter_map(|path| path.as_ref().rsplit('/').next().map(str::to_owned)).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// # Errors
    ///
    /// As for [`failed`].
    pub async fn delete(&self, key: &str) -> Result<()> {
        let _permit = self.permit().await;
        let _way = self.traffic.send();
        self.traffic.deleted();
        match self.bucket.delete(&self.path(key)).await {
            Err(error) if !is_absent(&error) => Err(self.failed("delete", key, error)),
            _ => Ok(()),
        }
    }

    /// # Errors
    ///
    /// As for [`failed`].
    pub async fn delete_folder(&self, folder: &str) -> Result<()> {
        let keys = self.list(folder, None, usize::MAX).await?;
        let deletions = keys.iter().map(|(key, _)| self.delete(key));
        iter(deletions).buffer_unordered(self.location.parallel).try_collect().await
    }
}

fn runtime_for(location: &str) -> Result<&'static tokio::runtime::Runtime> {
    runtime().map_err(|source| Error::Io { operation: "reach", file: location.into(), source })
}

/// Runs work on the process's runtime. `process` is the one that opened the location.
///
/// # Errors
///
/// `Refused` in a forked process; `Stopped`; errors of the work.
pub fn waited<T>(location: &str, process: u32, work: impl Future<Output = Result<T>>) -> Result<T> {
    if process != std::process::id() {
        let cause = "the parent process opened it before a fork".into();
        return Err(Error::Refused { file: location.into(), cause });
    }
    runtime_for(location)?.block_on(async {
        let mut work = pin!(work);
        let mut stopped = None;
        loop {
            if let Ok(done) = tokio::time::timeout(LOOK, work.as_mut()).await {
                return done;
            }
            match (check_stopped(location), stopped) {
                (Err(stop), Some(since)) if Instant::now() - since > LAST_ANSWER => return Err(stop),
                (Err(_), None) => stopped = Some(Instant::now()),
                _ => {}
            }
        }
    })
}

fn host(endpoint: &str) -> &str {
    let behind = endpoint.split_once("://").map_or(endpoint, |(_, behind)| behind);
    behind.split('/').next().unwrap_or(behind)
}

fn certificates(file: &str) -> Result<Vec<Certificate>, String> {
    let bytes = std::fs::read(file).map_err(|error| format!("cannot read the certificates in {file}: {error}"))?;
    let found = Certificate::from_pem_bundle(&bytes).map_err(|error| format!("{file}: {error}"))?;
    match found.is_empty() {
        true => Err(format!("{file} has no certificate")),
        false => Ok(found),
    }
}
