//! Shared memory of a node's processes: a ring buffer for each rank, and the leader's status.
//!
//! ```text
//! head (2048 bytes) | lane of rank 0 | lane of rank 1 | ...
//! lane: its head (256 bytes) | ring buffer of messages
//! message: 32 bytes (what, column, step, bytes, rows) | values, padded to 8 bytes
//! ```
//!
//! A lane has one producer, the rank, and one consumer, the leader; each publishes its byte count. A column
//! longer than the lane passes through it in parts. Both sides must be the same build of Kubist, because
//! [`MAGIC`] changes with the layout.

use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use kubist::ErrorKind;

use crate::copies::buffer;
use crate::failure::{Failure, Result};
use crate::presence::Process;
use crate::values::Kind;

const MAGIC: u64 = u64::from_le_bytes(*b"KUBRING4");
const MESSAGE: usize = 1024;
const HEAD: usize = 2048;
const LANE_HEAD: usize = 256;
/// Large enough for several messages.
const SMALLEST_LANE: usize = 4096;
pub const HEADER: usize = 32;

const SERVING: u32 = 1;
const FAILED: u32 = 2;
const CLOSED: u32 = 3;

const LOST: u32 = 1;
const LEFT: u32 = 2;

const NONE: i64 = i64::MIN;

#[repr(C)]
struct Head {
    magic: AtomicU64,
    lane_bytes: AtomicU64,
    ranks: AtomicU32,
    leader: AtomicU32,
    state: AtomicU32,
    kind: AtomicU32,
    durable: AtomicI64,
    born: AtomicU64,
    space: AtomicU64,
    length: AtomicU32,
    message: [AtomicU8; MESSAGE],
}

/// Each counter has its own cache line.
#[repr(C)]
struct LaneHead {
    written: AtomicU64,
    apart: [u64; 7],
    taken: AtomicU64,
    apart_too: [u64; 7],
    born: AtomicU64,
    space: AtomicU64,
    /// 0 if the lane is free.
    process: AtomicU32,
    /// [`LOST`] or [`LEFT`] after the last message.
    end: AtomicU32,
    /// Not 0 once all process fields are set.
    told: AtomicU32,
}

const _: () = assert!(size_of::<Head>() <= HEAD && size_of::<LaneHead>() <= LANE_HEAD);

#[derive(Clone, Copy)]
pub struct Ring {
    base: *mut u8,
    lane_bytes: usize,
    ranks: u32,
}

// SAFETY: all fields are atomics, and the counters define which side owns the bytes of a lane.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Begin,
    Column,
    End,
    Abandon,
    Close,
    /// Ends a batch; more rows may follow.
    Part,
    Thinned,
    Void,
}

const WHATS: [What; 8] =
    [What::Begin, What::Column, What::End, What::Abandon, What::Close, What::Part, What::Thinned, What::Void];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub what: What,
    pub column: u32,
    pub step: i64,
    pub bytes: u64,
    pub rows: u64,
}

impl Header {
    pub fn of_step(what: What, step: i64) -> Header {
        Header { what, column: 0, step, bytes: 0, rows: 0 }
    }

    pub fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[0..4].copy_from_slice(&(self.what as u32).to_le_bytes());
        bytes[4..8].copy_from_slice(&self.column.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.step.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.rows.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; HEADER]) -> Option<Header> {
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let what = *WHATS.get(word(0) as usize)?;
        Some(Header { what, column: word(4), step: long(8) as i64, bytes: long(16), rows: long(24) })
    }
}

/// # Errors
///
/// `Unsupported` for types that are no [`Kind`], and for nulls.
pub fn kind_of_values(name: &str, array: &ArrayRef) -> Result<Kind> {
    let unsupported = |what: String| Err(Failure::new(ErrorKind::Unsupported, what));
    let Some(kind) = Kind::of(array.data_type()) else {
        let of = array.data_type();
        return unsupported(format!("column {name:?}: a ring supports numbers and booleans, not {of}"));
    };
    match array.null_count() {
        0 => Ok(kind),
        _ => unsupported(format!("column {name:?}: a ring supports no nulls")),
    }
}

