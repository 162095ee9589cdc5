//! Checks that a table is still the one that a handle has read. It may have been dropped and created again, moved,
//! restored from a backup, or replaced by a copy.
//!
//! Each refresh compares the last known entry of each log, and the last rewrite and alteration, with the store. A log
//! with new entries needs no other check, because entries name their predecessors (`kubist_format::chain`). The chain
//! of every log starts with the table's id, so a table with a commit needs no check of its header.
//!
//! The comparison uses stamps, which a store returns without reading data ([`kubist_store::Stamp`]). An entry is read
//! only if its stamp changed or is unknown.

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

pub struct KnownState {
    logs: Vec<KnownLog>,
    objects: Vec<(String, Value)>,
    rewrites: u64,
    checkpoint: Option<String>,
}

struct KnownLog {
    writer: String,
    begin: u64,
    end: u64,
    chain: Chain,
}

impl KnownLog {
    fn is_first_of(&self, read: &LogTail) -> bool {
        let found = read.entries.first().filter(|found| found.position == self.begin);
        found.is_some_and(|found| Chain::after_entry(&found.bytes) == self.chain)
    }
}

pub struct ObservedStamps {
    logs: Vec<Stamp>,
    read: HashSet<String>,
    objects: Vec<Stamp>,
}

enum Value {
    Header,
    Bytes(Bytes),
    Declared(Declared),
    Chain(Chain),
}

impl KnownState {
    pub fn of(files: &TableFiles, tail: &Tail) -> KnownState {
        let (mut logs, mut objects) = (Vec::new(), Vec::new());
        let (rewrites, version) = (tail.state.rewrites(), tail.schema(files).version);
        let checkpoint = tail.checkpoint.clone();
        if !tail.begun {
            return KnownState { logs, objects, rewrites, checkpoint };
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
        KnownState { logs, objects, rewrites, checkpoint }
    }

    /// Requests stamps, or the last entries from a remote store without stamps.
    ///
    /// # Errors
    ///
    /// The errors of the store.
    pub fn ask(&self, store: &dyn Store) -> kubist_store::Result<ObservedStamps> {
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
        Ok(ObservedStamps { logs, read, objects })
    }

    /// Compares the stamps with the known entries, but checks logs that a refresh has extended by their chain.
    ///
    /// # Errors
    ///
    /// `Replaced`; `Damaged` if an alteration is missing; `Cancelled`; a storage error.
    pub fn check(&self, files: &TableFiles, tail: &mut Tail, there: &ObservedStamps, cancel: &Cancel) -> Result<()> {
        // After a restart from another checkpoint, no joined entry names the entries before it.
        let (is_near, is_joined) = (!is_far(files.store.as_ref()), tail.checkpoint == self.checkpoint);
        let mut doubtful: Vec<(&KnownLog, Stamp)> = Vec::new();
        for (log, stamp) in self.logs.iter().zip(&there.logs).filter(|(log, _)| !there.read.contains(&log.writer)) {
            let end = tail.state.position(&log.writer);
            match end == log.end {
                true if *stamp != Stamp::Unknown && tail.seen.logs.get(&log.writer) == Some(&(end, *stamp)) => {}
                true => doubtful.push((log, *stamp)),
                false if !is_joined => doubtful.push((log, Stamp::Unknown)),
                // The stamp is older than the read entries.
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
                // Cleaning never deletes the newest rewrite.
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
                        Value::Chain(chain) => Chain::after_entry(&bytes) == *chain,
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

/// The error for a table with the same id and another history.
pub fn replaced(files: &TableFiles, what: &str) -> Error {
    let why = format!("{what}; it may have been restored from a backup");
    Error::Replaced { location: files.store.location().into(), why }
}
