//! `kubist query`: records of a region.

use std::path::Path;

use kubist::{Cancel, QuerySpec, Request, RunOptions, Snapshot, Table};

use crate::answer;
use crate::args;
use crate::failure::{Failure, Result};
use crate::index;
use crate::output::{print, print_json};
use crate::{outside, parse};

pub fn run(command: &args::Query, cancel: &Cancel) -> Result<()> {
    if command.answer.first.is_some() && command.answer.order_by.is_none() {
        return Err(Failure::usage("--first: of which order? Give --order-by too; --limit draws a uniform sample"));
    }
    if kubist_blocks::is_array_file(Path::new(&*command.table)) {
        return index::query(command, cancel);
    }
    if let Some(more) = command.more.first() {
        let what = format!("{} is no file of arrays: {} cannot be asked with it", command.table, more.display());
        return Err(Failure::usage(what));
    }
    let snapshot = Table::open(&command.table)?.snapshot()?;
    let query = question(command, &snapshot, cancel)?;
    let found = if command.count {
        let count = snapshot.count(&query)?;
        if command.answer.json {
            return print_json(&serde_json::json!({ "count": count }));
        }
        print(&format!("{count}\n"))?;
        count
    } else {
        answer::send(&command.answer, snapshot.metadata(), || snapshot.query(&query))?.rows_returned
    };
    if found == 0 && !command.answer.json {
        outside::tell(&query.spec.bounds, &snapshot, cancel)?;
    }
    Ok(())
}

fn question(command: &args::Query, snapshot: &Snapshot, cancel: &Cancel) -> Result<Request> {
    let schema = snapshot.schema();
    Ok(RunOptions::with_cancel(cancel).of(QuerySpec {
        bounds: parse::bounds(&command.region.ranges, &schema)?,
        precision: command.region.precision,
        window: command.window,
        per_cell: command.per_cell.clone(),
        filter: command.region.filter.clone(),
        ..command.answer.spec()
    }))
}
