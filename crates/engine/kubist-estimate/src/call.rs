//! The text of an aggregate, such as `quantile(ux, 0.95)`, split into name and arguments.

use std::ops::RangeInclusive;

use arrow_schema::Schema;
use kubist_expr::{Expression, Meant};

pub struct Call<'a> {
    pub name: String,
    pub arguments: Vec<&'a str>,
    pub schema: &'a Schema,
}

impl Call<'_> {
    /// Checks the number of arguments; `what` describes the accepted ones.
    pub fn takes(&self, counts: RangeInclusive<usize>, what: &str) -> Result<(), String> {
        let count = self.arguments.len();
        match counts.contains(&count) {
            true => Ok(()),
            false => Err(format!("{} takes {what}, found {count} arguments", self.name)),
        }
    }

    pub fn number(&self, index: usize) -> Result<f64, String> {
        let text = self.arguments[index];
        text.parse().ok().filter(|value: &f64| value.is_finite()).ok_or_else(|| format!("{text:?} is not a number"))
    }

    /// A numeric argument, which with a unit, such as `20um`, is converted to the unit of the argument `of`.
    pub fn number_beside(&self, index: usize, of: usize) -> Result<f64, String> {
        Ok(match self.with_unit(index, of, Meant::Value)? {
            Some(number) => number,
            None => self.number(index)?,
        })
    }

    /// Converts an argument as [`Call::number_beside`] does; `None` if it has no unit.
    pub fn with_unit(&self, index: usize, of: usize, meant: Meant) -> Result<Option<f64>, String> {
        let text = self.arguments[index];
        let text = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')).unwrap_or(text);
        if text.parse::<f64>().is_ok() {
            return Ok(None);
        }
        let of = Expression::parse(self.arguments[of], self.schema).map_err(|error| error.to_string())?;
        of.in_its_unit(text, meant).map_err(|error| error.to_string())
    }

    pub fn expressions(&self, count: usize) -> Result<Vec<Expression>, String> {
        let parse = |sql: &&str| Expression::parse(sql, self.schema).map_err(|error| error.to_string());
        self.arguments[..count].iter().map(parse).collect()
    }
}
