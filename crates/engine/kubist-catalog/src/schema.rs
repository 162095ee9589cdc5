//! The columns of a table: as users see them, as runs store them, and the conversion between the two. Each alteration
//! makes the next version of the schema.
//!
//! Dictionaries and views are stored as plain values. The stored columns are, in this order:
//!
//! 1. the columns of the creation;
//! 2. the hidden step column;
//! 3. the hidden identity columns, writer name and row counter, in tables without identity;
//! 4. the hidden weight column, in tables with weighted samples;
//! 5. the added columns.
//!
//! Columns are only appended, so the index of a stored column never changes. Runs that are older than a column lack it,
//! and their rows have the column's default.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Float32Array, Int64Array, RecordBatch, RecordBatchOptions, StringArray, UInt32Array, UInt64Array,
};
use arrow_cast::display::array_value_to_string;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kubist_expr::{Nulls, Zone, column_index};
use kubist_index::accuracy::Accuracy;
use kubist_index::cube::{LAST_GRID, MAX_DIMENSIONS};
use kubist_index::grid::Scale;
use kubist_index::{order, priority};

use crate::fields::{as_stored, check_dimension, column_names, merge};
use crate::incoming_column::IncomingColumn;
use crate::period::check_inside;
use crate::sampling::{UNWEIGHED, WEIGHT};
use kubist_format::alteration::{Alteration, NewGrid};
use kubist_format::column_type::{check_lengths, user_type};
use kubist_format::encode::RunEncoding;
use kubist_types::error::{Error, Result};
use kubist_types::info::ColumnInfo;
use kubist_types::metadata::{Metadata, PERIOD, Period, SPHERE, UNIT, unit_of};
use kubist_types::options::{Sampling, TableOptions};
use kubist_types::{Compression, Strata};

pub const STEP: &str = "_kubist_step";
pub const NO_STEP: i64 = i64::MIN;
/// The column with the priority threshold of subsampled steps.
pub const KEPT_BELOW: &str = "kept_below";
const WRITER: &str = "_kubist_writer";
const ROW: &str = "_kubist_row";

#[derive(Clone, Debug)]
pub struct TableSchema {
    /// The columns that users see: those of the creation, then the added ones.
    pub user: SchemaRef,
    /// The stored columns (see the module).
    pub stored: SchemaRef,
    /// The columns that predicates use, in their stored types: the user's columns, then the hidden ones.
    /// `stored_index` maps each to its stored column.
    pub asked: Schema,
    pub stored_index: Vec<usize>,
    /// The dimensions as stored columns, in the order of the newest grid.
    pub dimensions: Vec<usize>,
    /// The grids after the first, numbered from 1.
    pub grids: Vec<Grid>,
    /// The identity as stored columns, in the order in which priorities hash them.
    pub identity: Vec<usize>,
    pub sampling: Sampling,
    /// The stored column of weights, unless samples are uniform.
    pub weight: Option<usize>,
    /// The divisor of weights, after the first commit.
    pub weight_scale: Option<f64>,
    pub lookup: Vec<usize>,
    pub metadata: Metadata,
    /// Metadata by column name, including units.
    pub about: BTreeMap<String, Metadata>,
    /// Error bounds by stored column.
    pub accuracy: BTreeMap<usize, Accuracy>,
    /// The stored column with the priority threshold of subsampled steps: null in rows of complete steps, 1 in rows
    /// that are always kept.
    pub kept_below: Option<usize>,
    pub compression: Compression,
    pub strata: Strata,
    pub version: u64,
    created: usize,
    hidden: bool,
    added: Vec<Added>,
}

#[derive(Clone, Debug)]
pub struct Grid {
    pub dimensions: Vec<usize>,
    pub scales: Vec<Scale>,
    pub said: Arc<NewGrid>,
}

/// The value of an added column in older runs.
#[derive(Clone, Debug)]
struct Added {
    default: ArrayRef,
    zone: Zone,
}

