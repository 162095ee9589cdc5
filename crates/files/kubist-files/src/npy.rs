//! A NumPy array in an NPZ file.

use std::io::Read;
use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, Float16Type, Float32Type, Float64Type};
use arrow_array::types::{
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::types::{Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{ArrayRef, BooleanArray, Date32Array, PrimitiveArray, StringArray};
use arrow_schema::{DataType, TimeUnit};

use crate::error::io_message;

#[derive(Clone, Debug, PartialEq)]
pub struct Element {
    pub data_type: DataType,
    pub bytes: usize,
    kind: u8,
    big_endian: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    pub element: Element,
    pub fortran_order: bool,
    pub shape: Vec<u64>,
    /// Bytes before the first element.
    pub bytes: u64,
}

/// Maximum length of a header; NumPy does not write longer ones.
const LONGEST_HEADER: usize = 1 << 20;

impl Header {
    /// Reads a header, up to the first element.
    ///
    /// # Errors
    ///
    /// The message names the fault of the header, or an unsupported type.
    pub fn read(reader: &mut dyn Read) -> Result<Header, String> {
        let mut fixed = [0; 8];
        let mut take = |bytes: &mut [u8]| reader.read_exact(bytes).map_err(|error| io_message(&error));
        take(&mut fixed)?;
        if !fixed.starts_with(b"\x93NUMPY") {
            return Err("it is not a NumPy array".to_string());
        }
        let length_bytes = if fixed[6] == 1 { 2 } else { 4 };
        let mut length = [0; 4];
        take(&mut length[..length_bytes])?;
        let length = u32::from_le_bytes(length) as usize;
        if length > LONGEST_HEADER {
            return Err("its header is damaged".to_string());
        }
        let mut text = vec![0; length];
        take(&mut text)?;
        let text = String::from_utf8_lossy(&text);
        let entry = |key: &str| -> Result<&str, String> {
            let at = text.find(&format!("'{key}':")).ok_or_else(|| format!("its header has no {key:?}"))?;
            Ok(text[at + key.len() + 3..].trim_start())
        };
        Ok(Header {
            element: Element::parse(entry("descr")?)?,
            fortran_order: entry("fortran_order")?.starts_with("True"),
            shape: shape(entry("shape")?)?,
            bytes: (fixed.len() + length_bytes + length) as u64,
        })
    }

    /// Bytes of all elements; `None` if the number exceeds 64 bits.
    pub fn data_bytes(&self) -> Option<u64> {
        self.shape.iter().try_fold(self.element.bytes as u64, |bytes, length| bytes.checked_mul(*length))
    }
}

/// Parses `(3, 2)`.
fn shape(text: &str) -> Result<Vec<u64>, String> {
    let damaged = || "its header's shape is damaged".to_string();
    let inner = text.strip_prefix('(').and_then(|text| text.split_once(')')).ok_or_else(damaged)?.0;
    let lengths = inner.split(',').map(str::trim).filter(|length| !length.is_empty());
    lengths.map(|length| length.parse().map_err(|_| damaged())).collect()
}

impl Element {
    /// Parses a type as NumPy writes it: `'<f4'`, `'|b1'`, `'<M8[ns]'`.
    fn parse(text: &str) -> Result<Element, String> {
        if text.starts_with('[') {
            return Err("structured arrays are not read; save each field as an array of its own".to_string());
        }
        let name = text.strip_prefix('\'').and_then(|text| text.split_once('\'')).map(|(name, _)| name);
        let name = name.ok_or("its type is damaged")?;
        let unknown = || format!("arrays of type {name:?} are not read");
        let mut letters = name.chars();
        let (order, kind) = (letters.next().ok_or_else(unknown)?, letters.next().ok_or_else(unknown)?);
        let rest = letters.as_str();
        let (size, unit) = match rest.split_once('[') {
            Some((size, unit)) => (size, unit.strip_suffix(']').ok_or_else(unknown)?),
            None => (rest, ""),
        };
        if kind == 'O' {
            return Err("arrays of Python objects are not read".to_string());
        }
        let size: usize = size.parse().map_err(|_| unknown())?;
        let data_type = match (kind, size, unit) {
            ('b', 1, "") => DataType::Boolean,
            ('i', 1, "") => DataType::Int8,
            ('i', 2, "") => DataType::Int16,
            ('i', 4, "") => DataType::Int32,
            ('i', 8, "") => DataType::Int64,
            ('u', 1, "") => DataType::UInt8,
            ('u', 2, "") => DataType::UInt16,
            ('u', 4, "") => DataType::UInt32,
            ('u', 8, "") => DataType::UInt64,
            ('f', 2, "") => DataType::Float16,
            ('f', 4, "") => DataType::Float32,
            ('f', 8, "") => DataType::Float64,
            ('M', 8, "D") => DataType::Date32,
            ('M', 8, "s") => DataType::Timestamp(TimeUnit::Second, None),
            ('M', 8, "ms") => DataType::Timestamp(TimeUnit::Millisecond, None),
            ('M', 8, "us") => DataType::Timestamp(TimeUnit::Microsecond, None),
            ('M', 8, "ns") => DataType::Timestamp(TimeUnit::Nanosecond, None),
            ('m', 8, "s") => DataType::Duration(TimeUnit::Second),
            ('m', 8, "ms") => DataType::Duration(TimeUnit::Millisecond),
            ('m', 8, "us") => DataType::Duration(TimeUnit::Microsecond),
            ('m', 8, "ns") => DataType::Duration(TimeUnit::Nanosecond),
            ('U' | 'S', 0..=65_536, "") => DataType::Utf8,
            _ => return Err(unknown()),
        };
        let bytes = if kind == 'U' { size * 4 } else { size };
        Ok(Element { data_type, bytes, kind: kind as u8, big_endian: order == '>' })
    }

    pub fn is_big_endian(&self) -> bool {
        self.big_endian
    }

    /// Returns a column's elements; `width` is the number of elements in a row.
    ///
    /// # Errors
    ///
    /// The message names the value.
    pub fn column(&self, rows: &[u8], count: usize, width: usize, column: usize) -> Result<ArrayRef, String> {
        let row_bytes = self.bytes * width;
        let start = column * self.bytes;
        let cell = |row: usize| &rows[row * row_bytes + start..][..self.bytes];
        let cells = Cells { big_endian: self.big_endian, cell: &cell, count };
        use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
        Ok(match &self.data_type {
            DataType::Boolean => Arc::new((0..count).map(|row| Some(cell(row)[0] != 0)).collect::<BooleanArray>()),
            DataType::Int8 => cells.numbers::<Int8Type, 1>(i8::from_le_bytes),
            DataType::Int16 => cells.numbers::<Int16Type, 2>(i16::from_le_bytes),
            DataType::Int32 => cells.numbers::<Int32Type, 4>(i32::from_le_bytes),
            DataType::Int64 => cells.numbers::<Int64Type, 8>(i64::from_le_bytes),
            DataType::UInt8 => cells.numbers::<UInt8Type, 1>(u8::from_le_bytes),
            DataType::UInt16 => cells.numbers::<UInt16Type, 2>(u16::from_le_bytes),
            DataType::UInt32 => cells.numbers::<UInt32Type, 4>(u32::from_le_bytes),
            DataType::UInt64 => cells.numbers::<UInt64Type, 8>(u64::from_le_bytes),
            DataType::Float16 => {
                cells.numbers::<Float16Type, 2>(<Float16Type as ArrowPrimitiveType>::Native::from_le_bytes)
            }
            DataType::Float32 => cells.numbers::<Float32Type, 4>(f32::from_le_bytes),
            DataType::Float64 => cells.numbers::<Float64Type, 8>(f64::from_le_bytes),
            DataType::Date32 => cells.dates()?,
            DataType::Timestamp(Second, _) => cells.moments::<TimestampSecondType>(),
            DataType::Timestamp(Millisecond, _) => cells.moments::<TimestampMillisecondType>(),
            DataType::Timestamp(Microsecond, _) => cells.moments::<TimestampMicrosecondType>(),
            DataType::Timestamp(Nanosecond, _) => cells.moments::<TimestampNanosecondType>(),
            DataType::Duration(Second) => cells.moments::<DurationSecondType>(),
            DataType::Duration(Millisecond) => cells.moments::<DurationMillisecondType>(),
            DataType::Duration(Microsecond) => cells.moments::<DurationMicrosecondType>(),
            DataType::Duration(Nanosecond) => cells.moments::<DurationNanosecondType>(),
            _ if self.kind == b'U' => cells.texts(utf32)?,
            _ => cells.texts(|cell, _| String::from_utf8(cell.to_vec()).ok())?,
        })
    }
}

struct Cells<'a> {
    big_endian: bool,
    cell: &'a dyn Fn(usize) -> &'a [u8],
    count: usize,
}

/// NumPy's missing timestamp or duration.
const NOT_A_TIME: i64 = i64::MIN;

impl Cells<'_> {
    fn array<const N: usize>(&self, row: usize) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice((self.cell)(row));
        if self.big_endian {
            bytes.reverse();
        }
        bytes
    }

    fn numbers<T: ArrowPrimitiveType, const N: usize>(&self, read: fn([u8; N]) -> T::Native) -> ArrayRef {
        Arc::new(PrimitiveArray::<T>::from_iter_values((0..self.count).map(|row| read(self.array(row)))))
    }

    fn moments<T: ArrowPrimitiveType<Native = i64>>(&self) -> ArrayRef {
        let moments = (0..self.count).map(|row| i64::from_le_bytes(self.array(row)));
        Arc::new(moments.map(|moment| (moment != NOT_A_TIME).then_some(moment)).collect::<PrimitiveArray<T>>())
    }

    fn dates(&self) -> Result<ArrayRef, String> {
        let days = (0..self.count).map(|row| match i64::from_le_bytes(self.array(row)) {
            NOT_A_TIME => Ok(None),
            days => i32::try_from(days).map(Some).map_err(|_| format!("day {days} is out of range")),
        });
        Ok(Arc::new(days.collect::<Result<Date32Array, String>>()?))
    }

    fn texts(&self, read: impl Fn(&[u8], bool) -> Option<String>) -> Result<ArrayRef, String> {
        let texts = (0..self.count).map(|row| {
            let text = read((self.cell)(row), self.big_endian).ok_or("a text is not valid Unicode")?;
            Ok(Some(text.trim_end_matches('\0').to_string()))
        });
        Ok(Arc::new(texts.collect::<Result<StringArray, String>>()?))
    }
}

