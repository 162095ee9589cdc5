//! Rows in memory with their positions, in chunks of a query's result.

use arrow_array::RecordBatch;
use arrow_select::interleave::interleave_record_batch;
use kubist::{Error, QueryStream, Result};
use kubist_metric::{Reach, Tree};

use crate::columns;
use crate::searched::Searched;

pub const BATCH_ROWS: usize = 65_536;

/// Skips rows that have no position.
pub struct RowStream {
    searched: Searched,
    stream: Option<QueryStream>,
    with_columns: bool,
}

#[derive(Default)]
pub struct Rows {
    pub batches: Vec<RecordBatch>,
    /// By row: its batch and index.
    pub places: Vec<(usize, usize)>,
    pub positions: Vec<f64>,
}

impl RowStream {
    /// Reads only positions if `with_columns` is false.
    ///
    /// # Errors
    ///
    /// The errors of [`kubist::Snapshot::query`].
    pub fn new(searched: &Searched, reach: &Reach, with_columns: bool) -> Result<RowStream> {
        let stream = Some(searched.query(reach, with_columns)?);
        Ok(RowStream { searched: searched.clone(), stream, with_columns })
    }

    /// About `most` rows; `None` at the end.
    pub fn chunk(&mut self, most: usize) -> Result<Option<Rows>> {
        let Some(stream) = &mut self.stream else { return Ok(None) };
        let (space, axes) = (&self.searched.space, &self.searched.axes);
        let mut rows = Rows::default();
        while rows.places.len() < most {
            self.searched.cancel.check()?;
            let Some(batch) = stream.next() else {
                self.searched.spend(&stream.stats());
                self.stream = None;
                break;
            };
            let batch = batch?;
            let (positions, valid) = columns::positions(space, axes, &batch)?;
            for (row, (position, valid)) in positions.chunks_exact(axes.len()).zip(valid).enumerate() {
                if valid {
                    rows.places.push((rows.batches.len(), row));
                    rows.positions.extend_from_slice(position);
                }
            }
            if self.with_columns {
                let columns: Vec<usize> = (0..batch.num_columns() - axes.len()).collect();
                rows.batches.push(batch.project(&columns).map_err(Error::kernel)?);
            }
        }
        Ok((!rows.places.is_empty()).then_some(rows))
    }
}

impl Rows {
    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn position(&self, row: u32, axes: usize) -> &[f64] {
        &self.positions[row as usize * axes..][..axes]
    }

    pub fn tree(&self, searched: &Searched) -> Tree {
        Tree::new(&searched.space, &searched.space.embed_all(&self.positions))
    }

    pub fn only(&self, rows: &[u32], axes: usize) -> Rows {
        let positions = rows.iter().flat_map(|row| self.position(*row, axes).iter().copied()).collect();
        let places = rows.iter().map(|row| self.places[*row as usize]).collect();
        Rows { batches: self.batches.clone(), places, positions }
    }

    pub fn take(&self, searched: &Searched, rows: &[u32]) -> Result<RecordBatch> {
        let places: Vec<(usize, usize)> = rows.iter().map(|row| self.places[*row as usize]).collect();
        interleaved(searched, &self.batches.iter().collect::<Vec<_>>(), &places)
    }
}

pub fn interleaved(searched: &Searched, batches: &[&RecordBatch], places: &[(usize, usize)]) -> Result<RecordBatch> {
    if places.is_empty() {
        return Ok(RecordBatch::new_empty(searched.schema()));
    }
    interleave_record_batch(batches, places).map_err(Error::kernel)
}
