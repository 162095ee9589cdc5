//! Ctrl-C: the first asks the running call to stop, the second stops at once.
//!
//! Stopping is always safe: a commit is there whole or not at all, and output
//! files get their name only when they are whole.

use std::{mem, ptr, thread};

use kubist::Cancel;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure::Kind;

/// A switch that the first SIGINT or SIGTERM sets; SIGINT does not where whoever started
/// this process has it ignored.
pub fn cancel_on_signals() -> Cancel {
    let cancel = Cancel::default();
    // Without handlers the signals end the process, which is safe as well.
    let heeded = if is_ignored(SIGINT) { &[SIGTERM][..] } else { &[SIGINT, SIGTERM] };
    // Between a handler's being there and its knowing what to do a signal would be lost.
    if let Ok(mut signals) = held_back(heeded, || Signals::new(heeded)) {
        let switch = cancel.clone();
        thread::spawn(move || {
            for _ in signals.forever() {
                if switch.is_set() {
                    std::process::exit(Kind::Interrupted as i32);
                }
                switch.set();
            }
        });
    }
    cancel
}

/// Does something while these signals wait for it, as far as this thread decides.
fn held_back<T>(signals: &[i32], work: impl FnOnce() -> T) -> T {
    // SAFETY: `sigemptyset` makes sets of what is all zeros; pointers are to sets that live.
    let before = unsafe {
        let (mut held, mut before): (libc::sigset_t, libc::sigset_t) = (mem::zeroed(), mem::zeroed());
        libc::sigemptyset(&mut held);
        signals.iter().for_each(|signal| {
            libc::sigaddset(&mut held, *signal);
        });
        let is_held = libc::pthread_sigmask(libc::SIG_BLOCK, &held, &mut before) == 0;
        is_held.then_some(before)
    };
    let done = work();
    if let Some(before) = before {
        // SAFETY: the set is what the call above has filled.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut()) };
    }
    done
}

/// Whether this process was started with a signal ignored, as far as the system tells.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
