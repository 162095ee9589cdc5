//! Histograms of columns, from a sample of a region.

use std::collections::HashMap;

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
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
/// The most frequent texts are counted separately, the rest together.
const MOST_TEXTS: usize = 32;

pub fn of_sample(snapshot: &Snapshot, region: &Region, asked: &Histograms, cancel: &Cancel) -> Result<Value> {
    if !(1..=MOST_BINS).contains(&asked.bins) {
        return Err(Problem::invalid(format!("bins: expected 1 to {MOST_BINS}, not {}", asked.bins)));
    }
    if !(1..=MOST_SAMPLE).contains(&asked.limit) {
        return Err(Problem::invalid(format!("limit: expected 1 to {MOST_SAMPLE} rows, not {}", asked.limit)));
    }
    let names = match &asked.columns {
        Some(names) => names.clone(),
        None => {
            let schema = snapshot.schema();
            let drawn = schema.fields().iter().filter(|field| kind_of(field.data_type()) != "other");
            drawn.map(|field| field.name().clone()).take(MOST_COLUMNS).collect()
        }
    };
    if names.is_empty() || names.len() > MOST_COLUMNS {
        return Err(Problem::invalid(format!("columns: expected 1 to {MOST_COLUMNS}, not {}", names.len())));
    }
    let query = Query { limit: Some(asked.limit), columns: Some(names.clone()), ..region.spec.clone() };
    let mut stream = snapshot.query(RunOptions::with_cancel(cancel).of(query))?;
    let batches = (&mut stream).collect::<kubist::Result<Vec<_>>>()?;
    let rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
    let mut columns = Vec::new();
    for (index, name) in names.iter().enumerate() {
        cancel.check()?;
        let parts: Vec<&ArrayRef> = batches.iter().map(|batch| batch.column(index)).collect();
        let kind = kind_of(stream.schema().field(index).data_type());
        let mut described = match kind {
            "text" => of_texts(&parts, cancel)?,
            "other" => json!({}),
            _ => of_numbers(&parts, asked.bins, cancel)?,
        };
        described["name"] = name.as_str().into();
        described["kind"] = kind.into();
        columns.push(described);
    }
    Ok(json!({ "rows": rows, "fraction": stream.fraction(), "columns": columns }))
}

fn of_numbers(parts: &[&ArrayRef], bins: usize, cancel: &Cancel) -> Result<Value> {
    let mut values = Vec::new();
    for part in parts {
        cancel.check()?;
        values.extend(numbers(part)?);
    }
    let all = values.len();
    values.retain(|value| value.is_finite());
    values.sort_unstable_by(f64::total_cmp);
    let (Some(low), Some(high)) = (values.first().copied(), values.last().copied()) else {
        return Ok(json!({ "missing": all }));
    };
    let mut counts = vec![0u64; bins];
    for value in &values {
        let bin = if low < high { (share(low, high, *value) * bins as f64) as usize } else { 0 };
        counts[bin.min(bins - 1)] += 1;
    }
    let quantile = |share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
    let quantiles: Vec<f64> = [0.005, 0.02, 0.25, 0.5, 0.75, 0.98, 0.995].into_iter().map(quantile).collect();
    let mut distinct = values.clone();
    distinct.dedup();
    // A column with few distinct values, such as output times, has steps.
    let distinct = (distinct.len() <= 1024).then_some(distinct);
    Ok(json!({
        "missing": all - values.len(), "low": low, "high": high, "counts": counts,
        "quantiles": quantiles, "least_positive": values.iter().find(|value| **value > 0.0),
        "distinct": distinct,
    }))
}

fn of_texts(parts: &[&ArrayRef], cancel: &Cancel) -> Result<Value> {
    let mut counts: HashMap<String, u64> = HashMap::new();
    let mut missing = 0u64;
    for part in parts {
        cancel.check()?;
        let text = arrow_cast::cast(part, &DataType::Utf8).map_err(Problem::of_arrow)?;
        for value in text.as_string::<i32>() {
            match value {
                Some(value) => *counts.entry(value.to_owned()).or_default() += 1,
                None => missing += 1,
            }
        }
    }
    let mut counts: Vec<(String, u64)> = counts.into_iter().collect();
    counts.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let known = counts.len();
    counts.truncate(MOST_TEXTS);
    Ok(json!({ "missing": missing, "known": known, "values": counts }))
}
