//! Auxiliary variables. The pilot also reads the position columns. If it shows that many more records must
//! be drawn, the manifest is searched for subregions.

use std::sync::Arc;
use std::time::Instant;

use arrow_schema::{Field, Schema};
use kubist_population::{Population, Projection, REPRESENTATIVES};
use kubist_types::error::{Error, Result};

use super::{EstimateQuery, Facts, LOOKED_AT, Sample, Source};
use crate::accumulate::{Accumulated, Brought, PilotFindings, Values};
use crate::auxiliary::{Auxiliary, Representatives};

const MOST_REPRESENTATIVES: usize = 1 << 22;

impl<P: Population> EstimateQuery<P> {
    /// Adds position columns if the aggregates can use auxiliary variables.
    pub(super) fn with_position_columns(&self, sample: Sample<P>) -> Sample<P> {
        let is_by_chance = self.tails.is_none() && self.known.is_none();
        let is_of_sums = self.task.aggregates.iter().any(|asked| asked.bound.properties.takes_certain);
        let Source { records, brought, wanted } = &sample.source;
        let Some(positions) = records.located_by().filter(|_| is_by_chance && is_of_sums) else { return sample };
        let mut columns = wanted.columns.clone();
        columns.extend(&positions);
        columns.sort_unstable();
        columns.dedup();
        let position_columns = positions.iter().filter_map(|place| columns.iter().position(|column| column == place));
        let brought = Arc::new(Brought {
            schema: super::part(records.stored(), &columns),
            condition: brought.condition.clone(),
            position_columns: position_columns.collect(),
            weight: None,
        });
        let source = Source { brought, wanted: Projection { columns, ..wanted.clone() }, ..sample.source.clone() };
        Sample { plain: Some(sample.source), source, ..sample }
    }

    /// Builds auxiliary variables if they save more than they cost; otherwise drops the position columns.
    /// `drawn` is the pilot.
    pub(super) fn with_expected(
        &self,
        mut sample: Sample<P>,
        facts: &Facts,
        pilot: &PilotFindings,
        drawn: &[Values],
    ) -> Result<Sample<P>> {
        let Some(plain) = sample.plain.take() else { return Ok(sample) };
        let auxiliary = match sample.share() < 1.0 {
            true => self.auxiliary(&mut sample, &plain, facts, pilot, drawn)?,
            false => None,
        };
        let Some(auxiliary) = auxiliary else { return Ok(Sample { source: plain, ..sample }) };
        let is_framed = sample.accumulated.frame.is_some();
        let mut accumulated = Accumulated::nothing(&self.task, is_framed, Some(Arc::new(auxiliary)));
        drawn.iter().try_for_each(|part| accumulated.add(&self.task, pilot, part, false, sample.at))?;
        Ok(Sample { accumulated, ..sample })
    }

    fn auxiliary(
        &self,
        sample: &mut Sample<P>,
        plain: &Source<P>,
        facts: &Facts,
        pilot: &PilotFindings,
        drawn: &[Values],
    ) -> Result<Option<Auxiliary>> {
        let figures = self.figures(sample, facts);
        let mut most = LOOKED_AT * self.rows_ahead(sample, facts, &figures) as f64;
        if let Some(deadline) = self.deadline {
            // The pilot determines the pace, which is slow.
            let left = deadline.saturating_duration_since(Instant::now()).as_secs_f64();
            most = most.min(left / sample.pace.0.max(1e-6) * sample.pace.1 * self.expected);
        }
        let records = &sample.source.records;
        let Some(subregions) = records.subregions(&plain.wanted.columns, most as u64)? else { return Ok(None) };
        let rows = subregions.rows.len() * REPRESENTATIVES;
        if rows == 0 || rows * self.task.aggregates.len() > MOST_REPRESENTATIVES {
            return Ok(None);
        }
        let numbers = (0..rows as u64).collect();
        // Representative values can be null even in columns that cannot.
        let nullable = |field: &Arc<Field>| field.as_ref().clone().with_nullable(true);
        let fields: Vec<Field> = plain.brought.schema.fields().iter().map(nullable).collect();
        let (condition, schema) = (plain.brought.condition.clone(), Arc::new(Schema::new(fields)));
        let brought = Brought { schema, condition, position_columns: vec![], weight: None };
        let values =
            match self.task.values(&brought, rows, subregions.representatives.clone(), numbers, &records.cancel()) {
                Err(Error::Cancelled) => return Err(Error::Cancelled),
                // Representative values are no real records, so an expression may fail.
                Err(_) => return Ok(None),
                Ok(values) => values,
            };
        let aggregates = 0..self.task.aggregates.len();
        let representatives = Representatives {
            numbers: &values.priorities,
            features: aggregates.map(|aggregate| self.task.features(aggregate, pilot, &values)).collect(),
            keys: values.groups(),
        };
        Ok(Auxiliary::new(subregions, &representatives, self.task.random_groups(), mean_cluster_size(drawn)))
    }
}

/// The mean cluster size, weighted by size.
fn mean_cluster_size(drawn: &[Values]) -> f64 {
    let mut priorities: Vec<u64> = drawn.iter().flat_map(|part| part.of_drawn().iter().copied()).collect();
    priorities.sort_unstable();
    let sizes = priorities.chunk_by(|a, b| a == b).map(|of_one| of_one.len() as f64);
    sizes.map(|size| size * size).sum::<f64>() / (priorities.len() as f64).max(1.0)
}
