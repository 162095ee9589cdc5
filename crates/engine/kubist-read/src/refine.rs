//! Refinement: consecutive windows of priority, from a coarse to a fine sample.

use crate::bind::BoundQuery;
use crate::request::Request;
use crate::stream::QueryStream;
use kubist_catalog::snapshot::Snapshot;
use kubist_index::priority::Threshold;
use kubist_types::error::{Error, Result};
use kubist_types::query::QuerySpec;

/// With more steps, each would hold almost no rows.
const MOST_STEPS: f64 = 10_000.0;

const FINEST: f64 = 1.0 / 18_446_744_073_709_551_616.0;

/// Queries from coarse to fine; each row is in exactly one.
pub struct Refine {
    snapshot: Snapshot,
    request: Request,
    next: (f64, f64),
    end: f64,
    factor: f64,
}

impl Refine {
    /// Windows of a query from `start` on; each ends at `factor` times the end of the previous one.
    ///
    /// # Errors
    ///
    /// `Invalid` if the query, `start` or `factor` is not possible; `Damaged`; `Cancelled`; a storage
    /// error.
    pub fn new(snapshot: Snapshot, request: Request, start: f64, factor: f64) -> Result<Refine> {
        let query = &request.spec;
        if !(start > 0.0 && start <= 1.0) {
            return Err(Error::invalid(format!("start must be in (0, 1], found {start}")));
        }
        if !(factor > 1.0 && factor.is_finite()) {
            return Err(Error::invalid(format!("factor must be above 1, found {factor}")));
        }
        if query.limit.is_some() || query.per_cell.is_some() {
            return Err(Error::invalid(
                "refine takes no limit and no per_cell: each step is a whole window of priorities",
            ));
        }
        BoundQuery::new(&snapshot, &request)?;
        let (begin, end) = query.window.unwrap_or((0.0, 1.0));
        let end = end.min(query.sample.unwrap_or(1.0));
        let first = (begin + start).min(end);
        let empty = Threshold::from_fraction(first) <= Threshold::from_fraction(begin);
        if start < FINEST || (begin < end && empty) {
            return Err(Error::invalid(format!(
                "start must be what priorities tell apart, found {start}: a first step from {begin} on would be empty"
            )));
        }
        let steps = 1.0 + ((end / first).ln() / factor.ln()).ceil();
        if begin < end && steps > MOST_STEPS {
            return Err(Error::invalid(format!(
                "refine: from start {start} a factor of {factor} takes {steps:.0} steps, and at most {MOST_STEPS} are \
                 taken: take a larger factor or start"
            )));
        }
        Ok(Refine { snapshot, request, next: (begin, first), end, factor })
    }
}

impl Iterator for Refine {
    type Item = Result<QueryStream>;

    fn next(&mut self) -> Option<Result<QueryStream>> {
        let (low, high) = self.next;
        if low >= self.end {
            return None;
        }
        self.next = (high, (high * self.factor).min(self.end));
        let spec = QuerySpec { window: Some((low, high)), sample: None, ..self.request.spec.clone() };
        Some(QueryStream::of(&self.snapshot, &self.request.run.clone().of(spec)))
    }
}
