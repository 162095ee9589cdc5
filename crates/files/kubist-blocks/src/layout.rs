//! The layout of a file: where its arrays are and how bytes become numbers. It comes from a header that this crate
//! parses, from a library, or from an index. None is trusted: [`Layout::check`] compares every length with the file's
//! size before anything is read.

use std::collections::HashMap;

use arrow_schema::{DataType, Field};
use kubist_files::columns::Page;
use kubist_types::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::pages;
use crate::shape::{Tiling, block_shape, positions};

type Outcome<T> = std::result::Result<T, String>;

/// The largest number of blocks in an array.
pub const MOST_BLOCKS: u64 = 1 << 26;
/// Limit of a block's size: larger blocks save nothing, and a scan holds them in memory.
const MOST_BLOCK_BYTES: u64 = 16 << 20;
/// Limit of a chunk's size, as in HDF5.
const MOST_CHUNK_BYTES: u64 = 4 << 30;
const MOST_VARIABLES: usize = 100_000;
const COORDINATE_BLOCK: u64 = 16;
const MOST_AXES: usize = 32;
/// Decoded bytes that a chunk may have, whatever its stored size.
const INFLATION_FLOOR: u64 = 64 << 20;
/// Maximum decoded bytes per stored byte; deflate reaches 1032.
const INFLATION: u64 = 1100;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileFormat {
    NetCdf3,
    Hdf5,
    Npy,
    Parquet,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Number {
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F16,
    F32,
    F64,
}

impl Number {
    pub fn bytes(self) -> u64 {
        match self {
            Number::I8 | Number::U8 => 1,
            Number::I16 | Number::U16 | Number::F16 => 2,
            Number::I32 | Number::U32 | Number::F32 => 4,
            Number::I64 | Number::U64 | Number::F64 => 8,
        }
    }

    /// `None` if the Arrow type is not numeric.
    pub fn of(data_type: &DataType) -> Option<Number> {
        Some(match data_type {
            DataType::Int8 => Number::I8,
            DataType::Int16 => Number::I16,
            DataType::Int32 => Number::I32,
            DataType::Int64 => Number::I64,
            DataType::UInt8 => Number::U8,
            DataType::UInt16 => Number::U16,
            DataType::UInt32 => Number::U32,
            DataType::UInt64 => Number::U64,
            DataType::Float16 => Number::F16,
            DataType::Float32 => Number::F32,
            DataType::Float64 => Number::F64,
            _ => return None,
        })
    }

    pub fn data_type(self) -> DataType {
        match self {
            Number::I8 => DataType::Int8,
            Number::I16 => DataType::Int16,
            Number::I32 => DataType::Int32,
            Number::I64 => DataType::Int64,
            Number::U8 => DataType::UInt8,
            Number::U16 => DataType::UInt16,
            Number::U32 => DataType::UInt32,
            Number::U64 => DataType::UInt64,
            Number::F16 => DataType::Float16,
            Number::F32 => DataType::Float32,
            Number::F64 => DataType::Float64,
        }
    }

    /// The unsigned type of the same width, for the attribute `_Unsigned`.
    pub fn unsigned(self) -> Number {
        match self {
            Number::I8 => Number::U8,
            Number::I16 => Number::U16,
            Number::I32 => Number::U32,
            Number::I64 => Number::U64,
            other => other,
        }
    }
}

/// CF packing: the value is `stored * scale + offset` in double precision, and null if the stored number is in
/// `missing`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Packing {
    pub scale: Option<f64>,
    pub offset: Option<f64>,
    /// Stored numbers that mark missing values; their bits are in the lowest bytes.
    pub missing: Vec<u64>,
}

impl Packing {
    pub fn is_packed(&self) -> bool {
        self.scale.is_some() || self.offset.is_some()
    }
}

