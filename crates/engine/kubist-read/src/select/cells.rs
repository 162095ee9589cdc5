//! Selects the lowest priorities in each cell of a regular grid. A cell has a heap of its lowest rows so
//! far. If all cells that a zone may touch have enough rows, later windows (of higher priorities) skip the
//! zone.

use std::collections::{BinaryHeap, HashMap, HashSet};
use std::sync::Arc;

use kubist_index::order;

use super::candidates::{ALWAYS_HELD, Candidate, Candidates, wanted};
use crate::bind::{Axis, CellGrid};
use crate::execute::{self, Skips};
use crate::plan::Planner;
use kubist_catalog::schema::TableSchema;
use kubist_format::zone_map::ZoneMap;
use kubist_index::gradual;
use kubist_types::cancel::Cancel;
use kubist_types::error::{Error, Result};

/// Growth factor of windows, because the matches per cell cannot be estimated.
const GROWTH: f64 = 8.0;
/// A zone that spans more cells than this is read without a check.
const MOST_CELLS: i64 = 64;
#[derive(Default)]
struct Cells {
    numbers: HashMap<Box<[i64]>, u32>,
    heaps: Vec<BinaryHeap<Candidate>>,
    held: u64,
}

impl Cells {
    fn number(&mut self, cell: &[i64]) -> usize {
        if let Some(number) = self.numbers.get(cell) {
            return *number as usize;
        }
        self.numbers.insert(cell.into(), self.heaps.len() as u32);
        self.heaps.push(BinaryHeap::new());
        self.heaps.len() - 1
    }

    /// Adds a candidate. The cell keeps the `rows` lowest, and one more if a tie requires it.
    fn add(&mut self, cell: usize, candidate: Candidate, rows: usize) {
        let heap = &mut self.heaps[cell];
        if heap.len() > rows && heap.peek().is_some_and(|top| candidate > *top) {
            return;
        }
        heap.push(candidate);
        self.held += 1;
        while heap.len() > rows && !(heap.len() == rows + 1 && tied_at_top(heap)) {
            heap.pop();
            self.held -= 1;
        }
    }

    /// The cells that need no more rows, because later windows have higher priorities.
    fn full(&self, rows: usize, cancel: &Cancel) -> Result<HashSet<Box<[i64]>>> {
        let mut full = HashSet::new();
        for (place, (cell, number)) in self.numbers.iter().enumerate() {
            if place % gradual::PIECE == 0 {
                cancel.check()?;
            }
            if self.heaps[*number as usize].len() >= rows {
                full.insert(cell.clone());
            }
        }
        Ok(full)
    }

    /// Frees the columns of rows that are no longer chosen. Moves all rows from the cells to
    /// `found.candidates` in order, and returns their cells.
    fn let_go(&mut self, found: &mut Candidates, cancel: &Cancel) -> Result<Vec<u32>> {
        let mut chosen = Vec::with_capacity(self.held as usize);
        for (number, heap) in self.heaps.iter_mut().enumerate() {
            let of_heap = std::mem::take(heap).into_vec();
            for piece in gradual::pieces(of_heap.len(), cancel) {
                chosen.extend(of_heap[piece?].iter().map(|candidate| (*candidate, number as u32)));
            }
        }
        self.held = 0;
        gradual::sort(&mut chosen, cancel)?;
        let mut of_cells = Vec::with_capacity(chosen.len());
        found.candidates = Vec::with_capacity(chosen.len());
        for piece in gradual::pieces(chosen.len(), cancel) {
            let piece = piece?;
            found.candidates.extend(chosen[piece.clone()].iter().map(|(candidate, _)| *candidate));
            of_cells.extend(chosen[piece].iter().map(|(_, cell)| *cell));
        }
        found.compact(cancel)?;
        Ok(of_cells)
    }

    fn put_back(&mut self, of_cells: &[u32], found: &Candidates, cancel: &Cancel) -> Result<()> {
        for piece in gradual::pieces(of_cells.len(), cancel) {
            let piece = piece?;
            for (cell, candidate) in of_cells[piece.clone()].iter().zip(&found.candidates[piece]) {
                self.heaps[*cell as usize].push(*candidate);
                self.held += 1;
            }
        }
        Ok(())
    }
}

/// True if the two highest rows have equal priorities without tie-breakers. Both then stay, so that the tie
/// is detected.
fn tied_at_top(heap: &BinaryHeap<Candidate>) -> bool {
    // In a binary heap, the second highest is one of the two entries below the top.
    let (top, below) = match heap.as_slice() {
        [top, one] => (top, one),
        [top, one, other, ..] => (top, one.max(other)),
        _ => return false,
    };
    (top.0, top.1) == (below.0, below.1) && top.1 == 0
}

