//! Ends a step that may be subsampled by the budget of all writers, or with `Thin` to fit the queue's free
//! space.

use arrow_array::RecordBatch;
use kubist::{ErrorKind, Thinned};
use kubist_index::budget::{BINS, bin, threshold};
use kubist_index::priority::Threshold;

use super::{Sink, StepWriter};
use crate::budget::{Budget, Decision, Share};
use crate::failure::{Failure, Result};
use crate::patience::Patience;
use crate::queue::Ready;
use crate::ring::{HEADER, bytes_of};
use crate::sample::words;
use crate::step::{Level, Report, WhenFull};
use crate::values::{Kind, Values};

/// A full queue keeps at least one record in this many, and a lane uses at least this part.
const LEAST_PART: u64 = 8;

/// The kept records while a ring sends them; after a timeout, sending continues with the next message.
pub(super) struct Handing {
    batches: Vec<RecordBatch>,
    thinned: Option<Thinned>,
    rows: u64,
    sent: usize,
}

impl StepWriter {
    /// This writer's share of the step, which stays open.
    ///
    /// # Errors
    ///
    /// `Invalid` if no step is open, a column is missing, or a condition cannot be evaluated.
    pub fn share(&mut self) -> Result<Share> {
        let staged = StepWriter::staged(&mut self.staged, "ending it")?;
        let step = staged.step;
        let offered = self.budget.as_ref().is_some_and(Budget::is_offered);
        if !offered {
            staged.check(&self.layout)?;
        }
        let Some(budget) = &mut self.budget else { return Ok(Share::empty()) };
        if !offered {
            let batches = staged.take_batches(&self.layout)?;
            if let Err(failure) = budget.offer(batches.clone()) {
                staged.put_back(batches);
                return Err(failure);
            }
        }
        budget.share(step)
    }

    /// Ends the step from the sum of all shares; its kept records are then durable or queued.
    ///
    /// # Errors
    ///
    /// The step stays open after `Unavailable` (another writer cannot end it), `Invalid` (different budgets)
    /// and `NoSpace` (always-kept records exceed the budget). Otherwise as [`StepWriter::end`], which ends the
    /// step after `Busy`.
    pub fn settle(
        &mut self,
        words: &[u64],
        largest: &[f64],
        token: Option<&str>,
        patience: &Patience,
    ) -> Result<Report> {
        let step = StepWriter::staged(&mut self.staged, "ending it")?.step;
        match &mut self.budget {
            None => Share::check(words, largest, 0, step)?,
            Some(budget) => budget.decide(words, largest, step)?,
        }
        self.end(token, patience)
    }

    pub(super) fn end_in_budget(&mut self, token: Option<&str>, patience: &Patience) -> Result<Report> {
        let step = StepWriter::staged(&mut self.staged, "ending it")?.step;
        let budget = |writer: &StepWriter| writer.budget.as_ref().map(|budget| (budget.shared, budget.decision()));
        match budget(self) {
            Some((true, None)) => {
                return Err(Failure::invalid(format!(
                    "the budget of step {step} is shared: all writers must end it together (kubist_mpi_end_step)"
                )));
            }
            Some((false, None)) => {
                let Share { words, largest } = self.share()?;
                if let Some(budget) = &mut self.budget {
                    budget.decide(&words, &largest, step)?;
                }
            }
            _ => {}
        }
        match budget(self) {
            Some((_, Some(Decision::Keep(below)))) => self.hand_kept_over(step, below, token, patience),
            _ => {
                let report = self.abandon(patience)?;
                self.events.push((Level::Info, format!("step {step} is not kept: persist_when does not hold")));
                Ok(report)
            }
        }
    }

    fn hand_kept_over(
        &mut self,
        step: i64,
        below: Threshold,
        token: Option<&str>,
        patience: &Patience,
    ) -> Result<Report> {
        if let (Sink::Lane(_), Some(token)) = (&self.sink, token) {
            let message = format!("token {token:?}: commits of a leader have their own tokens");
            return Err(Failure::new(ErrorKind::Unsupported, message));
        }
        if self.handing.is_some() {
            return self.hand_on(step, patience);
        }
        let room = self.threshold_of_room(step, patience)?;
        let Some(budget) = &mut self.budget else { return self.end(token, patience) };
        let (batches, thinned) = budget.kept(below.min(room))?;
        let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
        if let Some(Thinned { below, rows: all, .. }) = thinned.as_ref().filter(|_| room < below) {
            let message = format!(
                "step {step} is thinned to {rows} of {all} records, of priority below {below}: the queue is full"
            );
            self.events.push((Level::Warning, message));
        }
        if let Sink::Lane(_) = self.sink {
            self.handing = Some(Handing { batches, thinned, rows, sent: 0 });
            return self.hand_on(step, patience);
        }
        self.staged = None;
        self.forget_offers();
        let token = self.token(token, step);
        self.hand_over(Ready { step, token, batches: Some(batches), thinned })
    }

