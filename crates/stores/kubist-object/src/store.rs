//! The store: runs each operation and waits for it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{join_all, try_join_all};
use kubist_store::claims::LAPSE;
use kubist_store::names::{check_object, check_part};
use kubist_store::{
    Abilities, Answers, Capabilities, Error, Fencing, Latency, Locality, LogOwner, LogTail, Logs, Reads, Result,
    Segment, Service, Size, SoundLog, Space, Stamp, Stamps, Store, StoredKind, Traffic, Watch, sound_log,
};
use uuid::Uuid;

use crate::claims::{self, Claims};
use crate::client::Link;
use crate::frame::Kind;
use crate::location::Location;
use crate::logs::{self, Fences};
use crate::objects::{self, Folders};
use crate::segments::Reach;
use crate::writers::{self, Writers};
use crate::{probe, segments};

const MARK: &str = "kubist.store";

/// A store in a bucket.
#[derive(Debug)]
pub struct ObjectStore {
    link: Link,
    /// The unique number of the put that created the store, if it was read.
    identity: Option<Uuid>,
    location: String,
    folders: Folders,
    claims: Claims,
    fences: Arc<Fences>,
    writers: Writers,
}

impl ObjectStore {
    /// Opens the store at a location.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] if there is none; [`Error::Unreachable`] if the service does not respond;
    /// [`Error::Io`] if it refuses, or there is no such bucket.
    pub fn open(location: Location) -> Result<ObjectStore> {
        ObjectStore::find(Link::open(location)?)
    }

    /// # Errors
    ///
    /// As for [`ObjectStore::open`].
    pub(crate) fn find(link: Link) -> Result<ObjectStore> {
        match link.wait(link.get(MARK))? {
            Some(mark) => Ok(ObjectStore::new(link, Some(mark.mark))),
            None => Err(Error::Missing { file: link.location.to_string() }),
        }
    }

    /// Opens the store, or creates an empty one on a service with conditional puts.
    ///
    /// # Errors
    ///
    /// As for [`ObjectStore::open`]; [`Error::Io`] if the service ignores conditions.
    pub fn create(location: Location) -> Result<ObjectStore> {
        let link = Link::open(location)?;
        let mark = link.wait(async {
            loop {
                if let Some(mark) = link.get(MARK).await? {
                    return Ok(mark.mark);
                }
                probe::check(&link).await?;
                link.put_once(MARK, Kind::Store, b"").await?;
            }
        })?;
        Ok(ObjectStore::new(link, Some(mark)))
    }

    /// A handle to a store that may not exist.
    pub(crate) fn ahead(link: Link) -> ObjectStore {
        ObjectStore::new(link, None)
    }

    fn new(link: Link, identity: Option<Uuid>) -> ObjectStore {
        let location = link.location.to_string();
        ObjectStore {
            link,
            identity,
            location,
            folders: Folders::default(),
            claims: Claims::default(),
            fences: Arc::default(),
            writers: Writers::default(),
        }
    }

    fn read_all(&self, wanted: &[(&str, &[Range<u64>])], reach: Reach, watch: Watch<'_>) -> Result<Answers> {
        let read = |(segment, ranges)| segments::read(&self.link, segment, ranges, reach, watch);
        self.link.wait(async { Ok(join_all(wanted.iter().copied().map(read)).await) })
    }
}

impl Store for ObjectStore {
    fn location(&self) -> &str {
        &self.location
    }

    fn capabilities(&self) -> Capabilities {
        let fencing = Fencing::Claim { lapse: LAPSE };
        Capabilities {
            locality: Locality::Here,
            latency: Latency::Network,
            fencing,
            staleness: Duration::ZERO,
            punches: false,
        }
    }

    fn abilities(&self) -> Abilities<'_> {
        Abilities {
            reads: Some(self),
            logs: Some(self),
            space: Some(self),
            service: Some(self),
            stamps: Some(self),
            ..Abilities::default()
        }
    }

    fn put_if_absent(&self, name: &str, value: &[u8]) -> Result<bool> {
        self.link.wait(objects::put_if_absent(&self.link, &self.folders, name, value))
    }

    fn get(&self, name: &str) -> Result<Option<Bytes>> {
        self.link.wait(objects::get(&self.link, name))
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.link.wait(objects::list(&self.link, prefix, ""))
    }

    fn delete(&self, name: &str) -> Result<()> {
        self.link.wait(objects::delete(&self.link, name))
    }

    fn create_segment(&self, name: &str) -> Result<Box<dyn Segment>> {
        self.link.wait(segments::create(&self.link, name))
    }

    fn read(&self, segment: &str, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.link.wait(segments::read(&self.link, segment, ranges, Reach::Whole, &|_| {}))
    }

    fn segment_len(&self, segment: &str) -> Result<Option<u64>> {
        Ok(self.link.wait(segments::lengths(&self.link, segment))?.map(|(_, end)| end))
    }

    fn segments(&self) -> Result<Vec<String>> {
        self.link.wait(self.link.folders(segments::FOLDER))
    }

    fn delete_segment(&self, segment: &str) -> Result<()> {
        self.link.wait(segments::delete(&self.link, segment))
    }

    fn own_log(&self, writer: &str) -> Result<Box<dyn LogOwner>> {
        self.link.wait(logs::own(&self.link, &self.claims, &self.fences, &self.writers, writer, true))
    }

    fn logs(&self) -> Result<Vec<String>> {
        let mut names = self.link.wait(self.writers.names(&self.link))?;
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    fn read_log(&self, writer: &str, from: u64) -> Result<LogTail> {
        self.read_log_piece(writer, from, u64::MAX)
    }

    fn sizes(&self) -> Result<Vec<Size>> {
        let listed = self.link.wait(self.link.list("", None, usize::MAX))?;
        Ok(sizes(&listed))
    }

    fn erase(&self, objects: &[String]) -> Result<()> {
        // No thread of this process may renew a claim or put an object any more.
        self.link.end();
        self.link.wait(async {
            for folder in [segments::FOLDER, logs::FOLDER, claims::FOLDER, writers::FOLDER] {
                self.link.delete_folder(folder).await?;
            }
            for object in objects {
                objects::erase(&self.link, object).await?;
            }
            if self.link.list(objects::FOLDER, None, 1).await?.is_empty() {
                self.link.delete(MARK).await?;
            }
            Ok(())
        })
    }
}

