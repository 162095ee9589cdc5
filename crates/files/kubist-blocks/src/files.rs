//! A set of files that is queried as one. A file is opened when one of its blocks is read, so a selective query on a
//! thousand files opens few.

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

/// The name of the arrays in several `.npy` files, which have no names.
const UNNAMED: &str = "value";
/// Number of files per thread that opens files, and maximum number of these threads.
const FILES_EACH: usize = 32;
const MOST_OPENING: usize = 16;
/// Variables with fewer axes stay in memory up to this size in bytes.
const HELD: u64 = 8 << 20;

pub struct Member {
    pub path: PathBuf,
    pub index: Option<Index>,
    layout: Layout,
    source: OnceLock<Source>,
    library: Option<Arc<Library>>,
    held: Mutex<HashMap<usize, ArrayRef>>,
}

impl Member {
    /// Opens a file by its index, which must match the file's present state.
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
        let _ = member.source.set(source);
        Ok(member)
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Opens the file on first use.
    ///
    /// # Errors
    ///
    /// As for [`Source::known`].
    pub fn source(&self) -> Result<&Source> {
        if let Some(source) = self.source.get() {
            return Ok(source);
        }
        let index = self.index.as_ref().ok_or_else(|| Error::internal("a file without an index was not opened"))?;
        let source = Source::known(&self.path, &index.key, self.layout.clone(), self.library.as_ref())?;
        Ok(self.source.get_or_init(|| source))
    }

    pub fn is_open(&self) -> bool {
        self.source.get().is_some()
    }

    pub fn device(&self) -> Device {
        // Without a measurement, a typical solid-state disk is assumed.
        self.index.as_ref().map_or(Device { latency: 1e-4, bandwidth: 1e9, workers: 1 }, |index| index.device)
    }

    pub fn known(&self, variable: usize) -> Option<&Indexed> {
        self.index.as_ref()?.variables.get(variable)?.as_ref()
    }

    /// Returns the blocks in the index, or the blocks that an index would have.
    ///
    /// # Errors
    ///
    /// `Invalid` if there would be too many blocks.
    pub fn tiling(&self, variable: usize) -> Result<Tiling> {
        match self.known(variable) {
            Some(indexed) => Ok(indexed.tiling.clone()),
            None => self.layout.tiling(&self.layout.variables[variable], &Block::default()),
        }
    }

    pub fn zone(&self, variable: usize, rect: &Rect, data_type: &DataType) -> Zone {
        let unknown = Zone { min: 0, max: u64::MAX, nulls: Nulls::Some };
        let known = match self.known(variable) {
            Some(indexed) => indexed.summaries.over(&indexed.tiling, rect),
            // The header lists chunks that were never written.
            None => summary::of_unwritten(&self.layout, &self.layout.variables[variable], rect),
        };
        known.map_or(unknown, |summary| summary.zone(data_type))
    }

    /// Returns all values of a small variable with fewer axes than the query, cached because they are needed often.
    ///
    /// # Errors
    ///
    /// As for [`Source::fetch`].
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

/// Serializes a path for JSON, even if it is not valid text.
fn shown<S: serde::Serializer>(path: &Path, to: S) -> std::result::Result<S::Ok, S::Error> {
    to.collect_str(&path.display())
}

#[derive(Clone, Debug, serde::Serialize)]
pub struct Built {
    #[serde(serialize_with = "shown")]
    pub file: PathBuf,
    #[serde(serialize_with = "shown")]
    pub index: PathBuf,
    pub bytes: u64,
    pub index_bytes: u64,
    /// False if an up-to-date index existed.
    pub is_new: bool,
    pub damaged: Vec<String>,
    pub left_out: Vec<String>,
    /// The variables that only the library can read, with the reasons.
    pub by_library: Vec<String>,
    pub device: Device,
}

/// # Errors
///
/// `Refused` if its index is out of date and `refresh` is false; as for [`build::build`].
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
    // If the file did not grow, older summaries are not trusted.
    let grown = older.filter(|older| older.key.bytes < source.key().bytes);
    let index = build::build(&source, &at, &options, grown.as_ref(), progress, cancel)?;
    Ok(built(path, index, true))
}

fn is_as_asked(index: &Index, options: &BuildOptions) -> bool {
    let has = |name: &String| {
        let at = index.layout.variables.iter().position(|variable| variable.name == *name);
        at.is_some_and(|at| index.variables[at].is_some())
    };
    options.block.as_ref().is_none_or(|block| *block == index.block)
        && options.sorted.is_none_or(|share| share == index.sorted)
        && options.variables.as_ref().is_none_or(|names| names.iter().all(has))
}

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

/// Files with the same variables on the same axes.
pub struct Files {
    pub members: Vec<Member>,
}

impl Files {
    /// Opens files by their indexes.
    ///
    /// # Errors
    ///
    /// `Missing` if a file has no index; `Refused` if a file changed; `Invalid` if their variables differ;
    /// `Damaged`; `Newer`; a storage error; `Cancelled`.
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

    /// Opens files. A file without an index is scanned.
    ///
    /// # Errors
    ///
    /// As for `open`, except `Missing`.
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

/// Number of threads, which for many files exceeds the number of cores, because most threads wait for a device.
fn opening(files: usize) -> usize {
    build::workers().max((files / FILES_EACH).min(MOST_OPENING))
}

fn is_unnamed(layout: &Layout) -> bool {
    layout.format == FileFormat::Npy && layout.variables.len() == 1
}

/// Checks that two files have the same variables; only the first axis of a variable may differ in length.
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

#[derive(Clone, Debug, serde::Serialize)]
pub struct AboutVariable {
    pub name: String,
    #[serde(rename = "type")]
    pub data_type: String,
    pub unit: Option<String>,
    /// The calendar of times in `UNIT since DATE`.
    pub calendar: Option<String>,
    pub dimensions: Vec<String>,
    pub shape: Vec<u64>,
    pub width: u64,
    /// Number of block positions along each axis; `None` without an index.
    pub block: Option<Vec<u64>>,
    pub sorted_blocks: usize,
    /// True for the bounds of another variable's cells.
    pub is_bounds: bool,
}

impl Files {
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
