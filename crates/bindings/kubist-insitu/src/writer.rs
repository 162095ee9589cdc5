//! The solver's interface: begin a step, put its columns, end it.

mod thinned;

use arrow_array::RecordBatch;
use kubist::{ErrorKind, Table, Writer, WriterOptions};
use kubist_catalog::schema::KEPT_BELOW;

use self::thinned::Handing;
use crate::budget::Budget;
use crate::copies::Copies;
use crate::failure::{Failure, Result};
use crate::lane::Lane;
use crate::layout::Layout;
use crate::patience::Patience;
use crate::queue::{Queue, Ready, commit};
use crate::ring::{HEADER, Ring, bytes_of, kind_of_values};
use crate::staged::Staged;
use crate::step::{Level, Report, StepOptions, WhenFull};
use crate::values::{Kind, Values};

/// Refuses the budget's own column, and every column after the budget's decision.
fn check_open(budget: &Option<Budget>, step: i64, column: &str) -> Result<()> {
    match budget {
        Some(budget) if budget.is_offered() => {
            Err(Failure::invalid(format!("step {step} is being ended: end or abandon it")))
        }
        Some(_) if column == KEPT_BELOW => Err(Failure::invalid(format!(
            "column {column:?} is reserved: the writer stores the threshold of the budget in it"
        ))),
        _ => Ok(()),
    }
}

pub struct StepWriter {
    name: String,
    layout: Layout,
    staged: Option<Staged>,
    queued: Option<i64>,
    sink: Sink,
    when_full: WhenFull,
    tokens: bool,
    budget: Option<Budget>,
    handing: Option<Handing>,
    copies: Copies,
    events: Vec<(Level, String)>,
}

enum Sink {
    Direct(Box<Writer>),
    Queue(Queue),
    Lane(Lane),
}

/// Waits while another writer has the name.
///
/// # Errors
///
/// `Busy` if the name stays in use; as `Table::writer`.
pub fn open_writer(table: &Table, options: &StepOptions, patience: &Patience) -> Result<Writer> {
    let of_engine = WriterOptions {
        name: options.name.clone(),
        memory_bytes: options.memory_bytes,
        optimize: options.optimize,
        cancel: options.cancel.clone(),
    };
    let name = options.name.as_deref().unwrap_or_default();
    patience.poll(&|| format!("the end of the other writer {name:?}"), || match table.writer(&of_engine) {
        Ok(writer) => Ok(Some(writer)),
        Err(kubist::Error::Busy(_)) => Ok(None),
        Err(error) => Err(error.into()),
    })
}

impl StepWriter {
    /// Opens a writer with its own log.
    ///
    /// # Errors
    ///
    /// `Busy` if the name stays in use; as `Table::writer`.
    pub fn open(table: &Table, options: &StepOptions, patience: &Patience) -> Result<StepWriter> {
        let budget = Budget::of(table, &options.budget, options.when_full == WhenFull::Thin)?;
        let layout = Layout::of(table)?;
        let writer = open_writer(table, options, patience)?;
        let name = writer.name().to_owned();
        let sink = match options.queue {
            None => Sink::Direct(Box::new(writer)),
            Some(_) => Sink::Queue(Queue::start(writer, options)?),
        };
        let (when_full, tokens) = (options.when_full, options.tokens);
        let (staged, queued, events) = (None, None, vec![]);
        Ok(StepWriter {
            name,
            layout,
            staged,
            queued,
            sink,
            when_full,
            tokens,
            budget,
            handing: None,
            copies: Copies::default(),
            events,
        })
    }

