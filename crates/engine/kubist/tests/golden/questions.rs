//! Queries of golden tables, with their results in `answers.json`. A result has what every version must
//! return: rows, counts, checksums, figures. Bytes read, widths of intervals and words of findings may
//! improve.
#![allow(dead_code)] // each program takes what it needs

use std::path::Path;

use kubist::{
    Bound, EstimateOptions, PerCell, Query, QueryStream, Result, Snapshot, Table, Value, VerifyOptions, WriterOptions,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::tables::Golden;
use super::values::rows;

const SHOWN_ROWS: usize = 8;
const TOLERANCE: f64 = 1e-9;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Which {
    #[serde(rename = "box", skip_serializing_if = "Vec::is_empty")]
    pub bounds: Vec<(String, Option<f64>, Option<f64>)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<(f64, f64)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_cell: Option<(u64, Vec<(String, f64)>)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub columns: Option<Vec<String>>,
    #[serde(rename = "where", skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<(Option<i64>, Option<i64>)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inclusion: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Ask {
    Rows { which: Which },
    Count { which: Which },
    Lookup { which: Which },
    Refine { which: Which, start: f64, factor: f64 },
    PerPart { which: Which, parts: usize },
    Trajectories { through: Which, by: String, which: Which },
    Estimate { aggregates: Vec<String>, group_by: Vec<String>, which: Which },
    AtStep { step: i64, which: Which },
    CompleteSteps,
    Columns,
    Info,
    Verify { deep: bool },
    Salvage,
}

impl Which {
    fn query(&self) -> Query {
        let end = |end: &Option<f64>| {
            end.map(|end| if end.fract() == 0.0 { Value::Int(end as i128) } else { Value::Float(end) })
        };
        let bound = |(column, low, high): &(String, Option<f64>, Option<f64>)| Bound {
            column: column.clone(),
            low: end(low),
            high: end(high),
        };
        Query {
            bounds: self.bounds.iter().map(bound).collect(),
            sample: self.sample,
            window: self.window,
            limit: self.limit,
            per_cell: self.per_cell.clone().map(|(rows, widths)| PerCell {
                rows,
                widths: widths.into_iter().map(|(column, width)| (column, width.into())).collect(),
            }),
            columns: self.columns.clone(),
            filter: self.filter.clone(),
            steps: self.steps,
            inclusion: self.inclusion.clone(),
            ..Query::default()
        }
    }
}

struct Found {
    rows: Vec<String>,
    ordered: bool,
}

impl Found {
    fn of(stream: QueryStream, which: &Which) -> Result<Found> {
        let mut found = Found { rows: Vec::new(), ordered: which.limit.is_some() };
        for batch in stream {
            found.rows.extend(rows(&batch?));
        }
        Ok(found)
    }

    fn answer(mut self) -> serde_json::Value {
        if !self.ordered {
            self.rows.sort_unstable();
        }
        let checksum = self
            .rows
            .iter()
            .fold(0, |sum, row| crc32c::crc32c_append(crc32c::crc32c_append(sum, row.as_bytes()), b"\n"));
        let mut answer = json!({"rows": self.rows.len(), "checksum": format!("{checksum:08x}")});
        if self.rows.len() <= SHOWN_ROWS {
            answer["shown"] = self.rows.into();
        }
        answer
    }
}

pub fn answer(at: &Path, ask: &Ask) -> serde_json::Value {
    match answered(at, ask) {
        Ok(answer) => answer,
        Err(kubist::Error::Damaged { .. }) => json!({"error": "damaged"}),
        Err(error) if error.kind() == kubist::ErrorKind::InvalidInput => json!({"error": "invalid"}),
        Err(error) => panic!("{ask:?}: {error}"),
    }
}

fn answered(at: &Path, ask: &Ask) -> Result<serde_json::Value> {
    let location = at.to_str().expect("a path in UTF-8");
    let snapshot = || Table::open(location)?.snapshot();
    Ok(match ask {
        Ask::Rows { which } => Found::of(snapshot()?.query(which.query())?, which)?.answer(),
        Ask::Count { which } => json!({"rows": snapshot()?.count(which.query())?}),
        Ask::Lookup { which } => {
            let mut stream = snapshot()?.query(which.query())?;
            let mut found = Found { rows: Vec::new(), ordered: false };
            for batch in stream.by_ref() {
                found.rows.extend(rows(&batch?));
            }
            let mut answer = found.answer();
            answer["by postings"] = (stream.stats().runs_looked_up > 0).into();
            answer
        }
        Ask::Refine { which, start, factor } => {
            let steps = snapshot()?.refine(which.query(), *start, *factor)?;
            let steps = steps.map(|stream| Ok(Found::of(stream?, which)?.answer()));
            steps.collect::<Result<Vec<_>>>()?.into()
        }
        Ask::PerPart { which, parts } => {
            let mut all = Found { rows: Vec::new(), ordered: false };
            for split in snapshot()?.splits(which.query(), *parts)? {
                all.rows.extend(
                    Found::of(Table::open(&split.location).and_then(|table| table.read_split(&split))?, which)?.rows,
                );
            }
            all.answer()
        }
        Ask::Trajectories { through, by, which } => {
            Found::of(snapshot()?.trajectories(through.query(), by, which.query())?, which)?.answer()
        }
        Ask::Estimate { aggregates, group_by, which } => {
            let options = EstimateOptions {
                aggregates: aggregates.clone(),
                group_by: group_by.clone(),
                query: which.query(),
                ..EstimateOptions::default()
            };
            let estimate = snapshot()?.estimate(&options, &mut |_| {})?;
            let groups = rows(&estimate.groups);
            let figure = |figure: &kubist::Figure| {
                json!({
                    "of": figure.aggregate, "group": groups.get(figure.group), "bin": figure.bin, "value": figure.value,
                    "fraction": figure.fraction, "rows": figure.rows, "exact": figure.exact,
                })
            };
            estimate.figures.iter().map(figure).collect::<Vec<_>>().into()
        }
        Ask::AtStep { step, which } => Found::of(snapshot()?.at_step(*step)?.query(which.query())?, which)?.answer(),
        Ask::CompleteSteps => snapshot()?.complete_steps().into(),
        Ask::Columns => serde_json::to_value(snapshot()?.columns()).expect("plain data"),
        Ask::Info => info(&snapshot()?)?,
        Ask::Verify { deep } => {
            let options = VerifyOptions { deep: *deep, ..VerifyOptions::default() };
            let report = Table::verify_at(location, &options, &mut |_, _| {})?;
            json!({
                "rows": report.rows, "runs": report.runs, "replicas": report.replicas, "rows lost": report.rows_lost,
                "rows mendable": report.rows_recoverable, "losses": report.losses.len(), "sound": report.findings.is_empty(),
            })
        }
        Ask::Salvage => {
            let folder = tempfile::tempdir().expect("a folder for the salvaged table");
            let to = folder.path().join("saved");
            let to = to.to_str().expect("a path in UTF-8");
            let report = Table::salvage(location, to, &Default::default(), &mut |_, _| {})?;
            let everything = Which::default();
            let saved = Found::of(Table::open(to)?.snapshot()?.query(everything.query())?, &everything)?.answer();
            json!({
                "rows": report.rows, "rows mended": report.rows_recovered, "rows lost": report.rows_lost,
                "losses": report.losses.len(), "whole": report.is_whole(), "saved": saved,
            })
        }
    })
}

const DESCRIBED: [&str; 13] = [
    "format_version",
    "rows",
    "grid",
    "dimensions",
    "identity",
    "lookup",
    "capacity",
    "seed",
    "replication",
    "compression",
    "columns",
    "metadata",
    "declared",
];

fn info(snapshot: &Snapshot) -> Result<serde_json::Value> {
    let info = serde_json::to_value(snapshot.info()?).expect("plain data");
    let described = DESCRIBED.map(|key| (key.to_string(), info[key].clone()));
    Ok(serde_json::Value::Object(described.into_iter().collect()))
}

pub fn same(one: &serde_json::Value, other: &serde_json::Value) -> bool {
    use serde_json::Value::*;
    match (one, other) {
        (Number(a), Number(b)) if a.is_f64() || b.is_f64() => {
            let (a, b) = (a.as_f64().unwrap_or(f64::NAN), b.as_f64().unwrap_or(f64::NAN));
            (a - b).abs() <= TOLERANCE * a.abs().max(b.abs())
        }
        (Array(a), Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Object(a), Object(b)) => a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b))),
        (a, b) => a == b,
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Answered {
    pub question: Ask,
    pub answer: serde_json::Value,
}

