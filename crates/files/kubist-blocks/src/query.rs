//! Runs a query on array files and their indexes.
//!
//! 1. `plan` compares the condition with the bounds of each block in the index, and keeps the blocks that can contain
//!    results. Such a block, cut by the region of the query, is a *cell*.
//! 2. `sample` keeps the positions of the sample, if there is one.
//! 3. Cells that are near each other in the file become a *task*, so that they are read together.
//! 4. Threads read the tasks and evaluate the condition at each position.

mod answers;
mod hits;
mod kept;
mod plan;
mod population;
mod report;
mod sample;
mod values;

use std::collections::HashMap;
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kubist_index::priority::Threshold;
use kubist_types::{Cancel, Error, Result};

pub use self::hits::Hit;
pub use self::population::Positions;
pub use self::report::{Report, RunOptions};

use self::kept::LimitedResult;
use crate::files::{Files, Member};
use crate::grid::{Column, FILE, FileQuery, Grid};
use crate::layout::Storage;
use crate::model::{Expected, expected};
use crate::schedule;
use crate::shape::{Rect, positions};
use crate::source::Reads;

/// The number of tasks that run before results are passed on. It bounds the memory.
const WAVE: usize = 256;

/// The range of a cell's bytes in the file. A cell that was never written has no bytes; its extent is `u64::MAX`, so it
/// is sorted to the end.
type Extent = (u64, u64);

/// A file's number among the queried files, and one of its cells with its extent.
type Placed = (usize, Extent, Cell);

/// The part of a block that is in the region of the query.
#[derive(Clone)]
struct Cell {
    rect: Rect,
    /// True if the bounds prove that every position meets the condition.
    all: bool,
    /// If a sorted copy of the block suffices: the block's number, and the lowest and highest order key of matching
    /// values.
    sorted: Option<(u64, u64, u64)>,
    /// The sampled positions, as numbers within `rect`. `None` for all positions, and until the sample is drawn.
    places: Option<Vec<u32>>,
}

/// Cells of one file that one thread reads together.
struct Task {
    member: usize,
    /// True if the task follows the previous one in the file, with at most a small gap.
    continues: bool,
    cells: Vec<Cell>,
}

impl Files {
    /// The columns of the result.
    ///
    /// # Errors
    ///
    /// The errors of [`Grid::bind`].
    pub fn schema(&self, query: &FileQuery) -> Result<SchemaRef> {
        let grid = self.grid(&self.members[0], query)?;
        Ok(self.schema_of(&grid))
    }

    fn schema_of(&self, grid: &Grid) -> SchemaRef {
        let mut fields = grid.fields();
        if grid.names_files {
            fields.insert(0, Field::new(FILE, DataType::Utf8, false));
        }
        Arc::new(Schema::new(fields))
    }

    fn grid(&self, member: &Member, query: &FileQuery) -> Result<Grid> {
        Grid::bind(member.layout(), query, self.members.len() > 1)
    }

