//! `kubist copy`: copies a snapshot into a new table.

use kubist::{Cancel, CopyOptions, Table};

use crate::args;
use crate::failure::Result;
use crate::output::{print_json, remark};
use crate::progress::Progress;
use crate::{human, parse};

pub fn run(command: &args::Copy, cancel: &Cancel) -> Result<()> {
    let mut snapshot = Table::open(&command.table)?.snapshot()?;
    if let Some(step) = command.step {
        snapshot = snapshot.at_step(step)?;
    }
    let options = CopyOptions {
        dimensions: match &command.dimensions[..] {
            [] => None,
            given => Some(parse::dimensions(given, &snapshot.schema())?),
        },
        capacity: command.capacity,
        types: command.types.clone().map_or(Vec::new(), |types| types.0),
        strata: command.strata,
        period: command.period.iter().flat_map(parse::Periods::values).collect(),
        memory_bytes: command.memory,
        cancel: cancel.clone(),
        ..CopyOptions::default()
    };
    let mut progress = Progress::new();
    let copied = snapshot.copy_to(&command.other, &options, &mut |done, all| {
        progress.show(done, all, |seconds| {
            format!("{} records read, {}/s", human::count(done), human::rate(done as f64 / seconds))
        });
    })?;
    drop(progress);
    if command.json {
        return print_json(&copied);
    }
    remark(&format!(
        "{}: {} from {} in {}, {} written",
        command.other,
        human::counted(copied.rows, "record"),
        command.table,
        human::duration(copied.seconds),
        human::bytes(copied.bytes_written)
    ));
    Ok(())
}
