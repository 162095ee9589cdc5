//! Random tables of all types.

use std::sync::Arc;

use arrow_array::types::*;
use arrow_array::*;
use arrow_buffer::i256;
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use half::f16;

/// SplitMix64.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
    pub fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())].clone()
    }
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Null,
    Bool(bool),
    Int(i128),
    /// Unscaled value and scale.
    Decimal(i128, i32),
    F16(f16),
    F32(f32),
    F64(f64),
    /// A count of units of this many nanoseconds, and the kind of time.
    Time(i128, i128, Clock),
    Text(String),
    Bytes(Vec<u8>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Clock {
    Instant,
    OfDay,
    Duration,
}

pub const DAY: i128 = 86_400_000_000_000;

pub struct Table {
    pub schema: Arc<Schema>,
    pub batch: RecordBatch,
    pub cells: Vec<Vec<Cell>>,
}

fn int_pool(first: i128, last: i128) -> Vec<Cell> {
    let pool = [first, first + 1, -3, -1, 0, 1, 2, 3, 5, 100, last - 1, last];
    pool.into_iter().filter(|v| (first..=last).contains(v)).map(Cell::Int).collect()
}

fn time_pool(first: i128, last: i128, unit: i128, clock: Clock) -> Vec<Cell> {
    let day = DAY / unit;
    let pool = match clock {
        Clock::Instant => [first, -1, 0, 1, 18_262 * day, 18_262 * day + 1, 18_263 * day, last],
        _ => [first, -1, 0, 1, 45_000_000_000_000 / unit, 45_000_000_000_000 / unit + 1, 7, last],
    };
    pool.into_iter().filter(|v| (first..=last).contains(v)).map(|v| Cell::Time(v, unit, clock)).collect()
}

pub fn columns() -> Vec<(&'static str, DataType, Vec<Cell>)> {
    use DataType::*;
    let int = |t: i128, u: i128| int_pool(t, u);
    let dict = |k: DataType, v: DataType| Dictionary(Box::new(k), Box::new(v));
    let f64s = [
        f64::NEG_INFINITY,
        f64::MIN,
        -2.5,
        -1.0,
        -5e-324,
        -0.0,
        0.0,
        5e-324,
        0.1,
        0.5,
        1.0,
        2.0,
        2.5,
        3.0,
        f64::MAX,
        f64::INFINITY,
        f64::NAN,
        -f64::NAN,
    ];
    let f64_pool: Vec<Cell> = f64s.iter().map(|v| Cell::F64(*v)).collect();
    let f32_pool: Vec<Cell> =
        f64s.iter().map(|v| Cell::F32(*v as f32)).chain([f32::MAX, f32::MIN, 1e-45, -1e-45].map(Cell::F32)).collect();
    let f16_pool: Vec<Cell> = f64s
        .iter()
        .map(|v| Cell::F16(f16::from_f64(*v)))
        .chain([f16::MAX, f16::MIN, f16::from_bits(1), f16::from_bits(0x8001)].map(Cell::F16))
        .collect();
    let texts = [
        "",
        "a",
        "ab",
        "abc",
        "abcdefgh",
        "abcdefghi",
        "abcdefghij",
        "b",
        "B",
        "é",
        "日本",
        "a%c",
        "a_c",
        "a'c",
        "\u{10ffff}",
    ];
    let text_pool: Vec<Cell> = texts.iter().map(|t| Cell::Text((*t).to_owned())).collect();
    let bytes_pool: Vec<Cell> = [&b""[..], b"\0", b"\0\0", b"a", b"\xff", b"\xff\xff", b"12345678", b"123456789"]
        .iter()
        .map(|b| Cell::Bytes(b.to_vec()))
        .collect();
    let fixed_pool: Vec<Cell> =
        [*b"\0\0", *b"\0a", *b"ab", *b"\xff\xff"].iter().map(|b| Cell::Bytes(b.to_vec())).collect();
    let decimals = |scale: i32, last: i128| -> Vec<Cell> {
        [-last, -250, -100, -10, -1, 0, 1, 10, 100, 250, 251, 1000, last]
            .iter()
            .map(|v| Cell::Decimal(*v, scale))
            .collect()
    };
    let (i32s, i64s) = ((i32::MIN as i128, i32::MAX as i128), (i64::MIN as i128, i64::MAX as i128));
    vec![
        ("i8", Int8, int(i8::MIN as i128, i8::MAX as i128)),
        ("i16", Int16, int(i16::MIN as i128, i16::MAX as i128)),
        ("i32", Int32, int(i32s.0, i32s.1)),
        ("i64", Int64, int(i64s.0, i64s.1)),
        ("u8", UInt8, int(0, u8::MAX as i128)),
        ("u16", UInt16, int(0, u16::MAX as i128)),
        ("u32", UInt32, int(0, u32::MAX as i128)),
        ("u64", UInt64, int(0, u64::MAX as i128)),
        ("f16", Float16, f16_pool),
        ("f32", Float32, f32_pool),
        ("f64", Float64, f64_pool.clone()),
        ("flag", Boolean, vec![Cell::Bool(true), Cell::Bool(false)]),
        ("flag2", Boolean, vec![Cell::Bool(true), Cell::Bool(false)]),
        ("dec32", Decimal32(9, 1), decimals(1, 999_999_999)),
        ("dec64", Decimal64(18, 3), decimals(3, 999_999_999_999_999_999)),
        ("dec", Decimal128(38, 2), decimals(2, 10i128.pow(38) - 1)),
        ("dec256", Decimal256(76, -1), decimals(-1, 10i128.pow(38) - 1)),
        ("date", Date32, time_pool(i32s.0, i32s.1, DAY, Clock::Instant)),
        ("date64", Date64, time_pool(i64s.0, i64s.1, 1_000_000, Clock::Instant)),
        ("ts_s", Timestamp(TimeUnit::Second, None), time_pool(i64s.0, i64s.1, 1_000_000_000, Clock::Instant)),
        (
            "ts_ms",
            Timestamp(TimeUnit::Millisecond, Some("Europe/Madrid".into())),
            time_pool(i64s.0, i64s.1, 1_000_000, Clock::Instant),
        ),
        ("ts_ns", Timestamp(TimeUnit::Nanosecond, Some("UTC".into())), time_pool(i64s.0, i64s.1, 1, Clock::Instant)),
        ("time_s", Time32(TimeUnit::Second), time_pool(0, 86_399, 1_000_000_000, Clock::OfDay)),
        ("time_us", Time64(TimeUnit::Microsecond), time_pool(0, 86_399_999_999, 1_000, Clock::OfDay)),
        ("dur_ms", Duration(TimeUnit::Millisecond), time_pool(i64s.0, i64s.1, 1_000_000, Clock::Duration)),
        ("dur_us", Duration(TimeUnit::Microsecond), time_pool(i64s.0, i64s.1, 1_000, Clock::Duration)),
        ("text", Utf8, text_pool.clone()),
        ("large", LargeUtf8, text_pool.clone()),
        ("view", Utf8View, text_pool.clone()),
        ("coded", dict(Int8, Utf8), text_pool.clone()),
        ("coded_large", dict(UInt64, LargeUtf8), text_pool),
        ("coded_f64", dict(Int32, Float64), f64_pool),
        ("coded_i64", dict(UInt16, Int64), int(i64s.0, i64s.1)),
        ("bytes", Binary, bytes_pool.clone()),
        ("large_bytes", LargeBinary, bytes_pool.clone()),
        ("view_bytes", BinaryView, bytes_pool),
        ("fixed", FixedSizeBinary(2), fixed_pool),
    ]
}

fn native<T: ArrowPrimitiveType>(cells: &[Cell], data_type: &DataType, read: impl Fn(&Cell) -> T::Native) -> ArrayRef {
    let values = cells.iter().map(|cell| (*cell != Cell::Null).then(|| read(cell)));
    Arc::new(PrimitiveArray::<T>::from_iter(values).with_data_type(data_type.clone()))
}

fn whole(cell: &Cell) -> i128 {
    match cell {
        Cell::Int(v) | Cell::Decimal(v, _) | Cell::Time(v, _, _) => *v,
        _ => panic!("{cell:?}"),
    }
}

fn text(cell: &Cell) -> Option<&str> {
    match cell {
        Cell::Text(text) => Some(text),
        _ => None,
    }
}

fn bytes(cell: &Cell) -> Option<&[u8]> {
    match cell {
        Cell::Bytes(bytes) => Some(bytes),
        _ => None,
    }
}

fn float(cell: &Cell) -> f64 {
    match cell {
        Cell::F64(v) => *v,
        _ => panic!("{cell:?}"),
    }
}

fn dictionary<K: ArrowDictionaryKeyType>(rng: &mut Rng, cells: &[Cell], values: &DataType, pool: &[Cell]) -> ArrayRef
where
    K::Native: TryFrom<usize>,
    <K::Native as TryFrom<usize>>::Error: std::fmt::Debug,
{
    // A dictionary may have nulls and repeated values, and may be large.
    let mut entries: Vec<Cell> = pool.to_vec();
    entries.push(Cell::Null);
    entries.extend_from_slice(pool);
    let keys = cells.iter().map(|cell| {
        if *cell == Cell::Null && rng.chance(50) {
            return None;
        }
        let same = |entry: &Cell| format!("{entry:?}") == format!("{cell:?}");
        let same_entries: Vec<usize> = (0..entries.len()).filter(|i| same(&entries[*i])).collect();
        Some(K::Native::try_from(rng.pick(&same_entries)).unwrap())
    });
    let keys: PrimitiveArray<K> = keys.collect();
    Arc::new(DictionaryArray::new(keys, array(rng, &entries, values, pool)))
}

fn array(rng: &mut Rng, cells: &[Cell], data_type: &DataType, pool: &[Cell]) -> ArrayRef {
    use DataType::*;
    macro_rules! ints {
        ($t:ty) => {
            native::<$t>(cells, data_type, |cell| whole(cell) as _)
        };
    }
    match data_type {
        Int8 => ints!(Int8Type),
        Int16 => ints!(Int16Type),
        Int32 => ints!(Int32Type),
        Int64 => ints!(Int64Type),
        UInt8 => ints!(UInt8Type),
        UInt16 => ints!(UInt16Type),
        UInt32 => ints!(UInt32Type),
        UInt64 => ints!(UInt64Type),
        Decimal32(_, _) => ints!(Decimal32Type),
        Decimal64(_, _) => ints!(Decimal64Type),
        Decimal128(_, _) => ints!(Decimal128Type),
        Decimal256(_, _) => native::<Decimal256Type>(cells, data_type, |cell| i256::from_i128(whole(cell))),
        Date32 => ints!(Date32Type),
        Date64 => ints!(Date64Type),
        Timestamp(TimeUnit::Second, _) => ints!(TimestampSecondType),
        Timestamp(TimeUnit::Millisecond, _) => ints!(TimestampMillisecondType),
        Timestamp(_, _) => ints!(TimestampNanosecondType),
        Time32(_) => ints!(Time32SecondType),
        Time64(_) => ints!(Time64MicrosecondType),
        Duration(TimeUnit::Millisecond) => ints!(DurationMillisecondType),
        Duration(_) => ints!(DurationMicrosecondType),
        Float16 => native::<Float16Type>(cells, data_type, |cell| match cell {
            Cell::F16(v) => *v,
            _ => panic!(),
        }),
        Float32 => native::<Float32Type>(cells, data_type, |cell| match cell {
            Cell::F32(v) => *v,
            _ => panic!(),
        }),
        Float64 => native::<Float64Type>(cells, data_type, float),
        Boolean => Arc::new(BooleanArray::from_iter(cells.iter().map(|cell| match cell {
            Cell::Bool(v) => Some(*v),
            _ => None,
        }))),
        Utf8 => Arc::new(StringArray::from_iter(cells.iter().map(text))),
        LargeUtf8 => Arc::new(LargeStringArray::from_iter(cells.iter().map(text))),
        Utf8View => Arc::new(StringViewArray::from_iter(cells.iter().map(text))),
        Binary => Arc::new(BinaryArray::from_iter(cells.iter().map(bytes))),
        LargeBinary => Arc::new(LargeBinaryArray::from_iter(cells.iter().map(bytes))),
        BinaryView => Arc::new(BinaryViewArray::from_iter(cells.iter().map(bytes))),
        FixedSizeBinary(n) => {
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(cells.iter().map(bytes), *n).unwrap())
        }
        Dictionary(key, values) => match **key {
            Int8 => dictionary::<Int8Type>(rng, cells, values, pool),
            Int32 => dictionary::<Int32Type>(rng, cells, values, pool),
            UInt16 => dictionary::<UInt16Type>(rng, cells, values, pool),
            _ => dictionary::<UInt64Type>(rng, cells, values, pool),
        },
        other => panic!("{other}"),
    }
}

pub fn table(rng: &mut Rng, rows: usize) -> Table {
    let (mut fields, mut arrays, mut cells) = (Vec::new(), Vec::new(), Vec::new());
    for (name, data_type, pool) in columns() {
        let few = 1 + rng.below(pool.len());
        let from = rng.below(pool.len() - few + 1);
        let nulls = rng.pick(&[0, 0, 20, 100]);
        let column: Vec<Cell> =
            (0..rows).map(|_| if rng.chance(nulls) { Cell::Null } else { rng.pick(&pool[from..from + few]) }).collect();
        arrays.push(array(rng, &column, &data_type, &pool));
        fields.push(Field::new(name, data_type, true));
        cells.push(column);
    }
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(schema.clone(), arrays).unwrap();
    Table { schema, batch, cells }
}
