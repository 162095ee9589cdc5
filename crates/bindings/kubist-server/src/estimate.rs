//! Sends estimates with intervals, as JSON or Arrow.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{Array, RecordBatch};
use arrow_cast::display::array_value_to_string;
use arrow_ipc::writer::StreamWriter;
use kubist::{Cancel, Estimate, EstimateOptions, RunOptions, Snapshot};
use serde_json::{Map, Value, json};

use crate::ask::{EstimateFormat, Estimates, Region};
use crate::problem::{Problem, Result};
use crate::respond::Out;

/// Sends the final estimate, or with `progressive` all estimates as they improve, in a line of JSON or an Arrow stream
/// each.
pub fn send(snapshot: &Snapshot, region: &Region, asked: &Estimates, out: &mut Out) -> Result<()> {
    let options = options(region, asked, &out.cancel)?;
    out.header(
        "content-type",
        match (asked.format, asked.progressive) {
            (EstimateFormat::Json, false) => "application/json",
            (EstimateFormat::Json, true) => "application/x-ndjson",
            (EstimateFormat::Arrow, _) => "application/vnd.apache.arrow.stream",
        },
    );
    if !asked.progressive {
        return write(&snapshot.estimate(&options, &mut |_| {})?, asked.format, out);
    }
    for estimate in snapshot.estimates(&options)? {
        write(&estimate?, asked.format, out)?;
        out.flush().map_err(Problem::of_sending)?;
    }
    Ok(())
}

fn write(estimate: &Estimate, format: EstimateFormat, out: &mut Out) -> Result<()> {
    match format {
        EstimateFormat::Json => {
            let mut answer = about(estimate);
            answer["figures"] = figures(estimate);
            out.write_all(format!("{answer}\n").as_bytes()).map_err(Problem::of_sending)?;
        }
        EstimateFormat::Arrow => {
            let batch = estimate.to_batch()?;
            let mut about = about(estimate);
            about["own"] = own_texts(estimate);
            let metadata = HashMap::from([("kubist".to_string(), about.to_string())]);
            let schema = Arc::new(batch.schema().as_ref().clone().with_metadata(metadata));
            let batch = RecordBatch::try_new(schema.clone(), batch.columns().to_vec()).map_err(Problem::of_arrow)?;
            let mut writer = StreamWriter::try_new(&mut *out, &schema).map_err(Problem::of_arrow)?;
            writer.write(&batch).map_err(Problem::of_arrow)?;
            writer.finish().map_err(Problem::of_arrow)?;
        }
    }
    Ok(())
}

fn options(region: &Region, asked: &Estimates, cancel: &Cancel) -> Result<EstimateOptions> {
    let within = asked.within.map(Duration::try_from_secs_f64).transpose();
    Ok(EstimateOptions {
        aggregates: asked.aggregates.clone(),
        group_by: asked.group_by.clone(),
        query: region.spec.clone(),
        run: RunOptions::with_cancel(cancel),
        error: asked.error,
        absolute: asked.absolute.clone(),
        within: within.map_err(|_| Problem::invalid("within: seconds, at least 0"))?,
        max_rows: asked.max_rows,
        max_bytes: asked.max_bytes,
        confidence: asked.confidence,
        tails: asked.tails,
    })
}

fn about(estimate: &Estimate) -> Value {
    json!({
        "fraction": estimate.fraction,
        "confidence": estimate.confidence,
        "units": estimate.units,
        "bin_units": estimate.bin_units,
        "stopped": estimate.stopped,
        "missed_group": estimate.missed_group,
        "warnings": estimate.warnings,
        "outlook": estimate.outlook.as_ref().map(|outlook| outlook.to_string()),
        "stats": estimate.stats,
    })
}

/// Exact values of types that a float cannot represent, as text with all digits; null for others.
fn own_texts(estimate: &Estimate) -> Value {
    let own = estimate.figures.iter().map(|figure| {
        let own = figure.own.as_ref()?;
        Some(json!([own.kind(), own.texts()]))
    });
    json!(own.collect::<Vec<Option<Value>>>())
}

/// JSON has no infinity, so an open bound is null.
fn figures(estimate: &Estimate) -> Value {
    let finite = |value: f64| if value.is_finite() { json!(value) } else { Value::Null };
    let figures = estimate.figures.iter().map(|figure| {
        let [value, low, high] = match &figure.own {
            Some(own) => own.json_values().map(|value| json!(value)),
            None => [figure.value.map_or(Value::Null, finite), finite(figure.low), finite(figure.high)],
        };
        json!({
            "aggregate": figure.aggregate,
            "group": group(&estimate.groups, figure.group),
            "bin": figure.bin,
            "value": value,
            "low": low,
            "high": high,
            "fraction": figure.fraction,
            "rows": figure.rows,
            "exact": figure.exact,
        })
    });
    figures.collect()
}

fn group(groups: &RecordBatch, row: usize) -> Value {
    let schema = groups.schema();
    let values = schema.fields().iter().zip(groups.columns()).filter(|_| row < groups.num_rows());
    let group = values.map(|(field, column)| {
        let text = column.is_valid(row).then(|| array_value_to_string(column, row).unwrap_or_default());
        (field.name().clone(), json!(text))
    });
    Value::Object(group.collect::<Map<_, _>>())
}
