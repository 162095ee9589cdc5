//! Ending a call that waits.
//!
//! What is seen here of a store of several machines may be late, and any call of it may wait for
//! more than a minute then ([`Capabilities::staleness`](crate::Capabilities)). Who has a switch that ends
//! calls says so once, around all that its thread asks of the store.

use std::cell::RefCell;
use std::rc::Rc;

use crate::{Error, Result};

type Asks = Rc<dyn Fn() -> bool>;

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
pub fn stoppable<T>(is_stopped: impl Fn() -> bool + 'static, call: impl FnOnce() -> T) -> T {
    ASKS.with_borrow_mut(|asks| asks.push(Rc::new(is_stopped)));
    let _ends = Ends;
    call()
}

/// `Stopped` if the call that this thread makes is to end.
pub(crate) fn check(location: &str) -> Result<()> {
    // Who is asked may ask a store.
    let asks = ASKS.with_borrow(Vec::clone);
    match asks.iter().any(|is_stopped| is_stopped()) {
        true => Err(Error::Stopped { location: location.into() }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_count_for_the_call_that_they_stand_around() {
        let is_stopped = || matches!(check("here"), Err(Error::Stopped { .. }));
        assert!(!is_stopped());
        assert!(stoppable(|| true, || is_stopped() && stoppable(|| false, is_stopped)));
        let panics = std::panic::catch_unwind(|| stoppable(|| true, || panic!("in the call")));
        assert!(panics.is_err() && !is_stopped());
        assert!(stoppable(|| true, || std::thread::spawn(|| check("here").is_ok()).join().unwrap()));
    }
}
