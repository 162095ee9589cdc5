//! A snapshot: one state of the table, pinned.

use std::sync::Arc;

use arrow_schema::SchemaRef;

use kubist_index::layout::Capacity;

use crate::alter::Metadata;
use crate::codec::zone_map::ZoneMap;
use crate::directory::Directory;
use crate::disk_use::DiskUse;
use crate::entry::FORMAT_VERSION;
use crate::error::{Error, Result};
use crate::fetch::{self, Cost};
use crate::lookup;
use crate::options::{Cancel, Query};
use crate::query::{QueryStream, Question, Refine};
use crate::survey::Survey;
use crate::table::{Core, View};

/// Answers as of one moment, whatever is committed afterwards.
#[derive(Clone)]
pub struct Snapshot {
    pub(crate) core: Arc<Core>,
    pub(crate) view: Arc<View>,
    /// Only steps up to this one.
    pub(crate) step: Option<i64>,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Snapshot({:?})", self.core.store.location())
    }
}

/// What a table is and holds.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Info {
    pub location: String,
    pub format_version: u32,
    pub rows: u64,
    pub runs: u64,
    pub cubes: u64,
    /// Of the cube that has most.
    pub most_runs: u64,
    /// Copies of rows in deeper cubes.
    pub replica_rows: u64,
    /// Rows that a fresh build would put elsewhere, or that lie in surplus runs.
    pub debt: u64,
    /// Levels of the tree of cubes.
    pub height: u32,
    pub dimensions: Vec<DimensionInfo>,
    pub identity: Vec<String>,
    /// Columns by whose values records are found without a scan.
    pub lookup: Vec<String>,
    pub capacity: u32,
    pub seed: u64,
    pub replication: String,
    pub columns: Vec<ColumnInfo>,
    /// What is said about the table.
    pub metadata: Metadata,
    pub writers: Vec<WriterInfo>,
    /// Bytes of live runs, their zone maps and the lookups into them.
    pub bytes: u64,
    pub bytes_per_row: f64,
    /// What the whole store takes, as of now and not of the snapshot.
    pub disk: DiskUse,
}

/// A dimension and its domain, in the column's unit; no ends before the first commit
/// of a table that learns them.
#[derive(Clone, Debug, serde::Serialize)]
pub struct DimensionInfo {
    pub column: String,
    pub scale: String,
    pub low: Option<f64>,
    pub high: Option<f64>,
}

#[derive(Clone, Debug, serde::Serialize)]
pub struct ColumnInfo {
    pub name: String,
    pub data_type: String,
    pub nullable: bool,
    pub unit: Option<String>,
    /// What else is said about the column.
    pub metadata: Metadata,
    /// It came after the creation: data may lack it, and has its default then.
    pub added: bool,
    /// In words; none is null.
    pub default: Option<String>,
}

#[derive(Clone, Debug, serde::Serialize)]
pub struct WriterInfo {
    pub name: String,
    pub commits: u64,
    pub rows: u64,
}

impl Snapshot {
    pub(crate) fn new(core: Arc<Core>, view: Arc<View>) -> Snapshot {
        Snapshot { core, view, step: None }
    }

    /// The columns, as answers have them.
    pub fn schema(&self) -> SchemaRef {
        self.view.schema.user.clone()
    }

    /// The same, with what is said about each.
    pub fn columns(&self) -> Vec<ColumnInfo> {
        self.view.schema.describe()
    }

    /// What is said about the table.
    pub fn metadata(&self) -> &Metadata {
        &self.view.schema.metadata
    }

    /// The same moment, up to a step: rows of later steps, and of steps that some
    /// declared writer has not finished, are not seen. The step itself must be
    /// complete.
    pub fn at_step(&self, step: i64) -> Result<Snapshot> {
        if let Some(missing) = self.view.history.waits_for(step) {
            return Err(Error::invalid(format!("step {step} is not complete: it waits for {missing}")));
        }
        Ok(Snapshot { step: Some(step), ..self.clone() })
    }

    /// Steps that every declared writer has committed or abandoned, ascending.
    pub fn complete_steps(&self) -> Vec<i64> {
        let history = &self.view.history;
        history.steps().into_iter().filter(|step| history.is_complete(*step)).collect()
    }

    /// All records.
    pub fn rows(&self) -> Result<u64> {
        match self.step {
            None => Ok(self.view.rows()),
            Some(_) => self.count(&Query::default()),
        }
    }

    /// All live runs, arranged: as many as there are.
    pub(crate) fn directory(&self) -> Result<Arc<Directory>> {
        self.view.runs.whole(&self.core, &Cancel::default())
    }

    /// The records that match, as a stream of batches.
    pub fn query(&self, query: &Query) -> Result<QueryStream> {
        QueryStream::start(Question::new(self, query)?, query)
    }

