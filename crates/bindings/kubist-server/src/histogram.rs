//! Histograms of columns, from a sample of a region.

use std::collections::HashMap;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::DataType;
use kubist::{Cancel, Query, RunOptions, Snapshot};
use kubist_types::steps::share;
use serde_json::{Value, json};

use crate::ask::{Histograms, Region};
use crate::points::numbers;
use crate::problem::{Problem, Result};
use crate::served_table::kind_of;

const MOST_BINS: usize = 4096;
const MOST_SAMPLE: u64 = 1_000_000;
const MOST_COLUMNS: usize = 256;
/// Counts the most frequent strings separately, the rest together.
const MOST_TEXTS: usize = 32;
const INCLUSION: &str = "_kubist_inclusion";

pub fn of_sample(snapshot: &Snapshot, region: &Region, asked: &Histograms, cancel: &Cancel) -> Result<Value> {
    if !(1..=MOST_BINS).contains(&asked.bins) {
        return Err(Problem::invalid(format!("bins: expected 1 to {MOST_BINS}, not {}", asked.bins)));
    }
    if !(1..=MOST_SAMPLE).contains(&asked.limit) {
        return Err(Problem::invalid(format!("limit: expected 1 to {MOST_SAMPLE} rows, not {}", asked.limit)));
    }
    let about = snapshot.about()?;
    // A copy has its dimensions, too.
    let chosen = about.partial.as_ref().and_then(|partial| partial.columns.as_ref());
    let is_here = |name: &String| {
        chosen.is_none_or(|chosen| chosen.contains(name)) || about.dimensions.iter().any(|of| of.column == *name)
    };
    let names = match &asked.columns {
        Some(names) => names.clone(),
        None => {
            let schema = snapshot.schema();
            let drawn = schema.fields().iter().filter(|field| kind_of(field.data_type()) != "other");
            drawn.map(|field| field.name().clone()).filter(is_here).take(MOST_COLUMNS).collect()
        }
    };
    if names.is_empty() || names.len() > MOST_COLUMNS {
        return Err(Problem::invalid(format!("columns: expected 1 to {MOST_COLUMNS}, not {}", names.len())));
    }
    let weighted = about.sampling != "uniform";
    let inclusion = weighted.then(|| INCLUSION.to_string());
    let mut query = Query { columns: Some(names.clone()), inclusion, ..region.spec.clone() };
    if about.partial.is_some() {
        let held = snapshot.held(RunOptions::with_cancel(cancel).of(query.clone()))?;
        let most = query.sample.unwrap_or(1.0);
        // If the copy holds no row of this query, the query fails and names the missing bytes.
        query.sample = if held > 0.0 { Some(most.min(held)) } else { query.sample };
    }
    query.limit = Some(asked.limit);
    let mut stream = snapshot.query(RunOptions::with_cancel(cancel).of(query))?;
    let batches = (&mut stream).collect::<kubist::Result<Vec<_>>>()?;
    let rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
    let weights = match weighted {
        true => weights(&batches, stream.fraction()),
        false => vec![1.0; rows],
    };
    let mut columns = Vec::new();
    for (index, name) in names.iter().enumerate() {
        cancel.check()?;
        let parts: Vec<&ArrayRef> = batches.iter().map(|batch| batch.column(index)).collect();
        let kind = kind_of(stream.schema().field(index).data_type());
        let mut described = match kind {
            "text" => of_texts(&parts, &weights, cancel)?,
            "other" => json!({}),
            _ => of_numbers(&parts, &weights, asked.bins, cancel)?,
        };
        described["name"] = name.as_str().into();
        described["kind"] = kind.into();
        columns.push(described);
    }
    Ok(json!({ "rows": rows, "fraction": stream.fraction(), "columns": columns }))
}

/// The number of rows that a row represents, times the sample fraction.
fn weights(batches: &[RecordBatch], fraction: f64) -> Vec<f64> {
    let of_batch = |batch: &RecordBatch| {
        let chances = batch.column(batch.num_columns() - 1).as_primitive::<Float64Type>().clone();
        chances.iter().map(|chance| chance.map_or(1.0, |chance| fraction / chance)).collect::<Vec<_>>()
    };
    batches.iter().flat_map(of_batch).collect()
}

fn of_numbers(parts: &[&ArrayRef], weights: &[f64], bins: usize, cancel: &Cancel) -> Result<Value> {
    let mut values = Vec::new();
    for part in parts {
        cancel.check()?;
        values.extend(numbers(part)?);
    }
    let all: f64 = weights.iter().sum();
    let mut weighed: Vec<(f64, f64)> = values.into_iter().zip(weights.iter().copied()).collect();
    weighed.retain(|(value, _)| value.is_finite());
    weighed.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let known: f64 = weighed.iter().map(|(_, weight)| weight).sum();
    let missing = (all - known).round() as u64;
    let (Some((low, _)), Some((high, _))) = (weighed.first().copied(), weighed.last().copied()) else {
        return Ok(json!({ "missing": missing }));
    };
    let mut counts = vec![0f64; bins];
    let mut below = Vec::with_capacity(weighed.len());
    let mut sum = 0.0;
    for (value, weight) in &weighed {
        let bin = if low < high { (share(low, high, *value) * bins as f64) as usize } else { 0 };
        counts[bin.min(bins - 1)] += weight;
        sum += weight;
        below.push(sum);
    }
    let counts: Vec<u64> = counts.into_iter().map(|count| count.round() as u64).collect();
    let values: Vec<f64> = weighed.iter().map(|(value, _)| *value).collect();
    let quantile = |share: f64| {
        let rank = ((known - 1.0).max(0.0) * share).round() + 1.0;
        values[below.partition_point(|below| *below < rank).min(values.len() - 1)]
    };
    let quantiles: Vec<f64> = [0.005, 0.02, 0.25, 0.5, 0.75, 0.98, 0.995].into_iter().map(quantile).collect();
    let mut distinct = values.clone();
    distinct.dedup();
    // A column with few distinct values, such as output times, has steps.
    let distinct = (distinct.len() <= 1024).then_some(distinct);
    Ok(json!({
        "missing": missing, "low": low, "high": high, "counts": counts,
        "quantiles": quantiles, "least_positive": values.iter().find(|value| **value > 0.0),
        "distinct": distinct,
    }))
}

fn of_texts(parts: &[&ArrayRef], weights: &[f64], cancel: &Cancel) -> Result<Value> {
    let mut counts: HashMap<String, f64> = HashMap::new();
    let (mut missing, mut weights) = (0f64, weights.iter());
    for part in parts {
        cancel.check()?;
        let text = arrow_cast::cast(part, &DataType::Utf8).map_err(Problem::of_arrow)?;
        for (value, weight) in text.as_string::<i32>().iter().zip(&mut weights) {
            match value {
                Some(value) => *counts.entry(value.to_owned()).or_default() += weight,
                None => missing += weight,
            }
        }
    }
    let missing = missing.round() as u64;
    let whole = |(text, count): (String, f64)| (text, count.round() as u64);
    let mut counts: Vec<(String, u64)> = counts.into_iter().map(whole).collect();
    counts.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let known = counts.len();
    counts.truncate(MOST_TEXTS);
    Ok(json!({ "missing": missing, "known": known, "values": counts }))
}
