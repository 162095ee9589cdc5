//! The properties, contents and layout of a table.

use std::collections::BTreeMap;

use kubist_catalog::directory::Entry;
use kubist_catalog::frame::Frame;
use kubist_catalog::snapshot::Snapshot;
use kubist_format::history::Declared;
use kubist_format::lookups::LookupBytes;
use kubist_index::grid::Scale;
use kubist_index::layout::Capacity;
use kubist_maintain::disk_use::DiskUse;
use kubist_maintain::planner::{CompactionPlanner, Debt};
use kubist_model::{Costs, PRICES, Prices};
use kubist_read::count;
use kubist_read::request::RunOptions;
use kubist_store::StoreExt;
use kubist_types::query::QuerySpec;
use kubist_types::{Cancel, ColumnInfo, Error, Metadata, Result, sphere};

use crate::partial::PartialCopy;

/// Properties and contents of a table, read without the manifest.
#[derive(Clone, Debug, serde::Serialize)]
pub struct About {
    /// The location as the user gave it.
    pub location: String,
    /// File format version.
    pub format_version: u32,
    /// True if several machines may write to the table.
    pub shared: bool,
    /// Number of rows without replicas.
    pub rows: u64,
    /// Number of the newest grid, counted from 0.
    pub grid: u32,
    /// The dimensions, in key order.
    pub dimensions: Vec<DimensionInfo>,
    /// The columns that identify a row, so that a sample contains all rows of an identity or none.
    pub identity: Vec<String>,
    /// The columns with a secondary index.
    pub lookup: Vec<String>,
    /// Largest number of rows in a cube.
    pub capacity: u32,
    /// Seed of the priority hash.
    pub seed: u64,
    /// The replication, in the syntax of `Replication`.
    pub replication: String,
    /// The compression level of new runs.
    pub compression: String,
    /// Where strata of new runs end: `halvings` or `windows`.
    pub strata: String,
    /// How rows are sampled: `uniform`, `by weight` of an expression, or `by strata of` columns.
    pub sampling: String,
    /// The columns with their units and metadata.
    pub columns: Vec<ColumnInfo>,
    /// Periods by column: a length, or the interval of the values if it does not begin at 0.
    pub period: BTreeMap<String, String>,
    /// Columns of longitude and latitude on a sphere, if declared.
    pub sphere: Option<[String; 2]>,
    /// Metadata of the table.
    pub metadata: Metadata,
    /// The writers and their commits.
    pub writers: Vec<WriterInfo>,
    /// The declared writers by range of steps.
    pub declared: Vec<DeclaredWriters>,
    /// The subsampled steps, if any.
    pub thinned: Option<ThinnedSteps>,
    /// What a partial copy holds; `None` for other tables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<PartialCopy>,
}

/// Properties, contents and layout of a table.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Info {
    /// The properties that can be read without the manifest.
    #[serde(flatten)]
    pub about: About,
    /// Number of runs without replicas.
    pub runs: u64,
    /// Number of cubes that have a run.
    pub cubes: u64,
    /// Largest number of runs in one cube.
    pub most_runs: u64,
    /// Number of rows that replicas copy into deeper cubes.
    pub replica_rows: u64,
    /// Compaction debt: rows that a fresh build would store in another cube, and rows in surplus runs.
    pub debt: u64,
    /// Rows in an older grid that the optimizer has to move.
    pub rows_to_move: u64,
    /// Number of rows outside the domain of the newest grid in some dimension, as a query would count them. Queries still
    /// find such rows; if there are many, the optimizer creates a grid with a larger domain.
    pub rows_outside: u64,
    /// Levels of the tree of cubes.
    pub height: u32,
    /// Bytes of live runs with their zone maps and secondary indexes.
    pub bytes: u64,
    /// `bytes` divided by `rows`.
    pub bytes_per_row: f64,
    /// Disk use of the whole store, including other snapshots.
    pub disk: DiskUse,
    /// Storage cost; `None` unless the store is an object store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub costs: Option<Costs>,
    /// Sentences about options that do not fit the commits or the recorded queries, with the command that
    /// changes them.
    pub advice: Vec<String>,
}

