//! Selects the rows of lowest priority without knowing the density: overall (`limit`), or in each cell of a
//! grid (`per_cell`, see `cells`).
//!
//! Windows of increasing priority are scanned until enough rows are found. If priorities tie, a hash of all
//! columns of the row decides, so the choice is independent of storage.
//!
//! Rows that can no longer be chosen are dropped, so memory is a few times the result, and choosing k of n
//! rows takes time proportional to n log k.

mod candidates;
mod cells;
mod delivery;

use std::collections::VecDeque;

use kubist_index::priority::Threshold;

use crate::bind::BoundQuery;
use crate::execute;
use crate::plan::Planner;
use crate::sort;
use candidates::{ALWAYS_HELD, BATCH_ROWS, Candidate, Candidates, gather, wanted};
use cells::lowest_in_cells;
pub use delivery::Delivery;
use kubist_index::gradual;
use kubist_types::{Result, Stats};

pub fn select(mut planner: Planner, limit: u64) -> Result<Delivery> {
    let (query, mut spent) = (planner.logical.query.clone(), Stats::default());
    for with_ties in [false, true] {
        let found = match &query.cells {
            None => lowest(&mut planner, limit, with_ties)?,
            Some(grid) => lowest_in_cells(&mut planner, grid, with_ties)?,
        };
        spent.add(&found.stats);
        if let Some(delivery) = deliver(&query, found, limit, with_ties)? {
            return Ok(Delivery { stats: spent, ..delivery });
        }
    }
    unreachable!("candidates were told apart")
}

/// Finds at least `limit + 1` rows, if so many match.
fn lowest(planner: &mut Planner, limit: u64, with_ties: bool) -> Result<Candidates> {
    let query = &*planner.logical.query.clone();
    let mut found = Candidates::default();
    let enough = limit.saturating_add(1);
    let mut windows = planner.windows(&mut found.stats)?;
    loop {
        let pieces = planner.pieces(windows.current(), &mut found.stats)?;
        let mut work = execute::scan(pieces, wanted(query, with_ties));
        for scanned in &mut work {
            let scanned = scanned?;
            if scanned.rows == 0 {
                found.stats.add(&scanned.stats);
                continue;
            }
            let mut candidates = found.take(query, scanned, with_ties);
            found.candidates.append(&mut candidates);
            if found.candidates.len() as u64 > enough.saturating_mul(4).max(ALWAYS_HELD) {
                gradual::sort(&mut found.candidates, &query.cancel)?;
                found.candidates.truncate(enough as usize);
                found.compact(&query.cancel)?;
            }
        }
        found.stats.add(&work.planning);
        if windows.is_last() || found.candidates.len() as u64 >= enough {
            return Ok(found);
        }
        let seen = (found.candidates.len() as f64).max(0.5);
        windows.grow((enough as f64 / seen * 1.5).clamp(2.0, 32.0));
    }
}

/// Makes batches by ascending priority or in the requested order, up to the limit. `None` if two candidates
/// have equal priorities and no tie-breakers.
fn deliver(query: &BoundQuery, found: Candidates, limit: u64, with_ties: bool) -> Result<Option<Delivery>> {
    let Candidates { parts, mut candidates, mut cutoffs, stats, .. } = found;
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
    // Given all other rows, a row is in the result if its priority is below that of the first row left out,
    // overall or in its cell. This threshold does not depend on the row (rank conditioning; Cohen and
    // Kaplan, "Summarizing data using bottom-k sketches", 2007).
    let inclusion = |place: usize| {
        let of_cell = cutoffs.get(place).copied().flatten().map(|(priority, ..)| priority);
        let below = [first_out, of_cell].into_iter().flatten().min();
        (below != Some(candidates[place].0)).then_some(below)
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
        let of_chosen = |row: usize| inclusion(places[row]);
        batches.push_back(query.batch(chosen.len(), gather(&parts, &chosen, cancel)?, of_chosen)?);
    }
    Ok(Some(Delivery { batches, stats, fraction }))
}
