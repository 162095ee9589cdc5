//! Files that are asked as one: each with its index, or without one.
//!
//! A file is opened when a block of it is read, and not before: a rare question to a thousand files reads those
//! that matter.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arrow_array::ArrayRef;
use arrow_schema::DataType;
use kubist_expr::{Nulls, Zone};
use kubist_types::{Cancel, Error, Result};

use crate::build::{self, BuildOptions, Progress};
use crate::layout::{Block, FileFormat, Layout};
use crate::library::Library;
use crate::model::Device;
use crate::schedule::{self, Policy};
use crate::shape::{Rect, Tiling};
use crate::sidecar::{self, Index, Indexed};
use crate::source::{self, Reads, Source};
use crate::summary;

/// The arrays of several `.npy` files, which have no names of their own, where they are asked together.
const UNNAMED: &str = "value";
/// Files of which a thread opens that many are opened by several, but not by more than [`MOST_OPENING`].
const FILES_EACH: usize = 32;
const MOST_OPENING: usize = 16;
/// Variables of fewer axes are held whole up to this size.
const HELD: u64 = 8 << 20;

/// A file and what is known of it.
pub struct Member {
    pub path: PathBuf,
    pub index: Option<Index>,
    layout: Layout,
    source: OnceLock<Source>,
    library: Option<Arc<Library>>,
    held: Mutex<HashMap<usize, ArrayRef>>,
}

impl Member {
    /// With its index, which must be of the file as it is now.
    fn indexed(path: &Path, into: Option<&Path>, library: Option<&Arc<Library>>) -> Result<Member> {
        let index = sidecar::open(&sidecar::path_of(path, into))?;
        source::is_still(path, &index.key)?;
        Ok(Member::new(path, index.layout.clone(), Some(index), library))
    }

    fn new(path: &Path, layout: Layout, index: Option<Index>, library: Option<&Arc<Library>>) -> Member {
        let library = library.cloned();
        Member { path: path.to_path_buf(), index, layout, source: OnceLock::new(), library, held: Mutex::default() }
    }

    fn plain(path: &Path, library: Option<&Arc<Library>>, cancel: &Cancel) -> Result<Member> {
        let source = Source::open(path, library, cancel)?;
        let member = Member::new(path, source.layout.clone(), None, library);
        // Nobody else has it yet.
        let _ = member.source.set(source);
        Ok(member)
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The file, opened when it is first needed.
    ///
    /// # Errors
    ///
    /// As of [`Source::known`].
    pub fn source(&self) -> Result<&Source> {
        if let Some(source) = self.source.get() {
            return Ok(source);
        }
        let index = self.index.as_ref().ok_or_else(|| Error::internal("a file without an index was not opened"))?;
        let source = Source::known(&self.path, &index.key, self.layout.clone(), self.library.as_ref())?;
        Ok(self.source.get_or_init(|| source))
    }

    /// Whether it was opened.
    pub fn is_open(&self) -> bool {
        self.source.get().is_some()
    }

    pub fn device(&self) -> Device {
        // Without a measurement: a common solid-state disk.
        self.index.as_ref().map_or(Device { latency: 1e-4, bandwidth: 1e9, workers: 1 }, |index| index.device)
    }

    pub fn known(&self, variable: usize) -> Option<&Indexed> {
        self.index.as_ref()?.variables.get(variable)?.as_ref()
    }

    /// The blocks of a variable: those of the index, or those that an index would have.
    ///
    /// # Errors
    ///
    /// `Invalid` if there would be too many.
    pub fn tiling(&self, variable: usize) -> Result<Tiling> {
        match self.known(variable) {
            Some(indexed) => Ok(indexed.tiling.clone()),
            None => self.layout.tiling(&self.layout.variables[variable], &Block::default()),
        }
    }

    /// What is known of a variable's values in a rectangle of its positions.
    pub fn zone(&self, variable: usize, rect: &Rect, data_type: &DataType) -> Zone {
        let unknown = Zone { min: 0, max: u64::MAX, nulls: Nulls::Some };
        let known = match self.known(variable) {
            Some(indexed) => indexed.summaries.over(&indexed.tiling, rect),
            // Without an index the file itself says what was never written.
            None => summary::of_unwritten(&self.layout, &self.layout.variables[variable], rect),
        };
        known.map_or(unknown, |summary| summary.zone(data_type))
    }

    /// All values of a variable, if it is small: it has fewer axes than what is asked, and is needed often.
    ///
    /// # Errors
    ///
    /// As of [`Source::fetch`].
    pub fn held(&self, variable: usize, reads: &Reads, cancel: &Cancel) -> Result<Option<ArrayRef>> {
        let whole = Rect::whole(&self.layout.shape(&self.layout.variables[variable]));
        if whole.len().saturating_mul(8) > HELD {
            return Ok(None);
        }
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(array) = held.get(&variable) {
            return Ok(Some(array.clone()));
        }
        let source = self.source()?;
        let of = &source.layout.variables[variable];
        let fetched = source.fetch(of, std::slice::from_ref(&whole), HELD, false, reads, cancel)?;
        let array = fetched.array(&whole)?;
        held.insert(variable, array.clone());
        Ok(Some(array))
    }
}

/// A path as JSON can say it: its bytes need not be text.
fn shown<S: serde::Serializer>(path: &Path, to: S) -> std::result::Result<S::Ok, S::Error> {
    to.collect_str(&path.display())
}

/// What became of a file that was to be indexed.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Built {
    #[serde(serialize_with = "shown")]
    pub file: PathBuf,
    #[serde(serialize_with = "shown")]
    pub index: PathBuf,
    pub bytes: u64,
    pub index_bytes: u64,
    /// False where a sound index was there already.
    pub is_new: bool,
    pub damaged: Vec<String>,
    pub left_out: Vec<String>,
    /// Variables that only the library can read, and why.
    pub by_library: Vec<String>,
    pub device: Device,
}

