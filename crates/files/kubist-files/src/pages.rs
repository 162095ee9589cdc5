//! Checks the lengths in a Parquet file before its reader allocates memory: the schema may be nested without limit, and
//! each page states its inflated length. The pages also determine how many rows can be read together.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};

use parquet::file::metadata::ColumnChunkMetaData;

use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::thrift::{Thrift, Trouble, kind};

const LONGEST_FOOTER: u64 = 256 << 20;
/// Maximum length of a page header, which may contain statistics.
const LONGEST_HEADER: u64 = 16 << 20;
const DEEPEST_SCHEMA: usize = 64;
/// Bytes of the footer's length and of `PAR1`.
const TRAILER_BYTES: u64 = 8;

fn damaged(why: impl std::fmt::Display) -> Error {
    Error::invalid(format!("the file is damaged or cut short: {why}"))
}

pub fn check_schema(file: &mut File, limits: &Limits) -> Result<()> {
    let total = file.metadata().map_err(Error::system)?.len();
    let end = total.checked_sub(TRAILER_BYTES).ok_or_else(|| damaged("it has no footer"))?;
    let mut length = [0; 4];
    file.seek(SeekFrom::Start(end)).and_then(|_| file.read_exact(&mut length)).map_err(Error::system)?;
    let length = u64::from(u32::from_le_bytes(length));
    let begin = end.checked_sub(length).filter(|_| length <= LONGEST_FOOTER);
    let begin = begin.ok_or_else(|| damaged(format!("its footer has {length} bytes")))?;
    let mut footer = vec![0; length as usize];
    file.seek(SeekFrom::Start(begin)).and_then(|_| file.read_exact(&mut footer)).map_err(Error::system)?;
    let children = children(&footer).map_err(|_| damaged("its footer cannot be read"))?;
    check_tree(&children, limits)
}

/// Number of children per element, in depth-first order.
fn children(footer: &[u8]) -> Result<Vec<i64>, Trouble> {
    let mut elements = Vec::new();
    Thrift::new(footer).fields(&mut |thrift, id, found| {
        if (id, found) != (2, kind::LIST) {
            return Ok(false);
        }
        let (size, element) = thrift.list()?;
        if element != kind::STRUCT {
            return Err(Trouble::Damaged);
        }
        for _ in 0..size {
            let mut children = 0;
            thrift.fields(&mut |thrift, id, found| {
                if (id, found) != (5, kind::I32) {
                    return Ok(false);
                }
                children = thrift.number()?;
                Ok(true)
            })?;
            elements.push(children);
        }
        Ok(true)
    })?;
    Ok(elements)
}

