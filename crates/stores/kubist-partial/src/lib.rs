//! A store that holds a part of another one: the manifest whole, and only the chosen bytes of segments.
//!
//! A partial copy is kept in an ordinary store, usually a directory. Its object `partial` names the source, an object
//! under `manifests/` has the small objects and the ends of the logs as [`Recorder`] saw them, segments `held-...` have
//! bytes of the source's segments, and the log `held` lists these bytes. FORMAT.md ("Partial copy") has the bytes.
//!
//! It relies on three properties:
//!
//! - **Bytes never change.** A segment's name is never reused, so bytes that were fetched once stay valid for every
//!   later state of the source.
//! - **Bytes come before their entry.** An entry of the log is written after the bytes that it lists are durable, so a
//!   killed process loses at most the last fetch.
//! - **Nothing is guessed.** A read of bytes that are not held returns `NotHere`, with their number, and every held
//!   piece has a checksum of its own. Every write is refused.

#![deny(missing_docs)]

mod format;
mod held;
mod index;
mod manifest;
mod scheme;
mod store;
#[cfg(test)]
mod tests;

pub use manifest::{Manifest, Recorder};
pub use scheme::PartialCopies;
pub use store::PartialStore;
