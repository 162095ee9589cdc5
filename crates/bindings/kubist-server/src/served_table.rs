//! A served table and its snapshots in use.
//!
//! A client that reads a region in several requests must read one snapshot, so each has a name, its *version*,
//! which is the engine's token. The most recently used snapshots stay open; others are opened again from their
//! token while their files exist. A rewrite of the layout changes no result and no version.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use kubist::{Cancel, ErrorKind, Snapshot, SnapshotToken, Table, Thinned};
use serde_json::{Value, json};

use crate::problem::Result;

/// Open snapshots in addition to the newest.
const KEPT: usize = 16;

pub struct ServedTable {
    pub name: String,
    location: String,
    table: Mutex<Table>,
    shown: Mutex<Shown>,
    /// Held while the table is checked for changes, so that no snapshot follows a newer one.
    looking: Mutex<()>,
    returning: Mutex<()>,
}

#[derive(Clone)]
pub struct Pinned {
    pub version: String,
    pub snapshot: Snapshot,
    pub about: Arc<Value>,
    mark: Value,
}

struct Shown {
    now: Pinned,
    /// Most recently used first.
    kept: VecDeque<Pinned>,
}

impl Shown {
    fn keep(&mut self, pinned: Pinned) {
        self.kept.push_front(pinned);
        self.kept.truncate(KEPT);
    }

    fn used(&mut self, version: &str) -> Option<Pinned> {
        let index = self.kept.iter().position(|pinned| pinned.version == version)?;
        let pinned = self.kept.remove(index)?;
        self.keep(pinned.clone());
        Some(pinned)
    }
}

/// The name of a table in URLs: the last part of its location, without `.kubist` and settings, where characters that a
/// URL would escape are replaced.
pub fn name_of(location: &str) -> String {
    let location = match location.split_once("://") {
        Some(("file", _)) | None => location,
        Some(_) => location.split('?').next().unwrap_or(location),
    };
    let path = Path::new(location.strip_prefix("file://").unwrap_or(location));
    let path = path.canonicalize().unwrap_or_else(|_| path.into());
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = name.strip_suffix(".kubist").unwrap_or(&name);
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = name.chars().map(plain).collect();
    if name.trim_matches('.').is_empty() { "table".into() } else { name }
}

impl ServedTable {
    pub fn open(location: &str, name: String) -> kubist::Result<ServedTable> {
        let table = Table::open(location)?;
        let now = Pinned::new(None, table.snapshot()?)?;
        let shown = Mutex::new(Shown { now, kept: VecDeque::new() });
        let (location, table) = (location.to_string(), Mutex::new(table));
        Ok(ServedTable { name, location, table, shown, looking: Mutex::new(()), returning: Mutex::new(()) })
    }

