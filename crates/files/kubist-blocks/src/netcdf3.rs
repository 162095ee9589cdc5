//! Parser for the header of netCDF's classic format (CDF-1, -2 and -5), by its specification:
//! <https://docs.unidata.ucar.edu/netcdf-c/current/file_format_specifications.html>.

use std::io::Read;

use crate::layout::{Dimension, FileFormat, Layout, Number, Packing, Storage, Variable, calendar};

const LONGEST_HEADER: u64 = 256 << 20;
const DIMENSION: u32 = 10;
const VARIABLE: u32 = 11;
const ATTRIBUTE: u32 = 12;
const BOUNDS: [&str; 2] = ["bounds", "climatology"];
/// Number of records that a file states if its writer died.
const STREAMING: [u64; 2] = [u32::MAX as u64, u64::MAX];

type Outcome<T> = Result<T, String>;

pub fn is_one(head: &[u8]) -> bool {
    head.starts_with(b"CDF") && matches!(head.get(3), Some(1 | 2 | 5))
}

/// Parses the header; `reader` is at the beginning of a file with `file_bytes` bytes.
///
/// # Errors
///
/// The message names the fault of the header.
pub fn layout(reader: &mut dyn Read, file_bytes: u64) -> Outcome<Layout> {
    let mut header = Header { reader, read: 0, wide: false, offsets: 4, file_bytes };
    let magic = header.take::<4>()?;
    if !is_one(&magic) {
        return Err("it is not a netCDF file of the classic format".into());
    }
    header.wide = magic[3] == 5;
    header.offsets = if magic[3] == 1 { 4 } else { 8 };
    let records = header.count()?;
    let (dimensions, record) = header.dimensions()?;
    header.attributes()?;
    let raw = header.variables(dimensions.len())?;
    assemble(dimensions, record, records, raw, file_bytes)
}

struct Raw {
    name: String,
    axes: Vec<usize>,
    attributes: Vec<(String, Attribute)>,
    kind: u32,
    begin: u64,
}

enum Attribute {
    Text(String),
    Numbers(Vec<f64>, Vec<i128>),
}

fn number(kind: u32) -> Option<Number> {
    Some(match kind {
        1 => Number::I8,
        3 => Number::I16,
        4 => Number::I32,
        5 => Number::F32,
        6 => Number::F64,
        7 => Number::U8,
        8 => Number::U16,
        9 => Number::U32,
        10 => Number::I64,
        11 => Number::U64,
        _ => return None,
    })
}

fn assemble(
    mut dimensions: Vec<Dimension>,
    record: Option<usize>,
    records: u64,
    raw: Vec<Raw>,
    file_bytes: u64,
) -> Outcome<Layout> {
    let is_record = |variable: &Raw| record.is_some() && variable.axes.first().copied() == record;
    let bytes = |variable: &Raw| {
        let width = number(variable.kind).map_or(1, Number::bytes);
        let skip = usize::from(is_record(variable));
        let lengths = variable.axes.iter().skip(skip).map(|axis| dimensions[*axis].length);
        lengths.clone().try_fold(width, |bytes, length| bytes.checked_mul(length)).ok_or("an array is too large")
    };
    let of_records: Vec<&Raw> = raw.iter().filter(|variable| is_record(variable)).collect();
    let mut stride = 0u64;
    for variable in &of_records {
        let own = bytes(variable)?;
        // If there is only one record variable, it is not padded.
        let padded = if of_records.len() == 1 { own } else { own.next_multiple_of(4) };
        stride = stride.checked_add(padded).ok_or("its records are too large")?;
    }
    let records = match STREAMING.contains(&records) {
        false => records,
        true => {
            let begin = of_records.iter().map(|variable| variable.begin).min().unwrap_or(0);
            file_bytes.saturating_sub(begin).checked_div(stride).unwrap_or(0)
        }
    };
    if let Some(record) = record {
        dimensions[record].length = records;
    }
    let (variables, left_out, bounds) = (Vec::new(), Vec::new(), Vec::new());
    let mut layout = Layout { format: FileFormat::NetCdf3, dimensions, variables, left_out, bounds };
    for variable in raw {
        layout.bounds.extend(BOUNDS.iter().filter_map(|name| text(&variable, name)));
        let reason = match number(variable.kind) {
            None => Some("its type is not numeric"),
            Some(_) if variable.axes.is_empty() => Some("it is a single value"),
            Some(_) => None,
        };
        if let Some(reason) = reason {
            layout.left_out.push(format!("{}: {reason}", variable.name));
            continue;
        }
        let Some(stored) = number(variable.kind) else { continue };
        let storage = match record.is_some() && variable.axes.first().copied() == record {
            true => Storage::Records { offset: variable.begin, stride },
            false => Storage::Contiguous { offset: variable.begin },
        };
        let name = variable.name.clone();
        let variable = described(variable, stored, storage);
        let packing = variable.packing.scale.into_iter().chain(variable.packing.offset);
        match packing.into_iter().find(|number| !number.is_finite()) {
            Some(number) => layout.left_out.push(format!("{name}: its scale or offset is {number}")),
            None => layout.variables.push(variable),
        }
    }
    Ok(layout)
}

