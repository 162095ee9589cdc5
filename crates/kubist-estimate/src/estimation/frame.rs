//! Records of known number, among which those that are asked for are some.
//!
//! How many records a box has is often known, from the tree alone. Of a condition or of groups in it
//! it is not, but then they are a share of the known number, and a share is told better than a
//! number: of a group of half of the records from half as many (the ratio estimator: Cochran,
//! Sampling Techniques, 1977, chapter 6). For a condition it means to read the other records of
//! the sample too, so it is done where these are no more than about twice as many.

use std::sync::Arc;

use kubist_expr::Expression;
use kubist_read::plan::LogicalPlan;
use kubist_types::error::Result;
use kubist_types::query::QuerySpec;

use super::Estimation;
use crate::accumulate::{Accumulated, Asked, Brought};
use crate::figure::Stop;

/// A condition that this share of the records meets is worth the others.
const WORTH_SHARE: f64 = 0.3;

impl Estimation {
    /// Draws from the frame from now on, if there is one and that makes intervals narrower: what the
    /// pilot read is read again as a sample of it.
    pub(super) fn find_frame(&mut self) -> Result<()> {
        let query = &self.options.query;
        let part = query.filter.is_some() || !self.groups.fields().is_empty();
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
        let query = QuerySpec { filter: None, precision: None, columns: Some(vec![]), ..self.options.query.clone() };
        let plan = Arc::new(LogicalPlan::new(&self.snapshot, &self.options.run.clone().of(query))?);
        let Some(rows) = self.counted(&plan, self.rows_ahead(&figures))? else { return Ok(()) };
        let found = self.accumulated.rows() as f64 / self.share();
        if self.options.query.filter.is_some() && found < WORTH_SHARE * rows as f64 {
            return Ok(());
        }
        let (old, wanted) = (self.brought.clone(), self.wanted.clone());
        if let Some(filter) = &self.options.query.filter {
            let schema = &self.snapshot.view.schema;
            let condition = Expression::parse(filter, &schema.conditional())?;
            self.wanted.columns.extend(condition.columns().iter().map(|column| schema.stored_index[*column]));
            self.wanted.columns.sort_unstable();
            self.wanted.columns.dedup();
            let schema = schema.stored_part(&self.wanted.columns);
            self.brought = Arc::new(Brought { schema, condition: Some(condition) });
        }
        let before = std::mem::replace(&mut self.accumulated, Accumulated::framed(&self.task));
        let again = self.in_time(|| self.accumulate(&plan, &pilot, self.low, self.at, false))?;
        let Some((found, stats)) = again else {
            (self.accumulated, self.brought, self.wanted) = (before, old, wanted);
            return Ok(());
        };
        self.accumulated.merge(&self.task.clone(), found)?;
        self.stats.add(&stats);
        (self.plan, self.framed) = (plan, Some(rows));
        Ok(())
    }
}
