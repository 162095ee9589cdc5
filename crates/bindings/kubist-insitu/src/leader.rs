//! The leader of a node reads the ranks' columns from the ring, and commits each step once all ranks have ended or
//! abandoned it.
//!
//! A rank that dies in a step, closes in it or skips it stops the leader. The step is then not written, because readers
//! would mistake a partial step for the whole.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use kubist::{ErrorKind, Table, Thinned};

use crate::copies::buffer;
use crate::failure::{Failure, Result};
use crate::layout::Layout;
use crate::patience::Patience;
use crate::presence::{Home, Watched};
use crate::queue::{Queue, Ready, step_back};
use crate::ring::{HEADER, Header, Ring, What};
use crate::sample;
use crate::staged::Staged;
use crate::step::{Level, StepOptions};
use crate::values::Kind;
use crate::writer::open_writer;

/// Pause between polls of empty rings, and its largest multiple.
const PAUSE: Duration = Duration::from_micros(500);
const LONGER: u32 = 8;
/// Empty polls between checks that all ranks still run.
const LOOKS: u32 = 200;
/// Bytes of a rank to read before the next rank's turn.
const TURN_BYTES: usize = 4 << 20;

pub struct Leader {
    ring: Ring,
    stop: Arc<AtomicBool>,
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
    home: Home,
}

impl Leader {
    /// # Errors
    ///
    /// As `Table::writer`; `Unavailable` without threads.
    pub fn start(table: &Table, ring: Ring, options: &StepOptions, patience: &Patience) -> Result<Leader> {
        let layout = Layout::of(table)?;
        let writer = open_writer(table, options, patience)?;
        let queue = Queue::start(writer, options)?;
        let (queue, stop) = (Arc::new(queue), Arc::new(AtomicBool::new(false)));
        let lanes = (0..ring.ranks()).map(Incoming::new).collect();
        let (own, tokens) = (options.clone(), options.tokens);
        let serving = Serving { ring, layout, lanes, queue: queue.clone(), stop: stop.clone(), tokens };
        let work = move || {
            step_back(&own);
            serving.run();
        };
        let thread = std::thread::Builder::new().name("kubist-leader".into()).spawn(work);
        let refused = |error| Failure::new(ErrorKind::Unavailable, format!("no thread for the leader: {error}"));
        Ok(Leader { ring, stop, queue, thread: Some(thread.map_err(refused)?), home: Home::here() })
    }

    /// Waits until everything is durable and all ranks have closed; they may use the memory even after an
    /// error.
    ///
    /// # Errors
    ///
    /// The error that stopped it; `Busy` at the deadline, `Cancelled`: it can be closed again.
    pub fn close(&mut self, patience: &Patience) -> Result<()> {
        self.home.check()?;
        let what = || "the end of all ranks of this node".into();
        let ended = || self.thread.as_ref().is_none_or(JoinHandle::is_finished);
        patience.poll(&what, || Ok(ended().then_some(()))).inspect_err(|_| self.queue.let_go())?;
        if let Some(thread) = self.thread.take() {
            // The thread catches panics itself.
            let _ = thread.join();
        }
        let Some(failure) = self.ring.failure() else { return Ok(()) };
        let lanes: Vec<(u32, Option<Watched>)> =
            (0..self.ring.ranks()).map(|rank| (rank, self.ring.producer(rank).map(Watched::new))).collect();
        let is_gone = |process: &Option<Watched>| process.as_ref().is_none_or(Watched::is_gone);
        let have_ended = || lanes.iter().all(|(rank, process)| self.ring.has_ended(*rank) || is_gone(process));
        // The leader's error is more important than a timeout.
        let _ = patience.poll(&what, || Ok(have_ended().then_some(())));
        Err(failure)
    }

