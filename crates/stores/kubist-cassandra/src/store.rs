//! The store: runs each operation and waits for it.

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{join_all, try_join3};
use futures_util::stream::{StreamExt, TryStreamExt, iter};
use kubist_store::{
    Abilities, Answers, BrokenEntry, Capabilities, Error, Fencing, Latency, Locality, LogOwner, LogTail, Logs, Reads,
    ReplicaLocation, Replicas, Result, Segment, Size, SoundLog, Store, Watch,
};
use uuid::Uuid;

use crate::cluster::Link;
use crate::location::Location;
use crate::objects::Folders;
use crate::segments::Lengths;
use crate::{blocks, epochs, identity, logs, objects, schema, segments};

#[derive(Debug)]
pub struct CassandraStore {
    link: Link,
    id: Uuid,
    location: String,
    folders: Folders,
    lengths: Lengths,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Link({})", self.location)
    }
}

impl CassandraStore {
    /// Opens the store at a location.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] if there is no such store; [`Error::Unreachable`] if the cluster does not respond
    /// or refuses the connection.
    pub fn open(location: Location) -> Result<CassandraStore> {
        let link = Link::open(location)?;
        let find = async {
            match schema::is_there(&link).await? {
                true => {
                    link.enter_keyspace().await?;
                    identity::find(&link).await
                }
                false => Ok(None),
            }
        };
        let missing = || Error::Missing { file: link.location.to_string() };
        let id = link.wait(find)?.ok_or_else(missing)?;
        Ok(CassandraStore::new(link, id))
    }

    /// Opens the store, and creates the store, the tables and the keyspace if they do not exist.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`] if the cluster does not respond or does not permit it.
    pub fn create(location: Location) -> Result<CassandraStore> {
        let link = Link::open(location)?;
        let make = async {
            if !schema::is_there(&link).await? {
                schema::make(&link).await?;
            }
            link.enter_keyspace().await?;
            identity::bind(&link).await
        };
        let id = link.wait(make)?;
        Ok(CassandraStore::new(link, id))
    }

    fn new(link: Link, id: Uuid) -> CassandraStore {
        let location = link.location.to_string();
        CassandraStore { link, id, location, folders: Folders::default(), lengths: Lengths::default() }
    }
}

impl Store for CassandraStore {
    fn location(&self) -> &str {
        &self.location
    }

    fn capabilities(&self) -> Capabilities {
        let fencing = Fencing::Claim { lapse: epochs::HELD };
        Capabilities {
            locality: Locality::Hosts,
            latency: Latency::Network,
            fencing,
            staleness: Duration::ZERO,
            punches: false,
        }
    }

    fn abilities(&self) -> Abilities<'_> {
        Abilities { reads: Some(self), logs: Some(self), replicas: Some(self), ..Abilities::default() }
    }

    fn put_if_absent(&self, name: &str, value: &[u8]) -> Result<bool> {
        self.link.wait(objects::put_if_absent(&self.link, self.id, &self.folders, name, value))
    }

    fn get(&self, name: &str) -> Result<Option<Bytes>> {
        self.link.wait(objects::get(&self.link, self.id, name))
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        let found = self.link.wait(objects::list(&self.link, self.id, prefix))?;
        Ok(found.into_iter().map(|(name, _)| name).collect())
    }

    fn delete(&self, name: &str) -> Result<()> {
        self.link.wait(objects::delete(&self.link, self.id, name))
    }

    fn create_segment(&self, name: &str) -> Result<Box<dyn Segment>> {
        self.link.wait(segments::create(self.link.clone(), self.id, name))
    }

    fn read(&self, segment: &str, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.link.wait(segments::read(&self.link, self.id, &self.lengths, segment, ranges, &|_| {}))
    }

    fn segment_len(&self, segment: &str) -> Result<Option<u64>> {
        self.link.wait(segments::len(&self.link, self.id, &self.lengths, segment))
    }

    fn segments(&self) -> Result<Vec<String>> {
        self.link.wait(segments::list(&self.link, self.id))
    }

    fn delete_segment(&self, segment: &str) -> Result<()> {
        self.link.wait(segments::delete(&self.link, self.id, &self.lengths, segment))
    }

    fn own_log(&self, writer: &str) -> Result<Box<dyn LogOwner>> {
        self.link.wait(logs::own(self.link.clone(), self.id, writer))
    }

    fn logs(&self) -> Result<Vec<String>> {
        self.link.wait(logs::list(&self.link, self.id))
    }

    fn read_log(&self, writer: &str, from: u64) -> Result<LogTail> {
        self.read_log_piece(writer, from, u64::MAX)
    }

    fn sizes(&self) -> Result<Vec<Size>> {
        let (link, id) = (&self.link, self.id);
        let all = try_join3(objects::sizes(link, id), segments::sizes(link, id), logs::sizes(link, id));
        let (objects, segments, logs) = self.link.wait(all)?;
        Ok([objects, segments, logs].concat())
    }

    fn erase(&self, objects: &[String]) -> Result<()> {
        let (link, id) = (&self.link, self.id);
        self.link.wait(async {
            for segment in segments::list(link, id).await? {
                segments::delete(link, id, &self.lengths, &segment).await?;
            }
            for writer in logs::list(link, id).await? {
                logs::delete(link, id, &writer).await?;
            }
            // A folder has no row of its own.
            for object in objects.iter().filter(|object| !object.ends_with('/')) {
                objects::delete(link, id, object).await?;
            }
            identity::end(link, id, async || objects::is_empty(link, id).await).await
        })
    }
}

