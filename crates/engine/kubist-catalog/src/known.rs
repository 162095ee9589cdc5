//! Whether what a handle has read of its table is still there.
//!
//! A table can be dropped and made again at its location, moved away, restored from a backup, or replaced by
//! a copy that went another way. Its logs may then be as long as before. So each refresh looks whether the
//! last entry that it knows of each log is the one that is there, and the last rewrite and alteration. Entries
//! that are new name the ones before them (`kubist_format::chain`), so a log that has new ones is compared by
//! these, and a table that has a commit needs no look at its header: the chain of each log begins with its id.
//!
//! What is there is asked for as a stamp, which a store gives without reading anything
//! ([`kubist_store::Stamp`]). Only if that is not the one that was seen before is the entry read.

use std::collections::HashSet;

use bytes::Bytes;
use kubist_format::alteration;
use kubist_format::chain::Chain;
use kubist_format::history::Declared;
use kubist_format::names::{GRID, TABLE, WRITERS, number_of, rewrite_name};
use kubist_store::{LogTail, Stamp, Store, StoreExt};
use kubist_types::{Cancel, Error, Result};

use crate::error::{missing_alteration, store_error};
use crate::files::TableFiles;
use crate::look::is_far;
use crate::tail::Tail;

/// What a refresh knew before it began.
pub struct Known {
    logs: Vec<KnownLog>,
    objects: Vec<(String, Value)>,
    rewrites: u64,
    /// The checkpoint that the state began with.
    checkpoint: Option<String>,
}

struct KnownLog {
    writer: String,
    /// Where the last entry begins and ends.
    begin: u64,
    end: u64,
    chain: Chain,
}

impl KnownLog {
    fn is_first_of(&self, read: &LogTail) -> bool {
        let found = read.entries.first().filter(|found| found.position == self.begin);
        found.is_some_and(|found| Chain::behind(&found.bytes) == self.chain)
    }
}

/// What a store says is there.
pub struct There {
    /// One for each log.
    logs: Vec<Stamp>,
    /// Writers whose last entry was read, and is the one that is known.
    read: HashSet<String>,
    /// One for each object.
    objects: Vec<Stamp>,
}

/// What an object must say.
enum Value {
    /// The header of this table.
    Header,
    Bytes(Bytes),
    Declared(Declared),
    /// This value of a chain is behind it.
    Chain(Chain),
}

impl Known {
    /// What was joined so far; nothing if nothing was.
    pub fn of(files: &TableFiles, tail: &Tail) -> Known {
        let (mut logs, mut objects) = (Vec::new(), Vec::new());
        let (rewrites, version) = (tail.state.rewrites(), tail.schema(files).version);
        let checkpoint = tail.checkpoint.clone();
        if !tail.begun {
            return Known { logs, objects, rewrites, checkpoint };
        }
        for (writer, end) in tail.state.positions() {
            let Some(own) = tail.history.writers.get(writer).filter(|own| own.commits > 0) else { continue };
            logs.push(KnownLog { writer: writer.into(), begin: own.last, end, chain: own.chain });
        }
        if logs.is_empty() && !files.is_unfinished() {
            objects.push((TABLE.to_string(), Value::Header));
            objects.extend(files.first_grid().map(|bytes| (GRID.to_string(), Value::Bytes(bytes))));
        }
        if rewrites > 0 {
            objects.push((rewrite_name(rewrites), Value::Chain(tail.history.rewritten)));
        }
        if version > 0 {
            objects.push((alteration::name_of(version), Value::Chain(tail.history.altered)));
        }
        objects.extend(tail.history.declared.clone().map(|declared| (WRITERS.to_string(), Value::Declared(declared))));
        Known { logs, objects, rewrites, checkpoint }
    }

