//! The description of a query, shared by all interfaces, with a JSON form.
//!
//! A [`QuerySpec`] says which records to return; options of a run say how to read them, for example in parts.
//! Splits and HTTP requests contain the same JSON.
//!
//! ```json
//! {"spec": 1, "box": {"x": [0.1, 0.2], "n": [null, 7]}, "where": "y > 1", "sample": 0.01}
//! ```
//!
//! A bound of a range is `null` (open), a boolean, a number or a string. Values that JSON cannot express are
//! objects with one key: `{"float": "inf"}`, `{"int": "…"}` for integers of more than 64 bits, `{"binary": [0,
//! 255]}`, `{"null": {}}`.
//!
//! [`QuerySpec::schemas`] returns these names as JSON Schema, from which `make generate` writes the types of
//! other languages.

mod described;
mod words;

use serde::{Deserialize, Serialize};

use self::described::described;
pub use self::words::bounds;
pub(crate) use self::words::end;
use crate::options::Value;
pub use kubist_region::{Region, wrapped};

/// Other versions are refused.
const VERSION: u32 = 1;

/// A closed range, compared in the column's type. `None` is an open bound. NaN and null are in no range with a
/// bound.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    pub column: String,
    pub low: Option<Value>,
    pub high: Option<Value>,
}

/// The width of a cell: a number in the column's unit, or text with a unit, such as `1 mm`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Width {
    Number(f64),
    Text(String),
}

impl From<f64> for Width {
    fn from(number: f64) -> Width {
        Width::Number(number)
    }
}

impl From<&str> for Width {
    fn from(text: &str) -> Width {
        Width::Text(text.into())
    }
}

described! {
    /// The records of lowest priority in each cell of a regular grid.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct PerCell requires ["rows", "widths"] {
        /// The maximum number of records of a cell, 1 or more.
        "rows": pub rows: u64 = {"type": "integer", "minimum": 1},
        /// The width of a cell by dimension, above 0: a number in the column's unit, or text with a unit,
        /// such as `1 mm`. Cells start at the lower bound of the dimension's domain and do not depend on the box.
        #[serde(with = "words::widths")]
        "widths": pub widths: Vec<(String, Width)> = {
            "type": "object",
            "additionalProperties": {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string"}]},
            "minProperties": 1
        },
    }
}

