//! The columns of a query: the variables of a grid, which have the same axes. A variable with fewer axes, such as a
//! coordinate or a depth per location, has a value at every position. The positions along an axis are the column
//! `AXIS_index`.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kubist_expr::Predicate;
use kubist_types::query::{Bound, Region, bounds};
use kubist_types::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::layout::Layout;
use crate::shape::Rect;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FileQuery {
    #[serde(rename = "where")]
    pub filter: Option<String>,
    /// By axis: the first position, and the position after the last one.
    pub isel: Vec<(String, u64, Option<u64>)>,
    /// By column: a closed range of its values.
    #[serde(rename = "box", with = "bounds")]
    pub bounds: Vec<Bound>,
    pub region: Option<Region>,
    pub columns: Option<Vec<String>>,
    /// The fraction of positions to sample.
    pub sample: Option<f64>,
    /// The maximum number of records. These are the records with the lowest priority, which are a uniform sample.
    pub limit: Option<u64>,
    pub skip_damaged: bool,
    /// A part of the result: the part's number from 0, and the number of parts.
    pub split: Option<(u64, u64)>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    Variable {
        variable: usize,
        axes: Vec<usize>,
    },
    /// The positions along an axis.
    Index {
        axis: usize,
    },
}

/// A query that is bound to the arrays of a file.
#[derive(Clone, Debug)]
pub struct Grid {
    pub driver: usize,
    /// The axes, as indexes into the layout's dimensions.
    pub dimensions: Vec<usize>,
    pub schema: SchemaRef,
    pub columns: Vec<Column>,
    pub predicate: Predicate,
    pub read: Vec<usize>,
    pub output: Vec<usize>,
    pub names_files: bool,
    pub region: Rect,
}

/// The column with the file of each record.
pub const FILE: &str = "file";

enum Name {
    Variable(usize),
    Index(String),
}

impl Grid {
    /// The columns that conditions can name, in all grids of a file.
    pub fn names(layout: &Layout) -> SchemaRef {
        names(layout).0
    }

    /// Binds a query to a file. With `several`, several files are queried, and `file` is a column of the result.
    ///
    /// # Errors
    ///
    /// `Expression` or `Invalid` names the wrong column, the variables of different grids, or the range.
    pub fn bind(layout: &Layout, query: &FileQuery, several: bool) -> Result<Grid> {
        let (schema, names) = names(layout);
        let mut predicate = match &query.filter {
            Some(filter) => Predicate::parse(filter, &schema)?,
            None => Predicate::always(),
        };
        for Bound { column, low, high } in &query.bounds {
            predicate = predicate.and(Predicate::range(&schema, column, low.as_ref(), high.as_ref())?);
        }
        if let Some(region) = &query.region {
            predicate = predicate.and(region.predicate(&schema)?);
        }
        let find = |name: &String| kubist_expr::column_index(&schema, name).map_err(Error::from);
        let is_file = |name: &&String| several && name.as_str() == FILE;
        let names_files = several && query.columns.as_ref().is_none_or(|names| names.iter().any(|name| name == FILE));
        let of_grid =
            |names: &Vec<String>| names.iter().filter(|name| !is_file(name)).map(find).collect::<Result<Vec<_>>>();
        let asked = query.columns.as_ref().map(of_grid).transpose()?;
        let read = predicate.columns();
        let named: Vec<usize> = read.iter().chain(asked.iter().flatten()).copied().collect();
        let driver = driver(layout, &names, &named)?;
        let dimensions = layout.variables[driver].dimensions.clone();
        let columns = names.iter().map(|name| placed(layout, name, &dimensions)).collect::<Vec<_>>();
        for column in &named {
            if columns[*column].is_none() {
                return Err(Error::invalid(format!(
                    "{:?} and {:?} are on different grids: query one of them",
                    schema.field(*column).name(),
                    layout.variables[driver].name
                )));
            }
        }
        let output = asked.unwrap_or_else(|| everything(layout, &names, &columns, &read, driver));
        let columns = columns.into_iter().map(|column| column.unwrap_or(Column::Index { axis: 0 })).collect();
        let region = region(layout, &dimensions, &query.isel)?;
        Ok(Grid { driver, dimensions, schema, columns, predicate, read, output, names_files, region })
    }

    /// The columns of the result, without the file.
    pub fn fields(&self) -> Vec<Field> {
        self.output.iter().map(|column| self.schema.field(*column).clone()).collect()
    }

    pub fn index(rect: &Rect, axis: usize, places: &[u32]) -> ArrayRef {
        let below: u64 = rect.count[axis + 1..].iter().product();
        let at = |place: &u32| (rect.start[axis] + u64::from(*place) / below % rect.count[axis]) as i64;
        Arc::new(Int64Array::from_iter_values(places.iter().map(at)))
    }

