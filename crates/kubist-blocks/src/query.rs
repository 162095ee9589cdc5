//! A question to files: which blocks can hold an answer, what is read for them, and what is found there.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use arrow_array::{Array, ArrayRef, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::take::take;
use kubist_expr::{Keys, Verdict};
use kubist_index::priority::{Threshold, priorities};
use kubist_types::{Cancel, Error, ErrorKind, Result};
use serde::Serialize;

use crate::fetch::Fetched;
use crate::files::{Files, Member};
use crate::grid::{Column, FILE, Grid, Question};
use crate::layout::Storage;
use crate::model::{Expected, expected};
use crate::schedule::{self, Balance, Policy};
use crate::shape::{Rect, positions};
use crate::sidecar::Indexed;
use crate::source::Reads;
use crate::summary::Summary;

/// Bytes that a task reads of its first variable, and rows that a batch has before it is handed on.
const TASK_BYTES: u64 = 4 << 20;
/// Tasks whose answers are held at once.
const WAVE: usize = 256;
/// Answers that a limited question holds beyond its limit.
const SURPLUS: usize = 1 << 16;
/// Damaged places that are named one by one.
const NAMED: usize = 100;

/// A block that may hold an answer.
struct Cell {
    rect: Rect,
    /// Every position in it is an answer.
    all: bool,
    /// What is read of its sorted copy: block, and keys of the values.
    sorted: Option<(u64, u64, u64)>,
}

/// Blocks that one worker reads together.
struct Task {
    member: usize,
    /// It goes on where the one before ended.
    continues: bool,
    cells: Vec<Cell>,
}

/// What a question cost, beside what the model expects of independent values.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    pub rows: u64,
    pub files: usize,
    /// Files of which a block was read.
    pub files_read: usize,
    /// Files without an index.
    pub files_scanned: usize,
    pub positions: u64,
    pub blocks: u64,
    /// Blocks whose values were read.
    pub blocks_read: u64,
    /// Blocks that hold nothing but answers.
    pub blocks_all: u64,
    /// Blocks of which only a part of their sorted copy was read.
    pub blocks_sorted: u64,
    pub bytes: u64,
    pub requests: u64,
    /// Read of the indices' sorted copies.
    pub sorted_bytes: u64,
    pub sorted_requests: u64,
    /// Bytes of the asked variables, as they are stored.
    pub stored_bytes: u64,
    pub by_library: u64,
    pub selectivity: f64,
    pub expected: Option<Expected>,
    /// Pieces up to so many bytes apart were read together.
    pub gap: u64,
    pub workers: usize,
    pub balance: Balance,
    pub seconds: f64,
    /// What of a scan an index would have spared: blocks that cannot hold an answer.
    pub blocks_spared: u64,
    pub damaged: Vec<String>,
}

/// How a question is run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    pub workers: usize,
    pub policy: Policy,
    /// Pieces up to so many bytes apart are one request; `None`: as the device was measured.
    pub gap: Option<u64>,
    pub use_sorted: bool,
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        RunOptions { workers: crate::build::workers(), policy: Policy::default(), gap: None, use_sorted: true }
    }
}

/// Answers of a task.
struct Found {
    batch: RecordBatch,
    priorities: Vec<u64>,
    count: u64,
}

impl Files {
    /// The columns of an answer.
    ///
    /// # Errors
    ///
    /// As of [`Grid::bind`].
    pub fn schema(&self, question: &Question) -> Result<SchemaRef> {
        let grid = self.grid(&self.members[0], question)?;
        Ok(self.schema_of(&grid))
    }

    fn schema_of(&self, grid: &Grid) -> SchemaRef {
        let mut fields = grid.fields();
        if grid.names_files {
            fields.insert(0, Field::new(FILE, DataType::Utf8, false));
        }
        Arc::new(Schema::new(fields))
    }

