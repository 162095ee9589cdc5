//! Cancellation of waits for a store.

use kubist_types::Cancel;

/// Once `cancel` is set, waits for the store on this thread end with `Cancelled` within one second.
pub fn stoppable<T>(cancel: &Cancel, call: impl FnOnce() -> T) -> T {
    let cancel = cancel.clone();
    kubist_store::stoppable(move || cancel.is_set(), call)
}
