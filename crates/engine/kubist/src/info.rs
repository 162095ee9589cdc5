//! What a table is and holds, in numbers and words.

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
use kubist_store::StoreExt;
use kubist_types::{Cancel, ColumnInfo, Error, Metadata, Result};

/// What a table is, and what was committed to it: all that is known without a look at its runs.
#[derive(Clone, Debug, serde::Serialize)]
pub struct About {
    /// Where it is, as the user named it.
    pub location: String,
    /// The version of the format of its files.
    pub format_version: u32,
    /// May several machines write to it?
    pub shared: bool,
    /// Its rows, replicas not counted.
    pub rows: u64,
    /// The number of the newest grid, by which rows are placed; the first has 0.
    pub grid: u32,
    /// The dimensions, in the order of the keys.
    pub dimensions: Vec<DimensionInfo>,
    /// Columns that tell records apart: what a sample keeps or drops together.
    pub identity: Vec<String>,
    /// Columns by whose values records are found without a scan.
    pub lookup: Vec<String>,
    /// Rows of a cube.
    pub capacity: u32,
    /// What the priorities depend on, beside the identity.
    pub seed: u64,
    /// How far down rows are copied, as `Replication` reads it.
    pub replication: String,
    /// How hard the numbers of new runs are pressed.
    pub compression: String,
    /// Its columns, with units and what else is known of each.
    pub columns: Vec<ColumnInfo>,
    /// Metadata of the table.
    pub metadata: Metadata,
    /// Who has committed to it.
    pub writers: Vec<WriterInfo>,
    /// The writers that steps wait for, by the steps; none if nobody declared any.
    pub declared: Vec<DeclaredWriters>,
    /// What is there of steps of which only a sample was written, if there are such.
    pub thinned: Option<ThinnedSteps>,
}

/// What a table is and holds, and how it is laid out.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Info {
    /// What is known of it without a look at its runs.
    #[serde(flatten)]
    pub about: About,
    /// Its runs, replicas not counted.
    pub runs: u64,
    /// Cubes that have a run.
    pub cubes: u64,
    /// Of the cube that has most.
    pub most_runs: u64,
    /// Copies of rows in deeper cubes.
    pub replica_rows: u64,
    /// Rows that a fresh build would put elsewhere, or that lie in surplus runs.
    pub debt: u64,
    /// Rows that lie by older grids, and wait for the optimizer.
    pub rows_to_move: u64,
    /// About how many rows lie outside of the domain of the newest grid in some dimension, told
    /// from the boxes around the rows of each run. They are found all the same, and the
    /// optimizer makes a grid that fits when there are many.
    pub rows_outside: u64,
    /// Levels of the tree of cubes.
    pub height: u32,
    /// Bytes of live runs, their zone maps and the lookups into them.
    pub bytes: u64,
    /// Those bytes, shared among the rows.
    pub bytes_per_row: f64,
    /// What the whole store takes, as of now and not of the snapshot.
    pub disk: DiskUse,
    /// What that costs; `None` but on an object store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub costs: Option<Costs>,
}

/// A dimension and its domain, in the column's unit; no ends before the first commit
/// of a table that learns them.
#[derive(Clone, Debug, serde::Serialize)]
pub struct DimensionInfo {
    /// The column's name.
    pub column: String,
    /// How its values are spread over coordinates.
    pub scale: String,
    /// The domain's lower end.
    pub low: Option<f64>,
    /// The domain's upper end.
    pub high: Option<f64>,
}

/// The writers that steps wait for: by their names, or how many different ones.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct DeclaredWriters {
    /// They count for the steps after this one, up to the next that is declared; `None`: from the
    /// first step on.
    pub after: Option<i64>,
    /// Their names, or their number.
    #[serde(flatten)]
    pub writers: Declared,
}

/// Steps of which only a sample was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ThinnedSteps {
    /// How many.
    pub steps: u64,
    /// Their rows that were kept.
    pub kept: u64,
    /// All rows that they had.
    pub rows: u64,
}

#[derive(Clone, Debug, serde::Serialize)]
/// What one writer has committed.
pub struct WriterInfo {
    /// Its name.
    pub name: String,
    /// How many commits.
    pub commits: u64,
    /// How many rows.
    pub rows: u64,
}

/// What its runs say together.
#[derive(Default)]
struct OfRuns {
    runs: u64,
    cubes: u64,
    most_runs: u64,
    height: u32,
    replica_rows: u64,
    rows_outside: f64,
    bytes: u64,
    debt: Debt,
}

impl OfRuns {
    fn of(snapshot: &Snapshot, frame: Option<&Frame>, cancel: &Cancel) -> Result<OfRuns> {
        let (core, view) = (&snapshot.core, &snapshot.view);
        let (newest, capacity) = (view.schema.newest_grid(), Capacity::new(core.header.capacity));
        let mut planner = CompactionPlanner::new(view, core.forest(), &capacity, &core.read_amplification, None);
        let (mut found, mut lookups) = (OfRuns::default(), LookupBytes::default());
        // The last cube with a run, and its runs.
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
            if let Some(frame) = frame.filter(|_| run.cube.grid() == newest) {
                found.rows_outside += frame.outside_of_box(run.rows, &run.payload.low, &run.payload.high);
            }
            Ok(())
        })?;
        Ok(OfRuns { bytes: found.bytes + lookups.bytes, debt: planner.finish().debt, ..found })
    }
}

/// What is known of a snapshot without a look at its runs.
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
            // A first commit of one value learns an even division, whatever was asked for.
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
        columns: schema.describe(),
        metadata: schema.metadata.clone(),
        thinned,
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

/// What is known of a snapshot.
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
        rows_outside: runs.rows_outside as u64,
        height: runs.height,
        bytes: runs.bytes,
        bytes_per_row: if about.rows == 0 { 0.0 } else { runs.bytes as f64 / about.rows as f64 },
        about,
        disk,
        costs,
    })
}
