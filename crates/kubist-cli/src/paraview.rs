//! `kubist paraview-path`: where the plug-in lies, for ParaView's plug-in manager.
//!
//! It is part of the Python package, which ParaView loads too. So the package is asked, by
//! the Python that stands beside this command, or else by the one on the path.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Failure, Kind, Result};

const ASK: &str = "import kubist.paraview; print(kubist.paraview.path())";

pub fn run() -> Result<()> {
    let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join("python3")));
    let known = [beside.filter(|python| python.exists()), Some(PathBuf::from("python3"))];
    let found = known.into_iter().flatten().find_map(|python| asked(&python));
    let found = found.ok_or_else(|| Failure {
        kind: Kind::Existence,
        message: "the Python package kubist, which holds the plug-in, is not installed beside this command".into(),
    })?;
    println!("{found}");
    Ok(())
}

fn asked(python: &Path) -> Option<String> {
    let output = Command::new(python).args(["-c", ASK]).output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok().map(|path| path.trim().to_owned()).filter(|path| !path.is_empty())
}
