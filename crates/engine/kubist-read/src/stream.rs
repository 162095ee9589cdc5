//! The answer of a query, batch by batch, while it is being read.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use arrow_array::{Float64Array, RecordBatch};
use arrow_schema::SchemaRef;

use crate::bind::BoundQuery;
use crate::execute::{self, Scanned, Wanted, Work};
use crate::plan::{LogicalPlan, Method};
use crate::request::Request;
use crate::select::{self, Delivery};
use crate::sort::{self, Sorted};
use crate::workers;
use kubist_catalog::snapshot::Snapshot;
use kubist_types::error::{Error, Result};
use kubist_types::stats::Stats;

/// The answer of a query, batch by batch. Dropping it stops the work.
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
    /// Records in no order of priority, as they are scanned.
    Scan(Work<Scanned>, Arc<LogicalPlan>),
    /// Selected by priority on a thread of their own.
    Selected(Receiver<Result<Delivery>>),
    /// In an order, from a thread of their own.
    Sorted(Receiver<Result<Sorted>>),
    /// Selected and sorted.
    Ready(VecDeque<RecordBatch>),
    Done,
}

impl QueryStream {
    /// The records of a snapshot that match.
    ///
    /// # Errors
    ///
    /// Those of [`BoundQuery::new`] and, where runs are planned at once, of
    /// [`LogicalPlan::read_plan`]; reading itself fails in [`QueryStream::next_within`].
    pub fn of(snapshot: &Snapshot, request: &Request) -> Result<QueryStream> {
        QueryStream::run(LogicalPlan::new(snapshot, request)?)
    }

    /// The records that a plan chooses.
    ///
    /// # Errors
    ///
    /// Those of [`LogicalPlan::read_plan`].
    pub fn run(plan: impl Into<Arc<LogicalPlan>>) -> Result<QueryStream> {
        let (begin, plan) = (Instant::now(), plan.into());
        let query = plan.query.clone();
        let source = match plan.method {
            Method::Nothing => Source::Done,
            Method::Scan if query.order.is_some() => {
                let (sender, receiver) = sync_channel(1);
                workers::spawn(move || sort::send(&plan, &sender));
                Source::Sorted(receiver)
            }
            Method::Scan => {
                let wanted = Wanted { columns: query.read.clone(), priorities: false };
                Source::Scan(execute::scan(plan.all_pieces()?, wanted), plan)
            }
            Method::Lowest { rows } | Method::LowestInCells { rows } => {
                let (sender, receiver) = sync_channel(1);
                workers::spawn(move || {
                    let _ = sender.send(select::select(&plan, rows));
                });
                Source::Selected(receiver)
            }
        };
        let (schema, fraction) = (query.schema(), query.fraction);
        Ok(QueryStream { query, schema, source, stats: Stats::default(), fraction, begin, finished: false })
    }

    /// The columns of the answer.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Is the answer in an order of columns?
    pub fn is_ordered(&self) -> bool {
        self.query.order.is_some()
    }

    /// What it cost so far.
    pub fn stats(&self) -> Stats {
        let mut stats = self.stats;
        if !self.finished {
            stats.seconds = self.begin.elapsed().as_secs_f64();
        }
        stats
    }

    /// Every matching record with a priority below this (and in the window) is in
    /// the answer. Under a `limit` it is known with the first batch: then it is
    /// the priority of the first record left out.
    pub fn fraction(&self) -> f64 {
        self.fraction
    }

    /// The next batch; `Some(None)` at the end, `None` if none came in time.
    ///
    /// # Errors
    ///
    /// As of the stream's items: `SnapshotExpired`, `Damaged`, `Cancelled` or a storage error.
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
            Source::Scan(work, plan) => match work.next_within(patience) {
                None => Ok(Step::Late),
                Some(None) => {
                    self.stats.add(&plan.take_cost());
                    Ok(Step::End)
                }
                Some(Some(scanned)) => {
                    let scanned = scanned?;
                    self.stats.add(&scanned.stats);
                    self.stats.add(&plan.take_cost());
                    if scanned.rows == 0 {
                        return Ok(Step::Nothing);
                    }
                    let rows = scanned.rows;
                    let inclusion = || Float64Array::from(vec![self.query.probability(None); rows]);
                    Ok(Step::Batch(self.query.batch(rows, scanned.columns, inclusion)?))
                }
            },
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
    /// Progress, but no batch.
    Nothing,
    Late,
    End,
}

/// What it means that a thread has sent nothing.
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
        // The plan's own switch: the thread that selects or sorts stops.
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
