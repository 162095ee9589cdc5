//! A store with planted faults of rewrites, which tests must detect, or without leases, which must not
//! matter.

use std::sync::Arc;

use kubist::store::{Result, Store};
use kubist_index::priority::name_hash;

use super::forward::forward;

const REWRITES: &str = "rewrites/";
const LEASES: &str = "leases/";

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// A published rewrite is published again under the next number, as after a lost response.
    PublishedTwice,
    /// The loser of a race publishes under the next number without checking its sources.
    LoserGoesOn,
}

#[derive(Debug)]
pub struct Planted {
    pub store: Arc<dyn Store>,
    pub fault: Option<Fault>,
    pub leases: bool,
}

/// The entry under another number, which the ids of its runs contain.
fn renumbered(entry: &[u8], from: u64, to: u64) -> Vec<u8> {
    let id_of = |number: u64| [&number.to_le_bytes()[..6], &name_hash(REWRITES).to_le_bytes()[..6]].concat();
    let (old, new) = (id_of(from), id_of(to));
    let mut entry = entry.to_vec();
    let mut at = 0;
    while at + old.len() <= entry.len() {
        if entry[at..at + old.len()] == old {
            entry[at..at + old.len()].copy_from_slice(&new);
        }
        at += 1;
    }
    entry
}

impl Store for Planted {
    forward!(store:
        capabilities abilities location get delete create_segment read segment_len segments
        delete_segment own_log logs read_log sizes erase
    );

    fn put_if_absent(&self, name: &str, value: &[u8]) -> Result<bool> {
        let won = self.store.put_if_absent(name, value)?;
        let Some(number) = name.strip_prefix(REWRITES).and_then(|number| number.parse::<u64>().ok()) else {
            return Ok(won);
        };
        match self.fault {
            Some(Fault::PublishedTwice) if won => {}
            Some(Fault::LoserGoesOn) if !won => {}
            _ => return Ok(won),
        }
        for next in number + 1.. {
            let again = renumbered(value, number, next);
            if self.store.put_if_absent(&format!("{REWRITES}{next:020}"), &again)? {
                break;
            }
        }
        Ok(true)
    }
    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        match prefix == LEASES && !self.leases {
            true => Ok(vec![]),
            false => self.store.list(prefix),
        }
    }
}