    fn grid(&self, member: &Member, question: &Question) -> Result<Grid> {
        Grid::bind(member.layout(), question, self.members.len() > 1)
    }

    /// Hands the answers to `take` in the order of files and blocks; of a limited question at the end.
    ///
    /// # Errors
    ///
    /// What does not fit (`Expression`, `Invalid`), `Refused` if a file changed, `Damaged`, a storage error,
    /// `Cancelled`, and what `take` reports.
    pub fn query(
        &self,
        question: &Question,
        run: &RunOptions,
        cancel: &Cancel,
        take: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<Report> {
        self.asked(question, run, true, cancel, take)
    }

    /// How many positions answer a question. Blocks that hold nothing but answers are not read.
    ///
    /// # Errors
    ///
    /// As of `query`.
    pub fn count(&self, question: &Question, run: &RunOptions, cancel: &Cancel) -> Result<Report> {
        self.asked(question, run, false, cancel, &mut |_| Ok(()))
    }

    fn asked(
        &self,
        question: &Question,
        options: &RunOptions,
        rows: bool,
        cancel: &Cancel,
        take: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<Report> {
        let begin = Instant::now();
        if question.precision.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
            return Err(Error::invalid("a precision lies between 0 and 1"));
        }
        let grids = self.grids(question)?;
        let schema = self.schema_of(&grids[0]);
        let asking = Asking {
            files: self,
            grids: &grids,
            schema: &schema,
            question,
            options,
            rows,
            cancel,
            reads: Reads::default(),
            sorted: Reads::default(),
            spared: AtomicU64::new(0),
            damaged: Mutex::default(),
            sidecars: Mutex::default(),
        };
        let mut report = Report { files: self.members.len(), workers: options.workers, ..Report::default() };
        report.gap = asking.gap(0);
        let tasks = asking.plan(&mut report)?;
        let mut kept = Kept { limit: question.limit.filter(|_| rows), held: Vec::new(), rows: 0 };
        for wave in tasks.chunks(WAVE) {
            let task = |index: usize| asking.found(&wave[index]);
            let (found, balance) = schedule::run(wave.len(), options.workers, options.policy, cancel, &task)?;
            report.balance.slowest += balance.slowest;
            report.balance.fastest += balance.fastest;
            for found in found.into_iter().flatten() {
                report.rows += found.count;
                kept.take(found, take)?;
            }
        }
        report.selectivity = report.rows as f64 / (report.positions as f64).max(1.0);
        report.rows = kept.finish(report.rows, take)?;
        for member in &self.members {
            if member.is_open() {
                member.source()?.unchanged()?;
            }
        }
        asking.into_report(report, begin)
    }

    fn grids(&self, question: &Question) -> Result<Vec<Grid>> {
        self.members.iter().map(|member| self.grid(member, question)).collect()
    }
}

/// Answers on their way out: all, or those of lowest priority.
struct Kept {
    limit: Option<u64>,
    held: Vec<(RecordBatch, Vec<u64>)>,
    rows: usize,
}

impl Kept {
    fn take(&mut self, found: Found, take: &mut dyn FnMut(RecordBatch) -> Result<()>) -> Result<()> {
        let Some(limit) = self.limit else {
            return if found.batch.num_rows() > 0 { take(found.batch) } else { Ok(()) };
        };
        self.rows += found.batch.num_rows();
        self.held.push((found.batch, found.priorities));
        match self.rows > limit as usize + SURPLUS.max(limit as usize) {
            true => self.cut(limit as usize),
            false => Ok(()),
        }
    }

