//! The `Store` trait: everything that Kubist requires of a store.
//!
//! The trait is small, so that a directory, a database or an object store can implement it. Optional operations are
//! separate traits ([`Abilities`]). A store is not a file system: nothing is overwritten or renamed, and no two writers
//! append to the same segment or log.
//!
//! Callers do not compute positions and offsets. An offset comes from [`Segment::append`], a log position from
//! [`LogTail`] or [`LogOwner`]. Only their order has a meaning, and in segments also the distance between offsets of
//! one sync: a store may put a header before a segment and may skip offsets after a sync.

mod abilities;
pub(crate) mod scratch;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

pub use abilities::{
    Abilities, Copies, Logs, Reads, Replicas, Service, Sharing, Space, Spill, Stamps, StoreExt, sound_log,
};
pub use scratch::local_scratch;

pub(crate) use abilities::read_watched;

use crate::{Capabilities, Error, Result};

/// Size of the blocks that [`StoreExt::punch`](crate::StoreExt::punch) frees, in bytes.
pub const BLOCK_BYTES: u64 = 4096;

/// A store of objects, segments and logs, with the guarantees at the head of the crate.
///
/// Names of writers and segments have 1 to 128 characters of `A-Z a-z 0-9 . _ -` and do not begin with a dot. An object
/// name consists of such parts, joined by slashes. Its first part may not be `logs`, `segments` or `tmp`, and it may
/// not be a folder of another object's name. Other names give [`Error::InvalidName`](crate::Error).
pub trait Store: Send + Sync + fmt::Debug {
    /// The store's location as the user wrote it, for messages.
    fn location(&self) -> &str;

    /// The properties of this store, which only [`StoreExt::share`](crate::StoreExt::share) changes.
    fn capabilities(&self) -> Capabilities;

