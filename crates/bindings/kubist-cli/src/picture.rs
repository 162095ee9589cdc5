//! Writes plots and charts to files.

use std::io::{BufWriter, Write};

use kubist::Cancel;
use kubist_plot::{Chart, Error};

use crate::failure::{Failure, Result};
use crate::output::PendingFile;

pub fn write_charts(charts: &[Chart], title: &str, pending: PendingFile, cancel: &Cancel) -> Result<()> {
    let texts = [("Software", "Kubist"), ("Title", title)];
    write(pending, |out| kubist_plot::draw_charts(charts, title).write_png(out, &texts, cancel))
}

pub fn write(pending: PendingFile, draw: impl FnOnce(&mut dyn Write) -> Result<(), Error>) -> Result<()> {
    let mut out = BufWriter::new(pending.writer()?);
    let written = draw(&mut out).and_then(|()| out.flush().map_err(Error::Io));
    written.map_err(|error| failure(&pending, error))?;
    drop(out);
    pending.publish()
}

pub fn failure(pending: &PendingFile, error: Error) -> Failure {
    match error {
        Error::Io(error) => Failure::io(pending.destination(), &error),
        error => error.into(),
    }
}
