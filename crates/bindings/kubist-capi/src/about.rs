use std::ffi::{c_char, CString};
use std::sync::OnceLock;

/// The ABI version, which increases with each incompatible change and is part of the library's file name.
pub const KUBIST_ABI_VERSION: u32 = 1;

/// The ABI version of this library; KUBIST_ABI_VERSION is that of the header.
#[no_mangle]
pub extern "C" fn kubist_abi_version() -> u32 {
    KUBIST_ABI_VERSION
}

/// The version of Kubist, such as "0.1.0". Do not free it.
#[no_mangle]
pub extern "C" fn kubist_version() -> *const c_char {
    static VERSION: OnceLock<CString> = OnceLock::new();
    VERSION.get_or_init(|| CString::new(env!("CARGO_PKG_VERSION")).unwrap_or_default()).as_ptr()
}
