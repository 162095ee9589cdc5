//! Writing of checkpoints: when one is due, and its contents.
//!
//! If the directory does not fit in memory, a checkpoint builds on the previous one. It lists the same pages, adds
//! pages for later runs, and lists the runs that were removed from older pages. It rewrites some levels of pages
//! (`kubist_index::levels`), and all levels once many runs were removed. The optimizer can also request a rewrite of
//! levels without intact digests.
//!
//! # Why no checkpoint names pages that cleaning deletes
//!
//! Cleaning deletes a segment of pages only if a checkpoint with its number or a later one exists, and no checkpoint
//! listed *then* names it.
//!
//! Checkpoint N names pages written for number N, and pages of N - 1, which was the newest when the table was read. The
//! two newest checkpoints are never deleted, so the pages of N - 1 exist when N is put. From then on, cleaners list N.
//!
//! A cleaner may have listed a checkpoint that is no longer the newest. Later checkpoints name only its pages, or pages
//! for numbers that were unused at that time.
//!
//! A process may put N after N was used and cleaned. It then finds later checkpoints and deletes its own, which no
//! reader has used.

use std::sync::Arc;
use std::time::Duration;

use kubist_format::checkpoint::{Head, Leaf, encode_leaves, levels};
use kubist_format::digest::Digest;
use kubist_format::entry::{Page, encode_live, encode_page};
use kubist_format::location::Location;
use kubist_format::names::{CHECKPOINTS, PAGES_SEGMENT};
use kubist_index::forest::Forest;
use kubist_index::levels::kept;
use kubist_index::pages::{Dealer, Summary};
use kubist_index::spread::SpreadSet;
use kubist_index::state::{Commit, RunId};
use kubist_store::Segment;
use kubist_types::{Cancel, Error, Result};

use crate::checkpoint;
use crate::core::Core;
use crate::directory::{Entry, INLINE, Runs, page_sizes, runs_of};
use crate::error::{is_damage, store_error};
use crate::follow::from_to_token;
use crate::hold;
use crate::segment::{unix_ms, write_segment};
use crate::settle::settle;
use crate::token::SnapshotToken;
use crate::view::View;

/// A checkpoint is due after `ENTRIES` entries or `RUNS` runs, if the new runs are also a quarter of all runs or at
/// least `MANY_RUNS`. It is due in any case after 16 times `ENTRIES` entries.
const ENTRIES: u64 = 200;
const RUNS: u64 = 1 << 13;
const MANY_RUNS: u64 = 1 << 18;

const RUN_BYTES: u64 = 128;
const CUTOFF_BYTES: u64 = 32;
/// The next checkpoint rewrites a level that is smaller than this fraction (1/32) of the directory that fits in memory.
const LEAST_SHARE: u64 = 32;
/// All levels are rewritten once this fraction (1/16) of the runs on their pages were removed.
const GONE_SHARE: u64 = 16;

struct Pages<'a> {
    forest: Forest,
    cancel: &'a Cancel,
    name: Arc<str>,
    segment: &'a mut dyn Segment,
    dealer: Dealer<Location>,
    leaves: Vec<Leaf>,
    digest: Digest,
}

impl Pages<'_> {
    fn push(&mut self, entry: Entry) -> Result<()> {
        match self.dealer.push(entry) {
            Some(page) => self.append(page),
            None => Ok(()),
        }
    }

    fn append(&mut self, (summary, page): (Summary, Page)) -> Result<()> {
        self.cancel.check()?;
        self.digest.add(&page);
        let bytes = encode_page(page, &self.forest);
        let offset = self.segment.append(&[&bytes]).map_err(store_error)?;
        self.leaves.push(Leaf { segment: self.name.clone(), offset, length: bytes.len() as u32, summary });
        Ok(())
    }
}

struct Body {
    bytes: Vec<u8>,
    segment: Option<String>,
}

/// The segment unless it is empty, its pages, and the skipped removed runs.
type Level = (Option<String>, Vec<Leaf>, SpreadSet<RunId>);

struct Since {
    view: Arc<View>,
    kept: usize,
}