/// Booleans take one byte each.
///
/// # Errors
///
/// `Unsupported` for types that are no [`Kind`], and for nulls.
pub fn bytes_of(name: &str, array: &ArrayRef) -> Result<Vec<u8>> {
    let kind = kind_of_values(name, array)?;
    let mut bytes = buffer(array.len() * kind.bytes())?;
    if kind == Kind::Bool {
        bytes.extend(array.as_boolean().values().iter().map(u8::from));
    } else {
        let data = array.to_data();
        let from = data.offset() * kind.bytes();
        bytes.extend_from_slice(&data.buffers()[0].as_slice()[from..from + array.len() * kind.bytes()]);
    }
    Ok(bytes)
}

/// Allocates mapped pages by reading /dev/zero into them. If /dev/shm is full this read fails, whereas the
/// first write to such a page kills the process (SIGBUS).
///
/// # Errors
///
/// `Unavailable` if there is too little memory.
///
/// # Safety
///
/// The memory is mapped, and no other process uses it yet.
unsafe fn provide(base: *mut u8, bytes: usize) -> Result<()> {
    // SAFETY: guaranteed by the caller.
    let memory = unsafe { std::slice::from_raw_parts_mut(base, bytes) };
    let filled = File::open("/dev/zero").and_then(|mut zeros| zeros.read_exact(memory));
    filled.map_err(|error| {
        let message = format!(
            "the {bytes} bytes that the ranks of a node share cannot be allocated ({error}): enlarge /dev/shm, or \
             reduce lane_bytes"
        );
        Failure::new(ErrorKind::Unavailable, message)
    })
}

impl Ring {
    /// In bytes; the largest number if that overflows.
    pub fn bytes_for(ranks: u32, lane_bytes: u64) -> u64 {
        let lane = lane_bytes.max(SMALLEST_LANE as u64).checked_next_multiple_of(64).unwrap_or(u64::MAX);
        let lanes = u64::from(ranks).saturating_mul(lane.saturating_add(LANE_HEAD as u64));
        lanes.saturating_add(HEAD as u64)
    }

    /// Creates a ring before any other process reads the memory.
    ///
    /// # Errors
    ///
    /// `Invalid` if the memory is too small or not aligned to 8 bytes; `Unavailable` if the system lacks it.
    ///
    /// # Safety
    ///
    /// The memory stays mapped as long as this process, or one that calls [`Ring::find`], uses a copy of the
    /// ring.
    pub unsafe fn make(base: *mut u8, bytes: u64, ranks: u32) -> Result<Ring> {
        let least = Ring::bytes_for(ranks, 0);
        if base.is_null() || !(base as usize).is_multiple_of(8) || ranks == 0 || bytes < least {
            return Err(Failure::invalid(format!(
                "a ring of {ranks} ranks needs {least} bytes of memory, aligned to 8 bytes; found {bytes} bytes at \
                 {base:p}"
            )));
        }
        let lane_bytes = ((bytes as usize - HEAD) / ranks as usize - LANE_HEAD) & !63;
        // SAFETY: guaranteed by the caller.
        unsafe { provide(base, bytes as usize) }?;
        let ring = Ring { base, lane_bytes, ranks };
        let head = ring.head();
        head.lane_bytes.store(lane_bytes as u64, Ordering::Relaxed);
        head.ranks.store(ranks, Ordering::Relaxed);
        let Process { number, born, space } = Process::here();
        head.leader.store(number, Ordering::Relaxed);
        head.born.store(born, Ordering::Relaxed);
        head.space.store(space, Ordering::Relaxed);
        head.durable.store(NONE, Ordering::Relaxed);
        head.state.store(SERVING, Ordering::Relaxed);
        head.magic.store(MAGIC, Ordering::Release);
        Ok(ring)
    }

