//! A store that does to rewrites what a careless rewriter would, which tests must
//! notice; or that hides leases, which nothing may depend on.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use kubist::store::{Capabilities, LogOwner, LogTail, Result, Scratch, Segment, Size, Store};
use kubist_index::priority::name_hash;

const REWRITES: &str = "rewrites/";
const LEASES: &str = "leases/";

/// What is done wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// A rewrite that was published is published again under the next number, as
    /// after an answer that was lost.
    PublishedTwice,
    /// Whoever loses the race for a number takes the next one, without looking
    /// whether what it replaces still lives.
    LoserGoesOn,
}

/// A store with a fault, or without leases.
#[derive(Debug)]
pub struct Planted {
    pub store: Arc<dyn Store>,
    pub fault: Option<Fault>,
    pub leases: bool,
}

/// The same entry under another number: its runs' ids tell the number.
fn renumbered(entry: &[u8], from: u64, to: u64) -> Vec<u8> {
    let id_of = |number: u64| [&number.to_le_bytes()[..6], &name_hash(REWRITES).to_le_bytes()[..6]].concat();
    let (old, new) = (id_of(from), id_of(to));
    let mut entry = entry.to_vec();
    let mut at = 0;
    while at + old.len() <= entry.len() {
        if entry[at..at + old.len()] == old {
            entry[at..at + old.len()].copy_from_slice(&new);
        }
        at += 1;
    }
    entry
}

impl Store for Planted {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn put_if_absent(&self, name: &str, value: &[u8]) -> Result<bool> {
        let won = self.store.put_if_absent(name, value)?;
        let Some(number) = name.strip_prefix(REWRITES).and_then(|number| number.parse::<u64>().ok()) else {
            return Ok(won);
        };
        match self.fault {
            Some(Fault::PublishedTwice) if won => {}
            Some(Fault::LoserGoesOn) if !won => {}
            _ => return Ok(won),
        }
        for next in number + 1.. {
            let again = renumbered(value, number, next);
            if self.store.put_if_absent(&format!("{REWRITES}{next:020}"), &again)? {
                break;
            }
        }
        Ok(true)
    }

    fn location(&self) -> &str {
        self.store.location()
    }
    fn get(&self, name: &str) -> Result<Option<Bytes>> {
        self.store.get(name)
    }
    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        match prefix == LEASES && !self.leases {
            true => Ok(vec![]),
            false => self.store.list(prefix),
        }
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