fn utf32(cell: &[u8], big_endian: bool) -> Option<String> {
    let read = if big_endian { u32::from_be_bytes } else { u32::from_le_bytes };
    let (codes, _) = cell.as_chunks::<4>();
    codes.iter().map(|code| char::from_u32(read(*code))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(dictionary: &str) -> Result<Header, String> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((dictionary.len() as u16).to_le_bytes());
        bytes.extend(dictionary.as_bytes());
        Header::read(&mut &bytes[..])
    }

    #[test]
    fn headers() {
        let read = header("{'descr': '<f4', 'fortran_order': False, 'shape': (10, 3), }  \n").unwrap();
        assert_eq!((read.shape, read.fortran_order), (vec![10, 3], false));
        assert_eq!((read.element.data_type, read.element.bytes), (DataType::Float32, 4));
        assert_eq!(header("{'descr': '|b1', 'fortran_order': True, 'shape': (), }").unwrap().shape, Vec::<u64>::new());
        assert_eq!(header("{'descr': '>M8[ms]', 'fortran_order': True, 'shape': (5,), }").unwrap().shape, [5]);
        for (dictionary, message) in [
            ("{'descr': '<c16', 'fortran_order': False, 'shape': (1,), }", "\"<c16\" are not read"),
            ("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "Python objects"),
            ("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (1,), }", "structured"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (x,), }", "shape is damaged"),
            ("{'descr': '<f4', 'shape': (1,), }", "no \"fortran_order\""),
            ("{'descr': '', 'fortran_order': False, 'shape': (1,), }", "are not read"),
        ] {
            assert!(header(dictionary).unwrap_err().contains(message), "{dictionary}");
        }
    }

    #[test]
    fn big_endian_numbers_and_interleaved_columns() {
        let element = Element::parse("'>i2'").unwrap();
        let column = element.column(&[0, 1, 0, 2, 0, 3, 0, 4], 2, 2, 1).unwrap();
        assert_eq!(column.as_ref(), &arrow_array::Int16Array::from(vec![2, 4]) as &dyn arrow_array::Array);
    }

    #[test]
    fn durations_have_nulls() {
        let element = Element::parse("'<m8[s]'").unwrap();
        let bytes = [5_i64.to_le_bytes(), i64::MIN.to_le_bytes()].concat();
        let column = element.column(&bytes, 2, 1, 0).unwrap();
        let expected = arrow_array::DurationSecondArray::from(vec![Some(5), None]);
        assert_eq!(column.as_ref(), &expected as &dyn arrow_array::Array);
    }
}
