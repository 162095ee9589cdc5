//! The folder of cached copies.
//!
//! ```text
//! FOLDER/v1/IDENTITY/location             the store's location, for people
//! FOLDER/v1/IDENTITY/segments/NAME/BLOCK  a block of a segment
//! FOLDER/v1/IDENTITY/objects/NAME         an object, with ~ for each slash of its name
//! FOLDER/tmp/                             files that are being written
//! ```
//!
//! A copy has a 12-byte head: a magic number, and a CRC-32C of the key (the path below `v1`), a zero byte and the
//! content. The content follows. Copies are not synced, so after a power failure a copy may have a wrong checksum.
//!
//! The least recently used copies are removed first, by file modification time to a minute. After a handle has written
//! 1/64 of the capacity, it examines all files and, if necessary, frees a tenth of the capacity. The first interval is
//! random, so many short processes do this as often as one long process.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;

const LAYOUT: &str = "v1";
const TEMPORARY: &str = "tmp";
const LOCATION: &str = "location";
const MAGIC: &[u8; 8] = b"KUBISTc1";
const HEAD_BYTES: usize = 12;
/// If a copy is used again within this time, its modification time is not updated.
const SAME_USE: Duration = Duration::from_secs(60);
/// A temporary file of this age was left by a dead process.
const ABANDONED: Duration = Duration::from_secs(3600);
const SWEEP_SHARE: u64 = 64;
const FREE_SHARE: u64 = 10;

/// A folder of copies, for one handle.
#[derive(Debug)]
pub struct Folder {
    root: PathBuf,
    bound: u64,
    /// The bytes to write before the next examination of all files.
    until_sweep: AtomicU64,
    /// True after a failed write. Then nothing more is written.
    is_broken: AtomicBool,
}

/// The copies of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreCopies {
    /// The identity number of the store.
    pub identity: String,
    /// The store's location when the first copy was written; empty if unknown.
    pub location: String,
    /// The number of copies.
    pub files: u64,
    /// Their total size in bytes.
    pub bytes: u64,
}

/// Prints a warning on standard error, once per process and text.
pub fn warn_once(what: String) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(what.clone()) {
        let _ = writeln!(std::io::stderr(), "kubist: warning: {what}");
    }
}

