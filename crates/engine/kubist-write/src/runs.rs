//! Converts the rows of a commit to runs, and appends the runs to a segment.
//!
//! A run consists of the rows that a commit adds to one cube of the index tree. A cube keeps the rows with a priority
//! below its cutoff; the other rows move down to its children.
//!
//! The rows come in parts ([`crate::spill`]). A part's rows are inside one cube, and few enough to sort in memory. Only
//! the cubes above the parts get rows from several parts, so their cutoffs are computed first, from the parts' numbers
//! of rows. Then the parts are sorted, distributed over cubes and encoded in parallel. The rows for the cubes above are
//! collected, and encoded at the end.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use kubist_index::cube::CubeId;
use kubist_index::layout::{Capacity, Placement, cutoff_for};
use kubist_index::priority::Threshold;
use kubist_index::state::{Commit, RunId};
use kubist_store::Segment;
use rayon::prelude::*;

use crate::build::{EncodedRun, SortedRows};
use crate::keys::LookupColumns;
use crate::output::Output;
use crate::remaining::RemainingDirectories;
use crate::spill::Part;
use kubist_catalog::core::Core;
use kubist_catalog::frame::Frame;
use kubist_catalog::schema::TableSchema;
use kubist_format::location::Location;
use kubist_format::lookup::Lookup;
use kubist_types::cancel::Cancel;
use kubist_types::error::Result;

/// Bytes of memory to sort a row, in addition to its values.
pub(crate) const SORT_BYTES: usize = 48;
/// A part should take at most 1/`PART_SHARE` of the memory.
pub(crate) const PART_SHARE: usize = 8;

/// The runs of a commit, in a segment but not yet in the log.
#[derive(Default)]
pub(crate) struct Prepared {
    pub commit: Commit<Location>,
    pub bytes: u64,
    /// Number of rows with a value outside the domain of a dimension.
    pub outside: u64,
}

impl Prepared {
    /// Adds the runs of `later`. Runs are numbered within a commit, so these runs get new numbers, also in their
    /// secondary indexes.
    pub fn join(&mut self, later: Prepared) {
        let before = self.commit.runs.len();
        let mut moved: Option<(Arc<Lookup>, Arc<Lookup>)> = None;
        for mut run in later.commit.runs {
            let number = RunId(self.commit.runs.len() as u128);
            let own = Arc::make_mut(&mut run);
            own.id = number;
            if let Some(lookup) = &own.payload.lookup {
                // Consecutive runs share one secondary index, so it is renumbered only once.
                if moved.as_ref().is_none_or(|(old, _)| !Arc::ptr_eq(old, lookup)) {
                    let Lookup { segment, first, runs, columns } = &**lookup;
                    let (segment, columns) = (segment.clone(), columns.clone());
                    let new = Lookup { segment, first: first + before as u32, runs: *runs, columns };
                    moved = Some((lookup.clone(), Arc::new(new)));
                }
                own.payload.lookup = moved.as_ref().map(|(_, new)| new.clone());
            }
            self.commit.runs.push(run);
        }
        self.commit.cutoffs.extend(later.commit.cutoffs);
        lowest(&mut self.commit.cutoffs);
        self.bytes += later.bytes;
        self.outside += later.outside;
    }
}

fn lowest(cutoffs: &mut Vec<(CubeId, Threshold)>) {
    cutoffs.sort_unstable();
    cutoffs.dedup_by_key(|(cube, _)| *cube);
}

pub(crate) struct Runs<'a> {
    pub core: &'a Core,
    pub frame: &'a Arc<Frame>,
    pub schema: &'a TableSchema,
    /// The cutoffs and numbers of rows in the table before the commit.
    pub seen: &'a RemainingDirectories,
    pub step: Option<i64>,
    pub memory: usize,
    pub cancel: &'a Cancel,
}

struct Made {
    upper: Vec<(CubeId, RecordBatch)>,
    cutoffs: Vec<(CubeId, Threshold)>,
    runs: Vec<EncodedRun>,
    outside: u64,
}

