//! `kubist index`, and `kubist query`, `info` and `explain` on array files.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use kubist::Cancel;
use kubist_blocks::{BuildOptions, Built, FileQuery, Files, Library, Report, RunOptions};
use kubist_types::human;
use serde_json::json;

use crate::answer::{PREVIEW_RECORDS, encoding, format};
use crate::args;
use crate::failure::{Failure, Result};
use crate::location::Location;
use crate::output::{Records, print, print_json, remark};
use crate::parse;
use crate::progress::Progress;
use crate::python;
use crate::table::{Preview, aligned};

pub fn run(command: &args::Index, cancel: &Cancel) -> Result<()> {
    let library = Arc::new(Library::new(&python::interpreter()));
    if let Some(selectivity) = command.advise {
        return advise(command, selectivity, &library, cancel);
    }
    let options = BuildOptions {
        variables: command.variables.clone(),
        block: command.block.clone(),
        sorted: command.sorted,
        ..BuildOptions::default()
    };
    let mut outcome = Vec::new();
    for (place, file) in command.files.iter().enumerate() {
        // A shell pattern may also match index files.
        if file.extension().is_some_and(|ending| ending == "kubix") {
            continue;
        }
        let shown = Mutex::new(Progress::new());
        let tell = |done: u64, total: u64| {
            let line = |_: f64| {
                let (done, total) = (human::bytes(done), human::bytes(total));
                format!("{}: {done} of {total}, file {} of {}", file.display(), place + 1, command.files.len())
            };
            shown.lock().unwrap_or_else(PoisonError::into_inner).show(done, total, line);
        };
        let into = command.into.as_deref();
        let built = kubist_blocks::index(file, into, &options, command.refresh, Some(&library), &tell, cancel);
        drop(shown);
        let built = built.map_err(|error| {
            let failure = Failure::from(error);
            match outcome.len() {
                0 => failure,
                done => failure.noting(format!("the {done} files before it are indexed")),
            }
        })?;
        if !command.json {
            say(&built)?;
        }
        outcome.push(built);
    }
    if command.json { print_json(&outcome) } else { Ok(()) }
}

fn say(built: &Built) -> Result<()> {
    let share = 100.0 * built.index_bytes as f64 / (built.bytes as f64).max(1.0);
    let what = match built.is_new {
        true => format!("{}, {share:.2} % of {}", human::bytes(built.index_bytes), human::bytes(built.bytes)),
        false => "is already up to date".to_owned(),
    };
    print(&format!("{}: {what}\n", built.index.display()))?;
    for damaged in &built.damaged {
        remark(&format!("not indexed, so every query reads it: {damaged}"));
    }
    for slow in &built.by_library {
        remark(&format!("{}: read through its Python library, which is slower: {slow}", built.file.display()));
    }
    for left in &built.left_out {
        remark(&format!("{}: left out: {left}", built.file.display()));
    }
    Ok(())
}

fn advise(command: &args::Index, selectivity: f64, library: &Arc<Library>, cancel: &Cancel) -> Result<()> {
    let files = Files::open(&command.files, command.into.as_deref(), Some(library), cancel)?;
    let about = files.about();
    let wanted = |name: &String| command.variables.as_ref().is_none_or(|names| names.contains(name));
    let mut outcome = Vec::new();
    for variable in about.variables.iter().filter(|variable| wanted(&variable.name)) {
        let elements = variable.shape.iter().product::<u64>().saturating_mul(about.files as u64);
        let advice = kubist_blocks::advise(elements, variable.width, selectivity, &about.device);
        if command.json {
            outcome.push(json!({ "variable": variable.name, "advice": advice }));
            continue;
        }
        let rows: Vec<Vec<String>> = advice
            .iter()
            .map(|advice| {
                vec![
                    human::bytes(advice.block_bytes),
                    format!("{:.0}", advice.expected.blocks),
                    human::bytes(advice.expected.bytes as u64),
                    format!("{:.0}", advice.expected.requests),
                    format!("{:.6}", advice.seconds),
                ]
            })
            .collect();
        let header = ["block", "blocks", "bytes", "requests", "seconds"];
        print(&format!("{}, fastest first:\n{}", variable.name, aligned(&header, &[true; 5], &rows)))?;
    }
    if command.json { print_json(&outcome) } else { Ok(()) }
}

pub fn open(paths: &[PathBuf], cancel: &Cancel) -> Result<Files> {
    let library = Arc::new(Library::new(&python::interpreter()));
    let is_index = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "kubix");
    let paths: Vec<PathBuf> = paths.iter().filter(|path| !is_index(path)).cloned().collect();
    Ok(Files::open_any(&paths, None, Some(&library), cancel)?)
}

/// Refuses options that only tables have.
fn file_query(table: &Location, asked: &args::QueryArgs, files: &Files) -> Result<FileQuery> {
    let args::QueryArgs { region, selection, per_cell, inclusion } = asked;
    let of_tables = [
        ("--window", region.window.is_some()),
        ("--steps", region.steps.is_some()),
        ("--per-cell", per_cell.is_some()),
        ("--order-by", selection.order_by.is_some()),
        ("--inclusion", inclusion.is_some()),
    ];
    if let Some((option, _)) = of_tables.iter().find(|(_, given)| *given) {
        return Err(Failure::usage(format!(
            "{option} works on tables only, and {table} is a file of arrays; use --where, --box, --region, --sample, --limit \
             and --columns"
        )));
    }
    Ok(FileQuery {
        filter: region.filter.clone(),
        region: region.region.clone(),
        bounds: parse::bounds(&region.ranges, &files.names())?,
        columns: selection.columns.clone().map(|columns| columns.0),
        sample: region.sample,
        limit: selection.limit,
        ..FileQuery::default()
    })
}

