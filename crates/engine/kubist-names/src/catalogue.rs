//! The handle of a catalogue: reads its objects in the store, and commits changes.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use kubist::store::{Content, Store};
use kubist_catalog::error::store_error;
use kubist_crdt::{Causal, Context, Dot, DotStore};
use kubist_types::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::entry::{CatalogueEntry, Entry, Names, Scalar, Setting, Site};
use crate::log::{self, Head, Line, Op, damaged};
use crate::objects::{Objects, Parts, line_name, pack_name, route};
use crate::search::{Index, Search};

/// A log with more objects than this is packed.
const PACK_FROM: usize = 64;
/// Limit of attempts to read the list of objects while other processes change it.
const ATTEMPTS: usize = 200;
/// Limit of operations in a line.
const LINE_OPS: usize = 4096;

/// The catalogue of one site.
pub struct Catalogue {
    pub(crate) objects: Objects,
    site: String,
    id: String,
    sites: Vec<String>,
    numbers: BTreeMap<String, Site>,
    pub(crate) state: Causal<Site, Names>,
    pub(crate) heads: BTreeMap<Site, Head>,
    /// By site, the lines that it has confirmed for every other site.
    pub(crate) seen: BTreeMap<Site, BTreeMap<Site, u64>>,
    /// The number of the newest checkpoint that this handle has read.
    pub(crate) checkpoint: u64,
    pub(crate) index: Option<Index>,
}

/// A new entry, or additions to an existing one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct New {
    /// The name, such as `airway/run-17`.
    pub name: String,
    /// The kind of entry, such as `table` or `run`.
    pub kind: Option<String>,
    /// The responsible person.
    pub owner: Option<String>,
    /// A note.
    pub note: Option<String>,
    /// Tags.
    pub tags: Vec<String>,
    /// The locations of copies.
    pub locations: Vec<String>,
    /// Parameters.
    pub params: BTreeMap<String, Scalar>,
}

/// A site of a catalogue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SiteInfo {
    /// The site's name.
    pub site: String,
    /// Whether this catalogue is the site's own.
    pub own: bool,
    /// The number of lines in its log.
    pub lines: u64,
    /// The number of operations in its log.
    pub operations: u64,
}

#[derive(Serialize, Deserialize)]
struct SiteObject {
    v: u32,
    site: String,
    id: String,
}

/// An operation before it has a dot.
#[derive(Clone)]
struct Draft {
    name: String,
    set: Option<Setting>,
    gone: Vec<Dot<Site>>,
}

impl Catalogue {
    /// Creates a catalogue at an unused location, a directory or the URL of a store. `site` is its name among all sites
    /// that exchange changes; the default is the machine's name and a random number.
    ///
    /// # Errors
    ///
    /// `Invalid` if the site's name cannot be used or the location is not empty; a storage error.
    pub fn create(location: &str, site: Option<&str>) -> Result<Catalogue> {
        Catalogue::create_in(kubist::Location::parse(location)?.create().map_err(store_error)?, site)
    }

    /// Creates a catalogue in an empty store.
    ///
    /// # Errors
    ///
    /// As for [`Catalogue::create`].
    pub fn create_in(store: Arc<dyn Store>, site: Option<&str>) -> Result<Catalogue> {
        let id = random()?;
        let site = site.map_or_else(|| format!("{}-{}", machine(), &id[..4]), str::to_owned);
        log::check_site(&site).map_err(Error::Invalid)?;
        let objects = Objects(store);
        if !objects.list("")?.is_empty() || !objects.0.logs().map_err(store_error)?.is_empty() {
            let location = kubist_types::shown::without_password(objects.0.location());
            return Err(Error::invalid(format!("cannot make a catalogue in {location}: it is not empty")));
        }
        let object = SiteObject { v: 1, site, id };
        objects.put("site", &serde_json::to_vec(&object).map_err(Error::internal)?)?;
        // If another process created the object first, that one counts.
        Catalogue::open_in(objects.0)
    }

    /// Opens the catalogue at a location.
    ///
    /// # Errors
    ///
    /// `NotATable` if there is no catalogue; `Damaged` names the object and the line; a storage error.
    pub fn open(location: &str) -> Result<Catalogue> {
        match kubist::Location::parse(location)?.find().map_err(store_error)? {
            Content::Store(store) => Catalogue::open_in(store),
            Content::NoStore(why) => Err(absent(location, why)),
            Content::Nothing => Err(absent(location, "nothing is there")),
        }
    }

