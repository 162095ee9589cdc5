//! Plots of points, as the command draws them.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use arrow_schema::Field;
use kubist::Cancel;
use kubist_expr::Meant;
use kubist_plot::{Axis, Coloring, Colormap, Format, Kind, Points, Projection, Scale, Style};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrow::{Batch, Schema};
use crate::call::run;
use crate::error::invalid;

#[pyclass(frozen, module = "kubist._kubist")]
pub struct Picture {
    points: Mutex<Points>,
    columns: Vec<String>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Drawing {
    /// Limits of the two axes and the colours; an open limit follows the data.
    ends: [(Option<End>, Option<End>); 3],
    log: bool,
    log_axes: [bool; 2],
    invert_axes: [bool; 2],
    colormap: String,
    title: Option<String>,
    /// A description of the region, for the caption.
    region: String,
    rows: Option<u64>,
    fraction: f64,
    size: Option<(u32, u32)>,
    radius: Option<f32>,
    equal_aspect: Option<bool>,
    /// Columns of longitude and latitude, if the table has them.
    sphere: Option<[String; 2]>,
    theme: String,
}

/// A number in the column's unit, or text with a unit.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum End {
    Number(f64),
    Text(String),
}

impl End {
    fn number(&self, field: &Field) -> Option<f64> {
        match self {
            End::Number(number) => Some(*number),
            // Invalid text: the query with the same box raises.
            End::Text(text) => kubist_expr::in_unit_of(field, text, Meant::Value).ok().flatten(),
        }
    }
}

/// A drawing for files of several formats.
#[pyclass(frozen, module = "kubist._kubist")]
pub struct Scene {
    scene: kubist_plot::Scene,
    title: String,
    #[pyo3(get)]
    caption: String,
}

/// A signal stops the call.
fn drawing_call<T: Send>(
    py: Python<'_>,
    call: impl FnOnce(&Cancel) -> Result<T, kubist_plot::Error> + Send,
) -> PyResult<T> {
    let cancel = Cancel::default();
    let drawn = run(py, &cancel, || match call(&cancel) {
        Err(kubist_plot::Error::Cancelled) => Err(kubist::Error::Cancelled),
        drawn => Ok(drawn),
    })?;
    drawn.map_err(|error| invalid(py, &error.to_string()))
}

#[pymethods]
impl Scene {
    /// The suffix of `name` selects the format.
    fn file<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyBytes>> {
        let format = Format::of(Path::new(name)).map_err(|why| invalid(py, &format!("{name}: {why}")))?;
        let written = drawing_call(py, |cancel| {
            let mut bytes = Vec::new();
            self.scene.write(format, &mut bytes, &self.title, &self.caption, cancel).map(|()| bytes)
        })?;
        Ok(PyBytes::new(py, &written))
    }
}

#[pymethods]
impl Picture {
    #[new]
    fn new(py: Python<'_>, schema: &Schema, x: &str, y: &str, color: Vec<String>) -> PyResult<Picture> {
        let named = |name: &str| match kubist_expr::column_index(&schema.0, name) {
            Ok(column) => Ok(schema.0.field(column).name().clone()),
            Err(error) => Err(invalid(py, &error.to_string())),
        };
        let names = [x, y].into_iter().chain(color.iter().map(String::as_str));
        let columns = names.map(named).collect::<PyResult<Vec<String>>>()?;
        let color: Vec<&str> = columns[2..].iter().map(String::as_str).collect();
        let points = Points::new([&columns[0], &columns[1]], &color);
        Ok(Picture { points: Mutex::new(points), columns })
    }

    fn add(&self, py: Python<'_>, batch: &Batch) -> PyResult<()> {
        let mut points = self.points.lock().unwrap_or_else(PoisonError::into_inner);
        points.add(&batch.0).map_err(|error| invalid(py, &error.to_string()))
    }

