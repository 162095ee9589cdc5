//! Kubist's store in a bucket of S3, or of another service with its protocol.
//!
//! This crate implements [`kubist_store::Store`] with three operations: reads and writes of whole objects, a put that
//! fails if the key is taken, and reads of ranges. FORMAT.md has the keys and the bytes of all objects.
//!
//! Its principles are:
//!
//! - **A put that fails if the key is taken** (`If-None-Match: *`) decides everything: objects, log entries, claims and
//!   names. When a store is created, `probe` tests the service for this guarantee and refuses a service without it.
//! - **Each such put has a unique number** (`frame`), so a put whose response was lost can be repeated: a client that
//!   finds the key taken compares the number with its own.
//! - **A query lists nothing.** The key of a log entry is its number, writers are numbered objects too, and an offset
//!   names its piece of a segment (`segments`).
//!
//! The crate also reads sealed files (`kubist_one`) by range requests: objects of a bucket, and files of web servers
//! ([`Sites`]).

mod claims;
mod client;
mod contact;
mod credentials;
mod failure;
mod frame;
mod latency;
mod location;
mod logs;
mod objects;
mod probe;
mod process;
mod ranges;
mod remote;
mod scheme;
mod segments;
mod sites;
mod store;
mod traffic;
mod upload;
mod writers;

pub use location::Location;
pub use scheme::Buckets;
pub use sites::Sites;
pub use store::ObjectStore;
