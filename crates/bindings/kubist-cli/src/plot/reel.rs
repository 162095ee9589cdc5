//! Writes the frames of an animation as a GIF, an MP4 (through ffmpeg) or a folder of PNG files. The output
//! gets its name when it is complete.

use std::fs;
use std::io::{BufWriter, ErrorKind, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread::{self, JoinHandle};

use kubist::Cancel;
use kubist_plot::{Canvas, Film, Stage};

use crate::failure::{Failure, Kind, Result};
use crate::output::PendingFile;
use crate::picture;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AnimationFormat {
    Gif,
    Mp4,
    Folder,
}

impl AnimationFormat {
    /// Follows the path's extension; a folder if it has none.
    pub fn of(path: &Path) -> Result<AnimationFormat> {
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
        let named_as_folder = path.as_os_str().as_encoded_bytes().ends_with(b"/");
        match ending.as_deref() {
            _ if named_as_folder => Ok(AnimationFormat::Folder),
            None => Ok(AnimationFormat::Folder),
            Some("gif") => Ok(AnimationFormat::Gif),
            Some("mp4") => Ok(AnimationFormat::Mp4),
            Some(ending) => Err(Failure::usage(format!(
                "an animation is a GIF, an MP4 or a folder of PNG files: use a name that ends in .gif, .mp4 or /, not .{ending}"
            ))),
        }
    }
}

/// The output before the frame size is known; a drop leaves no files.
pub enum AnimationOutput {
    Gif(PendingFile),
    Mp4(PendingFile),
    Folder(PendingFolder),
}

impl AnimationOutput {
    pub fn new(path: &Path) -> Result<AnimationOutput> {
        Ok(match AnimationFormat::of(path)? {
            AnimationFormat::Gif => AnimationOutput::Gif(PendingFile::create(path)?),
            AnimationFormat::Mp4 => {
                check_ffmpeg()?;
                AnimationOutput::Mp4(PendingFile::create(path)?)
            }
            AnimationFormat::Folder => AnimationOutput::Folder(PendingFolder::create(path)?),
        })
    }

    /// `about` is title and description.
    pub fn begin(self, stage: &Stage, per_second: f64, about: [String; 2]) -> Result<Reel> {
        Ok(match self {
            AnimationOutput::Gif(pending) => {
                let out = BufWriter::new(pending.writer()?);
                let film = Film::new(out, stage, per_second).map_err(|error| picture::failure(&pending, error))?;
                Reel::Gif(film, pending)
            }
            AnimationOutput::Mp4(pending) => Reel::Mp4(Encoder::start(pending.path(), stage, per_second)?, pending),
            AnimationOutput::Folder(folder) => Reel::Folder(folder, 0, about),
        })
    }
}

pub enum Reel {
    Gif(Film<BufWriter<fs::File>>, PendingFile),
    Mp4(Encoder, PendingFile),
    Folder(PendingFolder, usize, [String; 2]),
}

impl Reel {
    pub fn add(&mut self, canvas: &Canvas, cancel: &Cancel) -> Result<()> {
        match self {
            Reel::Gif(film, pending) => film.add(canvas, cancel).map_err(|error| picture::failure(pending, error)),
            Reel::Mp4(encoder, _) => encoder.add(canvas.rgb()),
            Reel::Folder(folder, count, [title, description]) => {
                *count += 1;
                let pending = PendingFile::create(&folder.temporary.join(format!("frame-{count:05}.png")))?;
                let mut out = BufWriter::new(pending.writer()?);
                let texts = [("Software", "Kubist"), ("Title", title.as_str()), ("Description", description.as_str())];
                canvas.write_png(&mut out, &texts, cancel).map_err(|error| picture::failure(&pending, error))?;
                out.flush().map_err(|error| Failure::io(pending.destination(), &error))?;
                drop(out);
                pending.publish()
            }
        }
    }

    pub fn finish(self) -> Result<()> {
        match self {
            Reel::Gif(film, pending) => {
                film.finish().map_err(|error| picture::failure(&pending, error))?;
                pending.publish()
            }
            Reel::Mp4(encoder, pending) => {
                encoder.finish()?;
                pending.publish()
            }
            Reel::Folder(folder, ..) => folder.publish(),
        }
    }
}

/// A folder under a temporary name next to its destination; dropped unpublished, it is removed.
pub struct PendingFolder {
    temporary: PathBuf,
    destination: PathBuf,
}

impl PendingFolder {
    fn create(path: &Path) -> Result<PendingFolder> {
        let failed = |error: std::io::Error| Failure::io(path, &error);
        match fs::read_dir(path).map(|mut entries| entries.next().is_some()) {
            Ok(false) => {}
            Ok(true) => {
                let message = format!("{} already exists and is not empty: choose a new folder", path.display());
                return Err(Failure { kind: Kind::Existence, message });
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        // Some system calls refuse a trailing slash.
        let destination: PathBuf = path.components().collect();
        let Some(name) = destination.file_name() else {
            return Err(Failure::usage(format!("{} is not a name for a new folder", path.display())));
        };
        let name = format!(".{}.{}.part", name.to_string_lossy(), std::process::id());
        let temporary = destination.with_file_name(name);
        fs::create_dir(&temporary).map_err(failed)?;
        Ok(PendingFolder { temporary, destination })
    }

    fn publish(self) -> Result<()> {
        // The rename replaces an empty folder.
        fs::rename(&self.temporary, &self.destination).map_err(|error| Failure::io(&self.destination, &error))
    }
}

impl Drop for PendingFolder {
    fn drop(&mut self) {
        // After publishing it no longer exists.
        let _ = fs::remove_dir_all(&self.temporary);
    }
}

/// A running ffmpeg that encodes raw pixels into a file; a drop ends it.
pub struct Encoder {
    program: Child,
    pixels: Option<ChildStdin>,
    /// Reads its error messages.
    said: Option<JoinHandle<String>>,
}

fn check_ffmpeg() -> Result<()> {
    let quiet = || Stdio::null();
    let asked = Command::new("ffmpeg").arg("-version").stdin(quiet()).stdout(quiet()).stderr(quiet()).status();
    match asked {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(Failure {
            kind: Kind::Existence,
            message: "an .mp4 needs ffmpeg, which is not installed: install it, or write a .gif or a folder of PNG \
                      files, like -o frames/"
                .to_string(),
        }),
        Err(error) => Err(Failure::io(Path::new("ffmpeg"), &error)),
    }
}

impl Encoder {
    fn start(path: &Path, stage: &Stage, per_second: f64) -> Result<Encoder> {
        let ((width, height), [red, green, blue]) = (stage.size(), stage.background());
        let mut command = Command::new("ffmpeg");
        command.args(["-hide_banner", "-loglevel", "error", "-y", "-f", "rawvideo", "-pixel_format", "rgb24"]);
        command.args(["-video_size", &format!("{width}x{height}"), "-framerate", &per_second.to_string(), "-i", "-"]);
        // Players need 4:2:0 chroma, which needs an even width and height.
        let even = format!("pad=ceil(iw/2)*2:ceil(ih/2)*2:color=0x{red:02x}{green:02x}{blue:02x}");
        command.args(["-vf", &even, "-pix_fmt", "yuv420p"]);
        command.args(["-movflags", "+faststart", "-f", "mp4"]);
        // The prefix allows paths that begin with a dash or look like a URL.
        let mut file = std::ffi::OsString::from("file:");
        file.push(path);
        // Ctrl-C goes to a process group, but only this process may end the encoder.
        command.process_group(0);
        command.arg(file).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut program = command.spawn().map_err(|error| Failure::io(Path::new("ffmpeg"), &error))?;
        let pixels = program.stdin.take();
        let said = program.stderr.take().map(|mut errors| {
            thread::spawn(move || {
                let mut bytes = Vec::new();
                let _ = errors.read_to_end(&mut bytes);
                String::from_utf8_lossy(&bytes).trim().to_string()
            })
        });
        Ok(Encoder { program, pixels, said })
    }

    fn add(&mut self, rgb: &[u8]) -> Result<()> {
        let written = self.pixels.as_mut().map(|pixels| pixels.write_all(rgb));
        match written {
            Some(Ok(())) => Ok(()),
            // ffmpeg ended early; its error says why.
            _ => Err(self.end().err().unwrap_or_else(|| failed("it ended before the last frame"))),
        }
    }

    fn finish(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        drop(self.pixels.take());
        let status = self.program.wait().map_err(|error| Failure::io(Path::new("ffmpeg"), &error))?;
        let said = self.said.take().and_then(|said| said.join().ok()).unwrap_or_default();
        match status.success() {
            true => Ok(()),
            false => Err(failed(if said.is_empty() { "it failed without a message" } else { &said })),
        }
    }
}

fn failed(why: &str) -> Failure {
    Failure { kind: Kind::System, message: format!("ffmpeg: {why}") }
}

impl Drop for Encoder {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_says_what_is_written() {
        let format = |path: &str| AnimationFormat::of(Path::new(path)).map_err(|failure| failure.message);
        assert_eq!(format("a.GIF"), Ok(AnimationFormat::Gif));
        assert_eq!(format("a.mp4"), Ok(AnimationFormat::Mp4));
        assert_eq!((format("frames"), format("v1.2/")), (Ok(AnimationFormat::Folder), Ok(AnimationFormat::Folder)));
        assert!(format("a.png").is_err_and(|why| why.contains("not .png")));
    }

    #[test]
    fn a_folder_is_there_whole_or_not_at_all() {
        let output = tempfile::tempdir().unwrap();
        let path = output.path().join("frames/");
        let names = || fs::read_dir(output.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
        let pending = PendingFolder::create(&path).unwrap();
        fs::write(pending.temporary.join("one"), "1").unwrap();
        drop(pending);
        assert!(names().is_empty());
        fs::create_dir(&path).unwrap();
        let pending = PendingFolder::create(&path).unwrap();
        fs::write(pending.temporary.join("one"), "1").unwrap();
        pending.publish().unwrap();
        assert_eq!(names(), ["frames"]);
        assert!(PendingFolder::create(&path).is_err_and(|failure| failure.message.contains("not empty")));
    }
}
