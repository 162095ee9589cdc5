//! Alterations: changes of a table after its creation, such as new columns, metadata, units, grids or writers.
//!
//! Each alteration is an object with the next number, which is put only if absent and never cleaned. If two processes
//! alter concurrently, the second one checks again whether its alteration still fits.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use arrow_array::Array;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kubist_format::alteration::{Alteration, GridDimension, NewGrid, NewWriters, name_of};
use kubist_format::column_type::{stored_type, user_type};
use kubist_format::default::one_value;
use kubist_format::history::Declared;
use kubist_index::grid::Scale;
use kubist_types::metadata::{PERIOD, SPHERE, UNIT};
use kubist_types::{Cancel, Compression, Error, Metadata, Period, Result, Strata, Value};

use crate::accuracy::accuracy_of;
use crate::chains;
use crate::core::Core;
use crate::error::store_error;
use crate::schema::{KEPT_BELOW, TableSchema};
use crate::segment::unix_ms;
use crate::stop::stoppable;
use crate::view::View;

/// Limit of a default, which is repeated for each older row.
const MOST_DEFAULT_BYTES: usize = 1024;

const MOST_KEY_BYTES: usize = 1024;
const MOST_BYTES: usize = 1 << 20;

#[derive(Clone, Debug, PartialEq)]
pub struct NewColumn {
    pub name: String,
    pub data_type: DataType,
    pub nullable: bool,
    /// The value of all rows that are written without the column.
    pub default: Value,
    pub unit: Option<String>,
    /// The error bound, as in [`TableOptions::accuracy`].
    ///
    /// [`TableOptions::accuracy`]: kubist_types::TableOptions
    pub accuracy: Option<Value>,
}

/// Adds units to the schema of a new table.
///
/// # Errors
///
/// `Invalid` if a column is missing, or a unit is empty.
pub fn with_units(schema: &SchemaRef, units: &[(String, String)]) -> Result<SchemaRef> {
    let mut fields: Vec<Field> = schema.fields().iter().map(|field| field.as_ref().clone()).collect();
    for (column, unit) in units {
        check_entry(UNIT, &unit.as_str().into(), true)?;
        let field = fields.iter_mut().find(|field| field.name() == column).ok_or_else(|| {
            let known: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            Error::invalid(format!(
                "the unit of {column:?} is given, but that is not a column; they are {}",
                known.join(", ")
            ))
        })?;
        let mut metadata = field.metadata().clone();
        metadata.insert(UNIT, unit.clone());
        field.set_metadata(metadata);
    }
    Ok(Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())))
}

/// # Errors
///
/// `Invalid` if a key is empty or too long, or a value is too long.
pub fn check_metadata(values: &Metadata) -> Result<()> {
    values.iter().try_for_each(|(key, value)| check_entry(key, value, false))
}

fn check_entry(key: &str, value: &serde_json::Value, of_column: bool) -> Result<()> {
    if key.is_empty() || key.len() > MOST_KEY_BYTES {
        return Err(Error::invalid(format!("a key of metadata has 1 to {MOST_KEY_BYTES} bytes, found {}", key.len())));
    }
    if of_column && key.starts_with("ARROW:") {
        return Err(Error::invalid(format!("the key {key:?} is Arrow's own: it belongs to the column's type")));
    }
    if of_column && key == UNIT && !value.is_null() && value.as_str().is_none_or(str::is_empty) {
        return Err(Error::invalid(format!("a unit is text, as \"m/s\", found {value}")));
    }
    match value.to_string().len() {
        bytes if bytes > MOST_BYTES => {
            Err(Error::invalid(format!("the value of {key:?} takes {bytes} bytes; it may have up to {MOST_BYTES}")))
        }
        _ => Ok(()),
    }
}

pub fn of_period(column: &str, period: Option<Period>) -> Alteration {
    let text = period.map(|period| period.to_string());
    Alteration::Set { column: Some(column.to_owned()), values: Metadata::from([(PERIOD.into(), text.into())]) }
}

pub fn next_grid(schema: &TableSchema, dimensions: Vec<GridDimension>, rows: u64, reason: &str) -> NewGrid {
    let token = format!("{:016x}", RandomState::new().hash_one(unix_ms()));
    NewGrid { grid: schema.newest_grid() + 1, dimensions, reason: reason.into(), unix_ms: unix_ms(), rows, token }
}

pub fn rescaled(schema: &TableSchema, scales: Vec<Scale>) -> Vec<GridDimension> {
    let columns = schema.dimensions.iter().map(|column| schema.user_field(*column).name().clone());
    columns.zip(scales).map(|(column, scale)| GridDimension { column, scale }).collect()
}