    fn table(&self) -> Table {
        self.table.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// Opens the table at the location again, because the served one is gone.
    fn open_anew(&self) -> kubist::Result<Pinned> {
        let table = Table::open(&self.location)?;
        let now = Pinned::new(None, table.snapshot()?)?;
        *self.table.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = table;
        *self.shown() = Shown { now: now.clone(), kept: VecDeque::new() };
        Ok(now)
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The newest snapshot; if the table was replaced or restored from a backup, serves the new one from now on.
    pub fn now(&self) -> Result<Pinned> {
        let _looking = self.looking.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let seen = self.shown().now.snapshot.clone();
        let snapshot = match self.table().wait(&seen, Duration::ZERO, Duration::ZERO) {
            Ok(Some(snapshot)) => snapshot,
            Ok(None) => return Ok(self.shown().now.clone()),
            Err(error) => match error.kind() {
                ErrorKind::Expired | ErrorKind::NotFound | ErrorKind::Corrupt => {
                    return self.open_anew().map_err(|_| error.into());
                }
                _ => return Err(error.into()),
            },
        };
        let mut next = Pinned::new(None, snapshot)?;
        let mut shown = self.shown();
        if next.mark == shown.now.mark {
            next.version = shown.now.version.clone();
            shown.now = next;
        } else {
            let before = std::mem::replace(&mut shown.now, next);
            shown.keep(before);
        }
        Ok(shown.now.clone())
    }

    pub fn at(&self, version: Option<&str>) -> Result<Pinned> {
        let now = self.now()?;
        let Some(version) = version.filter(|version| *version != now.version) else { return Ok(now) };
        if let Some(pinned) = self.shown().used(version) {
            return Ok(pinned);
        }
        let token: SnapshotToken = version.parse()?;
        let _returning = self.returning.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(pinned) = self.shown().used(version) {
            return Ok(pinned);
        }
        let snapshot = self.table().at(&token)?;
        let pinned = Pinned::new(Some(version), snapshot)?;
        self.shown().keep(pinned.clone());
        Ok(pinned)
    }
}

impl Pinned {
    fn new(version: Option<&str>, snapshot: Snapshot) -> kubist::Result<Pinned> {
        let version = version.map_or_else(|| snapshot.token().to_string(), String::from);
        let known = snapshot.about()?;
        let steps = snapshot.complete_steps();
        let commits: u64 = known.writers.iter().map(|writer| writer.commits).sum();
        let mark = json!([known.rows, commits, steps.len(), steps.last(), known.columns, known.metadata]);
        let schema = snapshot.schema();
        let columns: Vec<Value> = known
            .columns
            .iter()
            .zip(schema.fields())
            .map(|(column, field)| {
                let mut described = serde_json::to_value(column).unwrap_or_default();
                described["kind"] = kind_of(field.data_type()).into();
                described
            })
            .collect();
        let mut about = serde_json::to_value(&known).unwrap_or_default();
        about["columns"] = columns.into();
        about["steps"] = json!(steps);
        let thinned = snapshot.thinned().into_iter().filter(|(step, _)| steps.binary_search(step).is_ok());
        let of_step = |(step, known): (i64, Thinned)| json!({"step": step, "below": known.below, "rows": known.rows});
        about["thinned_steps"] = thinned.map(of_step).collect();
        about["commits"] = commits.into();
        // Identifies this table among others at its location.
        about["id"] = snapshot.token().table.into();
        // Clients must not see the server's paths.
        about["location"] = Value::Null;
        if known.partial.is_some() {
            about["partial"]["source"] = Value::Null;
            about["held"] = snapshot.held(kubist::Query::default())?.into();
        }
        Ok(Pinned { version, snapshot, about: Arc::new(about), mark })
    }

    /// # Errors
    ///
    /// `Cancelled` or a storage error.
    pub fn laid_out(&self, name: &str, cancel: &Cancel) -> kubist::Result<Value> {
        let mut info = serde_json::to_value(self.snapshot.cancelled_by(cancel).info()?).unwrap_or_default();
        // Advice contains commands and the path on the server.
        info["advice"] = json!([]);
        let mut described = self.described(name);
        if let (Value::Object(described), Value::Object(info)) = (&mut described, info) {
            for (what, known) in info {
                described.entry(what).or_insert(known);
            }
        }
        Ok(described)
    }

    pub fn described(&self, name: &str) -> Value {
        let mut described = (*self.about).clone();
        described["name"] = name.into();
        described["version"] = self.version.clone().into();
        described
    }
}

/// How to draw a column: as numbers, times, text, or not at all.
pub fn kind_of(data_type: &arrow_schema::DataType) -> &'static str {
    use arrow_schema::DataType::*;
    match data_type {
        Boolean => "boolean",
        Date32 | Date64 | Timestamp(..) | Time32(_) | Time64(_) | Duration(_) => "time",
        Utf8 | LargeUtf8 | Utf8View => "text",
        Dictionary(_, values) => kind_of(values),
        number if number.is_numeric() => "number",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_need_no_escaping() {
        assert_eq!(name_of("/no/such/run 7.kubist"), "run-7");
        assert_eq!(name_of("/no/such/läufe"), "l-ufe");
        assert_eq!(name_of("file:///no/such/a.b"), "a.b");
        assert_eq!(name_of("/"), "table");
    }
}
