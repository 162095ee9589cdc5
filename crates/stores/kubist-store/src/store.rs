//! The `Store` trait: all that Kubist asks of what keeps its bytes.
//!
//! It is small so that a directory, a database or an object store can stand
//! behind it, and object-safe so that a table holds an `Arc<dyn Store>`. What only some
//! stores can do are abilities, in traits of their own ([`Abilities`]). It is
//! not a file system: nothing is overwritten, renamed or appended to by two.
//!
//! Positions and offsets are opaque to the caller: an offset comes from
//! [`Segment::append`], a log position from [`LogTail`] or [`LogOwner`]. Only
//! their order and, for segments, their distance within what was appended between
//! two syncs mean anything (an engine may begin a segment with bytes of its own, and
//! leave offsets out after a sync).

mod abilities;
pub(crate) mod scratch;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

pub use abilities::{Abilities, Copies, Logs, Reads, Replicas, Service, Sharing, Space, Spill, Stamps, StoreExt, sound_log};
pub use scratch::local_scratch;

pub(crate) use abilities::read_watched;

use crate::{Capabilities, Error, Result};

/// What [`StoreExt::punch`](crate::StoreExt::punch) gives back are whole blocks of so many bytes.
pub const BLOCK_BYTES: u64 = 4096;

/// What keeps objects, segments and logs. See the crate's head for what
/// every engine guarantees.
///
/// Writer and segment names are 1 to 128 of `A-Z a-z 0-9 . _ -`, not beginning
/// with a dot. Object names are such parts joined by slashes; the first part may
/// not be `logs`, `segments` or `tmp`, and an object's name may not be a folder
/// of another's. Anything else is [`Error::InvalidName`](crate::Error).
pub trait Store: Send + Sync + fmt::Debug {
    /// The store's location, as the user named it. For messages.
    fn location(&self) -> &str;

    /// What kind of store this is, for those who plan work on it. Always the same of a handle,
    /// but for [`StoreExt::share`](crate::StoreExt::share).
    fn capabilities(&self) -> Capabilities;

