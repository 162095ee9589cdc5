//! Asking postings for keys. Directories are kept within a bound; blocks are read
//! when they are asked for.
//!
//! Damaged postings, and such as cannot be read now or any more, cost speed, not answers: their runs are then read by
//! their zone maps, and `verify` names the damage.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use rayon::prelude::*;

use kubist_catalog::error::{is_damage, is_unread};
use kubist_catalog::fetch::Piece;
use kubist_catalog::snapshot::Snapshot;
use kubist_format::lookup::postings::Directory;
use kubist_format::lookup::{Lookup, OfColumn};
use kubist_types::cancel::Cancel;
use kubist_types::error::{Error, Result};
use kubist_types::stats::Cost;

/// The zones of each run, by its place among those that a lookup covers; runs that
/// are not here hold none of the keys.
pub type Hits = HashMap<u32, Arc<[u32]>>;

/// What a lookup answers; `None` if it cannot be read, or does not know the column.
pub type Answer = Option<Hits>;

/// Ascending keys that are looked for in a stored column.
pub struct Sought {
    pub column: usize,
    pub keys: Vec<u32>,
}

/// Blocks of about a kilobyte that are read in one go where all are.
const BLOCKS_AT_ONCE: usize = 4096;
/// A core answers so many lookups at least.
const SIDE_BY_SIDE: usize = 32;

/// Where a column's directory lies.
fn directory_piece(lookup: &Lookup, place: &OfColumn) -> Piece {
    let offset = place.offset + place.blocks_length;
    Piece { segment: lookup.segment.clone(), offset, length: place.directory_length as u64 }
}

/// Which postings of a lookup to ask, for what: those that read least.
struct Chosen<'a> {
    place: &'a OfColumn,
    directory: Arc<Directory>,
    blocks: Vec<usize>,
    keys: &'a [u32],
}

