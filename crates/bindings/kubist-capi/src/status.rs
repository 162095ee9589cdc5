//! How a call ended: a status, and the message of the last failure on this thread.

use std::cell::RefCell;
use std::ffi::{c_char, CStr};
use std::panic::{catch_unwind, AssertUnwindSafe};

use kubist::ErrorKind;
use kubist_insitu::{Failure, Result};

use crate::floats::Quiet;

/// How a call ended: what the caller can do about it. kubist_message says more.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KubistStatus {
    Ok = 0,
    /// Fix the input and call again; nothing was written.
    InvalidInput = 1,
    /// Stored bytes are not what was written.
    Corrupt = 2,
    /// The storage does not answer, or an operation of it failed: try again.
    Unavailable = 3,
    /// The disk or the quota is full: make room.
    NoSpace = 4,
    /// Who runs this may not do that.
    Permission = 5,
    /// Someone else holds it, or it did not happen in time: wait, and call again.
    Busy = 6,
    /// A handle that cannot be used any more: close it and open a new one.
    Expired = 7,
    /// A callback stopped it.
    Cancelled = 8,
    /// This version of Kubist cannot do it.
    Unsupported = 9,
    /// There is no table here.
    NotFound = 10,
    /// Something is already here.
    Exists = 11,
    /// A mistake in Kubist itself: report it.
    Internal = 12,
}

impl KubistStatus {
    fn of(kind: ErrorKind) -> KubistStatus {
        match kind {
            ErrorKind::InvalidInput => KubistStatus::InvalidInput,
            ErrorKind::Corrupt => KubistStatus::Corrupt,
            ErrorKind::Unavailable => KubistStatus::Unavailable,
            ErrorKind::NoSpace => KubistStatus::NoSpace,
            ErrorKind::Permission => KubistStatus::Permission,
            ErrorKind::Busy => KubistStatus::Busy,
            ErrorKind::Expired => KubistStatus::Expired,
            ErrorKind::Cancelled => KubistStatus::Cancelled,
            ErrorKind::Unsupported => KubistStatus::Unsupported,
            ErrorKind::NotFound => KubistStatus::NotFound,
            ErrorKind::Exists => KubistStatus::Exists,
            _ => KubistStatus::Internal,
        }
    }
}

/// Bytes of a message.
const LONGEST: usize = 8192;

thread_local! {
    /// The bytes of the last message and a zero, always in the same place: a pointer to an earlier
    /// one stays one to text.
    static MESSAGE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Keeps a message, as much of it as there is room for.
fn keep(message: &mut Vec<u8>, text: &str) {
    let end = (0..=LONGEST.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    message.clear();
    message.reserve_exact(LONGEST + 1);
    message.extend_from_slice(&text.as_bytes()[..end]);
    message.push(0);
}

/// Keeps the message of a failure for this thread, and gives its status.
pub fn failed(failure: &Failure) -> KubistStatus {
    let text = failure.message.replace('\0', " ");
    // At the end of a thread its message is gone: then nobody asks for it.
    let _ = MESSAGE.try_with(|message| keep(&mut message.borrow_mut(), &text));
    KubistStatus::of(failure.kind)
}

/// The status of a call whose panic and floating-point exceptions, if it had any, end here.
pub fn ended(call: impl FnOnce() -> Result<()>) -> KubistStatus {
    let _quiet = Quiet::now();
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => KubistStatus::Ok,
        Ok(Err(failure)) => failed(&failure),
        Err(panic) => failed(&bug(&*panic)),
    }
}

/// A panic as a failure.
pub fn bug(panic: &(dyn std::any::Any + Send)) -> Failure {
    let said = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    let said = said.unwrap_or("no message");
    Failure::new(ErrorKind::Internal, format!("a bug in Kubist stopped this call: {said}"))
}

/// The body of a function of the interface: gives a Result, and no panic leaves it.
macro_rules! guarded {
    ($body:block) => {
        $crate::status::ended(|| $body)
    };
}
pub(crate) use guarded;

/// Why the last call that failed on this thread did: names the table, the column, the value. Empty
/// if none has. It stays as it is until another call on this thread fails.
#[no_mangle]
pub extern "C" fn kubist_message() -> *const c_char {
    let empty: &'static CStr = Default::default();
    let kept = |message: &Vec<u8>| if message.is_empty() { empty.as_ptr() } else { message.as_ptr().cast() };
    MESSAGE.try_with(|message| kept(&message.borrow())).unwrap_or(empty.as_ptr())
}

/// A status in words, as "invalid_input". It is never freed.
#[no_mangle]
pub extern "C" fn kubist_status_name(status: i32) -> *const c_char {
    const NAMES: [&[u8]; 14] = [
        b"ok\0",
        b"invalid_input\0",
        b"corrupt\0",
        b"unavailable\0",
        b"no_space\0",
        b"permission\0",
        b"busy\0",
        b"expired\0",
        b"cancelled\0",
        b"unsupported\0",
        b"not_found\0",
        b"exists\0",
        b"internal\0",
        b"unknown\0",
    ];
    let index = usize::try_from(status).unwrap_or(NAMES.len()).min(NAMES.len() - 1);
    NAMES[index].as_ptr().cast()
}
