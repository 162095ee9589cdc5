//! Reads runs: selects zones, then rows, and then reads columns.
//!
//! Zone maps decide first; if they leave a zone open, the predicate's columns are decoded and every row is tested. The
//! wanted columns are read last, only for the matching rows.

pub mod held;
mod labels;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_schema::Schema;
use bytes::Bytes;
use kubist_expr::{ALL_INSIDE, KeyRanges, Nulls, SOME_INSIDE, Verdict, Zone};
use kubist_index::cube::GridBox;
use kubist_index::priority::PriorityRange;

use crate::bind::BoundQuery;
use crate::execute::{Keeps, Projection, Scanned, Skip};
use crate::grids::Within;
use crate::runs;
use crate::visit::Visit;
use kubist_catalog::decoded::{DecodedRun, Keeper};
use kubist_catalog::fetch::Piece;
use kubist_catalog::stop::stoppable;
use kubist_format::decode::{self, Pick};
use kubist_format::page::PageColumn;
use kubist_format::rows::{Rows, Span, all_rows, for_rows};
use kubist_format::zone_map::{ColumnZones, ZoneMap};
use kubist_types::error::{Error, Result};
use kubist_types::stats::Cost;
use kubist_types::stats::Stats;

const ZONES_A_LOOK: usize = 1024;
/// How many pages ahead the entries of decoded pages are prefetched.
const ENTRIES_AHEAD: usize = 3;
/// Assumed maximum number of rows between the picked rows of a page.
const ROWS_BETWEEN: usize = 2048;

/// Picked zones of a run, ascending; no pick spans two pages.
struct RunPicks {
    run: usize,
    picks: Vec<Pick>,
}

/// The locations of a run's chunks that were read, by page and column, and the pages read; empty until
/// something is read.
#[derive(Clone, Default)]
struct Loaded {
    chunks: Vec<Option<ChunkSource>>,
    pages: Vec<bool>,
}

#[derive(Clone, Copy)]
enum ChunkSource {
    Read {
        piece: usize,
        start: usize,
    },
    /// Decoded, in the cache.
    Cached,
}

struct Judged {
    columns: Vec<usize>,
    by_priority: bool,
    by_place: BTreeSet<u32>,
    /// Whether most open zones have a matching row. This is so for a query with only a box, because a zone at
    /// its boundary usually has a row inside, and if a secondary index names the zones.
    found_in_most: bool,
}

struct Reading<'a> {
    query: &'a BoundQuery,
    visits: &'a [Visit],
    maps: Vec<Arc<ZoneMap>>,
    /// The cached decoded pages by run; empty if the query uses no cache.
    kept: Vec<Arc<DecodedRun>>,
    loaded: Vec<Loaded>,
    pieces: Vec<Bytes>,
    cost: Cost,
}

/// Reads the rows of `visits` that match the query and have a priority in `range`. `keeps` selects the data to
/// cache.
pub fn scan(
    query: &BoundQuery,
    visits: &[Visit],
    range: PriorityRange,
    wanted: &Projection,
    skip: Option<&Skip>,
    keeps: Keeps,
) -> Result<Scanned> {
    query.cancel.check()?;
    let runs = visits.iter().map(|visit| &visit.run);
    let (maps, cost) = stoppable(&query.cancel, || query.snapshot.zone_maps(runs, keeps.zone_maps))?;
    let loaded = vec![Loaded::default(); visits.len()];
    let decoded_pages = &query.snapshot.core.decoded_pages;
    let of_visit = |(visit, map): (&Visit, &Arc<ZoneMap>)| (visit.run.id, map.pages());
    let kept =
        if keeps.judged.is_some() { decoded_pages.of_runs(visits.iter().zip(&maps).map(of_visit)) } else { Vec::new() };
    let mut reading = Reading { query, visits, maps, kept, loaded, pieces: Vec::new(), cost };
    let (mut picks, open) = reading.judge_zones(range, skip)?;
    let mut columns = wanted.columns.clone();
    if wanted.priorities {
        columns.extend(query.snapshot.view.schema.prioritised().columns());
    }
    let (mut rows_read, whole_rows) = (0, reading.rows_of(&picks));
    if !open.is_empty() {
        rows_read += reading.rows_of(&open);
        let judged = reading.judged_columns(&open, range);
        reading.load_ahead(&picks, &columns, &open, &judged)?;
        let survivors = reading.judge_rows(&open, range, &judged, keeps.judged)?;
        reading.note_waste(&open, &survivors);
        picks = merge(picks, survivors);
    }
    let mut scanned = Scanned { rows: 0, columns: vec![], priorities: vec![], stats: Stats::default() };
    scanned.rows = reading.rows_in(&picks);
    if scanned.rows > 0 && (wanted.priorities || !wanted.columns.is_empty()) {
        // Rows of open zones were counted when they were tested.
        rows_read += whole_rows;
        // Priorities are computed from plain values.
        let identity: &[usize] = if wanted.priorities { &query.snapshot.view.schema.identity } else { &[] };
        let coded = |column| wanted.coded.contains(&column) && !identity.contains(&column);
        let mut arrays = reading.columns(&picks, &columns, coded, keeps.wanted)?;
        if wanted.priorities {
            let of_priorities = arrays.split_off(wanted.columns.len());
            scanned.priorities = query.priorities(&of_priorities, scanned.rows);
        }
        scanned.columns = arrays;
    }
    scanned.stats.rows_read = rows_read;
    scanned.stats.spend(reading.cost);
    scanned.stats.pages_read = reading.pages_read();
    Ok(scanned)
}

