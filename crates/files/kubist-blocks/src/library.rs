//! Runs the HDF5 library in a separate process, so that a damaged file can crash only that process.
//!
//! The process runs Python's h5py (`kubist/indexing/library.py`) with a memory limit. It returns the layout of a file,
//! and the values of arrays whose compression this crate cannot decode.
//!
//! A request is one line of JSON on its standard input. The response is one line of JSON, followed by the number of
//! bytes that the line states. There is one request at a time. After a cancelled request or an invalid response, the
//! process is ended, and the next request starts a new one.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kubist_types::{Cancel, Error, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::layout::{Chunk, Layout, Storage, calendar};
use crate::shape::Rect;

/// Runs the script without importing the package `kubist`, which would take longer than loading the library.
const START: &str = "import importlib.util, os, runpy; \
    package = importlib.util.find_spec('kubist').submodule_search_locations[0]; \
    runpy.run_path(os.path.join(package, 'indexing', 'library.py'), run_name='__main__')";
/// The maximum length of a response's line, in bytes.
const LONGEST_LINE: u64 = 256 << 20;
/// The maximum number of bytes after the line.
const LONGEST_ANSWER: u64 = 4 << 30;
/// The time between two checks for cancellation while a request runs.
const PATIENCE: Duration = Duration::from_millis(50);
/// The bytes of a chunk in a response: four 8-byte numbers (number, offset, stored bytes, mask of skipped filters).
const CHUNK_BYTES: usize = 32;

/// The library's process, which starts at the first request.
pub struct Library {
    python: PathBuf,
    running: Mutex<Option<Running>>,
}

struct Running {
    /// The id of the process that started the child. After a fork, the new process has the same pipes, but must not
    /// use them.
    owner: u32,
    child: Child,
    input: ChildStdin,
    answers: Receiver<std::io::Result<(Head, Vec<u8>)>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.owner == std::process::id() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// The line of JSON of a response.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    error: Option<String>,
    /// The number of bytes after the line.
    #[serde(default)]
    bytes: u64,
    #[serde(default)]
    layout: Option<Layout>,
    /// The number of chunks of each variable.
    #[serde(default)]
    chunks: Vec<u64>,
}

impl Library {
    /// Creates a library. `python` is an interpreter that has `kubist[files]` installed.
    pub fn new(python: &Path) -> Library {
        Library { python: python.to_path_buf(), running: Mutex::new(None) }
    }

    /// The layout of a file, before `Layout::check`.
    ///
    /// # Errors
    ///
    /// `Invalid` with the library's message, or if the response is invalid; a storage error if Python does
    /// not start; `Cancelled`.
    pub fn layout(&self, path: &Path, cancel: &Cancel) -> Result<Layout> {
        let (head, bytes) = self.ask(path, &json!({ "do": "layout", "path": raw(path) }), cancel)?;
        let odd = || Error::invalid(format!("{}: its library gave no valid response", path.display()));
        let mut layout = head.layout.ok_or_else(odd)?;
        if head.chunks.len() != layout.variables.len() {
            return Err(odd());
        }
        let mut rows = bytes.chunks_exact(CHUNK_BYTES);
        for (variable, count) in layout.variables.iter_mut().zip(head.chunks) {
            variable.calendar = calendar(variable.unit.as_deref(), variable.calendar.take());
            let Storage::Chunks { table, .. } = &mut variable.storage else { continue };
            for _ in 0..count {
                let row = rows.next().ok_or_else(odd)?;
                let word = |at: usize| row[at..at + 8].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
                table.push(Chunk { number: word(0), offset: word(8), bytes: word(16), skipped: word(24) as u32 });
            }
            table.sort_unstable_by_key(|chunk| chunk.number);
        }
        Ok(layout)
    }

    /// The decoded values in a rectangle of a variable: `bytes` bytes, in the file's byte order.
    ///
    /// # Errors
    ///
    /// `Damaged` names the variable and has the library's message; a storage error if Python does not
    /// start; `Cancelled`.
    pub fn read(&self, path: &Path, variable: &str, rect: &Rect, bytes: u64, cancel: &Cancel) -> Result<Vec<u8>> {
        let request =
            json!({ "do": "read", "path": raw(path), "variable": variable, "start": rect.start, "count": rect.count });
        let damaged = |what: String| Error::Damaged { file: path.display().to_string(), offset: 0, what };
        let (_, answer) = self.ask(path, &request, cancel).map_err(|error| match error {
            Error::Invalid(message) => damaged(format!("variable {variable:?}: {message}")),
            other => other,
        })?;
        match answer.len() as u64 == bytes {
            true => Ok(answer),
            false => Err(damaged(format!("variable {variable:?}: its library gave {} bytes", answer.len()))),
        }
    }