fn check_tree(children: &[i64], limits: &Limits) -> Result<()> {
    limits.check_columns(children.len().saturating_sub(1))?;
    // Number of remaining children per enclosing element.
    let mut around: Vec<i64> = Vec::new();
    for (index, number) in children.iter().enumerate() {
        if let Some(left) = around.last_mut() {
            *left -= 1;
        }
        let behind = (children.len() - index - 1) as i64;
        if !(0..=behind).contains(number) {
            return Err(damaged(format!("a column of {number} columns")));
        }
        if *number > 0 {
            around.push(*number);
        }
        while around.last() == Some(&0) {
            around.pop();
        }
        if around.len() > DEEPEST_SCHEMA {
            return Err(damaged("its columns are nested too deeply"));
        }
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pages {
    /// The inflated bytes of the largest page and of the dictionary.
    pub held_bytes: u64,
    /// Maximum bytes per value in any page.
    pub value_bytes: f64,
}

#[derive(Debug, Default)]
struct Header {
    bytes: u64,
    inflated: i64,
    packed: i64,
    values: i64,
    is_dictionary: bool,
}

pub fn check_page(page: &[u8], limits: &Limits) -> Result<()> {
    let header = parsed(page).map_err(|_| damaged("a page cannot be read"))?;
    match u64::try_from(header.inflated) {
        Ok(inflated) => limits.check_batch("a page", inflated),
        Err(_) => Err(damaged("a page has a negative size")),
    }
}

/// Checks the pages of a column. For each page with values, `each` gets the offset, the bytes (with header) and the
/// number of values.
pub fn check_pages(
    file: &mut BufReader<File>,
    total: u64,
    chunk: &ColumnChunkMetaData,
    limits: &Limits,
    each: &mut dyn FnMut(u64, u64, u64),
) -> Result<Pages> {
    let first = chunk.dictionary_page_offset().filter(|offset| *offset > 0).unwrap_or(i64::MAX);
    let begin = u64::try_from(first.min(chunk.data_page_offset())).map_err(damaged)?;
    let length = u64::try_from(chunk.compressed_size()).map_err(damaged)?;
    let end = begin.checked_add(length).filter(|end| *end <= total);
    let end =
        end.ok_or_else(|| damaged(format!("{length} bytes at {begin} are not in the file, which has {total}")))?;
    let (mut at, mut values, mut pages, mut dictionary, mut largest) = (begin, 0i64, Pages::default(), 0, 0);
    while at < end && values < chunk.num_values() {
        let header = header(file, at, total)?;
        let (packed, inflated) = (u64::try_from(header.packed), u64::try_from(header.inflated));
        let (Ok(packed), Ok(inflated)) = (packed, inflated) else {
            return Err(damaged(format!("the page at {at} has a negative size")));
        };
        let start = at;
        at = at.saturating_add(header.bytes).saturating_add(packed);
        if at > total {
            return Err(damaged(format!("a page of {packed} bytes extends past the end of the file")));
        }
        limits.check_batch("a page", inflated.max(packed))?;
        if header.is_dictionary {
            dictionary = inflated;
        } else {
            largest = largest.max(inflated);
            pages.value_bytes = pages.value_bytes.max(inflated as f64 / header.values.max(1) as f64);
            values = values.saturating_add(header.values.max(0));
            if header.values > 0 {
                each(start, at - start, header.values as u64);
            }
        }
    }
    pages.held_bytes = dictionary + largest;
    Ok(pages)
}

fn header(file: &mut BufReader<File>, at: u64, total: u64) -> Result<Header> {
    let mut window = 1 << 12;
    loop {
        let length = window.min(total.saturating_sub(at));
        let mut bytes = vec![0; length as usize];
        let here = file.stream_position().map_err(Error::system)?;
        file.seek_relative(at as i64 - here as i64)
            .and_then(|()| file.read_exact(&mut bytes))
            .map_err(Error::system)?;
        match parsed(&bytes) {
            Ok(header) => return Ok(header),
            Err(Trouble::Short) if length == window && window < LONGEST_HEADER => window *= 16,
            Err(_) => return Err(damaged(format!("the page at {at} cannot be read"))),
        }
    }
}

fn parsed(bytes: &[u8]) -> Result<Header, Trouble> {
    let mut header = Header::default();
    let mut thrift = Thrift::new(bytes);
    thrift.fields(&mut |thrift, id, found| {
        match (id, found) {
            (2, kind::I32) => header.inflated = thrift.number()?,
            (3, kind::I32) => header.packed = thrift.number()?,
            // Headers of data pages (two versions) and of a dictionary begin with the number of values.
            (5 | 7 | 8, kind::STRUCT) => {
                header.is_dictionary = id == 7;
                thrift.fields(&mut |thrift, id, found| {
                    if (id, found) != (1, kind::I32) {
                        return Ok(false);
                    }
                    header.values = thrift.number()?;
                    Ok(true)
                })?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    header.bytes = thrift.position() as u64;
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_trees_of_bounded_depth() {
        let limits = Limits::default();
        assert!(check_tree(&[3, 0, 2, 0, 0, 0], &limits).is_ok());
        assert!(check_tree(&[1 << 30, 0], &limits).is_err());
        assert!(check_tree(&[-1], &limits).is_err());
        let mut deep = vec![1; 1000];
        deep.push(0);
        assert!(check_tree(&deep, &limits).unwrap_err().to_string().contains("too deep"));
        let wide: Vec<i64> = std::iter::once(20_000).chain(std::iter::repeat_n(0, 20_000)).collect();
        assert!(check_tree(&wide, &limits).unwrap_err().to_string().contains("read option max_columns"));
    }

    #[test]
    fn a_page_header_tells_its_lengths() {
        let bytes = [0x15, 0, 0x15, 0xd0, 0x0f, 0x15, 20, 0x2c, 0x15, 14, 0, 0];
        let header = parsed(&bytes).unwrap();
        assert_eq!((header.inflated, header.packed, header.values, header.bytes), (1000, 10, 7, bytes.len() as u64));
    }
}
