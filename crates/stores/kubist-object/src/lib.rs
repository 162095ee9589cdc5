//! Kubist's store in a bucket of S3, or of another service that speaks its protocol.
//!
//! This crate keeps the promises of [`kubist_store::Store`] with what such a service has: whole
//! objects, a put that fails if the key is taken, and reads of ranges. FORMAT.md has the keys
//! and the bytes of all objects.
//!
//! What all of it rests on:
//!
//! - **A put that fails if the key is taken** (`If-None-Match: *`) decides everything: objects,
//!   entries of logs, claims, names. A server that does not keep this promise is found out when
//!   a store is made, and refused (`probe`).
//! - **Each such put has a number of its own** (`frame`), so that a put whose answer was lost can be
//!   repeated: who finds the key taken reads it and knows whether it was itself. Nothing is ever
//!   overwritten with other bytes, so every request can be repeated.
//! - **A query lists nothing.** An entry of a log is the object of its number, writers are
//!   numbered objects too, and a piece of a segment is found by its offset (`segments`).
//!
//! This crate must not know what a table is.

mod claims;
mod client;
mod contact;
mod credentials;
mod failure;
mod frame;
mod location;
mod logs;
mod objects;
mod probe;
mod process;
mod ranges;
mod road;
mod scheme;
mod segments;
mod store;
mod traffic;
mod upload;
mod writers;

pub use location::Location;
pub use scheme::Buckets;
pub use store::ObjectStore;
