//! Writers: append, and commit with a token.

use std::sync::Mutex;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use jni_sys::{jbyteArray, jlong};
use kubist::{Cancel, CommitOptions, Committed, ErrorKind, Table, Writer, WriterOptions};
use serde::Deserialize;

use crate::batches::incoming;
use crate::handles::{held, hold, lock};
use crate::jvm::{Class, Env, Failure, Result, ended, hand_json_out, json};
use crate::plain::plain_schema;

pub struct Open {
    /// `None` once closed; the writer's name is then free, even if handles remain.
    writer: Mutex<Option<Writer>>,
    plain: SchemaRef,
    cancel: Cancel,
}

impl Open {
    fn with<T>(&self, work: impl FnOnce(&mut Writer) -> Result<T>) -> Result<T> {
        match lock(&self.writer).as_mut() {
            Some(writer) => work(writer),
            None => Err(Failure::new(ErrorKind::Expired, "this writer was closed")),
        }
    }

    /// # Errors
    ///
    /// `Invalid` names the column and the value that do not fit; otherwise as [`Writer::append`].
    pub fn append(&self, rows: &RecordBatch) -> Result<()> {
        self.with(|writer| Ok(writer.append(rows)?))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Working {
    name: Option<String>,
    memory_bytes: Option<usize>,
    #[serde(default)]
    optimize: bool,
}

#[unsafe(no_mangle)]
pub extern "system" fn Java_org_kubist_Native_writerOpen(
    env: Env,
    _: Class,
    table: jlong,
    options: jbyteArray,
) -> jlong {
    ended(env, 0, || {
        // SAFETY: see lib.rs.
        let Working { name, memory_bytes, optimize } = unsafe { json(env, "options", options) }?;
        let table = held::<Table>("table", table)?;
        let cancel = Cancel::default();
        let schema = table.schema()?;
        let plain = plain_schema(&schema)?;
        let writer = table.writer(&WriterOptions { name, memory_bytes, optimize, cancel: cancel.clone() })?;
        Ok(hold(Open { writer: Mutex::new(Some(writer)), plain, cancel }))
    })
}

#[unsafe(no_mangle)]
pub extern "system" fn Java_org_kubist_Native_append(env: Env, _: Class, writer: jlong, address: jlong) {
    ended(env, (), || {
        let open = held::<Open>("writer", writer)?;
        // SAFETY: Java keeps the memory valid during the call, and the writer makes a copy.
        open.append(&unsafe { incoming(address, &open.plain) }?)
    });
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Committing {
    step: Option<i64>,
    token: Option<String>,
}

#[unsafe(no_mangle)]
pub extern "system" fn Java_org_kubist_Native_commit(
    env: Env,
    _: Class,
    writer: jlong,
    options: jbyteArray,
) -> jbyteArray {
    ended(env, std::ptr::null_mut(), || {
        // SAFETY: see lib.rs.
        let Committing { step, token } = unsafe { json(env, "options", options) }?;
        let open = held::<Open>("writer", writer)?;
        let committed: Committed = open.with(|writer| Ok(writer.commit_as(&CommitOptions { step, token })?))?;
        // SAFETY: see lib.rs.
        unsafe { hand_json_out(env, &committed) }
    })
}

/// Cancels and closes a writer, and drops uncommitted rows.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_kubist_Native_writerClose(env: Env, _: Class, writer: jlong) {
    ended(env, (), || {
        let open = held::<Open>("writer", writer)?;
        open.cancel.set();
        let closed = lock(&open.writer).take();
        drop(closed);
        Ok(())
    });
}
