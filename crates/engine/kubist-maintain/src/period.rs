//! Periods of a table that has rows.

use kubist_catalog::period::period_of;
use kubist_catalog::snapshot::Snapshot;
use kubist_read::count::count;
use kubist_read::request::RunOptions;
use kubist_types::{Cancel, Error, Period, QuerySpec, Result, Value};

/// Parses periods of columns, and checks that all rows are inside; a null removes a period.
///
/// # Errors
///
/// `Invalid` names a column that does not exist, a value that is no period, or the number of rows outside; the errors
/// of reading.
pub fn of_rows(
    snapshot: &Snapshot,
    periods: &[(String, Value)],
    cancel: &Cancel,
) -> Result<Vec<(String, Option<Period>)>> {
    let schema = &snapshot.view.schema;
    let parsed = periods.iter().map(|(column, period)| {
        let name = schema.own_name(column)?.to_owned();
        if matches!(period, Value::Null) {
            return Ok((name, None));
        }
        let period = period_of(&schema.with_unit(schema.column(column)?), period)?;
        let quoted = format!("\"{}\"", name.replace('"', "\"\""));
        let (first, last) = (period.first, period.last);
        let filter = Some(format!("{quoted} < {first:?} OR {quoted} > {last:?}"));
        match count(snapshot, RunOptions::with_cancel(cancel).of(QuerySpec { filter, ..QuerySpec::default() }))? {
            0 => Ok((name, Some(period))),
            rows => Err(Error::invalid(format!(
                "column {name:?} of {rows} rows is outside of {first} to {last}: give the interval that the values are \
                 in as its period"
            ))),
        }
    });
    parsed.collect()
}
