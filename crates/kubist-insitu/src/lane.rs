//! One rank's end of a ring: what it puts goes straight into the memory that it shares with the
//! leader.

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
    /// A message was cut off: nothing that follows could be understood.
    torn: Option<Failure>,
    ended: Option<i64>,
    closed: bool,
}

impl Lane {
    /// # Errors
    ///
    /// `Invalid` if there is no such rank, `Busy` if another process has the lane.
    pub fn take(ring: Ring, rank: u32) -> Result<Lane> {
        ring.claim(rank)?;
        let (leader, home) = (Watched::new(ring.leader()), Home::here());
        Ok(Lane { ring, rank, leader, home, begun: None, torn: None, ended: None, closed: false })
    }

    fn check(&self) -> Result<()> {
        self.home.check()?;
        if let Some(failure) = self.torn.clone().or_else(|| self.ring.failure()) {
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

    /// What telling the leader of the step takes.
    fn beginning(&self) -> usize {
        self.begun.map_or(0, |_| HEADER)
    }

    /// Tells the leader of the step.
    fn open(&mut self, patience: &Patience) -> Result<()> {
        if let Some(step) = self.begun {
            self.send(Header::of_step(What::Begin, step), patience)?;
            self.begun = None;
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

    /// Writes what `copy` gives for each piece, as there is room.
    fn write(&mut self, bytes: usize, patience: &Patience, copy: &dyn Fn(usize, &mut [u8])) -> Result<()> {
        let mut done = 0;
        while done < bytes {
            let free = patience.poll(&|| "room in the ring of the node".into(), || {
                self.check()?;
                Ok(Some(self.free()).filter(|free| *free > 0))
            })?;
            let some = free.min(bytes - done);
            self.ring.give(self.rank, some, |given, into| copy(done + given, into));
            done += some;
        }
        Ok(())
    }

    fn send(&mut self, header: Header, patience: &Patience) -> Result<()> {
        let bytes = header.encode();
        self.whole(patience, |lane, patience| {
            lane.write(HEADER, patience, &|from, into| {
                into.copy_from_slice(&bytes[from..from + into.len()]);
            })
        })
    }

    /// Does something that leaves the lane torn if only a part of it was written.
    fn whole(&mut self, patience: &Patience, act: impl FnOnce(&mut Lane, &Patience) -> Result<()>) -> Result<()> {
        let before = self.ring.written(self.rank);
        let done = act(self, patience);
        let was_cut = |_: &&Failure| self.ring.written(self.rank) != before;
        if let Some(failure) = done.as_ref().err().filter(was_cut) {
            let message = format!("a step was cut off ({failure}): close this writer");
            self.torn = Some(Failure::new(ErrorKind::Expired, message));
            self.ring.lose(self.rank);
        }
        done
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
    /// `Busy` if the ring stays full; `Cancelled`; what stops the leader. If a part of the values
    /// was copied, only closing is possible.
    pub fn put(&mut self, column: usize, values: &Values<'_>, patience: &Patience) -> Result<()> {
        let (bytes, rows) = (values.bytes() as u64, values.count() as u64);
        let header = Header { what: What::Column, column: column as u32, step: 0, bytes, rows };
        self.open(patience)?;
        self.whole(patience, |lane, patience| {
            lane.send(header, patience)?;
            lane.write(values.bytes(), patience, &|from, into| values.copy(from, into))?;
            let filling = values.bytes().next_multiple_of(8) - values.bytes();
            lane.write(filling, patience, &|_, into| into.fill(0))
        })
    }

    /// Tells what is known of all records of the step: what stands for it as words.
    ///
    /// # Errors
    ///
    /// As of [`Lane::put`].
    pub fn tell(&mut self, words: &[u64], patience: &Patience) -> Result<()> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let header = Header { what: What::Thinned, column: 0, step: 0, bytes: bytes.len() as u64, rows: 0 };
        self.open(patience)?;
        self.whole(patience, |lane, patience| {
            lane.send(header, patience)?;
            lane.write(bytes.len(), patience, &|from, into| into.copy_from_slice(&bytes[from..from + into.len()]))
        })
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
        if !self.closed && self.torn.is_none() {
            let sent = self.send(Header::of_step(What::Close, 0), patience);
            if matches!(&sent, Err(failure) if failure.kind == ErrorKind::Busy || failure.kind == ErrorKind::Cancelled)
            {
                return sent;
            }
        }
        self.closed = true;
        match self.torn.clone() {
            Some(torn) => Err(torn),
            None => self.wait(i64::MAX, patience),
        }
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
