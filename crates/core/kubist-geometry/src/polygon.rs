//! Polygons in a plane, with holes, and exact tests of points and boxes. Edges are listed by slabs of y, so the
//! test of a point examines only the edges at its height.

use std::cmp::Ordering;
use std::ops::RangeInclusive;

use crate::exact::{cross, is_between, meet, turn};
use crate::numbers::rings;
use crate::{Containment, Point};

const MOST_CORNERS: usize = 65_536;
/// Limit of pairs of edges to compare; larger polygons are refused.
const MOST_PAIRS: usize = 1 << 26;
const MOST_SLABS: usize = 4096;
const MOST_ENTRIES: usize = 8;
/// Limit of coordinates; products of larger ones may not be finite.
const MOST_COORDINATE: f64 = 1e100;

type Edge = [Point; 2];

/// The points inside a ring and outside of its holes, with all edges.
#[derive(Clone, Debug)]
pub struct Polygon {
    edges: Vec<Edge>,
    low: Point,
    high: Point,
    slabs: Vec<Vec<u32>>,
}

impl Polygon {
    /// `0 0, 1 0, 1 1; ...`: the first ring is the border, others are holes.
    ///
    /// # Errors
    ///
    /// A text that names the mistake.
    pub fn parse(text: &str) -> Result<Polygon, String> {
        Polygon::new(&rings(text)?)
    }

    /// Checks rings of corners. A ring may repeat its first corner at its end.
    ///
    /// # Errors
    ///
    /// A text that names the mistake: a coordinate that is not finite, a ring with fewer than three corners or
    /// that crosses or touches itself, rings that cross, a hole outside of the border.
    pub fn new(rings: &[Vec<Point>]) -> Result<Polygon, String> {
        let mut edges: Vec<Vec<Edge>> = Vec::new();
        for (number, ring) in rings.iter().enumerate() {
            let of_ring = edges_of(ring).map_err(|why| format!("{} {why}", name(number)))?;
            edges.push(of_ring);
        }
        if edges.is_empty() {
            return Err("the polygon has no corners".into());
        }
        let corners: usize = edges.iter().map(Vec::len).sum();
        if corners > MOST_CORNERS {
            return Err(format!("the polygon has {corners} corners, and at most {MOST_CORNERS} are possible"));
        }
        check_crossings(&edges)?;
        let border = Polygon::of(edges[0].clone());
        for (number, hole) in edges.iter().enumerate().skip(1) {
            if let Some([corner, _]) = hole.iter().find(|[corner, _]| !border.has(*corner)) {
                return Err(format!("{} is outside of the border at ({}, {})", name(number), corner[0], corner[1]));
            }
        }
        Ok(match edges.len() {
            1 => border,
            _ => Polygon::of(edges.concat()),
        })
    }

    fn of(edges: Vec<Edge>) -> Polygon {
        let (mut low, mut high) = ([f64::INFINITY; 2], [f64::NEG_INFINITY; 2]);
        for [corner, _] in &edges {
            for d in 0..2 {
                (low[d], high[d]) = (low[d].min(corner[d]), high[d].max(corner[d]));
            }
        }
        let mut polygon = Polygon { slabs: Vec::new(), edges, low, high };
        let mut slabs = polygon.edges.len().min(MOST_SLABS);
        loop {
            let entries = |edge: &Edge| polygon.slabs_of(slabs, edge[0][1], edge[1][1]).count();
            if slabs == 1 || polygon.edges.iter().map(entries).sum::<usize>() <= MOST_ENTRIES * polygon.edges.len() {
                break;
            }
            slabs /= 2;
        }
        let mut lists = vec![Vec::new(); slabs];
        for (number, [a, b]) in polygon.edges.iter().enumerate() {
            for slab in polygon.slabs_of(slabs, a[1], b[1]) {
                lists[slab].push(number as u32);
            }
        }
        polygon.slabs = lists;
        polygon
    }

    /// The slabs between two heights inside the polygon's bounds.
    fn slabs_of(&self, slabs: usize, one: f64, other: f64) -> RangeInclusive<usize> {
        let (low, high) = (self.low[1], self.high[1]);
        // The slab increases with y, so every edge at a point's height is listed in the point's slab.
        let slab = |y: f64| (((y - low) / (high - low) * slabs as f64) as usize).min(slabs - 1);
        slab(one.min(other))..=slab(one.max(other))
    }

    fn edges_at(&self, low: f64, high: f64) -> impl Iterator<Item = &Edge> {
        let slabs = &self.slabs[self.slabs_of(self.slabs.len(), low, high)];
        slabs.iter().flatten().map(|edge| &self.edges[*edge as usize])
    }

    pub fn size(&self) -> usize {
        self.edges.len()
    }

