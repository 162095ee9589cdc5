//! `kubist plot`: draws a region, or an animation.
//!
//! The sample size follows from the number of points that a plot can show. The caption gives the fraction of
//! the region that is drawn.

mod animate;
mod frames;
mod reel;

use std::io::Write;
use std::path::Path;

use arrow_schema::{Field, Schema};
use kubist::{Cancel, Query, RunOptions, Snapshot, Stats, Table, Value};
use kubist_expr::Meant;
use kubist_types::human;

use kubist_plot::{Axis, Coloring, Colormap, Format, Picture, Points, Scale};

use crate::args;
use crate::cost::cost;
use crate::failure::{Failure, Result};
use crate::output::{PendingFile, print_json, remark};
use crate::parse::{Aspect, Drawing, Group};
use crate::{parse, picture};

/// Points of a plot, if the user gives no limit.
const POINTS: u64 = 200_000;

pub fn run(command: &args::Plot, cancel: &Cancel) -> Result<()> {
    if command.animate.is_none() {
        let format = Format::of(&command.output).map_err(|why| match animated(&command.output) {
            true => Failure::usage(format!("{why}; an animation needs --animate COLUMN")),
            false => Failure::usage(why),
        })?;
        let snapshot = Table::open(&command.table)?.snapshot()?;
        return Asked::new(command, &snapshot)?.draw(format, cancel);
    }
    let snapshot = Table::open(&command.table)?.snapshot()?;
    animate::run(&Asked::new(command, &snapshot)?, cancel)
}

fn animated(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gif") || ending.eq_ignore_ascii_case("mp4"))
}

/// The columns and rows to draw.
struct Asked<'a> {
    command: &'a args::Plot,
    snapshot: &'a Snapshot,
    x: Field,
    y: Field,
    color: Option<Field>,
    look: Drawing,
    /// The query of all drawn rows.
    query: Query,
}

impl<'a> Asked<'a> {
    fn new(command: &'a args::Plot, snapshot: &'a Snapshot) -> Result<Asked<'a>> {
        let [across, up] = &command.axes[..] else {
            return Err(Failure::usage("--axes takes two columns: horizontal, vertical"));
        };
        let schema = snapshot.schema();
        let (x, y) = (parse::column(&schema, across)?, parse::column(&schema, up)?);
        let color = command.color.as_deref().map(|name| parse::column(&schema, name)).transpose()?;
        let query = question(command, &schema, [x, y], color)?;
        let look = Drawing::of(&command.style)?;
        if look.fps.is_some() && command.animate.is_none() {
            return Err(Failure::usage("--style fps is for animations: give --animate COLUMN too"));
        }
        Ok(Asked { command, snapshot, x: x.clone(), y: y.clone(), color: color.cloned(), look, query })
    }

    /// Draws one plot.
    fn draw(&self, format: Format, cancel: &Cancel) -> Result<()> {
        let command = self.command;
        // Created first, so that a path that cannot be written is an error at once.
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

    /// The title in the file's metadata.
    fn title(&self) -> String {
        self.command.title.clone().unwrap_or_else(|| self.command.table.to_string())
    }

    fn points(&self) -> Points {
        Points::new([self.x.name(), self.y.name()], self.color.as_ref().map(|field| field.name().as_str()))
    }

    fn read(&self, query: Query, cancel: &Cancel) -> Result<Read> {
        let mut points = self.points();
        let mut stream = self.snapshot.query(RunOptions::with_cancel(cancel).of(query))?;
        for batch in &mut stream {
            points.add(&batch?)?;
        }
        Ok(Read { points, fraction: stream.fraction(), stats: stream.stats() })
    }

    fn picture(&self, points: Points, fraction: f64, caption: &str) -> Result<Picture> {
        let Asked { command, look, x, y, color, .. } = self;
        let coloring = Coloring {
            label: color.as_ref().map_or(String::new(), kubist_plot::label),
            scale: match color.as_ref().map(kubist_plot::scale).transpose()? {
                Some(Scale::Calendar) if command.log => {
                    return Err(Failure::usage("--log: the colour column is a date, which has no logarithm"));
                }
                _ if command.log => Scale::Log,
                scale => scale.unwrap_or(Scale::Linear),
            },
            ends: command.range.unwrap_or_default(),
            map: look.colormap.unwrap_or(Colormap::Viridis),
            kind: color.as_ref().map(kubist_plot::kind).unwrap_or_default(),
        };
        Ok(Picture {
            x: self.axis(x)?,
            y: self.axis(y)?,
            color: coloring,
            equal_aspect: match look.aspect.unwrap_or_default() {
                Aspect::Equal => true,
                Aspect::Fill => false,
                Aspect::Auto => kubist_plot::suits_equal_aspect(x, y, &points),
            },
            points,
            fraction,
            title: command.title.clone(),
            caption: caption.to_string(),
            size: command.size,
            radius: look.point_size,
            style: look.theme.unwrap_or_default(),
            scale_bar: kubist_plot::scale_bar(x, y),
        })
    }

    fn axis(&self, field: &Field) -> Result<Axis> {
        let bounds = self.query.bounds.iter().filter(|bound| &bound.column == field.name());
        let number = |end: &Option<Value>| number(field, end.as_ref()?);
        let ends =
            bounds.fold((None, None), |ends, bound| (number(&bound.low).or(ends.0), number(&bound.high).or(ends.1)));
        Ok(Axis { label: kubist_plot::label(field), scale: kubist_plot::scale(field)?, ends })
    }

    /// `n of N points, fraction p`, and the region. `whole`: the plot covers the whole region.
    fn caption(&self, points: &Points, fraction: f64, whole: bool) -> String {
        let (command, query) = (self.command, &self.query);
        let everything = whole && query.bounds.is_empty() && query.filter.is_none();
        let rows = if everything { self.snapshot.rows().ok() } else { None };
        let mut caption = kubist_plot::caption(points.len() as u64, fraction, rows);
        match points.nowhere() as u64 {
            0 => {}
            nowhere => {
                let (x, y) = (self.x.name(), self.y.name());
                caption += &format!(" ({} not drawn: no finite {x} and {y})", human::count(nowhere));
            }
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

/// Points, their fraction of the rows, and the cost of reading them.
struct Read {
    points: Points,
    fraction: f64,
    stats: Stats,
}

fn question(command: &args::Plot, schema: &Schema, axes: [&Field; 2], color: Option<&Field>) -> Result<Query> {
    for field in axes.into_iter().chain(color) {
        kubist_plot::scale(field)?;
    }
    let mut columns: Vec<String> = Vec::new();
    for field in axes.into_iter().chain(color) {
        if !columns.contains(field.name()) {
            columns.push(field.name().clone());
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

/// The bound of a box in the column's unit, as a number for an axis.
fn number(field: &Field, end: &Value) -> Option<f64> {
    let number = match end {
        Value::Int(whole) => Some(*whole as f64),
        Value::Float(number) => Some(*number),
        // The query with this bound would have been refused.
        Value::Text(text) => kubist_expr::in_unit_of(field, text, Meant::Value).ok().flatten(),
        _ => None,
    };
    number.filter(|number| number.is_finite())
}
