//! The tree that the parser makes: SQL's shape, no types, names as written.

use crate::value::Literal;
use arrow_schema::DataType;

/// A comparison.
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
    /// The same comparison with its sides exchanged.
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
    /// An arithmetic operator or a function, by its name.
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
        ignore_case: bool,
    },
    /// With an operand each `WHEN` has a value that it is compared with, else a condition.
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
