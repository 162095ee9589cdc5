//! Columns encoded and decoded: all types, all encodings, any rows, any bytes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, BooleanArray, PrimitiveArray, UInt32Array, new_null_array};
use arrow_cast::cast;
use arrow_schema::{DataType, TimeUnit};
use arrow_select::take::take;
use kubist_format::decode;
use kubist_format::encode::{ColumnEncoding, encode_column};
use kubist_format::numbers::{ALL_NULL, DICTIONARY, FRAME, MULTIPLES, PCO, TWO_FRAMES};
use kubist_format::page::PageColumn;
use kubist_format::rows::Span;
use kubist_types::compression::{COMPRESSIONS, Compression};
use proptest::prelude::*;

fn zones_of(rows: usize) -> Vec<u8> {
    let mut zones = vec![48u8; rows / 48];
    zones.extend((rows % 48 > 0).then_some((rows % 48) as u8));
    zones
}

fn same(a: &dyn Array, b: &dyn Array) -> bool {
    a.data_type() == b.data_type()
        && a.len() == b.len()
        && (0..a.len()).all(|row| a.is_null(row) == b.is_null(row))
        && (0..a.len()).all(|row| a.is_null(row) || bytes(a, row) == bytes(b, row))
}

fn bytes(array: &dyn Array, row: usize) -> Vec<u8> {
    match array.data_type() {
        DataType::Boolean => {
            vec![array.as_any().downcast_ref::<BooleanArray>().expect("booleans").value(row) as u8]
        }
        other => {
            let width = other.primitive_width().expect("a primitive type");
            let data = array.to_data();
            let first = (data.offset() + row) * width;
            data.buffers()[0].as_slice()[first..first + width].to_vec()
        }
    }
}

/// Checks that decoding returns the original values, and returns the encoding per page.
fn there_and_back(array: &ArrayRef, compression: Compression, some: &[Span]) -> Vec<u8> {
    back(array, ColumnEncoding { compression, step: None }, some)
}

fn back(array: &ArrayRef, how: ColumnEncoding, some: &[Span]) -> Vec<u8> {
    let rows = array.len();
    let order: Vec<u32> = (0..rows as u32).collect();
    let zones = zones_of(rows);
    let encoded = encode_column(array.as_ref(), &order, &zones, how);
    let (mut first, mut kinds) = (0, Vec::new());
    for (page, bytes) in zones.chunks(32).zip(&encoded.chunks) {
        let count: usize = page.iter().map(|rows| *rows as usize).sum();
        let here = PageColumn { rows: count, bytes };
        for spans in [vec![Span { indices: 0..count, some: None }], some.to_vec()] {
            let spans: Vec<Span> = spans.into_iter().filter(|span| span.indices.end <= count).collect();
            let mut column = decode::column(array.data_type(), count);
            column.append(&here, &spans).expect("sound bytes");
            let wanted: Vec<u32> = spans.iter().flat_map(rows_of).map(|row| (first + row) as u32).collect();
            let found = column.finish().expect("sound values");
            let expected = take(array, &UInt32Array::from(wanted), None).expect("rows of the array");
            assert!(same(&found, &expected), "{how:?} {spans:?}\n{found:?}\n{expected:?}");
            let decoded = decode::decoded(array.data_type(), &here).expect("sound bytes").expect("numbers are kept");
            let mut column = decode::column(array.data_type(), count);
            column.append(&here, &spans).expect("sound bytes");
            column.append_decoded(&decoded, &spans);
            let twice = column.finish().expect("sound values");
            for half in [twice.slice(0, found.len()), twice.slice(found.len(), found.len())] {
                assert!(same(&half, &expected), "{how:?} {spans:?}\n{half:?}\n{expected:?}");
            }
        }
        for length in [0, 1, bytes.len() / 2, bytes.len().saturating_sub(1)] {
            let cut = PageColumn { bytes: &bytes[..length.min(bytes.len())], ..here };
            let mut column = decode::column(array.data_type(), count);
            let _ = column.append(&cut, &[Span { indices: 0..count, some: None }]);
        }
        kinds.push(bytes.first().copied().unwrap_or_default() & 0x7f);
        first += count;
    }
    kinds
}

