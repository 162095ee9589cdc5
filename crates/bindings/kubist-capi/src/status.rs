//! The status of a call, and the message of the last error on this thread.

use std::cell::RefCell;
use std::ffi::{c_char, CStr};
use std::panic::{catch_unwind, AssertUnwindSafe};

use kubist::ErrorKind;
use kubist_insitu::{Failure, Result};

use crate::floats::Quiet;

/// The status of a call, by what the caller can do. kubist_message has details.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KubistStatus {
    Ok = 0,
    /// Fix the input and call again; nothing was written.
    InvalidInput = 1,
    /// Stored bytes are damaged.
    Corrupt = 2,
    /// The storage does not respond, or an operation failed: try again.
    Unavailable = 3,
    /// The disk or the quota is full: free space.
    NoSpace = 4,
    /// The user lacks permission.
    Permission = 5,
    /// Another process holds it, or the timeout passed: wait, and call again.
    Busy = 6,
    /// The handle is no longer valid: close it and open a new one.
    Expired = 7,
    /// A callback stopped it.
    Cancelled = 8,
    /// This version of Kubist does not support it.
    Unsupported = 9,
    /// There is no table at this location.
    NotFound = 10,
    /// Something already exists at this location.
    Exists = 11,
    /// A bug in Kubist: report it.
    Internal = 12,
    /// A partial copy does not hold the data: fetch it, or ask for less.
    NotHere = 13,
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
            ErrorKind::NotHere => KubistStatus::NotHere,
            _ => KubistStatus::Internal,
        }
    }
}

const LONGEST: usize = 8192;

thread_local! {
    /// The last message and a zero byte. The buffer never moves, so earlier pointers stay valid.
    static MESSAGE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

fn keep(message: &mut Vec<u8>, text: &str) {
    let end = (0..=LONGEST.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    message.clear();
    message.reserve_exact(LONGEST + 1);
    message.extend_from_slice(&text.as_bytes()[..end]);
    message.push(0);
}

pub fn failed(failure: &Failure) -> KubistStatus {
    let text = failure.message.replace('\0', " ");
    // A thread that ends may have lost its message, which nobody can read then.
    let _ = MESSAGE.try_with(|message| keep(&mut message.borrow_mut(), &text));
    KubistStatus::of(failure.kind)
}

pub fn ended(call: impl FnOnce() -> Result<()>) -> KubistStatus {
    let _quiet = Quiet::now();
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => KubistStatus::Ok,
        Ok(Err(failure)) => failed(&failure),
        Err(panic) => failed(&bug(&*panic)),
    }
}

pub fn bug(panic: &(dyn std::any::Any + Send)) -> Failure {
    let said = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    let said = said.unwrap_or("no message");
    Failure::new(ErrorKind::Internal, format!("a bug in Kubist stopped this call: {said}"))
}

/// The body of an interface function, a Result; no panic leaves it.
macro_rules! guarded {
    ($body:block) => {
        $crate::status::ended(|| $body)
    };
}
pub(crate) use guarded;

/// The message of the last failed call on this thread, with table, column and value; empty if no call failed.
/// It is valid until another call on this thread fails.
#[no_mangle]
pub extern "C" fn kubist_message() -> *const c_char {
    let empty: &'static CStr = Default::default();
    let kept = |message: &Vec<u8>| if message.is_empty() { empty.as_ptr() } else { message.as_ptr().cast() };
    MESSAGE.try_with(|message| kept(&message.borrow())).unwrap_or(empty.as_ptr())
}

/// The name of a status, such as "invalid_input". Do not free it.
#[no_mangle]
pub extern "C" fn kubist_status_name(status: i32) -> *const c_char {
    const NAMES: [&[u8]; 15] = [
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
        b"not_here\0",
        b"unknown\0",
    ];
    let index = usize::try_from(status).unwrap_or(NAMES.len()).min(NAMES.len() - 1);
    NAMES[index].as_ptr().cast()
}
