//! Clusters of rows: DBSCAN, and friends of friends.
//!
//! A core row has at least `least` rows, itself included, within the radius. Neighbouring core rows share a cluster,
//! other rows within the radius of a core row join the nearest one, and all others are noise. With `least` 1 every row
//! is a core row: friends of friends.
//!
//! Each tile is clustered with a margin that decides which rows are core rows. Several tiles see a core row near their
//! border, and its position joins their clusters. A scratch file holds rows and clusters until all clusters are joined.

use std::collections::HashMap;
use std::io::{Seek, SeekFrom};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use kubist::{Error, Result};
use kubist_metric::{MOST_AXES, Near, Reach, Sets};
use rayon::prelude::*;

use crate::pairs::order;
use crate::results::Results;
use crate::rows::BATCH_ROWS;
use crate::searched::Searched;
use crate::tiled::{Tiled, Tiles};

const BLOCK_ROWS: usize = 8_192;
const NOISE: i64 = -1;

/// Parameters of clusters.
#[derive(Clone, Copy, Debug)]
pub struct Linking {
    /// Largest distance of neighbours, from [`Searched::radius`].
    pub radius: f64,
    /// Number of rows within the radius, itself included, that makes a row a core row.
    pub least: usize,
    /// Clusters with fewer rows are noise.
    pub least_members: u64,
}

/// The columns of the rows, then `label`: 0 for the cluster with most rows, -1 for noise.
pub struct Clusters {
    searched: Searched,
    schema: SchemaRef,
    /// The labels of the scratch file's clusters.
    labels: Vec<i64>,
    reader: Option<StreamReader<std::fs::File>>,
}

type Key = [u64; MOST_AXES];

fn key(position: &[f64]) -> Key {
    std::array::from_fn(|axis| position.get(axis).map_or(0, |number| number.to_bits()))
}

#[derive(Default)]
struct Joined {
    sets: Sets,
    /// Number of rows by cluster.
    members: Vec<u64>,
    /// The first position by cluster.
    first: Vec<Vec<f64>>,
    border: HashMap<Key, u32>,
}

impl Clusters {
    /// Stores rows and clusters in a scratch file.
    ///
    /// # Errors
    ///
    /// `Invalid` for a `least` of 0, or if the margin of a radius has too many rows; `NoSpace` for the scratch file;
    /// the errors of [`kubist::Snapshot::query`].
    pub fn new(searched: &Searched, linking: Linking) -> Result<Clusters> {
        if linking.least == 0 {
            return Err(Error::invalid("min_samples: 0; give 1 or more"));
        }
        let rows = searched.schema();
        if rows.column_with_name("label").is_some() {
            return Err(Error::invalid("column \"label\": the result has its own column of this name; choose others"));
        }
        let label = Field::new("label", DataType::Int64, false);
        let fields: Vec<Field> = rows.fields().iter().map(|field| field.as_ref().clone()).chain([label]).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, rows.metadata().clone()));
        let mut file = tempfile::tempfile().map_err(|error| Error::io("cannot create a scratch file", error))?;
        let mut writer = StreamWriter::try_new(&mut file, &schema).map_err(scratch)?;
        let mut joined = Joined::default();
        // The rows within two radii decide which rows within one are core rows.
        let margin = if linking.least == 1 { linking.radius } else { 2.0 * linking.radius };
        let mut tiles = Tiles::new(searched, margin, true)?;
        while let Some(tiled) = tiles.next()? {
            let clusters = Tile { searched, linking, tiled: &tiled }.clusters(&mut joined)?;
            for (rows, clusters) in tiled.own.chunks(BATCH_ROWS).zip(clusters.chunks(BATCH_ROWS)) {
                let clusters: ArrayRef = Arc::new(Int64Array::from(clusters.to_vec()));
                let rows = tiled.rows.take(searched, rows)?;
                let columns = rows.columns().iter().cloned().chain([clusters]).collect();
                let batch = RecordBatch::try_new(schema.clone(), columns).map_err(Error::kernel)?;
                writer.write(&batch).map_err(scratch)?;
            }
        }
        writer.finish().map_err(scratch)?;
        drop(writer);
        file.seek(SeekFrom::Start(0)).map_err(|error| Error::io("cannot read a scratch file", error))?;
        let reader = StreamReader::try_new(file, None).map_err(scratch)?;
        let labels = joined.labels(linking.least_members);
        Ok(Clusters { searched: searched.clone(), schema, labels, reader: Some(reader) })
    }
}

