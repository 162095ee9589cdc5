//! An iterator over the results of a query, whose read plan is made in one or several pieces.
//!
//! Each piece gets its own [`Pipeline`], which runs its tasks on several threads. The next piece is planned after all
//! results of the previous one were taken, so the plan of a long manifest is never in memory as a whole.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kubist_types::error::{Error, Result};
use kubist_types::stats::Stats;

use super::pipeline::Pipeline;
use crate::plan::{Pieces, ReadPlan};

type Begin<T> = dyn Fn(Arc<ReadPlan>) -> Pipeline<T> + Send;

/// The results of a query, one per task, in the order of the plan's runs; dropping it stops the tasks.
pub struct Work<T> {
    pieces: Pieces,
    begin: Box<Begin<T>>,
    current: Option<Pipeline<T>>,
    /// The cost of planning the pieces so far, which the caller adds to the query's statistics.
    pub planning: Stats,
}

impl<T: Send + 'static> Work<T> {
    pub(super) fn new(pieces: Pieces, begin: impl Fn(Arc<ReadPlan>) -> Pipeline<T> + Send + 'static) -> Work<T> {
        Work { pieces, begin: Box::new(begin), current: None, planning: Stats::default() }
    }

    /// Returns the next result as `Some(Some(result))`, `Some(None)` at the end, or `None` if there is no result within
    /// `patience`. A single task of a piece runs on this thread, however long it takes, and an error ends the
    /// iteration.
    pub fn next_within(&mut self, patience: Duration) -> Option<Option<Result<T>>> {
        let deadline = Instant::now().checked_add(patience);
        let mut is_first = true;
        loop {
            let Some(pipeline) = &mut self.current else {
                // Planning takes time too, and several pieces in a row may have nothing to read.
                if !is_first && deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                    return None;
                }
                is_first = false;
                match self.pieces.next(&mut self.planning) {
                    None => return Some(None),
                    Some(Err(error)) => return Some(Some(Err(error))),
                    Some(Ok(plan)) => self.current = Some((self.begin)(plan)),
                }
                continue;
            };
            let left = deadline.map_or(patience, |deadline| deadline.saturating_duration_since(Instant::now()));
            match pipeline.next_within(left)? {
                Some(result) => {
                    if result.is_err() {
                        self.end();
                    }
                    return Some(Some(result));
                }
                None => self.current = None,
            }
        }
    }

    /// Ends the iteration without waiting for running tasks.
    fn end(&mut self) {
        (self.pieces, self.current) = (Pieces::nothing(), None);
    }

    /// Iterates over the results until `deadline`, and then returns [`Error::Cancelled`] without waiting for running
    /// tasks.
    pub fn until(&mut self, deadline: Option<Instant>) -> impl Iterator<Item = Result<T>> {
        std::iter::from_fn(move || {
            let Some(deadline) = deadline else { return self.next() };
            let left = deadline.saturating_duration_since(Instant::now());
            let next = if left.is_zero() { None } else { self.next_within(left) };
            next.unwrap_or_else(|| {
                self.end();
                Some(Err(Error::Cancelled))
            })
        })
    }
}

impl<T: Send + 'static> Iterator for Work<T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        loop {
            if let Some(next) = self.next_within(Duration::from_secs(3600)) {
                return next;
            }
        }
    }
}