fn text(raw: &Raw, name: &str) -> Option<String> {
    raw.attributes.iter().find_map(|(own, value)| match value {
        Attribute::Text(text) if own == name => Some(text.clone()),
        _ => None,
    })
}

fn described(raw: Raw, stored: Number, storage: Storage) -> Variable {
    let text = |name: &str| text(&raw, name);
    let numbers = |name: &str| {
        raw.attributes.iter().find_map(|(own, value)| match value {
            Attribute::Numbers(floats, wholes) if own == name => Some((floats.clone(), wholes.clone())),
            _ => None,
        })
    };
    let first = |name: &str| numbers(name).and_then(|(floats, _)| floats.first().copied());
    let number = match text("_Unsigned").as_deref() {
        Some("true") => stored.unsigned(),
        _ => stored,
    };
    let mut missing = Vec::new();
    for name in ["_FillValue", "missing_value"] {
        let Some((floats, wholes)) = numbers(name) else { continue };
        let bits = floats.iter().zip(&wholes).filter_map(|(float, whole)| bits(stored, *float, *whole));
        missing.extend(bits);
    }
    missing.sort_unstable();
    missing.dedup();
    Variable {
        name: raw.name.clone(),
        dimensions: raw.axes.clone(),
        number,
        big_endian: true,
        packing: Packing { scale: first("scale_factor"), offset: first("add_offset"), missing },
        calendar: calendar(text("units").as_deref(), text("calendar")),
        unit: text("units").or_else(|| text("unit")),
        storage,
    }
}

fn bits(number: Number, float: f64, whole: i128) -> Option<u64> {
    let mask = if number.bytes() == 8 { u64::MAX } else { (1 << (8 * number.bytes())) - 1 };
    let exact = float.is_finite() && float.fract() == 0.0;
    let within = |low: i128, high: i128| (exact && (low..=high).contains(&whole)).then_some(whole as u64 & mask);
    match number {
        Number::F32 => Some(u64::from((float as f32).to_bits())),
        Number::F64 => Some(float.to_bits()),
        Number::F16 => None,
        Number::I8 => within(i8::MIN.into(), u8::MAX.into()),
        Number::I16 => within(i16::MIN.into(), i16::MAX.into()),
        Number::I32 => within(i32::MIN.into(), i32::MAX.into()),
        Number::I64 => within(i64::MIN.into(), i64::MAX.into()),
        Number::U8 => within(0, u8::MAX.into()),
        Number::U16 => within(0, u16::MAX.into()),
        Number::U32 => within(0, u32::MAX.into()),
        Number::U64 => within(0, u64::MAX.into()),
    }
}

struct Header<'a> {
    reader: &'a mut dyn Read,
    read: u64,
    wide: bool,
    offsets: usize,
    file_bytes: u64,
}

