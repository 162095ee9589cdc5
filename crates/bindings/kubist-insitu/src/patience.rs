//! How long a call may wait, and who may stop it.

use std::time::{Duration, Instant};

use kubist::ErrorKind;

use crate::failure::{Failure, Result};

/// Between two looks at what is waited for: short at first, for a rank that waits for memory
/// which another process is just emptying.
const SHORTEST: Duration = Duration::from_micros(20);
const LONGEST: Duration = Duration::from_millis(2);

/// The end of a wait, and a question that is asked meanwhile, on the caller's own thread:
/// whether to stop.
pub struct Patience<'a> {
    timeout: Duration,
    deadline: Option<Instant>,
    stop: &'a dyn Fn() -> bool,
}

impl<'a> Patience<'a> {
    pub fn new(timeout: Duration, stop: &'a dyn Fn() -> bool) -> Patience<'a> {
        Patience { timeout, deadline: Instant::now().checked_add(timeout), stop }
    }

    /// Time that is left; a long one if there is no end.
    pub fn left(&self) -> Duration {
        self.deadline.map_or(Duration::from_secs(3600), |end| end.saturating_duration_since(Instant::now()))
    }

    /// Whether to go on waiting for `what`.
    ///
    /// # Errors
    ///
    /// `Busy` at the deadline, `Cancelled`.
    pub fn check(&self, what: &dyn Fn() -> String) -> Result<()> {
        if (self.stop)() {
            return Err(Failure::new(ErrorKind::Cancelled, format!("cancelled while waiting for {}", what())));
        }
        match self.left().is_zero() {
            true => {
                let seconds = self.timeout.as_secs_f64();
                Err(Failure::new(ErrorKind::Busy, format!("{} did not happen within {seconds} s", what())))
            }
            false => Ok(()),
        }
    }

    /// Waits until `ready` has an answer; looks at it more and more seldom.
    ///
    /// # Errors
    ///
    /// As of [`Patience::check`], and what `ready` says.
    pub fn poll<T>(&self, what: &dyn Fn() -> String, mut ready: impl FnMut() -> Result<Option<T>>) -> Result<T> {
        let mut pause = SHORTEST;
        loop {
            if let Some(answer) = ready()? {
                return Ok(answer);
            }
            self.check(what)?;
            std::thread::sleep(pause.min(self.left()));
            pause = (pause * 2).min(LONGEST);
        }
    }
}