impl Core {
    /// Adds a column that is neither a dimension nor an identity; rows without it have the default.
    ///
    /// # Errors
    ///
    /// `Invalid` if the column, its type or its default is not possible; the errors of [`Core::view`].
    pub fn add_column(&self, column: &NewColumn, cancel: &Cancel) -> Result<()> {
        let NewColumn { name, data_type, nullable, default, unit, accuracy } = column;
        if name.is_empty() {
            return Err(Error::invalid("a column needs a name"));
        }
        let kept = user_type(data_type).ok_or_else(|| {
            Error::invalid(format!("column {name:?} has the type {data_type}, which is not supported"))
        })?;
        let default = one_value(default, &stored_type(&kept))
            .map_err(|why| Error::invalid(format!("column {name:?} cannot have the default {default}: {why}")))?;
        if let Value::Text(_) | Value::Binary(_) = &column.default {
            let bytes = default.to_data().buffers().last().map_or(0, |values| values.len());
            if bytes > MOST_DEFAULT_BYTES {
                let most = format!("a default may have up to {MOST_DEFAULT_BYTES}");
                return Err(Error::invalid(format!("the default of column {name:?} takes {bytes} bytes; {most}")));
            }
        }
        let schema = Arc::new(Schema::new(vec![Field::new(name, kept, *nullable)]));
        let units: Vec<_> = unit.iter().map(|unit| (name.clone(), unit.clone())).collect();
        let field = with_units(&schema, &units)?.field(0).clone();
        let accuracy = accuracy.as_ref().map(|bound| accuracy_of(&field, bound)).transpose()?;
        let default = match accuracy {
            Some(accuracy) => accuracy.round(&default),
            None => default,
        };
        self.alter(Alteration::AddColumn { field, default, accuracy }, cancel)
    }

    /// Adds the column with the priority threshold of subsampled steps, if missing.
    ///
    /// # Errors
    ///
    /// `Invalid` if another column has its name; the errors of [`Core::view`].
    pub fn keep_below(&self) -> Result<()> {
        match self.view(&Cancel::default())?.schema.kept_below {
            Some(_) => Ok(()),
            None => match self.alter(Alteration::KeptBelow { column: KEPT_BELOW.into() }, &Cancel::default()) {
                Err(Error::Invalid(_)) if self.view(&Cancel::default())?.schema.kept_below.is_some() => Ok(()),
                done => done,
            },
        }
    }

    /// Adds the missing columns that `other` gained after its creation, and returns their names. Both tables must have
    /// the same columns at their creation.
    ///
    /// # Errors
    ///
    /// `Invalid` if a column of the same name differs in type, default or error bound; the errors of [`Core::view`].
    pub fn add_columns_of(&self, other: &TableSchema, cancel: &Cancel) -> Result<Vec<String>> {
        let mut added = Vec::new();
        for column in other.base()..other.stored.fields().len() {
            let (field, default) = (other.user_field(column), other.default_of(column));
            let accuracy = other.accuracy.get(&column).copied();
            let schema = self.view(cancel)?.schema.clone();
            let Ok(own) = schema.stored.index_of(field.name()) else {
                added.push(field.name().clone());
                if other.kept_below == Some(column) {
                    self.keep_below()?;
                    continue;
                }
                let (field, default) = (field.as_ref().clone(), arrow_array::make_array(default.to_data()));
                self.alter(Alteration::AddColumn { field, default, accuracy }, cancel)?;
                continue;
            };
            let is_same = own >= schema.base()
                && schema.stored.field(own).data_type() == other.stored.field(column).data_type()
                && schema.default_of(own).to_data() == default.to_data()
                && schema.accuracy.get(&own) == other.accuracy.get(&column);
            if !is_same {
                return Err(Error::invalid(format!(
                    "column {:?} was added at two sites with different types, defaults or error bounds",
                    field.name()
                )));
            }
        }
        Ok(added)
    }

    /// Sets metadata in one step; a null removes its key.
    ///
    /// # Errors
    ///
    /// `Invalid` if the column does not exist, or a key or value is too long; the errors of [`Core::view`].
    pub fn set_metadata(&self, column: Option<&str>, values: &Metadata) -> Result<()> {
        values.iter().try_for_each(|(key, value)| check_entry(key, value, column.is_some()))?;
        if column.is_some() && (values.contains_key(PERIOD) || values.contains_key(SPHERE)) {
            return Err(Error::invalid(
                "the creation of a table sets the sphere, and regrid the period of a column, because it compares the rows",
            ));
        }
        let schema = self.view(&Cancel::default())?.schema.clone();
        let column = column.map(|name| schema.own_name(name).map(str::to_string)).transpose()?;
        self.alter(Alteration::Set { column, values: values.clone() }, &Cancel::default())
    }

