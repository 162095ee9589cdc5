//! Records of a table, as an estimate reads them: through the same questions as all other readers.

use std::sync::Arc;
use std::time::Instant;

use arrow_schema::{Schema, SchemaRef};
use kubist_catalog::snapshot::Snapshot;
use kubist_format::zone_map::ZoneMap;
use kubist_read::execute::{self, Skip as SkipZones, Wanted};
use kubist_read::plan::LogicalPlan;
use kubist_read::request::RunOptions;
use kubist_types::error::Result;
use kubist_types::population::{Kept, Scan, Scanned, Skip};
use kubist_types::query::QuerySpec;
use kubist_types::stats::Stats;
use kubist_types::{Cancel, Population};

/// To read a run of a list that is not held takes as long as so many records of a sample: 2 µs beside 20 ns.
const UNHELD_RUN: u64 = 100;

/// The records of a snapshot that answer a question, whatever their priorities.
#[derive(Clone)]
pub struct Records {
    snapshot: Snapshot,
    run: RunOptions,
    spec: QuerySpec,
    plan: Arc<LogicalPlan>,
}

impl Records {
    /// # Errors
    ///
    /// As of [`LogicalPlan::new`].
    pub fn new(snapshot: &Snapshot, spec: &QuerySpec, run: &RunOptions) -> Result<Records> {
        let spec = QuerySpec { precision: None, columns: Some(vec![]), ..spec.clone() };
        let plan = Arc::new(LogicalPlan::new(snapshot, &run.clone().of(spec.clone()))?);
        Ok(Records { snapshot: snapshot.clone(), run: run.clone(), spec, plan })
    }

    /// How a zone map's zones of a column are judged.
    fn skipping(&self, skip: &Skip) -> SkipZones {
        let schema = self.snapshot.view.schema.clone();
        let (column, needless) = (skip.column, skip.needless.clone());
        Arc::new(move |map: &ZoneMap, zone: usize| {
            needless(match map.columns.get(column) {
                Some(zones) => map.zone(zone, zones),
                None => schema.zone_of_default(column),
            })
        })
    }
}

impl Population for Records {
    fn visible(&self) -> Schema {
        self.snapshot.view.schema.conditional()
    }

    fn stored(&self) -> &SchemaRef {
        &self.snapshot.view.schema.stored
    }

    fn place(&self, visible: usize) -> usize {
        self.snapshot.view.schema.stored_index[visible]
    }

    fn find(&self, name: &str) -> Result<usize> {
        self.snapshot.view.schema.column(name)
    }

    fn identity(&self) -> Option<String> {
        let schema = &self.snapshot.view.schema;
        let names = schema.identity.iter().map(|column| format!("`{}`", schema.user_field(*column).name()));
        schema.has_identity().then(|| format!("of {}", names.collect::<Vec<_>>().join(", ")))
    }

    fn is_all(&self) -> bool {
        let is_bounded = self.spec.bounds.iter().any(|bound| bound.low.is_some() || bound.high.is_some());
        !is_bounded && self.spec.filter.is_none() && self.run.part.is_none()
    }

    fn cancel(&self) -> Cancel {
        self.plan.query.cancel.clone()
    }

    fn rough_rows(&self) -> Result<f64> {
        match self.plan.query.range() {
            Some(_) => self.plan.rough_rows(),
            None => Ok(0.0),
        }
    }

    fn counted(&self, most: u64, deadline: Option<Instant>) -> Result<Option<(u64, Stats)>> {
        if !self.is_all() && self.plan.unheld_runs().saturating_mul(UNHELD_RUN) > most {
            return Ok(None);
        }
        let Some((inside, others)) = self.plan.by_box(most)? else { return Ok(None) };
        let (mut rows, mut stats) = (inside, self.plan.take_cost());
        let counts = execute::work(others, Wanted::default(), None, |scanned| Ok((scanned.rows as u64, scanned.stats)));
        for count in counts.until(deadline) {
            let (count, cost) = count?;
            rows += count;
            stats.add(&cost);
        }
        Ok(Some((rows, stats)))
    }

    fn narrowed(&self, filter: &str) -> Result<Records> {
        let filter = self.spec.filter.iter().fold(filter.to_string(), |all, own| format!("({all}) AND ({own})"));
        let spec = QuerySpec { filter: Some(filter), window: None, ..self.spec.clone() };
        Records::new(&self.snapshot, &spec, &self.run)
    }

    fn filter(&self) -> Option<String> {
        self.spec.filter.clone()
    }

    fn frame(&self) -> Result<Records> {
        Records::new(&self.snapshot, &QuerySpec { filter: None, ..self.spec.clone() }, &self.run)
    }

    fn kept(&self) -> Option<Kept> {
        let schema = &self.snapshot.view.schema;
        let (whole, column) = (self.snapshot.whole(self.spec.steps)?, schema.kept_below?);
        Some(Kept { whole, column: schema.user_field(column).name().clone() })
    }

    fn scan<T: Send + 'static>(
        &self,
        scan: Scan,
        each: impl Fn(Scanned) -> Result<T> + Send + Sync + 'static,
        take: &mut dyn FnMut(T) -> Result<()>,
    ) -> Result<Stats> {
        let mut read = self.plan.read_plan(scan.range)?;
        let skip = scan.skip.as_ref().map(|skip| self.skipping(skip));
        if let Some(skip) = scan.skip.as_ref().filter(|skip| skip.many_at_once) {
            read = Arc::new(read.only(|visit| {
                let of_run = visit.run.payload.ranges.as_ref().and_then(|ranges| ranges.zone(skip.column));
                of_run.is_none_or(|zone| !(skip.needless)(zone))
            }));
        }
        let stats = self.plan.take_cost();
        for found in execute::work(read, scan.wanted, skip, each).until(scan.deadline) {
            take(found?)?;
        }
        Ok(stats)
    }
}