impl Added {
    fn new(default: ArrayRef) -> Added {
        let zone = match default.is_null(0) {
            true => Zone { min: 0, max: 0, nulls: Nulls::All },
            false => match order::keys(default.as_ref()) {
                Some(keys) => Zone { min: keys[0], max: keys[0], nulls: Nulls::None },
                None => Zone { min: 0, max: u64::MAX, nulls: Nulls::None },
            },
        };
        Added { default, zone }
    }

    fn rows(&self, rows: usize) -> Result<ArrayRef> {
        arrow_select::take::take(&self.default, &UInt32Array::from(vec![0; rows]), None).map_err(Error::kernel)
    }
}

impl TableSchema {
    /// # Errors
    ///
    /// The errors of [`TableSchema::from_names`].
    pub fn new(schema: &Schema, options: &TableOptions) -> Result<TableSchema> {
        let names: Vec<&str> = options.dimensions.iter().map(|dimension| dimension.column.as_str()).collect();
        TableSchema::from_names(schema, &names, &options.identity, &options.lookup)?.sampled(&options.sampling)
    }

    /// # Errors
    ///
    /// `Invalid` names the column that is missing, appears twice, or has an unsuitable type.
    pub fn from_names(
        schema: &Schema,
        dimensions: &[&str],
        identity: &[String],
        lookup: &[String],
    ) -> Result<TableSchema> {
        let mut user = Vec::new();
        for (index, field) in schema.fields().iter().enumerate() {
            let name = field.name();
            if schema.fields()[..index].iter().any(|other| other.name() == name) {
                return Err(Error::invalid(format!("column {name:?} appears twice")));
            }
            user.push(Arc::new(checked(field)?));
        }
        let find = |name: &str, role: &str| {
            schema.index_of(name).map_err(|_| {
                let known: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
                Error::invalid(format!(
                    "the {role} column {name:?} is not in the data; its columns are {}",
                    known.join(", ")
                ))
            })
        };
        if dimensions.is_empty() || dimensions.len() > MAX_DIMENSIONS {
            return Err(Error::invalid(format!("a table has 1 to 8 dimensions, found {}", dimensions.len())));
        }
        let mut dimension_indices = Vec::new();
        for name in dimensions {
            let index = find(name, "dimension")?;
            check_dimension(name, schema.field(index).data_type(), dimension_indices.contains(&index))?;
            dimension_indices.push(index);
        }
        let hashed = |names: &[String], role: &str| {
            let mut found = Vec::new();
            for name in names {
                let index = find(name, role)?;
                if !priority::is_identity_type(schema.field(index).data_type()) {
                    let data_type = schema.field(index).data_type();
                    return Err(Error::invalid(format!(
                        "column {name:?} has the type {data_type} and cannot be of the {role}"
                    )));
                }
                if found.contains(&index) {
                    return Err(Error::invalid(format!("column {name:?} is given twice in the {role}")));
                }
                found.push(index);
            }
            Ok(found)
        };
        let mut identities = hashed(identity, "identity")?;
        let lookup = hashed(lookup, "lookup")?;
        let hidden = identity.is_empty();
        let mut stored: Vec<Arc<Field>> = user.iter().map(|field| as_stored(field)).collect();
        stored.push(Arc::new(Field::new(STEP, DataType::Int64, false)));
        if hidden {
            identities = vec![stored.len(), stored.len() + 1];
            stored.push(Arc::new(Field::new(WRITER, DataType::Utf8, false)));
            stored.push(Arc::new(Field::new(ROW, DataType::UInt64, false)));
        }
        let text = |field: &Arc<Field>| {
            let entries = field.metadata().iter().map(|(key, value)| (key.clone(), value.clone().into()));
            (field.name().clone(), entries.collect::<Metadata>())
        };
        Ok(TableSchema {
            asked: Schema::new(stored.clone()),
            stored_index: (0..stored.len()).collect(),
            metadata: Metadata::new(),
            about: user.iter().filter(|field| !field.metadata().is_empty()).map(text).collect(),
            accuracy: BTreeMap::new(),
            kept_below: None,
            compression: Compression::default(),
            strata: Strata::default(),
            version: 0,
            created: user.len(),
            added: Vec::new(),
            user: Arc::new(Schema::new_with_metadata(user, schema.metadata().clone())),
            stored: Arc::new(Schema::new_with_metadata(stored, schema.metadata().clone())),
            dimensions: dimension_indices,
            grids: Vec::new(),
            identity: identities,
            sampling: Sampling::Uniform,
            weight: None,
            weight_scale: None,
            lookup,
            hidden,
        })
    }

