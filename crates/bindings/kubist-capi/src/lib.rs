//! Kubist for C, and with it for C++ and Fortran.
//!
//! Every function catches panics, raises no floating-point exceptions, returns a [`KubistStatus`](status::KubistStatus) and leaves its
//! message to `kubist_message`. Options and questions are JSON text, so that new ones change no
//! function. Structs that cross begin with their size, so that they can grow. Callbacks are
//! called on the thread that called Kubist, never on another.
//!
//! `include/kubist.h` is made of this crate by cbindgen (`make header`); a test compares them.
//! [`about::KUBIST_ABI_VERSION`] counts the changes that old programs cannot live with.

// What the functions ask of pointers is said once, here: each is null, or leads to what its
// type says for the time of the call; text ends with a zero byte; a handle is one that was
// given out and not closed.
#![allow(clippy::missing_safety_doc)]

mod about;
mod arrow;
mod floats;
mod hooks;
mod log;
mod options;
mod question;
mod ring;
mod share;
mod status;
mod table;
mod text;
mod writer;