/// Merges two sets of picks by run and zone; no zone is in both.
fn merge(a: Vec<RunPicks>, b: Vec<RunPicks>) -> Vec<RunPicks> {
    let mut merged: Vec<RunPicks> = Vec::new();
    let mut all: Vec<RunPicks> = a.into_iter().chain(b).collect();
    all.sort_by_key(|picks| picks.run);
    for picks in all {
        match merged.last_mut() {
            Some(last) if last.run == picks.run => {
                last.picks.extend(picks.picks);
                last.picks.sort_by_key(|pick| pick.zones.start);
            }
            _ => merged.push(picks),
        }
    }
    merged
}

impl Reading<'_> {
    /// Returns the picks of zones that match completely, and of zones whose rows must be tested.
    fn judge_zones(&self, range: PriorityRange, skip: Option<&Skip>) -> Result<(Vec<RunPicks>, Vec<RunPicks>)> {
        let predicate = &self.query.predicate;
        let schema = &self.query.snapshot.view.schema;
        let columns = predicate.columns();
        let ranges = predicate.key_ranges();
        let (mut whole, mut open, mut verdicts) = (Vec::new(), Vec::new(), Vec::new());
        let mut zones: Vec<ZonesOfRun<'_>> = Vec::with_capacity(columns.len());
        for (run, (map, visit)) in self.maps.iter().zip(self.visits).enumerate() {
            self.query.cancel.check()?;
            zones.clear();
            zones.extend(columns.iter().map(|column| match schema.stored_index[*column] {
                place if place < map.columns.len() => ZonesOfRun::Written(map, place, &map.columns[place]),
                place => ZonesOfRun::Default(schema.zone_of_default(place)),
            }));
            let zones_of = |column: usize| &zones[columns.binary_search(&column).expect("one of them")];
            let of_run = match visit.zones {
                Some(_) => Verdict::Some,
                None => predicate.verdict(&|column| zones_of(column).run_zone()),
            };
            if of_run == Verdict::None {
                continue;
            }
            let (first, last) = visit.run.priorities;
            let run_inside = range.first <= first && last <= range.last;
            if of_run == Verdict::All && run_inside && visit.within.is_empty() && skip.is_none() {
                whole.push(RunPicks { run, picks: Pick::everything(map) });
                continue;
            }
            let listed = visit.zones.as_deref();
            // A short list of zones is tested one by one.
            let ranges = ranges.as_ref().filter(|_| of_run == Verdict::Some && listed.is_none());
            let by_ranges = ranges.is_some_and(|ranges| judge_by_ranges(ranges, zones_of, &mut verdicts));
            let (mut run_whole, mut run_open) = (Vec::new(), Vec::new());
            for number in 0..listed.map_or(map.zones(), <[u32]>::len) {
                if number % ZONES_A_LOOK == ZONES_A_LOOK - 1 {
                    self.query.cancel.check()?;
                }
                let zone = listed.map_or(number, |zones| zones[number] as usize);
                if by_ranges && verdicts[zone] == Verdict::None {
                    continue;
                }
                // A damaged index may name a zone that does not exist.
                let Some(priorities) = map.priorities.get(zone) else { break };
                let meets = run_inside || range.meets(priorities.first, priorities.last);
                if !meets || skip.is_some_and(|skip| skip(map, zone)) {
                    continue;
                }
                let verdict = match of_run {
                    Verdict::Some if by_ranges => verdicts[zone],
                    Verdict::Some => predicate.verdict(&|column| zones_of(column).zone(zone)),
                    decided => decided,
                };
                let place = self.place_of(&visit.within, map, zone);
                if place == Verdict::None {
                    continue;
                }
                let inside = run_inside || range.first <= priorities.first && priorities.last <= range.last;
                match verdict {
                    Verdict::None => {}
                    Verdict::All if inside && place == Verdict::All => decode::pick_zone(&mut run_whole, zone),
                    _ => decode::pick_zone(&mut run_open, zone),
                }
            }
            for (picks, all) in [(run_whole, &mut whole), (run_open, &mut open)] {
                if !picks.is_empty() {
                    all.push(RunPicks { run, picks });
                }
            }
        }
        Ok((whole, open))
    }

    fn place_of(&self, within: &[Within], map: &ZoneMap, zone: usize) -> Verdict {
        let (schema, grids) = (&self.query.snapshot.view.schema, &self.query.grids);
        let mut place = Verdict::All;
        for Within { grid, boxes } in within {
            let Some(around) = grids.box_of_zone(schema, *grid, map, zone) else {
                place = Verdict::Some;
                continue;
            };
            let k = grids.dimensions(*grid).len();
            let meets = |one: &&GridBox| (0..k).all(|d| one.low[d] <= around.high[d] && one.high[d] >= around.low[d]);
            let holds = |one: &GridBox| (0..k).all(|d| one.low[d] <= around.low[d] && one.high[d] >= around.high[d]);
            match boxes.iter().filter(meets).map(holds).reduce(|one, other| one || other) {
                None => return Verdict::None,
                Some(true) => {}
                Some(false) => place = Verdict::Some,
            }
        }
        place
    }

    fn judged_columns(&self, open: &[RunPicks], range: PriorityRange) -> Judged {
        let query = self.query;
        let schema = &query.snapshot.view.schema;
        let asked = query.predicate.columns().into_iter();
        let mut columns: BTreeSet<usize> = asked.map(|column| schema.stored_index[column]).collect();
        let sought: BTreeSet<usize> = query.sought.iter().map(|sought| sought.column).collect();
        let by_lookup = open.iter().all(|run| self.visits[run.run].zones.is_some());
        let found_in_most =
            columns.iter().all(|column| schema.dimensions.contains(column) || by_lookup && sought.contains(column));
        let reaches_out = |run: &RunPicks| {
            let (first, last) = self.visits[run.run].run.priorities;
            let mut zones = run.picks.iter().flat_map(|pick| &self.maps[run.run].priorities[pick.zones.clone()]);
            let mut out = |zone: &PriorityRange| zone.first < range.first || zone.last > range.last;
            (first < range.first || last > range.last) && zones.any(&mut out)
        };
        let by_priority = !query.keeps_to(range) && open.iter().any(reaches_out);
        let by_place: BTreeSet<u32> =
            open.iter().flat_map(|run| self.visits[run.run].within.iter().map(|within| within.grid)).collect();
        if by_priority {
            columns.extend(schema.prioritised().columns());
        }
        by_place.iter().for_each(|grid| columns.extend(query.grids.dimensions(*grid)));
        Judged { columns: columns.into_iter().collect(), by_priority, by_place, found_in_most }
    }

    /// Reads in one request the wanted columns of complete zones, and the columns of tests in open zones. If
    /// most open zones have a matching row, it reads their wanted columns too.
    fn load_ahead(&mut self, whole: &[RunPicks], wanted: &[usize], open: &[RunPicks], judged: &Judged) -> Result<()> {
        let ascending = |columns: BTreeSet<usize>| columns.into_iter().collect::<Vec<_>>();
        let of_whole = ascending(wanted.iter().copied().collect());
        let of_open = match judged.found_in_most {
            true => &ascending(wanted.iter().chain(&judged.columns).copied().collect()),
            false => &judged.columns,
        };
        self.load(&[(whole, &of_whole), (open, of_open)])
    }

    fn judge_rows(
        &mut self,
        open: &[RunPicks],
        range: PriorityRange,
        judged: &Judged,
        keeper: Option<Keeper>,
    ) -> Result<Vec<RunPicks>> {
        if let Some(survivors) = self.judge_labels(open, judged, keeper)? {
            return Ok(survivors);
        }
        let query = self.query;
        let schema = &query.snapshot.view.schema;
        let Judged { columns, by_priority, by_place, .. } = judged;
        // Priorities and positions are computed from plain values.
        let coded = |column| !(*by_priority && schema.identity.contains(&column));
        let arrays = self.columns(open, columns, coded, keeper)?;
        let rows = self.rows_in(open);
        let array_of = |column: &usize| arrays[columns.binary_search(column).expect("decoded above")].clone();
        let field = |(column, array): (&usize, &ArrayRef)| {
            schema.stored.field(*column).clone().with_data_type(array.data_type().clone())
        };
        let projected = Schema::new(columns.iter().zip(&arrays).map(field).collect::<Vec<_>>());
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch =
            RecordBatch::try_new_with_options(Arc::new(projected), arrays.clone(), &options).map_err(Error::kernel)?;
        let selected: BooleanArray = query.predicate.evaluate(&batch, &|| query.cancel.is_set())?;
        let priorities = match *by_priority {
            true => {
                let columns: Vec<ArrayRef> = schema.prioritised().columns().map(|column| array_of(&column)).collect();
                query.priorities(&columns, rows)
            }
            false => vec![],
        };
        let coordinates_in = |grid: &u32| {
            let dimensions: Vec<ArrayRef> = query.grids.dimensions(*grid).iter().map(array_of).collect();
            Ok((*grid, query.grids.coordinates(*grid, &dimensions)?))
        };
        let coordinates: BTreeMap<u32, Vec<Vec<u32>>> = by_place.iter().map(coordinates_in).collect::<Result<_>>()?;
        let in_place = |row: usize, Within { grid, boxes }: &Within| {
            boxes.iter().any(|one| {
                let mut sides = coordinates[grid].iter().zip(one.low.iter().zip(&one.high));
                sides.all(|(column, (low, high))| (*low..=*high).contains(&column[row]))
            })
        };
        let mut first = 0;
        let mut survivors = Vec::new();
        for run in open {
            query.cancel.check()?;
            let within = &self.visits[run.run].within;
            let mut picks = Vec::new();
            for zone in run.picks.iter().flat_map(|pick| pick.zones.clone()) {
                let count = self.maps[run.run].rows[zone];
                let mut rows = bits_of(&selected, first, count as usize);
                if *by_priority && rows != 0 {
                    rows &= inside(range, &priorities[first..first + count as usize]);
                }
                if !within.is_empty() {
                    let candidates = rows;
                    for_rows(candidates, |row| {
                        let holds = within.iter().all(|one| in_place(first + row, one));
                        rows &= !((!holds as Rows) << row);
                    });
                }
                first += count as usize;
                pick_rows(&mut picks, zone, rows, count);
            }
            if !picks.is_empty() {
                survivors.push(RunPicks { run: run.run, picks });
            }
        }
        Ok(survivors)
    }

    /// Reports to the optimizer the rows that were examined but did not match.
    fn note_waste(&self, open: &[RunPicks], survivors: &[RunPicks]) {
        let mut found = survivors.iter().peekable();
        let wasted = open.iter().map(|looked| {
            // If a secondary index chose the zones, no other layout would help.
            let examined = match self.visits[looked.run].zones {
                Some(_) => 0,
                None => self.rows_of(std::slice::from_ref(looked)),
            };
            let same = found.next_if(|picks| picks.run == looked.run);
            let matched = same.map_or(0, |same| self.rows_in(std::slice::from_ref(same)) as u64);
            (self.visits[looked.run].run.cube, examined.saturating_sub(matched))
        });
        self.query.snapshot.core.read_amplification.add(wasted);
    }

    fn rows_of(&self, picks: &[RunPicks]) -> u64 {
        let zones = picks.iter().flat_map(|run| run.picks.iter().map(move |pick| (run.run, &pick.zones)));
        zones.map(|(run, zones)| self.maps[run].rows_of(zones) as u64).sum()
    }

    fn rows_in(&self, picks: &[RunPicks]) -> usize {
        let of_run = |run: &RunPicks| run.picks.iter().map(|pick| pick.count(&self.maps[run.run])).sum::<usize>();
        picks.iter().map(of_run).sum()
    }

    fn pages_read(&self) -> u64 {
        self.loaded.iter().flat_map(|loaded| &loaded.pages).filter(|read| **read).count() as u64
    }

    /// Decodes columns of picked rows, in the order of `columns`. Texts of `coded` columns with few values become
    /// dictionaries. A `keeper` keeps decoded pages that several queries read.
    fn columns(
        &mut self,
        picks: &[RunPicks],
        columns: &[usize],
        coded: impl Fn(usize) -> bool,
        keeper: Option<Keeper>,
    ) -> Result<Vec<ArrayRef>> {
        self.load(&[(picks, columns)])?;
        let schema = &self.query.snapshot.view.schema;
        let rows = self.rows_in(picks);
        // Decoding the last page also needs memory for the rows between the picked rows.
        let room = rows + rows.min(ROWS_BETWEEN);
        let builder = |column: &usize| match (schema.stored.field(*column).data_type(), coded(*column)) {
            (data_type, true) => decode::coded_column(data_type, room),
            (data_type, false) => decode::column(data_type, room),
        };
        let mut builders: Vec<_> = columns.iter().map(builder).collect();
        let decoded_pages = &self.query.snapshot.core.decoded_pages;
        let (mut copied, mut copied_bytes) = (0, 0);
        let mut pages =
            picks.iter().flat_map(|run| run.picks.chunk_by(|a, b| a.page() == b.page()).map(|page| (run.run, page)));
        // Spans and decoded pages are looked up while the page before is decoded, so that they are in the
        // processor's cache.
        let (mut spans, mut next_spans) = (Vec::new(), Vec::new());
        let (mut decoded, mut next_decoded) = (Vec::new(), Vec::new());
        let find = |(run, of_page): &(usize, &[Pick]), spans: &mut Vec<Span>, decoded: &mut Vec<_>| {
            let (map, page) = (&self.maps[*run], of_page[0].page());
            decode::spans(map, page, of_page, spans);
            let kept = self.kept.get(*run);
            decoded.clear();
            decoded.extend(columns.iter().map(|column| {
                let written = *column < map.columns.len();
                let found = kept.filter(|_| written).and_then(|kept| kept.page(map.place(page, *column)));
                found.inspect(|found| found.fetch_ahead(spans))
            }));
        };
        let mut entries = pages.clone().skip(ENTRIES_AHEAD);
        let mut fetch_entries = || {
            let Some((run, of_page)) = entries.next() else { return };
            let Some(kept) = self.kept.get(run) else { return };
            let (map, page) = (&self.maps[run], of_page[0].page());
            let written = columns.iter().filter(|column| **column < map.columns.len());
            written.for_each(|column| kept.fetch_ahead(map.place(page, *column)));
        };
        let mut next = pages.next().inspect(|next| find(next, &mut next_spans, &mut next_decoded));
        while let Some((run, of_page)) = next {
            std::mem::swap(&mut spans, &mut next_spans);
            std::mem::swap(&mut decoded, &mut next_decoded);
            fetch_entries();
            next = pages.next().inspect(|next| find(next, &mut next_spans, &mut next_decoded));
            self.query.cancel.check()?;
            let (map, kept, page) = (&self.maps[run], self.kept.get(run), of_page[0].page());
            let keeps =
                |kept: &DecodedRun| keeper.is_some_and(|keeper| decoded_pages.is_to_be_kept(kept, page, keeper));
            for ((column, decoded), builder) in columns.iter().zip(&decoded).zip(&mut builders) {
                if *column >= map.columns.len() {
                    builder.repeat(schema.default_of(*column), spans.iter().map(Span::count).sum());
                    continue;
                }
                let place = map.place(page, *column);
                if let Some(decoded) = decoded {
                    builder.append_decoded(decoded, &spans);
                    (copied, copied_bytes) = (copied + 1, copied_bytes + decoded.bytes());
                    continue;
                }
                let chunk = self.page_column(run, page, *column);
                let damaged = |what| self.damaged(run, page, *column, what);
                let data_type = schema.stored.field(*column).data_type();
                let kept_now = kept.filter(|kept| keeps(kept));
                let decoded = match kept_now {
                    Some(_) => decode::decoded(data_type, &chunk).map_err(damaged)?,
                    None => None,
                };
                match (kept_now, decoded) {
                    (Some(kept), Some(decoded)) => {
                        builder.append_decoded(&decoded, &spans);
                        decoded_pages.keep(kept, map.chunks.len(), place, decoded);
                    }
                    _ => builder.append(&chunk, &spans).map_err(damaged)?,
                }
            }
        }
        decoded_pages.note_copied(copied, copied_bytes);
        builders.into_iter().map(|builder| builder.finish().map_err(Error::Invalid)).collect()
    }

    fn page_column(&self, run: usize, page: usize, column: usize) -> PageColumn<'_> {
        let map = &self.maps[run];
        let place = map.place(page, column);
        let Some(ChunkSource::Read { piece, start }) = self.loaded[run].chunks[place] else {
            unreachable!("it was loaded, and what is kept stays while it is in use")
        };
        map.page_column(page, &self.pieces[piece][start..][..map.chunks[place].length as usize])
    }

    fn load(&mut self, sets: &[(&[RunPicks], &[usize])]) -> Result<()> {
        let (mut missing, mut kept_bytes) = (Vec::new(), 0);
        for (run, columns) in sets.iter().flat_map(|(picks, columns)| picks.iter().map(move |run| (run, *columns))) {
            let (map, loaded) = (&self.maps[run.run], &mut self.loaded[run.run]);
            let kept = self.kept.get(run.run);
            if loaded.pages.is_empty() {
                *loaded = Loaded { chunks: vec![None; map.chunks.len()], pages: vec![false; map.pages()] };
            }
            let written = || columns.iter().filter(|column| **column < map.columns.len());
            for of_page in run.picks.chunk_by(|a, b| a.page() == b.page()) {
                let page = of_page[0].page();
                loaded.pages[page] = true;
                for column in written() {
                    let place = map.place(page, *column);
                    if loaded.chunks[place].is_some() {
                        continue;
                    }
                    if kept.is_some_and(|kept| kept.has(place)) {
                        loaded.chunks[place] = Some(ChunkSource::Cached);
                        kept_bytes += map.chunks[place].length as u64;
                        continue;
                    }
                    missing.push((run.run, page, *column));
                }
            }
        }
        self.cost += Cost { bytes: kept_bytes, bytes_cached: kept_bytes, round_trips: 0 };
        if !missing.is_sorted_by(|a, b| a < b) {
            // Each set is in ascending order, so the stable sort merges them.
            missing.sort();
            missing.dedup();
        }
        let mut pieces: Vec<Piece> = Vec::new();
        let mut places = Vec::with_capacity(missing.len());
        let mut last_run = usize::MAX;
        for (run, page, column) in &missing {
            let (place, chunk) = (&self.visits[*run].run.payload, self.maps[*run].chunk(*page, *column));
            let (offset, length) = (place.data_offset + chunk.offset, chunk.length as u64);
            match pieces.last_mut() {
                Some(piece) if *run == last_run && piece.offset + piece.length == offset => piece.length += length,
                _ => pieces.push(Piece { segment: place.segment.clone(), offset, length }),
            }
            last_run = *run;
            let piece = pieces.last().expect("pushed above");
            places.push((pieces.len() - 1, (piece.length - length) as usize));
        }
        let fetched = stoppable(&self.query.cancel, || self.query.snapshot.core.fetch(&pieces))?;
        let before = self.pieces.len();
        self.cost += fetched.cost;
        self.pieces.extend(fetched.pieces);
        for ((run, page, column), (piece, start)) in missing.into_iter().zip(places) {
            self.query.cancel.check()?;
            let (piece, chunk) = (before + piece, self.maps[run].chunk(page, column));
            if crc32c::crc32c(&self.pieces[piece][start..][..chunk.length as usize]) != chunk.checksum {
                let damage = self.damaged(run, page, column, "the checksum does not match".into());
                return Err(self.query.snapshot.explained(&self.visits[run].run, damage));
            }
            let place = self.maps[run].place(page, column);
            self.loaded[run].chunks[place] = Some(ChunkSource::Read { piece, start });
        }
        Ok(())
    }

    fn damaged(&self, run: usize, page: usize, column: usize, what: String) -> Error {
        let snapshot = &self.query.snapshot;
        let name = snapshot.view.schema.stored.field(column).name();
        let offset = self.maps[run].chunk(page, column).offset;
        runs::damaged(snapshot, &self.visits[run].run, offset, format!("{what} (column {name:?}, page {page})"))
    }
}

