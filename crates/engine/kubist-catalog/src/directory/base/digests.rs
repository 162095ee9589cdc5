//! The digests of a base (`kubist_format::digest`), read level by level when first needed.
//!
//! Digests only save reads: a level without an intact digest is read page by page. `verify` reports the damage, and
//! `optimize` rewrites the level.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use kubist_format::checkpoint::{Leaf, levels};
use kubist_format::digest::{Digest, HEAD_BYTES, Head, Places, decode_abstracts};
use kubist_format::error::EntryError;
use kubist_format::location::Location;
use kubist_index::state::{Run, RunId};
use kubist_types::{Cancel, Error, Result, Stats};

use super::{Base, Caching, read};
use crate::error::{bad_entry, is_damage, store_error};
use crate::fetch::Piece;
use crate::files::TableFiles;
use crate::lookups::{At, CoveredLookup, Covering, LookupsBuilder, RunLocation};
use crate::places::Table;
use crate::stop::stoppable;

/// A stand-in run for the primary runs of every page, in page order.
pub type Abstracts = Arc<[Arc<Run<Location>>]>;

#[derive(Default)]
pub struct Digests {
    levels: OnceLock<Vec<Level>>,
    abstracts: OnceLock<Option<Abstracts>>,
    covering: OnceLock<Arc<Covering>>,
}

struct Level {
    pages: Range<usize>,
    segment: Arc<str>,
    /// The offset of the digest in the segment; it extends to `end`, the end of the segment.
    begin: u64,
    end: u64,
    head: Option<Head>,
}

/// A damaged digest costs time, never correctness.
fn unless_damaged<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Err(error) if is_damage(&error) => Ok(None),
        read => read.map(Some),
    }
}

impl Level {
    fn of(files: &TableFiles, pages: Range<usize>, leaves: &[Leaf], stats: &mut Stats) -> Result<Level> {
        let (segment, last) = (leaves[0].segment.clone(), leaves.last());
        let begin = last.map_or(0, |leaf| leaf.offset.saturating_add(leaf.length as u64));
        let end = files.store.segment_len(&segment).map_err(store_error)?.unwrap_or(0);
        let mut level = Level { pages, segment, begin, end, head: None };
        level.head = unless_damaged(level.read_head(files, stats))?;
        Ok(level)
    }

    fn read_head(&self, files: &TableFiles, stats: &mut Stats) -> Result<Head> {
        let bad = |what: &str| self.bad(files, 0, EntryError::Bad(what.into()));
        if self.end < self.begin.saturating_add(HEAD_BYTES) {
            return Err(bad("the pages of a level have no digest"));
        }
        let head = Head::decode(&self.read(files, 0..HEAD_BYTES, stats)?).map_err(|error| self.bad(files, 0, error))?;
        match head.places().end > self.end - self.begin {
            true => Err(bad("a digest is longer than its segment")),
            false => Ok(head),
        }
    }

    fn bad(&self, files: &TableFiles, at: u64, error: EntryError) -> Error {
        bad_entry(files.store.location(), &format!("segments/{}.seg", self.segment), self.begin + at, error)
    }

    fn read(&self, files: &TableFiles, place: Range<u64>, stats: &mut Stats) -> Result<Bytes> {
        let (offset, length) = (self.begin + place.start, place.end - place.start);
        let mut fetched = read(files, &[Piece { segment: self.segment.clone(), offset, length }])?;
        stats.spend(fetched.cost);
        Ok(fetched.pieces.swap_remove(0))
    }

    fn abstracts(&self, files: &TableFiles, stats: &mut Stats) -> Result<Option<Vec<Arc<Run<Location>>>>> {
        let Some(head) = &self.head else { return Ok(None) };
        let place = head.abstracts();
        let bytes = self.read(files, place.clone(), stats)?;
        let found = files.decoded(|forest| decode_abstracts(&bytes, self.pages.len(), forest));
        found.map(Some).map_err(|error| self.bad(files, place.start, error))
    }

    fn places(&self, files: &TableFiles, stats: &mut Stats) -> Result<Option<Places>> {
        let Some(place) = self.head.as_ref().map(Head::places).filter(|place| !place.is_empty()) else {
            return Ok(None);
        };
        let bytes = self.read(files, place.clone(), stats)?;
        let is_there = |(_, page): &(RunId, u32)| (*page as usize) < self.pages.len();
        match Places::decode(&bytes) {
            Ok(places) if places.others.iter().all(is_there) => Ok(Some(places)),
            Ok(_) => Err(self.bad(files, place.start, EntryError::Bad("a run is on a page that is not there".into()))),
            Err(error) => Err(self.bad(files, place.start, error)),
        }
    }

