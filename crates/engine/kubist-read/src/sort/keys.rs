//! Sort keys: byte strings whose byte order is the order of the rows.
//!
//! A key has a field for each sort term, then the row's priority, then a hash of the result columns. Rows
//! with equal keys have equal results, so the order is independent of storage. A field begins with the rank
//! of the value: numbers, then NaN, then null, in both directions.

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Decimal256Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use kubist_index::order;
use kubist_index::priority::{is_identity_type, priorities};

use crate::bind::{By, Order};
use kubist_types::cancel::Cancel;
use kubist_types::error::{Error, Result};

const VALUE: u8 = 0;
const NAN: u8 = 1;
const NULL: u8 = 2;

#[derive(Clone, Default)]
pub(crate) struct Keys {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Keys {
    /// `columns` are the columns that the query reads; the first `answered` are in the result.
    pub fn new(
        order: &Order,
        columns: &[ArrayRef],
        answered: usize,
        priorities: &[u64],
        cancel: &Cancel,
    ) -> Result<Keys> {
        let arrays = order.terms.iter().map(|term| match &term.by {
            By::Priority => Ok(None),
            By::Column(place) => Ok(Some(columns[*place].clone())),
            By::Computed(computed) => computed.values(priorities.len(), columns, cancel).map(Some),
        });
        let arrays = arrays.collect::<Result<Vec<Option<ArrayRef>>>>()?;
        let terms = order.terms.iter().zip(&arrays).map(|(term, array)| match array {
            None => Ok((Values::Exact(priorities.to_vec(), (0, u64::MAX)), None, term.descending)),
            Some(array) => Ok((Values::of(array)?, array.nulls().cloned(), term.descending)),
        });
        let terms: Vec<_> = terms.collect::<Result<_>>()?;
        let ties = ties(&columns[..answered], priorities.len());
        let mut keys = Keys { bytes: Vec::with_capacity(priorities.len() * 32), ends: Vec::new() };
        for (row, (priority, tie)) in priorities.iter().zip(ties).enumerate() {
            for (values, nulls, descending) in &terms {
                let is_null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
                values.append(row, is_null, *descending, &mut keys.bytes);
            }
            keys.bytes.extend(priority.to_be_bytes());
            keys.bytes.extend(tie.to_be_bytes());
            keys.end()?;
        }
        Ok(keys)
    }

    fn end(&mut self) -> Result<()> {
        let end = u32::try_from(self.bytes.len());
        self.ends.push(end.map_err(|_| Error::invalid("order_by: the values of 65,536 records take more than 4 GiB"))?);
        Ok(())
    }

    pub fn get(&self, row: usize) -> &[u8] {
        let begin = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[begin as usize..self.ends[row] as usize]
    }

