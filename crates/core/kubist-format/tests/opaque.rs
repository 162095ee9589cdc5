//! Columns of texts, bytes and wide decimals: few or many different values, any rows, any bytes.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryArray, Decimal128Array, FixedSizeBinaryArray, StringArray, UInt32Array};
use arrow_cast::cast;
use arrow_schema::DataType;
use arrow_select::concat::concat;
use arrow_select::take::take;
use kubist_format::decode;
use kubist_format::encode::{ColumnEncoding, encode_column, opaque_bytes};
use kubist_format::numbers::encoding;
use kubist_format::page::PageColumn;
use kubist_format::rows::{Span, all_rows};
use proptest::prelude::*;

fn column(kind: usize, different: u64, picks: &[Option<u64>]) -> ArrayRef {
    let value = |pick: &u64| pick % different;
    let text = |pick: &u64| format!("{:x}", value(pick).wrapping_mul(0x9e37_79b9) >> (value(pick) % 30));
    let picks = picks.iter();
    match kind {
        0 => Arc::new(picks.map(|pick| pick.as_ref().map(text)).collect::<StringArray>()),
        1 => Arc::new(picks.map(|pick| pick.as_ref().map(|pick| text(pick).into_bytes())).collect::<BinaryArray>()),
        2 => {
            let decimals = picks.map(|pick| pick.as_ref().map(|pick| i128::from(value(pick)) - 7));
            Arc::new(decimals.collect::<Decimal128Array>().with_precision_and_scale(30, 3).unwrap())
        }
        _ => {
            let bytes = picks.map(|pick| pick.as_ref().map(|pick| (value(pick) as u32).to_be_bytes()));
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes, 4).unwrap())
        }
    }
}

fn encoded(array: &ArrayRef) -> (Vec<u8>, Vec<u8>) {
    let order: Vec<u32> = (0..array.len() as u32).collect();
    let mut zones = vec![100; array.len() / 100];
    zones.extend((array.len() % 100 > 0).then_some((array.len() % 100) as u8));
    let mut column = encode_column(array.as_ref(), &order, &zones, ColumnEncoding::default());
    (column.chunks.remove(0), zones)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_column_comes_back(
        kind in 0..4usize,
        different in prop_oneof![Just(1u64), 2..9u64, 9..400u64, Just(u64::MAX)],
        picks in prop::collection::vec(prop::option::weighted(0.9, any::<u64>()), 1..3000),
        nulls in any::<bool>(),
        some in any::<u128>(),
    ) {
        let picks: Vec<Option<u64>> = picks.into_iter().map(|pick| if nulls { pick } else { pick.or(Some(0)) }).collect();
        let array = column(kind, different, &picks);
        let (chunk, _) = encoded(&array);
        let page = PageColumn { rows: array.len(), bytes: &chunk };
        let all = Span { indices: 0..array.len(), some: None };
        let first = Span { indices: 0..array.len().min(100), some: Some(some & all_rows(array.len().min(100) as u8)) };
        for span in [all, first] {
            let wanted = span.indices.clone().filter(|row| span.some.is_none_or(|some| some >> row & 1 == 1));
            let wanted = take(&array, &UInt32Array::from_iter_values(wanted.map(|row| row as u32)), None).unwrap();
            let decoded = decode::decoded(array.data_type(), &page).unwrap();
            let is_dictionary = encoding(array.data_type(), &chunk) == "dictionary";
            let is_kept = kind < 2 && (is_dictionary || array.len() <= 256);
            prop_assert_eq!(decoded.is_some(), is_kept);
            if let Some(decoded) = &decoded {
                let truth = |text: &[u8]| text.last().is_some_and(|last| last % 3 == 1);
                let mut of_codes: Vec<u8> = decoded.by_code().unwrap().map(|label| truth(label).into()).collect();
                of_codes.resize(of_codes.len().max(256), 0);
                let first = span.indices.start..span.indices.end.min(128);
                for null in [false, true] {
                    let rows = decoded.rows_where(first.clone(), &of_codes, null);
                    let value = |row| if array.is_valid(row) { truth(opaque_bytes(array.as_ref())(row)) } else { null };
                    let expected = first.clone().filter(|row| value(*row)).fold(0, |rows, row| rows | 1 << row);
                    prop_assert_eq!(rows, expected);
                }
            }
            for (coded, decoded) in [(false, None), (true, None), (false, decoded.as_ref()), (true, decoded.as_ref())] {
                let mut column = match coded {
                    true => decode::coded_column(array.data_type(), 8),
                    false => decode::column(array.data_type(), 8),
                };
                match decoded {
                    Some(decoded) => column.append_decoded(decoded, std::slice::from_ref(&span)),
                    None => column.append(&page, std::slice::from_ref(&span)).unwrap(),
                }
                let found = column.finish().unwrap();
                if let Some(found) = found.as_any_dictionary_opt() {
                    let used = found.normalized_keys();
                    let used = (0..found.len()).filter(|row| found.is_valid(*row)).map(|row| used[row]);
                    let used: std::collections::BTreeSet<usize> = used.collect();
                    prop_assert!(nulls || used.len() == found.values().len(), "a value that no row has");
                }
                prop_assert_eq!(&cast(&found, array.data_type()).unwrap(), &wanted);
            }
        }
    }
}