fn scratch(error: ArrowError) -> Error {
    match error {
        ArrowError::IoError(message, source) => Error::io(format!("scratch file: {message}"), source),
        other => Error::internal(other),
    }
}

impl Joined {
    fn add(&mut self) -> u32 {
        self.members.push(0);
        self.first.push(Vec::new());
        self.sets.add()
    }

    /// Labels follow the descending number of rows, then the first position.
    fn labels(mut self, least: u64) -> Vec<i64> {
        let count = self.members.len() as u32;
        for cluster in 0..count {
            let root = self.sets.of(cluster);
            if root != cluster {
                let (members, first) = (self.members[cluster as usize], self.first[cluster as usize].clone());
                self.members[root as usize] += members;
                self.count_first(root, &first);
            }
        }
        let mut roots: Vec<u32> = (0..count).filter(|cluster| self.sets.of(*cluster) == *cluster).collect();
        roots.retain(|root| self.members[*root as usize] >= least.max(1));
        roots.sort_by(|one, other| {
            let (one, other) = (*one as usize, *other as usize);
            self.members[other].cmp(&self.members[one]).then(order(&self.first[one], &self.first[other]))
        });
        let mut labels = vec![NOISE; count as usize];
        for (label, root) in (0..).zip(roots) {
            labels[root as usize] = label;
        }
        (0..count).map(|cluster| labels[self.sets.of(cluster) as usize]).collect()
    }

    fn count_first(&mut self, cluster: u32, position: &[f64]) {
        let first = &mut self.first[cluster as usize];
        if !position.is_empty() && (first.is_empty() || order(position, first).is_lt()) {
            *first = position.to_vec();
        }
    }
}

struct Tile<'a> {
    searched: &'a Searched,
    linking: Linking,
    tiled: &'a Tiled,
}

