//! Numbers of pairs by distance.

use kubist::{Error, Result};
use kubist_region::Length;
use rayon::prelude::*;
use serde::Serialize;

use crate::searched::Searched;
use crate::tiled::Tiles;

/// Pairs of rows by distance, where a bin contains `low <= distance < high`, the last bin also `high`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Counts {
    /// The edges of the bins, in the unit of positions.
    pub edges: Vec<f64>,
    /// Number of rows.
    pub rows: u64,
    /// By bin, each pair counted once.
    pub pairs: Vec<u64>,
    /// By bin: sum over all rows of the squared number of pairs that contain the row.
    pub squares: Vec<f64>,
}

/// Counts the pairs in every bin.
///
/// # Errors
///
/// `Invalid` unless the edges are at least two lengths in ascending order; the errors of [`Searched::radius`] and of
/// [`kubist::Snapshot::query`].
pub fn counts(searched: &Searched, edges: &[Length]) -> Result<Counts> {
    let edges = edges.iter().map(|edge| searched.radius("edges", edge)).collect::<Result<Vec<f64>>>()?;
    let Some(most) = edges.last().copied().filter(|_| edges.len() > 1 && edges.is_sorted_by(|a, b| a < b)) else {
        return Err(Error::invalid("edges: expected two or more lengths in ascending order"));
    };
    let (bins, axes, space) = (edges.len() - 1, searched.axes.len(), &searched.space);
    let bin = |distance: f64| match edges.partition_point(|edge| *edge <= distance) {
        0 => None,
        after if after <= bins => Some(after - 1),
        _ => (distance == most).then_some(bins - 1),
    };
    let mut twice = vec![0u64; bins];
    let mut counts = Counts { rows: 0, pairs: Vec::new(), squares: vec![0.0; bins], edges: edges.clone() };
    let mut tiles = Tiles::new(searched, most, false)?;
    while let Some(tiled) = tiles.next()? {
        searched.cancel.check()?;
        let of_row = |(mut sums, mut squares): (Vec<u64>, Vec<f64>), row: &u32| {
            let at = tiled.rows.position(*row, axes);
            let mut near = vec![0u64; bins];
            tiled.tree.within(&space.embed_all(at), space.square(most), |found| {
                if found.point != *row {
                    let other = tiled.rows.position(found.point, axes);
                    if let Some(bin) = bin(space.distance(at, other, found.square)) {
                        near[bin] += 1;
                    }
                }
            });
            for (bin, near) in near.iter().enumerate() {
                sums[bin] += near;
                squares[bin] += (*near as f64).powi(2);
            }
            (sums, squares)
        };
        let none = || (vec![0u64; bins], vec![0.0f64; bins]);
        let (sums, squares) = tiled.own.par_iter().fold(none, of_row).reduce(none, |mut one, other| {
            one.0.iter_mut().zip(other.0).for_each(|(sum, more)| *sum += more);
            one.1.iter_mut().zip(other.1).for_each(|(sum, more)| *sum += more);
            one
        });
        twice.iter_mut().zip(sums).for_each(|(sum, more)| *sum += more);
        counts.squares.iter_mut().zip(squares).for_each(|(sum, more)| *sum += more);
        counts.rows += tiled.own.len() as u64;
    }
    counts.pairs = twice.iter().map(|pairs| pairs / 2).collect();
    Ok(counts)
}
