//! `kubist alter`: adds columns, changes settings, units and metadata.

use std::collections::BTreeMap;

use arrow_schema::Field;
use kubist::{Cancel, Metadata, NewColumn, Table, Value};

use crate::args;
use crate::failure::{Failure, Result};
use crate::output::{remark, tell_units};
use crate::parse;

pub fn run(command: &args::Alter, cancel: &Cancel) -> Result<()> {
    let table = Table::open(kubist::Location::from(&command.table).cancelled_by(cancel))?;
    let units: Vec<_> = command.unit.iter().flat_map(|units| &units.0).collect();
    let mut values: Metadata = command.set.iter().cloned().collect();
    for key in &command.unset {
        if values.insert(key.clone(), serde_json::Value::Null).is_some() {
            return Err(Failure::usage(format!("--unset {key}: --set has the same key")));
        }
    }
    if command.of.is_some() && values.is_empty() {
        return Err(Failure::usage("--of names the column for --set and --unset, but neither is given"));
    }
    let changes = !command.add_column.is_empty() || !units.is_empty() || !command.no_unit.is_empty();
    if !changes && values.is_empty() && !command.shared && command.compression.is_none() && command.strata.is_none() {
        return Err(Failure::usage(
            "nothing to change: give --add-column, --unit, --no-unit, --set, --unset, --compression, --strata or --shared",
        ));
    }
    let mut bounds: BTreeMap<&String, &String> = BTreeMap::new();
    for (column, bound) in command.accuracy.iter().flat_map(|bounds| &bounds.0) {
        if !command.add_column.iter().any(|added| added.name == *column) {
            return Err(Failure::usage(format!("--accuracy {column}={bound}: --add-column does not add this column")));
        }
        if bounds.insert(column, bound).is_some() {
            return Err(Failure::usage(format!("--accuracy {column}={bound}: the column already has an error bound")));
        }
    }
    let report = |what: String| remark(&format!("{}: {what}", command.table));
    if command.shared {
        table.share()?;
        report("several machines may write to it".into());
    }
    if let Some(compression) = command.compression {
        table.set_compression(compression)?;
        report(format!("compression {compression} for rows written from now on"));
    }
    if let Some(strata) = command.strata {
        table.set_strata(strata)?;
        report(format!("strata {strata} for rows written from now on"));
    }
    for column in &command.add_column {
        let parse::ColumnText { name, data_type, default } = column;
        let field = Field::new(name, data_type.clone(), !command.required);
        let default = match default {
            Some(text) => parse::value(text, &field)?,
            None => Value::Null,
        };
        let nullable = field.is_nullable();
        let (name, data_type) = (name.clone(), data_type.clone());
        let accuracy = bounds.get(&name).map(|bound| Value::Text((*bound).clone()));
        let column_added = NewColumn { name, data_type, nullable, default, unit: None, accuracy };
        table.add_column(&column_added)?;
        report(format!("column {:?} added ({})", column.name, column.data_type));
    }
    for (column, unit) in units {
        table.set_unit(column, Some(unit))?;
        report(format!("column {column:?} is in {unit}"));
        tell_units([(column.as_str(), unit.as_str())]);
    }
    for column in &command.no_unit {
        table.set_unit(column, None)?;
        report(format!("column {column:?} has no unit"));
    }
    if !values.is_empty() {
        table.set_metadata(command.of.as_deref(), &values)?;
        let keys: Vec<&str> = values.keys().map(String::as_str).collect();
        report(format!("metadata changed: {}", keys.join(", ")));
    }
    Ok(())
}
