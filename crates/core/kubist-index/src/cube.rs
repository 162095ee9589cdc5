//! Cubes: nodes of the 2^k-ary partition of space, in one tree per grid (FORMAT.md, Coordinates and cubes).
//!
//! Ids sort grid by grid in depth-first order, and the Morton keys inside a cube are one range of integers.

pub const KEY_BITS: u32 = 96;
pub(crate) const CUBE_BITS: u32 = KEY_BITS + 8;
/// The highest grid number; there must be an id after its tree.
pub const LAST_GRID: u32 = (1 << (128 - CUBE_BITS)) - 2;
pub const MAX_DIMENSIONS: usize = 8;

/// A point's position on the space-filling curve: `KEY_BITS` wide, right aligned.
pub type MortonKey = u128;

/// Number of dimensions of a grid, and of bits per dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    grid: u32,
    dimensions: u32,
    bits: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CubeId(u128);

impl CubeId {
    pub const fn root(grid: u32) -> CubeId {
        CubeId((grid as u128) << CUBE_BITS)
    }

    pub fn grid(self) -> u32 {
        (self.0 >> CUBE_BITS) as u32
    }

    pub fn to_u128(self) -> u128 {
        self.0
    }

    /// The root has level 0.
    pub fn level(self) -> u32 {
        (self.0 & 0xff) as u32
    }

