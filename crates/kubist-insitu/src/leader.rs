//! The leader of a node: takes the ranks' columns out of the ring, and commits each step once all
//! of them ended it.
//!
//! A step is sealed by the ranks' own words: ended or abandoned, a later step, or closed. A rank
//! that dies in a step takes the node's step with it: what the others put is not written either,
//! for it would be taken for the whole. The leader says so to all of them and ends.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use arrow_array::RecordBatch;
use kubist::{ErrorKind, Table};

use crate::failure::{Failure, Result};
use crate::layout::Layout;
use crate::patience::Patience;
use crate::queue::{Queue, Ready};
use crate::ring::{HEADER, Header, Ring, What, is_there};
use crate::staged::Staged;
use crate::step::{Level, StepOptions};
use crate::values::{Kind, buffer};
use crate::writer::open_writer;

/// Between two looks at rings that are empty.
const PAUSE: Duration = Duration::from_micros(500);
/// So many looks in vain, and it is asked whether all ranks are still there.
const LOOKS: u32 = 200;
/// Of one rank's bytes, so many are taken before the next rank's turn.
const TURN_BYTES: usize = 4 << 20;

/// Commits what ranks put into a ring, on threads of its own.
pub struct Leader {
    ring: Ring,
    stop: Arc<AtomicBool>,
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

impl Leader {
    /// Takes the writer's log, and begins.
    ///
    /// # Errors
    ///
    /// `Busy` if another writer keeps the name; as of `Table::writer`; `Unavailable` if the system
    /// gives no threads.
    pub fn start(table: &Table, ring: Ring, options: &StepOptions, patience: &Patience) -> Result<Leader> {
        let layout = Layout::of(table)?;
        let writer = open_writer(table, options, patience)?;
        let queue = Queue::start(writer, options.cancel.clone(), options.queue.unwrap_or(1), options.threads)?;
        let (queue, stop) = (Arc::new(queue), Arc::new(AtomicBool::new(false)));
        let lanes = (0..ring.ranks()).map(Incoming::new).collect();
        let tokens = options.tokens;
        let serving = Serving { ring, layout, lanes, queue: queue.clone(), stop: stop.clone(), tokens };
        let thread = std::thread::Builder::new().name("kubist-leader".into()).spawn(move || serving.run());
        let refused = |error| Failure::new(ErrorKind::Unavailable, format!("no thread for the leader: {error}"));
        Ok(Leader { ring, stop, queue, thread: Some(thread.map_err(refused)?) })
    }

    /// Waits until all ranks have closed and everything is durable, and ends.
    ///
    /// # Errors
    ///
    /// `Busy` at the deadline, `Cancelled`: it goes on and can be closed again. What stopped it.
    pub fn close(&mut self, patience: &Patience) -> Result<()> {
        let ended = || self.thread.as_ref().is_none_or(JoinHandle::is_finished);
        patience.poll(&|| "the end of all ranks of this node".into(), || Ok(ended().then_some(())))?;
        if let Some(thread) = self.thread.take() {
            // It catches panics; what it could not catch is none of the solver's.
            let _ = thread.join();
        }
        self.ring.failure().map_or(Ok(()), Err)
    }

    /// What happened on the way since this was last asked.
    pub fn take_events(&self) -> Vec<(Level, String)> {
        self.queue.take_events()
    }
}

impl Drop for Leader {
    /// Ranks that still write are told.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What has come of one rank.
struct Incoming {
    rank: u32,
    staged: Option<Staged>,
    /// The column whose values are coming, and those that are here.
    column: Option<(Header, Vec<u8>)>,
    /// A step that waits for the other ranks; without batches it is abandoned.
    ended: Option<(i64, Option<Vec<RecordBatch>>)>,
    closed: bool,
    /// Whether its process could be seen when it was first looked for: only then it is known
    /// when it is gone.
    seen: Option<bool>,
}

struct Serving {
    ring: Ring,
    layout: Layout,
    lanes: Vec<Incoming>,
    queue: Arc<Queue>,
    stop: Arc<AtomicBool>,
    tokens: bool,
}

impl Serving {
    fn run(mut self) {
        let served = catch_unwind(AssertUnwindSafe(|| self.serve()));
        let panicked = |_| Err(Failure::new(ErrorKind::Internal, "a bug in Kubist stopped it"));
        match served.unwrap_or_else(panicked) {
            Ok(()) => self.ring.close(),
            Err(failure) => self.ring.fail(&failure),
        }
    }

    fn serve(&mut self) -> Result<()> {
        let mut in_vain: u32 = 0;
        while !self.stop.load(Ordering::Relaxed) {
            let mut moved = false;
            for lane in &mut self.lanes {
                moved |= lane.receive(&self.ring, &self.layout)?;
            }
            let room = self.queue.has_room()?;
            moved |= room && self.seal()?;
            if let Some(step) = self.queue.durable() {
                self.ring.say_durable(step);
            }
            if self.lanes.iter().all(|lane| lane.closed && lane.ended.is_none()) {
                return self.finish();
            }
            in_vain = if moved { 0 } else { in_vain + 1 };
            if in_vain > 0 {
                std::thread::sleep(PAUSE);
                if in_vain.is_multiple_of(LOOKS) {
                    self.lanes.iter_mut().try_for_each(|lane| lane.check_alive(&self.ring))?;
                }
            }
        }
        Err(Failure::new(ErrorKind::Unavailable, "it was ended before all ranks had closed"))
    }