    /// What it can do beside what every store does: nothing, unless it says so.
    fn abilities(&self) -> Abilities<'_> {
        Abilities::default()
    }

    /// Writes an object, unless its name is taken: `false` says that it is.
    ///
    /// With either answer the object of that name, no matter who wrote it, is whole
    /// and survives a crash. After an error it may be there or not: ask again.
    ///
    /// # Errors
    ///
    /// `InvalidName`; `NoSpace`; `Damaged` if the object that is there is; `Io` or `Unreachable` if
    /// the engine fails.
    fn put_if_absent(&self, name: &str, value: &[u8]) -> Result<bool>;

    /// The object's value, or `None`. What is seen here may still be lost by a
    /// power failure until its `put_if_absent` returned (to anyone).
    ///
    /// # Errors
    ///
    /// `Damaged`, `Irregular` or `Newer` if its bytes are not a value that this version wrote;
    /// `InvalidName`; `Io` or `Unreachable` if the engine fails.
    fn get(&self, name: &str) -> Result<Option<Bytes>>;

    /// The names of all objects that begin with `prefix`, sorted.
    ///
    /// # Errors
    ///
    /// `Io` or `Unreachable` if the engine fails; `Irregular` if something else is where a folder
    /// should be.
    fn list(&self, prefix: &str) -> Result<Vec<String>>;

    /// Removes an object; that it is absent is fine. A power failure soon
    /// afterwards may bring it back.
    ///
    /// # Errors
    ///
    /// `InvalidName`; `Io` or `Unreachable` if the engine fails.
    fn delete(&self, name: &str) -> Result<()>;

    /// A new segment, owned by the caller. [`Error::Exists`](crate::Error) if
    /// the name is taken. Names must not be used again after a deletion:
    /// readers may hold on to the old bytes.
    ///
    /// # Errors
    ///
    /// `Exists`; `InvalidName`; `NoSpace`; `Io` or `Unreachable` if the engine fails.
    fn create_segment(&self, name: &str) -> Result<Box<dyn Segment>>;

    /// Reads `ranges` of a segment: exactly one `Bytes` per range, in order.
    ///
    /// Bytes are there to read once their owner called `sync`. A range that is
    /// not wholly there is [`Error::Damaged`](crate::Error), an absent segment
    /// [`Error::Missing`](crate::Error).
    ///
    /// # Errors
    ///
    /// `Damaged`; `Missing`; `Newer`; `Io` or `Unreachable` if the engine fails.
    fn read(&self, segment: &str, ranges: &[Range<u64>]) -> Result<Vec<Bytes>>;

    /// The end of the segment's last byte, at least what was synced; `None` if
    /// there is no such segment.
    ///
    /// # Errors
    ///
    /// `InvalidName`; `Io` or `Unreachable` if the engine fails.
    fn segment_len(&self, segment: &str) -> Result<Option<u64>>;

    /// The names of all segments, sorted.
    ///
    /// # Errors
    ///
    /// `Io` or `Unreachable` if the engine fails.
    fn segments(&self) -> Result<Vec<String>>;

    /// Removes a segment; that it is absent is fine. A power failure soon
    /// afterwards may bring it back.
    ///
    /// # Errors
    ///
    /// `InvalidName`; `Io` or `Unreachable` if the engine fails.
    fn delete_segment(&self, segment: &str) -> Result<()>;

    /// Takes the log of `writer`, making it if there is none, and makes all of
    /// its entries durable. [`Error::Busy`](crate::Error) while another process
    /// or handle owns it; dropping the owner gives it back.
    ///
    /// # The contract
    ///
    /// The engine has no other lock. It relies on this:
    ///
    /// 1. *One owner.* From the moment at which this returns until the owner is dropped or is
    ///    refused, no other owner's entry comes into the log. The next owner of the log of a writer
    ///    that is dead ends that writer's work for good: what the engine deletes or rewrites
    ///    while it owns the log, no late commit names.
    /// 2. *Acknowledged entries stay.* Whatever [`LogOwner::append`] returned for is in the log
    ///    of every later owner and reader, at the same position, before anything newer.
    /// 3. *A doubtful entry is settled.* One that was not acknowledged, because its owner died
    ///    or was refused, is either in the log for ever or never when this returns: no reader
    ///    that begins later sees it come or go. [`LogOwner::position`] lies behind it.
    /// 4. *Seen is seen.* What [`Store::read_log`] gave at or before [`LogTail::durable`] stays.
    ///
    /// [`Fencing`] says how an engine keeps the first promise. A [`Fencing::Lock`] cannot be
    /// taken while its owner lives, and nothing more is needed. A [`Fencing::Claim`] lapses, so
    /// its owner may live and be slow: the claim alone is a courtesy that keeps two from
    /// working against each other, and each taking begins an **epoch** that fences all earlier
    /// ones. An object store needs nothing but a put that fails if the key is there: entries
    /// are keys that end in their position, and a taker puts a fence at the first free one. An
    /// earlier owner finds its next key taken and is refused for ever; if its entry came
    /// first, the taker finds that entry and puts the fence behind it. `docs/stores.md` shows
    /// this in full, `kubist-cassandra` the same with transactions.
    ///
    /// Cuts off an entry that its last owner did not finish. If an entry that
    /// was acknowledged is missing or wrong, nothing is cut and the answer is
    /// [`Error::Damaged`](crate::Error).
    ///
    /// # Errors
    ///
    /// `Busy`; `Damaged`; `Newer`; `InvalidName`; `NoSpace`; `Io` or `Unreachable` if the engine
    /// fails.
    fn own_log(&self, writer: &str) -> Result<Box<dyn LogOwner>>;

    /// The names of all writers that have a log, sorted.
    ///
    /// # Errors
    ///
    /// `Io` or `Unreachable` if the engine fails.
    fn logs(&self) -> Result<Vec<String>>;

    /// All entries that begin at or after `from`: 0, a [`LogEntry::position`],
    /// a [`LogTail::next`] or what the owner gave. Never waits for the owner.
    /// Of a log that has lost its end, [`LogTail::next`] may lie before `from`.
    ///
    /// # Errors
    ///
    /// `Missing` if there is no such log; `Damaged`; `Newer`; `Io` or `Unreachable` if the engine
    /// fails.
    fn read_log(&self, writer: &str, from: u64) -> Result<LogTail>;

    /// All that the store keeps, in no order, with the bytes that each takes, those
    /// included that the engine adds. A log may be listed in several parts.
    ///
    /// # Errors
    ///
    /// `Io` or `Unreachable` if the engine fails.
    fn sizes(&self) -> Result<Vec<Size>>;

    /// Ends the store: removes all segments, logs and temporaries, then these
    /// objects one after the other (a name that ends in a slash: a folder of objects
    /// that may all be gone), and the store's directory or table if nothing is left in it.
    /// What is absent is passed over, so it can be called again after a failure; and
    /// whatever a power failure brings back, it brings the last object back too.
    /// No log may have an owner meanwhile, and the handle cannot be used afterwards.
    ///
    /// # Errors
    ///
    /// `Busy` if a log has an owner; `Io` or `Unreachable` if the engine fails.
    fn erase(&self, objects: &[String]) -> Result<()>;
}

/// The bytes of ranges of several segments.
pub type Answers = Vec<Result<Vec<Bytes>>>;

/// A small mark of stored bytes, for who has read them: while it stays the same they are the ones that were
/// read. It may change without them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamp {
    /// The engine keeps none: who wants to know reads the bytes.
    Unknown,
    /// Nothing is there.
    Absent,
    /// The mark.
    Of(u128),
}

/// Which hosts of a cluster keep some bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaLocation {
    /// The position on the ring. It never changes, whichever hosts there are.
    pub token: i64,
    /// Those that keep it now, the first of the ring first.
    pub hosts: Arc<[String]>,
}

