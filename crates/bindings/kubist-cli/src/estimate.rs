//! `kubist estimate`: estimates aggregates from a sample, with confidence intervals.
//!
//! The input is a table, or files of arrays with their index files. The result goes to standard output, as a table
//! or as JSON. Progress, notes and the cost go to standard error.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use arrow_cast::display::array_value_to_string;
use arrow_schema::Schema;
use kubist::{Cancel, Estimate, EstimateOptions, Figure, RunOptions, Stop};
use kubist_blocks::{FileQuery, Positions};
use kubist_estimate::values_in_words;
use serde_json::{Value, json};

use crate::failure::{Failure, Kind, Result};
use crate::index;
use crate::output::{print, print_json, remark};
use crate::parse::Goal;
use crate::progress::Progress;
use crate::table::aligned;
use crate::{args, human, outside};

/// If no row was found, explains which range of the query is empty.
pub fn run(command: &args::Estimate, cancel: &Cancel) -> Result<()> {
    if kubist_blocks::is_array_file(Path::new(&*command.table)) {
        return of_files(command, cancel);
    }
    let snapshot = command.region.open(&command.table)?.snapshot()?;
    let options = options(command, &command.aggregates, &snapshot.schema(), cancel)?;
    match command.watch {
        true => watch(command, snapshot.estimates(&options)?),
        false => {
            let estimate = once(command, |tell| snapshot.estimate(&options, tell))?;
            let empty = |figure: &Figure| figure.rows == 0 && figure.value.is_none_or(|value| value == 0.0);
            if estimate.figures.iter().all(empty) && !command.json {
                outside::tell(&options.query.bounds, &snapshot, cancel)?;
            }
            Ok(())
        }
    }
}

/// Estimates from files of arrays. The command line has one file, then possibly more files, then the aggregates:
/// arguments are files up to the first one that is not a file name.
fn of_files(command: &args::Estimate, cancel: &Cancel) -> Result<()> {
    // A shell pattern such as `run*` may also match the index files (.kubix), which are not aggregates either.
    let is_file = |text: &&String| text.ends_with(".kubix") || kubist_blocks::is_array_file(Path::new(text));
    let more = command.aggregates.iter().take_while(is_file).count();
    let (more, aggregates) = command.aggregates.split_at(more);
    if aggregates.is_empty() {
        return Err(Failure::usage("no aggregate is given: name at least one, like 'mean(x)'"));
    }
    let paths: Vec<PathBuf> =
        std::iter::once(PathBuf::from(&*command.table)).chain(more.iter().map(PathBuf::from)).collect();
    let files = index::open(&paths, cancel)?;
    let mut options = options(command, aggregates, &files.names(), cancel)?;
    let query = FileQuery {
        filter: options.query.filter.take(),
        bounds: std::mem::take(&mut options.query.bounds),
        ..FileQuery::default()
    };
    let positions = Positions::new(&Arc::new(files), &query, cancel);
    match command.watch {
        true => watch(command, kubist_estimate::estimates_of(positions, &options)?),
        false => once(command, |tell| kubist_estimate::estimate_of(positions, &options, tell)).map(|_| ()),
    }
}

/// Shows the estimate on the progress line while it improves, and prints the last one. `ask` runs the estimate and
/// calls its argument after each improvement.
fn once(
    command: &args::Estimate,
    ask: impl FnOnce(&mut dyn FnMut(&Estimate)) -> kubist::Result<Estimate>,
) -> Result<Estimate> {
    let mut progress = Progress::new();
    let estimate = ask(&mut |estimate| {
        if let Some(outlook) = &estimate.outlook {
            remark(&format!("note: {outlook}"));
        }
        progress.say(&line(estimate));
    })?;
    drop(progress);
    print_estimate(command, &estimate)?;
    Ok(estimate)
}

fn options(
    command: &args::Estimate,
    aggregates: &[String],
    schema: &Schema,
    cancel: &Cancel,
) -> Result<EstimateOptions> {
    Ok(EstimateOptions {
        aggregates: aggregates.to_vec(),
        group_by: command.group_by.clone(),
        query: command.region.spec(schema)?,
        run: RunOptions::with_cancel(cancel),
        error: command.error.as_ref().and_then(Goal::share),
        absolute: command.error.as_ref().and_then(Goal::absolute),
        within: command.within,
        max_rows: command.max_rows,
        max_bytes: command.max_bytes.map(|bytes| bytes as u64),
        confidence: command.confidence,
        tails: command.tails,
    })
}

/// Shows each estimate of `--watch`: as JSON, one line per estimate; otherwise on the progress line, and the
/// last one as a table, also after an interrupt.
fn watch(command: &args::Estimate, estimates: impl Iterator<Item = kubist::Result<Estimate>>) -> Result<()> {
    let mut progress = Progress::new();
    let mut last = None;
    for estimate in estimates {
        match estimate.map_err(Failure::from) {
            Ok(estimate) => {
                progress.say(&line(&estimate));
                if command.json {
                    print(&format!("{}\n", as_json(&estimate)?))?;
                }
                last = Some(estimate);
            }
            Err(failure) => {
                drop(progress);
                if let (Some(estimate), Kind::Interrupted, false) = (&last, failure.kind, command.json) {
                    print_estimate(command, estimate)?;
                }
                return Err(failure);
            }
        }
    }
    drop(progress);
    match last {
        Some(estimate) if !command.json => print_estimate(command, &estimate),
        _ => Ok(()),
    }
}

