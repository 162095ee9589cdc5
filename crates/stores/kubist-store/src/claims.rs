//! Claims limit a log to one owner where no lock reaches every machine.
//!
//! A claim is a record that all machines see. All stores with claims ([`Fencing::Claim`](crate::Fencing)) follow these
//! rules:
//!
//! - **A claim is advisory.** It names its [`Holder`], which renews it every [`RENEWAL`]. It lapses after [`LAPSE`]
//!   without renewal, by the clock of the waiting process or of the store. Clocks of two machines are never compared.
//! - **A fence decides** ([`Store::own_log`](crate::Store::own_log)), so two owners that both believe in their claim do
//!   no harm.
//! - **Dead processes of this machine are recognized** ([`life`]), and their claims are taken immediately.
//!
//! [`conformance::claims`](crate::conformance::claims) tests every such store.

use std::collections::HashSet;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::ErrorKind;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The lifetime of a claim that is not renewed.
pub const LAPSE: Duration = Duration::from_secs(30);

/// Two renewals may fail before the claim lapses.
pub const RENEWAL: Duration = Duration::from_secs(10);

/// The known state of a claim's holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// It runs on this machine.
    Alive,
    /// It has ended, or has given up the claim.
    Ended,
    /// It is on another machine, or its state cannot be read.
    Unknown,
}

/// Identifies the holder of a claim: its machine, process and handle.
#[derive(Clone, Debug)]
pub struct Holder(String);

impl Holder {
    /// Creates a holder for `process`, the text of [`this_process`].
    pub fn new(process: &str) -> Holder {
        let text = format!("{process} {:016x}", unique());
        holders().insert(text.clone());
        Holder(text)
    }

    /// Marks the holder as ended.
    pub fn end(&self) {
        holders().remove(&self.0);
    }

    /// The text stored in the claim.
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// Whether `text` is an active holder of this process.
pub fn is_held_here(text: &str) -> bool {
    holders().contains(text)
}

/// This process: its machine since boot, its process number and its start time.
pub fn this_process() -> String {
    let process = std::process::id();
    format!("{} {process} {}", machine(), began(process).unwrap_or_default())
}

/// The state of the holder with this text.
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

pub(crate) fn unique() -> u64 {
    // The system seeds this; the process number distinguishes forked children.
    RandomState::new().hash_one(std::process::id())
}

/// The boot id and the process namespace of the machine or container; empty if they are unavailable.
fn machine() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = boot.chars().filter(char::is_ascii_hexdigit).take(16).collect();
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    match digits.is_empty() {
        true => digits,
        false => format!("{digits}{:08x}", crc32c::crc32c(namespace.as_os_str().as_encoded_bytes())),
    }
}

/// Whether a process without a result of [`began`] has ended; a process of another user may be hidden.
fn is_gone(process: u32) -> bool {
    match fs::read_to_string(format!("/proc/{process}/stat")) {
        // A zombie has ended.
        Ok(_) => true,
        // Process 1 always exists, so if it is hidden, other processes are hidden too.
        Err(error) if error.kind() == ErrorKind::NotFound => fs::exists("/proc/1").unwrap_or(false),
        Err(_) => false,
    }
}

/// The start time in ticks since boot; `None` if the process is absent or a zombie.
fn began(process: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in brackets, may contain any character, and the states `Z` and `X` mean zombie and dead.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    fields.nth(18).filter(|_| !matches!(state, "Z" | "X")).map(str::to_owned)
}

/// The holders of this process; a forked child creates its own set, because its parent's set may be locked.
struct Holders {
    process: u32,
    texts: Mutex<HashSet<String>>,
}

static HOLDERS: AtomicPtr<Holders> = AtomicPtr::new(null_mut());

fn holders() -> MutexGuard<'static, HashSet<String>> {
    let process = std::process::id();
    let known = HOLDERS.load(Ordering::Acquire);
    // SAFETY: the pointer is null or came from a box that is never freed.
    if let Some(holders) = unsafe { known.as_ref() }.filter(|holders| holders.process == process) {
        return holders.texts.lock().unwrap_or_else(PoisonError::into_inner);
    }
    let created = Box::into_raw(Box::new(Holders { process, texts: Mutex::default() }));
    let holders: &'static Holders = match HOLDERS.compare_exchange(known, created, Ordering::AcqRel, Ordering::Acquire)
    {
        // SAFETY: published now, so never freed.
        Ok(_) => unsafe { &*created },
        Err(other) => {
            // SAFETY: no other thread has seen `created`; a set that another thread published is never freed.
            unsafe {
                drop(Box::from_raw(created));
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
        assert_eq!(life(&format!("{} {} 1 x", machine(), std::process::id())), Life::Ended);
        for text in ["", "somebody", "0123456789abcdef 1 1 x", "  1 1 x"] {
            assert_eq!(life(text), Life::Unknown, "{text}");
        }
    }
}
