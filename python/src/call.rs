//! Engine calls without the interpreter lock that signals can interrupt.
//!
//! Python runs signal handlers only on its main thread, and only when that thread checks for signals. So the
//! engine works on another thread. The caller's thread waits without the interpreter lock, and checks for
//! signals every [`PATIENCE`].

use std::time::Duration;

use kubist::store::stoppable;
use kubist::{Cancel, Result};
use kubist_read::workers;
use pyo3::prelude::*;

use crate::error::{exception, internal};

/// Interval between two checks for signals.
pub const PATIENCE: Duration = Duration::from_millis(50);

/// The result of a call, and the exception that a signal handler raised during it.
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

/// Runs `call`, and `meanwhile` on this thread every [`PATIENCE`]. An interrupt sets `cancel` and still waits
/// for the call, whose result shows whether it completed.
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
