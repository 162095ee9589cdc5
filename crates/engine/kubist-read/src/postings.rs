//! Lookup of keys in postings of secondary indexes.
//!
//! Directories of postings are cached; for large directories, only their indexes are. Blocks and parts of
//! large directories are read when needed. Queries use zone maps instead of damaged or unreadable postings, so
//! damage costs only time, and `verify` reports it.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use rayon::prelude::*;

use kubist_catalog::error::{is_damage, is_unread};
use kubist_catalog::fetch::Piece;
use kubist_catalog::look::is_far;
use kubist_catalog::snapshot::Snapshot;
use kubist_format::lookup::postings::{Directory, Guide, Index, encode_index};
use kubist_format::lookup::{Lookup, OfColumn};
use kubist_types::cancel::Cancel;
use kubist_types::error::{Error, Result};
use kubist_types::stats::Cost;

/// Matching zones by the run's index in the secondary index. Runs that are absent have none of the keys.
pub type Hits = HashMap<u32, Arc<[u32]>>;

/// The result of a secondary index; `None` if it cannot be read or lacks the column.
pub type Answer = Option<Hits>;

/// The keys to search in a column, in ascending order.
pub struct KeyLookup {
    pub column: usize,
    pub keys: Vec<u32>,
}

/// Limit of blocks, of about 1 KB each, in one request.
const BLOCKS_AT_ONCE: usize = 4096;
const SIDE_BY_SIDE: usize = 32;

/// On a remote store, a directory with fewer bytes is read completely, because its index and two parts would
/// take three round trips.
const FAR_WHOLE: u32 = 4 << 20;

fn directory_piece(lookup: &Lookup, place: &OfColumn, part: Range<u64>) -> Piece {
    let offset = place.offset + place.blocks_length + part.start;
    Piece { segment: lookup.segment.clone(), offset, length: part.end - part.start }
}

fn whole_directory(lookup: &Lookup, place: &OfColumn) -> Piece {
    directory_piece(lookup, place, 0..place.directory_length as u64)
}

struct Candidate<'a> {
    lookup: &'a Lookup,
    place: &'a OfColumn,
    keys: &'a [u32],
    guide: Arc<Guide>,
    /// The parts of the directory that concern the keys.
    directory: Arc<Directory>,
    blocks: Vec<usize>,
}

/// Looks up the keys of `sought` in each index, for one of the columns. Also returns the cost.
///
/// # Errors
///
/// The errors of [`Core::fetch`](kubist_catalog::core::Core::fetch), except for postings that are damaged
/// or cannot be read: their result is `None`.
pub fn look_up(snapshot: &Snapshot, lookups: &[&Arc<Lookup>], sought: &[KeyLookup]) -> Result<(Vec<Answer>, Cost)> {
    match look_up_all(snapshot, lookups, sought) {
        Err(error) if is_unanswered(&error) => {}
        answered => return answered,
    }
    let (mut answers, mut cost) = (Vec::new(), Cost::default());
    for lookup in lookups {
        match look_up_all(snapshot, &[lookup], sought) {
            Ok((answered, spent)) => {
                answers.extend(answered);
                cost += spent;
            }
            Err(error) if is_unanswered(&error) => answers.push(None),
            Err(error) => return Err(error),
        }
    }
    Ok((answers, cost))
}

/// Whether postings cannot be read; also true if they were merged into others after the snapshot.
fn is_unanswered(error: &Error) -> bool {
    is_damage(error) || is_unread(error) || matches!(error, Error::SnapshotExpired { .. })
}

