//! A second, naive reading of the rules: one row at a time, values as rationals
//! or as the machine's floats, nothing shared with the crate but its words.
//!
//! Also a source of random tables and random conditions, repeatable from a seed.
#![allow(dead_code)]

use arrow_array::types::*;
use arrow_array::*;
use arrow_buffer::i256;
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use half::f16;
use std::sync::Arc;

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

/// One value of one row.
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
    /// A count of units of so many nanoseconds, and what it counts.
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

const DAY: i128 = 86_400_000_000_000;

pub struct Table {
    pub schema: Arc<Schema>,
    pub batch: RecordBatch,
    /// By column, then by row.
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

/// The type and the values that a column draws from.
fn columns() -> Vec<(&'static str, DataType, Vec<Cell>)> {
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
    // A dictionary has nulls and repetitions of its own, and may be large.
    let mut entries: Vec<Cell> = pool.to_vec();
    entries.push(Cell::Null);
    entries.extend_from_slice(pool);
    let keys = cells.iter().map(|cell| {
        if *cell == Cell::Null && rng.chance(50) {
            return None;
        }
        let same = |entry: &Cell| format!("{entry:?}") == format!("{cell:?}");
        let places: Vec<usize> = (0..entries.len()).filter(|i| same(&entries[*i])).collect();
        Some(K::Native::try_from(rng.pick(&places)).unwrap())
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

/// A table of all types; each column draws from a few or from all of its values.
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

/// A literal: its SQL and what it means.
#[derive(Clone, Debug)]
pub enum Lit {
    Null,
    Bool(bool),
    /// `mantissa * 10^exponent`, as text.
    Number(String, i128, i32),
    Inf(bool),
    NaN,
    Text(String),
    Bytes(Vec<u8>),
    /// Text, nanoseconds, and whether the text says a little more than those.
    Time(&'static str, i128, bool),
}

impl Lit {
    pub fn sql(&self) -> String {
        match self {
            Lit::Null => "NULL".into(),
            Lit::Bool(v) => format!("{v}"),
            Lit::Number(text, ..) => text.clone(),
            Lit::Inf(negative) => if *negative { "-inf" } else { "inf" }.into(),
            Lit::NaN => "nan".into(),
            Lit::Text(text) => format!("'{}'", text.replace('\'', "''")),
            Lit::Bytes(bytes) => {
                format!("X'{}'", bytes.iter().map(|b| format!("{b:02x}")).collect::<String>())
            }
            Lit::Time(text, ..) => format!("'{text}'"),
        }
    }
}

fn number(mantissa: i128, exponent: i32) -> Lit {
    let text = match exponent {
        0 => format!("{mantissa}"),
        _ => format!("{mantissa}e{exponent}"),
    };
    Lit::Number(text, mantissa, exponent)
}

pub fn literal(rng: &mut Rng, like: &Cell) -> Lit {
    if rng.chance(4) {
        return Lit::Null;
    }
    match like {
        Cell::Bool(_) => Lit::Bool(rng.chance(50)),
        Cell::Text(_) => {
            Lit::Text(rng.pick(&["", "a", "ab", "abc", "abcdefgh", "abcdefghi", "abd", "b", "é", "z", "a'c"]).into())
        }
        Cell::Bytes(_) => {
            Lit::Bytes(rng.pick(&[&b""[..], b"\0", b"a", b"ab", b"\xff", b"\xff\xff", b"12345678", b"2"]).to_vec())
        }
        Cell::Time(_, _, Clock::Instant) if rng.chance(70) => rng.pick(&[
            Lit::Time("1970-01-01", 0, false),
            Lit::Time("1969-12-31T23:59:59.9999999999Z", -1, true),
            Lit::Time("2020-01-01", 18_262 * DAY, false),
            Lit::Time("2020-01-01 00:00:00.001", 18_262 * DAY + 1_000_000, false),
            Lit::Time("2020-01-01T02:00:00+01:00", 18_262 * DAY + 3_600_000_000_000, false),
            Lit::Time("+99999999-01-01", 36_523_498_766 * DAY, false),
        ]),
        Cell::Time(_, _, Clock::OfDay) if rng.chance(70) => rng.pick(&[
            Lit::Time("00:00", 0, false),
            Lit::Time("12:30:00", 45_000_000_000_000, false),
            Lit::Time("12:30:00.0000005", 45_000_000_000_500, false),
        ]),
        _ => match rng.below(24) {
            0 => Lit::Inf(false),
            1 => Lit::Inf(true),
            2 => Lit::NaN,
            3..=4 => number(
                rng.pick(&[i8::MAX as i128, i64::MAX as i128, i64::MIN as i128, u64::MAX as i128, -1, 1 << 70]),
                0,
            ),
            5..=8 => number(
                rng.pick(&[-5, -1, 1, 25, 340_282_350_000_000_000, 65504, 65520, 34]),
                rng.pick(&[-1, -2, -30, 5, 36, 37, 38]),
            ),
            9 => number(rng.pick(&[1, -1]), rng.pick(&[200, 307, -330, 500])),
            _ => number(rng.below(14) as i128 * 5 - 30, rng.pick(&[0, 0, 0, -1])),
        },
    }
}

/// A condition, as SQL and as a tree for the interpreter.
#[derive(Clone, Debug)]
pub enum Cond {
    Compare(&'static str, Expr, Expr),
    Between(bool, usize, Lit, Lit),
    In(bool, usize, Vec<Lit>),
    IsNull(bool, usize),
    IsNan(usize),
    IsFinite(usize),
    Flag(usize),
    Like(bool, bool, usize, String),
    Is(Box<Cond>, &'static str),
    Same(Box<Cond>, Box<Cond>),
    Constant(Option<bool>),
    Not(Box<Cond>),
    And(Vec<Cond>),
    Or(Vec<Cond>),
}

#[derive(Clone, Debug)]
pub enum Expr {
    Column(usize),
    Literal(Lit),
    Arithmetic(&'static str, Box<Expr>, Box<Expr>),
    Function(&'static str, Box<Expr>),
}

pub struct Names<'a>(pub &'a Schema);

impl Names<'_> {
    fn column(&self, index: usize) -> &str {
        self.0.field(index).name()
    }

    fn expr(&self, expr: &Expr) -> String {
        match expr {
            Expr::Column(index) => self.column(*index).to_owned(),
            Expr::Literal(literal) => literal.sql(),
            Expr::Arithmetic(op @ ("least" | "greatest"), a, b) => format!("{op}({}, {})", self.expr(a), self.expr(b)),
            Expr::Arithmetic(op, a, b) => format!("({} {op} {})", self.expr(a), self.expr(b)),
            Expr::Function("-", a) => format!("- {}", self.expr(a)),
            Expr::Function(name, a) => format!("{name}({})", self.expr(a)),
        }
    }

    pub fn sql(&self, cond: &Cond) -> String {
        let list = |items: &[String], between: &str| items.join(between);
        let not = |negated: &bool| if *negated { "NOT " } else { "" };
        match cond {
            Cond::Compare(op, a, b) => format!("{} {op} {}", self.expr(a), self.expr(b)),
            Cond::Between(negated, column, low, high) => {
                format!("{} {}BETWEEN {} AND {}", self.column(*column), not(negated), low.sql(), high.sql())
            }
            Cond::In(negated, column, items) => {
                let items: Vec<String> = items.iter().map(Lit::sql).collect();
                format!("{} {}IN ({})", self.column(*column), not(negated), list(&items, ", "))
            }
            Cond::IsNull(negated, column) => format!("{} IS {}NULL", self.column(*column), not(negated)),
            Cond::IsNan(column) => format!("isnan({})", self.column(*column)),
            Cond::IsFinite(column) => format!("IsFinite({})", self.column(*column)),
            Cond::Flag(column) => self.column(*column).to_owned(),
            Cond::Like(negated, ignore_case, column, pattern) => format!(
                "{} {}{} '{}'",
                self.column(*column),
                not(negated),
                if *ignore_case { "ILIKE" } else { "LIKE" },
                pattern.replace('\'', "''")
            ),
            Cond::Is(inner, truth) => format!("({}) IS {truth}", self.sql(inner)),
            Cond::Same(a, b) => format!("({}) = ({})", self.sql(a), self.sql(b)),
            Cond::Constant(None) => "NULL".into(),
            Cond::Constant(Some(answer)) => format!("{answer}"),
            Cond::Not(inner) => format!("NOT ({})", self.sql(inner)),
            Cond::And(all) => list(&all.iter().map(|c| format!("({})", self.sql(c))).collect::<Vec<_>>(), " AND "),
            Cond::Or(all) => list(&all.iter().map(|c| format!("({})", self.sql(c))).collect::<Vec<_>>(), " OR "),
        }
    }
}

const OPS: [&str; 6] = ["=", "<>", "<", "<=", ">", ">="];

fn sample(index: usize) -> Cell {
    columns()[index].2[0].clone()
}

fn numeric(index: usize) -> bool {
    matches!(sample(index), Cell::Int(_) | Cell::Decimal(..) | Cell::F16(_) | Cell::F32(_) | Cell::F64(_))
}

/// A random condition; `Table` has the columns that it names.
pub fn condition(rng: &mut Rng, depth: usize) -> Cond {
    let count = columns().len();
    let column = |rng: &mut Rng, wanted: &dyn Fn(usize) -> bool| loop {
        let index = rng.below(count);
        if wanted(index) {
            return index;
        }
    };
    if depth > 0 && rng.chance(60) {
        let inner = |rng: &mut Rng| condition(rng, depth - 1);
        return match rng.below(10) {
            0..=2 => Cond::And((0..2 + rng.below(2)).map(|_| inner(rng)).collect()),
            3..=5 => Cond::Or((0..2 + rng.below(2)).map(|_| inner(rng)).collect()),
            6..=7 => Cond::Not(Box::new(inner(rng))),
            8 => {
                let truth = rng.pick(&["TRUE", "FALSE", "UNKNOWN", "NOT TRUE", "NOT FALSE", "NOT UNKNOWN", "NULL"]);
                Cond::Is(Box::new(inner(rng)), truth)
            }
            _ => Cond::Same(Box::new(inner(rng)), Box::new(inner(rng))),
        };
    }
    match rng.below(20) {
        0..=8 => {
            let index = column(rng, &|_| true);
            let literal = Expr::Literal(literal(rng, &sample(index)));
            let op = rng.pick(&OPS);
            if rng.chance(80) {
                Cond::Compare(op, Expr::Column(index), literal)
            } else {
                Cond::Compare(op, literal, Expr::Column(index))
            }
        }
        9 => {
            let index = column(rng, &|_| true);
            let (low, high) = (literal(rng, &sample(index)), literal(rng, &sample(index)));
            Cond::Between(rng.chance(30), index, low, high)
        }
        10..=11 => {
            let index = column(rng, &|_| true);
            let items = (0..1 + rng.below(12)).map(|_| literal(rng, &sample(index))).collect();
            Cond::In(rng.chance(30), index, items)
        }
        12 => Cond::IsNull(rng.chance(50), column(rng, &|_| true)),
        13 => match rng.below(4) {
            0 => Cond::IsNan(column(rng, &numeric)),
            1 => Cond::IsFinite(column(rng, &numeric)),
            2 => Cond::Constant(rng.pick(&[None, Some(true), Some(false)])),
            _ => Cond::Flag(column(rng, &|i| matches!(sample(i), Cell::Bool(_)))),
        },
        14 => {
            let index = column(rng, &|i| matches!(sample(i), Cell::Text(_)));
            let patterns = [
                "",
                "%",
                "a%",
                "abc",
                "%c",
                "a_c",
                "a\\%c",
                "a%c",
                "_",
                "__",
                "abcdefghi%",
                "AB%",
                "%'%",
                "é%",
                "%h%j",
            ];
            Cond::Like(rng.chance(30), rng.chance(30), index, rng.pick(&patterns).into())
        }
        15..=16 => {
            // Two columns of one kind.
            let kind = |cell: &Cell| match cell {
                Cell::Time(_, _, clock) => 10 + *clock as usize,
                Cell::Bool(_) => 1,
                Cell::Text(_) => 2,
                Cell::Bytes(_) => 3,
                _ => 0,
            };
            let left = column(rng, &|_| true);
            let right = column(rng, &|i| kind(&sample(i)) == kind(&sample(left)));
            let ops = if kind(&sample(left)) == 1 { &OPS[..2] } else { &OPS[..] };
            Cond::Compare(rng.pick(ops), Expr::Column(left), Expr::Column(right))
        }
        _ => {
            let right = if rng.chance(50) { Expr::Literal(literal(rng, &Cell::Int(0))) } else { arithmetic(rng, 1) };
            Cond::Compare(rng.pick(&OPS), arithmetic(rng, 2), right)
        }
    }
}

fn arithmetic(rng: &mut Rng, depth: usize) -> Expr {
    let leaf = |rng: &mut Rng| loop {
        let index = rng.below(columns().len());
        if numeric(index) {
            return Expr::Column(index);
        }
    };
    if depth == 0 {
        return leaf(rng);
    }
    match rng.below(10) {
        0..=5 => {
            let left = Box::new(arithmetic(rng, depth - 1));
            let right =
                if rng.chance(50) { arithmetic(rng, depth - 1) } else { Expr::Literal(literal(rng, &Cell::Int(0))) };
            Expr::Arithmetic(rng.pick(&["+", "-", "*", "/", "%", "least", "greatest"]), left, Box::new(right))
        }
        6..=7 => Expr::Function(rng.pick(&["-", "abs", "floor", "ceil", "sqrt"]), Box::new(arithmetic(rng, depth - 1))),
        _ => leaf(rng),
    }
}

// ---------------------------------------------------------------- the rules

use std::cmp::Ordering;

fn holds(op: &str, order: Option<Ordering>) -> Option<bool> {
    let order = order?;
    Some(match op {
        "=" => order.is_eq(),
        "<>" => order.is_ne(),
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        _ => order.is_ge(),
    })
}

/// `value * 10^-scale` against `mantissa * 10^exponent`.
fn rational(value: i128, scale: i32, mantissa: i128, exponent: i32) -> Ordering {
    // value * 10^-(scale + exponent) ? mantissa
    let power = |n: u32| i256::from_i128(10).checked_pow(n);
    let (value, mantissa) = (i256::from_i128(value), i256::from_i128(mantissa));
    let shift = scale + exponent;
    let far = |this: i256| this.cmp(&i256::ZERO);
    if shift >= 0 {
        match power(shift as u32).and_then(|p| mantissa.checked_mul(p)) {
            Some(scaled) => value.cmp(&scaled),
            None => far(mantissa).reverse(),
        }
    } else {
        match power((-shift) as u32).and_then(|p| value.checked_mul(p)) {
            Some(scaled) => scaled.cmp(&mantissa),
            None if value == i256::ZERO => far(mantissa).reverse(),
            None => far(value),
        }
    }
}

fn float_against(value: f64, literal: &Lit, round: impl Fn(f64) -> f64, greatest: f64) -> Option<Ordering> {
    if value.is_nan() {
        return None;
    }
    match literal {
        Lit::Inf(negative) => value.partial_cmp(&if *negative { f64::NEG_INFINITY } else { f64::INFINITY }),
        Lit::Number(text, ..) => {
            let rounded = round(text.parse::<f64>().unwrap());
            if rounded.is_finite() {
                return value.partial_cmp(&rounded);
            }
            // Just beyond the greatest finite number of the width.
            Some(if rounded > 0.0 {
                if value <= greatest { Ordering::Less } else { Ordering::Greater }
            } else if value < -greatest {
                Ordering::Less
            } else {
                Ordering::Greater
            })
        }
        other => panic!("{other:?}"),
    }
}

pub fn against(cell: &Cell, literal: &Lit) -> Option<Ordering> {
    match (cell, literal) {
        (Cell::Null, _) | (_, Lit::Null | Lit::NaN) => None,
        (Cell::Bool(a), Lit::Bool(b)) => Some(a.cmp(b)),
        (Cell::Text(a), Lit::Text(b)) => Some(a.as_bytes().cmp(b.as_bytes())),
        (Cell::Bytes(a), Lit::Bytes(b)) => Some(a.cmp(b)),
        (Cell::F64(v), literal) => float_against(*v, literal, |x| x, f64::MAX),
        (Cell::F32(v), literal) => float_against((*v).into(), literal, |x| (x as f32).into(), f32::MAX.into()),
        (Cell::F16(v), literal) => {
            float_against(v.to_f64(), literal, |x| f16::from_f64_const(x).to_f64(), f16::MAX.to_f64())
        }
        (Cell::Int(_) | Cell::Decimal(..) | Cell::Time(..), Lit::Inf(negative)) => {
            Some(if *negative { Ordering::Greater } else { Ordering::Less })
        }
        (Cell::Int(v), Lit::Number(_, m, e)) => Some(rational(*v, 0, *m, *e)),
        (Cell::Time(v, _, _), Lit::Number(_, m, e)) => Some(rational(*v, 0, *m, *e)),
        (Cell::Decimal(v, scale), Lit::Number(_, m, e)) => Some(rational(*v, *scale, *m, *e)),
        (Cell::Time(v, unit, _), Lit::Time(_, nanoseconds, more)) => {
            Some((v * unit).cmp(nanoseconds).then(if *more { Ordering::Less } else { Ordering::Equal }))
        }
        other => panic!("{other:?}"),
    }
}

/// A number in arithmetic.
#[derive(Clone, Copy, Debug)]
enum Num {
    Int(i128),
    F32(f32),
    F64(f64),
}

impl Num {
    fn f64(self) -> f64 {
        match self {
            Num::Int(v) => v as f64,
            Num::F32(v) => v.into(),
            Num::F64(v) => v,
        }
    }
}

fn cell_number(cell: &Cell) -> Option<Num> {
    Some(match cell {
        Cell::Null => return None,
        Cell::Int(v) => Num::Int(*v),
        Cell::F16(v) => Num::F32(v.to_f32()),
        Cell::F32(v) => Num::F32(*v),
        Cell::F64(v) => Num::F64(*v),
        Cell::Decimal(v, scale) if *scale >= 0 => Num::F64(*v as f64 / 10f64.powi(*scale)),
        Cell::Decimal(v, scale) => Num::F64(*v as f64 * 10f64.powi(-scale)),
        other => panic!("{other:?}"),
    })
}

fn literal_number(literal: &Lit, other: Option<Num>) -> Option<Num> {
    let value = match literal {
        Lit::Null => return None,
        Lit::Number(text, mantissa, 0) => match other {
            Some(Num::Int(_)) | None => return Some(Num::Int(*mantissa)),
            _ => text.parse().unwrap(),
        },
        Lit::Number(text, ..) => text.parse().unwrap(),
        Lit::Inf(negative) => {
            if *negative {
                f64::NEG_INFINITY
            } else {
                f64::INFINITY
            }
        }
        Lit::NaN => f64::NAN,
        other => panic!("{other:?}"),
    };
    let fits = (value as f32).is_finite() || matches!(literal, Lit::Inf(_) | Lit::NaN);
    Some(match other {
        Some(Num::F32(_)) if fits => Num::F32(value as f32),
        _ => Num::F64(value),
    })
}

/// The type of an expression is the same for every row: evaluated with what
/// stands for a null of each type.
fn kind_of(expr: &Expr) -> Option<Num> {
    match expr {
        Expr::Column(index) => cell_number(&sample(*index)),
        Expr::Literal(_) => None,
        Expr::Arithmetic(op, a, b) => {
            let (x, y) = (kind_of(a), kind_of(b));
            let (x, y) = match (x, y) {
                (Some(x), Some(y)) => (x, y),
                (Some(x), None) => (x, typed(b, Some(x)).unwrap_or(x)),
                (None, Some(y)) => (typed(a, Some(y)).unwrap_or(y), y),
                (None, None) => return None,
            };
            Some(match (x, y) {
                (Num::Int(_), Num::Int(_)) if *op != "/" => Num::Int(0),
                (Num::F32(_), Num::F32(_)) => Num::F32(0.0),
                _ => Num::F64(0.0),
            })
        }
        Expr::Function(name, a) => match (kind_of(a)?, *name) {
            (Num::Int(_), "sqrt") => Some(Num::F64(0.0)),
            (kind, _) => Some(kind),
        },
    }
}

fn typed(expr: &Expr, other: Option<Num>) -> Option<Num> {
    match expr {
        Expr::Literal(literal) => literal_number(literal, other),
        _ => None,
    }
}

fn compute(expr: &Expr, row: &dyn Fn(usize) -> Cell) -> Option<Num> {
    match expr {
        Expr::Column(index) => cell_number(&row(*index)),
        Expr::Literal(_) => panic!("alone"),
        Expr::Function(name, a) => {
            let value = compute(a, row)?;
            match (value, *name) {
                (Num::Int(v), "-") => v.checked_neg().map(Num::Int),
                (Num::Int(v), "abs") => v.checked_abs().map(Num::Int),
                (Num::Int(v), "sqrt") => Some(Num::F64((v as f64).sqrt())),
                (Num::Int(v), _) => Some(Num::Int(v)),
                (Num::F32(v), name) => Some(Num::F32(match name {
                    "-" => -v,
                    "abs" => v.abs(),
                    "floor" => v.floor(),
                    "ceil" => v.ceil(),
                    _ => v.sqrt(),
                })),
                (Num::F64(v), name) => Some(Num::F64(match name {
                    "-" => -v,
                    "abs" => v.abs(),
                    "floor" => v.floor(),
                    "ceil" => v.ceil(),
                    _ => v.sqrt(),
                })),
            }
        }
        Expr::Arithmetic(op, a, b) => {
            let side = |this: &Expr, other: &Expr| match this {
                Expr::Literal(literal) => literal_number(literal, kind_of(other)),
                _ => compute(this, row),
            };
            let (x, y) = (side(a, b)?, side(b, a)?);
            match (x, y) {
                (Num::Int(x), Num::Int(y)) if *op != "/" => match *op {
                    "+" => x.checked_add(y),
                    "-" => x.checked_sub(y),
                    "*" => x.checked_mul(y),
                    "%" => (y != 0).then(|| x.wrapping_rem(y)),
                    "least" => Some(x.min(y)),
                    _ => Some(x.max(y)),
                }
                .map(Num::Int),
                (Num::F32(x), Num::F32(y)) => Some(Num::F32(match *op {
                    "+" => x + y,
                    "-" => x - y,
                    "*" => x * y,
                    "/" => x / y,
                    "%" => x % y,
                    _ if x.is_nan() || y.is_nan() => f32::NAN,
                    "least" => {
                        if y < x {
                            y
                        } else {
                            x
                        }
                    }
                    _ => {
                        if y > x {
                            y
                        } else {
                            x
                        }
                    }
                })),
                (x, y) => {
                    let (x, y) = (x.f64(), y.f64());
                    Some(Num::F64(match *op {
                        "+" => x + y,
                        "-" => x - y,
                        "*" => x * y,
                        "/" => x / y,
                        "%" => x % y,
                        _ if x.is_nan() || y.is_nan() => f64::NAN,
                        "least" => {
                            if y < x {
                                y
                            } else {
                                x
                            }
                        }
                        _ => {
                            if y > x {
                                y
                            } else {
                                x
                            }
                        }
                    }))
                }
            }
        }
    }
}

fn order(a: &Expr, b: &Expr, row: &dyn Fn(usize) -> Cell) -> Option<Ordering> {
    match (a, b) {
        (Expr::Column(index), Expr::Literal(literal)) => against(&row(*index), literal),
        (Expr::Literal(_), _) => order(b, a, row).map(Ordering::reverse),
        (expr, Expr::Literal(literal)) => match compute(expr, row)? {
            Num::Int(v) => against(&Cell::Int(v), literal),
            Num::F32(v) => against(&Cell::F32(v), literal),
            Num::F64(v) => against(&Cell::F64(v), literal),
        },
        (Expr::Column(x), Expr::Column(y)) => match (row(*x), row(*y)) {
            (Cell::Null, _) | (_, Cell::Null) => None,
            (Cell::Bool(a), Cell::Bool(b)) => Some(a.cmp(&b)),
            (Cell::Text(a), Cell::Text(b)) => Some(a.cmp(&b)),
            (Cell::Bytes(a), Cell::Bytes(b)) => Some(a.cmp(&b)),
            (Cell::Time(a, p, _), Cell::Time(b, q, _)) => Some((a * p).cmp(&(b * q))),
            (Cell::Decimal(a, s), Cell::Decimal(b, t)) => Some(rational(a, s, b, -t)),
            (Cell::Int(a), Cell::Decimal(b, t)) => Some(rational(a, 0, b, -t)),
            (Cell::Decimal(a, s), Cell::Int(b)) => Some(rational(a, s, b, 0)),
            (a, b) => numbers(cell_number(&a)?, cell_number(&b)?),
        },
        (a, b) => numbers(compute(a, row)?, compute(b, row)?),
    }
}

fn numbers(a: Num, b: Num) -> Option<Ordering> {
    match (a, b) {
        (Num::Int(a), Num::Int(b)) => Some(a.cmp(&b)),
        (Num::F32(a), Num::F32(b)) => a.partial_cmp(&b),
        (a, b) => a.f64().partial_cmp(&b.f64()),
    }
}

fn like(text: &[char], pattern: &[char]) -> bool {
    match pattern {
        [] => text.is_empty(),
        ['%', rest @ ..] => (0..=text.len()).any(|skip| like(&text[skip..], rest)),
        ['_', rest @ ..] => !text.is_empty() && like(&text[1..], rest),
        ['\\', c, rest @ ..] | [c, rest @ ..] => text.first() == Some(c) && like(&text[1..], rest),
    }
}

/// What a row answers; `None` is unknown.
pub fn answer(cond: &Cond, row: &dyn Fn(usize) -> Cell) -> Option<bool> {
    match cond {
        Cond::Constant(answer) => *answer,
        Cond::Compare(op, a, b) => holds(op, order(a, b, row)),
        Cond::Between(negated, column, low, high) => {
            let cell = row(*column);
            let (low, high) = (holds(">=", against(&cell, low)), holds("<=", against(&cell, high)));
            and([low, high].into_iter()).map(|inside| inside != *negated)
        }
        Cond::In(negated, column, items) => {
            let cell = row(*column);
            or(items.iter().map(|item| holds("=", against(&cell, item)))).map(|listed| listed != *negated)
        }
        Cond::IsNull(negated, column) => Some((row(*column) == Cell::Null) != *negated),
        Cond::IsNan(column) => cell_number(&row(*column)).map(|number| number.f64().is_nan()),
        Cond::IsFinite(column) => cell_number(&row(*column)).map(|number| number.f64().is_finite()),
        Cond::Flag(column) => match row(*column) {
            Cell::Bool(flag) => Some(flag),
            _ => None,
        },
        Cond::Like(negated, ignore_case, column, pattern) => match row(*column) {
            Cell::Text(text) => {
                let fold = |text: &str| if *ignore_case { text.to_lowercase() } else { text.to_owned() };
                let (text, pattern) = (fold(&text), fold(pattern));
                let found = like(&text.chars().collect::<Vec<_>>(), &pattern.chars().collect::<Vec<_>>());
                Some(found != *negated)
            }
            _ => None,
        },
        Cond::Is(inner, truth) => {
            let (negated, wanted) = match truth.strip_prefix("NOT ") {
                Some(wanted) => (true, wanted),
                None => (false, *truth),
            };
            let wanted = match wanted {
                "TRUE" => Some(true),
                "FALSE" => Some(false),
                _ => None,
            };
            Some((answer(inner, row) == wanted) != negated)
        }
        Cond::Same(a, b) => Some(answer(a, row)? == answer(b, row)?),
        Cond::Not(inner) => answer(inner, row).map(|answer| !answer),
        Cond::And(all) => and(all.iter().map(|cond| answer(cond, row))),
        Cond::Or(any) => or(any.iter().map(|cond| answer(cond, row))),
    }
}

fn and(mut answers: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let all: Vec<_> = answers.by_ref().collect();
    if all.contains(&Some(false)) {
        Some(false)
    } else if all.contains(&None) {
        None
    } else {
        Some(true)
    }
}

fn or(answers: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    and(answers.map(|answer| answer.map(|answer| !answer))).map(|answer| !answer)
}