fn with(compression: Compression) -> ColumnEncoding {
    ColumnEncoding { compression, step: None }
}

fn rows_of(span: &Span) -> Vec<usize> {
    match span.some {
        None => span.indices.clone().collect(),
        Some(rows) => span.indices.clone().filter(|row| rows >> (row - span.indices.start) & 1 == 1).collect(),
    }
}

fn numbers<T: ArrowPrimitiveType>(values: impl IntoIterator<Item = T::Native>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::from_iter_values(values))
}

fn shapes() -> BTreeMap<&'static str, Vec<f64>> {
    let rows = 3000usize;
    let mixed = |row: usize| (row.wrapping_mul(2_654_435_761) % 1_000_003) as f64 / 1_000_003.0;
    BTreeMap::from([
        ("constant", vec![0.25; rows]),
        ("random", (0..rows).map(mixed).collect()),
        ("both signs", (0..rows).map(|row| mixed(row) - 0.5).collect()),
        ("mostly zero", (0..rows).map(|row| if row % 3 == 0 { mixed(row) } else { 0.0 }).collect()),
        ("mostly one value within", (0..rows).map(|row| if row % 3 == 0 { mixed(row) } else { 0.5 }).collect()),
        ("two far groups", (0..rows).map(|row| mixed(row) + if row % 5 == 0 { 1e9 } else { 0.0 }).collect()),
        ("few values", (0..rows).map(|row| (mixed(row) * 23.0).floor() * 0.37 + 0.01).collect()),
        ("runs", (0..rows).map(|row| mixed(row / 100) * 1e5).collect()),
        ("multiples", (0..rows).map(|row| (mixed(row) * 100.0).floor() * 4096.0).collect()),
        (
            "extremes",
            (0..rows)
                .map(|row| [f64::MAX, f64::MIN, 5e-324, -5e-324, f64::INFINITY, -0.0, f64::NAN][row % 7])
                .collect(),
        ),
        ("one row", vec![1.5]),
    ])
}

fn types() -> Vec<DataType> {
    use DataType::*;
    vec![
        Int8,
        Int16,
        Int32,
        Int64,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
        Float16,
        Float32,
        Float64,
        Boolean,
        Date32,
        Date64,
        Time32(TimeUnit::Second),
        Time64(TimeUnit::Nanosecond),
        Timestamp(TimeUnit::Millisecond, None),
        Duration(TimeUnit::Microsecond),
        Decimal64(18, 3),
    ]
}

#[test]
fn every_type_comes_back_by_every_compression() {
    let some = [
        Span { indices: 3..11, some: None },
        Span { indices: 48..96, some: Some(0b1011 << 7 | 1 << 40) },
        Span { indices: 100..301, some: None },
    ];
    for (name, shape) in shapes() {
        let floats = numbers::<Float64Type>(shape.iter().copied());
        for data_type in types() {
            let unit = match data_type {
                DataType::Date32 | DataType::Time32(_) => cast(&floats, &DataType::Int32),
                DataType::Date64
                | DataType::Time64(_)
                | DataType::Timestamp(..)
                | DataType::Duration(_)
                | DataType::Decimal64(..) => cast(&floats, &DataType::Int64),
                _ => cast(&floats, &data_type),
            };
            let array = unit
                .and_then(|array| cast(&array, &data_type))
                .unwrap_or_else(|error| panic!("{name} {data_type}: {error}"));
            for compression in COMPRESSIONS {
                there_and_back(&array, compression, &some);
                let halves: BooleanArray = (0..array.len()).map(|row| Some(row % 4 != 1)).collect();
                let with_nulls = arrow_select::nullif::nullif(&array, &halves).expect("arrays of one length");
                there_and_back(&with_nulls, compression, &some);
                there_and_back(&new_null_array(&data_type, array.len()), compression, &some);
            }
        }
    }
}

