//! Heavy tails: a few extreme records can dominate a sum, so they are read completely and the others are
//! sampled.
//!
//! The values beyond a quantile of the pilot at either end form a certainty stratum (Cochran, Sampling
//! Techniques, 1977, 5.A; "outlier indexing": Chaudhuri, Das, Datar, Motwani and Narasayya, ICDE 2001),
//! which zone maps locate.

use arrow_schema::Schema;

use super::{EstimateQuery, Read, Sample, Source};
use crate::accumulate::{Task, Values};
use kubist_population::Population;
use kubist_types::error::{Error, Result};

pub struct Tails {
    /// Fraction of records in each tail.
    pub share: f64,
    /// By column with tails: aggregate number, argument number and name.
    columns: Vec<(usize, usize, String)>,
}

impl Tails {
    pub fn new(task: &Task, share: f64, visible: &Schema) -> Result<Tails> {
        let mut columns: Vec<(usize, usize, String)> = Vec::new();
        for (number, asked) in task.aggregates.iter().enumerate() {
            let plain = asked.bound.arguments.iter().all(|argument| argument.column().is_some());
            if !asked.bound.properties.bell_curve || !plain {
                return Err(Error::invalid(format!(
                    "tails: not supported for {}: use it with sums, means, ratios and variances of columns",
                    asked.name
                )));
            }
            for (argument, expression) in asked.bound.arguments.iter().enumerate() {
                let name = expression.column().map(|column| visible.field(column).name().clone());
                columns.extend(name.map(|name| (number, argument, name)));
            }
        }
        columns.dedup_by(|a, b| a.2 == b.2);
        Ok(Tails { share, columns })
    }

    /// A pilot of this size has about 8 records per tail.
    pub fn pilot_rows(&self) -> f64 {
        8.0 / self.share
    }

    fn condition(&self, sample: &[Values]) -> Option<String> {
        let ends = self.columns.iter().filter_map(|(aggregate, argument, name)| {
            let parts = sample.iter().flat_map(|part| part.argument(*aggregate, *argument));
            let mut values: Vec<f64> = parts.copied().filter(|value| value.is_finite()).collect();
            let rank = (values.len() as f64 * self.share) as usize;
            if values.len() < 2 * (rank + 1) {
                return None;
            }
            values.sort_unstable_by(f64::total_cmp);
            let (low, high) = (values[rank], values[values.len() - 1 - rank]);
            let name = name.replace('"', "\"\"");
            // The order statistics at the two boundaries belong to the tail, so the other records are a
            // uniform sample: the k-th sampled value is on average the k/p-th of all values (inverse
            // sampling).
            Some(format!("\"{name}\" <= {low:e} OR \"{name}\" >= {high:e}"))
        });
        let ends: Vec<String> = ends.collect();
        (!ends.is_empty()).then(|| ends.join(" OR "))
    }
}

impl<P: Population> EstimateQuery<P> {
    /// Reads the certainty stratum: the tails seen in the pilot `drawn`, or the records that writers always
    /// kept. Later stages sample the other records only. Without effect if time runs out.
    pub(super) fn with_certain(&self, sample: Sample<P>, drawn: &[Values]) -> Result<Read<P>> {
        let (Some(pilot), false) = (sample.pilot.clone(), sample.share() >= 1.0) else { return Ok(Read::all(sample)) };
        let of_tails = self.tails.as_ref().and_then(|tails| tails.condition(drawn));
        let Some(condition) = of_tails.or_else(|| self.kept_always()) else { return Ok(Read::all(sample)) };
        let narrowed = |condition: &str| -> Result<Source<P>> {
            Ok(Source { records: sample.source.records.narrowed(condition)?, ..sample.source.clone() })
        };
        let (tail, rest) = (narrowed(&condition)?, narrowed(&format!("({condition}) IS NOT TRUE"))?);
        let both = self.in_time(|| {
            let hollow = || sample.accumulated.hollow();
            let (mut all, mut stats) = self.accumulate(&tail, &pilot, hollow(), (0.0, 1.0), true)?;
            let (sampled, more) = self.accumulate(&rest, &pilot, hollow(), (sample.low, sample.at), false)?;
            all.merge(&self.task, sampled)?;
            stats.add(&more);
            Ok((all, stats))
        })?;
        let Some((accumulated, stats)) = both else { return Ok(Read::late(sample)) };
        Ok(Read::all(Sample { source: rest, accumulated, ..sample }.after(&stats)))
    }
}
