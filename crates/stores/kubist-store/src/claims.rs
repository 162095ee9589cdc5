//! Claims: how a log is kept to one owner where no lock reaches every machine.
//!
//! A lock ends with its process and is known to one machine. A claim is a record that all
//! machines see. This is what every store with claims has in common
//! ([`Fencing::Claim`](crate::Fencing)):
//!
//! - **A claim is a courtesy.** It says who is at work ([`Holder`]), is renewed every
//!   [`RENEWAL`], and lapses if it was not for [`LAPSE`], measured by the clock of whoever waits
//!   for it, or by the store's own. Clocks of two machines are never compared.
//! - **A number fences.** Each taking of a log puts a record under a number of the log itself, if
//!   it is free: from then on no entry of an earlier owner gets a number. An owner that was
//!   stopped, declared dead and wakes up finds its next number taken, and is refused for ever.
//!   So it does no harm when two believe that they hold the claim.
//! - **Whoever is dead on this machine is known to be** ([`life`]): its claim is taken at once.
//!
//! [`conformance::claims`](crate::conformance::claims) holds every such store to it.

use std::collections::HashSet;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::ErrorKind;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// For how long a claim stands that is not renewed.
pub const LAPSE: Duration = Duration::from_secs(30);

/// How often an owner renews its claim: twice may fail before it lapses.
pub const RENEWAL: Duration = Duration::from_secs(10);

/// What is known of whoever holds a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// It is at work on this machine.
    Alive,
    /// It has ended, or has given up the claim.
    Ended,
    /// It is on another machine, or cannot be looked at.
    Unknown,
}

/// A holder: a process, as its machine knows it, and a number of this handle's own.
#[derive(Clone, Debug)]
pub struct Holder(String);

impl Holder {
    /// A new one of a process, as [`this_process`] names it.
    pub fn new(process: &str) -> Holder {
        let text = format!("{process} {:016x}", unique());
        holders().insert(text.clone());
        Holder(text)
    }

    /// From here on it counts as ended.
    pub fn end(&self) {
        holders().remove(&self.0);
    }

    /// What a claim says.
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// Is it a holder of this process that has not ended?
pub fn is_held_here(text: &str) -> bool {
    holders().contains(text)
}

/// This process: its machine since it was booted, its number, and when it began.
pub fn this_process() -> String {
    let process = std::process::id();
    format!("{} {process} {}", machine(), began(process).unwrap_or_default())
}

/// What is known of the holder with this text. The text of a handle of this process that has
/// ended can be found when a request was late.
pub fn life(text: &str) -> Life {
    let [host, process, start, _] = text.split(' ').collect::<Vec<_>>()[..] else { return Life::Unknown };
    let Ok(process) = process.parse() else { return Life::Unknown };
    if host != machine() || start.is_empty() {
        return Life::Unknown;
    }
    match began(process) {
        Some(began) if began == start && process == std::process::id() && !is_held_here(text) => Life::Ended,
        Some(began) if began == start => Life::Alive,
        Some(_) => Life::Ended,
        None if is_gone(process) => Life::Ended,
        None => Life::Unknown,
    }
}

/// A number that no other call, here or anywhere, is likely to give.
pub(crate) fn unique() -> u64 {
    // The standard library seeds every `RandomState` from the system's randomness and then
    // counts; the process tells forked children apart.
    RandomState::new().hash_one(std::process::id())
}

/// What tells machines apart, containers included: digits of the number that the system was
/// booted with, and the namespace of processes. Empty where the system does not say.
fn machine() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = boot.chars().filter(char::is_ascii_hexdigit).take(16).collect();
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    match digits.is_empty() {
        true => digits,
        false => format!("{digits}{:08x}", crc32c::crc32c(namespace.as_os_str().as_encoded_bytes())),
    }
}

/// Has a process ended for which [`began`] has nothing? One that the system hides from us is
/// another user's, and may live.
fn is_gone(process: u32) -> bool {
    match fs::read_to_string(format!("/proc/{process}/stat")) {
        // It only waits to be buried.
        Ok(_) => true,
        // Process 1 is always there: a process that does not see it does not see others.
        Err(error) if error.kind() == ErrorKind::NotFound => fs::exists("/proc/1").unwrap_or(false),
        Err(_) => false,
    }
}

/// When a process began, in the system's ticks since it was booted; `None` if there is none.
fn began(process: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in brackets, may hold anything. A process that only waits to be buried is dead.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    fields.nth(18).filter(|_| !matches!(state, "Z" | "X")).map(str::to_owned)
}

/// The holders of one process. A forked child makes its own: another thread may have held the
/// lock of its parent's.
struct Holders {
    process: u32,
    texts: Mutex<HashSet<String>>,
}

static HOLDERS: AtomicPtr<Holders> = AtomicPtr::new(null_mut());

/// The holders that handles of this process have.
fn holders() -> MutexGuard<'static, HashSet<String>> {
    let process = std::process::id();
    let known = HOLDERS.load(Ordering::Acquire);
    // SAFETY: the pointer is null or came out of a box that is never freed.
    if let Some(holders) = unsafe { known.as_ref() }.filter(|holders| holders.process == process) {
        return holders.texts.lock().unwrap_or_else(PoisonError::into_inner);
    }
    let made = Box::into_raw(Box::new(Holders { process, texts: Mutex::default() }));
    let holders: &'static Holders = match HOLDERS.compare_exchange(known, made, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: published now, so never freed.
        Ok(_) => unsafe { &*made },
        Err(other) => {
            // SAFETY: no other thread has seen it; and what another thread of this process
            // published is never freed.
            unsafe {
                drop(Box::from_raw(made));
                &*other
            }
        }
    };
    holders.texts.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dead_are_known_and_the_living_are_not_taken_for_dead() {
        let me = Holder::new(&this_process());
        assert_eq!(life(me.text()), Life::Alive);
        me.end();
        assert_eq!(life(me.text()), Life::Ended);
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let text = format!("{} {} {} x", machine(), child.id(), began(child.id()).unwrap());
        assert_eq!(life(&text), Life::Alive);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(life(&text), Life::Ended);
        // The number is used again by another.
        assert_eq!(life(&format!("{} {} 1 x", machine(), std::process::id())), Life::Ended);
        for text in ["", "somebody", "0123456789abcdef 1 1 x", "  1 1 x"] {
            assert_eq!(life(text), Life::Unknown, "{text}");
        }
    }
}
