//! Reports background events to the solver's log.

use std::ffi::{c_char, c_void, CString};
use std::sync::{Mutex, PoisonError};

use kubist_insitu::Level;

/// The severity of an event.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KubistLevel {
    Info = 0,
    Warning = 1,
    Error = 2,
}

/// Receives a KubistLevel and a message that is valid during the call.
pub type KubistLog = Option<unsafe extern "C" fn(user: *mut c_void, level: i32, message: *const c_char)>;

#[derive(Clone, Copy)]
struct Listener(KubistLog, *mut c_void);

// SAFETY: it is only called, and the caller permits calls on any thread that calls Kubist.
unsafe impl Send for Listener {}

static LISTENER: Mutex<Listener> = Mutex::new(Listener(None, std::ptr::null_mut()));

/// Reports events of all writers of this process to `callback`: durable steps, waiting calls, and steps that
/// were not written. Null removes it.
#[no_mangle]
pub unsafe extern "C" fn kubist_set_log(callback: KubistLog, user: *mut c_void) {
    *LISTENER.lock().unwrap_or_else(PoisonError::into_inner) = Listener(callback, user);
}

pub fn tell(events: Vec<(Level, String)>) {
    let Listener(callback, user) = *LISTENER.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(callback) = callback else { return };
    for (level, event) in events {
        let level = match level {
            Level::Info => KubistLevel::Info,
            Level::Warning => KubistLevel::Warning,
            Level::Error => KubistLevel::Error,
        };
        let event = CString::new(event.replace('\0', " ")).unwrap_or_default();
        // SAFETY: the caller of kubist_set_log provided a function of this type.
        unsafe { callback(user, level as i32, event.as_ptr()) };
    }
}
