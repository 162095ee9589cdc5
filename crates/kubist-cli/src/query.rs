//! `kubist query`: records of a region to the terminal, a pipe or a file.

use std::io::IsTerminal;
use std::path::Path;

use kubist::{Cancel, QuerySpec, QueryStream, Request, RunOptions, Snapshot, Stats, Table};
use serde::Serialize;

use crate::args::{self, Format};
use crate::cost::cost;
use crate::failure::{Failure, Kind, Result};
use crate::foreign;
use crate::output::{Encoding, Records, json, print, print_json, remark, remark_raw};
use crate::parse;
use crate::table::Preview;

/// Records shown to a person who did not say how many.
const PREVIEW_RECORDS: usize = 40;

pub fn run(command: &args::Query, cancel: &Cancel) -> Result<()> {
    let snapshot = Table::open(&command.table)?.snapshot()?;
    let query = question(command, &snapshot, cancel)?;
    if command.count {
        let count = snapshot.count(&query)?;
        return if command.json {
            print_json(&serde_json::json!({ "count": count }))
        } else {
            print(&format!("{count}\n"))
        };
    }
    let path = (command.output != Path::new("-")).then_some(command.output.as_path());
    if let Some(path) = path.filter(|path| command.format.is_none() && is_of_others(path)) {
        let mut stream = snapshot.query(&query)?;
        foreign::export(path, &snapshot.metadata(), &mut stream)?;
        return tell(command, Some(path), &stream);
    }
    let format = format(command, path)?;
    let answered = answer(command, path, format, snapshot.query(&query)?);
    answered.map_err(|failure| match path {
        Some(path) if failure.kind == Kind::Interrupted => {
            failure.noting(format!("{} was not written", path.display()))
        }
        _ => failure,
    })
}

/// Whether the Python package writes files of this name.
fn is_of_others(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    ending.is_some_and(|ending| foreign::ENDINGS.contains(&ending.as_str()))
}

fn question(command: &args::Query, snapshot: &Snapshot, cancel: &Cancel) -> Result<Request> {
    let schema = snapshot.schema();
    Ok(RunOptions::with_cancel(cancel).of(QuerySpec {
        bounds: parse::bounds(&command.region.ranges, &schema)?,
        precision: command.region.precision,
        window: command.window,
        limit: command.limit,
        order_by: command.order_by.clone().map(|order| order.0),
        first: command.first,
        per_cell: command.per_cell.clone(),
        columns: command.columns.clone(),
        filter: command.region.filter.clone(),
        ..QuerySpec::default()
    }))
}

fn format(command: &args::Query, path: Option<&Path>) -> Result<Format> {
    let terminal = std::io::stdout().is_terminal();
    let format = match (command.format, path) {
        (Some(format), _) => format,
        (None, None) if terminal => Format::Table,
        (None, None) => Format::Csv,
        (None, Some(path)) => {
            match path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase()).as_deref() {
                Some("csv") => Format::Csv,
                Some("parquet") => Format::Parquet,
                Some("arrow" | "feather" | "ipc") => Format::Arrow,
                Some("arrows") => Format::Arrows,
                _ => {
                    return Err(Failure::usage(format!(
                        "{}: its ending names no format: .parquet, .arrow, .arrows, .csv, or say --format",
                        path.display()
                    )));
                }
            }
        }
    };
    if path.is_none() && terminal && matches!(format, Format::Parquet | Format::Arrow | Format::Arrows) {
        return Err(Failure::usage("a terminal cannot show this format: name a file with -o, or pipe it on"));
    }
    Ok(format)
}

fn answer(command: &args::Query, path: Option<&Path>, format: Format, mut stream: QueryStream) -> Result<()> {
    let encoding = match format {
        Format::Table => return preview(command, path, stream),
        Format::Csv => Encoding::Csv,
        Format::Parquet => Encoding::Parquet,
        Format::Arrow => Encoding::ArrowFile,
        Format::Arrows => Encoding::ArrowStream,
    };
    let mut records = Records::create(path, encoding, &stream.schema())?;
    for batch in &mut stream {
        records.write(&batch?)?;
    }
    records.finish()?;
    tell(command, path, &stream)
}

fn preview(command: &args::Query, path: Option<&Path>, mut stream: QueryStream) -> Result<()> {
    if let Some(path) = path {
        return Err(Failure::usage(format!("{}: a table is for the terminal; use another --format", path.display())));
    }
    let most = command.limit.into_iter().chain(command.first).min();
    let most = most.map_or(PREVIEW_RECORDS, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let mut preview = Preview::new(&stream.schema(), most);
    let mut cut = false;
    for batch in &mut stream {
        let batch = batch?;
        cut = preview.add(&batch).map_err(Failure::usage)? < batch.num_rows();
        if cut {
            break;
        }
    }
    print(&preview.page())?;
    if cut {
        let more = match command.order_by {
            Some(_) => "--first shows more of them, -o FILE takes all",
            None => "in no order; --limit shows a uniform sample, --order-by an order, -o FILE takes all",
        };
        remark(&format!("the first {most} records; {more}"));
        return Ok(());
    }
    tell(command, None, &stream)
}

/// What a query cost, for scripts.
#[derive(Serialize)]
struct Cost {
    #[serde(flatten)]
    stats: Stats,
    precision: f64,
}

fn tell(command: &args::Query, path: Option<&Path>, stream: &QueryStream) -> Result<()> {
    let stats = stream.stats();
    let precision = stream.precision();
    if command.json {
        let cost = Cost { stats, precision };
        if path.is_some() {
            print_json(&cost)?;
        } else {
            remark_raw(&json(&cost)?);
        }
        return Ok(());
    }
    remark(&cost(&stats, precision));
    Ok(())
}
