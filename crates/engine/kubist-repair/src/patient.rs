//! A store that repeats failed reads when the failure may be temporary.
//!
//! Reads with a transient error (`is_transient`) are repeated up to three times, after growing pauses, because a failed
//! read is not damage. After eight reads have failed for good, the device is probably gone, and each further read gets
//! one attempt.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::Duration;

use bytes::Bytes;
use kubist_store::{
    Abilities, Answers, LogOwner, LogTail, Logs, Reads, ReplicaLocation, Replicas, Result, Segment, Size, SoundLog,
    Space, Store, StoreExt, Watch,
};

use kubist_catalog::error::is_transient;
use kubist_catalog::stop::stoppable;
use kubist_types::cancel::Cancel;

/// Pauses before the attempts after the first one, in milliseconds.
const PAUSES: [u64; 3] = [5, 40, 200];
const LOOK: u64 = 10;
/// After this many reads failed for good, repeating stops.
const MOST_FAILED: u32 = 8;

#[derive(Debug)]
pub struct Patient {
    store: Arc<dyn Store>,
    cancel: Cancel,
    failed: AtomicU32,
}

impl Patient {
    pub fn new(store: Arc<dyn Store>, cancel: &Cancel) -> Arc<Patient> {
        // The check needs the bytes in the store, not in a cache.
        let store = store.uncached().unwrap_or(store);
        Arc::new(Patient { store, cancel: cancel.clone(), failed: AtomicU32::new(0) })
    }

    fn read_with<T>(&self, mut read: impl FnMut() -> Result<T>) -> Result<T> {
        let mut pauses = PAUSES.iter();
        loop {
            match stoppable(&self.cancel, &mut read) {
                Err(error) if is_transient(&error) => {
                    let pause = pauses.next().filter(|_| self.failed.load(Ordering::Relaxed) < MOST_FAILED);
                    let Some(pause) = pause else {
                        self.failed.fetch_add(1, Ordering::Relaxed);
                        return Err(error);
                    };
                    if !self.wait(*pause) {
                        return Err(error);
                    }
                }
                done => return done,
            }
        }
    }

    /// Waits `left` milliseconds; `false` if the call was cancelled.
    fn wait(&self, mut left: u64) -> bool {
        while left > 0 && !self.cancel.is_set() {
            let some = left.min(LOOK);
            sleep(Duration::from_millis(some));
            left -= some;
        }
        !self.cancel.is_set()
    }
}

impl Store for Patient {
    fn capabilities(&self) -> kubist_store::Capabilities {
        self.store.capabilities()
    }

    fn abilities(&self) -> Abilities<'_> {
        Abilities {
            reads: Some(self),
            logs: Some(self),
            space: Some(self),
            replicas: Some(self),
            ..self.store.abilities()
        }
    }
    fn location(&self) -> &str {
        self.store.location()
    }
    fn put_if_absent(&self, name: &str, value: &[u8]) -> Result<bool> {
        self.store.put_if_absent(name, value)
    }
    fn get(&self, name: &str) -> Result<Option<Bytes>> {
        self.read_with(|| self.store.get(name))
    }
    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.read_with(|| self.store.list(prefix))
    }
    fn delete(&self, name: &str) -> Result<()> {
        self.store.delete(name)
    }
    fn create_segment(&self, name: &str) -> Result<Box<dyn Segment>> {
        self.store.create_segment(name)
    }
    fn read(&self, segment: &str, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.read_with(|| self.store.read(segment, ranges))
    }
    fn segment_len(&self, segment: &str) -> Result<Option<u64>> {
        self.read_with(|| self.store.segment_len(segment))
    }
    fn segments(&self) -> Result<Vec<String>> {
        self.read_with(|| self.store.segments())
    }
    fn delete_segment(&self, segment: &str) -> Result<()> {
        self.store.delete_segment(segment)
    }
    fn own_log(&self, writer: &str) -> Result<Box<dyn LogOwner>> {
        self.store.own_log(writer)
    }
    fn logs(&self) -> Result<Vec<String>> {
        self.read_with(|| self.store.logs())
    }
    fn read_log(&self, writer: &str, from: u64) -> Result<LogTail> {
        self.read_with(|| self.store.read_log(writer, from))
    }
    fn sizes(&self) -> Result<Vec<Size>> {
        self.read_with(|| self.store.sizes())
    }
    fn erase(&self, objects: &[String]) -> Result<()> {
        self.store.erase(objects)
    }
}

impl Reads for Patient {
    fn read_segments(&self, wanted: &[(&str, &[Range<u64>])], watch: Watch<'_>) -> Result<Answers> {
        let answers = self.read_with(|| self.store.read_segments(wanted, watch))?;
        let again = |(answer, (segment, ranges)): (Result<Vec<Bytes>>, &(&str, &[Range<u64>]))| match answer {
            Err(error) if is_transient(&error) => self.read_with(|| self.store.read_watched(segment, ranges, watch)),
            answer => answer,
        };
        Ok(answers.into_iter().zip(wanted).map(again).collect())
    }

    fn read_short(&self, wanted: &[(&str, &[Range<u64>])], watch: Watch<'_>) -> Result<Answers> {
        Reads::read_segments(self, wanted, watch)
    }

    fn list_after(&self, prefix: &str, after: &str) -> Result<Vec<String>> {
        self.read_with(|| self.store.list_after(prefix, after))
    }

    fn waited(&self) -> bool {
        self.store.waited()
    }
}

impl Logs for Patient {
    fn own_free_log(&self, writer: &str) -> Result<Box<dyn LogOwner>> {
        self.store.own_free_log(writer)
    }

    fn read_logs(&self, logs: &[(&str, u64)]) -> Result<Vec<LogTail>> {
        match self.store.read_logs(logs) {
            // Logs are read separately, so that one failing log does not block the others.
            Err(error) if is_transient(&error) => {
                logs.iter().map(|(writer, from)| self.read_log(writer, *from)).collect()
            }
            read => read,
        }
    }

    fn read_log_piece(&self, writer: &str, from: u64, bytes: u64) -> Result<LogTail> {
        self.read_with(|| self.store.read_log_piece(writer, from, bytes))
    }

    fn read_sound_log(&self, writer: &str, from: u64) -> Result<SoundLog> {
        self.read_with(|| self.store.read_sound_log(writer, from))
    }
}

impl Space for Patient {
    fn segment_bytes(&self, segment: &str) -> Result<Option<u64>> {
        self.read_with(|| self.store.segment_bytes(segment))
    }

    fn punch(&self, segment: &str, ranges: &[Range<u64>]) -> Result<()> {
        self.store.punch(segment, ranges)
    }
}

impl Replicas for Patient {
    fn hosts(&self) -> Vec<String> {
        self.store.hosts()
    }

    fn replica_locations(&self, offsets: &[(&str, u64)]) -> Result<Vec<ReplicaLocation>> {
        self.read_with(|| self.store.replica_locations(offsets))
    }
}
