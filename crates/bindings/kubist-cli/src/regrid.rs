//! `kubist regrid`: changes the dimensions or domains of a table.

use kubist::{Cancel, GridOptions, Table};

use crate::args;
use crate::failure::Result;
use crate::output::{print_json, remark};
use crate::progress::Progress;
use crate::{human, parse};

pub fn run(command: &args::Regrid, cancel: &Cancel) -> Result<()> {
    let table = Table::open(&command.table)?;
    let options = GridOptions {
        dimensions: match &command.dimensions[..] {
            [] => None,
            given => Some(parse::dimensions(given, table.schema()?.as_ref())?),
        },
        period: command.period.iter().flat_map(parse::Periods::values).collect(),
        cancel: cancel.clone(),
        ..GridOptions::default()
    };
    let mut progress = Progress::new();
    let done = table.regrid(&options, &mut |rows, left| {
        progress.show(rows, rows + left, |_| format!("{} records moved", human::count(rows)));
    })?;
    drop(progress);
    if command.json {
        return print_json(&done);
    }
    remark(&format!(
        "{}: grid {}; {} moved to it, {} written",
        command.table,
        done.grid,
        human::counted(done.optimized.rows_moved, "record"),
        human::bytes(done.optimized.bytes_written)
    ));
    Ok(())
}