    /// The optional operations of this store; none by default.
    fn abilities(&self) -> Abilities<'_> {
        Abilities::default()
    }

    /// Writes an object. Returns `false` if the name is taken. In both cases the object with this name is complete and
    /// survives a crash. After an error it may or may not exist, so try again.
    ///
    /// # Errors
    ///
    /// `InvalidName`; `NoSpace`; `Damaged` if an object with this name exists and is damaged; `Io` or `Unreachable`.
    fn put_if_absent(&self, name: &str, value: &[u8]) -> Result<bool>;

    /// Returns the object's value. Until a `put_if_absent` with this name has returned, a power failure may still
    /// remove the object.
    ///
    /// # Errors
    ///
    /// `Damaged`, `Irregular` or `Newer` if this version cannot have written its bytes; `InvalidName`; `Io` or
    /// `Unreachable`.
    fn get(&self, name: &str) -> Result<Option<Bytes>>;

    /// The sorted names of all objects that begin with `prefix`.
    ///
    /// # Errors
    ///
    /// `Io` or `Unreachable`; `Irregular` if something other than a folder is at a folder's path.
    fn list(&self, prefix: &str) -> Result<Vec<String>>;

    /// Deletes an object. A power failure soon afterwards may restore it.
    ///
    /// # Errors
    ///
    /// `InvalidName`; `Io` or `Unreachable`.
    fn delete(&self, name: &str) -> Result<()>;

    /// Creates a segment that the caller owns. Never reuse the name of a deleted segment, because readers may have
    /// cached its bytes.
    ///
    /// # Errors
    ///
    /// `Exists` if the name is taken; `InvalidName`; `NoSpace`; `Io` or `Unreachable`.
    fn create_segment(&self, name: &str) -> Result<Box<dyn Segment>>;

    /// Reads `ranges` of a segment, and returns one `Bytes` per range, in the same order. Bytes are readable after
    /// `sync`.
    ///
    /// # Errors
    ///
    /// `Damaged` if bytes of a range are missing; `Missing` if there is no such segment; `Newer`; `Io` or
    /// `Unreachable`.
    fn read(&self, segment: &str, ranges: &[Range<u64>]) -> Result<Vec<Bytes>>;

    /// The offset after the segment's last byte, or at least after the last synced one; `None` if there is no such
    /// segment.
    ///
    /// # Errors
    ///
    /// `InvalidName`; `Io` or `Unreachable`.
    fn segment_len(&self, segment: &str) -> Result<Option<u64>>;

    /// Returns the names of all segments, sorted.
    ///
    /// # Errors
    ///
    /// `Io` or `Unreachable`.
    fn segments(&self) -> Result<Vec<String>>;

    /// Deletes a segment. A power failure soon afterwards may restore it.
    ///
    /// # Errors
    ///
    /// `InvalidName`; `Io` or `Unreachable`.
    fn delete_segment(&self, segment: &str) -> Result<()>;

    /// Takes ownership of a writer's log, creates the log if there is none, and makes all its entries durable. Dropping
    /// the owner releases the log.
    ///
    /// Cuts off an entry that the last owner did not finish. If an acknowledged entry is missing or wrong, it cuts
    /// nothing and returns `Damaged`.
    ///
    /// # The contract
    ///
    /// Kubist has no other lock. It relies on four guarantees:
    ///
    /// 1. *One owner.* After this call returns, no other owner can append to the log until this owner is dropped or one
    ///    of its calls fails. When a process takes the log of a dead writer, that writer can never append again. So no
    ///    late commit can name a segment that the new owner deletes or rewrites.
    /// 2. *Acknowledged entries stay.* If [`LogOwner::append`] returned, every later owner and reader sees the entry at
    ///    the same position, before any newer entry.
    /// 3. *Unacknowledged entries are settled.* If the last owner died or failed during an append, its entry may or may
    ///    not be in the log. When this call returns, the entry is in the log for ever, or it never will be. Readers
    ///    that start later do not see it appear or vanish, and [`LogOwner::position`] is after it.
    /// 4. *Durable entries stay.* An entry that [`Store::read_log`] returned at or before [`LogTail::durable`] never
    ///    disappears.
    ///
    /// [`Fencing`] describes how a store gives the first guarantee. A [`Fencing::Lock`] cannot be taken while its owner
    /// lives. A [`Fencing::Claim`] may lapse while its owner is slow, so each new owner also starts an **epoch** that
    /// fences all earlier ones: their appends fail for ever. `docs/stores.md` shows how an object store does this.
    ///
    /// # Errors
    ///
    /// `Busy` while another process or handle owns the log; `Damaged`; `Newer`; `InvalidName`; `NoSpace`; `Io` or
    /// `Unreachable`.
    fn own_log(&self, writer: &str) -> Result<Box<dyn LogOwner>>;

    /// The sorted names of all writers that have a log.
    ///
    /// # Errors
    ///
    /// `Io` or `Unreachable`.
    fn logs(&self) -> Result<Vec<String>>;

    /// Returns all entries at or after `from`, which is 0, a [`LogEntry::position`], a [`LogTail::next`] or a position
    /// from the owner. Never waits for the owner. If a log has lost its last entries, [`LogTail::next`] may be before
    /// `from`.
    ///
    /// # Errors
    ///
    /// `Missing` if there is no such log; `Damaged`; `Newer`; `Io` or `Unreachable`.
    fn read_log(&self, writer: &str, from: u64) -> Result<LogTail>;

    /// The name and size of everything in the store, including the store's own overhead. A log may be listed in
    /// several parts.
    ///
    /// # Errors
    ///
    /// `Io` or `Unreachable`.
    fn sizes(&self) -> Result<Vec<Size>>;

    /// Deletes the store: all segments, logs and temporary files, then the given objects in this order, then the
    /// store's directory or table if it is empty. A name that ends in a slash is a folder of objects.
    ///
    /// Missing things are skipped, so the call can be repeated after a failure. If a power failure restores anything,
    /// it also restores the last object. No log may have an owner during the call, and the handle cannot be used
    /// afterwards.
    ///
    /// # Errors
    ///
    /// `Busy` if a log has an owner; `Io` or `Unreachable`.
    fn erase(&self, objects: &[String]) -> Result<()>;
}

/// The bytes of the ranges of several segments, with one result per segment.
pub type Answers = Vec<Result<Vec<Bytes>>>;

/// A version mark of stored bytes. Equal marks prove equal bytes, but the mark may change even if the bytes do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamp {
    /// The store has no marks, so compare the bytes.
    Unknown,
    /// Nothing is stored.
    Absent,
    /// The mark.
    Of(u128),
}

/// The hosts of a cluster that store some bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaLocation {
    /// The position on the ring, which never changes.
    pub token: i64,
    /// The hosts that store the bytes now, in ring order.
    pub hosts: Arc<[String]>,
}

/// The size of a stored thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Size {
    /// Its kind.
    pub kind: StoredKind,
    /// Its name.
    pub name: String,
    /// Bytes.
    pub bytes: u64,
}

