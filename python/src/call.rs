//! Engine calls without the interpreter lock that signals can interrupt.
//!
//! Python runs signal handlers only when its main thread checks for signals. So the engine works on another
//! thread, while the caller's thread waits without the interpreter lock and checks every [`PATIENCE`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kubist::store::stoppable;
use kubist::{Cancel, Result};
use kubist_read::workers;
use pyo3::prelude::*;

use crate::error::{exception, internal};

pub const PATIENCE: Duration = Duration::from_millis(50);

/// A result, and the exception that a signal handler raised during the call.
pub struct Outcome<T> {
    pub result: PyResult<T>,
    pub interrupt: Option<PyErr>,
}

/// Runs `call`. An exception of a signal handler stops it and is returned.
pub fn run<T: Send>(py: Python<'_>, cancel: &Cancel, call: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    let ended = run_to_end(py, cancel, call, || {});
    match ended.interrupt {
        Some(interrupt) => Err(interrupt),
        None => ended.result,
    }
}

/// Runs `call`, and `meanwhile` on this thread every [`PATIENCE`]. An interrupt sets `cancel` but waits for
/// the call, whose result shows whether it completed.
pub fn run_to_end<T: Send>(
    py: Python<'_>,
    cancel: &Cancel,
    call: impl FnOnce() -> Result<T> + Send,
    mut meanwhile: impl FnMut() + Send,
) -> Outcome<T> {
    let (mut interrupt, switch) = (None, cancel.clone());
    // Also stops store requests that do not check `cancel`.
    let call = || stoppable(move || switch.is_set(), call);
    let result = py.detach(|| {
        workers::beside(PATIENCE, call, || {
            if interrupt.is_none() {
                meanwhile();
                if let Err(raised) = Python::attach(|py| py.check_signals()) {
                    cancel.set();
                    interrupt = Some(raised);
                }
            }
        })
    });
    let result = match result {
        Ok(result) => result.map_err(|error| exception(py, error)),
        Err(panic) => Err(internal(py, &*panic)),
    };
    Outcome { result, interrupt }
}

/// Calls `progress(done, total)`, which can stop `call` by raising.
pub fn run_with_progress<T: Send>(
    py: Python<'_>,
    cancel: &Cancel,
    progress: Option<Py<PyAny>>,
    call: impl FnOnce(&mut dyn FnMut(u64, u64)) -> kubist::Result<T> + Send,
) -> PyResult<T> {
    let (done, total) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut refused = None;
    let ended = run_to_end(
        py,
        cancel,
        || {
            call(&mut |now, all| {
                done.store(now, Ordering::Relaxed);
                total.store(all, Ordering::Relaxed);
            })
        },
        || {
            let Some(progress) = &progress else { return };
            let figures = (done.load(Ordering::Relaxed), total.load(Ordering::Relaxed));
            let called = Python::attach(|py| progress.call1(py, figures).map(drop));
            if let (Err(error), None) = (called, &refused) {
                cancel.set();
                refused = Some(error);
            }
        },
    );
    match ended.interrupt.or(refused) {
        Some(error) => Err(error),
        None => ended.result,
    }
}
