//! `kubist salvage`: copies the intact rows of a damaged table into a new table.

use kubist::{Cancel, Table};

use crate::args;
use crate::failure::{Failure, Kind, Result};
use crate::human;
use crate::output::{print, print_json};
use crate::progress::Progress;

pub fn run(command: &args::Salvage, cancel: &Cancel) -> Result<()> {
    let mut progress = Progress::new();
    let report = Table::salvage(&command.table, &command.other, cancel, &mut |done, total| {
        progress.show(done, total, |_| format!("{} of {} records copied", human::count(done), human::count(total)));
    })?;
    drop(progress);
    if command.json {
        print_json(&report)?;
    } else {
        let losses = report.losses.iter().map(|loss| loss.message());
        let lines: String = report.notes.iter().cloned().chain(losses).map(|line| format!("{line}\n")).collect();
        let recovered = match report.rows_recovered {
            0 => String::new(),
            recovered => format!(", {} of them from replicas or replaced files", human::count(recovered)),
        };
        print(&format!("{lines}{}: {}{recovered}\n", command.other, human::counted(report.rows, "record")))?;
    }
    if report.rows_lost == 0 && report.notes.is_empty() {
        return Ok(());
    }
    let lost = match report.rows_lost {
        lost if lost > 0 && report.uncounted => format!("at least {} lost", human::counted(lost, "record")),
        0 => "no known loss, but the notes above list losses that cannot be determined".into(),
        lost => format!("{} lost", human::counted(lost, "record")),
    };
    Err(Failure { kind: Kind::Unsound, message: format!("{}: {lost}", command.table) })
}
