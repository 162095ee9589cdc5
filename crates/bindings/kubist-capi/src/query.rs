//! Queries of the C interface: counts, rows, estimates and refinements.
//!
//! A request is JSON text with the names that HTTP and Python use (docs/simulations.md). Rows are returned as Arrow
//! streams, and estimates as JSON. Each request takes a snapshot, so it sees all commits before it started.

use std::ffi::c_char;
use std::sync::{Mutex, PoisonError};

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_cast::display::array_value_to_string;
use kubist::{Figure, Query, RunOptions, Stats, Stop};
use kubist_insitu::Result;
use kubist_read::refine::Refine;
use serde::Serialize;

use crate::arrow::outgoing;
use crate::hooks::{Call, Hooks};
use crate::options::{Goal, QueryWith, Steps};
use crate::status::{guarded, KubistStatus};
use crate::table::{free, hand_handle_out, handle, no_handle, KubistTable};
use crate::text::{hand_out, json, set};

/// Counts the rows that match a query, such as {"box": {"x": [0, 1]}, "where": "y > 2", "sample": 0.1}.
#[no_mangle]
pub unsafe extern "C" fn kubist_count(table: *const KubistTable, query: *const c_char, rows: *mut u64) -> KubistStatus {
    guarded!({
        // SAFETY: see lib.rs.
        let (table, spec): (_, Query) = unsafe { (handle("table", table)?, json("query", query)?) };
        let call = Call::default();
        let request = RunOptions::with_cancel(&call.cancel()).of(spec);
        let found = table.hooks.run(&call, || Ok(table.table.snapshot()?.count(&request)?))?;
        // SAFETY: as above.
        unsafe { set(rows, "rows", found) }
    })
}

/// Returns the rows that match a query, as a stream of batches. Queries have the same names as in HTTP and
/// Python; see docs/simulations.md.
#[no_mangle]
pub unsafe extern "C" fn kubist_query(
    table: *const KubistTable,
    query: *const c_char,
    stream: *mut FFI_ArrowArrayStream,
) -> KubistStatus {
    guarded!({
        // SAFETY: see lib.rs.
        let (table, spec): (_, Query) = unsafe { (handle("table", table)?, json("query", query)?) };
        let call = Call::default();
        let request = RunOptions::with_cancel(&call.cancel()).of(spec);
        let answer = table.hooks.run(&call, || Ok(table.table.snapshot()?.query(&request)?))?;
        // SAFETY: as above.
        unsafe { outgoing(stream, answer, call, &table.hooks) }
    })
}

/// The JSON form of [`kubist::Estimate`].
#[derive(Serialize)]
struct Figures<'a> {
    fraction: f64,
    confidence: f64,
    stopped: Stop,
    missed_group: Option<u64>,
    warnings: &'a [String],
    stats: Stats,
    figures: Vec<OneFigure<'a>>,
}

/// The JSON form of [`Figure`]. Infinite bounds are null, because JSON has no infinity.
#[derive(Serialize)]
struct OneFigure<'a> {
    aggregate: &'a str,
    group: serde_json::Map<String, serde_json::Value>,
    bin: &'a [(f64, f64)],
    value: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    fraction: f64,
    rows: u64,
    exact: bool,
}

/// The values of a figure's group by column, as text; null for null, and empty without groups.
fn group(groups: &RecordBatch, figure: &Figure) -> serde_json::Map<String, serde_json::Value> {
    let schema = groups.schema();
    let values = schema.fields().iter().zip(groups.columns()).filter(|_| figure.group < groups.num_rows());
    let text = |column: &ArrayRef| array_value_to_string(column, figure.group).unwrap_or_default();
    let shown = |column: &ArrayRef| column.is_valid(figure.group).then(|| text(column)).into();
    values.map(|(field, column)| (field.name().clone(), shown(column))).collect()
}

