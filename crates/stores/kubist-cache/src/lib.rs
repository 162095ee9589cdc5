//! Copies on the local disk of what was read from stores far away.
//!
//! [`Cached`] is a store in front of another one. What it keeps never changes: blocks of segments,
//! and objects that are asked for as immutable. It keeps no listing, no log, and not that something is absent, so
//! that an answer is as new as without it.
//!
//! What all of it rests on:
//!
//! - **A store has a number of its own** ([`kubist_store::StoreExt::identity`]). A table that is dropped and made anew
//!   at its location is another store, and never gets old bytes.
//! - **A file has a checksum** of its bytes and of what they are a copy of (`folder`). One that does not fit is removed,
//!   and the store is asked.
//! - **A file comes by a rename.** Any number of processes share a folder; one that is killed leaves a temporary
//!   file at most.
//! - **The folder may fail.** If it is full, read-only or another user's, that is said once, on standard error, and
//!   the store answers.
//!
//! This crate must not know what a table is.

#![deny(missing_docs)]

mod folder;
mod scheme;
mod settings;
mod store;

pub use folder::{Folder, Kept};
pub use scheme::FarScheme;
pub use settings::{FOLDER, SIZE, USUAL_SIZE, folder_of_environment};
pub use store::{BLOCK_BYTES, Cached};
