//! What some stores can do beside what every [`Store`] does.
//!
//! Each ability is a trait of its own. A store names the ones it has in [`Store::abilities`]; for the others
//! [`StoreExt`], which every store has, does the same by the store's own calls. So callers ask for a thing and never
//! for an ability, and a new store needs none.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use crate::{
    Answers, Error, LogOwner, LogTail, ReplicaLocation, Request, Result, Scratch, SoundLog, Stamp, Store, Traffic,
    Watch, local_scratch,
};

/// The abilities of a store. Those of a store that wraps another one are that one's, but for those that it changes.
#[derive(Clone, Copy, Default)]
pub struct Abilities<'a> {
    /// It reads several things in one call.
    pub reads: Option<&'a dyn Reads>,
    /// It knows more of logs than their entries.
    pub logs: Option<&'a dyn Logs>,
    /// It can be one of several machines, which may see late what others wrote.
    pub sharing: Option<&'a dyn Sharing>,
    /// It gives space back, and tells the space of a segment from its length.
    pub space: Option<&'a dyn Space>,
    /// It asks a service, and knows what was asked.
    pub service: Option<&'a dyn Service>,
    /// It keeps copies of what it read.
    pub copies: Option<&'a dyn Copies>,
    /// It knows which hosts keep its bytes.
    pub replicas: Option<&'a dyn Replicas>,
    /// It tells without a read whether stored bytes are those that were read.
    pub stamps: Option<&'a dyn Stamps>,
    /// It has space for spilling where its bytes are.
    pub spill: Option<&'a dyn Spill>,
}

