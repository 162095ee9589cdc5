//! Generates the schemas as TypeScript types.

use super::generate::{Kind, Type};

const HEAD: &str = "/**
 * Queries of a table and requests of the HTTP interface.
 *
 * `make generate` writes this file from crates/core/kubist-types/src/query.rs and
 * crates/bindings/kubist-server/src/openapi.json: changes belong there.
 */
";

pub fn file(schemas: &super::Schemas) -> String {
    let mut out = HEAD.to_string();
    for (name, schema) in schemas {
        out += &format!("\n{}", comment(&schema.about, ""));
        match &schema.kind {
            Kind::Alias(of) => out += &format!("export type {name} = {};\n", type_text(of)),
            Kind::Object(object) => {
                let base = object.base.as_ref().map(|base| format!(" extends {base}")).unwrap_or_default();
                out += &format!("export interface {name}{base} {{\n");
                for field in object.fields.iter().chain(&object.restated) {
                    let optional = if field.is_required { "" } else { "?" };
                    out += &comment(&field.about, "  ");
                    out += &format!("  {}{optional}: {};\n", field.name, type_text(&field.of));
                }
                out += "}\n";
            }
        }
    }
    out
}

fn comment(about: &str, margin: &str) -> String {
    let lines = textwrap(about, 112);
    match &lines[..] {
        [line] => format!("{margin}/** {line} */\n"),
        lines => {
            let body: String = lines.iter().map(|line| format!("{margin} * {line}\n")).collect();
            format!("{margin}/**\n{body}{margin} */\n")
        }
    }
}

pub fn textwrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is one");
        if line.is_empty() {
            line.push_str(word);
        } else if line.len() + 1 + word.len() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_string());
        }
    }
    lines
}

fn type_text(of: &Type) -> String {
    let joined = |parts: &[Type], between: &str| parts.iter().map(type_text).collect::<Vec<_>>().join(between);
    match of {
        Type::Number | Type::Whole => "number".into(),
        Type::Text => "string".into(),
        Type::Boolean => "boolean".into(),
        Type::Null => "null".into(),
        Type::Values(values) => values.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | "),
        Type::Named(name) => name.clone(),
        Type::Tuple(parts) => format!("[{}]", joined(parts, ", ")),
        Type::List(of) => match &**of {
            Type::Any(_) | Type::Values(_) => format!("({})[]", type_text(of)),
            of => format!("{}[]", type_text(of)),
        },
        Type::Map(of) => format!("Record<string, {}>", of.as_ref().map_or("never".into(), |of| type_text(of))),
        Type::Any(parts) => joined(parts, " | "),
    }
}