/// A dimension and its domain in the column's unit; before the first commit, a learned domain has no bounds.
#[derive(Clone, Debug, serde::Serialize)]
pub struct DimensionInfo {
    /// Name of the column.
    pub column: String,
    /// The mapping from values to grid coordinates: `linear` or `quantile`.
    pub scale: String,
    /// Lower bound of the domain.
    pub low: Option<f64>,
    /// Upper bound of the domain.
    pub high: Option<f64>,
}

/// The writers that a range of steps waits for.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct DeclaredWriters {
    /// The range begins after this step and ends at the next declaration; `None` begins at the first step.
    pub after: Option<i64>,
    /// The names of the writers, or their number.
    #[serde(flatten)]
    pub writers: Declared,
}

/// Totals over all subsampled steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ThinnedSteps {
    /// Number of steps.
    pub steps: u64,
    /// Rows in the table.
    pub kept: u64,
    /// Rows before sampling.
    pub rows: u64,
}

#[derive(Clone, Debug, serde::Serialize)]
/// The commits of a writer.
pub struct WriterInfo {
    /// The writer's name.
    pub name: String,
    /// Number of commits.
    pub commits: u64,
    /// Number of rows.
    pub rows: u64,
}

#[derive(Default)]
struct OfRuns {
    runs: u64,
    cubes: u64,
    most_runs: u64,
    height: u32,
    replica_rows: u64,
    /// Some run may have rows outside the domain of the newest grid.
    crosses_domain: bool,
    bytes: u64,
    debt: Debt,
}

impl OfRuns {
    fn of(snapshot: &Snapshot, frame: Option<&Frame>, cancel: &Cancel) -> Result<OfRuns> {
        let (core, view) = (&snapshot.core, &snapshot.view);
        let (newest, capacity) = (view.schema.newest_grid(), Capacity::new(core.header.capacity));
        let mut planner = CompactionPlanner::new(view, core.forest(), &capacity, &core.read_amplification, None);
        let (mut found, mut lookups) = (OfRuns::default(), LookupBytes::default());
        let (mut cube, mut of_cube) = (None, 0);
        view.runs.each_in_order(core, cancel, |entry| {
            planner.add(&entry);
            let Entry::Run(run) = entry else { return Ok(()) };
            found.bytes += run.payload.data_length + run.payload.map_length as u64;
            lookups.add(&run);
            if run.is_replica() {
                found.replica_rows += run.rows;
                return Ok(());
            }
            if cube.replace(run.cube) != Some(run.cube) {
                of_cube = 0;
                found.cubes += 1;
                found.height = found.height.max(run.cube.level() + 1);
            }
            of_cube += 1;
            found.most_runs = found.most_runs.max(of_cube);
            found.runs += 1;
            // The coordinates of runs in older grids are others.
            found.crosses_domain |= frame.is_some_and(|frame| {
                run.cube.grid() != newest || !frame.domain_contains(&run.payload.low, &run.payload.high)
            });
            Ok(())
        })?;
        Ok(OfRuns { bytes: found.bytes + lookups.bytes, debt: planner.finish().debt, ..found })
    }
}

