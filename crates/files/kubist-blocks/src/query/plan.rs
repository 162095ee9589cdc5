//! Selects the blocks that can contain results, and groups them into tasks.

use kubist_expr::{Keys, Nulls, Verdict, Zone};
use kubist_index::order::Keyed;
use kubist_types::{Error, Result};

use super::{Cell, Execution, Extent, Placed, Report, Task};
use crate::fetch;
use crate::files::Member;
use crate::grid::{Column, Grid};
use crate::layout::Storage;
use crate::shape::{Rect, Tiling};
use crate::sidecar::Indexed;
use crate::summary::{self, Summary};

const TASK_BYTES: u64 = 4 << 20;
/// The maximum byte range of a task, because gaps need memory too.
const SPAN: u64 = 64 << 20;
/// The maximum number of blocks that are examined one by one, because a sparse array may have any size.
const MOST_UNWRITTEN: u64 = 1 << 20;

impl Execution<'_> {
    pub(super) fn plan(&self, report: &mut Report) -> Result<Vec<Task>> {
        self.tasks(self.cells(report)?, report)
    }

    /// The cells that can contain results. This needs only the index.
    pub(super) fn cells(&self, report: &mut Report) -> Result<Vec<Placed>> {
        let mut cells = Vec::new();
        for (at, member) in self.files.members.iter().enumerate() {
            self.cancel.check()?;
            match &member.index {
                Some(index) => crate::source::is_still(&member.path, &index.key)?,
                None => report.files_scanned += 1,
            }
            let grid = &self.grids[at];
            let tiling = member.tiling(grid.driver)?;
            report.positions += Rect::whole(tiling.shape()).len();
            report.blocks += tiling.filled();
            let selection =
                BlockSelection { execution: self, member, grid, tiling: &tiling, keys: self.sortable(member, grid) };
            cells.extend(selection.cells()?.into_iter().map(|(extent, cell)| (at, extent, cell)));
        }
        Ok(cells)
    }

    /// Groups cells into tasks, restricted to the positions of the sample.
    pub(super) fn tasks(&self, cells: Vec<Placed>, report: &mut Report) -> Result<Vec<Task>> {
        let cells = self.sampled(cells)?;
        let mut tasks = Vec::new();
        report.files_read = 0;
        for of_file in cells.chunk_by(|(one, ..), (other, ..)| one == other) {
            for (_, _, cell) in of_file {
                report.blocks_all += u64::from(cell.all);
                let read = if cell.sorted.is_some() { &mut report.blocks_sorted } else { &mut report.blocks_read };
                *read += 1;
            }
            report.files_read += 1;
            self.shared_out(of_file, &mut tasks);
        }
        Ok(tasks)
    }

    fn shared_out(&self, cells: &[Placed], tasks: &mut Vec<Task>) {
        let Some((at, ..)) = cells.first().cloned() else { return };
        let variable = &self.files.members[at].layout().variables[self.grids[at].driver];
        let width = variable.number.bytes();
        let chunk = match &variable.storage {
            Storage::Chunks { shape, filters, .. } if !filters.is_empty() => {
                Some(shape.iter().product::<u64>() * width)
            }
            _ => None,
        };
        let gap = self.gap(at);
        let (mut end, mut bytes, mut begin) = (0u64, u64::MAX, 0);
        for (_, (start, stop), cell) in cells.iter().cloned() {
            let near = start <= end.saturating_add(gap) && bytes != u64::MAX && start != u64::MAX;
            let inside = stop <= end && matches!(variable.storage, Storage::Chunks { .. } | Storage::Pages { .. });
            let own = chunk.unwrap_or_else(|| cell.rect.len() * width);
            let fits = bytes.saturating_add(own) <= TASK_BYTES && stop.saturating_sub(begin) <= SPAN;
            match tasks.last_mut() {
                Some(task) if near && (inside || fits) => {
                    task.cells.push(cell);
                    bytes += if inside && chunk.is_some() { 0 } else { own };
                }
                _ => {
                    tasks.push(Task { member: at, continues: near, cells: vec![cell] });
                    (bytes, begin) = (own, start);
                }
            }
            end = if start == u64::MAX { end } else { end.max(stop) };
        }
    }

    /// The range of keys of the selected rows in the driver, if sorted copies are sufficient: if no other variable must
    /// be read at each position.
    fn sortable(&self, member: &Member, grid: &Grid) -> Option<(u64, u64)> {
        let is_near = |column: &usize| match &grid.columns[*column] {
            Column::Index { .. } => true,
            Column::Variable { variable, axes } => *variable == grid.driver || axes.len() < grid.dimensions.len(),
        };
        if !self.options.use_sorted || !grid.read.iter().chain(&grid.output).all(is_near) {
            return None;
        }
        member.known(grid.driver)?.sorted.as_ref()?;
        let Keys { numbers, others } = grid.predicate.keys_of(grid.driver);
        numbers.filter(|keys| !others && *keys != (0, u64::MAX))
    }
}

/// Selects blocks. Unwritten blocks are examined in large rectangles.
struct BlockSelection<'a> {
    execution: &'a Execution<'a>,
    member: &'a Member,
    grid: &'a Grid,
    tiling: &'a Tiling,
    keys: Option<(u64, u64)>,
}

