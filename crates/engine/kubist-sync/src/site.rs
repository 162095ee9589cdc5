//! A table as a site: its commits and retracted commits, by the site and the writer that made them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubist_catalog::core::Core;
use kubist_catalog::error::{bad_entry, store_error};
use kubist_catalog::snapshot::Snapshot;
use kubist_format::entry::CommitEntry;
use kubist_format::names::{COPY, SYNC};
use kubist_types::{Cancel, Error, Result};
use serde::{Deserialize, Serialize};

/// Prefix of the token of a commit that was retracted before it arrived here; the steps follow.
const RETRACTED: &str = "kubist-sync-retracted:";

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Source {
    /// The id of the site's table.
    pub site: String,
    pub writer: String,
}

/// A step of a commit: the source, the commit's number from 1, and the step.
pub type StepOf = (Source, u64, i64);

/// The content that a copy began with: the object `sync/base`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Base {
    /// The id of the table from which all sites descend.
    pub root: String,
    /// By source, the number of commits in the copy.
    pub have: Vec<(Source, u64)>,
    /// The steps in these commits that have rows in the copy.
    pub steps: Vec<StepOf>,
    pub retracted: Vec<StepOf>,
}

impl Base {
    pub fn name() -> String {
        format!("{SYNC}base")
    }
}

pub struct Commit {
    pub begin: u64,
    pub end: u64,
    /// The random number of the original commit.
    pub salt: u64,
    pub steps: Vec<i64>,
    /// Steps that were retracted before the commit arrived here.
    retracted: Vec<i64>,
}

pub struct Site {
    pub core: Arc<Core>,
    pub snapshot: Snapshot,
    pub base: Base,
    /// By source, the name of its log and the entries.
    pub logs: BTreeMap<Source, (String, Vec<Commit>)>,
    is_copy: bool,
}

impl Site {
    /// # Errors
    ///
    /// The errors of [`Core::view`].
    pub fn read(core: &Arc<Core>, cancel: &Cancel) -> Result<Site> {
        let snapshot = Snapshot::now(core, cancel)?;
        let stored = core.store.get(&Base::name()).map_err(store_error)?;
        let location = core.store.location();
        let is_copy = stored.is_some();
        let base = match stored {
            Some(bytes) => serde_json::from_slice(&bytes).map_err(|error| Error::Damaged {
                file: format!("{location}/{}", Base::name()),
                offset: 0,
                what: error.to_string(),
            })?,
            None => Base { root: core.header.id.clone(), ..Base::default() },
        };
        let mut site = Site { core: core.clone(), snapshot, base, logs: BTreeMap::new(), is_copy };
        for (log, end) in site.snapshot.view.positions.clone() {
            cancel.check()?;
            let commits = site.commits(&log, end)?;
            if log == COPY && is_copy {
                match commits.len() {
                    0 | 1 => continue,
                    _ => {
                        return Err(Error::Refused(format!(
                            "{location}: the writer {COPY:?} of a copy has more commits than the copy itself; write under \
                             another name"
                        )));
                    }
                }
            }
            let source = source_of(&log).unwrap_or_else(|| Source { site: site.id().into(), writer: log.clone() });
            site.logs.insert(source, (log, commits));
        }
        Ok(site)
    }

    fn commits(&self, log: &str, end: u64) -> Result<Vec<Commit>> {
        let tail = self.core.store.read_log(log, 0).map_err(store_error)?;
        let (mut commits, mut forest): (Vec<Commit>, _) = (Vec::new(), self.core.forest());
        let ends = tail.entries.iter().skip(1).map(|entry| entry.position).chain([tail.next]);
        for (stored, next) in tail.entries.iter().zip(ends).take_while(|(_, next)| *next <= end) {
            let location = self.core.store.location();
            let entry = CommitEntry::decode(&stored.bytes, &mut forest)
                .map_err(|error| bad_entry(location, &format!("logs/{log}.log"), stored.position, error))?;
            commits.push(Commit {
                begin: stored.position,
                end: next,
                salt: entry.link.map_or(0, |link| link.salt),
                steps: steps(&entry),
                retracted: retracted_steps(entry.token.as_deref()),
            });
        }
        Ok(commits)
    }

    pub fn id(&self) -> &str {
        &self.core.header.id
    }

    pub fn location(&self) -> &str {
        self.core.store.location()
    }

    /// The number of a source's commits that the copy began with.
    pub fn began_with(&self, source: &Source) -> u64 {
        self.base.have.iter().find(|(one, _)| one == source).map_or(0, |(_, commits)| *commits)
    }

