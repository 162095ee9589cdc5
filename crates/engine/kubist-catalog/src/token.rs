//! Snapshot tokens: names of snapshots that are valid in other processes.
//!
//! A token has the log positions that the snapshot joins, and a hash of the chains up to these positions, which
//! distinguishes this history from others, such as a restored backup. A token keeps no files: once files of its
//! snapshot are cleaned, opening it returns `SnapshotExpired`, never other rows.
//!
//! A token is one word of URL-safe base64 that encodes a JSON list, starting with the format version.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use kubist_format::chain::Chain;
use kubist_format::history::Declared;
use kubist_format::location::Location;
use kubist_index::state::State;
use kubist_types::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::chains;
use crate::files::TableFiles;
use crate::view::View;

const VERSION: u64 = 1;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SnapshotToken {
    pub table: String,
    pub positions: Vec<(String, u64)>,
    pub rewrites: u64,
    pub alterations: u64,
    pub declared: Option<Declared>,
    pub step: Option<i64>,
    /// A hash of the chains of all entries up to the positions.
    pub chain: Chain,
}

impl SnapshotToken {
    pub fn of(files: &TableFiles, view: &View) -> SnapshotToken {
        let (history, alterations) = (&view.history, view.schema.version);
        let mut all = files.header.id.clone().into_bytes();
        for (writer, position) in &view.positions {
            all.extend_from_slice(writer.as_bytes());
            all.extend_from_slice(&position.to_le_bytes());
            all.extend_from_slice(&chains::logged(files, writer, history).0.to_le_bytes());
        }
        for chain in [chains::rewritten(files, view.rewrites, history), chains::altered(files, alterations, history)] {
            all.extend_from_slice(&chain.0.to_le_bytes());
        }
        SnapshotToken {
            table: files.header.id.clone(),
            positions: view.positions.clone(),
            rewrites: view.rewrites,
            alterations,
            declared: history.declared.clone(),
            step: None,
            chain: Chain::after_entry(&all),
        }
    }

    pub fn is_at_or_after(&self, state: &State<Location>) -> bool {
        state.rewrites() <= self.rewrites
            && state.positions().all(|(writer, position)| position <= self.position(writer))
    }

    /// Logs and alterations only grow, and writers are declared once.
    pub fn is_before(&self, later: &SnapshotToken) -> bool {
        self.table == later.table
            && self.rewrites <= later.rewrites
            && self.alterations <= later.alterations
            && (self.declared.is_none() || self.declared == later.declared)
            && self.positions.is_sorted_by(|(one, _), (next, _)| one < next)
            && self
                .positions
                .iter()
                .all(|(writer, position)| later.positions.iter().any(|(known, end)| known == writer && position <= end))
    }

    fn position(&self, writer: &str) -> u64 {
        self.positions.iter().find(|(name, _)| name == writer).map_or(0, |(_, position)| *position)
    }
}

impl fmt::Display for SnapshotToken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SnapshotToken { table, positions, rewrites, alterations, declared, step, chain } = self;
        let words = (VERSION, table, positions, rewrites, alterations, declared, step, chain);
        let words = serde_json::to_vec(&words).map_err(|_| fmt::Error)?;
        out.write_str(&BASE64.encode(words))
    }
}

impl FromStr for SnapshotToken {
    type Err = Error;

    fn from_str(text: &str) -> Result<SnapshotToken> {
        let none = || Error::invalid(format!("{text:.40?} is not a snapshot token"));
        let words = BASE64.decode(text).map_err(|_| none())?;
        let words: Vec<serde_json::Value> = serde_json::from_slice(&words).map_err(|_| none())?;
        match words.first().and_then(serde_json::Value::as_u64) {
            Some(VERSION) => {}
            Some(other) => {
                let why = format!("this version of Kubist reads form {VERSION} of a snapshot token, not {other}");
                return Err(Error::invalid(why));
            }
            None => return Err(none()),
        }
        let words = serde_json::from_value(serde_json::Value::Array(words)).map_err(|_| none())?;
        let (_, table, positions, rewrites, alterations, declared, step, chain): (u64, _, _, _, _, _, _, _) = words;
        Ok(SnapshotToken { table, positions, rewrites, alterations, declared, step, chain })
    }
}

impl From<SnapshotToken> for String {
    fn from(token: SnapshotToken) -> String {
        token.to_string()
    }
}

impl TryFrom<String> for SnapshotToken {
    type Error = Error;

    fn try_from(text: String) -> Result<SnapshotToken> {
        text.parse()
    }
}