fn look_up_all(snapshot: &Snapshot, lookups: &[&Arc<Lookup>], sought: &[KeyLookup]) -> Result<(Vec<Answer>, Cost)> {
    let asked = |place: &OfColumn| sought.iter().find(|sought| sought.column == place.column as usize);
    let places = lookups.iter().flat_map(|lookup| lookup.columns.iter().map(move |place| (lookup.as_ref(), place)));
    let places: Vec<_> = places.filter_map(|(lookup, place)| Some((lookup, place, &*asked(place)?.keys))).collect();
    let (candidates, mut cost) = candidates(snapshot, &places)?;
    let mut candidates = candidates.into_iter().peekable();
    let chosen = lookups.iter().map(|lookup| {
        let mut best: Option<(u64, Candidate<'_>)> = None;
        while let Some(candidate) = candidates.next_if(|candidate| std::ptr::eq(candidate.lookup, lookup.as_ref())) {
            let bytes = candidate.bytes();
            if best.as_ref().is_none_or(|(least, _)| bytes < *least) {
                best = Some((bytes, candidate));
            }
        }
        best.map(|(_, candidate)| candidate)
    });
    let chosen: Vec<Option<Candidate<'_>>> = chosen.collect();
    let pieces: Vec<Piece> = chosen.iter().flatten().flat_map(Candidate::pieces).collect();
    let fetched = snapshot.core.fetch(&pieces)?;
    cost += fetched.cost;
    let mut blocks = &fetched.pieces[..];
    let of_candidates = chosen.iter().map(|chosen| {
        let count = chosen.as_ref().map_or(0, |chosen| chosen.blocks.len());
        (chosen, blocks.split_off(..count).unwrap_or_default())
    });
    let of_candidates: Vec<_> = of_candidates.collect();
    let zones = of_candidates.into_par_iter().with_min_len(SIDE_BY_SIDE).map(|(chosen, bytes)| {
        let Some(chosen) = chosen else { return Ok(Vec::new()) };
        chosen.zones(bytes).map_err(|what| chosen.damaged(snapshot, what))
    });
    let zones: Vec<Vec<u32>> = zones.collect::<Result<_>>()?;
    let (firsts, spent) = firsts(snapshot, &chosen, &zones)?;
    cost += spent;
    let answers = chosen.iter().zip(&zones).zip(firsts).map(|((chosen, zones), firsts)| {
        let chosen = chosen.as_ref()?;
        Some(match &*chosen.guide {
            Guide::Directory(directory) => hits(zones, &[(0, &directory.firsts)]),
            Guide::Index(_) => hits(zones, &firsts.iter().map(|(run, firsts)| (*run, &**firsts)).collect::<Vec<_>>()),
        })
    });
    Ok((answers.collect(), cost))
}

fn candidates<'a>(
    snapshot: &Snapshot,
    places: &[(&'a Lookup, &'a OfColumn, &'a [u32])],
) -> Result<(Vec<Candidate<'a>>, Cost)> {
    let (guides, mut cost) = guides(snapshot, places)?;
    let chunks = |((_, _, keys), guide): (&(_, _, &[u32]), &Arc<Guide>)| match &**guide {
        Guide::Directory(_) => Vec::new(),
        Guide::Index(index) => index.chunks_of(keys),
    };
    let chunks: Vec<Vec<usize>> = places.iter().zip(&guides).map(chunks).collect();
    let pieces = places.iter().zip(&guides).zip(&chunks).flat_map(|(((lookup, place, _), guide), chunks)| {
        let index = if let Guide::Index(index) = &**guide { Some(index) } else { None };
        index
            .into_iter()
            .flat_map(move |index| chunks.iter().map(move |chunk| directory_piece(lookup, place, index.chunk(*chunk))))
    });
    let fetched = snapshot.core.fetch(&pieces.collect::<Vec<_>>())?;
    cost += fetched.cost;
    let mut bytes = &fetched.pieces[..];
    let mut found = Vec::with_capacity(places.len());
    for (((lookup, place, keys), guide), chunks) in places.iter().zip(guides).zip(&chunks) {
        let directory = match &*guide {
            Guide::Directory(directory) => directory.clone(),
            Guide::Index(index) => {
                let part = index.part(chunks, bytes.split_off(..chunks.len()).unwrap_or_default());
                Arc::new(part.map_err(|what| damaged_directory(snapshot, lookup, place, what))?)
            }
        };
        let blocks = directory.blocks_of(keys);
        found.push(Candidate { lookup, place, keys, guide, directory, blocks });
    }
    Ok((found, cost))
}

/// Returns guides from the cache or the store, and the cost.
fn guides(snapshot: &Snapshot, places: &[(&Lookup, &OfColumn, &[u32])]) -> Result<(Vec<Arc<Guide>>, Cost)> {
    let cache = &snapshot.core.guide_cache;
    let key = |(lookup, place, _): &(&Lookup, &OfColumn, _)| (lookup.segment.clone(), place.offset);
    let mut found = cache.get(places.iter().map(key));
    let missing: Vec<usize> = (0..places.len()).filter(|place| found[*place].is_none()).collect();
    let whole_up_to = if is_far(snapshot.core.store.as_ref()) { FAR_WHOLE } else { 0 };
    let has_index = |place: &OfColumn| place.index_length > 0 && place.directory_length > whole_up_to;
    let piece = |(lookup, place, _): &(&Lookup, &OfColumn, _)| match has_index(place) {
        true => {
            let begin = place.directory_length as u64;
            directory_piece(lookup, place, begin..begin + place.index_length as u64)
        }
        false => whole_directory(lookup, place),
    };
    let pieces: Vec<Piece> = missing.iter().map(|place| piece(&places[*place])).collect();
    let fetched = snapshot.core.fetch(&pieces)?;
    let decode = |(place, bytes): (&usize, &Bytes)| {
        let (lookup, of_column, _) = places[*place];
        match has_index(of_column) {
            true => {
                let (blocks, length) = (of_column.blocks_length, of_column.directory_length);
                Ok(Index::decode(bytes, lookup.runs, blocks, length).ok().map(Guide::Index))
            }
            false => decode_directory(snapshot, lookup, of_column, bytes).map(|directory| Some(directory.into())),
        }
    };
    let decoded = missing.par_iter().zip(&fetched.pieces).map(decode).collect::<Result<Vec<Option<Guide>>>>()?;
    let guide = |(place, guide): (&usize, Option<Guide>)| match guide {
        Some(guide) => Ok(Arc::new(guide)),
        // If the index is damaged, the complete directory is read.
        None => Ok(Arc::new(read_directory(snapshot, places[*place].0, places[*place].1)?.into())),
    };
    let decoded = missing.iter().zip(decoded).map(guide).collect::<Result<Vec<Arc<Guide>>>>()?;
    cache.insert(missing.iter().map(|place| key(&places[*place])).zip(decoded.iter().cloned()));
    missing.into_iter().zip(decoded).for_each(|(place, guide)| found[place] = Some(guide));
    Ok((found.into_iter().flatten().collect(), fetched.cost))
}

/// Number of the first run, first zone of every run, and end of the last run's zones.
type Stretch = (u32, Vec<u32>);

/// For large directories, reads the runs of zones; also returns the cost.
fn firsts(
    snapshot: &Snapshot,
    chosen: &[Option<Candidate<'_>>],
    zones: &[Vec<u32>],
) -> Result<(Vec<Vec<Stretch>>, Cost)> {
    let index = |chosen: &Option<Candidate<'_>>| match chosen.as_ref().map(|chosen| chosen.guide.clone()) {
        Some(guide) if matches!(*guide, Guide::Index(_)) => Some(guide),
        _ => None,
    };
    let indexes: Vec<Option<Arc<Guide>>> = chosen.iter().map(index).collect();
    let stretches = |(guide, zones): (&Option<Arc<Guide>>, &Vec<u32>)| match guide.as_deref() {
        Some(Guide::Index(index)) => index.stretches_of(zones),
        _ => Vec::new(),
    };
    let stretches: Vec<Vec<usize>> = indexes.iter().zip(zones).map(stretches).collect();
    let mut pieces = Vec::new();
    for ((chosen, guide), stretches) in chosen.iter().zip(&indexes).zip(&stretches) {
        if let (Some(chosen), Some(Guide::Index(index))) = (chosen, guide.as_deref()) {
            let piece = |stretch: &usize| directory_piece(chosen.lookup, chosen.place, index.stretch(*stretch));
            pieces.extend(stretches.iter().map(piece));
        }
    }
    let fetched = snapshot.core.fetch(&pieces)?;
    let (mut bytes, mut found) = (fetched.pieces.iter(), Vec::with_capacity(chosen.len()));
    for ((chosen, guide), stretches) in chosen.iter().zip(&indexes).zip(&stretches) {
        let mut of_lookup = Vec::with_capacity(stretches.len());
        if let (Some(chosen), Some(Guide::Index(index))) = (chosen, guide.as_deref()) {
            for (stretch, bytes) in stretches.iter().zip(bytes.by_ref()) {
                let firsts = index.firsts(*stretch, bytes);
                of_lookup.push(firsts.map_err(|what| damaged_directory(snapshot, chosen.lookup, chosen.place, what))?);
            }
        }
        found.push(of_lookup);
    }
    Ok((found, fetched.cost))
}

fn hits(zones: &[u32], stretches: &[(u32, &[u32])]) -> Hits {
    let (mut hits, mut left) = (Hits::new(), zones);
    for (first_run, firsts) in stretches {
        let end = firsts.last().copied().unwrap_or_default();
        while let Some(zone) = left.first().filter(|zone| **zone < end) {
            let run = firsts.partition_point(|first| first <= zone) - 1;
            let of_run = left.partition_point(|zone| *zone < firsts[run + 1]);
            hits.insert(first_run + run as u32, left[..of_run].iter().map(|zone| zone - firsts[run]).collect());
            left = &left[of_run..];
        }
    }
    hits
}

fn decode_directory(snapshot: &Snapshot, lookup: &Lookup, place: &OfColumn, bytes: &[u8]) -> Result<Directory> {
    let damaged = |what| damaged_directory(snapshot, lookup, place, what);
    Directory::decode(bytes, lookup.runs, place.blocks_length).map_err(damaged)
}

fn damaged_directory(snapshot: &Snapshot, lookup: &Lookup, place: &OfColumn, what: String) -> Error {
    damaged_lookup(snapshot, lookup, place.offset + place.blocks_length, what)
}

/// Checks that the index of a column's directory matches the directory.
///
/// # Errors
///
/// The errors of [`read_postings`].
pub fn check_index(snapshot: &Snapshot, lookup: &Lookup, place: &OfColumn) -> Result<()> {
    if place.index_length == 0 {
        return Ok(());
    }
    let begin = place.directory_length as u64;
    let index = directory_piece(lookup, place, begin..begin + place.index_length as u64);
    let fetched = snapshot.core.fetch(&[whole_directory(lookup, place), index])?.pieces;
    let read = |bytes: &[u8]| Index::decode(bytes, lookup.runs, place.blocks_length, place.directory_length);
    let damaged = |what| damaged_lookup(snapshot, lookup, place.offset + place.blocks_length + begin, what);
    match read(&fetched[1]).map_err(damaged)? == read(&encode_index(&fetched[0])).map_err(damaged)? {
        true => Ok(()),
        false => Err(damaged("the index of a lookup's directory says other things than the directory".into())),
    }
}

/// Reads postings without the cache. Calls `found` with the directory, and each key with its zones.
///
/// # Errors
///
/// The errors of [`Core::fetch`](kubist_catalog::core::Core::fetch); `Damaged` if the postings are damaged.
pub fn read_postings(
    snapshot: &Snapshot,
    lookup: &Lookup,
    place: &OfColumn,
    cancel: &Cancel,
    found: &mut dyn FnMut(&Directory, u32, &[u32]),
) -> Result<()> {
    let directory = read_directory(snapshot, lookup, place)?;
    let mut found = |key, zones: &[u32]| found(&directory, key, zones);
    read_between(snapshot, lookup, place, &directory, (0, u32::MAX), cancel, &mut found)
}

/// Reads a directory without the cache.
///
/// # Errors
///
/// The errors of [`read_postings`].
pub fn read_directory(snapshot: &Snapshot, lookup: &Lookup, place: &OfColumn) -> Result<Directory> {
    let fetched = snapshot.core.fetch(&[whole_directory(lookup, place)])?.pieces;
    decode_directory(snapshot, lookup, place, &fetched[0])
}

/// Calls `found(key, zones)` for each key in the range, and perhaps for a few more.
///
/// # Errors
///
/// The errors of [`read_postings`].
pub fn read_between(
    snapshot: &Snapshot,
    lookup: &Lookup,
    place: &OfColumn,
    directory: &Directory,
    (first, last): (u32, u32),
    cancel: &Cancel,
    found: &mut dyn FnMut(u32, &[u32]),
) -> Result<()> {
    let blocks = directory.blocks_between(first, last);
    for first in blocks.clone().step_by(BLOCKS_AT_ONCE) {
        cancel.check()?;
        let some = first..(first + BLOCKS_AT_ONCE).min(blocks.end);
        let (begin, end) = (directory.place(some.start).start, directory.place(some.end - 1).end);
        let piece = Piece { segment: lookup.segment.clone(), offset: place.offset + begin, length: end - begin };
        let fetched = snapshot.core.fetch(&[piece])?.pieces;
        for number in some {
            let block = directory.place(number);
            let bytes = &fetched[0][(block.start - begin) as usize..(block.end - begin) as usize];
            directory
                .read_block(number, bytes, None, found)
                .map_err(|what| damaged_lookup(snapshot, lookup, place.offset + block.start, what))?;
        }
    }
    Ok(())
}

pub fn damaged_lookup(snapshot: &Snapshot, lookup: &Lookup, offset: u64, what: String) -> Error {
    Error::Damaged { file: format!("{}/segments/{}.seg", snapshot.core.store.location(), lookup.segment), offset, what }
}

impl Candidate<'_> {
    fn bytes(&self) -> u64 {
        let length = |block: &usize| {
            let place = self.directory.place(*block);
            place.end - place.start
        };
        self.blocks.iter().map(length).sum()
    }

    fn pieces(&self) -> Vec<Piece> {
        let piece = |block: &usize| {
            let block = self.directory.place(*block);
            let offset = self.place.offset + block.start;
            Piece { segment: self.lookup.segment.clone(), offset, length: block.end - block.start }
        };
        self.blocks.iter().map(piece).collect()
    }

    /// The zones are ascending.
    fn zones(&self, blocks: &[Bytes]) -> std::result::Result<Vec<u32>, String> {
        let mut zones: Vec<u32> = Vec::new();
        for (block, bytes) in self.blocks.iter().zip(blocks) {
            let mut found = |_, of_key: &[u32]| zones.extend_from_slice(of_key);
            self.directory.read_block(*block, bytes, Some(self.keys), &mut found)?;
        }
        zones.sort_unstable();
        zones.dedup();
        Ok(zones)
    }

    fn damaged(&self, snapshot: &Snapshot, what: String) -> Error {
        damaged_lookup(snapshot, self.lookup, self.place.offset, what)
    }
}
