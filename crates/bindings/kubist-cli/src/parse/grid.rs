//! Dimensions of a table and their domains.

use std::str::FromStr;

use arrow_schema::{Field, Schema};
use kubist::{Dimension, Domain};

use super::parts;
use super::region::{column, split_ends, value};
use crate::failure::{Failure, Result};

/// How a dimension's domain was given: `learned`, `quantile` or `LOW:HIGH`.
#[derive(Clone, Debug, PartialEq)]
pub struct Domains(Vec<(String, Shape)>);

#[derive(Clone, Debug, PartialEq)]
enum Shape {
    Learned,
    Quantile,
    Linear(String, String),
}

impl Domains {
    /// Each column with its domain as it is written on the command line.
    pub fn as_text(&self) -> Vec<(String, String)> {
        let text = |shape: &Shape| match shape {
            Shape::Learned => "learned".to_string(),
            Shape::Quantile => "quantile".to_string(),
            Shape::Linear(low, high) => format!("{low}..{high}"),
        };
        self.0.iter().map(|(column, shape)| (column.clone(), text(shape))).collect()
    }
}

impl FromStr for Domains {
    type Err = String;

    fn from_str(text: &str) -> Result<Domains, String> {
        parts(text, "COLUMN=LOW:HIGH, COLUMN=quantile or COLUMN=learned")?
            .into_iter()
            .map(|(column, shape)| {
                let shape = match shape.as_str() {
                    "learned" => Shape::Learned,
                    "quantile" => Shape::Quantile,
                    ends => match split_ends(&column, ends)? {
                        (Some(low), Some(high)) => Shape::Linear(low, high),
                        _ => return Err(format!("{column}={ends}: a domain has two ends")),
                    },
                };
                Ok((column, shape))
            })
            .collect::<Result<_, String>>()
            .map(Domains)
    }
}

/// The domains that were given, typed by the columns of `schema`.
pub fn domains(domains: &[Domains], schema: &Schema) -> Result<Vec<Dimension>> {
    let names: Vec<String> = domains.iter().flat_map(|domains| &domains.0).map(|(column, _)| column.clone()).collect();
    dimensions(&names, domains, schema)
}

/// The dimensions with their domains, typed by the columns of `schema`.
pub fn dimensions(names: &[String], domains: &[Domains], schema: &Schema) -> Result<Vec<Dimension>> {
    let fields = names.iter().map(|name| column(schema, name)).collect::<Result<Vec<&Field>>>()?;
    let mut shapes: Vec<(&Field, &Shape)> = Vec::new();
    for (name, shape) in domains.iter().flat_map(|domains| &domains.0) {
        let field = column(schema, name).map_err(|failure| failure.within("--domain"))?;
        if !fields.iter().any(|dimension| dimension.name() == field.name()) {
            return Err(Failure::usage(format!("--domain {name}: {name:?} is not among the dimensions")));
        }
        if shapes.iter().any(|(earlier, _)| earlier.name() == field.name()) {
            return Err(Failure::usage(format!("--domain {name}: given twice")));
        }
        shapes.push((field, shape));
    }
    names
        .iter()
        .zip(fields)
        .map(|(name, field)| {
            let domain = match shapes.iter().find(|(column, _)| column.name() == field.name()).map(|(_, shape)| shape) {
                None | Some(Shape::Learned) => Domain::Learned,
                Some(Shape::Quantile) => Domain::Quantile,
                Some(Shape::Linear(low, high)) => Domain::Linear(value(low, field)?, value(high, field)?),
            };
            Ok(Dimension { column: name.clone(), domain })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use arrow_schema::{DataType, Field};
    use kubist::Value;

    use super::*;

    #[test]
    fn domains() {
        let fields = ["x", "pid", "when", "kind"].map(|name| Field::new(name, DataType::Float32, true));
        let schema = Schema::new(fields.to_vec());
        let domains: Domains = "x=0:1,pid=quantile".parse().unwrap();
        let names = ["x", "pid", "when"].map(String::from);
        let dimensions = dimensions(&names, &[domains], &schema).unwrap();
        assert_eq!(dimensions[0].domain, Domain::Linear(Value::Int(0), Value::Int(1)));
        assert_eq!(dimensions[1].domain, Domain::Quantile);
        assert_eq!(dimensions[2].domain, Domain::Learned);
        assert!("x=0:".parse::<Domains>().is_err());
        let stray: Domains = "kind=0:1".parse().unwrap();
        assert!(super::dimensions(&names, &[stray], &schema).unwrap_err().message.contains("not among"));
    }
}
