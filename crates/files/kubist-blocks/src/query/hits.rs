//! The byte ranges that a query reads, for simulations of devices.

use kubist_types::{Cancel, Result};
use serde::Serialize;

use super::{Drawn, Execution, Report, RunOptions};
use crate::fetch;
use crate::files::Files;
use crate::grid::FileQuery;

#[derive(Clone, Copy, Debug, Serialize)]
pub struct Hit {
    pub file: usize,
    /// The offset in the file, or in a sorted copy in its index.
    pub offset: u64,
    pub bytes: u64,
    pub is_sorted: bool,
}

impl Files {
    /// The blocks that a query would read. It reads none.
    ///
    /// # Errors
    ///
    /// As for [`Files::query`].
    pub fn hits(&self, query: &FileQuery, options: &RunOptions, cancel: &Cancel) -> Result<Vec<Hit>> {
        let grids = self.grids(query)?;
        let schema = self.schema_of(&grids[0]);
        let execution = Execution::new(self, &grids, &schema, query, options, Drawn::Nothing, cancel);
        let mut hits = Vec::new();
        for task in execution.plan(&mut Report::default())? {
            let (member, grid) = (&self.members[task.member], &grids[task.member]);
            let variable = &member.layout().variables[grid.driver];
            for cell in &task.cells {
                let copy = cell.sorted.and_then(|(block, low, high)| {
                    let copy = member.known(grid.driver)?.sorted.as_ref()?.find(block)?;
                    Some(copy.extent(variable.number.bytes(), low, high))
                });
                let hit = |offset, bytes| Hit { file: task.member, offset, bytes, is_sorted: copy.is_some() };
                match copy {
                    Some((offset, bytes)) => hits.push(hit(offset, bytes)),
                    None => {
                        let extent = fetch::extent(member.layout(), variable, &cell.rect)?;
                        hits.extend(extent.map(|(begin, end)| hit(begin, end - begin)));
                    }
                }
            }
        }
        Ok(hits)
    }
}
