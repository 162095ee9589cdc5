//! The file of an index, `FILE.kubix` (FORMAT.md, chapter "Indices of files").
//!
//! An index may come from an untrusted source. Before any byte of the indexed file is read, lengths are compared with
//! the size of the index, checksums are verified, and the layout is checked against the indexed file.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use kubist_files::columns::Page;
use kubist_types::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::layout::{Block, Chunk, Layout, Storage};
use crate::model::Device;
use crate::reading::Reading;
use crate::shape::Tiling;
use crate::sorted::{Sorted, SortedBlock};
use crate::source::Key;
use crate::summary::{self, Summaries, Summary};

type Outcome<T> = std::result::Result<T, String>;

const MAGIC: &[u8; 8] = b"KUBIX\r\n\x1a";
const VERSION: u32 = 1;
const HEADER: usize = 120;
const FIRST_READ: u64 = 64 << 10;
/// Bytes per location in the tables.
const PIECE: usize = 28;
const LONGEST_DESCRIPTION: u64 = 64 << 20;
/// Maximum bytes of the tables of chunks and blocks.
const LONGEST_SECTION: u64 = 2 << 30;

#[derive(Clone, Debug)]
pub struct Indexed {
    pub tiling: Tiling,
    pub summaries: Summaries,
    pub sorted: Option<Sorted>,
}

#[derive(Clone, Debug)]
pub struct Index {
    pub key: Key,
    pub layout: Layout,
    pub device: Device,
    /// The requested block size and fraction of blocks with a sorted copy.
    pub block: Block,
    pub sorted: f64,
    /// `None` if the variable is not indexed.
    pub variables: Vec<Option<Indexed>>,
    /// Messages about blocks that could not be read.
    pub damaged: Vec<String>,
    pub bytes: u64,
    /// The file of the index, which contains the sorted values.
    pub path: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Description {
    layout: Layout,
    device: Device,
    block: Block,
    sorted: f64,
    variables: Vec<Option<Part>>,
    damaged: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Part {
    block: Vec<u64>,
    /// Number of sorted blocks in the directory.
    sorted: Option<u64>,
}

/// The path of an index: next to the file, or in another folder.
pub fn path_of(file: &Path, into: Option<&Path>) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_os_string();
    name.push(".kubix");
    into.map_or_else(|| file.with_file_name(&name), |into| into.join(&name))
}

/// An index that is being written; sorted values come first, in the order in which they are computed.
pub struct Writing {
    file: BufWriter<File>,
    temporary: PathBuf,
    path: PathBuf,
    at: u64,
    done: bool,
}

impl Writing {
    /// # Errors
    ///
    /// `Permission` names an alternative location; a storage error.
    pub fn create(path: &Path) -> Result<Writing> {
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(format!(".{}.tmp", std::process::id()));
        let temporary = path.with_file_name(name);
        let failed = |error: std::io::Error| {
            let hint = match error.kind() {
                std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
                    "; --into DIR writes it to another folder"
                }
                _ => "",
            };
            Error::io(format!("cannot write {}: {error}{hint}", path.display()), error)
        };
        let file = File::create(&temporary).map_err(failed)?;
        let mut writing =
            Writing { file: BufWriter::new(file), temporary, path: path.to_path_buf(), at: 0, done: false };
        writing.put(&[0; HEADER])?;
        Ok(writing)
    }

    fn failed(&self, error: std::io::Error) -> Error {
        Error::io(format!("cannot write {}: {error}", self.path.display()), error)
    }

    /// Writes bytes and returns their offset.
    ///
    /// # Errors
    ///
    /// `NoSpace`, or another storage error.
    pub fn put(&mut self, bytes: &[u8]) -> Result<u64> {
        let at = self.at;
        self.file.write_all(bytes).map_err(|error| self.failed(error))?;
        self.at += bytes.len() as u64;
        Ok(at)
    }

