//! Records the queries of this process, one line of JSON each, in the file that the environment variable
//! `KUBIST_RECORD` names. Without the variable, nothing is recorded.
//!
//! A line has the time, the table's location and the query, but no rows. `kubist.workloads.load` reads the
//! file as a workload, from which `kubist advise` finds a design.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use kubist_types::QuerySpec;
use serde::Serialize;

const RECORD: &str = "KUBIST_RECORD";

/// Largest size of the file, after which queries are not recorded.
const MOST_BYTES: u64 = 64 << 20;

#[derive(Serialize)]
struct Line<'a> {
    /// Seconds since 1970.
    at: f64,
    table: &'a str,
    verb: &'a str,
    question: &'a QuerySpec,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    aggregates: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    group_by: &'a [String],
}

pub fn file() -> Option<PathBuf> {
    std::env::var_os(RECORD).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Records a query, if the variable is set; a file that cannot be written does not stop the query.
pub fn record(table: &str, verb: &str, question: &QuerySpec, aggregates: &[String], group_by: &[String]) {
    static RECORDER: OnceLock<Option<Mutex<File>>> = OnceLock::new();
    let recorder =
        RECORDER.get_or_init(|| OpenOptions::new().create(true).append(true).open(file()?).ok().map(Mutex::new));
    let Some(Ok(mut file)) = recorder.as_ref().map(Mutex::lock) else { return };
    let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
    let line = Line { at, table, verb, question, aggregates, group_by };
    let Ok(mut text) = serde_json::to_vec(&line) else { return };
    text.push(b'\n');
    let has_room = file.metadata().is_ok_and(|known| known.len() + text.len() as u64 <= MOST_BYTES);
    if has_room {
        // Several processes append to one file, so each line is a single write.
        let _ = file.write_all(&text);
    }
}
