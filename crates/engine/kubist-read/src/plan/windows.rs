//! Windows of increasing priority.

use kubist_index::priority::PriorityRange;

use super::{Method, Planner};
use kubist_types::error::Result;
use kubist_types::stats::Stats;

/// Approximate rows in the first window of `per_cell`, if matching rows per cell cannot be estimated.
const FIRST_ROWS_OF_CELLS: f64 = 16_384.0;

#[derive(Clone, Debug)]
pub struct Windows {
    range: PriorityRange,
    low: u64,
    /// The current window ends at this fraction of the range.
    share: f64,
}

impl Windows {
    pub fn current(&self) -> PriorityRange {
        let PriorityRange { first, last } = self.range;
        let end = match self.share >= 1.0 {
            true => last,
            false => (first as f64 + (last - first) as f64 * self.share).min(last as f64) as u64,
        };
        PriorityRange { first: self.low, last: end.clamp(self.low, last) }
    }

    pub fn is_last(&self) -> bool {
        self.current().last >= self.range.last
    }

    /// Moves to the next window, at whose end `factor` times as much is read.
    pub fn grow(&mut self, factor: f64) {
        let next = self.current().last.saturating_add(1);
        (self.low, self.share) = (next.min(self.range.last), self.share * factor);
    }
}

impl Planner {
    /// A single window if everything is read anyway.
    ///
    /// # Errors
    ///
    /// The errors of [`Planner::read_plan`], because the number of rows is planned.
    pub fn windows(&mut self, stats: &mut Stats) -> Result<Windows> {
        match &self.windows {
            Some(windows) => Ok(windows.clone()),
            None => {
                let windows = self.find_windows(stats)?;
                Ok(self.windows.insert(windows).clone())
            }
        }
    }

    fn find_windows(&mut self, stats: &mut Stats) -> Result<Windows> {
        let range = self.logical.query.range().unwrap_or(PriorityRange::ALL);
        let first_rows = match self.logical.method {
            Method::Nothing | Method::Scan => None,
            // With this expected number, too few rows are rare. One more row than the limit defines the
            // cutoff of the result.
            Method::Lowest { rows } => {
                let enough = rows.saturating_add(1) as f64;
                Some(enough + 4.0 * enough.sqrt() + 16.0)
            }
            Method::LowestInCells { .. } => Some(FIRST_ROWS_OF_CELLS),
        };
        let share = match first_rows {
            Some(rows) => rows / self.expected_rows(stats)?.max(1.0),
            None => 1.0,
        };
        let mut windows = Windows { range, low: range.first, share };
        let roughly = !self.logical.query.is_everywhere() && self.whole.is_none() && share < 1.0;
        if let Some(rows) = first_rows.filter(|_| roughly) {
            let first = self.read_plan(windows.current(), stats)?;
            let factor = (rows / first.expected_rows().max(1.0)).clamp(0.25, 4.0);
            match (0.5..=1.0).contains(&factor) {
                true => self.first = Some(first),
                false => windows.share *= factor,
            }
        }
        Ok(windows)
    }
}
