//! The driver of an ingestion: it opens the files, and commits the steps that the table does not have.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_schema::{DataType, Field};
use kubist::{Cancel, CommitOptions, NewColumn, Query, Table, Value};

use crate::appender::Appender;
use crate::error::{Error, Failed, Result};
use crate::headers;
use crate::native::LABEL;
use crate::report::Report;
use crate::request::Request;
use crate::rows;
use crate::source::{Host, IngestedSteps, Opened, Progress, Source, Step, part};
use crate::table::{self, Open};

/// The name of a claim, because only one ingestion at a time may number frames.
const FRAMES: &str = "frames";
/// The time between two searches for files.
const LOOK: Duration = Duration::from_secs(1);
/// An unreadable file that has not changed for this time does not grow any more.
const SETTLED: Duration = Duration::from_secs(30);
/// The longest delay of an interrupt while the ingestion waits.
const PATIENCE: Duration = Duration::from_millis(50);

type Sources = Vec<Box<dyn Source>>;

/// Ingests files into a table.
///
/// # Errors
///
/// The first error; with `keep_going`, [`Report::failed`] has the files that failed.
pub fn ingest(request: &Request, host: &mut dyn Host) -> Result<Report, Failed> {
    let mut ingestion = Ingestion::new(request, host);
    match ingestion.run() {
        Ok(()) => {
            if !ingestion.report.failed.0.is_empty() {
                ingestion.undo();
            }
            Ok(ingestion.ended())
        }
        Err(error) => {
            let kept = ingestion.report.kept();
            let kept = match ingestion.undo() {
                true => kept,
                false => format!("{kept}, the new table {} is empty", request.table),
            };
            Err(Failed { error, kept })
        }
    }
}

pub(crate) struct Ingestion<'a> {
    request: &'a Request,
    host: &'a mut dyn Host,
    cancel: Cancel,
    keep_going: bool,
    pub(crate) report: Report,
    open: Option<Open>,
    writer: Appender,
    numbers_frames: bool,
    /// The tokens of steps that were committed or found in the table, because files are examined repeatedly.
    met: HashSet<String>,
    met_before: HashSet<String>,
    /// The columns whose floats are narrower than in the files, in order of appearance.
    rounded: Vec<String>,
    /// By solver step and part, the file and label, to report repeated steps.
    numbers: HashMap<(i64, String), String>,
    /// The steps without a step number, because the table has later steps: the first one, its file, and their count.
    late: Option<(i64, String, u64)>,
    /// The number of rows in all files, if it is known.
    rows_total: Option<u64>,
    bytes_total: u64,
    bytes_before: u64,
    started: Instant,
}

