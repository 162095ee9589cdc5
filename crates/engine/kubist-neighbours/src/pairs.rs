//! All pairs of rows within a radius. A pair is delivered by the tile that has its first row in the order of
//! positions.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch};
use arrow_schema::{Field, Schema, SchemaRef};
use kubist::{Error, Result};
use rayon::prelude::*;

use crate::results::Results;
use crate::rows::BATCH_ROWS;
use crate::searched::Searched;
use crate::tiled::{Tiled, Tiles};

/// Number of rows in the first search of a tile; later searches take enough rows to fill a batch.
const FIRST_ROWS: usize = 256;

/// The pairs: a column `distance`, then the columns of both rows, with `_1` and `_2` after their names.
pub struct Pairs {
    searched: Searched,
    radius: f64,
    schema: SchemaRef,
    tiles: Tiles,
    open: Option<Open>,
}

struct Open {
    tiled: Tiled,
    next: usize,
    step: usize,
}

impl Pairs {
    /// Prepares the search, with a radius from [`Searched::radius`].
    ///
    /// # Errors
    ///
    /// The errors of [`kubist::Snapshot::query`].
    pub fn new(searched: &Searched, radius: f64) -> Result<Pairs> {
        let rows = searched.schema();
        let named = |number: usize| {
            let rows = rows.clone();
            (0..rows.fields().len()).map(move |column| {
                let field = rows.field(column);
                field.clone().with_name(format!("{}_{number}", field.name()))
            })
        };
        let fields: Vec<Field> = std::iter::once(searched.distance_field()).chain(named(1)).chain(named(2)).collect();
        let schema = Arc::new(Schema::new(fields));
        Ok(Pairs { searched: searched.clone(), radius, schema, tiles: Tiles::new(searched, radius, true)?, open: None })
    }

    fn search(&self, open: &mut Open) -> Result<Option<RecordBatch>> {
        let tiled = &open.tiled;
        let some = &tiled.own[open.next..(open.next + open.step).min(tiled.own.len())];
        let (searched, radius) = (&self.searched, self.radius);
        let found: Vec<Vec<(f64, u32)>> = some.par_iter().map(|row| after(searched, tiled, *row, radius)).collect();
        open.next += some.len();
        let pairs: usize = found.iter().map(Vec::len).sum();
        open.step = (BATCH_ROWS * some.len()).checked_div(pairs).unwrap_or(open.step * 8).clamp(1, open.step * 8);
        if pairs == 0 {
            return Ok(None);
        }
        let firsts: Vec<u32> = some.iter().zip(&found).flat_map(|(row, found)| found.iter().map(|_| *row)).collect();
        let seconds: Vec<u32> = found.iter().flatten().map(|(_, row)| *row).collect();
        let distances: ArrayRef =
            Arc::new(Float64Array::from_iter_values(found.iter().flatten().map(|(distance, _)| *distance)));
        let (firsts, seconds) = (tiled.rows.take(searched, &firsts)?, tiled.rows.take(searched, &seconds)?);
        let columns = firsts.columns().iter().chain(seconds.columns()).cloned();
        let columns = std::iter::once(distances).chain(columns).collect();
        RecordBatch::try_new(self.schema.clone(), columns).map(Some).map_err(Error::kernel)
    }
}

fn after(searched: &Searched, tiled: &Tiled, row: u32, radius: f64) -> Vec<(f64, u32)> {
    let (space, axes) = (&searched.space, searched.axes.len());
    let at = tiled.rows.position(row, axes);
    let mut found = Vec::new();
    tiled.tree.within(&space.embed_all(at), space.square(radius), |near| {
        let other = tiled.rows.position(near.point, axes);
        // Rows with equal positions are in the same tile.
        if order(at, other).then(row.cmp(&near.point)) == Ordering::Less {
            let distance = space.distance(at, other, near.square);
            // The chord of a sphere only bounds the angle.
            if !searched.is_sphere() || distance <= radius {
                found.push((distance, near.point));
            }
        }
    });
    found.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
    found
}

pub fn order(one: &[f64], other: &[f64]) -> Ordering {
    let unequal = one.iter().zip(other).map(|(one, other)| one.total_cmp(other)).find(|order| order.is_ne());
    unequal.unwrap_or(Ordering::Equal)
}

impl Results for Pairs {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            self.searched.cancel.check()?;
            let Some(mut open) = self.open.take() else {
                let Some(tiled) = self.tiles.next()? else { return Ok(None) };
                self.open = Some(Open { tiled, next: 0, step: FIRST_ROWS });
                continue;
            };
            let batch = self.search(&mut open)?;
            if open.next < open.tiled.own.len() {
                self.open = Some(open);
            }
            if batch.is_some() {
                return Ok(batch);
            }
        }
    }

    fn searched(&self) -> &Searched {
        &self.searched
    }
}
