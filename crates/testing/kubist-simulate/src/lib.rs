//! A simulated disk with crashes, full disks and failing devices. A seed determines everything, so failures
//! can be reproduced.
//!
//! A [`SimDisk`] is the machine; each [`SimProcess`] on it is a [`Disk`] for
//! [`LocalStore::on_disk`](kubist_store::LocalStore::on_disk). It uses all the freedom of POSIX:
//!
//! - after a crash, unsynced writes are complete, lost, or partial: any sectors of any writes, in any
//!   order, with zeros or old bytes in the gaps;
//! - names are lost unless their directory was synced, each independently;
//! - a failed sync may have lost the bytes and marked them clean: readers see them or not, and the next
//!   sync succeeds without them;
//! - reads and writes may be short; a failed or interrupted write may be partly done, and a failed link may
//!   have succeeded;
//! - locks end with their handle or process.
//!
//! Only tests depend on this crate.
//!
//! A [`Network`] makes the machine a file server, and a [`Mount`] is a machine that mounts it, with the
//! weaknesses of network file systems ([`Rule`]). Time counts calls, one millisecond each.
//!
//! ```
//! use std::path::Path;
//! use kubist_simulate::SimDisk;
//! use kubist_store::{LocalStore, Store};
//!
//! let machine = SimDisk::new(7);
//! let store = LocalStore::on_disk(machine.process(), Path::new("/table")).unwrap();
//! store.own_log("w").unwrap().append(b"acknowledged").unwrap();
//! machine.crash();
//! let store = LocalStore::on_disk(machine.process(), Path::new("/table")).unwrap();
//! assert_eq!(store.read_log("w", 0).unwrap().entries[0].bytes, "acknowledged");
//! ```

#![deny(missing_docs)]

mod cached;
mod chance;
mod liar;
mod machine;
mod mount;
mod network;
mod state;
mod turns;

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub use liar::{Liar, Lie};
pub use mount::{Mount, MountedProcess};
pub use network::{Network, Rule};
pub use state::Call;

use kubist_store::claims::{self, Life};
use kubist_store::disk::{DirectoryEntry, Disk, DiskFile, Open, PathMetadata};
use machine::Machine;
use state::{HandleId, ProcessId};

/// A machine with a disk. Clones are the same machine.
#[derive(Debug, Clone)]
pub struct SimDisk {
    machine: Arc<Machine>,
}

impl SimDisk {
    /// A machine with an empty disk.
    pub fn new(seed: u64) -> SimDisk {
        let machine = Arc::new(Machine::new(seed));
        SimDisk { machine }
    }

    /// Starts a process.
    pub fn process(&self) -> Arc<SimProcess> {
        Arc::new(SimProcess { id: self.machine.state().start_process(), machine: self.machine.clone() })
    }

    /// Power failure: all processes die, and the seed decides which unsynced changes survive. New processes
    /// see the result.
    pub fn crash(&self) {
        self.machine.state().crash();
    }

    /// Schedules a power failure during the system call that is `calls` from now (the next is 0).
    pub fn crash_after(&self, calls: u64) {
        self.machine.state().crash_after(calls);
    }

    /// Number of power failures.
    pub fn crashes(&self) -> u64 {
        self.machine.state().crashes()
    }

    /// Number of system calls.
    pub fn calls(&self) -> u64 {
        self.machine.state().calls()
    }

    /// Makes one `call` of any process fail, after `successes` successful ones.
    pub fn fail(&self, call: Call, successes: u64) {
        self.machine.state().fail(call, successes);
    }

    /// Whether failures of [`SimDisk::fail`] are still pending.
    pub fn failures_left(&self) -> bool {
        self.machine.state().failures_left()
    }

    /// Cancels everything from [`SimDisk::fail`] and [`SimDisk::crash_after`].
    pub fn calm(&self) {
        self.machine.state().calm();
    }

