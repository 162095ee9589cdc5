//! Commands that choose the design of a table.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Find the dimensions, indexes and settings that suit data and its queries
///
/// Builds designs from a sample of the data, measures the queries of a workload on them, and predicts times,
/// bytes and costs for all data. Prints the designs, best first, and the command that creates the best.
/// docs/workloads.md describes the file.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist advise taxi.parquet
  kubist advise snapshots/ --queries questions.toml
  kubist advise airway.kubist --queries recorded.jsonl

Exit codes: see kubist --help")]
pub struct Designs {
    /// A table, a file, a folder of files or a pattern, in any format of kubist ingest
    pub data: PathBuf,
    /// The workload: a TOML file, or a record of queries [default: proposed from the columns]
    #[arg(long, value_name = "FILE")]
    pub queries: Option<PathBuf>,
    /// The longest time for the search, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 90.0)]
    pub seconds: f64,
    /// The largest number of rows to measure with
    #[arg(long, default_value_t = 400_000)]
    pub rows: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Play a workload on tables and other systems, or record real queries
#[derive(Debug, Subcommand)]
pub enum Workload {
    Run(WorkloadRun),
    Compare(WorkloadCompare),
    Record(WorkloadRecord),
}

/// Options of playing a workload.
#[derive(Debug, Args)]
pub struct Playing {
    /// Runs with the same seed send the same queries
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// A table that gets a row for each request, to compare runs over time
    #[arg(long, value_name = "TABLE")]
    pub keep: Option<PathBuf>,
    /// Write figures, latencies over time and metrics into this HTML file
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Play a workload, and print throughput and latencies per query
///
/// With a rate in the file, queries arrive at random times, and latencies include the wait for earlier queries.
/// Without it, each client sends its next query after a result. docs/workloads.md describes the file.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist workload run questions.toml airway.kubist
  kubist workload run questions.toml airway.kubist duckdb:airway.parquet --keep runs.kubist

Exit codes: see kubist --help")]
pub struct WorkloadRun {
    /// The workload: a TOML file, or a record of queries
    pub workload: PathBuf,
    /// Tables, servers (http://), Parquet files (read by DuckDB), SYSTEM:FILE.parquet (duckdb, lance, postgis, cql)
    #[arg(required = true)]
    pub targets: Vec<String>,
    #[command(flatten)]
    pub playing: Playing,
}

/// Build several designs of the same data, and play a workload on each
///
/// docs/workloads.md describes both files.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist workload compare designs.toml airway.parquet questions.toml --at scratch/
  kubist workload compare designs.toml airway.parquet questions.toml --at s3://bucket/designs --report designs.html

Exit codes: see kubist --help")]
pub struct WorkloadCompare {
    /// The designs: a TOML file
    pub designs: PathBuf,
    /// A file, a folder of files or a pattern, in any format of kubist ingest
    pub data: PathBuf,
    /// The workload: a TOML file, or a record of queries
    pub workload: PathBuf,
    /// Where the tables are built: a folder, s3://bucket/prefix or cassandra://hosts/keyspace
    #[arg(long, value_name = "LOCATION")]
    pub at: String,
    /// Keep the tables; otherwise each is deleted after its run
    #[arg(long)]
    pub keep_tables: bool,
    #[command(flatten)]
    pub playing: Playing,
}

/// Run a program, and record its queries of tables
///
/// Each query is a line of JSON with its time, table and parameters; no rows are recorded. The file grows to at
/// most 64 MiB. The environment variable KUBIST_RECORD does the same.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist workload record questions.jsonl -- python analysis.py
  kubist workload record questions.jsonl -- kubist view airway.kubist

Exit codes: those of the program")]
pub struct WorkloadRecord {
    /// The file, to which lines are appended
    pub file: PathBuf,
    /// The program and its arguments
    #[arg(required = true, last = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}