    /// Waits for the last commits.
    fn finish(&self) -> Result<()> {
        let stopped = || self.stop.load(Ordering::Relaxed);
        self.queue.wait(i64::MAX, &Patience::new(Duration::MAX, &stopped))?;
        if let Some(step) = self.queue.durable() {
            self.ring.say_durable(step);
        }
        Ok(())
    }

    /// Queues the lowest step, if no rank has more for it.
    fn seal(&mut self) -> Result<bool> {
        let Some(step) = lowest(&self.lanes) else { return Ok(false) };
        let of_step = |lane: &&mut Incoming| lane.ended.as_ref().is_some_and(|(ended, _)| *ended == step);
        let parts = self.lanes.iter_mut().filter(of_step).filter_map(|lane| lane.ended.take()?.1);
        let parts: Vec<Vec<RecordBatch>> = parts.collect();
        let batches = (!parts.is_empty()).then(|| parts.into_iter().flatten().collect());
        let token = self.tokens.then(|| format!("step {step}"));
        self.queue.push(Ready { step, token, batches })?;
        Ok(true)
    }
}

/// The lowest step, if every rank has said all that it will ever say of it.
fn lowest(lanes: &[Incoming]) -> Option<i64> {
    let ended = lanes.iter().filter_map(|lane| lane.ended.as_ref().map(|(step, _)| *step)).min()?;
    let is_through = |lane: &Incoming| match (&lane.ended, &lane.staged) {
        (Some(_), _) => true,
        (None, Some(staged)) => staged.step > ended,
        (None, None) => lane.closed,
    };
    lanes.iter().all(is_through).then_some(ended)
}

impl Incoming {
    fn new(rank: u32) -> Incoming {
        Incoming { rank, staged: None, column: None, ended: None, closed: false, seen: None }
    }

    /// Takes what has come, up to the end of a step; whether there was something.
    fn receive(&mut self, ring: &Ring, layout: &Layout) -> Result<bool> {
        let mut taken = 0;
        while self.ended.is_none() && !self.closed && taken < TURN_BYTES {
            let some = match self.column.take() {
                Some((header, values)) => self.values(ring, layout, header, values)?,
                None => self.message(ring, layout)?,
            };
            if some == 0 {
                break;
            }
            taken += some;
        }
        Ok(taken > 0)
    }

    /// Takes values of a column, and keeps it when all are here.
    fn values(&mut self, ring: &Ring, layout: &Layout, header: Header, mut values: Vec<u8>) -> Result<usize> {
        let left = header.bytes as usize - values.len();
        let some = (ring.waiting(self.rank) as usize).min(left);
        ring.take(self.rank, some, &mut values);
        let filling = header.bytes.next_multiple_of(8) - header.bytes;
        if some < left || ring.waiting(self.rank) < filling {
            self.column = Some((header, values));
            return Ok(some);
        }
        ring.skip(self.rank, filling as usize);
        let column = header.column as usize;
        if let (Some(kind), Some(staged)) = (Kind::of(layout.data_type(column)), &mut self.staged) {
            staged.note(layout, column, header.rows as usize)?;
            staged.keep(column, kind.array(values));
        }
        // A column without values has moved too.
        Ok(some + 1)
    }

    fn message(&mut self, ring: &Ring, layout: &Layout) -> Result<usize> {
        let Some(header) = ring.header(self.rank)? else { return Ok(0) };
        if self.seen.is_none() {
            self.seen = ring.producer(self.rank).map(is_there);
        }
        let garbled = || {
            let message = format!("rank {} of this node says what cannot be: {header:?}", self.rank);
            Err(Failure::new(ErrorKind::Internal, message))
        };
        match header.what {
            What::Begin => self.staged = Some(Staged::new(header.step)),
            What::Column => {
                let column = header.column as usize;
                let kind = (column < layout.columns()).then(|| Kind::of(layout.data_type(column))).flatten();
                let bytes = kind.and_then(|kind| header.rows.checked_mul(kind.bytes() as u64));
                if self.staged.is_none() || bytes != Some(header.bytes) {
                    return garbled();
                }
                self.column = Some((header, buffer(header.bytes as usize)?));
            }
            What::End => {
                let Some(staged) = self.staged.take() else { return garbled() };
                self.ended = Some((staged.step, Some(staged.into_batches(layout)?)));
            }
            What::Abandon => {
                self.staged = None;
                self.ended = Some((header.step, None));
            }
            What::Close => {
                self.staged = None;
                self.closed = true;
            }
        }
        Ok(HEADER)
    }

    /// Notices that a rank's process has ended without a word.
    fn check_alive(&mut self, ring: &Ring) -> Result<()> {
        let Some(process) = ring.producer(self.rank).filter(|_| !self.closed) else { return Ok(()) };
        let is_there = is_there(process);
        if self.seen == Some(true) && !is_there && ring.waiting(self.rank) == 0 {
            let (rank, step) = (self.rank, self.staged.as_ref().map(|staged| staged.step));
            let lost = step.map_or("no step was lost".into(), |step| format!("step {step} is not written"));
            let message = format!("rank {rank} of this node, process {process}, has died: {lost}");
            return Err(Failure::new(ErrorKind::Unavailable, message));
        }
        self.seen.get_or_insert(is_there);
        Ok(())
    }
}
