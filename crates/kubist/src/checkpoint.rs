//! Checkpoints: the state of the table in one object, so that opening reads it
//! and the ends of the logs instead of everything that ever happened.
//!
//! A checkpoint holds what a prefix of every log and of the rewrite log amounts
//! to: the live runs, the cutoffs and the writers' history. It is written only
//! when all of those entries are durable. Nothing depends on it: without any
//! checkpoint the logs say the same, as long as no rewrite was cleaned away.
//!
//! Many runs lie in pages in a segment of their own (`directory`), and the object
//! lists these.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use kubist_index::cube::Geometry;
use kubist_index::pages::{Dealer, Summary};
use kubist_index::state::{Commit, State};
use kubist_store::Segment;

use crate::codec::wire::{Reader, Short};
use crate::directory::{Base, Entry, INLINE, Leaf, Page, page_entries};
use crate::entry::{CommitEntry, EntryError, Location, encode_page};
use crate::error::{Error, Result, store_error};
use crate::history::History;
use crate::options::Cancel;
use crate::rewrite::{new_segment, settle};
use crate::table::{Core, Table, View, bad_entry};
use crate::vouched::Vouched;

pub(crate) const CHECKPOINTS: &str = "checkpoints/";
/// How the names of segments of pages begin; they end with the time of their creation.
pub(crate) const PAGES_SEGMENT: &str = "pages-";
/// A checkpoint is due after so many entries, or runs in them, and once these are a good
/// share of all runs, or very many.
const ENTRIES: u64 = 200;
const RUNS: u64 = 1 << 13;
const MANY_RUNS: u64 = 1 << 18;

/// The part of a checkpoint that is JSON.
#[derive(Serialize, Deserialize)]
struct Head {
    positions: Vec<(String, u64)>,
    rewrites: u64,
    history: History,
    /// Where the pages are, if the runs are in pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pages: Option<String>,
}

/// What a checkpoint says.
pub(crate) struct Held {
    pub name: String,
    /// Without the runs and cutoffs of the base, if there is one.
    pub state: State<Location>,
    pub base: Option<Arc<Base>>,
    pub history: History,
}

/// What the newest checkpoint says, if there is one.
pub(crate) fn load(core: &Core) -> Result<Option<Held>> {
    // One that disappears between the two calls was replaced by a newer one.
    loop {
        let Some(name) = core.store.list(CHECKPOINTS).map_err(store_error)?.pop() else { return Ok(None) };
        if let Some(held) = read(core, &name)? {
            return Ok(Some(held));
        }
    }
}

/// What a checkpoint says, unless it is gone.
pub(crate) fn read(core: &Core, name: &str) -> Result<Option<Held>> {
    let Some(bytes) = core.store.get(name).map_err(store_error)? else { return Ok(None) };
    let bad = |error| bad_entry(core.store.location(), name, 0, error);
    let (head, body) = split(&bytes).map_err(bad)?;
    let Head { positions, rewrites, history, pages } = head;
    let (state, base) = match pages {
        None => {
            let live = CommitEntry::decode(body, &core.geometry).map_err(bad)?.commit;
            (State::restore(live, positions, rewrites), None)
        }
        Some(segment) => {
            let pages = leaves(body, &core.geometry).map_err(|error| bad(error.into()))?;
            (State::continuing(positions, rewrites), Some(Arc::new(Base::new(segment.into(), pages))))
        }
    };
    Ok(Some(Held { name: name.into(), state, base, history }))
}

/// The segments of pages that checkpoints name.
pub(crate) fn segments(core: &Core) -> Result<Vec<Arc<str>>> {
    let mut segments = Vec::new();
    for name in core.store.list(CHECKPOINTS).map_err(store_error)? {
        let base = read(core, &name)?.and_then(|held| held.base);
        segments.extend(base.map(|base| base.segment.clone()));
    }
    Ok(segments)
}

