//! Queries: JSON in, streams of batches or JSON out.

use std::sync::Mutex;
use std::time::Duration;

use jni_sys::{jbyteArray, jint, jlong};
use kubist::{Cancel, Estimate, EstimateOptions, Query, QueryStream, RunOptions, Snapshot, Split, Stop, Table};
use serde::{Deserialize, Serialize};

use crate::batches;
use crate::handles::{held, hold, lock};
use crate::jvm::{Class, Env, Failure, Result, ended, hand_json_out, json, text};
use crate::plain::{converted, described, plain_schema};

struct Answer {
    stream: Mutex<QueryStream>,
    plain: arrow_schema::SchemaRef,
    cancel: Cancel,
}

impl Answer {
    fn of(stream: QueryStream, cancel: Cancel) -> Result<Answer> {
        let plain = plain_schema(&stream.schema())?;
        Ok(Answer { stream: Mutex::new(stream), plain, cancel })
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.cancel.set();
    }
}

#[unsafe(no_mangle)]
pub extern "system" fn Java_org_kubist_Native_query(env: Env, _: Class, snapshot: jlong, spec: jbyteArray) -> jlong {
    ended(env, 0, || {
        // SAFETY: see lib.rs.
        let spec: Query = unsafe { json(env, "query", spec) }?;
        let cancel = Cancel::default();
        let request = RunOptions::with_cancel(&cancel).of(spec);
        let stream = held::<Snapshot>("snapshot", snapshot)?.query(request)?;
        Ok(hold(Answer::of(stream, cancel)?))
    })
}

#[unsafe(no_mangle)]
pub extern "system" fn Java_org_kubist_Native_readSplit(env: Env, _: Class, table: jlong, split: jbyteArray) -> jlong {
    ended(env, 0, || {
        // SAFETY: see lib.rs.
        let split: Split = unsafe { json(env, "split", split) }?;
        let cancel = Cancel::default();
        let stream = held::<Table>("table", table)?.cancelled_by(&cancel).read_split(&split)?;
        Ok(hold(Answer::of(stream, cancel)?))
    })
}

#[unsafe(no_mangle)]
pub extern "system" fn Java_org_kubist_Native_columns(env: Env, _: Class, answer: jlong) -> jbyteArray {
    ended(env, std::ptr::null_mut(), || {
        let answer = held::<Answer>("answer", answer)?;
        let schema = lock(&answer.stream).schema();
        // SAFETY: see lib.rs.
        unsafe { hand_json_out(env, &described(schema.fields())) }
    })
}

/// The address of the next batch; 0 at the end, -1 after the timeout.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_kubist_Native_next(env: Env, _: Class, answer: jlong, millis: jint) -> jlong {
    ended(env, 0, || {
        let answer = held::<Answer>("answer", answer)?;
        let patience = Duration::from_millis(u64::try_from(millis).unwrap_or_default());
        let next = lock(&answer.stream).next_within(patience)?;
        match next {
            None => Ok(-1),
            Some(None) => Ok(0),
            Some(Some(batch)) => Ok(batches::hand_out(converted(&batch, &answer.plain)?)),
        }
    })
}

#[unsafe(no_mangle)]
pub extern "system" fn Java_org_kubist_Native_stats(env: Env, _: Class, answer: jlong) -> jbyteArray {
    ended(env, std::ptr::null_mut(), || {
        let answer = held::<Answer>("answer", answer)?;
        let stats = lock(&answer.stream).stats();
        // SAFETY: see lib.rs.
        unsafe { hand_json_out(env, &stats) }
    })
}

#[unsafe(no_mangle)]
pub extern "system" fn Java_org_kubist_Native_count(env: Env, _: Class, snapshot: jlong, spec: jbyteArray) -> jlong {
    ended(env, 0, || {
        // SAFETY: see lib.rs.
        let spec: Query = unsafe { json(env, "query", spec) }?;
        let found = held::<Snapshot>("snapshot", snapshot)?.count(spec)?;
        jlong::try_from(found).map_err(|_| Failure::invalid("more records than Java can count"))
    })
}

/// The approximate number of matching rows, from metadata alone.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_kubist_Native_expected(env: Env, _: Class, snapshot: jlong, spec: jbyteArray) -> jlong {
    ended(env, 0, || {
        // SAFETY: see lib.rs.
        let spec: Query = unsafe { json(env, "query", spec) }?;
        let plan = held::<Snapshot>("snapshot", snapshot)?.plan(spec)?;
        Ok(plan.outline().rows_expected.ceil() as jlong)
    })
}

