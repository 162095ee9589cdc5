//! `kubist plot`: draws a region, or an animation. The sample size follows from the number of points that a
//! plot can show, and the caption gives the fraction drawn.

mod animate;
mod frames;
mod reel;

use std::io::Write;
use std::path::Path;

use arrow_schema::{Field, Schema};
use kubist::{Cancel, Query, RunOptions, Snapshot, Stats, Table, Value};
use kubist_expr::{Meant, Output, named};

use kubist_plot::{Axis, Coloring, Colormap, Format, Kind, Picture, Points, Projection, Scale};

use crate::args;
use crate::cost::cost;
use crate::failure::{Failure, Result};
use crate::output::{PendingFile, print_json, remark};
use crate::parse::{Aspect, Drawing, Group};
use crate::{parse, picture};

const POINTS: u64 = 200_000;

pub fn run(command: &args::Plot, cancel: &Cancel) -> Result<()> {
    if command.animate.is_none() {
        let format = Format::of(&command.output).map_err(|why| match animated(&command.output) {
            true => Failure::usage(format!("{why}; an animation needs --animate COLUMN")),
            false => Failure::usage(why),
        })?;
        let snapshot = Table::open(&command.table)?.snapshot()?;
        return PlotRequest::new(command, &snapshot)?.draw(format, cancel);
    }
    let snapshot = Table::open(&command.table)?.snapshot()?;
    animate::run(&PlotRequest::new(command, &snapshot)?, cancel)
}

fn animated(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gif") || ending.eq_ignore_ascii_case("mp4"))
}

struct PlotRequest<'a> {
    command: &'a args::Plot,
    snapshot: &'a Snapshot,
    x: Field,
    y: Field,
    /// Empty, one column, or red, green and blue.
    color: Vec<Field>,
    look: Drawing,
    query: Query,
}

