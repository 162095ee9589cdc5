//! Choosing by priority: the lowest of all (`limit`) and the lowest in each cell
//! of a grid (`per_cell`), without knowing the density beforehand.
//!
//! Windows of rising priority are scanned, each record once, until enough is
//! found. Equal priorities are told apart by a hash over all columns of the
//! record in canonical form, so that the choice does not depend on where or when
//! a record was stored; that hash is only computed once a tie is met.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use arrow_array::{Array, ArrayRef};
use arrow_select::interleave::interleave;
use kubist_index::order;
use kubist_index::priority::{PriorityRange, Threshold, is_identity_type, priorities};

use crate::query::Question;
use crate::query::delivery::Delivery;
use crate::query::scan::{Scanned, Visit, Wanted};
use kubist_format::zone_map::ZoneMap;
use kubist_types::error::{Error, Result};
use kubist_types::stats::Stats;

/// Rows of a batch of the answer.
const BATCH_ROWS: usize = 65_536;
/// Windows grow by this factor when the matches cannot be estimated.
const GROWTH: f64 = 8.0;
/// A zone that spans more cells than this is read without asking whether all are full.
const MOST_CELLS: i64 = 64;

/// A record under consideration: priority, tie-breaker, part, row in the part.
type Candidate = (u64, u64, u32, u32);