    pub fn push(&mut self, key: &[u8]) -> Result<()> {
        self.bytes.extend_from_slice(key);
        self.end()
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The memory in bytes.
    pub fn size(&self) -> usize {
        self.bytes.capacity() + 4 * self.ends.capacity()
    }

    pub fn write(&self, into: &mut Vec<u8>) {
        into.extend((self.ends.len() as u32).to_le_bytes());
        self.ends.iter().for_each(|end| into.extend(end.to_le_bytes()));
        into.extend(&self.bytes);
    }

    /// Decodes keys; also returns their encoded length, or `None` if the bytes are invalid.
    pub fn read(bytes: &[u8]) -> Option<(Keys, usize)> {
        let (count, rest) = bytes.split_first_chunk::<4>()?;
        let (ends, rest) = rest.split_at_checked(4 * u32::from_le_bytes(*count) as usize)?;
        let ends: Vec<u32> =
            ends.chunks_exact(4).map(|end| u32::from_le_bytes([end[0], end[1], end[2], end[3]])).collect();
        let length = ends.last().map_or(0, |end| *end as usize);
        let keys = rest.get(..length)?.to_vec();
        Some((Keys { bytes: keys, ends }, bytes.len() - rest.len() + length))
    }
}

fn ties(answered: &[ArrayRef], rows: usize) -> Vec<u64> {
    let hashed = answered.iter().filter(|array| is_identity_type(array.data_type()));
    let hashed: Vec<&dyn Array> = hashed.map(|array| array.as_ref()).collect();
    priorities(&hashed, rows, 0)
}

enum Values<'a> {
    /// Order keys, and the range of keys that are not NaN.
    Exact(Vec<u64>, (u64, u64)),
    Decimal128(&'a [i128]),
    Decimal256(&'a [arrow_buffer::i256]),
    Bytes(&'a dyn Array),
}

impl<'a> Values<'a> {
    fn of(array: &'a ArrayRef) -> Result<Values<'a>> {
        let data_type = array.data_type();
        Ok(match data_type {
            DataType::Decimal128(..) => Values::Decimal128(array.as_primitive::<Decimal128Type>().values()),
            DataType::Decimal256(..) => Values::Decimal256(array.as_primitive::<Decimal256Type>().values()),
            _ if order::is_exact(data_type) => {
                let keys = order::keys(array.as_ref());
                let mut keys = keys.ok_or_else(|| Error::internal(format!("{data_type} has no order keys")))?;
                if let Some((negative, positive)) = order::zero_keys(data_type) {
                    keys.iter_mut().filter(|key| **key == negative).for_each(|key| *key = positive);
                }
                Values::Exact(keys, order::number_keys(data_type))
            }
            _ => Values::Bytes(array.as_ref()),
        })
    }

    fn append(&self, row: usize, is_null: bool, descending: bool, into: &mut Vec<u8>) {
        if is_null {
            return into.push(NULL);
        }
        if let Values::Exact(keys, (low, high)) = self
            && !(*low..=*high).contains(&keys[row])
        {
            return into.push(NAN);
        }
        into.push(VALUE);
        let begin = into.len();
        match self {
            Values::Exact(keys, _) => into.extend(keys[row].to_be_bytes()),
            Values::Decimal128(values) => into.extend((values[row] ^ i128::MIN).to_be_bytes()),
            Values::Decimal256(values) => {
                let mut bytes = values[row].to_be_bytes();
                bytes[0] ^= 0x80;
                into.extend(bytes);
            }
            Values::Bytes(array) => append_bytes(bytes_of(*array, row), into),
        }
        if descending {
            into[begin..].iter_mut().for_each(|byte| *byte = !*byte);
        }
    }
}

/// Escapes a value so that a prefix sorts first and the following fields do not matter: 0 becomes 0 255,
/// and the end is 0 0.
fn append_bytes(value: &[u8], into: &mut Vec<u8>) {
    for byte in value {
        into.push(*byte);
        if *byte == 0 {
            into.push(0xff);
        }
    }
    into.extend([0, 0]);
}

/// Other types than string and binary do not occur.
fn bytes_of(array: &dyn Array, row: usize) -> &[u8] {
    match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().value(row).as_bytes(),
        DataType::LargeUtf8 => array.as_string::<i64>().value(row).as_bytes(),
        DataType::Binary => array.as_binary::<i32>().value(row),
        DataType::LargeBinary => array.as_binary::<i64>().value(row),
        DataType::FixedSizeBinary(_) => array.as_fixed_size_binary().value(row),
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bind::Term;
    use arrow_array::{Decimal128Array, Decimal256Array, Float32Array, Int64Array, StringArray};
    use std::sync::Arc;

    fn ordered(array: ArrayRef, descending: bool) -> Vec<usize> {
        let order = Order { terms: vec![Term { by: By::Column(0), descending }], first: None };
        let priorities: Vec<u64> = (0..array.len() as u64).collect();
        let keys = Keys::new(&order, &[array.clone()], 1, &priorities, &Cancel::default()).unwrap();
        let mut written = vec![];
        keys.write(&mut written);
        written.push(7);
        let (keys, length) = Keys::read(&written).unwrap();
        assert_eq!((length, Keys::read(&written[..length - 1]).is_none()), (written.len() - 1, true));
        let mut rows: Vec<usize> = (0..array.len()).collect();
        rows.sort_by_key(|row| keys.get(*row));
        rows
    }

    #[test]
    fn what_is_no_number_comes_last_in_both_directions() {
        let x: ArrayRef = Arc::new(Float32Array::from(vec![
            None,
            Some(f32::NAN),
            Some(1.0),
            Some(-0.0),
            Some(0.0),
            Some(-f32::NAN),
            Some(f32::INFINITY),
            Some(-3.0),
        ]));
        assert_eq!(ordered(x.clone(), false), [7, 3, 4, 2, 6, 1, 5, 0]);
        assert_eq!(ordered(x, true), [6, 2, 3, 4, 7, 1, 5, 0]);
    }

    #[test]
    fn texts_and_wide_numbers_are_compared_whole() {
        let texts = vec![
            Some("b"),
            Some(""),
            Some("a\0b"),
            Some("a"),
            None,
            Some("a\0"),
            Some("aa"),
            Some("longer than eight 2"),
            Some("longer than eight 1"),
        ];
        let texts: ArrayRef = Arc::new(StringArray::from(texts));
        assert_eq!(ordered(texts.clone(), false), [1, 3, 5, 2, 6, 0, 8, 7, 4]);
        assert_eq!(ordered(texts, true), [7, 8, 0, 6, 2, 5, 3, 1, 4]);
        let integers: ArrayRef = Arc::new(Int64Array::from(vec![i64::MAX, -1, i64::MIN, i64::MAX - 1]));
        assert_eq!(ordered(integers, false), [2, 1, 3, 0]);
        let wide: ArrayRef = Arc::new(Decimal128Array::from(vec![
            i128::from(i64::MAX) + 2,
            i128::from(i64::MAX) + 1,
            -1,
            i128::MIN / 4,
        ]));
        assert_eq!(ordered(wide, false), [3, 2, 1, 0]);
        let i256 = arrow_buffer::i256::from_i128;
        let wider: ArrayRef = Arc::new(Decimal256Array::from(vec![i256(5), i256(-5), i256(i128::MAX), i256(4)]));
        assert_eq!(ordered(wider, true), [2, 0, 3, 1]);
    }
}
