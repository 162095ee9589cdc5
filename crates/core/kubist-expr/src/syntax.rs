//! The syntax tree: the structure of the SQL, with unresolved names and no types.

use crate::value::Literal;
use arrow_schema::DataType;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Op {
    pub(crate) fn flipped(self) -> Op {
        match self {
            Op::Lt => Op::Gt,
            Op::Le => Op::Ge,
            Op::Gt => Op::Lt,
            Op::Ge => Op::Le,
            same => same,
        }
    }

    pub(crate) fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            Op::Eq => order.is_eq(),
            Op::Ne => order.is_ne(),
            Op::Lt => order.is_lt(),
            Op::Le => order.is_le(),
            Op::Gt => order.is_gt(),
            Op::Ge => order.is_ge(),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Syntax {
    Column {
        name: String,
        quoted: bool,
    },
    Literal(Literal),
    Call {
        name: String,
        operands: Vec<Syntax>,
    },
    Compare {
        op: Op,
        left: Box<Syntax>,
        right: Box<Syntax>,
    },
    Between {
        operand: Box<Syntax>,
        low: Box<Syntax>,
        high: Box<Syntax>,
    },
    In {
        operand: Box<Syntax>,
        items: Vec<Syntax>,
    },
    Like {
        operand: Box<Syntax>,
        pattern: Box<Syntax>,
        /// The character before a literal `%` or `_`.
        escape: Option<char>,
        ignore_case: bool,
    },
    /// With an operand, each `WHEN` is a value to compare with; otherwise it is a condition.
    Case {
        operand: Option<Box<Syntax>>,
        whens: Vec<(Syntax, Syntax)>,
        otherwise: Option<Box<Syntax>>,
    },
    Cast {
        operand: Box<Syntax>,
        to: DataType,
    },
    IsNull(Box<Syntax>),
    IsTruth {
        operand: Box<Syntax>,
        truth: Option<bool>,
    },
    Not(Box<Syntax>),
    And(Vec<Syntax>),
    Or(Vec<Syntax>),
}
