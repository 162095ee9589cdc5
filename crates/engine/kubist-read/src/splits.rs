//! Splits: a query divided into disjoint parts for several processes or machines.
//!
//! The parts are boxes of the grid that cover all of space, so each row is in exactly one part, whatever the
//! reader and the storage layout. A sample of the result is halved repeatedly across its largest extent, which
//! makes compact parts of similar size. Rows at a single point are divided by priority. In a cluster, parts can
//! be ranges of the token ring: whole runs, read where they are stored.

use std::sync::Arc;

use kubist_index::cube::{Geometry, MAX_DIMENSIONS};
use kubist_index::state::Run;
use kubist_store::{Locality, ReplicaLocation};
use serde::{Deserialize, Serialize};

use crate::bind::BoundQuery;
use crate::plan::{Planner, replica_locations};
use crate::request::{Part, Request, RunOptions};
use crate::ring::{self, Share};
use crate::stream::QueryStream;
use crate::visit::Visit;
use kubist_catalog::location;
use kubist_catalog::snapshot::Snapshot;
use kubist_catalog::token::SnapshotToken;
use kubist_format::location::Location;
use kubist_index::gradual;
use kubist_types::cancel::Cancel;
use kubist_types::error::{Error, Result};
use kubist_types::query::QuerySpec;
use kubist_types::stats::Stats;

/// Number of sampled rows per part; the sizes of parts then differ by some percent.
const SAMPLED: u64 = 512;
const MOST_SAMPLED: u64 = 1 << 20;
const MOST_PARTS: usize = 1 << 16;
/// A cut may miss its target by this fraction of the rows, if the part becomes more compact.
const SLACK: f64 = 0.05;
/// A cut may miss its target by this fraction to be between larger cubes, which divides fewer runs and zones.
const LEEWAY: f64 = 0.02;

/// Processes with another version refuse a split.
const VERSION: u32 = 2;

/// A part of a query on one snapshot, as plain data that another process can open and read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Split {
    version: SplitVersion,
    pub location: String,
    pub snapshot: SnapshotToken,
    pub query: QuerySpec,
    part: Part,
    /// Approximate number of rows.
    pub rows: u64,
    /// Hosts that store most of its data, best first; empty for a local directory.
    pub preferred_hosts: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
struct SplitVersion;

impl From<SplitVersion> for u32 {
    fn from(_: SplitVersion) -> u32 {
        VERSION
    }
}

impl TryFrom<u32> for SplitVersion {
    type Error = String;

    fn try_from(found: u32) -> std::result::Result<SplitVersion, String> {
        match found {
            VERSION => Ok(SplitVersion),
            other => Err(format!("this version of Kubist reads form {VERSION} of a split, not {other}")),
        }
    }
}

impl Split {
    pub fn request(&self, cancel: &Cancel) -> Request {
        let run = RunOptions { part: Some(self.part.clone()), ..RunOptions::with_cancel(cancel) };
        run.of(self.query.clone())
    }
}

/// Divides a query into `parts` disjoint parts of similar row counts, which together return each row once.
///
/// # Errors
///
/// `Invalid` with `limit`, `per_cell` or `order_by`, with 0 or too many parts, or for an impossible query;
/// `SnapshotExpired`; `Damaged`; `Cancelled`; a storage error.
pub fn splits(snapshot: &Snapshot, request: &Request, parts: usize) -> Result<Vec<Split>> {
    let planner = to_be_cut(snapshot, request, parts)?;
    let query = planner.logical.query.clone();
    let geometry = newest(&query)?;
    let (mut sample, rows) = sample(snapshot, &query, request, parts)?;
    let everything = everything(&geometry);
    let mut cut = Vec::with_capacity(parts);
    halve(&geometry, &mut sample, everything, parts, &mut cut, &request.run.cancel)?;
    let known = sample.len().max(1) as f64;
    let lying = lying(planner)?;
    let cut_out = |(part, sampled): (Part, usize)| {
        request.run.cancel.check()?;
        let meets = |run: &Run<Location>| {
            let (place, mut sides) = (&run.payload, 0..geometry.dimensions());
            // Runs of older grids have no known position in the newest grid.
            run.cube.grid() != part.grid || sides.all(|d| part.low[d] <= place.high[d] && place.low[d] <= part.high[d])
        };
        let within = lying.iter().filter(|(run, ..)| meets(run));
        let hosts = ring::nearest(within.map(|(_, home, rows)| (&home.hosts, *rows)));
        Ok(split(snapshot, &request.spec, part.clone(), rows * sampled as f64 / known, hosts))
    };
    cut.into_iter().map(cut_out).collect()
}

