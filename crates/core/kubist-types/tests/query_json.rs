//! Queries in JSON: written, read back, and valid for their schema.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value as Json, json};

use kubist_types::{PerCell, QuerySpec, Value, Width};

fn full() -> QuerySpec {
    QuerySpec::new()
        .between("x", Value::Float(0.1), Value::Float(f64::INFINITY))
        .between("x", None, Value::Int(7))
        .between("key", Value::Int(i128::MIN), Value::Int(u64::MAX.into()))
        .between("name", Value::Text("null".into()), Value::Binary(vec![0, 255]))
        .between("wet", Value::Bool(true), Value::Null)
        .filter("y > 1")
        .region(serde_json::from_value(json!({"box": {"x": [0, null]}})).unwrap())
        .sample(0.3)
        .window(0.1, 1.0 / 3.0)
        .limit(u64::MAX)
        .per_cell(2, vec![("y".into(), Width::Number(0.5)), ("x".into(), "1 mm".into())])
        .columns(["y", "x"])
        .steps(None, 3)
        .inclusion("p")
        .order_by(["x desc", "y"])
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
fn each_name_is_written_and_read() {
    let written = serde_json::to_value(full()).unwrap();
    let names: BTreeSet<&str> = written.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, BTreeSet::from_iter(QuerySpec::NAMES.iter().copied()));
    let cell: BTreeSet<&str> = written["per_cell"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(cell, BTreeSet::from_iter(PerCell::NAMES.iter().copied()));
    let error = serde_json::from_str::<QuerySpec>(r#"{"other": 1}"#).unwrap_err().to_string();
    let listed: BTreeSet<&str> = error.split('`').skip(1).step_by(2).filter(|name| *name != "other").collect();
    assert_eq!(listed, names);
}

#[test]
fn the_schema_allows_what_is_read_and_nothing_else() {
    let schemas: BTreeMap<_, _> = QuerySpec::schemas().into_iter().collect();
    assert!(allows(&schemas, &schemas["QuerySpec"], &serde_json::to_value(full()).unwrap()));
    let values = [
        json!(1),
        json!(7),
        json!(-1),
        json!(0.5),
        json!(true),
        json!("x"),
        json!([]),
        json!({}),
        json!([0.25, 0.5]),
        json!([0, 1]),
        json!([1]),
        json!([0, 1, 2]),
        json!([null, 3]),
        json!(["x", "y"]),
        json!(["x", 1]),
        json!([[0, 1]]),
        json!({"x": [0, null]}),
        json!({"x": [[0, 1], ["a", true]]}),
        json!({"x": [0]}),
        json!({"x": []}),
        json!({"x": 1}),
        json!({"x": null}),
        json!({"x": [{"float": "inf"}, {"int": "7"}]}),
        json!({"x": [{"binary": [0, 255]}, {"null": {}}]}),
        json!({"x": [{"binary": [256]}, 1]}),
        json!({"x": [{"float": 1}, 1]}),
        json!({"x": [{"double": "1"}, 1]}),
        json!({"x": [{}, 1]}),
        json!({"x": [{"float": "1", "int": "1"}, 1]}),
        json!({"x": [[], 1]}),
        json!({"x": [[0, 1], 2]}),
        json!({"rows": 1, "widths": {"x": 0.5}}),
        json!({"sphere": {"center": {"x": 0, "y": "1 cm"}, "radius": 2}}),
        json!({"polygon": {"columns": ["x", "y"], "coordinates": [[[0, 0], [1, 0], [1, 1]]]}}),
        json!({"moc": {"cells": {"3": [1, 2]}}}),
        json!({"difference": [{"cone": {"center": [1, 2], "radius": 3}}, {"complement": {"where": "x > 1"}}]}),
        json!({"periodic": {"period": {"x": 25}, "region": {"box": {"x": [24, 26]}}}}),
        json!({"where": "x > 1", "box": {"x": [0, 1]}}),
        json!({"rows": 1}),
        json!({"widths": {"x": 0.5}}),
        json!({"rows": -1, "widths": {"x": 0.5}}),
        json!({"rows": 1, "widths": {"x": "a"}}),
        json!({"rows": 1, "widths": {"x": [0.5]}}),
        json!({"rows": 1, "widths": [0.5]}),
        json!({"rows": 1, "widths": {"x": 0.5}, "more": 1}),
    ];
    for name in QuerySpec::NAMES {
        let mut answers = [0, 0];
        for value in &values {
            let spec = json!({ *name: value });
            let read = serde_json::from_value::<QuerySpec>(spec.clone());
            assert_eq!(allows(&schemas, &schemas["QuerySpec"], &spec), read.is_ok(), "{spec}: {read:?}");
            answers[usize::from(read.is_ok())] += 1;
        }
        assert!(answers[0] > 0 && answers[1] > 0, "{name}: no value tells");
    }
}

/// Limits of real numbers depend on the table and are not checked.
fn allows(schemas: &BTreeMap<&str, Json>, schema: &Json, value: &Json) -> bool {
    let of = |schema: &Json, value: &Json| allows(schemas, schema, value);
    if let Some(target) = schema["$ref"].as_str() {
        return of(&schemas[target.strip_prefix("#/components/schemas/").unwrap()], value);
    }
    let least = |key: &str| schema[key].as_u64().unwrap_or(0) as usize;
    let most = |key: &str| schema[key].as_u64().map_or(usize::MAX, |most| most as usize);
    let kind = match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(number) if number.is_f64() => "number",
        Json::Number(_) => "integer",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    };
    let named = |name: &Json| name == kind || (name == "number" && kind == "integer");
    let is_of_type = match &schema["type"] {
        Json::Null => true,
        Json::Array(names) => names.iter().any(named),
        name => named(name),
    };
    let is_whole = schema["type"] == "integer";
    let is_inside = !is_whole
        || value.as_i64().is_none_or(|value| {
            value >= schema["minimum"].as_i64().unwrap_or(i64::MIN)
                && value <= schema["maximum"].as_i64().unwrap_or(i64::MAX)
        });
    let has_parts = match value {
        Json::Array(items) => {
            (least("minItems")..=most("maxItems")).contains(&items.len())
                && (schema["items"].is_null() || items.iter().all(|item| of(&schema["items"], item)))
        }
        Json::Object(fields) => {
            let required = schema["required"].as_array().into_iter().flatten();
            (least("minProperties")..=most("maxProperties")).contains(&fields.len())
                && required.filter_map(Json::as_str).all(|name| fields.contains_key(name))
                && fields.iter().all(|(name, value)| {
                    match (&schema["properties"][name], &schema["additionalProperties"]) {
                        (Json::Null, Json::Bool(false)) => false,
                        (Json::Null, Json::Null) => true,
                        (Json::Null, rest) => of(rest, value),
                        (field, _) => of(field, value),
                    }
                })
        }
        _ => true,
    };
    is_of_type
        && is_inside
        && has_parts
        && schema["enum"].as_array().is_none_or(|values| values.contains(value))
        && schema["anyOf"].as_array().is_none_or(|schemas| schemas.iter().any(|schema| of(schema, value)))
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
