//! The Python package that this command belongs to: asked through the Python that stands beside
//! the command, or else through the one on the path.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What the first Python answers that can run `program`, and where that Python is.
pub fn asked(program: &str) -> Option<(PathBuf, String)> {
    let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join("python3")));
    let known = [beside.filter(|python| python.exists()), Some(PathBuf::from("python3"))];
    known.into_iter().flatten().find_map(|python| answer(&python, program).map(|answer| (python, answer)))
}

fn answer(python: &Path, program: &str) -> Option<String> {
    let output = Command::new(python).args(["-c", program]).output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok().map(|answer| answer.trim().to_owned()).filter(|answer| !answer.is_empty())
}
