//! Conversion between Java and Rust: byte arrays, JSON, and errors as exceptions.

use std::panic::{AssertUnwindSafe, catch_unwind};

use jni_sys::{JNIEnv, jbyteArray, jclass, jint, jvalue};
use kubist::{Error, ErrorKind};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub type Env = *mut JNIEnv;

macro_rules! vm {
    ($env:expr, $name:ident $(, $argument:expr)*) => {
        ((**$env).v1_6.$name)($env $(, $argument)*)
    };
}

#[derive(Debug)]
pub struct Failure {
    /// The ordinal of the kind in Java's `KubistException.Kind`.
    number: jint,
    pub message: String,
}

pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Failure {
        Failure { number: number(kind), message: message.into() }
    }

    pub fn invalid(message: impl Into<String>) -> Failure {
        Failure::new(ErrorKind::InvalidInput, message)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let failure = Failure::new(error.kind(), error.to_string());
        match error {
            Error::Replaced { .. } => Failure { number: REPLACED, ..failure },
            _ => failure,
        }
    }
}

const REPLACED: jint = 12;

fn number(kind: ErrorKind) -> jint {
    match kind {
        ErrorKind::InvalidInput => 0,
        ErrorKind::Corrupt => 1,
        ErrorKind::Unavailable => 2,
        ErrorKind::NoSpace => 3,
        ErrorKind::Permission => 4,
        ErrorKind::Busy => 5,
        ErrorKind::Expired => 6,
        ErrorKind::Cancelled => 7,
        ErrorKind::Unsupported => 8,
        ErrorKind::NotFound => 9,
        ErrorKind::Exists => 10,
        ErrorKind::NotHere => 13,
        _ => 11,
    }
}

/// Throws a Java exception after an error or a panic, and returns `none`.
pub fn ended<T>(env: Env, none: T, call: impl FnOnce() -> Result<T>) -> T {
    let failure = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => return value,
        Ok(Err(failure)) => failure,
        Err(panic) => {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            Failure::new(ErrorKind::Internal, format!("a bug in Kubist stopped this call: {said}"))
        }
    };
    // SAFETY: the virtual machine passes the calling thread's `env`.
    unsafe { throw(env, &failure) };
    none
}

/// Throws a `KubistException`; if that fails, another exception is already pending.
///
/// # Safety
///
/// `env` belongs to this thread.
unsafe fn throw(env: Env, failure: &Failure) {
    // SAFETY: names end with a zero byte, and every result is checked before use.
    unsafe {
        let class = vm!(env, FindClass, c"org/kubist/KubistException".as_ptr());
        if class.is_null() {
            return;
        }
        let signature = c"(I[B)Lorg/kubist/KubistException;";
        let make = vm!(env, GetStaticMethodID, class, c"of".as_ptr(), signature.as_ptr());
        let message = to_java(env, failure.message.as_bytes());
        if make.is_null() || message.is_null() {
            return;
        }
        let arguments = [jvalue { i: failure.number }, jvalue { l: message }];
        let thrown = vm!(env, CallStaticObjectMethodA, class, make, arguments.as_ptr());
        if !thrown.is_null() {
            vm!(env, Throw, thrown);
        }
    }
}

/// A new byte array; null with a pending exception if memory is short.
///
/// # Safety
///
/// `env` belongs to this thread.
unsafe fn to_java(env: Env, bytes: &[u8]) -> jbyteArray {
    let Ok(length) = jint::try_from(bytes.len()) else { return std::ptr::null_mut() };
    // SAFETY: guaranteed by the caller; the array is as long as the copied bytes.
    unsafe {
        let array = vm!(env, NewByteArray, length);
        if !array.is_null() {
            vm!(env, SetByteArrayRegion, array, 0, length, bytes.as_ptr().cast());
        }
        array
    }
}

/// # Errors
///
/// `NoSpace` for more bytes than an array can hold.
///
/// # Safety
///
/// `env` belongs to this thread.
pub unsafe fn hand_out(env: Env, text: &str) -> Result<jbyteArray> {
    if jint::try_from(text.len()).is_err() {
        return Err(Failure::new(ErrorKind::NoSpace, format!("a result of {} bytes exceeds a Java array", text.len())));
    }
    // SAFETY: guaranteed by the caller.
    Ok(unsafe { to_java(env, text.as_bytes()) })
}

/// # Errors
///
/// As [`hand_out`]; `Internal` if it cannot be serialized.
///
/// # Safety
///
/// As [`hand_out`].
pub unsafe fn hand_json_out<T: Serialize>(env: Env, value: &T) -> Result<jbyteArray> {
    let text = serde_json::to_string(value).map_err(|error| Failure::new(ErrorKind::Internal, error.to_string()))?;
    // SAFETY: guaranteed by the caller.
    unsafe { hand_out(env, &text) }
}

/// # Errors
///
/// `Invalid` if the text of the argument `what` is null or not UTF-8.
///
/// # Safety
///
/// `env` belongs to this thread, and `array` is null or a byte array.
pub unsafe fn text(env: Env, what: &str, array: jbyteArray) -> Result<String> {
    if array.is_null() {
        return Err(Failure::invalid(format!("{what} is null")));
    }
    // SAFETY: the buffer is as long as the array.
    let bytes = unsafe {
        let length = vm!(env, GetArrayLength, array);
        let mut bytes = vec![0u8; usize::try_from(length).unwrap_or_default()];
        vm!(env, GetByteArrayRegion, array, 0, length, bytes.as_mut_ptr().cast());
        bytes
    };
    String::from_utf8(bytes).map_err(|error| Failure::invalid(format!("{what} is not UTF-8: {error}")))
}

/// # Errors
///
/// `Invalid` names the unknown or wrong field.
///
/// # Safety
///
/// As [`text`].
pub unsafe fn json<T: DeserializeOwned>(env: Env, what: &str, array: jbyteArray) -> Result<T> {
    // SAFETY: guaranteed by the caller.
    let text = unsafe { text(env, what, array) }?;
    serde_json::from_str(&text).map_err(|error| Failure::invalid(format!("{what}: {error}")))
}

/// Unused.
pub type Class = jclass;