    pub fn take_events(&self) -> Vec<(Level, String)> {
        self.queue.take_events()
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        if !self.home.is_here() {
            std::mem::forget(self.thread.take());
            return;
        }
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Incoming {
    rank: u32,
    staged: Option<Staged>,
    column: Option<(Header, Vec<u8>)>,
    thinned: Option<Vec<u64>>,
    /// `None` if it was abandoned.
    ended: Option<(i64, Option<Part>)>,
    closed: bool,
    process: Option<Watched>,
}

struct Part {
    batches: Vec<RecordBatch>,
    thinned: Option<Thinned>,
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
            Err(failure) => {
                // Writes complete steps before it reports the error.
                let _ = self.finish();
                self.ring.fail(&failure.lasting());
            }
        }
    }

    fn serve(&mut self) -> Result<()> {
        let mut in_vain: u32 = 0;
        while !self.stop.load(Ordering::Relaxed) {
            let mut moved = false;
            let look = in_vain > 0 && in_vain.is_multiple_of(LOOKS);
            for lane in &mut self.lanes {
                // Checked first, because a rank may write its last bytes and then end.
                let loss = lane.loss(&self.ring, look);
                let has_moved = lane.receive(&self.ring, &mut self.layout)?;
                moved |= has_moved;
                if let Some(what) = loss.filter(|_| !has_moved && !lane.is_through()) {
                    return Err(lane.lost(&what));
                }
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
                std::thread::sleep(PAUSE * (1 + in_vain / LOOKS).min(LONGER));
            }
        }
        Err(Failure::new(ErrorKind::Unavailable, "it was stopped before all ranks had closed"))
    }

    fn finish(&self) -> Result<()> {
        let stopped = || self.stop.load(Ordering::Relaxed);
        let waited = self.queue.wait(i64::MAX, &Patience::new(Duration::MAX, &stopped));
        if let Some(step) = self.queue.durable() {
            self.ring.say_durable(step);
        }
        waited
    }

    fn seal(&mut self) -> Result<bool> {
        let Some(step) = lowest(&self.lanes) else { return Ok(false) };
        let has_rows = |lane: &Incoming| lane.ended.as_ref().is_some_and(|(at, rows)| *at == step && rows.is_some());
        let is_silent = |lane: &&Incoming| lane.ended.as_ref().is_none_or(|(at, _)| *at != step);
        if let Some(silent) = self.lanes.iter().find(is_silent).filter(|_| self.lanes.iter().any(has_rows)) {
            let rank = silent.rank;
            let message =
                format!("rank {rank} of this node has neither ended nor abandoned step {step}: it is not written");
            return Err(Failure::new(ErrorKind::Unavailable, message));
        }
        let of_step = |lane: &&mut Incoming| lane.ended.as_ref().is_some_and(|(ended, _)| *ended == step);
        let parts = self.lanes.iter_mut().filter(of_step).filter_map(|lane| lane.ended.take()?.1);
        let parts: Vec<Part> = parts.collect();
        let thinned = joined(&parts);
        let batches = (!parts.is_empty()).then(|| parts.into_iter().flat_map(|part| part.batches).collect());
        let token = self.tokens.then(|| format!("step {step}"));
        self.queue.push(Ready { step, token, batches, thinned })?;
        Ok(true)
    }
}

/// Sums are dropped unless all ranks computed them.
fn joined(parts: &[Part]) -> Option<Thinned> {
    let mut all: Option<Thinned> = None;
    for thinned in parts.iter().filter_map(|part| part.thinned.as_ref()) {
        all = Some(all.map_or_else(|| thinned.clone(), |all| all.join(thinned)));
    }
    let whole = parts.iter().filter(|part| part.thinned.is_none()).flat_map(|part| &part.batches);
    let rows: u64 = whole.map(|batch| batch.num_rows() as u64).sum();
    all.map(|all| match rows {
        0 => all,
        rows => Thinned { rows: all.rows + rows, sums: BTreeMap::new(), ..all },
    })
}