fn split(bytes: &[u8]) -> std::result::Result<(Head, &[u8]), EntryError> {
    let mut reader = Reader::new(bytes);
    let length = reader.u32()? as usize;
    let head = reader.bytes(length)?;
    Ok((serde_json::from_slice(head).map_err(|error| EntryError::Bad(error.to_string()))?, reader.rest()))
}

impl Held {
    /// What it says of the logs.
    pub fn vouched(&self) -> Vouched {
        let (mut vouched, who) = (Vouched::default(), format!("checkpoint {}", &self.name[CHECKPOINTS.len()..]));
        self.state.positions().for_each(|(writer, position)| vouched.say(writer, position, &self.history, &who));
        vouched
    }

    /// The state with all of its runs in memory.
    pub fn whole(self, core: &Core) -> Result<(State<Location>, History)> {
        let Some(base) = self.base else { return Ok((self.state, self.history)) };
        let mut live = Commit { runs: Vec::new(), cutoffs: Vec::new() };
        base.each(core, |page| {
            live.runs.extend(page.runs.iter().cloned());
            live.cutoffs.extend_from_slice(&page.cutoffs);
            Ok(())
        })?;
        let positions = self.state.positions().map(|(writer, position)| (writer.to_string(), position)).collect();
        Ok((State::restore(live, positions, self.state.rewrites()), self.history))
    }
}

fn put_leaf(leaf: &Leaf, geometry: &Geometry, out: &mut Vec<u8>) {
    let Summary { upper, runs, span, priorities } = &leaf.summary;
    out.extend_from_slice(&leaf.offset.to_le_bytes());
    out.extend_from_slice(&leaf.length.to_le_bytes());
    out.extend_from_slice(&runs.to_le_bytes());
    out.push(*upper as u8);
    out.extend_from_slice(&priorities.0.to_le_bytes());
    out.extend_from_slice(&priorities.1.to_le_bytes());
    for d in 0..geometry.dimensions() {
        out.extend_from_slice(&span.low[d].to_le_bytes());
        out.extend_from_slice(&span.high[d].to_le_bytes());
    }
}

fn leaves(bytes: &[u8], geometry: &Geometry) -> std::result::Result<Vec<Leaf>, Short> {
    let mut reader = Reader::new(bytes);
    let mut leaves = Vec::new();
    while !reader.is_empty() {
        let (offset, length, runs) = (reader.u64()?, reader.u32()?, reader.u32()?);
        let upper = reader.u8()? != 0;
        let priorities = (reader.u64()?, reader.u64()?);
        let mut span = geometry.everything();
        for d in 0..geometry.dimensions() {
            (span.low[d], span.high[d]) = (reader.u32()?, reader.u32()?);
        }
        leaves.push(Leaf { offset, length, summary: Summary { upper, runs, span, priorities } });
    }
    Ok(leaves)
}

/// Pages on their way to a segment.
struct Pages<'a> {
    geometry: &'a Geometry,
    segment: Box<dyn Segment>,
    dealer: Dealer<Location>,
    leaves: Vec<u8>,
}

impl Pages<'_> {
    fn push(&mut self, entry: Entry) -> Result<()> {
        match self.dealer.push(entry) {
            Some(page) => self.append(page),
            None => Ok(()),
        }
    }

    fn append(&mut self, (summary, page): (Summary, Page)) -> Result<()> {
        let bytes = encode_page(page, self.geometry);
        let offset = self.segment.append(&[&bytes]).map_err(store_error)?;
        let leaf = Leaf { offset, length: bytes.len() as u32, summary };
        put_leaf(&leaf, self.geometry, &mut self.leaves);
        Ok(())
    }
}

