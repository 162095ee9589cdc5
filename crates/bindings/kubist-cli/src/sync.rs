//! `kubist sync`: exchanges the changes of two copies of a table.

use std::thread::sleep;
use std::time::{Duration, Instant};

use kubist::{Cancel, Error, Location, Table};
use kubist_sync::{Moved, SyncOptions, Synced, sync};

use crate::args;
use crate::failure::Result;
use crate::human;
use crate::output::{print_json, remark};
use crate::progress::Progress;

const EVERY: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_millis(200);

pub fn run(command: &args::Sync, cancel: &Cancel) -> Result<()> {
    let mut shown = exchange(command, cancel)?;
    show(command, &shown)?;
    let mut fails = false;
    while command.watch {
        let until = Instant::now() + command.every.unwrap_or(EVERY);
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            cancel.check()?;
            sleep(left.min(PATIENCE));
        }
        match again(command, cancel) {
            Ok(synced) => {
                fails = false;
                if is_news(&synced, &shown) {
                    show(command, &synced)?;
                    shown = synced;
                }
            }
            Err(error @ (Error::Unavailable(_) | Error::Busy(_))) => {
                if !std::mem::replace(&mut fails, true) {
                    remark(&format!("{error}; tries again until it succeeds"));
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// A later exchange, which fails if a table is gone, and makes no new copy.
fn again(command: &args::Sync, cancel: &Cancel) -> kubist::Result<Synced> {
    for location in [&command.table, &command.other] {
        Table::open(Location::from(location).cancelled_by(cancel))?;
    }
    exchange(command, cancel)
}

/// Whether an exchange moved something, or has other conflicts or missing commits than the last one shown.
fn is_news(synced: &Synced, shown: &Synced) -> bool {
    let moved = |one: &Moved| one.commits > 0 || one.retracted > 0 || !one.columns.is_empty();
    moved(&synced.came)
        || moved(&synced.went)
        || (&synced.conflicts, &synced.came.waits, &synced.went.waits)
            != (&shown.conflicts, &shown.came.waits, &shown.went.waits)
}

fn exchange(command: &args::Sync, cancel: &Cancel) -> kubist::Result<Synced> {
    let is_one_way = command.push || command.pull;
    let options = SyncOptions {
        pull: command.pull || !is_one_way,
        push: command.push || !is_one_way,
        memory_bytes: command.memory,
        cancel: cancel.clone(),
    };
    let mut progress = Progress::new();
    sync(&command.table, &command.other, &options, &mut |done, all| {
        progress.show(done, all, |_| format!("{} of {}", human::count(done), human::count(all)));
    })
}

fn show(command: &args::Sync, synced: &Synced) -> Result<()> {
    if command.json {
        return print_json(synced);
    }
    if let Some(created) = &synced.created {
        let rows = synced.came.rows + synced.went.rows;
        remark(&format!(
            "{created}: a copy with {}, in {}",
            human::counted(rows, "record"),
            human::duration(synced.seconds)
        ));
        return Ok(());
    }
    for (location, moved) in [(&command.table, &synced.came), (&command.other, &synced.went)] {
        remark(&format!("{location}: {}", shown(moved)));
        for wait in &moved.waits {
            remark(&format!("{location}: still missing: {wait}; sync with another site"));
        }
    }
    for conflict in &synced.conflicts {
        remark(&format!("both sites changed metadata, and each keeps its own: {conflict}"));
    }
    Ok(())
}

fn shown(moved: &Moved) -> String {
    let mut parts = Vec::new();
    if moved.commits > 0 {
        let rows = human::counted(moved.rows, "record");
        parts.push(format!("{} came with {rows}", human::counted(moved.commits, "commit")));
    }
    if moved.retracted > 0 {
        parts.push(format!("{} retracted", human::counted(moved.retracted, "record")));
    }
    if !moved.columns.is_empty() {
        parts.push(format!("new columns {}", moved.columns.join(", ")));
    }
    if parts.is_empty() { "nothing new".into() } else { parts.join(", ") }
}
