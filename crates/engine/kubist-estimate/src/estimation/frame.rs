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
use kubist_population::{Number, Population, Wanted};
use kubist_types::error::Result;

use super::Estimation;
use crate::accumulate::{Accumulated, Asked, Brought};
use crate::figure::Stop;

/// A condition that this share of the records meets is worth the others.
const WORTH_SHARE: f64 = 0.3;
/// Where fewer than this part of the frame's records are read for a condition, it finds its own faster; if something may be
/// expected of all, where fewer than the second.
const LIKELY_SHARE: f64 = 0.9;
const LIKELY_EXPECTED: f64 = 0.5;
/// What is expected of the frame's records is worth the others if it leaves at most this part to draw.
const WORTH_EXPECTED: f64 = 0.8;

/// Records that meet a condition, and what is read of them.
pub(super) struct Own<P> {
    /// The part of the frame's records that would be read for them alone.
    part: f64,
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
            let least = if frame.located_by().is_some() { LIKELY_EXPECTED } else { LIKELY_SHARE };
            let part = self.expected / frame.rough_rows()?.max(1.0);
            if part < least {
                return Ok(());
            }
            let schema = super::part(self.records.stored(), &columns);
            let brought = Arc::new(Brought { schema, condition: Some(condition), places: vec![] });
            let wanted = Wanted { columns, ..self.wanted.clone() };
            self.own = Some(Own {
                part,
                records: std::mem::replace(&mut self.records, frame),
                brought: std::mem::replace(&mut self.brought, brought),
                wanted: std::mem::replace(&mut self.wanted, wanted),
            });
        }
        self.accumulated = Accumulated::nothing(&self.task, true, None);
        Ok(())
    }

    /// Draws only from the records that are asked for from now on.
    pub(super) fn leave_frame(&mut self) {
        if let Some(Own { records, brought, wanted, .. }) = self.own.take() {
            (self.records, self.brought, self.wanted) = (records, brought, wanted);
            // Of the others nothing is known any more.
            (self.plain, self.accumulated.expected) = (None, None);
        }
        self.accumulated.frame = None;
    }

    /// Leaves the frame if its other records are not worth it, after so many were found among those that were drawn.
    pub(super) fn judge_frame(&mut self, found: u64, drawn: usize) {
        if self.own.is_some() && (found as f64) < WORTH_SHARE * drawn as f64 {
            self.leave_frame();
        }
    }

    /// Keeps to the frame from which the pilot was drawn if the number of its records can be told, or enough is expected of
    /// them, and leaves it otherwise.
    pub(super) fn find_frame(&mut self) -> Result<()> {
        if self.accumulated.frame.is_none() {
            return Ok(());
        }
        let figures = self.figures();
        if self.share() >= 1.0 || self.verdict(&figures) != Stop::Progress {
            return Ok(());
        }
        let ahead = self.rows_ahead(&figures).max(1) as f64;
        // What figures would be if the number were known.
        self.framed = Some(Number::exact(self.expected as u64));
        let known = self.figures();
        self.framed = None;
        // Without a goal nothing is read for it.
        let part = self.own.as_ref().map_or(1.0, |own| own.part);
        let saved = if self.has_goal() { 1.0 - self.rows_ahead(&known) as f64 / ahead } else { 0.0 };
        // Drawn for itself a condition takes less.
        if part >= LIKELY_SHARE {
            self.framed = self.number(&self.records.clone(), &figures, saved)?;
        }
        if self.framed.is_none() {
            let expected = self.accumulated.expected.take();
            let alone = self.figures();
            self.accumulated.expected = expected;
            let is_worth = self.own.is_none() || ahead < WORTH_EXPECTED * part * self.rows_ahead(&alone) as f64;
            if !is_worth || self.accumulated.expected.is_none() {
                self.leave_frame();
                return Ok(());
            }
            self.accumulated.frame = None;
        }
        self.own = None;
        Ok(())
    }
}
