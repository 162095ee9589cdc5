//! The value of a name: a dot store with one field for each property, and its form for readers.

use std::cmp::Ordering;

use kubist_crdt::{Context, Dot, DotFun, DotMap, DotSet, DotStore, Tally};
use serde::{Deserialize, Serialize};

/// The index of a site in memory.
pub(crate) type Site = u16;

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Scalar {
    /// True or false.
    Bool(bool),
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
}

impl Scalar {
    /// The order in which several values of a parameter are shown.
    fn order(&self, other: &Scalar) -> Ordering {
        match (self, other) {
            (Scalar::Bool(one), Scalar::Bool(two)) => one.cmp(two),
            (Scalar::Number(one), Scalar::Number(two)) => one.total_cmp(two),
            (Scalar::Text(one), Scalar::Text(two)) => one.cmp(two),
            (Scalar::Bool(_), _) | (Scalar::Number(_), Scalar::Text(_)) => Ordering::Less,
            (Scalar::Number(_) | Scalar::Text(_), _) => Ordering::Greater,
        }
    }
}

impl std::fmt::Display for Scalar {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Scalar::Bool(value) => value.fmt(out),
            Scalar::Number(value) => value.fmt(out),
            Scalar::Text(value) => value.fmt(out),
        }
    }
}

/// The property that one operation gives a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Setting {
    /// The kind of entry, such as `table` or `run`.
    Kind(String),
    /// The responsible person.
    Owner(String),
    /// A note.
    Note(String),
    /// A tag.
    Tag(String),
    /// The location of a copy.
    Location(String),
    /// A parameter and its value.
    Param(String, Scalar),
    /// How often the site has read it, and how often it took a read back.
    Reads(u64, u64),
}

