//! Checks the secondary indexes.
//!
//! All postings are read. The deep check also compares the postings with the rows of each run, by the number of pairs
//! of key and zone, and the sum of the pairs' hashes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use kubist_index::state::{Run, RunId};

use kubist_catalog::error::{is_damage, is_unread};
use kubist_catalog::snapshot::Snapshot;
use kubist_format::location::Location;
use kubist_format::lookup::postings::Directory;
use kubist_format::lookup::{Lookup, OfColumn, keys};
use kubist_format::lookups::first_run;
use kubist_format::zone_map::ZoneMap;
use kubist_read::postings::{check_index, read_postings};
use kubist_read::runs;
use kubist_types::cancel::Cancel;
use kubist_types::error::{Error, Result};
use rayon::prelude::*;

use crate::verify::VerifyReport;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sum {
    pairs: u64,
    hashes: u64,
}

impl Sum {
    fn add(&mut self, key: u32, zone: u32) {
        // The finalizer of splitmix64.
        let mut hash = (key as u64) << 32 | zone as u64;
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.pairs += 1;
        self.hashes = self.hashes.wrapping_add(hash ^ (hash >> 31));
    }
}

/// Sums by the first run of the index, then by column and run.
#[derive(Default)]
pub struct Postings(HashMap<RunId, Vec<Vec<Sum>>>);

impl Postings {
    /// Reads secondary indexes, each with the first run that it covers, and reports damage.
    pub fn read(
        snapshot: &Snapshot,
        lookups: &BTreeMap<RunId, Arc<Lookup>>,
        cancel: &Cancel,
        report: &mut VerifyReport,
    ) -> Result<Postings> {
        let mut postings = Postings::default();
        let lookups: Vec<(&RunId, &Arc<Lookup>)> = lookups.iter().collect();
        for some in lookups.chunks(rayon::current_num_threads()) {
            cancel.check()?;
            let read = some.par_iter().map(|(_, lookup)| read_one(snapshot, lookup, cancel));
            let read: Vec<Result<Vec<Vec<Sum>>>> = read.collect();
            for ((first, lookup), sums) in some.iter().zip(read) {
                match sums.map_err(|error| explained(snapshot, lookup, error)) {
                    Err(error) if is_damage(&error) => {
                        report.find(format!("{error}: costs no row by itself, for what it covers is scanned"));
                    }
                    Err(error) if is_unread(&error) => report.miss(error.to_string()),
                    sums => {
                        let sums = sums?;
                        if report.deep {
                            postings.0.insert(**first, sums);
                        }
                    }
                }
                report.bytes += lookup.length();
            }
        }
        Ok(postings)
    }

    /// `held` has the sums over all rows of the run.
    pub fn compare(&self, snapshot: &Snapshot, run: &Run<Location>, held: &[(u32, Sum)], report: &mut VerifyReport) {
        let Some(lookup) = &run.payload.lookup else { return };
        let Some(stated) = self.0.get(&first_run(run, lookup)) else { return };
        for (of_runs, (column, held)) in stated.iter().zip(held) {
            if of_runs.get(lookup.index_of(run.id)).is_some_and(|stated| stated != held) {
                let field = snapshot.view.schema.stored.fields().get(*column as usize);
                let name = field.map_or("", |field| field.name().as_str());
                let what = format!("the lookup of column {name:?} names other zones of it than hold its values");
                report.find(runs::damaged(snapshot, run, 0, what).to_string());
            }
        }
    }
}

fn read_one(snapshot: &Snapshot, lookup: &Lookup, cancel: &Cancel) -> Result<Vec<Vec<Sum>>> {
    let of_column = |place: &OfColumn| {
        let mut sums = vec![Sum::default(); lookup.runs as usize];
        let mut count = |directory: &Directory, key: u32, zones: &[u32]| {
            for zone in zones {
                let run = directory.firsts.partition_point(|first| first <= zone) - 1;
                sums[run].add(key, zone - directory.firsts[run]);
            }
        };
        read_postings(snapshot, lookup, place, cancel, &mut count)?;
        check_index(snapshot, lookup, place)?;
        Ok(sums)
    };
    lookup.columns.iter().map(of_column).collect()
}

pub fn held(
    snapshot: &Snapshot,
    run: &Run<Location>,
    map: &ZoneMap,
    pages: &[(usize, RecordBatch)],
) -> Vec<(u32, Sum)> {
    let columns = run.payload.lookup.iter().flat_map(|lookup| &lookup.columns);
    let of_column = |of_column: &OfColumn| {
        let mut sum = Sum::default();
        for (page, batch) in pages {
            let Some(array) = batch.columns().get(of_column.column as usize) else { continue };
            let of_rows = keys(array.as_ref(), snapshot.core.header.seed);
            let mut row = 0;
            for zone in map.page_zones(*page) {
                let rows = row..row + map.rows[zone] as usize;
                row = rows.end;
                let mut distinct: Vec<u32> = rows.filter(|row| array.is_valid(*row)).map(|row| of_rows[row]).collect();
                distinct.sort_unstable();
                distinct.dedup();
                distinct.into_iter().for_each(|key| sum.add(key, zone as u32));
            }
        }
        (of_column.column, sum)
    };
    columns.map(of_column).collect()
}

/// No damage if all covered runs were replaced and their bytes freed.
fn explained(snapshot: &Snapshot, lookup: &Lookup, error: Error) -> Error {
    let covers = |live: &Run<Location>| live.payload.lookup.as_ref().is_some_and(|other| other.key() == lookup.key());
    match is_damage(&error) {
        true => snapshot.core.explained(&snapshot.view, covers, error),
        false => error,
    }
}