    /// Whether a point is inside or on an edge; NaN is outside.
    pub fn has(&self, point: Point) -> bool {
        if !is_between(self.low, self.high, point) {
            return false;
        }
        let mut inside = false;
        for [a, b] in self.edges_at(point[1], point[1]) {
            let rises = a[1] <= point[1] && point[1] < b[1];
            let falls = b[1] <= point[1] && point[1] < a[1];
            let is_near = is_between(*a, *b, point);
            if !(rises || falls || is_near) {
                continue;
            }
            let side = turn(*a, *b, point);
            if side.is_eq() && is_near {
                return true;
            }
            // A ray to the right crosses the edge.
            inside ^= (rises && side.is_gt()) || (falls && side.is_lt());
        }
        inside
    }

    pub fn containment(&self, low: Point, high: Point) -> Containment {
        if (0..2).any(|d| high[d] < self.low[d] || low[d] > self.high[d] || low[d] > high[d]) {
            return Containment::Outside;
        }
        let (mut least, mut most) = (low, high);
        for d in 0..2 {
            (least[d], most[d]) = (low[d].max(self.low[d]), high[d].min(self.high[d]));
        }
        if self.edges_at(least[1], most[1]).any(|edge| meets(*edge, least, most)) {
            return Containment::Undecided;
        }
        match least == low && most == high && self.has(least) {
            true => Containment::Inside,
            false => Containment::Outside,
        }
    }
}

fn name(ring: usize) -> String {
    if ring == 0 { "the border of the polygon".into() } else { format!("hole {ring} of the polygon") }
}

fn edges_of(ring: &[Point]) -> Result<Vec<Edge>, String> {
    if let Some(point) = ring.iter().find(|point| point.iter().any(|number| !(number.abs() <= MOST_COORDINATE))) {
        return Err(format!("has a corner at ({}, {}), which is too far or not a number", point[0], point[1]));
    }
    let mut corners = ring.to_vec();
    corners.dedup();
    if corners.len() > 1 && corners.first() == corners.last() {
        corners.pop();
    }
    if corners.len() < 3 {
        return Err(format!("has {} different corners, and needs three or more", corners.len()));
    }
    let next = corners.iter().cycle().skip(1);
    Ok(corners.iter().zip(next).map(|(a, b)| [*a, *b]).collect())
}

fn check_crossings(rings: &[Vec<Edge>]) -> Result<(), String> {
    let numbered = |(ring, edges): (usize, &Vec<Edge>)| {
        edges.iter().enumerate().map(|(number, edge)| (ring, number, *edge)).collect::<Vec<_>>()
    };
    let mut edges: Vec<(usize, usize, Edge)> = rings.iter().enumerate().flat_map(numbered).collect();
    let left = |edge: &Edge| edge[0][0].min(edge[1][0]);
    let right = |edge: &Edge| edge[0][0].max(edge[1][0]);
    edges.sort_by(|a, b| left(&a.2).total_cmp(&left(&b.2)));
    let mut pairs = 0;
    for (index, (ring, number, [a, b])) in edges.iter().enumerate() {
        for (other_ring, other, [c, d]) in &edges[index + 1..] {
            if left(&[*c, *d]) > right(&[*a, *b]) {
                break;
            }
            pairs += 1;
            if pairs > MOST_PAIRS {
                return Err("too many edges of the polygon are above each other: split it".into());
            }
            if c[1].min(d[1]) > a[1].max(b[1]) || c[1].max(d[1]) < a[1].min(b[1]) {
                continue;
            }
            let at = format_args!("near ({}, {})", c[0], c[1]).to_string();
            if ring != other_ring {
                if cross(*a, *b, *c, *d) {
                    return Err(format!("{} crosses {} {at}", name(*ring), name(*other_ring)));
                }
                continue;
            }
            let count = rings[*ring].len();
            let touches = if (number + 1) % count == *other {
                turns_back(*a, *b, *d)
            } else if (other + 1) % count == *number {
                turns_back(*c, *d, *b)
            } else {
                meet(*a, *b, *c, *d)
            };
            if touches {
                return Err(format!("{} crosses or touches itself {at}", name(*ring)));
            }
        }
    }
    Ok(())
}

/// Whether the edge `bc` lies on the edge `ab`.
fn turns_back(a: Point, b: Point, c: Point) -> bool {
    turn(a, b, c).is_eq() && (is_between(a, b, c) || is_between(b, c, a))
}

fn meets([a, b]: Edge, low: Point, high: Point) -> bool {
    if (0..2).any(|d| a[d].max(b[d]) < low[d] || a[d].min(b[d]) > high[d]) {
        return false;
    }
    let sides = [low, [low[0], high[1]], [high[0], low[1]], high].map(|corner| turn(a, b, corner));
    !(sides.iter().all(|side| *side == Ordering::Greater) || sides.iter().all(|side| *side == Ordering::Less))
}