/// The runs after the newest checkpoint, or `None` if all pages must be written.
fn since(core: &Core, view: &View, newest: &str, how: How, cancel: &Cancel) -> Result<Option<Since>> {
    let held = match checkpoint::read(core, newest) {
        Err(error) if is_damage(&error) => return Ok(None),
        held => held?,
    };
    let token = SnapshotToken::of(core, view);
    let Some(held) = held.filter(|held| token.is_at_or_after(&held.state)) else { return Ok(None) };
    let Some(base) = held.base.clone() else { return Ok(None) };
    let of_levels: Vec<&[Leaf]> = levels(&base.pages).collect();
    let bytes = |level: &&[Leaf]| level.iter().map(|page| page.length as u64).sum();
    let bytes: Vec<u64> = of_levels.iter().map(bytes).collect();
    let least = (core.runs_in_memory() / LEAST_SHARE).saturating_mul(RUN_BYTES);
    if kept(&bytes, 0, least) == 0 {
        return Ok(None);
    }
    let view = from_to_token(core, Some(held), &token, cancel)?;
    let recent = view.runs.recent();
    let new = recent.len() as u64 * RUN_BYTES + recent.cutoffs().count() as u64 * CUTOFF_BYTES;
    let mut kept = kept(&bytes, new, least);
    if how == How::Digested {
        kept = base.digested(core, kept, cancel)?;
    }
    let kept = of_levels[..kept].iter().map(|level| level.len()).sum();
    let gone = view.runs.removed().count() as u64;
    let stays = kept > 0 && gone * GONE_SHARE <= runs_of(&base.pages[..kept]);
    Ok(stays.then_some(Since { view, kept }))
}

fn body(core: &Core, view: &View, number: u64, newest: Option<&String>, how: How, cancel: &Cancel) -> Result<Body> {
    let runs = view.runs.about();
    if view.runs.base.is_none() && runs <= INLINE && core.fits_in_memory(runs) {
        let directory = view.runs.recent();
        let live = Commit { runs: directory.all().cloned().collect(), cutoffs: directory.cutoffs().collect() };
        let bytes = encode_live(&live, directory.forest());
        return Ok(Body { bytes, segment: None });
    }
    // A directory that fits in memory is written whole.
    let in_memory = core.fits_in_memory(runs);
    let newest = newest.filter(|_| !in_memory);
    let since = newest.map(|newest| since(core, view, newest, how, cancel)).transpose()?.flatten();
    let (runs, kept) = since.as_ref().map_or((&view.runs, 0), |since| (&since.view.runs, since.kept));
    let base = runs.base.as_ref().filter(|_| kept > 0);
    let is_all_kept = base.is_some_and(|base| kept == base.pages.len());
    let recent = runs.recent();
    let (segment, new, gone) = match is_all_kept && recent.is_empty() && recent.cutoffs().next().is_none() {
        true => Level::default(),
        false => write_level(core, runs, number, (kept, in_memory), cancel)?,
    };
    let mut removed: Vec<RunId> = runs.removed().filter(|run| base.is_some() && !gone.contains(run)).collect();
    removed.sort_unstable();
    let leaves: Vec<Leaf> = base.iter().flat_map(|base| &base.pages[..kept]).chain(&new).cloned().collect();
    Ok(Body { bytes: encode_leaves(&leaves, &removed, &core.forest()), segment })
}

fn write_level(
    core: &Core,
    runs: &Runs,
    number: u64,
    (kept, in_memory): (usize, bool),
    cancel: &Cancel,
) -> Result<Level> {
    let forest = core.forest();
    let on_kept = runs.base.as_ref().map_or(0, |base| runs_of(&base.pages[..kept]));
    let sizes = page_sizes(runs.about().saturating_sub(on_kept), in_memory);
    let (segment, (pages, gone)) = write_segment(core, PAGES_SEGMENT, number, |segment| {
        let dealer = Dealer::new(forest.clone(), sizes, kept > 0);
        let name = segment.name().into();
        let (leaves, digest) = (Vec::new(), Digest::default());
        let mut pages = Pages { forest: forest.clone(), cancel, name, segment, dealer, leaves, digest };
        let gone = runs.in_order(core, kept, cancel, |entry| pages.push(entry))?;
        let dealer = std::mem::replace(&mut pages.dealer, Dealer::new(forest.clone(), sizes, false));
        dealer.finish().into_iter().try_for_each(|page| pages.append(page))?;
        let digest = pages.digest.encode(&forest);
        pages.segment.append(&digest.each_ref().map(Vec::as_slice)).map_err(store_error)?;
        Ok((pages.leaves, gone))
    })?;
    Ok((Some(segment), pages, gone))
}