impl Header<'_> {
    fn take<const N: usize>(&mut self) -> Outcome<[u8; N]> {
        let mut bytes = [0; N];
        self.reader.read_exact(&mut bytes).map_err(|_| "its header is cut short".to_string())?;
        self.read += N as u64;
        Ok(bytes)
    }

    fn word(&mut self) -> Outcome<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn count(&mut self) -> Outcome<u64> {
        if self.wide { self.take().map(u64::from_be_bytes) } else { self.word().map(u64::from) }
    }

    fn offset(&mut self) -> Outcome<u64> {
        if self.offsets == 8 { self.take().map(u64::from_be_bytes) } else { self.word().map(u64::from) }
    }

    fn padded(&mut self, length: u64) -> Outcome<Vec<u8>> {
        let most = self.file_bytes.min(LONGEST_HEADER);
        if self.read.checked_add(length).is_none_or(|end| end > most) {
            return Err("its header is damaged: a length in it is larger than the file".into());
        }
        let mut bytes = vec![0; length.next_multiple_of(4) as usize];
        self.reader.read_exact(&mut bytes).map_err(|_| "its header is cut short".to_string())?;
        self.read += bytes.len() as u64;
        bytes.truncate(length as usize);
        Ok(bytes)
    }

    fn text(&mut self) -> Outcome<String> {
        let length = self.count()?;
        String::from_utf8(self.padded(length)?).map_err(|_| "a name in its header is not UTF-8".into())
    }

    fn list(&mut self, expected: u32) -> Outcome<u64> {
        let (tag, count) = (self.word()?, self.count()?);
        // Each element has at least four bytes.
        match (tag, count) {
            (0, 0) => Ok(0),
            (tag, count) if tag == expected && count <= self.file_bytes / 4 => Ok(count),
            _ => Err("its header is damaged: a list has another tag".into()),
        }
    }

    fn dimensions(&mut self) -> Outcome<(Vec<Dimension>, Option<usize>)> {
        let (mut dimensions, mut record) = (Vec::new(), None);
        for index in 0..self.list(DIMENSION)? {
            let (name, length) = (self.text()?, self.count()?);
            if length == 0 && record.replace(index as usize).is_some() {
                return Err("its header is damaged: it has two record dimensions".into());
            }
            dimensions.push(Dimension { name, length });
        }
        Ok((dimensions, record))
    }

    fn attributes(&mut self) -> Outcome<Vec<(String, Attribute)>> {
        let mut attributes = Vec::new();
        for _ in 0..self.list(ATTRIBUTE)? {
            let (name, kind, count) = (self.text()?, self.word()?, self.count()?);
            let width = match kind {
                2 => 1,
                kind => number(kind).ok_or("its header is damaged: an attribute has no known type")?.bytes(),
            };
            let bytes = self.padded(count.checked_mul(width).ok_or("an attribute is too long")?)?;
            attributes.push((name, value(kind, &bytes)));
        }
        Ok(attributes)
    }

    fn variables(&mut self, dimensions: usize) -> Outcome<Vec<Raw>> {
        let mut variables = Vec::new();
        for _ in 0..self.list(VARIABLE)? {
            let (name, rank) = (self.text()?, self.count()?);
            let mut axes = Vec::new();
            for _ in 0..rank.min(1 << 16) {
                axes.push(self.count()? as usize);
            }
            if rank > 1 << 16 || axes.iter().any(|axis| *axis >= dimensions) {
                return Err(format!("variable {name:?} has a dimension that does not exist"));
            }
            let attributes = self.attributes()?;
            let kind = self.word()?;
            // Skips the variable's size, which follows from its shape.
            self.count()?;
            let begin = self.offset()?;
            variables.push(Raw { name, axes, attributes, kind, begin });
        }
        Ok(variables)
    }
}

