//! Merges the small secondary indexes (`Lookup`) of a table.
//!
//! Each commit and each rewrite writes an index, and a search for a value reads every index with a live run, which are
//! hundreds in a very large table. A merge is a rewrite that reads no rows: it gives runs new ids, keeps their bytes,
//! and writes one index for them.
//!
//! A replica is live only while the runs that it copies are live, so indexes are merged before replicas are made.

use std::collections::HashMap;
use std::sync::Arc;

use kubist_catalog::core::Core;
use kubist_catalog::directory::Entry;
use kubist_catalog::error::{is_damage, is_unread, store_error};
use kubist_catalog::snapshot::Snapshot;
use kubist_catalog::view::View;
use kubist_format::location::Location;
use kubist_format::lookup::postings::{self, Directory, Encoder, MOST_ZONES};
use kubist_format::lookup::{Key, Lookup, OfColumn};
use kubist_format::lookups::first_run;
use kubist_index::cube::CubeId;
use kubist_index::state::{Run, RunId};
use kubist_read::postings::{damaged_lookup, read_between, read_directory};
use kubist_store::Segment;
use kubist_types::{Cancel, Error, Result};
use kubist_write::publish::{NewRuns, Replacement, Written};
use rayon::prelude::*;

use crate::inputs::{above, live};
use crate::planner::movable;
use crate::policy::OptimizeOptions;

/// Limit of rows in a merged index, because one log entry lists all its runs, about 100 bytes per run.
const MOST_ROWS: u64 = 1 << 28;
const MOST_RUNS: u64 = 1 << 18;
/// The same limit in the background, where a merge takes a second.
const MOST_ROWS_AT_ONCE: u64 = 1 << 23;
/// Limit of postings in memory, in two copies of 8 bytes each.
const HELD_ROWS: u64 = 1 << 23;
/// Number of postings that are sorted together in a processor cache.
const PART_ROWS: u64 = 1 << 15;
const NONE: u32 = u32::MAX;
const SOUGHT_RUNS: u64 = 1 << 20;

pub struct Group {
    keys: Vec<Key>,
    rows: u64,
    runs: u64,
    names: Vec<(CubeId, RunId)>,
}

struct Counted {
    rows: u64,
    runs: u64,
    /// The index covers all indexed columns, and all its runs may be replaced.
    is_free: bool,
    /// The position of the index's first live run in depth-first order.
    place: usize,
}

/// Calls `work` with each group of indexes to merge. Nothing is merged while there are at most `few_lookups` small
/// indexes. Otherwise the smallest are merged, up to the last one that has no more rows than all smaller ones together.
/// Each merge of a posting therefore at least doubles its index.
///
/// # Errors
///
/// The errors of [`Core::view`]; the errors of `work`.
pub fn each(core: &Core, options: &OptimizeOptions, work: &mut dyn FnMut(&Group) -> Result<()>) -> Result<()> {
    let mut groups = groups(core, options)?;
    let mut rest = &mut groups[..];
    while !rest.is_empty() {
        let mut sought = 0;
        let fits = |group: &&mut Group| {
            sought += group.runs;
            sought <= SOUGHT_RUNS || sought == group.runs
        };
        let count = rest.iter_mut().take_while(fits).count();
        let (some, later) = rest.split_at_mut(count);
        rest = later;
        name(core, some, &options.cancel)?;
        for group in some {
            work(group)?;
            group.names = Vec::new();
        }
    }
    Ok(())
}

