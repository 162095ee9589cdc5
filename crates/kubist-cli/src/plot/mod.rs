//! `kubist plot`: a picture of a region.
//!
//! The sample is chosen by how many points a picture bears; what is drawn says
//! how much of the region it is.

mod canvas;
pub mod chart;
mod coloring;
pub mod colormap;
mod layout;
mod picture;
mod points;
mod spec;
mod splat;
mod text;
pub mod ticks;

use std::io::{BufWriter, Write};

use arrow_schema::{Field, Schema};
use kubist::{Cancel, QuerySpec, RunOptions, Snapshot, Table, Value};

use crate::args::{self, Aspect};
use crate::failure::{Failure, Kind, Result};
use crate::output::{PendingFile, print_json, remark};
use crate::query::cost;
use crate::{human, parse};
use points::Points;
use spec::{Axis, Coloring, Picture};
use ticks::Scale;

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
    // Made first, so that a place that cannot be written is known at once.
    let pending = PendingFile::create(&command.output)?;
    let mut stream = snapshot.query(RunOptions::with_cancel(cancel).of(query.clone()))?;
    let mut points = Points::default();
    for batch in &mut stream {
        points.add(&batch?, [across, up], command.color.as_deref())?;
    }
    let precision = stream.precision();
    if points.len() == 0 {
        remark("no records there: the picture is empty");
    }
    let caption = caption(command, points.len() as u64, precision, &query, &snapshot);
    let axis = |field: &Field| -> Result<Axis> {
        let bounds = query.bounds.iter().filter(|bound| &bound.column == field.name());
        let ends =
            bounds.fold((None, None), |ends, bound| (number(&bound.low).or(ends.0), number(&bound.high).or(ends.1)));
        Ok(Axis { label: label(field), scale: points::scale(field)?, ends })
    };
    let coloring = Coloring {
        label: color.map_or(String::new(), label),
        scale: match color.map(points::scale).transpose()? {
            Some(Scale::Calendar) if command.log => {
                return Err(Failure::usage("--log: dates have no logarithm"));
            }
            _ if command.log => Scale::Log,
            scale => scale.unwrap_or(Scale::Linear),
        },
        ends: command.range.unwrap_or_default(),
        map: command.colormap,
    };
    let picture = Picture {
        x: axis(x)?,
        y: axis(y)?,
        color: coloring,
        equal_aspect: equal_aspect(command.aspect, x, y, &points),
        points,
        precision,
        title: command.title.clone(),
        caption: caption.clone(),
        size: command.size,
        radius: command.point_size,
        dark: command.dark,
    };
    let canvas = picture::draw(&picture);
    cancel.check()?;
    let mut out = BufWriter::new(pending.writer()?);
    let shown = command.table.to_string();
    let title = command.title.as_deref().unwrap_or(&shown);
    canvas.write_png(&mut out, &[("Software", "Kubist"), ("Title", title), ("Description", &caption)])?;
    out.flush().map_err(|error| Failure::io(&command.output, &error))?;
    drop(out);
    pending.publish()?;
    let stats = stream.stats();
    if command.json {
        return print_json(&serde_json::json!({
            "output": command.output.to_string_lossy(),
            "width": canvas.width,
            "height": canvas.height,
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
        points::scale(field)?;
    }
    if command.point_size.is_some_and(|radius| !(0.1..=100.0).contains(&radius)) {
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
    let mut caption = if drawn == 0 {
        "no points".to_string()
    } else if precision >= 1.0 {
        format!("all {}", human::counted(drawn, "point"))
    } else {
        let all = if everything {
            human::count(snapshot.rows().unwrap_or(drawn))
        } else {
            // What a uniform sample of this precision says about the whole.
            let estimate = drawn as f64 / precision;
            let digits = 10f64.powf((estimate.max(1.0).log10().floor() - 2.0).max(0.0));
            format!("about {}", human::count(((estimate / digits).round() * digits) as u64))
        };
        format!("{} of {all} points, precision {}", human::count(drawn), human::fraction(precision))
    };
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

/// A column's name with its unit.
fn label(field: &Field) -> String {
    match points::unit(field) {
        Some(unit) => format!("{} [{unit}]", field.name()),
        None => field.name().clone(),
    }
}

/// The end of a box as a number that an axis can begin or end at.
fn number(value: &Option<Value>) -> Option<f64> {
    match value {
        Some(Value::Int(whole)) => Some(*whole as f64),
        Some(Value::Float(number)) => Some(*number).filter(|number| number.is_finite()),
        _ => None,
    }
}

fn equal_aspect(aspect: Aspect, x: &Field, y: &Field, points: &Points) -> bool {
    /// Beyond this a faithful picture would be a line.
    const MOST_UNEQUAL: f64 = 12.0;
    match aspect {
        Aspect::Equal => true,
        Aspect::Fill => false,
        Aspect::Auto => {
            let span = |numbers: &[f64]| points::extent(numbers).map_or(0.0, |(low, high)| high - low);
            let ratio = span(&points.x) / span(&points.y);
            same_unit(x, y) && (1.0 / MOST_UNEQUAL..=MOST_UNEQUAL).contains(&ratio)
        }
    }
}

/// Whether two columns are components of one thing: told by their units, or by
/// names that differ in x, y, z or a digit alone.
fn same_unit(x: &Field, y: &Field) -> bool {
    if let (Some(one), Some(other)) = (points::unit(x), points::unit(y)) {
        return one == other;
    }
    if x.name().chars().count() != y.name().chars().count() {
        return false;
    }
    let differing: Vec<(char, char)> = x.name().chars().zip(y.name().chars()).filter(|(a, b)| a != b).collect();
    let component = |c: char| "xyzXYZ".contains(c) || c.is_ascii_digit();
    matches!(differing[..], [(one, other)] if component(one) && component(other))
}

#[cfg(test)]
mod tests {
    use arrow_schema::DataType;

    use super::*;
    use crate::plot::colormap::Colormap;

    /// So many points on a line, nothing special.
    pub fn picture(count: usize) -> Picture {
        let numbers: Vec<f64> = (0..count).map(|index| index as f64 / count as f64).collect();
        let axis = |label: &str| Axis { label: label.to_string(), scale: Scale::Linear, ends: (None, None) };
        Picture {
            x: axis("x"),
            y: axis("y"),
            color: Coloring {
                label: "u".to_string(),
                scale: Scale::Linear,
                ends: (None, None),
                map: Colormap::Viridis,
            },
            points: Points { x: numbers.clone(), y: numbers, value: None },
            precision: 1.0,
            title: None,
            caption: format!("all {count} points"),
            size: None,
            equal_aspect: false,
            radius: None,
            dark: false,
        }
    }

    #[test]
    fn components_share_a_unit() {
        let field = |name: &str| Field::new(name, DataType::Float32, true);
        for (one, other) in [("x", "y"), ("pos_x", "pos_z"), ("u_0", "u_1"), ("X", "Z"), ("ux", "uy")] {
            assert!(same_unit(&field(one), &field(other)), "{one} {other}");
        }
        for (one, other) in [("ra", "dec"), ("x", "time"), ("x", "t"), ("x", "x")] {
            assert!(!same_unit(&field(one), &field(other)), "{one} {other}");
        }
        let with = |name: &str, unit: &str| {
            let metadata = std::collections::HashMap::from([("unit".to_string(), unit.to_string())]);
            field(name).with_metadata(metadata)
        };
        assert!(same_unit(&with("east", "km"), &with("north", "km")));
        assert!(!same_unit(&with("x", "km"), &with("y", "s")));
        assert_eq!(label(&with("x", "mm")), "x [mm]");
    }

    #[test]
    fn every_picture_can_be_drawn() {
        for (count, value) in [(0, None), (1, None), (1, Some(f64::NAN)), (3, Some(5.0)), (1000, Some(-1.0))] {
            for size in [Some((200, 200)), Some((200, 700)), Some((700, 200))] {
                for equal_aspect in [false, true] {
                    let mut picture = picture(count);
                    picture.points.value = value.map(|value| vec![value; count]);
                    (picture.size, picture.equal_aspect) = (size, equal_aspect);
                    picture.title = Some("A title".repeat(40));
                    let canvas = picture::draw(&picture);
                    if let Some((width, height)) = size {
                        assert_eq!((canvas.width, canvas.height), (width as usize, height as usize));
                    }
                }
            }
        }
    }

    #[test]
    fn the_order_of_the_points_does_not_matter() {
        let mut picture = picture(5000);
        picture.size = Some((400, 300));
        picture.points.value = Some(picture.points.x.iter().map(|x| (x * 50.0).sin()).collect());
        let forward = picture::draw(&picture);
        picture.points.x.reverse();
        picture.points.y.reverse();
        if let Some(values) = &mut picture.points.value {
            values.reverse();
        }
        let backward = picture::draw(&picture);
        let far = |one: u8, other: u8| one.abs_diff(other) > 1;
        for y in 0..forward.height {
            for x in 0..forward.width {
                let pairs = forward.pixel(x, y).into_iter().zip(backward.pixel(x, y));
                assert!(!pairs.into_iter().any(|(one, other)| far(one, other)), "{x} {y}");
            }
        }
    }
}
