//! Writes the rows of a query to the terminal, a pipe or a file, and reports the cost.

use std::io::IsTerminal;
use std::path::Path;

use kubist::{Cancel, Metadata, QueryStream, Stats};
use serde::Serialize;

use crate::args::{Format, Output};
use crate::cost::cost;
use crate::failure::{Failure, Kind, Result};
use crate::foreign;
use crate::output::{Encoding, Records, json, print, print_json, remark, remark_raw};
use crate::table::Preview;

/// Rows shown on a terminal without --limit.
pub const PREVIEW_RECORDS: usize = 40;

/// Writes the rows of the query that `ask` starts, and reports its cost. Errors of the output options are
/// reported before the query starts. A terminal shows `limit` rows, or [`PREVIEW_RECORDS`] without a limit.
pub fn send(
    asked: &Output,
    limit: Option<u64>,
    metadata: &Metadata,
    cancel: &Cancel,
    ask: impl FnOnce() -> kubist::Result<QueryStream>,
) -> Result<Stats> {
    let path = asked.path();
    let unwritten = |failure: Failure| match path {
        Some(path) if failure.kind == Kind::Interrupted => {
            failure.noting(format!("{} was not written", path.display()))
        }
        _ => failure,
    };
    if let Some(path) = path.filter(|path| asked.format.is_none() && is_of_others(path)) {
        let mut stream = ask()?;
        foreign::export(path, metadata, &mut stream, cancel).map_err(unwritten)?;
        return report_cost(asked, Some(path), &stream);
    }
    let format = format(asked, path)?;
    written(asked, limit, path, format, ask()?).map_err(unwritten)
}

/// Returns whether the Python package writes files of this name.
fn is_of_others(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    ending.is_some_and(|ending| foreign::ENDINGS.contains(&ending.as_str()))
}

/// The requested format, or the one of the file name.
pub fn format(asked: &Output, path: Option<&Path>) -> Result<Format> {
    let terminal = std::io::stdout().is_terminal();
    let format = match (asked.format, path) {
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
                        "{}: the file extension names no format; use .parquet, .arrow, .arrows, .csv, with the Python \
                         package also {}, or give --format",
                        path.display(),
                        foreign::ENDINGS.map(|ending| format!(".{ending}")).join(", ")
                    )));
                }
            }
        }
    };
    if path.is_none() && terminal && matches!(format, Format::Parquet | Format::Arrow | Format::Arrows) {
        return Err(Failure::usage("a terminal cannot show this format: write a file with -o, or use a pipe"));
    }
    Ok(format)
}

/// The encoding of a format; `None` for the text table.
pub fn encoding(format: Format) -> Option<Encoding> {
    match format {
        Format::Table => None,
        Format::Csv => Some(Encoding::Csv),
        Format::Parquet => Some(Encoding::Parquet),
        Format::Arrow => Some(Encoding::ArrowFile),
        Format::Arrows => Some(Encoding::ArrowStream),
    }
}

fn written(
    asked: &Output,
    limit: Option<u64>,
    path: Option<&Path>,
    format: Format,
    mut stream: QueryStream,
) -> Result<Stats> {
    let Some(encoding) = encoding(format) else { return preview(asked, limit, path, stream) };
    let mut records = Records::create(path, encoding, &stream.schema())?;
    for batch in &mut stream {
        records.write(&batch?)?;
    }
    records.finish()?;
    report_cost(asked, path, &stream)
}

fn preview(asked: &Output, limit: Option<u64>, path: Option<&Path>, mut stream: QueryStream) -> Result<Stats> {
    if let Some(path) = path {
        return Err(Failure::usage(format!(
            "{}: --format table is for the terminal; use another format for a file",
            path.display()
        )));
    }
    let most = limit.map_or(PREVIEW_RECORDS, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
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
        let more = match stream.is_ordered() {
            true => "--limit shows more, -o FILE writes all",
            false => "without an order; --limit shows a uniform sample, --order-by sorts, -o FILE writes all",
        };
        remark(&format!("the first {most} records; {more}"));
        return Ok(stream.stats());
    }
    report_cost(asked, None, &stream)
}

/// The cost of a query, for scripts.
#[derive(Serialize)]
struct Cost {
    #[serde(flatten)]
    stats: Stats,
    fraction: f64,
}

fn report_cost(asked: &Output, path: Option<&Path>, stream: &QueryStream) -> Result<Stats> {
    let stats = stream.stats();
    let fraction = stream.fraction();
    if asked.json {
        let cost = Cost { stats, fraction };
        if path.is_some() {
            print_json(&cost)?;
        } else {
            remark_raw(&json(&cost)?);
        }
        return Ok(stats);
    }
    remark(&cost(&stats, fraction));
    Ok(stats)
}