    /// Asks the store what is there. Of one that is far and gives no stamps, the last entries are read.
    ///
    /// # Errors
    ///
    /// The store's.
    pub fn ask(&self, store: &dyn Store) -> kubist_store::Result<There> {
        let ends: Vec<(&str, u64)> = self.logs.iter().map(|log| (log.writer.as_str(), log.end)).collect();
        let logs = store.log_stamps(&ends)?;
        let unknown: Vec<&KnownLog> = match is_far(store) {
            true => {
                self.logs.iter().zip(&logs).filter(|(_, stamp)| **stamp == Stamp::Unknown).map(|(log, _)| log).collect()
            }
            false => Vec::new(),
        };
        let begins: Vec<(&str, u64)> = unknown.iter().map(|log| (log.writer.as_str(), log.begin)).collect();
        let read = if begins.is_empty() { Vec::new() } else { store.read_logs(&begins)? };
        let same = unknown.iter().zip(&read).filter(|(log, read)| log.is_first_of(read));
        let read = same.map(|(log, _)| log.writer.clone()).collect();
        let objects = self.objects.iter().map(|(name, _)| store.stamp(name)).collect::<kubist_store::Result<_>>()?;
        Ok(There { logs, read, objects })
    }

    /// Compares what was asked for with what is known. What a refresh has joined since to a log was compared
    /// by that.
    ///
    /// # Errors
    ///
    /// `Replaced`; `Damaged` if an alteration is missing; `Cancelled`; a storage error.
    pub fn check(&self, files: &TableFiles, tail: &mut Tail, there: &There, cancel: &Cancel) -> Result<()> {
        // Who begins anew from another checkpoint joins no entry that names the ones before.
        let (is_near, is_joined) = (!is_far(files.store.as_ref()), tail.checkpoint == self.checkpoint);
        let mut doubtful: Vec<(&KnownLog, Stamp)> = Vec::new();
        for (log, stamp) in self.logs.iter().zip(&there.logs).filter(|(log, _)| !there.read.contains(&log.writer)) {
            let end = tail.state.position(&log.writer);
            match end == log.end {
                true if *stamp != Stamp::Unknown && tail.seen.logs.get(&log.writer) == Some(&(end, *stamp)) => {}
                true => doubtful.push((log, *stamp)),
                false if !is_joined => doubtful.push((log, Stamp::Unknown)),
                // The mark is older than what was read.
                false if is_near => drop(tail.seen.logs.insert(log.writer.clone(), (end, *stamp))),
                false => drop(tail.seen.logs.remove(&log.writer)),
            }
        }
        for (log, stamp) in doubtful {
            cancel.check()?;
            let read = files.store.read_log_piece(&log.writer, log.begin, 1).map_err(store_error)?;
            if !log.is_first_of(&read) {
                let why = format!("its log of writer {:?} has another entry before position {}", log.writer, log.end);
                return Err(replaced(files, &why));
            }
            if tail.state.position(&log.writer) == log.end {
                tail.seen.logs.insert(log.writer.clone(), (log.end, stamp));
            }
        }
        for ((name, value), stamp) in self.objects.iter().zip(&there.objects) {
            let seen = tail.seen.objects.get(name);
            if *stamp != Stamp::Unknown && seen == Some(stamp) {
                continue;
            }
            cancel.check()?;
            let found = match stamp {
                Stamp::Absent => None,
                _ => files.store.get(name).map_err(store_error)?,
            };
            match (value, found) {
                (Value::Header, found) => files.check_header(found)?,
                // Cleaning deletes rewrites that a checkpoint holds, but never the newest one.
                (Value::Chain(_), None) if *name == rewrite_name(self.rewrites) => {
                    if tail.state.rewrites() == self.rewrites {
                        return Err(replaced(files, &format!("its object {name} is missing")));
                    }
                    continue;
                }
                (Value::Chain(_), None) => {
                    return Err(missing_alteration(files.store.location(), number_of(name)));
                }
                (value, found) => {
                    let is_same = found.is_some_and(|bytes| match value {
                        Value::Chain(chain) => Chain::behind(&bytes) == *chain,
                        Value::Declared(declared) => {
                            serde_json::from_slice(&bytes).is_ok_and(|now: Declared| now == *declared)
                        }
                        Value::Bytes(known) => bytes == *known,
                        Value::Header => true,
                    });
                    if !is_same {
                        return Err(replaced(files, &format!("its object {name} is another")));
                    }
                }
            }
            tail.seen.objects.insert(name.clone(), *stamp);
        }
        let known = |name: &String| self.objects.iter().any(|(known, _)| known == name);
        tail.seen.objects.retain(|name, _| known(name));
        Ok(())
    }
}

/// The table with the same id is not the one that was read.
pub fn replaced(files: &TableFiles, what: &str) -> Error {
    let why = format!("{what}; it may have been restored from a backup");
    Error::Replaced { location: files.store.location().into(), why }
}
