//! Columns of texts with few different values, as codes in a dictionary: a condition or hash is computed per value, not
//! per row.

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, DictionaryArray, PrimitiveArray};
use arrow_schema::DataType;

use super::opaque::{OpaqueColumn, OpaquePage};
use super::{Column, Validity, has_labels, texts};
use crate::decoded::DecodedPage;
use crate::distinct::Distinct;
use crate::encode::opaque_bytes;
use crate::numbers::DecodeScratch;
use crate::page::PageColumn;
use crate::rows::Span;

/// With more different values, the column has plain texts.
const MOST_VALUES: usize = 1 << 10;

/// Returns the codes and labels of a page; `None` if `has_labels` is false.
pub(super) fn decoded(page: &PageColumn<'_>) -> Result<Option<DecodedPage>, String> {
    if !has_labels(page) {
        return Ok(None);
    }
    let page_rows = [Span { indices: 0..page.rows, some: None }];
    let rows = page.rows;
    let page = OpaquePage::read(page, None)?;
    let (mut codes, mut validity) = (Vec::with_capacity(rows), Validity::default());
    page.append_validity(&page_rows, &mut validity);
    let valid = validity.kept();
    Ok(Some(match &page {
        OpaquePage::Plain(texts) => {
            let mut values = Distinct::default();
            codes.extend((0..rows).map(|row| match texts.is_valid(row) {
                true => values.number(texts.bytes(row..row + 1)),
                false => 0,
            }));
            DecodedPage::labelled(&codes, values.values().iter().map(|value| &**value), valid)
        }
        OpaquePage::Dictionary(dictionary) => {
            dictionary.numbers(&page_rows, &mut codes, &mut DecodeScratch::default())?;
            let count = if dictionary.is_null() { 0 } else { dictionary.values.rows() };
            let labels = (0..count).map(|label| dictionary.values.bytes(label..label + 1));
            DecodedPage::labelled(&codes, labels, valid)
        }
    }))
}

pub(super) struct CodedColumn {
    data_type: DataType,
    /// Arbitrary for null rows.
    codes: Vec<i32>,
    validity: Validity,
    values: Distinct,
    aside: DecodeScratch<u32>,
    /// All rows, once there are too many values.
    plain: Option<OpaqueColumn>,
}

impl CodedColumn {
    pub fn new(data_type: &DataType, rows: usize) -> CodedColumn {
        CodedColumn {
            data_type: data_type.clone(),
            codes: Vec::with_capacity(rows),
            validity: Validity::default(),
            values: Distinct::default(),
            aside: DecodeScratch::default(),
            plain: None,
        }
    }

    fn limit(&mut self) {
        if self.plain.is_some() || self.values.values().len() <= MOST_VALUES {
            return;
        }
        let mut plain = OpaqueColumn::new(&self.data_type);
        let nulls = std::mem::take(&mut self.validity).finish();
        for (row, code) in std::mem::take(&mut self.codes).into_iter().enumerate() {
            match nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
                true => plain.push(&self.values.values()[code as usize], true),
                false => plain.push(&[], false),
            }
        }
        self.values = Distinct::default();
        self.plain = Some(plain);
    }
}

impl Column for CodedColumn {
    fn append(&mut self, page: &PageColumn<'_>, spans: &[Span]) -> Result<(), String> {
        let page = OpaquePage::read(page, None)?;
        if let Some(plain) = &mut self.plain {
            return plain.append_page(&page, spans);
        }
        let (values, codes) = (&mut self.values, &mut self.codes);
        match &page {
            OpaquePage::Plain(rows) => {
                for span in spans {
                    span.for_each(|row| match rows.is_valid(row) {
                        true => codes.push(values.number(rows.bytes(row..row + 1)) as i32),
                        false => codes.push(0),
                    });
                }
            }
            OpaquePage::Dictionary(dictionary) => {
                // By number in the page: the code, once a row has it.
                let mut known = vec![-1; dictionary.values.rows().max(1)];
                let mut numbers = Vec::new();
                dictionary.numbers(spans, &mut numbers, &mut self.aside)?;
                codes.extend(numbers.iter().map(|number| {
                    let code = &mut known[*number as usize];
                    if *code < 0 {
                        *code = match dictionary.is_null() {
                            true => 0,
                            false => {
                                values.number(dictionary.values.bytes(*number as usize..*number as usize + 1)) as i32
                            }
                        };
                    }
                    *code
                }));
            }
        }
        page.append_validity(spans, &mut self.validity);
        self.limit();
        Ok(())
    }

    fn append_decoded(&mut self, page: &DecodedPage, spans: &[Span]) {
        if let Some(plain) = &mut self.plain {
            return plain.append_decoded(page, spans);
        }
        let before = self.codes.len();
        let (values, codes) = (&mut self.values, &mut self.codes);
        let labels = page.labels().expect("pages of texts are kept with labels");
        if spans.iter().map(Span::count).sum::<usize>() <= labels.count() {
            // A table of all labels would take longer than the rows.
            labels.for_each(spans, |_, code| codes.push(values.number(labels.label(code)) as i32));
        } else {
            let mut has_row = vec![false; labels.count().max(1)];
            labels.for_each(spans, |_, code| has_row[code] = true);
            // By code in the page: the code here, if a row has it.
            let known = has_row.iter().enumerate().map(|(code, has_row)| match has_row {
                true if code < labels.count() => values.number(labels.label(code)) as i32,
                _ => 0,
            });
            labels.append(spans, &known.collect::<Vec<i32>>(), codes);
        }
        self.validity.append(page, spans, codes.len() - before);
        self.limit();
    }

    fn kept(self: Box<Self>) -> Option<DecodedPage> {
        None
    }

    fn repeat(&mut self, value: &dyn Array, count: usize) {
        if let Some(plain) = &mut self.plain {
            return plain.repeat(value, count);
        }
        let valid = value.is_valid(0);
        let code = if valid { self.values.number(opaque_bytes(value)(0)) as i32 } else { 0 };
        self.codes.extend(std::iter::repeat_n(code, count));
        self.validity.push(count, valid);
        self.limit();
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef, String> {
        if let Some(plain) = self.plain {
            return Box::new(plain).finish();
        }
        let values = texts(&self.data_type, self.values.values().iter().map(|value| Some(&**value)))?;
        let codes = PrimitiveArray::<Int32Type>::new(self.codes.into(), self.validity.finish());
        // SAFETY: the code of every row that is not null is the number of a value.
        Ok(Arc::new(unsafe { DictionaryArray::new_unchecked(codes, values) }))
    }
}
