//! Query parameters are declared once, next to `Query`. From them come the schemas of the HTTP interface, the
//! page's types, Python's typed dictionaries and Java's class. `make generate` runs this test with UPDATE=1 to
//! write them; otherwise the test compares. openapi.json declares fields of other requests.

mod generate;
mod java;
mod python;
mod typescript;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::common::{resolved, world};
use generate::Schema;
use kubist::Query;
use kubist_server::{DESCRIPTION, Options};
use serde_json::{Value, json};

const QUESTIONS: [(&str, &str); 6] = [
    ("query", "QueryRequest"),
    ("trajectories", "TrajectoriesRequest"),
    ("count", "CountRequest"),
    ("histogram", "HistogramRequest"),
    ("points", "PointsRequest"),
    ("estimate", "EstimateRequest"),
];

fn description() -> Value {
    serde_json::from_str(DESCRIPTION).unwrap()
}

#[test]
fn what_is_generated_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let described = generate::with_schemas(description());
    let schemas = generate::in_order(&described);
    let files = [
        (
            "crates/bindings/kubist-server/src/openapi.json",
            format!("{}\n", serde_json::to_string_pretty(&described).unwrap()),
        ),
        ("viewer/src/generated/query.ts", typescript::file(&schemas)),
        ("python/kubist/_spec.py", python::file(&schemas)),
        ("python/kubist/_asked.py", python::asked(&schemas)),
        ("spark/core/src/main/java/org/kubist/Query.java", java::file(&schemas)),
    ];
    for (file, made) in files {
        let path = root.join(file);
        if std::env::var_os("UPDATE").is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &made).unwrap();
        }
        let kept = fs::read_to_string(&path).unwrap_or_default();
        assert!(kept == made, "{file} is not what the declaration of a query says: make generate");
    }
}

fn names(schema: &Value) -> BTreeSet<String> {
    assert_eq!(schema["additionalProperties"], false);
    schema["properties"].as_object().unwrap().keys().cloned().collect()
}

#[test]
fn each_question_says_of_its_records_what_a_query_can_say() {
    let description = description();
    let spec: BTreeSet<String> = Query::NAMES.iter().map(|name| name.to_string()).collect();
    let of_all = ["spec", "box", "where", "region", "sample", "window", "steps"];
    for (question, schema) in QUESTIONS {
        let path = format!("/v1/tables/{{table}}/{question}");
        let body = &description["paths"][&path]["post"]["requestBody"]["content"]["application/json"]["schema"];
        assert_eq!(body["$ref"], format!("#/components/schemas/{schema}"));
        let schema = &description["components"]["schemas"][schema];
        let known = names(schema);
        assert!(of_all.iter().all(|name| known.contains(*name)), "{question}: {known:?}");
        for (name, said) in schema["properties"].as_object().unwrap() {
            let is_query =
                said["$ref"].as_str().is_some_and(|target| target.ends_with(&format!("QuerySpec/properties/{name}")));
            // A histogram's `columns` and `limit` have another meaning, and columns of points have origins.
            assert!(
                is_query
                    || !spec.contains(name)
                    || matches!((question, &name[..]), ("histogram", "columns" | "limit") | ("points", "columns"))
            );
        }
        if question == "query" {
            assert!(known.is_superset(&spec));
        }
    }
}

fn known_to_the_server(world: &crate::common::World, question: &str, body: &Value) -> BTreeSet<String> {
    let mut body = body.clone();
    body["unheard_of"] = json!(1);
    let reply = world.post(&format!("/v1/tables/run/{question}"), &body);
    assert_eq!(reply.status, 400, "{question}");
    let message = reply.json()["error"]["message"].as_str().unwrap().to_string();
    assert!(message.contains("unheard_of"), "{message}");
    let (_, fields) = message.split_once("the fields are ").unwrap_or_else(|| panic!("{message}"));
    fields.split(", ").map(String::from).collect()
}

#[test]
fn the_server_knows_the_names_of_the_description_and_no_others() {
    let description = description();
    let world = world(500, Options::default());
    for (question, schema) in QUESTIONS {
        let schema = &description["components"]["schemas"][schema];
        let body = generate::example(&description, schema, &[]);
        let reply = world.post(&format!("/v1/tables/run/{question}"), &body);
        assert_eq!(reply.status, 200, "{question} {body}: {:?}", String::from_utf8_lossy(&reply.body));
        // A query needs no version of its language.
        let described: BTreeSet<String> = names(schema).into_iter().filter(|name| name != "spec").collect();
        assert_eq!(known_to_the_server(&world, question, &body), described, "{question}");
        for required in schema["required"].as_array().unwrap() {
            let mut without = body.clone();
            without.as_object_mut().unwrap().remove(required.as_str().unwrap());
            assert_eq!(
                world.post(&format!("/v1/tables/run/{question}"), &without).status,
                400,
                "{question}: {required}"
            );
        }
        let is_of_query = |name: &str| {
            let target = schema["properties"][name]["$ref"].as_str();
            target.is_some_and(|target| target.contains("/QuerySpec/")) && name != "version"
        };
        for name in names(schema).into_iter().filter(|name| is_of_query(name)) {
            let body = generate::example(&description, schema, &[&name]);
            let reply = world.post(&format!("/v1/tables/run/{question}"), &body);
            assert_eq!(reply.status, 200, "{question} {body}: {:?}", String::from_utf8_lossy(&reply.body));
        }
    }
}

#[test]
fn numbers_outside_of_the_ranges_described_are_refused() {
    let description = description();
    let world = world(500, Options::default());
    let (mut ends, mut wrong) = (0, Vec::new());
    for (question, schema) in QUESTIONS {
        let schema = &description["components"]["schemas"][schema];
        for (name, said) in schema["properties"].as_object().unwrap() {
            let said = resolved(&description, said);
            let (outside, inside) = generate::around(&said);
            for (value, status) in
                outside.into_iter().map(|value| (value, 400)).chain(inside.into_iter().map(|value| (value, 200)))
            {
                let mut body = generate::example(&description, schema, &[]);
                body[name] = value;
                let reply = world.post(&format!("/v1/tables/run/{question}"), &body);
                if reply.status != status {
                    wrong.push(format!("{question} {body}: {} {}", reply.status, String::from_utf8_lossy(&reply.body)));
                }
                ends += 1;
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(ends > 40, "{ends}");
}

type Schemas = Vec<(String, Schema)>;
