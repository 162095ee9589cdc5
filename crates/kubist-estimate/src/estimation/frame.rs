//! Records of known number, among which those that are asked for are some.
//!
//! How many records a box has is often known, from the tree alone or nearly. Of a condition or of groups in it
//! it is not, but then they are a share of the known number, and a share is told better than a
//! number: of a group of half of the records from half as many (the ratio estimator: Cochran,
//! Sampling Techniques, 1977, chapter 6). For a condition it means to read the other records of
//! the sample too, so it is done where these are no more than about twice as many. That is seen by a
//! pilot that is drawn from the frame.

use std::sync::Arc;

use kubist_expr::Expression;
use kubist_types::Population;
use kubist_types::error::Result;
use kubist_types::population::Wanted;

use super::Estimation;
use crate::accumulate::{Accumulated, Asked, Brought};
use crate::figure::Stop;

/// A condition that this share of the records meets is worth the others.
const WORTH_SHARE: f64 = 0.3;
/// Where fewer than this part of the frame's records are read for a condition, it finds its own faster.
const LIKELY_SHARE: f64 = 0.9;

/// Records that meet a condition, and what is read of them.
pub(super) struct Own<P> {
    records: P,
    brought: Arc<Brought>,
    wanted: Wanted,
}

impl<P: Population> Estimation<P> {
    /// Draws from the frame from now on, if there is one that may make intervals narrower.
    pub(super) fn enter_frame(&mut self) -> Result<()> {
        let filter = self.records.filter();
        let is_part = filter.is_some() || !self.groups.fields().is_empty();
        let needed = |asked: &Asked| asked.bound.properties.uses_number_of_records;
        let is_by_chance = self.tails.is_none() && self.known.is_none();
        if !is_part || !is_by_chance || !self.task.aggregates.iter().any(needed) {
            return Ok(());
        }
        if let Some(filter) = filter {
            let condition = Expression::parse(&filter, &self.visible)?;
            let mut columns = self.wanted.columns.clone();
            columns.extend(condition.columns().into_iter().map(|column| self.records.place(column)));
            columns.sort_unstable();
            columns.dedup();
            let frame = self.records.frame()?.reading(&columns)?;
            if self.expected < LIKELY_SHARE * frame.rough_rows()? {
                return Ok(());
            }
            let schema = super::part(self.records.stored(), &columns);
            let brought = Arc::new(Brought { schema, condition: Some(condition) });
            let wanted = Wanted { columns, ..self.wanted.clone() };
            self.own = Some(Own {
                records: std::mem::replace(&mut self.records, frame),
                brought: std::mem::replace(&mut self.brought, brought),
                wanted: std::mem::replace(&mut self.wanted, wanted),
            });
        }
        self.accumulated = Accumulated::framed(&self.task);
        Ok(())
    }

    /// Draws only from the records that are asked for from now on.
    pub(super) fn leave_frame(&mut self) {
        if let Some(Own { records, brought, wanted }) = self.own.take() {
            (self.records, self.brought, self.wanted) = (records, brought, wanted);
        }
        self.accumulated.frame = None;
    }

    /// Leaves the frame if its other records are not worth it, after so many were found among those that were drawn.
    pub(super) fn judge_frame(&mut self, found: u64, drawn: usize) {
        if self.own.is_some() && (found as f64) < WORTH_SHARE * drawn as f64 {
            self.leave_frame();
        }
    }

    /// Keeps to the frame from which the pilot was drawn if the number of its records can be told, and leaves it
    /// otherwise.
    pub(super) fn find_frame(&mut self) -> Result<()> {
        let Some(drawn) = self.accumulated.frame.as_ref().map(|frame| frame.records()) else { return Ok(()) };
        let figures = self.figures();
        if self.share() >= 1.0 || self.verdict(&figures) != Stop::Progress {
            return Ok(());
        }
        // Which part of the frame is asked for; of groups the smallest.
        let found = self.accumulated.groups.iter().map(|group| group.rows as f64);
        let part = (found.fold(f64::INFINITY, f64::min) / drawn.max(1.0)).min(1.0);
        // Without a goal nothing is read for it.
        let saved = if self.has_goal() { part } else { 0.0 };
        self.framed = self.number(&self.records.clone(), &figures, saved)?;
        match self.framed {
            Some(_) => self.own = None,
            None => self.leave_frame(),
        }
        Ok(())
    }
}