impl<'a> Ingestion<'a> {
    pub(crate) fn new(request: &'a Request, host: &'a mut dyn Host) -> Ingestion<'a> {
        Ingestion {
            cancel: request.writer.cancel.clone(),
            keep_going: request.keep_going,
            report: Report { table: request.table.clone(), ..Report::default() },
            request,
            host,
            open: None,
            writer: Appender::default(),
            numbers_frames: false,
            met: HashSet::new(),
            met_before: HashSet::new(),
            rounded: Vec::new(),
            numbers: HashMap::new(),
            late: None,
            rows_total: None,
            bytes_total: 0,
            bytes_before: 0,
            started: Instant::now(),
        }
    }

    fn run(&mut self) -> Result<()> {
        match self.request.follow {
            Some(patience) => self.follow(patience),
            None => {
                let mut sources = self.look()?;
                self.take(&mut sources).map(drop)
            }
        }
    }

    fn ended(mut self) -> Report {
        self.report.seconds = self.started.elapsed().as_secs_f64();
        if let Some((number, here, count)) = &self.late {
            let (what, them) = if *count == 1 { ("step is", "it") } else { ("steps are", "them") };
            self.report.notes.push(format!(
                "{count} {what} repeated or late, from step {number} on ({here}): the table had this step or a later one \
                 before, so queries with steps do not find {them}"
            ));
        }
        if !self.rounded.is_empty() {
            self.report.notes.push(format!(
                "values were rounded to the narrower floats of the table: {} (a copy of the table takes all digits: \
                 copy_to(types=...), kubist copy --types)",
                self.rounded.join(", ")
            ));
        }
        self.report
    }

    /// Deletes a new table without rows. Returns whether nothing of it is left.
    fn undo(&mut self) -> bool {
        self.writer = Appender::default();
        if !self.report.created || self.report.rows > 0 {
            return true;
        }
        self.open = None;
        // If another process writes to the table, or it cannot be deleted, it stays.
        let is_gone = Table::drop_at(self.request.location.as_str(), false).is_ok();
        self.report.created = !is_gone;
        is_gone
    }

    /// Ingests new files as they appear, until nothing was added for `patience`. An unreadable file may be growing, so
    /// it is tried again until it has not changed for this time, or for half a minute.
    fn follow(&mut self, patience: Option<Duration>) -> Result<()> {
        let mut last_news = Instant::now();
        // By unreadable file: its size and modification time, and the time of their last change.
        let mut states: HashMap<String, ((u64, Option<SystemTime>), Instant)> = HashMap::new();
        loop {
            self.report.failed.0.clear();
            self.met_before.clone_from(&self.met);
            let keeps_going = std::mem::replace(&mut self.keep_going, true);
            let taken = self.look().and_then(|mut sources| self.take(&mut sources));
            self.keep_going = keeps_going;
            match taken {
                Ok(0) => {}
                Ok(_) => last_news = Instant::now(),
                Err(error) if error.is_of_file() && (!self.report.failed.0.is_empty() || states.is_empty()) => {}
                Err(error) => return Err(error),
            }
            let now = Instant::now();
            for (name, message) in &self.report.failed.0 {
                let found = std::fs::metadata(name).map_err(|error| Error::invalid(format!("{name}: {error}")))?;
                let state = (found.len(), found.modified().ok());
                let since = match states.get(name) {
                    Some((before, since)) if *before == state => *since,
                    _ => {
                        last_news = now;
                        now
                    }
                };
                states.insert(name.clone(), (state, since));
                if now - since > SETTLED && !keeps_going {
                    return Err(Error::Invalid(message.clone()));
                }
            }
            if patience.is_some_and(|patience| now - last_news > patience) {
                return match self.report.failed.0.first() {
                    Some((_, message)) if !keeps_going => Err(Error::Invalid(message.clone())),
                    _ => Ok(()),
                };
            }
            let next = Instant::now() + LOOK;
            while Instant::now() < next {
                self.cancel.check()?;
                std::thread::sleep(PATIENCE);
            }
        }
    }

    /// Opens the files that exist now, in order of time.
    pub(crate) fn look(&mut self) -> Result<Sources> {
        let mut sources = Sources::new();
        for opened in self.host.look(self.keep_going, self.request.keep_going)? {
            match opened {
                Opened::Failed(path, error) => self.fail(&path, error)?,
                Opened::Source(mut source) => match self.leave_out(source.as_mut()) {
                    Ok(()) => sources.push(source),
                    Err(error) if error.is_of_file() => {
                        let path = source.facts().path.clone();
                        self.fail(&path, error)?;
                    }
                    Err(error) => return Err(error),
                },
            }
        }
        if sources.is_empty() && self.report.failed.0.is_empty() {
            let files = self.request.files.join(", ");
            return Err(Error::invalid(format!("{files}: no file of a known format is there")));
        }
        if sources.iter().all(|source| !source.facts().times.is_empty()) {
            sources.sort_by(|one, other| one.facts().times[0].total_cmp(&other.facts().times[0]));
        }
        Ok(sources)
    }

    /// Reports the parts of a file that are not in the table, or with `strict` refuses the file.
    fn leave_out(&mut self, source: &mut dyn Source) -> Result<()> {
        let left_out = source.left_out()?;
        let path = source.facts().path.display().to_string();
        match left_out.0.first() {
            None => self.report.left_out.remove(&path),
            Some((name, why)) if self.request.strict => {
                return Err(Error::invalid(format!("{path}: {name} would be left out: {why} (read option strict)")));
            }
            Some(_) => self.report.left_out.set(&path, left_out),
        }
        Ok(())
    }

    fn fail(&mut self, path: &Path, error: Error) -> Result<()> {
        let error = error.within(path);
        if !self.keep_going {
            return Err(error);
        }
        self.report.failed.set(&path.display().to_string(), error.to_string());
        Ok(())
    }

    /// Commits the missing steps, and returns their number.
    fn take(&mut self, sources: &mut Sources) -> Result<u64> {
        self.rows_total = sources.iter().map(|source| source.facts().rows).sum();
        self.bytes_total = sources.iter().map(|source| source.facts().bytes).sum();
        self.bytes_before = 0;
        let mut done = Vec::new();
        let taken = self.take_all(sources, &mut done);
        let kept = self.keep_headers(sources, &done);
        if self.request.follow.is_none() {
            self.report.bytes_read = self.bytes_total;
        }
        let taken = taken?;
        kept?;
        Ok(taken)
    }

    fn take_all(&mut self, sources: &mut Sources, done: &mut Vec<usize>) -> Result<u64> {
        let mut taken = 0;
        let mut seen = HashMap::new();
        for index in 0..sources.len() {
            if self.open.is_none() {
                self.open(sources)?;
            }
            let source = sources[index].as_mut();
            let total = self.bytes_total;
            match self.take_file(source, &mut seen) {
                Ok(steps) => {
                    taken += steps;
                    done.push(index);
                }
                Err(error) if error.is_of_file() => {
                    let path = source.facts().path.clone();
                    if self.report.files.iter().any(|taken| taken.rows > 0 && Path::new(&taken.file) == path) {
                        done.push(index);
                    }
                    self.fail(&path, error)?;
                }
                Err(error) => return Err(error),
            }
            if self.bytes_total == total {
                self.bytes_before += sources[index].facts().bytes;
            }
        }
        Ok(taken)
    }

    fn open(&mut self, sources: &mut Sources) -> Result<()> {
        let open = table::open(self.request, sources, self.keep_going)?;
        self.report.created |= open.created;
        self.report.notes.extend(open.notes.iter().cloned());
        let writer = open.table.writer(&self.request.writer)?;
        self.report.writer = Some(writer.name().to_owned());
        self.writer = Appender::new(writer);
        // Adds the topology that an earlier call did not have.
        let metadata = open.table.snapshot()?.metadata().clone();
        let here = &sources[0].facts().metadata;
        if self.request.has_topology
            && !metadata.contains_key("topology")
            && metadata.get("trajectory") == here.get("trajectory")
            && let Some(topology) = here.get("topology")
        {
            let changed = [("topology".to_owned(), topology.clone())].into();
            open.table.set_metadata(None, &changed)?;
            self.report.topology_added = true;
        }
        self.open = Some(open);
        Ok(())
    }

    /// Stores all headers in one change.
    fn keep_headers(&mut self, sources: &mut Sources, done: &[usize]) -> Result<()> {
        let Some(open) = self.open.as_ref().filter(|_| !done.is_empty()) else { return Ok(()) };
        let before = open.table.snapshot()?.metadata().clone();
        let mut after = before.clone();
        for index in done {
            let source = sources[*index].as_mut();
            let facts = source.facts();
            let path = facts.path.clone();
            let changed = match facts.joins {
                true => source.joins(&after)?,
                false => headers::changes(&after, &path, &facts.metadata),
            };
            if !headers::add(&mut after, changed) {
                source.leave_out("header", "it differs from the first, and the metadata are full")?;
                self.report.left_out.set(&path.display().to_string(), source.left_out()?);
            }
        }
        after.retain(|key, value| before.get(key) != Some(value));
        if !after.is_empty() {
            open.table.set_metadata(None, &after)?;
        }
        Ok(())
    }

    fn opened(&mut self) -> Result<&mut Open> {
        self.open.as_mut().ok_or_else(|| Error::Table(kubist::Error::internal("the table is not open")))
    }

    fn take_file(&mut self, source: &mut dyn Source, seen: &mut HashMap<(u64, String), PathBuf>) -> Result<u64> {
        let path = source.facts().path.clone();
        if source.facts().joins {
            let metadata = self.opened()?.table.snapshot()?.metadata().clone();
            source.joins(&metadata)?;
        }
        let key = if self.request.again { String::new() } else { source.key()? };
        if source.facts().numbers_frames {
            self.number_frames(&path)?;
            return self.take_steps(source, key, seen);
        }
        self.numbers_frames = false;
        self.writer.get()?.give_back();
        if !self.request.again {
            // After this claim, no other writer commits this file.
            self.writer.get()?.take_on(&key).map_err(|error| match error.kind() {
                kubist::ErrorKind::Busy => Error::Busy(format!("{}: {error}", path.display())),
                _ => error.into(),
            })?;
        }
        let taken = self.take_steps(source, key, seen);
        self.writer.get()?.give_back();
        taken
    }

    /// Claims the numbering, and continues after the table's last frame.
    fn number_frames(&mut self, path: &Path) -> Result<()> {
        if self.numbers_frames {
            return Ok(());
        }
        let table = self.request.table.clone();
        self.writer.get()?.take_on(FRAMES).map_err(|error| match error.kind() {
            kubist::ErrorKind::Busy => Error::Busy(format!(
                "{}: the frames of {table} are being numbered by another ingestion: wait for it ({error})",
                path.display()
            )),
            _ => error.into(),
        })?;
        let open = self.opened()?;
        let query = Query::new().filter("atom = 0").columns(["frame"]);
        let mut last = -1;
        for batch in open.table.snapshot()?.query(&query)? {
            let frames = arrow_cast::cast(batch?.column(0), &DataType::Int64).map_err(Error::invalid)?;
            last = frames.as_primitive::<Int64Type>().iter().flatten().fold(last, i64::max);
        }
        open.state.next_frame = last + 1;
        self.numbers_frames = true;
        Ok(())
    }

    fn take_steps(
        &mut self,
        source: &mut dyn Source,
        key: String,
        seen: &mut HashMap<(u64, String), PathBuf>,
    ) -> Result<u64> {
        let path = source.facts().path.clone();
        let snapshot = self.opened()?.table.snapshot()?;
        let known = IngestedSteps::new(key.clone(), Some(snapshot).filter(|_| !self.request.again));
        let mut taken = 0;
        source.start(&known)?;
        while let Some(step) = source.next_step()? {
            self.cancel.check()?;
            if let Some(time) = step.time {
                let other = seen.entry((time.to_bits(), step.part.clone())).or_insert_with(|| path.clone());
                if *other != path {
                    let other = other.display();
                    return Err(Error::invalid(format!("it and {other} both are of time {time}")));
                }
            }
            let token = format!("{key}/{}", step.label);
            if known.rows(&step.label).is_some() {
                if !self.met_before.contains(&token) {
                    self.report.skipped += 1;
                    self.report.skipped_files += u64::from(source.input().is_some() && step.label == LABEL);
                }
                self.met.insert(token);
                self.bytes_total -= source.facts().bytes;
                continue;
            }
            let next_frame = self.opened()?.state.next_frame;
            if let Err(error) = self.take_step(source, &step, &known) {
                self.writer.discard();
                self.opened()?.state.next_frame = next_frame;
                return Err(error);
            }
            taken += 1;
            self.met.insert(token);
            self.note_number(&path, &step);
        }
        self.leave_out(source)?;
        if taken > 0 {
            self.report.of_file(&path.display().to_string()).is_whole = true;
        }
        Ok(taken)
    }

    fn note_number(&mut self, path: &Path, step: &Step) {
        let Some(number) = step.number else { return };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let here = format!("{name}, {}", step.label);
        let first = self.numbers.entry((number, step.part.clone())).or_insert_with(|| here.clone());
        if *first != here {
            self.report.notes.push(format!(
                "step {number} was taken twice: from {first} and from {here}; a query of its step finds the rows of the \
                 first"
            ));
        }
    }

    fn take_step(&mut self, source: &mut dyn Source, step: &Step, known: &IngestedSteps) -> Result<()> {
        self.append(source, step, known)?;
        // A file that is read step by step reports some left-out parts only now.
        self.leave_out(source)?;
        self.show(source, step, true)?;
        let number = self.number_of(source, step)?;
        self.commit(source, known, &step.label, number)?;
        self.show(source, step, false)
    }

    /// The step number of a commit, so that queries find its rows under `steps`.
    ///
    /// A writer commits each step once, in ascending order. So a step has no number if it is repeated or too late, or
    /// has rows in several files. In a table with declared writers no step has a number, because only these writers
    /// complete a step.
    fn number_of(&mut self, source: &dyn Source, step: &Step) -> Result<Option<i64>> {
        let is_marked = step.part.is_empty() && !source.facts().in_order && !self.opened()?.has_declared_writers;
        let Some(number) = step.number.filter(|_| is_marked) else { return Ok(None) };
        let last = self.writer.get()?.last_step()?;
        let is_late = last.is_some_and(|last| number <= last);
        // A step that this ingestion itself repeats is reported elsewhere.
        if is_late && !self.numbers.contains_key(&(number, step.part.clone())) {
            let here = || format!("{}, {}", source.facts().path.display(), step.label);
            self.late.get_or_insert_with(|| (number, here(), 0)).2 += 1;
        }
        Ok(Some(number).filter(|_| !is_late))
    }

    fn commit(&mut self, source: &dyn Source, known: &IngestedSteps, label: &str, number: Option<i64>) -> Result<()> {
        let writer = self.writer.get()?;
        if writer.pending_rows() == 0 && source.input().is_some() {
            return Ok(());
        }
        let committed = writer.commit_as(&CommitOptions { step: number, token: known.token(label) })?;
        known.add(label, committed.rows);
        self.report.rows += committed.rows;
        self.report.bytes_written += committed.bytes_written;
        self.report.rows_outside += committed.rows_outside;
        let of_file = self.report.of_file(&source.facts().path.display().to_string());
        of_file.rows += committed.rows;
        of_file.commits += 1;
        of_file.is_whole = false;
        Ok(())
    }

    /// Appends the rows of a step, except the first rows that the table already has. If the table lacks columns of the
    /// step, the rows are read twice: columns cannot be removed again, and a file that fails must leave nothing.
    fn append(&mut self, source: &mut dyn Source, step: &Step, known: &IngestedSteps) -> Result<()> {
        let rows_skipped = self.report.rows_skipped.clone();
        let open = self.opened()?;
        let next_frame = open.state.next_frame;
        let may_be_new =
            source.facts().schema.fields().iter().any(|field| open.state.schema.field_with_name(field.name()).is_err());
        let late = self.append_rows(source, step, known, may_be_new)?;
        if late.is_empty() {
            return Ok(());
        }
        self.leave_out(source)?;
        self.writer.discard();
        let Some(open) = &mut self.open else { return Ok(()) };
        for field in late {
            let of_all = open.types.iter().find(|(name, _)| name == field.name()).map(|(_, kind)| kind.clone());
            open.table.add_column(&NewColumn {
                name: field.name().clone(),
                data_type: of_all.unwrap_or_else(|| field.data_type().clone()),
                nullable: true,
                default: Value::Null,
                unit: table::unit(&field).map(str::to_owned),
                accuracy: None,
            })?;
            self.report.columns_added.push(field.name().clone());
        }
        open.refresh()?;
        open.state.next_frame = next_frame;
        self.report.rows_skipped = rows_skipped;
        self.append_rows(source, step, known, false).map(drop)
    }

    /// Appends rows, and returns columns that the table lacks instead of adding them. A trial commits nothing.
    fn append_rows(
        &mut self,
        source: &mut dyn Source,
        step: &Step,
        known: &IngestedSteps,
        is_trial: bool,
    ) -> Result<Vec<Field>> {
        let mut late: Vec<Field> = Vec::new();
        let begun = known.begun(&step.label);
        let in_order = source.facts().in_order;
        let request = self.request;
        let mut row = 0;
        source.begin(&self.opened()?.state)?;
        loop {
            let Some(open) = &mut self.open else { break };
            let Some(batch) = source.next_rows(&mut open.state)? else { break };
            self.cancel.check()?;
            let rows = batch.num_rows() as u64;
            let passed = begun.saturating_sub(row).min(rows);
            let first = row + passed;
            row += rows;
            if passed == rows && rows > 0 {
                continue;
            }
            let batch = batch.slice(passed as usize, (rows - passed) as usize);
            let schema = batch.schema();
            for field in schema.fields() {
                let is_wanted = request.columns.as_ref().is_none_or(|columns| columns.contains(field.name()));
                let is_new = open.state.schema.field_with_name(field.name()).is_err();
                if is_wanted && is_new && !late.iter().any(|known| known.name() == field.name()) {
                    late.push(rows::measured(field, &schema, source, request));
                }
            }
            let mut batch = rows::with_time(batch, request, open, step)?;
            if request.skips_bad_rows {
                let kept = rows::with_positions(&batch, &open.dimensions)?;
                let skipped = (batch.num_rows() - kept.num_rows()) as u64;
                if skipped > 0 {
                    let path = source.facts().path.display().to_string();
                    let before = self.report.rows_skipped.get(&path).copied().unwrap_or(0);
                    self.report.rows_skipped.set(&path, before + skipped);
                }
                batch = kept;
            }
            let batch = rows::fitted(&batch, (request, open), source, step, first, &mut self.rounded)?;
            if in_order {
                self.writer.append_behind(batch)?;
            } else {
                self.put(source, step, known, batch, (row, is_trial))?;
            }
            self.show(source, step, false)?;
        }
        self.writer.wait()?;
        Ok(late)
    }

    /// Appends rows up to row `end` of the step. Rows after the last full commit are committed at the end of the step.
    fn put(
        &mut self,
        source: &dyn Source,
        step: &Step,
        known: &IngestedSteps,
        batch: RecordBatch,
        (end, is_trial): (u64, bool),
    ) -> Result<()> {
        // Partial commits are labelled by rows of the file, so they are impossible if rows are skipped.
        let request = self.request;
        let Some(commit_rows) = request.commit_rows.filter(|_| !is_trial && !request.skips_bad_rows) else {
            return Ok(self.writer.get()?.append(&batch)?);
        };
        let mut start = 0;
        while start < batch.num_rows() {
            let left = (batch.num_rows() - start) as u64;
            let pending = self.writer.get()?.pending_rows();
            if pending >= commit_rows {
                let label = part(&step.label, end - left - pending);
                self.commit(source, known, &label, None)?;
                continue;
            }
            let rows = usize::try_from(left.min(commit_rows - pending)).unwrap_or(usize::MAX);
            self.writer.get()?.append(&batch.slice(start, rows))?;
            start += rows;
        }
        Ok(())
    }

    fn show(&mut self, source: &dyn Source, step: &Step, is_committing: bool) -> Result<()> {
        let facts = source.facts();
        let pending = self.writer.pending_rows();
        let bytes = match facts.bytes {
            0 => None,
            _ => Some((self.bytes_before + source.bytes_read(), self.bytes_total)),
        };
        let fraction = match (bytes, self.rows_total) {
            (Some((done, total)), _) if total > 0 => Some(done as f64 / total as f64),
            (None, Some(total)) if total > 0 && self.report.created => {
                // If the rows are not written in order, the commit takes most of the time.
                let done = if facts.in_order { pending as f64 } else { pending as f64 / 3.0 };
                Some((self.report.rows as f64 + done) / total as f64)
            }
            _ => None,
        };
        self.host.progress(&Progress {
            rows: self.report.rows + pending,
            path: &facts.path,
            label: &step.label,
            is_committing,
            fraction: fraction.map(|fraction| fraction.min(1.0)),
            bytes,
        })
    }
}
