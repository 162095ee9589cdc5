//! The nearest rows of each point.
//!
//! A sample predicts a radius within which a point probably has `k` rows. Each group of points reads the
//! rows in its reach once. Points with fewer rows are searched again within a radius that certainly has `k`
//! rows: the distance of the k-th row found, or of the k-th row of the sample.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field, SchemaRef};
use kubist::{Error, Result};
use kubist_metric::{Density, Group, Limits, Space, Tree, groups};
use rayon::prelude::*;

use crate::points::Points;
use crate::results::Results;
use crate::rows::{BATCH_ROWS, RowStream, Rows, interleaved};
use crate::searched::{Searched, joined};

/// Number of neighbours in memory for a group.
const GROUP_NEIGHBOURS: usize = 1 << 20;
/// Sampled rows that give the density at a point.
const SAMPLED: usize = 8;

/// The nearest rows of each point: columns `point`, `rank` from 1, `distance`, and the row's columns.
pub struct Nearest {
    searched: Searched,
    points: Points,
    k: usize,
    most: Option<f64>,
    schema: SchemaRef,
    density: Arc<Density>,
    sample: Tree,
    groups: VecDeque<Group>,
    radii: Vec<f64>,
    again: Vec<(u32, f64)>,
    ready: VecDeque<RecordBatch>,
}

/// Distance, batch and row of a neighbour.
type Neighbour = (f64, usize, usize);

impl Nearest {
    /// Searches up to the distance `most`, if given.
    ///
    /// # Errors
    ///
    /// `Invalid` for a `k` of 0, or without `most` above the number of matching rows; the errors of
    /// [`kubist::Snapshot::query`].
    pub fn new(searched: &Searched, points: Points, k: usize, most: Option<f64>) -> Result<Nearest> {
        if k == 0 {
            return Err(Error::invalid("k: 0 neighbours; give 1 or more"));
        }
        if k > GROUP_NEIGHBOURS {
            return Err(Error::invalid(format!("k: {k} neighbours are too many; give at most {GROUP_NEIGHBOURS}")));
        }
        let density = Arc::new(searched.density(k as u64)?);
        Nearest::with_density(searched, points, k, most, density)
    }

    pub(crate) fn with_density(
        searched: &Searched,
        points: Points,
        k: usize,
        most: Option<f64>,
        density: Arc<Density>,
    ) -> Result<Nearest> {
        let rows = density.positions.len() / searched.axes.len();
        if rows < k && most.is_none() && points.count > 0 {
            return Err(Error::invalid(format!("k: {k} neighbours of {rows} rows that match")));
        }
        let own = vec![
            Field::new("point", DataType::UInt64, false),
            Field::new("rank", DataType::UInt32, false),
            searched.distance_field(),
        ];
        let schema = joined(own, &searched.schema())?;
        let sample = Tree::new(&searched.space, &searched.space.embed_all(&density.positions));
        let mut nearest = Nearest {
            searched: searched.clone(),
            radii: vec![0.0; points.count],
            points,
            k,
            most,
            schema,
            density,
            sample,
            groups: VecDeque::new(),
            again: Vec::new(),
            ready: VecDeque::new(),
        };
        let guesses: Vec<(u32, f64)> =
            (0..nearest.points.count as u32).into_par_iter().map(|point| (point, nearest.guess(point))).collect();
        nearest.group(&guesses);
        Ok(nearest)
    }

    /// A radius that probably has `k` rows, at most one that certainly has.
    fn guess(&self, point: u32) -> f64 {
        let wanted = 2.0 * self.k as f64 + 8.0;
        let sampled = SAMPLED.max((wanted / self.density.scale).ceil() as usize);
        let rows = sampled as f64 * self.density.scale;
        let shrunk = (wanted / rows).min(1.0).powf(1.0 / self.searched.axes.len() as f64);
        let radius = self.to_sampled(point, sampled) * shrunk;
        radius.min(self.to_sampled(point, self.k)).min(self.most.unwrap_or(f64::INFINITY))
    }

    /// Infinite if there are fewer sampled rows.
    fn to_sampled(&self, point: u32, n: usize) -> f64 {
        let at = self.embedded(point);
        let found = self.sample.nearest(&at, n, f64::INFINITY);
        let axes = self.searched.axes.len();
        match found.last() {
            Some(last) if found.len() == n => {
                let row = &self.density.positions[last.point as usize * axes..][..axes];
                self.searched.space.distance(self.points.position(point, axes), row, last.square)
            }
            _ => f64::INFINITY,
        }
    }

    fn embedded(&self, point: u32) -> Vec<f64> {
        self.searched.space.embed_all(self.points.position(point, self.searched.axes.len()))
    }