/// The lowest ended step, if no rank can still add to it.
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
        Incoming { rank, staged: None, column: None, thinned: None, ended: None, closed: false, process: None }
    }

    /// Returns true if there were any bytes, up to the end of a step.
    fn receive(&mut self, ring: &Ring, layout: &mut Layout) -> Result<bool> {
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

    fn values(&mut self, ring: &Ring, layout: &mut Layout, header: Header, mut values: Vec<u8>) -> Result<usize> {
        let left = header.bytes as usize - values.len();
        let some = (ring.waiting(self.rank) as usize).min(left);
        ring.take(self.rank, some, &mut values);
        let filling = header.bytes.next_multiple_of(8) - header.bytes;
        if some < left || ring.waiting(self.rank) < filling {
            self.column = Some((header, values));
            return Ok(some);
        }
        ring.skip(self.rank, filling as usize);
        if header.what == What::Thinned {
            // At the end, because an interrupted message is sent again.
            self.thinned = Some(values.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect());
            return Ok(some + 1);
        }
        let column = header.column as usize;
        if let (Some(kind), Some(staged)) = (Kind::of(layout.data_type(column)), &mut self.staged) {
            staged.check_column(layout, column, header.rows as usize)?;
            staged.note(column, header.rows as usize);
            staged.keep(column, kind.array(Buffer::from_vec(values)));
        }
        Ok(some + 1)
    }

    fn message(&mut self, ring: &Ring, layout: &mut Layout) -> Result<usize> {
        let Some(header) = ring.header(self.rank)? else { return Ok(0) };
        let garbled = || {
            let message = format!("rank {} of this node sent an invalid message: {header:?}", self.rank);
            Err(Failure::new(ErrorKind::Internal, message))
        };
        match header.what {
            What::Begin => self.staged = Some(Staged::new(header.step)),
            What::Column => {
                let column = header.column as usize;
                if column >= layout.columns() {
                    layout.refresh()?;
                }
                let kind = (column < layout.columns()).then(|| Kind::of(layout.data_type(column))).flatten();
                let bytes = kind.and_then(|kind| header.rows.checked_mul(kind.bytes() as u64));
                if self.staged.is_none() || bytes != Some(header.bytes) {
                    return garbled();
                }
                self.column = Some((header, buffer(header.bytes as usize)?));
            }
            What::Thinned => {
                if self.staged.is_none() || !header.bytes.is_multiple_of(8) {
                    return garbled();
                }
                self.column = Some((header, buffer(header.bytes as usize)?));
            }
            What::Void => {
                let Some(staged) = &mut self.staged else { return garbled() };
                staged.forget(header.column as usize);
            }
            What::Part => {
                let Some(staged) = &mut self.staged else { return garbled() };
                staged.check(layout)?;
                staged.end_part(layout)?;
            }
            What::End => {
                let Some(mut staged) = self.staged.take() else { return garbled() };
                staged.check(layout)?;
                let thinned = self.thinned.take().map(|words| sample::thinned(&words, layout)).transpose()?;
                let part = Part { batches: staged.take_batches(layout)?, thinned };
                self.ended = Some((staged.step, Some(part)));
            }
            What::Abandon => {
                (self.staged, self.thinned) = (None, None);
                self.ended = Some((header.step, None));
            }
            What::Close => {
                if self.staged.is_some() {
                    return Err(self.lost("which closed in a step"));
                }
                self.closed = true;
            }
        }
        Ok(HEADER)
    }

    fn loss(&mut self, ring: &Ring, look: bool) -> Option<String> {
        if self.process.is_none() {
            self.process = ring.producer(self.rank).map(Watched::new);
        }
        let process = self.process.as_ref()?;
        if ring.is_lost(self.rank) {
            return Some(format!("process {}, has given up", process.number()));
        }
        (look && process.is_gone()).then(|| format!("process {}, has died", process.number()))
    }

    /// True if the rank has closed, or its step waits for other ranks.
    fn is_through(&self) -> bool {
        self.closed || self.ended.is_some()
    }

    fn lost(&self, what: &str) -> Failure {
        let (rank, step) = (self.rank, self.staged.as_ref().map(|staged| staged.step));
        let lost = step.map_or("no step was lost".into(), |step| format!("step {step} is not written"));
        Failure::new(ErrorKind::Unavailable, format!("rank {rank} of this node, {what}: {lost}"))
    }
}
