//! Array files as a population for estimates.
//!
//! A sample of positions would read almost all blocks, so whole units are sampled: blocks, or chunks or pages that must
//! be decoded. The positions of a unit share one priority. The estimate treats them as a cluster, so its intervals are
//! wider if neighbours are correlated.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use arrow_schema::{Schema, SchemaRef};
use kubist_expr::Nulls;
use kubist_index::order;
use kubist_population::seek::Seek;
use kubist_population::{Population, Scan, Scanned};
use kubist_types::{Cancel, Error, Result, Stats};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::plan::zone;
use super::{Drawn, Execution, Report, RunOptions, Task, WAVE};
use crate::files::{Files, Member};
use crate::grid::{FileQuery, Grid};
use crate::layout::Storage;
use crate::schedule;
use crate::shape::{Rect, Tiling};
use crate::source::Reads;

#[derive(Clone)]
pub struct Positions {
    files: Arc<Files>,
    query: FileQuery,
    schema: SchemaRef,
    options: RunOptions,
    cancel: Cancel,
}

impl Positions {
    /// Creates the population. The estimate sets the columns, the sample and the limit.
    pub fn new(files: &Arc<Files>, query: &FileQuery, cancel: &Cancel) -> Positions {
        let query = FileQuery { sample: None, limit: None, columns: None, skip_damaged: false, ..query.clone() };
        let (schema, options) = (files.names(), RunOptions::default());
        Positions { files: files.clone(), query, schema, options, cancel: cancel.clone() }
    }

    fn grids(&self, output: &[usize]) -> Result<Vec<Grid>> {
        let mut grids = self.files.grids(&self.query)?;
        for grid in &mut grids {
            grid.output = output.to_vec();
            grid.names_files = false;
        }
        Ok(grids)
    }

    fn execution<'a>(&'a self, grids: &'a [Grid], schema: &'a SchemaRef) -> Execution<'a> {
        Execution::new(&self.files, grids, schema, &self.query, &self.options, Drawn::Blocks, &self.cancel)
    }
}

fn unit(tiling: &Tiling, storage: &Storage, rect: &Rect) -> u64 {
    let place = Rect { start: rect.start.clone(), count: vec![1; rect.start.len()] };
    let block = tiling.blocks_over(&place).first().copied().unwrap_or(0);
    match storage {
        Storage::Chunks { filters, .. } if !filters.is_empty() => tiling.chunk_of(block),
        Storage::Pages { table, .. } => {
            let begin = tiling.rect(block).start[0];
            table.partition_point(|page| page.first_row + page.rows <= begin) as u64
        }
        _ => block,
    }
}

pub(super) fn priority(number: usize, member: &Member, grid: &Grid, rect: &Rect) -> Result<u64> {
    let tiling = member.tiling(grid.driver)?;
    let unit = unit(&tiling, &member.layout().variables[grid.driver].storage, rect);
    Ok(xxh3_64_with_seed(&unit.to_le_bytes(), number as u64))
}

impl Population for Positions {
    fn visible(&self) -> Schema {
        Schema::clone(&self.schema)
    }

    fn stored(&self) -> &SchemaRef {
        &self.schema
    }

    fn place(&self, visible: usize) -> usize {
        visible
    }

    fn find(&self, name: &str) -> Result<usize> {
        Ok(kubist_expr::column_index(&self.schema, name)?)
    }

    fn reading(&self, columns: &[usize]) -> Result<Positions> {
        let names = columns.iter().map(|column| self.schema.field(*column).name().clone()).collect();
        let asked = Positions { query: FileQuery { columns: Some(names), ..self.query.clone() }, ..self.clone() };
        asked.files.grids(&asked.query)?;
        Ok(asked)
    }

    fn identity(&self) -> Option<String> {
        Some("blocks".into())
    }

    fn cluster_size(&self) -> Result<f64> {
        let (member, grids) = (&self.files.members[0], self.grids(&[])?);
        let tiling = member.tiling(grids[0].driver)?;
        let variable = &member.layout().variables[grids[0].driver];
        let all = Rect::whole(tiling.shape()).len() as f64;
        let block = tiling.block().iter().product::<u64>() as f64;
        let unit = match &variable.storage {
            Storage::Chunks { shape, filters, .. } if !filters.is_empty() => shape.iter().product::<u64>() as f64,
            Storage::Pages { table, .. } => block.max(all / (table.len() as f64).max(1.0)),
            _ => block,
        };
        Ok(unit.min(all).max(1.0))
    }

    fn is_all(&self) -> bool {
        let FileQuery { filter, bounds, region, isel, .. } = &self.query;
        filter.is_none() && bounds.is_empty() && region.is_none() && isel.is_empty()
    }

    fn cancel(&self) -> Cancel {
        self.cancel.clone()
    }

    fn rough_rows(&self) -> Result<f64> {
        let grids = self.grids(&[])?;
        let tasks = self.execution(&grids, &self.schema).plan(&mut Report::default())?;
        Ok(tasks.iter().flat_map(|task| &task.cells).map(|cell| cell.rect.len() as f64).sum())
    }

