//! `kubist estimate`: aggregates of a sample, with error bars.

use arrow_array::{Array, RecordBatch};
use arrow_cast::display::array_value_to_string;
use kubist::{Cancel, Estimate, EstimateOptions, Figure, RunOptions, Snapshot, Stop, Table};
use serde_json::{Value, json};

use crate::failure::{Failure, Kind, Result};
use crate::output::{print, print_json, remark};
use crate::progress::Progress;
use crate::table::aligned;
use crate::{args, human, parse};

pub fn run(command: &args::Estimate, cancel: &Cancel) -> Result<()> {
    let snapshot = Table::open(&command.table)?.snapshot()?;
    let options = options(command, &snapshot, cancel)?;
    if command.watch {
        return watch(command, &snapshot, &options);
    }
    let mut progress = Progress::new();
    let estimate = snapshot.estimate_telling(&options, &mut |estimate| progress.say(&line(estimate)))?;
    drop(progress);
    tell(command, &estimate)
}

fn options(command: &args::Estimate, snapshot: &Snapshot, cancel: &Cancel) -> Result<EstimateOptions> {
    let query = kubist::QuerySpec {
        bounds: parse::bounds(&command.region.ranges, &snapshot.schema())?,
        filter: command.region.filter.clone(),
        precision: command.region.precision,
        ..Default::default()
    };
    Ok(EstimateOptions {
        aggregates: command.aggregates.clone(),
        group_by: command.group_by.clone(),
        query,
        run: RunOptions::with_cancel(cancel),
        error: command.error,
        absolute: command.absolute,
        within: command.within,
        rows: command.rows,
        bytes: command.bytes.map(|bytes| bytes as u64),
        confidence: command.confidence,
        tails: command.tails,
    })
}

/// Each estimate as it comes. After an interrupt the last one stays.
fn watch(command: &args::Estimate, snapshot: &Snapshot, options: &EstimateOptions) -> Result<()> {
    let mut progress = Progress::new();
    let mut last = None;
    for estimate in snapshot.estimates(options)? {
        match estimate.map_err(Failure::from) {
            Ok(estimate) => {
                progress.say(&line(&estimate));
                if command.json {
                    // One line each.
                    print(&format!("{}\n", as_json(&estimate)?))?;
                }
                last = Some(estimate);
            }
            Err(failure) => {
                drop(progress);
                if let (Some(estimate), Kind::Interrupted, false) = (&last, failure.kind, command.json) {
                    tell(command, estimate)?;
                }
                return Err(failure);
            }
        }
    }
    drop(progress);
    match last {
        Some(estimate) if !command.json => tell(command, &estimate),
        _ => Ok(()),
    }
}

/// The first figures, and how far it is, on one line.
fn line(estimate: &Estimate) -> String {
    let figures = estimate.figures.iter().take(2).map(|figure| format!("{} {}", figure.aggregate, in_words(figure)));
    let figures: Vec<String> = figures.collect();
    format!("{} (precision {})", figures.join(", "), human::fraction(estimate.precision))
}

fn tell(command: &args::Estimate, estimate: &Estimate) -> Result<()> {
    if command.json {
        return print_json(&as_json(estimate)?);
    }
    let groups = estimate.groups.schema();
    let bins = estimate.figures.iter().any(|figure| !figure.bin.is_empty());
    let mut header = vec!["aggregate"];
    header.extend(groups.fields().iter().map(|field| field.name().as_str()));
    header.extend(bins.then_some("bin"));
    header.push("value");
    let rows: Vec<Vec<String>> = estimate
        .figures
        .iter()
        .map(|figure| {
            let mut cells = vec![figure.aggregate.clone()];
            cells.extend(label(&estimate.groups, figure.group).into_iter().map(|value| value.unwrap_or("·".into())));
            if bins {
                let ends =
                    figure.bin.iter().map(|(low, high)| format!("{}:{}", human::number(*low), human::number(*high)));
                cells.push(ends.collect::<Vec<_>>().join(" × "));
            }
            cells.push(in_words(figure));
            cells
        })
        .collect();
    print(&aligned(&header, &[], &rows))?;
    for warning in &estimate.warnings {
        remark(&format!("note: {warning}"));
    }
    if let Some(missed) = estimate.missed_group.filter(|missed| *missed > 0) {
        remark(&format!("groups of up to {} may be missing", human::counted(missed, "record")));
    }
    remark(&cost(estimate));
    Ok(())
}

