//! `kubist plot`: a picture of a region.
//!
//! The sample is chosen by how many points a picture bears; what is drawn says
//! how much of the region it is.

use arrow_schema::{Field, Schema};
use kubist::{Cancel, QuerySpec, RunOptions, Snapshot, Table, Value};

use kubist_plot::{Axis, Coloring, Colormap, Picture, Points, RADII, Scale};

use crate::args::{self, Aspect};
use crate::cost::cost;
use crate::failure::{Failure, Kind, Result};
use crate::output::{PendingFile, print_json, remark};
use crate::{parse, picture};

/// Points that a picture bears, if the user has no wish.
const POINTS: u64 = 200_000;

pub fn run(command: &args::Plot, cancel: &Cancel) -> Result<()> {
    let [across, up] = &command.axes[..] else {
        return Err(Failure::usage("--axes takes two columns: across, up"));
    };
    let snapshot = Table::open(&command.table)?.snapshot()?;
    let schema = snapshot.schema();
    let (x, y) = (parse::column(&schema, across)?, parse::column(&schema, up)?);
    let color = command.color.as_deref().map(|name| parse::column(&schema, name)).transpose()?;
    let query = question(command, &snapshot, [x, y], color)?;
    // Made first, so that a path that cannot be written is an error at once.
    let pending = PendingFile::create(&command.output)?;
    let mut stream = snapshot.query(RunOptions::with_cancel(cancel).of(query.clone()))?;
    let mut points = Points::new([x.name(), y.name()], color.map(|field| field.name().as_str()));
    for batch in &mut stream {
        points.add(&batch?)?;
    }
    let precision = stream.precision();
    if points.is_empty() {
        remark("no records there: the picture is empty");
    }
    let caption = caption(command, points.len() as u64, precision, &query, &snapshot);
    let axis = |field: &Field| -> Result<Axis> {
        let bounds = query.bounds.iter().filter(|bound| &bound.column == field.name());
        let ends =
            bounds.fold((None, None), |ends, bound| (number(&bound.low).or(ends.0), number(&bound.high).or(ends.1)));
        Ok(Axis { label: kubist_plot::label(field), scale: kubist_plot::scale(field)?, ends })
    };
    let coloring = Coloring {
        label: color.map_or(String::new(), kubist_plot::label),
        scale: match color.map(kubist_plot::scale).transpose()? {
            Some(Scale::Calendar) if command.log => {
                return Err(Failure::usage("--log: dates have no logarithm"));
            }
            _ if command.log => Scale::Log,
            scale => scale.unwrap_or(Scale::Linear),
        },
        ends: command.range.unwrap_or_default(),
        map: colormap(command.colormap),
    };
    let picture = Picture {
        x: axis(x)?,
        y: axis(y)?,
        color: coloring,
        equal_aspect: match command.aspect {
            Aspect::Equal => true,
            Aspect::Fill => false,
            Aspect::Auto => kubist_plot::suits_equal_aspect(x, y, &points),
        },
        points,
        precision,
        title: command.title.clone(),
        caption: caption.clone(),
        size: command.size,
        radius: command.point_size,
        dark: command.dark,
    };
    let canvas = kubist_plot::draw_picture(&picture);
    cancel.check()?;
    let shown = command.table.to_string();
    let title = command.title.as_deref().unwrap_or(&shown);
    picture::write(&canvas, &[("Title", title), ("Description", &caption)], pending)?;
    let stats = stream.stats();
    if command.json {
        return print_json(&serde_json::json!({
            "output": command.output.to_string_lossy(),
            "width": canvas.width(),
            "height": canvas.height(),
            "precision": precision,
            "rows_returned": stats.rows_returned,
            "rows_read": stats.rows_read,
            "bytes_read": stats.bytes_read,
            "pages_read": stats.pages_read,
            "cubes_visited": stats.cubes_visited,
            "runs_looked_up": stats.runs_looked_up,
            "round_trips": stats.round_trips,
            "seconds": stats.seconds,
        }));
    }
    remark(&format!("{}: {}", command.output.display(), cost(&stats, precision)));
    Ok(())
}

fn question(command: &args::Plot, snapshot: &Snapshot, axes: [&Field; 2], color: Option<&Field>) -> Result<QuerySpec> {
    for field in axes.into_iter().chain(color) {
        kubist_plot::scale(field)?;
    }
    if command.point_size.is_some_and(|radius| !RADII.contains(&radius)) {
        return Err(Failure { kind: Kind::Usage, message: "--point-size lies between 0.1 and 100 pixels".to_string() });
    }
    let mut columns: Vec<String> = Vec::new();
    for field in axes.into_iter().chain(color) {
        if !columns.contains(field.name()) {
            columns.push(field.name().clone());
        }
    }
    let schema: &Schema = &snapshot.schema();
    Ok(QuerySpec {
        bounds: parse::bounds(&command.region.ranges, schema)?,
        precision: command.region.precision,
        limit: match (command.points, command.region.precision) {
            (None, Some(_)) => None,
            (points, _) => Some(points.unwrap_or(POINTS)),
        },
        columns: Some(columns),
        filter: command.region.filter.clone(),
        ..QuerySpec::default()
    })
}

/// `n of N points, precision p`, and which region that is.
fn caption(command: &args::Plot, drawn: u64, precision: f64, query: &QuerySpec, snapshot: &Snapshot) -> String {
    let everything = query.bounds.is_empty() && query.filter.is_none();
    let rows = if everything { snapshot.rows().ok() } else { None };
    let mut caption = kubist_plot::caption(drawn, precision, rows);
    for range in command.region.ranges.iter().flat_map(|ranges| &ranges.0) {
        let (low, high) = (range.low.as_deref().unwrap_or(""), range.high.as_deref().unwrap_or(""));
        caption += &if low == high {
            format!(", {} = {low}", range.column)
        } else {
            format!(", {} in {low}:{high}", range.column)
        };
    }
    if let Some(filter) = &query.filter {
        caption += &format!(", where {filter}");
    }
    caption
}

/// The end of a box as a number that an axis can begin or end at.
fn number(value: &Option<Value>) -> Option<f64> {
    match value {
        Some(Value::Int(whole)) => Some(*whole as f64),
        Some(Value::Float(number)) => Some(*number).filter(|number| number.is_finite()),
        _ => None,
    }
}

fn colormap(named: args::Colormap) -> Colormap {
    match named {
        args::Colormap::Viridis => Colormap::Viridis,
        args::Colormap::Magma => Colormap::Magma,
        args::Colormap::Inferno => Colormap::Inferno,
        args::Colormap::Plasma => Colormap::Plasma,
        args::Colormap::Cividis => Colormap::Cividis,
        args::Colormap::Turbo => Colormap::Turbo,
        args::Colormap::Coolwarm => Colormap::Coolwarm,
        args::Colormap::Gray => Colormap::Gray,
    }
}
