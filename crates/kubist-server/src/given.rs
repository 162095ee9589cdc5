//! The tables that a server was given, and their moments.
//!
//! A client that asks for a region piece by piece must ask one snapshot of the table, or
//! the pieces would not fit together. So each snapshot has a name, its *version*; the server
//! keeps the newest few. A rewrite of the layout changes no answer and no version.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kubist::{Cancel, Snapshot, Table};
use serde_json::{Value, json};

use crate::problem::{Problem, Result};

/// Moments kept at hand beside the newest.
const OLDER: usize = 3;

/// One table and the moments of it that were shown.
pub struct Given {
    pub name: String,
    table: Table,
    moments: Mutex<Moments>,
    /// Held while somebody looks for news, so that none is shown after newer ones.
    looking: Mutex<()>,
}

/// A moment of a table.
#[derive(Clone)]
pub struct Moment {
    pub version: String,
    pub snapshot: Snapshot,
    /// What it holds, as the interface describes it.
    pub about: Arc<Value>,
    /// What tells two moments apart.
    mark: Value,
}

struct Moments {
    /// Tells this process from one that served the table before.
    epoch: String,
    count: u64,
    now: Moment,
    older: VecDeque<Moment>,
}

/// What a table is called in addresses: the last part of its location without `.kubist`
/// and settings, and with nothing that an address would have to escape.
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

impl Given {
    pub fn open(location: &str, name: String) -> kubist::Result<Given> {
        let table = Table::open(location)?;
        let snapshot = table.snapshot()?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let epoch = format!("{:x}", since.as_micros());
        let now = Moment::new(format!("{epoch}-0"), snapshot)?;
        let moments = Mutex::new(Moments { epoch, count: 0, now, older: VecDeque::new() });
        Ok(Given { name, table, moments, looking: Mutex::new(()) })
    }

    fn moments(&self) -> MutexGuard<'_, Moments> {
        self.moments.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The table as it is now.
    pub fn now(&self) -> Result<Moment> {
        let _looking = self.looking.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let seen = self.moments().now.snapshot.clone();
        let Some(snapshot) = self.table.wait(&seen, Duration::ZERO, &Cancel::default())? else {
            return Ok(self.moments().now.clone());
        };
        let mut next = Moment::new(String::new(), snapshot)?;
        let mut moments = self.moments();
        if next.mark == moments.now.mark {
            next.version = moments.now.version.clone();
            moments.now = next;
        } else {
            moments.count += 1;
            next.version = format!("{}-{}", moments.epoch, moments.count);
            let before = std::mem::replace(&mut moments.now, next);
            moments.older.push_front(before);
            moments.older.truncate(OLDER);
        }
        Ok(moments.now.clone())
    }

    /// The moment of this name, or the newest.
    pub fn at(&self, version: Option<&str>) -> Result<Moment> {
        let now = self.now()?;
        let Some(version) = version else { return Ok(now) };
        if now.version == version {
            return Ok(now);
        }
        let moments = self.moments();
        let found = moments.older.iter().find(|moment| moment.version == version).cloned();
        found.ok_or_else(|| {
            Problem::gone(format!(
                "version {version:?} of {:?} is not at hand any more; the newest is {:?}",
                self.name, now.version
            ))
        })
    }
}

impl Moment {
    fn new(version: String, snapshot: Snapshot) -> kubist::Result<Moment> {
        let info = snapshot.info()?;
        let steps = snapshot.complete_steps();
        let commits: u64 = info.writers.iter().map(|writer| writer.commits).sum();
        let mark = json!([info.rows, commits, steps.len(), steps.last(), info.columns, info.metadata]);
        let schema = snapshot.schema();
        let columns: Vec<Value> = info
            .columns
            .iter()
            .zip(schema.fields())
            .map(|(column, field)| {
                let mut said = serde_json::to_value(column).unwrap_or_default();
                said["kind"] = kind_of(field.data_type()).into();
                said
            })
            .collect();
        let mut about = serde_json::to_value(&info).unwrap_or_default();
        about["columns"] = columns.into();
        about["steps"] = json!(steps);
        about["commits"] = commits.into();
        // Where it lies is nobody's business.
        about["location"] = Value::Null;
        Ok(Moment { version, snapshot, about: Arc::new(about), mark })
    }

    /// Its description, with its name.
    pub fn described(&self, name: &str) -> Value {
        let mut said = (*self.about).clone();
        said["name"] = name.into();
        said["version"] = self.version.clone().into();
        said
    }
}

/// How a column can be drawn: as numbers, moments in time, names, or not at all.
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