described! {
    /// The records of a snapshot to return; by default all.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct QuerySpec requires [] {
        /// The version of this form; 1 by default.
        "spec": pub version: SpecVersion = {"enum": [VERSION]},
        /// Closed ranges on any columns, joined by AND. Each column has a pair `[low, high]`, where `null` is
        /// an open bound, a single value, or a list of pairs.
        #[serde(with = "words::bounds", skip_serializing_if = "Vec::is_empty")]
        "box": pub bounds: Vec<Bound> = {
            "type": "object",
            "additionalProperties": {"anyOf": [
                {"$ref": "#/components/schemas/Range"},
                {"$ref": "#/components/schemas/End"},
                {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/Range"}}
            ]}
        },
        /// A fraction in (0, 1]: only records with a priority below it, which are a uniform sample.
        #[serde(skip_serializing_if = "Option::is_none")]
        "sample": pub sample: Option<f64> = {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
        /// Only records with `low <= priority < high`, where `0 <= low < high <= 1`.
        #[serde(skip_serializing_if = "Option::is_none")]
        "window": pub window: Option<(f64, f64)> = {
            "type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "number", "minimum": 0, "maximum": 1}
        },
        /// The maximum number of records, applied after `sample`, `window` and `per_cell`. With `order_by` it
        /// keeps the first records in that order. Without it, it keeps the records of lowest priority, which
        /// are a uniform sample.
        #[serde(skip_serializing_if = "Option::is_none")]
        "limit": pub limit: Option<u64> = {"type": "integer", "minimum": 0},
        /// The order of the result: columns, each optionally followed by `asc` (the default) or `desc`, or
        /// `priority`. NaN comes after all numbers and null after NaN, in both directions. Priority orders
        /// equal records. Without an order, results of `limit` and `per_cell` are ordered by priority,
        /// trajectories by time, and other records not at all.
        #[serde(skip_serializing_if = "Option::is_none")]
        "order_by": pub order_by: Option<Vec<String>> = {"type": "array", "items": {"type": "string"}},
        /// Only the records of lowest priority in each cell of a regular grid. It applies before `order_by`
        /// and `limit`.
        #[serde(skip_serializing_if = "Option::is_none")]
        "per_cell": pub per_cell: Option<PerCell> = {"$ref": "#/components/schemas/PerCell"},
        /// The columns and expressions to return, in this order; without it all columns. `AS` names
        /// an expression, as in `sqrt(vx*vx + vy*vy) AS speed`; without a name it has its own text.
        /// `*` stands for all columns.
        #[serde(skip_serializing_if = "Option::is_none")]
        "columns": pub columns: Option<Vec<String>> = {"type": "array", "items": {"type": "string"}},
        /// An SQL condition over any columns.
        #[serde(skip_serializing_if = "Option::is_none")]
        "where": pub filter: Option<String> = {"type": "string"},
        /// A region of space or of the sky, as docs/regions.md describes it. Rows outside of it are not returned.
        #[serde(skip_serializing_if = "Option::is_none")]
        "region": pub region: Option<Region> = {"$ref": "#/components/schemas/Region"},
        /// A closed range of steps, where `null` is an open bound. Only records of complete steps are
        /// returned.
        #[serde(skip_serializing_if = "Option::is_none")]
        "steps": pub steps: Option<(Option<i64>, Option<i64>)> = {
            "type": "array", "minItems": 2, "maxItems": 2, "items": {"type": ["integer", "null"]}
        },
        /// The name of an additional column with the probability that each record is selected, independently
        /// of all others. It is null if a limit kept only some of the records that share a priority;
        /// estimates leave these out.
        #[serde(skip_serializing_if = "Option::is_none")]
        "inclusion": pub inclusion: Option<String> = {"type": "string", "minLength": 1},
    }
}

impl QuerySpec {
    /// The JSON Schemas of a query, by name below `#/components/schemas`, for OpenAPI, TypeScript and Python.
    pub fn schemas() -> Vec<(&'static str, serde_json::Value)> {
        vec![
            ("OtherEnd", words::end::other_schema()),
            ("End", words::end::schema()),
            ("Range", words::bounds::schema()),
            ("PerCell", PerCell::schema()),
            ("Region", kubist_region::schema()),
            ("QuerySpec", QuerySpec::schema()),
        ]
    }

    pub fn new() -> QuerySpec {
        QuerySpec::default()
    }

    /// Adds a closed range; `None` is an open bound.
    pub fn between(
        mut self,
        column: impl Into<String>,
        low: impl Into<Option<Value>>,
        high: impl Into<Option<Value>>,
    ) -> QuerySpec {
        self.bounds.push(Bound { column: column.into(), low: low.into(), high: high.into() });
        self
    }

    /// Adds an SQL condition, joined with others by AND.
    pub fn filter(mut self, expression: impl Into<String>) -> QuerySpec {
        let expression = expression.into();
        self.filter = Some(match self.filter {
            Some(before) => format!("({before}) AND ({expression})"),
            None => expression,
        });
        self
    }

    pub fn region(self, region: Region) -> QuerySpec {
        QuerySpec { region: Some(region), ..self }
    }

    pub fn sample(self, fraction: f64) -> QuerySpec {
        QuerySpec { sample: Some(fraction), ..self }
    }

    pub fn window(self, low: f64, high: f64) -> QuerySpec {
        QuerySpec { window: Some((low, high)), ..self }
    }

    /// At most this many records: the first in the order of [`QuerySpec::order_by`], or else those of lowest
    /// priority.
    pub fn limit(self, rows: u64) -> QuerySpec {
        QuerySpec { limit: Some(rows), ..self }
    }

    /// Sorts by columns, such as `"diameter desc"`, or by `"priority"`.
    pub fn order_by<Term: Into<String>>(self, terms: impl IntoIterator<Item = Term>) -> QuerySpec {
        QuerySpec { order_by: Some(terms.into_iter().map(Into::into).collect()), ..self }
    }

    /// Only the records of lowest priority in every cell of a grid with these widths.
    pub fn per_cell<W: Into<Width>>(self, rows: u64, widths: Vec<(String, W)>) -> QuerySpec {
        let widths = widths.into_iter().map(|(column, width)| (column, width.into())).collect();
        QuerySpec { per_cell: Some(PerCell { rows, widths }), ..self }
    }

    pub fn columns<Name: Into<String>>(self, names: impl IntoIterator<Item = Name>) -> QuerySpec {
        QuerySpec { columns: Some(names.into_iter().map(Into::into).collect()), ..self }
    }

    /// Only rows of complete steps in a closed range.
    pub fn steps(self, low: impl Into<Option<i64>>, high: impl Into<Option<i64>>) -> QuerySpec {
        QuerySpec { steps: Some((low.into(), high.into())), ..self }
    }

    /// The `limit` of a query without an order: the number of records of lowest priority to return.
    pub fn sample_rows(&self) -> Option<u64> {
        self.limit.filter(|_| self.order_by.is_none())
    }

    pub fn inclusion(self, name: impl Into<String>) -> QuerySpec {
        QuerySpec { inclusion: Some(name.into()), ..self }
    }
}

/// The version of the JSON form; only 1 exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct SpecVersion;

impl From<SpecVersion> for u32 {
    fn from(_: SpecVersion) -> u32 {
        VERSION
    }
}

impl TryFrom<u32> for SpecVersion {
    type Error = String;

    fn try_from(found: u32) -> Result<SpecVersion, String> {
        match found {
            VERSION => Ok(SpecVersion),
            other => Err(format!("spec: this version of Kubist reads form {VERSION} of a query, not {other}")),
        }
    }
}
