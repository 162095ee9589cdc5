//! Parallel requests, for stores with network latency.

use std::panic::resume_unwind;
use std::thread;

use bytes::Bytes;
use kubist_format::names::{CHECKPOINTS, DROPPED, GRID, REWRITES, TABLE};
use kubist_store::{Latency, Result, Store, switches};

const AT_ONCE: usize = 16;

/// True if each request takes a network round trip.
pub fn is_far(store: &dyn Store) -> bool {
    store.capabilities().latency == Latency::Network
}

/// The first requests of opening a table, which come before any log is read, as following requires.
pub struct FirstLook {
    pub dropped: Option<Bytes>,
    pub table: Option<Bytes>,
    pub checkpoints: Vec<String>,
    pub rewrites: Vec<String>,
    pub segments: Vec<String>,
    pub grid: Option<Bytes>,
}

impl FirstLook {
    /// # Errors
    ///
    /// The first error of [`Store::get`], [`Store::list`] or [`Store::segments`].
    pub fn at(store: &dyn Store) -> Result<FirstLook> {
        let switches = &switches();
        thread::scope(|scope| {
            let dropped = scope.spawn(|| switches.around(|| store.get(DROPPED)));
            let table = scope.spawn(|| switches.around(|| store.get(TABLE)));
            let checkpoints = scope.spawn(|| switches.around(|| store.list(CHECKPOINTS)));
            let rewrites = scope.spawn(|| switches.around(|| store.list(REWRITES)));
            let grid = scope.spawn(|| switches.around(|| store.get(GRID)));
            let segments = store.segments();
            Ok(FirstLook {
                dropped: answer(dropped)?,
                table: answer(table)?,
                checkpoints: answer(checkpoints)?,
                rewrites: answer(rewrites)?,
                segments: segments?,
                grid: answer(grid)?,
            })
        })
    }
}

fn answer<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

pub fn in_parallel<A: Send, B>(
    store: &dyn Store,
    first: impl FnOnce() -> A + Send,
    second: impl FnOnce() -> B,
) -> (A, B) {
    match is_far(store) {
        true => thread::scope(|scope| {
            let switches = switches();
            let first = scope.spawn(move || switches.around(first));
            let second = second();
            (answer(first), second)
        }),
        false => (first(), second()),
    }
}

/// # Errors
///
/// The first error of [`Store::get`].
pub fn get_all(store: &dyn Store, names: &[String]) -> Result<Vec<Option<Bytes>>> {
    if !is_far(store) || names.len() < 2 {
        return names.iter().map(|name| store.get(name)).collect();
    }
    let (switches, mut found) = (&switches(), Vec::with_capacity(names.len()));
    for some in names.chunks(AT_ONCE) {
        let answers: Vec<Result<Option<Bytes>>> = thread::scope(|scope| {
            let spawned = some.iter().map(|name| scope.spawn(move || switches.around(|| store.get(name))));
            let threads: Vec<_> = spawned.collect();
            threads.into_iter().map(answer).collect()
        });
        for found_or_not in answers {
            found.push(found_or_not?);
        }
    }
    Ok(found)
}
