//! Rows from many processes for one commit. Each process writes an Arrow IPC file into a shared folder, and the
//! committing process reads them.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::sync::Mutex;

use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, SchemaRef};
use jni_sys::{jbyteArray, jlong};
use kubist::{ErrorKind, Table};

use crate::batches::incoming;
use crate::handles::{held, hold, lock};
use crate::jvm::{Class, Env, Failure, ended, text};
use crate::plain::plain_schema;
use crate::writer::Open;

const BATCH_BYTES: u64 = 1 << 30;

/// `file` is `None` once it is finished.
struct Staged {
    path: String,
    columns: SchemaRef,
    file: Mutex<Option<StreamWriter<BufWriter<File>>>>,
}

fn of_io(what: &str, path: &str, error: &std::io::Error) -> Failure {
    Failure::new(ErrorKind::of_io(error), format!("cannot {what} {path}: {error}"))
}

fn of_arrow(what: &str, path: &str, error: &ArrowError) -> Failure {
    match error {
        ArrowError::IoError(_, error) => of_io(what, path, error),
        other => Failure::new(ErrorKind::Internal, format!("cannot {what} {path}: {other}")),
    }
}

#[unsafe(no_mangle)]
pub extern "system" fn Java_org_kubist_Native_stage(env: Env, _: Class, table: jlong, path: jbyteArray) -> jlong {
    ended(env, 0, || {
        // SAFETY: see lib.rs.
        let path = unsafe { text(env, "path", path) }?;
        let columns = plain_schema(&*held::<Table>("table", table)?.schema()?)?;
        let file = File::create_new(&path).map_err(|error| of_io("create", &path, &error))?;
        let writer = StreamWriter::try_new(BufWriter::new(file), &columns);
        let writer = writer.map_err(|error| of_arrow("write", &path, &error))?;
        Ok(hold(Staged { path, columns, file: Mutex::new(Some(writer)) }))
    })
}

#[unsafe(no_mangle)]
pub extern "system" fn Java_org_kubist_Native_stageAppend(env: Env, _: Class, staged: jlong, address: jlong) {
    ended(env, (), || {
        let staged = held::<Staged>("file", staged)?;
        // SAFETY: Java keeps the memory valid during the call, and the batch is written before it ends.
        let batch = unsafe { incoming(address, &staged.columns) }?;
        match lock(&staged.file).as_mut() {
            Some(file) => file.write(&batch).map_err(|error| of_arrow("write", &staged.path, &error)),
            None => Err(Failure::new(ErrorKind::Expired, "this file was finished")),
        }
    });
}

#[unsafe(no_mangle)]
pub extern "system" fn Java_org_kubist_Native_stageFinish(env: Env, _: Class, staged: jlong) {
    ended(env, (), || {
        let staged = held::<Staged>("file", staged)?;
        let Some(mut writer) = lock(&staged.file).take() else { return Ok(()) };
        let path = &staged.path;
        writer.finish().map_err(|error| of_arrow("write", path, &error))?;
        let mut buffered = writer.into_inner().map_err(|error| of_arrow("write", path, &error))?;
        buffered.flush().map_err(|error| of_io("write", path, &error))?;
        buffered.get_ref().sync_all().map_err(|error| of_io("sync", path, &error))
    });
}

#[unsafe(no_mangle)]
pub extern "system" fn Java_org_kubist_Native_appendStaged(env: Env, _: Class, writer: jlong, path: jbyteArray) {
    ended(env, (), || {
        // SAFETY: see lib.rs.
        let path = unsafe { text(env, "path", path) }?;
        let writer = held::<Open>("writer", writer)?;
        let read = |error: kubist_ipc::Error| {
            let kind = match &error {
                kubist_ipc::Error::Io(error) => ErrorKind::of_io(error),
                _ => ErrorKind::Corrupt,
            };
            Failure::new(kind, format!("cannot read {path}: {error}"))
        };
        let file = File::open(&path).map_err(|error| of_io("read", &path, &error))?;
        let mut batches = kubist_ipc::Stream::begin(BufReader::new(file), BATCH_BYTES).map_err(read)?;
        while let Some(batch) = batches.next().map_err(read)? {
            writer.append(&batch)?;
        }
        Ok(())
    });
}
