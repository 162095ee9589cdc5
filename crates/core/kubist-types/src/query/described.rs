//! One declaration for a struct, its JSON names and its JSON Schema. Field comments are the schema's
//! descriptions, so Rust, HTTP, TypeScript and Python share one text.

use serde_json::{Map, Value, json};

/// Each field has its JSON name and, after `=`, its value's JSON Schema without a description.
macro_rules! described {
    (
        $(#[doc = $about:literal])*
        $(#[derive($($derived:ident),*)])*
        $(#[serde($($form:tt)*)])*
        pub struct $name:ident requires $required:tt {
            $(
                $(#[doc = $said:literal])*
                $(#[serde($($how:tt)*)])*
                $json:literal: pub $field:ident: $kind:ty = $schema:tt,
            )*
        }
    ) => {
        $(#[doc = $about])*
        $(#[derive($($derived),*)])*
        $(#[serde($($form)*)])*
        pub struct $name {
            $(
                $(#[doc = $said])*
                $(#[serde($($how)*)])*
                #[serde(rename = $json)]
                pub $field: $kind,
            )*
        }

        impl $name {
            pub const NAMES: &[&str] = &[$($json),*];

            /// References point into `#/components/schemas`, which
            /// [`QuerySpec::schemas`](crate::query::QuerySpec::schemas) fills.
            fn schema() -> serde_json::Value {
                let fields = [$(($json, $crate::query::described::field(&[$($said),*], serde_json::json!($schema)))),*];
                $crate::query::described::object(&[$($about),*], serde_json::json!($required), fields)
            }
        }
    };
}

pub(crate) use described;

/// A field's schema, with its comment as description.
pub fn field(said: &[&str], mut schema: Value) -> Value {
    schema["description"] = text(said).into();
    schema
}

pub fn object<const COUNT: usize>(said: &[&str], required: Value, fields: [(&str, Value); COUNT]) -> Value {
    let properties: Map<String, Value> = fields.map(|(name, schema)| (name.to_string(), schema)).into_iter().collect();
    json!({
        "type": "object",
        "description": text(said),
        "additionalProperties": false,
        "required": required,
        "properties": properties,
    })
}

fn text(said: &[&str]) -> String {
    said.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}
