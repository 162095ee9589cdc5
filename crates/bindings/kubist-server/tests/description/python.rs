//! Generates the schemas as Python typed dictionaries.

use kubist::Query;

use super::generate::{Field, Kind, Schema, Type};
use super::typescript::textwrap;

const HEAD: &str = r#""""Queries of a table and requests of the HTTP interface, as JSON.

`make generate` writes this file from crates/core/kubist-types/src/query.rs and
crates/bindings/kubist-server/src/openapi.json: changes belong there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Never, Required, TypedDict
"#;

pub fn file(schemas: &super::Schemas) -> String {
    let mut out = HEAD.to_string();
    let mut is_behind_class = true;
    for (name, schema) in schemas {
        match &schema.kind {
            Kind::Alias(of) => {
                out += if is_behind_class { "\n\n" } else { "\n" };
                out += &format!("{name} = {}\n{}", type_text(of), text(&[&schema.about], ""));
            }
            Kind::Object(object) => {
                let base = object.base.as_deref().unwrap_or("TypedDict");
                // A subclass cannot declare an inherited field again.
                let restated = object.restated.iter().map(|field| format!("`{}`: {}", field.name, field.about));
                let paragraphs: Vec<String> = std::iter::once(schema.about.clone()).chain(restated).collect();
                let paragraphs: Vec<&str> = paragraphs.iter().map(String::as_str).collect();
                out += &format!("\n\nclass {name}({base}, total=False):\n{}", text(&paragraphs, "    "));
                for field in &object.fields {
                    let of = type_text(&field.of);
                    let of = if field.is_required { format!("Required[{of}]") } else { of };
                    out += &format!("\n    {}: {of}\n{}", field.name, text(&[&field.about], "    "));
                }
            }
        }
        is_behind_class = matches!(schema.kind, Kind::Object(_));
    }
    out
}

const ASKED: &str = r#""""The parameters of a query, as Python's methods take them.

`make generate` writes this file from crates/core/kubist-types/src/query.rs: changes belong there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from ._arguments import AnyRegion, Box, PerCell, Relation, Steps
"#;

/// Parameters that choose among all rows, which prevents reading parts of a query separately.
const CHOOSING: [&str; 3] = ["limit", "order_by", "per_cell"];

pub fn asked(schemas: &super::Schemas) -> String {
    let object = |wanted: &str| match schemas.iter().find(|(name, _)| name == wanted) {
        Some((_, Schema { kind: Kind::Object(object), .. })) => object,
        _ => panic!("{wanted} is no object"),
    };
    let (query, count) = (&object("QuerySpec").fields, &object("CountRequest").fields);
    let parameters = || Query::NAMES.iter().filter(|name| **name != "spec");
    let of_all = |name: &str| name != "box" && count.iter().any(|field| field.name == name);
    let chooses = |name: &str| CHOOSING.contains(&name);
    let classes: [(&str, &str, &str, &dyn Fn(&str) -> bool); 4] = [
        ("Region", "TypedDict", "Parameters that select rows in all queries, without the box.", &|name| of_all(name)),
        ("Part", "Region", "Parameters of a query that is split into parts, without the box.", &|name| {
            name != "box" && !of_all(name) && !chooses(name)
        }),
        ("Rest", "Part", "All parameters of a query, without the box.", &|name| chooses(name)),
        ("Asked", "Rest", "All parameters of a query, as for `Table.query`.", &|name| name == "box"),
    ];
    let mut out = ASKED.to_string();
    let field = |name: &str| query.iter().find(|field| field.name == name).unwrap();
    for (class, base, about, has) in classes {
        out += &format!("\n\nclass {class}({base}, total=False):\n    \"\"\"{about}\"\"\"\n\n");
        for name in parameters().filter(|name| has(name)) {
            out += &format!("    {name}: {} | None\n", parameter(field(name)));
        }
        if class == "Region" {
            // Python itself relates boxes and regions to objects.
            out += "    relation: Relation | None\n";
        }
    }
    out += "\n\nKINDS = {\n";
    for name in parameters().filter(|name| **name != "box") {
        out += &format!("    \"{name}\": \"{}\",\n", kind(&field(name).of));
    }
    out + "}\n\"\"\"The JSON type of each parameter except the box.\"\"\"\n"
}

fn parameter(field: &Field) -> String {
    match &field.name[..] {
        "box" => "Box".into(),
        "per_cell" => "PerCell".into(),
        "region" => "AnyRegion".into(),
        "steps" => "Steps".into(),
        "sample" => "float | str".into(),
        "order_by" => "str | Sequence[str]".into(),
        _ => type_text(&field.of),
    }
}

fn kind(of: &Type) -> &'static str {
    match of {
        Type::Number => "number",
        Type::Whole => "integer",
        Type::Text => "text",
        Type::Boolean => "boolean",
        Type::List(of) if **of == Type::Text => "names",
        _ => "other",
    }
}

fn text(paragraphs: &[&str], margin: &str) -> String {
    let lines: Vec<Vec<String>> = paragraphs.iter().map(|paragraph| textwrap(paragraph, 90)).collect();
    match &lines.join(&String::new())[..] {
        [line] => format!("{margin}\"\"\"{line}\"\"\"\n"),
        lines => {
            let body = lines.join(&format!("\n{margin}")).replace(&format!("\n{margin}\n"), "\n\n");
            format!("{margin}\"\"\"{body}\n{margin}\"\"\"\n")
        }
    }
}

fn type_text(of: &Type) -> String {
    let joined = |parts: &[Type], between: &str| parts.iter().map(type_text).collect::<Vec<_>>().join(between);
    match of {
        Type::Number => "float".into(),
        Type::Whole => "int".into(),
        Type::Text => "str".into(),
        Type::Boolean => "bool".into(),
        Type::Null => "None".into(),
        Type::Values(values) => {
            format!("Literal[{}]", values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
        }
        Type::Named(name) => name.clone(),
        Type::Tuple(parts) => format!("tuple[{}]", joined(parts, ", ")),
        Type::List(of) => format!("Sequence[{}]", type_text(of)),
        Type::Map(of) => format!("Mapping[str, {}]", of.as_ref().map_or("Never".into(), |of| type_text(of))),
        Type::Any(parts) => joined(parts, " | "),
    }
}
