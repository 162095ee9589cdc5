//! Sealed files: an immutable table in one file, to copy, publish and archive.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use kubist_catalog::error::store_error;
use kubist_maintain::copy::{Copied, CopyOptions};
use kubist_one::{LocalFile, Packer, SealedStore};
use kubist_types::{Error, Result};

use crate::location::Location;
use crate::snapshot::Snapshot;
use crate::table::Table;

/// The result of [`Snapshot::pack`].
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Packed {
    /// Rows in the file.
    pub rows: u64,
    /// The length of the file.
    pub bytes: u64,
    /// The duration of the call.
    pub seconds: f64,
}

impl Snapshot {
    /// Writes all rows into one sealed file at an unused path. [`Table::open`] opens it there, on a web
    /// server with range requests, or in a bucket. Calls `progress(rows done, all rows)`.
    ///
    /// # Errors
    ///
    /// `Exists` if the path is in use, `Invalid` options, `Cancelled`. After an error, nothing is at the
    /// path.
    pub fn pack(&self, path: &Path, options: &CopyOptions, progress: &mut dyn FnMut(u64, u64)) -> Result<Packed> {
        let begin = Instant::now();
        let failed = |error| match error {
            kubist_store::Error::Exists { file } => {
                Error::Exists { location: file, why: "choose an unused path".into() }
            }
            error => store_error(error),
        };
        let packer = Arc::new(Packer::create(path).map_err(failed)?);
        let copied = self.copy_to(packer.clone(), options, progress)?;
        // Readers of the file then need one object for the manifest, and no log.
        Table::open(packer.clone())?.checkpoint()?;
        let bytes = packer.seal().map_err(failed)?;
        Ok(Packed { rows: copied.rows, bytes, seconds: begin.elapsed().as_secs_f64() })
    }
}

impl Table {
    /// Compares all checksums of a sealed file, then copies its rows into a new writable table at the
    /// unused location `to`. Calls `progress(rows done, all rows)`.
    ///
    /// # Errors
    ///
    /// `Invalid` if the file is no sealed file; `Damaged`; the errors of [`Snapshot::copy_to`].
    pub fn unpack(
        file: &Path,
        to: impl Into<Location>,
        options: &CopyOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Copied> {
        let shown = file.display();
        if !file.exists() {
            return Err(Error::Missing { location: shown.to_string(), hint: String::new() });
        }
        let absolute = std::path::absolute(file).unwrap_or_else(|_| file.into());
        let opened = match file.is_file() {
            true => {
                SealedStore::open(Arc::new(LocalFile::open(&absolute).map_err(store_error)?)).map_err(store_error)?
            }
            false => None,
        };
        let Some(store) = opened else {
            return Err(Error::invalid(format!("{shown} is not a sealed file; `kubist copy` copies other tables")));
        };
        let cancelled = |_, _| match options.cancel.is_set() {
            true => Err(kubist_store::Error::Stopped { location: shown.to_string() }),
            false => Ok(()),
        };
        store.check(&mut { cancelled }).map_err(store_error)?;
        let table = Table::open(Location::from(Arc::new(store)).cancelled_by(&options.cancel))?;
        table.snapshot()?.copy_to(to, options, progress)
    }
}
