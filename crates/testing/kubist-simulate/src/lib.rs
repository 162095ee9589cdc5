//! A simulated disk: everything a crash, a full disk or a failing device may do,
//! from a seed, so that every failure can be played again.
//!
//! A [`SimDisk`] is the machine; each [`SimProcess`] on it is a [`Disk`] to give
//! to [`LocalStore::on_disk`](kubist_store::LocalStore::on_disk). It is as mean as POSIX
//! allows:
//!
//! - what was written but not synced is, after a crash, there, lost, or there in
//!   part: any sectors of any writes, in any order, with zeros or old bytes in
//!   the gaps;
//! - names are lost unless their directory was synced, one without the other;
//! - a failed sync may have lost the bytes and called them clean: readers see
//!   them or not, and the next sync succeeds without them;
//! - reads and writes come up short; a failing or interrupted write leaves part
//!   of itself, a failing link may have happened;
//! - locks go with the handle or the process that holds them.
//!
//! Tests of stores and of the engine alone depend on it: programs that users build do not contain it.
//!
//! A [`Network`] makes it a file server, and a [`Mount`] a machine that has it mounted, with
//! all that such file systems do ([`Rule`]). Time is counted in calls, a millisecond each.
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
use kubist_store::disk::{Disk, DiskFile, Found, Listed, Open};
use machine::Machine;
use state::{HandleId, ProcessId};

/// A machine with a disk, whose fate follows from its seed. Clones are the same
/// machine.
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

    /// The power fails: all processes die, and of what was not synced the seed
    /// decides what is left. Processes started from now on see that.
    pub fn crash(&self) {
        self.machine.state().crash();
    }

    /// The power fails during a later system call, `calls` from now (the next
    /// is 0).
    pub fn crash_after(&self, calls: u64) {
        self.machine.state().crash_after(calls);
    }

    /// How often the power failed.
    pub fn crashes(&self) -> u64 {
        self.machine.state().crashes()
    }

    /// How many system calls were made.
    pub fn calls(&self) -> u64 {
        self.machine.state().calls()
    }

    /// Lets one `call` of any process fail, after `successes` of them that do
    /// not.
    pub fn fail(&self, call: Call, successes: u64) {
        self.machine.state().fail(call, successes);
    }

    /// Whether failures are still to come that [`SimDisk::fail`] asked for.
    pub fn failures_left(&self) -> bool {
        self.machine.state().failures_left()
    }

    /// Takes back what was asked of [`SimDisk::fail`] and
    /// [`SimDisk::crash_after`].
    pub fn calm(&self) {
        self.machine.state().calm();
    }

    /// How many bytes fit on the disk, in all files together; `None` for no
    /// end.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.machine.state().capacity = bytes;
    }

    /// How many bytes all files have together.
    pub fn used(&self) -> u64 {
        self.machine.state().used()
    }

    /// The time by the machine's clock: a call takes a millisecond.
    pub fn clock(&self) -> Duration {
        self.machine.state().clock()
    }

    /// A file's bytes, as a process would see them.
    pub fn contents(&self, path: &Path) -> Option<Vec<u8>> {
        self.machine.state().contents(path)
    }

    /// Changes a file's bytes behind everyone's back, durably: what a failing
    /// device or a careless hand does. `false` if there is no such file.
    pub fn damage(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) -> bool {
        self.machine.state().damage(path, change)
    }

    /// Runs each task in a process of its own, all at the same time: before
    /// every system call the seed decides who goes on. Gives their results in
    /// order. A task keeps to one thread.
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

/// What a process does in [`SimDisk::interleave`].
pub type Task<'a, T> = Box<dyn FnOnce(Arc<SimProcess>) -> T + Send + 'a>;

/// A process on a simulated machine. Dead after [`SimProcess::kill`] or a crash:
/// then every call fails.
#[derive(Debug)]
pub struct SimProcess {
    machine: Arc<Machine>,
    id: ProcessId,
}

impl SimProcess {
    /// Ends the process, as kill -9 does: what it wrote stays in the system's
    /// cache, its locks are free.
    pub fn kill(&self) {
        self.machine.state().kill(self.id);
    }

    /// What is known of a holder, which is registered under another text.
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

    /// Ends the process during a later system call of its own, `calls` from now.
    pub fn kill_after(&self, calls: u64) {
        self.machine.state().kill_after(self.id, calls);
    }
}

impl Disk for SimProcess {
    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>> {
        let handle = self.machine.open(self.id, path, how)?;
        Ok(Box::new(SimFile { machine: self.machine.clone(), process: self.id, handle }))
    }

    fn find(&self, path: &Path) -> io::Result<Option<Found>> {
        self.machine.find(self.id, path)
    }

    fn read_directory(&self, path: &Path) -> io::Result<Vec<Listed>> {
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

    /// Else a seed would not say when it goes on.
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
        // Unsynced bytes reach the disk, or not, at the seed's whim anyway.
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