    /// The capacity in bytes; `None` is unlimited.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.machine.state().capacity = bytes;
    }

    /// Bytes of all files.
    pub fn used(&self) -> u64 {
        self.machine.state().used()
    }

    /// The machine's clock: a call takes a millisecond.
    pub fn clock(&self) -> Duration {
        self.machine.state().clock()
    }

    /// A file's bytes, as a process would see them.
    pub fn contents(&self, path: &Path) -> Option<Vec<u8>> {
        self.machine.state().contents(path)
    }

    /// Changes a file's bytes durably, like a failing device or a user's mistake. Returns `false` without
    /// such a file.
    pub fn damage(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) -> bool {
        self.machine.state().damage(path, change)
    }

    /// Runs each task in its own process, all concurrently: before every system call the seed decides which
    /// process continues. Returns the results in task order. A task must use one thread.
    pub fn interleave<'a, T: Send>(&self, tasks: Vec<Task<'a, T>>) -> Vec<T> {
        let processes: Vec<_> = tasks.iter().map(|_| self.process()).collect();
        let turns = self.machine.turns();
        for process in &processes {
            turns.join(process.id);
        }
        std::thread::scope(|scope| {
            let threads: Vec<_> = tasks
                .into_iter()
                .zip(processes)
                .map(|(task, process)| {
                    scope.spawn(move || {
                        let _taking_part = turns.begin(process.id);
                        task(process.clone())
                    })
                })
                .collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, T>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            threads.into_iter().map(join).collect()
        })
    }
}

/// The work of a process in [`SimDisk::interleave`].
pub type Task<'a, T> = Box<dyn FnOnce(Arc<SimProcess>) -> T + Send + 'a>;

/// A process on a simulated machine. After [`SimProcess::kill`] or a crash every call fails.
#[derive(Debug)]
pub struct SimProcess {
    machine: Arc<Machine>,
    id: ProcessId,
}

impl SimProcess {
    /// Ends the process like kill -9: its writes stay in the cache, its locks are released.
    pub fn kill(&self) {
        self.machine.state().kill(self.id);
    }

    /// The state of a holder that is registered under another text.
    fn life_of(&self, holder: &str, registered: &str) -> Life {
        let [_, number, boot, _] = holder.split(' ').collect::<Vec<_>>()[..] else { return Life::Unknown };
        let (Ok(number), Ok(boot)) = (number.parse(), boot.parse()) else { return Life::Unknown };
        let process = ProcessId { number, boot };
        let lives = self.machine.state().lives(process);
        match lives && (process != self.id || claims::is_held_here(registered)) {
            true => Life::Alive,
            false => Life::Ended,
        }
    }

    /// Ends the process during its own system call that is `calls` from now.
    pub fn kill_after(&self, calls: u64) {
        self.machine.state().kill_after(self.id, calls);
    }
}

impl Disk for SimProcess {
    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>> {
        let handle = self.machine.open(self.id, path, how)?;
        Ok(Box::new(SimFile { machine: self.machine.clone(), process: self.id, handle }))
    }

    fn find(&self, path: &Path) -> io::Result<Option<PathMetadata>> {
        self.machine.find(self.id, path)
    }

    fn read_directory(&self, path: &Path) -> io::Result<Vec<DirectoryEntry>> {
        self.machine.read_directory(self.id, path)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.machine.create_directory(self.id, path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.machine.sync_directory(self.id, path)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.machine.link(self.id, from, to)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        self.machine.unlink(self.id, path)
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        self.machine.remove_directory(self.id, path)
    }

    fn process(&self) -> u32 {
        self.id.number
    }

    fn unique(&self) -> u64 {
        self.machine.state().unique()
    }

    fn is_of_this_machine(&self, _path: &Path) -> io::Result<bool> {
        Ok(true)
    }

    fn names_of(&self, path: &Path) -> io::Result<u64> {
        self.machine.names_of(self.id, path)
    }

    fn clock(&self) -> Duration {
        self.machine.state().clock()
    }

    fn pause(&self, time: Duration) {
        self.machine.pause(self.id, time);
    }

    fn holder(&self) -> String {
        format!("simulated {} {}", self.id.number, self.id.boot)
    }

    fn life(&self, holder: &str) -> Life {
        self.life_of(holder, holder)
    }

    /// Otherwise the seed would not determine the order.
    fn has_threads(&self) -> bool {
        false
    }
}

#[derive(Debug)]
struct SimFile {
    machine: Arc<Machine>,
    process: ProcessId,
    handle: HandleId,
}

impl DiskFile for SimFile {
    fn close(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }

    fn bytes(&self) -> io::Result<u64> {
        self.machine.bytes(self.process, self.handle)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.machine.read_at(self.process, self.handle, buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.machine.write_at(self.process, self.handle, bytes, offset)
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.machine.truncate(self.process, self.handle, bytes)
    }

    fn punch(&self, blocks: Range<u64>) -> io::Result<()> {
        self.machine.punch(self.process, self.handle, blocks)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.machine.sync_data(self.process, self.handle)
    }

    fn start_writeback(&self, _range: Range<u64>) {
        // The seed decides which unsynced bytes reach the disk.
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.machine.try_lock(self.process, self.handle)
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.machine.close(self.handle);
    }
}