    /// Opens a writer that sends its steps through a node's ring as rank `rank`; a [`Leader`](crate::Leader)
    /// commits them.
    ///
    /// # Errors
    ///
    /// `Invalid` for a wrong rank or budget, `Busy` if another process uses the rank; as `Table::snapshot`.
    pub fn attach(table: &Table, ring: Ring, rank: u32, options: &StepOptions) -> Result<StepWriter> {
        let when_full = options.when_full;
        let budget = Budget::of(table, &options.budget, when_full == WhenFull::Thin)?;
        let layout = Layout::of(table)?;
        let sink = Sink::Lane(Lane::take(ring, rank)?);
        Ok(StepWriter {
            name: format!("rank {rank} of the node"),
            layout,
            staged: None,
            queued: None,
            sink,
            when_full,
            tokens: false,
            budget,
            handing: None,
            copies: Copies::default(),
            events: vec![],
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn step(&self) -> Option<i64> {
        self.staged.as_ref().map(|staged| staged.step)
    }

    /// # Errors
    ///
    /// `Invalid` if a step is open or, with a queue, not later than the last one; the error of a queued step.
    pub fn begin(&mut self, step: i64) -> Result<()> {
        if let Some(open) = self.step() {
            return Err(Failure::invalid(format!("step {open} is open: end or abandon it before step {step}")));
        }
        match &mut self.sink {
            Sink::Direct(_) => {}
            Sink::Queue(queue) => {
                queue.has_room()?;
                if let Some(last) = self.queued.filter(|last| *last >= step) {
                    return Err(Failure::invalid(format!(
                        "step {last} is queued or written: the next must be later, found {step} \
                         (to go back, open another writer)"
                    )));
                }
            }
            Sink::Lane(lane) => lane.begin(step)?,
        }
        self.staged = Some(Staged::new(step));
        Ok(())
    }

    fn staged<'a>(staged: &'a mut Option<Staged>, what: &str) -> Result<&'a mut Staged> {
        staged.as_mut().ok_or_else(|| Failure::invalid(format!("no step is open: begin one before {what}")))
    }

    /// Copies the values of a column.
    ///
    /// # Errors
    ///
    /// `Invalid` without a step, or for an unknown or repeated column, a wrong type or number of values;
    /// `Unavailable` without memory; through a ring, the leader's error.
    pub fn put(&mut self, column: &str, values: Values<'_>, patience: &Patience) -> Result<()> {
        let staged = StepWriter::staged(&mut self.staged, "putting a column")?;
        check_open(&self.budget, staged.step, column)?;
        let index = self.layout.column(column)?;
        self.layout.check_kind(index, values.kind())?;
        staged.check_column(&self.layout, index, values.count())?;
        match &mut self.sink {
            Sink::Lane(lane) if self.budget.is_none() => {
                lane.check_room(&values, self.when_full)?;
                lane.put(index, &values, patience)?;
            }
            _ => staged.keep(index, values.to_array(&self.copies)?),
        }
        // Recorded last, so that a failed column can be put again.
        staged.note(index, values.count());
        Ok(())
    }

    /// Copies a batch with all columns; a step may have several batches.
    ///
    /// # Errors
    ///
    /// As [`StepWriter::put`]; through a ring, `Unsupported` for types that are no [`Kind`] and for nulls, `Invalid` if
    /// [`WhenFull::Fail`] is set and the batch is larger than the ring, `Busy`, `Cancelled`. Nothing of the batch is put after an error.
    pub fn put_batch(&mut self, batch: &RecordBatch, patience: &Patience) -> Result<()> {
        let staged = StepWriter::staged(&mut self.staged, "putting rows")?;
        for field in batch.schema().fields() {
            check_open(&self.budget, staged.step, field.name())?;
        }
        self.layout.check_batch(batch)?;
        let is_lane = matches!(self.sink, Sink::Lane(_));
        if self.budget.is_some() || !is_lane {
            // Checked now, because after the decision it is too late.
            for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()).filter(|_| is_lane) {
                kind_of_values(field.name(), array)?;
            }
            return staged.keep_batch(batch);
        }
        let mut there = vec![];
        let sent = self.put_through_ring(batch, &mut there, patience);
        if let (Err(_), Sink::Lane(lane), Some(staged)) = (&sent, &mut self.sink, &mut self.staged) {
            for column in there {
                staged.forget(column);
                lane.void(column);
            }
        }
        sent
    }

