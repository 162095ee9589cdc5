//! `kubist ingest`: reads files into a table, and commits each as a whole.
//!
//! All files are checked before the first one is read, so an unsuitable file is reported before anything is
//! written. A thread reads a file ahead while the table takes the rows that were read.
//!
//! A file is identified by its name and contents. Its commits have tokens made from both, the same as in the
//! Python package (`kubist.ingesting`). Files that the table already has are skipped.

use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use kubist::{Cancel, CommitOptions, ErrorKind, NewColumn, Table, TableOptions, Value, Writer, WriterOptions};
use kubist_files::{Input, Limits, Marks, Options, fit, known_as};
use serde::Serialize;

use crate::args;
use crate::failure::{Failure, Kind, Result, absent};
use crate::left_out::LeftOut;
use crate::location::Location;
use crate::output::{print_json, remark, tell_units};
use crate::parse::IngestGroups;
use crate::progress::Progress;
use crate::{foreign, human, info, parse};

/// The longest delay of Ctrl-C while a file gives no rows.
const PATIENCE: Duration = Duration::from_millis(100);

pub fn run(command: &args::Ingest, cancel: &Cancel) -> Result<()> {
    let asked = IngestGroups::of(&command.create, &command.read, &command.writer)?;
    if foreign::is_wanted(command, &asked.reading) {
        return Err(foreign::become_it(command, &asked));
    }
    let IngestGroups { reading, writing, .. } = &asked;
    let usual = Limits::default();
    let limits = Limits {
        record_bytes: reading.max_record.map_or(usual.record_bytes, |bytes| bytes as u64),
        columns: reading.max_columns.unwrap_or(usual.columns),
        inflation: reading.max_inflation.unwrap_or(usual.inflation),
        batch_bytes: reading.max_batch.map_or(usual.batch_bytes, |bytes| bytes as u64),
    };
    let options = Options {
        columns: reading.columns.clone(),
        delimiter: reading.delimiter,
        names: reading.names.clone(),
        marks: Marks { null: reading.null.clone().unwrap_or_default(), decimal: reading.decimal.unwrap_or_default() },
        text: false,
        limits,
    };
    let look = |path: &PathBuf| {
        cancel.check()?;
        match path.try_exists() {
            Ok(false) => Err(Failure { kind: Kind::Existence, message: absent(path) }),
            _ => Ok(Input::inspect(path, &options)?),
        }
    };
    let mut inputs: Vec<Input> = command.files.iter().map(look).collect::<Result<_>>()?;
    let left_out = LeftOut::of(&mut inputs, reading.columns.is_some());
    let (table, created) = open_or_create(command, &asked, &inputs)?;
    let columns = Columns::of(&table)?;
    inputs.iter().try_for_each(|input| fit::check(input, &columns.of_input(input), &columns.needed))?;
    let new = fit::new_columns(&inputs.iter().collect::<Vec<_>>(), &columns.schema)?;
    let options = WriterOptions {
        name: writing.name.clone(),
        memory_bytes: writing.memory_bytes,
        optimize: writing.optimize,
        cancel: cancel.clone(),
    };
    let mut ingestion = Ingestion {
        commit_rows: command.commit_rows.unwrap_or(u64::MAX),
        stated: asked.new.units.iter().map(|(column, _)| column.clone()).collect(),
        again: command.again,
        cancel,
        writer: table.writer(&options)?,
        table: &table,
        columns,
        progress: Progress::new(),
        bytes_total: inputs.iter().map(|input| input.bytes).sum(),
        bytes_before: 0,
        done: Vec::new(),
        skipped: 0,
        new,
        columns_added: Vec::new(),
        left_out,
        bytes_written: 0,
        rows_outside: 0,
    };
    for input in &inputs {
        if let Err(failure) = ingestion.take(input) {
            return Err(ingestion.undone(failure, &command.table, created));
        }
    }
    ingestion.tell(command, created)
}

