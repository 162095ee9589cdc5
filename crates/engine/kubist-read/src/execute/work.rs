//! The results of plans that are made piece by piece, in order.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kubist_types::error::{Error, Result};
use kubist_types::stats::Stats;

use super::pipeline::Pipeline;
use crate::plan::{Pieces, ReadPlan};

type Begin<T> = dyn Fn(Arc<ReadPlan>) -> Pipeline<T> + Send;

/// Results for the matching rows, in the order of their runs. Dropping it stops the work.
pub struct Work<T> {
    pieces: Pieces,
    begin: Box<Begin<T>>,
    current: Option<Pipeline<T>>,
    /// The cost of planning the pieces so far; the reader takes it.
    pub planning: Stats,
}

impl<T: Send + 'static> Work<T> {
    pub(super) fn new(pieces: Pieces, begin: impl Fn(Arc<ReadPlan>) -> Pipeline<T> + Send + 'static) -> Work<T> {
        Work { pieces, begin: Box::new(begin), current: None, planning: Stats::default() }
    }

    /// Returns the next result: `Some(None)` at the end, `None` after `patience`.
    pub fn next_within(&mut self, patience: Duration) -> Option<Option<Result<T>>> {
        let deadline = Instant::now().checked_add(patience);
        let mut is_first = true;
        loop {
            let Some(pipeline) = &mut self.current else {
                // Several pieces in a row may have nothing to read.
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

    /// Ends the iteration; running tasks are not waited for.
    fn end(&mut self) {
        (self.pieces, self.current) = (Pieces::nothing(), None);
    }

    /// Returns the results before `deadline`, then [`Error::Cancelled`]. Running tasks are not waited for.
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
