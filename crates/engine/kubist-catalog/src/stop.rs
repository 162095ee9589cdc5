//! Waits of a store that end with the switch of a call.

use kubist_types::Cancel;

/// Makes a call; once the switch is set, what waits for the store in it, on this thread, ends with
/// `Cancelled` within a second.
pub fn stoppable<T>(cancel: &Cancel, call: impl FnOnce() -> T) -> T {
    let cancel = cancel.clone();
    kubist_store::stoppable(move || cancel.is_set(), call)
}
