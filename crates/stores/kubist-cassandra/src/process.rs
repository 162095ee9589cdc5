//! What all stores of a process share: a runtime that drives the network, and one session
//! for each cluster, login and keyspace.
//!
//! A forked process has neither the runtime's threads nor a right to its parent's
//! connections. So both belong to the process that made them: in a child, fresh ones are
//! made when they are first needed, and the parent's are let be.

use std::collections::HashMap;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::OnceCell;

use crate::session::Cluster;

pub struct Process {
    id: u32,
    pub runtime: Runtime,
    sessions: Mutex<HashMap<String, Arc<OnceCell<Arc<Cluster>>>>>,
}

static PROCESS: AtomicPtr<Process> = AtomicPtr::new(null_mut());

impl Process {
    /// This process's.
    pub fn here() -> std::io::Result<&'static Process> {
        let id = std::process::id();
        let known = PROCESS.load(Ordering::Acquire);
        // SAFETY: the pointer is null or came out of a box that is never freed.
        if let Some(process) = unsafe { known.as_ref() }.filter(|process| process.id == id) {
            return Ok(process);
        }
        let runtime =
            Builder::new_multi_thread().worker_threads(2).thread_name("kubist-cassandra").enable_all().build()?;
        let made = Box::into_raw(Box::new(Process { id, runtime, sessions: Mutex::default() }));
        match PROCESS.compare_exchange(known, made, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: published now, so never freed.
            Ok(_) => Ok(unsafe { &*made }),
            Err(other) => {
                // SAFETY: no other thread has seen it; and what another thread of this process
                // published is never freed.
                unsafe {
                    drop(Box::from_raw(made));
                    Ok(&*other)
                }
            }
        }
    }

    /// The slot of a session; the first to use it connects.
    pub fn session(&self, key: String) -> Arc<OnceCell<Arc<Cluster>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default().clone()
    }
}
