//! A disk whose process stops at a chosen system call, reports that, and waits for SIGCONT or SIGKILL.

use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};

use kubist::store::disk::{DirectoryEntry, Disk, DiskFile, Open, OsDisk, PathMetadata};
use rustix::process::{Signal, kill_process};

/// Remaining calls before the stop; negative for never.
static CALLS_LEFT: AtomicI64 = AtomicI64::new(NEVER);

pub const NEVER: i64 = -1;

pub fn stop_after(calls: i64) {
    CALLS_LEFT.store(calls, Ordering::SeqCst);
}

#[derive(Debug)]
pub struct StoppingDisk(pub OsDisk);

#[derive(Debug)]
struct StoppingFile {
    file: Box<dyn DiskFile>,
    path: PathBuf,
}

fn is_last_call() -> bool {
    CALLS_LEFT.load(Ordering::SeqCst) >= 0 && CALLS_LEFT.fetch_sub(1, Ordering::SeqCst) == 0
}

fn stop(what: &str, path: &Path) {
    say(&format!("stopped {what} {}", path.display()));
    kill_process(rustix::process::getpid(), Signal::STOP).unwrap();
}

impl Disk for StoppingDisk {
    fn open(&self, path: &Path, how: Open) -> std::io::Result<Box<dyn DiskFile>> {
        if how == Open::Create && is_last_call() {
            stop("create", path);
        }
        let file = self.0.open(path, how)?;
        Ok(Box::new(StoppingFile { file, path: path.into() }))
    }
    fn find(&self, path: &Path) -> std::io::Result<Option<PathMetadata>> {
        self.0.find(path)
    }
    fn read_directory(&self, path: &Path) -> std::io::Result<Vec<DirectoryEntry>> {
        self.0.read_directory(path)
    }
    fn create_directory(&self, path: &Path) -> std::io::Result<()> {
        self.0.create_directory(path)
    }
    fn sync_directory(&self, path: &Path) -> std::io::Result<()> {
        if is_last_call() {
            stop("sync-directory", path);
        }
        self.0.sync_directory(path)
    }
    fn link(&self, from: &Path, to: &Path) -> std::io::Result<()> {
        if is_last_call() {
            stop("link", to);
        }
        self.0.link(from, to)
    }
    fn unlink(&self, path: &Path) -> std::io::Result<()> {
        if is_last_call() {
            stop("unlink", path);
        }
        self.0.unlink(path)
    }
    fn remove_directory(&self, path: &Path) -> std::io::Result<()> {
        if is_last_call() {
            stop("remove-directory", path);
        }
        self.0.remove_directory(path)
    }
    fn process(&self) -> u32 {
        self.0.process()
    }
    fn unique(&self) -> u64 {
        self.0.unique()
    }
    fn is_of_this_machine(&self, path: &Path) -> std::io::Result<bool> {
        self.0.is_of_this_machine(path)
    }
    fn names_of(&self, path: &Path) -> std::io::Result<u64> {
        self.0.names_of(path)
    }
}

impl DiskFile for StoppingFile {
    fn close(self: Box<Self>) -> std::io::Result<()> {
        self.file.close()
    }
    fn bytes(&self) -> std::io::Result<u64> {
        self.file.bytes()
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<usize> {
        self.file.read_at(buffer, offset)
    }
    /// Stops with half of the bytes written, and after waking reports a short write.
    fn write_at(&self, bytes: &[u8], offset: u64) -> std::io::Result<usize> {
        if !is_last_call() {
            return self.file.write_at(bytes, offset);
        }
        let written = match bytes.len() / 2 {
            0 => 0,
            half => self.file.write_at(&bytes[..half], offset)?,
        };
        stop("write", &self.path);
        if written > 0 { Ok(written) } else { self.file.write_at(bytes, offset) }
    }
    fn truncate(&self, bytes: u64) -> std::io::Result<()> {
        self.file.truncate(bytes)
    }
    fn punch(&self, blocks: Range<u64>) -> std::io::Result<()> {
        if is_last_call() {
            stop("punch", &self.path);
        }
        self.file.punch(blocks)
    }
    fn sync_data(&self) -> std::io::Result<()> {
        if is_last_call() {
            stop("sync", &self.path);
        }
        self.file.sync_data()
    }
    fn start_writeback(&self, range: Range<u64>) {
        self.file.start_writeback(range);
    }
    fn try_lock(&self) -> std::io::Result<bool> {
        self.file.try_lock()
    }
}

/// On a line of its own, because the test runner prints too.
pub fn say(what: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n@{what}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}