pub fn info(command: &args::Info, cancel: &Cancel) -> Result<()> {
    if command.columns {
        return Err(Failure::usage(format!(
            "--columns works on tables only, and {} is a file of arrays",
            command.table
        )));
    }
    let about = open(&[PathBuf::from(&*command.table)], cancel)?.about();
    if command.json {
        return print_json(&about);
    }
    let joined = |numbers: &[u64]| numbers.iter().map(u64::to_string).collect::<Vec<_>>().join("x");
    let rows: Vec<Vec<String>> = about
        .variables
        .iter()
        .map(|variable| {
            vec![
                kubist_types::shown::printable(&variable.name).into(),
                variable.data_type.clone(),
                kubist_types::shown::printable(variable.unit.as_deref().unwrap_or("")).into(),
                kubist_types::shown::printable(&variable.dimensions.join(", ")).into(),
                joined(&variable.shape),
                variable.block.as_deref().map_or("not indexed".to_string(), joined),
            ]
        })
        .collect();
    let header = ["variable", "type", "unit", "axes", "shape", "block"];
    print(&aligned(&header, &[], &rows))?;
    if about.index_bytes > 0 {
        print(&format!("index {} of {}\n", human::bytes(about.index_bytes), human::bytes(about.bytes)))?;
    }
    for left in about.left_out.iter().chain(&about.damaged) {
        remark(&format!("left out: {left}"));
    }
    Ok(())
}

/// Compares the cost with the prediction of the I/O model.
pub fn explain(command: &args::Explain, cancel: &Cancel) -> Result<()> {
    if command.fit.is_some() || command.plot.is_some() {
        return Err(Failure::usage(format!(
            "--fit and --plot work on tables only, and {} is a file of arrays",
            command.table
        )));
    }
    let files = open(&[PathBuf::from(&*command.table)], cancel)?;
    let query = file_query(&command.table, &command.query, &files)?;
    let report = files.query(&query, &RunOptions::default(), cancel, &mut |_| Ok(()))?;
    if command.json {
        return print_json(&report);
    }
    print(&format!("{}\n", cost(&command.table, &report)))?;
    match &report.expected {
        Some(expected) => print(&format!(
            "expected for independent values: {:.0} blocks, {}, {:.0} requests\n",
            expected.blocks,
            human::bytes(expected.bytes as u64),
            expected.requests
        )),
        None => Ok(()),
    }
}

pub fn query(command: &args::Query, cancel: &Cancel) -> Result<()> {
    let paths: Vec<PathBuf> =
        std::iter::once(PathBuf::from(&*command.table)).chain(command.more.iter().cloned()).collect();
    let files = open(&paths, cancel)?;
    let query = file_query(&command.table, &command.query, &files)?;
    if command.count {
        let report = files.count(&query, &RunOptions::default(), cancel)?;
        match command.output.json {
            true => print_json(&json!({ "count": report.rows }))?,
            false => print(&format!("{}\n", report.rows))?,
        }
        return report_cost(command, &report);
    }
    let report = send(command, &files, &query, cancel)?;
    report_cost(command, &report)
}

fn send(command: &args::Query, files: &Files, query: &FileQuery, cancel: &Cancel) -> Result<Report> {
    let asked = &command.output;
    let path = asked.path();
    let format = format(asked, path)?;
    let schema = files.schema(query)?;
    let mut failure = None;
    // Stops reading after a failure of the output, and reports it unchanged.
    let mut kept = |outcome: Result<()>| {
        outcome.map_err(|error| {
            failure = Some(error);
            kubist::Error::Cancelled
        })
    };
    let run = RunOptions::default();
    let outcome = match encoding(format) {
        None => {
            let mut preview = Preview::new(&schema, query.limit.map_or(PREVIEW_RECORDS, |limit| limit as usize));
            let mut take = |batch: RecordBatch| kept(preview.add(&batch).map(drop).map_err(Failure::usage));
            let report = files.query(query, &run, cancel, &mut take);
            if report.is_ok() {
                print(&preview.page())?;
            }
            report
        }
        Some(encoding) => {
            let mut records = Records::create(path, encoding, &schema)?;
            let report = files.query(query, &run, cancel, &mut |batch| kept(records.write(&batch)));
            if report.is_ok() {
                records.finish()?;
            }
            report
        }
    };
    match failure {
        Some(failure) => Err(failure),
        None => Ok(outcome?),
    }
}

fn report_cost(command: &args::Query, report: &Report) -> Result<()> {
    if command.output.json {
        let text = crate::output::json(report)?;
        crate::output::remark_raw(&text);
        return Ok(());
    }
    remark(&cost(&command.table, report));
    Ok(())
}

fn cost(table: &Location, report: &Report) -> String {
    let read = report.bytes + report.sorted_bytes;
    let mut line = format!(
        "{}; {} of {} blocks: {} of {} in {} requests",
        human::counted(report.rows, "record"),
        report.blocks_read + report.blocks_sorted,
        report.blocks,
        human::bytes(read),
        human::bytes(report.stored_bytes),
        report.requests + report.sorted_requests,
    );
    if report.files_scanned > 0 {
        line += "; scanned without an index";
        if let Some(spared) = report.blocks_spared {
            let share = 100.0 * spared as f64 / (report.blocks as f64).max(1.0);
            line += &format!(", which would have skipped {share:.1} % of the blocks");
        }
        line += &format!(" (kubist index {table})");
    }
    line
}
