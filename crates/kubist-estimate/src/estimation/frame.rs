//! Records of known number, among which those that are asked for are some.
//!
//! How many records a box has is often known, from the tree alone. Of a condition or of groups in it
//! it is not, but then they are a share of the known number, and a share is told better than a
//! number: of a group of half of the records from half as many (the ratio estimator: Cochran,
//! Sampling Techniques, 1977, chapter 6). For a condition it means to read the other records of
//! the sample too, so it is done where these are no more than about twice as many.

use std::sync::Arc;

use kubist_expr::Expression;
use kubist_types::Population;
use kubist_types::error::Result;

use super::Estimation;
use crate::accumulate::{Accumulated, Asked, Brought};
use crate::figure::Stop;

/// A condition that this share of the records meets is worth the others.
const WORTH_SHARE: f64 = 0.3;

impl<P: Population> Estimation<P> {
    /// Draws from the frame from now on, if there is one and that makes intervals narrower: what the
    /// pilot read is read again as a sample of it.
    pub(super) fn find_frame(&mut self) -> Result<()> {
        let filter = self.records.filter();
        let part = filter.is_some() || !self.groups.fields().is_empty();
        let needed = |asked: &Asked| asked.bound.properties.uses_number_of_records;
        let by_chance = self.tails.is_none() && self.known.is_none() && self.share() < 1.0;
        let (Some(pilot), true) = (self.pilot.clone(), part && by_chance) else { return Ok(()) };
        if !self.task.aggregates.iter().any(needed) {
            return Ok(());
        }
        let figures = self.figures();
        if self.verdict(&figures) != Stop::Progress {
            return Ok(());
        }
        let mut columns = self.wanted.columns.clone();
        let condition = filter.map(|filter| Expression::parse(&filter, &self.visible)).transpose()?;
        let read = condition.iter().flat_map(|condition| condition.columns());
        columns.extend(read.map(|column| self.records.place(column)));
        columns.sort_unstable();
        columns.dedup();
        let frame = self.records.frame()?.reading(&columns)?;
        let Some(rows) = self.counted(&frame, self.rows_ahead(&figures))? else { return Ok(()) };
        let found = self.accumulated.rows() as f64 / self.share();
        if condition.is_some() && found < WORTH_SHARE * rows as f64 {
            return Ok(());
        }
        let (old, wanted) = (self.brought.clone(), self.wanted.clone());
        self.brought = Arc::new(Brought { schema: super::part(self.records.stored(), &columns), condition });
        self.wanted.columns = columns;
        let before = std::mem::replace(&mut self.accumulated, Accumulated::framed(&self.task));
        let again = self.in_time(|| self.accumulate(&frame, &pilot, self.low, self.at, false))?;
        let Some((found, stats)) = again else {
            (self.accumulated, self.brought, self.wanted) = (before, old, wanted);
            return Ok(());
        };
        self.accumulated.merge(&self.task.clone(), found)?;
        self.stats.add(&stats);
        (self.records, self.framed) = (frame, Some(rows));
        Ok(())
    }
}
