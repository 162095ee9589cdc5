//! Streams from untrusted sources: each is read or refused, and memory stays within the limit.

use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::{
    ArrayRef, BooleanArray, Decimal256Array, DictionaryArray, FixedSizeBinaryArray, Float32Array, ListArray,
    RecordBatch, StringArray, StringViewArray, StructArray,
};
use arrow_buffer::OffsetBuffer;
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_schema::{DataType, Field};
use kubist_ipc::{Error, LONGEST_METADATA, Result, Stream};

const MOST: u64 = 1 << 20;

fn plain() -> Vec<ArrayRef> {
    vec![
        Arc::new(Float32Array::from(vec![Some(0.5), None, Some(f32::NAN)])),
        Arc::new(StringArray::from(vec![Some("a"), None, Some("water")])),
        Arc::new(StringViewArray::from(vec!["", "b", "a text that is longer than a view"])),
        Arc::new(DictionaryArray::<Int8Type>::from_iter([Some("p"), None, Some("q")])),
        Arc::new(FixedSizeBinaryArray::try_from_iter([[1, 2], [3, 4], [5, 6]].into_iter()).unwrap()),
        Arc::new(Decimal256Array::from_iter([None, Some(1.into()), Some(2.into())])),
    ]
}

fn nested() -> Vec<ArrayRef> {
    let item = Arc::new(Field::new("item", DataType::Float32, true));
    let lists = ListArray::new(item.clone(), OffsetBuffer::from_lengths([2, 0, 1]), plain()[0].clone(), None);
    vec![Arc::new(lists), Arc::new(StructArray::new(vec![item].into(), vec![plain()[0].clone()], None))]
}

fn batch(column: &ArrayRef) -> RecordBatch {
    RecordBatch::try_from_iter([("a", column.clone()), ("b", Arc::new(BooleanArray::from(vec![true; 3])) as _)])
        .unwrap()
}

fn written(column: &ArrayRef, compression: Option<CompressionType>) -> Vec<u8> {
    let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
    let batch = batch(column);
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

fn read(bytes: &[u8], columns: Option<Vec<usize>>) -> Result<Vec<RecordBatch>> {
    let mut stream = Stream::begin(bytes, MOST)?;
    columns.into_iter().for_each(|columns| stream.take_only(columns));
    let mut batches = Vec::new();
    while let Some(batch) = stream.next()? {
        batches.push(batch);
    }
    Ok(batches)
}

#[test]
fn what_was_written_is_read() {
    for (column, codec) in plain().iter().flat_map(|column| [(column, None), (column, Some(CompressionType::ZSTD))]) {
        assert_eq!(read(&written(column, codec), None).unwrap(), [batch(column)]);
        let right = batch(column).project(&[1]).unwrap();
        assert_eq!(read(&written(column, codec), Some(vec![1])).unwrap(), [right]);
    }
}

#[test]
fn columns_of_other_types_can_be_left_out_and_not_read() {
    for column in nested() {
        let bytes = written(&column, None);
        let error = read(&bytes, None).unwrap_err().to_string();
        assert!(error.starts_with("column \"a\" has the type"), "{error}");
        assert_eq!(read(&bytes, Some(vec![1])).unwrap(), [batch(&column).project(&[1]).unwrap()]);
    }
}

fn odd(byte: u8) -> impl Iterator<Item = u8> {
    [0, 1, 14, 17, 255].into_iter().chain((0..8).step_by(3).map(move |bit| byte ^ 1 << bit))
}

#[test]
fn a_changed_byte_is_an_error_or_another_value() {
    for column in plain().iter().chain(&nested()) {
        let bytes = written(column, None);
        for offset in 0..bytes.len() {
            for value in odd(bytes[offset]) {
                let mut changed = bytes.clone();
                changed[offset] = value;
                // There is no checksum, so a changed value may be read without an error, but must not panic.
                let _ = read(&changed, None);
                let _ = read(&changed, Some(vec![1]));
            }
        }
    }
}

#[test]
fn packed_bytes_inflate_to_no_more_than_the_bound() {
    let long: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(100_000), "".into(), "".into()]));
    for codec in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        let bytes = written(&long, Some(codec));
        // The last occurrence is the length: an offset can have the same value.
        let says = bytes.windows(8).rposition(|window| window == 100_000i64.to_le_bytes()).unwrap();
        let mut changed = bytes.clone();
        changed[says..says + 8].copy_from_slice(&(1i64 << 40).to_le_bytes());
        assert!(matches!(read(&changed, None), Err(Error::Damaged(_) | Error::TooLarge { .. })));
        let mut stream = Stream::begin(&bytes[..], 50_000).unwrap();
        assert!(matches!(stream.next(), Err(Error::TooLarge { .. })));
    }
}

#[test]
fn a_length_that_is_not_there_takes_no_memory() {
    let bytes = written(&plain()[0], None);
    for length in 0..bytes.len() - 8 {
        // A stream may end between two messages without an end mark.
        assert!(
            read(&bytes[..length], None).is_ok_and(|batches| batches.is_empty())
                || read(&bytes[..length], None).is_err()
        );
    }
    let mut huge = [[0xff; 4], (LONGEST_METADATA as u32).to_le_bytes()].concat();
    huge.extend_from_slice(&[0; 100]);
    assert!(matches!(Stream::begin(&huge[..], MOST), Err(Error::Damaged(_))));
}
