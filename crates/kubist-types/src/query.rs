//! What is asked of a table: one description for all doors, which can be written as JSON.
//!
//! A [`QuerySpec`] says which records are meant and nothing about how they are read: who may
//! cancel, which part of it one process reads and what is traced are options of a run. The
//! same JSON is part of a split, and its names are those of a request over HTTP.
//!
//! ```json
//! {"spec": 1, "box": {"x": [0.1, 0.2], "n": [null, 7]}, "where": "y > 1", "precision": 0.01}
//! ```
//!
//! An end of a box is `null` where it is open, a boolean, a number or text. What JSON has no
//! word for is an object with one key: `{"float": "inf"}`, `{"int": "…"}` for integers of
//! more than 64 bits, `{"binary": [0, 255]}`, `{"null": {}}`. A column that is bounded more
//! than once has a list of such pairs, joined by AND.

use serde::{Deserialize, Serialize};

use crate::options::Value;

/// The number of the form below. What a later one says is refused, never half understood.
const VERSION: u32 = 1;

/// One closed range of a box: `low <= column <= high`, compared in the
/// column's own type. A missing end is open; NaN and null are never inside a
/// range that has an end.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    pub column: String,
    pub low: Option<Value>,
    pub high: Option<Value>,
}

/// The `rows` lowest priorities in every cell of a regular grid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerCell {
    pub rows: u64,
    /// Dimension and cell width, in the column's unit; anchored to the lower
    /// end of the dimension's domain, never to the box.
    #[serde(with = "widths")]
    pub widths: Vec<(String, f64)>,
}

/// Which records of a snapshot are asked for. The default asks for everything.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QuerySpec {
    /// The form in which it is written.
    #[serde(rename = "spec")]
    pub version: SpecVersion,
    /// Closed ranges, joined by AND; on columns that are no dimension too.
    #[serde(rename = "box", with = "bounds", skip_serializing_if = "Vec::is_empty")]
    pub bounds: Vec<Bound>,
    /// In (0, 1]: only records whose priority is below it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<f64>,
    /// Only records with `lo <= priority < hi`, `0 <= lo < hi <= 1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<(f64, f64)>,
    /// Only this number of the records that are left: those of lowest priority, in ascending order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Applied before `limit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_cell: Option<PerCell>,
    /// The columns to return, in this order; `None`: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub columns: Option<Vec<String>>,
    /// An SQL boolean expression over the columns.
    #[serde(rename = "where", skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Only rows of complete steps in this closed range; a missing end is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<(Option<i64>, Option<i64>)>,
    /// The name of one more column: the probability with which each record came into the
    /// answer, whatever the others drew. Null where a limit kept only some of several
    /// records of one priority: these have no part in an estimate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inclusion: Option<String>,
}

impl QuerySpec {
    /// The names of all that it can say, as they stand in JSON.
    pub const NAMES: [&str; 10] =
        ["spec", "box", "precision", "window", "limit", "per_cell", "columns", "where", "steps", "inclusion"];

    /// Everything, to be restricted by the methods below.
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

    /// Only records for which this SQL expression holds, beside the conditions set before.
    pub fn filter(mut self, expression: impl Into<String>) -> QuerySpec {
        let expression = expression.into();
        self.filter = Some(match self.filter {
            Some(before) => format!("({before}) AND ({expression})"),
            None => expression,
        });
        self
    }

    /// Only records with a priority below it.
    pub fn precision(self, precision: f64) -> QuerySpec {
        QuerySpec { precision: Some(precision), ..self }
    }

    /// Only records with a priority in `[low, high)`.
    pub fn window(self, low: f64, high: f64) -> QuerySpec {
        QuerySpec { window: Some((low, high)), ..self }
    }

    /// Only this number of records: those of lowest priority.
    pub fn limit(self, rows: u64) -> QuerySpec {
        QuerySpec { limit: Some(rows), ..self }
    }