/// Indexes a file, unless that is done already.
///
/// # Errors
///
/// `Refused` if its index is of an older state and `refresh` is not given; as of [`build::build`].
pub fn index(
    path: &Path,
    into: Option<&Path>,
    options: &BuildOptions,
    refresh: bool,
    library: Option<&Arc<Library>>,
    progress: Progress<'_>,
    cancel: &Cancel,
) -> Result<Built> {
    let at = sidecar::path_of(path, into);
    let older = match sidecar::open(&at) {
        Ok(older) => Some(older),
        Err(Error::Missing { .. }) => None,
        // An index that cannot be read is made anew when that is asked.
        Err(_) if refresh => None,
        Err(error) => return Err(error),
    };
    if let Some(older) = &older {
        match source::is_still(path, &older.key) {
            Ok(()) if is_as_asked(older, options) => return Ok(built(path, older.clone(), false)),
            Ok(()) => {}
            Err(Error::Refused(_)) if refresh => {}
            Err(error) => return Err(error),
        }
    }
    let source = Source::open(path, library, cancel)?;
    let options = completed(options, older.as_ref());
    // What did not grow was changed.
    let grown = older.filter(|older| older.key.bytes < source.key().bytes);
    let index = build::build(&source, &at, &options, grown.as_ref(), progress, cancel)?;
    Ok(built(path, index, true))
}

/// Whether an index has all that is asked for.
fn is_as_asked(index: &Index, options: &BuildOptions) -> bool {
    let has = |name: &String| {
        let at = index.layout.variables.iter().position(|variable| variable.name == *name);
        at.is_some_and(|at| index.variables[at].is_some())
    };
    options.block.as_ref().is_none_or(|block| *block == index.block)
        && options.sorted.is_none_or(|share| share == index.sorted)
        && options.variables.as_ref().is_none_or(|names| names.iter().all(has))
}

