//! Regions as conditions on the columns of a schema.

use std::collections::BTreeMap;
use std::fmt;

use arrow_schema::Schema;
use kubist_expr::{ExprError, Meant, Predicate, Value, column_index};

use crate::columns::{Columns, Repeats, invalid};
use crate::{End, Length, Periodic, Region, formula};

/// Maximum number of regions in one list, and maximum depth of nested regions.
const MOST_REGIONS: usize = 4096;
const SHOWN: usize = 200;

type Result<T> = std::result::Result<T, ExprError>;

impl Region {
    /// # Errors
    ///
    /// [`ExprError`] names the mistake, or the column that does not fit.
    pub fn predicate(&self, schema: &Schema) -> Result<Predicate> {
        let columns = Columns::new(schema);
        let text = self.to_string();
        let shown = match text.char_indices().nth(SHOWN) {
            Some((end, _)) => format!("region {}...", &text[..end]),
            None => format!("region {text}"),
        };
        Ok(columns.condition(self)?.named(shown))
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl Columns<'_> {
    fn condition(&self, region: &Region) -> Result<Predicate> {
        match region {
            Region::Box(ranges) => self.of_box(ranges),
            Region::Where(sql) => Predicate::parse(sql, self.schema),
            Region::Union(regions) => Ok(Predicate::any(self.conditions("union", regions)?)),
            Region::Intersection(regions) => {
                let conditions = self.conditions("intersection", regions)?.into_iter();
                Ok(conditions.fold(Predicate::always(), Predicate::and))
            }
            Region::Difference(regions) => {
                let mut conditions = self.conditions("difference", regions)?.into_iter();
                let first = conditions.next().unwrap_or_else(Predicate::always);
                Ok(conditions.fold(first, |rest, next| rest.and(next.negated())))
            }
            Region::Complement(region) => Ok(self.condition(region)?.negated()),
            Region::Periodic(periodic) => self.repeated(periodic),
            shape => match self.images(shape)? {
                None => Predicate::parse(&formula::of(shape, self)?, &self.plain),
                Some(images) => {
                    let of_image = |image| Predicate::parse(&formula::of(image, self)?, &self.plain);
                    Ok(Predicate::any(images.iter().map(of_image).collect::<Result<_>>()?))
                }
            },
        }
    }

    fn conditions(&self, name: &str, regions: &[Region]) -> Result<Vec<Predicate>> {
        match regions.len() {
            0 => Err(invalid(format!("{name} of no regions"))),
            count if count > MOST_REGIONS => {
                Err(invalid(format!("{name} of {count} regions; at most {MOST_REGIONS} are possible")))
            }
            _ => regions.iter().map(|region| self.condition(region)).collect(),
        }
    }

    fn repeated(&self, periodic: &Periodic) -> Result<Predicate> {
        if periodic.period.is_empty() {
            return Err(invalid("periodic needs the period of a column"));
        }
        let mut repeats = self.repeats.clone();
        for (name, length) in &periodic.period {
            if !(*length > 0.0 && length.is_finite()) {
                return Err(invalid(format!("the period of {name:?} is {length}, and must be above 0")));
            }
            let own =
                repeats.entry(column_index(self.schema, name)?).or_insert(Repeats { length: 0.0, declared: None });
            if own.length != *length {
                *own = Repeats { length: *length, declared: None };
            }
        }
        Columns { schema: self.schema, plain: self.plain.clone(), repeats }.condition(&periodic.region)
    }

    fn of_box(&self, ranges: &BTreeMap<String, [Option<End>; 2]>) -> Result<Predicate> {
        let mut all = Predicate::always();
        for (name, [low, high]) in ranges {
            let index = column_index(self.schema, name)?;
            let name = self.schema.field(index).name();
            let repeats = self.repeats.get(&index);
            let number = |end: &Option<End>| match end {
                Some(End::Float(end)) => Ok(Some(*end)),
                Some(End::Integer(end)) => Ok(Some(*end as f64)),
                Some(End::Text(text)) if repeats.is_some() => {
                    self.number(name, &Length::Text(text.clone()), Meant::Value).map(Some)
                }
                _ => Ok(None),
            };
            let ends = number(low)?.zip(number(high)?);
            if let Some((low, high)) = ends.filter(|(low, high)| !(low <= high)) {
                return Err(invalid(format!("box: {name}: the lower end {low} is above the upper end {high}")));
            }
            let images = match (repeats, ends) {
                (Some(Repeats { declared: Some(period), .. }), Some((low, high))) => {
                    self.wrapped(index, period, low, high)?
                }
                (Some(Repeats { length, declared: None }), Some((low, high))) => {
                    Some(Predicate::parse(&formula::images(name, low, high, *length), &self.plain)?)
                }
                (Some(Repeats { declared: None, .. }), None) => {
                    return Err(invalid(format!("box: {name} is periodic, so its range needs two numbers")));
                }
                _ => None,
            };
            let range = match images {
                Some(images) => images,
                None => {
                    let (low, high) = (low.as_ref().map(Value::from), high.as_ref().map(Value::from));
                    Predicate::range(self.schema, name, low.as_ref(), high.as_ref())?
                }
            };
            all = all.and(range);
        }
        Ok(all)
    }
}

impl From<&End> for Value {
    fn from(end: &End) -> Value {
        match end {
            End::Bool(value) => Value::Bool(*value),
            End::Integer(value) => Value::Int((*value).into()),
            End::Float(value) => Value::Float(*value),
            End::Text(value) => Value::Text(value.clone()),
        }
    }
}
