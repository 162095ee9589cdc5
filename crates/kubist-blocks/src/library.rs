//! The formats' own library, in a process of its own.
//!
//! HDF5 is read through h5py, which is Python's: where its arrays lie, and what only it can decode. The
//! process has a memory limit of its own, and a file that makes the library crash ends that process alone.
//!
//! A request is a line of JSON. The answer is a line of JSON, which says how many bytes follow it.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kubist_types::{Cancel, Error, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::layout::{Chunk, Layout, Storage};
use crate::shape::Rect;

/// The module that answers.
const MODULE: &str = "kubist.indexing.library";
/// Longer answers are not taken.
const LONGEST_LINE: u64 = 256 << 20;
const LONGEST_ANSWER: u64 = 4 << 30;
const PATIENCE: Duration = Duration::from_millis(50);
/// Bytes of a chunk in a table: number, offset, stored bytes, filters left out.
const CHUNK_BYTES: usize = 32;

/// The process, started when it is first asked.
pub struct Library {
    python: PathBuf,
    running: Mutex<Option<Running>>,
}

struct Running {
    /// The process that started it; one that was forked from that has no part in it.
    owner: u32,
    child: Child,
    input: ChildStdin,
    answers: Receiver<std::io::Result<(String, Vec<u8>)>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.owner == std::process::id() {
            // It holds nothing that could be lost; whether it had ended already does not matter.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    bytes: u64,
    #[serde(default)]
    layout: Option<Layout>,
    /// How many chunks each variable has.
    #[serde(default)]
    chunks: Vec<u64>,
}

impl Library {
    /// Through this Python, which must find the package.
    pub fn new(python: &Path) -> Library {
        Library { python: python.to_path_buf(), running: Mutex::new(None) }
    }

    /// Where the arrays of a file lie.
    ///
    /// # Errors
    ///
    /// `Invalid` names what the library says of the file, `Unavailable` that there is none; `Cancelled`.
    pub fn layout(&self, path: &Path, cancel: &Cancel) -> Result<Layout> {
        let (head, bytes) = self.ask(path, &json!({ "do": "layout", "path": path }), cancel)?;
        let odd = || Error::invalid(format!("{}: its library gave no sound answer", path.display()));
        let mut layout = head.layout.ok_or_else(odd)?;
        if head.chunks.len() != layout.variables.len() {
            return Err(odd());
        }
        let mut rows = bytes.chunks_exact(CHUNK_BYTES);
        for (variable, count) in layout.variables.iter_mut().zip(head.chunks) {
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

    /// The stored numbers of a rectangle, as the file orders their bytes.
    ///
    /// # Errors
    ///
    /// `Damaged` names the variable and what the library says; `Unavailable`; `Cancelled`.
    pub fn read(&self, path: &Path, variable: &str, rect: &Rect, bytes: u64, cancel: &Cancel) -> Result<Vec<u8>> {
        let question =
            json!({ "do": "read", "path": path, "variable": variable, "start": rect.start, "count": rect.count });
        let damaged = |what: String| Error::Damaged { file: path.display().to_string(), offset: 0, what };
        let (_, answer) = self.ask(path, &question, cancel).map_err(|error| match error {
            Error::Invalid(message) => damaged(format!("variable {variable:?}: {message}")),
            other => other,
        })?;
        match answer.len() as u64 == bytes {
            true => Ok(answer),
            false => Err(damaged(format!("variable {variable:?}: its library gave {} bytes", answer.len()))),
        }
    }

    fn ask(&self, path: &Path, question: &Value, cancel: &Cancel) -> Result<(Head, Vec<u8>)> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.as_ref().is_some_and(|process| process.owner != std::process::id()) {
            *running = None;
        }
        let process = match &mut *running {
            Some(process) => process,
            none => none.insert(self.start()?),
        };
        let sent = writeln!(process.input, "{question}").and_then(|()| process.input.flush());
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
        let (line, bytes) = match answer {
            Ok(answer) => answer,
            Err(_) => {
                *running = None;
                return Err(Error::invalid(format!(
                    "{}: the library that reads it (h5py, in {}) ended without an answer: the file may be damaged, \
                     or kubist[files] is not installed there",
                    path.display(),
                    self.python.display()
                )));
            }
        };
        let head: Head = serde_json::from_str(&line).map_err(|error| {
            Error::invalid(format!("{}: its library gave no sound answer: {error}", path.display()))
        })?;
        match head.error {
            Some(error) => Err(Error::invalid(format!("{}: {error}", path.display()))),
            None => Ok((head, bytes)),
        }
    }

    fn start(&self) -> Result<Running> {
        let mut child = Command::new(&self.python)
            .args(["-m", MODULE])
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

fn answer(output: &mut impl BufRead) -> std::io::Result<(String, Vec<u8>)> {
    let mut line = String::new();
    output.take(LONGEST_LINE).read_line(&mut line)?;
    if line.is_empty() {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    let length = serde_json::from_str::<Head>(&line).map_or(0, |head| head.bytes);
    if length > LONGEST_ANSWER {
        return Err(std::io::ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::new();
    output.take(length).read_to_end(&mut bytes)?;
    Ok((line, bytes))
}