fn groups(core: &Core, options: &OptimizeOptions) -> Result<Vec<Group>> {
    if core.created.lookup.is_empty() {
        return Ok(Vec::new());
    }
    let most = if options.one_round { MOST_ROWS_AT_ONCE } else { MOST_ROWS };
    let (_, counted) = core.view_with(&options.cancel, |view| count(core, view, &options.cancel))?;
    let is_small = |of: &Counted| of.is_free && of.rows <= most / 2 && of.runs <= MOST_RUNS / 2;
    let mut small: Vec<(Key, Counted)> = counted.into_iter().filter(|(_, of)| is_small(of)).collect();
    if small.len() <= options.few_lookups {
        return Ok(Vec::new());
    }
    small.sort_unstable_by_key(|(_, of)| (of.rows, of.place));
    let (mut sum, mut worth) = (0, 0);
    for (number, (_, of)) in small.iter().enumerate() {
        if of.rows <= sum {
            worth = number + 1;
        }
        sum += of.rows;
    }
    small.truncate(worth);
    // Neighbouring runs share pages of the manifest.
    small.sort_unstable_by_key(|(_, of)| of.place);
    let mut groups: Vec<Group> = Vec::new();
    for (key, of) in small {
        let fits = |group: &&mut Group| group.rows + of.rows <= most && group.runs + of.runs <= MOST_RUNS;
        match groups.last_mut().filter(fits) {
            Some(group) => {
                (group.rows, group.runs) = (group.rows + of.rows, group.runs + of.runs);
                group.keys.push(key);
            }
            None => groups.push(Group { keys: vec![key], rows: of.rows, runs: of.runs, names: Vec::new() }),
        }
    }
    groups.retain(|group| group.keys.len() > 1);
    if options.one_round {
        groups.truncate(1);
    }
    Ok(groups)
}

fn name(core: &Core, groups: &mut [Group], cancel: &Cancel) -> Result<()> {
    let of_keys = groups.iter().enumerate().flat_map(|(number, group)| group.keys.iter().map(move |key| (key, number)));
    let numbers: HashMap<Key, usize> = of_keys.map(|(key, number)| (key.clone(), number)).collect();
    let (_, names) = core.view_with(cancel, |view| {
        let mut names = vec![Vec::new(); groups.len()];
        each_covered(core, view, cancel, |run, lookup| {
            if let Some(number) = numbers.get(&lookup.key()) {
                names[*number].push((run.cube, run.id));
            }
        })?;
        Ok(names)
    })?;
    groups.iter_mut().zip(names).for_each(|(group, names)| group.names = names);
    Ok(())
}

fn each_covered(
    core: &Core,
    view: &View,
    cancel: &Cancel,
    mut work: impl FnMut(&Arc<Run<Location>>, &Arc<Lookup>),
) -> Result<()> {
    view.runs.each_in_order(core, cancel, |entry| {
        if let Entry::Run(run) = entry
            && !run.is_replica()
            && let Some(lookup) = &run.payload.lookup
        {
            work(&run, lookup);
        }
        Ok(())
    })
}

fn count(core: &Core, view: &View, cancel: &Cancel) -> Result<HashMap<Key, Counted>> {
    let (movable, columns) = (movable(view), &core.created.lookup);
    let mut counted: HashMap<Key, Counted> = HashMap::new();
    each_covered(core, view, cancel, |run, lookup| {
        let place = counted.len();
        let of = counted.entry(lookup.key()).or_insert_with(|| {
            let knows = |column: &usize| lookup.columns.iter().any(|of| of.column as usize == *column);
            Counted { rows: 0, runs: 0, is_free: columns.iter().all(knows), place }
        });
        of.rows += run.rows;
        of.runs += 1;
        of.is_free &= movable(run);
    })?;
    Ok(counted)
}

/// Merges a group, and returns the rewrite and the number of merged indexes; damaged ones stay; `None` if another
/// rewrite has replaced a run, or if fewer than two indexes can be read.
///
/// # Errors
///
/// The errors of [`Core::view`].
pub fn merge(core: &Arc<Core>, group: &Group, cancel: &Cancel) -> Result<Option<(Written, u64)>> {
    let cubes = above(&core.forest(), group.names.iter().map(|(cube, _)| *cube));
    let (view, directory) = core.view_with(cancel, |view| {
        let own = group.names.iter().map(|(cube, _)| *cube);
        view.runs.of_cubes(core, cubes.iter().copied().chain(own), cancel)
    })?;
    let Some(mut runs) = live(&directory, &group.names) else { return Ok(None) };
    // The runs of an index are consecutive in their entry.
    runs.sort_unstable_by_key(|run| run.id);
    let cutoffs = cubes.into_iter().map(|cube| (cube, directory.cutoff(cube))).collect();
    let snapshot = Snapshot::new(core.clone(), view);
    let mut lookups: Vec<&[Arc<Run<Location>>]> = runs.chunk_by(|one, other| name_of(one) == name_of(other)).collect();
    loop {
        let (mut inputs, mut merged, mut unreadable) = (Vec::new(), 0, None);
        let new = NewRuns::filled(core, &snapshot.view, |segment| {
            let outcome = Merging::of(&snapshot, &lookups, cancel).and_then(|merging| {
                merged = merging.sources.len();
                inputs = merging.runs().cloned().collect();
                if merged < 2 { Ok((Vec::new(), 0)) } else { merging.write(segment) }
            });
            outcome.or_else(|(lookup, error)| {
                unreadable = lookup.filter(|_| is_damage(&error) || is_unread(&error));
                if unreadable.is_some() { Ok((Vec::new(), 0)) } else { Err(error) }
            })
        })?;
        if unreadable.is_none() && merged > 1 {
            let written = new.publish(core, Replacement { inputs, cutoffs, ..Replacement::default() }, cancel)?;
            return Ok(written.map(|written| (written, merged as u64)));
        }
        new.discard(core);
        match unreadable {
            Some(lookup) => drop(lookups.remove(lookup)),
            None => return Ok(None),
        }
    }
}