impl BlockSelection<'_> {
    fn cells(&self) -> Result<Vec<(Extent, Cell)>> {
        let grid = self.grid;
        // Variables with the same blocks use their own summaries.
        let in_same_blocks = |column: &Column| match column {
            Column::Variable { variable, axes } if axes.len() == grid.dimensions.len() => {
                self.member.known(*variable).filter(|indexed| indexed.tiling == *self.tiling)
            }
            _ => None,
        };
        let same: Vec<Option<&Indexed>> = grid.columns.iter().map(in_same_blocks).collect();
        let mut cells = Vec::new();
        let mut each = |block: u64| -> Result<()> {
            let Some(rect) = self.tiling.rect(block).intersect(&grid.region) else { return Ok(()) };
            let verdict = grid.predicate.verdict(&|column| match same[column] {
                Some(indexed) => indexed.summaries.get(block).zone(grid.schema.field(column).data_type()),
                None => zone(self.member, grid, column, &rect),
            });
            if verdict != Verdict::None {
                cells.push(self.cell(block, rect, verdict == Verdict::All)?);
            }
            Ok(())
        };
        let variable = &self.member.layout().variables[grid.driver];
        let mut unwritten = Vec::new();
        match summary::written(variable, self.tiling) {
            None => self.tiling.blocks_over(&grid.region).into_iter().try_for_each(&mut each)?,
            Some(written) => {
                for chunk in self.apart(&grid.region, written, &mut unwritten) {
                    self.tiling.blocks_of(chunk, &grid.region).try_for_each(&mut each)?;
                }
            }
        }
        cells.sort_by_key(|(place, _)| place.0);
        let fill = summary::of_fill(variable);
        self.unwritten(unwritten, fill.as_ref(), &mut cells)?;
        Ok(cells)
    }

    fn cell(&self, block: u64, rect: Rect, all: bool) -> Result<(Extent, Cell)> {
        let grid = self.grid;
        let has_copy = || self.member.known(grid.driver)?.sorted.as_ref()?.find(block);
        let sorted = self.keys.filter(|_| !all && has_copy().is_some()).map(|(low, high)| (block, low, high));
        let variable = &self.member.layout().variables[grid.driver];
        let extent = fetch::extent(self.member.layout(), variable, &rect)?.unwrap_or((u64::MAX, u64::MAX));
        Ok((extent, Cell { rect, all, sorted, places: None }))
    }

    /// Adds the unwritten part of a region to `unwritten`, in rectangles as large as possible.
    fn apart(&self, region: &Rect, written: Vec<u64>, unwritten: &mut Vec<Rect>) -> Vec<u64> {
        let chunks = |chunks: Vec<u64>| chunks.into_iter().map(|chunk| (chunk, self.tiling.chunk_rect(chunk)));
        let mut open: Vec<(Rect, Vec<(u64, Rect)>)> = vec![(region.clone(), chunks(written).collect())];
        let mut found = Vec::new();
        while let Some((rect, chunks)) = open.pop() {
            let inside: Vec<(u64, Rect)> =
                chunks.into_iter().filter(|(_, own)| own.intersect(&rect).is_some()).collect();
            match inside[..] {
                [] if rect.is_empty() => {}
                [] => unwritten.push(rect),
                _ if inside.len() as u64 == self.tiling.count_over(&rect) => {
                    found.extend(inside.into_iter().map(|(chunk, _)| chunk));
                }
                _ => {
                    let Some((one, other)) = self.tiling.halves(&rect) else { continue };
                    open.extend([(one, inside.clone()), (other, inside)]);
                }
            }
        }
        found.sort_unstable();
        found
    }

    /// If cells are only counted, each is as large as one test of the summary allows.
    fn unwritten(&self, mut open: Vec<Rect>, fill: Option<&Summary>, cells: &mut Vec<(Extent, Cell)>) -> Result<()> {
        let (grid, execution) = (self.grid, self.execution);
        let mut made = 0;
        while let Some(rect) = open.pop() {
            execution.cancel.check()?;
            let verdict = grid.predicate.verdict(&|column| match (&grid.columns[column], fill) {
                (Column::Variable { variable, .. }, Some(fill)) if *variable == grid.driver => {
                    fill.zone(grid.schema.field(column).data_type())
                }
                _ => zone(self.member, grid, column, &rect),
            });
            let all = verdict == Verdict::All;
            match (verdict, self.tiling.halves(&rect)) {
                (Verdict::None, _) => {}
                (_, Some((one, other))) if !(all && execution.is_counted()) => open.extend([other, one]),
                _ => {
                    made += 1;
                    if made > MOST_UNWRITTEN {
                        return Err(Error::invalid(format!(
                            "{}: more than {MOST_UNWRITTEN} blocks of {:?} that were never written answer: narrow \
                             the query, by positions (isel) or coordinates (box)",
                            self.member.path.display(),
                            self.member.layout().variables[grid.driver].name
                        )));
                    }
                    cells.push(((u64::MAX, u64::MAX), Cell { rect, all, sorted: None, places: None }));
                }
            }
        }
        Ok(())
    }
}

pub(super) fn zone(member: &Member, grid: &Grid, column: usize, rect: &Rect) -> Zone {
    let data_type = grid.schema.field(column).data_type();
    match &grid.columns[column] {
        Column::Variable { variable, axes } => member.zone(*variable, &rect.project(axes), data_type),
        Column::Index { axis } => {
            let (first, last) = (rect.start[*axis], rect.start[*axis] + rect.count[*axis] - 1);
            Zone { min: (first as i64).key(), max: (last as i64).key(), nulls: Nulls::None }
        }
    }
}
