//! One rank's end of a ring: what it puts goes straight into the memory that it shares with the
//! leader.
//!
//! A call may end early, for lack of time or because somebody says stop. What it began to say is then
//! filled up and taken back by the next call: the step is as if that call had not been.

use std::collections::VecDeque;

use kubist::ErrorKind;

use crate::failure::{Failure, Result};
use crate::patience::Patience;
use crate::presence::{Home, Watched};
use crate::ring::{HEADER, Header, Ring, What};
use crate::step::WhenFull;
use crate::values::Values;

/// The lane of one rank, as that rank writes to it.
pub struct Lane {
    ring: Ring,
    rank: u32,
    leader: Watched,
    home: Home,
    /// The step that was begun, while the leader has not been told: it is with its first column,
    /// so that beginning needs no room.
    begun: Option<i64>,
    owed: Owed,
    ended: Option<i64>,
    closed: bool,
}

/// What calls that ended early leave to the next.
#[derive(Default)]
struct Owed {
    /// Bytes that a message lacks.
    filling: usize,
    /// Columns that the leader has, and that do not count.
    void: VecDeque<usize>,
}

impl Lane {
    /// # Errors
    ///
    /// `Invalid` if there is no such rank, `Busy` if another process has the lane.
    pub fn take(ring: Ring, rank: u32) -> Result<Lane> {
        ring.claim(rank)?;
        let (leader, home) = (Watched::new(ring.leader()), Home::here());
        Ok(Lane { ring, rank, leader, home, begun: None, owed: Owed::default(), ended: None, closed: false })
    }

    fn check(&self) -> Result<()> {
        self.home.check()?;
        if let Some(failure) = self.ring.failure() {
            return Err(failure);
        }
        match self.ring.is_closed() || self.leader.is_gone() {
            true => Err(Failure::new(
                ErrorKind::Unavailable,
                format!("the leader of this node, process {}, has ended", self.leader.number()),
            )),
            false => Ok(()),
        }
    }

    /// Bytes that can be put without waiting, and those that all of the lane has.
    pub fn space(&self) -> (usize, usize) {
        (self.free(), self.ring.lane_bytes())
    }

    fn free(&self) -> usize {
        self.ring.lane_bytes() - self.ring.waiting(self.rank) as usize
    }

    /// Refuses what does not fit now, if the caller does not want to wait.
    ///
    /// # Errors
    ///
    /// `Busy`; `Invalid` if it never fits; what stops the leader.
    pub fn check_room(&self, values: &Values<'_>, when_full: WhenFull) -> Result<()> {
        self.check_space(HEADER + values.bytes().next_multiple_of(8), when_full)
    }

    /// The same for messages of so many bytes.
    ///
    /// # Errors
    ///
    /// As of [`Lane::check_room`].
    pub fn check_space(&self, bytes: usize, when_full: WhenFull) -> Result<()> {
        self.room(self.beginning() + bytes, when_full)
    }

    /// What is to be told before anything else.
    fn beginning(&self) -> usize {
        self.begun.map_or(0, |_| HEADER) + self.owed.filling + self.owed.void.len() * HEADER
    }

    /// Tells the leader what calls that ended early left, and of the step.
    fn open(&mut self, patience: &Patience) -> Result<()> {
        self.settle(patience)?;
        if let Some(step) = self.begun {
            self.send(Header::of_step(What::Begin, step), patience)?;
            self.begun = None;
        }
        Ok(())
    }

    fn settle(&mut self, patience: &Patience) -> Result<()> {
        let mut left = self.owed.filling;
        let filled = self.write(&mut left, patience, |into| into.fill(0));
        self.owed.filling = left;
        filled?;
        while let Some(column) = self.owed.void.front() {
            self.send(Header { column: *column as u32, ..Header::of_step(What::Void, 0) }, patience)?;
            self.owed.void.pop_front();
        }
        Ok(())
    }

    fn room(&self, bytes: usize, when_full: WhenFull) -> Result<()> {
        self.check()?;
        let (free, all) = (self.free(), self.ring.lane_bytes());
        match when_full {
            WhenFull::Fail if bytes > all => Err(Failure::invalid(format!(
                "{bytes} bytes do not fit into the ring of {all} bytes: let the call wait, or make the ring larger"
            ))),
            WhenFull::Fail if bytes > free => {
                Err(Failure::new(ErrorKind::Busy, format!("the ring is full: {free} bytes are free of {bytes} needed")))
            }
            _ => Ok(()),
        }
    }

    /// Waits for so many bytes of room; how many there are.
    fn wait_for_room(&self, bytes: usize, patience: &Patience) -> Result<usize> {
        patience.poll(&|| "room in the ring of the node".into(), || {
            self.check()?;
            Ok(Some(self.free()).filter(|free| *free >= bytes))
        })
    }

    /// Writes the bytes that are left, as there is room: `copy` fills place after place.
    fn write(&self, left: &mut usize, patience: &Patience, mut copy: impl FnMut(&mut [u8])) -> Result<()> {
        while *left > 0 {
            let some = self.wait_for_room(1, patience)?.min(*left);
            self.ring.give(self.rank, some, &mut copy);
            *left -= some;
        }
        Ok(())
    }

