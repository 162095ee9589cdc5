//! Identifies processes, and detects whether another process still runs.
//!
//! A zombie keeps its process id, and a new process may reuse one, so start time and PID namespace complete the
//! identity.

use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kubist::ErrorKind;
use rustix::process::{Pid, getpid, test_kill_process};

use crate::failure::{Failure, Result};

/// Interval between checks of a process; each reads a file.
const LOOK: Duration = Duration::from_millis(20);

/// Zero if the system provides no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    pub number: u32,
    pub born: u64,
    /// Its PID namespace; containers can have their own.
    pub space: u64,
}

impl Process {
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

fn born(number: u32) -> Option<u64> {
    let told = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    // The second field, a name in parentheses, may contain any character.
    let mut fields = told.get(told.rfind(')')? + 1..)?.split_ascii_whitespace();
    let state = fields.next()?;
    // The state is field 3, the start time field 22.
    fields.nth(18)?.parse().ok().filter(|_| !matches!(state, "Z" | "X"))
}

pub struct Watched {
    process: Process,
    is_visible: bool,
    since: Instant,
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

    /// Checked at most once per [`LOOK`].
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

/// The process with an object's threads, which a fork lacks.
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
                let message = format!("it belongs to process {}: a fork must open the table again", self.0);
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
        // The end of a process in another namespace cannot be detected.
        let elsewhere = Process { born: here.born + 1, space: here.space + 1, ..here };
        assert!(!Watched::new(elsewhere).is_visible && !Watched::new(elsewhere).is_gone());
    }
}