/// Scanned columns of the candidates, and what it cost.
#[derive(Default)]
struct Found {
    parts: Vec<Vec<ArrayRef>>,
    candidates: Vec<Candidate>,
    /// If inclusion probabilities are asked, of each candidate the first one that its cell
    /// leaves out, which is a candidate too. Candidates are sorted then.
    cutoffs: Vec<Option<Candidate>>,
    /// Rows of all parts, chosen or not.
    rows: usize,
    stats: Stats,
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
fn wanted(question: &Question, with_ties: bool) -> Wanted {
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
    fn take(&mut self, question: &Question, mut scanned: Scanned, with_ties: bool) -> Vec<Candidate> {
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

    /// Keeps only the columns of candidates, in one part, in their order.
    fn compact(&mut self) -> Result<()> {
        let columns = gather(&self.parts, &self.candidates)?;
        self.parts = vec![columns];
        self.rows = self.candidates.len();
        for (row, candidate) in self.candidates.iter_mut().enumerate() {
            (candidate.2, candidate.3) = (0, row as u32);
        }
        Ok(())
    }
}

/// The columns of candidates, in their order.
fn gather(parts: &[Vec<ArrayRef>], candidates: &[Candidate]) -> Result<Vec<ArrayRef>> {
    let places: Vec<(usize, usize)> =
        candidates.iter().map(|(_, _, part, row)| (*part as usize, *row as usize)).collect();
    let columns = parts.iter().map(Vec::len).max().unwrap_or(0);
    (0..columns)
        .map(|column| {
            let arrays: Vec<&dyn Array> = parts.iter().map(|part| part[column].as_ref()).collect();
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
            if found.candidates.len() as u64 > enough.saturating_mul(4).max(1 << 20) {
                found.candidates.select_nth_unstable(enough as usize);
                found.candidates.truncate(enough as usize);
                found.compact()?;
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

/// A cell of the grid: its index in each of the grid's dimensions.
type Cell = Vec<i64>;

/// The lowest priorities of each cell so far, the highest of them on top.
type Cells = HashMap<Cell, BinaryHeap<Candidate>>;

/// The index of a value's cell. NaN has a cell of its own, and so has null.
fn cell_index(value: f64, anchor: f64, width: f64) -> i64 {
    if value.is_nan() { i64::MAX } else { ((value - anchor) / width).floor().clamp(-9e18, 9e18) as i64 }
}

fn lowest_in_cells(question: &Arc<Question>, range: PriorityRange, with_ties: bool) -> Result<Found> {
    let Some((per_cell, columns)) = &question.per_cell else { return Ok(Found::default()) };
    let core = &question.snapshot.core;
    // The first that a cell leaves out says how likely the others were to be in.
    let first_out = usize::from(question.inclusion.is_some());
    let rows = (per_cell.rows as usize).saturating_add(first_out);
    let anchor = |column: &usize| {
        let d = core.created.dimensions.iter().position(|dimension| dimension == column);
        question.frame.as_ref().zip(d).map_or(0.0, |(frame, d)| frame.scales[d].domain().0)
    };
    let grid: Vec<(usize, f64, f64)> =
        columns.iter().zip(&per_cell.widths).map(|(column, (_, width))| (*column, anchor(column), *width)).collect();
    let cells: Arc<Mutex<Cells>> = Arc::default();
    let mut held = 0u64;
    let mut found = Found::default();
    let mut wanted = wanted(question, with_ties);
    wanted.columns.extend(columns);
    let (mut low, width) = (range.first, (range.last - range.first) as f64);
    let mut share = 16_384.0 / expected_rows(question, range, &mut found.stats)?.max(1.0);
    loop {
        let last = if share >= 1.0 { range.last } else { (range.first as f64 + width * share) as u64 };
        let window = PriorityRange { first: low, last: last.clamp(low, range.last) };
        let (visits, planned) = question.visits(window)?;
        found.stats.add(&planned);
        let full = full_cells(&cells, rows);
        let (grid_of_zones, data_types) = (grid.clone(), core.created.clone());
        let skip = move |map: &ZoneMap, zone: usize| all_full(&full, &grid_of_zones, &data_types, map, zone);
        let visits: Vec<Visit> = visits;
        for scanned in question.scan_visits(visits, window, wanted.clone(), Arc::new(skip)) {
            let mut scanned = scanned?;
            if scanned.rows == 0 {
                found.stats.add(&scanned.stats);
                continue;
            }
            let of_grid = scanned.columns.split_off(scanned.columns.len() - grid.len());
            let indices: Vec<Vec<i64>> =
                of_grid.iter().zip(&grid).map(|(array, cell)| cell_indices(array, cell)).collect();
            let candidates = found.take(question, scanned, with_ties);
            let mut cells = cells.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            for (row, candidate) in candidates.into_iter().enumerate() {
                let heap = cells.entry(indices.iter().map(|index| index[row]).collect()).or_default();
                heap.push(candidate);
                held += 1;
                while heap.len() > rows && !(heap.len() == rows + 1 && tied_at_top(heap)) {
                    heap.pop();
                    held -= 1;
                }
            }
            if question.most_held.is_some_and(|most| held > most) {
                return Err(Error::invalid(format!(
                    "per_cell: more than {} records would be chosen: take wider cells, fewer records of each, \
                     or a smaller box",
                    question.most_held.unwrap_or_default()
                )));
            }
            if found.rows as u64 > 4 * held.max(1 << 20) {
                let chosen = let_go(&mut cells, &mut found)?;
                put_back(&mut cells, chosen, &found);
            }
        }
        let mut cells = cells.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let chosen = let_go(&mut cells, &mut found)?;
        if window.last >= range.last {
            if question.inclusion.is_some() {
                let mut of_cells: HashMap<&Cell, Vec<Candidate>> = HashMap::new();
                for ((cell, _), candidate) in chosen.iter().zip(&found.candidates) {
                    of_cells.entry(cell).or_default().push(*candidate);
                }
                let cutoff = |(cell, _): &(Cell, Candidate)| of_cells[cell].get(per_cell.rows as usize).copied();
                found.cutoffs = chosen.iter().map(cutoff).collect();
            }
            return Ok(found);
        }
        put_back(&mut cells, chosen, &found);
        low = window.last + 1;
        share *= GROWTH;
    }
}

/// Only what is still chosen stays in memory: takes it out of the cells, in order, as the
/// candidates.
fn let_go(cells: &mut Cells, found: &mut Found) -> Result<Vec<(Cell, Candidate)>> {
    let of_cell = |(cell, heap): (Cell, BinaryHeap<Candidate>)| {
        heap.into_iter().map(move |candidate| (cell.clone(), candidate)).collect::<Vec<_>>()
    };
    let mut chosen: Vec<(Cell, Candidate)> = cells.drain().flat_map(of_cell).collect();
    chosen.sort_unstable_by_key(|(_, candidate)| *candidate);
    found.candidates = chosen.iter().map(|(_, candidate)| *candidate).collect();
    if !found.parts.is_empty() {
        found.compact()?;
    }
    Ok(chosen)
}

fn put_back(cells: &mut Cells, chosen: Vec<(Cell, Candidate)>, found: &Found) {
    for ((cell, _), candidate) in chosen.into_iter().zip(&found.candidates) {
        cells.entry(cell).or_default().push(*candidate);
    }
}

/// Are the two highest of a heap equal in priority and not told apart? Then both
/// stay, so that the tie is noticed.
fn tied_at_top(heap: &BinaryHeap<Candidate>) -> bool {
    let mut top: Vec<Candidate> = heap.iter().copied().collect();
    top.sort_unstable_by_key(|candidate| Reverse(*candidate));
    top.len() > 1 && (top[0].0, top[0].1) == (top[1].0, top[1].1) && top[0].1 == 0
}

fn cell_indices(array: &ArrayRef, (_, anchor, width): &(usize, f64, f64)) -> Vec<i64> {
    let keys = order::keys(array.as_ref()).unwrap_or_default();
    let rows = keys.iter().enumerate();
    rows.map(|(row, key)| match array.is_null(row) {
        true => i64::MIN,
        false => cell_index(order::number(array.data_type(), *key), *anchor, *width),
    })
    .collect()
}

/// The cells that need no more records: later windows have higher priorities.
fn full_cells(cells: &Mutex<Cells>, rows: usize) -> std::collections::HashSet<Cell> {
    let cells = cells.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    cells.iter().filter(|(_, heap)| heap.len() >= rows).map(|(cell, _)| cell.clone()).collect()
}

/// Are all cells that a zone may touch full?
fn all_full(
    full: &std::collections::HashSet<Cell>,
    grid: &[(usize, f64, f64)],
    schema: &kubist_catalog::schema::TableSchema,
    map: &ZoneMap,
    zone: usize,
) -> bool {
    if full.is_empty() {
        return false;
    }
    let mut ranges = Vec::with_capacity(grid.len());
    let mut count = 1i64;
    for (column, anchor, width) in grid {
        let data_type = schema.stored.field(*column).data_type();
        let zones = &map.columns[*column];
        let (min, max) = (zones.min[zone], zones.max[zone]);
        let (first_number, last_number) = order::number_keys(data_type);
        if zones.nulls_of(zone) > 0 || min < first_number || max > last_number {
            return false;
        }
        let first = cell_index(order::number(data_type, min), *anchor, *width);
        let last = cell_index(order::number(data_type, max), *anchor, *width);
        count = count.saturating_mul(last.saturating_sub(first).saturating_add(1));
        if count > MOST_CELLS {
            return false;
        }
        ranges.push((first, last));
    }
    let mut cell: Cell = ranges.iter().map(|(first, _)| *first).collect();
    loop {
        if !full.contains(&cell) {
            return false;
        }
        let Some(d) = (0..cell.len()).find(|d| cell[*d] < ranges[*d].1) else { return true };
        cell[d] += 1;
        cell[..d].iter_mut().zip(&ranges).for_each(|(index, (first, _))| *index = *first);
    }
}

/// Sorts, cuts at the limit, and makes batches in ascending order of priority.
/// `None` if two candidates have the same priority and were not told apart.
fn deliver(question: &Question, found: Found, limit: Option<u64>, with_ties: bool) -> Result<Option<Delivery>> {
    let Found { parts, mut candidates, mut cutoffs, stats, .. } = found;
    candidates.sort_unstable();
    let keep = |candidates: &[Candidate]| (candidates.len() as u64).min(limit.unwrap_or(u64::MAX)) as usize;
    let matter = if cutoffs.is_empty() { keep(&candidates).saturating_add(1) } else { candidates.len() };
    let compared = &candidates[..candidates.len().min(matter)];
    if !with_ties && compared.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return Ok(None);
    }
    if !cutoffs.is_empty() {
        let inside = |(candidate, cutoff): &(Candidate, Option<Candidate>)| cutoff.is_none_or(|cut| *candidate < cut);
        (candidates, cutoffs) = candidates.into_iter().zip(cutoffs).filter(inside).unzip();
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
        question.cancel.check()?;
        let chosen = &candidates[first..keep.min(first + BATCH_ROWS)];
        let of_chosen = || (first..first + chosen.len()).map(inclusion).collect();
        batches.push_back(question.batch(chosen.len(), gather(&parts, chosen)?, of_chosen)?);
    }
    Ok(Some(Delivery { batches, stats, precision }))
}
