//! Checkpoints: the whole state as one object, and the deletion of lines that it replaces.
//!
//! The first line is a header, and each further line a live dot and its setting. Each line begins with its hash. A
//! checkpoint is a state of the CRDT, so it can be joined to another state in any order, such as that of a peer that
//! lacks deleted lines.

use std::collections::{BTreeMap, BTreeSet};

use kubist_crdt::{Causal, Context, Dot, Vector};
use kubist_types::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::catalogue::Catalogue;
use crate::entry::{Entry, Names, Setting, Site};
use crate::log::{self, Head, damaged};
use crate::objects::checkpoint_name;

/// The result of [`Catalogue::prune`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pruned {
    /// Deleted lines.
    pub lines: u64,
    /// Sites that have not confirmed all operations. Lines that they may lack were kept.
    pub waits_for: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    v: u32,
    /// The log of each site.
    heads: BTreeMap<String, Head>,
    /// Operations beyond the logs, which were removed before they arrived.
    beyond: BTreeMap<String, Vec<u64>>,
    seen: BTreeMap<String, BTreeMap<String, u64>>,
    dots: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Live {
    name: String,
    site: String,
    n: u64,
    set: Setting,
}

impl Catalogue {
    pub(crate) fn checkpoint_bytes(&self) -> Result<Vec<u8>> {
        let name = |site| self.site_name(site).to_owned();
        let mut beyond: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for dot in self.state.context.cloud() {
            beyond.entry(name(dot.0)).or_default().push(dot.1);
        }
        let named = |seen: &BTreeMap<u16, u64>| seen.iter().map(|(&of, &n)| (name(of), n)).collect();
        let (mut lines, mut dots) = (Vec::new(), 0);
        for (key, entry) in self.state.store.iter() {
            for (dot, set) in entry.settings() {
                let live = Live { name: key.clone(), site: name(dot.0), n: dot.1, set };
                lines.extend(log::sealed(&serde_json::to_vec(&live).map_err(Error::internal)?));
                lines.push(b'\n');
                dots += 1;
            }
        }
        let header = Header {
            v: 1,
            heads: self.heads.iter().map(|(&site, head)| (name(site), head.clone())).collect(),
            beyond,
            seen: self.seen.iter().map(|(&site, seen)| (name(site), named(seen))).collect(),
            dots,
        };
        let mut bytes = log::sealed(&serde_json::to_vec(&header).map_err(Error::internal)?);
        bytes.push(b'\n');
        bytes.extend_from_slice(&lines);
        Ok(bytes)
    }

    /// Joins a checkpoint, of this store or of a peer.
    ///
    /// # Errors
    ///
    /// `Damaged` names the object and the line.
    pub(crate) fn join_checkpoint(&mut self, object: &str, bytes: &[u8]) -> Result<()> {
        let wrong = |line: u64, what: String| damaged(object, line, 0, &what);
        let bytes = bytes.strip_suffix(b"\n").ok_or_else(|| wrong(1, "it does not end with a line end".into()))?;
        let mut lines = bytes.split(|&byte| byte == b'\n');
        let header = header(object, lines.next().unwrap_or_default())?;
        let sites = header.heads.keys().chain(header.beyond.keys()).chain(header.seen.keys());
        sites
            .chain(header.seen.values().flat_map(BTreeMap::keys))
            .try_for_each(|site| log::check_site(site))
            .map_err(|what| wrong(1, what))?;
        let mut vector = Vector::default();
        for (site, head) in &header.heads {
            let own = self.head(site);
            if own.n == head.n && own != *head {
                return Err(crate::sync::forked(site, object));
            }
            vector.raise(self.number(site)?, head.ops);
        }
        let mut context: Context<u16> = vector.into();
        for (site, numbers) in &header.beyond {
            let site = self.number(site)?;
            numbers.iter().for_each(|&n| context.insert(Dot(site, n)));
        }
        let (mut store, nothing, mut count) = (Names::default(), Context::default(), 0);
        for (index, text) in lines.enumerate() {
            let line = index as u64 + 2;
            let live = log::unsealed(text).map_err(|what| wrong(line, what.into()))?;
            let live: Live =
                serde_json::from_slice(live).map_err(|error| wrong(line, format!("it is no entry ({error})")))?;
            log::check_name(&live.name)
                .and_then(|()| log::check_setting(&live.set))
                .map_err(|what| wrong(line, what))?;
            let dot = Dot(self.number(&live.site)?, live.n);
            if !context.contains(dot) {
                return Err(wrong(line, "its operation is in no log".into()));
            }
            store.join_at(&live.name, &nothing, &Entry::of(live.set, dot), &nothing);
            count += 1;
        }
        if count != header.dots {
            return Err(wrong(count + 1, format!("it has {count} entries instead of {}", header.dots)));
        }
        self.state.join(&Causal { store, context });
        for (site, head) in header.heads {
            if head.n > self.head(&site).n {
                let site = self.number(&site)?;
                self.heads.insert(site, head);
            }
        }
        for (site, seen) in header.seen {
            let site = self.number(&site)?;
            for (of, n) in seen {
                let of = self.number(&of)?;
                let known = self.seen.entry(site).or_default().entry(of).or_default();
                *known = n.max(*known);
            }
        }
        self.index = None;
        Ok(())
    }

