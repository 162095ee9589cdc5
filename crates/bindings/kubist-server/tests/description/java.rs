//! Generates the Java class `Query`, with a method for each parameter.

use kubist::Query;

use super::generate::{Field, Kind, Schema, Type};
use super::typescript::textwrap;

const HEAD: &str = r#"package org.kubist;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A query of a table, by default for all rows. The parameters have the same names and meaning in
 * Python, the command and HTTP.
 *
 * <p>{@code make generate} writes this file from crates/core/kubist-types/src/query.rs: changes belong
 * there.
 */
public final class Query {
    private final Map<String, Object> said;

    /** Creates a query for all rows. */
    public Query() {
        this(new LinkedHashMap<>());
    }

    private Query(Map<String, Object> said) {
        this.said = said;
    }

    /**
     * Parses a query from JSON.
     *
     * @param text as {@code {"box": {"x": [0, 1]}, "where": "y > 2", "sample": 0.01}}
     * @return the query
     */
    public static Query json(String text) {
        if (!(Json.read(text) instanceof Map<?, ?> map)) {
            throw new KubistException(KubistException.Kind.INVALID_INPUT, "a query is an object of JSON: " + text);
        }
        Map<String, Object> said = new LinkedHashMap<>();
        map.forEach((name, value) -> said.put((String) name, value));
        return new Query(said);
    }

    /**
     * Only records with a value in a closed range, in addition to the ranges before.
     *
     * @param column its name
     * @param low a number, text or a boolean; null is open
     * @param high the same
     * @return this query
     */
    public Query box(String column, Object low, Object high) {
        @SuppressWarnings("unchecked")
        Map<String, Object> box = (Map<String, Object>) said.computeIfAbsent("box", name -> new LinkedHashMap<>());
        box.put(column, Arrays.asList(low, high));
        return this;
    }
"#;

const END: &str = r#"
    private Query put(String name, Object value) {
        said.put(name, value);
        return this;
    }

    /**
     * The query as JSON.
     *
     * @return JSON
     */
    @Override
    public String toString() {
        return Json.write(said);
    }
}
"#;

pub fn file(schemas: &super::Schemas) -> String {
    let query = schemas.iter().find(|(name, _)| name == "QuerySpec");
    let Some((_, Schema { kind: Kind::Object(query), .. })) = query else { panic!("QuerySpec is no object") };
    let mut out = HEAD.to_string();
    for name in Query::NAMES.iter().filter(|name| !["spec", "box"].contains(name)) {
        out += &method(query.fields.iter().find(|field| field.name == *name).unwrap());
    }
    out + END
}

fn method(field: &Field) -> String {
    let (taken, value, meanings): (&str, &str, &[(&str, &str)]) = match &field.of {
        Type::Number => ("double value", "value", &[("value", "a number")]),
        Type::Whole => ("long value", "value", &[("value", "a whole number")]),
        Type::Text => ("String value", "value", &[("value", "text")]),
        Type::Boolean => ("boolean value", "value", &[("value", "true or false")]),
        Type::List(of) if **of == Type::Text => {
            ("String... values", "List.of(values)", &[("values", "in their order")])
        }
        Type::Tuple(parts) if parts[..] == [Type::Number, Type::Number] => {
            ("double low, double high", "List.of(low, high)", &[("low", "the lower end"), ("high", "the upper end")])
        }
        Type::Tuple(parts) if parts.len() == 2 => (
            "Long low, Long high",
            "Arrays.asList(low, high)",
            &[("low", "the lower end; null is open"), ("high", "the upper end; null is open")],
        ),
        Type::Named(name) if name == "PerCell" => (
            "long rows, Map<String, ?> widths",
            "Map.of(\"rows\", rows, \"widths\", widths)",
            &[
                ("rows", "of a cell at most"),
                ("widths", "column to the width of a cell: a number, or text with a unit"),
            ],
        ),
        Type::Named(name) if name == "Region" => {
            ("Map<String, ?> value", "value", &[("value", "as JSON describes it: the kind to its values")])
        }
        _ => panic!("{}: say in java.rs what Java takes for it", field.name),
    };
    let mut words = field.name.split('_');
    let first = words.next().unwrap().to_string();
    let name = words.fold(first, |name, word| name + &word[..1].to_uppercase() + &word[1..]);
    let about = about(&field.about);
    let meanings: String = meanings.iter().map(|(name, what)| format!("     * @param {name} {what}\n")).collect();
    format!(
        "\n    /**\n{about}     *\n{meanings}     * @return this query\n     */\n    public Query {name}({taken}) {{\n        \
         return put(\"{}\", {value});\n    }}\n",
        field.name
    )
}

fn about(text: &str) -> String {
    let parts = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let text: String = parts
        .split('`')
        .enumerate()
        .map(|(place, part)| if place % 2 == 1 { format!("<code>{part}</code>") } else { part.to_string() })
        .collect();
    textwrap(&text, 100).iter().map(|line| format!("     * {line}\n")).collect()
}
