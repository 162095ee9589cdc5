//! The store of a catalogue: its objects, their names, and the lines that they hold.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use kubist::store::Store;
use kubist_catalog::error::store_error;
use kubist_types::{Error, Result};

const PACK_BYTES: usize = 16 << 20;

/// An object with lines of one site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub lines: RangeInclusive<u64>,
    pub object: String,
}

pub(crate) type Parts = BTreeMap<String, Vec<Part>>;

#[derive(Clone, Debug)]
pub(crate) struct Objects(pub Arc<dyn Store>);

impl Objects {
    /// The path or address of an object, for messages.
    pub fn shown(&self, object: &str) -> String {
        format!("{}/{object}", kubist_types::shown::without_password(self.0.location()).trim_end_matches('/'))
    }

    pub fn get(&self, object: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.0.get(object).map_err(store_error)?.map(Vec::from))
    }

    pub fn put(&self, object: &str, bytes: &[u8]) -> Result<bool> {
        self.0.put_if_absent(object, bytes).map_err(store_error)
    }

    pub fn delete(&self, object: &str) -> Result<()> {
        self.0.delete(object).map_err(store_error)
    }

    pub fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.0.list(prefix).map_err(store_error)
    }

    pub fn checkpoints(&self) -> Result<Vec<u64>> {
        let names = self.list("state/")?;
        names
            .iter()
            .map(|name| number(name.strip_prefix("state/").unwrap_or(name)).ok_or_else(|| self.unexpected(name)))
            .collect()
    }

    /// Single lines are listed before packs (see the invariants of the crate).
    pub fn parts(&self) -> Result<Parts> {
        let singles = self.list("ops/")?;
        let packs = self.list("packs/")?;
        let mut parts = Parts::new();
        for object in singles.into_iter().chain(packs) {
            let lines = read_name(&object).ok_or_else(|| self.unexpected(&object))?;
            let (site, lines) = (lines.0.to_owned(), lines.1);
            parts.entry(site).or_default().push(Part { lines, object });
        }
        Ok(parts)
    }

    fn unexpected(&self, object: &str) -> Error {
        Error::Damaged { file: self.shown(object), offset: 0, what: "no object of a catalogue has such a name".into() }
    }

    /// Each pack has at most [`PACK_BYTES`] unless one line is longer. `first` is the number of the first line.
    pub fn put_packs(&self, site: &str, first: u64, lines: &[Vec<u8>]) -> Result<()> {
        let (mut from, mut bytes) = (first, Vec::new());
        for (index, line) in lines.iter().enumerate() {
            let n = first + index as u64;
            if !bytes.is_empty() && bytes.len() + line.len() > PACK_BYTES {
                self.put(&pack_name(site, from, n - 1), &bytes)?;
                (from, bytes) = (n, Vec::new());
            }
            bytes.extend_from_slice(line);
            bytes.push(b'\n');
        }
        if !bytes.is_empty() {
            self.put(&pack_name(site, from, first + lines.len() as u64 - 1), &bytes)?;
        }
        Ok(())
    }
}

/// The parts with lines after `after`, in order, and the last line. A part may begin before its turn; lines beyond a
/// gap do not count.
pub(crate) fn route(parts: &[Part], after: u64) -> (Vec<Part>, u64) {
    let (mut route, mut last) = (Vec::new(), after);
    let mut sorted: Vec<&Part> = parts.iter().collect();
    sorted.sort_by_key(|part| (*part.lines.start(), std::cmp::Reverse(*part.lines.end())));
    let mut rest = sorted.into_iter().peekable();
    loop {
        let mut best: Option<&Part> = None;
        while let Some(part) = rest.next_if(|part| *part.lines.start() <= last.saturating_add(1)) {
            if best.is_none_or(|best| part.lines.end() > best.lines.end()) {
                best = Some(part);
            }
        }
        match best {
            Some(part) if *part.lines.end() > last => {
                last = *part.lines.end();
                route.push(part.clone());
            }
            _ => return (route, last),
        }
    }
}

pub(crate) fn line_name(site: &str, n: u64) -> String {
    format!("ops/{site}/{n:010}")
}

pub(crate) fn pack_name(site: &str, first: u64, last: u64) -> String {
    format!("packs/{site}/{first:010}-{last:010}")
}

pub(crate) fn checkpoint_name(n: u64) -> String {
    format!("state/{n:010}")
}

fn read_name(object: &str) -> Option<(&str, RangeInclusive<u64>)> {
    let mut parts = object.split('/');
    let (folder, site, lines) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || crate::log::check_site(site).is_err() {
        return None;
    }
    let (first, last) = match folder {
        "ops" => (number(lines)?, number(lines)?),
        _ => {
            let (first, last) = lines.split_once('-')?;
            (number(first)?, number(last)?)
        }
    };
    (first >= 1 && first <= last && last < 1 << 53).then_some((site, first..=last))
}

fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(first: u64, last: u64) -> Part {
        Part { lines: first..=last, object: pack_name("a", first, last) }
    }

    #[test]
    fn a_route_takes_the_widest_parts_and_stops_at_a_gap() {
        let parts = [part(3, 3), part(1, 4), part(1, 2), part(5, 5), part(4, 7), part(9, 12)];
        let (route, last) = super::route(&parts, 0);
        assert_eq!((route, last), (vec![part(1, 4), part(4, 7)], 7));
        assert_eq!(super::route(&parts, 7), (vec![], 7));
        assert_eq!(super::route(&parts, 8), (vec![part(9, 12)], 12));
    }

    #[test]
    fn names_are_read_back() {
        assert_eq!(read_name(&pack_name("bsc", 1, 64)), Some(("bsc", 1..=64)));
        assert_eq!(read_name(&line_name("bsc", 17)), Some(("bsc", 17..=17)));
        for wrong in ["ops/bsc/x", "ops/bsc", "packs/bsc/2-1", "packs/../1-1", "ops/a/b/1", "packs/bsc/-1"] {
            assert_eq!(read_name(wrong), None, "{wrong}");
        }
    }
}
