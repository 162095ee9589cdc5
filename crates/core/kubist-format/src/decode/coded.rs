//! Columns of texts with few different values, as codes in a dictionary.
//!
//! A condition or a hash is then computed once for each value, and not for each row.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, DictionaryArray, PrimitiveArray};
use arrow_schema::DataType;

use super::opaque::{OpaqueColumn, OpaquePage};
use super::{Column, Validity};
use crate::decoded::DecodedPage;
use crate::encode::opaque_bytes;
use crate::page::PageColumn;
use crate::rows::Span;

/// With more different values, the column has plain texts.
const MOST_VALUES: usize = 1 << 10;
/// Slots of the table of recent values.
const SLOTS: usize = 256;

pub(super) struct CodedColumn {
    data_type: DataType,
    codes: Vec<i32>,
    validity: Validity,
    values: Values,
    /// All rows, once there are too many values.
    plain: Option<OpaqueColumn>,
}

/// Different values, in the order of their first row.
#[derive(Default)]
struct Values {
    bytes: Vec<Box<[u8]>>,
    codes: HashMap<Box<[u8]>, i32>,
    /// Codes of recent values by their length and first bytes; -1 in an empty slot.
    recent: Vec<(u64, i32)>,
}

impl Values {
    #[inline]
    fn code(&mut self, value: &[u8]) -> i32 {
        let mut first = [0; 8];
        let length = value.len().min(8);
        first[..length].copy_from_slice(&value[..length]);
        let head = u64::from_le_bytes(first) ^ (value.len() as u64) << 56;
        let slot = (head.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize % SLOTS;
        if self.recent.is_empty() {
            self.recent = vec![(0, -1); SLOTS];
        }
        let (known, code) = self.recent[slot];
        if known == head && code >= 0 && *self.bytes[code as usize] == *value {
            return code;
        }
        let code = match self.codes.get(value) {
            Some(code) => *code,
            None => {
                let code = self.bytes.len() as i32;
                self.bytes.push(value.into());
                self.codes.insert(value.into(), code);
                code
            }
        };
        self.recent[slot] = (head, code);
        code
    }
}

impl CodedColumn {
    pub fn new(data_type: &DataType, rows: usize) -> CodedColumn {
        CodedColumn {
            data_type: data_type.clone(),
            codes: Vec::with_capacity(rows),
            validity: Validity::default(),
            values: Values::default(),
            plain: None,
        }
    }

    /// Changes to plain texts if there are too many values.
    fn limit(&mut self) {
        if self.plain.is_some() || self.values.bytes.len() <= MOST_VALUES {
            return;
        }
        let mut plain = OpaqueColumn::new(&self.data_type);
        let nulls = std::mem::take(&mut self.validity).finish();
        for (row, code) in std::mem::take(&mut self.codes).into_iter().enumerate() {
            plain.push(&self.values.bytes[code as usize], nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)));
        }
        self.values = Values::default();
        self.plain = Some(plain);
    }
}

impl Column for CodedColumn {
    fn append(&mut self, page: &PageColumn<'_>, spans: &[Span]) -> Result<(), String> {
        let page = OpaquePage::read(page, None)?;
        if let Some(plain) = &mut self.plain {
            plain.append_page(&page, spans);
            return Ok(());
        }
        for span in spans {
            span.for_each(|row| self.codes.push(self.values.code(page.bytes(row..row + 1))));
            match page.is_valid {
                true => self.validity.push(span.count(), true),
                false => span.for_each(|row| self.validity.push(1, page.is_valid(row))),
            }
        }
        self.limit();
        Ok(())
    }

    fn append_decoded(&mut self, _: &DecodedPage, _: &[Span]) {
        unreachable!("pages of {} are not kept", self.data_type)
    }

    fn kept(self: Box<Self>) -> Option<DecodedPage> {
        None
    }

    fn repeat(&mut self, value: &dyn Array, count: usize) {
        if let Some(plain) = &mut self.plain {
            return plain.repeat(value, count);
        }
        let valid = value.is_valid(0);
        let code = self.values.code(if valid { opaque_bytes(value)(0) } else { &[] });
        self.codes.extend(std::iter::repeat_n(code, count));
        self.validity.push(count, valid);
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef, String> {
        if let Some(plain) = self.plain {
            return Box::new(plain).finish();
        }
        let mut values = OpaqueColumn::new(&self.data_type);
        self.values.bytes.iter().for_each(|value| values.push(value, true));
        let values = Box::new(values).finish()?;
        let codes = PrimitiveArray::<Int32Type>::new(self.codes.into(), self.validity.finish());
        Ok(Arc::new(DictionaryArray::try_new(codes, values).map_err(|error| error.to_string())?))
    }
}
