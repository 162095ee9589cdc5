//! Commands that read a table.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::query::{QueryArgs, Region, Selection};
use crate::location::Location;
use crate::parse::{self, Goal};

/// Return all rows of a region, or a sample
///
/// Prints a table on a terminal and CSV into a pipe, and the cost of the query to standard error. An output
/// file gets its name only after it is complete.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist query airway.kubist --box x=0.1:0.2,y=:0.5 --sample 1%
  kubist query airway.kubist --where 'diameter > 2e-5' --limit 1000 -o big.parquet
  kubist query airway.kubist --box time=0.3 --columns x,y,z,ux --json -o now.arrow
  kubist query airway.kubist --per-cell 1:x=0.001,y=0.001 --format csv | head
  kubist query airway.kubist --order-by 'diameter desc' --limit 10
  kubist query airway.kubist --box x=0:0.1 --count
  kubist query ocean.nc --where 'temperature > 28 AND depth < 50'
  kubist query run_*.nc --where 'temperature > 28' --box lat=-10:10

Exit codes: see kubist --help")]
pub struct Query {
    /// A directory, s3://bucket/prefix or cassandra://hosts/keyspace/table; or an HDF5, netCDF, Parquet or
    /// .npy file
    pub table: Location,
    /// More files, queried together with the first
    pub more: Vec<PathBuf>,
    #[command(flatten)]
    pub query: QueryArgs,
    /// Print only the number of rows
    #[arg(long, conflicts_with_all = ["output", "format", "columns"])]
    pub count: bool,
    #[command(flatten)]
    pub output: Output,
}

/// Output options, shared by query and trajectories.
#[derive(Debug, Args)]
pub struct Output {
    /// The output: a .parquet, .arrow, .arrows or .csv file, or - for standard output; with the Python
    /// package also .las, .laz, .vtp, .fits, .ecsv, and openPMD as .h5 or .bp
    #[arg(short, long, value_name = "FILE", default_value = "-", hide_default_value = true)]
    pub output: PathBuf,
    /// The output format, if the file name does not give it
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// Print the cost as JSON: to standard output if rows go to a file, otherwise to standard error
    #[arg(long)]
    pub json: bool,
}

impl Output {
    /// The output file; `None` for standard output.
    pub fn path(&self) -> Option<&Path> {
        (self.output != Path::new("-")).then_some(self.output.as_path())
    }
}

/// Run one SELECT with Polars or DuckDB; the table is called self
///
/// Needs the Python package with the engine (pip install kubist polars duckdb). Reads only the columns and rows
/// that the query needs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist sql airway.kubist 'SELECT deposited, count(*) FROM self WHERE x < 0.2 GROUP BY deposited'
  kubist sql airway.kubist 'SELECT kind, median(x) FROM self JOIN m USING (pid) GROUP BY ALL' \\
      --engine duckdb --table m=materials.kubist -o kinds.parquet

Exit codes: see kubist --help")]
pub struct Sql {
    /// A directory, s3://bucket/prefix or cassandra://hosts/keyspace/table
    pub table: Location,
    /// One SELECT, in the dialect of the engine
    pub query: String,
    /// The library that runs the query
    #[arg(long, value_enum, default_value_t = Engine::Polars)]
    pub engine: Engine,
    /// Another table, and its name in the query: m=materials.kubist (repeatable)
    #[arg(long = "table", value_name = "NAME=LOCATION", value_parser = parse::named_table)]
    pub others: Vec<(String, String)>,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum Engine {
    Polars,
    Duckdb,
}

impl Engine {
    /// Its name in Python.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Polars => "polars",
            Engine::Duckdb => "duckdb",
        }
    }
}

/// Return the complete trajectories that pass through a region
///
/// A trajectory is returned if at least one of its rows is in the region. Trajectories follow one another, each
/// in order of time. They are sorted by the --by column, the other identity columns, then the first time
/// column. A time column has a time type or one of the names t, time, step, timestep, frame, tick, epoch and
/// date. --order-by overrides this order.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist trajectories airway.kubist --box z=:0.01 --by pid -o paths.parquet
  kubist trajectories airway.kubist --where deposited --by pid --columns pid,time,x,y,z
  kubist trajectories airway.kubist --box x=0.1:0.2 --by pid --order-by time