    /// Only the lowest priorities of every cell of a grid with these widths.
    pub fn per_cell(self, rows: u64, widths: Vec<(String, f64)>) -> QuerySpec {
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

    /// One more column of this name: the probability of each record.
    pub fn inclusion(self, name: impl Into<String>) -> QuerySpec {
        QuerySpec { inclusion: Some(name.into()), ..self }
    }
}

/// The form in which a [`QuerySpec`] is written: the only one that there is.
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

/// An end of a range as JSON has it.
mod end {
    use serde::{Deserialize, Serialize};
    use serde_json::Value as Json;

    use crate::options::Value;

    /// What JSON has no word for.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "lowercase", deny_unknown_fields)]
    enum Other {
        Null {},
        Int(String),
        Float(String),
        Binary(Vec<u8>),
    }

    pub fn to_json(end: Option<&Value>) -> Json {
        let of_integer = |value: i128| {
            let signed = i64::try_from(value).map(Json::from);
            signed.or_else(|_| u64::try_from(value).map(Json::from)).ok()
        };
        let other = match end {
            None => return Json::Null,
            Some(Value::Bool(value)) => return Json::Bool(*value),
            Some(Value::Text(text)) => return Json::String(text.clone()),
            Some(Value::Float(value)) if value.is_finite() => return Json::from(*value),
            Some(Value::Float(value)) => Other::Float(value.to_string()),
            Some(Value::Int(value)) => match of_integer(*value) {
                Some(number) => return number,
                None => Other::Int(value.to_string()),
            },
            Some(Value::Binary(bytes)) => Other::Binary(bytes.clone()),
            Some(Value::Null) => Other::Null {},
        };
        serde_json::to_value(other).unwrap_or_default()
    }

    pub fn of_json(json: Json) -> Result<Option<Value>, String> {
        let wrong = |json: &Json| format!("an end of a range is a number, text or a boolean, not {json}");
        Ok(Some(match json {
            Json::Null => return Ok(None),
            Json::Bool(value) => Value::Bool(value),
            Json::String(text) => Value::Text(text),
            Json::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
                (Some(whole), ..) => Value::Int(whole.into()),
                (_, Some(whole), _) => Value::Int(whole.into()),
                (_, _, Some(real)) => Value::Float(real),
                _ => return Err("a number that fits no type".into()),
            },
            json @ Json::Object(_) => match serde_json::from_value(json.clone()).map_err(|_| wrong(&json))? {
                Other::Null {} => Value::Null,
                Other::Int(digits) => Value::Int(digits.parse().map_err(|_| wrong(&json))?),
                Other::Float(digits) => Value::Float(digits.parse().map_err(|_| wrong(&json))?),
                Other::Binary(bytes) => Value::Binary(bytes),
            },
            json => return Err(wrong(&json)),
        }))
    }
}

/// Ranges as an object: column to `[low, high]`, or to a list of such.
mod bounds {
    use std::fmt;

    use serde::de::{Error as _, MapAccess, Visitor};
    use serde::ser::SerializeMap;
    use serde::{Deserializer, Serializer};
    use serde_json::{Value as Json, json};

    use super::{Bound, end};

