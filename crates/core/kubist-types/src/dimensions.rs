//! Dimensions of a table in JSON: `{"x": [0, 1], "y": null, "z": "quantile"}`, or a list of names, in their
//! order.
//!
//! A pair sets the domain, `null` learns it from the data, and `"quantile"` learns quantiles.

use std::fmt;

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::options::{Dimension, Domain};
use crate::query::end;

impl<'de> Deserialize<'de> for Domain {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Domain, D::Error> {
        use serde_json::Value as Json;
        let json = Json::deserialize(from)?;
        let wrong = || D::Error::custom(format!("{json} is neither null, [low, high] nor \"quantile\""));
        match &json {
            Json::Null => Ok(Domain::Learned),
            Json::String(kind) if kind == "quantile" => Ok(Domain::Quantile),
            Json::Array(ends) if ends.len() == 2 => {
                let end_of = |json: &Json| end::of_json(json.clone()).map_err(D::Error::custom);
                match (end_of(&ends[0])?, end_of(&ends[1])?) {
                    (Some(low), Some(high)) => Ok(Domain::Linear(low, high)),
                    _ => Err(wrong()),
                }
            }
            _ => Err(wrong()),
        }
    }
}

/// # Errors
///
/// The error names the dimension that occurs twice or whose domain is invalid.
pub fn dimensions_from_json<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Dimension>, D::Error> {
    struct Dimensions;
    impl<'de> Visitor<'de> for Dimensions {
        type Value = Vec<Dimension>;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("dimensions: names with their domains, or a list of names")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<Dimension>, A::Error> {
            let mut dimensions: Vec<Dimension> = Vec::new();
            while let Some(column) = map.next_key::<String>()? {
                if dimensions.iter().any(|other| other.column == column) {
                    return Err(A::Error::custom(format!("{column:?} is there twice")));
                }
                let named = |why: A::Error| A::Error::custom(format!("dimension {column:?}: {why}"));
                let domain = map.next_value().map_err(named)?;
                dimensions.push(Dimension { column, domain });
            }
            Ok(dimensions)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<Dimension>, A::Error> {
            let mut dimensions = Vec::new();
            while let Some(column) = list.next_element::<String>()? {
                dimensions.push(Dimension::learned(column));
            }
            Ok(dimensions)
        }
    }
    from.deserialize_any(Dimensions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Value;

    fn read(text: &str) -> Result<Vec<Dimension>, String> {
        dimensions_from_json(&mut serde_json::Deserializer::from_str(text)).map_err(|error| error.to_string())
    }

    #[test]
    fn dimensions_keep_their_order_and_say_their_domains() {
        let found = read(r#"{"z": "quantile", "x": [0, 0.5], "a": null, "t": ["2024-01-01", "2024-01-02"]}"#).unwrap();
        let domain = |low: Value, high: Value| Domain::Linear(low, high);
        let text = |text: &str| Value::Text(text.into());
        let expected = [
            ("z", Domain::Quantile),
            ("x", domain(Value::Int(0), Value::Float(0.5))),
            ("a", Domain::Learned),
            ("t", domain(text("2024-01-01"), text("2024-01-02"))),
        ];
        let expected = expected.map(|(column, domain)| Dimension { column: column.into(), domain });
        assert_eq!(found, expected);
        assert_eq!(read(r#"["y", "x"]"#).unwrap(), ["y", "x"].map(Dimension::learned));
    }

    #[test]
    fn a_wrong_domain_is_named() {
        for (text, part) in [
            (r#"{"x": "even"}"#, "dimension \"x\": \"even\" is neither null"),
            (r#"{"x": [0]}"#, "dimension \"x\": [0] is neither null"),
            (r#"{"x": [0, null]}"#, "neither null"),
            (r#"{"x": null, "x": [0, 1]}"#, "\"x\" is there twice"),
            ("7", "names with their domains"),
        ] {
            assert!(read(text).unwrap_err().contains(part), "{text}: {:?}", read(text));
        }
    }
}
