//! Writes the rows of a query to the terminal, a pipe or a file, and reports the cost.

use std::io::IsTerminal;
use std::path::Path;

use arrow_schema::SchemaRef;
use kubist::{Cancel, Metadata, QueryStream, Stats};
use serde::Serialize;

use crate::args::{Format, Output};
use crate::cost::cost;
use crate::external;
use crate::failure::{Failure, Kind, Result};
use crate::output::{Batches, Encoding, Records, json, print, print_json, remark, remark_raw};
use crate::table::Preview;

pub const PREVIEW_RECORDS: usize = 40;

/// The output of a command with rows; it is checked before any row is read.
pub struct Delivery<'a> {
    asked: &'a Output,
    limit: Option<u64>,
    /// `None` for a file that the Python package writes.
    format: Option<Format>,
}

/// The rows written: all, or as many as fit a terminal.
pub enum Shown {
    All,
    First(usize),
}

impl Delivery<'_> {
    /// A terminal shows `limit` rows, [`PREVIEW_RECORDS`] by default.
    pub fn new(asked: &Output, limit: Option<u64>) -> Result<Delivery<'_>> {
        let path = asked.path();
        let is_external = asked.format.is_none() && path.is_some_and(is_of_others);
        let format = if is_external { None } else { Some(format(asked, path)?) };
        match (format.map(encoding), path) {
            (Some(None), Some(path)) => Err(Failure::usage(format!(
                "{}: --format table is for the terminal; use another format for a file",
                path.display()
            ))),
            _ => Ok(Delivery { asked, limit, format }),
        }
    }

    pub fn write(
        &self,
        schema: &SchemaRef,
        batches: Batches<'_>,
        metadata: &Metadata,
        cancel: &Cancel,
    ) -> Result<Shown> {
        let path = self.asked.path();
        let written = match (self.format.map(encoding), path) {
            (None, Some(path)) => external::export(path, metadata, schema, batches, cancel).map(|()| Shown::All),
            (Some(Some(encoding)), _) => written(path, encoding, schema, batches),
            _ => self.preview(schema, batches),
        };
        written.map_err(|failure| match path {
            Some(path) if failure.kind == Kind::Interrupted => {
                failure.noting(format!("{} was not written", path.display()))
            }
            _ => failure,
        })
    }

    fn preview(&self, schema: &SchemaRef, batches: Batches<'_>) -> Result<Shown> {
        let most = self.limit.map_or(PREVIEW_RECORDS, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let mut preview = Preview::new(schema, most);
        let mut shown = Shown::All;
        for batch in batches {
            let batch = batch?;
            if preview.add(&batch).map_err(Failure::usage)? < batch.num_rows() {
                shown = Shown::First(most);
                break;
            }
        }
        print(&preview.page())?;
        Ok(shown)
    }
}

/// Writes the rows of the query that `ask` starts, and its cost. Errors of output options come first.
pub fn send(
    asked: &Output,
    limit: Option<u64>,
    metadata: &Metadata,
    cancel: &Cancel,
    ask: impl FnOnce() -> kubist::Result<QueryStream>,
) -> Result<Stats> {
    let delivery = Delivery::new(asked, limit)?;
    let mut stream = ask()?;
    let schema = stream.schema();
    let mut batches = stream.by_ref().map(|batch| batch.map_err(Failure::from));
    match delivery.write(&schema, &mut batches, metadata, cancel)? {
        Shown::All => report_cost(asked, asked.path(), &stream),
        Shown::First(rows) => {
            let more = match stream.is_ordered() {
                true => "--limit shows more, -o FILE writes all",
                false => "without an order; --limit shows a uniform sample, --order-by sorts, -o FILE writes all",
            };
            remark(&format!("the first {rows} records; {more}"));
            Ok(stream.stats())
        }
    }
}

fn is_of_others(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    ending.is_some_and(|ending| external::ENDINGS.contains(&ending.as_str()))
}

/// The requested format, or else that of the file name.
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
                        external::ENDINGS.map(|ending| format!(".{ending}")).join(", ")
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

/// `None` for the text table.
pub fn encoding(format: Format) -> Option<Encoding> {
    match format {
        Format::Table => None,
        Format::Csv => Some(Encoding::Csv),
        Format::Parquet => Some(Encoding::Parquet),
        Format::Arrow => Some(Encoding::ArrowFile),
        Format::Arrows => Some(Encoding::ArrowStream),
    }
}

fn written(path: Option<&Path>, encoding: Encoding, schema: &SchemaRef, batches: Batches<'_>) -> Result<Shown> {
    let mut records = Records::create(path, encoding, schema)?;
    for batch in batches {
        records.write(&batch?)?;
    }
    records.finish()?;
    Ok(Shown::All)
}

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