    /// # Errors
    ///
    /// `Invalid` if the alteration does not fit the alterations before it.
    pub fn with_alteration(&self, alteration: &Alteration) -> Result<TableSchema> {
        let mut next = TableSchema { version: self.version + 1, ..self.clone() };
        match alteration {
            Alteration::AddColumn { field, default, accuracy } => {
                next.add(field, default)?;
                if let Some(accuracy) = accuracy {
                    next.bound(field.name(), *accuracy)?;
                }
            }
            Alteration::KeptBelow { column } => next.keep_below(column)?,
            Alteration::Grid(grid) => next.regrid(grid)?,
            Alteration::Compression { compression } => next.compression = *compression,
            Alteration::Strata { strata } => next.strata = *strata,
            Alteration::Weight { .. } if self.weight_scale.is_some() => {
                return Err(Error::invalid("the table has a scale of weights already"));
            }
            Alteration::Weight { scale } => next.weight_scale = Some(*scale),
            // `History` stores the declared writers.
            Alteration::Writers(_) => {}
            Alteration::Set { column: None, values } => merge(&mut next.metadata, values),
            Alteration::Set { column: Some(name), values } => {
                self.exact_column(name)?;
                let about = next.about.entry(name.clone()).or_default();
                merge(about, values);
                let about = about.clone();
                next.about.retain(|_, about| !about.is_empty());
                let text = |(key, value): (&String, &serde_json::Value)| {
                    (key.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_string))
                };
                let fields = self.user.fields().iter().map(|field| match field.name() == name {
                    true => Arc::new(
                        field.as_ref().clone().with_metadata(about.iter().map(text).collect::<HashMap<_, _>>()),
                    ),
                    false => field.clone(),
                });
                next.user =
                    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), self.user.metadata().clone()));
            }
        }
        Ok(next)
    }

    /// # Errors
    ///
    /// `Invalid` names a column that is missing or cannot have an error bound.
    pub fn with_accuracy<'a>(
        mut self,
        bounds: impl IntoIterator<Item = (&'a String, &'a Accuracy)>,
    ) -> Result<TableSchema> {
        for (name, accuracy) in bounds {
            self.bound(name, *accuracy)?;
        }
        Ok(self)
    }

    fn bound(&mut self, name: &str, accuracy: Accuracy) -> Result<()> {
        let column = self.exact_column(name)?;
        let refused =
            |why: String| Err(Error::invalid(format!("column {name:?} cannot have the accuracy {accuracy}: {why}")));
        if !Accuracy::suits(self.stored.field(column).data_type()) {
            let data_type = self.stored.field(column).data_type();
            return refused(format!("its type is {data_type}, and only integers and floats are rounded"));
        }
        if self.identity.contains(&column) {
            return refused("it is of the identity, which tells records apart by their exact values".into());
        }
        if self.lookup.contains(&column) {
            return refused("it is for lookups, which ask for exact values".into());
        }
        self.accuracy.insert(column, accuracy);
        Ok(())
    }

    /// The encoding of new runs: compression, strata and rounding steps.
    pub fn run_encoding(&self) -> RunEncoding {
        let steps = self.accuracy.iter().filter_map(|(column, accuracy)| Some((*column, accuracy.step()?)));
        RunEncoding { compression: self.compression, strata: self.strata, steps: steps.collect() }
    }

    /// Returns a user's batch with the values that the table would store: rounded to the error bounds, in the table's
    /// units. Changed columns have their stored types.
    ///
    /// # Errors
    ///
    /// `Invalid` if values do not fit a column's type.
    pub fn rounded(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let (mut fields, mut columns) = (batch.schema().fields().to_vec(), batch.columns().to_vec());
        for (index, given) in batch.schema().fields().iter().enumerate() {
            let Ok(user) = self.user.index_of(given.name()) else { continue };
            let (column, user) = (self.stored_index[user], self.measured(self.user.field(user)));
            let accuracy = self.accuracy.get(&column);
            if accuracy.is_none() && unit_of(given) == unit_of(&user) {
                continue;
            }
            let data_type = self.stored.field(column).data_type();
            let is_rounded = accuracy.is_some();
            let values = IncomingColumn { field: given, values: &columns[index], first_row: 0, is_rounded };
            let values = values.stored(&user, data_type)?;
            columns[index] = accuracy.map_or_else(|| values.clone(), |accuracy| accuracy.round(&values));
            fields[index] = Arc::new(user.with_data_type(data_type.clone()));
        }
        let schema = Arc::new(Schema::new_with_metadata(fields, batch.schema().metadata().clone()));
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(schema, columns, &options).map_err(Error::invalid)
    }

    pub fn newest_grid(&self) -> u32 {
        self.grids.len() as u32
    }

    /// The dimensions of a grid as stored columns; `None` for grid 0.
    pub fn columns_of(&self, grid: u32) -> Option<&Vec<usize>> {
        let place = (grid as usize).checked_sub(1)?;
        self.grids.get(place).map(|grid| &grid.dimensions)
    }

    fn regrid(&mut self, grid: &NewGrid) -> Result<()> {
        let (next, columns) = (self.newest_grid() + 1, grid.dimensions.len());
        if grid.grid != next || next > LAST_GRID {
            return Err(Error::invalid(format!("grid {} does not follow grid {}", grid.grid, next - 1)));
        }
        if !(1..=MAX_DIMENSIONS).contains(&columns) {
            return Err(Error::invalid(format!("a grid has 1 to {MAX_DIMENSIONS} dimensions, found {columns}")));
        }
        let mut dimensions = Vec::new();
        for name in grid.dimensions.iter().map(|dimension| &dimension.column) {
            let column = self.exact_column(name)?;
            check_dimension(name, self.stored.field(column).data_type(), dimensions.contains(&column))?;
            dimensions.push(column);
        }
        let scales = grid.dimensions.iter().map(|dimension| dimension.scale.clone()).collect();
        self.dimensions.clone_from(&dimensions);
        self.grids.push(Grid { dimensions, scales, said: Arc::new(grid.clone()) });
        Ok(())
    }

    fn keep_below(&mut self, column: &str) -> Result<()> {
        if let Some(there) = self.kept_below {
            let there = self.user_field(there).name();
            return Err(Error::invalid(format!("column {there:?} says already below which priority records are kept")));
        }
        let field = Field::new(column, DataType::Float64, true);
        self.add(&field, &arrow_array::new_null_array(&DataType::Float64, 1))?;
        self.kept_below = Some(self.stored.fields().len() - 1);
        Ok(())
    }

    fn add(&mut self, field: &Field, default: &ArrayRef) -> Result<()> {
        let name = field.name();
        if self.user.index_of(name).is_ok() {
            return Err(Error::invalid(format!("column {name:?} is in the table already")));
        }
        let field = checked(field)?;
        let stored = as_stored(&field);
        let cannot = |why: String| Error::invalid(format!("column {name:?} cannot be added: {why}"));
        if default.len() != 1 {
            return Err(cannot(format!("it needs one default, found {}", default.len())));
        }
        if default.data_type() != stored.data_type() {
            let (found, wanted) = (default.data_type(), stored.data_type());
            return Err(cannot(format!("its default is of the type {found}, not {wanted}")));
        }
        if !field.is_nullable() && default.is_null(0) {
            return Err(cannot("it must not be null and has no default for the records that are here".into()));
        }
        check_lengths(name, default, 0)?;
        if let Some(unit) = field.metadata().get(UNIT) {
            self.about.entry(name.clone()).or_default().insert(UNIT.into(), unit.as_str().into());
        }
        let push = |schema: &Schema, field: Arc<Field>| {
            let fields = schema.fields().iter().cloned().chain([field]).collect::<Vec<_>>();
            Schema::new_with_metadata(fields, schema.metadata().clone())
        };
        self.stored_index.insert(self.user.fields().len(), self.stored.fields().len());
        self.user = Arc::new(push(&self.user, Arc::new(field)));
        self.stored = Arc::new(push(&self.stored, stored));
        self.asked = self.stored.project(&self.stored_index).map_err(Error::kernel)?;
        self.added.push(Added::new(default.clone()));
        Ok(())
    }

    /// Describes the columns, without field metadata of Arrow and Parquet, which is stored but not shown.
    pub fn describe(&self) -> Vec<ColumnInfo> {
        let foreign = |key: &str| key.starts_with("ARROW:") || key.starts_with("PARQUET:");
        let fields = self.user.fields().iter().enumerate();
        fields
            .map(|(index, field)| {
                let added = index.checked_sub(self.created).map(|index| &self.added[index].default);
                let mut about = self.about.get(field.name()).cloned().unwrap_or_default();
                about.retain(|key, _| !foreign(key));
                ColumnInfo {
                    name: field.name().clone(),
                    data_type: field.data_type().to_string(),
                    nullable: field.is_nullable(),
                    accuracy: self.accuracy.get(&self.stored_index[index]).map(Accuracy::to_string),
                    unit: about.remove(UNIT).map(|unit| unit.as_str().map_or(unit.to_string(), str::to_string)),
                    metadata: about,
                    added: added.is_some(),
                    default: added
                        .filter(|default| default.is_valid(0))
                        .and_then(|default| array_value_to_string(default, 0).ok()),
                }
            })
            .collect()
    }

    /// True if `other` has the same created columns, and all its added columns are here.
    pub fn agrees(&self, other: &TableSchema) -> bool {
        let same = |(one, other): (&Arc<Field>, &Arc<Field>)| {
            one.name() == other.name()
                && one.data_type() == other.data_type()
                && one.is_nullable() == other.is_nullable()
        };
        let (created, added) = self.user.fields().split_at(self.created);
        other.user.fields().split_at_checked(self.created).is_some_and(|(first, more)| {
            created.iter().zip(first).all(same) && more.iter().all(|field| added.iter().any(|own| same((own, field))))
        })
    }

    pub fn periods(&self) -> Vec<(String, Period)> {
        let fields = self.user.fields().iter();
        fields.filter_map(|field| Some((field.name().clone(), Period::of(&self.measured(field))?))).collect()
    }

    /// Refuses rows outside a period that was set after they were appended.
    ///
    /// # Errors
    ///
    /// `Invalid` names the column, the row and the value.
    pub fn check_periods(&self, rows: &RecordBatch) -> Result<()> {
        self.visible().iter().try_for_each(|column| check_inside(&self.with_unit(*column), rows.column(*column), 0))
    }

    /// Whether both schemas have the same error bounds, if `other` agrees with this schema.
    pub fn agrees_on_accuracy(&self, other: &TableSchema) -> bool {
        let bound = |schema: &TableSchema, name: &str| {
            let index = schema.user.index_of(name).ok()?;
            schema.accuracy.get(&schema.stored_index[index]).copied()
        };
        other.user.fields().iter().all(|field| bound(self, field.name()) == bound(other, field.name()))
    }

    /// The number of stored columns that every run has.
    pub fn base(&self) -> usize {
        self.created + if self.hidden { 3 } else { 1 } + usize::from(self.weight.is_some())
    }

    /// The default as one row, for runs that lack the column.
    pub fn default_of(&self, column: usize) -> &dyn Array {
        self.added[column - self.base()].default.as_ref()
    }

    pub fn zone_of_default(&self, column: usize) -> Zone {
        self.added[column - self.base()].zone
    }

    /// Adds missing columns to a stored batch of an earlier version.
    ///
    /// # Errors
    ///
    /// `Internal` if Arrow fails.
    pub fn widened(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let mut columns = batch.columns().to_vec();
        for added in &self.added[columns.len() - self.base()..] {
            columns.push(added.rows(batch.num_rows())?);
        }
        RecordBatch::try_new(self.stored.clone(), columns).map_err(Error::kernel)
    }

    /// Converts a user's batch to stored form; columns are matched by name, and added columns may be missing. The
    /// writer has written `first_row` rows before, and messages count rows from `offset`.
    ///
    /// # Errors
    ///
    /// `Invalid` names the column, the row and the value that does not fit.
    pub fn to_stored(&self, batch: &RecordBatch, writer: &str, first_row: u64, offset: usize) -> Result<RecordBatch> {
        let given = batch.schema();
        for field in given.fields() {
            if self.user.index_of(field.name()).is_err() {
                return Err(Error::invalid(format!(
                    "column {:?} of the data is not in the table; its columns are {}",
                    field.name(),
                    column_names(&self.user)
                )));
            }
        }
        let rows = batch.num_rows();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.stored.fields().len());
        for (index, field) in self.user.fields().iter().enumerate() {
            let (name, stored) = (field.name(), self.stored.field(self.stored_index[index]));
            if index == self.created {
                self.push_hidden(&mut columns, rows, writer, first_row);
            }
            if index >= self.created && batch.column_by_name(name).is_none() {
                columns.push(self.added[index - self.created].rows(rows)?);
                continue;
            }
            let (place, given) = given.column_with_name(name).ok_or_else(|| {
                Error::invalid(format!(
                    "column {name:?} of the table is missing in the data; it has {}",
                    column_names(&given)
                ))
            })?;
            let is_rounded = self.accuracy.contains_key(&self.stored_index[index]);
            let given = IncomingColumn { field: given, values: batch.column(place), first_row: offset, is_rounded };
            let column = self.measured(field);
            let array = given.stored(&column, stored.data_type())?;
            check_lengths(name, &array, offset)?;
            check_inside(&column, &array, offset)?;
            // Rounded first, so that everything else is computed from the stored values.
            columns.push(match self.accuracy.get(&self.stored_index[index]) {
                Some(accuracy) => accuracy.round(&array),
                None => array,
            });
        }
        if self.added.is_empty() {
            self.push_hidden(&mut columns, rows, writer, first_row);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let stored =
            RecordBatch::try_new_with_options(self.stored.clone(), columns, &options).map_err(Error::invalid)?;
        self.check_weights(&stored, offset)?;
        Ok(stored)
    }

    fn push_hidden(&self, columns: &mut Vec<ArrayRef>, rows: usize, writer: &str, first_row: u64) {
        columns.push(Arc::new(Int64Array::from_value(NO_STEP, rows)));
        if self.hidden {
            columns.push(Arc::new(StringArray::from_iter_values(std::iter::repeat_n(writer, rows))));
            columns.push(Arc::new(UInt64Array::from_iter_values(first_row..first_row + rows as u64)));
        }
        if self.weight.is_some() {
            columns.push(Arc::new(Float32Array::from_value(UNWEIGHED, rows)));
        }
    }

    pub fn step(&self) -> usize {
        self.created
    }

    /// # Errors
    ///
    /// `Internal` if Arrow fails.
    pub fn with_step(&self, batch: RecordBatch, step: Option<i64>) -> Result<RecordBatch> {
        let Some(step) = step else { return Ok(batch) };
        let mut columns = batch.columns().to_vec();
        columns[self.step()] = Arc::new(Int64Array::from_value(step, batch.num_rows()));
        RecordBatch::try_new(batch.schema(), columns).map_err(Error::kernel)
    }

    pub fn user_field(&self, column: usize) -> &Arc<Field> {
        let index = if column < self.created { column } else { self.created + column - self.base() };
        &self.user.fields()[index]
    }

    /// # Errors
    ///
    /// `Internal` or `Invalid` if Arrow cannot cast the values to the user's type.
    pub fn to_user(&self, column: usize, array: ArrayRef) -> Result<ArrayRef> {
        let wanted = self.user_field(column).data_type();
        if array.data_type() == wanted {
            return Ok(array);
        }
        match arrow_cast::cast(&array, wanted) {
            // A code may exceed the user's type although few values are used, so the values are encoded again.
            Err(_) if matches!(array.data_type(), DataType::Dictionary(..)) => {
                let plain = self.stored.field(column).data_type();
                let plain = arrow_cast::cast(&array, plain).map_err(Error::kernel)?;
                arrow_cast::cast(&plain, wanted).map_err(Error::kernel)
            }
            cast => cast.map_err(Error::kernel),
        }
    }

    pub fn has_identity(&self) -> bool {
        !self.hidden
    }

    pub fn visible(&self) -> &[usize] {
        &self.stored_index[..self.user.fields().len()]
    }

    /// The visible columns with their stored types and units.
    pub fn conditional(&self) -> Schema {
        let fields = self.asked.fields()[..self.user.fields().len()].iter();
        Schema::new(fields.map(|field| self.measured(field)).collect::<Vec<_>>())
    }

    pub fn with_unit(&self, column: usize) -> Field {
        self.measured(self.user_field(column))
    }

    /// Keeps only the unit, period and sphere of the metadata.
    fn measured(&self, field: &Field) -> Field {
        let about = self.about.get(field.name());
        let text = |key: &str| Some((key.to_owned(), about?.get(key)?.as_str()?.to_owned()));
        field.clone().with_metadata([UNIT, PERIOD, SPHERE].into_iter().filter_map(text).collect::<HashMap<_, _>>())
    }

    /// Finds a column by its exact name, or else ignoring letter case.
    ///
    /// # Errors
    ///
    /// `Expression` suggests a similar column and lists all columns.
    pub fn column(&self, name: &str) -> Result<usize> {
        Ok(self.stored_index[column_index(&self.user, name)?])
    }

    /// # Errors
    ///
    /// The errors of [`TableSchema::column`].
    pub fn own_name(&self, name: &str) -> Result<&str> {
        Ok(self.user.field(column_index(&self.user, name)?).name())
    }

    /// Finds a column by its exact name, as stored metadata uses it.
    fn exact_column(&self, name: &str) -> Result<usize> {
        let index = self.user.index_of(name);
        index.map(|index| self.stored_index[index]).map_err(|_| {
            Error::invalid(format!("there is no column {name:?}; the table has {}", column_names(&self.user)))
        })
    }
}

fn checked(field: &Field) -> Result<Field> {
    let name = field.name();
    if [STEP, WRITER, ROW, WEIGHT].contains(&name.as_str()) {
        return Err(Error::invalid(format!("the column name {name:?} is reserved")));
    }
    let data_type = user_type(field.data_type()).ok_or_else(|| {
        Error::invalid(format!("column {name:?} has the type {}, which is not supported", field.data_type()))
    })?;
    let mut metadata = field.metadata().clone();
    if let Some(unit) = unit_of(field) {
        metadata.insert(UNIT.to_owned(), unit.to_owned());
    }
    Ok(field.clone().with_data_type(data_type).with_metadata(metadata))
}
