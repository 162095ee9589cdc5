//! The allocator of the command, of the Python module and of the library for Java, and how long it keeps what was
//! given back to it.
//!
//! Columns come and go by the megabyte, aligned: what one answer gave back must do for the next.

use std::ffi::c_long;

pub use mimalloc::MiMalloc as Allocator;

/// Milliseconds: whoever asks again meanwhile gets memory that the process has already. To fetch it from the
/// system takes longer than to fill it.
const KEPT: c_long = 10_000;
/// `mi_option_purge_delay` of mimalloc's header, which its crate does not name.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// Lets what is given back stay for ten seconds, unless the variable `MIMALLOC_PURGE_DELAY` says how long. For
/// processes that answer more than one question.
pub fn keep() {
    // SAFETY: an option that there is, which may be set at any time.
    unsafe { libmimalloc_sys::mi_option_set_default(PURGE_DELAY, KEPT) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: Allocator = Allocator;

    #[test]
    fn it_is_the_delay_of_purging_that_is_set() {
        let delay = || unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        // What mimalloc has by itself: another number would be another option.
        assert_eq!(delay(), 1000);
        keep();
        assert_eq!(delay(), KEPT);
    }
}