pub(crate) fn about(snapshot: &Snapshot) -> Result<About> {
    let core = &snapshot.core;
    let schema = &snapshot.view.schema;
    let frame = core.newest_frame(schema)?;
    let dimensions = schema.dimensions.iter().enumerate().map(|(d, column)| {
        let said = core.header.dimensions.get(d).filter(|_| schema.newest_grid() == 0);
        let scale = frame.as_ref().map(|frame| &frame.scales[d]);
        let kind = scale.map(|scale| if matches!(scale, Scale::Quantile { .. }) { "quantile" } else { "linear" });
        let domain = scale.map(Scale::domain).or(said.and_then(|said| said.domain));
        DimensionInfo {
            column: schema.user_field(*column).name().clone(),
            // A first commit with a single value creates a linear grid, even if quantiles were requested.
            scale: said.map_or(kind.unwrap_or("linear"), |said| said.scale.as_str()).into(),
            low: domain.map(|(low, _)| low),
            high: domain.map(|(_, high)| high),
        }
    });
    let history = &snapshot.view.history;
    let thinned = history.thinned();
    let thinned = (!thinned.is_empty()).then(|| ThinnedSteps {
        steps: thinned.len() as u64,
        kept: thinned.keys().map(|step| history.rows_of(*step)).sum(),
        rows: thinned.values().map(|thinned| thinned.rows).sum(),
    });
    Ok(About {
        location: core.store.location().into(),
        format_version: core.header.format_version,
        shared: core.store.capabilities().fencing != kubist_store::Fencing::Lock,
        rows: snapshot.view.rows(),
        grid: schema.newest_grid(),
        dimensions: dimensions.collect(),
        identity: core.header.identity.clone(),
        lookup: core.header.lookup.clone(),
        capacity: core.header.capacity,
        seed: core.header.seed,
        replication: core.header.replication.to_string(),
        compression: schema.compression.name().into(),
        strata: schema.strata.name().into(),
        sampling: schema.sampling.to_string(),
        columns: schema.describe(),
        period: schema.periods().into_iter().map(|(column, period)| (column, period.to_string())).collect(),
        sphere: sphere(&schema.conditional()),
        metadata: schema.metadata.clone(),
        thinned,
        partial: core.store.partial().map(PartialCopy::of),
        declared: history
            .declarations()
            .into_iter()
            .map(|(after, writers)| DeclaredWriters { after, writers: writers.clone() })
            .collect(),
        writers: history
            .writers
            .iter()
            .map(|(name, progress)| WriterInfo { name: name.clone(), commits: progress.commits, rows: progress.rows })
            .collect(),
    })
}

/// Counts the rows whose position is below or above the domain in some dimension. No domain contains null or NaN.
fn rows_outside(snapshot: &Snapshot, dimensions: &[DimensionInfo], cancel: &Cancel) -> Result<u64> {
    let sides = dimensions.iter().filter_map(|DimensionInfo { column, low, high, .. }| {
        let column = format!("\"{}\"", column.replace('"', "\"\""));
        Some(format!("{column} < {:?} OR {column} > {:?}", (*low)?, (*high)?))
    });
    let filter = Some(sides.collect::<Vec<_>>().join(" OR "));
    let query = QuerySpec { filter, ..QuerySpec::default() };
    count::count(snapshot, RunOptions::with_cancel(cancel).of(query))
}

/// Collects the layout from the manifest and the store; the caller adds advice.
pub(crate) fn of(snapshot: &Snapshot, cancel: &Cancel) -> Result<Info> {
    let (core, view) = (&snapshot.core, &snapshot.view);
    let frame = core.newest_frame(&view.schema)?;
    let about = about(snapshot)?;
    let runs = OfRuns::of(snapshot, frame.as_deref(), cancel)?;
    let disk = DiskUse::of(core, cancel)?;
    let prices = || match std::env::var(PRICES) {
        Ok(text) => Prices::read(&text).map_err(Error::invalid),
        Err(_) => Ok(Prices::default()),
    };
    let costs = core.store.traffic().map(|_| prices()).transpose()?;
    let costs = costs.map(|prices| prices.of(disk.total, about.writers.len(), view.runs.base.is_some()));
    Ok(Info {
        runs: runs.runs,
        cubes: runs.cubes,
        most_runs: runs.most_runs,
        replica_rows: runs.replica_rows,
        debt: runs.debt.total(),
        rows_to_move: runs.debt.rows_to_move,
        rows_outside: if runs.crosses_domain { rows_outside(snapshot, &about.dimensions, cancel)? } else { 0 },
        height: runs.height,
        bytes: runs.bytes,
        bytes_per_row: if about.rows == 0 { 0.0 } else { runs.bytes as f64 / about.rows as f64 },
        about,
        disk,
        costs,
        advice: vec![],
    })
}
