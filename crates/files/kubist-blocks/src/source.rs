//! An open file of arrays (HDF5, netCDF, Parquet or `.npy`): its layout, reads, and a check that it has not changed.
//!
//! An index describes the file at the time when `kubist index` read it. [`Key`] identifies this content, so a query
//! refuses a changed file instead of returning a wrong result.

use std::fs::File;
use std::io::BufReader;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use kubist_files::columns::Columns;
use kubist_types::{Cancel, Error, Result};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use crate::layout::{FileFormat, Layout};
use crate::library::Library;
use crate::model::Device;
use crate::{netcdf3, npy, parquet};

/// Bytes that the hash of a file covers at its beginning, and at each of `PLACES` further positions.
const HASHED: u64 = 4096;
const PLACES: u64 = 16;
/// The signature of HDF5, at offset 0, 512, 1024, 2048, …
const HDF5: &[u8] = b"\x89HDF\r\n\x1a\n";
const PARQUET: &[u8] = b"PAR1";

/// Identifies the content of a file. A change that keeps the size, the time and the hashed bytes is not noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    pub bytes: u64,
    /// Nanoseconds since 1970.
    pub modified: i64,
    /// The hash of the first bytes, and of bytes spread over the file.
    pub hash: u64,
}

/// Read counters of a query, which all its threads share.
#[derive(Debug, Default)]
pub struct Reads {
    pub requests: AtomicU64,
    pub bytes: AtomicU64,
    pub by_library: AtomicU64,
}

pub struct Source {
    path: PathBuf,
    file: File,
    key: Key,
    pub layout: Layout,
    library: Option<Arc<Library>>,
    /// For Parquet: the footer, read at the first use.
    columns: OnceLock<Columns>,
}

impl Source {
    /// Opens a file without an index, and reads its layout from its header. HDF5 and netCDF-4 need `library`.
    ///
    /// # Errors
    ///
    /// `Missing`, `Permission`, a storage error; `Invalid` if the format is not supported, its library is missing, or
    /// the header is damaged.
    pub fn open(path: &Path, library: Option<&Arc<Library>>, cancel: &Cancel) -> Result<Source> {
        let file = open(path)?;
        let key = key(path, &file)?;
        let within = |why: String| Error::invalid(format!("{}: {why}", path.display()));
        let columns = OnceLock::new();
        let layout = match format(path, &file)? {
            FileFormat::NetCdf3 => netcdf3::layout(&mut BufReader::new(&file), key.bytes).map_err(within)?,
            FileFormat::Parquet => {
                let footer = parquet::open(path, true)?;
                parquet::layout(columns.get_or_init(|| footer))?
            }
            FileFormat::Npy => npy::layout(path, &mut BufReader::new(&file)).map_err(within)?,
            FileFormat::Hdf5 => {
                let library = library.ok_or_else(|| {
                    within("HDF5 and netCDF-4 need the Python package: pip install 'kubist[files]'".into())
                })?;
                library.layout(path, cancel)?
            }
        };
        layout.check(key.bytes).map_err(|error| within(error.to_string()))?;
        Ok(Source { path: path.to_path_buf(), file, key, layout, library: library.cloned(), columns })
    }

