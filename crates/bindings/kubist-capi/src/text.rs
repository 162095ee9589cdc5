//! Text across the interface: names and JSON in, JSON out.

use std::ffi::{c_char, CStr, CString};

use kubist::ErrorKind;
use kubist_insitu::{Failure, Result};
use serde::de::DeserializeOwned;
use serde::Serialize;

/// # Safety
///
/// The pointer is null, or ends with a zero byte.
pub unsafe fn text<'a>(what: &str, pointer: *const c_char) -> Result<&'a str> {
    // SAFETY: guaranteed by the caller.
    match unsafe { maybe_text(what, pointer) }? {
        Some(text) => Ok(text),
        None => Err(Failure::invalid(format!("{what} is null"))),
    }
}

/// # Safety
///
/// As [`text`].
pub unsafe fn maybe_text<'a>(what: &str, pointer: *const c_char) -> Result<Option<&'a str>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: guaranteed by the caller.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map(Some).map_err(|error| Failure::invalid(format!("{what} is not UTF-8: {error}")))
}

/// Null and "" give the defaults.
///
/// # Safety
///
/// As [`text`].
pub unsafe fn json<T: DeserializeOwned>(what: &str, pointer: *const c_char) -> Result<T> {
    // SAFETY: guaranteed by the caller.
    let text = unsafe { maybe_text(what, pointer) }?.unwrap_or_default();
    let text = if text.trim().is_empty() { "{}" } else { text };
    serde_json::from_str(text).map_err(|error| Failure::invalid(format!("{what}: {error}")))
}

/// For kubist_string_free.
///
/// # Safety
///
/// `out` is null or writable.
pub unsafe fn hand_out<T: Serialize>(out: *mut *mut c_char, value: &T) -> Result<()> {
    let internal = |error: String| Failure::new(ErrorKind::Internal, error);
    let text = serde_json::to_string(value).map_err(|error| internal(error.to_string()))?;
    let text = CString::new(text).map_err(|error| internal(error.to_string()))?;
    // SAFETY: guaranteed by the caller.
    unsafe { set(out, "the pointer to the result", text.into_raw()) }
}

/// # Safety
///
/// `out` is null or writable.
pub unsafe fn set<T>(out: *mut T, what: &str, value: T) -> Result<()> {
    if out.is_null() {
        return Err(Failure::invalid(format!("{what} is null")));
    }
    // SAFETY: guaranteed by the caller.
    unsafe { out.write(value) };
    Ok(())
}

/// Frees text that a call returned.
#[no_mangle]
pub unsafe extern "C" fn kubist_string_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: `hand_out` created it.
        drop(unsafe { CString::from_raw(text) });
    }
}