    fn group(&mut self, points: &[(u32, f64)]) {
        for (point, radius) in points {
            self.radii[*point as usize] = *radius;
        }
        let limits =
            Limits { rows: self.searched.tile_rows as f64, points: (GROUP_NEIGHBOURS / self.k).clamp(1, 65_536) };
        self.groups = groups(&self.searched.space, &self.density, &self.points.positions, points, limits).into();
    }

    fn search(&mut self, group: &Group) -> Result<()> {
        let mut stream = RowStream::new(&self.searched, &group.reach, true)?;
        let mut kept = RecordBatch::new_empty(self.searched.schema());
        let mut found: Vec<Vec<Neighbour>> = vec![Vec::new(); group.points.len()];
        while let Some(rows) = stream.chunk(self.searched.chunk_rows())? {
            let tree = rows.tree(&self.searched);
            found = group
                .points
                .par_iter()
                .zip(found)
                .map(|(point, before)| self.merged(*point, before, &rows, &tree))
                .collect();
            self.searched.cancel.check()?;
            let batches: Vec<&RecordBatch> = std::iter::once(&kept).chain(&rows.batches).collect();
            let places: Vec<(usize, usize)> = found.iter().flatten().map(|(_, batch, row)| (*batch, *row)).collect();
            kept = interleaved(&self.searched, &batches, &places)?;
            for (place, (_, batch, row)) in found.iter_mut().flatten().enumerate() {
                (*batch, *row) = (0, place);
            }
        }
        let mut done = Vec::new();
        for (point, found) in group.points.iter().zip(found) {
            let radius = self.radii[*point as usize];
            let last = if found.len() == self.k { found.last().map(|last| last.0) } else { None };
            let whole = radius == f64::INFINITY || self.most == Some(radius);
            if whole || last.is_some_and(|last| last <= radius) {
                done.push((*point, found));
            } else {
                let certain = last.unwrap_or_else(|| self.to_sampled(*point, self.k));
                // Distances have rounding errors.
                let certain = certain * (1.0 + 1e-9) + f64::MIN_POSITIVE;
                self.again.push((*point, certain.min(self.most.unwrap_or(f64::INFINITY))));
            }
        }
        self.deliver(done, &kept)
    }

    /// The nearest of the earlier rows (batch 0) and the rows of a chunk.
    fn merged(&self, point: u32, mut before: Vec<Neighbour>, rows: &Rows, tree: &Tree) -> Vec<Neighbour> {
        let (space, axes) = (&self.searched.space, self.searched.axes.len());
        let most = self.most.unwrap_or(f64::INFINITY);
        let mut square = if most.is_finite() { space.square(most) } else { f64::INFINITY };
        if let (Space::Flat { .. }, Some(worst)) = (space, before.last())
            && before.len() == self.k
        {
            square = square.min(worst.0 * worst.0 * (1.0 + 1e-12));
        }
        let at = self.points.position(point, axes);
        for near in tree.nearest(&self.embedded(point), self.k, square) {
            let distance = space.distance(at, rows.position(near.point, axes), near.square);
            if !self.searched.is_sphere() || distance <= most {
                let (batch, row) = rows.places[near.point as usize];
                before.push((distance, batch + 1, row));
            }
        }
        before.sort_by(|one, other| one.0.total_cmp(&other.0));
        before.truncate(self.k);
        before
    }

    fn deliver(&mut self, done: Vec<(u32, Vec<Neighbour>)>, kept: &RecordBatch) -> Result<()> {
        let (mut points, mut ranks, mut distances, mut places) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let last = done.len().saturating_sub(1);
        for (number, (point, found)) in done.into_iter().enumerate() {
            for (rank, (distance, batch, row)) in (1..).zip(found) {
                points.push(u64::from(point));
                ranks.push(rank);
                distances.push(distance);
                places.push((batch, row));
            }
            if places.len() >= BATCH_ROWS || (number == last && !places.is_empty()) {
                let rows = interleaved(&self.searched, &[kept], &places)?;
                let own: [ArrayRef; 3] = [
                    Arc::new(UInt64Array::from(std::mem::take(&mut points))),
                    Arc::new(UInt32Array::from(std::mem::take(&mut ranks))),
                    Arc::new(Float64Array::from(std::mem::take(&mut distances))),
                ];
                let columns = own.into_iter().chain(rows.columns().iter().cloned()).collect();
                self.ready.push_back(RecordBatch::try_new(self.schema.clone(), columns).map_err(Error::kernel)?);
                places.clear();
            }
        }
        Ok(())
    }
}

impl Results for Nearest {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Ok(Some(batch));
            }
            self.searched.cancel.check()?;
            if let Some(group) = self.groups.pop_front() {
                self.search(&group)?;
            } else if self.again.is_empty() {
                return Ok(None);
            } else {
                let again = std::mem::take(&mut self.again);
                self.group(&again);
            }
        }
    }

    fn searched(&self) -> &Searched {
        &self.searched
    }
}