    /// Passes the matching rows to `take`, in the order of files and blocks. With a limit, passes the rows of lowest
    /// priority after all reads.
    ///
    /// # Errors
    ///
    /// `Expression` or `Invalid` for a wrong query, `Refused` if a file changed, `Damaged`, a storage
    /// error, `Cancelled`, and errors of `take`.
    pub fn query(
        &self,
        query: &FileQuery,
        run: &RunOptions,
        cancel: &Cancel,
        take: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<Report> {
        self.execute(query, run, true, cancel, take)
    }

    /// Counts the matching rows. Does not read blocks in which all rows match.
    ///
    /// # Errors
    ///
    /// The errors of [`Files::query`].
    pub fn count(&self, query: &FileQuery, run: &RunOptions, cancel: &Cancel) -> Result<Report> {
        self.execute(query, run, false, cancel, &mut |_| Ok(()))
    }

    /// Runs a query. `rows` is false if only the number of rows is needed.
    ///
    /// A query with a limit first examines a sample that is just large enough to have that many results. If it has too
    /// few, the query starts again with a larger sample, or with all positions.
    fn execute(
        &self,
        query: &FileQuery,
        options: &RunOptions,
        rows: bool,
        cancel: &Cancel,
        take: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<Report> {
        let begin = Instant::now();
        if query.sample.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
            return Err(Error::invalid("a sample is a fraction from 0 to 1"));
        }
        match query.split {
            Some((part, parts)) if part >= parts => {
                return Err(Error::invalid(format!("there is no part {part} of {parts}: parts are numbered from 0")));
            }
            Some(_) if query.limit.is_some() => {
                return Err(Error::invalid("a query with a limit cannot be split into parts"));
            }
            _ => {}
        }
        let grids = self.grids(query)?;
        let schema = self.schema_of(&grids[0]);
        let drawn = if query.limit.is_some() { Drawn::Places } else { Drawn::Nothing };
        let mut execution = Execution { rows, ..Execution::new(self, &grids, &schema, query, options, drawn, cancel) };
        let mut report = Report { files: self.members.len(), workers: options.workers, ..Report::default() };
        report.gap = execution.gap(0);
        let cells = execution.cells(&mut report)?;
        let limit = query.limit.filter(|_| rows);
        if let Some(limit) = limit {
            execution.below = execution.first_look(limit, &cells);
        }
        loop {
            let mut tasks = execution.tasks(cells.clone(), &mut report)?;
            if let Some((part, parts)) = query.split {
                tasks = share(tasks, part, parts);
            }
            let mut kept = LimitedResult::new(limit);
            report.rows = 0;
            for wave in tasks.chunks(WAVE) {
                let task = |index: usize| execution.found(&wave[index]);
                let (found, balance) = schedule::run(wave.len(), options.workers, options.policy, cancel, &task)?;
                report.balance.slowest += balance.slowest;
                report.balance.fastest += balance.fastest;
                for found in found.into_iter().flatten() {
                    report.rows += found.count;
                    kept.take(found, take)?;
                }
            }
            // A sample has all positions below a priority, so if it has enough results, these have the lowest
            // priorities.
            match limit {
                Some(limit) if report.rows < limit && execution.below != execution.requested_threshold() => {
                    execution.below = execution.next_look(limit, report.rows, &cells);
                }
                _ => {
                    report.selectivity = report.rows as f64 / (report.positions as f64).max(1.0);
                    report.rows = kept.finish(report.rows, take)?;
                    break;
                }
            }
        }
        for member in &self.members {
            if member.is_open() {
                member.source()?.unchanged()?;
            }
        }
        execution.into_report(report, begin)
    }

    fn grids(&self, query: &FileQuery) -> Result<Vec<Grid>> {
        self.members.iter().map(|member| self.grid(member, query)).collect()
    }
}

/// The tasks of one part of the result. Each part may run in another process. All processes derive the same tasks from
/// the same index, so together they return each row once.
fn share(mut tasks: Vec<Task>, part: u64, parts: u64) -> Vec<Task> {
    let all = tasks.len() as u128;
    let at = |part: u64| (all * u128::from(part) / u128::from(parts.max(1))) as usize;
    let mut own: Vec<Task> = tasks.drain(at(part)..at(part + 1)).collect();
    if let Some(first) = own.first_mut() {
        first.continues = false;
    }
    own
}

/// The priority of a result: none, its position's, or its block's (for estimates).
#[derive(Clone, Copy, PartialEq)]
enum Drawn {
    Nothing,
    Places,
    Blocks,
}

/// A running query.
struct Execution<'a> {
    files: &'a Files,
    grids: &'a [Grid],
    schema: &'a SchemaRef,
    query: &'a FileQuery,
    options: &'a RunOptions,
    rows: bool,
    drawn: Drawn,
    /// Only positions with a priority below this are examined; all if `None`.
    below: Option<Threshold>,
    cancel: &'a Cancel,
    reads: Reads,
    /// Reads of sorted copies.
    sorted: Reads,
    /// The number of blocks without results that an index would have excluded.
    spared: AtomicU64,
    /// Errors of damaged blocks that the query skips.
    damaged: Mutex<Vec<String>>,
    /// Open index files, by the number of the array file.
    sidecars: Mutex<HashMap<usize, Arc<File>>>,
}