    /// The linear numbers of places within the rectangle's projection onto some axes. With `whole`, the lengths of
    /// these axes, the numbers are within the full array.
    pub fn projected(rect: &Rect, axes: &[usize], whole: Option<&[u64]>, places: &[u32]) -> Vec<u64> {
        let lengths: Vec<u64> = match whole {
            Some(lengths) => lengths.to_vec(),
            None => axes.iter().map(|axis| rect.count[*axis]).collect(),
        };
        let strides = crate::shape::strides(&lengths);
        let steps: Vec<(u64, u64, u64, u64)> = axes
            .iter()
            .zip(strides)
            .map(|(axis, stride)| {
                let below: u64 = rect.count[axis + 1..].iter().product();
                let origin = if whole.is_some() { rect.start[*axis] } else { 0 };
                (below, rect.count[*axis], origin, stride)
            })
            .collect();
        let place = |place: &u32| {
            let place = u64::from(*place);
            steps.iter().map(|(below, count, origin, stride)| (origin + place / below % count) * stride).sum()
        };
        places.iter().map(place).collect()
    }
}

fn names(layout: &Layout) -> (SchemaRef, Vec<Name>) {
    let (mut fields, mut names) = (Vec::new(), Vec::new());
    for (at, variable) in layout.variables.iter().enumerate() {
        fields.push(variable.field());
        names.push(Name::Variable(at));
    }
    for dimension in &layout.dimensions {
        let name = format!("{}_index", dimension.name);
        if !fields.iter().any(|field: &Field| *field.name() == name) {
            fields.push(Field::new(name, DataType::Int64, false));
            names.push(Name::Index(dimension.name.clone()));
        }
    }
    (Arc::new(Schema::new(fields)), names)
}

/// The named variable with the most axes, and among several the first in the file, so the order in the condition does
/// not matter.
fn driver(layout: &Layout, names: &[Name], named: &[usize]) -> Result<usize> {
    let rank = |variable: &usize| layout.variables[*variable].dimensions.len();
    let mut variables: Vec<usize> = named
        .iter()
        .filter_map(|column| match names[*column] {
            Name::Variable(variable) => Some(variable),
            Name::Index(_) => None,
        })
        .collect();
    variables.sort_unstable();
    let Some(most) = variables.iter().map(rank).max() else {
        // As in ingestion, the data is the variables with the most axes.
        let data = || (0..layout.variables.len()).filter(|at| layout.is_data(&layout.variables[*at]));
        let most = data().map(|at| rank(&at)).max();
        let data: Vec<usize> = data().filter(|at| Some(rank(at)) == most).collect();
        let names = || data.iter().map(|at| layout.variables[*at].name.as_str()).collect::<Vec<_>>().join(", ");
        return match data[..] {
            [only] => Ok(only),
            [] => Err(Error::invalid("it has only coordinates: name one in the condition or as a column")),
            _ => Err(Error::invalid(format!(
                "which variables? Name some in the condition or as columns: there are {}",
                names()
            ))),
        };
    };
    variables
        .into_iter()
        .find(|variable| rank(variable) == most)
        .ok_or_else(|| Error::internal("no variable of a rank"))
}

fn placed(layout: &Layout, name: &Name, dimensions: &[usize]) -> Option<Column> {
    let place = |axis: &usize| dimensions.iter().position(|own| own == axis);
    match name {
        Name::Index(name) => {
            let axis = dimensions.iter().position(|axis| layout.dimensions[*axis].name == *name);
            axis.map(|axis| Column::Index { axis })
        }
        Name::Variable(variable) => {
            let axes: Option<Vec<usize>> = layout.variables[*variable].dimensions.iter().map(place).collect();
            let axes = axes.filter(|axes| axes.is_sorted_by(|a, b| a < b))?;
            Some(Column::Variable { variable: *variable, axes })
        }
    }
}

/// The default columns: positions, coordinates, and the variables of the condition.
fn everything(
    layout: &Layout,
    names: &[Name],
    columns: &[Option<Column>],
    read: &[usize],
    driver: usize,
) -> Vec<usize> {
    let mut output: Vec<usize> =
        (0..names.len()).filter(|at| matches!(columns[*at], Some(Column::Index { .. }))).collect();
    output.sort_by_key(|at| match columns[*at] {
        Some(Column::Index { axis }) => axis,
        _ => usize::MAX,
    });
    let coordinates = &layout.variables[driver].dimensions;
    for axis in coordinates {
        output.extend((0..names.len()).filter(|at| match &names[*at] {
            Name::Variable(variable) => {
                let variable = &layout.variables[*variable];
                variable.dimensions == [*axis] && variable.name == layout.dimensions[*axis].name
            }
            Name::Index(_) => false,
        }));
    }
    let mut values: Vec<usize> = read.to_vec();
    if !values.contains(&driver) {
        values.push(driver);
    }
    for column in values {
        if !output.contains(&column) {
            output.push(column);
        }
    }
    output
}

fn region(layout: &Layout, dimensions: &[usize], isel: &[(String, u64, Option<u64>)]) -> Result<Rect> {
    let lengths: Vec<u64> = dimensions.iter().map(|axis| layout.dimensions[*axis].length).collect();
    let mut region = Rect::whole(&lengths);
    for (name, first, end) in isel {
        let axis = dimensions.iter().position(|axis| layout.dimensions[*axis].name == *name).ok_or_else(|| {
            let known: Vec<&str> = dimensions.iter().map(|axis| layout.dimensions[*axis].name.as_str()).collect();
            Error::invalid(format!("there is no axis {name:?}; there are {}", known.join(", ")))
        })?;
        let end = end.unwrap_or(u64::MAX).min(lengths[axis]);
        region.start[axis] = (*first).min(end);
        region.count[axis] = end - region.start[axis];
    }
    Ok(region)
}