impl Runs<'_> {
    /// Writes the parts as runs to the end of `segment`. The caller must sync the segment before it adds the commit to
    /// the log; otherwise a crash could leave a commit without its data.
    ///
    /// # Errors
    ///
    /// `Cancelled`; `Invalid` for columns that do not fit; a storage error.
    pub fn write(&self, parts: Vec<Part>, segment: &mut dyn Segment) -> Result<Prepared> {
        let capacity = Capacity::for_commits(self.core.header.capacity);
        let above = self.cutoffs_above(&parts, &capacity);
        let mut cutoffs: Vec<(CubeId, Threshold)> = above.iter().map(|(cube, cutoff)| (*cube, *cutoff)).collect();
        let mut output = Output::new(self.core, &self.frame.dimensions, segment, self.memory, self.cancel);
        let lookup = output.lookup_columns();
        let at_once = self.at_once(&parts);
        let mut upper: BTreeMap<CubeId, Vec<RecordBatch>> = BTreeMap::new();
        let (mut parts, mut done, mut outside) = (parts.into_iter(), Vec::new(), 0);
        loop {
            let some: Vec<Part> = parts.by_ref().take(at_once).collect();
            if some.is_empty() && done.is_empty() {
                break;
            }
            let append = || -> Result<()> {
                for Made { upper: rows, cutoffs: of_part, runs, outside: of_rows } in done {
                    outside += of_rows;
                    rows.into_iter().for_each(|(cube, rows)| upper.entry(cube).or_default().push(rows));
                    cutoffs.extend(of_part);
                    output.append(runs)?;
                }
                Ok(())
            };
            let make = |part: Part| self.make(part, &above, &capacity, &lookup);
            let (appended, made) =
                rayon::join(append, || some.into_par_iter().map(make).collect::<Result<Vec<Made>>>());
            appended?;
            done = made?;
        }
        let upper: Vec<(CubeId, Vec<RecordBatch>)> = upper.into_iter().collect();
        for some in upper.chunks(8 * rayon::current_num_threads()) {
            let encode =
                |(cube, batches): &(CubeId, Vec<RecordBatch>)| self.encode_above(*cube, batches, above[cube], &lookup);
            for runs in some.par_iter().map(encode).collect::<Result<Vec<_>>>()? {
                output.append(runs)?;
            }
        }
        self.cancel.check()?;
        let (runs, bytes) = output.finish()?;
        // Rows at the same point of the grid may be in several parts, which then have cutoffs for the same cubes.
        lowest(&mut cutoffs);
        Ok(Prepared { commit: Commit { runs, cutoffs }, bytes, outside })
    }

    /// The number of parts to process in parallel, so that they fit in half of the memory.
    fn at_once(&self, parts: &[Part]) -> usize {
        let largest = parts.iter().map(|part| part.bytes + part.rows * SORT_BYTES as u64).max().unwrap_or(0);
        let fit = (self.memory / PART_SHARE * 4) as u64 / largest.max(1);
        fit.clamp(1, 8 * rayon::current_num_threads() as u64) as usize
    }

    fn cutoffs_above(&self, parts: &[Part], capacity: &Capacity) -> BTreeMap<CubeId, Threshold> {
        let geometry = &self.frame.geometry;
        let mut above: BTreeMap<CubeId, Threshold> = BTreeMap::new();
        for part in parts {
            for cube in geometry.ancestors(part.cube) {
                if !above.contains_key(&cube) {
                    let floor = geometry.parent(cube).map_or(Threshold::NONE, |parent| above[&parent]);
                    let inside = parts.iter().filter(|other| geometry.contains(cube, other.cube));
                    let arriving = inside.map(|part| part.rows).sum::<u64>() as f64 * (1.0 - floor.to_fraction());
                    above.insert(cube, cutoff_for(geometry, capacity, self.seen, cube, arriving, floor));
                }
            }
        }
        above
    }

    fn sorted(&self, batches: &[RecordBatch]) -> Result<SortedRows> {
        // A column may have been added after these rows went to scratch files.
        let ready = |batch: &RecordBatch| self.schema.with_step(self.schema.widened(batch)?, self.step);
        let ready = batches.iter().map(ready).collect::<Result<Vec<_>>>()?;
        SortedRows::new(self.frame, &self.schema.stored, self.schema.run_encoding(), &ready, self.cancel)
    }

    /// Sorts a part, encodes its runs, and returns the rows that cubes above the part keep, not encoded.
    fn make(
        &self,
        part: Part,
        above: &BTreeMap<CubeId, Threshold>,
        capacity: &Capacity,
        lookup: &LookupColumns,
    ) -> Result<Made> {
        self.cancel.check()?;
        let (cube, geometry) = (part.cube, &self.frame.geometry);
        let sorted = self.sorted(&part.load()?)?;
        // The first ancestor whose cutoff admits a row keeps it.
        let ancestors: Vec<(CubeId, Threshold)> =
            geometry.ancestors(cube).map(|ancestor| (ancestor, above[&ancestor])).collect();
        let highest = ancestors.iter().map(|(_, cutoff)| *cutoff).max().unwrap_or(Threshold::NONE);
        let (kept, own): (Vec<u32>, Vec<u32>) = match highest {
            Threshold::NONE => (Vec::new(), sorted.all().collect()),
            _ => sorted.all().partition(|row| highest.admits(sorted.priorities[*row as usize])),
        };
        let mut kept_by: BTreeMap<CubeId, Vec<u32>> = BTreeMap::new();
        for row in kept {
            let mut admitting = ancestors.iter().filter(|(_, cutoff)| cutoff.admits(sorted.priorities[row as usize]));
            let (ancestor, _) = admitting.next().expect("the highest cutoff admits it");
            kept_by.entry(*ancestor).or_default().push(row);
        }
        let upper = kept_by.into_iter().map(|(ancestor, rows)| Ok((ancestor, sorted.take(&rows)?)));
        let upper = upper.collect::<Result<_>>()?;
        let floor = ancestors.last().map_or(Threshold::NONE, |(_, cutoff)| *cutoff);
        let placed = sorted.place(geometry, capacity, self.seen, cube, floor, own);
        let runs = sorted.encode_all(&placed.placements, &lookup.keys(sorted.batch()), self.cancel)?;
        Ok(Made { upper, cutoffs: placed.cutoffs, runs, outside: sorted.outside })
    }

    /// Encodes the run of a cube above the parts, from the rows that the parts returned.
    fn encode_above(
        &self,
        cube: CubeId,
        batches: &[RecordBatch],
        cutoff: Threshold,
        lookup: &LookupColumns,
    ) -> Result<Vec<EncodedRun>> {
        self.cancel.check()?;
        let sorted = self.sorted(batches)?;
        let within = sorted.all().collect();
        let placement = Placement { cube, within, overflow: vec![], cutoff, is_one_of_many: false };
        sorted.encode_all(&[placement], &lookup.keys(sorted.batch()), self.cancel)
    }
}
