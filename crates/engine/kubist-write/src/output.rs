//! Writes runs to a segment: encoded in parallel, appended in order.

use std::sync::Arc;

use kubist_index::layout::Placement;
use kubist_index::state::{Run, RunId};
use kubist_store::Segment;

use crate::build::{EncodedRun, SortedRows};
use crate::keys::LookupColumns;
use crate::postings::PostingsBuilder;
use kubist_catalog::core::Core;
use kubist_catalog::error::store_error;
use kubist_format::location::Location;
use kubist_format::ranges;
use kubist_types::cancel::Cancel;
use kubist_types::error::Result;

pub const DEFAULT_MEMORY: usize = 1 << 30;

const GROUP_ROWS: usize = 1 << 19;

pub struct Output<'a> {
    segment: &'a mut dyn Segment,
    cancel: &'a Cancel,
    /// Their ids are set when the entry's number is known.
    runs: Vec<Arc<Run<Location>>>,
    bytes: u64,
    lookup: PostingsBuilder,
    ranges: ranges::RangesBuilder,
    /// Stored columns. Ranges cover only the other columns, because runs store their box.
    dimensions: Vec<usize>,
}

impl<'a> Output<'a> {
    /// Creates the output; `dimensions` are stored columns. Postings of each indexed column take about one eighth of
    /// `memory` bytes.
    pub fn new(
        core: &Core,
        dimensions: &[usize],
        segment: &'a mut dyn Segment,
        memory: usize,
        cancel: &'a Cancel,
    ) -> Output<'a> {
        let (lookup, ranges) = (PostingsBuilder::new(core, memory / 8), ranges::RangesBuilder::default());
        let dimensions = dimensions.to_vec();
        Output { segment, cancel, runs: Vec::new(), bytes: 0, lookup, ranges, dimensions }
    }

    pub fn lookup_columns(&self) -> LookupColumns {
        self.lookup.columns.clone()
    }

    /// Encodes placements in parallel, and appends them group by group.
    ///
    /// # Errors
    ///
    /// `Cancelled`, or a storage error.
    pub fn write(&mut self, rows: &SortedRows, placements: &[Placement]) -> Result<()> {
        let mut rest = placements;
        let keys = self.lookup.columns.keys(rows.batch());
        while !rest.is_empty() {
            self.cancel.check()?;
            let mut total = 0;
            let count = rest.iter().take_while(|placement| {
                total += placement.within.len() + placement.overflow.len();
                total <= GROUP_ROWS
            });
            let (group, later) = rest.split_at(count.count().max(1));
            rest = later;
            self.append(rows.encode_all(group, &keys, self.cancel)?)?;
        }
        Ok(())
    }

    fn write_lookup(&mut self) -> Result<()> {
        self.bytes += self.lookup.write(self.segment, &mut self.runs)?;
        Ok(())
    }

    /// Returns all runs with their secondary indexes, and their size in bytes.
    ///
    /// # Errors
    ///
    /// A storage error.
    pub fn finish(mut self) -> Result<(Vec<Arc<Run<Location>>>, u64)> {
        self.write_lookup()?;
        let ranges = self.ranges.finish(self.runs.len());
        for (run, ranges) in self.runs.iter_mut().zip(ranges) {
            Arc::make_mut(run).payload.ranges = Some(ranges);
        }
        Ok((self.runs, self.bytes))
    }

    /// Appends the data, then all zone maps, so that the maps of neighbouring cubes are read together.
    ///
    /// # Errors
    ///
    /// A storage error.
    pub fn append(&mut self, runs: Vec<EncodedRun>) -> Result<()> {
        let segment: Arc<str> = self.segment.name().into();
        let data = runs.iter().flat_map(|run| &run.data);
        let parts: Vec<&[u8]> = data.chain(runs.iter().map(|run| &run.map)).map(Vec::as_slice).collect();
        let mut data_offset = self.segment.append(&parts).map_err(store_error)?;
        let mut map_offset = data_offset + runs.iter().map(|run| run.data_length).sum::<u64>();
        for run in runs {
            let payload = Location {
                segment: segment.clone(),
                data_offset,
                data_length: run.data_length,
                map_offset,
                map_length: run.map.len() as u32,
                low: run.low,
                high: run.high,
                origin: None,
                lookup: None,
                ranges: None,
            };
            data_offset += run.data_length;
            map_offset += run.map.len() as u64;
            self.bytes += run.data_length + run.map.len() as u64;
            self.lookup.add(run.postings, run.zones);
            let of_columns = run.ranges.iter().copied().enumerate();
            self.ranges.add(of_columns.filter(|(column, _)| !self.dimensions.contains(column)));
            let EncodedRun { cube, rows, priorities, .. } = run;
            let id = RunId(self.runs.len() as u128);
            self.runs.push(Arc::new(Run { id, cube, rows, priorities, copies: vec![], payload }));
        }
        if self.lookup.is_full() {
            self.write_lookup()?;
        }
        Ok(())
    }
}

pub fn identify(runs: &mut [Arc<Run<Location>>], origin: u64, sequence: u64) {
    for (index, run) in runs.iter_mut().enumerate() {
        Arc::make_mut(run).id = RunId::new(origin, sequence, index as u32);
    }
}