    /// Opens the catalogue in a store.
    ///
    /// # Errors
    ///
    /// As for [`Catalogue::open`].
    pub fn open_in(store: Arc<dyn Store>) -> Result<Catalogue> {
        let objects = Objects(store);
        let Some(bytes) = objects.get("site")? else {
            return Err(absent(objects.0.location(), "it holds no catalogue"));
        };
        let wrong = |what: String| Error::Damaged { file: objects.shown("site"), offset: 0, what };
        let own: SiteObject = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
        if own.v != 1 {
            return Err(Error::Newer(format!("{} has version {}; use a newer Kubist", objects.shown("site"), own.v)));
        }
        log::check_site(&own.site).map_err(wrong)?;
        let mut catalogue = Catalogue {
            objects,
            site: own.site,
            id: own.id,
            sites: Vec::new(),
            numbers: BTreeMap::new(),
            state: Causal::default(),
            heads: BTreeMap::new(),
            seen: BTreeMap::new(),
            checkpoint: 0,
            index: None,
        };
        catalogue.refresh()?;
        Ok(catalogue)
    }

    /// The name of this catalogue's site.
    pub fn site(&self) -> &str {
        &self.site
    }

    /// The location, without a password.
    pub fn location(&self) -> String {
        kubist_types::shown::without_password(self.objects.0.location())
    }

    /// The number of names.
    pub fn len(&self) -> usize {
        self.state.store.len()
    }

    /// Whether there is no name.
    pub fn is_empty(&self) -> bool {
        self.state.store.is_empty()
    }