    /// Opens a file that has an index, with the layout and the key from the index.
    ///
    /// # Errors
    ///
    /// `Missing`, a storage error; `Refused` if the file is not the one that was indexed.
    pub fn known(path: &Path, expected: &Key, layout: Layout, library: Option<&Arc<Library>>) -> Result<Source> {
        is_still(path, expected)?;
        let file = open(path)?;
        let key = key(path, &file)?;
        if key != *expected {
            return Err(not_indexed(path, "its bytes differ"));
        }
        Ok(Source { path: path.to_path_buf(), file, key, layout, library: library.cloned(), columns: OnceLock::new() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Returns the HDF5 library.
    ///
    /// # Errors
    ///
    /// `Invalid` if the file was opened without it.
    pub fn library(&self) -> Result<&Library> {
        self.library.as_deref().ok_or_else(|| {
            Error::invalid(format!(
                "{}: a part of it needs its library: pip install 'kubist[files]'",
                self.path.display()
            ))
        })
    }

    /// The columns of a Parquet file, from its footer.
    ///
    /// # Errors
    ///
    /// `Invalid` if the footer is damaged.
    pub fn columns(&self) -> Result<&Columns> {
        if let Some(columns) = self.columns.get() {
            return Ok(columns);
        }
        let columns = parquet::open(&self.path, false)?;
        Ok(self.columns.get_or_init(|| columns))
    }

    /// Reads `bytes` bytes at `offset`.
    ///
    /// # Errors
    ///
    /// `Damaged` if the file ends before the last byte, or a storage error.
    pub fn read(&self, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        let wanted = bytes as usize;
        // Reads into uninitialized memory, which saves filling it with zeros first.
        let mut out = Vec::with_capacity(wanted);
        while out.len() < wanted {
            let at = offset.saturating_add(out.len() as u64);
            match rustix::io::pread(&self.file, rustix::buffer::spare_capacity(&mut out), at) {
                Ok(0) => {
                    return Err(Error::Damaged {
                        file: self.path.display().to_string(),
                        offset,
                        what: format!("it ends before {bytes} bytes: it was cut short while it was read"),
                    });
                }
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    return Err(Error::io(format!("cannot read {}: {error}", self.path.display()), error.into()));
                }
            }
        }
        out.truncate(wanted);
        Ok(out)
    }

    /// Checks at the end of a query that size and modification time have not changed since the opening.
    ///
    /// # Errors
    ///
    /// `Refused` if the file changed, or a storage error.
    pub fn unchanged(&self) -> Result<()> {
        let now = stamp(&self.path, &self.file)?;
        match now == (self.key.bytes, self.key.modified) {
            true => Ok(()),
            false => Err(Error::Refused(format!("{}: it changed while it was read", self.path.display()))),
        }
    }

    /// Measures latency and bandwidth of the device, by small and large reads with `workers` threads. It first asks the
    /// kernel to drop these positions from the page cache, and uses medians, because other programs may delay single
    /// reads.
    ///
    /// # Errors
    ///
    /// The errors of [`Source::read`].
    pub fn measure(&self, workers: usize) -> Result<Device> {
        let (small, large) = (4096u64, 1 << 20);
        let time = |bytes: u64, count: u64| -> Result<f64> {
            let room = self.key.bytes.saturating_sub(bytes).max(1);
            let places: Vec<u64> = (0..count).map(|at| (at * room / count) & !4095).collect();
            for place in &places {
                // If the kernel does not drop them, this measures the page cache, which later reads use too.
                let _ = rustix::fs::fadvise(
                    &self.file,
                    *place,
                    std::num::NonZero::new(bytes),
                    rustix::fs::Advice::DontNeed,
                );
            }
            let read = |index: usize| {
                let begin = Instant::now();
                self.read(places[index], bytes.min(self.key.bytes))?;
                Ok(begin.elapsed().as_secs_f64())
            };
            let policy = crate::schedule::Policy::Dynamic;
            let (mut seconds, _) = crate::schedule::run(places.len(), workers, policy, &Cancel::default(), &read)?;
            seconds.sort_by(f64::total_cmp);
            Ok(seconds[seconds.len() / 2])
        };
        if self.key.bytes < 4 * large {
            // The file is too small to measure, so these are the values of a typical solid-state disk.
            return Ok(Device { latency: 1e-4, bandwidth: 1e9, workers });
        }
        let count = (self.key.bytes / large).clamp(4, 16);
        let (few, many) = (time(small, 64)?, time(large, count)?);
        let bandwidth = (large - small) as f64 / (many - few).max(1e-7);
        Ok(Device { latency: (few - small as f64 / bandwidth).max(1e-7), bandwidth, workers })
    }
}

fn open(path: &Path) -> Result<File> {
    let file = File::open(path).map_err(|error| cannot_open(path, error))?;
    let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
    if is_file { Ok(file) } else { Err(Error::invalid(format!("{}: it is not a file", path.display()))) }
}

fn stamp(path: &Path, file: &File) -> Result<(u64, i64)> {
    let failed = |error: std::io::Error| Error::io(format!("cannot examine {}: {error}", path.display()), error);
    Ok(stamp_of(&file.metadata().map_err(failed)?))
}

fn stamp_of(metadata: &std::fs::Metadata) -> (u64, i64) {
    let seconds = metadata.mtime().saturating_mul(1_000_000_000);
    (metadata.len(), seconds.saturating_add(metadata.mtime_nsec()))
}

/// Checks, without a read, that a file has the size and modification time of its key.
///
/// # Errors
///
/// `Missing`, a storage error; `Refused` if the file changed.
pub fn is_still(path: &Path, expected: &Key) -> Result<()> {
    let metadata = std::fs::metadata(path).map_err(|error| cannot_open(path, error))?;
    let (bytes, modified) = stamp_of(&metadata);
    if (bytes, modified) == (expected.bytes, expected.modified) {
        return Ok(());
    }
    let what = match bytes != expected.bytes {
        true => format!("it has {bytes} bytes, and had {}", expected.bytes),
        false => "it was modified later".into(),
    };
    Err(not_indexed(path, &what))
}

fn not_indexed(path: &Path, what: &str) -> Error {
    Error::Refused(format!(
        "{}: it is not the file that was indexed: {what}; index it again (kubist index --refresh)",
        path.display()
    ))
}

fn cannot_open(path: &Path, error: std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::NotFound => Error::Missing { location: path.display().to_string(), hint: String::new() },
        _ => Error::io(format!("cannot open {}: {error}", path.display()), error),
    }
}

fn key(path: &Path, file: &File) -> Result<Key> {
    let (bytes, modified) = stamp(path, file)?;
    let mut hash = Xxh3::new();
    let mut part = [0; HASHED as usize];
    for place in 0..=PLACES {
        let offset = bytes.saturating_sub(HASHED) / PLACES * place;
        let length = (bytes - offset).min(HASHED) as usize;
        let read = file.read_exact_at(&mut part[..length], offset);
        read.map_err(|error| Error::io(format!("cannot read {}: {error}", path.display()), error))?;
        hash.update(&part[..length]);
    }
    Ok(Key { bytes, modified, hash: hash.digest() })
}

fn format(path: &Path, file: &File) -> Result<FileFormat> {
    let mut head = [0; 8];
    let failed = |error: std::io::Error| Error::io(format!("cannot read {}: {error}", path.display()), error);
    let length = file.read_at(&mut head, 0).map_err(failed)?;
    if netcdf3::is_one(&head[..length]) {
        return Ok(FileFormat::NetCdf3);
    }
    if head.starts_with(b"\x93NUMPY") {
        return Ok(FileFormat::Npy);
    }
    if head.starts_with(PARQUET) {
        return Ok(FileFormat::Parquet);
    }
    let mut at = 0;
    for _ in 0..20 {
        let length = file.read_at(&mut head, at).map_err(failed)?;
        if head[..length] == *HDF5 {
            return Ok(FileFormat::Hdf5);
        }
        at = if at == 0 { 512 } else { at * 2 };
    }
    Err(Error::invalid(format!("{}: the format cannot be indexed: use HDF5, netCDF, Parquet or .npy", path.display())))
}

pub fn is_array_file(path: &Path) -> bool {
    open(path).and_then(|file| format(path, &file)).is_ok()
}
