//! Request bodies: parsed, checked for shape, and turned into the engine's types.

use kubist::{Cancel, QuerySpec, Request, RunOptions};
use serde::Deserialize;

use crate::problem::{Problem, Result};

/// Columns of one answer, cells of one request, names of one column.
pub const MOST_COLUMNS: usize = 4096;
pub const MOST_CELLS: usize = 512;
pub const MOST_VALUES: usize = 256;
/// Rows that are chosen in memory, by `limit`.
pub const MOST_CHOSEN: u64 = 5_000_000;
/// Rows chosen by `per_cell`, which holds more of each, and trajectories of one question.
pub const MOST_HELD: u64 = 1_000_000;

/// Bytes that a question with `order_by` sorts in memory, and those of its scratch file.
const SORT_MEMORY: usize = 64 << 20;
const MOST_SCRATCH: u64 = 16 << 30;

/// Which records, and of which moment: part of every question.
#[derive(Clone, Debug, Default)]
pub struct Region {
    /// The moment to ask; none: the newest.
    pub version: Option<String>,
    pub spec: QuerySpec,
}

/// The fields by which every question describes its records.
const OF_ALL: &[&str] = &["spec", "box", "where", "sample", "window", "steps"];

/// The rest of a question, beside its region.
pub trait Asked: serde::de::DeserializeOwned {
    /// The fields by which it describes its records: those of a [`QuerySpec`].
    const SPEC: &'static [&'static str] = OF_ALL;
}

impl Asked for Records {
    const SPEC: &'static [&'static str] = QuerySpec::NAMES;
}

impl Asked for Paths {
    const SPEC: &'static [&'static str] =
        &["spec", "box", "where", "sample", "window", "steps", "columns", "limit", "order_by"];
}

impl Asked for Points {}
impl Asked for Histograms {}
impl Asked for Estimates {}
impl Asked for Nothing {}

/// The fields of a question for records alone.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Records {
    #[serde(default)]
    pub format: Format,
}

/// The fields of a question for trajectories alone. `sample` is of the records that come
/// back; the rest of the region is what the trajectories pass through.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paths {
    /// The column that tells trajectories apart.
    pub by: String,
    #[serde(default)]
    pub format: Format,
}

/// What the records come as.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Arrow IPC stream.
    #[default]
    Arrow,
    Csv,
    Parquet,
}

/// The fields of a question for points alone.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Points {
    /// One to three columns: where a point is drawn.
    pub position: Vec<String>,
    #[serde(default)]
    pub columns: Vec<Attribute>,
    pub cells: Vec<Cell>,
}

/// A column that comes with each point.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attribute {
    pub name: String,
    /// Taken off each value before it becomes a float32.
    #[serde(default)]
    pub origin: f64,
    /// A value is sent as its index in this list, and all others as -1: for text, and for
    /// numbers that tell records apart and are too large for a float32.
    pub values: Option<Vec<String>>,
}

/// One piece of space and of the priorities: `low <= position < high`, `window.0 <=
/// priority < window.1`. A null end is open.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    pub low: Vec<Option<f64>>,
    pub high: Vec<Option<f64>>,
    pub window: (f64, f64),
    /// Taken off each position before it becomes a float32.
    pub origin: Vec<f64>,
}

/// The fields of a question for a histogram alone.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Histograms {
    /// Without it: the first 256 columns that can be drawn.
    pub columns: Option<Vec<String>>,
    #[serde(default = "default_bins")]
    pub bins: usize,
    /// How many records are counted: those of lowest priority.
    #[serde(default = "default_limit")]
    pub limit: u64,
}

fn default_bins() -> usize {
    64
}

fn default_limit() -> u64 {
    20_000
}

/// The fields of a question for estimates alone.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Estimates {
    pub aggregates: Vec<String>,
    #[serde(default)]
    pub group_by: Vec<String>,
    pub error: Option<f64>,
    pub absolute: Option<kubist::Absolute>,
    /// Seconds.
    pub within: Option<f64>,
    pub max_rows: Option<u64>,
    pub max_bytes: Option<u64>,
    #[serde(default = "default_confidence")]
    pub confidence: f64,
    pub tails: Option<f64>,
    /// All estimates as they narrow, each as soon as it is there.
    #[serde(default)]
    pub progressive: bool,
    #[serde(default)]
    pub format: EstimateFormat,
}

