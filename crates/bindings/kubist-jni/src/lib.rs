//! Kubist for the Java virtual machine: the native part of `org.kubist` in `spark/core`.
//!
//! Only the Java class `org.kubist.Native` calls these functions, with arguments of the declared types and the
//! calling thread's `env`. Text is passed as UTF-8 in byte arrays, options and queries as JSON, batches through
//! Arrow's C data interface. A handle is a number, so a closed handle is an error and not a dangling pointer.
//! Errors and panics become a `KubistException` of their kind.

mod batches;
mod handles;
mod jvm;
mod place;
mod plain;
mod query;
mod staged;
mod table;
mod writer;

#[global_allocator]
static ALLOCATOR: kubist_memory::Allocator = kubist_memory::Allocator;
