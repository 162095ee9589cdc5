//! Ctrl-C: the first asks the running call to stop, the second stops at once.
//!
//! Stopping is always safe: a commit is there whole or not at all, and output
//! files get their name only when they are whole.

use std::thread;

use kubist::Cancel;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure::Kind;

/// A switch that the first SIGINT or SIGTERM sets.
pub fn cancel_on_signals() -> Cancel {
    let cancel = Cancel::default();
    // Without handlers the signals end the process, which is safe as well.
    if let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) {
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
