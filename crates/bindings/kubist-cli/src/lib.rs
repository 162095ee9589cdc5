//! The `kubist` command, as a library, so that the Python package's extension module can contain it.
//!
//! Results go to standard output, everything else to standard error. A failure is one line `kubist: error: ...`
//! with the exit code of [`failure::Kind`].

mod alter;
mod answer;
mod args;
mod browser;
mod cache;
mod catalog;
mod copy;
mod cost;
mod design;
mod drop;
mod estimate;
mod explain;
mod external;
mod failure;
mod finding;
mod index;
mod info;
mod ingest;
mod interrupt;
mod location;
mod model;
mod output;
mod outside;
mod pack;
mod paraview;
mod parse;
mod picture;
mod plot;
mod progress;
mod python;
mod query;
mod recompute;
mod regrid;
mod retract;
mod salvage;
mod sql;
mod sync;
mod table;
mod tail;
mod token;
mod trajectories;
mod tunnel;
mod upkeep;
mod verify;
mod view;

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

use clap::Parser;
use clap::error::ErrorKind;

use args::{Command, Kubist};
use failure::{Failure, Kind, Result};
use kubist::Cancel;
use kubist_types::human;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const FILES: u64 = 8192;

/// Runs the command with these arguments, the program name first, and returns the exit code. `interpreter` is
/// the path of Python if this process is one. Handles SIGINT and SIGTERM from then on.
pub fn main(arguments: Vec<OsString>, interpreter: Option<PathBuf>) -> u8 {
    let parsed = match Kubist::try_parse_from(&arguments) {
        Ok(parsed) => parsed,
        Err(error) => return usage(&error, &arguments),
    };
    if let Some(interpreter) = interpreter {
        python::runs_this(interpreter);
    }
    allow_files();
    let cancel = interrupt::cancel_on_signals();
    let switch = cancel.clone();
    // Also stops calls without a cancel switch of their own, such as opening a table.
    let outcome = kubist::store::stoppable(move || switch.is_set(), || run(&parsed.command, &cancel));
    let outcome = outcome.map_err(|failure| with_advice(failure, &parsed.command));
    let code = outcome.map_or_else(|failure| report(&failure, &arguments), |()| 0);
    // Python does not flush Rust's standard output. The writer has already reported a write error.
    let _ = std::io::stdout().flush();
    code
}

/// Large tables need more open files than the usual 1,024.
fn allow_files() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(FILES, |most| most.min(FILES));
    if limit.current.is_some_and(|allowed| allowed < wanted) {
        // With a lower limit, files are closed and opened again.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit });
    }
}

fn run(command: &Command, cancel: &Cancel) -> Result<()> {
    match command {
        Command::Ingest(command) => ingest::run(command, cancel),
        Command::Index(command) => index::run(command, cancel),
        Command::Query(command) => query::run(command, cancel),
        Command::Sql(command) => sql::run(command, cancel),
        Command::Trajectories(command) => trajectories::run(command, cancel),
        Command::Nearest(command) => Err(finding::become_it("nearest", command)),
        Command::Within(command) => Err(finding::become_it("within", command)),
        Command::Crossmatch(command) => Err(finding::become_it("crossmatch", command)),
        Command::Pairs(command) => Err(finding::become_it("pairs", command)),
        Command::Cluster(command) => Err(finding::become_it("cluster", command)),
        Command::Friends(command) => Err(finding::become_it("friends", command)),
        Command::Estimate(command) => estimate::run(command, cancel),
        Command::Explain(command) => explain::run(command, cancel),
        Command::Info(command) => info::run(command, cancel),
        Command::Verify(command) => verify::run(command, cancel),
        Command::Salvage(command) => salvage::run(command, cancel),
        Command::Plot(command) => plot::run(command, cancel),
        Command::Optimize(command) => upkeep::optimize(command, cancel),
        Command::Clean(command) => upkeep::clean(command),
        Command::Tail(command) => tail::run(command, cancel),
        Command::History(command) => Err(recompute::history(command)),
        Command::Recompute(command) => Err(recompute::recompute(command)),
        Command::Alter(command) => alter::run(command, cancel),
        Command::Copy(command) => copy::run(command, cancel),
        Command::Sync(command) => sync::run(command, cancel),
        Command::Pack(command) => pack::pack(command, cancel),
        Command::Unpack(command) => pack::unpack(command, cancel),
        Command::Regrid(command) => regrid::run(command, cancel),
        Command::Retract(command) => retract::run(command, cancel),
        Command::Drop(command) => drop::run(command, cancel),
        Command::Advise(command) => Err(design::advise(command)),
        Command::Workload(command) => Err(design::workload(command)),
        Command::Model(args::Model::Fit(command)) => model::fit(command, cancel),
        Command::Model(args::Model::Advise(command)) => model::advise(command, cancel),
        Command::ParaviewPath => paraview::run(),
        Command::Cache(command) => cache::run(command),
        Command::Catalog(command) => catalog::run(command),
        Command::View(command) => view::run(command, cancel),
    }
}

fn with_advice(failure: Failure, command: &Command) -> Failure {
    match command {
        Command::Verify(_) | Command::Salvage(_) | Command::View(_) => failure,
        _ if failure.kind != Kind::Unsound => failure,
        _ => failure.noting("`kubist verify --deep` lists all losses, `kubist salvage` copies the intact rows"),
    }
}

fn report(failure: &Failure, arguments: &[OsString]) -> u8 {
    if failure.kind != Kind::ReaderGone {
        let line = failure.message.split_whitespace().collect::<Vec<_>>().join(" ");
        let line = kubist_types::shown::printable(&without_passwords(line, arguments)).into_owned();
        // There is no other way to report it.
        let _ = writeln!(std::io::stderr(), "kubist: error: {line}");
    }
    failure.kind as u8
}

/// A message may quote our arguments.
fn without_passwords(line: String, arguments: &[OsString]) -> String {
    arguments.iter().skip(1).fold(line, |line, argument| {
        let argument = argument.to_string_lossy();
        let shown = kubist_types::shown::without_password(&argument);
        if shown == argument { line } else { line.replace(&*argument, &shown) }
    })
}

/// Prints help and version unchanged, and wrong usage as one line.
fn usage(error: &clap::Error, arguments: &[OsString]) -> u8 {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let _ = error.print();
        return 0;
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return Kind::Usage as u8;
    }
    let rendered = error.render().to_string();
    // Cuts clap's text after the usage line, which only points to help.
    let message = rendered.split("\n\nUsage:").next().unwrap_or(&rendered);
    let message = message.split("\n\nFor more information").next().unwrap_or(message);
    let message = message.trim_start_matches("error: ").trim().replace("\n\n", ";");
    report(&Failure::usage(format!("{message} (see --help)")), arguments)
}
