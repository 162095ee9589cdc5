//! An embedded dictionary: sorted keys and values in one file, for catalogues, indexes and caches.
//!
//! Bytes are only appended: a batch is one frame of the log, and durable after one sync. The tree over the keys is
//! copy-on-write: a batch changes it in memory, and a checkpoint appends the changed nodes and names the new root in
//! one of two superblocks. Opening reads the newest superblock and replays the batches after it. FORMAT.md
//! ("Dictionary") describes the bytes.
//!
//! - **One writer, any number of readers.** The writer holds the lock on the file. A [`Snapshot`] needs no lock,
//!   because the nodes and values that it can reach never change.
//! - **A batch is complete or absent**, also after a crash. Once [`Writer::commit`] has returned, the batch is durable.
//! - **Stale bytes do not validate.** The checksum of a frame includes its position and the checksum of the previous
//!   frame, so only an unbroken chain is read.
//! - **Keyspaces are files** `NAME.NUMBER.kv` in a directory; a compaction writes the next number.
//! - **Memory is bounded** by the nodes that changed since the checkpoint, and by a cache of other nodes. No file is
//!   mapped.

#![deny(missing_docs)]

mod dictionary;
mod error;
mod file;
mod format;
mod node;
mod range;
mod tree;

pub use dictionary::{Batch, Snapshot, Writer};
pub use error::{Error, Result};
pub use range::Range;
