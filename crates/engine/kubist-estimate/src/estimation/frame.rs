//! A frame: a set of records of known number that contains the selected ones.
//!
//! The index often gives the number of records in a box. This number times the proportion that meets a
//! condition (or is in a group) has a smaller variance than the count divided by the sample fraction. If half
//! of the records match, half the sample suffices (ratio estimator: Cochran, Sampling Techniques, 1977,
//! chapter 6). But the sample then contains the records that do not match too, so a frame is useful only if
//! these are at most about twice as many. The pilot is drawn from the frame to find out.

use std::sync::Arc;

use kubist_expr::Expression;
use kubist_population::{Number, Population, Projection};
use kubist_types::error::Result;
use kubist_types::stats::Stats;

use super::{EstimateQuery, Facts, Sample, Source};
use crate::accumulate::{Accumulated, Brought, NamedAggregate};
use crate::figure::Stop;

/// Minimum fraction of the frame's records that meet the condition.
const WORTH_SHARE: f64 = 0.3;
/// Below this expected fraction, zone maps find matching records faster. The second limit applies if
/// auxiliary variables can be used.
const LIKELY_SHARE: f64 = 0.9;
const LIKELY_EXPECTED: f64 = 0.5;
/// Auxiliary variables must reduce the remaining records to this fraction.
const WORTH_EXPECTED: f64 = 0.8;

pub(super) struct SelectedSource<P> {
    /// The fraction of the frame's records that this source reads.
    part: f64,
    source: Source<P>,
}

impl<P: Population> EstimateQuery<P> {
    /// Draws from the frame if that can narrow the intervals.
    pub(super) fn in_frame(&self, sample: Sample<P>) -> Result<Sample<P>> {
        let records = &sample.source.records;
        let filter = records.filter();
        let is_part = filter.is_some() || !self.groups.fields().is_empty();
        let needed = |asked: &NamedAggregate| asked.bound.properties.uses_number_of_records;
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
        let brought = Arc::new(Brought { schema, condition: Some(condition), position_columns: vec![], weight: None });
        let wanted = Projection { columns, ..sample.source.wanted.clone() };
        let own = Some(SelectedSource { part, source: sample.source });
        Ok(Sample { source: Source { records: frame, brought, wanted }, own, accumulated, ..sample })
    }

    /// Leaves the frame unless its number of records can be determined or the auxiliary variables are good
    /// enough.
    pub(super) fn judged(&self, mut sample: Sample<P>, facts: Facts) -> Result<(Sample<P>, Facts)> {
        if sample.accumulated.frame.is_none() {
            return Ok((sample, facts));
        }
        let figures = self.figures(&mut sample, &facts);
        if sample.share() >= 1.0 || self.verdict(&sample, &facts, &figures) != Stop::Progress {
            return Ok((sample, facts));
        }
        let ahead = self.rows_ahead(&sample, &facts, &figures).max(1) as f64;
        let framed = Some(Number::exact(self.expected as u64));
        let known = self.figures(&mut sample, &Facts { framed, ..facts.clone() });
        let part = sample.own.as_ref().map_or(1.0, |own| own.part);
        let known_ahead = self.rows_ahead(&sample, &facts, &known) as f64;
        let saved = if self.has_goal() { 1.0 - known_ahead / ahead } else { 0.0 };
        // Below this fraction it is cheaper to draw the matching records alone.
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
    fn out_of_frame(mut self) -> Sample<P> {
        if let Some(SelectedSource { source, .. }) = self.own.take() {
            self.source = source;
            // The auxiliary variables cover the frame's records, so they are dropped.
            (self.plain, self.accumulated.expected) = (None, None);
        }
        self.accumulated.frame = None;
        self
    }

    /// Leaves the frame if fewer than [`WORTH_SHARE`] of the records matched.
    pub(super) fn where_worth_it(self, found: u64, drawn: usize) -> Sample<P> {
        match self.own.is_some() && (found as f64) < WORTH_SHARE * drawn as f64 {
            true => self.out_of_frame(),
            false => self,
        }
    }
}
