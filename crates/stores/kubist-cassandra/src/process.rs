//! State that all stores of a process share: a network runtime, and one session per cluster, login and keyspace.
//!
//! A forked child lacks the threads of the runtime, and must not use its parent's connections, so it creates its own on
//! first use.

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
    pub fn here() -> std::io::Result<&'static Process> {
        let id = std::process::id();
        let known = PROCESS.load(Ordering::Acquire);
        // SAFETY: the pointer is null or came from a box that is never freed.
        if let Some(process) = unsafe { known.as_ref() }.filter(|process| process.id == id) {
            return Ok(process);
        }
        let runtime =
            Builder::new_multi_thread().worker_threads(2).thread_name("kubist-cassandra").enable_all().build()?;
        let created = Box::into_raw(Box::new(Process { id, runtime, sessions: Mutex::default() }));
        match PROCESS.compare_exchange(known, created, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: published now, so never freed.
            Ok(_) => Ok(unsafe { &*created }),
            Err(other) => {
                // SAFETY: no other thread has seen `created`; a value that another thread published is never
                // freed.
                unsafe {
                    drop(Box::from_raw(created));
                    Ok(&*other)
                }
            }
        }
    }

    pub fn session(&self, key: String) -> Arc<OnceCell<Arc<Cluster>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default().clone()
    }
}