/// Pages follow each other in one column, which has plain texts once there are many values.
#[test]
fn decoded_pages_follow_others() {
    let page = |first: u64| {
        let picks: Vec<Option<u64>> = (0..3000).map(|row| (row % 7 > 0).then_some(first + row / 5)).collect();
        column(0, u64::MAX, &picks)
    };
    let pages: Vec<ArrayRef> = [0, 200, 800, 1400].map(page).to_vec();
    let chunks: Vec<Vec<u8>> = pages.iter().map(|page| encoded(page).0).collect();
    let span = Span { indices: 0..3000, some: None };
    for kept in 0..16 {
        let mut columns = [decode::column(&DataType::Utf8, 8), decode::coded_column(&DataType::Utf8, 8)];
        for column in &mut columns {
            for (number, bytes) in chunks.iter().enumerate() {
                let page = PageColumn { rows: 3000, bytes };
                match kept >> number & 1 == 1 {
                    true => {
                        let decoded = decode::decoded(&DataType::Utf8, &page).unwrap().expect("few values");
                        column.append_decoded(&decoded, std::slice::from_ref(&span));
                    }
                    false => column.append(&page, std::slice::from_ref(&span)).unwrap(),
                }
            }
        }
        let expected = concat(&pages.iter().map(|page| page.as_ref()).collect::<Vec<_>>()).unwrap();
        for column in columns {
            assert_eq!(&cast(&column.finish().unwrap(), &DataType::Utf8).unwrap(), &expected, "pages {kept:b} kept");
        }
    }
}

#[test]
fn few_values_are_a_dictionary() {
    let picks: Vec<Option<u64>> = (0..3000).map(|row| (row % 7 > 0).then_some(row * 31)).collect();
    for kind in 0..4 {
        for (different, name) in [(5, "dictionary"), (200, "dictionary"), (u64::MAX, "lz4")] {
            let array = column(kind, different, &picks);
            let (chunk, _) = encoded(&array);
            assert_eq!(encoding(array.data_type(), &chunk), name, "{different} values of {}", array.data_type());
        }
        let (small, _) = encoded(&column(kind, 5, &picks));
        assert!(small.len() < 3000 / 8 * 4 + 200, "{} bytes for 3 bits and a null bit a row", small.len());
    }
}

#[test]
fn no_bytes_are_a_panic() {
    let picks: Vec<Option<u64>> = (0..300).map(|row| (row % 7 > 0).then_some(row * 31)).collect();
    for kind in 0..4 {
        for different in [3, u64::MAX] {
            let array = column(kind, different, &picks);
            let (chunk, _) = encoded(&array);
            let read = |bytes: &[u8]| {
                for coded in [false, true] {
                    let mut column = match (coded, array.data_type()) {
                        (true, DataType::Utf8) => decode::coded_column(array.data_type(), 8),
                        _ => decode::column(array.data_type(), 8),
                    };
                    let span = Span { indices: 0..300, some: None };
                    let page = PageColumn { rows: 300, bytes };
                    match decode::decoded(array.data_type(), &page) {
                        Ok(Some(decoded)) => column.append_decoded(&decoded, &[span]),
                        _ if column.append(&page, &[span]).is_err() => continue,
                        _ => {}
                    }
                    let _ = column.finish();
                }
            };
            for place in 0..chunk.len() {
                read(&chunk[..place]);
                for bit in 0..8 {
                    let mut changed = chunk.clone();
                    changed[place] ^= 1 << bit;
                    read(&changed);
                }
            }
        }
    }
}
