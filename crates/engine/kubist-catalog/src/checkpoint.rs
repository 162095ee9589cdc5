//! Checkpoints: the state of the table in one object, so that opening reads it
//! and the ends of the logs instead of everything that ever happened.
//!
//! A checkpoint holds what a prefix of every log and of the rewrite log amounts
//! to: the live runs, the cutoffs and the writers' history. It is written only
//! when all of those entries are durable. Nothing depends on it: without any
//! checkpoint the logs say the same, as long as no rewrite was cleaned away.
//!
//! Many runs lie in pages in segments of their own (`directory`), and the object lists these:
//! those that were made for it, and those of older levels that the checkpoint before it lists.

use kubist_store::StoreExt;
use std::sync::Arc;

use kubist_format::checkpoint::{Body, Head, decode_body, split};
use kubist_format::entry::{Page, decode_live};
use kubist_format::history::History;
use kubist_format::location::Location;
use kubist_format::names::CHECKPOINTS;
use kubist_index::state::{Commit, State};
use kubist_types::{Cancel, Result};

use crate::directory::Base;
use crate::error::{bad_entry, store_error};
use crate::files::TableFiles;
use crate::vouched::Vouched;

/// What a checkpoint says.
pub struct Held {
    pub name: String,
    /// Without the runs and cutoffs of the base, if there is one.
    pub state: State<Location>,
    pub base: Option<Arc<Base>>,
    pub history: History,
}

/// What the newest checkpoint says, if there is one.
///
/// # Errors
///
/// `Damaged`, `Newer`, `Cancelled` or a storage error.
pub fn load(files: &TableFiles, cancel: &Cancel) -> Result<Option<Held>> {
    load_listed(files, None, cancel)
}

/// The same, of those that were just listed.
///
/// # Errors
///
/// As of [`load`].
pub fn load_listed(files: &TableFiles, mut listed: Option<Vec<String>>, cancel: &Cancel) -> Result<Option<Held>> {
    // One that disappears between the two calls was replaced by a newer one, which an old
    // listing does not have yet.
    for attempt in 0.. {
        cancel.check()?;
        let names = listed.take().map_or_else(|| files.store.list(CHECKPOINTS), Ok);
        let Some(name) = names.map_err(store_error)?.pop() else { return Ok(None) };
        if let Some(held) = read(files, &name)? {
            return Ok(Some(held));
        }
        if attempt == 0 {
            files.store.learn();
        }
        files.store.look_again(attempt).map_err(store_error)?;
    }
    Ok(None)
}

/// What a checkpoint says, unless it is gone.
///
/// # Errors
///
/// `Damaged`, `Newer` or a storage error.
pub fn read(files: &TableFiles, name: &str) -> Result<Option<Held>> {
    let Some(bytes) = files.store.get_immutable(name).map_err(store_error)? else { return Ok(None) };
    let bad = |error| bad_entry(files.store.location(), name, 0, error);
    let (head, body) = split(&bytes).map_err(bad)?;
    let Head { positions, rewrites, history } = head;
    let (state, base) = match files.decoded(|forest| decode_body(body, forest)).map_err(bad)? {
        Body::Runs(body) => {
            let live = files.decoded(|forest| decode_live(body, forest)).map_err(bad)?;
            (State::restore(live, positions, rewrites), None)
        }
        Body::Pages(pages, removed) => {
            (State::continuing(positions, rewrites), Some(Arc::new(Base::new(pages, removed))))
        }
    };
    Ok(Some(Held { name: name.into(), state, base, history }))
}

impl Held {
    /// What it says of the logs.
    pub fn vouched(&self) -> Vouched {
        let (mut vouched, who) = (Vouched::default(), format!("checkpoint {}", &self.name[CHECKPOINTS.len()..]));
        self.state.positions().for_each(|(writer, position)| vouched.say(writer, position, &self.history, &who));
        vouched
    }

    /// The state with all of its runs in memory.
    ///
    /// # Errors
    ///
    /// `Damaged`, `SnapshotExpired` if the pages were cleaned away, `Cancelled` or a storage error.
    pub fn whole(&self, files: &TableFiles, cancel: &Cancel) -> Result<State<Location>> {
        let mut live = Commit::default();
        if let Some(base) = &self.base {
            base.each(files, cancel, |page| {
                take_live(base, page, &mut live);
                Ok(())
            })?;
        }
        Ok(self.with(live))
    }

    /// The state with those of its runs in memory that are on pages which can be read, and how many runs are
    /// on the others.
    ///
    /// # Errors
    ///
    /// `Cancelled` or a storage error.
    pub fn sound(&self, files: &TableFiles, cancel: &Cancel) -> Result<(State<Location>, u64)> {
        let (mut live, mut lost) = (Commit::default(), 0);
        if let Some(base) = &self.base {
            lost = base.each_sound(files, cancel, |page| take_live(base, page, &mut live))?;
        }
        Ok((self.with(live), lost))
    }

    fn with(&self, live: Commit<Location>) -> State<Location> {
        if self.base.is_none() {
            return self.state.clone();
        }
        let positions = self.state.positions().map(|(writer, position)| (writer.to_string(), position)).collect();
        State::restore(live, positions, self.state.rewrites())
    }
}

fn take_live(base: &Base, page: &Page, live: &mut Commit<Location>) {
    live.runs.extend(page.runs.iter().filter(|run| base.lives(run)).cloned());
    live.cutoffs.extend_from_slice(&page.cutoffs);
}
