//! The JSON forms of ranges and widths in a query, with their JSON Schemas.

pub mod end {
    use serde::{Deserialize, Serialize};
    use serde_json::{Value as Json, json};

    use crate::options::Value;

    pub fn schema() -> Json {
        json!({
            "description": "An end of a range: a number, text (ISO 8601 against dates and times, digits against \
                            decimals, a number with a unit against a column that has one) or a boolean, compared \
                            in the column's own type. null is open.",
            "anyOf": [
                {"type": ["number", "string", "boolean", "null"]},
                {"$ref": "#/components/schemas/OtherEnd"},
            ],
        })
    }

    pub fn other_schema() -> Json {
        let text = |about: &str| json!({"type": "string", "description": about});
        json!({
            "type": "object",
            "description": "An end of a range that JSON has no word for: an object with one of these keys.",
            "additionalProperties": false,
            "minProperties": 1,
            "maxProperties": 1,
            "properties": {
                "float": text("inf or -inf."),
                "int": text("An integer of more than 64 bits, in decimal digits."),
                "binary": {
                    "type": "array",
                    "items": {"type": "integer", "minimum": 0, "maximum": 255},
                    "description": "Bytes.",
                },
                "null": {
                    "type": "object",
                    "additionalProperties": false,
                    "description": "An end that is null itself: no value is inside such a range.",
                },
            },
        })
    }

    /// Values that plain JSON cannot express.
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

/// Ranges as an object: column to `[low, high]`, to a single value, or to a list of ranges.
pub mod bounds {
    use std::fmt;

    use serde::de::{Error as _, MapAccess, Visitor};
    use serde::ser::SerializeMap;
    use serde::{Deserializer, Serializer};
    use serde_json::{Value as Json, json};

    use super::end;
    use crate::query::Bound;

    pub fn schema() -> Json {
        json!({
            "type": "array",
            "minItems": 2,
            "maxItems": 2,
            "items": {"$ref": "#/components/schemas/End"},
            "description": "A closed range [low, high]. NaN and null are in no range that has an end.",
        })
    }

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
                        value => Ok([value.clone(), value]),
                    };
                    let found = |found| wrong(format!("it needs [low, high] or a value, not {found}"));
                    let [low, high] = ends.map_err(found)?;
                    let end = |json| end::of_json(json).map_err(wrong);
                    bounds.push(Bound { column: column.clone(), low: end(low)?, high: end(high)? });
                }
            }
            Ok(bounds)
        }
    }
}

/// Widths of cells as an object: dimension to width.
pub mod widths {
    use std::fmt;

    use serde::de::{MapAccess, Visitor};
    use serde::{Deserializer, Serializer};

    use crate::query::Width;

    pub fn serialize<S: Serializer>(widths: &[(String, Width)], to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(widths.iter().map(|(name, width)| (name, width)))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(String, Width)>, D::Error> {
        from.deserialize_map(Dimensions)
    }

    struct Dimensions;

    impl<'de> Visitor<'de> for Dimensions {
        type Value = Vec<(String, Width)>;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("an object: dimension to the width of a cell")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<(String, Width)>, A::Error> {
            let mut widths = Vec::new();
            while let Some(entry) = map.next_entry()? {
                widths.push(entry);
            }
            Ok(widths)
        }
    }
}
