//! Plots as files.

use std::io::Write;
use std::path::Path;

use kubist_types::Cancel;

use crate::error::Error;
use crate::scene::Scene;
use crate::{pdf, svg};

/// A file format.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Format {
    /// Pixels.
    Png,
    /// Vector lines and text around an image of the points.
    Svg,
    /// A page with its font embedded, otherwise as SVG.
    Pdf,
}

impl Format {
    /// The format of a file's extension; PNG if there is none.
    ///
    /// # Errors
    ///
    /// Names an unsupported extension.
    pub fn of(path: &Path) -> Result<Format, String> {
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
        match ending.as_deref() {
            None | Some("png") => Ok(Format::Png),
            Some("svg") => Ok(Format::Svg),
            Some("pdf") => Ok(Format::Pdf),
            Some(ending) => Err(format!(
                "a plot is a PNG, SVG or PDF: use a file name that ends in .png, .svg or .pdf, not .{ending}"
            )),
        }
    }
}

impl Scene {
    /// Writes the plot with a title and a description as metadata.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if `out` fails; [`Error::Encoding`] if the format cannot encode it;
    /// [`Error::Cancelled`].
    pub fn write(
        &self,
        format: Format,
        mut out: impl Write,
        title: &str,
        description: &str,
        cancel: &Cancel,
    ) -> Result<(), Error> {
        match format {
            Format::Png => {
                let texts = [("Software", "Kubist"), ("Title", title), ("Description", description)];
                self.canvas(cancel)?.write_png(out, &texts, cancel)
            }
            Format::Svg => {
                out.write_all(svg::document(self, title, description, cancel)?.as_bytes()).map_err(Error::Io)
            }
            Format::Pdf => out.write_all(&pdf::document(self, title, description, cancel)?).map_err(Error::Io),
        }
    }
}
