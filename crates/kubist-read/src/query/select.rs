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

use std::collections::VecDeque;
use std::sync::Arc;

use kubist_index::priority::{PriorityRange, Threshold};

use crate::query::Question;
use crate::query::candidates::{ALWAYS_HELD, BATCH_ROWS, Candidate, Found, expected_rows, gather, wanted};
use crate::query::cells::lowest_in_cells;
use crate::query::delivery::Delivery;
use kubist_types::{Result, Stats, gradual};

pub(super) fn select(question: &Arc<Question>, range: PriorityRange, limit: Option<u64>) -> Result<Delivery> {
    let mut spent = Stats::default();
    for with_ties in [false, true] {
        let found = match &question.per_cell {
            Some(_) => lowest_in_cells(question, range, with_ties)?,
            None => lowest(question, range, limit.unwrap_or(u64::MAX), with_ties)?,
        };
        spent.add(&found.stats);
        if let Some(delivery) = deliver(question, found, limit, with_ties)? {
            return Ok(Delivery { stats: spent, ..delivery });
        }
    }
    unreachable!("candidates were told apart")
}

/// At least the `limit + 1` lowest priorities, if there are so many.
fn lowest(question: &Arc<Question>, range: PriorityRange, limit: u64, with_ties: bool) -> Result<Found> {
    let mut found = Found::default();
    let enough = limit.saturating_add(1);
    let mut low = range.first;
    let expected = expected_rows(question, range, &mut found.stats)?.max(1.0);
    let width = (range.last - range.first) as f64;
    // With this many expected, too few would be a rare surprise.
    let mut share = (enough as f64 + 4.0 * (enough as f64).sqrt() + 16.0) / expected;
    loop {
        let last = match share >= 1.0 {
            true => range.last,
            false => (range.first as f64 + width * share).min(range.last as f64) as u64,
        };
        let last = last.clamp(low, range.last);
        let (pipeline, planned) = question.scan(PriorityRange { first: low, last }, wanted(question, with_ties))?;
        found.stats.add(&planned);
        for scanned in pipeline {
            let scanned = scanned?;
            if scanned.rows == 0 {
                found.stats.add(&scanned.stats);
                continue;
            }
            let mut candidates = found.take(question, scanned, with_ties);
            found.candidates.append(&mut candidates);
            // Far more than enough: let go of what cannot be chosen.
            if found.candidates.len() as u64 > enough.saturating_mul(4).max(ALWAYS_HELD) {
                gradual::sort(&mut found.candidates, &question.cancel)?;
                found.candidates.truncate(enough as usize);
                found.compact(&question.cancel)?;
            }
        }
        if last >= range.last || found.candidates.len() as u64 >= enough {
            return Ok(found);
        }
        low = last + 1;
        let seen = (found.candidates.len() as f64).max(0.5);
        share *= (enough as f64 / seen * 1.5).clamp(2.0, 32.0);
    }
}

/// Sorts, cuts at the limit, and makes batches in ascending order of priority.
/// `None` if two candidates have the same priority and were not told apart.
fn deliver(question: &Question, found: Found, limit: Option<u64>, with_ties: bool) -> Result<Option<Delivery>> {
    let Found { parts, mut candidates, mut cutoffs, stats, .. } = found;
    let cancel = &question.cancel;
    gradual::sort(&mut candidates, cancel)?;
    let keep = |candidates: &[Candidate]| (candidates.len() as u64).min(limit.unwrap_or(u64::MAX)) as usize;
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
    let precision = match first_out {
        Some(priority) => Threshold::new(priority as u128).to_fraction().min(question.precision),
        None => question.precision,
    };
    // Given all other records, a record is in the answer if its priority is below that of
    // the first one left out, of all or of its cell: a threshold that does not depend on it
    // (Cohen and Kaplan, "Summarizing data using bottom-k sketches", 2007: rank conditioning).
    let inclusion = |place: usize| {
        let of_cell = cutoffs.get(place).copied().flatten().map(|(priority, ..)| priority);
        let below = [first_out, of_cell].into_iter().flatten().min();
        (below != Some(candidates[place].0)).then(|| question.probability(below))
    };
    let mut batches = VecDeque::new();
    for first in (0..keep).step_by(BATCH_ROWS) {
        let chosen = &candidates[first..keep.min(first + BATCH_ROWS)];
        let of_chosen = || (first..first + chosen.len()).map(inclusion).collect();
        batches.push_back(question.batch(chosen.len(), gather(&parts, chosen, cancel)?, of_chosen)?);
    }
    Ok(Some(Delivery { batches, stats, precision }))
}