/// A split: its text for `readSplit`, and row count and hosts for a scheduler.
#[derive(Serialize)]
struct Piece {
    split: String,
    rows: u64,
    hosts: Vec<String>,
}

#[unsafe(no_mangle)]
pub extern "system" fn Java_org_kubist_Native_splits(
    env: Env,
    _: Class,
    snapshot: jlong,
    spec: jbyteArray,
    parts: jint,
) -> jbyteArray {
    ended(env, std::ptr::null_mut(), || {
        // SAFETY: see lib.rs.
        let spec: Query = unsafe { json(env, "query", spec) }?;
        let parts = usize::try_from(parts).unwrap_or_default();
        let splits = held::<Snapshot>("snapshot", snapshot)?.splits_by_host(spec, parts)?;
        let piece = |split: &Split| {
            let text = serde_json::to_string(split);
            let split_text = text.map_err(|error| Failure::new(kubist::ErrorKind::Internal, error.to_string()))?;
            Ok(Piece { split: split_text, rows: split.rows, hosts: split.preferred_hosts.clone() })
        };
        let pieces = splits.iter().map(piece).collect::<Result<Vec<_>>>()?;
        // SAFETY: see lib.rs.
        unsafe { hand_json_out(env, &pieces) }
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Goal {
    aggregates: Vec<String>,
    #[serde(default)]
    query: Query,
    error: Option<f64>,
    absolute: Option<kubist::Absolute>,
    confidence: Option<f64>,
}

#[derive(Serialize)]
struct Figures<'a> {
    fraction: f64,
    confidence: f64,
    stopped: Stop,
    warnings: &'a [String],
    figures: Vec<OneFigure<'a>>,
}

/// Open bounds are null, because JSON has no infinity.
#[derive(Serialize)]
struct OneFigure<'a> {
    aggregate: &'a str,
    value: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    /// The value as an integer number of its type's unit, with all digits.
    whole: Option<String>,
    rows: u64,
    exact: bool,
}

fn figures(estimate: &Estimate) -> Figures<'_> {
    let finite = |value: f64| Some(value).filter(|value| value.is_finite());
    let one = |figure| {
        let figure: &kubist::Figure = figure;
        OneFigure {
            aggregate: &figure.aggregate,
            value: figure.value.and_then(finite),
            low: finite(figure.low),
            high: finite(figure.high),
            whole: figure.own.as_ref().and_then(|own| own.value).map(|value| value.to_string()),
            rows: figure.rows,
            exact: figure.exact,
        }
    };
    Figures {
        fraction: estimate.fraction,
        confidence: estimate.confidence,
        stopped: estimate.stopped,
        warnings: &estimate.warnings,
        figures: estimate.figures.iter().map(one).collect(),
    }
}

#[unsafe(no_mangle)]
pub extern "system" fn Java_org_kubist_Native_estimate(
    env: Env,
    _: Class,
    snapshot: jlong,
    goal: jbyteArray,
) -> jbyteArray {
    ended(env, std::ptr::null_mut(), || {
        // SAFETY: see lib.rs.
        let goal: Goal = unsafe { json(env, "estimate", goal) }?;
        let default = EstimateOptions::default();
        let options = EstimateOptions {
            aggregates: goal.aggregates,
            query: goal.query,
            error: goal.error,
            absolute: goal.absolute,
            confidence: goal.confidence.unwrap_or(default.confidence),
            ..default
        };
        let estimate = held::<Snapshot>("snapshot", snapshot)?.estimate(&options, &mut |_| {})?;
        // SAFETY: see lib.rs.
        unsafe { hand_json_out(env, &figures(&estimate)) }
    })
}

/// Binds a condition to the table's columns without reading rows; fails as the query would.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_kubist_Native_check(env: Env, _: Class, snapshot: jlong, condition: jbyteArray) {
    ended(env, (), || {
        // SAFETY: see lib.rs.
        let condition = unsafe { text(env, "where", condition) }?;
        held::<Snapshot>("snapshot", snapshot)?.plan(Query::new().filter(condition))?;
        Ok(())
    });
}
