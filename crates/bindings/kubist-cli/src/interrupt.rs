//! Ctrl-C: the first one cancels the running call, the second one exits at once. Both are safe, because commits
//! become visible as a whole and output files get their name when complete.

use std::{mem, ptr, thread};

use kubist::Cancel;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure::Kind;

/// A switch that the first SIGINT or SIGTERM sets; SIGINT stays ignored if the parent process ignores it.
pub fn cancel_on_signals() -> Cancel {
    let cancel = Cancel::default();
    // Without handlers the signals end the process, which is also safe.
    let heeded = if is_ignored(SIGINT) { &[SIGTERM][..] } else { &[SIGINT, SIGTERM] };
    // A signal before its handler is registered would be lost.
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

fn held_back<T>(signals: &[i32], work: impl FnOnce() -> T) -> T {
    // SAFETY: `sigemptyset` initialises the zeroed sets; all pointers are to live sets.
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
        // SAFETY: the call above filled this set.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut()) };
    }
    done
}

/// True if this process was started with the signal ignored (Linux; false elsewhere).
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