    /// All names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.state.store.iter().map(|(name, _)| name.as_str())
    }

    /// Returns the properties of a name.
    ///
    /// # Errors
    ///
    /// `Missing` if there is no such name, with similar ones.
    pub fn get(&self, name: &str) -> Result<CatalogueEntry> {
        Ok(self.entry(name)?.listed(name))
    }

    /// Returns the sorted names of the entries that satisfy the search.
    ///
    /// # Errors
    ///
    /// `Invalid` for a wrong condition names the character.
    pub fn find(&mut self, wanted: &Search) -> Result<Vec<String>> {
        self.index.get_or_insert_with(|| Index::of(&self.state.store)).find(wanted)
    }

    /// Builds the columns of [`Catalogue::find`] now.
    pub fn prepare(&mut self) {
        self.index.get_or_insert_with(|| Index::of(&self.state.store));
    }

    /// The sites whose changes are here.
    pub fn sites(&self) -> Vec<SiteInfo> {
        let heads = self.heads.iter().map(|(&site, head)| SiteInfo {
            site: self.sites[usize::from(site)].clone(),
            own: self.sites[usize::from(site)] == self.site,
            lines: head.n,
            operations: head.ops,
        });
        let mut sites: Vec<SiteInfo> = heads.collect();
        sites.sort_by(|one, two| one.site.cmp(&two.site));
        sites
    }

    fn entry(&self, name: &str) -> Result<&Entry> {
        self.state.store.get(name).ok_or_else(|| {
            let lower = name.to_lowercase();
            let last = lower.rsplit('/').next().unwrap_or_default();
            let near: Vec<&str> = self.names().filter(|known| known.to_lowercase().contains(last)).take(3).collect();
            let hint = if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(" or ")) };
            Error::Missing { location: format!("{name:?} in the catalogue {}", self.location()), hint }
        })
    }

    /// Adds names, or properties to known names. A property that already has the value is not written again.
    ///
    /// # Errors
    ///
    /// `Invalid` for a name or value that cannot be stored; a storage error. Names before the failing one may be added.
    pub fn add(&mut self, new: &[New]) -> Result<()> {
        let mut settings = Vec::new();
        for new in new {
            log::check_name(&new.name).map_err(Error::Invalid)?;
            let texts = [
                (&new.kind, Setting::Kind as fn(String) -> Setting),
                (&new.owner, Setting::Owner),
                (&new.note, Setting::Note),
            ];
            let texts = texts.into_iter().filter_map(|(text, setting)| text.clone().map(setting));
            let tags = new.tags.iter().cloned().map(Setting::Tag);
            let locations = new.locations.iter().cloned().map(Setting::Location);
            let params = new.params.iter().map(|(name, value)| Setting::Param(name.clone(), value.clone()));
            settings
                .extend(texts.chain(tags).chain(locations).chain(params).map(|setting| (new.name.clone(), setting)));
        }
        for (_, setting) in &settings {
            log::check_setting(setting).map_err(Error::Invalid)?;
        }
        let settings = last_of_each(settings);
        for chunk in chunks(&settings) {
            self.commit(&mut |catalogue| {
                Ok(chunk.iter().filter_map(|(name, setting)| catalogue.draft(name, setting)).collect())
            })?;
        }
        Ok(())
    }

    /// The operation for a setting; `None` if nothing changes.
    fn draft(&self, name: &str, setting: &Setting) -> Option<Draft> {
        let nothing = Entry::default();
        let entry = self.state.store.get(name).unwrap_or(&nothing);
        let same = |values: &mut dyn Iterator<Item = &String>, text: &String| {
            values.next() == Some(text) && values.next().is_none()
        };
        let known = match setting {
            Setting::Kind(text) => same(&mut entry.kind.values(), text),
            Setting::Owner(text) => same(&mut entry.owner.values(), text),
            Setting::Note(text) => same(&mut entry.note.values(), text),
            Setting::Tag(tag) => entry.tags.get(tag).is_some(),
            Setting::Location(location) => entry.locations.get(location).is_some(),
            Setting::Param(name, value) => entry.params.get(name).is_some_and(|values| {
                let mut values = values.values();
                values.next() == Some(value) && values.next().is_none()
            }),
            Setting::Reads(..) => false,
        };
        let own = self.numbers.get(&self.site).copied();
        let gone =
            || own.map_or_else(|| entry.replaced_by(setting, Site::MAX), |site| entry.replaced_by(setting, site));
        (!known).then(|| Draft { name: name.to_owned(), set: Some(setting.clone()), gone: gone() })
    }

    /// Changes properties of a known name.
    ///
    /// # Errors
    ///
    /// `Missing` if there is no such name; as for [`Catalogue::add`].
    pub fn set(&mut self, name: &str, settings: &[Setting]) -> Result<()> {
        settings.iter().try_for_each(|setting| log::check_setting(setting).map_err(Error::Invalid))?;
        let settings = last_of_each(settings.iter().map(|setting| (name.to_owned(), setting.clone())).collect());
        self.commit(&mut |catalogue| {
            catalogue.entry(name)?;
            Ok(settings.iter().filter_map(|(name, setting)| catalogue.draft(name, setting)).collect())
        })
    }

    /// Removes properties of a known name. The value of a setting is used only for tags and locations.
    ///
    /// # Errors
    ///
    /// `Missing` if there is no such name; a storage error.
    pub fn unset(&mut self, name: &str, settings: &[Setting]) -> Result<()> {
        self.commit(&mut |catalogue| {
            let entry = catalogue.entry(name)?;
            let gone = settings.iter().map(|setting| entry.replaced_by(setting, Site::MAX));
            let gone = gone.filter(|gone| !gone.is_empty());
            Ok(gone.map(|gone| Draft { name: name.to_owned(), set: None, gone }).collect())
        })
    }

    /// Removes a name. Concurrent changes of other sites stay.
    ///
    /// # Errors
    ///
    /// `Missing` if there is no such name; a storage error.
    pub fn remove(&mut self, name: &str) -> Result<()> {
        self.commit(&mut |catalogue| {
            let mut gone = Vec::new();
            catalogue.entry(name)?.each_dot(&mut |dot| gone.push(dot));
            Ok(vec![Draft { name: name.to_owned(), set: None, gone }])
        })
    }

    /// Counts one read of a name.
    ///
    /// # Errors
    ///
    /// `Missing` if there is no such name; a storage error.
    pub fn count_read(&mut self, name: &str) -> Result<()> {
        self.commit(&mut |catalogue| {
            let entry = catalogue.entry(name)?;
            let own = catalogue.numbers.get(&catalogue.site).copied();
            let tally = entry.reads.iter().filter(|(dot, _)| Some(dot.0) == own);
            let (up, down) = tally.fold((1, 0), |(up, down), (_, it)| (it.up.saturating_add(up), it.down.max(down)));
            Ok(catalogue.draft(name, &Setting::Reads(up, down)).into_iter().collect())
        })
    }

    /// Confirms the lines of all sites, for [`Catalogue::prune`] at other sites.
    pub(crate) fn confirm(&mut self) -> Result<()> {
        let seen = |catalogue: &Catalogue| {
            let heads =
                catalogue.heads.iter().map(|(&site, head)| (catalogue.sites[usize::from(site)].clone(), head.n));
            heads.filter(|(site, _)| *site != catalogue.site).collect()
        };
        self.write(&mut |catalogue| Ok(Some((Vec::new(), seen(catalogue)))))
    }

    fn commit(&mut self, draft: &mut dyn FnMut(&Catalogue) -> Result<Vec<Draft>>) -> Result<()> {
        self.write(&mut |catalogue| {
            let drafts = draft(catalogue)?;
            Ok((!drafts.is_empty()).then(|| (drafts, BTreeMap::new())))
        })
    }

    /// Commits a line. If another process takes its number, makes the line again from the newest state.
    #[expect(clippy::type_complexity, reason = "the content of one line")]
    fn write(
        &mut self,
        content: &mut dyn FnMut(&Catalogue) -> Result<Option<(Vec<Draft>, BTreeMap<String, u64>)>>,
    ) -> Result<()> {
        for _ in 0..ATTEMPTS {
            let parts = self.refresh()?;
            let Some((drafts, seen)) = content(self)? else { return Ok(()) };
            let site = self.number(&self.site.clone())?;
            let head = self.heads.get(&site).cloned().unwrap_or_default();
            let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
            let id = (head.n == 0).then(|| self.id.clone());
            let ops = drafts.into_iter().map(|draft| self.op(draft)).collect();
            let line = Line { v: 1, n: head.n + 1, prev: head.hash, id, at, before: head.ops, ops, seen };
            let bytes = log::encode(&line)?;
            if self.put(&line, &bytes)? {
                self.apply(site, line, &bytes)?;
                let own = self.site.clone();
                return self.tidy(&own, &parts);
            }
        }
        Err(Error::Busy(format!("the catalogue {} is changed by too many processes; try again", self.location())))
    }

    fn op(&self, draft: Draft) -> Op {
        let mut gone: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for dot in draft.gone {
            gone.entry(self.sites[usize::from(dot.0)].clone()).or_default().push(dot.1);
        }
        Op { name: draft.name, set: draft.set, gone }
    }

    /// Returns false if another line has the number; see "Late writers" in the crate's invariants.
    pub(crate) fn put(&self, line: &Line, bytes: &[u8]) -> Result<bool> {
        let object = line_name(&self.site, line.n);
        if !self.objects.put(&object, &[bytes, b"\n"].concat())? {
            return Ok(false);
        }
        let parts = self.objects.parts()?;
        let covering = parts
            .get(&self.site)
            .into_iter()
            .flatten()
            .find(|part| part.object != object && part.lines.contains(&line.n));
        let counts = match covering {
            Some(part) => match self.objects.get(&part.object)? {
                Some(pack) => {
                    let lines = log::decode(&self.objects.shown(&part.object), &self.site, &pack, *part.lines.start())?;
                    lines.iter().any(|(other, text)| other.n == line.n && *text == bytes)
                }
                None => return self.put(line, bytes),
            },
            None => self
                .newer_head()?
                .is_none_or(|head| head.n < line.n || (head.n == line.n && head.hash == log::hash(bytes))),
        };
        if !counts {
            self.objects.delete(&object)?;
        }
        Ok(counts)
    }

    /// Reads new lines of other processes; returns the objects with lines.
    ///
    /// # Errors
    ///
    /// `Damaged` names the object and the line; a storage error.
    pub(crate) fn refresh(&mut self) -> Result<Parts> {
        let mut gap = None;
        for _ in 0..ATTEMPTS {
            let parts = self.objects.parts()?;
            self.read_checkpoint()?;
            match self.read_parts(&parts)? {
                None => return Ok(parts),
                missing => gap = missing,
            }
        }
        let (object, n) = gap.unwrap_or_default();
        Err(Error::Damaged {
            file: self.objects.shown(&object),
            offset: 0,
            what: format!("line {n} of its log is missing"),
        })
    }

    /// Reads the objects. Returns the object and number of a missing line, which never existed or was just packed.
    fn read_parts(&mut self, parts: &Parts) -> Result<Option<(String, u64)>> {
        for (name, list) in parts {
            let site = self.number(name)?;
            let after = self.heads.get(&site).map_or(0, |head| head.n);
            let (route, last) = route(list, after);
            for part in route {
                let Some(bytes) = self.objects.get(&part.object)? else {
                    return Ok(Some((part.object, *part.lines.start())));
                };
                let object = self.objects.shown(&part.object);
                let lines = log::decode(&object, name, &bytes, *part.lines.start())?;
                if lines.last().map(|(line, _)| line.n) != Some(*part.lines.end()) {
                    return Err(damaged(&object, lines.len() as u64, bytes.len(), "lines are missing at its end"));
                }
                let first = *part.lines.start();
                for (line, bytes) in lines {
                    let number = line.n - first + 1;
                    self.follow(site, line, bytes).map_err(|what| damaged(&object, number, 0, &what))?;
                }
            }
            if let Some(beyond) = list.iter().find(|part| *part.lines.start() > last + 1) {
                return Ok(Some((beyond.object.clone(), last + 1)));
            }
        }
        Ok(None)
    }

    /// Applies a line; the error says why it does not belong to this log.
    fn follow(&mut self, site: Site, line: Line, bytes: &[u8]) -> std::result::Result<(), String> {
        let head = self.heads.get(&site).cloned().unwrap_or_default();
        if line.n < head.n {
            return Ok(());
        }
        if line.n == head.n {
            let same = log::hash(bytes) == head.hash;
            return if same { Ok(()) } else { Err("it differs from the line that was read before".into()) };
        }
        if line.prev != head.hash || line.before != head.ops || (line.n == 1) != line.id.is_some() {
            return Err("it does not follow the line before it".into());
        }
        self.apply(site, line, bytes).map_err(|error| error.to_string())
    }

    fn apply(&mut self, site: Site, line: Line, bytes: &[u8]) -> Result<()> {
        let head = self.heads.get(&site).cloned().unwrap_or_default().after(&line, bytes);
        for (k, op) in line.ops.into_iter().enumerate() {
            let dot = Dot(site, line.before + k as u64 + 1);
            let mut context = Context::default();
            context.insert(dot);
            for (of, numbers) in op.gone {
                let of = self.number(&of)?;
                numbers.into_iter().for_each(|n| context.insert(Dot(of, n)));
            }
            let added = op.set.map_or_else(Entry::default, |setting| Entry::of(setting, dot));
            self.state.store.join_at(&op.name, &self.state.context, &added, &context);
            self.state.context.join(&context);
        }
        for (of, n) in line.seen {
            let of = self.number(&of)?;
            let known = self.seen.entry(site).or_default().entry(of).or_default();
            *known = n.max(*known);
        }
        self.heads.insert(site, head);
        self.index = None;
        Ok(())
    }

    pub(crate) fn number(&mut self, site: &str) -> Result<Site> {
        if let Some(&number) = self.numbers.get(site) {
            return Ok(number);
        }
        let number = Site::try_from(self.sites.len()).ok().filter(|&number| number < Site::MAX);
        let number = number.ok_or_else(|| Error::invalid(format!("{} has more than 65534 sites", self.location())))?;
        self.sites.push(site.to_owned());
        self.numbers.insert(site.to_owned(), number);
        Ok(number)
    }

    pub(crate) fn site_name(&self, site: Site) -> &str {
        &self.sites[usize::from(site)]
    }

    pub(crate) fn head(&self, site: &str) -> Head {
        self.numbers.get(site).and_then(|number| self.heads.get(number)).cloned().unwrap_or_default()
    }

    /// Merges the newest objects of a log into a pack. An object stays if it is more than twice as long as all later
    /// objects together, so each line is copied a logarithmic number of times.
    pub(crate) fn tidy(&self, site: &str, parts: &Parts) -> Result<()> {
        let Some(list) = parts.get(site) else { return Ok(()) };
        let first = list.iter().map(|part| *part.lines.start()).min().unwrap_or(1);
        let (route, _) = route(list, first - 1);
        if route.len() <= PACK_FROM {
            return Ok(());
        }
        let mut from = route.len();
        let mut lines = 0;
        while from > 0 {
            let part = &route[from - 1].lines;
            let length = part.end() - part.start() + 1;
            if lines > 0 && length > 2 * lines {
                break;
            }
            lines += length;
            from -= 1;
        }
        let mut texts: Vec<Vec<u8>> = Vec::new();
        let start = *route[from].lines.start();
        for part in &route[from..] {
            let Some(bytes) = self.objects.get(&part.object)? else { return Ok(()) };
            for (line, text) in log::decode(&self.objects.shown(&part.object), site, &bytes, *part.lines.start())? {
                if line.n == start + texts.len() as u64 {
                    texts.push(text.to_vec());
                }
            }
        }
        let end = start + texts.len() as u64 - 1;
        self.objects.put_packs(site, start, &texts)?;
        let packs = self.objects.list(&format!("packs/{site}/"))?;
        let whole = pack_name(site, start, end);
        if !packs.contains(&whole) {
            // Long lines need several packs, so the objects stay until they are merged again.
            return Ok(());
        }
        let inside = |part: &&crate::objects::Part| {
            *part.lines.start() >= start && *part.lines.end() <= end && part.object != whole
        };
        list.iter().filter(inside).try_for_each(|part| self.objects.delete(&part.object))
    }
}