    pub fn serialize<S: Serializer>(bounds: &[Bound], to: S) -> Result<S::Ok, S::Error> {
        let mut columns: Vec<&str> = Vec::new();
        for bound in bounds {
            if !columns.contains(&bound.column.as_str()) {
                columns.push(&bound.column);
            }
        }
        let mut map = to.serialize_map(Some(columns.len()))?;
        for column in columns {
            let of_column = bounds.iter().filter(|bound| bound.column == column);
            let mut ranges: Vec<Json> = of_column
                .map(|bound| json!([end::to_json(bound.low.as_ref()), end::to_json(bound.high.as_ref())]))
                .collect();
            match ranges.len() {
                1 => map.serialize_entry(column, &ranges.remove(0))?,
                _ => map.serialize_entry(column, &ranges)?,
            }
        }
        map.end()
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Bound>, D::Error> {
        from.deserialize_map(Columns)
    }

    struct Columns;

    impl<'de> Visitor<'de> for Columns {
        type Value = Vec<Bound>;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("an object: column to [low, high]")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<Bound>, A::Error> {
            let mut bounds = Vec::new();
            while let Some((column, json)) = map.next_entry::<String, Json>()? {
                let wrong = |why: String| A::Error::custom(format!("box: {column:?}: {why}"));
                let ranges = match json {
                    Json::Array(ranges) if !ranges.is_empty() && ranges.iter().all(Json::is_array) => ranges,
                    range => vec![range],
                };
                for range in ranges {
                    let ends = match range {
                        Json::Array(ends) => <[Json; 2]>::try_from(ends).map_err(|ends| ends.len().to_string()),
                        other => Err(other.to_string()),
                    };
                    let [low, high] = ends.map_err(|found| wrong(format!("it needs [low, high], not {found}")))?;
                    let end = |json| end::of_json(json).map_err(wrong);
                    bounds.push(Bound { column: column.clone(), low: end(low)?, high: end(high)? });
                }
            }
            Ok(bounds)
        }
    }
}

/// Widths of cells as an object: dimension to width.
mod widths {
    use std::fmt;

    use serde::de::{MapAccess, Visitor};
    use serde::{Deserializer, Serializer};

    pub fn serialize<S: Serializer>(widths: &[(String, f64)], to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(widths.iter().map(|(name, width)| (name, width)))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(String, f64)>, D::Error> {
        from.deserialize_map(Dimensions)
    }

    struct Dimensions;

    impl<'de> Visitor<'de> for Dimensions {
        type Value = Vec<(String, f64)>;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("an object: dimension to the width of a cell")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<(String, f64)>, A::Error> {
            let mut widths = Vec::new();
            while let Some(entry) = map.next_entry()? {
                widths.push(entry);
            }
            Ok(widths)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> QuerySpec {
        QuerySpec::new()
            .between("x", Value::Float(0.1), Value::Float(f64::INFINITY))
            .between("x", None, Value::Int(7))
            .between("key", Value::Int(i128::MIN), Value::Int(u64::MAX.into()))
            .between("name", Value::Text("null".into()), Value::Binary(vec![0, 255]))
            .between("wet", Value::Bool(true), Value::Null)
            .filter("y > 1")
            .precision(0.3)
            .window(0.1, 1.0 / 3.0)
            .limit(u64::MAX)
            .per_cell(2, vec![("y".into(), 0.5), ("x".into(), 0.25)])
            .columns(["y", "x"])
            .steps(None, 3)
            .inclusion("p")
    }

    #[test]
    fn what_is_written_is_read_back() {
        for spec in [QuerySpec::new(), full()] {
            let text = serde_json::to_string(&spec).unwrap();
            assert_eq!(serde_json::from_str::<QuerySpec>(&text).unwrap(), spec, "{text}");
        }
        assert_eq!(serde_json::to_string(&QuerySpec::new()).unwrap(), r#"{"spec":1}"#);
        assert_eq!(serde_json::from_str::<QuerySpec>("{}").unwrap(), QuerySpec::new());
    }

    #[test]
    fn its_names_are_those_of_its_fields() {
        let written = serde_json::to_value(full()).unwrap();
        let mut names = QuerySpec::NAMES.map(String::from);
        names.sort();
        assert!(written.as_object().unwrap().keys().eq(names.iter()));
    }

    #[test]
    fn what_it_does_not_know_is_refused() {
        for (text, why) in [
            (r#"{"spec": 2}"#, "form 1"),
            (r#"{"boxx": {}}"#, "boxx"),
            (r#"{"box": {"x": [0]}}"#, "[low, high]"),
            (r#"{"box": {"x": [[], 1]}}"#, "an end of a range"),
            (r#"{"box": {"x": [{"float": "much"}, 1]}}"#, "an end of a range"),
            (r#"{"box": {"x": [{"double": "1"}, 1]}}"#, "an end of a range"),
            (r#"{"per_cell": {"rows": 1, "widths": {}, "more": 1}}"#, "more"),
        ] {
            let error = serde_json::from_str::<QuerySpec>(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
