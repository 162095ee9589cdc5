//! Writing checkpoints: when one is due, and what it holds.

use std::time::Duration;

use kubist_format::checkpoint::{Head, Leaf, encode_leaves};
use kubist_format::entry::{CommitEntry, Page, encode_page};
use kubist_format::location::Location;
use kubist_format::names::{CHECKPOINTS, PAGES_SEGMENT};
use kubist_index::forest::Forest;
use kubist_index::pages::{Dealer, Summary};
use kubist_index::state::Commit;
use kubist_store::Segment;
use kubist_types::{Cancel, Error, Result};

use crate::core::Core;
use crate::directory::{Entry, INLINE, page_entries};
use crate::error::store_error;
use crate::segment::write_segment;
use crate::settle::settle;
use crate::view::View;

/// A checkpoint is due after `ENTRIES` entries, or `RUNS` runs in them, once the new runs are
/// a quarter of all runs, or `MANY_RUNS`.
const ENTRIES: u64 = 200;
const RUNS: u64 = 1 << 13;
const MANY_RUNS: u64 = 1 << 18;

/// Pages on their way to a segment.
struct Pages<'a> {
    forest: Forest,
    cancel: &'a Cancel,
    segment: &'a mut dyn Segment,
    dealer: Dealer<Location>,
    leaves: Vec<Leaf>,
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
        let bytes = encode_page(page, &self.forest);
        let offset = self.segment.append(&[&bytes]).map_err(store_error)?;
        self.leaves.push(Leaf { offset, length: bytes.len() as u32, summary });
        Ok(())
    }
}

/// What stands behind the head of a checkpoint.
struct Body {
    bytes: Vec<u8>,
    /// The segment of the pages, if there are any; and if it belongs into the head.
    segment: Option<String>,
    in_head: Option<String>,
}

/// The runs of a view as the body of a checkpoint.
fn body(core: &Core, view: &View, number: u64, cancel: &Cancel) -> Result<Body> {
    let runs = view.runs.about();
    if view.runs.base.is_none() && runs <= INLINE && core.fits_in_memory(runs) {
        let directory = view.runs.recent();
        let live = Commit { runs: directory.all().cloned().collect(), cutoffs: directory.cutoffs().collect() };
        let bytes = CommitEntry::of_live(live).encode(directory.forest());
        return Ok(Body { bytes, segment: None, in_head: None });
    }
    // Every grid of the view was named by what it was made of.
    let forest = core.forest();
    let (name, leaves) = write_segment(core, PAGES_SEGMENT, number, |segment| {
        let dealer = Dealer::new(forest.clone(), page_entries(runs));
        let mut pages = Pages { forest: forest.clone(), cancel, segment, dealer, leaves: Vec::new() };
        view.runs.in_order(core, cancel, |entry| pages.push(entry))?;
        let dealer = std::mem::replace(&mut pages.dealer, Dealer::new(forest.clone(), 1));
        dealer.finish().into_iter().try_for_each(|page| pages.append(page))?;
        Ok(pages.leaves)
    })?;
    let (bytes, in_head) = encode_leaves(&name, &leaves, &forest);
    Ok(Body { bytes, segment: Some(name), in_head })
}

/// Writes a checkpoint of all that is durable by now, unless the newest one
/// is as good. `false` if it cannot be done now: some writer is just making an entry
/// durable, or others have overtaken this one.
///
/// # Errors
///
/// `Cancelled`; as of [`Core::view`]; a storage error.
pub fn write(core: &Core, cancel: &Cancel) -> Result<bool> {
    write_if(core, false, cancel)
}

/// The same, as good as the newest one or not. A process that has made pages for
/// a checkpoint that is not there finds its number taken.
///
/// # Errors
///
/// As of [`write()`].
pub fn write_anew(core: &Core, cancel: &Cancel) -> Result<bool> {
    write_if(core, true, cancel)
}

fn write_if(core: &Core, anew: bool, cancel: &Cancel) -> Result<bool> {
    // Listed before the table is looked at: a checkpoint that took long to make
    // finds its number taken, instead of following a newer one.
    core.check_still_there()?;
    let names = core.store.list(CHECKPOINTS).map_err(store_error)?;
    let view = core.view(cancel)?;
    if !anew && !names.is_empty() && core.since_checkpoint().0 == 0 {
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
    let Body { bytes: body, segment, in_head } = match body(core, &view, number, cancel) {
        // Others have written newer ones meanwhile, and cleaned up.
        Err(Error::SnapshotExpired { .. }) => return Ok(false),
        body => body?,
    };
    // From here on it is a matter of a few small objects, and all of them or none.
    cancel.check()?;
    let head = Head {
        positions: view.positions.clone(),
        rewrites: view.rewrites,
        history: view.history.clone(),
        pages: in_head,
    };
    let head = serde_json::to_vec(&head).expect("a checkpoint's head is plain data");
    let bytes = [&(head.len() as u32).to_le_bytes()[..], &head, &body].concat();
    // Losing the race is harmless: the winner's checkpoint is as new.
    let name = format!("{CHECKPOINTS}{number:020}");
    let won = core.store.put_if_absent(&name, &bytes).map_err(store_error)?;
    // Its number was taken before, and that checkpoint cleaned away with the pages of this one.
    if won && core.store.list(CHECKPOINTS).map_err(store_error)?.last() != Some(&name) {
        core.store.delete(&name).map_err(store_error)?;
        return Ok(false);
    }
    if let Some(segment) = segment.filter(|_| !won) {
        core.store.delete_segment(&segment).map_err(store_error)?;
    }
    // The one before stays for readers that just listed it.
    for old in names.iter().rev().skip(1) {
        core.store.delete(old).map_err(store_error)?;
    }
    core.checkpointed(&view);
    Ok(true)
}

/// Is enough new since the last checkpoint to write another? `unseen` runs came with an
/// entry that was just written and not read yet.
pub fn is_due(core: &Core, unseen: u64) -> bool {
    let (entries, new_runs, runs) = core.since_checkpoint();
    let (new_runs, runs) = (new_runs + unseen, runs + unseen);
    (entries >= ENTRIES || new_runs >= RUNS)
        && (new_runs * 4 >= runs || entries >= 16 * ENTRIES || new_runs >= MANY_RUNS)
}
