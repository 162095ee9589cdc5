//! The upload of a segment's piece: one request if it is short, and otherwise a multipart upload.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use kubist_store::{Error, Result};
use object_store::{MultipartUpload, ObjectStoreExt};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::client::Link;

/// A part is sent once it has this size.
const PART: usize = 8 << 20;
/// Later parts are larger, because a service accepts only ten thousand parts.
const SHORT_PARTS: usize = 1000;
const LONG_PART: usize = 64 << 20;
/// Maximum number of concurrent parts, beyond which further appends wait.
const AT_ONCE: usize = 6;

pub struct Upload {
    link: Link,
    key: String,
    pending: BytesMut,
    sent: u64,
    count: usize,
    parts: Option<Box<dyn MultipartUpload>>,
    on_their_way: Vec<JoinHandle<object_store::Result<()>>>,
    room: Arc<Semaphore>,
}

impl Upload {
    pub fn new(link: &Link, key: String) -> Upload {
        Upload {
            link: link.clone(),
            key,
            pending: BytesMut::new(),
            sent: 0,
            count: 0,
            parts: None,
            on_their_way: Vec::new(),
            room: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    pub fn len(&self) -> u64 {
        self.sent + self.pending.len() as u64
    }

    pub fn append(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let part = if self.count < SHORT_PARTS { PART } else { LONG_PART };
            let (now, later) = bytes.split_at(bytes.len().min(part - self.pending.len()));
            self.pending.extend_from_slice(now);
            bytes = later;
            if self.pending.len() == part {
                let link = self.link.clone();
                link.wait(self.send())?;
            }
        }
        Ok(())
    }

    async fn send(&mut self) -> Result<()> {
        let bytes = self.pending.split().freeze();
        if self.parts.is_none() {
            let _way = self.link.traffic.send();
            self.link.traffic.put(0);
            let begun = self.link.bucket.put_multipart(&self.link.path(&self.key)).await;
            self.parts = Some(begun.map_err(|error| self.link.failed("write", &self.key, error))?);
        }
        let Some(parts) = &mut self.parts else { return Ok(()) };
        let room = self.room.clone().acquire_owned().await.expect("it is never closed");
        self.link.traffic.put(bytes.len() as u64);
        self.sent += bytes.len() as u64;
        self.count += 1;
        let part = parts.put_part(bytes.into());
        let traffic = self.link.traffic.clone();
        self.on_their_way.push(tokio::spawn(async move {
            let _room = room;
            let _way = traffic.send();
            part.await
        }));
        Ok(())
    }

    /// Finishes the upload, after which the piece exists completely.
    pub fn finish(mut self) -> Result<()> {
        let link = self.link.clone();
        link.wait(async {
            match self.parts.is_some() {
                false => self.put_whole().await,
                true => self.complete().await,
            }
        })
    }

    /// Puts the piece with one request, which can be repeated, because only this owner puts these bytes.
    async fn put_whole(&mut self) -> Result<()> {
        let bytes: Bytes = self.pending.split().freeze();
        let _permit = self.link.permits.acquire().await.expect("it is never closed");
        let _way = self.link.traffic.send();
        self.link.traffic.put(bytes.len() as u64);
        let put = self.link.bucket.put(&self.link.path(&self.key), bytes.into()).await;
        put.map(drop).map_err(|error| self.link.failed("write", &self.key, error))
    }

    async fn complete(&mut self) -> Result<()> {
        if !self.pending.is_empty() {
            self.send().await?;
        }
        for part in std::mem::take(&mut self.on_their_way) {
            let ended = |error| Error::Unreachable {
                location: self.link.location.to_string(),
                why: format!("a part of {} ended early ({error})", self.key),
            };
            part.await.map_err(ended)?.map_err(|error| self.link.failed("write", &self.key, error))?;
        }
        let Some(mut parts) = self.parts.take() else { return Ok(()) };
        let way = self.link.traffic.send();
        self.link.traffic.put(0);
        let completed = parts.complete().await;
        drop(way);
        match completed {
            Ok(_) => Ok(()),
            // An earlier attempt may have completed the upload.
            Err(_) if self.link.length(&self.key).await? == Some(self.sent) => Ok(()),
            Err(error) => Err(self.link.failed("write", &self.key, error)),
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let Some(mut parts) = self.parts.take().filter(|_| self.link.is_this_process()) else { return };
        if let Ok(runtime) = self.link.runtime() {
            // Without this, the service keeps unused parts until its own rules remove them.
            runtime.spawn(async move { parts.abort().await });
        }
    }
}
