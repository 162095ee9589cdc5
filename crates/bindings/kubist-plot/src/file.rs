//! Pictures as files.

use std::io::Write;
use std::path::Path;

use kubist_types::Cancel;

use crate::error::Error;
use crate::scene::Scene;
use crate::{pdf, svg};

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Format {
    /// Pixels.
    Png,
    /// Lines and text as such, the data as pixels.
    Svg,
    /// The same on a page; it carries its font.
    Pdf,
}

impl Format {
    /// The format that a file's ending names; PNG where there is none.
    ///
    /// # Errors
    ///
    /// A sentence that names the ending, if pictures have no such format.
    pub fn of(path: &Path) -> Result<Format, String> {
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
        match ending.as_deref() {
            None | Some("png") => Ok(Format::Png),
            Some("svg") => Ok(Format::Svg),
            Some("pdf") => Ok(Format::Pdf),
            Some(ending) => Err(format!(
                "a picture is a PNG, SVG or PDF: name a file that ends in .png, .svg or .pdf, not .{ending}"
            )),
        }
    }
}

impl Scene {
    /// Writes it with a title and a description, which readers of such files show or search.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if `out` fails, [`Error::Encoding`] if there is no such file of it; [`Error::Cancelled`].
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
