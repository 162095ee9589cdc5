//! Proven log positions: lower bounds of log lengths that other files of a table record.
//!
//! A log that is missing, or has lost its end, looks like a log that never was longer. These files show the loss,
//! because each was written after the log was durable up to a position:
//!
//! - a checkpoint, for every log that it covers;
//! - a rewrite, for the positions that it needs;
//! - an acknowledgement, or an earlier read of the log by this handle;
//! - a segment `<writer>-<13 digits>`, because a writer creates segments only after a durable log and acknowledgement.
//!
//! A log that ends before such a position is damaged for every reader. Readers must not skip the gap, and no writer may
//! start again where acknowledged commits were. The loss of commits that no such file records cannot be detected.

use std::collections::{BTreeMap, BTreeSet};

use kubist_store::LogOwner;

use crate::error::store_error;
use crate::files::TableFiles;
use crate::view::View;
use kubist_format::history::History;
use kubist_format::names::PAGES_SEGMENT;
use kubist_format::names::REWRITE_SEGMENT;
use kubist_types::error::{Error, Result};

#[derive(Clone, Debug)]
struct Word {
    position: u64,
    commits: u64,
    rows: u64,
    /// The file that proves the position.
    who: String,
}

#[derive(Clone, Debug, Default)]
pub struct ProvenPositions {
    words: BTreeMap<String, Word>,
}

impl ProvenPositions {
    pub fn say(&mut self, writer: &str, position: u64, history: &History, who: &str) {
        if position > self.words.get(writer).map_or(0, |word| word.position) {
            let (commits, rows) = history.writers.get(writer).map_or((0, 0), |own| (own.commits, own.rows));
            self.words.insert(writer.into(), Word { position, commits, rows, who: who.into() });
        }
    }

    pub fn join(&mut self, other: ProvenPositions) {
        for (writer, word) in other.words {
            if word.position > self.position(&writer) {
                self.words.insert(writer, word);
            }
        }
    }

    pub fn position(&self, writer: &str) -> u64 {
        self.words.get(writer).map_or(0, |word| word.position)
    }

    pub fn writers(&self) -> impl Iterator<Item = &str> {
        self.words.keys().map(String::as_str)
    }

    /// The error of a log that ends at `end` (`None`: missing) before its proven position.
    pub fn shortfall(&self, files: &TableFiles, writer: &str, end: Option<u64>) -> Option<Error> {
        let word = self.words.get(writer).filter(|word| end.is_none_or(|end| end < word.position))?;
        let state = if end.is_some() { "it ends there" } else { "it is missing" };
        let Word { position, commits, rows, who } = word;
        let what = format!(
            "{state}, but {who} knows it up to position {position}, with {commits} commits of {rows} rows; what came \
             after is not known (salvage saves what is left)"
        );
        Some(damaged(files, writer, end.unwrap_or(0), what))
    }
}

/// Checks that a log that ends at `end` reaches the position that a rewrite needs.
///
/// # Errors
///
/// `Damaged`.
pub fn check_need(
    files: &TableFiles,
    writer: &str,
    end: u64,
    rewrite: u64,
    needed: u64,
    history: &History,
) -> Result<()> {
    if end >= needed {
        return Ok(());
    }
    let (commits, rows) = history.writers.get(writer).map_or((0, 0), |own| (own.commits, own.rows));
    let what = format!(
        "it ends there, with {commits} commits of {rows} rows, but rewrite {rewrite} needs it up to position {needed} \
         (salvage saves what is left)"
    );
    Err(damaged(files, writer, end, what))
}

/// Checks that the owner found everything that readers have read, because otherwise readers would miss its next
/// commits.
///
/// # Errors
///
/// `Damaged`.
pub fn check_owned(files: &TableFiles, view: &View, log: &dyn LogOwner) -> Result<()> {
    let known = view.positions.iter().find(|(writer, _)| writer == log.writer()).map_or(0, |(_, position)| *position);
    if known <= log.position() {
        return Ok(());
    }
    let what = format!("it ends there, but readers know it up to position {known} (salvage saves what is left)");
    Err(damaged(files, log.writer(), log.position(), what))
}

fn damaged(files: &TableFiles, writer: &str, offset: u64, what: String) -> Error {
    Error::Damaged { file: format!("{}/log of {writer}", files.store.location()), offset, what }
}

/// The writers of existing segments, with one segment each.
///
/// # Errors
///
/// A storage error.
pub fn at_work(files: &TableFiles) -> Result<BTreeMap<String, String>> {
    Ok(owners(&files.store.segments().map_err(store_error)?))
}

pub fn owners(segments: &[String]) -> BTreeMap<String, String> {
    let owner = |segment: &String| {
        let (owner, number) = segment.rsplit_once('-')?;
        let is_number = number.len() == 13 && number.bytes().all(|byte| byte.is_ascii_digit());
        // Segments of writers with such names are ignored here.
        let of_no_writer = [REWRITE_SEGMENT, PAGES_SEGMENT].iter().any(|prefix| segment.starts_with(prefix));
        (is_number && !of_no_writer).then_some(owner.len())
    };
    let (mut found, mut last) = (BTreeMap::new(), "");
    for segment in segments {
        let Some(owner) = owner(segment).map(|length| &segment[..length]) else { continue };
        if owner != last || found.is_empty() {
            found.insert(owner.to_string(), segment.clone());
            last = owner;
        }
    }
    found
}

/// Errors of writers without a log that had segments before the logs were read. `logs` exist; nothing in
/// `unacknowledged` is acknowledged.
pub fn without_log(
    files: &TableFiles,
    at_work: &BTreeMap<String, String>,
    logs: &[String],
    unacknowledged: &BTreeSet<String>,
) -> Vec<Error> {
    let wrong = |(writer, segment): (&String, &String)| {
        let what = if !logs.contains(writer) {
            format!(
                "it is missing, but segment {segment} shows that the writer was at work; its records are not counted"
            )
        } else if unacknowledged.contains(writer) {
            format!(
                "its acknowledgement is missing, and segment {segment} shows that there was one; what it held \
                     beyond its readable end is not known"
            )
        } else {
            return None;
        };
        Some(damaged(files, writer, 0, what))
    };
    at_work.iter().filter_map(wrong).collect()
}
