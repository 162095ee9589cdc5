//! The Python package that this command belongs to: asked through the Python that stands beside
//! the command, or else through the one on the path.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The Python that this process is, if it is one.
static OWN: OnceLock<PathBuf> = OnceLock::new();

/// Says that this process is a Python.
pub fn runs_this(interpreter: PathBuf) {
    // A process is one Python only.
    let _ = OWN.set(interpreter);
}

/// What the first Python answers that can run `program`, and where that Python is.
pub fn asked(program: &str) -> Option<(PathBuf, String)> {
    let mut known = vec![interpreter(), PathBuf::from("python3")];
    known.dedup();
    known.into_iter().find_map(|python| answer(&python, program).map(|answer| (python, answer)))
}

/// The Python that runs this command, or stands beside it, or else is on the path; it may lack the package.
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
