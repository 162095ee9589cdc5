//! Which blocks can hold an answer, and which of them are read together.

use kubist_expr::{Keys, Nulls, Verdict, Zone};
use kubist_index::order::Keyed;
use kubist_types::Result;

use super::{Asking, Cell, Report, Task};
use crate::fetch;
use crate::files::Member;
use crate::grid::{Column, Grid};
use crate::layout::Storage;
use crate::shape::Rect;
use crate::sidecar::Indexed;

/// Bytes that a task reads of its first variable.
const TASK_BYTES: u64 = 4 << 20;

impl Asking<'_> {
    pub(super) fn plan(&self, report: &mut Report) -> Result<Vec<Task>> {
        let mut tasks = Vec::new();
        for (at, member) in self.files.members.iter().enumerate() {
            self.cancel.check()?;
            match &member.index {
                Some(index) => crate::source::is_still(&member.path, &index.key)?,
                None => report.files_scanned += 1,
            }
            let before = tasks.len();
            self.plan_member(at, member, &mut tasks, report)?;
            report.files_read += usize::from(tasks.len() > before);
        }
        Ok(tasks)
    }

    fn plan_member(&self, at: usize, member: &Member, tasks: &mut Vec<Task>, report: &mut Report) -> Result<()> {
        let grid = &self.grids[at];
        let tiling = member.tiling(grid.driver)?;
        let variable = &member.layout().variables[grid.driver];
        report.positions += Rect::whole(tiling.shape()).len();
        report.blocks += tiling.filled();
        let keys = self.sortable(member, grid);
        // Variables in the same blocks are judged by these.
        let in_same_blocks = |column: &Column| match column {
            Column::Variable { variable, axes } if axes.len() == grid.dimensions.len() => {
                member.known(*variable).filter(|indexed| indexed.tiling == tiling)
            }
            _ => None,
        };
        let same: Vec<Option<&Indexed>> = grid.columns.iter().map(in_same_blocks).collect();
        let mut cells = Vec::new();
        for block in tiling.blocks_over(&grid.region) {
            let Some(rect) = tiling.rect(block).intersect(&grid.region) else { continue };
            let verdict = grid.predicate.verdict(&|column| match same[column] {
                Some(indexed) => indexed.summaries[block as usize].zone(grid.schema.field(column).data_type()),
                None => zone(member, grid, column, &rect),
            });
            if verdict == Verdict::None {
                continue;
            }
            let all = verdict == Verdict::All;
            report.blocks_all += u64::from(all);
            let has_copy = || member.known(grid.driver)?.sorted.as_ref()?.find(block);
            let sorted = keys.filter(|_| !all && has_copy().is_some()).map(|(low, high)| (block, low, high));
            match sorted.is_some() {
                true => report.blocks_sorted += 1,
                false => report.blocks_read += 1,
            }
            // Without bytes of its own it comes last.
            let extent = fetch::extent(member.layout(), variable, &rect)?.unwrap_or((u64::MAX, u64::MAX));
            cells.push((extent, Cell { rect, all, sorted }));
        }
        cells.sort_by_key(|(place, _)| place.0);
        let gap = self.gap(at);
        let (mut end, mut bytes) = (0u64, u64::MAX);
        for ((start, stop), cell) in cells {
            let near = start <= end.saturating_add(gap) && bytes != u64::MAX && start != u64::MAX;
            let own = cell.rect.len() * variable.number.bytes();
            // One chunk is decoded once.
            let inside = stop <= end && matches!(variable.storage, Storage::Chunks { .. });
            match tasks.last_mut() {
                Some(task) if near && (inside || bytes.saturating_add(own) <= TASK_BYTES) => {
                    task.cells.push(cell);
                    bytes += own;
                }
                _ => {
                    tasks.push(Task { member: at, continues: near, cells: vec![cell] });
                    bytes = own;
                }
            }
            end = if start == u64::MAX { end } else { end.max(stop) };
        }
        Ok(())
    }

    /// The keys that selected rows have in the driver, if sorted copies alone can answer: no other variable
    /// must be read at each place.
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

fn zone(member: &Member, grid: &Grid, column: usize, rect: &Rect) -> Zone {
    let data_type = grid.schema.field(column).data_type();
    match &grid.columns[column] {
        Column::Variable { variable, axes } => member.zone(*variable, &rect.project(axes), data_type),
        Column::Index { axis } => {
            let (first, last) = (rect.start[*axis], rect.start[*axis] + rect.count[*axis] - 1);
            Zone { min: (first as i64).key(), max: (last as i64).key(), nulls: Nulls::None }
        }
    }
}
