//! `kubist advise` and `kubist workload`, which the Python package implements.

use std::os::unix::process::CommandExt;
use std::process::Command;

use serde_json::json;

use crate::args;
use crate::external;
use crate::failure::Failure;

/// Returns only if the package cannot be started.
pub fn advise(command: &args::Designs) -> Failure {
    let asked = json!({
        "data": command.data,
        "workload": command.queries,
        "seconds": command.seconds,
        "rows": command.rows,
        "json": command.json,
    });
    external::become_module("advice", "kubist.advising", &asked)
}

pub fn workload(command: &args::Workload) -> Failure {
    match command {
        args::Workload::Run(command) => {
            let asked = json!({
                "workload": command.workload,
                "targets": command.targets,
                "seed": command.playing.seed,
                "keep": command.playing.keep,
                "report": command.playing.report,
                "json": command.playing.json,
            });
            external::become_module("a workload", "kubist.workloads", &asked)
        }
        args::Workload::Compare(command) => {
            let asked = json!({
                "designs": command.designs,
                "data": command.data,
                "workload": command.workload,
                "at": command.at,
                "keep_tables": command.keep_tables,
                "seed": command.playing.seed,
                "keep": command.playing.keep,
                "report": command.playing.report,
                "json": command.playing.json,
            });
            external::become_module("a workload", "kubist.workloads", &asked)
        }
        args::Workload::Record(command) => {
            let Some((program, arguments)) = command.program.split_first() else {
                return Failure::usage("there is no program to record");
            };
            let error = Command::new(program).args(arguments).env("KUBIST_RECORD", &command.file).exec();
            Failure::io(program.as_ref(), &error)
        }
    }
}
