//! Hashing of keys that begin with a hash or an id: combining their parts is sufficient.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

pub type SpreadMap<K, V> = HashMap<K, V, BuildHasherDefault<Folding>>;

pub type SpreadSet<K> = HashSet<K, BuildHasherDefault<Folding>>;

#[derive(Clone, Copy, Debug, Default)]
pub struct Folding(u64);

impl Hasher for Folding {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u128(*byte as u128));
    }

    fn write_u128(&mut self, value: u128) {
        let folded = self.0 ^ value as u64 ^ (value >> 64) as u64;
        self.0 = folded.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
