//! Arbitrary bytes as the keys of a page's column, of every kind of type. The first four bytes are its rows,
//! the start, the number and the selection of the wanted ones.
#![no_main]

use arrow_schema::DataType;
use kubist_format::decode;
use kubist_format::page::PageColumn;
use kubist_format::rows::Span;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let [rows, first, count, some, bytes @ ..] = bytes else { return };
    let (rows, indices) = (usize::from(*rows) * 16, usize::from(*first)..usize::from(*first) + usize::from(*count) / 2);
    let some = (*some > 0).then(|| u128::from_le_bytes([*some; 16]) & ((1 << indices.len()) - 1));
    for data_type in [DataType::Boolean, DataType::Int8, DataType::Float32, DataType::UInt64, DataType::Float64] {
        let mut column = decode::column(&data_type, rows);
        let spans = [Span { indices: indices.clone(), some }];
        let page = PageColumn { rows, bytes };
        if column.append(&page, &spans).is_ok() {
            assert_eq!(column.finish().expect("values").len(), spans[0].count());
        }
        if let (Ok(Some(kept)), true) = (decode::decoded(&data_type, &page), spans[0].indices.end <= rows) {
            let mut column = decode::column(&data_type, rows);
            column.append_decoded(&kept, &spans);
            assert_eq!(column.finish().expect("values").len(), spans[0].count());
        }
    }
});
