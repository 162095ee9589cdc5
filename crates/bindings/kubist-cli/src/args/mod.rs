//! The command line: names, help, and nothing that acts.

mod files;
mod model;
mod read;
mod show;
mod write;

use clap::{Args, Parser, Subcommand};

pub use self::files::Index;
pub use self::model::{Advise, Fit, Model};
pub use self::read::{Answer, Estimate, Explain, Format, Info, Query, Salvage, Tail, Trajectories, Verify};
pub use self::show::{Aspect, Colormap, Plot, Style, View};
pub use self::write::{Alter, Cache, Clean, Copy, Drop, Ingest, Optimize, Regrid};
use crate::parse::{self, Ranges};

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    the table, or what it holds, is not sound (also: verify found something)
  2    wrong usage or wrong input: nothing of the failing input was written
  3    something is not there, or is already there
  4    the operating system or another process said no (full disk, permissions, busy)
  130  interrupted (Ctrl-C): what was committed stays, whole";

/// A store for particles and other point-like records: any region, at any
/// precision, while it is being written.
#[derive(Debug, Parser)]
#[command(name = "kubist", version, after_help = EXIT_CODES, max_term_width = 100)]
pub struct Kubist {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Ingest(Ingest),
    Index(Index),
    Query(Query),
    Trajectories(Trajectories),
    Estimate(Estimate),
    Explain(Explain),
    Info(Info),
    Verify(Verify),
    Salvage(Salvage),
    Plot(Plot),
    Optimize(Optimize),
    Tail(Tail),
    Clean(Clean),
    Alter(Alter),
    Copy(Copy),
    Regrid(Regrid),
    Drop(Drop),
    View(View),
    Cache(Cache),
    #[command(subcommand)]
    Model(Model),
    /// Print where ParaView's plug-in lies, for Tools > Manage Plugins > Load New
    ParaviewPath,
}

/// Which records: shared by query, trajectories and plot.
#[derive(Debug, Args)]
pub struct Region {
    /// Closed ranges: x=0.1:0.2,y=:0.5,pid=7 (repeatable; all must hold)
    ///
    /// LOW..HIGH where an end has colons itself: time=2024-01-01T10:00..2024-01-01T11:00. An end
    /// may have a unit where the column has one: x=1cm:2cm
    #[arg(long = "box", value_name = "RANGES")]
    pub ranges: Vec<Ranges>,
    /// An SQL condition: "diameter > 2e-5 AND NOT deposited"
    #[arg(long = "where", value_name = "SQL")]
    pub filter: Option<String>,
    /// The share of the records to sample: 0.01 or 1%
    #[arg(long, value_name = "SHARE", value_parser = parse::precision)]
    pub precision: Option<f64>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Kubist::command().debug_assert();
    }
}