/// Writes a checkpoint of everything durable, unless the newest one contains it. Returns `false` if a writer is just
/// making an entry durable, or if another process was faster.
///
/// # Errors
///
/// The errors of [`Core::view`].
pub fn write(core: &Core, cancel: &Cancel) -> Result<bool> {
    write_if(core, How::IfNew, cancel)
}

/// Like [`write()`], even if the newest checkpoint contains everything. A process that has written pages for the same
/// number can then no longer put its checkpoint.
///
/// # Errors
///
/// The errors of [`write()`].
pub fn write_anew(core: &Core, cancel: &Cancel) -> Result<bool> {
    write_if(core, How::Anew, cancel)
}

/// When to write, and which pages to keep.
#[derive(Clone, Copy, PartialEq)]
enum How {
    IfNew,
    Anew,
    /// Always; rewrites all levels without an intact digest.
    Digested,
}

fn write_if(core: &Core, how: How, cancel: &Cancel) -> Result<bool> {
    // Listed before the view is read. If a newer checkpoint appears later, its number is taken, and this one fails.
    core.check_still_there()?;
    let names = core.store.list(CHECKPOINTS).map_err(store_error)?;
    let view = core.view(cancel)?;
    if how == How::IfNew && !names.is_empty() && core.since_checkpoint().0 == 0 {
        return Ok(true);
    }
    for (writer, position) in &view.positions {
        match settle(core, writer, *position, Duration::ZERO, cancel) {
            Ok(()) => {}
            Err(Error::Cancelled) => return Err(Error::Cancelled),
            Err(_) => return Ok(false),
        }
    }
    let number = names.last().and_then(|name| name[CHECKPOINTS.len()..].parse::<u64>().ok()).unwrap_or(0) + 1;
    let Body { bytes: body, segment } = match body(core, &view, number, names.last(), how, cancel) {
        Err(Error::SnapshotExpired { .. }) => return Ok(false),
        body => body?,
    };
    cancel.check()?;
    let head = Head { positions: view.positions.clone(), rewrites: view.rewrites, history: view.history.clone() };
    let head = serde_json::to_vec(&head).expect("a checkpoint's head is plain data");
    let bytes = [&(head.len() as u32).to_le_bytes()[..], &head, &body].concat();
    // If another process puts this number first, its checkpoint is as new.
    let name = format!("{CHECKPOINTS}{number:020}");
    let won = core.store.put_if_absent(&name, &bytes).map_err(store_error)?;
    // Otherwise the number was used before, and cleaned with the pages of this checkpoint.
    if won && core.store.list(CHECKPOINTS).map_err(store_error)?.last() != Some(&name) {
        core.store.delete(&name).map_err(store_error)?;
        return Ok(false);
    }
    if let Some(segment) = segment.filter(|_| !won) {
        core.store.delete_segment(&segment).map_err(store_error)?;
    }
    // The previous checkpoint stays for readers that have just listed it, and all stay during a hold.
    if names.len() > 1 && hold::oldest(core, unix_ms())?.is_none() {
        for old in names.iter().rev().skip(1) {
            core.store.delete(old).map_err(store_error)?;
        }
    }
    core.checkpointed(&view);
    Ok(true)
}

/// Writes a checkpoint and rewrites pages of the newest one, if they have no intact digest.
///
/// # Errors
///
/// The errors of [`write()`] and [`checkpoint::load`].
pub fn write_digests(core: &Core, cancel: &Cancel) -> Result<bool> {
    let Some(base) = checkpoint::load(core, cancel)?.and_then(|held| held.base) else { return Ok(true) };
    let of_levels = levels(&base.pages).count();
    match base.digested(core, of_levels, cancel)? == of_levels {
        true => Ok(true),
        false => write_if(core, How::Digested, cancel),
    }
}

/// Whether a checkpoint is due, where `unseen` counts the runs of an entry that was just written and not read yet.
pub fn is_due(core: &Core, unseen: u64) -> bool {
    let (entries, new_runs, runs) = core.since_checkpoint();
    let (new_runs, runs) = (new_runs + unseen, runs + unseen);
    (entries >= ENTRIES || new_runs >= RUNS)
        && (new_runs * 4 >= runs || entries >= 16 * ENTRIES || new_runs >= MANY_RUNS)
}
