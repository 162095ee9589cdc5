//! Spill space: an unlinked file in `tmp/`, which the system frees when the handle is dropped or the process dies.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use crate::disk::{Disk, DiskFile, OsDisk, read_range, write_all};
use crate::{Error, Result, Scratch};

#[derive(Debug)]
pub(crate) struct LocalScratch {
    file: Box<dyn DiskFile>,
    path: PathBuf,
    length: Mutex<u64>,
}

impl LocalScratch {
    /// `path` is used in messages only.
    pub fn new(file: Box<dyn DiskFile>, path: PathBuf) -> LocalScratch {
        LocalScratch { file, path, length: Mutex::new(0) }
    }
}

/// Spill space in the system's temporary folder (`TMPDIR`), for stores that keep their bytes elsewhere.
///
/// # Errors
///
/// `Io` or `NoSpace` if the folder is not writable.
pub fn local_scratch() -> Result<Box<dyn Scratch>> {
    let folder = std::env::temp_dir();
    let disk = OsDisk::beneath(&folder);
    let path = folder.join(format!("kubist-{:016x}", disk.unique()));
    let file = disk.create_private(&path).map_err(|error| Error::io("create", &path, error))?;
    disk.unlink(&path).map_err(|error| Error::io("unlink", &path, error))?;
    Ok(Box::new(LocalScratch { file, path, length: Mutex::new(0) }))
}

impl Scratch for LocalScratch {
    fn append(&self, bytes: &[u8]) -> Result<u64> {
        // The offset is reserved first, so that threads write in parallel; a failed write leaves an unused hole.
        let offset = {
            let mut length = self.length.lock().unwrap_or_else(PoisonError::into_inner);
            let offset = *length;
            *length += bytes.len() as u64;
            offset
        };
        write_all(&*self.file, bytes, offset).map_err(|error| Error::io("write", &self.path, error))?;
        Ok(offset)
    }

    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        let end = *self.length.lock().unwrap_or_else(PoisonError::into_inner);
        if range.start > range.end || range.end > end {
            let what = format!("a read needs bytes {} to {}, but the file has {end}", range.start, range.end);
            return Err(Error::damaged(self.path.display().to_string(), range.start, what));
        }
        let length = (range.end - range.start) as usize;
        let bytes =
            read_range(&*self.file, range.start, length).map_err(|error| Error::io("read", &self.path, error))?;
        if bytes.len() < length {
            let what = format!("a read needs {length} bytes, but only {} exist", bytes.len());
            return Err(Error::damaged(self.path.display().to_string(), range.start, what));
        }
        Ok(bytes.into())
    }
}
