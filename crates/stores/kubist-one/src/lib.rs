//! A table in one sealed file, for copying, publishing and archives.
//!
//! [`Packer`] is a store that receives a copy of a table. [`Packer::seal`] completes its file, which never changes
//! afterwards. [`SealedStore`] reads such a file through a [`Source`]: a local file, or a service with range requests
//! in another crate. FORMAT.md ("Sealed file") describes the bytes.
//!
//! Its properties are:
//!
//! - **The end describes the file.** The footer has a fixed size and gives the position of the tree of names. Small
//!   objects are directly before the tree, so one read of the end opens most tables.
//! - **Every byte is covered.** The checksum of an extent includes the file's random number and the position, so bytes
//!   from another file or position are detected as damage. The footer has the length of the file, so a truncated or
//!   extended file is damage too.
//! - **Nothing changes.** A source refuses to read once its file was changed. Every write is refused with a message
//!   that names `kubist unpack`.

#![deny(missing_docs)]

mod extents;
mod format;
#[doc(hidden)]
pub mod fuzz;
mod local;
mod packer;
mod scheme;
mod sealed;
mod source;

pub use local::LocalFile;
pub use packer::Packer;
pub use scheme::SealedFiles;
pub use sealed::SealedStore;
pub use source::Source;
