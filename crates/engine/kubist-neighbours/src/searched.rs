//! A table whose rows have positions.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kubist::{Cancel, Error, Query, QueryStream, Result, RunOptions, Snapshot, Stats};
use kubist_expr::{Meant, in_unit_of};
use kubist_metric::{Density, MOST_AXES, Reach, Space};
use kubist_region::{Length, Period, Region};
use serde::Deserialize;

use crate::columns::{self, Axis, unit};

/// Size of the sample that predicts densities.
const SAMPLE_ROWS: u64 = 50_000;
/// Expected number of rows in a group or tile.
const TILE_ROWS: usize = 400_000;

/// The rows to search, and their distance.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SearchRequest {
    /// The rows, and the columns to return; without `limit`, `per_cell`, `window`, `order_by` and
    /// `inclusion`.
    pub query: Query,
    /// The columns of Euclidean positions; by default all dimensions.
    pub on: Option<Vec<String>>,
    /// Periods of columns in the columns' units, in addition to the table's own periods.
    pub period: BTreeMap<String, f64>,
    /// The columns of longitude and latitude: distances are angles in degrees.
    pub sphere: Option<[String; 2]>,
    /// Approximate number of rows to search at a time, which bounds the memory; by default 400,000.
    pub tile_rows: Option<usize>,
}

/// A snapshot whose rows have positions.
#[derive(Clone)]
pub struct Searched {
    snapshot: Snapshot,
    query: Query,
    pub(crate) space: Space,
    pub(crate) axes: Vec<Axis>,
    schema: SchemaRef,
    /// Expected number of rows in a group or tile.
    pub(crate) tile_rows: usize,
    pub(crate) cancel: Cancel,
    stats: Arc<Mutex<Stats>>,
}

impl Searched {
    /// Binds positions and rows to a snapshot.
    ///
    /// # Errors
    ///
    /// `Invalid` for unknown columns, columns without numbers or with different units, and parameters that
    /// neighbours do not support; the errors of [`Snapshot::query`].
    pub fn new(snapshot: &Snapshot, asked: &SearchRequest, cancel: &Cancel) -> Result<Searched> {
        let unfit = [
            ("limit", asked.query.limit.is_some()),
            ("per_cell", asked.query.per_cell.is_some()),
            ("window", asked.query.window.is_some()),
            ("order_by", asked.query.order_by.is_some()),
            ("inclusion", asked.query.inclusion.is_some()),
        ];
        if let Some((name, _)) = unfit.iter().find(|(_, given)| *given) {
            return Err(Error::invalid(format!(
                "{name}: neighbours are searched among all rows, or those of `sample`"
            )));
        }
        let names = match (&asked.sphere, &asked.on) {
            (Some(_), Some(_)) => return Err(Error::invalid("on and sphere: give one of both")),
            (Some(names), None) => names.to_vec(),
            (None, Some(names)) => names.clone(),
            (None, None) => snapshot.about()?.dimensions.into_iter().map(|dimension| dimension.column).collect(),
        };
        if names.is_empty() || names.len() > MOST_AXES {
            let count = names.len();
            return Err(Error::invalid(format!("on: {count} columns; a distance has 1 to {MOST_AXES}")));
        }
        let schema = snapshot.schema();
        let axis = |name: &String| Axis::new(&schema, name, asked.sphere.is_some());
        let axes = names.iter().map(axis).collect::<Result<Vec<Axis>>>()?;
        if let Some(twice) = (1..axes.len()).find(|axis| axes[..*axis].iter().any(|a| a.name() == axes[*axis].name())) {
            return Err(Error::invalid(format!("on: column {:?} is given twice", axes[twice].name())));
        }
        let space = match asked.sphere {
            Some(_) => sphere(asked)?,
            None => flat(asked, &axes)?,
        };
        let mut searched = Searched {
            snapshot: snapshot.clone(),
            query: asked.query.clone(),
            space,
            axes,
            schema,
            tile_rows: asked.tile_rows.unwrap_or(TILE_ROWS).max(1),
            cancel: cancel.clone(),
            stats: Arc::default(),
        };
        let none =
            RunOptions::with_cancel(cancel).of(Query { sample: Some(f64::MIN_POSITIVE), ..searched.query.clone() });
        searched.schema = searched.snapshot.query(none)?.schema();
        Ok(searched)
    }

    /// The columns of results.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// The cost so far.
    pub fn stats(&self) -> Stats {
        *self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_sphere(&self) -> bool {
        self.space == Space::Sphere
    }

    pub(crate) fn distance_field(&self) -> Field {
        let unit = if self.is_sphere() { "deg" } else { unit(&self.axes[0].field) };
        let field = Field::new("distance", DataType::Float64, false);
        match unit {
            "" => field,
            unit => field.with_metadata(HashMap::from([("unit".to_owned(), unit.to_owned())])),
        }
    }

    pub(crate) fn chunk_rows(&self) -> usize {
        self.tile_rows.saturating_mul(4)
    }

    pub(crate) fn spend(&self, stats: &Stats) {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner).add(stats);
    }