    fn counted(&self, most: u64, _deadline: Option<Instant>) -> Result<Option<(u64, Stats)>> {
        let grids = self.grids(&[])?;
        let execution = Execution { rows: false, ..self.execution(&grids, &self.schema) };
        let tasks = execution.plan(&mut Report::default())?;
        let open = tasks.iter().flat_map(|task| &task.cells).filter(|cell| !cell.all);
        if open.map(|cell| cell.rect.len()).sum::<u64>() > most {
            return Ok(None);
        }
        let report = self.files.count(&self.query, &self.options, &self.cancel)?;
        let stats = Stats {
            bytes_read: report.bytes + report.sorted_bytes,
            round_trips: report.requests + report.sorted_requests,
            pages_read: report.blocks_read + report.blocks_sorted - report.blocks_all,
            ..Stats::default()
        };
        Ok(Some((report.rows, stats)))
    }

    fn is_complete(&self, column: usize, _deadline: Option<Instant>) -> Result<bool> {
        let grids = self.grids(&[])?;
        let tasks = self.execution(&grids, &self.schema).plan(&mut Report::default())?;
        let complete = |task: &Task| {
            let (member, grid) = (&self.files.members[task.member], &grids[task.member]);
            let (first, last) = order::number_keys(grid.schema.field(column).data_type());
            task.cells.iter().all(|cell| {
                let zone = zone(member, grid, column, &cell.rect);
                zone.nulls == Nulls::None && first <= zone.min && zone.max <= last
            })
        };
        Ok(tasks.iter().all(complete))
    }

    fn filter(&self) -> Option<String> {
        self.query.filter.clone()
    }

    fn frame(&self) -> Result<Positions> {
        Ok(Positions { query: FileQuery { filter: None, ..self.query.clone() }, ..self.clone() })
    }

    fn narrowed(&self, filter: &str) -> Result<Positions> {
        let own = self.query.filter.iter();
        let filter = own.fold(filter.to_string(), |all, own| format!("({all}) AND ({own})"));
        let narrowed = Positions { query: FileQuery { filter: Some(filter), ..self.query.clone() }, ..self.clone() };
        narrowed.files.grids(&narrowed.query)?;
        Ok(narrowed)
    }

    fn scan<T: Send + 'static>(
        &self,
        scan: Scan,
        each: impl Fn(Scanned) -> Result<T> + Send + Sync + 'static,
        take: &mut dyn FnMut(T) -> Result<()>,
    ) -> Result<Stats> {
        let grids = self.grids(&scan.wanted.columns)?;
        let schema = Arc::new(Schema::new(grids[0].fields()));
        let execution = self.execution(&grids, &schema);
        let mut tasks = execution.plan(&mut Report::default())?;
        for task in tasks.iter_mut().filter(|_| !scan.range.is_all()) {
            let (member, grid) = (&self.files.members[task.member], &grids[task.member]);
            let mut outcome = Ok(());
            task.cells.retain(|cell| match priority(task.member, member, grid, &cell.rect) {
                Ok(priority) => scan.range.holds(priority),
                Err(error) => {
                    outcome = Err(error);
                    false
                }
            });
            outcome?;
            // The cell before the task's first cell may not be read.
            task.continues = false;
        }
        tasks.retain(|task| !task.cells.is_empty());
        let mut stats = Stats::default();
        for wave in tasks.chunks(WAVE) {
            let task = |index: usize| -> Result<(Vec<T>, Stats)> {
                if scan.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                    return Err(Error::Cancelled);
                }
                let task = execution.needed(&wave[index], scan.seek.as_deref());
                let rows_read = task.cells.iter().map(|cell| cell.rect.len()).sum();
                let cost = Stats { rows_read, pages_read: task.cells.len() as u64, ..Stats::default() };
                let found = execution.found(&task)?.into_iter().map(|found| {
                    each(Scanned {
                        rows: found.batch.num_rows(),
                        columns: found.batch.columns().to_vec(),
                        priorities: found.priorities,
                        stats: Stats::default(),
                    })
                });
                Ok((found.collect::<Result<_>>()?, cost))
            };
            let (found, _) = schedule::run(wave.len(), self.options.workers, self.options.policy, &self.cancel, &task)?;
            for (found, cost) in found {
                stats.add(&cost);
                found.into_iter().try_for_each(&mut *take)?;
            }
        }
        for member in &self.files.members {
            if member.is_open() {
                member.source()?.unchanged()?;
            }
        }
        let read = |reads: &Reads| (reads.bytes.load(Ordering::Relaxed), reads.requests.load(Ordering::Relaxed));
        let ((bytes, requests), (sorted_bytes, sorted_requests)) = (read(&execution.reads), read(&execution.sorted));
        stats.bytes_read += bytes + sorted_bytes;
        stats.round_trips += requests + sorted_requests;
        Ok(stats)
    }
}

impl Execution<'_> {
    fn needed(&self, task: &Task, seek: Option<&Seek>) -> Task {
        let (member, grid) = (&self.files.members[task.member], &self.grids[task.member]);
        let is_needed = |rect: &Rect| seek.is_none_or(|seek| seek.reads(|column| zone(member, grid, column, rect)));
        let cells = task.cells.iter().filter(|cell| is_needed(&cell.rect)).cloned().collect();
        Task { member: task.member, continues: task.continues, cells }
    }
}