/// Reading several things in one call.
pub trait Reads {
    /// See [`StoreExt::read_segments`].
    ///
    /// # Errors
    ///
    /// Of the engine as a whole: `Unreachable`. Those of one segment are in its answer.
    fn read_segments(&self, wanted: &[(&str, &[Range<u64>])], watch: Watch<'_>) -> Result<Answers>;

    /// See [`StoreExt::read_short`].
    ///
    /// # Errors
    ///
    /// As of [`Reads::read_segments`].
    fn read_short(&self, wanted: &[(&str, &[Range<u64>])], watch: Watch<'_>) -> Result<Answers>;

    /// See [`StoreExt::list_after`].
    ///
    /// # Errors
    ///
    /// As of [`Store::list`].
    fn list_after(&self, prefix: &str, after: &str) -> Result<Vec<String>>;

    /// See [`StoreExt::waited`].
    fn waited(&self) -> bool;
}

/// More of logs than their entries.
pub trait Logs {
    /// See [`StoreExt::own_free_log`].
    ///
    /// # Errors
    ///
    /// As of [`Store::own_log`].
    fn own_free_log(&self, writer: &str) -> Result<Box<dyn LogOwner>>;

    /// See [`StoreExt::read_logs`].
    ///
    /// # Errors
    ///
    /// The first of any of them, as of [`Store::read_log`].
    fn read_logs(&self, logs: &[(&str, u64)]) -> Result<Vec<LogTail>>;

    /// See [`StoreExt::read_log_piece`].
    ///
    /// # Errors
    ///
    /// As of [`Store::read_log`], which say nothing of what lies behind the piece.
    fn read_log_piece(&self, writer: &str, from: u64, bytes: u64) -> Result<LogTail>;

    /// See [`StoreExt::read_sound_log`].
    ///
    /// # Errors
    ///
    /// `Newer`; `Io` or `Unreachable` if the engine fails. Damage is in the answer.
    fn read_sound_log(&self, writer: &str, from: u64) -> Result<SoundLog>;
}

/// A store of several machines, which may see late what others wrote.
pub trait Sharing {
    /// See [`StoreExt::share`].
    ///
    /// # Errors
    ///
    /// `Damaged` if a log is; `NoSpace`; `Io` if the engine fails.
    fn share(&self) -> Result<()>;

    /// See [`StoreExt::learn`].
    fn learn(&self);

    /// See [`StoreExt::look_again`].
    ///
    /// # Errors
    ///
    /// `Stopped`.
    fn look_again(&self, attempt: u32) -> Result<bool>;

    /// See [`StoreExt::await_seen`].
    ///
    /// # Errors
    ///
    /// Those of `look`; `Stopped`.
    fn await_seen(&self, look: &mut dyn FnMut() -> Result<bool>) -> Result<bool>;

    /// See [`StoreExt::catch_up`].
    ///
    /// # Errors
    ///
    /// `Stopped`.
    fn catch_up(&self) -> Result<()>;
}

/// The space of segments.
pub trait Space {
    /// See [`StoreExt::segment_bytes`].
    ///
    /// # Errors
    ///
    /// As of [`Store::segment_len`].
    fn segment_bytes(&self, segment: &str) -> Result<Option<u64>>;

    /// See [`StoreExt::punch`].
    ///
    /// # Errors
    ///
    /// `Missing` if there is no such segment; `InvalidName`; `Io` if the engine fails, and then
    /// some of the ranges may be given back.
    fn punch(&self, segment: &str, ranges: &[Range<u64>]) -> Result<()>;
}

/// A service that is asked over a network.
pub trait Service {
    /// See [`StoreExt::identity`].
    fn identity(&self) -> Option<u128>;

    /// See [`StoreExt::traffic`].
    fn traffic(&self) -> Option<Traffic>;
}

/// Copies of what was read.
pub trait Copies {
    /// The store itself, without the copies.
    fn uncached(&self) -> Arc<dyn Store>;

    /// See [`StoreExt::get_immutable`].
    ///
    /// # Errors
    ///
    /// As of [`Store::get`].
    fn get_immutable(&self, name: &str) -> Result<Option<Bytes>>;
}

/// Hosts that keep the bytes of a store.
pub trait Replicas {
    /// See [`StoreExt::hosts`].
    fn hosts(&self) -> Vec<String>;

    /// See [`StoreExt::replica_locations`].
    ///
    /// # Errors
    ///
    /// `Unreachable` if the cluster does not answer.
    fn replica_locations(&self, offsets: &[(&str, u64)]) -> Result<Vec<ReplicaLocation>>;
}

/// Marks of stored bytes.
pub trait Stamps {
    /// See [`StoreExt::stamp`].
    ///
    /// # Errors
    ///
    /// As of [`Store::get`].
    fn stamp(&self, name: &str) -> Result<Stamp>;

    /// See [`StoreExt::log_stamps`].
    ///
    /// # Errors
    ///
    /// `InvalidName`; `Io` or `Unreachable` if the engine fails.
    fn log_stamps(&self, entries: &[(&str, u64)]) -> Result<Vec<Stamp>>;
}

/// Space for spilling.
pub trait Spill {
    /// See [`StoreExt::scratch`].
    ///
    /// # Errors
    ///
    /// `NoSpace`; `Io`.
    fn scratch(&self) -> Result<Box<dyn Scratch>>;
}

/// What can be asked of every store: by its abilities, or by its own calls.
pub trait StoreExt: Store {
    /// A number that tells this store from every other one, also from one that is dropped and made
    /// anew at its location; `None` if the engine keeps no such number. What was read of a segment of
    /// it stays right for ever.
    fn identity(&self) -> Option<u128> {
        self.abilities().service?.identity()
    }

    /// What was asked of a service since the handle was opened; `None` of a store that asks none.
    fn traffic(&self) -> Option<Traffic> {
        self.abilities().service?.traffic()
    }

    /// The store itself, if this handle keeps copies of what it read: for who wants to know what
    /// the store really has.
    fn uncached(&self) -> Option<Arc<dyn Store>> {
        Some(self.abilities().copies?.uncached())
    }

    /// [`Store::get`] of an object that is never replaced: a copy of it may be given, also of one that
    /// was deleted meanwhile.
    ///
    /// # Errors
    ///
    /// As of [`Store::get`].
    fn get_immutable(&self, name: &str) -> Result<Option<Bytes>> {
        match self.abilities().copies {
            Some(copies) => copies.get_immutable(name),
            None => self.get(name),
        }
    }

    /// A mark of the object that is there now, without its value.
    ///
    /// # Errors
    ///
    /// As of [`Store::get`].
    fn stamp(&self, name: &str) -> Result<Stamp> {
        self.abilities().stamps.map_or(Ok(Stamp::Unknown), |stamps| stamps.stamp(name))
    }

    /// The same of entries, each given by the log's writer and the position behind it: of the entry, or of the
    /// whole log up to there. An engine on a network asks for all at once.
    ///
    /// # Errors
    ///
    /// `InvalidName`; `Io` or `Unreachable` if the engine fails.
    fn log_stamps(&self, entries: &[(&str, u64)]) -> Result<Vec<Stamp>> {
        match self.abilities().stamps {
            Some(stamps) => stamps.log_stamps(entries),
            None => Ok(vec![Stamp::Unknown; entries.len()]),
        }
    }

    /// Makes it a store of several machines for good, if it is one of this machine alone: the
    /// owners of its logs are refused with their next entry, and can take them again.
    ///
    /// # Errors
    ///
    /// `Damaged` if a log is; `NoSpace`; `Io` if the engine fails.
    fn share(&self) -> Result<()> {
        self.abilities().sharing.map_or(Ok(()), Sharing::share)
    }

    /// The caller was told by others of something that is in the store, which may not be seen here
    /// yet: a snapshot's token, say. What this handle reads itself it knows of.
    fn learn(&self) {
        if let Some(sharing) = self.abilities().sharing {
            sharing.learn();
        }
    }

    /// Something was not found as it should be, for the `attempt`-th time in a row, from 0: can
    /// that be because what is seen here is older than what the handle knows of? Waits for a
    /// moment if so, longer each time.
    ///
    /// # Errors
    ///
    /// `Stopped`.
    fn look_again(&self, attempt: u32) -> Result<bool> {
        self.abilities().sharing.map_or(Ok(false), |sharing| sharing.look_again(attempt))
    }

    /// Looks until something is seen of which others say that it is there; `false` once it would be
    /// seen, if it was there when this was called. That is waited for by this call alone: others do not
    /// wait longer for what they look for, as after [`StoreExt::learn`].
    ///
    /// # Errors
    ///
    /// Those of `look`; `Stopped`.
    fn await_seen(&self, look: &mut dyn FnMut() -> Result<bool>) -> Result<bool> {
        match self.abilities().sharing {
            Some(sharing) => sharing.await_seen(look),
            None => look(),
        }
    }

    /// Waits until whatever was there when this was called is seen.
    ///
    /// # Errors
    ///
    /// `Stopped`.
    fn catch_up(&self) -> Result<()> {
        self.abilities().sharing.map_or(Ok(()), Sharing::catch_up)
    }

    /// [`Store::list`] of names that sort behind `after` alone: for who knows all up to there. An
    /// engine that keeps names sorted passes over the others without reading them.
    ///
    /// # Errors
    ///
    /// As of [`Store::list`].
    fn list_after(&self, prefix: &str, after: &str) -> Result<Vec<String>> {
        match self.abilities().reads {
            Some(reads) => reads.list_after(prefix, after),
            None => {
                let mut names = self.list(prefix)?;
                names.retain(|name| name.as_str() > after);
                Ok(names)
            }
        }
    }

    /// [`Store::read`] that tells `watch` of each request to whatever keeps the bytes.
    ///
    /// # Errors
    ///
    /// As of [`Store::read`].
    fn read_watched(&self, segment: &str, ranges: &[Range<u64>], watch: Watch<'_>) -> Result<Vec<Bytes>> {
        match self.abilities().reads {
            Some(reads) => {
                let answer = reads.read_segments(&[(segment, ranges)], watch)?.pop();
                answer.unwrap_or_else(|| self.read(segment, ranges))
            }
            None => read_watched(self, segment, ranges, watch),
        }
    }

    /// The same of several segments, one answer for each. An engine on a network asks for all
    /// at once.
    ///
    /// # Errors
    ///
    /// Of the engine as a whole: `Unreachable`. Those of one segment are in its answer.
    fn read_segments(&self, wanted: &[(&str, &[Range<u64>])], watch: Watch<'_>) -> Result<Answers> {
        match self.abilities().reads {
            Some(reads) => reads.read_segments(wanted, watch),
            None => Ok(wanted.iter().map(|(segment, ranges)| self.read_watched(segment, ranges, watch)).collect()),
        }
    }

    /// The same, for who keeps copies of whole blocks. Of a range that goes on behind what was
    /// appended before a sync, the bytes up to there are enough; no others may ever follow them.
    /// An engine with an [`StoreExt::identity`] gives such short answers; others may refuse the range.
    ///
    /// # Errors
    ///
    /// As of [`StoreExt::read_segments`].
    fn read_short(&self, wanted: &[(&str, &[Range<u64>])], watch: Watch<'_>) -> Result<Answers> {
        match self.abilities().reads {
            Some(reads) => reads.read_short(wanted, watch),
            None => self.read_segments(wanted, watch),
        }
    }

    /// Did the last read wait for a device, instead of finding its bytes in memory?
    fn waited(&self) -> bool {
        self.abilities().reads.is_some_and(Reads::waited)
    }

    /// The bytes that a segment takes; `None` if there is no such segment. Fewer than
    /// [`Store::segment_len`] where offsets leave some out, or parts were given back.
    ///
    /// # Errors
    ///
    /// As of [`Store::segment_len`].
    fn segment_bytes(&self, segment: &str) -> Result<Option<u64>> {
        match self.abilities().space {
            Some(space) => space.segment_bytes(segment),
            None => self.segment_len(segment),
        }
    }

    /// Gives back the space of ranges of a segment that nobody needs any more, as far as whole
    /// blocks of [`BLOCK_BYTES`](crate::BLOCK_BYTES) lie in them, if the engine can:
    /// [`Capabilities::punches`](crate::Capabilities::punches).
    ///
    /// From then on a read of these bytes gives them, zeros or some of both, after a crash too,
    /// and no error. All other bytes stay as they are, whatever happens meanwhile, and so do
    /// offsets and the segment's length. The segment may be appended to meanwhile.
    ///
    /// # Errors
    ///
    /// `Missing` if there is no such segment; `InvalidName`; `Io` if the engine fails, and then
    /// some of the ranges may be given back.
    fn punch(&self, segment: &str, ranges: &[Range<u64>]) -> Result<()> {
        self.abilities().space.map_or(Ok(()), |space| space.punch(segment, ranges))
    }

    /// [`Store::own_log`] that never waits to see whether an owner that holds a claim is still at work: its log
    /// is busy as long as nobody knows it to be dead.
    ///
    /// # Errors
    ///
    /// As of [`Store::own_log`].
    fn own_free_log(&self, writer: &str) -> Result<Box<dyn LogOwner>> {
        match self.abilities().logs {
            Some(logs) => logs.own_free_log(writer),
            None => self.own_log(writer),
        }
    }

    /// [`Store::read_log`] of several logs, one answer for each: a writer, and from where on. An engine
    /// on a network asks for all at once.
    ///
    /// # Errors
    ///
    /// The first of any of them, as of [`Store::read_log`].
    fn read_logs(&self, logs: &[(&str, u64)]) -> Result<Vec<LogTail>> {
        match self.abilities().logs {
            Some(of) => of.read_logs(logs),
            None => logs.iter().map(|(writer, from)| self.read_log(writer, *from)).collect(),
        }
    }

    /// The first entries of what [`Store::read_log`] gives, of about so many bytes, but one at least if there is any:
    /// for who reads a long log piece by piece, and goes on at [`LogTail::next`]. An engine may give more.
    ///
    /// # Errors
    ///
    /// As of [`Store::read_log`], which say nothing of what lies behind the piece.
    fn read_log_piece(&self, writer: &str, from: u64, bytes: u64) -> Result<LogTail> {
        match self.abilities().logs {
            Some(logs) => logs.read_log_piece(writer, from, bytes),
            None => self.read_log(writer, from),
        }
    }

    /// What is sound of a damaged log from `from` on, as far as the engine can tell: entries
    /// behind damage too, if it can find them.
    ///
    /// # Errors
    ///
    /// `Newer`; `Io` or `Unreachable` if the engine fails. Damage is in the answer.
    fn read_sound_log(&self, writer: &str, from: u64) -> Result<SoundLog> {
        match self.abilities().logs {
            Some(logs) => logs.read_sound_log(writer, from),
            None => sound_log(from, self.read_log(writer, from)),
        }
    }

    /// The hosts that keep the store's bytes; none unless it is on [`Locality::Hosts`](crate::Locality::Hosts).
    fn hosts(&self) -> Vec<String> {
        self.abilities().replicas.map(Replicas::hosts).unwrap_or_default()
    }

    /// Which hosts keep bytes of segments, each given by a segment and an offset; empty unless
    /// the store is on [`Locality::Hosts`](crate::Locality::Hosts).
    ///
    /// # Errors
    ///
    /// `Unreachable` if the cluster does not answer.
    fn replica_locations(&self, offsets: &[(&str, u64)]) -> Result<Vec<ReplicaLocation>> {
        self.abilities().replicas.map_or(Ok(Vec::new()), |replicas| replicas.replica_locations(offsets))
    }

    /// Private space for spilling, gone when dropped (or the process dies).
    ///
    /// # Errors
    ///
    /// `NoSpace`; `Io`.
    fn scratch(&self) -> Result<Box<dyn Scratch>> {
        self.abilities().spill.map_or_else(local_scratch, Spill::scratch)
    }
}

impl<S: Store + ?Sized> StoreExt for S {}

/// What is sound of a log of which an engine can tell no more than what [`Store::read_log`] gave.
///
/// # Errors
///
/// All but damage, which is in the answer.
pub fn sound_log(from: u64, read: Result<LogTail>) -> Result<SoundLog> {
    match read {
        Err(damage @ (Error::Damaged { .. } | Error::Missing { .. })) => {
            Ok(SoundLog { entries: Vec::new(), broken: Vec::new(), next: from, damage: Some(damage) })
        }
        read => {
            let LogTail { entries, next, .. } = read?;
            Ok(SoundLog { entries, broken: Vec::new(), next, damage: None })
        }
    }
}

/// [`Store::read`], of which `watch` is told as of one request.
pub(crate) fn read_watched(
    store: &(impl Store + ?Sized),
    segment: &str,
    ranges: &[Range<u64>],
    watch: Watch<'_>,
) -> Result<Vec<Bytes>> {
    let asked = Instant::now();
    let found = store.read(segment, ranges)?;
    let bytes = found.iter().map(|bytes| bytes.len() as u64).sum();
    watch(Request { asked, sent: asked, answered: Instant::now(), bytes, host: None, cached: false });
    Ok(found)
}