impl Reads for CassandraStore {
    fn read_segments(&self, wanted: &[(&str, &[Range<u64>])], watch: Watch<'_>) -> Result<Answers> {
        let read = |(segment, ranges)| segments::read(&self.link, self.id, &self.lengths, segment, ranges, watch);
        self.link.wait(async { Ok(join_all(wanted.iter().copied().map(read)).await) })
    }

    fn read_short(&self, wanted: &[(&str, &[Range<u64>])], watch: Watch<'_>) -> Result<Answers> {
        self.read_segments(wanted, watch)
    }

    fn list_after(&self, prefix: &str, after: &str) -> Result<Vec<String>> {
        let found = self.link.wait(objects::list_after(&self.link, self.id, prefix, after))?;
        Ok(found.into_iter().map(|(name, _)| name).collect())
    }

    fn waited(&self) -> bool {
        false
    }
}

impl Logs for CassandraStore {
    fn own_free_log(&self, writer: &str) -> Result<Box<dyn LogOwner>> {
        self.own_log(writer)
    }

    fn read_logs(&self, logs: &[(&str, u64)]) -> Result<Vec<LogTail>> {
        let read = async |(writer, from): &(&str, u64)| {
            let (tail, damage) = logs::read(&self.link, self.id, writer, *from, u64::MAX).await?;
            damage.map_or(Ok(tail), Err)
        };
        self.link.wait(iter(logs).map(read).buffered(self.link.location.parallel).try_collect())
    }

    fn read_log_piece(&self, writer: &str, from: u64, bytes: u64) -> Result<LogTail> {
        let (tail, damage) = self.link.wait(logs::read(&self.link, self.id, writer, from, bytes))?;
        damage.map_or(Ok(tail), Err)
    }

    fn read_sound_log(&self, writer: &str, from: u64) -> Result<SoundLog> {
        match self.link.wait(logs::read(&self.link, self.id, writer, from, u64::MAX)) {
            Ok((LogTail { entries, next, .. }, damage)) => {
                let broken = damage.iter().map(|_| BrokenEntry { position: next, bytes: Bytes::new() }).collect();
                Ok(SoundLog { entries, broken, next, damage })
            }
            Err(damage @ (Error::Damaged { .. } | Error::Missing { .. })) => {
                Ok(SoundLog { entries: Vec::new(), broken: Vec::new(), next: from, damage: Some(damage) })
            }
            Err(error) => Err(error),
        }
    }
}

impl Replicas for CassandraStore {
    fn hosts(&self) -> Vec<String> {
        self.link.hosts()
    }

    fn replica_locations(&self, offsets: &[(&str, u64)]) -> Result<Vec<ReplicaLocation>> {
        self.link.wait(blocks::replica_locations(&self.link, self.id, offsets))
    }
}