#[test]
fn each_shape_gets_the_encoding_that_suits_it() {
    let balanced = Compression::Balanced;
    for (shape, expected) in [
        ("constant", FRAME),
        ("both signs", TWO_FRAMES),
        ("mostly zero", TWO_FRAMES),
        ("mostly one value within", TWO_FRAMES),
        ("two far groups", TWO_FRAMES),
        ("few values", DICTIONARY),
        ("runs", DICTIONARY),
    ] {
        let array = numbers::<Float64Type>(shapes()[shape].iter().copied());
        assert!(there_and_back(&array, balanced, &[]).iter().all(|kind| *kind == expected), "{shape}");
        assert!(there_and_back(&array, Compression::Fast, &[]).iter().all(|kind| *kind == FRAME), "{shape}");
    }
    let numbers_at_random = numbers::<Int32Type>((0..2000).map(|row: i32| row.wrapping_mul(1_640_531_527) & 0xffff));
    assert!(there_and_back(&numbers_at_random, balanced, &[]).iter().all(|kind| *kind == FRAME));
    let nothing = new_null_array(&DataType::Int32, 100);
    assert_eq!(there_and_back(&nothing, balanced, &[]), [ALL_NULL]);
}

/// Data without a pattern except its distribution takes about as many bits as its entropy.
#[test]
fn the_smallest_may_be_bins() {
    let mixed = |row: i32| (row.wrapping_mul(1_640_531_527) as u32 >> 8) as f64 / f64::from(1 << 24);
    let scattered = numbers::<Float32Type>((0..6000).map(|row| (1.0 / (mixed(row) + 1e-3) - 1.0) as f32));
    let ascending = numbers::<Int64Type>((0..6000).map(|row| i64::from(row) * 1000 + (mixed(row) * 9.0) as i64));
    let repeated = numbers::<UInt32Type>((0..6000).map(|row| (mixed(row / 60 * 20 + row % 20) * 1e9) as u32));
    for (array, most_bits) in [(scattered, 26), (ascending, 6), (repeated, 16)] {
        assert!(there_and_back(&array, Compression::Small, &[]).iter().all(|kind| *kind == PCO), "{most_bits}");
        assert!(there_and_back(&array, Compression::Balanced, &[]).iter().all(|kind| *kind != PCO));
        let (order, zones): (Vec<u32>, _) = ((0..6000).collect(), zones_of(6000));
        let chunks = encode_column(array.as_ref(), &order, &zones, with(Compression::Small)).chunks;
        let bits = 8 * chunks.iter().map(Vec::len).sum::<usize>();
        assert!(bits <= 6000 * most_bits, "{} bits for each, {most_bits} are enough", bits / 6000);
    }
}

/// Floats that were widened to 64 bits, and integers of a large unit, take hardly more bytes.
#[test]
fn bits_that_no_value_uses_take_no_bytes() {
    let size = |array: ArrayRef| -> usize {
        let order: Vec<u32> = (0..array.len() as u32).collect();
        let encoded = encode_column(array.as_ref(), &order, &zones_of(array.len()), with(Compression::Balanced));
        encoded.chunks.iter().map(Vec::len).sum()
    };
    for (name, shape) in shapes().into_iter().filter(|(name, _)| *name != "extremes") {
        let narrow = cast(&numbers::<Float64Type>(shape), &DataType::Float32).expect("floats");
        let wide = cast(&narrow, &DataType::Float64).expect("floats");
        let (narrow, wide) = (size(narrow), size(wide));
        assert!(wide <= narrow + narrow / 10 + 64, "{name}: {wide} bytes, {narrow} before");
    }
    let seconds = numbers::<Int64Type>((0..2000).map(|row| (row * 7919) % 1000));
    let units = numbers::<Int64Type>((0..2000).map(|row| (row * 7919) % 1000 * 65_536));
    assert_eq!(size(seconds), size(units));
}

