//! The schemas as typed dictionaries of Python.

use super::generate::{Kind, Type};
use super::typescript::textwrap;

const HEAD: &str = r#""""What can be asked of a table, in the words of JSON.

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
                // A field of the base cannot be declared again.
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
