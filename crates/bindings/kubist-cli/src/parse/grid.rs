//! Parses dimensions and their domains: `x=0:1,y,z=quantile`.

use std::fmt;

use arrow_schema::Schema;
use kubist::{Dimension, Domain};

use super::region::{column, split_ends, value};
use crate::failure::Result;

#[derive(Clone, Debug, PartialEq)]
pub struct DimensionText {
    pub column: String,
    domain: DomainText,
}

/// Bounds are still text.
#[derive(Clone, Debug, PartialEq)]
enum DomainText {
    Learned,
    Quantile,
    Linear(String, String),
}

impl DimensionText {
    /// `None` if the data define the domain.
    pub fn domain(&self) -> Option<String> {
        match &self.domain {
            DomainText::Learned => None,
            DomainText::Quantile => Some("quantile".to_string()),
            DomainText::Linear(low, high) => Some(format!("{low}..{high}")),
        }
    }
}

impl fmt::Display for DimensionText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.column)?;
        self.domain().map_or(Ok(()), |domain| write!(f, "={domain}"))
    }
}

/// `COLUMN`, `COLUMN=LOW:HIGH` or `COLUMN=quantile`.
pub fn dimension(text: &str) -> Result<DimensionText, String> {
    let (column, domain) = match text.split_once('=') {
        None => (text.trim(), DomainText::Learned),
        Some((column, domain)) if domain.trim() == "quantile" => (column.trim(), DomainText::Quantile),
        Some((column, ends)) => match split_ends(column, ends)? {
            (Some(low), Some(high)) => (column.trim(), DomainText::Linear(low, high)),
            _ => return Err(format!("{text}: a domain needs two bounds")),
        },
    };
    match column.is_empty() {
        true => Err("expected COLUMN, COLUMN=LOW:HIGH or COLUMN=quantile".to_string()),
        false => Ok(DimensionText { column: column.to_string(), domain }),
    }
}

/// The dimensions and their domains, typed by the columns of `schema`.
pub fn dimensions(given: &[DimensionText], schema: &Schema) -> Result<Vec<Dimension>> {
    let dimension = |DimensionText { column: name, domain }: &DimensionText| {
        let field = column(schema, name).map_err(|failure| failure.within("--dimensions"))?;
        let domain = match domain {
            DomainText::Learned => Domain::Learned,
            DomainText::Quantile => Domain::Quantile,
            DomainText::Linear(low, high) => Domain::Linear(value(low, field)?, value(high, field)?),
        };
        Ok(Dimension { column: name.clone(), domain })
    };
    given.iter().map(dimension).collect()
}

#[cfg(test)]
mod tests {
    use arrow_schema::{DataType, Field};
    use kubist::Value;

    use super::*;

    #[test]
    fn dimensions_and_domains() {
        let fields = ["x", "pid", "when"].map(|name| Field::new(name, DataType::Float32, true));
        let schema = Schema::new(fields.to_vec());
        let given = ["x=0:1", "pid=quantile", "when"].map(|text| dimension(text).unwrap());
        assert_eq!(given.each_ref().map(ToString::to_string), ["x=0..1", "pid=quantile", "when"]);
        let dimensions = dimensions(&given, &schema).unwrap();
        let domains: Vec<Domain> = dimensions.into_iter().map(|dimension| dimension.domain).collect();
        assert_eq!(domains, [Domain::Linear(Value::Int(0), Value::Int(1)), Domain::Quantile, Domain::Learned]);
        for (text, why) in
            [("x=0:", "two bounds"), ("x=", "two bounds"), ("=0:1", "expected COLUMN"), ("", "expected COLUMN")]
        {
            assert!(dimension(text).unwrap_err().contains(why), "{text}");
        }
    }
}
