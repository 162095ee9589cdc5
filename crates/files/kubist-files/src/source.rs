//! Opens regular files without blocking, and counts the bytes read.

use std::fs::{File, FileType, Metadata};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Mode, OFlags};

use crate::error::{Error, Result};

/// Opens a regular file; directories, pipes, sockets and devices are refused, because opening or reading them may block
/// for ever.
///
/// # Errors
///
/// The file does not exist, is not a regular file, or may not be read.
pub fn open(path: &Path) -> Result<File> {
    let failed = |error: std::io::Error| Error::io(path, error);
    // Opening a device may have side effects, so the type is checked first.
    regular(path, &std::fs::metadata(path).map_err(failed)?)?;
    // A pipe may have replaced the file in between, and opening it must not block.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).map_err(|error| failed(error.into()))?);
    regular(path, &file.metadata().map_err(failed)?)?;
    Ok(file)
}

fn regular(path: &Path, metadata: &Metadata) -> Result<()> {
    let kind = metadata.file_type();
    if kind.is_file() {
        return Ok(());
    }
    let path = path.display();
    Err(Error::invalid(match kind.is_dir() {
        true => format!("{path} is a directory: name the files in it"),
        false => format!("{path} is {}, not a regular file: write its bytes to a file first", called(kind)),
    }))
}

fn called(kind: FileType) -> &'static str {
    match () {
        () if kind.is_fifo() => "a pipe",
        () if kind.is_socket() => "a socket",
        () if kind.is_char_device() || kind.is_block_device() => "a device",
        () => "something else",
    }
}

pub(crate) struct Counted {
    file: File,
    consumed: Arc<AtomicU64>,
}

impl Counted {
    pub fn open(path: &Path, consumed: Arc<AtomicU64>) -> Result<Counted> {
        Ok(Counted { file: open(path)?, consumed })
    }

    pub fn length(&self) -> std::io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let bytes = self.file.read(buffer)?;
        self.consumed.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}

impl Seek for Counted {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.file.seek(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn only_regular_files_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
        let socket = folder.path().join("socket");
        let _socket = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let link = folder.path().join("link.csv");
        std::os::unix::fs::symlink(&pipe, &link).unwrap();
        for (path, expected) in [
            (pipe.as_path(), "a pipe"),
            (&socket, "a socket"),
            (&link, "a pipe"),
            (Path::new("/dev/zero"), "a device"),
            (folder.path(), "a directory"),
        ] {
            let error = open(path).unwrap_err();
            assert_eq!(error.kind(), Kind::Invalid);
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