    /// Sets or removes (`None`) periods of columns, in which all rows must lie.
    ///
    /// # Errors
    ///
    /// `Invalid` if a column does not exist; the errors of [`Core::view`].
    pub fn set_periods(&self, periods: &[(String, Option<Period>)]) -> Result<()> {
        periods.iter().try_for_each(|(column, period)| self.alter(of_period(column, *period), &Cancel::default()))
    }

    /// Sets the compression of new runs.
    ///
    /// # Errors
    ///
    /// The errors of [`Core::view`].
    pub fn set_compression(&self, compression: Compression) -> Result<()> {
        match self.view(&Cancel::default())?.schema.compression == compression {
            true => Ok(()),
            false => self.alter(Alteration::Compression { compression }, &Cancel::default()),
        }
    }

    /// Sets where strata of new runs end.
    ///
    /// # Errors
    ///
    /// The errors of [`Core::view`].
    pub fn set_strata(&self, strata: Strata) -> Result<()> {
        match self.view(&Cancel::default())?.schema.strata == strata {
            true => Ok(()),
            false => self.alter(Alteration::Strata { strata }, &Cancel::default()),
        }
    }

    /// # Errors
    ///
    /// The errors of [`Core::set_metadata`].
    pub fn set_unit(&self, column: &str, unit: Option<&str>) -> Result<()> {
        self.set_metadata(Some(column), &Metadata::from([(UNIT.into(), unit.into())]))
    }

    /// Publishes a grid after the newest one that the caller knew, and returns `false` if another process was first.
    ///
    /// # Errors
    ///
    /// The errors of [`Core::view`].
    pub fn publish_next_grid(&self, grid: NewGrid) -> Result<bool> {
        self.check_still_there()?;
        let alteration = Alteration::Grid(grid.clone());
        loop {
            let view = self.view(&Cancel::default())?;
            if let Some(there) = view.schema.grids.get(grid.grid as usize - 1) {
                return Ok(there.said.token == grid.token);
            }
            if self.put_alteration(&view, &alteration)? {
                return Ok(true);
            }
        }
    }

    pub(crate) fn check_writers(&self, declared: &Declared) -> Result<()> {
        if declared.size() == 0 {
            return Err(Error::invalid("declare at least one writer"));
        }
        self.check_still_there()
    }

    /// Declares the writers of the steps after `after`, for a simulation that continues from a checkpoint with other
    /// ranks. Retract later steps first. Repeating the declaration succeeds, and in a table without steps it applies to
    /// all steps.
    ///
    /// # Errors
    ///
    /// `Invalid` without any writer, or if a later step exists; the errors of [`Core::view`].
    pub fn declare_writers_after(&self, after: i64, declared: &Declared) -> Result<()> {
        self.check_writers(declared)?;
        loop {
            let view = self.view(&Cancel::default())?;
            let history = &view.history;
            if history.is_declared_after(after, declared) {
                return Ok(());
            }
            let steps = history.steps();
            if let Some(later) = steps.iter().find(|step| **step > after) {
                return Err(Error::invalid(format!(
                    "step {later} is there: take back what is later than step {after} before others are declared"
                )));
            }
            if steps.is_empty() && history.declarations().is_empty() {
                return self.declare_writers(declared);
            }
            let new = NewWriters { after, writers: declared.clone(), rewrites: view.rewrites };
            if self.put_alteration(&view, &Alteration::Writers(new))? {
                return Ok(());
            }
        }
    }

    /// Puts an alteration under the number that follows the view, or returns `false` if the number is taken.
    fn put_alteration(&self, view: &View, alteration: &Alteration) -> Result<bool> {
        let schema = &view.schema;
        schema.with_alteration(alteration)?;
        let previous = chains::altered(self, schema.version, &view.history);
        let (name, bytes) = (name_of(schema.version + 1), alteration.encode(previous)?);
        self.store.put_if_absent(&name, &bytes).map_err(store_error)
    }

    pub(crate) fn alter(&self, alteration: Alteration, cancel: &Cancel) -> Result<()> {
        stoppable(cancel, || {
            cancel.check()?;
            self.check_still_there()?;
            loop {
                let view = self.view(cancel)?;
                cancel.check()?;
                if self.put_alteration(&view, &alteration)? {
                    return Ok(());
                }
            }
        })
    }
}
