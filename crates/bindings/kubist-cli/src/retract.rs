//! `kubist retract`: removes the last steps of a table.

use kubist::{Cancel, Location, Table};

use crate::args;
use crate::failure::Result;
use crate::human;
use crate::output::{print_json, remark};

pub fn run(command: &args::Retract, cancel: &Cancel) -> Result<()> {
    let retracted = Table::open(Location::from(&command.table).cancelled_by(cancel))?.retract(command.step_after)?;
    if command.json {
        return print_json(&retracted);
    }
    let rows = human::counted(retracted.rows, "record");
    remark(&format!("{}: {rows} after step {} retracted", command.table, command.step_after));
    Ok(())
}
