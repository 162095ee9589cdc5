//! `kubist paraview-path`: prints the path of the ParaView plug-in, which is part of the Python package.

use crate::failure::{Failure, Kind, Result};
use crate::python;

const ASK: &str = "import kubist.paraview; print(kubist.paraview.path())";

pub fn run() -> Result<()> {
    let (_, found) = python::first_output(ASK).ok_or_else(|| Failure {
        kind: Kind::Existence,
        message: "the Python package kubist, which contains the plug-in, is not installed next to this command: pip install kubist".into(),
    })?;
    println!("{found}");
    Ok(())
}
