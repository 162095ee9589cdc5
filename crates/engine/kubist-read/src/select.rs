//! Choosing by priority, without knowing the density beforehand: the lowest of all
//! (`limit`), and the lowest in each cell of a grid (`per_cell`, see `cells`).
//!
//! Windows of rising priority are scanned, each record once, until enough is
//! found. Equal priorities are told apart by a hash over all columns of the
//! record in canonical form, so that the choice does not depend on where or when
//! a record was stored; that hash is only computed once a tie is met.
//!
//! What cannot be chosen any more is let go of, so that a few times the answer is held at
//! most, and n records of which k are chosen take time in proportion to n log k. All of it
//! can be cancelled.

mod candidates;
mod cells;
mod delivery;

use std::collections::VecDeque;
use std::sync::Arc;

use kubist_index::priority::Threshold;

use crate::bind::BoundQuery;
use crate::execute;
use crate::plan::LogicalPlan;
use crate::sort;
use candidates::{ALWAYS_HELD, BATCH_ROWS, Candidate, Found, gather, wanted};
use cells::lowest_in_cells;
pub use delivery::Delivery;
use kubist_index::gradual;
use kubist_types::{Result, Stats};

/// The records of lowest priority, in all or of each cell: `limit` of them at most.
pub fn select(plan: &Arc<LogicalPlan>, limit: u64) -> Result<Delivery> {
    let mut spent = Stats::default();
    for with_ties in [false, true] {
        let found = match &plan.query.cells {
            None => lowest(plan, limit, with_ties)?,
            Some(grid) => lowest_in_cells(plan, grid, with_ties)?,
        };
        spent.add(&found.stats);
        spent.add(&plan.take_cost());
        if let Some(delivery) = deliver(&plan.query, found, limit, with_ties)? {
            return Ok(Delivery { stats: spent, ..delivery });
        }
    }
    unreachable!("candidates were told apart")
}

/// At least the `limit + 1` lowest priorities, if there are as many.
fn lowest(plan: &Arc<LogicalPlan>, limit: u64, with_ties: bool) -> Result<Found> {
    let query = &plan.query;
    let mut found = Found::default();
    let enough = limit.saturating_add(1);
    let mut windows = plan.windows()?;
    loop {
        for scanned in execute::scan(plan.pieces(windows.current())?, wanted(query, with_ties)) {
            let scanned = scanned?;
            if scanned.rows == 0 {
                found.stats.add(&scanned.stats);
                continue;
            }
            let mut candidates = found.take(query, scanned, with_ties);
            found.candidates.append(&mut candidates);
            // Far more than enough: let go of what cannot be chosen.
            if found.candidates.len() as u64 > enough.saturating_mul(4).max(ALWAYS_HELD) {
                gradual::sort(&mut found.candidates, &query.cancel)?;
                found.candidates.truncate(enough as usize);
                found.compact(&query.cancel)?;
            }
        }
        if windows.is_last() || found.candidates.len() as u64 >= enough {
            return Ok(found);
        }
        let seen = (found.candidates.len() as f64).max(0.5);
        windows.grow((enough as f64 / seen * 1.5).clamp(2.0, 32.0));
    }
}

/// Sorts, cuts at the limit, and makes batches in ascending order of priority, or in that which
/// was asked for.
/// `None` if two candidates have the same priority and were not told apart.
fn deliver(query: &BoundQuery, found: Found, limit: u64, with_ties: bool) -> Result<Option<Delivery>> {
    let Found { parts, mut candidates, mut cutoffs, stats, .. } = found;
    let cancel = &query.cancel;
    gradual::sort(&mut candidates, cancel)?;
    let keep = |candidates: &[Candidate]| (candidates.len() as u64).min(limit) as usize;
    let matter = if cutoffs.is_empty() { keep(&candidates).saturating_add(1) } else { candidates.len() };
    let compared = &candidates[..candidates.len().min(matter)];
    for piece in gradual::pieces(compared.len(), cancel) {
        let piece = piece?;
        let tied = |place: usize| compared[place - 1].0 == compared[place].0;
        if !with_ties && (piece.start.max(1)..piece.end).any(tied) {
            return Ok(None);
        }
    }
    if !cutoffs.is_empty() {
        let mut inside = (Vec::with_capacity(candidates.len()), Vec::with_capacity(candidates.len()));
        for piece in gradual::pieces(candidates.len(), cancel) {
            let piece = piece?;
            let of_piece = candidates[piece.clone()].iter().zip(&cutoffs[piece]);
            inside.extend(of_piece.filter(|(candidate, cutoff)| cutoff.is_none_or(|cut| **candidate < cut)));
        }
        (candidates, cutoffs) = inside;
    }
    let keep = keep(&candidates);
    let first_out = candidates.get(keep).map(|(priority, ..)| *priority);
    let fraction = match first_out {
        Some(priority) => Threshold::new(priority as u128).to_fraction().min(query.fraction),
        None => query.fraction,
    };
    // Given all other records, a record is in the answer if its priority is below that of
    // the first one left out, of all or of its cell: a threshold that does not depend on it
    // (Cohen and Kaplan, "Summarizing data using bottom-k sketches", 2007: rank conditioning).
    let inclusion = |place: usize| {
        let of_cell = cutoffs.get(place).copied().flatten().map(|(priority, ..)| priority);
        let below = [first_out, of_cell].into_iter().flatten().min();
        (below != Some(candidates[place].0)).then(|| query.probability(below))
    };
    let in_order = match &query.order {
        None => (0..keep).collect(),
        Some(order) => {
            let places: Vec<_> =
                candidates[..keep].iter().map(|(.., part, row)| (*part as usize, *row as usize)).collect();
            sort::ordered(order, &parts, &places, cancel)?
        }
    };
    let mut batches = VecDeque::new();
    for places in in_order.chunks(BATCH_ROWS) {
        let chosen: Vec<Candidate> = places.iter().map(|place| candidates[*place]).collect();
        let of_chosen = || places.iter().map(|place| inclusion(*place)).collect();
        batches.push_back(query.batch(chosen.len(), gather(&parts, &chosen, cancel)?, of_chosen)?);
    }
    Ok(Some(Delivery { batches, stats, fraction }))
}
