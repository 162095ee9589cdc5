//! Ending a call that waits.
//!
//! What is seen here of a store of several machines may be late, and any call of it may wait for
//! more than a minute then ([`Capabilities::staleness`](crate::Capabilities)); a service that does not
//! answer is waited for, too. Who has a switch that ends calls says so once, around all that its
//! thread asks of the store. Threads that ask for it take its switches along ([`switches`]).

use std::cell::RefCell;
use std::sync::Arc;

use crate::{Error, Result};

type Asks = Arc<dyn Fn() -> bool + Send + Sync>;

thread_local! {
    static ASKS: RefCell<Vec<Asks>> = const { RefCell::new(Vec::new()) };
}

/// Takes the last switch away, also when the call panics.
struct Ends;

impl Drop for Ends {
    fn drop(&mut self) {
        ASKS.with_borrow_mut(|asks| asks.pop());
    }
}

/// Makes a call. Whenever a store waits in it, on this thread, `is_stopped` is asked a few times a
/// second, and once it says true that call of the store ends with [`Error::Stopped`]. Of calls within
/// each other the switches of all count.
pub fn stoppable<T>(is_stopped: impl Fn() -> bool + Send + Sync + 'static, call: impl FnOnce() -> T) -> T {
    ASKS.with_borrow_mut(|asks| asks.push(Arc::new(is_stopped)));
    let _ends = Ends;
    call()
}

/// The switches that stand around a call, for other threads that work for it.
#[derive(Clone)]
pub struct Switches(Vec<Asks>);

/// Those of the call that this thread makes.
pub fn switches() -> Switches {
    Switches(ASKS.with_borrow(Vec::clone))
}

impl Switches {
    /// Makes a call that these end, as [`stoppable`] does.
    pub fn around<T>(&self, call: impl FnOnce() -> T) -> T {
        let switches = self.clone();
        stoppable(move || switches.are_set(), call)
    }

    fn are_set(&self) -> bool {
        self.0.iter().any(|is_stopped| is_stopped())
    }
}

/// For engines: is the call that this thread makes to end?
///
/// # Errors
///
/// `Stopped` if so.
pub fn check_stopped(location: &str) -> Result<()> {
    // Who is asked may ask a store.
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