    fn is_sound(&self, files: &TableFiles) -> Result<bool> {
        let stats = &mut Stats::default();
        let mut read = || {
            let Some(head) = &self.head else { return Ok(false) };
            self.abstracts(files, stats)?;
            let Some(places) = self.places(files, stats)? else { return Ok(true) };
            let begin = head.places().end;
            for of in places.lookups.iter().filter(|of| of.blocks() > 0) {
                let first = of.place(0).start;
                let bytes = self.read(files, begin + first..begin + of.place(of.blocks() - 1).end, stats)?;
                for block in 0..of.blocks() {
                    let place = of.place(block);
                    let bytes = bytes.slice((place.start - first) as usize..(place.end - first) as usize);
                    of.block(block, bytes).map_err(|error| self.bad(files, begin + place.start, error))?;
                }
            }
            Ok(true)
        };
        Ok(unless_damaged(read())?.unwrap_or(false))
    }

    fn check(&self, files: &TableFiles, mut expected: Digest) -> Result<()> {
        // Cleaning deleted the segment after its pages were read.
        if self.end == 0 {
            return Ok(());
        }
        let stats = &mut Stats::default();
        let head = self.read_head(files, stats)?;
        let wrong = |what: &str| {
            self.bad(files, 0, EntryError::Bad(format!("a digest says other things of {what} than they are")))
        };
        let made = expected.encode_abstracts(&files.forest());
        let made = files.decoded(|forest| decode_abstracts(&made, self.pages.len(), forest));
        if self.abstracts(files, stats)? != Some(made.map_err(|error| self.bad(files, 0, error))?) {
            return Err(wrong("pages"));
        }
        let Some(found) = self.places(files, stats)? else { return Ok(()) };
        let (list, blocks) = expected.encode_places();
        let begin = head.places().end;
        let is_as_made = !list.is_empty()
            && Places::decode(&list).map_err(|error| self.bad(files, 0, error))? == found
            && self.read(files, begin..begin + blocks.len() as u64, stats)? == blocks;
        if is_as_made { Ok(()) } else { Err(wrong("places of runs")) }
    }
}

impl Digests {
    fn levels(&self, files: &TableFiles, base: &Base, stats: &mut Stats, cancel: &Cancel) -> Result<&[Level]> {
        if self.levels.get().is_none() {
            let (mut found, mut first) = (Vec::new(), 0);
            for leaves in levels(&base.pages) {
                let pages = first..first + leaves.len();
                first = pages.end;
                found.push(stoppable(cancel, || Level::of(files, pages, leaves, stats))?);
            }
            let _ = self.levels.set(found);
        }
        Ok(self.levels.get().map_or(&[], Vec::as_slice))
    }
}

impl Base {
    /// A stand-in run for every page, which also covers removed runs, or `None` if a level has no intact digest.
    ///
    /// # Errors
    ///
    /// The errors of [`Base::each`].
    pub(in crate::directory) fn abstracts(
        &self,
        files: &TableFiles,
        stats: &mut Stats,
        cancel: &Cancel,
    ) -> Result<Option<&Abstracts>> {
        let known = &self.digests.abstracts;
        if known.get().is_none() {
            let mut found = Some(Vec::with_capacity(self.pages.len()));
            for level in self.digests.levels(files, self, stats, cancel)? {
                let of_level = stoppable(cancel, || unless_damaged(level.abstracts(files, stats)))?.flatten();
                found = found.zip(of_level).map(|(found, of_level)| [found, of_level].concat());
            }
            let _ = known.set(found.map(Into::into));
        }
        Ok(known.get().and_then(Option::as_ref))
    }

    /// How many levels, among the first `most`, have intact digests before the first level without one.
    ///
    /// # Errors
    ///
    /// The errors of [`Base::each`].
    pub fn digested(&self, files: &TableFiles, most: usize, cancel: &Cancel) -> Result<usize> {
        let mut sound = 0;
        for level in self.digests.levels(files, self, &mut Stats::default(), cancel)?.iter().take(most) {
            if !stoppable(cancel, || level.is_sound(files))? {
                break;
            }
            sound += 1;
        }
        Ok(sound)
    }

    /// True if all levels locate the runs that secondary indexes cover.
    pub(in crate::directory) fn has_places(&self, files: &TableFiles, cancel: &Cancel) -> bool {
        let has_places = |level: &Level| level.head.as_ref().is_some_and(|head| !head.places().is_empty());
        let levels = self.digests.levels(files, self, &mut Stats::default(), cancel);
        levels.is_ok_and(|levels| levels.iter().all(has_places))
    }

    /// # Errors
    ///
    /// The errors of [`Base::each`].
    pub(in crate::directory) fn covering(
        &self,
        files: &TableFiles,
        stats: &mut Stats,
        cancel: &Cancel,
    ) -> Result<&Arc<Covering>> {
        if let Some(covering) = self.digests.covering.get() {
            return Ok(covering);
        }
        let (mut lookups, mut gathering) = (Vec::new(), LookupsBuilder::default());
        for level in self.digests.levels(files, self, stats, cancel)? {
            let places = stoppable(cancel, || unless_damaged(level.places(files, stats)))?.flatten();
            let Some((places, head)) = places.zip(level.head.as_ref()) else {
                self.each_of(files, level.pages.clone(), Caching::Keep, stats, cancel, |number, page| {
                    let live = page.runs.iter().filter(|run| !run.is_replica() && self.lives(run));
                    live.for_each(|run| gathering.add(run, At::Page(number as u32)));
                    Ok(())
                })?;
                continue;
            };
            let first = level.pages.start as u32;
            let others = places.others.iter().filter(|(run, _)| !self.removed.contains(run));
            others.for_each(|(run, page)| gathering.add_other(*run, At::Page(first + page)));
            for of in places.lookups {
                let (pages, segment, begin) =
                    (level.pages.clone(), level.segment.clone(), level.begin + head.places().end);
                lookups.push(CoveredLookup::of_table(Table::new(pages, segment, begin, of)));
            }
        }
        self.leave_out_removed(&mut lookups);
        let mut covering = gathering.finish();
        covering.lookups.extend(lookups);
        Ok(self.digests.covering.get_or_init(|| Arc::new(covering)))
    }