/// Something that a store keeps, and the bytes it takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Size {
    /// What it is.
    pub kind: Kept,
    /// Its name.
    pub name: String,
    /// Bytes.
    pub bytes: u64,
}

/// What a store keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// A small object, written once.
    Object,
    /// A segment, appended to by one writer.
    Segment,
    /// A writer's log.
    Log,
    /// On its way to a name, or left behind by a process that died.
    Temporary,
}

/// A segment being written, by its one owner. After an error it refuses to go
/// on ([`Error::Refused`](crate::Error)): what it wrote is then unknown, and
/// nothing may name it. One that is dropped before its first `sync` may be gone.
#[allow(clippy::len_without_is_empty)] // an empty segment has its header
pub trait Segment: Send {
    /// Appends all parts, one after the other, and gives the offset of the
    /// first byte. Durable, and readable by others, after [`Segment::sync`].
    ///
    /// # Errors
    ///
    /// `NoSpace`; `Refused` after an earlier failure; `Io` or `Unreachable` if the engine fails.
    fn append(&mut self, parts: &[&[u8]]) -> Result<u64>;

    /// Makes everything appended so far durable.
    ///
    /// # Errors
    ///
    /// `NoSpace`; `Refused` after an earlier failure; `Io` or `Unreachable` if the engine fails.
    /// What was appended may or may not be durable then.
    fn sync(&mut self) -> Result<()>;

    /// The end of what was appended: the offset that the next `append` will give, or one before it
    /// if an engine leaves offsets out after a sync. Not 0 at the beginning if the engine puts a
    /// header there.
    fn len(&self) -> u64;

    /// The segment's name in the store.
    fn name(&self) -> &str;
}

/// The right to append to a writer's log; given back on drop. After an error it
/// refuses to go on ([`Error::Refused`](crate::Error)): the entry may be there
/// or not, and the log's next owner will see.
pub trait LogOwner: Send {
    /// Appends one entry, durable when this returns, and gives the position
    /// after it.
    ///
    /// # Errors
    ///
    /// `NoSpace`; `Refused` after an earlier failure, or once another owner has taken the log; `Io`
    /// or `Unreachable` if the engine fails. The entry may be there or not then; no other is
    /// appended.
    fn append(&mut self, entry: &[u8]) -> Result<u64>;

    /// The same of an entry that names what was appended to a segment of this store: it is seen by
    /// nobody, and no crash keeps it, before that is durable. An engine may make both durable at
    /// the same time.
    ///
    /// # Errors
    ///
    /// As of [`Segment::sync`] and [`LogOwner::append`].
    fn append_after(&mut self, segment: &mut dyn Segment, entry: &[u8]) -> Result<u64> {
        segment.sync()?;
        self.append(entry)
    }

    /// The position after the last entry.
    fn position(&self) -> u64;

    /// The writer's name.
    fn writer(&self) -> &str;
}

/// What [`Store::read_log`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogTail {
    /// The entries, in the order in which they were appended. Each ends where the next one begins,
    /// and the last at `next`: there where [`LogOwner::append`] said, whenever it is read.
    pub entries: Vec<LogEntry>,
    /// The position after the last of them, from where to read on.
    pub next: u64,
    /// Entries that end at or before this position are known to survive a
    /// crash. The last entry may lie beyond it: its owner is just making it
    /// durable, or died before saying so ([`Store::own_log`] settles that). A
    /// power failure may take such an entry back, so a follower that outlives
    /// one reads on from the smaller of `next` and `durable`.
    pub durable: u64,
}

/// One entry of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// Where the entry begins.
    pub position: u64,
    /// What was appended.
    pub bytes: Bytes,
}

/// What [`StoreExt::read_sound_log`](crate::StoreExt::read_sound_log) found.
#[derive(Debug)]
pub struct SoundLog {
    /// The entries that are whole, in the order in which they were appended.
    pub entries: Vec<LogEntry>,
    /// Where entries were that are not whole any more.
    pub broken: Vec<BrokenEntry>,
    /// The position after the last whole entry.
    pub next: u64,
    /// What is wrong with the log, if anything is.
    pub damage: Option<Error>,
}

/// What is left of an entry that is not whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenEntry {
    /// Where it begins.
    pub position: u64,
    /// As far as they are there, and some of them wrong.
    pub bytes: Bytes,
}

/// Private spill space. Not durable, not checksummed: it lives only as long as
/// the process that wrote it.
pub trait Scratch: Send + Sync {
    /// Appends `bytes` and gives the offset of the first of them.
    ///
    /// # Errors
    ///
    /// `NoSpace`; `Io`.
    fn append(&self, bytes: &[u8]) -> Result<u64>;

    /// The bytes of a range that was appended before.
    ///
    /// # Errors
    ///
    /// `Io`.
    fn read(&self, range: Range<u64>) -> Result<Bytes>;
}
