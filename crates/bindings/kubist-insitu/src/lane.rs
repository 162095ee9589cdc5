//! A rank's side of a ring: writes columns directly into the memory that it shares with the leader.
//!
//! A timeout or cancellation may end a call in the middle of a message. The next call then pads and voids the
//! partial message, as if the failed call had not happened.

use std::collections::VecDeque;

use kubist::ErrorKind;

use crate::failure::{Failure, Result};
use crate::patience::Patience;
use crate::presence::{Home, Watched};
use crate::ring::{HEADER, Header, Ring, What};
use crate::step::WhenFull;
use crate::values::Values;

pub struct Lane {
    ring: Ring,
    rank: u32,
    leader: Watched,
    home: Home,
    /// The begun step until its first column informs the leader, so `begin` needs no space.
    begun: Option<i64>,
    owed: Owed,
    ended: Option<i64>,
    closed: bool,
}

#[derive(Default)]
struct Owed {
    filling: usize,
    /// Columns that the leader must discard.
    void: VecDeque<usize>,
}

impl Lane {
    /// # Errors
    ///
    /// `Invalid` if there is no such rank, `Busy` if another process uses the lane.
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

    pub fn space(&self) -> (usize, usize) {
        (self.free(), self.ring.lane_bytes())
    }

    fn free(&self) -> usize {
        self.ring.lane_bytes() - self.ring.waiting(self.rank) as usize
    }

    /// Checks that a column fits, unless the caller waits.
    ///
    /// # Errors
    ///
    /// `Busy`; `Invalid` if it never fits; the leader's error.
    pub fn check_room(&self, values: &Values<'_>, when_full: WhenFull) -> Result<()> {
        self.check_space(HEADER + values.bytes().next_multiple_of(8), when_full)
    }

    /// # Errors
    ///
    /// As [`Lane::check_room`].
    pub fn check_space(&self, bytes: usize, when_full: WhenFull) -> Result<()> {
        self.room(self.beginning() + bytes, when_full)
    }

    fn beginning(&self) -> usize {
        self.begun.map_or(0, |_| HEADER) + self.owed.filling + self.owed.void.len() * HEADER
    }

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
                "{bytes} bytes do not fit into the ring of {all} bytes: use when_full \"block\", or enlarge the ring"
            ))),
            WhenFull::Fail if bytes > free => Err(Failure::new(
                ErrorKind::Busy,
                format!("the ring is full: {bytes} bytes are needed, {free} are free"),
            )),
            _ => Ok(()),
        }
    }

    fn wait_for_room(&self, bytes: usize, patience: &Patience) -> Result<usize> {
        patience.poll(&|| "room in the ring of the node".into(), || {
            self.check()?;
            Ok(Some(self.free()).filter(|free| *free >= bytes))
        })
    }

    fn write(&self, left: &mut usize, patience: &Patience, mut copy: impl FnMut(&mut [u8])) -> Result<()> {
        while *left > 0 {
            let some = self.wait_for_room(1, patience)?.min(*left);
            self.ring.give(self.rank, some, &mut copy);
            *left -= some;
        }
        Ok(())
    }

    fn send(&self, header: Header, patience: &Patience) -> Result<()> {
        let (bytes, mut at) = (header.encode(), 0);
        self.wait_for_room(HEADER, patience)?;
        self.ring.give(self.rank, HEADER, |into| {
            into.copy_from_slice(&bytes[at..at + into.len()]);
            at += into.len();
        });
        Ok(())
    }

    /// `copy` fills a range from a byte offset of the values, which are padded to 8 bytes.
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
    /// `Invalid` if the step is not later than the last; the leader's error.
    pub fn begin(&mut self, step: i64) -> Result<()> {
        self.check()?;
        if let Some(last) = self.ended.filter(|last| *last >= step) {
            return Err(Failure::invalid(format!("step {last} has ended: the next step must be later, found {step}")));
        }
        self.begun = Some(step);
        Ok(())
    }

    /// # Errors
    ///
    /// `Busy` if the ring stays full, `Cancelled`: the column can be put again. The leader's error.
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

    pub fn void(&mut self, column: usize) {
        self.owed.void.push_back(column);
    }

    /// Sends the totals of all records; the last message counts.
    ///
    /// # Errors
    ///
    /// As [`Lane::put`].
    pub fn tell(&mut self, words: &[u64], patience: &Patience) -> Result<()> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let header = Header { what: What::Thinned, column: 0, step: 0, bytes: bytes.len() as u64, rows: 0 };
        self.open(patience)?;
        self.send_values(header, patience, |from, into| into.copy_from_slice(&bytes[from..from + into.len()]))
    }

    /// Ends a batch; further rows may follow.
    ///
    /// # Errors
    ///
    /// As [`Lane::put`].
    pub fn end_part(&mut self, step: i64, patience: &Patience) -> Result<()> {
        self.open(patience)?;
        self.send(Header::of_step(What::Part, step), patience)
    }

    /// # Errors
    ///
    /// As [`Lane::put`].
    pub fn end(&mut self, step: i64, patience: &Patience, when_full: WhenFull) -> Result<()> {
        self.room(self.beginning() + HEADER, when_full)?;
        self.open(patience)?;
        self.send(Header::of_step(What::End, step), patience)?;
        self.ended = Some(step);
        Ok(())
    }

    /// # Errors
    ///
    /// As [`Lane::put`].
    pub fn abandon(&mut self, step: i64, patience: &Patience) -> Result<()> {
        self.settle(patience)?;
        self.send(Header::of_step(What::Abandon, step), patience)?;
        self.begun = None;
        self.ended = Some(step);
        Ok(())
    }

    /// Waits until all steps up to `step` are committed.
    ///
    /// # Errors
    ///
    /// `Busy` at the deadline; `Cancelled`; the leader's error.
    pub fn wait(&self, step: i64, patience: &Patience) -> Result<()> {
        self.home.check()?;
        let Some(last) = self.ended.map(|last| last.min(step)) else { return Ok(()) };
        patience.poll(&|| format!("the commit of step {last} by the leader of this node"), || {
            // In this order, because a leader publishes the durable step before it ends.
            let there = self.check();
            match self.ring.is_durable(last) {
                true => Ok(Some(())),
                false => there.map(|()| None),
            }
        })
    }

    /// Waits for all ended steps.
    ///
    /// # Errors
    ///
    /// As [`Lane::wait`]; the leader is informed also after an error.
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
    /// Otherwise the leader would wait for this rank.
    fn drop(&mut self) {
        if !self.closed && self.home.is_here() {
            self.ring.lose(self.rank);
        }
    }
}
