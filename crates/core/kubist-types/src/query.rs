//! The description of a query, shared by all interfaces, with a JSON form.
//!
//! A [`QuerySpec`] says which records to return. Options of a run say how to read them: cancellation, the
//! part that one process reads, tracing. Splits and HTTP requests contain the same JSON.
//!
//! ```json
//! {"spec": 1, "box": {"x": [0.1, 0.2], "n": [null, 7]}, "where": "y > 1", "sample": 0.01}
//! ```
//!
//! A bound of a range is `null` (open), a boolean, a number or a string. Values that JSON cannot express are
//! objects with one key: `{"float": "inf"}`, `{"int": "…"}` for integers of more than 64 bits, `{"binary":
//! [0, 255]}`, `{"null": {}}`.
//!
//! These names are declared only here. [`QuerySpec::schemas`] returns them as JSON Schema, and `make
//! generate` writes the types of the other languages from it.

mod described;
mod words;

use serde::{Deserialize, Serialize};

use self::described::described;
pub use self::words::bounds;
pub(crate) use self::words::end;
use crate::options::Value;

/// Version of the JSON form. Other versions are refused.
const VERSION: u32 = 1;

/// A closed range of a box: `low <= column <= high`, compared in the column's type. `None` is an open end.
/// NaN and null are never in a range that has an end.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    pub column: String,
    pub low: Option<Value>,
    pub high: Option<Value>,
}

/// Width of a cell: a number in the column's unit, or text with a unit, such as `1 mm`.
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
    /// The records of lowest priority in every cell of a regular grid.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct PerCell requires ["rows", "widths"] {
        /// At most this many records of a cell; 1 or more.
        "rows": pub rows: u64 = {"type": "integer", "minimum": 1},
        /// Dimension to the width of a cell, above 0: a number in the column's unit, or text with
        /// a unit, as `1 mm`. Cells begin at the lower end of the dimension's domain, never at the box.
        #[serde(with = "words::widths")]
        "widths": pub widths: Vec<(String, Width)> = {
            "type": "object",
            "additionalProperties": {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string"}]},
            "minProperties": 1
        },
    }
}