impl Folder {
    /// Opens a folder, and creates it if it does not exist.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be used.
    pub fn open(root: PathBuf, bound: u64) -> Result<Folder, String> {
        let unusable = |why: &dyn std::fmt::Display| format!("the cache {} cannot be used: {why}", root.display());
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&root);
        let found = made.and_then(|()| fs::metadata(&root)).map_err(|error| unusable(&error))?;
        // The owner of the folder could put any bytes there, with correct checksums.
        if found.uid() != rustix::process::geteuid().as_raw() {
            return Err(unusable(&format!("it belongs to user {}", found.uid())));
        }
        let sweep = (bound / SWEEP_SHARE).max(1);
        // Without a random number, the first interval is a full one.
        let chance = getrandom::u64().unwrap_or(0);
        Ok(Folder { root, bound, until_sweep: AtomicU64::new(chance % sweep), is_broken: AtomicBool::new(false) })
    }

    /// The folder's path.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The approximate capacity in bytes.
    pub fn bound(&self) -> u64 {
        self.bound
    }

    fn path(&self, key: &str) -> PathBuf {
        self.root.join(LAYOUT).join(key)
    }

    pub(crate) fn get(&self, key: &str) -> Option<Bytes> {
        let path = self.path(key);
        let mut file = File::open(&path).ok()?;
        let found = file.metadata().ok()?;
        let mut bytes = Vec::with_capacity(found.len() as usize + 1);
        file.read_to_end(&mut bytes).ok()?;
        if !is_copy_of(key, &bytes) {
            let _ = fs::remove_file(&path);
            return None;
        }
        let now = SystemTime::now();
        if found.modified().is_ok_and(|used| now.duration_since(used).is_ok_and(|since| since > SAME_USE)) {
            let _ = file.set_modified(now);
        }
        Some(Bytes::from(bytes).slice(HEAD_BYTES..))
    }

    /// Stores a copy. The first failure prints a warning and stops further writes.
    pub(crate) fn put(&self, key: &str, location: &str, value: &[u8]) {
        if self.is_broken.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = self.try_put(key, location, value) {
            self.is_broken.store(true, Ordering::Relaxed);
            warn_once(format!("the cache {} stores no more copies: {error}", self.root.display()));
        }
    }

    fn try_put(&self, key: &str, location: &str, value: &[u8]) -> std::io::Result<()> {
        let head = [&MAGIC[..], &checksum(key, value).to_le_bytes()].concat();
        self.write(&self.path(key), &[&head, value])?;
        let identity = key.split('/').next().unwrap_or(key);
        let said = self.path(identity).join(LOCATION);
        if !said.exists() {
            self.write(&said, &[location.as_bytes()])?;
        }
        let wrote = (HEAD_BYTES + value.len()) as u64;
        let left = self.until_sweep.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            Some(if left < wrote { (self.bound / SWEEP_SHARE).max(1) } else { left - wrote })
        });
        if left.is_ok_and(|left| left < wrote) {
            self.sweep();
        }
        Ok(())
    }

    fn write(&self, path: &Path, parts: &[&[u8]]) -> std::io::Result<()> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let temporary = self.root.join(TEMPORARY).join(format!("{}-{count}-{now:x}", std::process::id()));
        let create = || File::options().write(true).create_new(true).open(&temporary);
        let mut file = in_folder(&temporary, create)?;
        let written = parts.iter().try_for_each(|part| file.write_all(part));
        let named = written.and_then(|()| in_folder(path, || fs::rename(&temporary, path)));
        if named.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        named
    }

    /// Removes the least recently used copies if necessary, and the files of killed processes.
    fn sweep(&self) {
        let mut copies = Vec::new();
        let mut folders = Vec::new();
        walk(&self.root.join(LAYOUT), &mut folders, &mut |path, found| {
            let used = found.modified().unwrap_or(UNIX_EPOCH);
            copies.push((used, found.len(), path));
        });
        let mut bytes: u64 = copies.iter().map(|(_, bytes, _)| bytes).sum();
        if bytes > self.bound {
            copies.sort_unstable();
            for (_, length, path) in copies {
                if bytes <= self.bound - self.bound / FREE_SHARE {
                    break;
                }
                if path.file_name().is_some_and(|name| name != LOCATION) && fs::remove_file(&path).is_ok() {
                    bytes -= length;
                }
            }
            remove_empty(&folders);
        }
        let now = SystemTime::now();
        walk(&self.root.join(TEMPORARY), &mut Vec::new(), &mut |path, found| {
            let age = found.modified().ok().and_then(|written| now.duration_since(written).ok());
            if age.is_some_and(|age| age > ABANDONED) {
                let _ = fs::remove_file(path);
            }
        });
    }

    /// The copies of each store, the largest first.
    ///
    /// # Errors
    ///
    /// The system's error, if the folder cannot be listed.
    pub fn kept(&self) -> std::io::Result<Vec<StoreCopies>> {
        let stores = match fs::read_dir(self.root.join(LAYOUT)) {
            Ok(stores) => stores,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut all = Vec::new();
        for store in stores {
            let store = store?;
            let location = fs::read_to_string(store.path().join(LOCATION)).unwrap_or_default();
            let identity = store.file_name().to_string_lossy().into_owned();
            let mut kept = StoreCopies { identity, location, files: 0, bytes: 0 };
            walk(&store.path(), &mut Vec::new(), &mut |path, found| {
                if path.file_name().is_some_and(|name| name != LOCATION) {
                    kept.files += 1;
                    kept.bytes += found.len();
                }
            });
            all.push(kept);
        }
        all.sort_by(|a, b| b.bytes.cmp(&a.bytes).then(a.identity.cmp(&b.identity)));
        Ok(all)
    }

    /// Removes the copies of a store. Other processes may immediately write new ones.
    ///
    /// # Errors
    ///
    /// The system's error, if a file cannot be removed.
    pub fn clear(&self, identity: &str) -> std::io::Result<()> {
        self.remove(identity)
    }

    pub(crate) fn remove(&self, key: &str) -> std::io::Result<()> {
        let (mut folders, mut failed) = (vec![self.path(key)], None);
        walk(&self.path(key), &mut folders, &mut |path, _| match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => failed = Some(error),
            _ => {}
        });
        remove_empty(&folders);
        failed.map_or(Ok(()), Err)
    }
}

fn checksum(key: &str, value: &[u8]) -> u32 {
    let of_key = crc32c::crc32c_append(crc32c::crc32c(key.as_bytes()), &[0]);
    crc32c::crc32c_append(of_key, value)
}

fn is_copy_of(key: &str, bytes: &[u8]) -> bool {
    let Some((head, value)) = bytes.split_at_checked(HEAD_BYTES) else { return false };
    head[..MAGIC.len()] == MAGIC[..] && head[MAGIC.len()..] == checksum(key, value).to_le_bytes()
}

fn in_folder<T>(path: &Path, act: impl Fn() -> std::io::Result<T>) -> std::io::Result<T> {
    match act() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            if let Some(folder) = path.parent() {
                DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            }
            act()
        }
        done => done,
    }
}