/// Decides all zones of a run from key ranges. Returns false if a column is missing, or has nulls or NaN,
/// which ranges do not cover.
fn judge_by_ranges<'a>(
    ranges: &[KeyRanges<'_>],
    zones_of: impl Fn(usize) -> &'a ZonesOfRun<'a>,
    verdicts: &mut Vec<Verdict>,
) -> bool {
    const FITS: [Verdict; 4] = [Verdict::None, Verdict::Some, Verdict::None, Verdict::All];
    let mut fits: Vec<u8> = Vec::new();
    for ranges in ranges {
        let zones_of_column = zones_of(ranges.column);
        let (ZonesOfRun::Written(_, _, zones), Zone { min, max, nulls }) =
            (zones_of_column, zones_of_column.run_zone())
        else {
            return false;
        };
        if nulls != Nulls::None || min < ranges.numbers.0 || max > ranges.numbers.1 {
            return false;
        }
        fits.resize(zones.min.len(), SOME_INSIDE | ALL_INSIDE);
        ranges.narrow(&zones.min, &zones.max, &mut fits);
    }
    verdicts.clear();
    verdicts.extend(fits.into_iter().map(|fit| FITS[fit as usize]));
    true
}

fn pick_rows(picks: &mut Vec<Pick>, zone: usize, rows: Rows, count: u8) {
    match rows {
        0 => {}
        rows if rows == all_rows(count) => decode::pick_zone(picks, zone),
        rows => picks.push(Pick { zones: zone..zone + 1, some: Some(rows) }),
    }
}

