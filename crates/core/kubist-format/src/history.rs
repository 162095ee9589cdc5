//! The history of a table: commits, rows, tokens and steps.
//!
//! A step is complete when every declared writer has committed or abandoned it, or, without a declaration, when
//! it is committed. Other writers can be declared for later steps. Retracting a step removes its commits and
//! their tokens, so that a restarted solver can commit them again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use kubist_types::Thinned;
use serde::{Deserialize, Serialize};

use crate::chain::Chain;
use crate::entry::{CommitEntry, StepMark};

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Progress {
    pub commits: u64,
    /// All rows ever committed, a count that replaces a missing identity.
    pub rows: u64,
    pub live_rows: u64,
    /// The chain after the last entry, and its position.
    pub chain: Chain,
    pub last: u64,
    tokens: BTreeMap<String, Marked>,
    /// Log positions after each commit, by step. After a retraction, a repeated step is listed twice until the
    /// retraction is read.
    #[serde(with = "as_pairs")]
    steps: BTreeMap<(i64, u64), Marked>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Marked {
    position: u64,
    sequence: u64,
    rows: u64,
    step: Option<StepMark>,
    #[serde(default, with = "shared", skip_serializing_if = "Option::is_none")]
    thinned: Option<Arc<Thinned>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Declared {
    Names(BTreeSet<String>),
    Count(u64),
}

impl Declared {
    pub fn size(&self) -> u64 {
        match self {
            Declared::Names(names) => names.len() as u64,
            Declared::Count(count) => *count,
        }
    }
}

impl fmt::Display for Declared {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Declared::Names(names) => out.write_str(&names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")),
            Declared::Count(1) => out.write_str("1 writer"),
            Declared::Count(count) => write!(out, "{count} writers"),
        }
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct History {
    pub writers: BTreeMap<String, Progress>,
    pub declared: Option<Declared>,
    /// The chain after the last rewrite; 0 before the first.
    pub rewritten: Chain,
    /// Minimum number of alterations when a commit was written.
    pub needs_alterations: u64,
    /// The chain after the last alteration, or 0 before the first; checkpoints contain no alterations.
    #[serde(skip)]
    pub altered: Chain,
    /// Declarations in the order of their alterations; the last one counts, and checkpoints contain none.
    #[serde(skip)]
    pub declared_anew: Vec<(i64, Declared)>,
}

impl History {
    pub fn commit(&mut self, writer: &str, (begin, position): (u64, u64), entry: &CommitEntry, bytes: &[u8]) {
        self.needs_alterations = self.needs_alterations.max(entry.link.map_or(0, |link| link.alterations));
        let progress = match self.writers.get_mut(writer) {
            Some(progress) => progress,
            None => self.writers.entry(writer.to_string()).or_default(),
        };
        (progress.chain, progress.last) = (Chain::after_entry(bytes), begin);
        progress.commits = entry.sequence;
        progress.rows += entry.rows;
        progress.live_rows += entry.rows;
        let marked = Marked { position, sequence: entry.sequence, rows: entry.rows, step: entry.step, thinned: None };
        let thinned = |step: i64| {
            let of_step = entry.thinned.iter().find(|(thinned, _)| *thinned == step);
            of_step.map(|(_, thinned)| Arc::new(thinned.clone()))
        };
        if let Some(token) = &entry.token {
            progress.tokens.insert(token.clone(), marked.clone());
        }
        if let Some(mark) = entry.step {
            let marked = Marked { thinned: thinned(mark.step), ..marked.clone() };
            progress.steps.insert((mark.step, position), marked);
        }
        for (step, rows) in &entry.steps {
            let mark = StepMark { step: *step, abandoned: false };
            let of_step = Marked { rows: *rows, step: Some(mark), thinned: thinned(*step), ..marked.clone() };
            progress.steps.insert((*step, position), of_step);
        }
    }

    /// Removes commits of steps after `after` before the given positions.
    pub fn retract(&mut self, after: i64, positions: &[(String, u64)]) {
        for (writer, position) in positions {
            let Some(progress) = self.writers.get_mut(writer) else { continue };
            let gone =
                |marked: &Marked| marked.position <= *position && marked.step.is_some_and(|mark| mark.step > after);
            let rows: u64 = progress.steps.values().filter(|marked| gone(marked)).map(|marked| marked.rows).sum();
            progress.live_rows = progress.live_rows.saturating_sub(rows);
            progress.tokens.retain(|_, marked| !gone(marked));
            progress.steps.retain(|_, marked| !gone(marked));
        }
    }

    pub fn token(&self, writer: &str, token: &str) -> Option<(u64, u64)> {
        let marked = self.writers.get(writer)?.tokens.get(token)?;
        Some((marked.sequence, marked.rows))
    }

    pub fn rows_under(&self, token: &str) -> Option<u64> {
        self.writers.values().find_map(|progress| progress.tokens.get(token)).map(|marked| marked.rows)
    }

    pub fn last_step(&self, writer: &str) -> Option<i64> {
        self.writers.get(writer)?.steps.last_key_value().map(|((step, _), _)| *step)
    }

    pub fn steps(&self) -> BTreeSet<i64> {
        self.writers.values().flat_map(|progress| progress.steps.keys().map(|(step, _)| *step)).collect()
    }

    /// The writer's committed or abandoned steps that were not retracted, with the log position after their commit.
    pub fn marks(&self, writer: &str) -> impl Iterator<Item = (i64, u64)> {
        self.writers.get(writer).into_iter().flat_map(|progress| progress.steps.keys().copied())
    }

    pub fn declared_for(&self, step: i64) -> Option<&Declared> {
        let anew = self.declared_anew.iter().rev().find(|(after, _)| *after < step);
        anew.map(|(_, declared)| declared).or(self.declared.as_ref())
    }

    /// All declarations with the step after which they count; `None` means from the first step.
    pub fn declarations(&self) -> Vec<(Option<i64>, &Declared)> {
        let mut in_force: Vec<(Option<i64>, &Declared)> = Vec::new();
        for (after, declared) in self.declared_anew.iter().rev() {
            if in_force.last().is_none_or(|(earliest, _)| *earliest > Some(*after)) {
                in_force.push((Some(*after), declared));
            }
        }
        in_force.extend(self.declared.as_ref().map(|declared| (None, declared)));
        in_force.reverse();
        in_force.dedup_by(|next, before| next.1 == before.1);
        in_force
    }

    pub fn is_declared_after(&self, after: i64, declared: &Declared) -> bool {
        let later = self.declarations().into_iter().filter(|(from, _)| *from > Some(after));
        self.declared_for(after.saturating_add(1)) == Some(declared)
            && later.into_iter().all(|(_, one)| one == declared)
    }

    pub fn is_complete(&self, step: i64) -> bool {
        self.waits_for(step).is_none()
    }

    /// Returns text for people with the writers that have not finished the step; `None` if it is complete.
    pub fn waits_for(&self, step: i64) -> Option<String> {
        let has_step = |progress: &Progress| progress.steps.range((step, 0)..=(step, u64::MAX)).next().is_some();
        let has = |writer: &str| self.writers.get(writer).is_some_and(has_step);
        let done = self.writers.values().filter(|progress| has_step(progress)).count() as u64;
        match self.declared_for(step) {
            None if done > 0 => None,
            None => Some("any writer".into()),
            Some(Declared::Names(names)) => {
                let missing: Vec<&str> = names.iter().map(String::as_str).filter(|name| !has(name)).collect();
                let (all, noun) = (names.len(), if missing.len() == 1 { "writer" } else { "writers" });
                let finished = all - missing.len();
                (!missing.is_empty())
                    .then(|| format!("{noun} {} ({finished} of {all} have finished)", missing.join(", ")))
            }
            Some(Declared::Count(count)) => (done < *count).then(|| {
                let noun = if count - done == 1 { "writer" } else { "writers" };
                format!("{} more {noun} ({done} of {count} have finished)", count - done)
            }),
        }
    }

    pub fn incomplete(&self) -> BTreeSet<i64> {
        self.steps().into_iter().filter(|step| !self.is_complete(*step)).collect()
    }

    /// Joins the totals of the steps that `takes` selects and, with `stepless`, of records without a step. `None` if no
    /// such step was subsampled; without sums if some were not.
    pub fn whole(&self, takes: impl Fn(i64) -> bool, stepless: bool) -> Option<Thinned> {
        let all = || self.writers.values().flat_map(|progress| &progress.steps);
        let taken = || all().filter(|((step, _), _)| takes(*step)).map(|(_, marked)| marked);
        let joined = taken().filter_map(|marked| marked.thinned.as_deref());
        let joined = joined.fold(None, |whole: Option<Thinned>, one| {
            Some(whole.map_or_else(|| one.clone(), |whole| whole.join(one)))
        })?;
        let of_steps: u64 = all().map(|(_, marked)| marked.rows).sum();
        let without_step = if stepless { self.live_rows().saturating_sub(of_steps) } else { 0 };
        let others = taken().filter(|marked| marked.thinned.is_none()).map(|marked| marked.rows);
        let rest = others.fold(without_step, u64::saturating_add);
        let sums = if rest == 0 { joined.sums } else { BTreeMap::new() };
        Some(Thinned { rows: joined.rows.saturating_add(rest), sums, ..joined })
    }

    pub fn thinned(&self) -> BTreeMap<i64, Thinned> {
        let (mut steps, mut others) = (BTreeMap::<i64, Thinned>::new(), BTreeMap::<i64, u64>::new());
        for ((step, _), marked) in self.writers.values().flat_map(|progress| &progress.steps) {
            match &marked.thinned {
                Some(thinned) => {
                    let joined = steps.remove(step).map(|whole| whole.join(thinned));
                    steps.insert(*step, joined.unwrap_or_else(|| Thinned::clone(thinned)));
                }
                None => *others.entry(*step).or_default() += marked.rows,
            }
        }
        for (step, thinned) in &mut steps {
            if let Some(rows) = others.get(step).filter(|rows| **rows > 0) {
                thinned.rows = thinned.rows.saturating_add(*rows);
                thinned.sums.clear();
            }
        }
        steps
    }

    pub fn rows_of(&self, step: i64) -> u64 {
        let of_writer = |progress: &Progress| {
            progress.steps.range((step, 0)..=(step, u64::MAX)).map(|(_, marked)| marked.rows).sum::<u64>()
        };
        self.writers.values().map(of_writer).sum()
    }

    /// Number of rows of complete steps up to one, and of rows without a step.
    pub fn rows_until(&self, step: i64) -> u64 {
        let incomplete = self.incomplete();
        let all = || self.writers.values().flat_map(|progress| &progress.steps);
        let unseen = all().filter(|((of, _), _)| *of > step || incomplete.contains(of));
        self.live_rows().saturating_sub(unseen.map(|(_, marked)| marked.rows).sum())
    }

    pub fn live_rows(&self) -> u64 {
        self.writers.values().map(|progress| progress.live_rows).sum()
    }
}

mod shared {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::sync::Arc;

    pub fn serialize<T: Serialize, S: Serializer>(shared: &Option<Arc<T>>, to: S) -> Result<S::Ok, S::Error> {
        shared.as_deref().serialize(to)
    }

    pub fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Option<Arc<T>>, D::Error> {
        Ok(Option::deserialize(from)?.map(Arc::new))
    }
}

mod as_pairs {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::collections::BTreeMap;

    pub fn serialize<K: Serialize, V: Serialize, S: Serializer>(
        map: &BTreeMap<K, V>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(map)
    }

    pub fn deserialize<'de, K: Deserialize<'de> + Ord, V: Deserialize<'de>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<K, V>, D::Error> {
        Ok(Vec::<(K, V)>::deserialize(from)?.into_iter().collect())
    }
}