fn name_of(run: &Run<Location>) -> Option<(RunId, Key)> {
    run.payload.lookup.as_ref().map(|lookup| (first_run(run, lookup), lookup.key()))
}

type Fault = (Option<usize>, Error);

struct Merging<'a> {
    snapshot: &'a Snapshot,
    cancel: &'a Cancel,
    sources: Vec<Source<'a>>,
    zones: Vec<u32>,
    rows: u64,
}

struct Source<'a> {
    lookup: &'a Arc<Lookup>,
    runs: &'a [Arc<Run<Location>>],
    columns: Vec<(&'a OfColumn, Directory)>,
    /// For each zone of the index, its number in the merged index, or [`NONE`].
    numbers: Vec<u32>,
}

impl<'a> Merging<'a> {
    fn of(
        snapshot: &'a Snapshot,
        lookups: &[&'a [Arc<Run<Location>>]],
        cancel: &'a Cancel,
    ) -> std::result::Result<Merging<'a>, Fault> {
        let mut merging = Merging { snapshot, cancel, sources: Vec::new(), zones: Vec::new(), rows: 0 };
        let (mut next, mut all) = (0, 0);
        for (number, runs) in lookups.iter().enumerate() {
            cancel.check().map_err(|error| (None, error))?;
            // The readers' limit of zones in an index applies.
            let Some(lookup) = &runs[0].payload.lookup else { continue };
            let known = |column: &usize| lookup.columns.iter().find(|place| place.column as usize == *column);
            let columns = snapshot.core.created.lookup.iter().filter_map(known);
            let read = columns.map(|place| Ok((place, read_directory(snapshot, lookup, place)?)));
            let columns: Vec<(&OfColumn, Directory)> =
                read.collect::<Result<_>>().map_err(|error| (Some(number), error))?;
            let firsts = &columns[0].1.firsts;
            let zones = |run: &Arc<Run<Location>>| {
                let index = lookup.index_of(run.id);
                Some(*firsts.get(index)?..*firsts.get(index + 1)?)
            };
            let of_runs = runs.iter().map(zones).collect::<Option<Vec<_>>>();
            let agree = columns.iter().all(|(_, directory)| directory.firsts == *firsts);
            let Some(of_runs) = of_runs.filter(|_| agree) else {
                let what = "the directories of a lookup do not agree with its entry, or with each other".to_string();
                return Err((Some(number), damaged_lookup(snapshot, lookup, 0, what)));
            };
            all += firsts.last().copied().unwrap_or_default() as u64;
            if all > MOST_ZONES as u64 && number > 0 {
                break;
            }
            let mut numbers = vec![NONE; firsts.last().map_or(0, |zones| *zones as usize)];
            for (run, zones) in runs.iter().zip(of_runs) {
                merging.zones.push(zones.end - zones.start);
                merging.rows += run.rows;
                for zone in zones {
                    numbers[zone as usize] = next;
                    next += 1;
                }
            }
            merging.sources.push(Source { lookup, runs, columns, numbers });
        }
        Ok(merging)
    }

