//! `kubist sync`: exchanges the changes of two copies of a table.

use kubist::Cancel;
use kubist_sync::{Moved, SyncOptions, sync};

use crate::args;
use crate::failure::Result;
use crate::human;
use crate::output::{print_json, remark};
use crate::progress::Progress;

pub fn run(command: &args::Sync, cancel: &Cancel) -> Result<()> {
    let is_one_way = command.push || command.pull;
    let options = SyncOptions {
        pull: command.pull || !is_one_way,
        push: command.push || !is_one_way,
        memory_bytes: command.memory,
        cancel: cancel.clone(),
    };
    let mut progress = Progress::new();
    let synced = sync(&command.table, &command.other, &options, &mut |done, all| {
        progress.show(done, all, |_| format!("{} of {}", human::count(done), human::count(all)));
    })?;
    drop(progress);
    if command.json {
        return print_json(&synced);
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
