//! A query cut into disjoint parts, for several processes or machines.
//!
//! Each part is a box of the grid, and all of them together are all of space: so each
//! record is in exactly one part, whatever reads it and however its rows are stored. The
//! cuts halve a sample of the answer, again and again, across the dimension in which it
//! spreads furthest. That makes compact parts of about equal rows; where records lie in
//! one point, parts are ranges of priority. In a cluster parts can be stretches of its ring
//! instead: whole runs, read where they lie. A part carries the token of the snapshot that it is
//! of, and answers from that snapshot or not at all.

use std::sync::Arc;

use kubist_index::cube::{Geometry, MAX_DIMENSIONS};
use kubist_index::state::Run;
use kubist_store::{Locality, ReplicaLocation};
use serde::{Deserialize, Serialize};

use crate::bind::BoundQuery;
use crate::plan::{LogicalPlan, replica_locations};
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

/// Records of the sample for each part: they differ by some percent in size then.
const SAMPLED: u64 = 512;
const MOST_SAMPLED: u64 = 1 << 20;
/// More parts than this are no parallel reading any more.
const MOST_PARTS: usize = 1 << 16;
/// A cut may miss its place by this share of the records, for a more compact part.
const SLACK: f64 = 0.05;
/// And by this share for a border of larger cubes, which divides fewer runs and zones.
const LEEWAY: f64 = 0.02;

/// The form in which a split is written; a process of another version refuses it.
const VERSION: u32 = 2;

/// One part of a query: plain data, which another process can open and read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Split {
    version: SplitVersion,
    /// Where the table is.
    pub location: String,
    /// Which state of the table it is of.
    pub snapshot: SnapshotToken,
    /// The whole query, of which it is a part.
    pub query: QuerySpec,
    part: Part,
    /// About how many records it holds.
    pub rows: u64,
    /// Hosts that keep most of its data, the best first; none for a local directory.
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
    /// Its part of the query.
    pub fn request(&self, cancel: &Cancel) -> Request {
        let run = RunOptions { part: Some(self.part.clone()), ..RunOptions::with_cancel(cancel) };
        run.of(self.query.clone())
    }
}

/// Cuts a query into `parts` disjoint ones of about equal rows: together they return
/// exactly the records of the query, each once. `limit` and `per_cell` choose among
/// all records, so they cannot be cut.
///
/// # Errors
///
/// `Invalid` with `limit`, `per_cell` or `order_by`, without parts, or if the question makes no sense;
/// `SnapshotExpired`; `Damaged`; `Cancelled`; a storage error.
pub fn splits(snapshot: &Snapshot, request: &Request, parts: usize) -> Result<Vec<Split>> {
    let plan = to_be_cut(snapshot, request, parts)?;
    let geometry = newest(&plan.query)?;
    let (mut sample, rows) = sample(snapshot, &plan.query, request, parts)?;
    let everything = everything(&geometry);
    let mut cut = Vec::with_capacity(parts);
    halve(&geometry, &mut sample, everything, parts, &mut cut, &request.run.cancel)?;
    let known = sample.len().max(1) as f64;
    let lying = lying(&plan)?;
    let cut_out = |(part, sampled): (Part, usize)| {
        request.run.cancel.check()?;
        let meets = |run: &Run<Location>| {
            let (place, mut sides) = (&run.payload, 0..geometry.dimensions());
            // Where the runs of older grids lie in the newest is not known of them.
            run.cube.grid() != part.grid || sides.all(|d| part.low[d] <= place.high[d] && place.low[d] <= part.high[d])
        };
        let within = lying.iter().filter(|(run, ..)| meets(run));
        let hosts = ring::nearest(within.map(|(_, home, rows)| (&home.hosts, *rows)));
        Ok(split(snapshot, &request.spec, part.clone(), rows * sampled as f64 / known, hosts))
    };
    cut.into_iter().map(cut_out).collect()
}

/// Cuts a query into `parts` disjoint ones, each of which is read from one host of the
/// cluster as far as that can be: together they return exactly the records of the query.
/// They are stretches of the cluster's ring and not compact in space (thesis, listing
/// 5.2). A table that is on no cluster is cut as `Snapshot::splits` does.
///
/// # Errors
///
/// As of [`splits`].
pub fn splits_by_host(snapshot: &Snapshot, request: &Request, parts: usize) -> Result<Vec<Split>> {
    let plan = to_be_cut(snapshot, request, parts)?;
    if snapshot.core.store.capabilities().locality == Locality::Here {
        return splits(snapshot, request, parts);
    }
    let lying = lying(&plan)?.into_iter().map(|(_, home, rows)| (home, rows)).collect();
    let everything = everything(&newest(&plan.query)?);
    let split = |share: Share| {
        let part = Part { tokens: Some(share.tokens), ..everything.clone() };
        split(snapshot, &request.spec, part, share.rows, share.hosts)
    };
    Ok(ring::cut(lying, parts).into_iter().map(split).collect())
}

/// A query that can be cut into so many parts.
fn to_be_cut(snapshot: &Snapshot, request: &Request, parts: usize) -> Result<LogicalPlan> {
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
    LogicalPlan::new(snapshot, request)
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

/// The runs that a question reads, where they lie in a cluster, and about how many
/// records of the answer each has; nothing if there is no cluster.
fn lying(plan: &LogicalPlan) -> Result<Vec<(Arc<Run<Location>>, ReplicaLocation, f64)>> {
    let query = &plan.query;
    if query.snapshot.core.store.capabilities().locality != Locality::Hosts {
        return Ok(Vec::new());
    }
    let read = plan.whole()?;
    let homes = replica_locations(query, &read.visits)?;
    let lying =
        |(visit, home): (&Visit, ReplicaLocation)| (visit.run.clone(), home, visit.rows(&query.region, read.range));
    Ok(read.visits.iter().zip(homes).map(lying).collect())
}

/// Coordinates of a uniform sample of the answer, and about how many records it has.
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

/// The tree of the grid by which parts are cut.
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

/// Cuts a part with its points into so many, and says how many points each got.
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
        // All in one point, or nothing known: by priority, which is uniform.
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

/// Moves the points for which it holds to the front; gives how many they are.
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

/// The dimension and the coordinate at which the second half begins: across the widest
/// extent if that cuts where it is wanted, or else wherever that is nearest.
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

/// Where a half begins of which so many sorted coordinates are before, and by how many it misses that;
/// `None`: all of them are one.
fn cut(column: &[u32], wanted: usize) -> Option<(usize, u32)> {
    let (lowest, last) = (*column.first()?, column.len() - 1);
    let missed = |cut: u32| (column.partition_point(|value| *value < cut).abs_diff(wanted), cut);
    let leeway = (column.len() as f64 * LEEWAY) as usize;
    let (below, upto) = (column[wanted.saturating_sub(leeway + 1)], column[(wanted + leeway).min(last)]);
    if below < upto {
        return Some(missed(coarsest(below, upto)));
    }
    // Points of one coordinate stay together: before or behind them.
    let behind = column.get(column.partition_point(|value| *value <= upto)).copied();
    [Some(upto), behind].into_iter().flatten().filter(|cut| *cut > lowest).map(missed).min()
}

/// Of the coordinates above one and up to another, the one at which the largest cubes begin.
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
        // Points of one coordinate are on one side.
        assert_eq!(cut(&[5; 100], 50), None);
        assert_eq!(cut(&[vec![5; 70], vec![9; 30]].concat(), 50), Some((20, 9)));
        assert_eq!(cut(&[vec![5; 20], vec![9; 80]].concat(), 50), Some((30, 9)));
        assert_eq!(cut(&[], 0), None);
    }
}
