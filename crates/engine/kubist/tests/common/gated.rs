//! A store in memory whose log reads a test can hold, and then continue or fail.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use kubist::store::{
    Abilities, Answers, Error, LogOwner, LogTail, Logs, MemoryStore, Reads, Result, SoundLog, Store, StoreExt, Watch,
};

use super::forward::forward;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Hold {
    Looking,
    /// The logs were read, but the caller does not have them.
    Read,
}

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

#[derive(Debug)]
pub struct Gated {
    pub store: MemoryStore,
    gate: Mutex<Gate>,
    changed: Condvar,
    pub reads: AtomicU64,
    pub listed: AtomicU64,
    pub rewrites: AtomicU64,
}

impl Gated {
    pub fn new(store: MemoryStore) -> Gated {
        Gated {
            store,
            gate: Mutex::default(),
            changed: Condvar::new(),
            reads: AtomicU64::new(0),
            listed: AtomicU64::new(0),
            rewrites: AtomicU64::new(0),
        }
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn close(&self, hold: Hold) {
        *self.gate() = Gate { closed: Some(hold), held: false, then: None };
    }

    pub fn wait_until_held(&self) {
        drop(self.changed.wait_while(self.gate(), |gate| !gate.held).unwrap_or_else(PoisonError::into_inner));
    }

    pub fn open(&self, then: Then) {
        self.gate().then = Some(then);
        self.changed.notify_all();
    }

    fn pass(&self, here: Hold) -> Result<()> {
        let mut gate = self.gate();
        if gate.closed != Some(here) {
            return Ok(());
        }
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
    forward!(store:
        capabilities location put_if_absent list delete create_segment read segment_len segments
        delete_segment own_log logs read_log sizes erase
    );

    fn get(&self, name: &str) -> Result<Option<bytes::Bytes>> {
        if !name.starts_with("rewrites/") {
            return self.store.get(name);
        }
        self.pass(Hold::Looking)?;
        let found = self.store.get(name)?;
        self.rewrites.fetch_add(u64::from(found.is_some()), Ordering::SeqCst);
        Ok(found)
    }
    fn abilities(&self) -> Abilities<'_> {
        Abilities { reads: Some(self), logs: Some(self), ..self.store.abilities() }
    }
}

impl Reads for Gated {
    fn read_segments(&self, wanted: &[(&str, &[Range<u64>])], watch: Watch<'_>) -> Result<Answers> {
        self.store.read_segments(wanted, watch)
    }
    fn read_short(&self, wanted: &[(&str, &[Range<u64>])], watch: Watch<'_>) -> Result<Answers> {
        self.store.read_short(wanted, watch)
    }
    fn list_after(&self, prefix: &str, after: &str) -> Result<Vec<String>> {
        self.pass(Hold::Looking)?;
        let names = self.store.list_after(prefix, after)?;
        self.listed.fetch_add(names.len() as u64, Ordering::SeqCst);
        Ok(names)
    }
    fn waited(&self) -> bool {
        self.store.waited()
    }
}

impl Logs for Gated {
    fn own_free_log(&self, writer: &str) -> Result<Box<dyn LogOwner>> {
        self.store.own_free_log(writer)
    }
    fn read_log_piece(&self, writer: &str, from: u64, bytes: u64) -> Result<LogTail> {
        self.store.read_log_piece(writer, from, bytes)
    }
    fn read_sound_log(&self, writer: &str, from: u64) -> Result<SoundLog> {
        self.store.read_sound_log(writer, from)
    }
    fn read_logs(&self, logs: &[(&str, u64)]) -> Result<Vec<LogTail>> {
        let read = self.store.read_logs(logs)?;
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.pass(Hold::Read)?;
        Ok(read)
    }
}
