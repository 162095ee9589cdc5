//! The schemas of all requests, each after the schemas it refers to, and example bodies.

use kubist::Query;
use serde_json::{Map, Value, json};

use crate::common::resolved;

/// Adds the engine's schemas of a query, and all its parameters in QueryRequest.
pub fn with_schemas(mut description: Value) -> Value {
    for (name, schema) in Query::schemas() {
        description["components"]["schemas"][name] = schema;
    }
    let request = &mut description["components"]["schemas"]["QueryRequest"]["properties"];
    let request = request.as_object_mut().unwrap();
    request.retain(|name, said| said["$ref"].is_null() || Query::NAMES.contains(&name.as_str()));
    for name in Query::NAMES {
        let target = format!("#/components/schemas/QuerySpec/properties/{name}");
        request.entry(*name).or_insert_with(|| json!({ "$ref": target }));
    }
    description
}

pub struct Schema {
    pub about: String,
    pub kind: Kind,
}

pub enum Kind {
    Alias(Type),
    Object(Object),
}

pub struct Object {
    pub base: Option<String>,
    pub fields: Vec<Field>,
    pub restated: Vec<Field>,
}

#[derive(Clone, PartialEq)]
pub struct Field {
    pub name: String,
    pub about: String,
    pub is_required: bool,
    pub of: Type,
}

#[derive(Clone, PartialEq)]
pub enum Type {
    Number,
    Whole,
    Text,
    Boolean,
    Null,
    Values(Vec<Value>),
    Named(String),
    Tuple(Vec<Type>),
    List(Box<Type>),
    /// Values by name; `None` for an empty map.
    Map(Option<Box<Type>>),
    Any(Vec<Type>),
}

/// Possible base types; the first one that fits is used.
const BASES: [&str; 2] = ["QuerySpec", "CountRequest"];

/// All schemas, the engine's first.
pub fn in_order(description: &Value) -> super::Schemas {
    let all = description["components"]["schemas"].as_object().unwrap();
    let first: Vec<&str> = Query::schemas().iter().map(|(name, _)| *name).collect();
    let rest = all.keys().map(String::as_str).filter(|name| !first.contains(name) && *name != "Problem");
    let names: Vec<&str> = first.iter().copied().chain(rest).collect();
    let kind = |name: &str| match all[name]["properties"].is_null() {
        true => Kind::Alias(type_of(&all[name])),
        false => Kind::Object(object(description, name)),
    };
    let about = |name: &str| all[name]["description"].as_str().unwrap().to_string();
    names.into_iter().map(|name| (name.to_string(), Schema { about: about(name), kind: kind(name) })).collect()
}

fn object(description: &Value, name: &str) -> Object {
    let of = |name: &str| fields(description, &description["components"]["schemas"][name]);
    let mut fields = of(name);
    let same = |one: &Field, other: &Field| {
        (&one.name, &one.of, one.is_required) == (&other.name, &other.of, other.is_required)
    };
    let fits = |base: &&str| *base != name && of(base).iter().all(|field| fields.iter().any(|own| same(own, field)));
    let base = BASES.into_iter().find(fits);
    let of_base = base.map(of).unwrap_or_default();
    fields.retain(|field| !of_base.contains(field));
    let (restated, fields) = fields.into_iter().partition(|own| of_base.iter().any(|field| same(own, field)));
    Object { base: base.map(String::from), fields, restated }
}

fn fields(description: &Value, said: &Value) -> Vec<Field> {
    let required =
        |name: &str| said["required"].as_array().is_some_and(|names| names.iter().any(|known| known == name));
    let field = |(name, of): (&String, &Value)| {
        let whole = resolved(description, of);
        let about = whole["description"].as_str().unwrap_or_else(|| panic!("{name}: no description"));
        let about = format!("{about}{}", range(of));
        Field { name: name.clone(), about, is_required: required(name), of: type_of(&named(description, of)) }
    };
    said["properties"].as_object().unwrap().iter().map(field).collect()
}

/// Resolves references to query fields, and keeps references to named types.
fn named(description: &Value, said: &Value) -> Value {
    match said["$ref"].as_str() {
        Some(target) if target.contains("/QuerySpec/properties/") => {
            let target = description.pointer(target.trim_start_matches('#')).unwrap();
            named(description, target)
        }
        _ => said.clone(),
    }
}

