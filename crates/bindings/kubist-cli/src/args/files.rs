//! Commands about files that stay in their format.

use std::path::PathBuf;

use clap::Args;
use kubist_blocks::Block;

use crate::parse;

/// Index files by their values: HDF5, netCDF, Parquet, .npy
///
/// Writes FILE.kubix next to each file, with the minimum and maximum per block of an array. Its size is a few
/// thousandths of the file. `kubist query FILE` then reads only the blocks that can match. The files do not
/// change. An indexed file is skipped, unless its index lacks something that the options request.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist index ocean.nc
  kubist index run_*.h5 --variables temperature,salinity --sorted 5%
  kubist index /archive/ocean.nc --into ~/indices --block 16x16x16
  kubist index run_*.nc --refresh
  kubist index ocean.nc --advise 1e-4

Exit codes: see kubist --help")]
pub struct Index {
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Index only these variables
    #[arg(long, value_delimiter = ',')]
    pub variables: Option<Vec<String>>,
    /// The largest block in bytes, or its shape: 16x16x16 [default: 64KiB]
    #[arg(long, value_name = "SIZE")]
    pub block: Option<Block>,
    /// The fraction of blocks that get a sorted copy, chosen by how many queries they match: 5%
    #[arg(long, value_name = "FRACTION", value_parser = parse::fraction)]
    pub sorted: Option<f64>,
    /// Write the indexes to this folder, for read-only data
    #[arg(long, value_name = "DIR")]
    pub into: Option<PathBuf>,
    /// Index changed files again; if a file only grew, index only the appended part
    #[arg(long)]
    pub refresh: bool,
    /// Print the block size that suits queries of this selectivity, from the I/O model and a measurement of
    /// the device; the files must be indexed
    #[arg(long, value_name = "FRACTION", value_parser = parse::fraction)]
    pub advise: Option<f64>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
