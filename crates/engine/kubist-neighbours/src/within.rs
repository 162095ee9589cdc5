//! All rows within a radius of points. Each group of points reads the rows in its reach once, in chunks, and delivers
//! results after each chunk, so results take no memory.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, UInt64Array};
use arrow_schema::{DataType, Field, SchemaRef};
use kubist::{Error, Result};
use kubist_metric::{Density, Group, Limits, Tree, groups};
use rayon::prelude::*;

use crate::points::Points;
use crate::results::Results;
use crate::rows::{BATCH_ROWS, RowStream, Rows};
use crate::searched::{Searched, joined};

const GROUP_POINTS: usize = 65_536;
/// Number of points in the first search of a chunk; later searches take enough points to fill a batch.
const FIRST_POINTS: usize = 256;

/// The rows within a radius of points: columns `point`, `distance`, and the row's columns.
pub struct Within {
    searched: Searched,
    points: Points,
    radius: f64,
    schema: SchemaRef,
    groups: VecDeque<Group>,
    open: Option<Open>,
}

struct Open {
    points: Vec<u32>,
    stream: RowStream,
    chunk: Option<Chunk>,
}

struct Chunk {
    rows: Rows,
    tree: Tree,
    next: usize,
    step: usize,
}

impl Within {
    /// Prepares the search, with a radius from [`Searched::radius`].
    ///
    /// # Errors
    ///
    /// The errors of [`kubist::Snapshot::query`].
    pub fn new(searched: &Searched, points: Points, radius: f64) -> Result<Within> {
        let density = searched.density(0)?;
        Within::with_density(searched, points, radius, &density)
    }

    pub(crate) fn with_density(searched: &Searched, points: Points, radius: f64, density: &Density) -> Result<Within> {
        let own = vec![Field::new("point", DataType::UInt64, false), searched.distance_field()];
        let schema = joined(own, &searched.schema())?;
        let radii: Vec<(u32, f64)> = (0..points.count as u32).map(|point| (point, radius)).collect();
        let limits = Limits { rows: searched.tile_rows as f64, points: GROUP_POINTS };
        let groups = groups(&searched.space, density, &points.positions, &radii, limits).into();
        Ok(Within { searched: searched.clone(), points, radius, schema, groups, open: None })
    }

    fn search(&self, points: &[u32], chunk: &mut Chunk) -> Result<Option<RecordBatch>> {
        let some = &points[chunk.next..(chunk.next + chunk.step).min(points.len())];
        let (searched, near_points, radius, axes) =
            (&self.searched, &self.points, self.radius, self.searched.axes.len());
        let found: Vec<Vec<(f64, u32)>> =
            some.par_iter().map(|point| near(searched, near_points.position(*point, axes), radius, chunk)).collect();
        chunk.next += some.len();
        let results: usize = found.iter().map(Vec::len).sum();
        chunk.step = (BATCH_ROWS * some.len()).checked_div(results).unwrap_or(chunk.step * 8).clamp(1, chunk.step * 8);
        if results == 0 {
            return Ok(None);
        }
        let numbers = some.iter().zip(&found).flat_map(|(point, found)| found.iter().map(|_| u64::from(*point)));
        let distances = found.iter().flatten().map(|(distance, _)| *distance);
        let rows: Vec<u32> = found.iter().flatten().map(|(_, row)| *row).collect();
        let own: [ArrayRef; 2] =
            [Arc::new(UInt64Array::from_iter_values(numbers)), Arc::new(Float64Array::from_iter_values(distances))];
        let rows = chunk.rows.take(&self.searched, &rows)?;
        let columns = own.into_iter().chain(rows.columns().iter().cloned()).collect();
        RecordBatch::try_new(self.schema.clone(), columns).map(Some).map_err(Error::kernel)
    }
}

fn near(searched: &Searched, at: &[f64], radius: f64, chunk: &Chunk) -> Vec<(f64, u32)> {
    let (space, axes) = (&searched.space, searched.axes.len());
    let mut found = Vec::new();
    chunk.tree.within(&space.embed_all(at), space.square(radius), |near| {
        let distance = space.distance(at, chunk.rows.position(near.point, axes), near.square);
        // The chord of a sphere only bounds the angle.
        if !searched.is_sphere() || distance <= radius {
            found.push((distance, near.point));
        }
    });
    found.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
    found
}

impl Results for Within {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            self.searched.cancel.check()?;
            let Some(mut open) = self.open.take() else {
                let Some(group) = self.groups.pop_front() else { return Ok(None) };
                let stream = RowStream::new(&self.searched, &group.reach, true)?;
                self.open = Some(Open { points: group.points, stream, chunk: None });
                continue;
            };
            let chunk = match open.chunk.take() {
                Some(chunk) => Some(chunk),
                None => open.stream.chunk(self.searched.chunk_rows())?.map(|rows| {
                    let tree = rows.tree(&self.searched);
                    Chunk { rows, tree, next: 0, step: FIRST_POINTS }
                }),
            };
            let Some(mut chunk) = chunk else { continue };
            let batch = self.search(&open.points, &mut chunk)?;
            if chunk.next < open.points.len() {
                open.chunk = Some(chunk);
            }
            self.open = Some(open);
            if batch.is_some() {
                return Ok(batch);
            }
        }
    }

    fn searched(&self) -> &Searched {
        &self.searched
    }
}
