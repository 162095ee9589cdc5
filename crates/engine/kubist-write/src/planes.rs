//! Rows near one plane: particles on a wall or the floor, or rows written at one time.
//!
//! The space-filling curve mixes these rows with their neighbours, so a query for the space in front of a wall would
//! read most zones of the wall. Rows near a plane therefore get separate zones, almost flat in that dimension. There
//! can be one plane in each dimension.

use kubist_index::cube::{Geometry, MAX_DIMENSIONS, MortonKey};

/// A plane has at least 1/`ONE_IN` of the rows in a small fraction of the extent, which a number of halvings gives.
const ONE_IN: usize = 8;
const HALVINGS: usize = 6;
/// Number of sampled rows, and the number that must be near a plane.
const SAMPLED: usize = 32;
const NEAR: usize = SAMPLED / ONE_IN;

/// The dimensions, each as the mask of its bits in Morton keys.
pub struct Dimensions {
    masks: Vec<MortonKey>,
}

/// The space between two coordinates of a dimension, both included.
pub struct Plane {
    mask: MortonKey,
    low: MortonKey,
    high: MortonKey,
}

impl Dimensions {
    pub fn new(geometry: &Geometry) -> Dimensions {
        let mask = |d: usize| {
            let mut coordinates = [0; MAX_DIMENSIONS];
            coordinates[d] = geometry.last_coordinate();
            geometry.key(&coordinates)
        };
        Dimensions { masks: (0..geometry.dimensions()).map(mask).collect() }
    }

    /// In each dimension, the plane with most rows, if enough sampled rows are near it.
    pub fn planes(&self, rows: &[u32], key: impl Fn(u32) -> MortonKey) -> Vec<Plane> {
        if rows.len() < SAMPLED {
            return Vec::new();
        }
        let sampled: [MortonKey; SAMPLED] = std::array::from_fn(|i| key(rows[i * rows.len() / SAMPLED]));
        self.masks.iter().filter_map(|mask| self.plane(*mask, sampled.map(|key| key & mask))).collect()
    }

    /// The plane of a dimension, from sampled keys. The masked bits of a dimension compare as its coordinates do. Their
    /// masked difference is the coordinates' difference, because a borrow passes through the zeros between the bits.
    fn plane(&self, mask: MortonKey, mut sampled: [MortonKey; SAMPLED]) -> Option<Plane> {
        sampled.sort_unstable();
        let apart = |first: usize, last: usize| sampled[last].wrapping_sub(sampled[first]) & mask;
        let most_apart = apart(0, SAMPLED - 1) >> (HALVINGS * self.masks.len()) & mask;
        let (mut first, mut most) = (0, 0..0);
        for last in 0..SAMPLED {
            while apart(first, last) > most_apart {
                first += 1;
            }
            if last + 1 - first > most.len() {
                most = first..last + 1;
            }
        }
        if most.len() < NEAR {
            return None;
        }
        // Rows outside the sample may be slightly farther away, so the plane is made three times as wide where space
        // permits.
        let (low, high) = (sampled[most.start], sampled[most.end - 1]);
        let width = apart(most.start, most.end - 1);
        let (lower, higher) = (low.wrapping_sub(width) & mask, (high | !mask).wrapping_add(width) & mask);
        let (low, high) = (if lower <= low { lower } else { 0 }, if higher >= high { higher } else { mask });
        Some(Plane { mask, low, high })
    }
}

impl Plane {
    /// Splits rows into rows before, near and after the plane, in stable order. Returns them unsplit if fewer than
    /// `least` rows or fewer than one in eight are near the plane, or all rows.
    fn part(&self, rows: Vec<u32>, least: usize, key: impl Fn(u32) -> MortonKey) -> Vec<Vec<u32>> {
        let coordinate = |row: &u32| key(*row) & self.mask;
        let near = rows.iter().filter(|row| (self.low..=self.high).contains(&coordinate(row))).count();
        if near < least.max(rows.len() / ONE_IN) || near == rows.len() {
            return vec![rows];
        }
        let (before, rest): (Vec<u32>, Vec<u32>) = rows.into_iter().partition(|row| coordinate(row) < self.low);
        let (near, behind) = rest.into_iter().partition(|row| coordinate(row) <= self.high);
        [before, near, behind].into_iter().filter(|rows| !rows.is_empty()).collect()
    }
}