    /// By source, the number of commits that are here.
    pub fn have(&self) -> BTreeMap<Source, u64> {
        let mut have: BTreeMap<Source, u64> = self.base.have.iter().cloned().collect();
        for (source, (_, commits)) in &self.logs {
            *have.entry(source.clone()).or_default() += commits.len() as u64;
        }
        have
    }

    pub fn commit(&self, source: &Source, number: u64) -> Option<&Commit> {
        let index = number.checked_sub(self.began_with(source) + 1)?;
        self.logs.get(source)?.1.get(index as usize)
    }

    /// Steps that are not retracted, with their positions in a log.
    fn marks(&self, log: &str) -> BTreeSet<(i64, u64)> {
        self.snapshot.view.history.marks(log).collect()
    }

    /// The steps that the copy began with, with the position of its first commit.
    pub fn base_marks(&self) -> BTreeSet<(i64, u64)> {
        if self.is_copy { self.marks(COPY) } else { BTreeSet::new() }
    }

    /// The steps of commits that are here, with log and position, and the retracted steps.
    pub fn steps(&self) -> (Vec<(StepOf, &str, u64)>, BTreeSet<StepOf>) {
        let (mut live, mut retracted) = (Vec::new(), BTreeSet::new());
        for (source, (log, commits)) in &self.logs {
            let (marks, before) = (self.marks(log), self.began_with(source));
            for (number, commit) in (before + 1..).zip(commits) {
                for step in &commit.steps {
                    let of = (source.clone(), number, *step);
                    match marks.contains(&(*step, commit.end)) {
                        true => live.push((of, log.as_str(), commit.end)),
                        false => drop(retracted.insert(of)),
                    }
                }
                retracted.extend(commit.retracted.iter().map(|step| (source.clone(), number, *step)));
            }
        }
        let in_base: BTreeSet<i64> = self.base_marks().into_iter().map(|(step, _)| step).collect();
        retracted.extend(self.base.retracted.iter().cloned());
        retracted.extend(self.base.steps.iter().filter(|(_, _, step)| !in_base.contains(step)).cloned());
        (live, retracted)
    }

    pub fn as_base(&self) -> Base {
        let (live, retracted) = self.steps();
        let in_base = self.base.steps.iter().filter(|step| !retracted.contains(step)).cloned();
        // A copy has no mark of an incomplete step without rows.
        let history = &self.snapshot.view.history;
        let is_copied = |of: &StepOf| history.is_complete(of.2) || history.rows_of(of.2) > 0;
        Base {
            root: self.base.root.clone(),
            have: self.have().into_iter().collect(),
            steps: in_base.chain(live.into_iter().map(|(of, _, _)| of)).filter(is_copied).collect(),
            retracted: retracted.into_iter().collect(),
        }
    }

    /// The log of a source in this table.
    ///
    /// # Errors
    ///
    /// `Invalid` if the writer's name is too long for it.
    pub fn log_of(&self, source: &Source) -> Result<String> {
        if source.site == self.id() {
            return Ok(source.writer.clone());
        }
        let log = format!("{PREFIX}{}.{}", source.site, source.writer);
        match log.len() <= 128 {
            true => Ok(log),
            false => Err(Error::invalid(format!(
                "the writer {:?} cannot be copied to {}: its name may have up to {} characters",
                source.writer,
                self.location(),
                128 - PREFIX.len() - source.site.len() - 1
            ))),
        }
    }
}

const PREFIX: &str = "sync.";

fn source_of(log: &str) -> Option<Source> {
    let (site, writer) = log.strip_prefix(PREFIX)?.split_once('.')?;
    let is_id = site.len() == 16 && site.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| Source { site: site.into(), writer: writer.into() })
}

fn steps(entry: &CommitEntry) -> Vec<i64> {
    entry.step.map(|mark| mark.step).into_iter().chain(entry.steps.iter().map(|(step, _)| *step)).collect()
}

fn retracted_steps(token: Option<&str>) -> Vec<i64> {
    let steps = token.and_then(|token| token.strip_prefix(RETRACTED)).unwrap_or_default();
    steps.split(',').filter_map(|step| step.parse().ok()).collect()
}

/// The token of a commit that arrives without the rows of the retracted `steps`.
pub fn retracted_token(steps: &[i64]) -> String {
    RETRACTED.to_owned() + &steps.iter().map(i64::to_string).collect::<Vec<_>>().join(",")
}