impl<'a> Execution<'a> {
    fn new(
        files: &'a Files,
        grids: &'a [Grid],
        schema: &'a SchemaRef,
        query: &'a FileQuery,
        options: &'a RunOptions,
        drawn: Drawn,
        cancel: &'a Cancel,
    ) -> Execution<'a> {
        Execution {
            files,
            grids,
            schema,
            query,
            options,
            rows: true,
            drawn,
            below: query.sample.map(Threshold::from_fraction),
            cancel,
            reads: Reads::default(),
            sorted: Reads::default(),
            spared: AtomicU64::new(0),
            damaged: Mutex::default(),
            sidecars: Mutex::default(),
        }
    }
}

impl Execution<'_> {
    /// The largest distance, in bytes, of two ranges of the file that are read together.
    fn gap(&self, member: usize) -> u64 {
        self.options.gap.unwrap_or_else(|| self.files.members[member].device().gap())
    }

    /// Whether rows are only counted. Cells in which all rows match are then not read.
    fn is_counted(&self) -> bool {
        !self.rows && self.query.sample.is_none()
    }

    fn into_report(self, mut report: Report, begin: Instant) -> Result<Report> {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (report.bytes, report.requests) = (count(&self.reads.bytes), count(&self.reads.requests));
        (report.sorted_bytes, report.sorted_requests) = (count(&self.sorted.bytes), count(&self.sorted.requests));
        report.by_library = count(&self.reads.by_library);
        report.blocks_spared = (self.query.sample.is_none() && self.query.limit.is_none()).then(|| count(&self.spared));
        report.damaged = self.damaged.into_inner().unwrap_or_else(PoisonError::into_inner);
        let member = &self.files.members[0];
        let grid = &self.grids[0];
        let variable = &member.layout().variables[grid.driver];
        let (elements, width) = match &variable.storage {
            // A compressed chunk is read whole, so the expected bytes are in units of stored chunks.
            Storage::Chunks { shape, table, .. } => {
                let raw = positions(shape)?;
                let stored: u64 = table.iter().map(|chunk| chunk.bytes).sum();
                (raw, stored as f64 / (table.len() as f64 * raw as f64).max(1.0))
            }
            Storage::Pages { table, .. } => {
                let (rows, pages) = (Rect::whole(&member.layout().shape(variable)).len(), table.len() as u64);
                (rows.div_ceil(pages.max(1)).max(1), variable.stored_bytes(rows) as f64 / (rows as f64).max(1.0))
            }
            _ => (member.tiling(grid.driver)?.block().iter().product(), variable.number.bytes() as f64),
        };
        let read = grid.read.iter().chain(&grid.output);
        let mut variables: Vec<usize> = read
            .filter_map(|column| match &grid.columns[*column] {
                Column::Variable { variable, .. } => Some(*variable),
                Column::Index { .. } => None,
            })
            .collect();
        variables.sort_unstable();
        variables.dedup();
        for member in &self.files.members {
            for variable in &variables {
                let variable = &member.layout().variables[*variable];
                report.stored_bytes += variable.stored_bytes(Rect::whole(&member.layout().shape(variable)).len());
            }
        }
        let line =
            expected(report.positions, 1, elements, report.selectivity, (report.gap as f64 / width.max(1e-9)) as u64);
        report.expected = Some(Expected { bytes: line.bytes * width, ..line });
        report.seconds = begin.elapsed().as_secs_f64();
        Ok(report)
    }
}