    /// Opens another process's ring.
    ///
    /// # Errors
    ///
    /// `Invalid` if there is none, `Unsupported` for another version of Kubist.
    ///
    /// # Safety
    ///
    /// As [`Ring::make`].
    pub unsafe fn find(base: *mut u8, bytes: u64) -> Result<Ring> {
        if base.is_null() || !(base as usize).is_multiple_of(8) || bytes < HEAD as u64 {
            return Err(Failure::invalid(format!("there is no ring in {bytes} bytes at {base:p}")));
        }
        let mut ring = Ring { base, lane_bytes: 0, ranks: 0 };
        match ring.head().magic.load(Ordering::Acquire) {
            MAGIC => {}
            0 => return Err(Failure::invalid("the leader has not created the ring yet")),
            _ => return Err(Failure::new(ErrorKind::Unsupported, "the ring is of another version of Kubist")),
        }
        ring.lane_bytes = ring.head().lane_bytes.load(Ordering::Relaxed) as usize;
        ring.ranks = ring.head().ranks.load(Ordering::Relaxed);
        let whole = (LANE_HEAD + ring.lane_bytes).checked_mul(ring.ranks as usize);
        match whole.is_some_and(|lanes| lanes <= bytes as usize - HEAD) {
            true => Ok(ring),
            false => Err(Failure::invalid(format!("the ring is larger than the {bytes} shared bytes"))),
        }
    }

    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    fn head(&self) -> &Head {
        // SAFETY: the memory is mapped, and a head consists of atomics.
        unsafe { &*self.base.cast::<Head>() }
    }

    fn lane_base(&self, rank: u32) -> *mut u8 {
        debug_assert!(rank < self.ranks);
        // SAFETY: the lane is within the memory.
        unsafe { self.base.add(HEAD + rank as usize * (LANE_HEAD + self.lane_bytes)) }
    }

    fn lane(&self, rank: u32) -> &LaneHead {
        // SAFETY: as above.
        unsafe { &*self.lane_base(rank).cast::<LaneHead>() }
    }

    fn stretches(&self, rank: u32, position: u64, length: usize) -> [(*mut u8, usize); 2] {
        let at = (position % self.lane_bytes as u64) as usize;
        let first = length.min(self.lane_bytes - at);
        // SAFETY: the lane's bytes follow its head.
        let data = unsafe { self.lane_base(rank).add(LANE_HEAD) };
        // SAFETY: within the lane.
        [(unsafe { data.add(at) }, first), (data, length - first)]
    }

    pub fn fail(&self, failure: &Failure) {
        let head = self.head();
        let bytes = failure.message.as_bytes();
        let length = bytes.len().min(MESSAGE);
        head.message.iter().zip(&bytes[..length]).for_each(|(to, from)| to.store(*from, Ordering::Relaxed));
        head.length.store(length as u32, Ordering::Relaxed);
        head.kind.store(failure.kind as u32, Ordering::Relaxed);
        head.state.store(FAILED, Ordering::Release);
    }

    pub fn close(&self) {
        self.head().state.store(CLOSED, Ordering::Release);
    }

    pub fn say_durable(&self, step: i64) {
        self.head().durable.store(step, Ordering::Release);
    }

    pub fn is_closed(&self) -> bool {
        self.head().state.load(Ordering::Acquire) == CLOSED
    }

    pub fn failure(&self) -> Option<Failure> {
        let head = self.head();
        if head.state.load(Ordering::Acquire) != FAILED {
            return None;
        }
        let length = (head.length.load(Ordering::Relaxed) as usize).min(MESSAGE);
        let bytes: Vec<u8> = head.message[..length].iter().map(|byte| byte.load(Ordering::Relaxed)).collect();
        let kind = kind_of(head.kind.load(Ordering::Relaxed));
        Some(Failure::new(kind, format!("the leader of this node stopped: {}", String::from_utf8_lossy(&bytes))))
    }

    /// # Errors
    ///
    /// `Invalid` if there is no such rank, `Busy` if another process uses the lane.
    pub fn claim(&self, rank: u32) -> Result<()> {
        self.check_rank(rank)?;
        let (lane, Process { number, born, space }) = (self.lane(rank), Process::here());
        let taken = lane.process.compare_exchange(0, number, Ordering::AcqRel, Ordering::Acquire);
        let other = |other| Failure::new(ErrorKind::Busy, format!("process {other} writes to the ring as rank {rank}"));
        taken.map_err(other)?;
        lane.born.store(born, Ordering::Relaxed);
        lane.space.store(space, Ordering::Relaxed);
        lane.told.store(1, Ordering::Release);
        Ok(())
    }

    pub fn lose(&self, rank: u32) {
        self.lane(rank).end.store(LOST, Ordering::Release);
    }

    pub fn is_lost(&self, rank: u32) -> bool {
        self.lane(rank).end.load(Ordering::Acquire) == LOST
    }