fn figures(estimate: &kubist::Estimate) -> Figures<'_> {
    let finite = |value: f64| Some(value).filter(|value| value.is_finite());
    let figures = estimate.figures.iter().map(|figure| OneFigure {
        aggregate: &figure.aggregate,
        group: group(&estimate.groups, figure),
        bin: &figure.bin,
        value: figure.value.and_then(finite),
        low: finite(figure.low),
        high: finite(figure.high),
        fraction: figure.fraction,
        rows: figure.rows,
        exact: figure.exact,
    });
    Figures {
        fraction: estimate.fraction,
        confidence: estimate.confidence,
        stopped: estimate.stopped,
        missed_group: estimate.missed_group,
        warnings: &estimate.warnings,
        stats: estimate.stats,
        figures: figures.collect(),
    }
}

/// Estimates aggregates with intervals, from a sample that is large enough for the goal. Returns JSON. A request
/// with a relative error and a limit in seconds: {"aggregates": ["mean(ux)"], "error": 0.01, "within": 2}.
#[no_mangle]
pub unsafe extern "C" fn kubist_estimate(
    table: *const KubistTable,
    request: *const c_char,
    answer: *mut *mut c_char,
) -> KubistStatus {
    guarded!({
        // SAFETY: see lib.rs.
        let (table, asked): (_, QueryWith<Goal>) = unsafe { (handle("table", table)?, json("request", request)?) };
        let call = Call::default();
        let options = asked.into_engine(RunOptions::with_cancel(&call.cancel()))?;
        let estimate = table.hooks.run(&call, || {
            let mut tell = |estimate: &kubist::Estimate| call.tell(estimate.stats.rows_read, 0);
            Ok(table.table.snapshot()?.estimate(&options, &mut tell)?)
        })?;
        // SAFETY: as above.
        unsafe { hand_out(answer, &figures(&estimate)) }
    })
}

/// A refinement: its results go from coarse to fine, and return each row once.
pub struct KubistRefine {
    steps: Mutex<Refine>,
    hooks: Hooks,
}

/// Starts a refinement. The request is a query with "start", the sample fraction of the first result, and
/// "factor", by which each further result increases the fraction.
#[no_mangle]
pub unsafe extern "C" fn kubist_refine(
    table: *const KubistTable,
    request: *const c_char,
    refine: *mut *mut KubistRefine,
) -> KubistStatus {
    guarded!({
        // SAFETY: see lib.rs.
        unsafe { no_handle(refine) }?;
        // SAFETY: as above.
        let (table, asked): (_, QueryWith<Steps>) = unsafe { (handle("table", table)?, json("request", request)?) };
        let (call, Steps { start, factor }) = (Call::default(), asked.rest);
        let steps = table.hooks.run(&call, || Ok(table.table.snapshot()?.refine(&asked.spec, start, factor)?))?;
        let made = KubistRefine { steps: Mutex::new(steps), hooks: table.hooks.clone() };
        // SAFETY: as above.
        unsafe { hand_handle_out(refine, made) }
    })
}

/// Returns the next result as a stream. After the last result, `found` is 0 and no stream is returned.
#[no_mangle]
pub unsafe extern "C" fn kubist_refine_next(
    refine: *const KubistRefine,
    stream: *mut FFI_ArrowArrayStream,
    found: *mut i32,
) -> KubistStatus {
    guarded!({
        // SAFETY: see lib.rs.
        let refine = unsafe { handle("refine", refine) }?;
        let call = Call::default();
        let next = refine.hooks.run(&call, || {
            let mut steps = refine.steps.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(steps.next().transpose()?)
        })?;
        // SAFETY: as above.
        unsafe { set(found, "found", i32::from(next.is_some())) }?;
        let hand = |answer| -> Result<()> {
            // SAFETY: as above.
            unsafe { outgoing(stream, answer, call, &refine.hooks) }
        };
        next.map_or(Ok(()), hand)
    })
}

/// Ends a refinement.
#[no_mangle]
pub unsafe extern "C" fn kubist_refine_close(refine: *mut KubistRefine) -> KubistStatus {
    guarded!({
        // SAFETY: see lib.rs.
        unsafe { free(refine) };
        Ok(())
    })
}
