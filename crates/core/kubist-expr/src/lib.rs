//! SQL predicates and expressions over Arrow record batches.
//!
//! A predicate is parsed from SQL, bound to a schema, and evaluated exactly for each row. Statistics may decide it for
//! all rows of a zone (a group of rows). An expression computes a number, or another value to group by, for each row.
//!
//! ```
//! use arrow_schema::{DataType, Field, Schema};
//! use kubist_expr::Predicate;
//!
//! let schema = Schema::new(vec![
//!     Field::new("diameter", DataType::Float32, true),
//!     Field::new("deposited", DataType::Boolean, false),
//! ]);
//! let predicate = Predicate::parse("diameter > 2e-5 AND NOT deposited", &schema)?;
//! assert_eq!(predicate.columns(), [0, 1]);
//! # Ok::<(), kubist_expr::ExprError>(())
//! ```
//!
//! The crate does no I/O. A result depends only on the schema, the batch and the zone statistics.
//!
//! # Rules
//!
//! docs/expressions.md has the grammar, the functions, types and limits. In addition:
//!
//! **Three values.** A test is true, false or unknown (Kleene's logic), and a predicate selects the rows for
//! which it is true. A comparison with null *or NaN* is unknown, and so is its negation: neither `x > 5` nor
//! `NOT (x > 5)` nor `x <> 5` selects a row where `x` is NaN. `IS NULL` tests for nulls only, `isnan(x)` for
//! NaN.
//!
//! **A literal takes the type of the other operand:**
//!
//! - A float column rounds it to its nearest float. A finite literal beyond the largest float stays below
//!   infinity, so `x <= 1e300` is true for every finite 32-bit `x`.
//! - Integers and decimals compare exactly: `pid >= 2.5` means `pid >= 3`, and `pid = 2.5` is never true.
//! - Dates, times and timestamps take ISO 8601 text, exact even if finer than the column, or a number in the
//!   column's unit.
//! - Booleans take `TRUE` or `FALSE`, and binary columns `X'00FF'`. Text and bytes compare byte by byte.
//!
//! Every other combination is a type error. `inf` and `nan` are numbers unless a column has that name.
//!
//! **Columns against columns.** Integers of any width, decimals of any scale and times of any unit compare
//! exactly (a date is its midnight, UTC). If one side is a float, both become 64-bit floats, or 32-bit floats
//! if both have 32 bits or fewer. Dictionaries count as their values.
//!
//! **Arithmetic.** `+ - * %` and `abs sign least greatest floor ceil round bin` of integers are integers,
//! computed in 128 bits. `/` gives a float, also for integers. `%` takes the sign of its left side. All these keep
//! 32-bit floats, unless the other operand is a 64-bit float, an integer column, or a literal beyond the range
//! of 32-bit floats. Other functions of numbers use 64-bit floats.
//!
//! **Names.** A name must match a column exactly, or, without quotes, ignoring case. Dots belong to the name.
//!
//! **Limits.** 128 operators in one chain, 1,100 digits of a number without leading and trailing zeros, 256 characters
//! of a date or time, and 4,096 bytes of a pattern. `AND`, `OR` and `IN` may list any number of literals. Parsing and
//! binding take time and memory linear in the text. Evaluation computes each condition and number once, and first
//! checks for cancellation.

mod arithmetic;
mod bind;
mod bound;
mod cell;
mod domain;
mod error;
mod evaluate;
mod expression;
mod grouping;
mod interval;
mod keys;
mod lex;
mod like;
mod limits;
mod list;
mod meaning;
mod measured;
mod moment;
mod names;
mod near;
mod number;
mod output;
mod parse;
mod points;
mod rows;
mod steps;
mod syntax;
mod types;
mod unit;
mod value;
mod vector;
mod zone;

pub use error::ExprError;
pub use expression::{Expression, Wholes};
pub use grouping::Grouping;
pub use keys::Keys;
pub use limits::Limits;
pub use list::{several, split, unquoted};
pub use measured::Meant;
pub use names::column_index;
pub use near::nearest;
pub use output::{Output, named};
pub use steps::{Smoothness, Steps};
pub use unit::{Conversion, error_in, has_direction, seconds, unit_notes};
pub use value::Value;
pub use zone::{ALL_INSIDE, KeyRanges, Nulls, SOME_INSIDE, Verdict, Zone};

