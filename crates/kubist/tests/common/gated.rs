//! A store whose reading of logs can be held up: a test decides when it goes on, and how it
//! ends.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use kubist::store::{Error, LogOwner, LogTail, MemoryStore, Result, Scratch, Segment, Size, Store};

/// Where the next call is held up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Hold {
    /// While rewrites are listed, before anything was read.
    Listing,
    /// When the logs were read, before the caller has them.
    Read,
}

/// How a call that was held up goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Then {
    Succeed,
    Fail,
    Panic,
}

#[derive(Debug, Default)]
struct Gate {
    closed: Option<Hold>,
    held: bool,
    then: Option<Then>,
}

/// A store in memory with a gate in it. It opens for one call at a time.
#[derive(Debug)]
pub struct Gated {
    pub store: MemoryStore,
    gate: Mutex<Gate>,
    changed: Condvar,
    /// How often logs were read, and how many names of rewrites were listed.
    pub reads: AtomicU64,
    pub listed: AtomicU64,
}

impl Gated {
    pub fn new(store: MemoryStore) -> Gated {
        Gated {
            store,
            gate: Mutex::default(),
            changed: Condvar::new(),
            reads: AtomicU64::new(0),
            listed: AtomicU64::new(0),
        }
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds up the next call that comes there.
    pub fn close(&self, hold: Hold) {
        *self.gate() = Gate { closed: Some(hold), held: false, then: None };
    }

    /// Waits until a call is held up.
    pub fn wait_until_held(&self) {
        drop(self.changed.wait_while(self.gate(), |gate| !gate.held).unwrap_or_else(PoisonError::into_inner));
    }

    /// Lets the call that is held up go on.
    pub fn open(&self, then: Then) {
        self.gate().then = Some(then);
        self.changed.notify_all();
    }

    fn pass(&self, here: Hold) -> Result<()> {
        let mut gate = self.gate();
        if gate.closed != Some(here) {
            return Ok(());
        }
        // The next one is not held up.
        (gate.closed, gate.held) = (None, true);
        self.changed.notify_all();
        let mut gate =
            self.changed.wait_while(gate, |gate| gate.then.is_none()).unwrap_or_else(PoisonError::into_inner);
        let then = gate.then.take();
        drop(gate);
        match then {
            Some(Then::Fail) => Err(Error::Refused { file: "gate".into(), cause: "it was told to fail".into() }),
            Some(Then::Panic) => panic!("the gate was told to panic"),
            _ => Ok(()),
        }
    }
}

impl Store for Gated {
    fn location(&self) -> &str {
        self.store.location()
    }
    fn put_if_absent(&self, name: &str, value: &[u8]) -> Result<bool> {
        self.store.put_if_absent(name, value)
    }
    fn get(&self, name: &str) -> Result<Option<Bytes>> {
        self.store.get(name)
    }
    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.store.list(prefix)
    }
    fn list_after(&self, prefix: &str, after: &str) -> Result<Vec<String>> {
        self.pass(Hold::Listing)?;
        let names = self.store.list_after(prefix, after)?;
        self.listed.fetch_add(names.len() as u64, Ordering::SeqCst);
        Ok(names)
    }
    fn delete(&self, name: &str) -> Result<()> {
        self.store.delete(name)
    }
    fn create_segment(&self, name: &str) -> Result<Box<dyn Segment>> {
        self.store.create_segment(name)
    }
    fn read(&self, segment: &str, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.store.read(segment, ranges)
    }
    fn segment_len(&self, segment: &str) -> Result<Option<u64>> {
        self.store.segment_len(segment)
    }
    fn segments(&self) -> Result<Vec<String>> {
        self.store.segments()
    }
    fn delete_segment(&self, segment: &str) -> Result<()> {
        self.store.delete_segment(segment)
    }
    fn own_log(&self, writer: &str) -> Result<Box<dyn LogOwner>> {
        self.store.own_log(writer)
    }
    fn logs(&self) -> Result<Vec<String>> {
        self.store.logs()
    }
    fn read_log(&self, writer: &str, from: u64) -> Result<LogTail> {
        self.store.read_log(writer, from)
    }
    fn read_logs(&self, logs: &[(&str, u64)]) -> Result<Vec<LogTail>> {
        let read = self.store.read_logs(logs)?;
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.pass(Hold::Read)?;
        Ok(read)
    }
    fn scratch(&self) -> Result<Box<dyn Scratch>> {
        self.store.scratch()
    }
    fn sizes(&self) -> Result<Vec<Size>> {
        self.store.sizes()
    }
    fn erase(&self, objects: &[String]) -> Result<()> {
        self.store.erase(objects)
    }
}
