//! Commands of the scalability model.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::location::Location;
use crate::parse;

/// Fit the scalability model to a store, or get advice from it
#[derive(Debug, Subcommand)]
pub enum Model {
    Fit(Fit),
    Advise(Advise),
}

/// Measure the cost of requests and fit the scalability model to it
///
/// Takes about 20 s, writes about 20 MiB next to the location, and deletes them. Measure while the store is
/// idle. docs/scalability.md explains the figures.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist model fit cassandra://host1,host2/science/droplets -o droplets.fit.json
  kubist model fit /scratch/run.kubist --plot fit.png

Exit codes: see kubist --help")]
pub struct Fit {
    /// A directory, s3://bucket/prefix or cassandra://hosts/keyspace/table; a table is not needed
    pub location: Location,
    /// Write the fit to this JSON file, for `kubist model advise` and `kubist explain`
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Draw measured and fitted times into a PNG file
    #[arg(long, value_name = "FILE", value_parser = parse::charts)]
    pub plot: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Print the best sizes and numbers of concurrent requests for a number of nodes
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist model advise droplets.fit.json --nodes 16
  kubist model advise cassandra://host1/science/droplets --nodes 8 --rows 1000000 --plot advice.png

Exit codes: see kubist --help")]
pub struct Advise {
    /// The output of `kubist model fit -o`, or a table's location to measure now
    pub fit: Location,
    /// The number of nodes to plan for, each like the measured ones
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub nodes: u32,
    /// Rows that a query returns [default: the rows of the table, or a million]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub rows: Option<u64>,
    /// Stored bytes of a row [default: the table's, or 36]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..))]
    pub row_bytes: Option<u32>,
    /// Draw predicted times by size and nodes into a PNG file
    #[arg(long, value_name = "FILE", value_parser = parse::charts)]
    pub plot: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