/// Visits all files, and collects the folders, parents first. Entries that another process has removed are skipped.
fn walk(folder: &Path, folders: &mut Vec<PathBuf>, show: &mut dyn FnMut(PathBuf, &fs::Metadata)) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(found) = entry.metadata() else { continue };
        if found.is_dir() {
            folders.push(entry.path());
            walk(&entry.path(), folders, show);
        } else {
            show(entry.path(), &found);
        }
    }
}

fn remove_empty(folders: &[PathBuf]) {
    for folder in folders.iter().rev() {
        let is_store = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
        if is_store.collect::<Vec<_>>() == [LOCATION] {
            let _ = fs::remove_file(folder.join(LOCATION));
        }
        let _ = fs::remove_dir(folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(bound: u64) -> (tempfile::TempDir, Folder) {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::open(root.path().join("deep/cache"), bound).unwrap();
        (root, folder)
    }

    fn used_before(folder: &Folder, key: &str, seconds: u64) {
        let file = File::open(folder.path(key)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
    }

    #[test]
    fn a_copy_is_found_and_a_bad_one_removed() {
        let (_root, folder) = folder(1 << 20);
        assert_eq!(folder.get("a/segments/s/0"), None);
        folder.put("a/segments/s/0", "s3://b/t", b"bytes");
        assert_eq!(folder.get("a/segments/s/0").unwrap(), "bytes");
        let path = folder.path("a/segments/s/0");
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut other = whole.clone();
            other[at] ^= 4;
            fs::write(&path, &other).unwrap();
            assert_eq!(folder.get("a/segments/s/0"), None, "byte {at}");
            assert!(!path.exists());
            fs::write(&path, &whole[..at]).unwrap();
            assert_eq!(folder.get("a/segments/s/0"), None, "cut at {at}");
        }
        // A copy at another path is also refused.
        folder.put("a/segments/s/0", "s3://b/t", b"bytes");
        fs::rename(&path, folder.path("a/segments/s/1")).unwrap();
        assert_eq!(folder.get("a/segments/s/1"), None);
    }

    #[test]
    fn what_was_not_used_for_longest_goes() {
        let (_root, folder) = folder(10_000);
        for (index, age) in [500, 400, 300, 200].into_iter().enumerate() {
            let key = format!("a/segments/s/{index}");
            folder.put(&key, "s3://b/t", &[1; 2000]);
            used_before(&folder, &key, age);
        }
        // Now the second one is the oldest.
        assert!(folder.get("a/segments/s/0").is_some());
        fs::write(folder.root.join(TEMPORARY).join("left"), b"by a process that was killed").unwrap();
        File::open(folder.root.join(TEMPORARY).join("left")).unwrap().set_modified(UNIX_EPOCH).unwrap();
        folder.put("b/objects/o", "s3://b/u", &[1; 2000]);
        folder.sweep();
        let there = |key: &str| folder.path(key).exists();
        assert_eq!(
            ["a/segments/s/0", "a/segments/s/1", "a/segments/s/2", "b/objects/o"].map(there),
            [true, false, true, true]
        );
        assert_eq!(fs::read_dir(folder.root.join(TEMPORARY)).unwrap().count(), 0);
        let kept = folder.kept().unwrap();
        assert!(kept.iter().map(|kept| kept.bytes).sum::<u64>() <= 9000, "{kept:?}");
        assert_eq!((kept[0].location.as_str(), kept[0].files), ("s3://b/t", 3));
        folder.clear("a").unwrap();
        assert_eq!(folder.kept().unwrap().len(), 1);
        assert!(!folder.path("a").exists());
    }

    #[test]
    fn writing_keeps_to_the_bound_by_itself() {
        let (_root, folder) = folder(100_000);
        for index in 0..200 {
            folder.put(&format!("a/segments/s/{index}"), "s3://b/t", &[7; 2000]);
        }
        let bytes = folder.kept().unwrap()[0].bytes;
        assert!((50_000..=105_000).contains(&bytes), "{bytes}");
    }

    #[test]
    fn a_folder_that_cannot_be_written_gives_what_it_has() {
        let (_root, folder) = folder(1 << 20);
        folder.put("a/objects/o", "s3://b/t", b"there");
        // Makes the folder fail, like a full or read-only one.
        fs::remove_dir_all(folder.root.join(TEMPORARY)).unwrap();
        fs::write(folder.root.join(TEMPORARY), b"in the way").unwrap();
        folder.put("a/objects/p", "s3://b/t", b"not kept");
        assert_eq!(folder.get("a/objects/p"), None);
        assert_eq!(folder.get("a/objects/o").unwrap(), "there");
        let file = folder.root.join("file");
        fs::write(&file, b"").unwrap();
        assert!(Folder::open(file.join("in"), 1).unwrap_err().contains("cannot be used"));
    }
}