    /// Drops indexes without live runs, because cleaning may free their bytes.
    fn leave_out_removed(&self, lookups: &mut Vec<CoveredLookup>) {
        // By the first run of an index: the end of its runs, and the number of live ones.
        let mut left: BTreeMap<RunId, (RunId, usize)> = BTreeMap::new();
        for covered in &*lookups {
            let (_, runs) = left.entry(covered.run(0)).or_insert((covered.run(covered.lookup.runs), 0));
            *runs += covered.len();
        }
        for run in &self.removed {
            if let Some((_, (_, runs))) = left.range_mut(..=run).next_back().filter(|(_, (end, _))| run < end) {
                *runs = runs.saturating_sub(1);
            }
        }
        lookups.retain(|covered| left.get(&covered.run(0)).is_some_and(|(_, runs)| *runs > 0));
    }

    /// The locations of runs that secondary indexes cover: all runs, or the runs at these ascending indices.
    ///
    /// # Errors
    ///
    /// The errors of [`Base::each`].
    pub(in crate::directory) fn places(
        &self,
        files: &TableFiles,
        wanted: &[(&Table, Option<&[u32]>)],
        stats: &mut Stats,
        cancel: &Cancel,
    ) -> Result<Vec<RunLocation>> {
        let blocks: Vec<Vec<u32>> = wanted.iter().map(|(table, indices)| table.blocks(*indices)).collect();
        let of_table = |((table, _), blocks): (&(&Table, _), &Vec<u32>)| table.pieces(blocks);
        let pieces: Vec<Piece> = wanted.iter().zip(&blocks).flat_map(of_table).collect();
        let fetched = stoppable(cancel, || unless_damaged(read(files, &pieces)))?;
        if let Some(fetched) = &fetched {
            stats.spend(fetched.cost);
        }
        let mut bytes = fetched.iter().flat_map(|fetched| &fetched.pieces);
        let pages = wanted.iter().zip(&blocks).map(|((table, indices), blocks)| {
            let of_table: Vec<&Bytes> = bytes.by_ref().take(blocks.len()).collect();
            table.pages_in(blocks, &of_table, *indices)
        });
        let pages: Vec<Option<Vec<(u32, u32)>>> = pages.collect();
        let unknown = wanted.iter().zip(&pages).filter(|((table, _), pages)| pages.is_none() && !table.is_found());
        self.search(files, unknown.map(|((table, _), _)| *table).collect(), stats, cancel)?;
        let mut found = Vec::new();
        for ((table, indices), pages) in wanted.iter().zip(pages) {
            let pages = pages.unwrap_or_else(|| table.pages_found(*indices));
            let first = table.pages.start as u32;
            found.extend(
                pages.iter().map(|(index, page)| RunLocation { run: table.run(*index), at: At::Page(first + page) }),
            );
        }
        Ok(found)
    }

    /// Searches the pages for runs with damaged locations.
    fn search(&self, files: &TableFiles, mut tables: Vec<&Table>, stats: &mut Stats, cancel: &Cancel) -> Result<()> {
        tables.sort_unstable_by_key(|table| (table.pages.start, table.run(0)));
        for of_level in tables.chunk_by(|one, next| one.pages == next.pages) {
            let (pages, mut found) = (of_level[0].pages.clone(), vec![BTreeMap::new(); of_level.len()]);
            self.each_of(files, pages.clone(), Caching::Pass, stats, cancel, |number, page| {
                for run in page.runs.iter().filter(|run| !run.is_replica()) {
                    let Some(of) = of_level.partition_point(|table| table.run(0) <= run.id).checked_sub(1) else {
                        continue;
                    };
                    let lookup = of_level[of].lookup();
                    if run.id < of_level[of].run(lookup.runs) {
                        found[of].insert(lookup.index_of(run.id) as u32, (number - pages.start) as u32);
                    }
                }
                Ok(())
            })?;
            for (table, found) in of_level.iter().zip(found) {
                table.take(found);
            }
        }
        Ok(())
    }

    /// # Errors
    ///
    /// `Damaged`; a storage error.
    pub(in crate::directory) fn check_digest(
        &self,
        files: &TableFiles,
        pages: Range<usize>,
        made: Digest,
    ) -> Result<()> {
        let level = Level::of(files, pages.clone(), &self.pages[pages], &mut Stats::default())?;
        level.check(files, made)
    }
}