    pub fn first_key(self) -> MortonKey {
        self.0 >> 8 & ((1 << KEY_BITS) - 1)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GridBox {
    pub low: [u32; MAX_DIMENSIONS],
    pub high: [u32; MAX_DIMENSIONS],
}

impl Geometry {
    /// Grid 0 with 1 to 8 dimensions: 32 bits each for up to three dimensions, otherwise an equal part of 96
    /// bits.
    pub fn new(dimensions: usize) -> Option<Geometry> {
        Geometry::of_grid(0, dimensions)
    }

    /// Another grid, with a number of at most [`LAST_GRID`].
    pub fn of_grid(grid: u32, dimensions: usize) -> Option<Geometry> {
        let usable = (1..=MAX_DIMENSIONS).contains(&dimensions) && grid <= LAST_GRID;
        usable.then(|| Geometry { grid, dimensions: dimensions as u32, bits: (KEY_BITS / dimensions as u32).min(32) })
    }

    pub fn grid(&self) -> u32 {
        self.grid
    }

    pub fn root(&self) -> CubeId {
        CubeId::root(self.grid)
    }

    pub fn dimensions(&self) -> usize {
        self.dimensions as usize
    }

    /// Number of bits in a coordinate, and the deepest level.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    pub fn deepest(&self) -> u32 {
        self.bits
    }

    pub fn everything(&self) -> GridBox {
        GridBox { low: [0; MAX_DIMENSIONS], high: [self.last_coordinate(); MAX_DIMENSIONS] }
    }

    pub fn last_coordinate(&self) -> u32 {
        (u32::MAX as u64 >> (32 - self.bits)) as u32
    }

    /// Number of key bits below a cube of this level.
    fn free_bits(&self, level: u32) -> u32 {
        KEY_BITS - level * self.dimensions
    }

    pub fn key(&self, coordinates: &[u32]) -> MortonKey {
        let mut key: u128 = 0;
        for bit in (0..self.bits).rev() {
            for coordinate in &coordinates[..self.dimensions as usize] {
                key = key << 1 | (coordinate >> bit & 1) as u128;
            }
        }
        key << (KEY_BITS - self.bits * self.dimensions)
    }

    pub fn coordinates(&self, key: MortonKey) -> [u32; MAX_DIMENSIONS] {
        self.first_bits(key, self.bits)
    }

    /// Returns the coordinates of a key, from its highest `count` bits.
    fn first_bits(&self, key: MortonKey, count: u32) -> [u32; MAX_DIMENSIONS] {
        let (mut coordinates, k) = ([0; MAX_DIMENSIONS], self.dimensions as usize);
        if count == 0 {
            return coordinates;
        }
        // A prefix that fits in one word is separated much faster.
        let of_word = count.min(u64::BITS / k as u32);
        let mut word = (key >> (KEY_BITS - of_word * k as u32)) as u64;
        for bit in self.bits - of_word..self.bits {
            for coordinate in coordinates[..k].iter_mut().rev() {
                *coordinate |= ((word & 1) as u32) << bit;
                word >>= 1;
            }
        }
        let mut shift = KEY_BITS - of_word * k as u32;
        for bit in (self.bits - count..self.bits - of_word).rev() {
            for coordinate in &mut coordinates[..k] {
                shift -= 1;
                *coordinate |= ((key >> shift & 1) as u32) << bit;
            }
        }
        coordinates
    }

    pub fn cube_of(&self, key: MortonKey, level: u32) -> CubeId {
        let free = self.free_bits(level);
        self.named((key >> free) << free, level)
    }

    fn named(&self, first_key: MortonKey, level: u32) -> CubeId {
        CubeId(self.root().0 | first_key << 8 | level as u128)
    }

    /// The cube with this id; `None` if the id is not valid in this geometry.
    pub fn cube_from_u128(&self, id: u128) -> Option<CubeId> {
        let cube = CubeId(id);
        let sound = cube.level() <= self.deepest() && cube.grid() == self.grid;
        (sound && self.cube_of(cube.first_key(), cube.level()) == cube).then_some(cube)
    }

    pub fn parent(&self, cube: CubeId) -> Option<CubeId> {
        (cube.level() > 0).then(|| self.cube_of(cube.first_key(), cube.level() - 1))
    }

    /// The children in key order; none at the deepest level.
    pub fn children(&self, cube: CubeId) -> impl Iterator<Item = CubeId> + use<> {
        let level = cube.level();
        let count = if level < self.deepest() { 1u128 << self.dimensions } else { 0 };
        let (free, geometry) = (if count > 0 { self.free_bits(level + 1) } else { 0 }, *self);
        (0..count).map(move |child| geometry.named(cube.first_key() | child << free, level + 1))
    }

    pub fn ancestors(&self, cube: CubeId) -> impl Iterator<Item = CubeId> + use<> {
        let geometry = *self;
        (0..cube.level()).map(move |level| geometry.cube_of(cube.first_key(), level))
    }

    pub fn last_key(&self, cube: CubeId) -> MortonKey {
        cube.first_key() | ((1u128 << self.free_bits(cube.level())) - 1)
    }

    pub fn contains_key(&self, cube: CubeId, key: MortonKey) -> bool {
        (key ^ cube.first_key()) >> self.free_bits(cube.level()) == 0
    }

    pub fn contains(&self, cube: CubeId, inner: CubeId) -> bool {
        inner.level() >= cube.level() && inner.grid() == cube.grid() && self.contains_key(cube, inner.first_key())
    }

    pub fn end_of(&self, cube: CubeId) -> u128 {
        self.root().0 + ((self.last_key(cube) + 1) << 8)
    }

    pub fn span(&self, cube: CubeId) -> GridBox {
        let low = self.first_bits(cube.first_key(), cube.level().min(self.bits));
        let side = (u32::MAX as u64 >> (32 - self.bits)) >> cube.level().min(self.bits);
        let mut high = low;
        for coordinate in &mut high[..self.dimensions as usize] {
            *coordinate += side as u32;
        }
        GridBox { low, high }
    }

    pub fn meets(&self, cube: CubeId, grid_box: &GridBox) -> bool {
        let span = self.span(cube);
        (0..self.dimensions as usize).all(|d| span.low[d] <= grid_box.high[d] && span.high[d] >= grid_box.low[d])
    }

    pub fn bounding_cube(&self, grid_box: &GridBox) -> CubeId {
        let differing = self.key(&grid_box.low) ^ self.key(&grid_box.high);
        let common = differing.leading_zeros() - (128 - KEY_BITS);
        self.cube_of(self.key(&grid_box.low), (common / self.dimensions).min(self.deepest()))
    }

    /// The cubes of a level that intersect the box, in key order.
    pub fn cover<'a>(&self, grid_box: &'a GridBox, level: u32) -> impl Iterator<Item = CubeId> + use<'a> {
        let geometry = *self;
        let mut stack = vec![self.root()];
        std::iter::from_fn(move || {
            while let Some(cube) = stack.pop() {
                if !geometry.meets(cube, grid_box) {
                    continue;
                }
                if cube.level() == level.min(geometry.deepest()) {
                    return Some(cube);
                }
                let first = stack.len();
                stack.extend(geometry.children(cube));
                stack[first..].reverse();
            }
            None
        })
    }
}

