//! Engine calls that leave the interpreter free and can be interrupted.
//!
//! Python runs signal handlers only on its main thread, and only when that
//! thread asks. So the engine works on a thread of its own, while the caller's
//! thread waits for it without the interpreter lock and asks for signals every
//! few moments.

use std::time::Duration;

use kubist::store::stoppable;
use kubist::{Cancel, Result, workers};
use pyo3::prelude::*;

use crate::error::{exception, internal};

/// How long a signal may wait to be seen.
pub const PATIENCE: Duration = Duration::from_millis(50);

/// How a call ended, and the exception that a signal handler raised meanwhile.
pub struct Ended<T> {
    pub answer: PyResult<T>,
    pub interrupt: Option<PyErr>,
}

/// Runs `call`; when a signal handler raises, stops it and raises that instead.
pub fn run<T: Send>(py: Python<'_>, cancel: &Cancel, call: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    let ended = run_to_end(py, cancel, call, || {});
    match ended.interrupt {
        Some(interrupt) => Err(interrupt),
        None => ended.answer,
    }
}

/// Runs `call`, and `meanwhile` on this thread every few moments. An interrupt
/// sets `cancel`, and the call is still waited for: its answer says whether it
/// was in time.
pub fn run_to_end<T: Send>(
    py: Python<'_>,
    cancel: &Cancel,
    call: impl FnOnce() -> Result<T> + Send,
    mut meanwhile: impl FnMut() + Send,
) -> Ended<T> {
    let (mut interrupt, switch) = (None, cancel.clone());
    // Also what has no switch of its own need not be waited for.
    let call = || stoppable(move || switch.is_set(), call);
    let answer = py.detach(|| {
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
    let answer = match answer {
        Ok(answer) => answer.map_err(|error| exception(py, error)),
        Err(panic) => Err(internal(py, &*panic)),
    };
    Ended { answer, interrupt }
}
