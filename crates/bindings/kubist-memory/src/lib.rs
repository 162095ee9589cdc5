//! The allocator of the command, the Python module and the library for Java. It keeps freed memory for a while,
//! because queries allocate columns by the megabyte and the next query can reuse them.

use std::ffi::c_long;

pub use mimalloc::MiMalloc as Allocator;

/// In milliseconds: reuse within this time saves fetching memory from the system, which takes longer than filling it.
const KEPT: c_long = 10_000;
/// `mi_option_purge_delay` of mimalloc's header, which its crate does not name.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// Keeps freed memory for ten seconds, unless the variable `MIMALLOC_PURGE_DELAY` sets the delay. For processes
/// that run more than one query.
pub fn keep() {
    // SAFETY: the option exists and may be set at any time.
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
        // mimalloc's default shows that the number names the right option.
        assert_eq!(delay(), 1000);
        keep();
        assert_eq!(delay(), KEPT);
    }
}
