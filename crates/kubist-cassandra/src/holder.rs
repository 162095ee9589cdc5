//! Who holds a log, as a text: enough to see, on the same machine, that a process is dead.

use std::fs;
use std::io::ErrorKind;

use uuid::Uuid;

use crate::process::Process;

/// A holder: this machine since it was booted, the namespace of process numbers, the
/// process, when it began, and a number of this handle's own.
#[derive(Clone, Debug)]
pub struct Holder(String);

impl Holder {
    /// A new one, of this process.
    pub fn new(here: &Process) -> Holder {
        let process = std::process::id();
        let text = format!("{} {process} {} {}", machine(), began(process).unwrap_or_default(), Uuid::new_v4());
        here.holders().insert(text.clone());
        Holder(text)
    }

    /// From here on it counts as dead.
    pub fn end(&self, here: &Process) {
        here.holders().remove(&self.0);
    }

    pub fn text(&self) -> &str {
        &self.0
    }

    /// Is it known to be of a process that has ended, or of a handle of this one? The text
    /// of such a handle can be found when a request was late. Of another machine's nothing
    /// is known.
    pub fn is_dead(text: &str, here: &Process) -> bool {
        let [boot, namespace, process, start, _] = text.split(' ').collect::<Vec<_>>()[..] else { return false };
        let Ok(process) = process.parse() else { return false };
        if format!("{boot} {namespace}") != machine() || boot.is_empty() || start.is_empty() {
            return false;
        }
        match began(process) {
            Some(began) if began == start => process == std::process::id() && !here.holders().contains(text),
            Some(_) => true,
            None => is_gone(process),
        }
    }
}

/// What tells machines apart, containers included; empty where the system does not say.
fn machine() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{} {}", boot.trim(), namespace.display().to_string().replace(' ', ""))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dead_are_known_and_the_living_are_not_taken_for_dead() {
        let here = Process::here().unwrap();
        let me = Holder::new(here);
        assert!(!Holder::is_dead(me.text(), here));
        me.end(here);
        assert!(Holder::is_dead(me.text(), here));
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let start = began(child.id()).unwrap();
        let text = format!("{} {} {start} x", machine(), child.id());
        assert!(!Holder::is_dead(&text, here));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(Holder::is_dead(&text, here));
        // The number is used again by another.
        assert!(Holder::is_dead(&format!("{} {} 1 x", machine(), std::process::id()), here));
        for text in ["", "somebody", "other-boot pid:[1] 1 1 x", "  1 1 x"] {
            assert!(!Holder::is_dead(text, here), "{text}");
        }
    }
}