    pub(crate) fn read_checkpoint(&mut self) -> Result<()> {
        let Some(newest) = self.objects.checkpoints()?.pop().filter(|&newest| newest > self.checkpoint) else {
            return Ok(());
        };
        let object = checkpoint_name(newest);
        // A newer one may have replaced it; the next call reads that.
        if let Some(bytes) = self.objects.get(&object)? {
            self.join_checkpoint(&self.objects.shown(&object), &bytes)?;
            self.checkpoint = newest;
        }
        Ok(())
    }

    /// The own log's state in the newest checkpoint, if that was not read.
    pub(crate) fn newer_head(&self) -> Result<Option<Head>> {
        let (object, bytes) = loop {
            let Some(newest) = self.objects.checkpoints()?.pop().filter(|&newest| newest > self.checkpoint) else {
                return Ok(None);
            };
            let object = checkpoint_name(newest);
            // A newer checkpoint may have replaced this one.
            if let Some(bytes) = self.objects.get(&object)? {
                break (object, bytes);
            }
        };
        let line = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
        Ok(header(&self.objects.shown(&object), line)?.heads.remove(self.site()))
    }

    /// Writes the newest checkpoint and deletes older ones.
    pub(crate) fn write_checkpoint(&mut self) -> Result<u64> {
        loop {
            let bytes = self.checkpoint_bytes()?;
            let number = self.objects.checkpoints()?.last().copied().unwrap_or(0).max(self.checkpoint) + 1;
            if self.objects.put(&checkpoint_name(number), &bytes)? {
                self.checkpoint = number;
                for older in self.objects.checkpoints()?.into_iter().filter(|&older| older < number) {
                    self.objects.delete(&checkpoint_name(older))?;
                }
                return Ok(bytes.len() as u64);
            }
            self.read_checkpoint()?;
        }
    }

    /// Deletes lines that every known site has, after a checkpoint of the state is durable.
    ///
    /// # Errors
    ///
    /// A storage error.
    pub fn prune(&mut self) -> Result<Pruned> {
        let parts = self.refresh()?;
        let own = self.site().to_owned();
        let own = self.number(&own)?;
        let mut stable: BTreeMap<Site, u64> = self.heads.iter().map(|(&site, head)| (site, head.n)).collect();
        let mut waits_for = BTreeSet::new();
        for &site in self.heads.keys().filter(|&&site| site != own) {
            for (&of, n) in stable.iter_mut().filter(|(of, _)| **of != site) {
                let confirmed = self.seen.get(&site).and_then(|seen| seen.get(&of)).copied().unwrap_or(0);
                *n = confirmed.min(*n);
                if self.heads.get(&of).is_some_and(|head| confirmed < head.changed) {
                    waits_for.insert(self.site_name(site).to_owned());
                }
            }
        }
        self.write_checkpoint()?;
        let mut lines = 0;
        for (site, list) in &parts {
            let stable = stable.get(&self.number(site)?).copied().unwrap_or(0);
            let first = list.iter().map(|part| *part.lines.start()).min().unwrap_or(1);
            let done: Vec<_> = list.iter().filter(|part| *part.lines.end() <= stable).collect();
            lines += done.iter().map(|part| *part.lines.end() + 1 - first).max().unwrap_or(0);
            done.into_iter().try_for_each(|part| self.objects.delete(&part.object))?;
        }
        Ok(Pruned { lines, waits_for: waits_for.into_iter().collect() })
    }
}

fn header(object: &str, line: &[u8]) -> Result<Header> {
    let wrong = |what: String| damaged(object, 1, 0, &what);
    let json = log::unsealed(line).map_err(|what| wrong(what.into()))?;
    let header: Header =
        serde_json::from_slice(json).map_err(|error| wrong(format!("it is no header of a checkpoint ({error})")))?;
    if header.v != 1 {
        return Err(Error::Newer(format!("{object} has version {}; use a newer Kubist", header.v)));
    }
    Ok(header)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kubist::store::{MemoryStore, Store};

    use crate::log::{self, Line};
    use crate::objects::line_name;
    use crate::{Catalogue, New};

    #[test]
    fn a_line_counts_unless_a_checkpoint_has_another_of_its_number() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new("race"));
        let mut fast = Catalogue::create_in(store.clone(), Some("bsc")).unwrap();
        let late = Catalogue::open_in(store.clone()).unwrap();
        fast.add(&[New { name: "a".into(), tags: vec!["x".into()], ..New::default() }]).unwrap();
        let behind = Catalogue::open_in(store.clone()).unwrap();
        fast.prune().unwrap();
        let put = |catalogue: &Catalogue, n: u64| {
            let head = catalogue.head("bsc");
            let line = Line {
                v: 1,
                n,
                prev: head.hash,
                id: (n == 1).then(|| "x".into()),
                at: 0,
                before: head.ops,
                ops: Vec::new(),
                seen: std::collections::BTreeMap::new(),
            };
            let counts = catalogue.put(&line, &log::encode(&line).unwrap()).unwrap();
            (counts, store.get(&line_name("bsc", n)).unwrap().is_some())
        };
        assert_eq!(put(&late, 1), (false, false));
        assert_eq!(put(&behind, 2), (true, true));
        fast.refresh().unwrap();
        assert_eq!(fast.sites()[0].lines, 2);
    }
}
