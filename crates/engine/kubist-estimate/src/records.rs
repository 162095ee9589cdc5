//! The rows of a table as a population for estimates.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use arrow_schema::{Schema, SchemaRef};
use kubist_catalog::snapshot::Snapshot;
use kubist_expr::Nulls;
use kubist_format::zone_map::ZoneMap;
use kubist_index::order;
use kubist_index::priority::PriorityRange;
use kubist_index::spread::SpreadSet;
use kubist_index::state::RunId;
use kubist_population::seek::Seek;
use kubist_population::{Number, Population, SampledStep, Scan, Scanned, Subregions, Worth};
use kubist_read::bind::BoundQuery;
use kubist_read::execute::{self, Projection, Skips};
use kubist_read::plan::{Pieces, Planner, RowsByManifest};
use kubist_read::request::RunOptions;
use kubist_read::runs::zone_of;
use kubist_types::Cancel;
use kubist_types::error::{Error, Result};
use kubist_types::query::QuerySpec;
use kubist_types::stats::Stats;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::edge::{Crossing, Edge};
use crate::representatives;

/// Reading the manifest entry of a run that is not in memory takes as long as this many sampled records (2
/// µs and 20 ns).
const UNHELD_RUN: u64 = 100;
/// The examined fraction of a boundary run's records, before any run was counted.
const PART_READ: f64 = 0.35;

/// Costs of a manifest entry and of a subregion's prediction, in examined records.
const RUN_ROWS: u64 = 2;
const SUBREGION_ROWS: u64 = 25;
/// Subregions may cost the records that would be examined without them, divided by this.
const PART_FOR_SUBREGIONS: u64 = 4;
/// With fewer subregions the prediction is poor, and more do not improve it.
const LEAST_SUBREGIONS: u64 = 64;
const MOST_SUBREGIONS: u64 = 1 << 14;

#[derive(Clone)]
pub struct Records {
    snapshot: Snapshot,
    run: RunOptions,
    spec: QuerySpec,
    query: Arc<BoundQuery>,
    planner: Arc<Mutex<Planner>>,
}

impl Records {
    /// # Errors
    ///
    /// As [`Planner::new`].
    pub fn new(snapshot: &Snapshot, spec: &QuerySpec, run: &RunOptions) -> Result<Records> {
        let spec = QuerySpec { sample: None, columns: Some(vec![]), ..spec.clone() };
        let planner = Planner::new(snapshot, &run.clone().of(spec.clone()))?;
        let (query, snapshot, run) = (planner.logical.query.clone(), snapshot.clone(), run.clone());
        Ok(Records { snapshot, run, spec, query, planner: Arc::new(Mutex::new(planner)) })
    }

    /// A planner is consistent after every statement, so a poisoned lock is ignored.
    fn planner(&self) -> MutexGuard<'_, Planner> {
        self.planner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if reading the manifest takes longer than examining `most` records.
    fn is_long(&self, most: u64) -> bool {
        !self.query.predicate.is_always() && self.planner().logical.unheld_runs().saturating_mul(UNHELD_RUN) > most
    }

    /// Skips runs that were read or cannot improve an extreme, and zones that cannot.
    fn skipping(&self, seek: &Arc<Seek>, done: SpreadSet<RunId>) -> Skips {
        let (schema, query) = (self.snapshot.view.schema.clone(), self.query.clone());
        let (of_runs, of_zones) = (seek.clone(), seek.clone());
        Skips {
            runs: Some(Arc::new(move |run| done.contains(&run.id) || !query.may_gain(run, &of_runs))),
            zones: Some(Arc::new(move |map: &ZoneMap, zone: usize| {
                !of_zones.reads(|column| zone_of(&schema, map, zone, column))
            })),
        }
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
        !is_bounded && self.spec.region.is_none() && self.spec.filter.is_none() && self.run.part.is_none()
    }

    fn cancel(&self) -> Cancel {
        self.query.cancel.clone()
    }

    fn rough_rows(&self) -> Result<f64> {
        match self.query.range() {
            Some(_) => self.planner().rough_rows(&mut Stats::default()),
            None => Ok(0.0),
        }
    }

    fn counted(&self, most: u64, deadline: Option<Instant>) -> Result<Option<(u64, Stats)>> {
        // A condition on other columns could require a full scan.
        if !self.query.only_dimensions() || self.is_long(most) {
            return Ok(None);
        }
        let mut stats = Stats::default();
        let Some(listed) = self.planner().by_list(most, deadline, &mut stats)? else { return Ok(None) };
        let mut rows = listed.inside;
        for scanned in execute::scan(listed.open, Projection::default()).until(deadline) {
            let scanned = scanned?;
            rows += scanned.rows as u64;
            stats.add(&scanned.stats);
        }
        Ok(Some((rows, stats)))
    }

