//! A k-d tree of embedded positions, also with periodic axes.
//!
//! Each node knows the bounds of its points. The distance to such a box is computed with the same roundings as
//! to a point, so a box is never farther than a point in it: no point at a boundary is missed.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::space::{MOST_AXES, Space};

const LEAF: usize = 12;
/// Up to this many points, one core sorts alone.
const ALONE: usize = 16_384;

pub struct Tree(Box<dyn Search>);

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Near {
    /// The squared distance of the embedded positions.
    pub square: f64,
    pub point: u32,
}

impl Eq for Near {}

impl Ord for Near {
    fn cmp(&self, other: &Near) -> Ordering {
        self.square.total_cmp(&other.square).then(self.point.cmp(&other.point))
    }
}

impl PartialOrd for Near {
    fn partial_cmp(&self, other: &Near) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

trait Search: Send + Sync {
    fn within(&self, at: &[f64], square: f64, each: &mut dyn FnMut(Near));
    fn nearest(&self, at: &[f64], best: &mut Best);
    fn len(&self) -> usize;
}

impl Tree {
    /// Builds a tree on all cores from embedded positions.
    pub fn new(space: &Space, embedded: &[f64]) -> Tree {
        let periods = space.embedded_periods();
        const { assert!(MOST_AXES == 6) };
        Tree(match space.embedded_axes() {
            1 => Box::new(Points::<1>::new(embedded, &periods)),
            2 => Box::new(Points::<2>::new(embedded, &periods)),
            3 => Box::new(Points::<3>::new(embedded, &periods)),
            4 => Box::new(Points::<4>::new(embedded, &periods)),
            5 => Box::new(Points::<5>::new(embedded, &periods)),
            _ => Box::new(Points::<6>::new(embedded, &periods)),
        })
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `each` with all points up to a squared distance, in no order.
    pub fn within(&self, at: &[f64], square: f64, mut each: impl FnMut(Near)) {
        self.0.within(at, square, &mut each);
    }

    /// Returns the nearest points, ascending; equal distances are in the order of the points' numbers.
    pub fn nearest(&self, at: &[f64], k: usize, square: f64) -> Vec<Near> {
        let mut best = Best { k, square, found: BinaryHeap::new() };
        if k > 0 {
            self.0.nearest(at, &mut best);
        }
        best.found.into_sorted_vec()
    }
}

struct Best {
    k: usize,
    square: f64,
    found: BinaryHeap<Near>,
}

impl Best {
    fn worst(&self) -> f64 {
        match self.found.peek() {
            Some(worst) if self.found.len() == self.k => worst.square,
            _ => self.square,
        }
    }

    fn offer(&mut self, near: Near) {
        if near.square > self.square {
            return;
        }
        if self.found.len() < self.k {
            self.found.push(near);
        } else if let Some(mut worst) = self.found.peek_mut()
            && near < *worst
        {
            *worst = near;
        }
    }
}

type Item<const D: usize> = ([f64; D], u32);

#[derive(Clone, Copy)]
struct Bounds<const D: usize> {
    low: [f64; D],
    high: [f64; D],
}

/// A node of height h is followed by its first child and, 2^h nodes later, by its second.
struct Points<const D: usize> {
    items: Vec<Item<D>>,
    nodes: Vec<Bounds<D>>,
    height: u32,
    periods: [f64; D],
}

#[derive(Clone, Copy)]
struct Node {
    number: usize,
    height: u32,
    first: usize,
    end: usize,
}

impl Node {
    fn children(self) -> [Node; 2] {
        let middle = self.first + (self.end - self.first) / 2;
        let height = self.height - 1;
        let second = self.number + (1 << self.height);
        [
            Node { number: self.number + 1, height, first: self.first, end: middle },
            Node { number: second, height, first: middle, end: self.end },
        ]
    }
}

impl<const D: usize> Points<D> {
    fn new(embedded: &[f64], periods: &[f64]) -> Points<D> {
        let mut items: Vec<Item<D>> = embedded
            .chunks_exact(D)
            .zip(0u32..)
            .map(|(numbers, point)| (std::array::from_fn(|axis| numbers[axis]), point))
            .collect();
        let mut height = 0;
        while items.len() >> height > LEAF {
            height += 1;
        }
        let mut nodes = vec![Bounds { low: [0.0; D], high: [0.0; D] }; (2 << height) - 1];
        build(&mut items, &mut nodes, height);
        Points { items, nodes, height, periods: std::array::from_fn(|axis| periods[axis]) }
    }

    fn root(&self) -> Node {
        Node { number: 0, height: self.height, first: 0, end: self.items.len() }
    }

    fn to_box(&self, at: &[f64; D], number: usize) -> f64 {
        let Bounds { low, high } = &self.nodes[number];
        let mut square = 0.0;
        for axis in 0..D {
            let (below, above) = (low[axis] - at[axis], at[axis] - high[axis]);
            let direct = below.max(above).max(0.0);
            // The way around the period, to the other end.
            let around = (self.periods[axis] - (-below).max(-above).max(below).max(above)).max(0.0);
            let apart = direct.min(around);
            square += apart * apart;
        }
        square
    }

    fn to_point(&self, at: &[f64; D], point: &[f64; D]) -> f64 {
        let mut square = 0.0;
        for axis in 0..D {
            let apart = (at[axis] - point[axis]).abs();
            let apart = apart.min(self.periods[axis] - apart);
            square += apart * apart;
        }
        square
    }