/// Divides a query into `parts` disjoint parts, each read from one host of the cluster if possible. They
/// are ranges of the token ring and not compact in space (thesis, listing 5.2). Without a cluster this is
/// [`splits`].
///
/// # Errors
///
/// The errors of [`splits`].
pub fn splits_by_host(snapshot: &Snapshot, request: &Request, parts: usize) -> Result<Vec<Split>> {
    let planner = to_be_cut(snapshot, request, parts)?;
    if snapshot.core.store.capabilities().locality == Locality::Here {
        return splits(snapshot, request, parts);
    }
    let everything = everything(&newest(&planner.logical.query)?);
    let lying = lying(planner)?.into_iter().map(|(_, home, rows)| (home, rows)).collect();
    let split = |share: Share| {
        let part = Part { tokens: Some(share.tokens), ..everything.clone() };
        split(snapshot, &request.spec, part, share.rows, share.hosts)
    };
    Ok(ring::cut(lying, parts).into_iter().map(split).collect())
}

fn to_be_cut(snapshot: &Snapshot, request: &Request, parts: usize) -> Result<Planner> {
    if parts == 0 || parts > MOST_PARTS {
        return Err(Error::invalid(format!("a query is cut into 1 to {MOST_PARTS} parts, not {parts}")));
    }
    if request.spec.limit.is_some() || request.spec.per_cell.is_some() || request.run.part.is_some() {
        return Err(Error::invalid(
            "a query with limit or per_cell cannot be cut: both choose among all of its records",
        ));
    }
    if request.spec.order_by.is_some() {
        return Err(Error::invalid(
            "a query with order_by cannot be cut: its parts are read side by side, and have no order",
        ));
    }
    Planner::new(snapshot, request)
}

fn split(snapshot: &Snapshot, query: &QuerySpec, part: Part, rows: f64, preferred_hosts: Vec<String>) -> Split {
    Split {
        version: SplitVersion,
        location: location::absolute(snapshot.core.store.location()),
        snapshot: snapshot.token(),
        query: query.clone(),
        part,
        rows: rows as u64,
        preferred_hosts,
    }
}

/// The runs of a query, with their locations in a cluster and expected rows; empty without a cluster.
fn lying(mut planner: Planner) -> Result<Vec<(Arc<Run<Location>>, ReplicaLocation, f64)>> {
    let query = planner.logical.query.clone();
    if query.snapshot.core.store.capabilities().locality != Locality::Hosts {
        return Ok(Vec::new());
    }
    let read = planner.full_plan(&mut Stats::default())?;
    let homes = replica_locations(&query, &read.visits)?;
    let lying =
        |(visit, home): (&Visit, ReplicaLocation)| (visit.run.clone(), home, visit.rows(&query.region, read.range));
    Ok(read.visits.iter().zip(homes).map(lying).collect())
}

fn sample(
    snapshot: &Snapshot,
    query: &BoundQuery,
    request: &Request,
    parts: usize,
) -> Result<(Vec<[u32; MAX_DIMENSIONS]>, f64)> {
    let schema = &snapshot.view.schema;
    let dimensions = schema.dimensions.iter().map(|column| schema.stored.field(*column).name().clone()).collect();
    let limit = (parts as u64 * SAMPLED).min(MOST_SAMPLED);
    let spec = &request.spec;
    let sampling = QuerySpec { limit: Some(limit), columns: Some(dimensions), inclusion: None, ..spec.clone() };
    let mut stream = QueryStream::of(snapshot, &request.run.clone().of(sampling))?;
    let mut points = Vec::new();
    for batch in stream.by_ref() {
        let batch = batch?;
        let of_batch = query.grids.coordinates(query.grids.newest(), batch.columns())?;
        points.extend((0..batch.num_rows()).map(|row| {
            let mut point = [0; MAX_DIMENSIONS];
            point.iter_mut().zip(&of_batch).for_each(|(place, column)| *place = column[row]);
            point
        }));
    }
    let (low, high) = (spec.window.map_or(0.0, |window| window.0), query.fraction);
    let share = if high > low { (stream.fraction() - low) / (high - low) } else { 1.0 };
    let rows = points.len() as f64 / share.clamp(f64::MIN_POSITIVE, 1.0);
    Ok((points, rows))
}

fn newest(query: &BoundQuery) -> Result<Geometry> {
    let grid = query.grids.newest();
    query.grids.tree(grid).ok_or_else(|| Error::invalid(format!("the table has no grid {grid}")))
}

fn everything(geometry: &Geometry) -> Part {
    Part {
        grid: geometry.grid(),
        low: [0; MAX_DIMENSIONS],
        high: geometry.everything().high,
        priorities: (0, u64::MAX),
        tokens: None,
    }
}

