//! A cache on the local disk for stores on the network.
//!
//! [`Cached`] is a store in front of another one. It caches only things that never change: blocks of segments, and
//! objects that are requested as immutable. So results are as current as without the cache.
//!
//! It relies on four properties:
//!
//! - **A store has a unique identity** ([`kubist_store::StoreExt::identity`]), so a table that is created again at the
//!   same location never gets old bytes.
//! - **Each file has a checksum** of its bytes and its key (`folder`). A file with a wrong checksum is removed, and the
//!   bytes are read from the store.
//! - **Files appear by a rename.** Any number of processes share a folder. A killed process leaves at most a temporary
//!   file.
//! - **The folder may fail.** If it is full, read-only or another user's, one warning is printed on standard error, and
//!   the store is read.

#![deny(missing_docs)]

mod folder;
mod scheme;
mod settings;
mod store;

pub use folder::{Folder, StoreCopies};
pub use scheme::FarScheme;
pub use settings::{FOLDER, SIZE, USUAL_SIZE, folder_of_environment};
pub use store::{BLOCK_BYTES, Cached};