impl Setting {
    /// A new setting replaces one of the same kind and field.
    pub(crate) fn field(&self) -> &str {
        match self {
            Setting::Tag(field) | Setting::Location(field) | Setting::Param(field, _) => field,
            Setting::Kind(_) | Setting::Owner(_) | Setting::Note(_) | Setting::Reads(..) => "",
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Entry {
    pub kind: DotFun<Site, String>,
    pub owner: DotFun<Site, String>,
    pub note: DotFun<Site, String>,
    pub tags: DotMap<String, DotSet<Site>>,
    pub locations: DotMap<String, DotSet<Site>>,
    pub params: DotMap<String, DotFun<Site, Scalar>>,
    pub reads: DotFun<Site, Tally>,
}

pub(crate) type Names = DotMap<String, Entry>;

impl DotStore<Site> for Entry {
    fn is_empty(&self) -> bool {
        self.kind.is_empty()
            && self.owner.is_empty()
            && self.note.is_empty()
            && self.tags.is_empty()
            && self.locations.is_empty()
            && self.params.is_empty()
            && self.reads.is_empty()
    }

    fn each_dot(&self, each: &mut dyn FnMut(Dot<Site>)) {
        self.kind.each_dot(each);
        self.owner.each_dot(each);
        self.note.each_dot(each);
        self.tags.each_dot(each);
        self.locations.each_dot(each);
        self.params.each_dot(each);
        self.reads.each_dot(each);
    }

    fn only(&self, keep: &dyn Fn(Dot<Site>) -> bool) -> Entry {
        Entry {
            kind: self.kind.only(keep),
            owner: self.owner.only(keep),
            note: self.note.only(keep),
            tags: self.tags.only(keep),
            locations: self.locations.only(keep),
            params: self.params.only(keep),
            reads: self.reads.only(keep),
        }
    }

    fn join(&mut self, own: &Context<Site>, other: &Entry, others: &Context<Site>) {
        self.kind.join(own, &other.kind, others);
        self.owner.join(own, &other.owner, others);
        self.note.join(own, &other.note, others);
        self.tags.join(own, &other.tags, others);
        self.locations.join(own, &other.locations, others);
        self.params.join(own, &other.params, others);
        self.reads.join(own, &other.reads, others);
    }
}

impl Entry {
    pub fn of(setting: Setting, dot: Dot<Site>) -> Entry {
        let one = |text| DotFun::one(dot, text);
        let mut entry = Entry::default();
        match setting {
            Setting::Kind(text) => entry.kind = one(text),
            Setting::Owner(text) => entry.owner = one(text),
            Setting::Note(text) => entry.note = one(text),
            Setting::Tag(tag) => entry.tags = DotMap::default().adding(tag, dot).added,
            Setting::Location(location) => entry.locations = DotMap::default().adding(location, dot).added,
            Setting::Param(name, value) => entry.params = DotMap::one(name, DotFun::one(dot, value)),
            Setting::Reads(up, down) => entry.reads = DotFun::one(dot, Tally { up, down }),
        }
        entry
    }

    /// The dots that a new setting of `site` replaces.
    pub fn replaced_by(&self, setting: &Setting, site: Site) -> Vec<Dot<Site>> {
        let mut dots = Vec::new();
        let mut each = |dot| dots.push(dot);
        match setting {
            Setting::Kind(_) => self.kind.each_dot(&mut each),
            Setting::Owner(_) => self.owner.each_dot(&mut each),
            Setting::Note(_) => self.note.each_dot(&mut each),
            Setting::Tag(tag) => self.tags.get(tag).into_iter().for_each(|tag| tag.each_dot(&mut each)),
            Setting::Location(at) => self.locations.get(at).into_iter().for_each(|at| at.each_dot(&mut each)),
            Setting::Param(name, _) => self.params.get(name).into_iter().for_each(|it| it.each_dot(&mut each)),
            Setting::Reads(..) => self.reads.each_dot(&mut |dot| {
                if dot.0 == site {
                    each(dot);
                }
            }),
        }
        dots
    }

    /// Every dot and its setting.
    pub fn settings(&self) -> Vec<(Dot<Site>, Setting)> {
        let mut all = Vec::new();
        let texts = [
            (&self.kind, Setting::Kind as fn(String) -> Setting),
            (&self.owner, Setting::Owner),
            (&self.note, Setting::Note),
        ];
        for (register, setting) in texts {
            all.extend(register.iter().map(|(dot, text)| (dot, setting(text.clone()))));
        }
        for (set, setting) in
            [(&self.tags, Setting::Tag as fn(String) -> Setting), (&self.locations, Setting::Location)]
        {
            for (element, dots) in set.iter() {
                dots.each_dot(&mut |dot| all.push((dot, setting(element.clone()))));
            }
        }
        for (name, values) in self.params.iter() {
            all.extend(values.iter().map(|(dot, value)| (dot, Setting::Param(name.clone(), value.clone()))));
        }
        all.extend(self.reads.iter().map(|(dot, tally)| (dot, Setting::Reads(tally.up, tally.down))));
        all
    }

    /// The form for readers.
    pub fn listed(&self, name: &str) -> CatalogueEntry {
        let texts = |register: &DotFun<Site, String>| distinct(register.values().cloned(), String::cmp);
        CatalogueEntry {
            name: name.to_owned(),
            kind: texts(&self.kind),
            owner: texts(&self.owner),
            note: texts(&self.note),
            tags: self.tags.elements().cloned().collect(),
            locations: self.locations.elements().cloned().collect(),
            params: self
                .params
                .iter()
                .map(|(name, values)| (name.clone(), distinct(values.values().cloned(), Scalar::order)))
                .collect(),
            reads: self.reads.sum(),
        }
    }
}

/// Sorted values without repetitions: two sites may write the same value, and each has its own order of dots.
fn distinct<T: PartialEq>(values: impl Iterator<Item = T>, order: impl Fn(&T, &T) -> Ordering) -> Vec<T> {
    let mut all: Vec<T> = values.collect();
    all.sort_by(order);
    all.dedup();
    all
}

/// A name and its properties, for readers. A property that sites wrote concurrently has all their values, in order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CatalogueEntry {
    /// The name.
    pub name: String,
    /// The kind of entry, such as `table` or `run`.
    pub kind: Vec<String>,
    /// The responsible person.
    pub owner: Vec<String>,
    /// The note.
    pub note: Vec<String>,
    /// The tags, in order.
    pub tags: Vec<String>,
    /// The locations of copies, in order.
    pub locations: Vec<String>,
    /// The parameters.
    pub params: std::collections::BTreeMap<String, Vec<Scalar>>,
    /// How often it was opened by its name.
    pub reads: i128,
}