    fn find_within(&self, at: &[f64; D], node: Node, most: f64, each: &mut dyn FnMut(Near)) {
        if node.height == 0 {
            for (position, point) in &self.items[node.first..node.end] {
                let square = self.to_point(at, position);
                if square <= most {
                    each(Near { square, point: *point });
                }
            }
            return;
        }
        for child in node.children() {
            if self.to_box(at, child.number) <= most {
                self.find_within(at, child, most, each);
            }
        }
    }

    fn find_nearest(&self, at: &[f64; D], node: Node, best: &mut Best) {
        if node.height == 0 {
            for (position, point) in &self.items[node.first..node.end] {
                best.offer(Near { square: self.to_point(at, position), point: *point });
            }
            return;
        }
        let mut children = node.children().map(|child| (self.to_box(at, child.number), child));
        if children[1].0 < children[0].0 {
            children.swap(0, 1);
        }
        for (square, child) in children {
            if square <= best.worst() {
                self.find_nearest(at, child, best);
            }
        }
    }
}

impl<const D: usize> Search for Points<D> {
    fn within(&self, at: &[f64], square: f64, each: &mut dyn FnMut(Near)) {
        if !self.items.is_empty() {
            self.find_within(&std::array::from_fn(|axis| at[axis]), self.root(), square, each);
        }
    }

    fn nearest(&self, at: &[f64], best: &mut Best) {
        if !self.items.is_empty() {
            self.find_nearest(&std::array::from_fn(|axis| at[axis]), self.root(), best);
        }
    }

    fn len(&self) -> usize {
        self.items.len()
    }
}

fn build<const D: usize>(items: &mut [Item<D>], nodes: &mut [Bounds<D>], height: u32) {
    let (mut low, mut high) = ([f64::INFINITY; D], [f64::NEG_INFINITY; D]);
    for (position, _) in items.iter() {
        for axis in 0..D {
            low[axis] = low[axis].min(position[axis]);
            high[axis] = high[axis].max(position[axis]);
        }
    }
    nodes[0] = Bounds { low, high };
    if height == 0 {
        return;
    }
    let widest = (0..D).max_by(|a, b| (high[*a] - low[*a]).total_cmp(&(high[*b] - low[*b]))).unwrap_or(0);
    let middle = items.len() / 2;
    items.select_nth_unstable_by(middle, |a, b| a.0[widest].total_cmp(&b.0[widest]));
    let alone = items.len() < ALONE;
    let (first, second) = items.split_at_mut(middle);
    let (of_first, of_second) = nodes[1..].split_at_mut((1 << height) - 1);
    let mut one = || build(first, of_first, height - 1);
    let mut other = || build(second, of_second, height - 1);
    if alone {
        one();
        other();
    } else {
        rayon::join(one, other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    fn space(random: &mut StdRng) -> Space {
        match random.random_range(0..4) {
            0 => Space::Sphere,
            _ => {
                let axes = random.random_range(1..=4);
                Space::Flat { periods: (0..axes).map(|_| random.random_bool(0.4).then_some(8.0)).collect() }
            }
        }
    }

    fn position(space: &Space, random: &mut StdRng) -> Vec<f64> {
        let fine = random.random_bool(0.7);
        let mut position: Vec<f64> = match space {
            Space::Sphere if fine => vec![random.random_range(-5.0..5.0), random.random_range(80.0..=90.0)],
            Space::Sphere => {
                vec![f64::from(random.random_range(0..8)) * 45.0, f64::from(random.random_range(-2..=2)) * 45.0]
            }
            Space::Flat { periods } if fine => periods.iter().map(|_| random.random_range(-3.0..11.0)).collect(),
            Space::Flat { periods } => periods.iter().map(|_| f64::from(random.random_range(0..8))).collect(),
        };
        assert!(space.wrap(&mut position));
        position
    }

    fn square(space: &Space, one: &[f64], other: &[f64]) -> f64 {
        one.iter().zip(other).zip(space.embedded_periods()).fold(0.0, |sum, ((one, other), period)| {
            let apart = (one - other).abs();
            let apart = apart.min(period - apart);
            sum + apart * apart
        })
    }

    #[test]
    fn trees_find_the_same_points_as_a_search_of_all() {
        let mut random = StdRng::seed_from_u64(1);
        for _ in 0..3_000 {
            let space = space(&mut random);
            let points = random.random_range(0..200);
            let positions: Vec<f64> = (0..points).flat_map(|_| position(&space, &mut random)).collect();
            let embedded = space.embed_all(&positions);
            let tree = Tree::new(&space, &embedded);
            assert_eq!(tree.len(), points);
            let mut at = vec![0.0; space.embedded_axes()];
            space.embed(&position(&space, &mut random), &mut at);
            let mut all: Vec<Near> = embedded
                .chunks_exact(space.embedded_axes())
                .zip(0..)
                .map(|(point, number)| Near { square: square(&space, &at, point), point: number })
                .collect();
            all.sort();
            // Often the distance of a point itself: boundaries belong to the ball.
            let most = match all.get(random.random_range(0..200)) {
                Some(near) if random.random_bool(0.7) => near.square,
                _ => random.random_range(0.0..20.0),
            };
            let inside: Vec<Near> = all.iter().copied().filter(|near| near.square <= most).collect();
            let mut found = Vec::new();
            tree.within(&at, most, |near| found.push(near));
            found.sort();
            assert_eq!(found, inside);
            let k = random.random_range(0..20);
            assert_eq!(tree.nearest(&at, k, f64::INFINITY), all[..k.min(points)]);
            assert_eq!(tree.nearest(&at, k, most), inside[..k.min(inside.len())]);
        }
    }
}
