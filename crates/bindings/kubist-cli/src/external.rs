//! File formats that the Python package reads and writes.
//!
//! The command itself reads Parquet, Arrow, CSV and NPZ. For other formats it becomes `python3 -m
//! kubist.ingesting` with its arguments as JSON; output, exit codes and signals keep their meaning. The result
//! of a query goes to `python3 -m kubist.exporting` as an Arrow stream.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arrow_ipc::writer::StreamWriter;
use arrow_schema::Schema;
use kubist::{Cancel, Metadata};
use kubist_files::{is_external, is_named_native};
use kubist_ingest::expanded;
use serde_json::{Value, json};

use crate::args;
use crate::failure::{Failure, Kind, Result};
use crate::output::Batches;
use crate::parse::{IngestGroups, Reading};
use crate::python;

const NATIVE: [&str; 4] = ["parquet", "arrow", "npz", "csv"];

pub const ENDINGS: [&str; 9] = ["las", "laz", "vtp", "fits", "ecsv", "h5", "bp", "bp4", "bp5"];

pub fn is_wanted(command: &args::Ingest, reading: &Reading) -> bool {
    let has_external_option =
        reading.topology.is_some() || reading.hdu.is_some() || reading.particles.is_some() || reading.crs.is_some();
    let is_external_file = |file: &PathBuf| match &reading.format {
        Some(format) => !NATIVE.contains(&format.as_str()),
        None => is_external(file),
    };
    let is_external_path = |path: &PathBuf| {
        match expanded(std::slice::from_ref(path), &mut |_| Ok(false), &|_| ()) {
            // Later files have the name of the pattern.
            Ok(files) if files.is_empty() => !is_named_native(path),
            Ok(files) => files.iter().any(is_external_file),
            Err(()) => false,
        }
    };
    has_external_option || command.files.iter().any(is_external_path)
}

/// Returns only if the package's command cannot be started.
pub fn become_it(command: &args::Ingest, asked: &IngestGroups) -> Failure {
    let file = command.files.first().map_or_else(String::new, |file| file.display().to_string());
    if command.commit_rows.is_some() {
        return Failure::usage(format!(
            "{file}: the Python package commits each step or file: leave out --commit-rows"
        ));
    }
    become_module(&format!("{file}: this format"), "kubist.ingesting", &request(command, asked))
}

/// Becomes a module of the package, with its arguments as JSON; returns only if that fails.
pub fn become_module(needs: &str, module: &str, asked: &Value) -> Failure {
    match package(needs, module) {
        Err(failure) => failure,
        Ok((python, module)) => {
            let error = Command::new(&python).args(["-m", &module, &asked.to_string()]).exec();
            Failure::io(&python, &error)
        }
    }
}

/// Python and its module; `needs` begins the message of a failure.
pub fn package(needs: &str, module: &str) -> Result<(PathBuf, String)> {
    python::first_output(&format!("import {module}; print('{module}')")).ok_or_else(|| Failure {
        kind: Kind::Existence,
        message: format!(
            "{needs} needs the Python package, which {} lacks: pip install kubist",
            python::interpreter().display()
        ),
    })
}

/// The short output of a module; Ctrl-C stops it.
pub fn output_of(needs: &str, module: &str, asked: &Value, cancel: &Cancel) -> Result<String> {
    let (python, module) = package(needs, module)?;
    let mut command = Command::new(&python);
    command.args(["-m", &module, &asked.to_string()]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| Failure::io(&python, &error))?;
    let errors = errors_of(&mut child);
    while matches!(child.try_wait(), Ok(None)) {
        if cancel.is_set() {
            let _ = child.kill().and_then(|()| child.wait());
            return Err(Failure::from(kubist::Error::Cancelled));
        }
        std::thread::sleep(POLL);
    }
    let mut output = String::new();
    let read = child.stdout.take().map(|mut stdout| stdout.read_to_string(&mut output));
    let failure = ended(child, errors, &format!("{module} failed"));
    match (failure.message.is_empty(), read) {
        (true, Some(Err(error))) => Err(Failure::io(&python, &error)),
        (true, _) => Ok(output),
        (false, _) => Err(failure),
    }
}