    fn number(&self, worth: &Worth, deadline: Option<Instant>) -> Result<(Option<Number>, Stats)> {
        let most = (worth.unknown - worth.known) as u64;
        if self.is_long(most) {
            return Ok((None, Stats::default()));
        }
        let (seed, mut stats) = (self.snapshot.core.header.seed, Stats::default());
        let listed = self.planner().by_list(u64::MAX, deadline, &mut stats)?;
        let Some(RowsByManifest { inside, open, expected }) = listed else { return Ok((None, stats)) };
        let mut edge = Edge::new(
            inside,
            open.visits.iter().zip(expected).map(|(visit, expected)| {
                let (rows, id) = (visit.run.rows as f64, visit.run.id.0);
                Crossing { rows, expected, hash: xxh3_64_with_seed(&id.to_le_bytes(), seed) }
            }),
        );
        let (mut counted, mut part_read) = (0, PART_READ);
        while let Some(drawn) = edge.draw(worth, part_read) {
            let of_drawn = open.only(&drawn.runs);
            counted += of_drawn.visits.iter().map(|visit| visit.run.rows).sum::<u64>();
            let mut found = Vec::with_capacity(drawn.runs.len());
            for of_visit in execute::counts(of_drawn).until(deadline) {
                let (rows, cost) = of_visit?;
                found.push(rows);
                stats.add(&cost);
            }
            edge.count(drawn, found);
            part_read = if counted > 0 { stats.rows_read as f64 / counted as f64 } else { PART_READ };
        }
        Ok((Some(edge.number()).filter(|number| worth.serves(*number)), stats))
    }

    fn weight(&self) -> Option<usize> {
        self.snapshot.view.schema.weight
    }

    fn located_by(&self) -> Option<Vec<usize>> {
        self.planner().logical.located_by().map(<[usize]>::to_vec)
    }

    fn subregions(&self, columns: &[usize], most: u64) -> Result<Option<Subregions>> {
        let wanted = (most / SUBREGION_ROWS / PART_FOR_SUBREGIONS).min(MOST_SUBREGIONS);
        if wanted < LEAST_SUBREGIONS {
            return Ok(None);
        }
        let Some(subregions) = self.planner().logical.subregions(wanted as usize, most / RUN_ROWS)? else {
            return Ok(None);
        };
        let stored = &self.snapshot.view.schema.stored;
        let representatives = columns.iter().enumerate().map(|(number, column)| {
            let data_type = stored.field(*column).data_type();
            representatives::between(data_type, &subregions.ends(*column, data_type), number)
        });
        Ok(representatives.collect::<Option<Vec<_>>>().map(|representatives| Subregions {
            rows: subregions.subregions.iter().map(|subregion| subregion.rows).collect(),
            variances: subregions
                .subregions
                .iter()
                .map(|subregion| subregion.cutoff / (1.0 - subregion.cutoff))
                .collect(),
            locator: subregions.locator(),
            representatives,
        }))
    }

    fn is_complete(&self, column: usize, deadline: Option<Instant>) -> Result<bool> {
        let mut stats = Stats::default();
        if let Some(known) = self.planner().all_have(column, deadline, &mut stats)? {
            return Ok(known);
        }
        // Older runs lack statistics of the column, and reading very many zone maps is not worth it.
        if self.planner().logical.unheld_runs() > 0 {
            return Ok(false);
        }
        let (schema, query) = (self.snapshot.view.schema.clone(), self.query.clone());
        let (first, last) = order::number_keys(schema.stored.field(column).data_type());
        let is_complete = Arc::new(AtomicBool::new(true));
        let all = is_complete.clone();
        let skips = Skips {
            runs: Some(Arc::new(move |run| query.has_values(run, column) == Some(true))),
            zones: Some(Arc::new(move |map: &ZoneMap, zone: usize| {
                let zone = zone_of(&schema, map, zone, column);
                if zone.nulls != Nulls::None || zone.min < first || zone.max > last {
                    all.store(false, Ordering::Relaxed);
                }
                true
            })),
        };
        let pieces = self.planner().pieces(PriorityRange::ALL, &mut stats)?;
        let mut looked_at = execute::work(pieces, Projection::default(), skips, Ok);
        for scanned in looked_at.until(deadline) {
            scanned?;
            if !is_complete.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(is_complete.load(Ordering::Relaxed))
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

    fn kept(&self) -> Option<SampledStep> {
        let schema = &self.snapshot.view.schema;
        let (whole, column) = (self.snapshot.whole(self.spec.steps)?, schema.kept_below?);
        Some(SampledStep { whole, column: schema.user_field(column).name().clone() })
    }

    fn scan<T: Send + 'static>(
        &self,
        scan: Scan,
        each: impl Fn(Scanned) -> Result<T> + Send + Sync + 'static,
        take: &mut dyn FnMut(T) -> Result<()>,
    ) -> Result<Stats> {
        let (each, mut stats) = (Arc::new(each), Stats::default());
        let mut read = |pieces: Pieces, skips: Skips, stats: &mut Stats| {
            let each = each.clone();
            let mut found = execute::work(pieces, scan.wanted.clone(), skips, move |scanned| each(scanned));
            found.until(scan.deadline).try_for_each(|found| take(found?))?;
            stats.add(&found.planning);
            Ok::<_, Error>(())
        };
        let mut skips = Skips::default();
        if let Some(seek) = &scan.seek {
            let mut done = SpreadSet::default();
            let nearest = self.planner().nearest(seek, scan.deadline, &mut stats)?;
            for nearest in nearest {
                read(nearest.plan.clone().into(), self.skipping(seek, done.clone()), &mut stats)?;
                if nearest.is_enough(seek) {
                    return Ok(stats);
                }
                done.extend(nearest.plan.visits.iter().map(|visit| visit.run.id));
            }
            skips = self.skipping(seek, done);
        }
        let pieces = self.planner().pieces(scan.range, &mut stats)?;
        read(pieces, skips, &mut stats)?;
        Ok(stats)
    }
}
