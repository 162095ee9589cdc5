//! The tests of expressions, one program: `--test it expressions::` runs those of `expressions.rs`.

mod oracle;

mod expressions;
mod language;
mod robust;
mod rows;
mod units;
