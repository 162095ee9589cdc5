//! The bytes that a query reads of runs, for partial copies.
//!
//! The chunks of whole pages are counted, so a query over fewer rows of these columns reads no other bytes.

use std::ops::Range;

use kubist_catalog::stop::stoppable;
use kubist_index::priority::{PriorityRange, Threshold};
use kubist_store::Partial;
use kubist_types::error::Result;

use super::{Loaded, Reading, RunPicks, merge};
use crate::bind::BoundQuery;
use crate::visit::Visit;
use kubist_types::stats::Cost;

/// Runs whose zone maps are read together.
const RUNS_AT_ONCE: usize = 512;
/// Bytes of runs whose pages are read together.
const BYTES_AT_ONCE: u64 = 16 << 20;

/// What a partial copy holds of the runs of a query.
pub struct Holding<'a> {
    pub query: &'a BoundQuery,
    pub partial: &'a dyn Partial,
    pub range: PriorityRange,
    /// Stored columns, ascending.
    pub columns: Vec<usize>,
}

impl Holding<'_> {
    /// Reads and checks all bytes of the visits, so that a copy that fetches holds them. Calls `progress` with the
    /// number of visits done.
    pub fn load(&self, visits: &[Visit], mut progress: impl FnMut(usize)) -> Result<()> {
        let mut begin = 0;
        while begin < visits.len() {
            let mut bytes = 0;
            let rest = &visits[begin..(begin + RUNS_AT_ONCE).min(visits.len())];
            let fits = rest.iter().take_while(|visit| {
                let before = bytes;
                bytes += visit.run.payload.data_length;
                before < BYTES_AT_ONCE
            });
            let end = begin + fits.count();
            let mut reading = self.reading(&visits[begin..end])?;
            let picks = self.picks(&reading)?;
            reading.load(&[(&picks, &self.columns)])?;
            progress(end);
            begin = end;
        }
        Ok(())
    }

    /// The bytes of the visits that are not held. Without a run's zone map it counts the run's part by its rows.
    pub fn missing(&self, visits: &[Visit]) -> Result<u64> {
        let (mut without_map, mut missing) = (0, 0);
        self.each(
            visits,
            |visit| {
                let location = &visit.run.payload;
                let part = visit.rows(&self.query.region, self.range) / visit.run.rows.max(1) as f64;
                without_map += u64::from(location.map_length) + (location.data_length as f64 * part) as u64;
            },
            |_, _, bytes, is_new| missing += if is_new { bytes } else { 0 },
        )?;
        Ok(without_map + missing)
    }

    /// The threshold below which all rows of the visits are held.
    pub fn below(&self, visits: &[Visit]) -> Result<Threshold> {
        let mut below = Threshold::ALL;
        let mut lower = |priority: u64| below = below.min(Threshold::new(priority.into()));
        let mut of_runs = Vec::new();
        self.each(
            visits,
            |visit| of_runs.push(visit.run.priorities.0),
            |reading, (run, zones), bytes, _| {
                let priorities = &reading.maps[run].priorities;
                if bytes > 0 {
                    zones.filter_map(|zone| priorities.get(zone)).for_each(|zone| lower(zone.first));
                }
            },
        )?;
        of_runs.into_iter().for_each(lower);
        Ok(below)
    }

    /// Calls `without_map` for each visit whose zone map is not held, and `of_pick` with a run, zones of one page, the
    /// missing bytes of this page, and whether these are the first zones of the page.
    fn each(
        &self,
        visits: &[Visit],
        without_map: impl FnMut(&Visit),
        mut of_pick: impl FnMut(&Reading<'_>, (usize, Range<usize>), u64, bool),
    ) -> Result<()> {
        let has_map = |visit: &&Visit| {
            let location = &visit.run.payload;
            let range = location.map_offset..location.map_offset + u64::from(location.map_length);
            self.partial.missing(&[(&location.segment, &[range])]) == 0
        };
        let (known, unknown): (Vec<&Visit>, Vec<&Visit>) = visits.iter().partition(has_map);
        unknown.into_iter().for_each(without_map);
        let known: Vec<Visit> = known.into_iter().cloned().collect();
        for some in known.chunks(RUNS_AT_ONCE) {
            let reading = self.reading(some)?;
            for RunPicks { run, picks } in self.picks(&reading)? {
                let (map, location) = (&reading.maps[run], &some[run].run.payload);
                let mut last: Option<(usize, u64)> = None;
                for pick in picks {
                    let page = pick.page();
                    let bytes = match last {
                        Some((known, bytes)) if known == page => bytes,
                        _ => {
                            let written = self.columns.iter().filter(|column| **column < map.columns.len());
                            let chunks = written.map(|column| {
                                let chunk = map.chunk(page, *column);
                                let start = location.data_offset + chunk.offset;
                                start..start + u64::from(chunk.length)
                            });
                            self.partial.missing(&[(&location.segment, &chunks.collect::<Vec<_>>())])
                        }
                    };
                    let is_new = last.is_none_or(|(known, _)| known != page);
                    last = Some((page, bytes));
                    of_pick(&reading, (run, pick.zones.clone()), bytes, is_new);
                }
            }
        }
        Ok(())
    }

    fn reading<'a>(&'a self, visits: &'a [Visit]) -> Result<Reading<'a>> {
        let runs = visits.iter().map(|visit| &visit.run);
        let (maps, _) = stoppable(&self.query.cancel, || self.query.snapshot.zone_maps(runs, false))?;
        let loaded = vec![Loaded::default(); visits.len()];
        let (kept, pieces, cost) = (Vec::new(), Vec::new(), Cost::default());
        Ok(Reading { query: self.query, visits, maps, kept, loaded, pieces, cost })
    }

    fn picks(&self, reading: &Reading<'_>) -> Result<Vec<RunPicks>> {
        let (whole, open) = reading.judge_zones(self.range, None)?;
        Ok(merge(whole, open))
    }
}
