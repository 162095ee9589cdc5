//! Pictures into files.

use std::io::{BufWriter, Write};

use kubist_plot::{Canvas, Chart, Error};

use crate::failure::{Failure, Result};
use crate::output::PendingFile;

/// Writes a picture with `texts` (keyword, text) in it, and gives the file its name.
pub fn write(canvas: &Canvas, texts: &[(&str, &str)], pending: PendingFile) -> Result<()> {
    let mut out = BufWriter::new(pending.writer()?);
    let texts: Vec<(&str, &str)> = [("Software", "Kubist")].iter().chain(texts).copied().collect();
    let written = canvas.write_png(&mut out, &texts).and_then(|()| out.flush().map_err(Error::Io));
    written.map_err(|error| match error {
        Error::Io(error) => Failure::io(pending.destination(), &error),
        error => error.into(),
    })?;
    drop(out);
    pending.publish()
}

/// The same with charts side by side.
pub fn write_charts(charts: &[Chart], title: &str, pending: PendingFile) -> Result<()> {
    write(&kubist_plot::draw_charts(charts, title), &[("Title", title)], pending)
}
