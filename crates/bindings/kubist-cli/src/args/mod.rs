//! Definition of the command line: names, options and help. It runs nothing.

mod catalog;
mod design;
mod files;
mod finding;
mod model;
mod query;
mod read;
mod show;
mod write;

use clap::{Parser, Subcommand};

pub use self::catalog::{Action as CatalogAction, Add as CatalogAdd, Catalog};
pub use self::design::{Designs, Workload};
pub use self::files::Index;
pub use self::finding::Finding;
pub use self::model::{Advise, Fit, Model};
pub use self::query::QueryArgs;
pub use self::read::{
    Estimate, Explain, Format, History, Info, Output, Query, Recompute, Salvage, Sql, Tail, Trajectories, Verify,
};
pub use self::show::{Plot, View};
pub use self::write::{Alter, Cache, Clean, Copy, Drop, Ingest, Optimize, Pack, Regrid, Retract, Sync, Unpack};

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    the table is damaged (also: verify found damage)
  2    wrong usage or wrong input: nothing of the failing input was written
  3    something does not exist, or already exists
  4    the operating system or another process refused (full disk, permissions, busy)
  130  interrupted (Ctrl-C): committed rows stay, complete";

/// A store for particles and catalogues: query any region, in full or as a sample, while data is written.
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
    Sql(Sql),
    Trajectories(Trajectories),
    /// Return the nearest rows of positions
    Nearest(Finding),
    /// Return all rows within a radius of positions
    Within(Finding),
    /// Match the rows of a table with the rows of another one by position
    Crossmatch(Finding),
    /// Return all pairs of rows within a radius, each pair once
    Pairs(Finding),
    /// Find clusters of rows (DBSCAN), and return the rows with their labels
    Cluster(Finding),
    /// Find groups of rows (friends of friends), and return the rows with their labels
    Friends(Finding),
    Estimate(Estimate),
    Explain(Explain),
    Info(Info),
    Verify(Verify),
    Salvage(Salvage),
    Plot(Plot),
    Optimize(Optimize),
    Tail(Tail),
    History(History),
    Recompute(Recompute),
    Clean(Clean),
    Alter(Alter),
    Copy(Copy),
    Sync(Sync),
    Pack(Pack),
    Unpack(Unpack),
    Regrid(Regrid),
    Retract(Retract),
    Drop(Drop),
    View(View),
    Cache(Cache),
    Advise(Designs),
    #[command(subcommand)]
    Workload(Workload),
    Catalog(Catalog),
    #[command(subcommand)]
    Model(Model),
    /// Print the path of the ParaView plug-in, for Tools > Manage Plugins > Load New
    ParaviewPath,
}

#[cfg(test)]
mod tests {
    use clap::{Args, CommandFactory};

    const SHARED: [&str; 3] = ["help", "version", "json"];
    const MOST: usize = 12;

    fn ids(command: &clap::Command) -> Vec<&str> {
        command.get_arguments().map(|argument| argument.get_id().as_str()).collect()
    }

    /// The query options count as one. Options that all commands share do not count.
    fn check(command: &clap::Command) {
        let shared_options = super::QueryArgs::augment_args(clap::Command::new("query"));
        let shared_options = ids(&shared_options);
        let all = ids(command);
        let own: Vec<&&str> = all.iter().filter(|id| !shared_options.contains(id) && !SHARED.contains(id)).collect();
        let shared = usize::from(all.iter().any(|id| shared_options.contains(id)));
        assert!(own.len() + shared <= MOST, "{} has {} options of its own: {own:?}", command.get_name(), own.len());
        command.get_subcommands().for_each(check);
    }

    #[test]
    fn a_command_has_few_options() {
        check(&super::Kubist::command());
    }

    #[test]
    fn the_command_line_is_consistent() {
        super::Kubist::command().debug_assert();
    }
}
