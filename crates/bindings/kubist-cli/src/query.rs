//! `kubist query`: the rows of a region.

use std::path::Path;

use kubist::{Cancel, RunOptions, Table};

use crate::answer;
use crate::args;
use crate::failure::{Failure, Result};
use crate::index;
use crate::output::{print, print_json};
use crate::outside;

pub fn run(command: &args::Query, cancel: &Cancel) -> Result<()> {
    if kubist_blocks::is_array_file(Path::new(&*command.table)) {
        return index::query(command, cancel);
    }
    if let Some(more) = command.more.first() {
        let why = format!("{} is not a file of arrays, so {} cannot be queried with it", command.table, more.display());
        return Err(Failure::usage(why));
    }
    let snapshot = Table::open(&command.table)?.snapshot()?;
    let query = RunOptions::with_cancel(cancel).of(command.query.spec(&snapshot.schema())?);
    let found = if command.count {
        let count = snapshot.count(&query)?;
        if command.output.json {
            return print_json(&serde_json::json!({ "count": count }));
        }
        print(&format!("{count}\n"))?;
        count
    } else {
        answer::send(&command.output, query.spec.limit, snapshot.metadata(), cancel, || snapshot.query(&query))?
            .rows_returned
    };
    if found == 0 && !command.output.json {
        outside::tell(&query.spec.bounds, &snapshot, cancel)?;
    }
    Ok(())
}