/// Returns up to 128 values of an array without nulls as bits, lowest first.
fn bits_of(array: &BooleanArray, first: usize, count: usize) -> Rows {
    let (bytes, start) = (array.values().values(), array.values().offset() + first);
    let mut word = [0u8; 17];
    let from = &bytes[start / 8..(start + count).div_ceil(8)];
    word[..from.len()].copy_from_slice(from);
    let low = Rows::from_le_bytes(word[..16].try_into().expect("sixteen bytes")) >> (start % 8);
    let high = if start % 8 == 0 { 0 } else { (word[16] as Rows) << (128 - start % 8) };
    (low | high) & all_rows(count as u8)
}

fn inside(range: PriorityRange, priorities: &[u64]) -> Rows {
    let mut rows = 0;
    for (half, priorities) in priorities.chunks(64).enumerate() {
        let word = priorities.iter().rev().fold(0u64, |word, priority| word << 1 | range.holds(*priority) as u64);
        rows |= (word as Rows) << (64 * half);
    }
    rows
}

enum ZonesOfRun<'a> {
    Written(&'a ZoneMap, usize, &'a ColumnZones),
    Default(Zone),
}

impl ZonesOfRun<'_> {
    fn zone(&self, zone: usize) -> Zone {
        match self {
            ZonesOfRun::Written(map, _, zones) => map.zone(zone, zones),
            ZonesOfRun::Default(all) => *all,
        }
    }

    fn run_zone(&self) -> Zone {
        match self {
            ZonesOfRun::Written(map, column, _) => map.run_zone(*column),
            ZonesOfRun::Default(all) => *all,
        }
    }
}