    fn put_through_ring(&mut self, batch: &RecordBatch, there: &mut Vec<usize>, patience: &Patience) -> Result<()> {
        if let Sink::Lane(lane) = &self.sink {
            // Otherwise a column could find room only if the leader read the column before it in time.
            let mut needed = HEADER;
            for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
                let bytes = array.len() * kind_of_values(field.name(), array)?.bytes();
                needed += HEADER + bytes.next_multiple_of(8);
            }
            lane.check_space(needed, self.when_full)?;
        }
        for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
            let bytes = bytes_of(field.name(), array)?;
            let kind = Kind::of(array.data_type()).expect("its bytes are of one of the kinds");
            // SAFETY: the bytes outlive the call.
            let values = unsafe { Values::from_raw(kind, bytes.as_ptr(), array.len() as u64, 0) }?;
            self.put(field.name(), values, patience)?;
            there.push(self.layout.column(field.name())?);
        }
        if let (Sink::Lane(lane), Some(staged)) = (&mut self.sink, &mut self.staged) {
            lane.end_part(staged.step, patience)?;
            staged.begin_part();
        }
        Ok(())
    }

    /// Ends the step, which is then durable or queued.
    ///
    /// # Errors
    ///
    /// The step stays open after `Invalid` (no step is open, or a column is missing), `Unsupported` (a token
    /// with a ring), `Busy` (the queue is full) and `Cancelled`. After the error of a queued step, and after
    /// errors of `Writer::commit_as`, the step is no longer open, and nothing is stored.
    pub fn end(&mut self, token: Option<&str>, patience: &Patience) -> Result<Report> {
        let staged = StepWriter::staged(&mut self.staged, "ending it")?;
        if self.budget.is_some() {
            return self.end_in_budget(token, patience);
        }
        staged.check(&self.layout)?;
        let step = staged.step;
        if let Sink::Lane(lane) = &mut self.sink {
            if let Some(token) = token {
                let message = format!("token {token:?}: commits of a leader have their own tokens");
                return Err(Failure::new(ErrorKind::Unsupported, message));
            }
            lane.end(step, patience, self.when_full)?;
            self.staged = None;
            return Ok(Report { step, ..Report::default() });
        }
        if let Sink::Queue(queue) = &self.sink {
            self.wait_for_room(queue, step, patience)?;
        }
        let mut staged = self.staged.take().expect("it was there above");
        let batches = Some(staged.take_batches(&self.layout)?);
        self.hand_over(Ready { step, token: self.token(token, step), batches, thinned: None })
    }

    fn wait_for_room(&self, queue: &Queue, step: i64, patience: &Patience) -> Result<()> {
        match self.when_full {
            WhenFull::Fail if !queue.has_room()? => {
                Err(Failure::new(ErrorKind::Busy, format!("the queue has no room for step {step}")))
            }
            WhenFull::Fail => Ok(()),
            WhenFull::Block => queue.wait_for_room(step, 0, patience),
            WhenFull::Thin => queue.wait_for_room(step, queue.room(), patience),
        }
    }

    fn token(&self, token: Option<&str>, step: i64) -> Option<String> {
        token.map(str::to_owned).or_else(|| self.tokens.then(|| format!("step {step}")))
    }

    fn hand_over(&mut self, ready: Ready) -> Result<Report> {
        match &mut self.sink {
            Sink::Direct(writer) => commit(writer, ready),
            Sink::Queue(queue) => {
                let (step, abandoned) = (ready.step, ready.batches.is_none());
                let rows = ready.batches.iter().flatten().map(|batch| batch.num_rows() as u64).sum();
                queue.push(ready)?;
                self.queued = Some(step);
                Ok(Report { step, rows, abandoned, ..Report::default() })
            }
            Sink::Lane(_) => Err(Failure::new(ErrorKind::Internal, "a ring takes no whole steps")),
        }
    }

    /// Discards the open step, and records in the table that this writer has no rows for it.
    ///
    /// # Errors
    ///
    /// As [`StepWriter::end`].
    pub fn abandon(&mut self, patience: &Patience) -> Result<Report> {
        let step = StepWriter::staged(&mut self.staged, "abandoning it")?.step;
        if let Sink::Lane(lane) = &mut self.sink {
            // If the ring is full, the step stays open with its decision.
            lane.abandon(step, patience)?;
            self.forget_offers();
            self.staged = None;
            return Ok(Report { step, abandoned: true, ..Report::default() });
        }
        self.forget_offers();
        self.staged = None;
        self.hand_over(Ready { step, token: self.token(None, step), batches: None, thinned: None })
    }

    /// Waits until all ended steps up to `step` are durable.
    ///
    /// # Errors
    ///
    /// A step's error; `Busy` at the deadline; `Cancelled`.
    pub fn wait(&self, step: i64, patience: &Patience) -> Result<()> {
        match &self.sink {
            Sink::Direct(_) => Ok(()),
            Sink::Queue(queue) => queue.wait(step, patience),
            Sink::Lane(lane) => lane.wait(step, patience),
        }
    }

    /// Waits for queued steps, which a drop discards, and frees the name; an open step is discarded.
    ///
    /// # Errors
    ///
    /// A step's error; `Busy` at the deadline, `Cancelled`: it can be closed again.
    pub fn close(&mut self, patience: &Patience) -> Result<()> {
        self.staged = None;
        match &mut self.sink {
            Sink::Direct(_) => Ok(()),
            Sink::Queue(queue) => queue.close(patience),
            Sink::Lane(lane) => lane.close(patience),
        }
    }

    pub fn take_events(&mut self) -> Vec<(Level, String)> {
        let mut events = std::mem::take(&mut self.events);
        if let Sink::Queue(queue) = &self.sink {
            events.extend(queue.take_events());
        }
        events
    }
}
