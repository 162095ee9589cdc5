//! Tiles of a table with the rows around them.

use std::collections::VecDeque;

use kubist::{Error, Result};
use kubist_metric::{Tile, Tiling, Tree};

use crate::rows::{RowStream, Rows};
use crate::searched::Searched;

/// Limit of rows of a tile and its margin, relative to the expected rows of a tile.
const MOST_MARGIN: usize = 20;

pub struct Tiles {
    searched: Searched,
    left: VecDeque<Tile>,
    margin: f64,
    with_columns: bool,
}

/// A tile and the rows within a margin around it.
pub struct Tiled {
    pub tile: Tile,
    pub rows: Rows,
    pub tree: Tree,
    pub own: Vec<u32>,
    pub is_own: Vec<bool>,
}

impl Tiles {
    /// Divides the table into tiles.
    pub fn new(searched: &Searched, margin: f64, with_columns: bool) -> Result<Tiles> {
        let density = searched.density(0)?;
        let tiling = Tiling::new(&searched.space, &density, searched.tile_rows as f64);
        Ok(Tiles { searched: searched.clone(), left: tiling.tiles.into(), margin, with_columns })
    }

    /// Reads the next tile that has rows; `None` at the end.
    ///
    /// # Errors
    ///
    /// `Invalid` if the margin has too many rows; the errors of [`kubist::Snapshot::query`].
    pub fn next(&mut self) -> Result<Option<Tiled>> {
        while let Some(tile) = self.left.pop_front() {
            let searched = &self.searched;
            let axes = searched.axes.len();
            let most = searched.tile_rows.saturating_mul(MOST_MARGIN);
            let mut stream = RowStream::new(searched, &tile.reach(&searched.space, self.margin), self.with_columns)?;
            let rows = stream.chunk(most)?.unwrap_or_default();
            if stream.chunk(1)?.is_some() {
                return Err(Error::invalid(format!(
                    "more than {most} rows are within {} of a tile of {} rows: choose a smaller radius, a sample, or larger tiles",
                    self.margin, searched.tile_rows
                )));
            }
            let is_own: Vec<bool> = rows.positions.chunks_exact(axes).map(|position| tile.has(position)).collect();
            let own: Vec<u32> = (0..).zip(&is_own).filter(|(_, own)| **own).map(|(row, _)| row).collect();
            if !own.is_empty() {
                let tree = rows.tree(searched);
                return Ok(Some(Tiled { tile, rows, tree, own, is_own }));
            }
        }
        Ok(None)
    }
}