fn value(kind: u32, bytes: &[u8]) -> Attribute {
    let Some(number) = number(kind) else {
        let text = String::from_utf8_lossy(bytes);
        return Attribute::Text(text.trim_end_matches('\0').to_owned());
    };
    let width = number.bytes() as usize;
    let word = |cell: &[u8]| cell.iter().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
    let (floats, wholes) = bytes
        .chunks_exact(width)
        .map(|cell| {
            let word = word(cell);
            let signed = (word << (64 - 8 * width)) as i64 >> (64 - 8 * width);
            match number {
                Number::F32 => (f64::from(f32::from_bits(word as u32)), f32::from_bits(word as u32) as i128),
                Number::F64 => (f64::from_bits(word), f64::from_bits(word) as i128),
                Number::U8 | Number::U16 | Number::U32 | Number::U64 => (word as f64, i128::from(word)),
                _ => (signed as f64, i128::from(signed)),
            }
        })
        .unzip();
    Attribute::Numbers(floats, wholes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two dimensions, a two-byte record variable, a four-byte one, and a plain variable; also returns the header's
    /// length.
    fn sample() -> (Vec<u8>, usize) {
        let mut out = b"CDF\x01".to_vec();
        let word = |out: &mut Vec<u8>, value: u32| out.extend(value.to_be_bytes());
        let name = |out: &mut Vec<u8>, text: &str| {
            out.extend((text.len() as u32).to_be_bytes());
            out.extend(text.bytes());
            out.resize(out.len().next_multiple_of(4), 0);
        };
        word(&mut out, 2);
        word(&mut out, DIMENSION);
        word(&mut out, 2);
        name(&mut out, "time");
        word(&mut out, 0);
        name(&mut out, "x");
        word(&mut out, 3);
        word(&mut out, 0);
        word(&mut out, 0);
        word(&mut out, VARIABLE);
        word(&mut out, 3);
        for (variable, axes, kind, begin) in [("a", vec![0, 1], 3, 400), ("b", vec![0], 5, 408), ("x", vec![1], 6, 300)]
        {
            name(&mut out, variable);
            word(&mut out, axes.len() as u32);
            axes.iter().for_each(|axis| word(&mut out, *axis));
            word(&mut out, ATTRIBUTE);
            word(&mut out, 1);
            name(&mut out, "_FillValue");
            word(&mut out, 3);
            word(&mut out, 1);
            out.extend([0xff, 0xff, 0, 0]);
            word(&mut out, kind);
            word(&mut out, 0);
            word(&mut out, begin);
        }
        let header = out.len();
        out.resize(424, 0);
        (out, header)
    }

    #[test]
    fn records_are_as_far_apart_as_all_their_variables() {
        let (bytes, _) = sample();
        let layout = layout(&mut &bytes[..], bytes.len() as u64).unwrap();
        layout.check(bytes.len() as u64).unwrap();
        assert_eq!(layout.dimensions[0], Dimension { name: "time".into(), length: 2 });
        assert_eq!(layout.variables[0].storage, Storage::Records { offset: 400, stride: 12 });
        assert_eq!(layout.variables[1].storage, Storage::Records { offset: 408, stride: 12 });
        assert_eq!(layout.variables[2].storage, Storage::Contiguous { offset: 300 });
        let missing: Vec<_> = layout.variables.iter().map(|variable| variable.packing.missing[0]).collect();
        assert_eq!(missing, [0xffff, u64::from((-1f32).to_bits()), (-1f64).to_bits()]);
    }

    #[test]
    fn damaged_headers_are_errors_and_take_no_memory() {
        let (bytes, header) = sample();
        for length in 0..header {
            assert!(layout(&mut &bytes[..length], length as u64).is_err(), "{length}");
        }
        for place in 0..header {
            for value in [0, 0x7f, 0xff] {
                let mut damaged = bytes.clone();
                damaged[place] = value;
                if let Ok(layout) = layout(&mut &damaged[..], damaged.len() as u64) {
                    let _ = layout.check(damaged.len() as u64);
                }
            }
        }
    }
}