impl<'a> PlotRequest<'a> {
    fn new(command: &'a args::Plot, snapshot: &'a Snapshot) -> Result<PlotRequest<'a>> {
        let [across, up] = &command.axes.0[..] else {
            return Err(Failure::usage("--axes takes two columns: horizontal, vertical"));
        };
        let colors = command.color.as_ref().map_or(&[][..], |colors| &colors.0);
        if !matches!(colors.len(), 0 | 1 | 3) {
            return Err(Failure::usage("--color takes one column, or three: red, green, blue"));
        }
        let schema = snapshot.schema();
        let (x, y) = (drawn(&schema, across)?, drawn(&schema, up)?);
        let color = colors.iter().map(|text| drawn(&schema, text)).collect::<Result<Vec<Field>>>()?;
        let query = points_query(command, &schema, [(across, &x), (up, &y)], colors.iter().zip(&color))?;
        let look = Drawing::of(&command.style)?;
        if look.fps.is_some() && command.animate.is_none() {
            return Err(Failure::usage("--style fps is for animations: give --animate COLUMN too"));
        }
        Ok(PlotRequest { command, snapshot, x, y, color, look, query })
    }

    fn draw(&self, format: Format, cancel: &Cancel) -> Result<()> {
        let command = self.command;
        // Created first, so that an unwritable path is an error at once.
        let pending = PendingFile::create(&command.output)?;
        let Read { points, fraction, stats } = self.read(self.query.clone(), cancel)?;
        if points.is_empty() {
            remark("no rows in this region: the plot is empty");
        }
        let caption = self.caption(&points, fraction, true);
        let picture = self.picture(points, fraction, &caption)?;
        let scene = kubist_plot::draw_picture(&picture, cancel)?;
        let written = |out: &mut dyn Write| scene.write(format, out, &self.title(), &caption, cancel);
        picture::write(pending, written)?;
        if command.json {
            return print_json(&serde_json::json!({
                "output": command.output.to_string_lossy(),
                "width": scene.width(),
                "height": scene.height(),
                "fraction": fraction,
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
        remark(&format!("{}: {}", command.output.display(), cost(&stats, fraction)));
        Ok(())
    }

    fn title(&self) -> String {
        self.command.title.clone().unwrap_or_else(|| self.command.table.to_string())
    }

    fn points(&self) -> Points {
        let color: Vec<&str> = self.color.iter().map(|field| field.name().as_str()).collect();
        Points::new([self.x.name(), self.y.name()], &color)
    }

    fn read(&self, query: Query, cancel: &Cancel) -> Result<Read> {
        let mut points = self.points();
        let mut stream = self.snapshot.query(RunOptions::with_cancel(cancel).of(query))?;
        for batch in &mut stream {
            points.add(&batch?)?;
        }
        points.keep_positive(self.look.log_axes.unwrap_or_default());
        Ok(Read { points, fraction: stream.fraction(), stats: stream.stats() })
    }

    fn picture(&self, mut points: Points, fraction: f64, caption: &str) -> Result<Picture> {
        let PlotRequest { command, look, x, y, .. } = self;
        // Red, green and blue are the colours themselves.
        let color = self.color.first().filter(|_| self.color.len() == 1);
        let kind = color.map(kubist_plot::kind).unwrap_or_default();
        if kind == Kind::Texts && (command.log || command.range.is_some()) {
            return Err(Failure::usage("--log and --range: the colour column is text, which has no order of values"));
        }
        let coloring = Coloring {
            label: color.map_or(String::new(), kubist_plot::label),
            scale: match color.map(kubist_plot::color_scale).transpose()? {
                Some(Scale::Calendar) if command.log => {
                    return Err(Failure::usage("--log: the colour column is a date, which has no logarithm"));
                }
                _ if command.log => Scale::Log,
                scale => scale.unwrap_or(Scale::Linear),
            },
            ends: command.range.unwrap_or_default(),
            map: look.colormap.unwrap_or(Colormap::Viridis),
            kind,
        };
        let (horizontal, vertical) = (self.axis(x, 0)?, self.axis(y, 1)?);
        points.wrap([horizontal.ends, vertical.ends]);
        Ok(Picture {
            x: horizontal,
            y: vertical,
            color: coloring,
            aspect: match look.aspect.unwrap_or_default() {
                Aspect::Equal => Some(1.0),
                Aspect::Fill => None,
                Aspect::Auto => (!self.has_log_axis() && kubist_plot::suits_equal_aspect(x, y, &points)).then_some(1.0),
            },
            projection: match look.aspect.unwrap_or_default() {
                Aspect::Auto if !self.has_log_axis() => {
                    kubist_plot::projection(x, y, self.snapshot.about()?.sphere.as_ref())
                }
                _ => Projection::Plane,
            },
            points,
            fraction,
            title: command.title.clone(),
            caption: caption.to_string(),
            size: command.size,
            radius: look.point_size,
            style: look.theme.unwrap_or_default(),
            scale_bar: kubist_plot::scale_bar(x, y).filter(|_| !self.has_log_axis()),
        })
    }

    fn has_log_axis(&self) -> bool {
        self.look.log_axes.is_some_and(|axes| axes.contains(&true))
    }

    /// The axis of a column; `place` 0 is horizontal.
    fn axis(&self, field: &Field, place: usize) -> Result<Axis> {
        let bounds = self.query.bounds.iter().filter(|bound| &bound.column == field.name());
        let number = |end: &Option<Value>| number(field, end.as_ref()?);
        let ends =
            bounds.fold((None, None), |ends, bound| (number(&bound.low).or(ends.0), number(&bound.high).or(ends.1)));
        let is_log = self.look.log_axes.is_some_and(|axes| axes[place]);
        let scale = match kubist_plot::scale(field)? {
            Scale::Calendar if is_log => {
                let what = format!("--style log_axes: {} is a date, which has no logarithm", field.name());
                return Err(Failure::usage(what));
            }
            _ if is_log => Scale::Log,
            scale => scale,
        };
        let inverted = self.look.invert_axes.is_some_and(|axes| axes[place]) != kubist_plot::is_magnitude(field);
        Ok(Axis { label: kubist_plot::label(field), scale, ends, inverted })
    }

    /// `n of N points, fraction p`, and the region. `whole`: the plot covers the whole region.
    fn caption(&self, points: &Points, fraction: f64, whole: bool) -> String {
        let (command, query) = (self.command, &self.query);
        let everything = whole && query.bounds.is_empty() && query.filter.is_none() && query.region.is_none();
        let rows = if everything { self.snapshot.rows().ok() } else { None };
        let mut caption = kubist_plot::caption(points.len() as u64, fraction, rows);
        caption += &points.not_drawn();
        // In such a sample, points are dense where weights are large.
        if let Some(sampling) = self.snapshot.about().ok().map(|about| about.sampling)
            && fraction < 1.0
            && sampling != "uniform"
        {
            caption += &format!(", sampled {sampling}");
        }
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
}

struct Read {
    points: Points,
    fraction: f64,
    stats: Stats,
}

/// The column or computed column of a text, as the query returns it.
fn drawn(schema: &Schema, text: &str) -> Result<Field> {
    let no_column = match parse::column(schema, text) {
        Ok(field) => return Ok(field.clone()),
        Err(no_column) => no_column,
    };
    let (expression, name) = named(text);
    let computed = match Output::parse(expression, schema) {
        Ok(computed) => computed,
        Err(_) if text.chars().all(|letter| letter.is_alphanumeric() || letter == '_') => return Err(no_column),
        Err(mistake) => return Err(Failure::usage(format!("{text}: {mistake}"))),
    };
    let unit = computed.unit().map(|unit| ("unit".to_owned(), unit.to_owned()));
    let column = computed.column().map(|column| schema.field(column).name().as_str());
    let field = Field::new(name.as_deref().or(column).unwrap_or(expression), computed.data_type().clone(), true);
    Ok(field.with_metadata(unit.into_iter().collect::<std::collections::HashMap<_, _>>()))
}

fn points_query<'a>(
    command: &args::Plot,
    schema: &Schema,
    axes: [(&'a String, &'a Field); 2],
    colors: impl Iterator<Item = (&'a String, &'a Field)> + Clone,
) -> Result<Query> {
    for (_, field) in axes {
        kubist_plot::scale(field)?;
    }
    for (_, field) in colors.clone() {
        match colors.clone().count() {
            1 => kubist_plot::color_scale(field)?,
            _ => kubist_plot::scale(field)?,
        };
    }
    let mut columns: Vec<String> = Vec::new();
    for (text, field) in axes.into_iter().chain(colors) {
        let text = if schema.column_with_name(field.name()).is_some() { field.name() } else { text };
        if !columns.contains(text) {
            columns.push(text.clone());
        }
    }
    Ok(Query {
        limit: match (command.limit, command.region.sample) {
            (None, Some(_)) => None,
            (limit, _) => Some(limit.unwrap_or(POINTS)),
        },
        columns: Some(columns),
        ..command.region.spec(schema)?
    })
}

/// The bound of a box as a number in the column's unit.
fn number(field: &Field, end: &Value) -> Option<f64> {
    let number = match end {
        Value::Int(whole) => Some(*whole as f64),
        Value::Float(number) => Some(*number),
        // The query would have refused this bound.
        Value::Text(text) => kubist_expr::in_unit_of(field, text, Meant::Value).ok().flatten(),
        _ => None,
    };
    number.filter(|number| number.is_finite())
}
