//! Random conditions, as SQL and as trees for the interpreter.

use arrow_schema::Schema;

use super::tables::{Cell, Clock, DAY, Rng, columns};

#[derive(Clone, Debug)]
pub enum Lit {
    Null,
    Bool(bool),
    Number(String, i128, i32),
    Inf(bool),
    NaN,
    Text(String),
    Bytes(Vec<u8>),
    /// The text, its nanoseconds, and whether it has finer digits.
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
    Truth(Box<Cond>),
    Case(Box<Cond>, Box<Expr>, Option<Box<Expr>>),
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
            Expr::Truth(cond) => format!("({})", self.sql(cond)),
            Expr::Case(cond, a, None) => format!("CASE WHEN {} THEN {} END", self.sql(cond), self.expr(a)),
            Expr::Case(cond, a, Some(b)) => {
                format!("CASE WHEN {} THEN {} ELSE {} END", self.sql(cond), self.expr(a), self.expr(b))
            }
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

pub fn sample(index: usize) -> Cell {
    columns()[index].2[0].clone()
}

fn numeric(index: usize) -> bool {
    matches!(sample(index), Cell::Int(_) | Cell::Decimal(..) | Cell::F16(_) | Cell::F32(_) | Cell::F64(_))
}

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
            let items = (0..1 + rng.below(24)).map(|_| literal(rng, &sample(index))).collect();
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
    match rng.below(13) {
        10 => {
            let flag = Expr::Truth(Box::new(condition(rng, 0)));
            Expr::Arithmetic(rng.pick(&["+", "*", "least"]), Box::new(flag), Box::new(arithmetic(rng, depth - 1)))
        }
        11..=12 => {
            let cond = Box::new(condition(rng, depth - 1));
            let otherwise = rng.chance(70).then(|| Box::new(arithmetic(rng, depth - 1)));
            Expr::Case(cond, Box::new(arithmetic(rng, depth - 1)), otherwise)
        }
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
