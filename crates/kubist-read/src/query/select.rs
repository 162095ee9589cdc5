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

use arrow_array::{Array, ArrayRef};
use arrow_select::interleave::interleave;
use kubist_index::priority::{PriorityRange, Threshold, is_identity_type, priorities};

use crate::query::Question;
use crate::query::cells::lowest_in_cells;
use crate::query::delivery::Delivery;
use crate::query::scan::{Scanned, Wanted};
use kubist_types::{Cancel, Result, Stats, gradual};

/// Rows of a batch of the answer.
const BATCH_ROWS: usize = 65_536;
/// Candidates and their columns are held until there are so many, whatever is asked for.
pub(super) const ALWAYS_HELD: u64 = 1 << 20;

/// A record under consideration: priority, tie-breaker, part, row in the part.
pub(super) type Candidate = (u64, u64, u32, u32);

/// Scanned columns of the candidates, and what it cost.
#[derive(Default)]
pub(super) struct Found {
    pub parts: Vec<Vec<ArrayRef>>,
    pub candidates: Vec<Candidate>,
    /// If inclusion probabilities are asked, of each candidate the first one that its cell
    /// leaves out, which is a candidate too. Candidates are sorted then.
    pub cutoffs: Vec<Option<Candidate>>,
    /// Rows of all parts, chosen or not.
    pub rows: usize,
    pub stats: Stats,
}

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

/// The columns that a scan brings: the answer's, then, to tell ties apart, all
/// that can be hashed.
pub(super) fn wanted(question: &Question, with_ties: bool) -> Wanted {
    let mut columns = question.columns.clone();
    if with_ties {
        columns.extend(tie_columns(question));
    }
    Wanted { columns, priorities: true }
}

fn tie_columns(question: &Question) -> impl Iterator<Item = usize> + '_ {
    let fields = question.snapshot.view.schema.stored.fields();
    (0..fields.len()).filter(|column| is_identity_type(fields[*column].data_type()))
}

impl Found {
    /// Takes scanned rows; gives the candidates among them.
    pub fn take(&mut self, question: &Question, mut scanned: Scanned, with_ties: bool) -> Vec<Candidate> {
        self.stats.add(&scanned.stats);
        let mut ties = vec![0; scanned.rows];
        if with_ties && scanned.rows > 0 {
            let of_ties = &scanned.columns[question.columns.len()..][..tie_columns(question).count()];
            let columns: Vec<&dyn Array> = of_ties.iter().map(|array| array.as_ref()).collect();
            ties = priorities(&columns, scanned.rows, 0);
        }
        let part = self.parts.len() as u32;
        let rows = scanned.priorities.iter().zip(ties).enumerate();
        let candidates = rows.map(|(row, (priority, tie))| (*priority, tie, part, row as u32)).collect();
        scanned.columns.truncate(question.columns.len());
        self.parts.push(scanned.columns);
        self.rows += scanned.rows;
        candidates
    }

    /// Keeps only the columns of candidates, in their order.
    pub fn compact(&mut self, cancel: &Cancel) -> Result<()> {
        let mut parts = Vec::with_capacity(self.candidates.len().div_ceil(BATCH_ROWS));
        for chosen in self.candidates.chunks_mut(BATCH_ROWS) {
            let part = parts.len() as u32;
            parts.push(gather(&self.parts, chosen, cancel)?);
            for (row, candidate) in chosen.iter_mut().enumerate() {
                (candidate.2, candidate.3) = (part, row as u32);
            }
        }
        self.parts = parts;
        self.rows = self.candidates.len();
        Ok(())
    }
}

/// The columns of candidates, in their order.
fn gather(parts: &[Vec<ArrayRef>], candidates: &[Candidate], cancel: &Cancel) -> Result<Vec<ArrayRef>> {
    // Only of parts that have one of them: what is in order lies in few.
    let mut used: Vec<u32> = candidates.iter().map(|(_, _, part, _)| *part).collect();
    used.sort_unstable();
    used.dedup();
    let place = |(_, _, part, row): &Candidate| (used.partition_point(|used| used < part), *row as usize);
    let places: Vec<(usize, usize)> = candidates.iter().map(place).collect();
    let columns = parts.iter().map(Vec::len).max().unwrap_or(0);
    (0..columns)
        .map(|column| {
            cancel.check()?;
            let arrays: Vec<&dyn Array> = used.iter().map(|part| parts[*part as usize][column].as_ref()).collect();
            Ok(interleave(&arrays, &places)?)
        })
        .collect()
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

/// About how many records lie in the box: runs by the part of their own box that
/// the question's box covers, or one for each zone that a lookup names.
pub(super) fn expected_rows(question: &Question, range: PriorityRange, stats: &mut Stats) -> Result<f64> {
    if question.is_everywhere() {
        return Ok(question.snapshot.view.rows() as f64);
    }
    let (visits, planned) = question.visits(range)?;
    // What lookups read for it is not read again.
    stats.bytes_read += planned.bytes_read;
    let expected = visits.iter().map(|visit| {
        if let Some(zones) = &visit.zones {
            return zones.len() as f64;
        }
        visit.run.rows as f64 * question.share_in_box(visit)
    });
    Ok(expected.sum())
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