impl Tile<'_> {
    fn position(&self, row: u32) -> &[f64] {
        self.tiled.rows.position(row, self.searched.axes.len())
    }

    fn near(&self, row: u32, mut each: impl FnMut(Near)) {
        let (space, at, radius) = (&self.searched.space, self.position(row), self.linking.radius);
        let is_sphere = self.searched.is_sphere();
        self.tiled.tree.within(&space.embed_all(at), space.square(radius), |near| {
            // The chord of a sphere only bounds the angle.
            if !is_sphere || space.distance(at, self.position(near.point), near.square) <= radius {
                each(near);
            }
        });
    }

    /// False for rows farther than one radius from the tile.
    fn cores(&self) -> Vec<bool> {
        let rows = self.tiled.rows.len() as u32;
        let around = self.tiled.tile.reach(&self.searched.space, self.linking.radius);
        let is_core = |row: u32| {
            if self.linking.least == 1 {
                return true;
            }
            if !self.tiled.is_own[row as usize] && !around.has(&self.searched.space, self.position(row)) {
                return false;
            }
            let mut count = 0;
            self.near(row, |_| count += 1);
            count >= self.linking.least
        };
        (0..rows).into_par_iter().map(is_core).collect()
    }

    /// True if no other tile sees the row.
    fn is_inside(&self, row: u32) -> bool {
        let at = self.position(row);
        let Reach(ranges) = Reach::around(&self.searched.space, at, at, self.linking.radius);
        let tile = &self.tiled.tile;
        ranges.iter().zip(tile.low.iter().zip(&tile.high)).all(|(range, (tile_low, tile_high))| match range {
            Some((low, high)) => tile_low <= low && high < tile_high,
            None => false,
        })
    }

    /// By own row: its cluster, or [`NOISE`].
    fn clusters(&self, joined: &mut Joined) -> Result<Vec<i64>> {
        let cores = self.cores();
        let mut local = Sets::new(self.tiled.rows.len() as u32);
        let mut nearest: HashMap<u32, u32> = HashMap::new();
        for block in self.tiled.own.chunks(BLOCK_ROWS) {
            self.searched.cancel.check()?;
            let found: Vec<Vec<u32>> = block.par_iter().map(|row| self.linked(*row, &cores)).collect();
            for (row, found) in block.iter().zip(found) {
                match cores[*row as usize] {
                    true => found.into_iter().for_each(|other| local.join(*row, other)),
                    false => nearest.extend(found.first().map(|core| (*row, *core))),
                }
            }
        }
        let mut of_set: HashMap<u32, u32> = HashMap::new();
        let own_cores = self.tiled.own.iter().copied().filter(|row| cores[*row as usize]);
        for core in own_cores.chain(nearest.values().copied()) {
            of_set.entry(local.of(core)).or_insert_with(|| joined.add());
        }
        for row in (0..self.tiled.rows.len() as u32).filter(|row| cores[*row as usize]) {
            let Some(cluster) = of_set.get(&local.of(row)).copied() else { continue };
            if self.tiled.is_own[row as usize] && self.is_inside(row) {
                continue;
            }
            match joined.border.entry(key(self.position(row))) {
                std::collections::hash_map::Entry::Occupied(other) => joined.sets.join(cluster, *other.get()),
                std::collections::hash_map::Entry::Vacant(free) => {
                    free.insert(cluster);
                }
            }
        }
        let mut clusters = Vec::with_capacity(self.tiled.own.len());
        for row in &self.tiled.own {
            let core = if cores[*row as usize] { Some(*row) } else { nearest.get(row).copied() };
            let cluster = core.and_then(|core| of_set.get(&local.of(core)).copied());
            if let Some(cluster) = cluster {
                joined.members[cluster as usize] += 1;
                joined.count_first(cluster, self.position(*row));
            }
            clusters.push(cluster.map_or(NOISE, i64::from));
        }
        Ok(clusters)
    }

    /// For a core row, the core rows within the radius that its set lacks; for another row, the nearest
    /// core row.
    fn linked(&self, row: u32, cores: &[bool]) -> Vec<u32> {
        let mut found: Vec<u32> = Vec::new();
        if cores[row as usize] {
            self.near(row, |near| {
                // Own rows link each other once.
                let twice = self.tiled.is_own[near.point as usize] && near.point <= row;
                if cores[near.point as usize] && !twice {
                    found.push(near.point);
                }
            });
            return found;
        }
        let mut best: Option<Near> = None;
        self.near(row, |near| {
            let closer = best.is_none_or(|best| {
                let positions = || order(self.position(near.point), self.position(best.point));
                near.square.total_cmp(&best.square).then_with(positions).is_lt()
            });
            if cores[near.point as usize] && closer {
                best = Some(near);
            }
        });
        best.map(|best| best.point).into_iter().collect()
    }
}

impl Results for Clusters {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn batch(&mut self) -> Result<Option<RecordBatch>> {
        self.searched.cancel.check()?;
        let Some(batch) = self.reader.as_mut().and_then(Iterator::next) else {
            self.reader = None;
            return Ok(None);
        };
        let batch = batch.map_err(scratch)?;
        let mut columns = batch.columns().to_vec();
        let last = columns.len() - 1;
        let clusters = columns[last].as_primitive::<Int64Type>().values();
        let label = |cluster: &i64| usize::try_from(*cluster).map_or(NOISE, |cluster| self.labels[cluster]);
        columns[last] = Arc::new(Int64Array::from_iter_values(clusters.iter().map(label)));
        RecordBatch::try_new(self.schema.clone(), columns).map(Some).map_err(Error::kernel)
    }

    fn searched(&self) -> &Searched {
        &self.searched
    }
}
