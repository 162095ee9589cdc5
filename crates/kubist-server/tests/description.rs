//! The description of the interface and the page's types say what a query can say, in the
//! same words.

use std::collections::BTreeSet;

use kubist::QuerySpec;
use kubist_server::DESCRIPTION;
use serde_json::Value;

/// The names that a request's body may have.
fn described(question: &str) -> BTreeSet<String> {
    let description: Value = serde_json::from_str(DESCRIPTION).unwrap();
    let path = format!("/v1/tables/{{table}}/{question}");
    let schema = &description["paths"][path.as_str()]["post"]["requestBody"]["content"]["application/json"]["schema"];
    assert_eq!(schema["additionalProperties"], false, "{question}");
    schema["properties"].as_object().unwrap().keys().cloned().collect()
}

fn spec() -> BTreeSet<String> {
    QuerySpec::NAMES.map(String::from).into()
}

fn and<const COUNT: usize>(mut names: BTreeSet<String>, more: [&str; COUNT]) -> BTreeSet<String> {
    names.extend(more.map(String::from));
    names
}

#[test]
fn the_description_says_what_a_query_can_say() {
    assert_eq!(described("query"), and(spec(), ["version", "format"]));
    // The others say of their records what all of them can.
    let of_all = described("count");
    assert_eq!(of_all, ["version", "spec", "box", "where", "precision", "window", "steps"].map(String::from).into());
    for question in ["trajectories", "points", "histogram", "estimate"] {
        assert!(described(question).is_superset(&of_all), "{question}");
    }
}

#[test]
fn a_query_in_the_words_of_the_description_is_read() {
    // What the description names with a value of its own form, field by field.
    let written_by_hand = serde_json::json!({
        "spec": 1, "box": {"x": [0, null], "n": [[1, 2], [2, {"float": "inf"}]]}, "where": "x > 0",
        "precision": 0.5, "window": [0, 1], "steps": [null, 3], "columns": ["x"], "limit": 3,
        "per_cell": {"rows": 1, "widths": {"x": 0.1}}, "inclusion": "p",
    });
    assert_eq!(written_by_hand.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>(), spec());
    let query: QuerySpec = serde_json::from_value(written_by_hand.clone()).unwrap();
    let written = serde_json::to_value(query).unwrap();
    assert_eq!(written.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>(), spec());
    assert_eq!(written["box"], written_by_hand["box"]);
}

#[test]
fn the_page_asks_in_the_same_words() {
    let source = include_str!("../../../viewer/src/api.ts");
    let (_, rest) = source.split_once("export interface Region {").unwrap();
    let (fields, _) = rest.split_once('}').unwrap();
    let names = fields.lines().filter_map(|line| line.trim().split_once("?:")).map(|(name, _)| name.to_string());
    let (names, known) = (names.collect::<BTreeSet<_>>(), described("count"));
    assert!(names.len() >= 4 && names.is_subset(&known), "{names:?}");
}
