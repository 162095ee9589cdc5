//! Pictures of points, as the command draws them.

use std::sync::{Mutex, PoisonError};

use kubist_plot::{Axis, Coloring, Colormap, Points, Scale};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrow::{Batch, Schema};
use crate::error::invalid;

/// Points that are collected, and then drawn.
#[pyclass(frozen, module = "kubist._kubist")]
pub struct Picture {
    points: Mutex<Points>,
    columns: Vec<String>,
}

/// What a picture shows beside its points.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Drawing {
    /// Of the axes and the colours: fixed ends, of which an open one follows the data.
    ends: [(Option<f64>, Option<f64>); 3],
    log: bool,
    colormap: String,
    title: Option<String>,
    /// Of the region, behind the number of points.
    region: String,
    rows: Option<u64>,
    precision: f64,
    size: Option<(u32, u32)>,
    radius: Option<f32>,
    equal_aspect: Option<bool>,
    dark: bool,
}

#[pymethods]
impl Picture {
    /// Of these columns of an answer: across, up, and what colours the points.
    #[new]
    fn new(py: Python<'_>, schema: &Schema, x: &str, y: &str, color: Option<&str>) -> PyResult<Picture> {
        let named = |name: &str| match kubist::column_index(&schema.0, name) {
            Ok(column) => Ok(schema.0.field(column).name().clone()),
            Err(error) => Err(invalid(py, &error.to_string())),
        };
        let columns = [Some(x), Some(y), color].into_iter().flatten().map(named).collect::<PyResult<Vec<String>>>()?;
        let points = Points::new([&columns[0], &columns[1]], columns.get(2).map(String::as_str));
        Ok(Picture { points: Mutex::new(points), columns })
    }

    fn add(&self, py: Python<'_>, batch: &Batch) -> PyResult<()> {
        let mut points = self.points.lock().unwrap_or_else(PoisonError::into_inner);
        points.add(&batch.0).map_err(|error| invalid(py, &error.to_string()))
    }

    /// The bytes of a PNG, and the words below its title; `drawing` is JSON.
    fn png<'py>(&self, py: Python<'py>, schema: &Schema, drawing: &str) -> PyResult<(Bound<'py, PyBytes>, String)> {
        let drawing: Drawing = serde_json::from_str(drawing).map_err(|error| invalid(py, &error.to_string()))?;
        let at_fault = |error: kubist_plot::Error| invalid(py, &error.to_string());
        let fields = self.columns.iter().map(|name| {
            let missing = || invalid(py, &format!("there is no column {name:?}"));
            schema.0.field_with_name(name).map_err(|_| missing())
        });
        let fields = fields.collect::<PyResult<Vec<_>>>()?;
        let points = self.points.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let axis = |place: usize| -> PyResult<Axis> {
            let (field, ends) = (fields[place], drawing.ends[place]);
            Ok(Axis { label: kubist_plot::label(field), scale: kubist_plot::scale(field).map_err(at_fault)?, ends })
        };
        let scale = fields.get(2).map(|field| kubist_plot::scale(field).map_err(at_fault)).transpose()?;
        let color = Coloring {
            label: fields.get(2).map_or(String::new(), |field| kubist_plot::label(field)),
            scale: match scale {
                Some(Scale::Calendar) if drawing.log => return Err(invalid(py, "log: dates have no logarithm")),
                _ if drawing.log => Scale::Log,
                scale => scale.unwrap_or(Scale::Linear),
            },
            ends: drawing.ends[2],
            map: drawing.colormap.parse::<Colormap>().map_err(|error| invalid(py, &format!("colormap: {error}")))?,
        };
        let suits = || kubist_plot::suits_equal_aspect(fields[0], fields[1], &points);
        let caption = kubist_plot::caption(points.len() as u64, drawing.precision, drawing.rows) + &drawing.region;
        let picture = kubist_plot::Picture {
            x: axis(0)?,
            y: axis(1)?,
            color,
            precision: drawing.precision,
            equal_aspect: drawing.equal_aspect.unwrap_or_else(suits),
            points,
            title: drawing.title.clone(),
            caption: caption.clone(),
            size: drawing.size,
            radius: drawing.radius,
            dark: drawing.dark,
        };
        let drawn = py.detach(|| {
            let mut bytes = Vec::new();
            let title = drawing.title.as_deref().unwrap_or("");
            let texts = [("Software", "Kubist"), ("Title", title), ("Description", &caption)];
            kubist_plot::draw_picture(&picture).write_png(&mut bytes, &texts).map(|()| bytes)
        });
        Ok((PyBytes::new(py, &drawn.map_err(at_fault)?), caption))
    }
}
