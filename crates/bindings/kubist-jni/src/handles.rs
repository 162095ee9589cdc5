//! Objects that Java refers to by number: tables, snapshots, streams, writers. Numbers are never reused. A call
//! keeps its object alive, so another thread can close the handle during the call.

use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use jni_sys::{jbyteArray, jlong};
use serde::Serialize;

use crate::batches;
use crate::jvm::{Class, Env, Failure, Result, ended, hand_json_out};

type Handles = HashMap<jlong, Arc<dyn Any + Send + Sync>>;

static HANDLES: LazyLock<Mutex<Handles>> = LazyLock::new(Mutex::default);
static NEXT: AtomicI64 = AtomicI64::new(1);

/// Ignores a poisoned lock, because statements under these locks leave no partial state.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn hold<T: Any + Send + Sync>(thing: T) -> jlong {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    lock(&HANDLES).insert(number, Arc::new(thing));
    number
}

/// # Errors
///
/// `Expired` if it was closed.
pub fn held<T: Any + Send + Sync>(what: &str, number: jlong) -> Result<Arc<T>> {
    let found = lock(&HANDLES).get(&number).cloned();
    let closed = || Failure::new(kubist::ErrorKind::Expired, format!("this {what} was closed"));
    found.and_then(|thing| thing.downcast().ok()).ok_or_else(closed)
}

/// Closes a handle, also repeatedly.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_kubist_Native_close(env: Env, _: Class, number: jlong) {
    ended(env, (), || {
        let closed = lock(&HANDLES).remove(&number);
        drop(closed);
        Ok(())
    });
}

#[derive(Serialize)]
struct Held {
    handles: usize,
    arrays: i64,
}

/// Numbers of handles and batches that Java holds, as JSON.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_kubist_Native_held(env: Env, _: Class) -> jbyteArray {
    ended(env, std::ptr::null_mut(), || {
        let held = Held { handles: lock(&HANDLES).len(), arrays: batches::out() };
        // SAFETY: see lib.rs.
        unsafe { hand_json_out(env, &held) }
    })
}