    fn ask(&self, path: &Path, request: &Value, cancel: &Cancel) -> Result<(Head, Vec<u8>)> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.as_ref().is_some_and(|process| process.owner != std::process::id()) {
            *running = None;
        }
        let process = match &mut *running {
            Some(process) => process,
            none => none.insert(self.start()?),
        };
        let sent = writeln!(process.input, "{request}").and_then(|()| process.input.flush());
        let answer = match sent {
            Err(error) => Err(error),
            Ok(()) => loop {
                match process.answers.recv_timeout(PATIENCE) {
                    Ok(answer) => break answer,
                    Err(RecvTimeoutError::Timeout) if cancel.is_set() => {
                        *running = None;
                        return Err(Error::Cancelled);
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break Err(std::io::ErrorKind::UnexpectedEof.into()),
                }
            },
        };
        let (head, bytes) = match answer {
            Ok(answer) => answer,
            Err(error) => {
                // Late output of the process could be taken for the response to the next request, so the process is
                // ended.
                *running = None;
                let what = match error.kind() {
                    std::io::ErrorKind::InvalidData => format!("gave no valid response ({error})"),
                    _ => "ended without a response".into(),
                };
                return Err(Error::invalid(format!(
                    "{}: the library that reads it (h5py, in {}) {what}: the file may be damaged, or kubist[files] is \
                     not installed there",
                    path.display(),
                    self.python.display()
                )));
            }
        };
        match head.error {
            Some(error) => Err(Error::invalid(format!("{}: {error}", path.display()))),
            None => Ok((head, bytes)),
        }
    }

    fn start(&self) -> Result<Running> {
        let mut child = Command::new(&self.python)
            .args(["-c", START])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| Error::io(format!("cannot start {}: {error}", self.python.display()), error))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::internal("a process started without its pipes"));
        };
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            let mut output = BufReader::new(output);
            loop {
                let answer = answer(&mut output);
                let ended = answer.is_err();
                if sender.send(answer).is_err() || ended {
                    return;
                }
            }
        });
        Ok(Running { owner: std::process::id(), child, input, answers })
    }
}

/// A path as bytes, because it may not be valid UTF-8.
fn raw(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

fn answer(output: &mut impl BufRead) -> std::io::Result<(Head, Vec<u8>)> {
    let mut line = Vec::new();
    output.take(LONGEST_LINE).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    let odd = |error: String| std::io::Error::new(std::io::ErrorKind::InvalidData, error);
    let head: Head = serde_json::from_slice(&line).map_err(|error| odd(error.to_string()))?;
    if head.bytes > LONGEST_ANSWER {
        return Err(odd(format!("{} bytes", head.bytes)));
    }
    let mut bytes = Vec::new();
    output.take(head.bytes).read_to_end(&mut bytes)?;
    match bytes.len() as u64 == head.bytes {
        true => Ok((head, bytes)),
        false => Err(std::io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn library(folder: &Path, first: &str) -> Library {
        let program = folder.join("python");
        let script = format!(
            "#!/bin/sh\nif [ ! -e {0}/asked ]; then touch {0}/asked; read -r line; printf '%s\\n' '{first}'; fi\n\
             while read -r line; do printf '%s\\n' '{{\"error\": \"second\", \"bytes\": 0}}'; done\n",
            folder.display()
        );
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        Library::new(&program)
    }

    #[test]
    fn after_an_answer_that_is_none_the_next_question_gets_its_own() {
        for odd in
            ["no JSON", r#"{"bytes": 0, "layout": NaN}"#, r#"{"error": "\udc80", "bytes": 9}"#, r#"{"bytes": -1}"#]
        {
            let folder = tempfile::tempdir().unwrap();
            let library = library(folder.path(), odd);
            let ask = || library.layout(Path::new("file"), &Cancel::default()).unwrap_err().to_string();
            let first = ask();
            assert!(first.contains("no valid response"), "{odd}: {first}");
            assert_eq!(ask(), "file: second", "{odd}");
        }
    }
}
