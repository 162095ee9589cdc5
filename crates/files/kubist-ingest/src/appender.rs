//! A writer that appends in the background.

use std::thread::JoinHandle;

use arrow_array::RecordBatch;
use kubist::Writer;

use crate::error::{Error, Result};

/// A thread that appends rows and writes them as runs, while the next rows are read.
#[derive(Default)]
pub struct Appender {
    writer: Option<Writer>,
    behind: Option<JoinHandle<(Writer, kubist::Result<()>)>>,
}

impl Appender {
    pub fn new(writer: Writer) -> Appender {
        Appender { writer: Some(writer), behind: None }
    }

    /// Waits for an append in progress, and returns the writer.
    pub fn get(&mut self) -> Result<&mut Writer> {
        self.wait()?;
        self.writer.as_mut().ok_or_else(|| Error::Table(kubist::Error::internal("the writer is gone")))
    }

    pub fn wait(&mut self) -> Result<()> {
        let Some(behind) = self.behind.take() else { return Ok(()) };
        let (writer, done) =
            behind.join().map_err(|_| Error::Table(kubist::Error::internal("laying rows out panicked")))?;
        self.writer = Some(writer);
        Ok(done?)
    }

    pub fn append_behind(&mut self, batch: RecordBatch) -> Result<()> {
        self.wait()?;
        let Some(mut writer) = self.writer.take() else { return self.get().map(drop) };
        self.behind = Some(std::thread::spawn(move || {
            let done = writer.append(&batch).and_then(|()| writer.lay_out());
            (writer, done)
        }));
        Ok(())
    }

    /// Number of pending rows, without an append in progress.
    pub fn pending_rows(&self) -> u64 {
        self.writer.as_ref().map_or(0, Writer::pending_rows)
    }

    pub fn discard(&mut self) {
        // An error here matters less than the previous one.
        let _ = self.wait();
        if let Some(writer) = &mut self.writer {
            writer.discard();
        }
    }
}
