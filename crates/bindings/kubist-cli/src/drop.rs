//! `kubist drop`: deletes a table after confirmation.

use std::io::{BufRead, IsTerminal, Write};

use kubist::{Cancel, Table};

use crate::args;
use crate::failure::{Failure, Kind, Result};
use crate::human;
use crate::location::Location;
use crate::output::{print_json, remark};

pub fn run(command: &args::Drop, cancel: &Cancel) -> Result<()> {
    if !command.yes && !is_wanted(&command.table)? {
        return Err(Failure { kind: Kind::Usage, message: format!("{}: not dropped", command.table) });
    }
    let dropped = Table::drop_at(kubist::Location::from(&command.table).cancelled_by(cancel), command.force)?;
    if command.json {
        return print_json(&dropped);
    }
    let files = human::counted(dropped.files, "file");
    remark(&format!("{}: dropped, {files} ({}) deleted", command.table, human::bytes(dropped.bytes)));
    if dropped.files_left > 0 {
        remark(&format!("{} that do not belong to the table remain", human::counted(dropped.files_left, "file")));
    }
    Ok(())
}

fn is_wanted(table: &Location) -> Result<bool> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage(format!("{table}: standard input is not a terminal; give --yes to drop the table")));
    }
    // A table that cannot be opened, such as after an interrupted drop, can be dropped too.
    let what = match Table::open(table).and_then(|table| table.snapshot()?.info()) {
        Ok(info) => format!("{}, {}", human::counted(info.about.rows, "record"), human::bytes(info.disk.total)),
        Err(error) => error.to_string(),
    };
    let mut stderr = std::io::stderr();
    // The answer is read even if the question cannot be written.
    let _ = write!(stderr, "drop {table} ({what})? [y/N] ").and_then(|()| stderr.flush());
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| Failure::io(std::path::Path::new("the terminal"), &error))?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
