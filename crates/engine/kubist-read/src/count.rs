//! Row counts, and reads of all stored rows.

use arrow_array::RecordBatch;
use kubist_types::query::QuerySpec;

use crate::execute::{self, Projection};
use crate::plan::{Method, Planner};
use crate::request::{Request, RunOptions};
use crate::stream::QueryStream;
use kubist_catalog::snapshot::Snapshot;
use kubist_types::cancel::Cancel;
use kubist_types::error::{Error, Result};
use kubist_types::stats::Stats;

/// Returns all rows of a snapshot with all stored columns, including hidden ones.
///
/// # Errors
///
/// The errors of [`Planner::read_plan`]. Each batch may be `Damaged`, `SnapshotExpired`, `Cancelled` or a
/// storage error.
pub fn stored_rows(snapshot: &Snapshot, cancel: &Cancel) -> Result<impl Iterator<Item = Result<RecordBatch>>> {
    let mut planner = Planner::new(snapshot, &RunOptions::with_cancel(cancel).of(QuerySpec::default()))?;
    let stored = snapshot.view.schema.stored.clone();
    let wanted = Projection { columns: (0..stored.fields().len()).collect(), priorities: false, coded: vec![] };
    let found = execute::scan(planner.all_pieces(&mut Stats::default())?, wanted)
        .filter(|scanned| scanned.as_ref().map_or(true, |scanned| scanned.rows > 0));
    Ok(found.map(move |scanned| RecordBatch::try_new(stored.clone(), scanned?.columns).map_err(Error::kernel)))
}

/// Counts the rows of a snapshot, from metadata if possible.
///
/// # Errors
///
/// The errors of [`count`]; none if metadata suffices.
pub fn rows(snapshot: &Snapshot) -> Result<u64> {
    match snapshot.step {
        None => Ok(snapshot.view.rows()),
        Some(step) if snapshot.view.history.live_rows() == snapshot.view.rows() => {
            Ok(snapshot.view.history.rows_until(step))
        }
        Some(_) => count(snapshot, Request::default()),
    }
}

/// Counts the rows of a query's result.
///
/// # Errors
///
/// The errors of [`QueryStream::of`] and of reading.
pub fn count(snapshot: &Snapshot, mut request: Request) -> Result<u64> {
    request.spec.columns = Some(vec![]);
    let (mut planner, mut stats) = (Planner::new(snapshot, &request)?, Stats::default());
    let query = &planner.logical.query;
    let most = match planner.logical.method {
        Method::Nothing => return Ok(0),
        Method::LowestInCells { .. } => return counted_in_cells(planner),
        Method::Lowest { rows } => rows,
        Method::Scan => request.spec.limit.unwrap_or(u64::MAX),
    };
    let is_whole = query.range().is_some_and(|range| range.is_all()) && query.part.is_none();
    if query.predicate.is_always() && is_whole {
        return Ok(snapshot.view.rows().min(most));
    }
    // Other conditions leave most runs of the manifest open, and all would be in memory.
    let is_by_ends = query.only_dimensions() && !query.ends().is_empty();
    let listed = if is_by_ends { planner.by_list(u64::MAX, None, &mut stats)? } else { None };
    let (mut rows, pieces) = match listed {
        Some(listed) => (listed.inside, listed.open.into()),
        None => (0, planner.all_pieces(&mut stats)?),
    };
    let mut scanned = execute::scan(pieces, Projection::default());
    while rows < most
        && let Some(scanned) = scanned.next()
    {
        rows += scanned?.rows as u64;
    }
    Ok(rows.min(most))
}

fn counted_in_cells(planner: Planner) -> Result<u64> {
    let mut rows = 0;
    for batch in QueryStream::run(planner, Stats::default())? {
        rows += batch?.num_rows() as u64;
    }
    Ok(rows)
}
