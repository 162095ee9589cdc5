//! The results of plans that are made piece by piece, one after the other.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kubist_types::error::{Error, Result};

use super::pipeline::Pipeline;
use crate::plan::{Pieces, ReadPlan};

type Begin<T> = dyn Fn(Arc<ReadPlan>) -> Pipeline<T> + Send;

/// What was done with the matching rows, in the order of the runs that hold them. Dropping it stops the work.
pub struct Work<T> {
    pieces: Pieces,
    begin: Box<Begin<T>>,
    current: Option<Pipeline<T>>,
}

impl<T: Send + 'static> Work<T> {
    pub(super) fn new(pieces: Pieces, begin: impl Fn(Arc<ReadPlan>) -> Pipeline<T> + Send + 'static) -> Work<T> {
        Work { pieces, begin: Box::new(begin), current: None }
    }

    /// The next result: `Some(None)` at the end, `None` if it did not come in time.
    pub fn next_within(&mut self, patience: Duration) -> Option<Option<Result<T>>> {
        let deadline = Instant::now().checked_add(patience);
        let mut is_first = true;
        loop {
            let Some(pipeline) = &mut self.current else {
                // Of many pieces there may be nothing to read.
                if !is_first && deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                    return None;
                }
                is_first = false;
                match self.pieces.next() {
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

    /// Nothing more comes: what was begun ends without being waited for.
    fn end(&mut self) {
        (self.pieces, self.current) = (Pieces::nothing(), None);
    }

    /// The results that come before `deadline`, and then [`Error::Cancelled`]: tasks that were
    /// begun end without being waited for.
    pub fn until(mut self, deadline: Option<Instant>) -> impl Iterator<Item = Result<T>> {
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
