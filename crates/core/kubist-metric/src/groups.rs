//! Groups of points whose neighbours are read together.
//!
//! Points are divided until a group reads at most [`Limits::rows`], as a sample of the rows predicts, and
//! further while two groups cost less than one: a group of distant points would read the rows between them.

use crate::reach::Reach;
use crate::space::Space;

/// The cost of one more query, in rows.
const QUERY_ROWS: f64 = 20_000.0;

pub struct Density {
    /// Wrapped positions.
    pub positions: Vec<f64>,
    /// Rows of the table per row of the sample.
    pub scale: f64,
}

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub rows: f64,
    pub points: usize,
}

#[derive(Clone, Debug)]
pub struct Group {
    pub points: Vec<u32>,
    /// All positions within the radius of any point.
    pub reach: Reach,
}

struct Division<'a> {
    space: &'a Space,
    density: &'a Density,
    positions: &'a [f64],
    reaches: Vec<Reach>,
    limits: Limits,
    groups: Vec<Group>,
}

/// `radii` has a radius for each point in `points`, and `positions` are of all points. Consecutive groups are near each
/// other.
pub fn groups(
    space: &Space,
    density: &Density,
    positions: &[f64],
    points: &[(u32, f64)],
    limits: Limits,
) -> Vec<Group> {
    let axes = space.axes();
    let reach = |(point, radius): &(u32, f64)| {
        let position = &positions[*point as usize * axes..][..axes];
        Reach::around(space, position, position, *radius)
    };
    let reaches = points.iter().map(reach).collect();
    let mut division = Division { space, density, positions, reaches, limits, groups: Vec::new() };
    let sample: Vec<u32> = (0..(density.positions.len() / axes) as u32).collect();
    if !points.is_empty() {
        let whole = division.part(points.iter().map(|(point, _)| *point).zip(0..).collect(), &sample);
        division.divide(whole);
    }
    division.groups
}

/// Points, each with the number of its reach, and the sample in their reach.
struct Part {
    members: Vec<(u32, u32)>,
    reach: Reach,
    sample: Vec<u32>,
}

impl Division<'_> {
    fn part(&self, members: Vec<(u32, u32)>, sample: &[u32]) -> Part {
        let none = Reach(Vec::new());
        let reach =
            members.iter().fold(none, |reach, (_, number)| reach.joined(self.space, &self.reaches[*number as usize]));
        let axes = self.space.axes();
        let inside = |row: &&u32| reach.has(self.space, &self.density.positions[**row as usize * axes..][..axes]);
        let sample = sample.iter().filter(inside).copied().collect();
        Part { members, reach, sample }
    }

    fn cost(&self, part: &Part) -> f64 {
        part.sample.len() as f64 * self.density.scale + QUERY_ROWS
    }

    fn divide(&mut self, part: Part) {
        let large = self.cost(&part) > self.limits.rows + QUERY_ROWS || part.members.len() > self.limits.points;
        let small = self.cost(&part) < 2.0 * QUERY_ROWS;
        if part.members.len() > 1 && (large || !small) {
            let [one, other] = self.halves(&part);
            let (apart, whole) = (self.cost(&one) + self.cost(&other), self.cost(&part));
            let must = part.members.len() > self.limits.points;
            // Points at one position read the same rows in each half.
            if must || apart < whole || (large && apart < 1.9 * whole) {
                self.divide(one);
                self.divide(other);
                return;
            }
        }
        self.groups.push(Group { points: part.members.iter().map(|(point, _)| *point).collect(), reach: part.reach });
    }

    fn halves(&self, part: &Part) -> [Part; 2] {
        let axes = self.space.axes();
        let at = |point: u32, axis: usize| self.positions[point as usize * axes + axis];
        let extent = |axis: usize| {
            let (low, high) =
                part.members.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), (point, _)| {
                    (low.min(at(*point, axis)), high.max(at(*point, axis)))
                });
            high - low
        };
        let extents: Vec<f64> = (0..axes).map(extent).collect();
        let widest = (0..axes).max_by(|a, b| extents[*a].total_cmp(&extents[*b])).unwrap_or(0);
        let mut members = part.members.clone();
        let middle = members.len() / 2;
        members.select_nth_unstable_by(middle, |a, b| at(a.0, widest).total_cmp(&at(b.0, widest)));
        let second = members.split_off(middle);
        [self.part(members, &part.sample), self.part(second, &part.sample)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn each_point_is_in_one_group_that_has_its_neighbours() {
        let mut random = StdRng::seed_from_u64(3);
        for round in 0..200 {
            let space = if round % 2 == 0 { Space::Sphere } else { Space::Flat { periods: vec![Some(360.0), None] } };
            let some = |random: &mut StdRng, count| -> Vec<f64> {
                (0..count).flat_map(|_| [random.random_range(0.0..360.0), random.random_range(-90.0..90.0)]).collect()
            };
            let density = Density { positions: some(&mut random, 300), scale: 1_000.0 };
            let positions = some(&mut random, 100);
            let points: Vec<(u32, f64)> = (0..100).map(|point| (point, random.random_range(0.0..20.0))).collect();
            let limits = Limits { rows: 60_000.0, points: 30 };
            let groups = groups(&space, &density, &positions, &points, limits);
            let mut grouped: Vec<u32> = groups.iter().flat_map(|group| group.points.clone()).collect();
            grouped.sort();
            assert_eq!(grouped, (0..100).collect::<Vec<_>>());
            assert!(groups.iter().all(|group| group.points.len() <= 30));
            for group in &groups {
                for point in &group.points {
                    let at = &positions[*point as usize * 2..][..2];
                    for row in density.positions.chunks_exact(2) {
                        let apart = (at[0] - row[0]).abs();
                        let apart = apart.min(360.0 - apart);
                        let distance = space.distance(at, row, apart * apart + (at[1] - row[1]).powi(2));
                        assert!(distance > points[*point as usize].1 || group.reach.has(&space, row));
                    }
                }
            }
        }
    }
}