fn last_of_each(settings: Vec<(String, Setting)>) -> Vec<(String, Setting)> {
    let mut known = HashSet::new();
    let mut last = Vec::new();
    for (name, setting) in settings.into_iter().rev() {
        if known.insert((name.clone(), std::mem::discriminant(&setting), setting.field().to_owned())) {
            last.push((name, setting));
        }
    }
    last.reverse();
    last
}

/// Splits settings into chunks for one line each: at most [`LINE_OPS`], and far fewer bytes than a line may have.
fn chunks(settings: &[(String, Setting)]) -> Vec<&[(String, Setting)]> {
    let (mut chunks, mut from, mut bytes) = (Vec::new(), 0, 0);
    for (place, (name, setting)) in settings.iter().enumerate() {
        let size = name.len() + serde_json::to_vec(setting).map_or(0, |text| text.len()) + 100;
        if place > from && (place - from == LINE_OPS || bytes + size > log::LINE_BYTES / 2) {
            chunks.push(&settings[from..place]);
            (from, bytes) = (place, 0);
        }
        bytes += size;
    }
    chunks.push(&settings[from..]);
    chunks
}

fn absent(location: &str, why: &str) -> Error {
    let location = kubist_types::shown::without_password(location);
    Error::Missing {
        hint: format!(": {why}; make a catalogue with `kubist catalog create {location}`"),
        location: format!("a catalogue at {location}"),
    }
}

