//! Tiles: disjoint boxes that cover the whole space, with about equal numbers of rows.

use crate::groups::Density;
use crate::reach::Reach;
use crate::space::Space;

/// A box of positions: `low <= position < high` on each axis; the outer tiles are unbounded.
#[derive(Clone, Debug, PartialEq)]
pub struct Tile {
    pub low: Vec<f64>,
    pub high: Vec<f64>,
}

impl Tile {
    /// Whether a wrapped position is in the tile.
    pub fn has(&self, position: &[f64]) -> bool {
        position.iter().zip(&self.low).zip(&self.high).all(|((number, low), high)| low <= number && number < high)
    }

    pub fn reach(&self, space: &Space, radius: f64) -> Reach {
        Reach::around(space, &self.low, &self.high, radius)
    }
}

/// The tiles of a table; consecutive tiles are neighbours.
#[derive(Clone, Debug)]
pub struct Tiling {
    pub tiles: Vec<Tile>,
}

impl Tiling {
    /// Divides space at the medians of a sample, until a tile has at most about `rows` rows.
    pub fn new(space: &Space, density: &Density, rows: f64) -> Tiling {
        let axes = space.axes();
        let end = |axis: usize, low: bool| match (space, axis) {
            (Space::Sphere, 1) => {
                if low {
                    -90.0
                } else {
                    f64::INFINITY
                }
            }
            (_, axis) => match (space.period(axis), low) {
                (Some(_), true) => 0.0,
                (Some(period), false) => period,
                (None, true) => f64::NEG_INFINITY,
                (None, false) => f64::INFINITY,
            },
        };
        let whole = Tile {
            low: (0..axes).map(|axis| end(axis, true)).collect(),
            high: (0..axes).map(|axis| end(axis, false)).collect(),
        };
        let mut tiles = Vec::new();
        let sample: Vec<&[f64]> = density.positions.chunks_exact(axes).collect();
        divide(sample, whole, rows / density.scale, &mut tiles);
        Tiling { tiles }
    }
}

fn divide(mut sample: Vec<&[f64]>, tile: Tile, most: f64, tiles: &mut Vec<Tile>) {
    let axes = tile.low.len();
    let extent = |axis: usize| {
        let (low, high) = sample.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), position| {
            (low.min(position[axis]), high.max(position[axis]))
        });
        high - low
    };
    let extents: Vec<f64> = (0..axes).map(extent).collect();
    let widest = (0..axes).max_by(|a, b| extents[*a].total_cmp(&extents[*b])).unwrap_or(0);
    if sample.len() as f64 <= most.max(1.0) || !(extents[widest] > 0.0) {
        tiles.push(tile);
        return;
    }
    let middle = sample.len() / 2;
    sample.select_nth_unstable_by(middle, |a, b| a[widest].total_cmp(&b[widest]));
    let lowest = sample.iter().map(|position| position[widest]).fold(f64::INFINITY, f64::min);
    let mut cut = sample[middle][widest];
    if cut <= lowest {
        cut = sample.iter().map(|position| position[widest]).filter(|x| *x > lowest).fold(f64::INFINITY, f64::min);
    }
    let (below, above) = sample.into_iter().partition(|position: &&[f64]| position[widest] < cut);
    let (mut one, mut other) = (tile.clone(), tile);
    one.high[widest] = cut;
    other.low[widest] = cut;
    divide(below, one, most, tiles);
    divide(above, other, most, tiles);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn each_position_is_in_one_tile() {
        let mut random = StdRng::seed_from_u64(4);
        for round in 0..200 {
            let space = match round % 3 {
                0 => Space::Sphere,
                1 => Space::Flat { periods: vec![Some(360.0), None] },
                _ => Space::Flat { periods: vec![None, None] },
            };
            let mut some = |count| -> Vec<f64> {
                let coarse = |number: f64| if round % 2 == 0 { (number / 60.0).floor() * 60.0 } else { number };
                let numbers = |_| [random.random_range(0.0..360.0), random.random_range(-90.0..90.0)].map(coarse);
                (0..count).flat_map(numbers).map(|number: f64| number.clamp(-90.0, 359.0)).collect()
            };
            let density = Density { positions: some(200), scale: 10.0 };
            let tiles = Tiling::new(&space, &density, 100.0).tiles;
            for position in density.positions.chunks_exact(2).chain(some(200).chunks_exact(2)) {
                assert_eq!(tiles.iter().filter(|tile| tile.has(position)).count(), 1, "{position:?}");
            }
            for tile in &tiles {
                let rows = density.positions.chunks_exact(2).filter(|position| tile.has(position));
                assert!(round % 2 == 0 || rows.count() <= 10);
            }
        }
        let space = Space::Sphere;
        let pole = Tiling::new(&space, &Density { positions: vec![], scale: 1.0 }, 1.0).tiles;
        assert!(pole.len() == 1 && pole[0].has(&[0.0, 90.0]));
    }
}
