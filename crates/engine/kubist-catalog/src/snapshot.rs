//! A snapshot: one state of the table, pinned.

use std::collections::BTreeSet;
use std::sync::Arc;

use kubist_types::{Cancel, Error, Result, Thinned};

use crate::core::Core;
use crate::directory::Directory;
use crate::token::SnapshotToken;
use crate::view::View;

/// Answers as of one moment, whatever is committed afterwards.
#[derive(Clone)]
pub struct Snapshot {
    pub core: Arc<Core>,
    pub view: Arc<View>,
    /// Only steps up to this one.
    pub step: Option<i64>,
    /// Alterations may be missing, and values of their columns are passed over: for repair.
    is_partial: bool,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Snapshot({:?})", self.core.store.location())
    }
}

impl Snapshot {
    /// Everything committed by now, pinned: as of [`Core::view`].
    ///
    /// # Errors
    ///
    /// As of [`Core::view`].
    pub fn now(core: &Arc<Core>, cancel: &Cancel) -> Result<Snapshot> {
        Ok(Snapshot::new(core.clone(), core.view(cancel)?))
    }

    pub fn new(core: Arc<Core>, view: Arc<View>) -> Snapshot {
        Snapshot { core, view, step: None, is_partial: false }
    }

    /// The same, also where runs have more columns than the alterations that are there add.
    pub fn partial(self) -> Snapshot {
        Snapshot { is_partial: true, ..self }
    }

    /// Whether a run may have this number of stored columns.
    pub fn has_columns(&self, columns: usize) -> bool {
        let schema = &self.view.schema;
        columns >= schema.base() && (self.is_partial || columns <= schema.stored.fields().len())
    }

    /// The same moment, up to a step: rows of later steps, and of steps that some
    /// declared writer has not finished, are not seen. The step itself must be
    /// complete.
    ///
    /// # Errors
    ///
    /// `Invalid` names the writers that the step waits for.
    pub fn at_step(&self, step: i64) -> Result<Snapshot> {
        if let Some(missing) = self.view.history.waits_for(step) {
            return Err(Error::invalid(format!("step {step} is not complete: waiting for {missing}")));
        }
        Ok(Snapshot { step: Some(step), ..self.clone() })
    }

    /// Steps that every declared writer has committed or abandoned, ascending.
    pub fn complete_steps(&self) -> Vec<i64> {
        let history = &self.view.history;
        history.steps().into_iter().filter(|step| history.is_complete(*step)).collect()
    }

    /// How many rows were committed under a token, by any writer; `None` if none was.
    pub fn committed(&self, token: &str) -> Option<u64> {
        self.view.history.rows_under(token)
    }

    /// What is known of all records of a range of steps, or of all there are, if some of these were
    /// thinned as they were written.
    pub fn whole(&self, steps: Option<(Option<i64>, Option<i64>)>) -> Option<Thinned> {
        self.view.schema.kept_below?;
        let history = &self.view.history;
        let unseen = match steps.is_some() || self.step.is_some() {
            true => history.incomplete(),
            false => BTreeSet::new(),
        };
        let (low, high) = steps.unwrap_or_default();
        let takes = |step: i64| {
            low.is_none_or(|low| step >= low)
                && [high, self.step].into_iter().flatten().all(|high| step <= high)
                && !unseen.contains(&step)
        };
        history.whole(takes, low.is_none())
    }

    /// All live runs, arranged: as many as there are.
    ///
    /// # Errors
    ///
    /// `Damaged`, `SnapshotExpired` if the list's pages were cleaned away, or a storage error.
    pub fn directory(&self) -> Result<Arc<Directory>> {
        self.view.runs.whole(&self.core, &Cancel::default())
    }

    /// Names this snapshot; [`Snapshot::at`] comes back to it.
    pub fn token(&self) -> SnapshotToken {
        SnapshotToken { step: self.step, ..SnapshotToken::of(&self.core, &self.view) }
    }

    /// The snapshot that a token names, also in another process. A token that no snapshot of
    /// this table can have is refused before anything of it is looked up.
    ///
    /// The moment of the last view is there without a look at the store, unless its runs
    /// lie in pages: these may have been cleaned away, and only a look tells.
    ///
    /// # Errors
    ///
    /// `SnapshotExpired` if the files of that moment were cleaned away, now or when rows
    /// are read; `Replaced` if it is another table, or another history of it; `Cancelled`.
    pub fn at(core: &Arc<Core>, token: &SnapshotToken, cancel: &Cancel) -> Result<Snapshot> {
        core.check_process()?;
        cancel.check()?;
        if core.header.id != token.table {
            let why = format!("it has the id {}, and the snapshot is of {}", core.header.id, token.table);
            return Err(Error::Replaced { location: core.store.location().into(), why });
        }
        let token_of = |view: &Arc<View>| Snapshot::new(core.clone(), view.clone()).token();
        let is_meant = |view: &Arc<View>| SnapshotToken { step: token.step, ..token_of(view) } == *token;
        let in_memory = core.last_view().filter(|view| view.runs.base.is_none() && is_meant(view));
        let now = || -> Result<Arc<View>> {
            let view = core.view(cancel)?;
            if token.is_before(&token_of(&view)) {
                return Ok(view);
            }
            core.see_all_of(token, cancel)?;
            core.view(cancel)
        };
        let view = match in_memory {
            Some(view) => view,
            None => match now()? {
                view if is_meant(&view) => view,
                view if !token.is_before(&token_of(&view)) => {
                    let why = "the table has not been in the state that the token names".into();
                    return Err(Error::Replaced { location: core.store.location().into(), why });
                }
                _ => core.view_at(token, cancel)?,
            },
        };
        Ok(Snapshot { step: token.step, ..Snapshot::new(core.clone(), view) })
    }
}
