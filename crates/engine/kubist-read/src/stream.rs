//! The result of a query, in batches.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::bind::BoundQuery;
use crate::execute::{self, Projection, Scanned, Work};
use crate::plan::{Method, Planner};
use crate::request::Request;
use crate::select::{self, Delivery};
use crate::sort::{self, Sorted};
use crate::workers;
use kubist_catalog::snapshot::Snapshot;
use kubist_types::error::{Error, Result};
use kubist_types::stats::Stats;

/// Dropping it stops the work.
pub struct QueryStream {
    query: Arc<BoundQuery>,
    schema: SchemaRef,
    source: Source,
    stats: Stats,
    fraction: f64,
    begin: Instant,
    finished: bool,
}

enum Source {
    Scan(Work<Scanned>),
    /// Another thread selects the rows by priority.
    Selected(Receiver<Result<Delivery>>),
    /// Another thread sorts the rows.
    Sorted(Receiver<Result<Sorted>>),
    Ready(VecDeque<RecordBatch>),
    Done,
}

impl QueryStream {
    /// The matching rows of a snapshot.
    ///
    /// # Errors
    ///
    /// The errors of [`BoundQuery::new`] and of [`Planner::read_plan`] if runs are planned immediately.
    /// Errors of reading come from [`QueryStream::next_within`].
    pub fn of(snapshot: &Snapshot, request: &Request) -> Result<QueryStream> {
        QueryStream::run(Planner::new(snapshot, request)?, Stats::default())
    }

    /// Starts a query; `stats` is the cost of planning.
    ///
    /// # Errors
    ///
    /// The errors of [`Planner::read_plan`].
    pub fn run(planner: impl Into<Planner>, mut stats: Stats) -> Result<QueryStream> {
        let (begin, mut planner) = (Instant::now(), planner.into());
        let query = planner.logical.query.clone();
        let source = match planner.logical.method {
            Method::Nothing => Source::Done,
            Method::Scan if query.order.is_some() => {
                let (sender, receiver) = sync_channel(1);
                workers::spawn(move || sort::send(planner, &sender));
                Source::Sorted(receiver)
            }
            Method::Scan => {
                let wanted = Projection { columns: query.read.clone(), priorities: false, coded: query.coded() };
                Source::Scan(execute::scan(planner.all_pieces(&mut stats)?, wanted))
            }
            Method::Lowest { rows } | Method::LowestInCells { rows } => {
                let (sender, receiver) = sync_channel(1);
                workers::spawn(move || {
                    let _ = sender.send(select::select(planner, rows));
                });
                Source::Selected(receiver)
            }
        };
        let (schema, fraction) = (query.schema(), query.fraction);
        Ok(QueryStream { query, schema, source, stats, fraction, begin, finished: false })
    }

    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    pub fn is_ordered(&self) -> bool {
        self.query.order.is_some()
    }

    pub fn stats(&self) -> Stats {
        let mut stats = self.stats;
        if !self.finished {
            stats.seconds = self.begin.elapsed().as_secs_f64();
        }
        stats
    }

    /// The fraction of all priorities that the result covers: it has every matching row with a lower
    /// priority (in the window). With a `limit`, the first batch sets it to the priority of the first row
    /// left out.
    pub fn fraction(&self) -> f64 {
        self.fraction
    }

    /// The next batch: `Some(None)` at the end, `None` after `patience`.
    ///
    /// # Errors
    ///
    /// `SnapshotExpired`, `Damaged`, `Cancelled` or a storage error.
    pub fn next_within(&mut self, patience: Duration) -> Result<Option<Option<RecordBatch>>> {
        let deadline = Instant::now().checked_add(patience);
        loop {
            let left = deadline.map_or(patience, |deadline| deadline.saturating_duration_since(Instant::now()));
            match self.step(left) {
                Ok(Step::Batch(batch)) => {
                    self.stats.rows_returned += batch.num_rows() as u64;
                    return Ok(Some(Some(batch)));
                }
                Ok(Step::Nothing) if deadline.is_some_and(|deadline| Instant::now() >= deadline) => return Ok(None),
                Ok(Step::Nothing) => {}
                Ok(Step::Late) => return Ok(None),
                Ok(Step::End) => {
                    self.finish();
                    return Ok(Some(None));
                }
                Err(error) => {
                    self.finish();
                    return Err(error);
                }
            }
        }
    }

    fn finish(&mut self) {
        self.source = Source::Done;
        if !self.finished {
            self.stats.seconds = self.begin.elapsed().as_secs_f64();
            self.finished = true;
        }
    }

    fn step(&mut self, patience: Duration) -> Result<Step> {
        match &mut self.source {
            Source::Done => Ok(Step::End),
            Source::Scan(work) => {
                let next = work.next_within(patience);
                self.stats.add(&std::mem::take(&mut work.planning));
                let Some(next) = next else { return Ok(Step::Late) };
                let Some(scanned) = next else { return Ok(Step::End) };
                let scanned = scanned?;
                self.stats.add(&scanned.stats);
                if scanned.rows == 0 {
                    return Ok(Step::Nothing);
                }
                let rows = scanned.rows;
                Ok(Step::Batch(self.query.batch(rows, scanned.columns, |_| Some(None))?))
            }
            Source::Selected(receiver) => match receiver.recv_timeout(patience) {
                Err(error) => unanswered(error),
                Ok(delivery) => {
                    let Delivery { batches, stats, fraction } = delivery?;
                    self.stats.add(&stats);
                    self.fraction = fraction;
                    self.source = Source::Ready(batches);
                    Ok(Step::Nothing)
                }
            },
            Source::Sorted(receiver) => match receiver.recv_timeout(patience) {
                Err(error) => unanswered(error),
                Ok(sorted) => {
                    let Sorted { batch, stats } = sorted?;
                    self.stats.add(&stats);
                    Ok(batch.map_or(Step::End, Step::Batch))
                }
            },
            Source::Ready(batches) => Ok(batches.pop_front().map_or(Step::End, Step::Batch)),
        }
    }
}

enum Step {
    Batch(RecordBatch),
    Nothing,
    Late,
    End,
}

fn unanswered(error: RecvTimeoutError) -> Result<Step> {
    match error {
        RecvTimeoutError::Timeout => Ok(Step::Late),
        RecvTimeoutError::Disconnected => {
            Err(Error::internal("a query thread failed unexpectedly; please report this"))
        }
    }
}

impl Drop for QueryStream {
    fn drop(&mut self) {
        // The plan's own flag stops the thread that selects or sorts.
        if let Source::Selected(_) | Source::Sorted(_) = &self.source {
            self.query.cancel.set();
        }
    }
}

impl Iterator for QueryStream {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        loop {
            match self.next_within(Duration::from_secs(3600)) {
                Ok(Some(batch)) => return batch.map(Ok),
                Ok(None) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
