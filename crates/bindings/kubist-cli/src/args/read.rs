//! Commands that ask a table.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::question::{Question, Region, Selection};
use crate::location::Location;
use crate::parse::{self, Goal};

/// Get the records of a region, all or a sample
///
/// Prints a table on a terminal and CSV into a pipe. What the query cost goes to
/// standard error. An output file gets its name only when it is whole.
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
    /// The table's directory, s3://bucket/prefix or cassandra://hosts/keyspace/table; or a file: HDF5, netCDF, .npy
    pub table: Location,
    /// More files, asked as one with the first
    pub more: Vec<PathBuf>,
    #[command(flatten)]
    pub question: Question,
    /// Print only how many records there are
    #[arg(long, conflicts_with_all = ["output", "format", "columns"])]
    pub count: bool,
    #[command(flatten)]
    pub output: Output,
}

/// Where the records go: shared by query and trajectories.
#[derive(Debug, Args)]
pub struct Output {
    /// Where the records go: a .parquet, .arrow, .arrows or .csv file, or - for standard output;
    /// with the Python package also .las, .laz, .vtp, .fits, and openPMD as .h5 or .bp
    #[arg(short, long, value_name = "FILE", default_value = "-", hide_default_value = true)]
    pub output: PathBuf,
    /// What the records become, where the output's name does not say it
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// Print the cost as JSON: on standard output if the records go to a file
    #[arg(long)]
    pub json: bool,
}

impl Output {
    /// The file that the records go to; none: standard output.
    pub fn path(&self) -> Option<&Path> {
        (self.output != Path::new("-")).then_some(self.output.as_path())
    }
}

/// Get all records of whatever has a record in a region: the paths that lead through it
///
/// One path after the other, each in order of time, unless --order-by says otherwise: by the
/// column that tells paths apart, by what else identifies a path, and by the first column of times,
/// which its type or its name tells (t, time, step, timestep, frame, tick, epoch, date).
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist trajectories airway.kubist --box z=:0.01 --by pid -o paths.parquet
  kubist trajectories airway.kubist --where deposited --by pid --columns pid,time,x,y,z
  kubist trajectories airway.kubist --box x=0.1:0.2 --by pid --order-by time

Exit codes: see kubist --help")]
pub struct Trajectories {
    /// The table's directory, s3://bucket/prefix or cassandra://hosts/keyspace/table
    pub table: Location,
    #[command(flatten)]
    pub region: Region,
    /// The column that tells trajectories apart; without it the identity, or else the lookup, if
    /// that is one column
    #[arg(long, value_name = "COLUMN")]
    pub by: Option<String>,
    #[command(flatten)]
    pub selection: Selection,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum Format {
    /// For people: 40 records, or as many as --limit says
    Table,
    /// Comma-separated text with a header
    Csv,
    Parquet,
    /// Arrow IPC file (also Feather 2)
    Arrow,
    /// Arrow IPC stream
    Arrows,
}

/// Run a query and say where its time went
///
/// The answer is thrown away. Stages overlap: times of requests are of all of them together.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist explain airway.kubist --box x=0.1:0.2
  kubist explain cassandra://host1/science/droplets --sample 1% --fit droplets.fit.json --plot stages.png
  kubist explain ocean.nc --where 'temperature > 28'

Exit codes: see kubist --help")]
pub struct Explain {
    /// The table's directory, s3://bucket/prefix or cassandra://hosts/keyspace/table; or a file: HDF5, netCDF, .npy
    pub table: Location,
    #[command(flatten)]
    pub question: Question,
    /// What `kubist model fit -o` wrote for this location: says how long it should have taken
    #[arg(long, value_name = "FILE")]
    pub fit: Option<PathBuf>,
    /// Draw when each request was in which stage into a PNG file
    #[arg(long, value_name = "FILE", value_parser = parse::charts)]
    pub plot: Option<PathBuf>,
    /// Print it as JSON
    #[arg(long)]
    pub json: bool,
}

/// Estimate aggregates from a sample, with error bars
///
/// Reads as little as the goal needs; what is read completely is exact, and marked as exact.
/// Aggregates: count() count(x) sum(x) mean(x) variance(x) std(x) min(x) max(x) median(x)
/// p95(x) quantile(x, 0.95) share(condition) ratio(a, b) cov(x, y) corr(x, y)
/// weighted_mean(v, w) count_distinct(x) histogram(x, 20) histogram2d(x, y, 64, 64).
/// Without a goal and without a bound the goal is --error 1%.
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
    /// The table's directory, s3://bucket/prefix or cassandra://hosts/keyspace/table; or a file of arrays, and
    /// others of its kind behind it
    pub table: Location,
    /// What to estimate, like 'mean(x), max(y)'
    #[arg(required = true)]
    pub aggregates: Vec<String>,
    #[command(flatten)]
    pub region: Region,
    /// Columns or expressions by whose values records are grouped, like 'kind, bin(x, 0.01)'
    #[arg(long, value_name = "EXPRESSIONS")]
    pub group_by: Vec<String>,
    /// Stop when half of each interval is at most this share of its value: 1% or 0.01
    ///
    /// Or this much: '0.01 abs' in the unit of the value, or with a unit, as '0.1 mm'; for values
    /// that may be 0
    #[arg(long, value_name = "SHARE", value_parser = parse::goal)]
    pub error: Option<Goal>,
    /// Answer in this time: seconds, or with a unit, as 500ms
    #[arg(long, value_name = "TIME", value_parser = parse::seconds)]
    pub within: Option<std::time::Duration>,
    /// Read about this many records at most
    #[arg(long, value_name = "RECORDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_rows: Option<u64>,
    /// Read about this many bytes at most, like 64MiB
    #[arg(long, value_name = "SIZE", value_parser = parse::bytes)]
    pub max_bytes: Option<usize>,
    /// How often intervals hold the truth
    #[arg(long, value_name = "SHARE", value_parser = parse::share, default_value = "95%")]
    pub confidence: f64,
    /// Read this share at either end of the values whatever its priority: for heavy tails
    #[arg(long, value_name = "SHARE", value_parser = parse::share)]
    pub tails: Option<f64>,
    /// Show each estimate as it comes, with intervals that hold whenever you stop (Ctrl-C)
    #[arg(long)]
    pub watch: bool,
    /// Print the figures as JSON
    #[arg(long)]
    pub json: bool,
}

