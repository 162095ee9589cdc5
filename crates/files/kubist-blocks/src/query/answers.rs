//! Evaluates the blocks of a task.

use std::fs::File;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, StringArray, UInt32Array};
use arrow_schema::{Field, Schema};
use arrow_select::take::take;
use kubist_expr::{Nulls, Verdict, Zone};
use kubist_index::priority::priorities;
use kubist_types::{Error, ErrorKind, Result};

use super::kept::BatchResult;
use super::values::Values;
use super::{Cell, Drawn, Execution, Task, population, sample};
use crate::files::Member;
use crate::grid::Grid;
use crate::shape::Rect;
use crate::sidecar::Index;
use crate::summary::Summary;

const MAX_REPORTED: usize = 100;

impl Execution<'_> {
    pub(super) fn found(&self, task: &Task) -> Result<Vec<BatchResult>> {
        match self.answers(task, &task.cells.iter().collect::<Vec<_>>()) {
            Err(error) if self.query.skip_damaged && error.kind() == ErrorKind::Corrupt => {
                let mut found = Vec::new();
                for cell in &task.cells {
                    match self.answers(task, &[cell]) {
                        Err(error) if error.kind() == ErrorKind::Corrupt => {
                            let mut damaged = self.damaged.lock().unwrap_or_else(PoisonError::into_inner);
                            if damaged.len() < MAX_REPORTED && !damaged.contains(&error.to_string()) {
                                damaged.push(error.to_string());
                            }
                        }
                        outcome => found.extend(outcome?),
                    }
                }
                Ok(found)
            }
            outcome => outcome,
        }
    }

    fn answers(&self, task: &Task, cells: &[&Cell]) -> Result<Vec<BatchResult>> {
        let grid = &self.grids[task.member];
        let member = &self.files.members[task.member];
        let mut found: Vec<(usize, BatchResult)> = Vec::new();
        let placed = cells.iter().copied().enumerate();
        let (copies, plain): (Vec<_>, Vec<_>) = placed.partition(|(_, cell)| cell.sorted.is_some());
        for (at, cell) in copies {
            found.extend(self.of_sorted(task.member, member, grid, cell)?.map(|found| (at, found)));
        }
        let counted = |cell: &Cell| cell.all && self.is_counted();
        let (whole, open): (Vec<_>, Vec<_>) = plain.into_iter().partition(|(_, cell)| counted(cell));
        let nothing = || RecordBatch::new_empty(self.schema.clone());
        found.extend(
            whole.iter().map(|(at, cell)| {
                (*at, BatchResult { batch: nothing(), priorities: Vec::new(), count: cell.rect.len() })
            }),
        );
        let both: Vec<usize> = grid.read.iter().copied().filter(|column| grid.output.contains(column)).collect();
        let rects = |all: bool| -> Vec<Rect> {
            open.iter().filter(|(_, cell)| all || !cell.all).map(|(_, cell)| cell.rect.clone()).collect()
        };
        let mut values = Values::new(self, member, grid, task.continues);
        if self.rows {
            values.fetch(&both, &rects(true))?;
        }
        values.fetch(&grid.read, &rects(false))?;
        let mut hits = Vec::new();
        for (at, cell) in &open {
            let places = self.places(&values, cell, member)?;
            if !places.is_empty() {
                hits.push((*at, cell.rect.clone(), places));
            }
        }
        if self.rows {
            let rects: Vec<Rect> = hits.iter().map(|(_, rect, _)| rect.clone()).collect();
            values.fetch(&grid.output, &rects)?;
        }
        for (at, rect, places) in hits {
            found.push((at, self.row(task.member, &rect, &places, &|column| values.at(column, &rect, &places))?));
        }
        found.sort_by_key(|(at, _)| *at);
        Ok(found.into_iter().map(|(_, found)| found).collect())
    }

    fn places(&self, values: &Values<'_>, cell: &Cell, member: &Member) -> Result<Vec<u32>> {
        let places = match (&cell.places, self.below) {
            (Some(places), _) => places.clone(),
            (None, Some(below)) => sample::chosen(&cell.rect, below)?,
            (None, None) => (0..sample::countable(&cell.rect)?).collect(),
        };
        if cell.all || places.is_empty() {
            return Ok(places);
        }
        let grid = values.grid;
        let columns =
            grid.read.iter().map(|column| values.at(*column, &cell.rect, &places)).collect::<Result<Vec<_>>>()?;
        if member.index.is_none() && self.below.is_none() {
            self.spare(grid, &columns);
        }
        let batch = batch(grid, &grid.read, columns, places.len())?;
        let selected = grid.predicate.evaluate(&batch, &|| self.cancel.is_set())?;
        Ok(selected.values().set_indices_u32().map(|at| places[at as usize]).collect())
    }

    /// Counts a block that an index would have excluded.
    fn spare(&self, grid: &Grid, columns: &[ArrayRef]) {
        let zones: Vec<(usize, Zone)> = grid
            .read
            .iter()
            .zip(columns)
            .map(|(column, values)| (*column, Summary::of(values).zone(values.data_type())))
            .collect();
        let zone = |column: usize| zones.iter().find(|(own, _)| *own == column).map(|(_, zone)| *zone);
        let unknown = Zone { min: 0, max: u64::MAX, nulls: Nulls::Some };
        if grid.predicate.verdict(&|column| zone(column).unwrap_or(unknown)) == Verdict::None {
            self.spared.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn row(
        &self,
        at: usize,
        rect: &Rect,
        places: &[u32],
        values: &dyn Fn(usize) -> Result<ArrayRef>,
    ) -> Result<BatchResult> {
        let (member, grid) = (&self.files.members[at], &self.grids[at]);
        let count = places.len() as u64;
        if !self.rows {
            return Ok(BatchResult {
                batch: RecordBatch::new_empty(self.schema.clone()),
                priorities: Vec::new(),
                count,
            });
        }
        let mut columns = grid.output.iter().map(|column| values(*column)).collect::<Result<Vec<_>>>()?;
        if grid.names_files {
            let name = member.path.display().to_string();
            columns.insert(0, Arc::new(StringArray::from_iter_values(std::iter::repeat_n(name, places.len()))));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(places.len()));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
            .map_err(|error| Error::internal(error.to_string()))?;
        let priorities = match self.drawn {
            Drawn::Nothing => Vec::new(),
            Drawn::Places => priorities_of(rect, places),
            Drawn::Blocks => vec![population::priority(at, member, grid, rect)?; places.len()],
        };
        Ok(BatchResult { batch, priorities, count })
    }

    fn of_sorted(&self, at: usize, member: &Member, grid: &Grid, cell: &Cell) -> Result<Option<BatchResult>> {
        let Some((block, low, high)) = cell.sorted else { return Ok(None) };
        let Some((index, copy)) = member.index.as_ref().and_then(|index| {
            let copy = index.variables[grid.driver].as_ref()?.sorted.as_ref()?.find(block)?;
            Some((index, copy))
        }) else {
            return Ok(None);
        };
        let file = self.sidecar(at, index)?;
        let variable = &member.layout().variables[grid.driver];
        let Some(slice) = copy.slice(&file, &index.path.display().to_string(), variable, low, high)? else {
            return Ok(None);
        };
        self.sorted.requests.fetch_add(1, Ordering::Relaxed);
        self.sorted.bytes.fetch_add(slice.bytes, Ordering::Relaxed);
        let whole = member.tiling(grid.driver)?.rect(block);
        if slice.places.iter().any(|place| u64::from(*place) >= whole.len()) {
            return Err(Error::Damaged {
                file: index.path.display().to_string(),
                offset: copy.offset,
                what: "a sorted value has a position outside of its block".into(),
            });
        }
        let mut values = Values::new(self, member, grid, false);
        let near: Vec<usize> =
            grid.read.iter().chain(&grid.output).copied().filter(|column| *column != grid.driver).collect();
        values.fetch(&near, std::slice::from_ref(&whole))?;
        let column = |places: &[u32], of: &ArrayRef, column: usize| match column == grid.driver {
            true => Ok(of.clone()),
            false => values.at(column, &whole, places),
        };
        let columns =
            grid.read.iter().map(|own| column(&slice.places, &slice.values, *own)).collect::<Result<Vec<_>>>()?;
        let batch = batch(grid, &grid.read, columns, slice.places.len())?;
        let selected = grid.predicate.evaluate(&batch, &|| self.cancel.is_set())?;
        let is_inside = |row: &u32| {
            let at = slice.places[*row as usize];
            (0..grid.dimensions.len()).all(|axis| {
                let below: u64 = whole.count[axis + 1..].iter().product();
                let own = whole.start[axis] + u64::from(at) / below % whole.count[axis];
                (cell.rect.start[axis]..cell.rect.start[axis] + cell.rect.count[axis]).contains(&own)
            })
        };
        let mut rows: Vec<u32> = selected.values().set_indices_u32().filter(is_inside).collect();
        // Restores the order of the file, as without the sorted copy.
        rows.sort_by_key(|row| slice.places[*row as usize]);
        if let Some(below) = self.below {
            let places: Vec<u32> = rows.iter().map(|row| slice.places[*row as usize]).collect();
            let mut own = priorities_of(&whole, &places).into_iter();
            rows.retain(|_| own.next().is_some_and(|own| below.admits(own)));
        }
        if rows.is_empty() {
            return Ok(None);
        }
        let places: Vec<u32> = rows.iter().map(|row| slice.places[*row as usize]).collect();
        let kept = take(&slice.values, &UInt32Array::from(rows), None).map_err(Error::kernel)?;
        self.row(at, &whole, &places, &|own| column(&places, &kept, own)).map(Some)
    }

    fn sidecar(&self, at: usize, index: &Index) -> Result<Arc<File>> {
        let mut sidecars = self.sidecars.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = sidecars.get(&at) {
            return Ok(file.clone());
        }
        let file = File::open(&index.path)
            .map_err(|error| Error::io(format!("cannot open {}: {error}", index.path.display()), error))?;
        let file = Arc::new(file);
        sidecars.insert(at, file.clone());
        Ok(file)
    }
}

/// The priorities of places. They are the same in every file and for every variable.
fn priorities_of(rect: &Rect, places: &[u32]) -> Vec<u64> {
    let columns: Vec<ArrayRef> = (0..rect.count.len()).map(|axis| Grid::index(rect, axis, places)).collect();
    let columns: Vec<&dyn Array> = columns.iter().map(AsRef::as_ref).collect();
    priorities(&columns, places.len(), 0)
}

fn batch(grid: &Grid, columns: &[usize], arrays: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let fields: Vec<Field> = columns.iter().map(|column| grid.schema.field(*column).clone()).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
        .map_err(|error| Error::internal(error.to_string()))
}