/// For inclusion probabilities, also selects the first row that a cell leaves out, which defines the
/// probability of the others.
pub(super) fn lowest_in_cells(planner: &mut Planner, grid: &CellGrid, with_ties: bool) -> Result<Candidates> {
    let query = &*planner.logical.query.clone();
    let (axes, cancel) = (&grid.axes, &query.cancel);
    let first_out = usize::from(query.inclusion.is_some());
    let rows = usize::try_from(grid.rows).unwrap_or(usize::MAX).saturating_add(first_out).min(usize::MAX - 1);
    let (mut cells, mut found) = (Cells::default(), Candidates::default());
    let mut wanted = wanted(query, with_ties);
    wanted.columns.extend(axes.iter().map(|axis| axis.column));
    let mut windows = planner.windows(&mut found.stats)?;
    let mut cell = vec![0; axes.len()];
    loop {
        let pieces = planner.pieces(windows.current(), &mut found.stats)?;
        let full = cells.full(rows, cancel)?;
        let (axes_of_zones, schema) = (axes.clone(), query.snapshot.core.created.clone());
        let skip = move |map: &ZoneMap, zone: usize| all_full(&full, &axes_of_zones, &schema, map, zone);
        let skips = Skips { zones: Some(Arc::new(skip)), ..Skips::default() };
        let mut work = execute::work(pieces, wanted.clone(), skips, Ok);
        for scanned in &mut work {
            let mut scanned = scanned?;
            cancel.check()?;
            if scanned.rows == 0 {
                found.stats.add(&scanned.stats);
                continue;
            }
            let of_grid = scanned.columns.split_off(scanned.columns.len() - axes.len());
            let indices: Vec<Vec<i64>> =
                of_grid.iter().zip(axes).map(|(array, axis)| axis.indices(array)).collect::<Result<_>>()?;
            let candidates = found.take(query, scanned, with_ties);
            for piece in gradual::pieces(candidates.len(), cancel) {
                for row in piece? {
                    cell.iter_mut().zip(&indices).for_each(|(index, of_axis)| *index = of_axis[row]);
                    let number = cells.number(&cell);
                    cells.add(number, candidates[row], rows);
                }
            }
            if query.most_held.is_some_and(|most| cells.held > most) {
                return Err(Error::invalid(format!(
                    "per_cell: more than {} records would be chosen: take wider cells, fewer records of each, \
                     or a smaller box",
                    query.most_held.unwrap_or_default()
                )));
            }
            if found.rows as u64 > 4 * cells.held.max(ALWAYS_HELD) {
                let of_cells = cells.let_go(&mut found, cancel)?;
                cells.put_back(&of_cells, &found, cancel)?;
            }
        }
        found.stats.add(&work.planning);
        let of_cells = cells.let_go(&mut found, cancel)?;
        if windows.is_last() {
            if query.inclusion.is_some() {
                found.cutoffs = cutoffs(&found.candidates, &of_cells, cells.heaps.len(), grid.rows, cancel)?;
            }
            return Ok(found);
        }
        cells.put_back(&of_cells, &found, cancel)?;
        windows.grow(GROWTH);
    }
}

/// For each sorted candidate, the row after the `rows` lowest in its cell.
fn cutoffs(
    candidates: &[Candidate],
    of_cells: &[u32],
    cells: usize,
    rows: u64,
    cancel: &Cancel,
) -> Result<Vec<Option<Candidate>>> {
    let mut met: Vec<(u64, Option<Candidate>)> = vec![(0, None); cells];
    for piece in gradual::pieces(of_cells.len(), cancel) {
        let piece = piece?;
        for (cell, candidate) in of_cells[piece.clone()].iter().zip(&candidates[piece]) {
            let (count, cutoff) = &mut met[*cell as usize];
            if *count == rows {
                *cutoff = Some(*candidate);
            }
            *count += 1;
        }
    }
    let mut cutoffs = Vec::with_capacity(of_cells.len());
    for piece in gradual::pieces(of_cells.len(), cancel) {
        cutoffs.extend(of_cells[piece?].iter().map(|cell| met[*cell as usize].1));
    }
    Ok(cutoffs)
}

/// True if all cells that a zone may touch are full.
fn all_full(full: &HashSet<Box<[i64]>>, axes: &[Axis], schema: &TableSchema, map: &ZoneMap, zone: usize) -> bool {
    if full.is_empty() {
        return false;
    }
    let mut ranges = Vec::with_capacity(axes.len());
    let mut count = 1i64;
    for axis in axes {
        let data_type = schema.stored.field(axis.column).data_type();
        let zones = &map.columns[axis.column];
        let (min, max) = (zones.min[zone], zones.max[zone]);
        let (first_number, last_number) = order::number_keys(data_type);
        if zones.nulls_of(zone) > 0 || min < first_number || max > last_number {
            return false;
        }
        let index = |key| axis.index(order::number(data_type, key));
        let (Some(first), Some(last)) = (index(min), index(max)) else { return false };
        count = count.saturating_mul(last.saturating_sub(first).saturating_add(1));
        if count > MOST_CELLS {
            return false;
        }
        ranges.push((first, last));
    }
    let mut cell: Vec<i64> = ranges.iter().map(|(first, _)| *first).collect();
    loop {
        if !full.contains(&cell[..]) {
            return false;
        }
        let Some(d) = (0..cell.len()).find(|d| cell[*d] < ranges[*d].1) else { return true };
        cell[d] += 1;
        cell[..d].iter_mut().zip(&ranges).for_each(|(index, (first, _))| *index = *first);
    }
}
