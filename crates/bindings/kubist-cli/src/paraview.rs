//! `kubist paraview-path`: where the plug-in lies, for ParaView's plug-in manager.
//!
//! It is part of the Python package, which ParaView loads too. So the package is asked.

use crate::failure::{Failure, Kind, Result};
use crate::python;

const ASK: &str = "import kubist.paraview; print(kubist.paraview.path())";

pub fn run() -> Result<()> {
    let (_, found) = python::asked(ASK).ok_or_else(|| Failure {
        kind: Kind::Existence,
        message: "the Python package kubist, which holds the plug-in, is not installed beside this command".into(),
    })?;
    println!("{found}");
    Ok(())
}