pub fn part(planes: &[Plane], rows: Vec<u32>, least: usize, key: impl Fn(u32) -> MortonKey) -> Vec<Vec<u32>> {
    planes
        .iter()
        .fold(vec![rows], |parts, plane| parts.into_iter().flat_map(|rows| plane.part(rows, least, &key)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    const WALL: u32 = 1 << 30;
    const WAVES: u32 = 1000;

    fn beside_a_wall(rows: usize, share: f64) -> (Geometry, Vec<MortonKey>) {
        let mut rng = SmallRng::seed_from_u64(5);
        let geometry = Geometry::new(3).unwrap();
        let mut point = || {
            let x = if rng.random_bool(share) { WALL - rng.random_range(0..=WAVES) } else { rng.random() };
            geometry.key(&[x, rng.random(), rng.random()])
        };
        let mut keys: Vec<MortonKey> = (0..rows).map(|_| point()).collect();
        keys.sort_unstable();
        (geometry, keys)
    }

    fn parts_of(geometry: &Geometry, rows: u32, least: usize, key: impl Fn(u32) -> MortonKey) -> Vec<Vec<u32>> {
        let rows: Vec<u32> = (0..rows).collect();
        let planes = Dimensions::new(geometry).planes(&rows, &key);
        part(&planes, rows, least, key)
    }

    #[test]
    fn rows_of_a_wall_are_parted_from_others() {
        let (geometry, keys) = beside_a_wall(2000, 0.3);
        let parts = parts_of(&geometry, 2000, 24, |row| keys[row as usize]);
        let x = |row: &u32| geometry.coordinates(keys[*row as usize])[0];
        assert_eq!(parts.len(), 3);
        assert!(parts.iter().all(|part| part.is_sorted()));
        let ends = |part: &Vec<u32>| (part.iter().map(x).min().unwrap(), part.iter().map(x).max().unwrap());
        let [before, near, behind] = [0, 1, 2].map(|part| ends(&parts[part]));
        assert!(before.1 < near.0 && near.1 < behind.0);
        assert!(WALL - 3 * WAVES <= near.0 && near.1 <= WALL + 2 * WAVES);
        assert!(parts[1].len() > 500, "{} of about 600 rows", parts[1].len());
        let mut all = parts.concat();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..2000));
    }

    /// Walls are at both ends of space in the first and the last dimension.
    #[test]
    fn planes_are_found_in_each_dimension() {
        let mut rng = SmallRng::seed_from_u64(6);
        for dimensions in 1..=MAX_DIMENSIONS {
            let geometry = Geometry::new(dimensions).unwrap();
            let end = geometry.last_coordinate();
            let mut point = || {
                let mut coordinates: [u32; MAX_DIMENSIONS] = std::array::from_fn(|_| rng.random_range(0..=end));
                if rng.random_bool(0.4) {
                    coordinates[0] = end;
                }
                if dimensions > 1 && rng.random_bool(0.4) {
                    coordinates[dimensions - 1] = rng.random_range(0..=end / 10_000);
                }
                geometry.key(&coordinates)
            };
            let mut keys: Vec<MortonKey> = (0..3000).map(|_| point()).collect();
            keys.sort_unstable();
            let parts = parts_of(&geometry, 3000, 48, |row| keys[row as usize]);
            let of = |row: &u32| geometry.coordinates(keys[*row as usize]);
            assert!(parts.iter().all(|part| part.is_sorted()), "{dimensions} dimensions");
            assert_eq!(parts.iter().map(Vec::len).sum::<usize>(), 3000, "{dimensions} dimensions");
            // Zones of wall rows contain only rows near the wall, except in parts with few of its rows.
            let strays = |is_on: &dyn Fn(&u32) -> bool, is_near: &dyn Fn(&u32) -> bool| -> usize {
                let few = parts.iter().filter(|part| part.iter().any(is_on) && !part.iter().all(is_near));
                few.map(|part| part.iter().filter(|row| is_on(row)).count()).sum()
            };
            assert_eq!(
                strays(&|row| of(row)[0] == end, &|row| of(row)[0] >= end - end / 16),
                0,
                "{dimensions} dimensions"
            );
            if dimensions > 1 {
                let last = |row: &u32| of(row)[dimensions - 1];
                let strays = strays(&|row| last(row) <= end / 10_000, &|row| last(row) <= end / 16);
                assert!(strays < 100, "{strays} rows in {dimensions} dimensions");
            }
        }
    }

    #[test]
    fn rows_stay_together_without_a_wall_in_one_and_if_they_are_few() {
        for (rows, share, least) in [(2000, 0.0, 24), (2000, 0.03, 24), (40, 0.5, 24), (0, 0.5, 8)] {
            let (geometry, keys) = beside_a_wall(rows, share);
            let parts = parts_of(&geometry, rows as u32, least, |row| keys[row as usize]);
            assert_eq!(parts.len(), 1, "{rows} rows, {share} of them near a plane");
        }
        let geometry = Geometry::new(3).unwrap();
        let parts = parts_of(&geometry, 500, 24, |row| geometry.key(&[7, row * 8_000_000, 7]));
        assert_eq!(parts.len(), 1, "all in two planes");
    }
}
