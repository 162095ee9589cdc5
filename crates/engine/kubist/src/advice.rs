//! Advice of `kubist info`: whether the dimensions and secondary indexes of a table fit its queries, and whether its
//! commits need an optimizer. `recording.rs` writes the queries to the file that `KUBIST_RECORD` names.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use kubist_expr::Limits;
use kubist_types::human;
use serde_json::Value;

use crate::info::Info;
use crate::recording;

/// Bytes to read at the end of the file of recorded queries; all 64 MiB would take seconds.
const NEWEST: u64 = 4 << 20;
/// Smallest number of recorded queries that justifies advice.
const QUESTIONS: u64 = 20;
/// A column that at least this fraction of the queries limits should be a dimension or have a secondary index.
const ALWAYS: f64 = 0.5;
/// A table with fewer commits needs no optimizer.
const COMMITS: u64 = 16;
/// Queries become slow if at least this fraction of the rows waits for the optimizer.
const DEBT: f64 = 0.2;
/// Prefixes of the Arrow types that dimensions can have.
const ORDERED: [&str; 7] = ["Int", "UInt", "Float", "Timestamp", "Date", "Time", "Duration"];

#[derive(Default)]
struct Use {
    questions: u64,
    /// By column: the number of queries that limit it to a range, and to single values.
    columns: BTreeMap<String, (u64, u64)>,
    /// Queries with a region or steps: they limit dimensions without naming them, so no dimension counts as unused.
    wholes: u64,
}

impl Use {
    fn fraction(&self, column: &str) -> f64 {
        let (ranges, values) = self.columns.get(column).copied().unwrap_or_default();
        (ranges + values) as f64 / self.questions as f64
    }

    fn is_ranged(&self, column: &str) -> bool {
        self.columns.get(column).is_some_and(|(ranges, values)| ranges >= values)
    }
}

/// One sentence for each problem, with commands at the end that correct it.
pub(crate) fn of(info: &Info) -> Vec<String> {
    let mut found: Vec<String> = of_commits(info).into_iter().collect();
    if let Some(record) = recording::file() {
        let used = recorded(&record, &info.about.location);
        if used.questions >= QUESTIONS {
            found.extend(of_columns(info, &used, &record));
        }
    }
    found
}

fn of_commits(info: &Info) -> Option<String> {
    let commits: u64 = info.about.writers.iter().map(|writer| writer.commits).sum();
    let rows: u64 = info.about.writers.iter().map(|writer| writer.rows).sum();
    let is_small = commits >= COMMITS && rows < commits * u64::from(info.about.capacity);
    (is_small && info.debt as f64 >= DEBT * info.about.rows as f64).then(|| {
        format!(
            "{} commits have {} records on average, and {} of {} records wait for an optimizer, so queries read more \
             than they return. Run: kubist optimize {}",
            human::count(commits),
            human::count(rows / commits),
            human::count(info.debt),
            human::count(info.about.rows),
            quoted(&info.about.location)
        )
    })
}

fn of_columns(info: &Info, used: &Use, record: &Path) -> Vec<String> {
    let about = &info.about;
    let dimensions: Vec<&str> = about.dimensions.iter().map(|dimension| dimension.column.as_str()).collect();
    let is_designed = |name: &str| dimensions.contains(&name) || about.lookup.iter().any(|column| column == name);
    let missing =
        about.columns.iter().filter(|column| !is_designed(&column.name) && used.fraction(&column.name) >= ALWAYS);
    let is_dimension = |name: &str, kind: &str| used.is_ranged(name) && ORDERED.iter().any(|own| kind.starts_with(own));
    let missing: Vec<(&str, bool)> =
        missing.map(|column| (column.name.as_str(), is_dimension(&column.name, &column.data_type))).collect();
    let idle: Vec<&str> =
        dimensions.iter().copied().filter(|name| used.wholes == 0 && used.fraction(name) == 0.0).collect();
    if idle.len() == dimensions.len() && missing.is_empty() {
        return vec![]; // The queries sample the whole table, and all dimensions serve them equally.
    }
    let questions = human::count(used.questions);
    let mut said: Vec<String> = Vec::new();
    for (name, is_ranged) in &missing {
        let percent = 100.0 * used.fraction(name);
        let index = if *is_ranged { "" } else { " and has no secondary index" };
        said.push(format!(
            "{percent:.0} % of {questions} recorded questions limit {name}, which is no dimension{index}"
        ));
    }
    if !idle.is_empty() && idle.len() < dimensions.len() {
        let what = if idle.len() == 1 { "a dimension" } else { "dimensions" };
        said.push(format!("none of {questions} recorded questions limits {}, {what} of the table", idle.join(", ")));
    }
    let ranged = missing.iter().filter(|(_, is_ranged)| *is_ranged).map(|(name, _)| *name);
    let wanted: Vec<&str> = dimensions.iter().copied().filter(|name| !idle.contains(name)).chain(ranged).collect();
    let table = quoted(&about.location);
    // `regrid` cannot add a secondary index, so `advise` proposes a new table.
    let command = match wanted.is_empty() || missing.iter().any(|(_, is_ranged)| !is_ranged) {
        true => format!("kubist advise {table} --queries {}", quoted(&record.to_string_lossy())),
        false => format!("kubist regrid {table} --dimensions {}", quoted(&wanted.join(","))),
    };
    if let Some(last) = said.last_mut() {
        last.push_str(&format!(". Run: {command}"));
    }
    said
}

/// Reads the newest recorded queries of a table; before the first one, there is no file and no use.
fn recorded(record: &Path, location: &str) -> Use {
    let mut used = Use::default();
    let own = place(location);
    // The first line is cut unless the whole file was read, and a killed process can leave the last one incomplete.
    for line in newest(record).unwrap_or_default().split(|byte| *byte == b'\n') {
        let Ok(line) = serde_json::from_slice::<Value>(line) else { continue };
        let (Some(table), Some(question)) = (line["table"].as_str(), line["question"].as_object()) else { continue };
        if place(table) != own {
            continue;
        }
        let limits = question.get("where").and_then(Value::as_str).map(Limits::of);
        let Ok(mut limits) = limits.transpose().map(Option::unwrap_or_default) else { continue };
        for (name, ends) in question.get("box").and_then(Value::as_object).into_iter().flatten() {
            match ends.as_array().is_some_and(|ends| ends.first() != ends.last()) {
                true => limits.ranges.insert(name.clone()),
                false => limits.values.insert(name.clone()),
            };
        }
        used.questions += 1;
        used.wholes += u64::from(question.contains_key("region") || question.contains_key("steps"));
        for name in limits.values.difference(&limits.ranges) {
            used.columns.entry(name.clone()).or_default().1 += 1;
        }
        for name in &limits.ranges {
            used.columns.entry(name.clone()).or_default().0 += 1;
        }
    }
    used
}

fn newest(record: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = File::open(record)?;
    let size = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(size.saturating_sub(NEWEST)))?;
    let mut bytes = Vec::new();
    file.take(NEWEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn place(location: &str) -> PathBuf {
    match location.contains("://") {
        true => PathBuf::from(location),
        false => std::fs::canonicalize(location).unwrap_or_else(|_| PathBuf::from(location)),
    }
}

fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./-_".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_string(),
        false => format!("'{}'", text.replace('\'', "'\"'\"'")),
    }
}
