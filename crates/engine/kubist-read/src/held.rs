//! What a partial copy holds of a query, and fetching the rest.
//!
//! A query needs the columns that it reads and the columns that decide on rows: dimensions, identity, weight and step.
//! So each query on a part of its region, below its fraction and with some of its columns finds all its bytes.

use std::collections::BTreeSet;

use kubist_catalog::error::store_error;
use kubist_catalog::snapshot::Snapshot;
use kubist_index::priority::{PriorityRange, Threshold};
use kubist_store::{Partial, StoreExt};
use kubist_types::error::{Error, Result};
use kubist_types::stats::Stats;

use crate::bind::BoundQuery;
use crate::execute::Holding;
use crate::plan::Planner;
use crate::request::Request;

fn columns(query: &BoundQuery, others: &[usize]) -> Vec<usize> {
    let schema = &query.snapshot.view.schema;
    let mut columns: BTreeSet<usize> = query.read.iter().chain(others).copied().collect();
    columns.extend(query.predicate.columns().into_iter().map(|column| schema.stored_index[column]));
    columns.extend(&schema.dimensions);
    schema.grids.iter().for_each(|grid| columns.extend(&grid.dimensions));
    columns.extend(schema.prioritised().columns());
    columns.extend(schema.kept_below);
    columns.insert(schema.step());
    columns.into_iter().collect()
}

fn holding<'a>(query: &'a BoundQuery, partial: &'a dyn Partial, range: PriorityRange, others: &[usize]) -> Holding<'a> {
    Holding { query, partial, range, columns: columns(query, others) }
}

/// Reads and checks all bytes that the query needs. A partial copy that fetches then holds them. Calls `progress(runs
/// done, all runs)`.
///
/// # Errors
///
/// `Invalid` if the table is no partial copy; the errors of [`Planner::read_plan`] and of reading.
pub fn fetch(snapshot: &Snapshot, request: &Request, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
    let mut planner = Planner::new(snapshot, request)?;
    let query = planner.logical.query.clone();
    let Some(partial) = query.snapshot.core.store.partial() else {
        return Err(Error::invalid(format!("{} is not a partial copy", snapshot.core.store.location())));
    };
    let Some(range) = query.range() else { return Ok(()) };
    let plan = planner.read_plan(range, &mut Stats::default())?;
    let all = plan.visits.len() as u64;
    holding(&query, partial, range, &[]).load(&plan.visits, |done| progress(done as u64, all))
}

/// The largest sample fraction of the query that is answered from the copy. It is 1 if the table is no partial copy.
///
/// # Errors
///
/// The errors of [`Planner::read_plan`]; `Damaged`; a storage error.
pub fn fraction(snapshot: &Snapshot, request: &Request) -> Result<f64> {
    let mut planner = Planner::new(snapshot, request)?;
    let query = planner.logical.query.clone();
    let Some(partial) = query.snapshot.core.store.partial() else { return Ok(1.0) };
    Ok(below(&mut planner, partial, &[])?.to_fraction())
}

fn below(planner: &mut Planner, partial: &dyn Partial, others: &[usize]) -> Result<Threshold> {
    let query = planner.logical.query.clone();
    partial.catch_up().map_err(store_error)?;
    let plan = planner.read_plan(PriorityRange::ALL, &mut Stats::default())?;
    holding(&query, partial, PriorityRange::ALL, others).below(&plan.visits)
}

/// The fraction up to which an estimate over these stored columns can read a table; 1 unless it is a partial copy that
/// does not fetch.
///
/// # Errors
///
/// `NotHere` if less than one row with priorities from `low` on is expected to be held; the errors of [`fraction`].
pub fn of_estimate(planner: &mut Planner, columns: &[usize], low: f64) -> Result<f64> {
    let query = planner.logical.query.clone();
    let partial = query.snapshot.core.store.partial().filter(|partial| !partial.fetches());
    let Some(partial) = partial else { return Ok(1.0) };
    let held = below(planner, partial, columns)?.to_fraction();
    let plan = planner.read_plan(PriorityRange::ALL, &mut Stats::default())?;
    if held == 1.0 || (held - low) * plan.expected_rows() >= 1.0 {
        return Ok(held);
    }
    let bytes = holding(&query, partial, PriorityRange::ALL, columns).missing(&plan.visits)?;
    Err(Error::NotHere { location: query.snapshot.core.store.location().into(), bytes })
}

/// Checks before the first row that a partial copy holds all bytes of a query. A copy that fetches holds them afterwards.
///
/// # Errors
///
/// `NotHere`, with the number of missing bytes; the errors of [`fetch`].
pub fn check(planner: &mut Planner) -> Result<()> {
    let query = planner.logical.query.clone();
    let (Some(partial), Some(range)) = (query.snapshot.core.store.partial(), query.range()) else { return Ok(()) };
    partial.catch_up().map_err(store_error)?;
    let plan = planner.read_plan(range, &mut Stats::default())?;
    let holding = holding(&query, partial, range, &[]);
    match holding.missing(&plan.visits)? {
        0 => Ok(()),
        _ if partial.fetches() => holding.load(&plan.visits, |_| {}),
        bytes => Err(Error::NotHere { location: query.snapshot.core.store.location().into(), bytes }),
    }
}