    /// Keeps the `limit` of lowest priority; of equal ones the first.
    fn cut(&mut self, limit: usize) -> Result<()> {
        let mut all: Vec<(u64, usize, u32)> = Vec::with_capacity(self.rows);
        for (at, (_, priorities)) in self.held.iter().enumerate() {
            all.extend(priorities.iter().enumerate().map(|(row, priority)| (*priority, at, row as u32)));
        }
        if all.len() > limit {
            all.select_nth_unstable(limit);
            all.truncate(limit);
        }
        all.sort_unstable_by_key(|(_, at, row)| (*at, *row));
        let mut rows: HashMap<usize, Vec<u32>> = HashMap::new();
        for (_, at, row) in all {
            rows.entry(at).or_default().push(row);
        }
        let held = std::mem::take(&mut self.held);
        self.rows = 0;
        for (at, (batch, priorities)) in held.into_iter().enumerate() {
            let Some(rows) = rows.remove(&at) else { continue };
            let kept = rows.iter().map(|row| priorities[*row as usize]).collect();
            let batch =
                arrow_select::take::take_record_batch(&batch, &UInt32Array::from(rows)).map_err(Error::kernel)?;
            self.rows += batch.num_rows();
            self.held.push((batch, kept));
        }
        Ok(())
    }

    fn finish(&mut self, rows: u64, take: &mut dyn FnMut(RecordBatch) -> Result<()>) -> Result<u64> {
        let Some(limit) = self.limit else { return Ok(rows) };
        self.cut(limit as usize)?;
        for (batch, _) in std::mem::take(&mut self.held) {
            take(batch)?;
        }
        Ok(self.rows as u64)
    }
}

struct Asking<'a> {
    files: &'a Files,
    grids: &'a [Grid],
    schema: &'a SchemaRef,
    question: &'a Question,
    options: &'a RunOptions,
    rows: bool,
    cancel: &'a Cancel,
    reads: Reads,
    sorted: Reads,
    spared: AtomicU64,
    damaged: Mutex<Vec<String>>,
    sidecars: Mutex<HashMap<usize, Arc<File>>>,
}

