//! Merges the metadata of a table and its columns at two sites: a change at one site is copied, two different changes
//! are reported and stay.

use std::collections::{BTreeMap, BTreeSet};

use kubist_catalog::core::Core;
use kubist_catalog::schema::TableSchema;
use kubist_types::{Cancel, Metadata, Result};
use serde_json::Value;

/// Column (or none for the table), key and value.
pub type Entries = Vec<(Option<String>, String, Value)>;

type Name = (Option<String>, String);

pub fn entries(schema: &TableSchema) -> Entries {
    let of = |column: Option<&String>, values: &Metadata| -> Entries {
        values.iter().map(|(key, value)| (column.cloned(), key.clone(), value.clone())).collect()
    };
    let columns = schema.about.iter().flat_map(|(column, values)| of(Some(column), values));
    of(None, &schema.metadata).into_iter().chain(columns).collect()
}

fn map(entries: Entries) -> BTreeMap<Name, Value> {
    entries.into_iter().map(|(column, key, value)| ((column, key), value)).collect()
}

pub struct Merged {
    /// The metadata on which both sites agree now.
    pub common: Entries,
    pub conflicts: Vec<String>,
}

/// Copies changes since `common`: from `b` to `a` if `pull`, and from `a` to `b` if `push`.
///
/// # Errors
///
/// The errors of [`Core::set_metadata`].
pub fn merge(a: &Core, b: &Core, common: Entries, (pull, push): (bool, bool), cancel: &Cancel) -> Result<Merged> {
    let (schema_a, schema_b) = (a.view(cancel)?.schema.clone(), b.view(cancel)?.schema.clone());
    let (in_a, in_b, before) = (map(entries(&schema_a)), map(entries(&schema_b)), map(common));
    let has = |schema: &TableSchema, column: &Option<String>| {
        column.as_ref().is_none_or(|column| schema.user.index_of(column).is_ok())
    };
    let names: BTreeSet<&Name> = in_a.keys().chain(in_b.keys()).chain(before.keys()).collect();
    let (mut to_a, mut to_b) = (BTreeMap::new(), BTreeMap::new());
    let mut merged = Merged { common: Vec::new(), conflicts: Vec::new() };
    for name in names {
        let (column, key) = name;
        let (of_a, of_b, was) = (in_a.get(name), in_b.get(name), before.get(name));
        let agreed = if of_a == of_b {
            of_a
        } else if of_a == was && pull && has(&schema_a, column) {
            change(&mut to_a, name, of_b);
            of_b
        } else if of_b == was && push && has(&schema_b, column) {
            change(&mut to_b, name, of_a);
            of_a
        } else {
            if of_a != was && of_b != was {
                let shown = |value: Option<&Value>| value.map_or("absent".into(), Value::to_string);
                let column = column.as_ref().map_or(String::new(), |column| format!(" of column {column}"));
                let (of_a, of_b) = (shown(of_a), shown(of_b));
                merged.conflicts.push(format!("{key}{column} is {of_a} here and {of_b} there"));
            }
            was
        };
        merged.common.extend(agreed.map(|value| (column.clone(), key.clone(), value.clone())));
    }
    for (core, changes) in [(a, to_a), (b, to_b)] {
        for (column, values) in changes {
            core.set_metadata(column.as_deref(), &values)?;
        }
    }
    Ok(merged)
}

fn change(changes: &mut BTreeMap<Option<String>, Metadata>, (column, key): &Name, value: Option<&Value>) {
    changes.entry(column.clone()).or_default().insert(key.clone(), value.cloned().unwrap_or(Value::Null));
}
