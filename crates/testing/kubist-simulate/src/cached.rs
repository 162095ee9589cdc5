//! Simulated files and directories: the view of processes (the cache), the content after a crash (the disk), and the
//! changes between them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::chance::{Chance, Survival};

/// Size of an atomic disk write.
const SECTOR_BYTES: usize = 512;
const BLOCK_BYTES: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct CachedFile {
    pub seen: Vec<u8>,
    on_disk: Vec<u8>,
    unsynced: Vec<Change>,
    holes: BTreeSet<usize>,
}

#[derive(Debug)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate { bytes: usize },
}

impl CachedFile {
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        put(&mut self.seen, offset, bytes);
        (offset / BLOCK_BYTES..(offset + bytes.len()).div_ceil(BLOCK_BYTES)).for_each(|block| {
            self.holes.remove(&block);
        });
        // The rest of a short write reaches the disk, within a sector, together with the bytes before it.
        if let Some(Change::Write { offset: first, bytes: before }) = self.unsynced.last_mut()
            && *first + before.len() == offset
            && !offset.is_multiple_of(SECTOR_BYTES)
        {
            before.extend_from_slice(bytes);
            return;
        }
        let bytes = bytes.to_vec();
        self.unsynced.push(Change::Write { offset, bytes });
    }

    pub fn truncate(&mut self, bytes: usize) {
        self.seen.resize(bytes, 0);
        self.holes.retain(|block| block * BLOCK_BYTES < bytes);
        self.unsynced.push(Change::Truncate { bytes });
    }

    /// Fills whole blocks with zeros. A power failure may undo any part.
    pub fn punch(&mut self, blocks: Range<usize>) {
        let blocks = blocks.start..blocks.end.min(self.seen.len());
        if !blocks.is_empty() {
            self.write(blocks.start, &vec![0; blocks.len()]);
            self.holes.extend(blocks.start / BLOCK_BYTES..blocks.end.div_ceil(BLOCK_BYTES));
        }
    }

    pub fn taken(&self) -> u64 {
        let holes = self.holes.iter().map(|block| (self.seen.len() - block * BLOCK_BYTES).min(BLOCK_BYTES) as u64);
        self.seen.len() as u64 - holes.sum::<u64>()
    }

    fn look_again(&mut self) {
        self.seen.clone_from(&self.on_disk);
        let seen = &self.seen;
        self.holes.retain(|block| {
            let rest = seen.get(block * BLOCK_BYTES..).unwrap_or_default();
            !rest.is_empty() && rest.iter().take(BLOCK_BYTES).all(|byte| *byte == 0)
        });
    }

    pub fn sync(&mut self) {
        for change in self.unsynced.drain(..) {
            match change {
                Change::Write { offset, bytes } => put(&mut self.on_disk, offset, &bytes),
                Change::Truncate { bytes } => self.on_disk.resize(bytes, 0),
            }
        }
    }

    /// Some changes reach the disk, and the others never will, although the cache may still show them.
    pub fn fail_to_sync(&mut self, chance: &mut Chance) {
        self.keep_some(chance);
        if chance.once_in(2) {
            self.look_again();
        }
    }

    pub fn crash(&mut self, chance: &mut Chance) {
        self.keep_some(chance);
        self.look_again();
    }

    /// Changes the bytes durably, like a failing device or a user's mistake.
    pub fn damage(&mut self, change: impl FnOnce(&mut Vec<u8>)) {
        self.sync();
        change(&mut self.seen);
        self.on_disk.clone_from(&self.seen);
        self.look_again();
    }

    fn keep_some(&mut self, chance: &mut Chance) {
        let survival = Survival::draw(chance);
        // A lost sector inside the file has zeros, or old content of its block.
        let gap = if chance.once_in(4) { 0xa5 } else { 0 };
        for change in std::mem::take(&mut self.unsynced) {
            match change {
                Change::Write { offset, bytes } => {
                    let mut at = 0;
                    while at < bytes.len() {
                        let sector_end = SECTOR_BYTES - (offset + at) % SECTOR_BYTES;
                        let end = bytes.len().min(at + sector_end);
                        if survival.spares(chance) {
                            let from = offset + at;
                            if self.on_disk.len() < from {
                                self.on_disk.resize(from, gap);
                            }
                            put(&mut self.on_disk, from, &bytes[at..end]);
                        }
                        at = end;
                    }
                }
                Change::Truncate { bytes } => {
                    if survival.spares(chance) {
                        self.on_disk.resize(bytes, 0);
                    }
                }
            }
        }
        // The length is stored separately from the bytes, and may survive without them.
        if self.on_disk.len() < self.seen.len() && survival.spares(chance) {
            self.on_disk.resize(self.seen.len(), gap);
        }
    }
}

fn put(file: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    file[offset..end].copy_from_slice(bytes);
}

pub(crate) type Node = usize;

#[derive(Debug, Default)]
pub(crate) struct CachedDirectory {
    pub seen: BTreeMap<String, Node>,
    on_disk: BTreeMap<String, Node>,
    /// The unsynced changes in order, by name.
    unsynced: BTreeMap<String, Vec<Option<Node>>>,
}

impl CachedDirectory {
    pub fn add(&mut self, name: &str, node: Node) {
        self.seen.insert(name.to_owned(), node);
        let changes = self.unsynced.entry(name.to_owned()).or_default();
        changes.push(Some(node));
    }

    pub fn remove(&mut self, name: &str) {
        self.seen.remove(name);
        self.unsynced.entry(name.to_owned()).or_default().push(None);
    }

    pub fn sync(&mut self) {
        self.unsynced.clear();
        self.on_disk.clone_from(&self.seen);
    }

    /// The cache is lost. Changes of the same name stay in order; changes of different names do not.
    pub fn crash(&mut self, chance: &mut Chance) {
        let survival = Survival::draw(chance);
        for (name, changes) in std::mem::take(&mut self.unsynced) {
            for node in changes {
                if !survival.spares(chance) {
                    break;
                }
                match node {
                    Some(node) => self.on_disk.insert(name.clone(), node),
                    None => self.on_disk.remove(&name),
                };
            }
        }
        self.seen.clone_from(&self.on_disk);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn synced_bytes_and_names_survive_and_others_may_not() {
        let (mut lost, mut kept, mut torn) = (0, 0, 0);
        for seed in 0..200 {
            let chance = &mut Chance::new(seed);
            let mut file = CachedFile::default();
            file.write(0, &[1; 1000]);
            file.sync();
            file.write(1000, &[2; 3000]);
            assert_eq!(file.seen.len(), 4000);
            file.crash(chance);
            assert_eq!(file.seen[..1000], [1; 1000]);
            let twos = file.seen.iter().filter(|&&byte| byte == 2).count();
            match twos {
                0 => lost += 1,
                3000 => kept += 1,
                _ => torn += 1,
            }
            let mut directory = CachedDirectory::default();
            directory.add("a", 1);
            directory.sync();
            directory.add("b", 2);
            directory.crash(chance);
            assert!(directory.seen.contains_key("a"));
        }
        assert!(lost > 20 && kept > 20 && torn > 20, "{lost} {kept} {torn}");
    }

    #[test]
    fn after_a_failed_sync_the_next_proves_nothing() {
        let mut lost = 0;
        for seed in 0..100 {
            let chance = &mut Chance::new(seed);
            let mut file = CachedFile::default();
            file.write(0, b"bytes");
            file.fail_to_sync(chance);
            let seen = file.seen == b"bytes";
            file.sync();
            file.crash(chance);
            lost += usize::from(seen && file.seen != b"bytes");
        }
        assert!(lost > 10, "{lost}");
    }
}
