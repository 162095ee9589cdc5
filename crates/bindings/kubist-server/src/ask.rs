//! Parses and checks request bodies, and converts them to the engine's types.

use kubist::{Cancel, Query, Request, RunOptions};
use serde::Deserialize;

use crate::forms;
use crate::problem::{Problem, Result};

/// The most columns of a response; below, the most cells of a request and values of a column.
pub const MOST_COLUMNS: usize = 4096;
pub const MOST_CELLS: usize = 512;
pub const MOST_VALUES: usize = 256;
/// Most rows that `limit` selects in memory.
pub const MOST_CHOSEN: u64 = 5_000_000;
/// Most trajectories of a query, and most rows of `per_cell`, which needs more memory per row.
pub const MOST_HELD: u64 = 1_000_000;

/// Bytes for an `order_by` in memory, and in its scratch file.
const SORT_MEMORY: usize = 64 << 20;
const MOST_SCRATCH: u64 = 16 << 30;

/// The rows and the snapshot of a request.
#[derive(Clone, Debug, Default)]
pub struct Region {
    /// The snapshot to query; `None` for the newest.
    pub version: Option<String>,
    pub spec: Query,
}

const OF_ALL: &[&str] = &["spec", "box", "where", "region", "sample", "window", "steps"];

pub trait RequestBody: serde::de::DeserializeOwned {
    const SPEC: &'static [&'static str] = OF_ALL;
}

impl RequestBody for Records {
    const SPEC: &'static [&'static str] = Query::NAMES;
}

impl RequestBody for Paths {
    const SPEC: &'static [&'static str] =
        &["spec", "box", "where", "region", "sample", "window", "steps", "columns", "limit", "order_by"];
}

impl RequestBody for Points {}
impl RequestBody for Histograms {}
impl RequestBody for Estimates {}
impl RequestBody for Nothing {}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Records {
    #[serde(default)]
    pub format: Format,
}

