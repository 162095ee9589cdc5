//! The async runtime for network I/O. A forked process has none of its parent's threads, so it creates its own runtime
//! on first use.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use tokio::runtime::{Builder, Runtime};

struct Process {
    id: u32,
    runtime: Runtime,
}

static PROCESS: AtomicPtr<Process> = AtomicPtr::new(null_mut());

pub fn runtime() -> std::io::Result<&'static Runtime> {
    let id = std::process::id();
    let known = PROCESS.load(Ordering::Acquire);
    // SAFETY: the pointer is null or came from a box that is never freed.
    if let Some(process) = unsafe { known.as_ref() }.filter(|process| process.id == id) {
        return Ok(&process.runtime);
    }
    let runtime = Builder::new_multi_thread().worker_threads(2).thread_name("kubist-object").enable_all().build()?;
    let created = Box::into_raw(Box::new(Process { id, runtime }));
    match PROCESS.compare_exchange(known, created, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: published now, so never freed.
        Ok(_) => Ok(unsafe { &(*created).runtime }),
        Err(other) => {
            // SAFETY: no other thread has seen `created`; a value that another thread published is never freed.
            unsafe {
                drop(Box::from_raw(created));
                Ok(&(*other).runtime)
            }
        }
    }
}