    /// Writes the remaining sections and renames the file.
    ///
    /// # Errors
    ///
    /// A storage error; an older index is then unchanged.
    pub fn finish(mut self, index: &Index) -> Result<u64> {
        let sections = sections(index)?;
        let mut header = Vec::with_capacity(HEADER);
        header.extend(MAGIC);
        header.extend(VERSION.to_le_bytes());
        header.extend((HEADER as u32).to_le_bytes());
        header.extend(index.key.bytes.to_le_bytes());
        header.extend(index.key.modified.to_le_bytes());
        header.extend(index.key.hash.to_le_bytes());
        for section in &sections {
            let at = self.put(section)?;
            header.extend(at.to_le_bytes());
            header.extend((section.len() as u64).to_le_bytes());
            header.extend(crc32c::crc32c(section).to_le_bytes());
        }
        header.resize(HEADER - 4, 0);
        header.extend(crc32c::crc32c(&header).to_le_bytes());
        let written = self.file.flush().and_then(|()| {
            self.file.seek(SeekFrom::Start(0))?;
            self.file.write_all(&header)?;
            self.file.flush()?;
            self.file.get_ref().sync_all()?;
            std::fs::rename(&self.temporary, &self.path)
        });
        written.map_err(|error| self.failed(error))?;
        self.done = true;
        Ok(self.at)
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if !self.done {
            // If this fails, the file's name shows that it is temporary.
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

fn sections(index: &Index) -> Result<[Vec<u8>; 3]> {
    let part = |indexed: &Indexed| Part {
        block: indexed.tiling.block().to_vec(),
        sorted: indexed.sorted.as_ref().map(|sorted| sorted.blocks.len() as u64),
    };
    let description = Description {
        layout: index.layout.clone(),
        device: index.device,
        block: index.block.clone(),
        sorted: index.sorted,
        variables: index.variables.iter().map(|indexed| indexed.as_ref().map(part)).collect(),
        damaged: index.damaged.clone(),
    };
    let json = serde_json::to_vec(&description).map_err(Error::internal)?;
    let mut tables = Vec::new();
    for variable in &index.layout.variables {
        let pieces: Vec<([u64; 3], u32)> = match &variable.storage {
            Storage::Chunks { table, .. } => {
                table.iter().map(|chunk| ([chunk.number, chunk.offset, chunk.bytes], chunk.skipped)).collect()
            }
            Storage::Pages { table, .. } => {
                table.iter().map(|page| ([page.first_row, page.offset, page.bytes], page.group)).collect()
            }
            _ => continue,
        };
        tables.extend((pieces.len() as u64).to_le_bytes());
        for (words, last) in pieces {
            words.iter().for_each(|word| tables.extend(word.to_le_bytes()));
            tables.extend(last.to_le_bytes());
        }
    }
    let mut blocks = Vec::new();
    for indexed in index.variables.iter().flatten() {
        for summary in indexed.summaries.own() {
            blocks.extend(summary.to_bytes());
        }
        for (block, sorted) in indexed.sorted.iter().flat_map(|sorted| &sorted.blocks) {
            sorted.write(*block, &mut blocks);
        }
    }
    Ok([json, tables, blocks])
}

/// # Errors
///
/// `Missing`; `Newer`; `Damaged`; a storage error.
pub fn open(path: &Path) -> Result<Index> {
    let io = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            Error::Missing { location: path.display().to_string(), hint: "; create it with kubist index".into() }
        }
        _ => Error::io(format!("cannot read {}: {error}", path.display()), error),
    };
    let damaged = |what: String| Error::Damaged { file: path.display().to_string(), offset: 0, what };
    let file = File::open(path).map_err(io)?;
    let length = file.metadata().map_err(io)?.len();
    if length < HEADER as u64 {
        return Err(damaged("it is too short for an index".into()));
    }
    let mut head = vec![0; length.min(FIRST_READ) as usize];
    file.read_exact_at(&mut head, 0).map_err(io)?;
    let header = &head[..HEADER];
    if header[..8] != *MAGIC {
        return Err(damaged("it is not an index".into()));
    }
    let mut fields = Reading::of(&header[8..]);
    let fail = |what: String| damaged(what);
    let version = fields.half().map_err(fail)?;
    if version > VERSION {
        return Err(Error::Newer(format!(
            "{}: an index of version {version}, which is newer than this Kubist: upgrade, or index again",
            path.display()
        )));
    }
    let sum = u32::from_le_bytes([header[116], header[117], header[118], header[119]]);
    if crc32c::crc32c(&header[..HEADER - 4]) != sum || fields.half().map_err(fail)? as usize != HEADER {
        return Err(damaged("its header is damaged".into()));
    }
    let key = Key {
        bytes: fields.word().map_err(fail)?,
        modified: fields.word().map_err(fail)? as i64,
        hash: fields.word().map_err(fail)?,
    };
    let mut sections = Vec::new();
    for most in [LONGEST_DESCRIPTION, LONGEST_SECTION, LONGEST_SECTION] {
        let (at, bytes) = (fields.word().map_err(fail)?, fields.word().map_err(fail)?);
        let sum = fields.half().map_err(fail)?;
        if bytes > most || at.checked_add(bytes).is_none_or(|end| end > length) {
            return Err(damaged("it was cut short".into()));
        }
        let section: Cow<'_, [u8]> = match head.get(at as usize..(at + bytes) as usize) {
            Some(section) => section.into(),
            None => {
                let mut section = vec![0; bytes as usize];
                file.read_exact_at(&mut section, at).map_err(io)?;
                section.into()
            }
        };
        if crc32c::crc32c(&section) != sum {
            return Err(damaged("its checksum is wrong".into()));
        }
        sections.push(section);
    }
    let mut index = parsed(&sections, key).map_err(damaged)?;
    (index.bytes, index.path) = (length, path.to_path_buf());
    Ok(index)
}