/// `sample` applies to the returned rows; the rest of the region selects the trajectories.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paths {
    pub by: String,
    #[serde(default)]
    pub format: Format,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    #[default]
    Arrow,
    Csv,
    Parquet,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Points {
    /// One to three columns.
    pub position: Vec<String>,
    #[serde(default)]
    pub columns: Vec<Attribute>,
    pub cells: Vec<Cell>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attribute {
    pub name: String,
    /// Subtracted from each value before the conversion to float32.
    #[serde(default)]
    pub origin: f64,
    /// Sends each value as its index in this list, other values as -1: for strings, and for identifiers too
    /// large for a float32.
    pub values: Option<Vec<String>>,
}

/// A cell of space and priorities: `low <= position < high`, `window.0 <= priority < window.1`. A null bound is
/// open.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    pub low: Vec<Option<f64>>,
    pub high: Vec<Option<f64>>,
    pub window: (f64, f64),
    /// Subtracted from each position before the conversion to float32.
    pub origin: Vec<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Histograms {
    /// Default: the first 256 columns that can be drawn.
    pub columns: Option<Vec<String>>,
    #[serde(default = "default_bins")]
    pub bins: usize,
    /// Counts the rows of lowest priority, at most this many.
    #[serde(default = "default_limit")]
    pub limit: u64,
}

fn default_bins() -> usize {
    64
}

fn default_limit() -> u64 {
    20_000
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Estimates {
    pub aggregates: Vec<String>,
    #[serde(default)]
    pub group_by: Vec<String>,
    pub error: Option<f64>,
    pub absolute: Option<kubist::Absolute>,
    pub within: Option<f64>,
    pub max_rows: Option<u64>,
    pub max_bytes: Option<u64>,
    #[serde(default = "default_confidence")]
    pub confidence: f64,
    pub tails: Option<f64>,
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
    Arrow,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

pub fn parse<T: RequestBody>(body: &[u8]) -> Result<(Region, T)> {
    let wrong = |error: serde_json::Error| Problem::invalid(format!("wrong body of the request: {error}"));
    let mut rest: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(body).map_err(wrong)?;
    forms::normalise(&mut rest).map_err(Problem::invalid)?;
    let version = serde_json::from_value(rest.remove("version").unwrap_or_default()).map_err(wrong)?;
    let spec = T::SPEC.iter().filter_map(|name| rest.remove_entry(*name)).filter(|(_, value)| !value.is_null());
    let spec: serde_json::Map<_, _> = spec.collect();
    let spec =
        serde_json::from_value(serde_json::Value::Object(spec.clone())).map_err(|error| in_spec(&spec, error))?;
    let unknown = |error: serde_json::Error| match unknown_field::<T>(&error.to_string()) {
        Some(message) => Problem::invalid(message),
        None => wrong(error),
    };
    Ok((Region { version, spec }, serde_json::from_value(serde_json::Value::Object(rest)).map_err(unknown)?))
}

fn in_spec(spec: &serde_json::Map<String, serde_json::Value>, error: serde_json::Error) -> Problem {
    let alone = |name: &String, value: &serde_json::Value| serde_json::json!({ name.as_str(): value });
    let error = error.to_string();
    let name = spec.iter().find(|(name, value)| serde_json::from_value::<Query>(alone(name, value)).is_err());
    let message = match name {
        Some((name, _)) if !error.starts_with(name.as_str()) => format!("{name}: {error}"),
        _ => error,
    };
    Problem::invalid(format!("wrong body of the request: {message}"))
}

/// An unknown field's error with all fields of the request, because the parser knows only those outside the
/// region.
fn unknown_field<T: RequestBody>(error: &str) -> Option<String> {
    let (name, own) = error.strip_prefix("unknown field `")?.split_once('`')?;
    let own = own.split('`').skip(1).step_by(2);
    let of_region = T::SPEC.iter().copied().filter(|name| *name != "spec");
    let known: Vec<&str> = of_region.chain(["version"]).chain(own).collect();
    Some(format!("wrong body of the request: there is no field {name:?}; the fields are {}", known.join(", ")))
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
    /// The query that selects trajectories, and the query for their rows.
    pub fn requests(&self, region: &Region, cancel: &Cancel) -> Result<(Request, Request)> {
        check_size(&region.spec)?;
        let Region { spec, .. } = region.clone();
        let Query { sample, limit, columns, order_by, .. } = spec.clone();
        let through = Query { sample: None, limit: None, columns: None, order_by: None, ..spec };
        let records = Query { sample, limit, columns, order_by, ..Query::default() };
        Ok((bounded(cancel).of(through), bounded(cancel).of(records)))
    }
}

fn bounded(cancel: &Cancel) -> RunOptions {
    RunOptions {
        most_held: Some(MOST_HELD),
        memory_bytes: Some(SORT_MEMORY),
        most_scratch: Some(MOST_SCRATCH),
        ..RunOptions::with_cancel(cancel)
    }
}

fn check_size(spec: &Query) -> Result<()> {
    if let Some(limit) = spec.limit.filter(|limit| *limit > MOST_CHOSEN) {
        return Err(Problem::invalid(format!(
            "limit: at most {MOST_CHOSEN} records are chosen here, {limit} are asked for; sample has no such bound"
        )));
    }
    if spec.columns.as_ref().is_some_and(|columns| columns.len() > MOST_COLUMNS) {
        return Err(Problem::invalid(format!("columns: at most {MOST_COLUMNS} are allowed")));
    }
    Ok(())
}

impl Points {
    /// Checks shapes only; the engine checks names and values.
    pub fn check(&self) -> Result<()> {
        let axes = self.position.len();
        if !(1..=3).contains(&axes) {
            return Err(Problem::invalid(format!("position: expected one to three columns, not {axes}")));
        }
        if self.cells.is_empty() || self.cells.len() > MOST_CELLS {
            return Err(Problem::invalid(format!("cells: expected 1 to {MOST_CELLS}, not {}", self.cells.len())));
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
                return Err(Problem::invalid(format!(
                    "columns: {:?}: at most {MOST_VALUES} values are allowed",
                    column.name
                )));
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
        let message = parse::<Nothing>(br#"{"wher": "x > 1"}"#).unwrap_err().message;
        let fields = "box, where, region, sample, window, steps, version";
        assert!(message.ends_with(&format!("no field \"wher\"; the fields are {fields}")), "{message}");
        let message = parse::<Records>(br#"{"format": "csv", "wher": "x > 1"}"#).unwrap_err().message;
        assert!(message.contains("where") && message.ends_with("version, format"), "{message}");
        let (region, records) = parse::<Records>(br#"{"limit": 99999999999}"#).unwrap();
        assert!(records.request(&region, &Cancel::default()).unwrap_err().message.contains("limit"));
    }
}
