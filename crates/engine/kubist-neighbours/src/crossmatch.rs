//! Matches of the rows of two tables. Each tile of the first table is a set of points for a search in the
//! second.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_schema::{Field, Schema, SchemaRef};
use kubist::{Error, Result, Stats};
use kubist_metric::Density;

use crate::columns::unit;
use crate::nearest::Nearest;
use crate::points::Points;
use crate::results::Results;
use crate::rows::Rows;
use crate::searched::Searched;
use crate::temporary::Temporary;
use crate::tiled::Tiles;
use crate::within::Within;

/// The rows of a table with the rows of another within a radius: the columns of the row, `distance`, and
/// the columns of the other row, with `_2` after names that the first table has too.
pub struct CrossMatch {
    other: Searched,
    searched: Searched,
    radius: f64,
    best: Option<usize>,
    schema: SchemaRef,
    density: Arc<Density>,
    tiles: Tiles,
    open: Option<(Rows, Box<dyn Results>)>,
    /// Set if the other table is temporary.
    kept: Option<Temporary>,
}

impl CrossMatch {
    /// Prepares the search for the `best` nearest rows of `other`, or for all, up to `radius`.
    ///
    /// # Errors
    ///
    /// `Invalid` if the positions of the tables differ in kind or unit; the errors of
    /// [`kubist::Snapshot::query`].
    pub fn new(searched: &Searched, other: &Searched, radius: f64, best: Option<usize>) -> Result<CrossMatch> {
        if best == Some(0) {
            return Err(Error::invalid("best: 0 matches; give 1 or more, or \"all\""));
        }
        if searched.space != other.space {
            return Err(Error::invalid(
                "the positions of both tables must have the same number of columns, the same periods or a sphere",
            ));
        }
        let (own, theirs) = (unit(&searched.axes[0].field), unit(&other.axes[0].field));
        if !searched.is_sphere() && own != theirs {
            return Err(Error::invalid(format!("the positions of the tables are in {own:?} and in {theirs:?}")));
        }
        let (first, second) = (searched.schema(), other.schema());
        let mut fields: Vec<Field> = first.fields().iter().map(|field| field.as_ref().clone()).collect();
        for field in std::iter::once(&Arc::new(searched.distance_field())).chain(second.fields()) {
            let taken = |name: &str| fields.iter().any(|field| field.name() == name);
            let mut name = field.name().clone();
            while taken(&name) {
                name.push_str("_2");
            }
            fields.push(field.as_ref().clone().with_name(name));
        }
        Ok(CrossMatch {
            other: other.clone(),
            searched: searched.clone(),
            radius,
            best,
            schema: Arc::new(Schema::new_with_metadata(fields, first.metadata().clone())),
            density: Arc::new(other.density(best.unwrap_or(0) as u64)?),
            tiles: Tiles::new(searched, 0.0, true)?,
            open: None,
            kept: None,
        })
    }

    /// Keeps the other table until the search ends.
    pub fn keeping(self, table: Option<Temporary>) -> CrossMatch {
        CrossMatch { kept: table, ..self }
    }

    fn next(&mut self) -> Result<Option<(Rows, Box<dyn Results>)>> {
        let Some(tiled) = self.tiles.next()? else { return Ok(None) };
        let rows = tiled.rows.only(&tiled.own, self.searched.axes.len());
        let points = Points { positions: rows.positions.clone(), count: rows.places.len() };
        let results: Box<dyn Results> = match self.best {
            Some(k) => {
                Box::new(Nearest::with_density(&self.other, points, k, Some(self.radius), self.density.clone())?)
            }
            None => Box::new(Within::with_density(&self.other, points, self.radius, &self.density)?),
        };
        Ok(Some((rows, results)))
    }
}

impl Results for CrossMatch {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let Some((rows, mut results)) = self.open.take() else {
                match self.next()? {
                    Some(open) => self.open = Some(open),
                    None => {
                        self.kept = None;
                        return Ok(None);
                    }
                }
                continue;
            };
            let Some(batch) = results.batch()? else { continue };
            let points: Vec<u32> =
                batch.column(0).as_primitive::<UInt64Type>().values().iter().map(|point| *point as u32).collect();
            let first = rows.take(&self.searched, &points)?;
            // The other row's columns follow the point and the rank.
            let others = &batch.columns()[batch.num_columns() - self.other.schema().fields().len() - 1..];
            let columns = first.columns().iter().chain(others).cloned().collect();
            self.open = Some((rows, results));
            return RecordBatch::try_new(self.schema.clone(), columns).map(Some).map_err(Error::kernel);
        }
    }

    fn stats(&self) -> Stats {
        let mut stats = self.searched.stats();
        stats.add(&self.other.stats());
        stats
    }

    fn searched(&self) -> &Searched {
        &self.searched
    }
}