    /// `drawing` is JSON.
    fn draw(&self, py: Python<'_>, schema: &Schema, drawing: &str) -> PyResult<Scene> {
        let drawing: Drawing = serde_json::from_str(drawing).map_err(|error| invalid(py, &error.to_string()))?;
        let at_fault = |error: kubist_plot::Error| invalid(py, &error.to_string());
        let fields = self.columns.iter().map(|name| {
            let missing = || invalid(py, &format!("there is no column {name:?}"));
            schema.0.field_with_name(name).map_err(|_| missing())
        });
        let fields = fields.collect::<PyResult<Vec<_>>>()?;
        let mut points = self.points.lock().unwrap_or_else(PoisonError::into_inner).clone();
        points.keep_positive(drawing.log_axes);
        // Red, green and blue are the colours themselves.
        let one = fields.get(2).copied().filter(|_| fields.len() == 3);
        for field in fields.iter().skip(3) {
            kubist_plot::scale(field).map_err(at_fault)?;
        }
        let ends = |place: usize| match (fields.get(place), &drawing.ends[place]) {
            (Some(field), (low, high)) => {
                let number = |end: &Option<End>| end.as_ref()?.number(field);
                (number(low), number(high))
            }
            (None, _) => (None, None),
        };
        let axis = |place: usize| -> PyResult<Axis> {
            let (field, ends) = (fields[place], ends(place));
            let scale = match kubist_plot::scale(field).map_err(at_fault)? {
                Scale::Calendar if drawing.log_axes[place] => {
                    return Err(invalid(py, &format!("log_axes: {} is a date, which has no logarithm", field.name())));
                }
                _ if drawing.log_axes[place] => Scale::Log,
                scale => scale,
            };
            let inverted = drawing.invert_axes[place] != kubist_plot::is_magnitude(field);
            Ok(Axis { label: kubist_plot::label(field), scale, ends, inverted })
        };
        let scale = one.map(|field| kubist_plot::color_scale(field).map_err(at_fault)).transpose()?;
        let kind = one.map(kubist_plot::kind).unwrap_or_default();
        if kind == Kind::Texts && (drawing.log || ends(2) != (None, None)) {
            return Err(invalid(py, "log and range: the colour column is text, which has no order of values"));
        }
        let has_log = drawing.log_axes.contains(&true);
        let color = Coloring {
            label: one.map_or(String::new(), kubist_plot::label),
            scale: match scale {
                Some(Scale::Calendar) if drawing.log => return Err(invalid(py, "log: dates have no logarithm")),
                _ if drawing.log => Scale::Log,
                scale => scale.unwrap_or(Scale::Linear),
            },
            ends: ends(2),
            kind,
            map: drawing.colormap.parse::<Colormap>().map_err(|error| invalid(py, &format!("colormap: {error}")))?,
        };
        points.wrap([ends(0), ends(1)]);
        let projection = match drawing.equal_aspect {
            None if !has_log => kubist_plot::projection(fields[0], fields[1], drawing.sphere.as_ref()),
            _ => Projection::Plane,
        };
        let suits = || !has_log && kubist_plot::suits_equal_aspect(fields[0], fields[1], &points);
        let caption = kubist_plot::caption(points.len() as u64, drawing.fraction, drawing.rows)
            + &points.not_drawn()
            + &drawing.region;
        let picture = kubist_plot::Picture {
            x: axis(0)?,
            y: axis(1)?,
            color,
            fraction: drawing.fraction,
            aspect: drawing.equal_aspect.unwrap_or_else(suits).then_some(1.0),
            projection,
            points,
            title: drawing.title.clone(),
            caption: caption.clone(),
            size: drawing.size,
            radius: drawing.radius,
            style: drawing.theme.parse::<Style>().map_err(|error| invalid(py, &format!("theme: {error}")))?,
            scale_bar: kubist_plot::scale_bar(fields[0], fields[1]).filter(|_| !has_log),
        };
        let scene = drawing_call(py, |cancel| kubist_plot::draw_picture(&picture, cancel))?;
        Ok(Scene { scene, title: drawing.title.unwrap_or_default(), caption })
    }
}