/// Divides a part and its sample points into `parts`; adds each new part with its number of points.
fn halve(
    geometry: &Geometry,
    points: &mut [[u32; MAX_DIMENSIONS]],
    part: Part,
    parts: usize,
    out: &mut Vec<(Part, usize)>,
    cancel: &Cancel,
) -> Result<()> {
    if parts == 1 {
        out.push((part, points.len()));
        return Ok(());
    }
    let first = parts / 2;
    let wanted = points.len() * first / parts;
    let (mut left, mut right) = (part.clone(), part.clone());
    let place = match best_cut(geometry, points, wanted, cancel)? {
        Some((d, coordinate)) => {
            (left.high[d], right.low[d]) = (coordinate - 1, coordinate);
            partition(points, |point| point[d] < coordinate)
        }
        // If all points are equal, divides by priority, which is uniform.
        None => {
            let (low, high) = part.priorities;
            let middle = low + ((high - low) as u128 * first as u128 / parts as u128) as u64;
            (left.priorities.1, right.priorities.0) = (middle, middle + 1);
            wanted
        }
    };
    let (of_left, of_right) = points.split_at_mut(place);
    halve(geometry, of_left, left, first, out, cancel)?;
    halve(geometry, of_right, right, parts - first, out, cancel)
}

/// Moves the points that satisfy `holds` to the front; returns their number.
fn partition(points: &mut [[u32; MAX_DIMENSIONS]], holds: impl Fn(&[u32; MAX_DIMENSIONS]) -> bool) -> usize {
    let mut front = 0;
    for place in 0..points.len() {
        if holds(&points[place]) {
            points.swap(front, place);
            front += 1;
        }
    }
    front
}

/// Dimension and coordinate of the best cut: across the largest extent if a cut there is close to the
/// target, otherwise the closest cut.
fn best_cut(
    geometry: &Geometry,
    points: &[[u32; MAX_DIMENSIONS]],
    wanted: usize,
    cancel: &Cancel,
) -> Result<Option<(usize, u32)>> {
    let mut best: Option<(bool, u64, usize, u32)> = None;
    for d in 0..geometry.dimensions() {
        let mut column: Vec<u32> = points.iter().map(|point| point[d]).collect();
        gradual::sort(&mut column, cancel)?;
        let Some((miss, cut)) = cut(&column, wanted) else { continue };
        let near = miss as f64 <= points.len() as f64 * SLACK;
        let worth =
            if near { (column[column.len() - 1] - column[0]) as u64 } else { points.len() as u64 - miss as u64 };
        if best.is_none_or(|(was_near, was_worth, ..)| (near, worth) > (was_near, was_worth)) {
            best = Some((near, worth, d, cut));
        }
    }
    Ok(best.map(|(_, _, d, cut)| (d, cut)))
}

/// Finds a cut with about `wanted` of the sorted coordinates before it. Returns by how many it misses `wanted`, and
/// its coordinate; `None` if all coordinates are equal.
fn cut(column: &[u32], wanted: usize) -> Option<(usize, u32)> {
    let (lowest, last) = (*column.first()?, column.len() - 1);
    let missed = |cut: u32| (column.partition_point(|value| *value < cut).abs_diff(wanted), cut);
    let leeway = (column.len() as f64 * LEEWAY) as usize;
    let (below, upto) = (column[wanted.saturating_sub(leeway + 1)], column[(wanted + leeway).min(last)]);
    if below < upto {
        return Some(missed(coarsest(below, upto)));
    }
    let behind = column.get(column.partition_point(|value| *value <= upto)).copied();
    [Some(upto), behind].into_iter().flatten().filter(|cut| *cut > lowest).map(missed).min()
}

/// The coordinate in (`below`, `upto`] at which the largest cubes begin.
fn coarsest(below: u32, upto: u32) -> u32 {
    let bit = (below ^ upto).ilog2();
    upto >> bit << bit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coarsest_coordinate_has_the_most_zeros() {
        let zeros = |coordinate: u32| coordinate.trailing_zeros();
        for below in 0..200 {
            for upto in below + 1..200 {
                let found = coarsest(below, upto);
                assert!(below < found && found <= upto, "{found} of {below} to {upto}");
                assert!((below + 1..=upto).all(|other| zeros(other) <= zeros(found)), "{found} of {below} to {upto}");
            }
        }
        assert_eq!(coarsest(0, u32::MAX), 1 << 31);
    }

    #[test]
    fn a_cut_is_at_a_border_near_its_place() {
        let column: Vec<u32> = (0..1000).map(|place| place * 1000).collect();
        assert_eq!(cut(&column, 500), Some((8, 15 << 15)));
        assert_eq!(cut(&[5; 100], 50), None);
        assert_eq!(cut(&[vec![5; 70], vec![9; 30]].concat(), 50), Some((20, 9)));
        assert_eq!(cut(&[vec![5; 20], vec![9; 80]].concat(), 50), Some((30, 9)));
        assert_eq!(cut(&[], 0), None);
    }
}
