//! Finds the Python interpreter that has the Kubist package: this process, one next to the command, or one on
//! the PATH.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

static OWN: OnceLock<PathBuf> = OnceLock::new();

pub fn runs_this(interpreter: PathBuf) {
    // A second call sets the same path.
    let _ = OWN.set(interpreter);
}

pub fn first_output(program: &str) -> Option<(PathBuf, String)> {
    let mut known = vec![interpreter(), PathBuf::from("python3")];
    known.dedup();
    known.into_iter().find_map(|python| answer(&python, program).map(|answer| (python, answer)))
}

/// The first interpreter found; it may lack the package.
pub fn interpreter() -> PathBuf {
    if let Some(own) = OWN.get() {
        return own.clone();
    }
    let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join("python3")));
    beside.filter(|python| python.exists()).unwrap_or_else(|| PathBuf::from("python3"))
}

fn answer(python: &Path, program: &str) -> Option<String> {
    let output = Command::new(python).args(["-c", program]).output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok().map(|answer| answer.trim().to_owned()).filter(|answer| !answer.is_empty())
}
