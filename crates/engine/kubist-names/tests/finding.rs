//! Conditions and words.

use kubist_names::{New, Scalar, Search};

use crate::{new, run, site};

#[test]
fn conditions_follow_three_values_and_any_value_of_a_property() {
    let mut catalogue = site("find");
    let params = [
        ("Re".to_owned(), Scalar::Text("high".into())),
        ("tag".to_owned(), Scalar::Number(1.0)),
        ("on".to_owned(), Scalar::Bool(true)),
    ];
    catalogue
        .add(&[
            run("airway/run-1", "final", 1500.0),
            New {
                tags: vec!["final".into(), "draft".into()],
                owner: Some("Ada".into()),
                ..run("airway/run-2", "final", 2500.0)
            },
            New { note: Some("It's \"odd\"".into()), kind: Some("table".into()), ..new("sky") },
            New { params: params.into(), ..new("texts") },
        ])
        .unwrap();
    let mut found = |condition: &str| {
        let wanted = Search { condition: Some(condition.into()), text: None };
        catalogue.find(&wanted).unwrap_or_else(|error| panic!("{condition}: {error}")).join(" ")
    };
    for (condition, names) in [
        ("Re > 2000 and tag = \"final\"", "airway/run-2"),
        ("Re > 2000 or Re <= 1.5e3", "airway/run-1 airway/run-2"),
        ("not Re > 2000", "airway/run-1"),
        ("re = 'high'", "texts"),
        ("tag = 'draft'", "airway/run-2"),
        ("not tag = 'draft'", "airway/run-1"),
        ("tag <> 'draft'", "airway/run-1 airway/run-2"),
        ("tag is null", "sky texts"),
        ("tag is not null and not (owner = 'Ada')", ""),
        ("owner in ('Bob', 'Ada')", "airway/run-2"),
        ("Re not in (1500, 3)", "airway/run-2"),
        ("name like 'airway/%' and name not like '%_1'", "airway/run-2"),
        ("note ilike 'IT''S%'", "sky"),
        ("kind = 'table' OR on = TRUE", "sky texts"),
        ("param.tag = 1", "texts"),
        ("`Re` >= 2500 and reads = 0", "airway/run-2"),
        ("unknown > 5", ""),
        ("not unknown > 5", ""),
        ("unknown is null and Re = 1500", "airway/run-1"),
    ] {
        assert_eq!(found(condition), names, "{condition}");
    }
}

#[test]
fn words_are_found_in_any_case() {
    let mut catalogue = site("words");
    catalogue
        .add(&[run("airway/run-1", "Final", 1.0), New { note: Some("Deposition in the AIRWAY".into()), ..new("x") }])
        .unwrap();
    let mut found =
        |text: &str| catalogue.find(&Search { condition: None, text: Some(text.into()) }).unwrap().join(" ");
    assert_eq!(found("airway"), "airway/run-1 x");
    assert_eq!(found("final airway"), "airway/run-1");
    assert_eq!(found("depos FINAL"), "");
}

#[test]
fn wrong_conditions_name_the_character() {
    let mut catalogue = site("wrong");
    for (condition, message) in [
        ("Re >", "at character 5"),
        ("Re > 5 and", "at character 11"),
        ("tag = final", "write \"final\" for the text"),
        ("(Re > 5", "expected `)`"),
        ("Re > 5 tag = 'x'", "at character 8"),
        ("tag = 'x", "has no end"),
        ("Re > 1e999", "is no number"),
        ("é ~ 1", "at character 3"),
        ("", "expected a name"),
        ("x like 5", "expected a pattern"),
        (&"(".repeat(100_000), "longer than"),
        (&"not ".repeat(1000), "nested too deeply"),
    ] {
        let wanted = Search { condition: Some(condition.into()), text: None };
        let error = catalogue.find(&wanted).unwrap_err().to_string();
        assert!(error.contains(message), "{condition:.20}: {error}");
    }
}
