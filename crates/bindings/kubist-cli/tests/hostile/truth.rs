//! Tables with known results, attacked one file at a time.

use std::fs;
use std::path::{Path, PathBuf};

use kubist::{Query, Result, Table, VerifyOptions};

use super::set;
use super::tables::TABLES;
use super::values::rows;

pub struct Known {
    pub at: PathBuf,
    pub files: Vec<PathBuf>,
    /// Added columns come last.
    pub columns: Vec<String>,
    pub answers: Vec<Vec<String>>,
}

pub fn tables(folder: &Path) -> Vec<Known> {
    let mut found = Vec::new();
    for golden in TABLES.iter().filter(|golden| golden.is_sound()) {
        let (kept, fresh) =
            (folder.join(format!("{}-kept", golden.name)), folder.join(format!("{}-fresh", golden.name)));
        set::copied(&set::newest().join(golden.name).join("table"), &kept);
        golden.write(&fresh);
        found.extend([kept, fresh].map(|at| Known {
            files: set::listed(&at),
            columns: columns(&at),
            answers: answers(&at).expect("a sound table"),
            at,
        }));
    }
    found
}

pub fn columns(at: &Path) -> Vec<String> {
    let table = Table::open(at.to_str().expect("a path in UTF-8")).expect("a sound table");
    let schema = table.snapshot().expect("a snapshot").schema();
    schema.fields().iter().map(|field| field.name().clone()).collect()
}

pub fn without(rows: &[String], column: &str) -> Vec<String> {
    let cell = format!(" {column}=");
    let mut cut: Vec<String> =
        rows.iter().map(|row| row.rsplit_once(&cell).expect("a row of all columns").0.into()).collect();
    cut.sort_unstable();
    cut
}

pub fn answers(at: &Path) -> Result<Vec<Vec<String>>> {
    let snapshot = Table::open(at.to_str().expect("a path in UTF-8"))?.snapshot()?;
    let has = |column: &str| snapshot.schema().index_of(column).is_ok();
    let mut queries = vec![Query::default(), Query { sample: Some(0.3), ..Query::default() }];
    // One condition uses a zone map, the other one postings if there are any.
    for (column, filter) in [("y", "y > 300 AND y < 520"), ("name", "name IN ('droplet 3', 'droplet 17')")] {
        if has(column) {
            queries.push(Query { filter: Some(filter.into()), ..Query::default() });
        }
    }
    let mut answers = Vec::new();
    for query in queries {
        let mut found = Vec::new();
        for batch in snapshot.query(&query)? {
            found.extend(rows(&batch?));
        }
        found.sort_unstable();
        answers.push(found);
    }
    Ok(answers)
}

pub fn is_noticed(at: &Path) -> bool {
    let report = Table::verify_at(at.to_str().expect("a path in UTF-8"), &VerifyOptions::deep(), &mut |_, _| {});
    report.map_or(true, |report| !report.findings.is_empty())
}

pub fn with<T>(file: &Path, bytes: &[u8], work: impl FnOnce() -> T) -> T {
    let whole = fs::read(file).expect("a file of the table");
    fs::write(file, bytes).expect("the changed file");
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    fs::write(file, whole).expect("the file as it was");
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

pub fn difference(found: &[Vec<String>], truth: &[Vec<String>]) -> Option<(bool, String)> {
    let (found, truth) = found.iter().zip(truth).find(|(found, truth)| found != truth)?;
    let lost = found.len() < truth.len() && found.iter().all(|row| truth.binary_search(row).is_ok());
    let first = found.iter().find(|row| truth.binary_search(row).is_err());
    Some((lost, format!("{} rows instead of {}; {}", found.len(), truth.len(), first.map_or("", |row| row))))
}