use arrow_array::{BooleanArray, RecordBatch};
use arrow_buffer::BooleanBufferBuilder;
use arrow_schema::{DataType, Field, Schema};
use bound::{Operand, Test};
use domain::{Family, Range};
use kubist_index::order;
use names::Names;
use rows::{Rows, parts};
use std::fmt;
use syntax::Op;
use value::Literal;

pub fn never() -> bool {
    false
}

/// A condition on the rows of a table, bound to its schema.
#[derive(Clone, Debug)]
pub struct Predicate {
    test: Test,
    parts: Vec<String>,
}

impl Predicate {
    /// Selects every row.
    pub fn always() -> Predicate {
        Predicate { test: Test::Constant(Some(true)), parts: Vec::new() }
    }

    /// Parses an SQL condition and binds it to `schema`.
    ///
    /// # Errors
    ///
    /// [`ExprError`] names the mistake, or the column that does not fit.
    pub fn parse(sql: &str, schema: &Schema) -> Result<Predicate, ExprError> {
        let test = bind::condition(parse::parse(sql)?, schema).map_err(|error| names::with_hint(error, sql, schema))?;
        Ok(Predicate { test, parts: vec![sql.trim().to_owned()] })
    }

    /// The predicate `low <= column <= high`. Null and NaN are in no range, but a range without bounds selects
    /// every row. `column` is an exact name.
    ///
    /// # Errors
    ///
    /// [`ExprError::UnknownColumn`], or [`ExprError::Type`] if a bound does not fit the column.
    pub fn range(
        schema: &Schema,
        column: &str,
        low: Option<&Value>,
        high: Option<&Value>,
    ) -> Result<Predicate, ExprError> {
        let column = Names::new(schema).column(column, true)?;
        let mut tests = Vec::new();
        let mut parts = Vec::new();
        for (op, end) in [(Op::Ge, low), (Op::Le, high)] {
            let Some(end) = end else { continue };
            let sign = if op == Op::Ge { ">=" } else { "<=" };
            parts.push(format!("\"{}\" {sign} {end}", column.name.replace('"', "\"\"")));
            tests.push(bind::column_against(op, column.clone(), &Literal::from(end))?);
        }
        Ok(Predicate { test: Test::all(tests), parts })
    }

    /// Joins two predicates of the same schema by AND.
    pub fn and(self, other: Predicate) -> Predicate {
        let mut parts = self.parts;
        parts.extend(other.parts);
        Predicate { test: Test::all(vec![self.test, other.test]), parts }
    }

    /// Joins predicates of the same schema by OR; an empty list selects nothing.
    pub fn any(predicates: Vec<Predicate>) -> Predicate {
        let parts = predicates.iter().map(|one| format!("({one})")).collect::<Vec<_>>().join(" OR ");
        let tests = predicates.into_iter().map(|one| one.test).collect();
        Predicate { test: Test::Or(tests), parts: vec![parts] }
    }

    /// Selects the rows for which this predicate is false; unknown rows stay unselected.
    pub fn negated(self) -> Predicate {
        let parts = vec![format!("NOT ({self})")];
        Predicate { test: bind::not(self.test), parts }
    }

    pub fn named(self, text: String) -> Predicate {
        Predicate { parts: vec![text], ..self }
    }

    pub fn is_always(&self) -> bool {
        matches!(self.test, Test::Constant(Some(true)))
    }