fn line(estimate: &Estimate) -> String {
    let figures =
        estimate.figures.iter().take(2).map(|figure| format!("{} {}", figure.aggregate, estimate.in_words(figure)));
    let figures: Vec<String> = figures.collect();
    format!("{} (fraction {})", figures.join(", "), human::fraction(estimate.fraction))
}

fn print_estimate(command: &args::Estimate, estimate: &Estimate) -> Result<()> {
    if command.json {
        return print_json(&as_json(estimate)?);
    }
    let groups = estimate.groups.schema();
    let bins = estimate.figures.iter().any(|figure| !figure.bin.is_empty());
    let mut header = vec!["aggregate".to_string()];
    header.extend(groups.fields().iter().map(|field| kubist_plot::label(field)));
    header.extend(bins.then(|| "bin".to_string()));
    header.push("value".to_string());
    let labels = estimate.groups.columns().iter().map(|column| values_in_words(column, column.len()));
    let labels = labels.collect::<std::result::Result<Vec<_>, _>>().map_err(Failure::usage)?;
    let rows: Vec<Vec<String>> = estimate
        .figures
        .iter()
        .map(|figure| {
            let null = || "null".to_string();
            let label = |column: &Vec<Option<String>>| column.get(figure.group).cloned().flatten().unwrap_or_else(null);
            let mut cells = vec![figure.aggregate.clone()];
            cells.extend(labels.iter().map(label));
            cells.extend(bins.then(|| estimate.bin_in_words(figure).unwrap_or_else(null)));
            cells.push(estimate.in_words(figure));
            cells
        })
        .collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    print(&aligned(&header, &[], &rows))?;
    for warning in &estimate.warnings {
        remark(&format!("note: {warning}"));
    }
    if let Some(missed) = estimate.missed_group.filter(|missed| *missed > 0) {
        remark(&format!("note: groups of up to {} may be missing", human::counted(missed, "record")));
    }
    remark(&cost(estimate));
    Ok(())
}

fn cost(estimate: &Estimate) -> String {
    let why = match estimate.stopped {
        Stop::Exact => "everything needed was read",
        Stop::Goal => "the error goal is reached",
        Stop::Sample => "the sample is read",
        Stop::Time => "the time limit is reached",
        Stop::Rows | Stop::Bytes => "the read limit is reached",
        Stop::Memory => "more values would not fit into memory",
        Stop::Progress => "stopped early",
    };
    let stats = &estimate.stats;
    format!(
        "{} confidence; {}, {}, fraction {}; {}; {}",
        percent(estimate.confidence),
        human::counted(stats.rows_read, "record read"),
        human::bytes(stats.bytes_read),
        human::fraction(estimate.fraction),
        human::duration(stats.seconds),
        why
    )
}

fn percent(share: f64) -> String {
    format!("{} %", human::number(share * 100.0))
}

fn label(groups: &RecordBatch, row: usize) -> Vec<Option<String>> {
    let text = |column: &arrow_array::ArrayRef| {
        column.is_valid(row).then(|| array_value_to_string(column, row).unwrap_or_default())
    };
    if row >= groups.num_rows() { vec![] } else { groups.columns().iter().map(text).collect() }
}

/// JSON has no infinity, so an interval without a bound has null there. Integers, decimals, dates and times keep all
/// digits if their exact value is known.
fn as_json(estimate: &Estimate) -> Result<Value> {
    let end = |end: f64| if end.is_finite() { json!(end) } else { Value::Null };
    let names = estimate.groups.schema();
    let figures = estimate.figures.iter().map(|figure| {
        let names = names.fields().iter().map(|field| field.name().clone());
        let group: serde_json::Map<String, Value> =
            names.zip(label(&estimate.groups, figure.group)).map(|(name, value)| (name, json!(value))).collect();
        let [value, low, high] = match &figure.own {
            Some(own) => own.json_values().map(|value| json!(value)),
            None => [figure.value.map_or(Value::Null, end), end(figure.low), end(figure.high)],
        };
        let bin: Vec<Value> = figure.bin.iter().map(|(low, high)| json!([low, high])).collect();
        json!({
            "aggregate": figure.aggregate,
            "group": group,
            "bin": bin,
            "value": value,
            "low": low,
            "high": high,
            "fraction": figure.fraction,
            "rows": figure.rows,
            "exact": figure.exact,
            "unit": estimate.units.get(&figure.aggregate),
        })
    });
    Ok(json!({
        "figures": figures.collect::<Vec<_>>(),
        "confidence": estimate.confidence,
        "fraction": estimate.fraction,
        "stopped": estimate.stopped,
        "missed_group": estimate.missed_group,
        "warnings": estimate.warnings,
        "stats": estimate.stats,
    }))
}
