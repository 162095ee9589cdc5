//! Commands about files that stay as they are.

use std::path::PathBuf;

use clap::Args;
use kubist_blocks::Block;

use crate::parse;

/// Index files by their values: HDF5, netCDF, Parquet, .npy
///
/// Writes FILE.kubix beside each file, a few thousandths of its size: between which values each block
/// of each array lies. kubist query FILE then reads only the blocks that can hold an answer. The files
/// stay as they are. Files that are indexed already are left alone, unless their index lacks what is
/// asked for.
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
    /// Only these variables
    #[arg(long, value_delimiter = ',')]
    pub variables: Option<Vec<String>>,
    /// At most so many bytes of a block, or its shape: 64KiB (the usual), 16x16x16
    #[arg(long, value_name = "SIZE")]
    pub block: Option<Block>,
    /// The share of the blocks that get a sorted copy, those that most questions hit: 5%
    #[arg(long, value_name = "SHARE", value_parser = parse::fraction)]
    pub sorted: Option<f64>,
    /// Write the indices to this folder: where the data is read-only
    #[arg(long, value_name = "DIR")]
    pub into: Option<PathBuf>,
    /// Index files that changed anew; of those that grew only what was appended
    #[arg(long)]
    pub refresh: bool,
    /// Print which size of blocks suits questions that select this share, by the I/O model and the
    /// device as it is measured; the files must be indexed
    #[arg(long, value_name = "SHARE", value_parser = parse::fraction)]
    pub advise: Option<f64>,
    /// Print the outcome as JSON
    #[arg(long)]
    pub json: bool,
}
