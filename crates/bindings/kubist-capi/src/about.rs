//! Which library this is.

use std::ffi::{c_char, CString};
use std::sync::OnceLock;

/// Counts the changes that old programs cannot live with. The library's file name has it too.
pub const KUBIST_ABI_VERSION: u32 = 1;

/// The version of the ABI of this library: compare it with KUBIST_ABI_VERSION of the header.
#[no_mangle]
pub extern "C" fn kubist_abi_version() -> u32 {
    KUBIST_ABI_VERSION
}

/// The version of Kubist, as "0.1.0". It is never freed.
#[no_mangle]
pub extern "C" fn kubist_version() -> *const c_char {
    static VERSION: OnceLock<CString> = OnceLock::new();
    VERSION.get_or_init(|| CString::new(env!("CARGO_PKG_VERSION")).unwrap_or_default()).as_ptr()
}
