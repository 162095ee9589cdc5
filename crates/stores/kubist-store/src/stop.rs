//! Cancellation of calls that wait.
//!
//! A call on a store of several machines can wait for more than a minute
//! ([`Capabilities::staleness`](crate::Capabilities)), and a service may not respond. A caller installs its switch
//! once, around all calls of its thread on the store. Worker threads inherit the switches ([`switches`]).

use std::cell::RefCell;
use std::sync::Arc;

use crate::{Error, Result};

type Switch = Arc<dyn Fn() -> bool + Send + Sync>;

thread_local! {
    static SWITCHES: RefCell<Vec<Switch>> = const { RefCell::new(Vec::new()) };
}

struct Ends;

impl Drop for Ends {
    fn drop(&mut self) {
        SWITCHES.with_borrow_mut(|switches| switches.pop());
    }
}

/// Runs `call`. Whenever a store waits in it on this thread, it evaluates `is_stopped` a few times a second. Once that
/// is true, the store's call returns [`Error::Stopped`]; switches of nested calls all count.
pub fn stoppable<T>(is_stopped: impl Fn() -> bool + Send + Sync + 'static, call: impl FnOnce() -> T) -> T {
    SWITCHES.with_borrow_mut(|switches| switches.push(Arc::new(is_stopped)));
    let _ends = Ends;
    call()
}

/// The switches of a call, for other threads.
#[derive(Clone)]
pub struct Switches(Vec<Switch>);

/// Returns the switches of this thread's current call.
pub fn switches() -> Switches {
    Switches(SWITCHES.with_borrow(Vec::clone))
}

impl Switches {
    /// Runs `call` under these switches, as [`stoppable`] does.
    pub fn around<T>(&self, call: impl FnOnce() -> T) -> T {
        let switches = self.clone();
        stoppable(move || switches.are_set(), call)
    }

    fn are_set(&self) -> bool {
        self.0.iter().any(|is_stopped| is_stopped())
    }
}

/// For stores: returns an error if this thread's call was cancelled.
///
/// # Errors
///
/// `Stopped` if so.
pub fn check_stopped(location: &str) -> Result<()> {
    // The switches are cloned first, because a switch may itself call a store.
    match switches().are_set() {
        true => Err(Error::Stopped { location: location.into() }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_count_for_the_call_that_they_stand_around() {
        let is_stopped = || matches!(check_stopped("here"), Err(Error::Stopped { .. }));
        assert!(!is_stopped());
        assert!(stoppable(|| true, || is_stopped() && stoppable(|| false, is_stopped)));
        let panics = std::panic::catch_unwind(|| stoppable(|| true, || panic!("in the call")));
        assert!(panics.is_err() && !is_stopped());
        assert!(stoppable(|| true, || std::thread::spawn(|| check_stopped("here").is_ok()).join().unwrap()));
        let taken_along = stoppable(|| true, switches);
        assert!(std::thread::spawn(move || taken_along.around(is_stopped)).join().unwrap() && !is_stopped());
    }
}
