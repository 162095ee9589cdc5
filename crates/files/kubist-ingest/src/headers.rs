//! File headers in the metadata of a table: the first file's header under the name of the format, and each other file's
//! differences under `FORMAT of PATH`.

use std::path::Path;

use kubist::Metadata;
use serde_json::{Map, Value};

/// Maximum bytes of all metadata, because every reader of a table reads it.
const MOST_BYTES: usize = 1 << 20;
/// The metadata that all files of a table share.
const OF_TABLE: [&str; 3] = ["topology", "trajectory", "left_out"];

/// The metadata changes; null removes a key.
pub fn changes(metadata: &Metadata, path: &Path, headers: &Metadata) -> Metadata {
    let mut changed = Metadata::new();
    for (name, header) in headers.iter().filter(|(name, _)| !OF_TABLE.contains(&name.as_str())) {
        let own = format!("{name} of {}", path.display());
        match metadata.get(name) {
            None => {
                changed.insert(name.clone(), header.clone());
            }
            Some(first) => {
                let different = difference(header, first);
                if !different.is_empty() {
                    changed.insert(own, Value::Object(different));
                } else if metadata.contains_key(&own) {
                    changed.insert(own, Value::Null);
                }
            }
        }
    }
    changed.retain(|key, value| metadata.get(key) != Some(value));
    changed
}

/// The entries that differ, with null for a missing entry.
fn difference(header: &Value, first: &Value) -> Map<String, Value> {
    let (Value::Object(header), Value::Object(first)) = (header, first) else {
        let whole = (header != first).then(|| ("value".to_owned(), header.clone()));
        return whole.into_iter().collect();
    };
    let mut found = Map::new();
    for key in header.keys().chain(first.keys().filter(|key| !header.contains_key(*key))) {
        match (header.get(key), first.get(key)) {
            (Some(one @ Value::Object(_)), Some(other @ Value::Object(_))) => {
                let deeper = difference(one, other);
                if !deeper.is_empty() {
                    found.insert(key.clone(), Value::Object(deeper));
                }
            }
            (one, other) if one.unwrap_or(&Value::Null) != other.unwrap_or(&Value::Null) => {
                found.insert(key.clone(), one.cloned().unwrap_or_default());
            }
            _ => {}
        }
    }
    found
}

/// Adds metadata, or returns false and changes nothing if the metadata would become too large.
pub fn add(metadata: &mut Metadata, changed: Metadata) -> bool {
    let mut after = metadata.clone();
    after.extend(changed);
    let fits = serde_json::to_string(&after).is_ok_and(|text| text.len() <= MOST_BYTES);
    if fits {
        *metadata = after;
    }
    fits
}
