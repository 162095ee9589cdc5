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
use kubist_types::stats::Stats;

use super::{Facts, Question, Sample, Source};
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

/// Where the records that meet a condition are drawn alone.
pub(super) struct Own<P> {
    /// The part of the frame's records that would be read for them alone.
    part: f64,
    source: Source<P>,
}

impl<P: Population> Question<P> {
    /// A sample that is drawn from the frame, if there is one that may make intervals narrower.
    pub(super) fn in_frame(&self, sample: Sample<P>) -> Result<Sample<P>> {
        let records = &sample.source.records;
        let filter = records.filter();
        let is_part = filter.is_some() || !self.groups.fields().is_empty();
        let needed = |asked: &Asked| asked.bound.properties.uses_number_of_records;
        let is_by_chance = self.tails.is_none() && self.known.is_none();
        if !is_part || !is_by_chance || !self.task.aggregates.iter().any(needed) {
            return Ok(sample);
        }
        let accumulated = Accumulated::nothing(&self.task, true, None);
        let Some(filter) = filter else { return Ok(Sample { accumulated, ..sample }) };
        let condition = Expression::parse(&filter, &self.visible)?;
        let mut columns = sample.source.wanted.columns.clone();
        columns.extend(condition.columns().into_iter().map(|column| records.place(column)));
        columns.sort_unstable();
        columns.dedup();
        let frame = records.frame()?.reading(&columns)?;
        let least = if frame.located_by().is_some() { LIKELY_EXPECTED } else { LIKELY_SHARE };
        let part = self.expected / frame.rough_rows()?.max(1.0);
        if part < least {
            return Ok(sample);
        }
        let schema = super::part(records.stored(), &columns);
        let brought = Arc::new(Brought { schema, condition: Some(condition), places: vec![] });
        let wanted = Wanted { columns, ..sample.source.wanted.clone() };
        let own = Some(Own { part, source: sample.source });
        Ok(Sample { source: Source { records: frame, brought, wanted }, own, accumulated, ..sample })
    }

    /// Keeps to the frame from which the pilot was drawn if the number of its records can be told, or enough is expected of
    /// them, and leaves it otherwise.
    pub(super) fn judged(&self, mut sample: Sample<P>, facts: Facts) -> Result<(Sample<P>, Facts)> {
        if sample.accumulated.frame.is_none() {
            return Ok((sample, facts));
        }
        let figures = self.figures(&mut sample, &facts);
        if sample.share() >= 1.0 || self.verdict(&sample, &facts, &figures) != Stop::Progress {
            return Ok((sample, facts));
        }
        let ahead = self.rows_ahead(&sample, &facts, &figures).max(1) as f64;
        // What figures would be if the number were known.
        let framed = Some(Number::exact(self.expected as u64));
        let known = self.figures(&mut sample, &Facts { framed, ..facts.clone() });
        // Without a goal nothing is read for it.
        let part = sample.own.as_ref().map_or(1.0, |own| own.part);
        let known_ahead = self.rows_ahead(&sample, &facts, &known) as f64;
        let saved = if self.has_goal() { 1.0 - known_ahead / ahead } else { 0.0 };
        // Drawn for itself a condition takes less.
        let (framed, of_number, stats) = match part >= LIKELY_SHARE {
            true => self.number(&sample, &facts, &figures, saved)?,
            false => (None, facts.of_number, Stats::default()),
        };
        let (mut sample, facts) = (sample.after(&stats), Facts { framed, of_number, ..facts });
        if facts.framed.is_none() {
            let alone = self.figures_as_drawn(&mut sample, &facts);
            let alone_ahead = self.rows_ahead(&sample, &facts, &alone) as f64;
            let is_worth = sample.own.is_none() || ahead < WORTH_EXPECTED * part * alone_ahead;
            if !is_worth || sample.accumulated.expected.is_none() {
                return Ok((sample.out_of_frame(), facts));
            }
            sample.accumulated.frame = None;
        }
        Ok((Sample { own: None, ..sample }, facts))
    }
}

impl<P: Population> Sample<P> {
    /// Goes on with the records that are asked for alone.
    fn out_of_frame(mut self) -> Sample<P> {
        if let Some(Own { source, .. }) = self.own.take() {
            self.source = source;
            // Of the others nothing is known any more.
            (self.plain, self.accumulated.expected) = (None, None);
        }
        self.accumulated.frame = None;
        self
    }

    /// Leaves the frame if its other records are not worth it, after so many were found among those that were drawn.
    pub(super) fn where_worth_it(self, found: u64, drawn: usize) -> Sample<P> {
        match self.own.is_some() && (found as f64) < WORTH_SHARE * drawn as f64 {
            true => self.out_of_frame(),
            false => self,
        }
    }
}
