//! A cache of files that are open for reading, because the system limits the open files of a process.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::disk::{Disk, DiskFile, Open, read_range, read_up_to};
use crate::format::{HEADER_BYTES, Kind, check_header};
use crate::{Error, Result};

/// A lookup of a value reads every segment: a few hundred in a table with a billion rows.
const MAX_FILES: usize = 2048;
/// The cache has at most 1/4 of the files that the process may open.
const KEPT_SHARE: u64 = 4;

/// The number of ranges that are probed to decide whether all are in memory.
const PROBED_RANGES: usize = 4;
/// Fewer bytes are read without a probe, because they are probably in memory.
const DIRECT_READ_BYTES: u64 = 16 << 10;
/// Ranges with a smaller distance are requested as one.
const ASKED_GAP: u64 = 64 << 10;

#[derive(Debug)]
pub(super) struct OpenFiles {
    disk: Arc<dyn Disk>,
    most: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    files: HashMap<PathBuf, (Arc<OpenFile>, u64)>,
    uses: u64,
}

impl Kept {
    /// Closes a quarter of the files, so that few calls pay for the sorting.
    fn close_oldest(&mut self) {
        let mut uses: Vec<u64> = self.files.values().map(|(_, last_use)| *last_use).collect();
        let (_, newest, _) = uses.select_nth_unstable(self.files.len() / 4);
        let newest = *newest;
        self.files.retain(|_, (_, last_use)| *last_use > newest);
    }
}

#[derive(Debug)]
pub(super) struct OpenFile {
    path: PathBuf,
    file: Box<dyn DiskFile>,
    /// The last known length. Files only grow.
    length: AtomicU64,
}

impl OpenFiles {
    pub fn new(disk: Arc<dyn Disk>) -> OpenFiles {
        let allowed = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let most = allowed.map_or(MAX_FILES, |allowed| (allowed / KEPT_SHARE) as usize).clamp(1, MAX_FILES);
        OpenFiles { disk, most, kept: Mutex::default() }
    }

    pub fn get(&self, path: &Path, kind: Kind) -> Result<Option<Arc<OpenFile>>> {
        {
            let mut kept = self.kept();
            kept.uses += 1;
            let now = kept.uses;
            if let Some((file, last_use)) = kept.files.get_mut(path) {
                *last_use = now;
                return Ok(Some(file.clone()));
            }
        }
        let file = match self.disk.open(path, Open::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("open", path, error)),
        };
        let mut header = [0; HEADER_BYTES as usize];
        let got = read_up_to(&*file, &mut header, 0).map_err(|error| Error::io("read", path, error))?;
        check_header(kind, &header[..got], &path.display().to_string())?;
        let file = Arc::new(OpenFile { path: path.to_path_buf(), file, length: AtomicU64::new(0) });
        let mut kept = self.kept();
        if kept.files.len() >= self.most {
            kept.close_oldest();
        }
        let now = kept.uses;
        kept.files.insert(path.to_path_buf(), (file.clone(), now));
        Ok(Some(file))
    }

    pub fn forget(&self, path: &Path) {
        self.kept().files.remove(path);
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenFile {
    pub fn length(&self) -> Result<u64> {
        let length = self.file.bytes().map_err(|error| Error::io("measure", &self.path, error))?;
        self.length.store(length, Ordering::Relaxed);
        Ok(length)
    }

    /// Returns the bytes if the ranges are few and in memory.
    pub fn read_present(&self, ranges: &[Range<u64>]) -> Option<Vec<Bytes>> {
        let lengths = || ranges.iter().map(|range| range.end.checked_sub(range.start).filter(|length| *length > 0));
        lengths().try_fold(DIRECT_READ_BYTES, |left, length| left.checked_sub(length?))?;
        let read = |(range, length): (&Range<u64>, Option<u64>)| {
            let mut bytes = vec![0; length? as usize];
            self.file.read_present(&mut bytes, range.start).then(|| bytes.into())
        };
        ranges.iter().zip(lengths()).map(read).collect()
    }

    /// Starts to read all ranges that are not in memory. Returns whether there are any.
    pub fn ask_for_absent(&self, ranges: &[Range<u64>]) -> bool {
        let mut probed = ranges.iter().step_by(ranges.len().div_ceil(PROBED_RANGES).max(1));
        let waits = !probed.all(|range| self.file.is_in_memory(range.start));
        if waits {
            self.ask_for(ranges);
        }
        waits
    }

    /// Returns the bytes, and whether the read waited. Absent ranges are requested together.
    pub fn read_all(&self, ranges: &[Range<u64>]) -> Result<(Vec<Bytes>, bool)> {
        if let Some(found) = self.read_present(ranges) {
            return Ok((found, false));
        }
        let waits = self.ask_for_absent(ranges);
        let found = ranges.iter().map(|range| self.read(range)).collect::<Result<_>>()?;
        Ok((found, waits))
    }

    fn ask_for(&self, ranges: &[Range<u64>]) {
        let mut merged: Option<Range<u64>> = None;
        for range in ranges {
            merged = Some(match merged {
                Some(one) if (one.start..=one.end + ASKED_GAP).contains(&range.start) => {
                    one.start..one.end.max(range.end)
                }
                before => {
                    before.into_iter().for_each(|one| self.file.start_reading(one));
                    range.clone()
                }
            });
        }
        merged.into_iter().for_each(|one| self.file.start_reading(one));
    }

    fn read(&self, range: &Range<u64>) -> Result<Bytes> {
        if range.end > self.length.load(Ordering::Relaxed) || range.start > range.end {
            // Checked before memory is allocated, because the range may come from damaged data.
            check_range(range, self.length()?, &self.path)?;
        }
        let length = (range.end - range.start) as usize;
        let bytes =
            read_range(&*self.file, range.start, length).map_err(|error| Error::io("read", &self.path, error))?;
        if bytes.len() < length {
            check_range(range, range.start + bytes.len() as u64, &self.path)?;
        }
        Ok(bytes.into())
    }
}

pub(super) fn check_range(range: &Range<u64>, length: u64, path: &Path) -> Result<()> {
    let Range { start, end } = *range;
    let what = if start > end {
        format!("a read ends at byte {end}, before its start")
    } else if end > length {
        format!("a read needs {} bytes, but the file ends at byte {length}", end - start)
    } else {
        return Ok(());
    };
    Err(Error::damaged(path.display().to_string(), start, what))
}
