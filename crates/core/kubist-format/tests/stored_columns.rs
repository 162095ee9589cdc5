//! Headers and alterations from untrusted sources, with correct checksums.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Decimal128Array, FixedSizeBinaryArray, Float32Array, Float64Array, StringArray, StringViewArray,
    new_null_array,
};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, IntervalUnit, Schema, TimeUnit};

use kubist_format::alteration::Alteration;
use kubist_format::chain::Chain;
use kubist_format::column_type::{stored_type, user_type};
use kubist_format::decode;
use kubist_format::error::EntryError;
use kubist_format::header::{FORMAT_VERSION, Header, HeaderDimension, decode_header, encode_header};
use kubist_format::page::PageColumn;
use kubist_format::rows::Span;

fn added(default: ArrayRef) -> Vec<u8> {
    let field = Field::new("added", default.data_type().clone(), true);
    let default = cast(&default, &stored_type(field.data_type())).unwrap();
    Alteration::AddColumn { field, default, accuracy: None }.encode(Chain::default()).unwrap()
}

fn defaults() -> Vec<ArrayRef> {
    let text: ArrayRef = Arc::new(StringArray::from(vec!["water"]));
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    vec![
        Arc::new(Float32Array::from(vec![0.5])),
        Arc::new(Float64Array::from(vec![None])),
        cast(&text, &dictionary).unwrap(),
        text,
        Arc::new(StringViewArray::from(vec!["a text that is longer than a view"])),
        Arc::new(FixedSizeBinaryArray::try_from_iter([[1, 255]].into_iter()).unwrap()),
        Arc::new(Decimal128Array::from(vec![7]).with_precision_and_scale(20, 3).unwrap()),
    ]
}

fn odd(byte: u8) -> impl Iterator<Item = u8> {
    [0, 1, 14, 17, 255].into_iter().chain((0..8).step_by(3).map(move |bit| byte ^ 1 << bit))
}

#[test]
fn decode_inverts_encode() {
    for default in defaults() {
        let stored = cast(&default, &stored_type(default.data_type())).unwrap();
        let Ok((_, Alteration::AddColumn { field, default: read, accuracy: None })) =
            Alteration::decode(&added(default.clone()))
        else {
            panic!("{:?}", default.data_type());
        };
        assert_eq!((field.data_type(), &read), (default.data_type(), &stored));
    }
}

#[test]
fn changed_bytes_are_an_error_or_another_column() {
    for default in defaults() {
        let whole = added(default);
        for offset in 0..whole.len() {
            assert!(Alteration::decode(&whole[..offset]).is_err() || offset > whole.len() - 16, "cut at {offset}");
            for value in odd(whole[offset]) {
                let mut changed = whole.clone();
                changed[offset] = value;
                if let Ok((_, Alteration::AddColumn { field, default, .. })) = Alteration::decode(&changed) {
                    assert_eq!((default.len(), default.data_type()), (1, &stored_type(field.data_type())));
                }
            }
        }
    }
}

#[test]
fn a_header_with_changed_bytes_is_an_error_or_another_header() {
    let header = Header {
        format_version: FORMAT_VERSION,
        created_by: String::new(),
        dimensions: vec![HeaderDimension { column: "x".into(), scale: "linear".into(), domain: Some((0.0, 1.0)) }],
        identity: vec![],
        capacity: 64,
        seed: 0,
        id: "id".into(),
        replication: Default::default(),
        compression: Default::default(),
        strata: Default::default(),
        sampling: Default::default(),
        lookup: vec![],
        accuracy: BTreeMap::from([("x".into(), "1e-4 rel".parse().unwrap())]),
        writer_tag: String::new(),
        metadata: Default::default(),
    };
    let fields: Vec<Field> =
        defaults().iter().map(|column| Field::new("added", column.data_type().clone(), true)).collect();
    let whole = encode_header(&header, &Schema::new(fields)).unwrap();
    let newer = encode_header(&Header { format_version: FORMAT_VERSION + 1, ..header.clone() }, &Schema::empty());
    let newer = decode_header(&newer.unwrap()).unwrap_err();
    assert_eq!(newer, EntryError::Newer("it has format version 2; this Kubist reads up to 1".into()));
    for offset in 0..whole.len() {
        for value in odd(whole[offset]) {
            let mut changed = whole.clone();
            changed[offset] = value;
            let Ok((_, schema)) = decode_header(&changed) else { continue };
            for field in schema.fields().iter().filter(|field| user_type(field.data_type()).is_some()) {
                new_null_array(&stored_type(field.data_type()), 1);
            }
        }
    }
}

#[test]
fn a_column_without_rows_is_one_of_its_type() {
    use DataType::*;
    let times = [Date32, Date64, Time32(TimeUnit::Second), Time64(TimeUnit::Nanosecond)];
    let numbers = [Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64, Float16, Float32, Float64];
    let others = [Boolean, Utf8, LargeBinary, FixedSizeBinary(3), Decimal128(30, 4), Decimal256(50, 2)];
    let intervals = [Interval(IntervalUnit::DayTime), Interval(IntervalUnit::MonthDayNano)];
    for data_type in times.into_iter().chain(numbers).chain(others).chain(intervals) {
        let column = decode::column(&data_type, 0).finish().unwrap();
        assert_eq!((column.data_type(), column.len()), (&data_type, 0));
    }
}

#[test]
fn packed_values_take_no_more_memory_than_they_can_become() {
    let mut bytes = vec![0];
    bytes.extend_from_slice(&u32::MAX.to_le_bytes());
    bytes.extend_from_slice(&[0; 16]);
    let page = PageColumn { rows: 1, bytes: &bytes };
    let all = Span { indices: 0..1, some: None };
    let error = decode::column(&DataType::Utf8, 1).append(&page, &[all]).unwrap_err();
    assert!(error.contains("cannot decompress"), "{error}");
}
