//! Kubist for the Java virtual machine: the native half of `org.kubist` in `spark/core`.
//!
//! Java's class `org.kubist.Native` declares these functions and is their only caller. Text crosses
//! as UTF-8 in byte arrays, options and questions as JSON, batches through Arrow's C data
//! interface. A handle is a number: one that was closed is refused, never followed. A failure
//! becomes a `KubistException` of its kind, and so does a panic.

mod batches;
mod handles;
mod jvm;
mod place;
mod plain;
mod question;
mod staged;
mod table;
mod writer;

#[global_allocator]
static ALLOCATOR: kubist_memory::Allocator = kubist_memory::Allocator;
