//! A sealed file on a local or mounted file system. It is not memory-mapped, so a truncated file cannot end the
//! process.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use bytes::Bytes;
use kubist_store::{Error, Latency, Request, Result, Watch};

use crate::source::Source;

/// Reads of at most this many bytes give no hint to the system.
const DIRECT_READ_BYTES: u64 = 16 << 10;

/// A local file, as a [`Source`].
#[derive(Debug)]
pub struct LocalFile {
    location: String,
    file: File,
    version: Version,
    waited: AtomicBool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Version {
    bytes: u64,
    seconds: i64,
    nanoseconds: i64,
}

impl LocalFile {
    /// Opens a regular file.
    ///
    /// # Errors
    ///
    /// `Io` if it cannot be opened, or is not a regular file.
    pub fn open(path: &Path) -> Result<LocalFile> {
        let failed = |source| Error::Io { operation: "open", file: path.display().to_string(), source };
        // A pipe must not block the call.
        let without_wait = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let file = OpenOptions::new().read(true).custom_flags(without_wait).open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")));
        }
        let waited = AtomicBool::new(false);
        Ok(LocalFile { location: path.display().to_string(), file, version: version(&metadata), waited })
    }

    /// The first `count` bytes, or all bytes of a shorter file.
    ///
    /// # Errors
    ///
    /// `Io`.
    pub fn head(&self, count: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; count.min(usize::try_from(self.version.bytes).unwrap_or(count))];
        self.fill(&mut bytes, 0)?;
        Ok(bytes)
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Io { operation: "read", file: self.location.clone(), source }
    }

    fn fill(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        self.file.read_exact_at(bytes, offset).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => self.changed(),
            _ => self.failed(error),
        })
    }

    fn changed(&self) -> Error {
        let cause = "the file was changed after it was opened".into();
        Error::Refused { file: self.location.clone(), cause }
    }

    fn check_unchanged(&self) -> Result<()> {
        match version(&self.file.metadata().map_err(|error| self.failed(error))?) == self.version {
            true => Ok(()),
            false => Err(self.changed()),
        }
    }

    /// Whether the first range is absent from memory.
    #[cfg(target_os = "linux")]
    fn ask_for(&self, ranges: &[Range<u64>]) -> bool {
        use rustix::fs::{Advice, fadvise};
        use rustix::io::{ReadWriteFlags, preadv2};
        let is_absent = |range: &Range<u64>| {
            let mut byte = [0];
            preadv2(&self.file, &mut [io::IoSliceMut::new(&mut byte)], range.start, ReadWriteFlags::NOWAIT).is_err()
        };
        let waits = ranges.iter().find(|range| range.start < range.end).is_some_and(is_absent);
        if waits {
            for range in ranges {
                let _ = fadvise(
                    &self.file,
                    range.start,
                    std::num::NonZeroU64::new(range.end - range.start),
                    Advice::WillNeed,
                );
            }
        }
        waits
    }

    #[cfg(not(target_os = "linux"))]
    fn ask_for(&self, _ranges: &[Range<u64>]) -> bool {
        false
    }
}

fn version(metadata: &std::fs::Metadata) -> Version {
    Version { bytes: metadata.len(), seconds: metadata.mtime(), nanoseconds: metadata.mtime_nsec() }
}

impl Source for LocalFile {
    fn location(&self) -> &str {
        &self.location
    }

    fn latency(&self) -> Latency {
        Latency::Device
    }

    fn tail(&self, bytes: u64) -> Result<(Bytes, u64)> {
        let start = self.version.bytes.saturating_sub(bytes);
        let mut tail = vec![0; (self.version.bytes - start) as usize];
        self.fill(&mut tail, start)?;
        self.check_unchanged()?;
        Ok((tail.into(), self.version.bytes))
    }

    fn read(&self, ranges: &[Range<u64>], watch: Watch<'_>) -> Result<Vec<Bytes>> {
        let asked = Instant::now();
        let all: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        let waits = all > DIRECT_READ_BYTES && self.ask_for(ranges);
        self.waited.store(waits, Ordering::Relaxed);
        let mut found = Vec::with_capacity(ranges.len());
        for range in ranges {
            let mut bytes = vec![0; (range.end - range.start) as usize];
            self.fill(&mut bytes, range.start)?;
            found.push(Bytes::from(bytes));
        }
        // The file is checked after the read, so the bytes are from the opened content.
        self.check_unchanged()?;
        watch(Request { asked, sent: asked, answered: Instant::now(), bytes: all, host: None, cached: false });
        Ok(found)
    }

    fn waited(&self) -> bool {
        self.waited.load(Ordering::Relaxed)
    }
}