/// The kinds of stored things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredKind {
    /// A small object, written once.
    Object,
    /// A segment, appended to by one writer.
    Segment,
    /// A writer's log.
    Log,
    /// A file without a final name, or a file left by a dead process.
    Temporary,
}

/// A segment, for its only owner. After an error it returns [`Error::Refused`](crate::Error), because no commit may
/// name its unknown content. A segment that is dropped before its first `sync` may disappear.
#[allow(clippy::len_without_is_empty)] // an empty segment has its header
pub trait Segment: Send {
    /// Appends all parts and returns the offset of the first byte. The bytes are durable and readable after
    /// [`Segment::sync`].
    ///
    /// # Errors
    ///
    /// `NoSpace`; `Refused` after an earlier failure; `Io` or `Unreachable`.
    fn append(&mut self, parts: &[&[u8]]) -> Result<u64>;

    /// Makes everything appended so far durable.
    ///
    /// # Errors
    ///
    /// `NoSpace`; `Refused` after an earlier failure; `Io` or `Unreachable`. After an error, the appended bytes may or
    /// may not be durable.
    fn sync(&mut self) -> Result<()>;

    /// The offset after the last appended byte. The next `append` returns this offset, or a later one if the store
    /// skips offsets after a sync. It does not start at 0 if the store writes a header.
    fn len(&self) -> u64;

    /// The segment's name in the store.
    fn name(&self) -> &str;
}

/// The right to append to a writer's log, which a drop releases. After an error it returns
/// [`Error::Refused`](crate::Error), and the log's next owner settles whether the entry is in the log.
pub trait LogOwner: Send {
    /// Appends one entry durably and returns the position after it.
    ///
    /// # Errors
    ///
    /// `NoSpace`; `Refused` after an earlier failure, or once another owner has taken the log; `Io` or `Unreachable`.
    /// After an error the entry may or may not be in the log, and no other entry can be appended.
    fn append(&mut self, entry: &[u8]) -> Result<u64>;

    /// Appends an entry that names bytes of a segment. Until these bytes are durable, no reader sees the entry, and no
    /// crash keeps it. A store may make both durable in one step.
    ///
    /// # Errors
    ///
    /// As for [`Segment::sync`] and [`LogOwner::append`].
    fn append_after(&mut self, segment: &mut dyn Segment, entry: &[u8]) -> Result<u64> {
        segment.sync()?;
        self.append(entry)
    }

    /// The position after the last entry.
    fn position(&self) -> u64;

    /// The writer's name.
    fn writer(&self) -> &str;
}

/// The result of [`Store::read_log`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogTail {
    /// The entries in order. Each entry ends where the next one begins, and the last entry ends at `next`.
    pub entries: Vec<LogEntry>,
    /// The position after the last entry, where reading continues.
    pub next: u64,
    /// Entries that end at or before this position survive a crash. The last entry may end after it: its owner may
    /// still be syncing it, or died before it acknowledged the entry ([`Store::own_log`] settles that). A power failure
    /// may remove such an entry, so a reader continues from the smaller of `next` and `durable`.
    pub durable: u64,
}

/// One entry of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// The position of the entry's start.
    pub position: u64,
    /// The appended bytes.
    pub bytes: Bytes,
}

/// The result of [`StoreExt::read_sound_log`](crate::StoreExt::read_sound_log).
#[derive(Debug)]
pub struct SoundLog {
    /// The intact entries, in order.
    pub entries: Vec<LogEntry>,
    /// The damaged entries.
    pub broken: Vec<BrokenEntry>,
    /// The position after the last intact entry.
    pub next: u64,
    /// The damage of the log, if any.
    pub damage: Option<Error>,
}

/// The remains of a damaged entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenEntry {
    /// The position of its start.
    pub position: u64,
    /// The remaining bytes. Some of them are wrong.
    pub bytes: Bytes,
}

/// Private spill space, which disappears with the process. It is neither durable nor checksummed.
pub trait Scratch: Send + Sync {
    /// Appends `bytes` and returns the offset of the first.
    ///
    /// # Errors
    ///
    /// `NoSpace`; `Io`.
    fn append(&self, bytes: &[u8]) -> Result<u64>;

    /// Returns the bytes of a range that was appended before.
    ///
    /// # Errors
    ///
    /// `Io`.
    fn read(&self, range: Range<u64>) -> Result<Bytes>;
}
