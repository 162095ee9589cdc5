//! Checks the rows of a run: reads every page and recomputes each invariant from the values.

use std::sync::Arc;

use arrow_array::RecordBatch;
use kubist_index::priority::Threshold;
use kubist_index::state::Run;

use crate::readable::{ValidRows, grid, loss};
use kubist_catalog::frame::Frame;
use kubist_catalog::snapshot::Snapshot;
use kubist_format::encode::{ColumnEncoding, encode_column};
use kubist_format::location::Location;
use kubist_format::zone_map::ZoneMap;
use kubist_read::runs;
use kubist_types::error::Result;

use crate::verify::lookups::{self, Postings, Sum};
use crate::verify::replicas::Ledger;
use crate::verify::{VerifyReport, check_columns};

pub struct Judged {
    /// `None` if the zone map is unreadable or the grid is missing.
    frame: Option<Arc<Frame>>,
    /// The lowest and highest priority per page, or its damage.
    pages: Vec<std::result::Result<(u64, u64), String>>,
    held: Vec<(u32, Sum)>,
}

/// Checks the intact pages of a run. No priority may be below `highest_above`, the highest cutoff of the cubes above.
pub fn judge(
    snapshot: &Snapshot,
    run: &Run<Location>,
    highest_above: Option<Threshold>,
    sound: &ValidRows,
) -> Result<Judged> {
    let nothing = Judged { frame: None, pages: Vec::new(), held: Vec::new() };
    let Some(map) = &sound.map else { return Ok(nothing) };
    let Some(frame) = grid(snapshot, run.cube.grid())? else { return Ok(nothing) };
    let highest_above = highest_above.filter(|_| !run.is_replica());
    let check =
        |(page, batch): &(usize, RecordBatch)| check_page(snapshot, run, map, &frame, *page, batch, highest_above);
    let pages = sound.pages.iter().map(check).collect();
    let held = lookups::held(snapshot, run, map, &sound.pages);
    Ok(Judged { frame: Some(frame), pages, held })
}

pub fn note(
    snapshot: &Snapshot,
    run: &Arc<Run<Location>>,
    (sound, judged): (&ValidRows, Judged),
    ledger: &mut Ledger,
    postings: &Postings,
    report: &mut VerifyReport,
) -> Result<()> {
    for lost in &sound.lost {
        report.lose(run, loss(snapshot, run, sound.map.as_deref(), lost)?);
    }
    for unread in &sound.unread {
        report.miss_rows(run, unread);
    }
    let is_whole = sound.lost.is_empty() && sound.unread.is_empty();
    if !is_whole {
        ledger.lose(run.id);
    }
    let Some(map) = &sound.map else { return Ok(()) };
    let Some(frame) = judged.frame else {
        let what = format!("its grid {} is missing", run.cube.grid());
        report.find(runs::damaged(snapshot, run, 0, what).to_string());
        ledger.lose(run.id);
        return Ok(());
    };
    check_columns(snapshot, run, map, report);
    report.pages += map.pages() as u64;
    if is_whole {
        postings.compare(snapshot, run, &judged.held, report);
    }
    let (mut lowest_and_highest, mut right) = ((u64::MAX, 0), is_whole);
    for ((_, batch), found) in sound.pages.iter().zip(judged.pages) {
        if !run.is_replica() {
            report.rows += batch.num_rows() as u64;
        }
        ledger.count(run, &frame, batch);
        match found {
            Ok((low, high)) => {
                lowest_and_highest = (lowest_and_highest.0.min(low), lowest_and_highest.1.max(high));
            }
            Err(what) => {
                report.find(runs::damaged(snapshot, run, 0, what).to_string());
                right = false;
            }
        }
    }
    if !run.is_replica() {
        report.rows += sound.parts.iter().map(|batch| batch.num_rows() as u64).sum::<u64>();
    }
    if right && run.rows > 0 && lowest_and_highest != run.priorities {
        report.find(runs::damaged(snapshot, run, 0, "its priorities are not as its entry says".into()).to_string());
    }
    Ok(())
}

fn check_page(
    snapshot: &Snapshot,
    run: &Run<Location>,
    map: &ZoneMap,
    frame: &Frame,
    page: usize,
    batch: &RecordBatch,
    highest_above: Option<Threshold>,
) -> std::result::Result<(u64, u64), String> {
    let (geometry, location) = (frame.geometry, &run.payload);
    let (positions, coordinates) = (frame.positions(std::slice::from_ref(batch)), frame.coordinates_of(batch));
    let (zones, kept) = (map.page_zones(page), map.kept_priorities());
    let mut first = 0;
    for zone in zones.clone() {
        let rows = first..first + map.rows[zone] as usize;
        first = rows.end;
        for row in rows.clone() {
            if !geometry.contains_key(run.cube, positions.keys[row]) {
                return Err(format!("row {row} of page {page} lies outside its cube"));
            }
            if highest_above.is_some_and(|cutoff| cutoff.admits(positions.priorities[row])) {
                return Err(format!("row {row} of page {page} has a priority that belongs above its cube"));
            }
            let inside =
                |(d, column): (usize, &Vec<u32>)| location.low[d] <= column[row] && column[row] <= location.high[d];
            if !coordinates.iter().enumerate().all(inside) {
                return Err(format!("row {row} of page {page} lies outside its run's box"));
            }
        }
        let of_zone = &positions.priorities[rows];
        let (low, high) = (of_zone.iter().min().copied(), of_zone.iter().max().copied());
        if map.priorities[zone] != kept(low.unwrap_or(0), high.unwrap_or(0)) {
            return Err(format!("zone {zone} has other priorities than its records"));
        }
    }
    let order: Vec<u32> = (0..batch.num_rows() as u32).collect();
    let how = ColumnEncoding { compression: map.compression, step: None };
    for (column, array) in batch.columns().iter().enumerate().take(map.columns.len()) {
        let found = encode_column(array.as_ref(), &order, &map.rows[zones.clone()], how).zones;
        let stated = &map.columns[column];
        for (index, zone) in zones.clone().enumerate() {
            let same = map.states_bounds(column, zone, found.min[index], found.max[index])
                && found.nulls_of(index) == stated.nulls_of(zone);
            if !same {
                let name = snapshot.view.schema.stored.field(column).name().clone();
                return Err(format!("zone {zone} says other bounds or nulls of column {name:?} than its records"));
            }
        }
    }
    let priorities = positions.priorities.iter();
    Ok((priorities.clone().min().copied().unwrap_or(u64::MAX), priorities.max().copied().unwrap_or(0)))
}