/// What is not said is as an index has it that was there before.
fn completed(options: &BuildOptions, older: Option<&Index>) -> BuildOptions {
    let Some(older) = older else { return options.clone() };
    let all = older.variables.iter().all(Option::is_some);
    let named = || {
        let indexed = older.layout.variables.iter().zip(&older.variables).filter(|(_, indexed)| indexed.is_some());
        indexed.map(|(variable, _)| variable.name.clone()).collect()
    };
    BuildOptions {
        variables: options.variables.clone().or_else(|| (!all).then(named)),
        block: options.block.clone().or_else(|| Some(older.block.clone())),
        sorted: options.sorted.or(Some(older.sorted)),
        workers: options.workers,
    }
}

fn built(path: &Path, index: Index, is_new: bool) -> Built {
    let of_library =
        |variable: &crate::layout::Variable| variable.needs_library().map(|why| format!("{}: {why}", variable.name));
    Built {
        file: path.to_path_buf(),
        bytes: index.key.bytes,
        index_bytes: index.bytes,
        is_new,
        by_library: index.layout.variables.iter().filter_map(of_library).collect(),
        left_out: index.layout.left_out,
        damaged: index.damaged,
        device: index.device,
        index: index.path,
    }
}

/// Files that have the same variables over the same axes.
pub struct Files {
    pub members: Vec<Member>,
}

impl Files {
    /// Opens files by their indices.
    ///
    /// # Errors
    ///
    /// `Missing` if one has no index; `Refused` if one changed; `Invalid` if they do not fit together; `Damaged`;
    /// `Newer`; a storage error; `Cancelled`.
    pub fn open(
        paths: &[PathBuf],
        into: Option<&Path>,
        library: Option<&Arc<Library>>,
        cancel: &Cancel,
    ) -> Result<Files> {
        let open = |at: usize| Member::indexed(&paths[at], into, library);
        let (members, _) = schedule::run(paths.len(), opening(paths.len()), Policy::default(), cancel, &open)?;
        Files::of(members)
    }

    /// Opens files of which any may lack an index: they are then scanned.
    ///
    /// # Errors
    ///
    /// As of `open`, without the first.
    pub fn open_any(
        paths: &[PathBuf],
        into: Option<&Path>,
        library: Option<&Arc<Library>>,
        cancel: &Cancel,
    ) -> Result<Files> {
        let open = |at: usize| match Member::indexed(&paths[at], into, library) {
            Err(Error::Missing { .. }) => Member::plain(&paths[at], library, cancel),
            outcome => outcome,
        };
        let (members, _) = schedule::run(paths.len(), opening(paths.len()), Policy::default(), cancel, &open)?;
        Files::of(members)
    }

    fn of(mut members: Vec<Member>) -> Result<Files> {
        let Some(first) = members.first() else { return Err(Error::invalid("no files were named")) };
        for other in &members[1..] {
            alike(first, other)?;
        }
        let unnamed = members.iter().all(|member| is_unnamed(&member.layout));
        if members.len() > 1 && unnamed {
            for member in &mut members {
                member.layout.variables[0].name = UNNAMED.into();
            }
        }
        Ok(Files { members })
    }
}

/// Threads that open so many files: of many, more than run at once, as most wait for a disk or a network.
fn opening(files: usize) -> usize {
    build::workers().max((files / FILES_EACH).min(MOST_OPENING))
}

/// Whether a file's only array has no name, and is called after its file.
fn is_unnamed(layout: &Layout) -> bool {
    layout.format == FileFormat::Npy && layout.variables.len() == 1
}