    /// Marks a rank as lost, unless it has closed, before its process unmaps the memory.
    ///
    /// # Errors
    ///
    /// `Invalid` if there is no such rank.
    pub fn leave_unclosed(&self, rank: u32) -> Result<()> {
        self.check_rank(rank)?;
        let _ = self.lane(rank).end.compare_exchange(0, LOST, Ordering::AcqRel, Ordering::Acquire);
        Ok(())
    }

    fn check_rank(&self, rank: u32) -> Result<()> {
        match rank < self.ranks {
            true => Ok(()),
            false => Err(Failure::invalid(format!("the ring has {} lanes, none for rank {rank}", self.ranks))),
        }
    }

    pub fn leave(&self, rank: u32) {
        self.lane(rank).end.store(LEFT, Ordering::Release);
    }

    pub fn has_ended(&self, rank: u32) -> bool {
        self.lane(rank).end.load(Ordering::Acquire) != 0
    }

    pub fn leader(&self) -> Process {
        let head = self.head();
        Process {
            number: head.leader.load(Ordering::Relaxed),
            born: head.born.load(Ordering::Relaxed),
            space: head.space.load(Ordering::Relaxed),
        }
    }

    pub fn is_durable(&self, step: i64) -> bool {
        self.head().durable.load(Ordering::Acquire) >= step
    }

    pub fn lane_bytes(&self) -> usize {
        self.lane_bytes
    }

    /// There must be space; `copy` fills each range.
    pub fn give(&self, rank: u32, bytes: usize, mut copy: impl FnMut(&mut [u8])) {
        let lane = self.lane(rank);
        let at = lane.written.load(Ordering::Relaxed);
        for (stretch, length) in self.stretches(rank, at, bytes) {
            // SAFETY: these bytes are free, because the leader has read their previous content.
            copy(unsafe { std::slice::from_raw_parts_mut(stretch, length) });
        }
        lane.written.store(at + bytes as u64, Ordering::Release);
    }

    /// Unread bytes; acquire loads make the other side's bytes visible.
    pub fn waiting(&self, rank: u32) -> u64 {
        let lane = self.lane(rank);
        lane.written.load(Ordering::Acquire).saturating_sub(lane.taken.load(Ordering::Acquire))
    }

    pub fn producer(&self, rank: u32) -> Option<Process> {
        let lane = self.lane(rank);
        (lane.told.load(Ordering::Acquire) != 0).then(|| Process {
            number: lane.process.load(Ordering::Relaxed),
            born: lane.born.load(Ordering::Relaxed),
            space: lane.space.load(Ordering::Relaxed),
        })
    }

    /// The bytes must be available.
    pub fn take(&self, rank: u32, bytes: usize, into: &mut Vec<u8>) {
        let lane = self.lane(rank);
        let from = lane.taken.load(Ordering::Relaxed);
        for (stretch, length) in self.stretches(rank, from, bytes) {
            // SAFETY: the producer has written them, and does not overwrite unread bytes.
            into.extend_from_slice(unsafe { std::slice::from_raw_parts(stretch, length) });
        }
        lane.taken.store(from + bytes as u64, Ordering::Release);
    }

    pub fn skip(&self, rank: u32, bytes: usize) {
        self.lane(rank).taken.fetch_add(bytes as u64, Ordering::Release);
    }

    /// The next header, if it is complete.
    ///
    /// # Errors
    ///
    /// `Internal` for other bytes.
    pub fn header(&self, rank: u32) -> Result<Option<Header>> {
        if self.waiting(rank) < HEADER as u64 {
            return Ok(None);
        }
        let mut bytes = Vec::with_capacity(HEADER);
        self.take(rank, HEADER, &mut bytes);
        let header = bytes.first_chunk::<HEADER>().and_then(Header::decode);
        let garbled = || {
            Failure::new(ErrorKind::Internal, format!("the bytes of rank {rank} in the ring are not a valid message"))
        };
        header.map(Some).ok_or_else(garbled)
    }
}

fn kind_of(number: u32) -> ErrorKind {
    use ErrorKind as E;
    let all = [
        E::InvalidInput,
        E::Corrupt,
        E::Unavailable,
        E::NoSpace,
        E::Permission,
        E::Busy,
        E::Expired,
        E::Cancelled,
        E::Unsupported,
        E::NotFound,
        E::Exists,
    ];
    all.into_iter().find(|kind| *kind as u32 == number).unwrap_or(E::Internal)
}