fn random() -> Result<String> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| Error::internal(format!("no random numbers: {error}")))?;
    Ok(format!("{:016x}", u64::from_le_bytes(bytes)))
}

/// The machine's name, reduced to the characters that a site's name may have.
fn machine() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let plain = name.trim().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' });
    let name: String = plain.take(40).collect();
    if name.is_empty() { "site".into() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubist::store::MemoryStore;

    fn tagged(name: &str) -> New {
        New { name: name.into(), tags: vec!["x".into()], ..New::default() }
    }

    #[test]
    fn a_line_of_a_late_writer_does_not_count() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new("late"));
        let mut fast = Catalogue::create_in(store.clone(), Some("bsc")).unwrap();
        fast.add(&[tagged("first")]).unwrap();
        let late = Catalogue::open_in(store.clone()).unwrap();
        (0..80).for_each(|number| fast.add(&[tagged(&format!("{number}"))]).unwrap());
        // The late writer has read line 1, and line 2 is in a pack.
        assert!(store.get(&line_name("bsc", 2)).unwrap().is_none());
        let head = late.head("bsc");
        let op = Op { name: "late".into(), set: Some(Setting::Tag("x".into())), gone: BTreeMap::new() };
        let line = Line {
            v: 1,
            n: 2,
            prev: head.hash,
            id: None,
            at: 0,
            before: head.ops,
            ops: vec![op],
            seen: BTreeMap::new(),
        };
        let bytes = log::encode(&line).unwrap();
        // A reader ignores it even before it is deleted.
        store.put_if_absent(&line_name("bsc", 2), &[&bytes[..], b"\n"].concat()).unwrap();
        assert_eq!(Catalogue::open_in(store.clone()).unwrap().len(), 81);
        store.delete(&line_name("bsc", 2)).unwrap();
        assert!(!late.put(&line, &bytes).unwrap());
        assert!(store.get(&line_name("bsc", 2)).unwrap().is_none());
        // The call makes the line again, after the newest one.
        let mut late = late;
        late.add(&[tagged("late")]).unwrap();
        fast.refresh().unwrap();
        assert_eq!((fast.len(), late.len()), (82, 82));
    }
}