/// The runs of a view as the body of a checkpoint, and the segment of its pages.
fn body(core: &Core, view: &View, number: u64) -> Result<(Vec<u8>, Option<String>)> {
    let runs = view.runs.about();
    if view.runs.base.is_none() && runs <= INLINE && core.holds(runs) {
        let directory = view.runs.recent();
        let live = Commit { runs: directory.all().cloned().collect(), cutoffs: directory.cutoffs().collect() };
        return Ok((CommitEntry::of_live(live).encode(&core.geometry), None));
    }
    let segment = new_segment(core, PAGES_SEGMENT, number)?;
    let name = segment.name().to_string();
    let dealer = Dealer::new(core.geometry, page_entries(runs));
    let mut pages = Pages { geometry: &core.geometry, segment, dealer, leaves: Vec::new() };
    view.runs.in_order(core, |entry| pages.push(entry))?;
    let dealer = std::mem::replace(&mut pages.dealer, Dealer::new(core.geometry, 1));
    dealer.finish().into_iter().try_for_each(|page| pages.append(page))?;
    pages.segment.sync().map_err(store_error)?;
    Ok((pages.leaves, Some(name)))
}

impl Table {
    /// Writes a checkpoint of all that is durable by now, unless the newest one
    /// is as good. `false` if it cannot be done now: some writer is just making an entry
    /// durable, or others have overtaken this one.
    pub fn checkpoint(&self) -> Result<bool> {
        self.write_checkpoint(false)
    }

    /// The same, as good as the newest one or not. Whoever has made pages for a checkpoint
    /// that is not there finds its number taken.
    pub(crate) fn checkpoint_anew(&self) -> Result<bool> {
        self.write_checkpoint(true)
    }

    fn write_checkpoint(&self, anew: bool) -> Result<bool> {
        let core = &self.core;
        // Listed before the table is looked at: a checkpoint that took long to make
        // finds its number taken, instead of following a newer one.
        core.check_still_there()?;
        let names = core.store.list(CHECKPOINTS).map_err(store_error)?;
        let view = core.view()?;
        if !anew && !names.is_empty() && core.since_checkpoint().0 == 0 {
            return Ok(true);
        }
        for (writer, position) in &view.positions {
            if settle(core, writer, *position, Duration::ZERO, &Cancel::default()).is_err() {
                return Ok(false);
            }
        }
        let number = names.last().and_then(|name| name[CHECKPOINTS.len()..].parse::<u64>().ok()).unwrap_or(0) + 1;
        let (body, pages) = match body(core, &view, number) {
            // Others have written newer ones meanwhile, and cleaned up.
            Err(Error::SnapshotExpired { .. }) => return Ok(false),
            body => body?,
        };
        let head = Head {
            positions: view.positions.clone(),
            rewrites: view.rewrites,
            history: view.history.clone(),
            pages: pages.clone(),
        };
        let head = serde_json::to_vec(&head).expect("a checkpoint's head is plain data");
        let bytes = [&(head.len() as u32).to_le_bytes()[..], &head, &body].concat();
        // Whoever loses the race has lost nothing: the other's is as new.
        let name = format!("{CHECKPOINTS}{number:020}");
        let won = core.store.put_if_absent(&name, &bytes).map_err(store_error)?;
        // Its number was taken before, and that checkpoint cleaned away with the pages of this one.
        if won && core.store.list(CHECKPOINTS).map_err(store_error)?.last() != Some(&name) {
            core.store.delete(&name).map_err(store_error)?;
            return Ok(false);
        }
        if let Some(segment) = pages.filter(|_| !won) {
            core.store.delete_segment(&segment).map_err(store_error)?;
        }
        // The one before stays for readers that just listed it.
        for old in names.iter().rev().skip(1) {
            core.store.delete(old).map_err(store_error)?;
        }
        core.checkpointed(&view);
        Ok(true)
    }

    /// Is so much new since the last checkpoint that one is worth writing? `unseen` runs came
    /// with an entry that was just written, which nobody has read yet.
    pub(crate) fn checkpoint_is_due(&self, unseen: u64) -> bool {
        let (entries, new_runs, runs) = self.core.since_checkpoint();
        let (new_runs, runs) = (new_runs + unseen, runs + unseen);
        (entries >= ENTRIES || new_runs >= RUNS)
            && (new_runs * 4 >= runs || entries >= 16 * ENTRIES || new_runs >= MANY_RUNS)
    }
}
