//! `Snapshot`: an immutable state of a table that queries read.

use std::collections::BTreeSet;
use std::sync::Arc;

use kubist_types::{Cancel, Error, Result, Thinned};

use crate::core::Core;
use crate::directory::Directory;
use crate::token::SnapshotToken;
use crate::view::View;

#[derive(Clone)]
pub struct Snapshot {
    pub core: Arc<Core>,
    pub view: Arc<View>,
    pub step: Option<i64>,
    /// Whether alterations may be missing, as in a repair; values of unknown columns are then skipped.
    is_partial: bool,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Snapshot({:?})", self.core.store.location())
    }
}

impl Snapshot {
    /// # Errors
    ///
    /// The errors of [`Core::view`].
    pub fn now(core: &Arc<Core>, cancel: &Cancel) -> Result<Snapshot> {
        Ok(Snapshot::new(core.clone(), core.view(cancel)?))
    }

    pub fn new(core: Arc<Core>, view: Arc<View>) -> Snapshot {
        Snapshot { core, view, step: None, is_partial: false }
    }

    pub fn partial(self) -> Snapshot {
        Snapshot { is_partial: true, ..self }
    }

    pub fn has_columns(&self, columns: usize) -> bool {
        let schema = &self.view.schema;
        columns >= schema.base() && (self.is_partial || columns <= schema.stored.fields().len())
    }

    /// Returns the snapshot up to a complete step. Later steps, and steps that a declared writer has not finished, are
    /// invisible.
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

    /// The steps that every declared writer has committed or abandoned, in ascending order.
    pub fn complete_steps(&self) -> Vec<i64> {
        let history = &self.view.history;
        history.steps().into_iter().filter(|step| history.is_complete(*step)).collect()
    }

    /// The number of rows that any writer committed with a token.
    pub fn committed(&self, token: &str) -> Option<u64> {
        self.view.history.rows_under(token)
    }

    /// The stored totals of a range of steps, if some were subsampled.
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

    /// Returns all live runs in memory.
    ///
    /// # Errors
    ///
    /// `Damaged`, `SnapshotExpired` if pages of the directory were cleaned, or a storage error.
    pub fn directory(&self) -> Result<Arc<Directory>> {
        self.view.runs.directory(&self.core, &Cancel::default())
    }

    pub fn token(&self) -> SnapshotToken {
        SnapshotToken { step: self.step, ..SnapshotToken::of(&self.core, &self.view) }
    }

    /// Returns the snapshot of a token, perhaps of another process. A token that this table cannot have is refused
    /// before anything is read. The last view is used without a request, unless its runs are in pages, which may have
    /// been cleaned.
    ///
    /// # Errors
    ///
    /// `SnapshotExpired` if files of the snapshot were cleaned, now or when rows are read; `Replaced` if the table is
    /// another one or has another history; `Cancelled`.
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