    /// Writes a header, whole or not at all.
    fn send(&self, header: Header, patience: &Patience) -> Result<()> {
        let (bytes, mut at) = (header.encode(), 0);
        self.wait_for_room(HEADER, patience)?;
        self.ring.give(self.rank, HEADER, |into| {
            into.copy_from_slice(&bytes[at..at + into.len()]);
            at += into.len();
        });
        Ok(())
    }

    /// Writes a header and its values, of which `copy` gives those from a byte on, filled up to 8.
    fn send_values(&mut self, header: Header, patience: &Patience, copy: impl Fn(usize, &mut [u8])) -> Result<()> {
        let (bytes, mut at) = (header.bytes as usize, 0);
        self.send(header, patience)?;
        let mut left = bytes.next_multiple_of(8);
        let sent = self.write(&mut left, patience, |into| {
            let (values, filling) = into.split_at_mut(into.len().min(bytes - at));
            copy(at, values);
            filling.fill(0);
            at += values.len();
        });
        self.owed.filling = left;
        sent
    }

    /// # Errors
    ///
    /// `Invalid` if the step is not later than the last; what stops the leader.
    pub fn begin(&mut self, step: i64) -> Result<()> {
        self.check()?;
        if let Some(last) = self.ended.filter(|last| *last >= step) {
            return Err(Failure::invalid(format!("step {last} has been ended: the next must be later, found {step}")));
        }
        self.begun = Some(step);
        Ok(())
    }

    /// # Errors
    ///
    /// `Busy` if the ring stays full; `Cancelled`: the column is not put, and can be again. What stops the
    /// leader.
    pub fn put(&mut self, column: usize, values: &Values<'_>, patience: &Patience) -> Result<()> {
        let (bytes, rows) = (values.bytes() as u64, values.count() as u64);
        let header = Header { what: What::Column, column: column as u32, step: 0, bytes, rows };
        self.open(patience)?;
        let sent = self.send_values(header, patience, |from, into| values.copy(from, into));
        if self.owed.filling > 0 {
            self.void(column);
        }
        sent
    }

    /// Takes a column back that was put.
    pub fn void(&mut self, column: usize) {
        self.owed.void.push_back(column);
    }

    /// Tells what is known of all records of the step: what stands for it as words. What is told last counts.
    ///
    /// # Errors
    ///
    /// As of [`Lane::put`].
    pub fn tell(&mut self, words: &[u64], patience: &Patience) -> Result<()> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let header = Header { what: What::Thinned, column: 0, step: 0, bytes: bytes.len() as u64, rows: 0 };
        self.open(patience)?;
        self.send_values(header, patience, |from, into| into.copy_from_slice(&bytes[from..from + into.len()]))
    }

    /// Says that the columns so far are whole, and that others of more rows may follow.
    ///
    /// # Errors
    ///
    /// As of [`Lane::put`].
    pub fn end_part(&mut self, step: i64, patience: &Patience) -> Result<()> {
        self.open(patience)?;
        self.send(Header::of_step(What::Part, step), patience)
    }

    /// # Errors
    ///
    /// As of [`Lane::put`].
    pub fn end(&mut self, step: i64, patience: &Patience, when_full: WhenFull) -> Result<()> {
        self.room(self.beginning() + HEADER, when_full)?;
        self.open(patience)?;
        self.send(Header::of_step(What::End, step), patience)?;
        self.ended = Some(step);
        Ok(())
    }

    /// # Errors
    ///
    /// As of [`Lane::put`].
    pub fn abandon(&mut self, step: i64, patience: &Patience) -> Result<()> {
        self.settle(patience)?;
        self.send(Header::of_step(What::Abandon, step), patience)?;
        self.begun = None;
        self.ended = Some(step);
        Ok(())
    }

    /// Waits until the leader has committed all that was ended up to `step`.
    ///
    /// # Errors
    ///
    /// `Busy` at the deadline; `Cancelled`; what stops the leader.
    pub fn wait(&self, step: i64, patience: &Patience) -> Result<()> {
        self.home.check()?;
        let Some(last) = self.ended.map(|last| last.min(step)) else { return Ok(()) };
        patience.poll(&|| format!("the commit of step {last} by the leader of this node"), || {
            // In this order: a leader that has ended said before what is durable.
            let there = self.check();
            match self.ring.is_durable(last) {
                true => Ok(Some(())),
                false => there.map(|()| None),
            }
        })
    }

    /// Waits for all that was ended, and says that nothing more will come.
    ///
    /// # Errors
    ///
    /// As of [`Lane::wait`]; after a failure too the leader knows that nothing more will come.
    pub fn close(&mut self, patience: &Patience) -> Result<()> {
        self.home.check()?;
        if !self.closed {
            let sent = self.settle(patience).and_then(|()| self.send(Header::of_step(What::Close, 0), patience));
            if matches!(&sent, Err(failure) if failure.kind == ErrorKind::Busy || failure.kind == ErrorKind::Cancelled)
            {
                return sent;
            }
        }
        self.closed = true;
        self.ring.leave(self.rank);
        self.wait(i64::MAX, patience)
    }
}

impl Drop for Lane {
    /// A rank that ends without a word would be waited for.
    fn drop(&mut self) {
        if !self.closed && self.home.is_here() {
            self.ring.lose(self.rank);
        }
    }
}
