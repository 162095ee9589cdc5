//! What the rest of a table knows of its logs.
//!
//! A log that was lost, or has lost its end, looks like one that never had more: its own
//! bytes cannot say so. Others can, each for a position that was durable before they
//! spoke of it:
//!
//! - a checkpoint says how far it holds each log;
//! - a rewrite names the positions that it needs;
//! - an acknowledgement says how much of its log is durable, and so does what a handle has
//!   read of it before;
//! - a segment `<writer>-<13 digits>` says that the writer had taken its log, and had made
//!   it and its acknowledgement durable, for only then a writer makes a segment.
//!
//! A log that does not reach as far is damaged for every reader: none may read around the
//! gap, and no writer may begin anew where acknowledged commits were. It is no promise the
//! other way: commits that nothing of this speaks of can be lost without a trace.

use std::collections::{BTreeMap, BTreeSet};

use kubist_store::LogOwner;

use crate::error::store_error;
use crate::files::TableFiles;
use crate::view::View;
use kubist_format::history::History;
use kubist_format::names::PAGES_SEGMENT;
use kubist_format::names::REWRITE_SEGMENT;
use kubist_types::error::{Error, Result};

/// How far a log is known to have gone.
#[derive(Clone, Debug)]
struct Word {
    position: u64,
    /// Of the commits before that position.
    commits: u64,
    rows: u64,
    /// Who says so, as the subject of a sentence.
    who: String,
}

/// How far each log has to go, and how that is known.
#[derive(Clone, Debug, Default)]
pub struct Vouched {
    words: BTreeMap<String, Word>,
}

impl Vouched {
    /// Takes a position that is known of a writer's log, if it is further than the known one.
    pub fn say(&mut self, writer: &str, position: u64, history: &History, who: &str) {
        if position > self.words.get(writer).map_or(0, |word| word.position) {
            let (commits, rows) = history.writers.get(writer).map_or((0, 0), |own| (own.commits, own.rows));
            self.words.insert(writer.into(), Word { position, commits, rows, who: who.into() });
        }
    }

    /// Joins what another one knows.
    pub fn join(&mut self, other: Vouched) {
        for (writer, word) in other.words {
            if word.position > self.position(&writer) {
                self.words.insert(writer, word);
            }
        }
    }

    /// How far the log has to go.
    pub fn position(&self, writer: &str) -> u64 {
        self.words.get(writer).map_or(0, |word| word.position)
    }

    /// Writers of whom something is known.
    pub fn writers(&self) -> impl Iterator<Item = &str> {
        self.words.keys().map(String::as_str)
    }

    /// Why a log that ends at `end` (`None`: there is none) is damaged, unless it is long enough.
    pub fn short(&self, files: &TableFiles, writer: &str, end: Option<u64>) -> Option<Error> {
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

/// Damage if a log that ends at `end` is shorter than a rewrite needs.
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

/// Damage if readers know more of a log than its owner found: they would not see what comes
/// next.
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

/// The writers whose segments are there, each with one of them.
///
/// # Errors
///
/// A storage error.
pub fn at_work(files: &TableFiles) -> Result<BTreeMap<String, String>> {
    Ok(owners(&files.store.segments().map_err(store_error)?))
}

/// The writers of segments, each with one of them. Those of a writer mostly follow one another.
pub fn owners(segments: &[String]) -> BTreeMap<String, String> {
    let owner = |segment: &String| {
        let (owner, number) = segment.rsplit_once('-')?;
        let is_number = number.len() == 13 && number.bytes().all(|byte| byte.is_ascii_digit());
        // A writer may be called like one of these; then that is not known.
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

/// What is wrong with the logs of writers whose segments were there before the logs were
/// read: `logs` are there, and of `unacknowledged` ones nothing is acknowledged.
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
