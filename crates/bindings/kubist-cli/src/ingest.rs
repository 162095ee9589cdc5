//! `kubist ingest`: opens Parquet, Arrow, CSV and NPZ for the driver in `kubist-ingest`, and prints its report.

use std::path::{Path, PathBuf};

use kubist::{Cancel, Value, WriterOptions};
use kubist_files::{Input, Limits, Marks, Options};
use kubist_ingest::{Error, Failed, Host, Native, NewTable, Opened, Request, expanded};
use kubist_types::options::Sampling;

use crate::args;
use crate::failure::{Failure, Kind, Result, absent};
use crate::output::{print, print_json, remark};
use crate::parse::{IngestGroups, Reading};
use crate::progress::Progress;
use crate::{external, human, parse};

pub fn run(command: &args::Ingest, cancel: &Cancel) -> Result<()> {
    let asked = IngestGroups::of(&command.create, &command.read, &command.writer)?;
    if external::is_wanted(command, &asked.reading) {
        return Err(external::become_it(command, &asked));
    }
    let mut files = Files {
        paths: &command.files,
        options: options(&asked.reading),
        has_time: asked.reading.time.is_some(),
        cancel,
        progress: Progress::new(),
    };
    let request = request(command, asked, cancel)?;
    if command.dry_run {
        let plan = kubist_ingest::plan(&request, &mut files).map_err(|error| failed(command, error))?;
        return match command.json {
            true => print_json(&plan),
            false => print(&(plan.lines().join("\n") + "\n")),
        };
    }
    let ingested = kubist_ingest::ingest(&request, &mut files);
    drop(files);
    let report = ingested.map_err(|Failed { error, kept }| failed(command, error).noting(kept))?;
    match command.json {
        true => print_json(&report)?,
        false => report.lines().iter().for_each(|line| remark(line)),
    }
    let mut messages: Vec<_> = report.failed.0.into_iter().map(|(_, message)| message).collect();
    let Some(last) = messages.pop() else { return Ok(()) };
    messages.iter().for_each(|message| remark(&format!("kubist: error: {message}")));
    Err(Failure::usage(last))
}

fn failed(command: &args::Ingest, error: Error) -> Failure {
    match error {
        Error::NoPositions(_) => Failure {
            kind: Kind::Existence,
            message: format!("there is no table at {}; --dimensions makes a new one", command.table),
        },
        other => other.into(),
    }
}

fn options(reading: &Reading) -> Options {
    let usual = Limits::default();
    let limits = Limits {
        record_bytes: reading.max_record.map_or(usual.record_bytes, |bytes| bytes as u64),
        columns: reading.max_columns.unwrap_or(usual.columns),
        inflation: reading.max_inflation.unwrap_or(usual.inflation),
        batch_bytes: reading.max_batch.map_or(usual.batch_bytes, |bytes| bytes as u64),
    };
    // The user may give the time instead.
    let is_of_file = |name: &&String| reading.time.is_none() || *name != "time";
    Options {
        columns: reading.columns.as_ref().map(|columns| columns.iter().filter(is_of_file).cloned().collect()),
        delimiter: reading.delimiter,
        names: reading.names.clone(),
        marks: Marks { null: reading.null.clone().unwrap_or_default(), decimal: reading.decimal.unwrap_or_default() },
        text: reading.format.as_deref() == Some("csv"),
        limits,
    }
}

fn request(command: &args::Ingest, asked: IngestGroups, cancel: &Cancel) -> Result<Request> {
    let IngestGroups { new, reading, writing } = asked;
    let dimensions = command.dimensions.clone();
    let is_sampled = new.weight.is_some() || !new.classes.is_empty();
    let sampling = Sampling::try_from((new.weight, new.classes))?;
    Ok(Request {
        location: (*command.table).to_owned(),
        table: command.table.to_string(),
        files: command.files.iter().map(|file| file.display().to_string()).collect(),
        new: NewTable {
            dimensions: dimensions.iter().map(|dimension| dimension.column.clone()).collect(),
            domains: Box::new(move |schema| {
                parse::dimensions(&dimensions, schema).map_err(|failure| Error::Invalid(failure.message))
            }),
            identity: Some(command.identity.clone()).filter(|identity| !identity.is_empty()),
            lookup: new.lookup,
            capacity: new.capacity,
            seed: new.seed,
            replication: new.replication,
            compression: new.compression,
            strata: new.strata,
            sampling: Some(sampling).filter(|_| is_sampled),
            accuracy: new.accuracy.into_iter().map(|(column, bound)| (column, Value::Text(bound))).collect(),
            units: new.units,
            sphere: new.sphere,
            period: new.period.map(|period| parse::Periods(period).values()),
            metadata: new.metadata,
            shared: new.shared,
        },
        columns: reading.columns,
        types: reading.types.map_or_else(Vec::new, |types| types.0),
        time: reading.time,
        has_topology: false,
        strict: reading.strict,
        skips_bad_rows: reading.bad_rows.as_deref() == Some("skip"),
        again: command.again,
        keep_going: command.keep_going,
        commit_rows: command.commit_rows,
        follow: command.follow,
        writer: WriterOptions {
            name: writing.name,
            memory_bytes: writing.memory_bytes,
            optimize: writing.optimize,
            cancel: cancel.clone(),
        },
    })
}

struct Files<'a> {
    paths: &'a [PathBuf],
    options: Options,
    has_time: bool,
    cancel: &'a Cancel,
    progress: Progress,
}

impl Host for Files<'_> {
    fn look(&mut self, keep_going: bool, _: bool) -> kubist_ingest::Result<Vec<Opened>> {
        let missing = |path: &Path| {
            let (message, kind) = (absent(path), Kind::Existence);
            Error::Source { message: message.clone(), is_of_file: false, cause: Box::new(Failure { kind, message }) }
        };
        let mut opened = Vec::new();
        for path in expanded(self.paths, &mut |_| Ok(false), &missing)? {
            self.cancel.check()?;
            match Input::inspect(&path, &self.options) {
                Ok(input) => opened.push(Opened::Source(Box::new(Native::new(input, self.has_time, self.cancel)))),
                Err(error) => {
                    opened.push(Opened::Failed(path, error.into()));
                    if !keep_going {
                        break;
                    }
                }
            }
        }
        Ok(opened)
    }

    fn progress(&mut self, at: &kubist_ingest::Progress<'_>) -> kubist_ingest::Result<()> {
        let (done, total) = at.bytes.unwrap_or_default();
        self.progress.show(done, total, |seconds| {
            let rate = human::rate(at.rows as f64 / seconds);
            let doing = if at.is_committing { "committing " } else { "" };
            let (done, total) = (human::bytes(done), human::bytes(total));
            format!("{doing}{} records, {rate}/s, {done} of {total}", human::count(at.rows))
        });
        Ok(())
    }
}
