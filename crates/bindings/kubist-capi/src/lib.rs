//! Kubist for C, C++ and Fortran.
//!
//! Every function catches panics, raises no floating-point exceptions, and returns a
//! [`KubistStatus`](status::KubistStatus); `kubist_message` has the message. Options and queries are JSON text,
//! so new options do not change functions. Structs begin with their size, so they can grow. Callbacks run only
//! on the thread that called Kubist.
//!
//! cbindgen generates `include/kubist.h` from this crate (`make header`); a test compares them.
//! [`about::KUBIST_ABI_VERSION`] increases with each incompatible change.

// All pointers are null, or valid for their type during the call. Text ends with a zero byte. A handle was
// returned by this library and is not closed.
#![allow(clippy::missing_safety_doc)]

mod about;
mod arrow;
mod floats;
mod hooks;
mod log;
mod options;
mod query;
mod ring;
mod share;
mod status;
mod table;
mod text;
mod writer;
