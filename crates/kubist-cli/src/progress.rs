//! One line on the terminal that says how far a long command is.
//!
//! Drawn only when standard error is a terminal; never more than ten times a
//! second; gone when the command ends.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::human;

const REDRAW: Duration = Duration::from_millis(100);
/// A command that ends sooner shows no line at all.
const PATIENCE_SECONDS: f64 = 0.3;

pub struct Progress {
    terminal: bool,
    started: Instant,
    drawn: Option<Instant>,
}

impl Progress {
    pub fn new() -> Progress {
        Progress { terminal: std::io::stderr().is_terminal(), started: Instant::now(), drawn: None }
    }

    pub fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// `what`, then a bar, the share of `done` in `total` and the time left.
    /// `what` is only made when it will be seen.
    pub fn show(&mut self, done: u64, total: u64, what: impl FnOnce(f64) -> String) {
        let seconds = self.seconds();
        if !self.terminal || seconds < PATIENCE_SECONDS || self.drawn.is_some_and(|last| last.elapsed() < REDRAW) {
            return;
        }
        self.drawn = Some(Instant::now());
        let share = if total == 0 { 1.0 } else { (done as f64 / total as f64).min(1.0) };
        let left = if share > 0.01 && seconds > 1.0 {
            format!(", {} left", human::duration((seconds / share - seconds).max(1.0)))
        } else {
            String::new()
        };
        draw(&format!("{} {:3.0}% {}{left}", bar(share), (share * 100.0).floor(), what(seconds)));
    }

    /// One line, as it is.
    pub fn say(&mut self, line: &str) {
        if self.terminal {
            self.drawn = Some(Instant::now());
            draw(line);
        }
    }

    fn clear(&mut self) {
        if self.drawn.take().is_some() {
            draw("");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

fn draw(line: &str) {
    let mut stderr = std::io::stderr().lock();
    // A terminal that does not take the line is no reason to fail.
    let _ = write!(stderr, "\r\x1b[K{}", kubist::printable(line)).and_then(|()| stderr.flush());
}

fn bar(share: f64) -> String {
    const WIDTH: usize = 16;
    let full = (share * WIDTH as f64).round() as usize;
    format!("{}{}", "█".repeat(full), "░".repeat(WIDTH - full))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_bar_keeps_its_width() {
        for share in [0.0, 0.001, 0.5, 0.999, 1.0] {
            assert_eq!(super::bar(share).chars().count(), 16);
        }
    }
}