fn type_of(said: &Value) -> Type {
    if let Some(target) = said["$ref"].as_str() {
        return Type::Named(target.rsplit('/').next().unwrap().to_string());
    }
    if let Some(any) = said["anyOf"].as_array() {
        let parts = any.iter().map(type_of).flat_map(|of| match of {
            Type::Any(parts) => parts,
            other => vec![other],
        });
        return Type::Any(parts.collect());
    }
    if let Some(values) = said["enum"].as_array() {
        return Type::Values(values.clone());
    }
    let one = |name: &str| match name {
        "number" => Type::Number,
        "integer" => Type::Whole,
        "string" => Type::Text,
        "boolean" => Type::Boolean,
        "null" => Type::Null,
        "array" => match (said["minItems"].as_u64(), said["maxItems"].as_u64()) {
            (Some(least), Some(most)) if least == most => Type::Tuple(vec![type_of(&said["items"]); most as usize]),
            _ => Type::List(Box::new(type_of(&said["items"]))),
        },
        "object" => Type::Map(match &said["additionalProperties"] {
            Value::Bool(false) => None,
            of => Some(Box::new(type_of(of))),
        }),
        other => panic!("{other}: no type that is known here"),
    };
    match &said["type"] {
        Value::String(name) => one(name),
        Value::Array(names) => Type::Any(names.iter().filter_map(Value::as_str).map(one).collect()),
        _ => panic!("{said}: no type"),
    }
}

/// The allowed range of a number or a length in words, which descriptions of query fields already contain.
fn range(said: &Value) -> String {
    let words = [
        ("exclusiveMinimum", "above"),
        ("minimum", "at least"),
        ("exclusiveMaximum", "below"),
        ("maximum", "at most"),
        ("maxItems", "at most"),
    ];
    let is_declared = Query::schemas().iter().any(|(_, schema)| {
        schema["properties"].as_object().is_some_and(|fields| fields.values().any(|field| field == said))
    });
    if is_declared {
        return String::new();
    }
    let is_fixed = !said["maxItems"].is_null() && said["maxItems"] == said["minItems"];
    let ends = words.iter().filter(|(key, _)| !said[*key].is_null() && !is_fixed);
    let ends: Vec<String> = ends.map(|(key, word)| format!("{word} {}", said[*key])).collect();
    if ends.is_empty() { String::new() } else { format!(" ({})", ends.join(", ")) }
}

/// A body with a schema's required fields and `with`, which the test table can process.
pub fn example(description: &Value, schema: &Value, with: &[&str]) -> Value {
    let mut made = Map::new();
    for name in
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).chain(with.iter().copied())
    {
        made.insert(name.to_string(), value(name, &resolved(description, &schema["properties"][name])));
    }
    Value::Object(made)
}

/// An example value. Names that the schema cannot know are from the test table.
fn value(name: &str, said: &Value) -> Value {
    match name {
        "where" => json!("x > 0"),
        "region" => {
            json!({"union": [{"sphere": {"center": {"x": 0.5, "y": 0.5}, "radius": 0.25}}, {"where": "x > 0.1"}]})
        }
        "inclusion" => json!("p"),
        "by" => json!("id"),
        "position" => json!(["x", "y"]),
        "aggregates" => json!(["mean(y)"]),
        "box" => json!({"x": [0, null], "n": [[1, 12], [2, {"float": "inf"}]], "kind": ["a", "x"]}),
        "per_cell" => json!({"rows": 1, "widths": {"x": 0.1}}),
        "cells" => json!([{"low": [0, null], "high": [0.5, 1], "window": [0, 0.5], "origin": [0, 0]}]),
        "steps" => json!([null, null]),
        "window" => json!([0.25, 1]),
        "columns" => json!(["x"]),
        "order_by" => json!(["x desc", "priority"]),
        _ => match (&said["enum"], said["type"].as_str()) {
            (Value::Array(values), _) => values[0].clone(),
            (_, Some("number")) => json!(0.5),
            (_, Some("integer")) => json!(3),
            other => panic!("{name}: {other:?}"),
        },
    }
}

/// Values just outside the allowed range, and the last ones inside.
pub fn around(said: &Value) -> (Vec<Value>, Vec<Value>) {
    let (mut outside, mut inside) = (Vec::new(), Vec::new());
    let is_whole = match said["type"].as_str() {
        Some("integer") => true,
        Some("number") => false,
        _ => return (outside, inside),
    };
    let mut end = |key: &str, toward: i64, is_allowed: bool| {
        let Some(end) = said[key].as_f64() else { return };
        let beyond = if is_whole { json!(end as i64 + toward) } else { json!(end + toward as f64 * 0.01) };
        let at = if is_whole { json!(end as i64) } else { json!(end) };
        outside.push(beyond);
        (if is_allowed { &mut inside } else { &mut outside }).push(at);
    };
    end("minimum", -1, true);
    end("exclusiveMinimum", -1, false);
    end("maximum", 1, true);
    end("exclusiveMaximum", 1, false);
    (outside, inside)
}