/// Computes Morton keys of columns of coordinates with the processor's bit-deposit instruction, or otherwise
/// with a lookup table.
pub struct Interleaver {
    geometry: Geometry,
    /// `spread[byte]`: the bits of a byte, one in every `dimensions` bits.
    spread: Box<[u64; 256]>,
}

impl Interleaver {
    pub fn new(geometry: Geometry) -> Interleaver {
        let mut spread = Box::new([0u64; 256]);
        for (byte, slot) in spread.iter_mut().enumerate() {
            *slot = (0..8).map(|bit| ((byte >> bit & 1) as u64) << (bit * geometry.dimensions)).sum();
        }
        Interleaver { geometry, spread }
    }

    /// Writes every row's key; `columns[d][row]` is a coordinate.
    pub fn keys(&self, columns: &[Vec<u32>], keys: &mut Vec<MortonKey>) {
        keys.clear();
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("bmi2") {
            // SAFETY: the check above found the instruction.
            return unsafe { self.keys_by_deposit(columns, keys) };
        }
        keys.resize(columns.first().map_or(0, Vec::len), 0);
        self.keys_by_table(columns, keys);
    }

    fn base(&self, d: usize) -> u32 {
        let dimensions = self.geometry.dimensions;
        KEY_BITS - self.geometry.bits * dimensions + dimensions - 1 - d as u32
    }

