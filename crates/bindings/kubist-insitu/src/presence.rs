//! Which process something belongs to, and whether another process is still there.
//!
//! A number alone does not say: an ended process that nobody has waited for keeps it, and a new
//! one may get it. A process tells its time of birth and its space of numbers beside it.

use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kubist::ErrorKind;
use rustix::process::{Pid, getpid, test_kill_process};

use crate::failure::{Failure, Result};

/// Between two looks at another process: a look reads a file.
const LOOK: Duration = Duration::from_millis(20);

/// What a process says of itself; zeros where the system does not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    pub number: u32,
    /// When it was born, in ticks since the system was.
    pub born: u64,
    /// The space that its number is of: another container may have one of its own.
    pub space: u64,
}

impl Process {
    /// This process.
    pub fn here() -> Process {
        let number = getpid().as_raw_nonzero().get() as u32;
        let space = std::fs::metadata("/proc/self/ns/pid").map_or(0, |space| space.ino());
        Process { number, born: born(number).unwrap_or(0), space }
    }

    fn is_there(&self) -> bool {
        match self.born {
            0 => Pid::from_raw(self.number as i32).is_some_and(|pid| test_kill_process(pid).is_ok()),
            born_then => born(self.number) == Some(born_then),
        }
    }
}

/// When a process was born, if it is one that has not ended.
fn born(number: u32) -> Option<u64> {
    let told = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    // The second field is a name in parentheses, which may have any character.
    let mut fields = told.get(told.rfind(')')? + 1..)?.split_ascii_whitespace();
    let state = fields.next()?;
    // The state is the third field, the time of birth the 22nd.
    fields.nth(18)?.parse().ok().filter(|_| !matches!(state, "Z" | "X"))
}

/// Another process, as this one watches it.
pub struct Watched {
    process: Process,
    /// It can be seen from here: when it is gone, that is known.
    is_visible: bool,
    since: Instant,
    /// When it was looked for last, in milliseconds.
    looked: AtomicU64,
}

impl Watched {
    pub fn new(process: Process) -> Watched {
        let here = Process::here();
        let is_visible = match here.space {
            0 => process.is_there(),
            space => process.space == space,
        };
        Watched { process, is_visible, since: Instant::now(), looked: AtomicU64::new(0) }
    }

    pub fn number(&self) -> u32 {
        self.process.number
    }

    /// Whether it has ended; looks from time to time only.
    pub fn is_gone(&self) -> bool {
        let now = self.since.elapsed().as_millis() as u64;
        let is_early = now < self.looked.load(Ordering::Relaxed) + LOOK.as_millis() as u64;
        if !self.is_visible || is_early {
            return false;
        }
        self.looked.store(now, Ordering::Relaxed);
        !self.process.is_there()
    }
}

/// The process that has the threads of something: a fork of it has not.
pub struct Home(u32);

impl Home {
    pub fn here() -> Home {
        Home(getpid().as_raw_nonzero().get() as u32)
    }

    pub fn is_here(&self) -> bool {
        getpid().as_raw_nonzero().get() as u32 == self.0
    }

    /// # Errors
    ///
    /// `Expired` in a fork.
    pub fn check(&self) -> Result<()> {
        match self.is_here() {
            true => Ok(()),
            false => {
                let message = format!("it belongs to process {}: a fork opens the table again", self.0);
                Err(Failure::new(ErrorKind::Expired, message))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    fn child() -> Child {
        Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
    }

    fn of(number: u32) -> Process {
        Process { number, born: born(number).unwrap_or(0), ..Process::here() }
    }

    /// Ended and not waited for: its number is still taken.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_that_has_ended_is_gone_although_nobody_has_waited_for_it() {
        let mut child = child();
        let process = of(child.id());
        assert!(process.is_there() && process.born > 0);
        child.kill().unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        while process.is_there() && Instant::now() < end {
            std::thread::yield_now();
        }
        let pid = Pid::from_raw(child.id() as i32).unwrap();
        assert!(test_kill_process(pid).is_ok() && !process.is_there());
        child.wait().unwrap();
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_number_that_another_process_got_is_not_the_process() {
        let here = Process::here();
        assert!(here.is_there());
        assert!(!Process { born: here.born + 1, ..here }.is_there());
        // One of another space cannot be seen, and is never said to be gone.
        let elsewhere = Process { born: here.born + 1, space: here.space + 1, ..here };
        assert!(!Watched::new(elsewhere).is_visible && !Watched::new(elsewhere).is_gone());
    }
}