fn default_confidence() -> f64 {
    0.95
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum EstimateFormat {
    #[default]
    Json,
    /// Arrow IPC stream, a row a figure.
    Arrow,
}

/// Nothing more than a region.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// The region in a request's body, and its other fields.
pub fn parse<T: Asked>(body: &[u8]) -> Result<(Region, T)> {
    let wrong = |error: serde_json::Error| Problem::invalid(format!("the request's body: {error}"));
    let mut rest: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(body).map_err(wrong)?;
    let version = serde_json::from_value(rest.remove("version").unwrap_or_default()).map_err(wrong)?;
    let spec = T::SPEC.iter().filter_map(|name| rest.remove_entry(*name)).filter(|(_, value)| !value.is_null());
    let spec = serde_json::from_value(serde_json::Value::Object(spec.collect())).map_err(wrong)?;
    Ok((Region { version, spec }, serde_json::from_value(serde_json::Value::Object(rest)).map_err(wrong)?))
}

impl Region {
    pub fn request(&self, cancel: &Cancel) -> Request {
        RunOptions::with_cancel(cancel).of(self.spec.clone())
    }
}

impl Records {
    pub fn request(&self, region: &Region, cancel: &Cancel) -> Result<Request> {
        check_size(&region.spec)?;
        Ok(bounded(cancel).of(region.spec.clone()))
    }
}

impl Paths {
    /// The region that the trajectories lead through, and which of their records come back.
    pub fn requests(&self, region: &Region, cancel: &Cancel) -> Result<(Request, Request)> {
        check_size(&region.spec)?;
        let Region { spec, .. } = region.clone();
        let QuerySpec { sample, limit, columns, order_by, .. } = spec.clone();
        let through = QuerySpec { sample: None, limit: None, columns: None, order_by: None, ..spec };
        let records = QuerySpec { sample, limit, columns, order_by, ..QuerySpec::default() };
        Ok((bounded(cancel).of(through), bounded(cancel).of(records)))
    }
}

/// How a question is run that may hold many records in memory.
fn bounded(cancel: &Cancel) -> RunOptions {
    RunOptions {
        most_held: Some(MOST_HELD),
        memory_bytes: Some(SORT_MEMORY),
        most_scratch: Some(MOST_SCRATCH),
        ..RunOptions::with_cancel(cancel)
    }
}

fn check_size(spec: &QuerySpec) -> Result<()> {
    if let Some(limit) = spec.limit.filter(|limit| *limit > MOST_CHOSEN) {
        return Err(Problem::invalid(format!(
            "limit: at most {MOST_CHOSEN} records are chosen here, {limit} are asked for; sample has no such bound"
        )));
    }
    if spec.columns.as_ref().is_some_and(|columns| columns.len() > MOST_COLUMNS) {
        return Err(Problem::invalid(format!("columns: at most {MOST_COLUMNS}")));
    }
    Ok(())
}

impl Points {
    /// Checks shapes only; the engine checks names and values.
    pub fn check(&self) -> Result<()> {
        let axes = self.position.len();
        if !(1..=3).contains(&axes) {
            return Err(Problem::invalid(format!("position: one to three columns, not {axes}")));
        }
        if self.cells.is_empty() || self.cells.len() > MOST_CELLS {
            return Err(Problem::invalid(format!("cells: 1 to {MOST_CELLS}, not {}", self.cells.len())));
        }
        if self.columns.len() > 64 {
            return Err(Problem::invalid("columns: at most 64 come with points"));
        }
        for (index, cell) in self.cells.iter().enumerate() {
            let (begin, end) = cell.window;
            if !(0.0 <= begin && begin < end && end <= 1.0) {
                return Err(Problem::invalid(format!(
                    "cells[{index}]: a window is 0 <= low < high <= 1, not {begin} to {end}"
                )));
            }
            if cell.low.iter().zip(&cell.high).any(|ends| matches!(ends, (Some(low), Some(high)) if low >= high)) {
                return Err(Problem::invalid(format!("cells[{index}]: low must be below high on each axis")));
            }
            if [cell.low.len(), cell.high.len(), cell.origin.len()] != [axes; 3] {
                return Err(Problem::invalid(format!(
                    "cells[{index}]: low, high and origin need {axes} numbers each, one for each axis"
                )));
            }
        }
        for column in &self.columns {
            if column.values.as_ref().is_some_and(|values| values.len() > MOST_VALUES) {
                return Err(Problem::invalid(format!("columns: {:?}: at most {MOST_VALUES} values", column.name)));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use kubist::Value;

    use super::*;

    #[test]
    fn a_body_is_a_region_and_more() {
        let body = br#"{"box": {"x": [0, null], "name": ["a", "b"]}, "where": "y > 1", "limit": 7}"#;
        let (region, records) = parse::<Records>(body).unwrap();
        let query = records.request(&region, &Cancel::default()).unwrap().spec;
        assert_eq!(query.limit, Some(7));
        assert_eq!(query.bounds.len(), 2);
        assert_eq!(query.bounds[1].low, Some(Value::Int(0)));
        assert_eq!(query.bounds[1].high, None);
    }

    #[test]
    fn what_it_does_not_know_is_refused() {
        for body in [&br#"{"limit": 7, "boxx": {}}"#[..], b"[]", b"{", br#"{"box": {"x": [[], 1]}}"#, b"\xff"] {
            assert!(parse::<Records>(body).is_err(), "{body:?}");
        }
        let (region, records) = parse::<Records>(br#"{"limit": 99999999999}"#).unwrap();
        assert!(records.request(&region, &Cancel::default()).unwrap_err().message.contains("limit"));
    }
}