impl Stamps for ObjectStore {
    fn stamp(&self, name: &str) -> Result<Stamp> {
        check_object(name)?;
        self.link.wait(self.link.stamp(&objects::key(name)))
    }

    fn log_stamps(&self, entries: &[(&str, u64)]) -> Result<Vec<Stamp>> {
        let stamp = async |(writer, end): &(&str, u64)| {
            check_part(writer)?;
            match end.checked_sub(1) {
                Some(last) => self.link.stamp(&logs::key(writer, last)).await,
                None => Ok(Stamp::Unknown),
            }
        };
        self.link.wait(try_join_all(entries.iter().map(stamp)))
    }
}

impl Reads for ObjectStore {
    fn read_segments(&self, wanted: &[(&str, &[Range<u64>])], watch: Watch<'_>) -> Result<Answers> {
        self.read_all(wanted, Reach::Whole, watch)
    }

    fn read_short(&self, wanted: &[(&str, &[Range<u64>])], watch: Watch<'_>) -> Result<Answers> {
        self.read_all(wanted, Reach::UpToTheEnd, watch)
    }

    fn list_after(&self, prefix: &str, after: &str) -> Result<Vec<String>> {
        self.link.wait(objects::list(&self.link, prefix, after))
    }

    fn waited(&self) -> bool {
        false
    }
}

impl Logs for ObjectStore {
    fn own_free_log(&self, writer: &str) -> Result<Box<dyn LogOwner>> {
        self.link.wait(logs::own(&self.link, &self.claims, &self.fences, &self.writers, writer, false))
    }

    fn read_logs(&self, logs: &[(&str, u64)]) -> Result<Vec<LogTail>> {
        let read = logs.iter().map(|(writer, from)| logs::read(&self.link, &self.fences, writer, *from, u64::MAX));
        self.link.wait(try_join_all(read))
    }

    fn read_log_piece(&self, writer: &str, from: u64, bytes: u64) -> Result<LogTail> {
        self.link.wait(logs::read(&self.link, &self.fences, writer, from, bytes))
    }

    fn read_sound_log(&self, writer: &str, from: u64) -> Result<SoundLog> {
        sound_log(from, self.read_log(writer, from))
    }
}

impl Space for ObjectStore {
    fn segment_bytes(&self, segment: &str) -> Result<Option<u64>> {
        Ok(self.link.wait(segments::lengths(&self.link, segment))?.map(|(bytes, _)| bytes))
    }

    fn punch(&self, _segment: &str, _ranges: &[Range<u64>]) -> Result<()> {
        Ok(())
    }
}

impl Service for ObjectStore {
    fn identity(&self) -> Option<u128> {
        self.identity.map(|identity| identity.as_u128())
    }

    fn traffic(&self) -> Option<Traffic> {
        Some(self.link.traffic.so_far())
    }
}

fn sizes(listed: &[(String, u64)]) -> Vec<Size> {
    let mut found = Vec::new();
    let mut segments_found: BTreeMap<&str, u64> = BTreeMap::new();
    let mut logs_found: BTreeMap<&str, u64> = BTreeMap::new();
    let mut rest = 0;
    for (key, bytes) in listed {
        match key.split_once('/') {
            Some((objects::FOLDER, name)) => {
                found.push(Size { kind: StoredKind::Object, name: name.into(), bytes: *bytes });
            }
            Some((segments::FOLDER, _)) => match segments::of_key(key) {
                Some((name, Some(_))) => *segments_found.entry(name).or_default() += bytes,
                Some((name, None)) => {
                    segments_found.entry(name).or_default();
                    rest += bytes;
                }
                None => rest += bytes,
            },
            Some((logs::FOLDER, name)) => {
                let writer = name.split('/').next().unwrap_or(name);
                *logs_found.entry(writer).or_default() += bytes;
            }
            _ => rest += bytes,
        }
    }
    let of = |kind| move |(name, bytes): (&str, u64)| Size { kind, name: name.to_owned(), bytes };
    found.extend(segments_found.into_iter().map(of(StoredKind::Segment)));
    found.extend(logs_found.into_iter().map(of(StoredKind::Log)));
    if rest > 0 {
        found.push(Size { kind: StoredKind::Temporary, name: "claims and marks".into(), bytes: rest });
    }
    found
}
