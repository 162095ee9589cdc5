//! `kubist`: the store from the command line. A library, so that a wheel of the Python package has it in its
//! extension module and carries the engine once.
//!
//! Parses arguments, calls the engine, and reports: results on
//! standard output, everything else on standard error, failures as one line
//! `kubist: error: ...` with the exit codes of [`failure::Kind`].

mod alter;
mod answer;
mod args;
mod browser;
mod cache;
mod copy;
mod cost;
mod drop;
mod estimate;
mod explain;
mod failure;
mod foreign;
mod index;
mod info;
mod ingest;
mod interrupt;
mod location;
mod model;
mod output;
mod outside;
mod paraview;
mod parse;
mod picture;
mod plot;
mod progress;
mod python;
mod query;
mod regrid;
mod salvage;
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
use kubist::{Cancel, human};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that a process may open, if the system lets it.
const FILES: u64 = 8192;

/// Runs the command with these arguments, the first of which is its name; returns its exit code. `interpreter` is the
/// Python that this process is, if it is one. Handles SIGINT and SIGTERM from then on.
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
    // Also what has no switch of its own, as opening a table, need not be waited for.
    let outcome = kubist::store::stoppable(move || switch.is_set(), || run(&parsed.command, &cancel));
    let outcome = outcome.map_err(|failure| advised(failure, &parsed.command));
    let code = outcome.map_or_else(|failure| tell(&failure, &arguments), |()| 0);
    // Within a Python nobody else does. What cannot be written was reported by whoever wrote it.
    let _ = std::io::stdout().flush();
    code
}

/// Lets the process open as many files as it may, but no more than large tables need: the usual limit is lower, for
/// programs that wait for sockets by their numbers.
fn allow_files() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(FILES, |most| most.min(FILES));
    if limit.current.is_some_and(|allowed| allowed < wanted) {
        // If the system says no, files are opened again.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit });
    }
}

fn run(command: &Command, cancel: &Cancel) -> Result<()> {
    match command {
        Command::Ingest(command) => ingest::run(command, cancel),
        Command::Index(command) => index::run(command, cancel),
        Command::Query(command) => query::run(command, cancel),
        Command::Trajectories(command) => trajectories::run(command, cancel),
        Command::Estimate(command) => estimate::run(command, cancel),
        Command::Explain(command) => explain::run(command, cancel),
        Command::Info(command) => info::run(command, cancel),
        Command::Verify(command) => verify::run(command, cancel),
        Command::Salvage(command) => salvage::run(command, cancel),
        Command::Plot(command) => plot::run(command, cancel),
        Command::Optimize(command) => upkeep::optimize(command, cancel),
        Command::Clean(command) => upkeep::clean(command),
        Command::Tail(command) => tail::run(command, cancel),
        Command::Alter(command) => alter::run(command, cancel),
        Command::Copy(command) => copy::run(command, cancel),
        Command::Regrid(command) => regrid::run(command, cancel),
        Command::Drop(command) => drop::run(command, cancel),
        Command::Model(args::Model::Fit(command)) => model::fit(command, cancel),
        Command::Model(args::Model::Advise(command)) => model::advise(command, cancel),
        Command::ParaviewPath => paraview::run(),
        Command::Cache(command) => cache::run(command),
        Command::View(command) => view::run(command, cancel),
    }
}

/// Who meets damage on the way to something else hears what to do about it.
fn advised(failure: Failure, command: &Command) -> Failure {
    match command {
        Command::Verify(_) | Command::Salvage(_) | Command::View(_) => failure,
        _ if failure.kind != Kind::Unsound => failure,
        _ => failure.noting("`kubist verify --deep` names all that is lost, `kubist salvage` copies the rest"),
    }
}

fn tell(failure: &Failure, arguments: &[OsString]) -> u8 {
    if failure.kind != Kind::ReaderGone {
        let line = failure.message.split_whitespace().collect::<Vec<_>>().join(" ");
        let line = kubist::printable(&without_passwords(line, arguments)).into_owned();
        // If this line cannot be written, there is no other way to report it.
        let _ = writeln!(std::io::stderr(), "kubist: error: {line}");
    }
    failure.kind as u8
}

/// A message that may quote our arguments as they were given, without the passwords in them.
fn without_passwords(line: String, arguments: &[OsString]) -> String {
    arguments.iter().skip(1).fold(line, |line, argument| {
        let argument = argument.to_string_lossy();
        let shown = kubist::without_password(&argument);
        if shown == argument { line } else { line.replace(&*argument, &shown) }
    })
}

/// Help and version as they are; wrong usage on one line.
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
    // What follows the usage only repeats where help is to be found.
    let what = rendered.split("\n\nUsage:").next().unwrap_or(&rendered);
    let what = what.split("\n\nFor more information").next().unwrap_or(what);
    let what = what.trim_start_matches("error: ").trim().replace("\n\n", ";");
    tell(&Failure::usage(format!("{what} (--help tells more)")), arguments)
}
