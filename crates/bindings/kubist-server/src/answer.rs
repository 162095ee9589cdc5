//! Sends rows as Arrow IPC, CSV or Parquet while the query runs.

use std::io::Write;

use arrow_array::RecordBatch;
use arrow_ipc::writer::StreamWriter;
use kubist::QueryStream;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use crate::ask::Format;
use crate::problem::{Problem, Result};
use crate::respond::Out;

/// Rows of a Parquet row group, which is in memory until it is written.
const GROUP_ROWS: usize = 131_072;

impl Format {
    pub fn media_type(self) -> &'static str {
        match self {
            Format::Arrow => "application/vnd.apache.arrow.stream",
            Format::Csv => "text/csv; charset=utf-8",
            Format::Parquet => "application/vnd.apache.parquet",
        }
    }

    pub fn ending(self) -> &'static str {
        match self {
            Format::Arrow => "arrows",
            Format::Csv => "csv",
            Format::Parquet => "parquet",
        }
    }
}

/// Values to encode between checks whether the client is still connected.
const VALUES_A_LOOK: usize = 1 << 20;

fn pieces(batch: &RecordBatch) -> impl Iterator<Item = RecordBatch> {
    let (rows, of_piece) = (batch.num_rows(), (VALUES_A_LOOK / batch.num_columns().max(1)).max(1));
    (0..rows).step_by(of_piece).map(move |first| batch.slice(first, of_piece.min(rows - first)))
}

/// Sends all rows of a stream; `name` is the file name for a browser.
pub fn send(mut stream: QueryStream, format: Format, name: &str, out: &mut Out) -> Result<()> {
    // The first batch gives the fraction, and most errors occur before it.
    let first = stream.next().transpose()?;
    out.header("content-type", format.media_type());
    out.header("content-disposition", &format!("attachment; filename=\"{name}.{}\"", format.ending()));
    out.header("kubist-fraction", &stream.fraction().to_string());
    let (schema, cancel) = (stream.schema(), out.cancel.clone());
    let batches = first.into_iter().map(Ok).chain(&mut stream);
    match format {
        Format::Arrow => {
            let mut writer = StreamWriter::try_new(&mut *out, &schema).map_err(Problem::of_arrow)?;
            for batch in batches {
                for piece in pieces(&batch?) {
                    cancel.check()?;
                    writer.write(&piece).map_err(Problem::of_arrow)?;
                    writer.flush().map_err(Problem::of_arrow)?;
                }
            }
            writer.finish().map_err(Problem::of_arrow)?;
        }
        Format::Csv => {
            let mut writer = arrow_csv::WriterBuilder::new().with_header(true).build(&mut *out);
            let mut rows = 0;
            for batch in batches {
                let batch = batch?;
                rows += batch.num_rows();
                for piece in pieces(&batch) {
                    cancel.check()?;
                    writer.write(&piece).map_err(Problem::of_arrow)?;
                }
            }
            if rows == 0 {
                writer.write(&arrow_array::RecordBatch::new_empty(schema)).map_err(Problem::of_arrow)?;
            }
        }
        Format::Parquet => {
            let properties = WriterProperties::builder()
                .set_compression(Compression::ZSTD(ZstdLevel::default()))
                .set_max_row_group_row_count(Some(GROUP_ROWS))
                .build();
            let mut writer = ArrowWriter::try_new(&mut *out, schema, Some(properties)).map_err(Problem::of_parquet)?;
            for batch in batches {
                for piece in pieces(&batch?) {
                    cancel.check()?;
                    writer.write(&piece).map_err(Problem::of_parquet)?;
                }
            }
            writer.close().map_err(Problem::of_parquet)?;
        }
    }
    out.flush().map_err(Problem::of_sending)
}