/// Pages with more than one value that is no multiple are encoded as without a step.
#[test]
fn multiples_of_a_step_are_whole_numbers() {
    let wave = |row: i32| (row.wrapping_mul(1_640_531_527) >> 20) as f64;
    for (data_type, power) in [(DataType::Float32, -12), (DataType::Float64, -40), (DataType::Float64, 600)] {
        let step = 2f64.powi(power);
        let rounded = numbers::<Float64Type>((0..3000).map(|row| wave(row) * step));
        let rounded = cast(&rounded, &data_type).expect("floats");
        for compression in COMPRESSIONS {
            let how = ColumnEncoding { compression, step: Some(power) };
            let kinds = back(&rounded, how, &[Span { indices: 5..70, some: None }]);
            assert!(kinds.iter().all(|kind| kind & MULTIPLES != 0), "{data_type} {power}: {kinds:?}");
            let order: Vec<u32> = (0..rounded.len() as u32).collect();
            let bytes = |how| -> usize {
                let encoded = encode_column(rounded.as_ref(), &order, &zones_of(rounded.len()), how);
                encoded.chunks.iter().map(Vec::len).sum()
            };
            assert!(bytes(how) <= 3000 * 12 / 8 + 100, "{data_type} {power}: {} bytes", bytes(how));
            assert!(bytes(how) < bytes(with(compression)), "{data_type} {power} {compression}");
        }
    }
    let how = ColumnEncoding { compression: Compression::Balanced, step: Some(-12) };
    let with_odd = |odd: &[f64]| {
        let of_row = |row: i32| odd.get(row as usize % 97).copied().filter(|_| row < 1536);
        numbers::<Float64Type>((0..3000).map(|row| of_row(row).unwrap_or(wave(row) / 4096.0)))
    };
    for odd in [-0.0, f64::NAN, f64::INFINITY, 0.3, 5e-324] {
        let kinds = back(&with_odd(&[odd]), how, &[Span { indices: 90..200, some: None }]);
        assert!(kinds.iter().all(|kind| kind & MULTIPLES != 0), "{odd}: {kinds:?}");
        let kinds = back(&with_odd(&[odd, -f64::NAN]), how, &[]);
        assert!(kinds[0] & MULTIPLES == 0 && kinds[1] & MULTIPLES != 0, "{odd}: {kinds:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_numbers_come_back(
        values in prop::collection::vec((any::<u64>(), 0u32..64), 1..300),
        few in 1usize..300,
        repeat in 1usize..6,
        ends in prop::collection::vec((0usize..300, 0usize..48, any::<u128>(), any::<bool>()), 0..6),
        compression in prop::sample::select(&COMPRESSIONS[..]),
        step in prop::option::of(-1100i32..1100),
        of_step in any::<bool>(),
    ) {
        let few: Vec<u64> = values.iter().take(few).map(|(value, shift)| value >> shift).collect();
        let values: Vec<u64> = values.iter().flat_map(|(value, _)| vec![few[*value as usize % few.len()]; repeat]).collect();
        let mut at = 0;
        let spans: Vec<Span> = ends.into_iter().map(|(skip, length, rows, whole)| {
            let indices: Range<usize> = at + skip / 4..at + skip / 4 + length;
            at = indices.end;
            Span { indices, some: (!whole).then_some(rows & ((1 << length) - 1)) }
        }).collect();
        there_and_back(&numbers::<UInt64Type>(values.iter().copied()), compression, &spans);
        there_and_back(&numbers::<Int32Type>(values.iter().map(|value| *value as i32)), compression, &spans);
        let how = ColumnEncoding { compression, step };
        let multiple = |value: u64| (value as i64 >> 20) as f64 * 2f64.powi(step.unwrap_or(0));
        let float = |value: &u64| if of_step { multiple(*value) } else { f64::from_bits(*value) };
        back(&numbers::<Float64Type>(values.iter().map(float)), how, &spans);
        let float = |value: &u64| if of_step { multiple(*value) as f32 } else { f32::from_bits(*value as u32) };
        back(&numbers::<Float32Type>(values.iter().map(float)), how, &spans);
        there_and_back(&numbers::<Int16Type>(values.iter().map(|value| *value as i16)), compression, &spans);
    }

    /// The chosen encoding is no larger than any division into two frames, and than the dictionary.
    #[test]
    fn small_is_the_smallest(
        values in prop::collection::vec((any::<u64>(), 0u32..64), 20..200),
        few in 1usize..300,
        repeat in 1usize..4,
        most_bits in 1u32..=64,
    ) {
        let few: Vec<u64> = values.iter().take(few).map(|(value, shift)| value >> shift >> (64 - most_bits)).collect();
        let values: Vec<u64> = values.iter().flat_map(|(value, _)| vec![few[*value as usize % few.len()]; repeat]).collect();
        let order: Vec<u32> = (0..values.len() as u32).collect();
        let array = numbers::<UInt64Type>(values.iter().copied());
        let encoded = encode_column(array.as_ref(), &order, &zones_of(values.len()), with(Compression::Small));
        let found = 8 * encoded.chunks[0].len();
        let (rows, bits) = (values.len(), |largest: u64| 64 - largest.leading_zeros() as usize);
        let mut sorted = values.clone();
        sorted.sort_unstable();
        let width = |some: &[u64]| bits(some[some.len() - 1] - some[0]);
        let (whole, head) = (width(&sorted), 8 + 64);
        let mut best = rows * whole;
        for cut in 1..rows {
            let (first, second) = sorted.split_at(cut);
            best = best.min(head + rows + first.len() * width(first) + second.len() * width(second));
        }
        sorted.dedup();
        best = best.min(16 + sorted.len() * whole + rows * bits(sorted.len() as u64 - 1));
        prop_assert!(found <= 16 + head + best + 3 * 8, "{found} bits, {best} are enough: {values:?}");
    }

    /// Bins with changed bytes are an error, or give the requested number of values.
    #[test]
    fn damaged_bins_are_an_error_or_values(
        values in prop::collection::vec((any::<u64>(), 0u32..60), 300..1000),
        repeat in 1usize..4,
        ascending in any::<bool>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        near in 1usize..400,
        cut in prop::option::of(any::<prop::sample::Index>()),
        rows in prop::option::of(0usize..5000),
        span in (0usize..1000, 0usize..1000),
    ) {
        let mut values: Vec<u64> = values.iter().flat_map(|(value, shift)| vec![value >> 4 >> shift; repeat]).collect();
        if ascending {
            values.sort_unstable();
        }
        let wide = numbers::<UInt64Type>(values.iter().copied());
        let narrow = numbers::<Float32Type>(values.iter().map(|value| f32::from_bits(*value as u32)));
        let (order, zones): (Vec<u32>, _) = ((0..values.len() as u32).collect(), zones_of(values.len()));
        for array in [wide, narrow] {
            for bytes in encode_column(array.as_ref(), &order, &zones, with(Compression::Small)).chunks {
                let mut bytes = bytes;
                for (place, byte) in &damage {
                    let place = 1 + place.index(near.min(bytes.len() - 1));
                    bytes[place] = *byte;
                }
                bytes.truncate(cut.map_or(bytes.len(), |cut| 1 + cut.index(bytes.len())));
                let rows = rows.unwrap_or(values.len().min(32 * 48));
                let span = Span { indices: span.0..span.0 + span.1, some: None };
                let mut column = decode::column(array.data_type(), rows);
                if column.append(&PageColumn { rows, bytes: &bytes }, std::slice::from_ref(&span)).is_ok() {
                    prop_assert!(span.indices.end <= rows);
                    prop_assert_eq!(column.finish().unwrap().len(), span.count());
                }
            }
        }
    }

    /// Any bytes are an error, or give the requested number of values.
    #[test]
    fn any_bytes_are_an_error_or_values(
        kind in 0u8..8,
        nulls in any::<bool>(),
        of_steps in any::<bool>(),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        rows in 0usize..200,
        span in (0usize..200, 0usize..128),
    ) {
        let bytes: Vec<u8> = [kind | (nulls as u8) << 7 | (of_steps as u8) << 6].into_iter().chain(bytes).collect();
        let span = Span { indices: span.0..span.0 + span.1, some: None };
        for data_type in [DataType::Int8, DataType::Float32, DataType::Float64, DataType::UInt64, DataType::Boolean] {
            let mut column = decode::column(&data_type, rows);
            if column.append(&PageColumn { rows, bytes: &bytes }, std::slice::from_ref(&span)).is_ok() {
                prop_assert!(span.indices.end <= rows);
                prop_assert_eq!(column.finish().unwrap().len(), span.count());
            }
        }
    }
}
