//! Columns, types and domains that can hold the values of several files.

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kubist::{Domain, Value};
use kubist_files::fit;

use crate::error::{Error, Result};
use crate::request::Request;
use crate::source::{Facts, Source};

fn columns(source: &dyn Source) -> fit::FileColumns<'_> {
    let facts = source.facts();
    match source.input() {
        Some(input) => input.columns(),
        None => fit::FileColumns { path: &facts.path, fields: facts.schema.fields(), promotes: true },
    }
}

/// The columns of a new table for all files, in the types and units of the user.
///
/// # Errors
///
/// No type contains the types of a column, or the user named a column that no file has.
pub fn schema(sources: &[Box<dyn Source>], request: &Request) -> Result<SchemaRef> {
    let files: Vec<_> = sources.iter().map(|source| columns(source.as_ref())).collect();
    let mut fields = fit::union(&files)?;
    if request.time.is_some() && !fields.iter().any(|field| field.name() == "time") {
        fields.push(Field::new("time", DataType::Float64, true));
    }
    let names: Vec<String> = fields.iter().map(|field| field.name().clone()).collect();
    let index = |name: &String| {
        names.iter().position(|known| known == name).ok_or_else(|| {
            let path = sources[0].facts().path.display();
            Error::invalid(format!("{path}: there is no column '{name}'; the columns are {}", names.join(", ")))
        })
    };
    for (name, data_type) in &request.types {
        let field = &mut fields[index(name)?];
        *field = field.clone().with_data_type(data_type.clone());
    }
    for (name, unit) in &request.new.units {
        let field = &mut fields[index(name)?];
        *field = field.clone().with_metadata([("unit".to_owned(), unit.clone())]);
    }
    if let Some(columns) = &request.columns {
        fields = columns.iter().map(|name| Ok(fields[index(name)?].clone())).collect::<Result<_>>()?;
    }
    let schema = fit::storable_columns(&fields);
    for input in sources.iter().filter_map(|source| source.input()) {
        let own = |field: &&std::sync::Arc<Field>| request.time.is_none() || field.name() != "time";
        let known = Schema::new(schema.fields().iter().filter(own).cloned().collect::<Vec<_>>());
        fit::check(input, &known, &[])?;
    }
    Ok(schema)
}

/// By column: a type that can hold the values of all files. A file whose type does not fit is ignored here, and refused
/// when it is read.
pub fn types(sources: &[Box<dyn Source>]) -> Vec<(String, DataType)> {
    let mut types: Vec<(String, DataType)> = Vec::new();
    for source in sources {
        let file = columns(source.as_ref());
        for field in file.fields {
            match types.iter_mut().find(|(name, _)| name == field.name()) {
                None => types.push((field.name().clone(), field.data_type().clone())),
                Some((_, known)) => {
                    if let Some(wide) = fit::wider(known, field.data_type(), file.promotes) {
                        *known = wide;
                    }
                }
            }
        }
    }
    types.retain(|(_, data_type)| !data_type.is_null());
    types
}

/// A domain that contains the domains of all files. If a file has none, it is the domain of the first file.
pub fn domain(name: &str, sources: &[Box<dyn Source>]) -> Domain {
    let of = |facts: &Facts| facts.domains.iter().find(|(column, _)| column == name).map(|(_, domain)| domain.clone());
    let domains: Vec<Domain> = sources.iter().map(|source| of(source.facts()).unwrap_or(Domain::Learned)).collect();
    let number = |value: &Value| match value {
        Value::Int(value) => Some(*value as f64),
        Value::Float(value) => Some(*value),
        _ => None,
    };
    let pairs = domains.iter().map(|domain| match domain {
        Domain::Linear(low, high) => Some((number(low)?, number(high)?)),
        _ => None,
    });
    match pairs.collect::<Option<Vec<_>>>() {
        Some(pairs) if pairs.len() > 1 => {
            let low = pairs.iter().map(|(low, _)| *low).fold(f64::INFINITY, f64::min);
            let high = pairs.iter().map(|(_, high)| *high).fold(f64::NEG_INFINITY, f64::max);
            Domain::Linear(Value::Float(low), Value::Float(high))
        }
        _ => domains[0].clone(),
    }
}