/// Filters for the bytes of a chunk, in the order of writing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Filter {
    Shuffle,
    Deflate,
    Fletcher32,
    Lz4,
    Zstd,
    /// A filter that only the format's library can undo.
    Other(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    pub number: u64,
    pub offset: u64,
    pub bytes: u64,
    /// One bit per skipped filter; the lowest bit is the first filter.
    pub skipped: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Storage {
    Contiguous {
        offset: u64,
    },
    /// One record per index along the first axis, `stride` bytes apart.
    Records {
        offset: u64,
        stride: u64,
    },
    /// In chunks with the same shape; missing chunks contain `fill` everywhere.
    Chunks {
        shape: Vec<u64>,
        filters: Vec<Filter>,
        fill: u64,
        /// Ascending by number.
        #[serde(skip)]
        table: Vec<Chunk>,
    },
    /// The pages of a Parquet column.
    Pages {
        leaf: usize,
        /// Ascending by row.
        #[serde(skip)]
        table: Vec<Page>,
    },
    /// Bytes that only the library can read.
    Library {
        why: String,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Variable {
    pub name: String,
    /// The variable's dimensions, as indexes into the layout's dimensions.
    pub dimensions: Vec<usize>,
    pub number: Number,
    #[serde(default)]
    pub big_endian: bool,
    #[serde(default)]
    pub packing: Packing,
    #[serde(default)]
    pub unit: Option<String>,
    /// The calendar of times, which have the unit `UNIT since DATE`.
    #[serde(default)]
    pub calendar: Option<String>,
    pub storage: Storage,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dimension {
    pub name: String,
    pub length: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Layout {
    pub format: FileFormat,
    pub dimensions: Vec<Dimension>,
    pub variables: Vec<Variable>,
    /// Contents that cannot be queried, with reasons.
    #[serde(default)]
    pub left_out: Vec<String>,
    /// Variables that are cell bounds, by the CF attributes `bounds` and `climatology`.
    #[serde(default)]
    pub bounds: Vec<String>,
}

impl Layout {
    pub fn shape(&self, variable: &Variable) -> Vec<u64> {
        variable.dimensions.iter().map(|axis| self.dimensions[*axis].length).collect()
    }

    /// The shape of a variable's chunks, or the whole array's shape if it has no chunks.
    pub fn chunk(&self, variable: &Variable) -> Vec<u64> {
        match &variable.storage {
            Storage::Chunks { shape, .. } => shape.clone(),
            _ => self.shape(variable).iter().map(|length| (*length).max(1)).collect(),
        }
    }

    /// Whether a variable has the values along an axis of other variables.
    pub fn is_coordinate(&self, variable: &Variable) -> bool {
        let [axis] = variable.dimensions[..] else { return false };
        self.dimensions[axis].name == variable.name
            && self.variables.iter().any(|other| other.dimensions.len() > 1 && other.dimensions.contains(&axis))
    }

    /// Whether a variable is neither a coordinate nor cell bounds.
    pub fn is_data(&self, variable: &Variable) -> bool {
        !self.is_coordinate(variable) && !self.bounds.contains(&variable.name)
    }

    /// Divides a variable into blocks. Coordinates have short blocks, because a block of data spans only a few of their
    /// values.
    ///
    /// # Errors
    ///
    /// As for [`Layout::tiled`].
    pub fn tiling(&self, variable: &Variable, wanted: &Block) -> Result<Tiling> {
        let (rank, chunk) = (variable.dimensions.len(), self.chunk(variable));
        let cubes = matches!(variable.storage, Storage::Chunks { .. });
        let block = match wanted {
            _ if self.is_coordinate(variable) => vec![COORDINATE_BLOCK],
            Block::Bytes(bytes) => block_shape(&chunk, variable.number.bytes(), *bytes, cubes),
            Block::Shape(block) if block.len() == rank => block.clone(),
            // If the shape has another number of axes, only its number of positions is used.
            Block::Shape(block) => {
                let bytes = block.iter().fold(variable.number.bytes(), |bytes, length| bytes.saturating_mul(*length));
                block_shape(&chunk, variable.number.bytes(), bytes, cubes)
            }
        };
        self.tiled(variable, &block)
    }

    /// Divides a variable into blocks with this shape.
    ///
    /// # Errors
    ///
    /// `Invalid` if the blocks are too large or too many; blocks that were never written do not count.
    pub fn tiled(&self, variable: &Variable, block: &[u64]) -> Result<Tiling> {
        let tiling = Tiling::new(&self.shape(variable), &self.chunk(variable), block)?;
        let bytes = positions(tiling.block())?.saturating_mul(variable.number.bytes());
        if bytes > MOST_BLOCK_BYTES {
            return Err(Error::invalid(format!(
                "{}: blocks of {bytes} bytes are too large: use blocks of at most {MOST_BLOCK_BYTES} bytes (--block)",
                variable.name
            )));
        }
        let chunks = match &variable.storage {
            Storage::Chunks { table, .. } => table.len() as u64,
            _ => tiling.chunks(),
        };
        match chunks.checked_mul(tiling.blocks_in_chunk()) {
            Some(blocks) if blocks <= MOST_BLOCKS => Ok(tiling),
            _ => Err(Error::invalid(format!(
                "{}: {} blocks are too many: use larger blocks (--block)",
                variable.name,
                tiling.blocks()
            ))),
        }
    }

    /// Compares every length with the file's size, so that nothing is read or allocated beyond it.
    ///
    /// # Errors
    ///
    /// `Invalid` names the variable that does not fit.
    pub fn check(&self, bytes: u64) -> Result<()> {
        if self.variables.len() > MOST_VARIABLES || self.dimensions.len() > MOST_VARIABLES {
            return Err(Error::invalid(format!("it has more than {MOST_VARIABLES} variables")));
        }
        for variable in &self.variables {
            self.check_variable(variable, bytes)
                .map_err(|why| Error::invalid(format!("variable {:?}: {why}", variable.name)))?;
        }
        Ok(())
    }

    fn check_variable(&self, variable: &Variable, file_bytes: u64) -> Outcome<()> {
        let axes = &variable.dimensions;
        if axes.is_empty() || axes.len() > MOST_AXES {
            return Err(format!("it has {} axes", axes.len()));
        }
        if axes.iter().any(|axis| *axis >= self.dimensions.len()) {
            return Err("it has an axis that does not exist".into());
        }
        let packing = &variable.packing;
        if packing.scale.into_iter().chain(packing.offset).any(|number| !number.is_finite()) {
            return Err("its scale or offset is not finite".into());
        }
        let shape = self.shape(variable);
        let width = variable.number.bytes();
        let all = positions(&shape).map_err(|error| error.to_string())?;
        let all = all.checked_mul(width).ok_or("it is too large")?;
        let within = |offset: u64, length: u64| match offset.checked_add(length) {
            Some(end) if end <= file_bytes => Ok(()),
            _ => Err(format!("it ends past the file, which is cut short: {length} bytes from byte {offset}")),
        };
        match &variable.storage {
            Storage::Contiguous { offset } => within(*offset, all),
            Storage::Records { offset, stride } => {
                let records = shape[0];
                if records == 0 || all == 0 {
                    return Ok(());
                }
                let record = all / records;
                if *stride < record {
                    return Err("its records overlap".into());
                }
                let last = (records - 1).checked_mul(*stride).and_then(|last| last.checked_add(*offset));
                within(last.ok_or("it is too large")?, record)
            }
            Storage::Library { .. } => Ok(()),
            Storage::Pages { table, .. } => match shape[..] {
                [rows] => pages::check(table, rows, file_bytes),
                _ => Err("a column of Parquet has one axis".into()),
            },
            Storage::Chunks { shape: chunk, filters, table, .. } => {
                let tiling = Tiling::new(&shape, chunk, chunk).map_err(|error| error.to_string())?;
                let raw = positions(chunk).map_err(|error| error.to_string())?;
                let raw = raw.checked_mul(width).ok_or("its chunks are too large")?;
                if filters.len() > 32 {
                    return Err("it has more than 32 filters".into());
                }
                let mut before = None;
                for chunk in table {
                    if before.is_some_and(|before| before >= chunk.number) || chunk.number >= tiling.chunks() {
                        return Err(format!("chunk {} is out of order", chunk.number));
                    }
                    before = Some(chunk.number);
                    within(chunk.offset, chunk.bytes).map_err(|why| format!("chunk {}: {why}", chunk.number))?;
                    let most = match filters.is_empty() {
                        true => chunk.bytes,
                        false => INFLATION_FLOOR.max(chunk.bytes.saturating_mul(INFLATION)),
                    };
                    if raw > most {
                        return Err(format!("chunk {} of {} bytes cannot hold {raw}", chunk.number, chunk.bytes));
                    }
                }
                // Only the requested part of a missing chunk is filled.
                match raw > MOST_CHUNK_BYTES && !filters.is_empty() && !table.is_empty() {
                    true => Err(format!("its chunks of {raw} bytes are too large to be decoded")),
                    false => Ok(()),
                }
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Block {
    /// Maximum number of stored bytes.
    Bytes(u64),
    /// Number of positions along each axis.
    Shape(Vec<u64>),
}

impl Default for Block {
    fn default() -> Block {
        Block::Bytes(64 << 10)
    }
}

impl std::str::FromStr for Block {
    type Err = String;

    /// Parses `64KiB`, `1MiB`, `65536`, or a shape such as `16x16x16`.
    fn from_str(text: &str) -> Outcome<Block> {
        let odd = || format!("{text:?} is not a block size: use 64KiB, or a shape such as 16x16x16");
        if text.contains('x') {
            let lengths = text.split('x').map(|length| length.parse().ok().filter(|length| *length > 0));
            return lengths.collect::<Option<Vec<u64>>>().map(Block::Shape).ok_or_else(odd);
        }
        let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
        let unit = match text[digits.len()..].trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "kib" | "k" => 1 << 10,
            "mib" | "m" => 1 << 20,
            _ => return Err(odd()),
        };
        let bytes = digits.parse::<u64>().ok().and_then(|count| count.checked_mul(unit)).filter(|bytes| *bytes >= 64);
        bytes.map(Block::Bytes).ok_or_else(odd)
    }
}

/// The calendar by the CF conventions; `None` if the unit is not a calendar time.
pub fn calendar(unit: Option<&str>, said: Option<String>) -> Option<String> {
    let is_time = unit.is_some_and(|unit| unit.to_ascii_lowercase().contains(" since "));
    is_time.then(|| said.map_or_else(|| "standard".to_string(), |said| said.trim().to_ascii_lowercase()))
}

impl Variable {
    /// The type of the column. Packed values have double precision.
    pub fn data_type(&self) -> DataType {
        if self.packing.is_packed() { DataType::Float64 } else { self.number.data_type() }
    }

    pub fn field(&self) -> Field {
        let field = Field::new(&self.name, self.data_type(), true);
        match &self.unit {
            Some(unit) => field.with_metadata(HashMap::from([("unit".to_string(), unit.clone())])),
            None => field,
        }
    }

    pub fn stored_bytes(&self, positions: u64) -> u64 {
        match &self.storage {
            Storage::Chunks { table, .. } => table.iter().map(|chunk| chunk.bytes).sum(),
            Storage::Pages { table, .. } => table.iter().map(|page| page.bytes).sum(),
            _ => positions.saturating_mul(self.number.bytes()),
        }
    }

    /// Says why only the library can read the variable; `None` if this crate can decode it.
    pub fn needs_library(&self) -> Option<String> {
        match &self.storage {
            Storage::Library { why } => Some(why.clone()),
            Storage::Chunks { filters, .. } => filters.iter().find_map(|filter| match filter {
                Filter::Other(name) => Some(format!("filter {name}")),
                _ => None,
            }),
            _ => None,
        }
    }
}
