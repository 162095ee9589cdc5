//! Text that crosses: names and JSON in, JSON out.

use std::ffi::{c_char, CStr, CString};

use kubist::ErrorKind;
use kubist_insitu::{Failure, Result};
use serde::de::DeserializeOwned;
use serde::Serialize;

/// Text that must be there; `what` names the argument.
///
/// # Safety
///
/// It is null, or ends with a zero byte.
pub unsafe fn text<'a>(what: &str, pointer: *const c_char) -> Result<&'a str> {
    // SAFETY: as the caller promises.
    match unsafe { maybe_text(what, pointer) }? {
        Some(text) => Ok(text),
        None => Err(Failure::invalid(format!("{what} is null"))),
    }
}

/// The same, if it is there.
///
/// # Safety
///
/// As of [`text`].
pub unsafe fn maybe_text<'a>(what: &str, pointer: *const c_char) -> Result<Option<&'a str>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller promises.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map(Some).map_err(|error| Failure::invalid(format!("{what} is not UTF-8: {error}")))
}

/// What JSON text says; null and "" say nothing, and the defaults stand.
///
/// # Safety
///
/// As of [`text`].
pub unsafe fn json<T: DeserializeOwned>(what: &str, pointer: *const c_char) -> Result<T> {
    // SAFETY: as the caller promises.
    let text = unsafe { maybe_text(what, pointer) }?.unwrap_or_default();
    let text = if text.trim().is_empty() { "{}" } else { text };
    serde_json::from_str(text).map_err(|error| Failure::invalid(format!("{what}: {error}")))
}

/// Hands JSON out, for kubist_string_free.
///
/// # Safety
///
/// `out` is null or can be written.
pub unsafe fn hand_out<T: Serialize>(out: *mut *mut c_char, value: &T) -> Result<()> {
    let internal = |error: String| Failure::new(ErrorKind::Internal, error);
    let text = serde_json::to_string(value).map_err(|error| internal(error.to_string()))?;
    let text = CString::new(text).map_err(|error| internal(error.to_string()))?;
    // SAFETY: as the caller promises.
    unsafe { set(out, "the place for the answer", text.into_raw()) }
}

/// Writes to where the caller wants an answer.
///
/// # Safety
///
/// `out` is null or can be written.
pub unsafe fn set<T>(out: *mut T, what: &str, value: T) -> Result<()> {
    if out.is_null() {
        return Err(Failure::invalid(format!("{what} is null")));
    }
    // SAFETY: as the caller promises.
    unsafe { out.write(value) };
    Ok(())
}

/// Frees text that a call handed out. Null is fine.
#[no_mangle]
pub unsafe extern "C" fn kubist_string_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: it was handed out by `hand_out`.
        drop(unsafe { CString::from_raw(text) });
    }
}