/// Whether two files can be asked as one: only the first axis of a variable may differ in length.
fn alike(first: &Member, other: &Member) -> Result<()> {
    let differ =
        |what: String| Error::invalid(format!("{} and {} differ: {what}", first.path.display(), other.path.display()));
    let names =
        |member: &Member| member.layout.variables.iter().map(|variable| variable.name.clone()).collect::<Vec<_>>();
    let unnamed = is_unnamed(&first.layout) && is_unnamed(&other.layout);
    if names(first) != names(other) && !unnamed {
        return Err(differ("they do not have the same variables".into()));
    }
    for (a, b) in first.layout.variables.iter().zip(&other.layout.variables) {
        if a.data_type() != b.data_type() {
            return Err(differ(format!("{} is {} and {}", a.name, a.data_type(), b.data_type())));
        }
        if a.unit != b.unit {
            let shown = |unit: &Option<String>| unit.clone().unwrap_or_else(|| "nothing".into());
            return Err(differ(format!("{} is in {} and in {}", a.name, shown(&a.unit), shown(&b.unit))));
        }
        if let (Some(one), Some(two)) = (&a.calendar, &b.calendar)
            && one != two
        {
            return Err(differ(format!("{} is of the calendars {one} and {two}", a.name)));
        }
        let axes = |member: &Member, variable: &crate::layout::Variable| -> Vec<(String, u64)> {
            let axis = |axis: &usize| {
                let dimension = &member.layout.dimensions[*axis];
                (dimension.name.clone(), dimension.length)
            };
            variable.dimensions.iter().map(axis).collect()
        };
        let (left, right) = (axes(first, a), axes(other, b));
        let same = left.len() == right.len()
            && left.iter().zip(&right).enumerate().all(|(at, (a, b))| a.0 == b.0 && (at == 0 || a.1 == b.1));
        if !same {
            let lengths = |axes: &[(String, u64)]| axes.iter().map(|(_, length)| *length).collect::<Vec<u64>>();
            return Err(differ(format!("{} has the shapes {:?} and {:?}", a.name, lengths(&left), lengths(&right))));
        }
    }
    Ok(())
}

/// What files are, for people and programs.
#[derive(Clone, Debug, serde::Serialize)]
pub struct About {
    pub files: usize,
    pub bytes: u64,
    pub index_bytes: u64,
    pub device: Device,
    pub variables: Vec<AboutVariable>,
    pub left_out: Vec<String>,
    pub damaged: Vec<String>,
}

/// A variable of the first file.
#[derive(Clone, Debug, serde::Serialize)]
pub struct AboutVariable {
    pub name: String,
    #[serde(rename = "type")]
    pub data_type: String,
    pub unit: Option<String>,
    /// Of a time in `UNIT since DATE`.
    pub calendar: Option<String>,
    pub dimensions: Vec<String>,
    pub shape: Vec<u64>,
    pub width: u64,
    /// Positions of a block along each axis; none if it is not indexed.
    pub block: Option<Vec<u64>>,
    pub sorted_blocks: usize,
    /// It holds the bounds of the cells of another variable.
    pub is_bounds: bool,
}

impl Files {
    /// What conditions can name.
    pub fn names(&self) -> arrow_schema::SchemaRef {
        crate::grid::Grid::names(self.members[0].layout())
    }

    pub fn about(&self) -> About {
        let first = &self.members[0];
        let layout = first.layout();
        let variable = |(at, variable): (usize, &crate::layout::Variable)| {
            let known = first.known(at);
            AboutVariable {
                name: variable.name.clone(),
                data_type: variable.data_type().to_string(),
                unit: variable.unit.clone(),
                calendar: variable.calendar.clone(),
                dimensions: variable.dimensions.iter().map(|axis| layout.dimensions[*axis].name.clone()).collect(),
                shape: layout.shape(variable),
                width: variable.number.bytes(),
                block: known.map(|known| known.tiling.block().to_vec()),
                sorted_blocks: known.and_then(|known| known.sorted.as_ref()).map_or(0, |sorted| sorted.blocks.len()),
                is_bounds: layout.bounds.contains(&variable.name),
            }
        };
        let indices = || self.members.iter().filter_map(|member| member.index.as_ref());
        About {
            files: self.members.len(),
            bytes: indices().map(|index| index.key.bytes).sum(),
            index_bytes: indices().map(|index| index.bytes).sum(),
            device: first.device(),
            variables: layout.variables.iter().enumerate().map(variable).collect(),
            left_out: layout.left_out.clone(),
            damaged: indices().flat_map(|index| index.damaged.clone()).collect(),
        }
    }
}
