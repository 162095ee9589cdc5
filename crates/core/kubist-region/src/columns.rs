//! The columns that regions use: their names, units and periods.

use std::collections::{BTreeMap, HashMap};

use arrow_schema::{Field, Schema};
use kubist_expr::{ExprError, Meant, column_index, in_unit_of};

use crate::{Length, Period, Position, SkyColumns, sphere};

type Result<T> = std::result::Result<T, ExprError>;

pub(crate) struct Columns<'a> {
    pub schema: &'a Schema,
    /// Without units: formulas get all numbers in their columns' units.
    pub plain: Schema,
    pub repeats: BTreeMap<usize, Repeats>,
}

#[derive(Clone, Copy)]
pub(crate) struct Repeats {
    pub length: f64,
    /// The interval of the values, if declared; otherwise a region named the length.
    pub declared: Option<Period>,
}

pub(crate) fn invalid(message: impl std::fmt::Display) -> ExprError {
    ExprError::Type { message: format!("region: {message}") }
}

pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl<'a> Columns<'a> {
    pub(crate) fn new(schema: &'a Schema) -> Columns<'a> {
        let plain =
            schema.fields().iter().map(|field| Field::clone(field).with_metadata(HashMap::<String, String>::new()));
        let fields = schema.fields().iter().enumerate();
        let repeats = fields.filter_map(|(index, field)| {
            let period = Period::of(field)?;
            Some((index, Repeats { length: period.length(), declared: Some(period) }))
        });
        Columns { schema, plain: Schema::new(plain.collect::<Vec<_>>()), repeats: repeats.collect() }
    }
}

impl Columns<'_> {
    /// Returns the exact name of a numeric column, and how it repeats.
    pub(crate) fn column(&self, name: &str) -> Result<(&str, Option<Repeats>)> {
        let index = column_index(self.schema, name)?;
        let field = self.schema.field(index);
        if !field.data_type().is_numeric() {
            return Err(invalid(format!("column {:?} of type {} has no positions", field.name(), field.data_type())));
        }
        Ok((field.name(), self.repeats.get(&index).copied()))
    }

    pub(crate) fn number(&self, name: &str, length: &Length, meant: Meant) -> Result<f64> {
        let number = match length {
            Length::Number(number) => Some(*number),
            Length::Text(text) => in_unit_of(self.schema.field(column_index(self.schema, name)?), text, meant)?,
        };
        number.filter(|number| number.is_finite()).ok_or_else(|| {
            invalid(match length {
                Length::Number(number) => format!("{name}: {number} is no position or length"),
                Length::Text(text) => format!("{name}: {text:?} is no number with a unit"),
            })
        })
    }

    /// Returns a position in the units of its columns, sorted by column.
    pub(crate) fn position(&self, what: &str, position: &Position) -> Result<Vec<(String, f64)>> {
        if position.is_empty() {
            return Err(invalid(format!("{what} names no column")));
        }
        let coordinate = |(name, length): (&String, &Length)| {
            Ok((self.column(name)?.0.to_owned(), self.number(name, length, Meant::Value)?))
        };
        position.iter().map(coordinate).collect()
    }

    /// Refuses columns with different units, between which there is no distance.
    pub(crate) fn check_units<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<()> {
        let mut first: Option<(&str, &str)> = None;
        for name in names {
            let field = self.schema.field(column_index(self.schema, name)?);
            let unit = field.metadata().get("unit").map_or("", |unit| unit.trim());
            match first {
                Some((other, of_other)) if of_other != unit => {
                    let or_none = |unit: &str| if unit.is_empty() { "no unit".to_owned() } else { unit.to_owned() };
                    return Err(invalid(format!(
                        "there is no distance between column {other:?} in {} and column {name:?} in {}",
                        or_none(of_other),
                        or_none(unit)
                    )));
                }
                Some(_) => {}
                None => first = Some((name, unit)),
            }
        }
        Ok(())
    }

    /// A table's sphere replaces the default columns, if the table has no such columns.
    fn declared_sky(&self, columns: &SkyColumns) -> SkyColumns {
        let is_default = *columns == SkyColumns::default();
        let lacks = columns.0.iter().any(|name| column_index(self.schema, name).is_err());
        let declared = if is_default && lacks { sphere(self.schema) } else { None };
        declared.map_or_else(|| columns.clone(), SkyColumns)
    }

    /// The longitude and latitude in degrees, as SQL.
    pub(crate) fn on_sky(&self, columns: &SkyColumns) -> Result<[String; 2]> {
        let SkyColumns(names) = self.declared_sky(columns);
        let mut found = [const { String::new() }; 2];
        for (found, name) in found.iter_mut().zip(&names) {
            let (name, repeats) = self.column(name)?;
            let field = self.schema.field(column_index(self.schema, name)?);
            let has_unit = field.metadata().get("unit").is_some_and(|unit| !unit.trim().is_empty());
            let degree = if has_unit { in_unit_of(field, "1 deg", Meant::Distance)? } else { None };
            let turn = 360.0 * degree.unwrap_or(1.0);
            if let Some(Repeats { length, .. }) = repeats.filter(|repeats| (repeats.length / turn - 1.0).abs() > 1e-9) {
                return Err(invalid(format!(
                    "{name} is a direction on the sky, whose period is {turn} and not {length}"
                )));
            }
            *found = match degree {
                Some(degree) if degree != 1.0 => format!("({}::float64 / {degree:?})", quoted(name)),
                _ => quoted(name),
            };
        }
        Ok(found)
    }
}