/// Opens or creates the table. Returns whether it is new.
fn open_or_create(command: &args::Ingest, asked: &IngestGroups, inputs: &[Input]) -> Result<(Table, bool)> {
    match Table::open(&command.table) {
        Ok(table) => {
            agrees(command, asked, &table)?;
            return Ok((table, false));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    if command.dimensions.is_empty() {
        return Err(Failure {
            kind: Kind::Existence,
            message: format!("there is no table at {}; --dimensions makes a new one", command.table),
        });
    }
    let IngestGroups { new, reading, .. } = asked;
    let types = reading.types.as_ref().map_or(&[][..], |types| &types.0);
    let schema = fit::common(&inputs.iter().collect::<Vec<_>>(), types)?;
    let names: Vec<String> = command.dimensions.iter().map(|dimension| dimension.column.clone()).collect();
    check_texts(&names, &schema, inputs)?;
    let options = TableOptions {
        dimensions: parse::dimensions(&command.dimensions, &schema)?,
        identity: command.identity.clone(),
        lookup: new.lookup.clone(),
        capacity: new.capacity,
        seed: new.seed.unwrap_or(0),
        replication: new.replication.unwrap_or_default(),
        compression: new.compression.unwrap_or_default(),
        strata: new.strata.unwrap_or_default(),
        sampling: (new.weight.clone(), new.classes.clone()).try_into()?,
        accuracy: new.accuracy.iter().map(|(column, bound)| (column.clone(), Value::Text(bound.clone()))).collect(),
        units: new.units.clone(),
        sphere: new.sphere.clone(),
        period: parse::Periods(new.period.clone().unwrap_or_default()).values(),
        metadata: new.metadata.clone(),
        // Another process may have created the same table.
        exist_ok: true,
        shared: new.shared,
    };
    let table = Table::create(&command.table, schema, &options)?;
    let schema = table.schema()?;
    let units: Vec<_> =
        schema.fields().iter().filter_map(|field| Some((field.name(), kubist_plot::unit(field)?))).collect();
    tell_units(units.iter().map(|(column, unit)| (column.as_str(), unit.as_str())));
    Ok((table, true))
}

/// Refuses a dimension of text. A word among the numbers of a CSV column makes the whole column text; the
/// error names its row.
fn check_texts(dimensions: &[String], schema: &Schema, inputs: &[Input]) -> Result<()> {
    let text = |name: &String| schema.field_with_name(name).is_ok_and(|field| *field.data_type() == DataType::Utf8);
    for name in dimensions.iter().filter(|name| text(name)) {
        let number = Fields::from(vec![Field::new(name, DataType::Float64, true)]);
        for input in inputs.iter().filter(|input| !input.typed) {
            let mut batches = input.read(&number, Arc::default()).into_iter();
            batches.try_for_each(|batch| batch.map(drop)).map_err(|error| {
                Failure::from(error).noting(format!("the dimension {name:?} takes numbers, dates or times alone"))
            })?;
        }
    }
    Ok(())
}

/// Checks that the options of a new table match the existing one, so that a user can repeat the command for
/// the next files.
fn agrees(command: &args::Ingest, asked: &IngestGroups, table: &Table) -> Result<()> {
    let IngestGroups { new, reading, .. } = asked;
    let info = table.snapshot()?.about()?;
    let differs = |what: &str, here: &dyn Display, asked: &dyn Display| {
        Failure::usage(format!("the table {} has {what} {here}, not {asked}", command.table))
    };
    let dimensions: Vec<String> = info.dimensions.iter().map(|dimension| dimension.column.clone()).collect();
    let named: Vec<String> = command.dimensions.iter().map(|dimension| dimension.column.clone()).collect();
    if !named.is_empty() && named != dimensions {
        return Err(differs("the dimensions", &dimensions.join(","), &named.join(",")));
    }
    if !command.identity.is_empty() && command.identity != info.identity {
        return Err(differs("the identity", &info.identity.join(","), &command.identity.join(",")));
    }
    if !new.lookup.is_empty() && new.lookup != info.lookup {
        return Err(differs("the lookup", &info.lookup.join(","), &new.lookup.join(",")));
    }
    if let Some(capacity) = new.capacity.filter(|capacity| *capacity != info.capacity) {
        return Err(differs("the capacity", &info.capacity, &capacity));
    }
    if let Some(seed) = new.seed.filter(|seed| *seed != info.seed) {
        return Err(differs("the seed", &info.seed, &seed));
    }
    if let Some(policy) = new.replication.filter(|policy| policy.to_string() != info.replication) {
        return Err(differs("the replication", &info.replication, &policy));
    }
    if let Some(compression) = new.compression.filter(|compression| compression.name() != info.compression) {
        return Err(differs("the compression", &info.compression, &compression));
    }
    if let Some(strata) = new.strata.filter(|strata| strata.name() != info.strata) {
        return Err(differs("the strata", &info.strata, &strata));
    }
    if new.weight.is_some() || !new.classes.is_empty() {
        let wanted =
            TableOptions { sampling: (new.weight.clone(), new.classes.clone()).try_into()?, ..TableOptions::default() };
        if wanted.sampling.to_string() != info.sampling {
            return Err(differs("samples", &info.sampling, &wanted.sampling));
        }
    }
    let schema = table.schema()?;
    for (column, bound) in &new.accuracy {
        let asked = table.accuracy(column, &Value::Text(bound.clone()))?.to_string();
        let name = parse::column(&schema, column)?.name();
        let here = info.columns.iter().find(|here| here.name == *name).and_then(|here| here.accuracy.clone());
        if here.as_ref() != Some(&asked) {
            let here = here.as_deref().unwrap_or("of every bit");
            return Err(differs(&format!("the accuracy of column {column:?}"), &here, &asked));
        }
    }
    if new.shared && !info.shared {
        let what = format!("the table {} is not shared: kubist alter {0} --shared", command.table);
        return Err(Failure::usage(what));
    }
    for (column, unit) in &new.units {
        let here = info.columns.iter().find(|here| here.name == *column).and_then(|here| here.unit.clone());
        if here.as_ref() != Some(unit) {
            return Err(differs(&format!("the column {column:?} in"), &here.as_deref().unwrap_or("no unit"), unit));
        }
    }
    if new.sphere.is_some() && new.sphere != info.sphere {
        let here = info.sphere.map_or("no sphere".into(), |columns| format!("a sphere of {}", columns.join(",")));
        return Err(differs("", &here, &new.sphere.iter().flatten().cloned().collect::<Vec<_>>().join(",")));
    }
    for (column, period) in parse::Periods(new.period.clone().unwrap_or_default()).values() {
        let here = info.period.iter().find(|(here, _)| **here == column).map(|(_, period)| period.as_str());
        let asked = table.period(&column, &period)?;
        if here != Some(asked.as_str()) {
            return Err(differs(&format!("the column {column:?} with"), &here.unwrap_or("no period"), &asked));
        }
    }
    for (key, value) in &new.metadata {
        if info.metadata.get(key) != Some(value) {
            let here = info.metadata.get(key).cloned().unwrap_or_default();
            return Err(differs(&format!("the metadata {key:?} as"), &here, value));
        }
    }
    for (column, data_type) in reading.types.iter().flat_map(|types| &types.0) {
        let here = parse::column(&schema, column)?.data_type();
        if here != data_type {
            return Err(differs(&format!("the column {column:?} as"), here, data_type));
        }
    }
    Ok(())
}

/// The table's columns.
struct Columns {
    schema: SchemaRef,
    /// The columns that were added: a file without one has its default.
    added: Vec<String>,
    /// The columns that each file must have: dimensions and identity.
    needed: Vec<String>,
}

impl Columns {
    fn of(table: &Table) -> Result<Columns> {
        let snapshot = table.snapshot()?;
        let added = snapshot.columns().into_iter().filter(|column| column.added).map(|column| column.name);
        let about = snapshot.about()?;
        let mut needed: Vec<String> = about.dimensions.into_iter().map(|dimension| dimension.column).collect();
        needed.extend(about.identity);
        Ok(Columns { schema: snapshot.schema(), added: added.collect(), needed })
    }

    /// The columns to read from a file.
    fn of_input(&self, input: &Input) -> SchemaRef {
        let lacks = |name: &String| input.fields.find(name).is_none();
        let fields = self.schema.fields().iter();
        let wanted = fields.filter(|field| !(self.added.contains(field.name()) && lacks(field.name())));
        Arc::new(Schema::new(wanted.cloned().collect::<Vec<_>>()))
    }
}

/// The commits of one file.
#[derive(Clone, Debug, Default, Serialize)]
struct Taken {
    file: String,
    rows: u64,
    commits: u64,
    #[serde(skip)]
    whole: bool,
}

struct Ingestion<'a> {
    commit_rows: u64,
    /// The columns whose unit the command gives, regardless of the files.
    stated: Vec<String>,
    again: bool,
    cancel: &'a Cancel,
    writer: Writer,
    table: &'a Table,
    columns: Columns,
    progress: Progress,
    bytes_total: u64,
    bytes_before: u64,
    done: Vec<Taken>,
    /// The number of files that the table already had.
    skipped: u64,
    /// Columns of the files that the table did not have at the start, in types that hold the values of all
    /// files.
    new: SchemaRef,
    columns_added: Vec<String>,
    left_out: LeftOut,
    bytes_written: u64,
    rows_outside: u64,
}

/// The tokens of a file's commits; none if the file is ingested again.
struct Known(Option<String>);

impl Known {
    /// The token of the last commit of the file. If the table has it, the file is complete.
    fn whole(&self) -> Option<String> {
        self.0.as_ref().map(|file| format!("{file}/rows"))
    }

    /// The token of an earlier commit, by the number of its first row.
    fn part(&self, first: u64) -> Option<String> {
        self.0.as_ref().map(|file| format!("{file}/rows from {first}"))
    }
}

/// An error of the table about rows, with the name of their file.
fn within(error: impl Into<Failure>, input: &Input) -> Failure {
    let failure = error.into();
    match failure.kind {
        Kind::Usage => failure.within(input.path.display()),
        _ => failure,
    }
}

impl Ingestion<'_> {
    /// Adds the columns of a file that the table does not have. Existing rows are null in them. Reads the file
    /// once before, because a column stays, and a file that fails leaves nothing behind.
    fn add_columns(&mut self, input: &Input) -> Result<()> {
        let is_here = |name: &String| input.fields.find(name).is_some();
        let missing = self
            .new
            .fields()
            .iter()
            .filter(|field| is_here(field.name()) && !self.columns_added.contains(field.name()));
        let missing: Vec<_> = missing.cloned().collect();
        if missing.is_empty() {
            return Ok(());
        }
        let checked = self.check(input, &missing);
        self.writer.discard();
        checked?;
        for field in missing {
            self.table.add_column(&NewColumn {
                name: field.name().clone(),
                data_type: field.data_type().clone(),
                nullable: true,
                default: Value::Null,
                unit: field.metadata().get("unit").cloned(),
                accuracy: None,
            })?;
            self.columns_added.push(field.name().clone());
        }
        self.columns = Columns::of(self.table)?;
        Ok(())
    }

    /// Checks that the table takes the rows of a file, which become pending. `missing` are columns that it does not
    /// have yet.
    fn check(&mut self, input: &Input, missing: &[Arc<Field>]) -> Result<()> {
        let known = self.columns.of_input(input);
        let fields = known.fields().iter().chain(missing).cloned().collect::<Fields>();
        let schema = fit::in_units_of(input, &Schema::new(fields), &self.stated);
        let batches = input.read(schema.fields(), Arc::default());
        let own: Vec<usize> = (0..known.fields().len()).collect();
        let mut row = 0;
        while let Some(batch) = self.next(&batches)? {
            let batch = fit::fitted(&input.path, &batch, &schema, row + 1)?;
            row += batch.num_rows() as u64;
            let batch = batch.project(&own).map_err(|error| Failure::usage(error.to_string()))?;
            self.writer.append(&batch).map_err(|error| within(error, input))?;
        }
        Ok(())
    }

    /// The next batch of a file; `None` at its end.
    fn next(&self, batches: &Receiver<kubist_files::Result<RecordBatch>>) -> Result<Option<RecordBatch>> {
        loop {
            self.cancel.check()?;
            match batches.recv_timeout(PATIENCE) {
                Ok(batch) => return Ok(Some(batch?)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
    }

    fn take(&mut self, input: &Input) -> Result<()> {
        let known = Known(if self.again { None } else { Some(known_as(&input.path)?) });
        if let Some(file) = &known.0 {
            // The snapshot is taken after the claim: from here on no other writer commits this file.
            self.writer.take_on(file).map_err(|error| Failure::from(error).within(input.path.display()))?;
        }
        let snapshot = self.table.snapshot()?;
        let committed = |token: Option<String>| token.and_then(|token| snapshot.committed(&token));
        if committed(known.whole()).is_some() {
            self.skipped += 1;
            self.bytes_total -= input.bytes;
            return Ok(());
        }
        // An interrupted ingestion may have committed the first parts of the file.
        let mut had = 0;
        while let Some(rows) = committed(known.part(had)) {
            had += rows;
        }
        self.done.push(Taken { file: input.path.display().to_string(), ..Taken::default() });
        self.add_columns(input)?;
        let consumed = Arc::new(AtomicU64::new(0));
        let schema = self.columns.of_input(input);
        let schema = fit::in_units_of(input, &schema, &self.stated);
        let batches = input.read(schema.fields(), consumed.clone());
        let mut row = 0;
        while let Some(batch) = self.next(&batches)? {
            let batch = fit::fitted(&input.path, &batch, &schema, row + 1)?;
            let rows = batch.num_rows();
            let passed = usize::try_from(had.saturating_sub(row)).unwrap_or(usize::MAX).min(rows);
            row += rows as u64;
            self.append(&batch.slice(passed, rows - passed), &known, row).map_err(|error| within(error, input))?;
            self.show(consumed.load(Ordering::Relaxed).min(input.bytes));
        }
        self.commit(known.whole())?;
        if let Some(taken) = self.done.last_mut() {
            taken.whole = true;
        }
        self.bytes_before += input.bytes;
        Ok(())
    }

    /// Appends rows of the file up to row `end`. The rows after the last full commit wait for the commit that
    /// ends the file.
    fn append(&mut self, batch: &RecordBatch, known: &Known, end: u64) -> Result<()> {
        let mut start = 0;
        while start < batch.num_rows() {
            let left = (batch.num_rows() - start) as u64;
            if self.writer.pending_rows() >= self.commit_rows {
                self.commit(known.part(end - left - self.writer.pending_rows()))?;
            }
            let room = self.commit_rows - self.writer.pending_rows();
            let rows = usize::try_from(left.min(room)).unwrap_or(usize::MAX);
            self.writer.append(&batch.slice(start, rows))?;
            start += rows;
        }
        Ok(())
    }

    fn commit(&mut self, token: Option<String>) -> Result<()> {
        if self.writer.pending_rows() == 0 {
            return Ok(());
        }
        let committed = self.writer.commit_as(&CommitOptions { token, ..CommitOptions::default() })?;
        self.bytes_written += committed.bytes_written;
        self.rows_outside += committed.rows_outside;
        if let Some(taken) = self.done.last_mut() {
            taken.rows += committed.rows;
            taken.commits += 1;
        }
        Ok(())
    }

    fn rows(&self) -> u64 {
        self.done.iter().map(|taken| taken.rows).sum()
    }

    fn show(&mut self, bytes: u64) {
        let rows = self.rows() + self.writer.pending_rows();
        let (done, total) = (self.bytes_before + bytes, self.bytes_total);
        self.progress.show(done, total, |seconds| {
            let rate = human::rate(rows as f64 / seconds);
            format!("{} records, {rate}/s, {} of {}", human::count(rows), human::bytes(done), human::bytes(total))
        });
    }

    /// Removes the rest of a failed file: pending rows, and a new table without rows.
    fn undone(mut self, failure: Failure, table: &Location, created: bool) -> Failure {
        self.writer.discard();
        let kept = self.kept();
        let is_empty = created && self.done.iter().all(|taken| taken.rows == 0);
        drop(self.writer);
        match is_empty.then(|| Table::drop_at(table, false)) {
            // Another process writes to it, or it cannot be deleted.
            Some(Err(_)) => failure.noting(format!("{kept}, the new table {table} is empty")),
            _ => failure.noting(kept),
        }
    }

    /// The files and parts that were committed before the failure.
    fn kept(&self) -> String {
        const NAMED: usize = 3;
        let whole: Vec<String> = self.done.iter().filter(|taken| taken.whole).map(|taken| taken.file.clone()).collect();
        let mut kept = match &whole[..] {
            few if few.len() <= NAMED => few.to_vec(),
            [first, .., last] => vec![format!("{} files from {first} to {last}", human::count(whole.len() as u64))],
            _ => Vec::new(),
        };
        if let Some(part) = self.done.iter().find(|taken| !taken.whole && taken.rows > 0) {
            kept.push(format!("the first {} of {}", human::counted(part.rows, "record"), part.file));
        }
        match kept.is_empty() {
            false => format!("committed and kept: {}", kept.join(", ")),
            true => "nothing was written".to_string(),
        }
    }

    fn tell(self, command: &args::Ingest, created: bool) -> Result<()> {
        let (rows, seconds) = (self.rows(), self.progress.seconds());
        drop(self.progress);
        if command.json {
            return print_json(&serde_json::json!({
                "table": command.table,
                "created": created,
                "writer": self.writer.name(),
                "files": self.done,
                "skipped": self.skipped,
                "columns_added": self.columns_added,
                "left_out": self.left_out,
                "rows": rows,
                "bytes_read": self.bytes_total,
                "bytes_written": self.bytes_written,
                "rows_outside": self.rows_outside,
                "seconds": seconds,
            }));
        }
        self.left_out.tell();
        let mut told = match self.done.is_empty() {
            true => format!("{}: nothing new in {}", command.table, human::duration(seconds)),
            false => format!(
                "{}: {} from {} in {} ({}/s), {} read, {} written",
                command.table,
                human::counted(rows, "record"),
                human::counted(self.done.len() as u64, "file"),
                human::duration(seconds),
                human::rate(rows as f64 / seconds),
                human::bytes(self.bytes_total),
                human::bytes(self.bytes_written)
            ),
        };
        if self.skipped > 0 {
            let (were, them) = if self.skipped == 1 { ("was", "it") } else { ("were", "them") };
            let files = human::counted(self.skipped, "file");
            told += &format!("; {files} {were} ingested already (--again takes {them} again)");
        }
        if !self.columns_added.is_empty() {
            let names = self.columns_added.join(", ");
            told += &format!("; new columns {}, null in the rows before", kubist_types::shown::printable(&names));
        }
        remark(&told);
        if self.rows_outside > 0 {
            remark(&info::outside(self.rows_outside, rows, ""));
        }
        Ok(())
    }
}