/// `answers.json`: results for the files, and after one more commit and an optimization.
#[derive(Debug, Serialize, Deserialize)]
pub struct Answers {
    pub as_written: Vec<Answered>,
    pub after_more: Vec<Answered>,
}

pub fn answers(at: &Path, golden: &Golden) -> Answers {
    let ask = |questions: Vec<Ask>| {
        let answered = |question: Ask| Answered { answer: answer(at, &question), question };
        questions.into_iter().map(answered).collect()
    };
    let as_written = ask(golden.questions());
    if golden.more.is_none() {
        return Answers { as_written, after_more: Vec::new() };
    }
    add_more(at, golden);
    // These results depend on the layout of the added rows.
    let of_rows = |question: &Ask| !matches!(question, Ask::Info | Ask::Verify { .. } | Ask::Salvage);
    Answers { as_written, after_more: ask(golden.questions().into_iter().filter(of_rows).collect()) }
}

pub fn add_more(at: &Path, golden: &Golden) {
    let Some(more) = golden.more else { return };
    let table = Table::open(at.to_str().expect("a path in UTF-8")).expect("a golden table opens");
    let mut writer =
        table.writer(&WriterOptions { name: Some("later".into()), ..Default::default() }).expect("a free name");
    writer.append(&more()).expect("rows of the table");
    writer.commit().expect("a durable commit");
    let options = kubist::OptimizeOptions { debt_share: 0.0, ..Default::default() };
    table.optimize(&options, &mut |_, _| {}).expect("an optimized table");
    let report = table.verify(&VerifyOptions::deep(), &mut |_, _| {}).expect("a look at all pages");
    assert_eq!(report.findings, Vec::<String>::new(), "{}, after more rows", golden.name);
}