/// Asks lookups for keys, for those of one of `sought`; and what was read for it.
///
/// # Errors
///
/// As of [`Core::fetch`](kubist_catalog::core::Core::fetch); `Damaged` if postings are.
pub fn look_up(snapshot: &Snapshot, lookups: &[&Arc<Lookup>], sought: &[Sought]) -> Result<(Vec<Answer>, Cost)> {
    match look_up_all(snapshot, lookups, sought) {
        // In one go if all are sound.
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

/// Is it of postings that are damaged, cannot be read now, or were merged into others since the snapshot was taken?
fn is_unanswered(error: &Error) -> bool {
    is_damage(error) || is_unread(error) || matches!(error, Error::SnapshotExpired { .. })
}

fn look_up_all(snapshot: &Snapshot, lookups: &[&Arc<Lookup>], sought: &[Sought]) -> Result<(Vec<Answer>, Cost)> {
    let asked = |place: &OfColumn| sought.iter().find(|sought| sought.column == place.column as usize);
    let places: Vec<(&Lookup, &OfColumn)> = lookups
        .iter()
        .flat_map(|lookup| lookup.columns.iter().map(move |place| (lookup.as_ref(), place)))
        .filter(|(_, place)| asked(place).is_some())
        .collect();
    let (directories, mut cost) = lookup_directories(snapshot, &places)?;
    let mut chosen: Vec<Option<Chosen<'_>>> = lookups.iter().map(|_| None).collect();
    let mut places = places.into_iter().zip(directories).peekable();
    for (lookup, best) in lookups.iter().zip(&mut chosen) {
        let mut least = u64::MAX;
        while let Some(((_, place), directory)) = places.next_if(|((of, _), _)| std::ptr::eq(*of, lookup.as_ref())) {
            let Some(sought) = asked(place) else { continue };
            let blocks = directory.blocks_of(&sought.keys);
            let length = |block: &usize| {
                let place = directory.place(*block);
                place.end - place.start
            };
            let bytes = blocks.iter().map(length).sum();
            if bytes < least {
                least = bytes;
                *best = Some(Chosen { place, directory, blocks, keys: &sought.keys });
            }
        }
    }
    let pieces: Vec<Piece> = lookups
        .iter()
        .zip(&chosen)
        .flat_map(|(lookup, chosen)| {
            chosen.iter().flat_map(|chosen| {
                chosen.blocks.iter().map(|block| {
                    let block = chosen.directory.place(*block);
                    let offset = chosen.place.offset + block.start;
                    Piece { segment: lookup.segment.clone(), offset, length: block.end - block.start }
                })
            })
        })
        .collect();
    let fetched = snapshot.core.fetch(&pieces)?;
    cost += fetched.cost;
    let mut blocks = &fetched.pieces[..];
    let of_lookups = lookups.iter().zip(&chosen).map(|(lookup, chosen)| {
        let count = chosen.as_ref().map_or(0, |chosen| chosen.blocks.len());
        (lookup, chosen, blocks.split_off(..count).unwrap_or_default())
    });
    let of_lookups: Vec<_> = of_lookups.collect();
    let answers = of_lookups
        .into_par_iter()
        .with_min_len(SIDE_BY_SIDE)
        .map(|(lookup, chosen, bytes)| {
            // An older writer did not know the column.
            let Some(chosen) = chosen else { return Ok(None) };
            let hits = chosen.hits(bytes);
            hits.map(Some).map_err(|what| damaged_lookup(snapshot, lookup, chosen.place.offset, what))
        })
        .collect::<Result<_>>()?;
    Ok((answers, cost))
}

/// The directories of postings, from the cache or the store, and what reading them cost.
fn lookup_directories(snapshot: &Snapshot, places: &[(&Lookup, &OfColumn)]) -> Result<(Vec<Arc<Directory>>, Cost)> {
    let cache = &snapshot.core.lookup_directory_cache;
    let key = |(lookup, place): &(&Lookup, &OfColumn)| (lookup.segment.clone(), place.offset);
    let mut found = cache.get(places.iter().map(key));
    let missing: Vec<usize> = (0..places.len()).filter(|place| found[*place].is_none()).collect();
    let pieces: Vec<Piece> = missing.iter().map(|place| directory_piece(places[*place].0, places[*place].1)).collect();
    let fetched = snapshot.core.fetch(&pieces)?;
    let decode = |(place, bytes): (&usize, &Bytes)| {
        let (lookup, of_column) = places[*place];
        Ok(Arc::new(decode_directory(snapshot, lookup, of_column, bytes)?))
    };
    let decoded = missing.par_iter().zip(&fetched.pieces).map(decode).collect::<Result<Vec<_>>>()?;
    cache.insert(missing.iter().map(|place| key(&places[*place])).zip(decoded.iter().cloned()));
    missing.into_iter().zip(decoded).for_each(|(place, directory)| found[place] = Some(directory));
    Ok((found.into_iter().flatten().collect(), fetched.cost))
}

fn decode_directory(snapshot: &Snapshot, lookup: &Lookup, place: &OfColumn, bytes: &[u8]) -> Result<Directory> {
    let damaged = |what| damaged_lookup(snapshot, lookup, place.offset + place.blocks_length, what);
    Directory::decode(bytes, lookup.runs, place.blocks_length).map_err(damaged)
}

/// All postings of a column, read past the cache: calls `found` with the directory, the key and its zones for each.
///
/// # Errors
///
/// As of [`Core::fetch`](kubist_catalog::core::Core::fetch); `Damaged` if the postings are.
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

/// The directory of a column's postings, read past the cache.
///
/// # Errors
///
/// As of [`read_postings`].
pub fn read_directory(snapshot: &Snapshot, lookup: &Lookup, place: &OfColumn) -> Result<Directory> {
    let fetched = snapshot.core.fetch(&[directory_piece(lookup, place)])?.pieces;
    decode_directory(snapshot, lookup, place, &fetched[0])
}

/// The postings of the keys of a range, and perhaps of a few beside them: `found(key, zones)` for each.
///
/// # Errors
///
/// As of [`read_postings`].
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

impl Chosen<'_> {
    fn hits(&self, blocks: &[Bytes]) -> std::result::Result<Hits, String> {
        let mut zones: Vec<u32> = Vec::new();
        for (block, bytes) in self.blocks.iter().zip(blocks) {
            let mut found = |_, of_key: &[u32]| zones.extend_from_slice(of_key);
            self.directory.read_block(*block, bytes, Some(self.keys), &mut found)?;
        }
        zones.sort_unstable();
        zones.dedup();
        let firsts = &self.directory.firsts;
        let (mut hits, mut left) = (Hits::new(), &zones[..]);
        while let Some(zone) = left.first() {
            let run = firsts.partition_point(|first| first <= zone) - 1;
            let of_run = left.partition_point(|zone| *zone < firsts[run + 1]);
            hits.insert(run as u32, left[..of_run].iter().map(|zone| zone - firsts[run]).collect());
            left = &left[of_run..];
        }
        Ok(hits)
    }
}