/// Say what a table holds, or a file
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist info airway.kubist
  kubist info airway.kubist --json | jq .rows
  kubist info airway.kubist --columns
  kubist info ocean.nc

Exit codes: see kubist --help")]
pub struct Info {
    /// The table's directory, s3://bucket/prefix or cassandra://hosts/keyspace/table; or a file: HDF5, netCDF, .npy
    pub table: Location,
    /// Say what each column takes instead: bytes a record, encodings, how fast it is decoded
    #[arg(long)]
    pub columns: bool,
    /// Print it as JSON
    #[arg(long)]
    pub json: bool,
}

/// Follow the commits of a table as they land
///
/// Prints a line for each change, until interrupted: how many records there are,
/// and which writers committed how many.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist tail airway.kubist
  kubist tail airway.kubist --json | jq .rows

Exit codes: see kubist --help")]
pub struct Tail {
    /// The table's directory, s3://bucket/prefix or cassandra://hosts/keyspace/table
    pub table: Location,
    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
    /// Stop after this many changes
    #[arg(long, value_name = "CHANGES")]
    pub changes: Option<u64>,
    /// How often to look [default: as often as is cheap]
    ///
    /// Each look asks for every writer's log: on a file server that many share, seconds are kind.
    #[arg(long, value_name = "TIME", value_parser = parse::seconds)]
    pub every: Option<std::time::Duration>,
}

/// Look whether a table is sound
///
/// Reads the header, the logs, the rewrites, the checkpoints and the bounds of all
/// records, and sees that every file is there. With --deep it reads every record and
/// checks all that queries rely on. Prints each finding on a line of its own, with
/// what it costs; the exit code is then 1. See kubist salvage for what to do about it.
/// What could not be read because the storage failed, several times, is printed apart:
/// nothing is known of it, and the exit code is 4 if nothing else is wrong.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist verify airway.kubist
  kubist verify airway.kubist --deep --json > report.json

Exit codes: see kubist --help")]
pub struct Verify {
    /// The table's directory, s3://bucket/prefix or cassandra://hosts/keyspace/table
    pub table: Location,
    /// Read every record
    #[arg(long)]
    pub deep: bool,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Save what is sound of a damaged table into a new one
///
/// Takes every page that can be read, lost records from replicas where there are any,
/// and older states where newer ones cannot be read. Says for each damaged location what
/// it cost, and what cannot be known; the exit code is then 1. If the storage fails, several
/// times, it is unknown what is lost: then the exit code is 4, and there is no new table. The
/// damaged table is not changed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist salvage airway.kubist saved.kubist
  kubist salvage airway.kubist saved.kubist --json > lost.json; kubist verify saved.kubist --deep

Exit codes: see kubist --help")]
pub struct Salvage {
    /// The damaged table's directory, s3://bucket/prefix or cassandra://hosts/keyspace/table
    pub table: Location,
    /// The new table's directory, s3://bucket/prefix or cassandra://hosts/keyspace/table
    pub other: Location,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}