    fn keys_by_table(&self, columns: &[Vec<u32>], keys: &mut [MortonKey]) {
        let dimensions = self.geometry.dimensions;
        for (d, column) in columns.iter().enumerate() {
            let base = self.base(d);
            for (key, coordinate) in keys.iter_mut().zip(column) {
                for byte in 0..self.geometry.bits.div_ceil(8) {
                    let spread = self.spread[(coordinate >> (8 * byte) & 0xff) as usize];
                    *key |= (spread as u128) << (base + 8 * byte * dimensions);
                }
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "bmi2")]
    unsafe fn keys_by_deposit(&self, columns: &[Vec<u32>], keys: &mut Vec<MortonKey>) {
        use std::arch::x86_64::_pdep_u64;
        for (d, column) in columns.iter().enumerate() {
            let bits = (0..self.geometry.bits).map(|bit| 1u128 << (self.base(d) + bit * self.geometry.dimensions));
            let bits: u128 = bits.sum();
            let (low, high) = (bits as u64, (bits >> 64) as u64);
            let deposited = |coordinate: &u32| {
                let bits = *coordinate as u64;
                let (low, high) = (_pdep_u64(bits, low), _pdep_u64(bits >> low.count_ones(), high));
                (high as u128) << 64 | low as u128
            };
            match d {
                0 => keys.extend(column.iter().map(deposited)),
                _ => keys.iter_mut().zip(column).for_each(|(key, coordinate)| *key |= deposited(coordinate)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_place() -> impl Strategy<Value = (Geometry, Vec<u32>, u32)> {
        (1usize..=8, prop::sample::select(vec![0, 1, 7, LAST_GRID])).prop_flat_map(|(k, grid)| {
            let geometry = Geometry::of_grid(grid, k).unwrap();
            let coordinate = 0..=geometry.last_coordinate();
            (Just(geometry), prop::collection::vec(coordinate, k), 0..=geometry.deepest())
        })
    }

    proptest! {
        #[test]
        fn keys_and_coordinates_are_inverse((geometry, point, level) in any_place()) {
            let key = geometry.key(&point);
            prop_assert!(key >> KEY_BITS == 0);
            prop_assert_eq!(&geometry.coordinates(key)[..point.len()], &point[..]);
            let columns: Vec<Vec<u32>> = point.iter().map(|c| vec![*c]).collect();
            let mut keys = Vec::new();
            let interleaver = Interleaver::new(geometry);
            interleaver.keys(&columns, &mut keys);
            prop_assert_eq!(keys[0], key);
            keys[0] = 0;
            interleaver.keys_by_table(&columns, &mut keys);
            prop_assert_eq!(keys[0], key);
            let cube = geometry.cube_of(key, level);
            prop_assert!(geometry.contains_key(cube, key));
            prop_assert_eq!(geometry.cube_from_u128(cube.to_u128()), Some(cube));
            let span = geometry.span(cube);
            for (d, coordinate) in point.iter().enumerate() {
                prop_assert!(span.low[d] <= *coordinate && *coordinate <= span.high[d]);
            }
        }

        #[test]
        fn family_ties((geometry, point, level) in any_place()) {
            let key = geometry.key(&point);
            let cube = geometry.cube_of(key, level);
            for ancestor in geometry.ancestors(cube) {
                prop_assert!(geometry.contains(ancestor, cube) && !geometry.contains(cube, ancestor));
                prop_assert!(ancestor < cube && cube.to_u128() < geometry.end_of(ancestor));
            }
            let children: Vec<CubeId> = geometry.children(cube).collect();
            prop_assert_eq!(children.len(), if level < geometry.deepest() { 1 << geometry.dimensions() } else { 0 });
            prop_assert!(children.windows(2).all(|pair| pair[0] < pair[1]));
            for child in &children {
                prop_assert_eq!(geometry.parent(*child), Some(cube));
            }
            let around = children.iter().filter(|child| geometry.contains_key(**child, key)).count();
            prop_assert!(children.is_empty() || around == 1);
        }

        #[test]
        fn boxes((geometry, a, _) in any_place(), seed in any::<u64>(), level in 0u32..4) {
            let mut grid_box = geometry.everything();
            for (d, coordinate) in a.iter().enumerate() {
                let reach = (seed >> (8 * d)) as u32 & 0xff;
                grid_box.low[d] = coordinate.saturating_sub(reach);
                grid_box.high[d] = coordinate.saturating_add(reach).min(geometry.last_coordinate());
            }
            let bounding = geometry.bounding_cube(&grid_box);
            prop_assert!(geometry.contains_key(bounding, geometry.key(&grid_box.low)));
            prop_assert!(geometry.contains_key(bounding, geometry.key(&grid_box.high)));
            for child in geometry.children(bounding) {
                let whole = geometry.contains_key(child, geometry.key(&grid_box.low))
                    && geometry.contains_key(child, geometry.key(&grid_box.high));
                prop_assert!(!whole, "a smaller cube holds the box");
            }
            let level = level.min(geometry.deepest());
            let cover: Vec<CubeId> = geometry.cover(&grid_box, level).collect();
            prop_assert!(cover.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert!(cover.iter().all(|cube| cube.level() == level && geometry.meets(*cube, &grid_box)));
            prop_assert!(cover.contains(&geometry.cube_of(geometry.key(&a), level)));
        }
    }

    #[test]
    fn geometry_limits() {
        assert!(Geometry::new(0).is_none() && Geometry::new(9).is_none());
        let bits: Vec<u32> = (1..=8).map(|k| Geometry::new(k).unwrap().bits()).collect();
        assert_eq!(bits, [32, 32, 32, 24, 19, 16, 13, 12]);
    }
}
