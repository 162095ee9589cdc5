//! Neighbours, whose options the Python package reads.

use std::ffi::OsString;

use clap::Args;

// Without a description, because each command has its own.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct Finding {
    /// The table and the options; --help lists them (by the Python package)
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "TABLE")]
    pub words: Vec<OsString>,
}
