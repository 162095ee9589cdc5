//! The forest: one tree of cubes per grid of a table.
//!
//! A table begins with grid 0. A later grid divides space differently, and runs move to its tree over time. A record is
//! in one primary run of the whole forest (I1). All other rules apply to each tree: cutoffs (I2), and replicas copy
//! runs in their own tree (I4). So a query reads every tree that has runs, in the coordinates of its grid.

use std::collections::BTreeMap;

use crate::cube::{CUBE_BITS, CubeId, Geometry, GridBox};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forest(Vec<Geometry>);

/// The grid is already known with another number of dimensions.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("grid {grid} has {known} dimensions and not {found}")]
pub struct Disagrees {
    pub grid: u32,
    pub known: usize,
    pub found: usize,
}

impl Forest {
    pub fn of(tree: Geometry) -> Forest {
        Forest(vec![tree])
    }

    /// Adds a tree, which may be known already.
    ///
    /// # Errors
    ///
    /// [`Disagrees`] if another tree has its number.
    pub fn learn(&mut self, tree: Geometry) -> Result<(), Disagrees> {
        match self.0.binary_search_by_key(&tree.grid(), Geometry::grid) {
            Ok(index) if self.0[index] == tree => Ok(()),
            Ok(index) => {
                let (known, found) = (self.0[index].dimensions(), tree.dimensions());
                Err(Disagrees { grid: tree.grid(), known, found })
            }
            Err(index) => {
                self.0.insert(index, tree);
                Ok(())
            }
        }
    }

    pub fn tree(&self, grid: u32) -> Option<Geometry> {
        self.0.binary_search_by_key(&grid, Geometry::grid).ok().map(|index| self.0[index])
    }

    pub fn tree_of(&self, cube: CubeId) -> Geometry {
        self.tree(cube.grid()).expect("a cube is made by the geometry of its tree")
    }

    pub fn cube_from_u128(&self, id: u128) -> Option<CubeId> {
        self.tree((id >> CUBE_BITS) as u32)?.cube_from_u128(id)
    }

    pub fn dimensions_of(&self, id: u128) -> Option<usize> {
        let grid = (id >> CUBE_BITS) as u32;
        Some(self.0.get(self.0.binary_search_by_key(&grid, Geometry::grid).ok()?)?.dimensions())
    }

    pub fn trees(&self) -> impl Iterator<Item = Geometry> + '_ {
        self.0.iter().copied()
    }

    pub fn most_dimensions(&self) -> usize {
        self.trees().map(|tree| tree.dimensions()).max().unwrap_or(0)
    }
}

/// A region of space: by grid, the box of coordinates around it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Region(BTreeMap<u32, GridBox>);

impl Region {
    pub fn everything(forest: &Forest) -> Region {
        Region(forest.trees().map(|tree| (tree.grid(), tree.everything())).collect())
    }

    pub fn in_grid(grid: u32, grid_box: GridBox) -> Region {
        Region(BTreeMap::from([(grid, grid_box)]))
    }

    pub fn insert(&mut self, grid: u32, grid_box: GridBox) {
        self.0.insert(grid, grid_box);
    }

    pub fn remove(&mut self, grid: u32) {
        self.0.remove(&grid);
    }

    /// The box in a grid; `None` if the region does not reach this grid.
    pub fn in_tree(&self, grid: u32) -> Option<&GridBox> {
        self.0.get(&grid)
    }

    pub fn meets(&self, tree: &Geometry, cube: CubeId) -> bool {
        self.in_tree(tree.grid()).is_some_and(|grid_box| tree.meets(cube, grid_box))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_lie_one_behind_the_other() {
        let trees: Vec<Geometry> = (0..4).map(|grid| Geometry::of_grid(grid, 1 + grid as usize).unwrap()).collect();
        let mut forest = Forest::of(trees[2]);
        for tree in [0, 3, 1, 2] {
            forest.learn(trees[tree]).unwrap();
        }
        assert!(forest.trees().eq(trees.iter().copied()));
        assert_eq!(forest.most_dimensions(), 4);
        let other = Geometry::of_grid(1, 5).unwrap();
        assert_eq!(forest.learn(other), Err(Disagrees { grid: 1, known: 2, found: 5 }));
        for pair in trees.windows(2) {
            let (last, next) = (pair[0].cube_of((1 << 96) - 1, pair[0].deepest()), pair[1].root());
            assert!(last < next && pair[0].end_of(pair[0].root()) == next.to_u128());
            assert!(!pair[1].contains(next, last) && !pair[0].contains(pair[0].root(), next));
            assert_eq!((forest.tree_of(last), last.grid()), (pair[0], pair[0].grid()));
            assert_eq!(forest.cube_from_u128(next.to_u128()), Some(next));
            assert_eq!(pair[0].cube_from_u128(next.to_u128()), None);
        }
        assert_eq!(forest.cube_from_u128(CubeId::root(9).to_u128()), None);
    }
}