    fn runs(&self) -> impl Iterator<Item = &'a Arc<Run<Location>>> + use<'a, '_> {
        self.sources.iter().flat_map(|source| source.runs)
    }

    fn write(self, segment: &mut dyn Segment) -> std::result::Result<(Vec<Arc<Run<Location>>>, u64), Fault> {
        let columns: Vec<OfColumn> = (0..self.snapshot.core.created.lookup.len())
            .map(|column| self.write_column(column, segment))
            .collect::<std::result::Result<_, Fault>>()?;
        let mut runs: Vec<Arc<Run<Location>>> = self.runs().cloned().collect();
        let lookup = Lookup { segment: segment.name().into(), first: 0, runs: runs.len() as u32, columns };
        let lookup = Arc::new(lookup);
        for run in &mut runs {
            let place = &mut Arc::make_mut(run).payload;
            (place.origin, place.lookup) = (None, Some(lookup.clone()));
        }
        Ok((runs, lookup.length()))
    }

    fn write_column(&self, column: usize, segment: &mut dyn Segment) -> std::result::Result<OfColumn, Fault> {
        // A power of two, so that each piece has the keys with the same first bits.
        let pieces = self.rows.div_ceil(HELD_ROWS).next_power_of_two().min(1 << 16) as u32;
        let parts = (self.rows / (pieces as u64 * PART_ROWS)).clamp(1, 1 << 8).next_power_of_two() as u32;
        let append = |segment: &mut dyn Segment, bytes: &[&[u8]]| {
            segment.append(bytes).map_err(|error| (None, store_error(error)))
        };
        let (mut encoder, mut begin, mut length) = (Encoder::new(&self.zones, pieces), None, 0);
        for piece in 0..pieces {
            self.cancel.check().map_err(|error| (None, error))?;
            let blocks = encoder.add(self.piece(column, (pieces, piece), parts)?);
            let bytes: Vec<&[u8]> = blocks.iter().map(Vec::as_slice).collect();
            length += bytes.iter().map(|bytes| bytes.len() as u64).sum::<u64>();
            begin = Some(append(segment, &bytes)?).map(|at| begin.unwrap_or(at));
        }
        let directory = encoder.finish();
        let index = postings::encode_index(&directory);
        let at = append(segment, &[&directory, &index])?;
        Ok(OfColumn {
            column: self.snapshot.core.created.lookup[column] as u32,
            offset: begin.unwrap_or(at),
            blocks_length: length,
            directory_length: directory.len() as u32,
            index_length: index.len() as u32,
        })
    }

    /// The pairs `key << 32 | zone` for range `piece` of `pieces` ranges of keys, in parts of ascending keys.
    fn piece(
        &self,
        column: usize,
        (pieces, piece): (u32, u32),
        parts: u32,
    ) -> std::result::Result<Vec<Vec<u64>>, Fault> {
        let width = (1u64 << 32) / pieces as u64;
        let (first, last) = (piece as u64 * width, (piece as u64 + 1) * width - 1);
        let keys = first as u32..=last as u32;
        let part_of = |key: u32| ((key as u64 - first) * parts as u64 / width) as usize;
        let read = |(number, source): (usize, &Source<'_>)| {
            let mut pairs = vec![Vec::new(); parts as usize];
            let (place, directory) = &source.columns[column];
            let mut found = |key: u32, zones: &[u32]| {
                if keys.contains(&key) {
                    let numbers = zones.iter().map(|zone| source.numbers[*zone as usize]);
                    let pair = |number: u32| (key as u64) << 32 | number as u64;
                    pairs[part_of(key)].extend(numbers.filter(|number| *number != NONE).map(pair));
                }
            };
            let keys = (*keys.start(), *keys.end());
            read_between(self.snapshot, source.lookup, place, directory, keys, self.cancel, &mut found)
                .map_err(|error| (Some(number), error))?;
            Ok(pairs)
        };
        let joined = |mut one: Vec<Vec<u64>>, other: Vec<Vec<u64>>| {
            one.iter_mut().zip(other).for_each(|(one, mut other)| one.append(&mut other));
            Ok(one)
        };
        let of_sources = self.sources.par_iter().enumerate().map(read);
        of_sources.try_reduce(|| vec![Vec::new(); parts as usize], joined)
    }
}