described! {
    /// Which records of a snapshot are asked for; by default all of them.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct QuerySpec requires [] {
        /// The form in which this is written; 1 by default.
        "spec": pub version: SpecVersion = {"enum": [VERSION]},
        /// Closed ranges, joined by AND, on any columns: column to `[low, high]`, `null` is an
        /// open end; a single value is both ends. A column that is bounded more than once has a
        /// list of such pairs.
        #[serde(with = "words::bounds", skip_serializing_if = "Vec::is_empty")]
        "box": pub bounds: Vec<Bound> = {
            "type": "object",
            "additionalProperties": {"anyOf": [
                {"$ref": "#/components/schemas/Range"},
                {"$ref": "#/components/schemas/End"},
                {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/Range"}}
            ]}
        },
        /// In (0, 1]: only records whose priority is below it, a uniform sample of that fraction.
        #[serde(skip_serializing_if = "Option::is_none")]
        "sample": pub sample: Option<f64> = {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
        /// Only records with `low <= priority < high`, where `0 <= low < high <= 1`.
        #[serde(skip_serializing_if = "Option::is_none")]
        "window": pub window: Option<(f64, f64)> = {
            "type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "number", "minimum": 0, "maximum": 1}
        },
        /// At most this many records. With `order_by` they are the first in that order, the largest or
        /// the earliest. Without it they are those of lowest priority, a uniform sample. It comes last:
        /// `sample`, `window` and `per_cell` choose before it.
        #[serde(skip_serializing_if = "Option::is_none")]
        "limit": pub limit: Option<u64> = {"type": "integer", "minimum": 0},
        /// The order of the answer: columns, each with `asc` (the default) or `desc` behind it, or
        /// `priority`. NaN comes behind all numbers and null behind NaN, whichever the direction.
        /// Equal records follow each other by priority. Without it records come in no order, but
        /// under `limit` and `per_cell` by priority, and trajectories one after the other, each in
        /// order of time.
        #[serde(skip_serializing_if = "Option::is_none")]
        "order_by": pub order_by: Option<Vec<String>> = {"type": "array", "items": {"type": "string"}},
        /// Only the records of lowest priority in each cell of a regular grid. It applies
        /// before `order_by` and `limit`.
        #[serde(skip_serializing_if = "Option::is_none")]
        "per_cell": pub per_cell: Option<PerCell> = {"$ref": "#/components/schemas/PerCell"},
        /// The columns to return, in this order; without it all.
        #[serde(skip_serializing_if = "Option::is_none")]
        "columns": pub columns: Option<Vec<String>> = {"type": "array", "items": {"type": "string"}},
        /// An SQL condition over any columns.
        #[serde(skip_serializing_if = "Option::is_none")]
        "where": pub filter: Option<String> = {"type": "string"},
        /// Only records of complete steps in this closed range; `null` is an open end.
        #[serde(skip_serializing_if = "Option::is_none")]
        "steps": pub steps: Option<(Option<i64>, Option<i64>)> = {
            "type": "array", "minItems": 2, "maxItems": 2, "items": {"type": ["integer", "null"]}
        },
        /// The name of one more column: the probability with which each record came into the
        /// answer, whatever the others drew. It is null where a limit kept only some of several
        /// records of one priority: these have no part in an estimate.
        #[serde(skip_serializing_if = "Option::is_none")]
        "inclusion": pub inclusion: Option<String> = {"type": "string", "minLength": 1},
    }
}

impl QuerySpec {
    /// The JSON Schemas of a query, by their names below `#/components/schemas`. The OpenAPI description, the
    /// TypeScript types and the Python types are generated from them.
    pub fn schemas() -> Vec<(&'static str, serde_json::Value)> {
        vec![
            ("OtherEnd", words::end::other_schema()),
            ("End", words::end::schema()),
            ("Range", words::bounds::schema()),
            ("PerCell", PerCell::schema()),
            ("QuerySpec", QuerySpec::schema()),
        ]
    }

    /// A query for all records, which the methods below restrict.
    pub fn new() -> QuerySpec {
        QuerySpec::default()
    }

    /// Only records with `low <= column <= high`; `None` is an open end.
    pub fn between(
        mut self,
        column: impl Into<String>,
        low: impl Into<Option<Value>>,
        high: impl Into<Option<Value>>,
    ) -> QuerySpec {
        self.bounds.push(Bound { column: column.into(), low: low.into(), high: high.into() });
        self
    }

    /// Adds an SQL condition. Several conditions are joined by AND.
    pub fn filter(mut self, expression: impl Into<String>) -> QuerySpec {
        let expression = expression.into();
        self.filter = Some(match self.filter {
            Some(before) => format!("({before}) AND ({expression})"),
            None => expression,
        });
        self
    }

    /// Only records with a priority below this fraction.
    pub fn sample(self, fraction: f64) -> QuerySpec {
        QuerySpec { sample: Some(fraction), ..self }
    }

    /// Only records with a priority in `[low, high)`.
    pub fn window(self, low: f64, high: f64) -> QuerySpec {
        QuerySpec { window: Some((low, high)), ..self }
    }

    /// At most this many records: the first in the order of [`QuerySpec::order_by`], or without an order the
    /// records of lowest priority.
    pub fn limit(self, rows: u64) -> QuerySpec {
        QuerySpec { limit: Some(rows), ..self }
    }

    /// Sorts by these columns, such as `"diameter desc"`, or by `"priority"`.
    pub fn order_by<Term: Into<String>>(self, terms: impl IntoIterator<Item = Term>) -> QuerySpec {
        QuerySpec { order_by: Some(terms.into_iter().map(Into::into).collect()), ..self }
    }

    /// Only the records of lowest priority in every cell of a grid with these widths.
    pub fn per_cell<W: Into<Width>>(self, rows: u64, widths: Vec<(String, W)>) -> QuerySpec {
        let widths = widths.into_iter().map(|(column, width)| (column, width.into())).collect();
        QuerySpec { per_cell: Some(PerCell { rows, widths }), ..self }
    }

    /// Only these columns.
    pub fn columns<Name: Into<String>>(self, names: impl IntoIterator<Item = Name>) -> QuerySpec {
        QuerySpec { columns: Some(names.into_iter().map(Into::into).collect()), ..self }
    }

    /// Only rows of complete steps in a closed range.
    pub fn steps(self, low: impl Into<Option<i64>>, high: impl Into<Option<i64>>) -> QuerySpec {
        QuerySpec { steps: Some((low.into(), high.into())), ..self }
    }

    /// The number of records of lowest priority to return: `limit`, if there is no order.
    pub fn sample_rows(&self) -> Option<u64> {
        self.limit.filter(|_| self.order_by.is_none())
    }

    /// Adds a column with this name: the inclusion probability of each record.
    pub fn inclusion(self, name: impl Into<String>) -> QuerySpec {
        QuerySpec { inclusion: Some(name.into()), ..self }
    }
}

/// The version of the JSON form. There is only one.
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
