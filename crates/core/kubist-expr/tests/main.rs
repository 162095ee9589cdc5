//! `--test it expressions::` runs the tests of `expressions.rs`.

mod oracle;

mod expressions;
mod formulas;
mod language;
mod robust;
mod rows;
mod sky;
mod units;