Exit codes: see kubist --help")]
pub struct Trajectories {
    /// A directory, s3://bucket/prefix or cassandra://hosts/keyspace/table
    pub table: Location,
    #[command(flatten)]
    pub region: Region,
    /// The column that identifies a trajectory [default: the identity column, or else the lookup column, if
    /// there is only one]
    #[arg(long, value_name = "COLUMN")]
    pub by: Option<String>,
    #[command(flatten)]
    pub selection: Selection,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum Format {
    /// Readable text: 40 rows, or as many as --limit says
    Table,
    /// Comma-separated text with a header
    Csv,
    Parquet,
    /// Arrow IPC file (also Feather 2)
    Arrow,
    /// Arrow IPC stream
    Arrows,
}

/// Run a query and report its plan and the time per stage
///
/// The rows are discarded. Stages overlap, so the times of all requests add up to more than the elapsed time.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist explain airway.kubist --box x=0.1:0.2
  kubist explain cassandra://host1/science/droplets --sample 1% --fit droplets.fit.json --plot stages.png
  kubist explain airway.kubist --where 'diameter > 2e-5' --predict
  kubist explain ocean.nc --where 'temperature > 28'

Exit codes: see kubist --help")]
pub struct Explain {
    /// A directory, s3://bucket/prefix or cassandra://hosts/keyspace/table; or an HDF5, netCDF, Parquet or
    /// .npy file
    pub table: Location,
    #[command(flatten)]
    pub query: QueryArgs,
    /// The output of `kubist model fit -o` for this location, to print the predicted time too
    #[arg(long, value_name = "FILE")]
    pub fit: Option<PathBuf>,
    /// Predict the time with the data in memory, from up to 40 random queries of the table, in up to 4 seconds
    /// (by the Python package)
    #[arg(long)]
    pub predict: bool,
    /// Draw the stages of the requests over time into a PNG file
    #[arg(long, value_name = "FILE", value_parser = parse::charts)]
    pub plot: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Estimate aggregates from a sample, with confidence intervals
///
/// Reads only as many rows as the goal needs. If all rows were read, the aggregate is exact and marked as
/// exact. Aggregates: count() count(x) sum(x) mean(x) variance(x) std(x) min(x) max(x) median(x) p95(x)
/// quantile(x, 0.95) share(condition) ratio(a, b) cov(x, y) corr(x, y) weighted_mean(v, w) count_distinct(x)
/// histogram(x, 20) histogram2d(x, y, 64, 64). Without --error, --within, --max-rows or --max-bytes the goal is
/// --error 1%.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist estimate airway.kubist 'mean(ux), p95(diameter)' --box x=0.1:0.2 --error 1%
  kubist estimate airway.kubist 'count()' 'mean(deposited)' --group-by kind --within 0.5
  kubist estimate airway.kubist 'mean(sqrt(ux*ux + uy*uy))' --error '0.01 abs' --json
  kubist estimate airway.kubist 'histogram(diameter, 20)' --sample 1%
  kubist estimate ocean.nc 'mean(TEMP)' --where 'DEPTH < 50' --error 1%

Exit codes: see kubist --help")]
pub struct Estimate {
    /// A directory, s3://bucket/prefix or cassandra://hosts/keyspace/table; or a file of arrays, followed by
    /// more files of the same kind
    pub table: Location,
    /// The aggregates to estimate, like 'mean(x), max(y) as top'
    #[arg(required = true)]
    pub aggregates: Vec<String>,
    #[command(flatten)]
    pub region: Region,
    /// Columns or expressions to group by, like 'kind, bin(x, 0.01) as slice'
    #[arg(long, value_name = "EXPRESSIONS")]
    pub group_by: Vec<String>,
    /// Stop when half of each interval is at most this fraction of its value: 1% or 0.01
    ///
    /// An absolute error is '0.01 abs' in the unit of the value, or has a unit: '0.1 mm'. Use it for values
    /// that may be 0.
    #[arg(long, value_name = "FRACTION", value_parser = parse::goal)]
    pub error: Option<Goal>,
    /// Stop after this time: seconds, or with a unit like 500ms
    #[arg(long, value_name = "TIME", value_parser = parse::seconds)]
    pub within: Option<std::time::Duration>,
    /// Read at most about this many rows
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_rows: Option<u64>,
    /// Read at most about this many bytes, like 64MiB
    #[arg(long, value_name = "SIZE", value_parser = parse::bytes)]
    pub max_bytes: Option<usize>,
    /// The fraction of intervals that contain the value of all rows
    #[arg(long, value_name = "FRACTION", value_parser = parse::share, default_value = "95%")]
    pub confidence: f64,
    /// Read this fraction of the rows at each end of the values completely: for heavy tails
    #[arg(long, value_name = "FRACTION", value_parser = parse::share)]
    pub tails: Option<f64>,
    /// Print each estimate as it improves; its interval is valid whenever you stop (Ctrl-C)
    #[arg(long)]
    pub watch: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Print columns, sizes and layout of a table or file
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist info airway.kubist
  kubist info airway.kubist --json | jq .rows
  kubist info airway.kubist --columns
  kubist info ocean.nc

Exit codes: see kubist --help")]
pub struct Info {
    /// A directory, s3://bucket/prefix or cassandra://hosts/keyspace/table; or an HDF5, netCDF, Parquet or
    /// .npy file
    pub table: Location,
    /// Print the storage per column instead: bytes per row, encodings, decoding speed
    #[arg(long)]
    pub columns: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Follow the commits of a table
///
/// Prints a line for each change until it is interrupted: the number of rows, and the rows that each writer
/// committed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist tail airway.kubist
  kubist tail airway.kubist --json | jq .rows

Exit codes: see kubist --help")]
pub struct Tail {
    /// A directory, s3://bucket/prefix or cassandra://hosts/keyspace/table
    pub table: Location,
    /// Print one JSON object a line
    #[arg(long)]
    pub json: bool,
    /// Stop after this many changes
    #[arg(long, value_name = "CHANGES")]
    pub changes: Option<u64>,
    /// The time between two checks [default: chosen by the store's cost]
    ///
    /// Each check requests the log of every writer. Choose seconds on a busy shared file server.
    #[arg(long, value_name = "TIME", value_parser = parse::seconds)]
    pub every: Option<std::time::Duration>,
}

/// List the commits of a table and its saved results
///
/// A saved result is a file from `Result.save` or `Estimate.save` in Python.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist history airway.kubist
  kubist history s3://bucket/airway --folder results

Exit codes: see kubist --help")]
pub struct History {
    /// A directory, s3://bucket/prefix or cassandra://hosts/keyspace/table
    pub table: Location,
    /// The folder with the saved results [default: this folder and the folder of the table]
    #[arg(long, value_name = "FOLDER")]
    pub folder: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Repeat the query of a saved result and compare the results
///
/// The exit code is 1 if they differ.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist recompute deposition.kubist
  kubist recompute deposition.kubist --newest

Exit codes: 1 if the answers differ; for others see kubist --help")]
pub struct Recompute {
    /// The file of the saved result
    pub file: PathBuf,
    /// Query the newest snapshot instead of the saved one
    #[arg(long)]
    pub newest: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Check a table for damage
///
/// Reads the header, logs, rewrites, checkpoints and the bounds of all rows, and checks that every file exists.
/// With --deep it also reads every row and checks everything that queries rely on. Prints each finding on its
/// own line, with the loss it causes; the exit code is then 1. `kubist salvage` copies the intact rows. If the
/// storage fails repeatedly, objects that could not be read are listed separately, because their condition is
/// unknown; the exit code is 4 if there is no other finding.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist verify airway.kubist
  kubist verify airway.kubist --deep --json > report.json

Exit codes: see kubist --help")]
pub struct Verify {
    /// A directory, s3://bucket/prefix or cassandra://hosts/keyspace/table
    pub table: Location,
    /// Read every row
    #[arg(long)]
    pub deep: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Copy the intact rows of a damaged table into a new table
///
/// Takes every readable page, restores lost rows from replicas, and uses older snapshots if newer ones are
/// unreadable. Reports the loss at each damaged location, and the losses that cannot be determined; the exit
/// code is then 1. If the storage fails repeatedly, the loss is unknown: the exit code is 4, and no new table
/// is created. The damaged table does not change.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist salvage airway.kubist saved.kubist
  kubist salvage airway.kubist saved.kubist --json > lost.json; kubist verify saved.kubist --deep

Exit codes: see kubist --help")]
pub struct Salvage {
    /// The damaged table's directory, s3://bucket/prefix or cassandra://hosts/keyspace/table
    pub table: Location,
    /// The new table: a directory, s3://bucket/prefix or cassandra://hosts/keyspace/table
    pub other: Location,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