impl Asking<'_> {
    fn gap(&self, member: usize) -> u64 {
        self.options.gap.unwrap_or_else(|| self.files.members[member].device().gap())
    }

    fn plan(&self, report: &mut Report) -> Result<Vec<Task>> {
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
            let first = member.source_pieces(grid.driver, &rect)?;
            cells.push((first, Cell { rect, all, sorted }));
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

    fn found(&self, task: &Task) -> Result<Vec<Found>> {
        match self.answers(task, &task.cells.iter().collect::<Vec<_>>()) {
            Err(error) if self.question.skip_damaged && error.kind() == ErrorKind::Corrupt => {
                let mut found = Vec::new();
                for cell in &task.cells {
                    match self.answers(task, &[cell]) {
                        Err(error) if error.kind() == ErrorKind::Corrupt => {
                            let mut damaged = self.damaged.lock().unwrap_or_else(PoisonError::into_inner);
                            if damaged.len() < NAMED && !damaged.contains(&error.to_string()) {
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

    fn answers(&self, task: &Task, cells: &[&Cell]) -> Result<Vec<Found>> {
        let grid = &self.grids[task.member];
        let member = &self.files.members[task.member];
        let mut found = Vec::new();
        let (copies, plain): (Vec<&Cell>, Vec<&Cell>) = cells.iter().partition(|cell| cell.sorted.is_some());
        for cell in copies {
            found.extend(self.of_sorted(task.member, member, grid, cell)?);
        }
        // Nothing is read where only their number is asked.
        let counted = |cell: &&Cell| cell.all && !self.rows && self.question.precision.is_none();
        let (whole, open): (Vec<&Cell>, Vec<&Cell>) = plain.into_iter().partition(counted);
        let nothing = || RecordBatch::new_empty(self.schema.clone());
        found.extend(whole.iter().map(|cell| Found {
            batch: nothing(),
            priorities: Vec::new(),
            count: cell.rect.len(),
        }));
        let both: Vec<usize> = grid.read.iter().copied().filter(|column| grid.output.contains(column)).collect();
        let judged: Vec<Rect> = open.iter().filter(|cell| !cell.all).map(|cell| cell.rect.clone()).collect();
        let mut values = Values::new(self, member, grid, task.continues);
        if self.rows {
            // In one go where all of it is an answer too.
            values.fetch(&both, &open.iter().map(|cell| cell.rect.clone()).collect::<Vec<_>>())?;
        }
        values.fetch(&grid.read, &judged)?;
        let mut hits = Vec::new();
        for cell in open {
            let places = self.places(&values, cell, member)?;
            if !places.is_empty() {
                hits.push((cell.rect.clone(), places));
            }
        }
        if self.rows {
            let rects: Vec<Rect> = hits.iter().map(|(rect, _)| rect.clone()).collect();
            values.fetch(&grid.output, &rects)?;
        }
        for (rect, places) in hits {
            found.push(self.row(member, grid, &rect, &places, &|column| values.at(column, &rect, &places))?);
        }
        Ok(found)
    }

    /// The places in a cell that answer, after the sample.
    fn places(&self, values: &Values<'_>, cell: &Cell, member: &Member) -> Result<Vec<u32>> {
        let rows =
            u32::try_from(cell.rect.len()).map_err(|_| Error::invalid("a block has more than 2^32 positions"))?;
        let all: Vec<u32> = (0..rows).collect();
        let places = if cell.all {
            all
        } else {
            let grid = values.grid;
            let columns =
                grid.read.iter().map(|column| values.at(*column, &cell.rect, &all)).collect::<Result<Vec<_>>>()?;
            if member.index.is_none() {
                self.spare(grid, &columns);
            }
            let batch = batch(grid, &grid.read, columns, rows as usize)?;
            let selected = grid.predicate.evaluate(&batch, &|| self.cancel.is_set())?;
            let values = selected.values();
            values.set_indices_u32().collect()
        };
        Ok(self.sampled(&cell.rect, places))
    }

    /// Counts a block of a scan that an index would have spared.
    fn spare(&self, grid: &Grid, columns: &[ArrayRef]) {
        let zones: Vec<(usize, kubist_expr::Zone)> = grid
            .read
            .iter()
            .zip(columns)
            .map(|(column, values)| (*column, Summary::of(values).0.zone(values.data_type())))
            .collect();
        let zone = |column: usize| zones.iter().find(|(own, _)| *own == column).map(|(_, zone)| *zone);
        let unknown = kubist_expr::Zone { min: 0, max: u64::MAX, nulls: kubist_expr::Nulls::Some };
        if grid.predicate.verdict(&|column| zone(column).unwrap_or(unknown)) == Verdict::None {
            self.spared.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn sampled(&self, rect: &Rect, places: Vec<u32>) -> Vec<u32> {
        let Some(share) = self.question.precision else { return places };
        let threshold = Threshold::from_fraction(share);
        let priorities = priorities_of(rect, &places);
        places.into_iter().zip(priorities).filter(|(_, own)| threshold.admits(*own)).map(|(place, _)| place).collect()
    }

    fn row(
        &self,
        member: &Member,
        grid: &Grid,
        rect: &Rect,
        places: &[u32],
        values: &dyn Fn(usize) -> Result<ArrayRef>,
    ) -> Result<Found> {
        let count = places.len() as u64;
        if !self.rows {
            return Ok(Found { batch: RecordBatch::new_empty(self.schema.clone()), priorities: Vec::new(), count });
        }
        let mut columns = grid.output.iter().map(|column| values(*column)).collect::<Result<Vec<_>>>()?;
        if grid.names_files {
            let name = member.path.display().to_string();
            columns.insert(0, Arc::new(StringArray::from_iter_values(std::iter::repeat_n(name, places.len()))));
        }
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(places.len()));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
            .map_err(|error| Error::internal(error.to_string()))?;
        let priorities = if self.question.limit.is_some() { priorities_of(rect, places) } else { Vec::new() };
        Ok(Found { batch, priorities, count })
    }

    fn of_sorted(&self, at: usize, member: &Member, grid: &Grid, cell: &Cell) -> Result<Option<Found>> {
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
                what: "a sorted value has a place outside of its block".into(),
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
        // In the order of the file, as without the copy.
        rows.sort_by_key(|row| slice.places[*row as usize]);
        if let Some(share) = self.question.precision {
            let threshold = Threshold::from_fraction(share);
            let places: Vec<u32> = rows.iter().map(|row| slice.places[*row as usize]).collect();
            let mut own = priorities_of(&whole, &places).into_iter();
            rows.retain(|_| own.next().is_some_and(|own| threshold.admits(own)));
        }
        if rows.is_empty() {
            return Ok(None);
        }
        let places: Vec<u32> = rows.iter().map(|row| slice.places[*row as usize]).collect();
        let kept = take(&slice.values, &UInt32Array::from(rows), None).map_err(Error::kernel)?;
        self.row(member, grid, &whole, &places, &|own| column(&places, &kept, own)).map(Some)
    }

    fn sidecar(&self, at: usize, index: &crate::sidecar::Index) -> Result<Arc<File>> {
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

    fn into_report(self, mut report: Report, begin: Instant) -> Result<Report> {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (report.bytes, report.requests) = (count(&self.reads.bytes), count(&self.reads.requests));
        (report.sorted_bytes, report.sorted_requests) = (count(&self.sorted.bytes), count(&self.sorted.requests));
        (report.by_library, report.blocks_spared) = (count(&self.reads.by_library), count(&self.spared));
        report.damaged = self.damaged.into_inner().unwrap_or_else(PoisonError::into_inner);
        let member = &self.files.members[0];
        let grid = &self.grids[0];
        let variable = &member.layout().variables[grid.driver];
        let (elements, width) = match &variable.storage {
            // What is decoded is read by chunks, as long as they are stored.
            Storage::Chunks { shape, table, .. } => {
                let raw = positions(shape)?;
                let stored: u64 = table.iter().map(|chunk| chunk.bytes).sum();
                (raw, stored as f64 / (table.len() as f64 * raw as f64).max(1.0))
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
                report.stored_bytes += match &variable.storage {
                    Storage::Chunks { table, .. } => table.iter().map(|chunk| chunk.bytes).sum(),
                    _ => Rect::whole(&member.layout().shape(variable)).len() * variable.number.bytes(),
                };
            }
        }
        let line =
            expected(report.positions, 1, elements, report.selectivity, (report.gap as f64 / width.max(1e-9)) as u64);
        report.expected = Some(Expected { bytes: line.bytes * width, ..line });
        report.seconds = begin.elapsed().as_secs_f64();
        Ok(report)
    }
}

/// Positions of a cell hash to priorities: the same in every file and for every variable.
fn priorities_of(rect: &Rect, places: &[u32]) -> Vec<u64> {
    let columns: Vec<ArrayRef> = (0..rect.count.len()).map(|axis| Grid::index(rect, axis, places)).collect();
    let columns: Vec<&dyn Array> = columns.iter().map(AsRef::as_ref).collect();
    priorities(&columns, places.len(), 0)
}

fn batch(grid: &Grid, columns: &[usize], arrays: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let fields: Vec<Field> = columns.iter().map(|column| grid.schema.field(*column).clone()).collect();
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
        .map_err(|error| Error::internal(error.to_string()))
}

fn zone(member: &Member, grid: &Grid, column: usize, rect: &Rect) -> kubist_expr::Zone {
    let data_type = grid.schema.field(column).data_type();
    match &grid.columns[column] {
        Column::Variable { variable, axes } => member.zone(*variable, &rect.project(axes), data_type),
        Column::Index { axis } => {
            use kubist_index::order::Keyed;
            let (first, last) = (rect.start[*axis], rect.start[*axis] + rect.count[*axis] - 1);
            kubist_expr::Zone { min: (first as i64).key(), max: (last as i64).key(), nulls: kubist_expr::Nulls::None }
        }
    }
}

/// Values of columns in the rectangles of a task.
struct Values<'a> {
    asking: &'a Asking<'a>,
    member: &'a Member,
    grid: &'a Grid,
    continues: bool,
    fetched: HashMap<usize, Vec<(HashSet<Rect>, Fetched<'a>)>>,
    held: HashMap<usize, ArrayRef>,
}

impl<'a> Values<'a> {
    fn new(asking: &'a Asking<'a>, member: &'a Member, grid: &'a Grid, continues: bool) -> Values<'a> {
        Values { asking, member, grid, continues, fetched: HashMap::new(), held: HashMap::new() }
    }

    /// Reads what these columns have in rectangles, unless that is here already.
    fn fetch(&mut self, columns: &[usize], rects: &[Rect]) -> Result<()> {
        if rects.is_empty() {
            return Ok(());
        }
        let asking = self.asking;
        for column in columns {
            let Column::Variable { variable, axes } = &self.grid.columns[*column] else { continue };
            if self.held.contains_key(variable) {
                continue;
            }
            if axes.len() < self.grid.dimensions.len()
                && let Some(array) = self.member.held(*variable, &asking.reads, asking.cancel)?
            {
                self.held.insert(*variable, array);
                continue;
            }
            let there = self.fetched.entry(*variable).or_default();
            let projected = rects.iter().map(|rect| rect.project(axes));
            let wanted: HashSet<Rect> =
                projected.filter(|rect| !there.iter().any(|(have, _)| have.contains(rect))).collect();
            if wanted.is_empty() {
                continue;
            }
            let source = self.member.source()?;
            let of = &source.layout.variables[*variable];
            let continues = self.continues && *variable == self.grid.driver && there.is_empty();
            let gap = asking.gap(0);
            let fetched = source.fetch(
                of,
                &wanted.iter().cloned().collect::<Vec<_>>(),
                gap,
                continues,
                &asking.reads,
                asking.cancel,
            )?;
            there.push((wanted, fetched));
        }
        Ok(())
    }

    /// A column at places of a rectangle.
    fn at(&self, column: usize, rect: &Rect, places: &[u32]) -> Result<ArrayRef> {
        let (variable, axes) = match &self.grid.columns[column] {
            Column::Index { axis } => return Ok(Grid::index(rect, *axis, places)),
            Column::Variable { variable, axes } => (*variable, axes),
        };
        let part = rect.project(axes);
        let (array, whole) = match self.held.get(&variable) {
            Some(held) => (held.clone(), Some(self.member.layout().shape(&self.member.layout().variables[variable]))),
            None => {
                let there = self.fetched.get(&variable).into_iter().flatten().find(|(have, _)| have.contains(&part));
                let (_, fetched) = there.ok_or_else(|| Error::internal("values of a block were not read"))?;
                (fetched.array(&part)?, None)
            }
        };
        if whole.is_none() && axes.len() == rect.count.len() && places.len() as u64 == rect.len() {
            return Ok(array);
        }
        let places = match whole.is_none() && axes.len() == rect.count.len() {
            true => UInt64Array::from_iter_values(places.iter().map(|place| u64::from(*place))),
            false => UInt64Array::from(Grid::projected(rect, axes, whole.as_deref(), places)),
        };
        take(&array, &places, None).map_err(Error::kernel)
    }
}

impl Member {
    /// The first byte of a rectangle and the end of its last piece, for the order of reading; without bytes of
    /// its own it comes last.
    fn source_pieces(&self, variable: usize, rect: &Rect) -> Result<(u64, u64)> {
        let variable = &self.layout().variables[variable];
        Ok(crate::fetch::extent(self.layout(), variable, rect)?.unwrap_or((u64::MAX, u64::MAX)))
    }
}
