//! Timeout and cancellation of a waiting call.

use std::time::{Duration, Instant};

use kubist::ErrorKind;

use crate::failure::{Failure, Result};

/// Short, because a rank often waits for memory that another process is just freeing.
const SHORTEST: Duration = Duration::from_micros(20);
const LONGEST: Duration = Duration::from_millis(2);

/// The callback for cancellation runs on the caller's thread.
pub struct Patience<'a> {
    timeout: Duration,
    deadline: Option<Instant>,
    stop: &'a dyn Fn() -> bool,
}

impl<'a> Patience<'a> {
    pub fn new(timeout: Duration, stop: &'a dyn Fn() -> bool) -> Patience<'a> {
        Patience { timeout, deadline: Instant::now().checked_add(timeout), stop }
    }

    /// One hour if there is no deadline.
    pub fn left(&self) -> Duration {
        self.deadline.map_or(Duration::from_secs(3600), |end| end.saturating_duration_since(Instant::now()))
    }

    /// # Errors
    ///
    /// `Busy` at the deadline, and `Cancelled`, for waiting for `what`.
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

    /// Polls `ready` at increasing intervals.
    ///
    /// # Errors
    ///
    /// As [`Patience::check`], and the errors of `ready`.
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
