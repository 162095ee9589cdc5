//! Commands of neighbours: `python3 -m kubist.finding` has their options, output and exit codes.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::args;
use crate::external;
use crate::failure::Failure;

/// Returns only if the package cannot be started.
pub fn become_it(verb: &str, command: &args::Finding) -> Failure {
    match external::package(&format!("kubist {verb}"), "kubist.finding") {
        Err(failure) => failure,
        Ok((python, module)) => {
            let error = Command::new(&python).args(["-m", &module, verb]).args(&command.words).exec();
            Failure::io(&python, &error)
        }
    }
}
