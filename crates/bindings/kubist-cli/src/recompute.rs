//! `kubist history` and `kubist recompute`, on saved results. Both become `python3 -m kubist.recomputing`,
//! whose output and exit code are the command's.

use serde_json::{Value, json};

use crate::args;
use crate::external;
use crate::failure::Failure;

/// Returns only if the package cannot be started.
pub fn history(command: &args::History) -> Failure {
    become_it(&command.table, &json!({ "table": &*command.table, "folder": command.folder, "json": command.json }))
}

pub fn recompute(command: &args::Recompute) -> Failure {
    let asked = json!({ "file": command.file, "newest": command.newest, "json": command.json });
    become_it(&command.file.display().to_string(), &asked)
}

fn become_it(path: &str, asked: &Value) -> Failure {
    external::become_module(&format!("{path}: a saved answer"), "kubist.recomputing", asked)
}
