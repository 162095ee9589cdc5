//! What a question is about: the variables of one grid, as columns of a condition.
//!
//! A grid is what variables with the same axes share. Variables with fewer of these axes belong to it too: a
//! coordinate, or a depth for each place, has its value at every position. So do the positions themselves, as
//! columns `AXIS_index`.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kubist_expr::Predicate;
use kubist_types::query::{Bound, bounds};
use kubist_types::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::layout::Layout;
use crate::shape::Rect;

/// What is asked.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Question {
    /// A condition in SQL.
    #[serde(rename = "where")]
    pub filter: Option<String>,
    /// Ranges of positions: axis, first, and behind the last.
    pub isel: Vec<(String, u64, Option<u64>)>,
    /// Closed ranges of values of columns, with the ends of a table's box.
    #[serde(rename = "box", with = "bounds")]
    pub bounds: Vec<Bound>,
    pub columns: Option<Vec<String>>,
    /// The share of the positions to sample.
    pub sample: Option<f64>,
    /// At most so many, of lowest priority: a uniform sample.
    pub limit: Option<u64>,
    /// Leave out what cannot be read, and name it.
    pub skip_damaged: bool,
    /// Only one of so many parts, which together are the answer: its number from 0 on, and how many there are.
    pub split: Option<(u64, u64)>,
}

/// A column of a grid.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// A variable, and which of the grid's axes it has.
    Variable { variable: usize, axes: Vec<usize> },
    /// Positions along an axis.
    Index { axis: usize },
}

/// A question, bound to the arrays of a file.
#[derive(Clone, Debug)]
pub struct Grid {
    /// The variable whose blocks are looked at.
    pub driver: usize,
    /// Its axes, by their place in the layout.
    pub dimensions: Vec<usize>,
    /// What conditions can name, and what that is.
    pub schema: SchemaRef,
    pub columns: Vec<Column>,
    pub predicate: Predicate,
    /// The columns that the condition reads.
    pub read: Vec<usize>,
    /// The columns of the answer.
    pub output: Vec<usize>,
    /// The answer says of which file each record is.
    pub names_files: bool,
    /// Where to look.
    pub region: Rect,
}

/// The column with the file of each record, where several are asked.
pub const FILE: &str = "file";

/// What each name stands for before a grid is chosen.
enum Name {
    Variable(usize),
    /// Positions along the axis of this name: axes of different grids may share it.
    Index(String),
}

impl Grid {
    /// What conditions can name, in all grids of a file.
    pub fn names(layout: &Layout) -> SchemaRef {
        names(layout).0
    }

    /// `several`: files are asked as one, and `file` is a column of the answer.
    ///
    /// # Errors
    ///
    /// `Expression` or `Invalid` names what does not fit: a column, variables of different grids, a range.
    pub fn bind(layout: &Layout, question: &Question, several: bool) -> Result<Grid> {
        let (schema, names) = names(layout);
        let mut predicate = match &question.filter {
            Some(filter) => Predicate::parse(filter, &schema)?,
            None => Predicate::always(),
        };
        for Bound { column, low, high } in &question.bounds {
            predicate = predicate.and(Predicate::range(&schema, column, low.as_ref(), high.as_ref())?);
        }
        let find = |name: &String| kubist_expr::column_index(&schema, name).map_err(Error::from);
        let is_file = |name: &&String| several && name.as_str() == FILE;
        let names_files =
            several && question.columns.as_ref().is_none_or(|names| names.iter().any(|name| name == FILE));
        let of_grid =
            |names: &Vec<String>| names.iter().filter(|name| !is_file(name)).map(find).collect::<Result<Vec<_>>>();
        let asked = question.columns.as_ref().map(of_grid).transpose()?;
        let read = predicate.columns();
        let named: Vec<usize> = read.iter().chain(asked.iter().flatten()).copied().collect();
        let driver = driver(layout, &names, &named)?;
        let dimensions = layout.variables[driver].dimensions.clone();
        let columns = names.iter().map(|name| placed(layout, name, &dimensions)).collect::<Vec<_>>();
        for column in &named {
            if columns[*column].is_none() {
                return Err(Error::invalid(format!(
                    "{:?} and {:?} lie on different grids: ask for one of them",
                    schema.field(*column).name(),
                    layout.variables[driver].name
                )));
            }
        }
        let output = asked.unwrap_or_else(|| everything(layout, &names, &columns, &read, driver));
        let columns = columns.into_iter().map(|column| column.unwrap_or(Column::Index { axis: 0 })).collect();
        let region = region(layout, &dimensions, &question.isel)?;
        Ok(Grid { driver, dimensions, schema, columns, predicate, read, output, names_files, region })
    }

    /// The columns of the answer, without the file's.
    pub fn fields(&self) -> Vec<Field> {
        self.output.iter().map(|column| self.schema.field(*column).clone()).collect()
    }

    /// Positions along an axis, of places in a rectangle.
    pub fn index(rect: &Rect, axis: usize, places: &[u32]) -> ArrayRef {
        let below: u64 = rect.count[axis + 1..].iter().product();
        let at = |place: &u32| (rect.start[axis] + u64::from(*place) / below % rect.count[axis]) as i64;
        Arc::new(Int64Array::from_iter_values(places.iter().map(at)))
    }

    /// Where in the projection of a rectangle onto some axes its places are. `whole`: in all positions of these
    /// axes, which have these lengths.
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

/// The named variable of most axes; of several the first in the file, so that the grid does not depend on
/// how the condition is written.
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
        // As a file is ingested: what has most axes is what it is about.
        let data = || (0..layout.variables.len()).filter(|at| layout.is_data(&layout.variables[*at]));
        let most = data().map(|at| rank(&at)).max();
        let data: Vec<usize> = data().filter(|at| Some(rank(at)) == most).collect();
        let names = || data.iter().map(|at| layout.variables[*at].name.as_str()).collect::<Vec<_>>().join(", ");
        return match data[..] {
            [only] => Ok(only),
            [] => Err(Error::invalid("it has no variables but coordinates: name one in the condition or as a column")),
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

/// Positions, coordinates, and the variables of the condition.
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