    /// Ascending schema indices of the columns that the predicate reads.
    pub fn columns(&self) -> Vec<usize> {
        let mut columns = Vec::new();
        self.test.each_column(&mut |column| columns.push(column.index));
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// Returns one value per row, without nulls: true for selected rows. The batch needs only the columns that the
    /// predicate reads, found by name. `stopped` runs before each test and computation step, and true cancels the
    /// evaluation.
    ///
    /// # Errors
    ///
    /// [`ExprError::Stopped`]; [`ExprError::Overflow`] names an integer beyond 128 bits, or beyond the type
    /// of a cast; [`ExprError::Batch`] if a column is missing or of another type; [`ExprError::Evaluation`]
    /// if an Arrow kernel fails.
    pub fn evaluate(&self, batch: &RecordBatch, stopped: &dyn Fn() -> bool) -> Result<BooleanArray, ExprError> {
        let mut found = BooleanBufferBuilder::new(batch.num_rows());
        for part in parts(batch) {
            let [selected] = evaluate::answers(&self.test, &Rows::new(&part, stopped), [true])?;
            found.append_buffer(&selected);
        }
        Ok(BooleanArray::new(found.finish(), None))
    }

    /// Number of tests and steps, linear in the length of the text.
    pub fn size(&self) -> usize {
        self.test.size()
    }

    /// Returns the ranges and lists of the predicate, if it has nothing else. Zones can then be decided column by
    /// column, which is faster than `verdict`.
    pub fn key_ranges(&self) -> Option<Vec<KeyRanges<'_>>> {
        let tests = match &self.test {
            Test::And(tests) => &tests[..],
            test => std::slice::from_ref(test),
        };
        tests.iter().map(KeyRanges::of).collect()
    }

    /// Decides for a zone; `zone` returns its statistics for the schema index of a column.
    pub fn verdict(&self, zone: &dyn Fn(usize) -> Zone) -> Verdict {
        zone::verdict(&self.test, zone)
    }
}

impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parts.as_slice() {
            [] => f.write_str("TRUE"),
            [part] => f.write_str(part),
            [first, rest @ ..] => {
                write!(f, "({first})")?;
                rest.iter().try_for_each(|part| write!(f, " AND ({part})"))
            }
        }
    }
}

/// Converts a text with a unit, such as `2 cm`, to the unit of a column; a duration has the unit of its type. `None` if
/// the text has no unit or the column is not numeric.
///
/// # Errors
///
/// [`ExprError::Type`] if the column has no unit, or a unit of another kind.
pub fn in_unit_of(field: &Field, text: &str, meant: Meant) -> Result<Option<f64>, ExprError> {
    let schema = Schema::new(vec![field.clone()]);
    let column = Operand::Column(Names::new(&schema).column(field.name(), true)?);
    match meaning::family(&column) {
        Family::Int { .. } | Family::Decimal { .. } | Family::Float(_) | Family::Duration { .. } => {
            measured::of_text(text, &column, meant)
        }
        _ => match (meant, names::counted_in(field.data_type())) {
            (Meant::Distance, Some(unit)) => {
                unit::distance_in(text, unit, &format!("column `{}`", field.name()), unit::Role::Width)
            }
            _ => Ok(None),
        },
    }
}

/// Returns the inclusive range of order keys for the values from `low` to `high`; `None` if it is empty. If the type's
/// keys are not exact (`order::is_exact`), the range may contain keys of other values. A missing bound is open, and NaN
/// is excluded unless both bounds are missing.
///
/// # Errors
///
/// [`ExprError::Type`] if a bound does not fit the type.
pub fn key_range(
    data_type: &DataType,
    low: Option<&Value>,
    high: Option<&Value>,
) -> Result<Option<(u64, u64)>, ExprError> {
    let family = Family::of(data_type);
    let mut keys = if low.or(high).is_some() { order::number_keys(data_type) } else { (0, u64::MAX) };
    let mut both: Option<Range> = None;
    for (op, end) in [(Op::Ge, low), (Op::Le, high)] {
        let Some(end) = end else { continue };
        let literal = Literal::from(end);
        let position = family
            .position(&literal)
            .map_err(|reason| bind::mismatch(&format!("a column of type {data_type}"), &literal, reason))?;
        let Some(range) = family.range(op, &position) else { return Ok(None) };
        both = Some(match both {
            Some(other) => other.intersect(&range),
            None => range,
        });
    }
    if let Some(range) = both {
        let Some(span) = range.span(data_type) else { return Ok(None) };
        keys = (keys.0.max(span.low), keys.1.min(span.high));
    }
    Ok(Some(keys))
}