    /// How many records the query would return; reads as little as it can.
    pub fn count(&self, query: &Query) -> Result<u64> {
        crate::query::count(self, query)
    }

    /// Streams of growing precision, each record once: first priorities in
    /// `[0, start)`, then `[start, start * factor)`, and so on up to 1 (or the
    /// query's own precision). `0 < start <= 1`, `factor > 1`.
    pub fn refine(&self, query: &Query, start: f64, factor: f64) -> Result<Refine> {
        Refine::new(self.clone(), query.clone(), start, factor)
    }

    pub fn info(&self) -> Result<Info> {
        let (core, directory) = (&self.core, self.directory()?);
        let frame = core.frame()?;
        let scales = frame.as_ref().map(|frame| &frame.scales);
        let dimensions = core.header.dimensions.iter().enumerate().map(|(d, dimension)| {
            let domain = scales.map(|scales| scales[d].domain()).or(dimension.domain);
            DimensionInfo {
                column: dimension.column.clone(),
                scale: dimension.scale.clone(),
                low: domain.map(|(low, _)| low),
                high: domain.map(|(_, high)| high),
            }
        });
        let of_runs: u64 = directory.all().map(|run| run.payload.data_length + run.payload.map_length as u64).sum();
        let bytes = of_runs + lookup::bytes(directory.all().map(Arc::as_ref));
        let rows = directory.rows();
        Ok(Info {
            location: core.store.location().into(),
            format_version: FORMAT_VERSION,
            rows,
            runs: directory.runs().len() as u64,
            cubes: directory.occupied_cubes() as u64,
            replica_rows: directory.replicas().map(|run| run.rows).sum(),
            debt: Survey::new(&self.view, &directory, &Capacity::new(core.header.capacity), &core.heat).debt(),
            most_runs: directory
                .runs()
                .chunk_by(|a, b| a.cube == b.cube)
                .map(|runs| runs.len() as u64)
                .max()
                .unwrap_or(0),
            height: directory.height(),
            dimensions: dimensions.collect(),
            identity: core.header.identity.clone(),
            lookup: core.header.lookup.clone(),
            capacity: core.header.capacity,
            seed: core.header.seed,
            replication: core.header.replication.to_string(),
            columns: self.columns(),
            metadata: self.metadata().clone(),
            writers: self
                .view
                .history
                .writers
                .iter()
                .map(|(name, progress)| WriterInfo {
                    name: name.clone(),
                    commits: progress.commits,
                    rows: progress.rows,
                })
                .collect(),
            bytes,
            bytes_per_row: if rows == 0 { 0.0 } else { bytes as f64 / rows as f64 },
            disk: DiskUse::of(core)?,
        })
    }

    /// The zone maps of runs, from the cache or the store, and what reading them cost.
    pub(crate) fn maps<'a>(
        &self,
        runs: impl Iterator<Item = &'a Arc<kubist_index::state::Run<crate::entry::Location>>> + Clone,
    ) -> Result<(Vec<Arc<ZoneMap>>, Cost)> {
        let mut found = self.core.maps.get(runs.clone().map(|run| run.id));
        let missing: Vec<_> = runs.zip(&mut found).filter(|(_, map)| map.is_none()).collect();
        if missing.is_empty() {
            return Ok((found.into_iter().flatten().collect(), Cost::default()));
        }
        let wanted: Vec<_> = missing
            .iter()
            .map(|(run, _)| fetch::Piece {
                segment: run.payload.segment.clone(),
                offset: run.payload.map_offset,
                length: run.payload.map_length as u64,
            })
            .collect();
        let fetched = fetch::fetch(&self.core, &wanted)?;
        let mut decoded = Vec::with_capacity(missing.len());
        for ((run, slot), bytes) in missing.into_iter().zip(fetched.pieces) {
            let place = &run.payload;
            let damaged = |what: String| Error::Damaged {
                file: format!("{}/segments/{}.seg", self.core.store.location(), place.segment),
                offset: place.map_offset,
                what: format!("{what} (cube {:#x})", run.cube.to_u128()),
            };
            let map = ZoneMap::decode(&bytes).map_err(damaged)?;
            let rows: u64 = map.rows.iter().map(|rows| *rows as u64).sum();
            let length: u64 = map.chunks.iter().map(|chunk| chunk.length as u64).sum();
            // A run that is older than a column ends before it.
            let schema = &self.view.schema;
            if rows != run.rows || length != place.data_length || map.columns.len() < schema.base() {
                return Err(damaged("the zone map does not fit its run".to_string()));
            }
            let map = Arc::new(map);
            decoded.push((run.id, map.clone()));
            *slot = Some(map);
        }
        self.core.maps.insert(decoded.into_iter());
        Ok((found.into_iter().flatten().collect(), fetched.cost))
    }
}
