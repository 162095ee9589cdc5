//! Column units in Parquet and Arrow files, in all places where programs write them.
//!
//! Kubist writes the unit of a column into its metadata, under `unit`. Other programs use `units`. Astropy writes a
//! list of all columns into the metadata of the file, in YAML.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::Fields;

use crate::fit::UNIT;

const ALSO: [&str; 3] = ["units", "UNIT", "Units"];
const OF_ASTROPY: &str = "table_meta_yaml";

/// Returns the columns with their units; `metadata` is the file's.
pub fn named(fields: &Fields, metadata: &[(String, String)]) -> Fields {
    let listed = metadata.iter().find(|(name, _)| name == OF_ASTROPY).map(|(_, list)| of_list(list));
    let units = listed.unwrap_or_default();
    let with_unit = |field: &Arc<arrow_schema::Field>| {
        let own = field.metadata();
        if own.get(UNIT).is_some_and(|unit| !unit.trim().is_empty()) {
            return field.clone();
        }
        let unit = ALSO.iter().find_map(|name| own.get(*name)).or_else(|| units.get(field.name()));
        let Some(unit) = unit.filter(|unit| !unit.trim().is_empty()) else { return field.clone() };
        let mut all = own.clone();
        all.insert(UNIT.to_owned(), unit.clone());
        Arc::new(field.as_ref().clone().with_metadata(all))
    };
    fields.iter().map(with_unit).collect()
}

/// Returns the units by column, from a list of lines such as `- {name: pm, unit: mas / yr, datatype: float64}`. A
/// mapping may extend over several lines.
fn of_list(list: &str) -> HashMap<String, String> {
    let mut units = HashMap::new();
    let mut rest = list;
    while let Some((_, after)) = rest.split_once("- {") {
        let (pairs, end) = mapping(after);
        let of = |key: &str| pairs.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone());
        if let (Some(name), Some(unit)) = (of("name"), of("unit")) {
            units.insert(name, unit);
        }
        rest = &after[end..];
    }
    units
}

/// Returns the pairs of a mapping up to its closing brace, and the position after the brace.
fn mapping(text: &str) -> (Vec<(String, String)>, usize) {
    let mut parts = vec![String::new()];
    let (mut quote, mut end) = (None, text.len());
    for (at, letter) in text.char_indices() {
        let Some(part) = parts.last_mut() else { break };
        match quote {
            Some(open) if letter == open => quote = None,
            Some(_) => part.push(if letter == '\n' { ' ' } else { letter }),
            None if matches!(letter, '\'' | '"') && part.trim_end().ends_with(':') => quote = Some(letter),
            None if letter == ',' => parts.push(String::new()),
            None if letter == '}' => {
                end = at + 1;
                break;
            }
            None => part.push(if letter == '\n' { ' ' } else { letter }),
        }
    }
    let pairs = parts.iter().filter_map(|part| part.split_once(':'));
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    (pairs.map(|(key, value)| (words(key), words(value))).collect(), end)
}

#[cfg(test)]
mod tests {
    use arrow_schema::{DataType, Field};

    use super::*;

    #[test]
    fn units_have_several_places() {
        let list = "datatype:\n- {name: ra, unit: deg, datatype: float64, description: 'long, unit: x}'}\n\
                    - {name: n, datatype: int64}\n- {name: pm, unit: mas /\n    yr, datatype: float64}\nmeta: !!omap\n";
        let column = |name: &str, said: &[(&str, &str)]| {
            let said = said.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            Field::new(name, DataType::Float64, true).with_metadata(said.collect::<HashMap<_, _>>())
        };
        let fields = Fields::from(vec![
            column("ra", &[]),
            column("n", &[]),
            column("pm", &[("unit", "")]),
            column("t", &[("units", "K")]),
            column("own", &[("unit", "m"), ("units", "K")]),
        ]);
        let found = named(&fields, &[("table_meta_yaml".to_owned(), list.to_owned())]);
        let units: Vec<_> = found.iter().map(|field| field.metadata().get(UNIT).map(String::as_str)).collect();
        assert_eq!(units, [Some("deg"), None, Some("mas / yr"), Some("K"), Some("m")]);
        for damaged in ["- {", "- {name", "- {name: a, unit: 'b", "- {é: ü}- {"] {
            assert_eq!(named(&fields, &[("table_meta_yaml".to_owned(), damaged.to_owned())]).len(), 5, "{damaged}");
        }
    }
}