    /// Converts a length to the unit of positions: that of the columns, or degrees.
    ///
    /// # Errors
    ///
    /// `Invalid` if it is negative or not finite, of another unit, or above half of a period.
    pub fn radius(&self, what: &str, length: &Length) -> Result<f64> {
        let radius = match (length, &self.space) {
            (Length::Number(number), _) => Some(*number),
            (Length::Text(text), Space::Flat { .. }) => in_unit_of(&self.axes[0].field, text, Meant::Distance)?,
            (Length::Text(text), Space::Sphere) => {
                let degrees = Field::new(what, DataType::Float64, false);
                let degrees = degrees.with_metadata(HashMap::from([("unit".to_owned(), "deg".to_owned())]));
                in_unit_of(&degrees, text, Meant::Distance)?
            }
        };
        let shown = match length {
            Length::Number(number) => number.to_string(),
            Length::Text(text) => format!("{text:?}"),
        };
        let Some(radius) = radius.filter(|radius| radius.is_finite()) else {
            return Err(Error::invalid(format!("{what}: {shown} is no length")));
        };
        if radius < 0.0 {
            return Err(Error::invalid(format!("{what}: {shown} is negative")));
        }
        let most = self.space.most_radius();
        if radius > most {
            let reason = if self.space == Space::Sphere { "degrees" } else { "half of the shortest period" };
            return Err(Error::invalid(format!("{what}: {shown} is above {most}, {reason}")));
        }
        Ok(radius)
    }

    /// The requested columns if `with_columns`, then the axes.
    pub(crate) fn query(&self, reach: &Reach, with_columns: bool) -> Result<QueryStream> {
        self.snapshot.query(RunOptions::with_cancel(&self.cancel).of(self.restricted(reach, with_columns)))
    }

    fn restricted(&self, reach: &Reach, with_columns: bool) -> Query {
        let mut query = self.query.clone();
        if let Some(near) = columns::region(&self.space, &self.axes, reach) {
            query.region = Some(match query.region {
                Some(region) => Region::Intersection(vec![region, near]),
                None => near,
            });
        }
        let mut names = match with_columns {
            true => query.columns.unwrap_or_else(|| vec!["*".into()]),
            false => Vec::new(),
        };
        for (number, axis) in self.axes.iter().enumerate() {
            names.push(format!("\"{}\" AS \"position {number} of a neighbour\"", axis.name().replace('"', "\"\"")));
        }
        query.columns = Some(names);
        query
    }

    /// The sample has at least `least` rows, if there are so many.
    pub(crate) fn density(&self, least: u64) -> Result<Density> {
        let limit = SAMPLE_ROWS.max(least);
        let query = Query { limit: Some(limit), ..self.restricted(&Reach(Vec::new()), false) };
        let wanted = query.sample.unwrap_or(1.0);
        let mut stream = self.snapshot.query(RunOptions::with_cancel(&self.cancel).of(query))?;
        let mut found = Vec::new();
        for batch in &mut stream {
            let (positions, valid) = columns::positions(&self.space, &self.axes, &batch?)?;
            let positions = positions.chunks_exact(self.axes.len()).zip(valid);
            found.extend(positions.filter(|(_, valid)| *valid).flat_map(|(position, _)| position.iter().copied()));
        }
        self.spend(&stream.stats());
        Ok(Density { positions: found, scale: (wanted / stream.fraction()).max(1.0) })
    }
}

fn sphere(asked: &SearchRequest) -> Result<Space> {
    match asked.period.keys().next() {
        Some(name) => {
            Err(Error::invalid(format!("period: {name:?} is not needed: a sphere has no other period than 360")))
        }
        None => Ok(Space::Sphere),
    }
}

fn flat(asked: &SearchRequest, axes: &[Axis]) -> Result<Space> {
    let first = &axes[0];
    if let Some(other) = axes.iter().find(|axis| unit(&axis.field) != unit(&first.field)) {
        let shown = |axis: &Axis| match unit(&axis.field) {
            "" => format!("column {:?} without a unit", axis.name()),
            unit => format!("column {:?} in {unit}", axis.name()),
        };
        return Err(Error::invalid(format!(
            "there is no distance between {} and {}: choose columns with `on`",
            shown(first),
            shown(other)
        )));
    }
    let mut periods: Vec<Option<f64>> =
        axes.iter().map(|axis| Period::of(&axis.field).map(|period| period.length())).collect();
    for (name, period) in &asked.period {
        let Some(axis) = axes.iter().position(|axis| axis.name().eq_ignore_ascii_case(name)) else {
            let names: Vec<&str> = axes.iter().map(Axis::name).collect();
            return Err(Error::invalid(format!(
                "period: {name:?} is no column of the distance ({})",
                names.join(", ")
            )));
        };
        if !(*period > 0.0 && period.is_finite()) {
            return Err(Error::invalid(format!("period: {period} of {name:?} must be above 0")));
        }
        periods[axis] = Some(*period);
    }
    Ok(Space::Flat { periods })
}

/// Own columns come before those of rows.
pub(crate) fn joined(own: Vec<Field>, rows: &Schema) -> Result<SchemaRef> {
    if let Some(twice) = own.iter().find(|field| rows.column_with_name(field.name()).is_some()) {
        return Err(Error::invalid(format!(
            "column {:?}: the result has its own column of this name; choose others with `columns`, or rename it with AS",
            twice.name()
        )));
    }
    let fields = own.into_iter().map(Arc::new).chain(rows.fields().iter().cloned());
    Ok(Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), rows.metadata().clone())))
}
