//! Scheduler of concurrent processes. Each is a thread, but only one runs at a time, until its next system call, in an
//! order that the seed decides, so a race can be reproduced.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::chance::Chance;
use crate::state::ProcessId;

#[derive(Debug)]
pub(crate) struct Turns {
    table: Mutex<Table>,
    changed: Condvar,
}

#[derive(Debug)]
struct Table {
    chance: Chance,
    members: BTreeSet<ProcessId>,
    waiting: BTreeSet<ProcessId>,
    running: Option<ProcessId>,
}

impl Turns {
    pub fn new(seed: u64) -> Turns {
        Turns {
            table: Mutex::new(Table {
                chance: Chance::new(seed),
                members: BTreeSet::new(),
                waiting: BTreeSet::new(),
                running: None,
            }),
            changed: Condvar::new(),
        }
    }

    /// From now on no other process continues before this one also waits.
    pub fn join(&self, process: ProcessId) {
        self.table().members.insert(process);
    }

    /// Waits for the first turn; the process participates until the result is dropped.
    pub fn begin(&self, process: ProcessId) -> TakingPart<'_> {
        let taking_part = TakingPart { turns: self, process };
        self.wait(process);
        taking_part
    }

    pub fn takes_part(&self, process: ProcessId) -> bool {
        self.table().members.contains(&process)
    }

    /// Ends the turn and waits for the next one; returns immediately for other processes.
    pub fn wait(&self, process: ProcessId) {
        let mut table = self.table();
        if !table.members.contains(&process) {
            return;
        }
        table.waiting.insert(process);
        if table.running == Some(process) {
            table.running = None;
        }
        self.choose(&mut table);
        while table.running != Some(process) {
            table = self.changed.wait(table).unwrap_or_else(PoisonError::into_inner);
        }
        table.waiting.remove(&process);
    }

    fn choose(&self, table: &mut Table) {
        if table.running.is_none() && table.waiting == table.members {
            let chosen = table.chance.below(table.waiting.len());
            table.running = table.waiting.iter().nth(chosen).copied();
            self.changed.notify_all();
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct TakingPart<'a> {
    turns: &'a Turns,
    process: ProcessId,
}

impl Drop for TakingPart<'_> {
    fn drop(&mut self) {
        let mut table = self.turns.table();
        table.members.remove(&self.process);
        if table.running == Some(self.process) {
            table.running = None;
        }
        self.turns.choose(&mut table);
    }
}