pub fn parsed(sections: &[impl AsRef<[u8]>], key: Key) -> Outcome<Index> {
    let [json, tables, blocks] = sections else { return Err("sections are missing".into()) };
    let description: Description =
        serde_json::from_slice(json.as_ref()).map_err(|error| format!("its description: {error}"))?;
    let mut layout = description.layout;
    let mut reading = Reading::of(tables.as_ref());
    let lengths: Vec<u64> = layout.dimensions.iter().map(|dimension| dimension.length).collect();
    for variable in &mut layout.variables {
        if !matches!(variable.storage, Storage::Chunks { .. } | Storage::Pages { .. }) {
            continue;
        }
        let count = reading.word()?;
        let pieces = (0..reading.holds(count, PIECE)?)
            .map(|_| Ok((reading.word()?, reading.word()?, reading.word()?, reading.half()?)))
            .collect::<Outcome<Vec<_>>>()?;
        match &mut variable.storage {
            Storage::Pages { table, .. } => {
                let rows = variable.dimensions.first().and_then(|axis| lengths.get(*axis)).copied().unwrap_or(0);
                let ends = pieces.iter().skip(1).map(|next| next.0).chain([rows]);
                table.extend(pieces.iter().zip(ends).map(|((first_row, offset, bytes, group), end)| Page {
                    first_row: *first_row,
                    rows: end.saturating_sub(*first_row),
                    offset: *offset,
                    bytes: *bytes,
                    group: *group,
                }));
            }
            Storage::Chunks { table, .. } => {
                let chunk = |(number, offset, bytes, skipped)| Chunk { number, offset, bytes, skipped };
                table.extend(pieces.into_iter().map(chunk));
            }
            _ => {}
        }
    }
    layout.check(key.bytes).map_err(|error| error.to_string())?;
    let parts = description.variables;
    if parts.len() != layout.variables.len() {
        return Err("its parts are inconsistent".into());
    }
    let mut reading = Reading::of(blocks.as_ref());
    let mut variables = Vec::new();
    for (variable, part) in layout.variables.iter().zip(parts) {
        let Some(part) = part else {
            variables.push(None);
            continue;
        };
        let tiling = layout.tiled(variable, &part.block).map_err(|error| error.to_string())?;
        // Lengths are compared with the section before memory is allocated.
        let chunks = summary::written(variable, &tiling).map_or(tiling.chunks(), |written| written.len() as u64);
        reading.holds(chunks.saturating_mul(tiling.blocks_in_chunk()), summary::BYTES)?;
        let mut summaries = Summaries::new(variable, &tiling);
        let blocks: Vec<u64> = summaries.blocks().collect();
        for block in blocks {
            let bytes = reading.take(summary::BYTES)?;
            let own = Summary::from_bytes(bytes.try_into().map_err(|_| "a summary is cut short")?);
            summaries.set(block, own);
        }
        let sorted = part.sorted.map(|count| sorted(&mut reading, count, &tiling)).transpose()?;
        variables.push(Some(Indexed { tiling, summaries, sorted }));
    }
    if !reading.is_at_end() {
        return Err("its parts are inconsistent".into());
    }
    let Description { damaged, device, block, sorted, .. } = description;
    Ok(Index { key, layout, device, block, sorted, variables, damaged, bytes: 0, path: PathBuf::new() })
}

fn sorted(reading: &mut Reading<'_>, count: u64, tiling: &Tiling) -> Outcome<Sorted> {
    let mut blocks: Vec<(u64, SortedBlock)> = Vec::new();
    for _ in 0..reading.holds(count, SortedBlock::LEAST_BYTES)? {
        let (block, sorted) = SortedBlock::read(reading)?;
        let ascends = blocks.last().is_none_or(|(before, _)| *before < block);
        if !ascends || block >= tiling.blocks() || u64::from(sorted.count) > tiling.rect(block).len() {
            return Err("its sorted blocks do not match its variable".into());
        }
        blocks.push((block, sorted));
    }
    Ok(Sorted { blocks })
}