/// Sends rows to the package, which writes a file once it has all rows; Ctrl-C leaves no partial file.
pub fn export(path: &Path, metadata: &Metadata, schema: &Schema, batches: Batches<'_>, cancel: &Cancel) -> Result<()> {
    let (python, module) = package(&format!("{}: this format", path.display()), "kubist.exporting")?;
    let about = json!({ "path": path, "metadata": metadata }).to_string();
    let mut command = Command::new(&python);
    command.args(["-m", &module, &about]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| Failure::io(&python, &error))?;
    let errors = errors_of(&mut child);
    let ended = |child: Child| {
        let otherwise = format!("{}: the Python package could not write this file", path.display());
        ended(child, errors, &otherwise)
    };
    let Some(mut input) = child.stdin.take() else { return Err(ended(child)) };
    match feed(&mut input, schema, batches) {
        Ok(()) => {
            drop(input);
            while !cancel.is_set() {
                if !matches!(child.try_wait(), Ok(None)) {
                    let failure = ended(child);
                    return if failure.message.is_empty() { Ok(()) } else { Err(failure) };
                }
                std::thread::sleep(POLL);
            }
            stop(path, child);
            Err(Failure::from(kubist::Error::Cancelled))
        }
        // The package ended early; its own error explains the broken pipe.
        Err(failure) if failure.kind == Kind::ReaderGone => Err(ended(child)),
        Err(failure) => {
            // Killed before the pipe closes, which the package would take for the end of the rows.
            let _ = child.kill().and_then(|()| child.wait());
            drop(input);
            Err(failure)
        }
    }
}

const POLL: Duration = Duration::from_millis(5);
/// Time for an interrupted package to remove its file.
const PATIENCE: Duration = Duration::from_millis(100);

/// Ends the package and removes the partial file, which `kubist.exporting` names.
fn stop(path: &Path, mut child: Child) {
    // SAFETY: the child has not been waited for, so its process id is still its own.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(POLL);
    }
    let _ = child.kill().and_then(|()| child.wait());
    let (stem, ending) = (path.file_stem().unwrap_or_default(), path.extension().unwrap_or_default());
    let part = format!(".{}.{}.{}", stem.to_string_lossy(), child.id(), ending.to_string_lossy());
    let part = path.with_file_name(part);
    let _ = if part.is_dir() { std::fs::remove_dir_all(part) } else { std::fs::remove_file(part) };
}

fn feed(input: &mut ChildStdin, schema: &Schema, batches: Batches<'_>) -> Result<()> {
    let gone = |error: arrow_schema::ArrowError| match error {
        arrow_schema::ArrowError::IoError(message, error) => {
            Failure { message, ..Failure::io(Path::new("the package"), &error) }
        }
        other => Failure::usage(other),
    };
    let mut writer = StreamWriter::try_new(input, schema).map_err(gone)?;
    for batch in batches {
        writer.write(&batch?).map_err(gone)?;
    }
    writer.finish().map_err(gone)
}

/// Reads standard error, so that a full pipe does not stop the program.
pub fn errors_of(child: &mut Child) -> JoinHandle<String> {
    let errors = child.stderr.take();
    std::thread::spawn(move || {
        let mut said = String::new();
        let _ = errors.map(|mut errors| errors.read_to_string(&mut said));
        said
    })
}

/// An ended program's message, or `otherwise` if it printed none; empty after success.
pub fn ended(mut child: Child, errors: JoinHandle<String>, otherwise: &str) -> Failure {
    let kind = match child.wait() {
        Ok(status) if status.success() => return Failure { kind: Kind::System, message: String::new() },
        Ok(status) if status.code() == Some(Kind::Usage as i32) => Kind::Usage,
        Ok(status) if status.code() == Some(Kind::Existence as i32) => Kind::Existence,
        Ok(status) if status.code() == Some(Kind::Unsound as i32) => Kind::Unsound,
        Ok(status) if status.code() == Some(Kind::Interrupted as i32) => return Failure::interrupted(),
        _ => Kind::System,
    };
    let said = errors.join().unwrap_or_default();
    let said = said.trim();
    let message = if said.is_empty() { otherwise.to_owned() } else { said.to_owned() };
    Failure { kind, message }
}

fn request(command: &args::Ingest, asked: &IngestGroups) -> Value {
    let dimensions: Vec<_> =
        command.dimensions.iter().map(|dimension| (&dimension.column, dimension.domain())).collect();
    json!({
        "table": &*command.table,
        "files": command.files,
        "dimensions": dimensions,
        "identity": command.identity,
        "create": asked.new.as_json(),
        "read": asked.reading.as_json(),
        "writer": asked.writing.as_json(),
        "dry_run": command.dry_run,
        "again": command.again,
        "keep_going": command.keep_going,
        "follow": match command.follow {
            None => json!(false),
            Some(None) => json!(true),
            Some(Some(time)) => json!(time.as_secs_f64()),
        },
        "json": command.json,
    })
}