    fn hand_on(&mut self, step: i64, patience: &Patience) -> Result<Report> {
        let Some(mut handing) = self.handing.take() else { return Ok(Report { step, ..Report::default() }) };
        if let Err(failure) = self.put_kept(step, &mut handing, patience) {
            self.handing = Some(handing);
            return Err(failure);
        }
        self.staged = None;
        self.forget_offers();
        Ok(Report { step, rows: handing.rows, ..Report::default() })
    }

    pub(super) fn forget_offers(&mut self) {
        self.handing = None;
        if let Some(budget) = &mut self.budget {
            budget.forget();
        }
    }

    /// The threshold below which records fit the free space; without `Thin`, waits for space.
    fn threshold_of_room(&self, step: i64, patience: &Patience) -> Result<Threshold> {
        match &self.sink {
            Sink::Direct(_) => Ok(Threshold::ALL),
            Sink::Queue(queue) => {
                let is_full = self.when_full == WhenFull::Thin && !queue.has_room()?;
                self.wait_for_room(queue, step, patience)?;
                let part = Threshold::new(Threshold::ALL.to_u128() / u128::from(LEAST_PART));
                Ok(if is_full { part } else { Threshold::ALL })
            }
            Sink::Lane(lane) => {
                let offers = self.budget.as_ref().map_or(&[][..], Budget::offers);
                // A header and padding to 8 bytes per column, and a column for the thresholds.
                let columns = self.layout.columns() as u64 + 1;
                let around = (offers.len() as u64 + 1) * (columns + 2) * (HEADER as u64 + 8) + 32 * columns;
                let all: u64 = offers.iter().flat_map(|offer| &offer.bytes).map(|bytes| bytes + 8).sum();
                if self.when_full != WhenFull::Thin {
                    lane.check_space((all + around) as usize, self.when_full)?;
                    return Ok(Threshold::ALL);
                }
                let (free, whole) = lane.space();
                let room = (free as u64).max(whole as u64 / LEAST_PART).saturating_sub(around);
                let mut bins = vec![0; BINS];
                for offer in offers {
                    let rows = offer.priorities.iter().zip(&offer.bytes);
                    rows.for_each(|(priority, bytes)| bins[bin(*priority)] += bytes + 8);
                }
                Ok(threshold(&bins, room))
            }
        }
    }

    fn put_kept(&mut self, step: i64, handing: &mut Handing, patience: &Patience) -> Result<()> {
        let Handing { batches, thinned, sent, .. } = handing;
        for name in batches.iter().flat_map(|batch| batch.schema_ref().fields()).map(|field| field.name()) {
            self.layout.column(name)?;
        }
        let Sink::Lane(lane) = &mut self.sink else { return Ok(()) };
        let mut message = 0;
        if let Some(thinned) = thinned {
            once(&mut message, sent, || lane.tell(&words(thinned, &self.layout), patience))?;
        }
        for batch in batches.iter() {
            for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
                let bytes = bytes_of(field.name(), array)?;
                let kind = Kind::of(array.data_type()).expect("its bytes are of one of the kinds");
                // SAFETY: the bytes outlive the call.
                let values = unsafe { Values::from_raw(kind, bytes.as_ptr(), array.len() as u64, 0) }?;
                let column = self.layout.column(field.name())?;
                once(&mut message, sent, || lane.put(column, &values, patience))?;
            }
            once(&mut message, sent, || lane.end_part(step, patience))?;
        }
        lane.end(step, patience, WhenFull::Block)
    }
}

fn once(message: &mut usize, sent: &mut usize, send: impl FnOnce() -> Result<()>) -> Result<()> {
    if *message == *sent {
        send()?;
        *sent += 1;
    }
    *message += 1;
    Ok(())
}