fn cost(estimate: &Estimate) -> String {
    let why = match estimate.stopped {
        Stop::Exact => "all that it takes was read",
        Stop::Goal => "as good as asked for",
        Stop::Precision => "as far as asked for",
        Stop::Time => "the time is over",
        Stop::Rows | Stop::Bytes => "more may not be read",
        Stop::Memory => "more values would not fit into memory",
        Stop::Progress => "stopped on the way",
    };
    let stats = &estimate.stats;
    format!(
        "{} of confidence; {} read, {}, precision {}; {}; {}",
        percent(estimate.confidence),
        human::counted(stats.rows_read, "record"),
        human::bytes(stats.bytes_read),
        human::fraction(estimate.precision),
        human::duration(stats.seconds),
        why
    )
}

fn percent(share: f64) -> String {
    format!("{} %", human::number(share * 100.0))
}

/// A group's values as text, nulls as `None`.
fn label(groups: &RecordBatch, row: usize) -> Vec<Option<String>> {
    let text = |column: &arrow_array::ArrayRef| {
        column.is_valid(row).then(|| array_value_to_string(column, row).unwrap_or_default())
    };
    if row >= groups.num_rows() { vec![] } else { groups.columns().iter().map(text).collect() }
}

/// `12.73 ± 0.12`, or both ends where they differ.
fn in_words(figure: &Figure) -> String {
    let number = human::number;
    let Some(value) = figure.value else {
        return format!("unknown, {} to {}", number(figure.low), number(figure.high));
    };
    if figure.exact {
        return format!("{} exactly", number(value));
    }
    let (below, above) = (value - figure.low, figure.high - value);
    let half = below.max(above);
    if !half.is_finite() || (below - above).abs() > 0.1 * half {
        return format!("{}, {} to {}", number(value), number(figure.low), number(figure.high));
    }
    // Two digits of the error, and no more of the value.
    let decimals = if half > 0.0 { 1 - half.log10().floor() as i32 } else { 6 };
    match usize::try_from(decimals) {
        Ok(decimals) if decimals <= 12 => format!("{value:.decimals$} ± {half:.decimals$}"),
        _ => format!("{} ± {}", number(value), number(half)),
    }
}

/// For scripts. JSON has no infinity: an end that nothing bounds is null.
fn as_json(estimate: &Estimate) -> Result<Value> {
    let end = |end: f64| if end.is_finite() { json!(end) } else { Value::Null };
    let names = estimate.groups.schema();
    let figures = estimate.figures.iter().map(|figure| {
        let names = names.fields().iter().map(|field| field.name().clone());
        let group: serde_json::Map<String, Value> =
            names.zip(label(&estimate.groups, figure.group)).map(|(name, value)| (name, json!(value))).collect();
        let bin: Vec<Value> = figure.bin.iter().map(|(low, high)| json!([low, high])).collect();
        json!({
            "aggregate": figure.aggregate,
            "group": group,
            "bin": bin,
            "value": figure.value.and_then(|value| value.is_finite().then_some(value)),
            "low": end(figure.low),
            "high": end(figure.high),
            "precision": figure.precision,
            "rows": figure.rows,
            "exact": figure.exact,
        })
    });
    Ok(json!({
        "figures": figures.collect::<Vec<_>>(),
        "confidence": estimate.confidence,
        "precision": estimate.precision,
        "stopped": estimate.stopped,
        "missed_group": estimate.missed_group,
        "warnings": estimate.warnings,
        "stats": estimate.stats,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        let figure = |value: Option<f64>, low: f64, high: f64, exact: bool| {
            in_words(&Figure {
                aggregate: "mean(x)".into(),
                group: 0,
                bin: vec![],
                value,
                low,
                high,
                precision: 0.1,
                rows: 10,
                exact,
            })
        };
        assert_eq!(figure(Some(12.34567), 12.3, 12.39134, false), "12.346 ± 0.046");
        assert_eq!(figure(Some(1234567.0), 1230000.0, 1239134.0, false), "1234567 ± 4567");
        assert_eq!(figure(Some(3.0), 3.0, 3.0, true), "3 exactly");
        assert_eq!(figure(Some(0.0), 0.0, 36.0, false), "0, 0 to 36");
        assert_eq!(figure(None, f64::NEG_INFINITY, 2.5, false), "unknown, -inf to 2.5");
    }
}
