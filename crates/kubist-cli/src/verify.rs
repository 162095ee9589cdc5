//! `kubist verify`: reads all of a table and tells what is wrong with it.

use kubist::{Cancel, Table};

use crate::args;
use crate::failure::{Failure, Kind, Result};
use crate::human;
use crate::output::{print, print_json};
use crate::progress::Progress;

pub fn run(command: &args::Verify, cancel: &Cancel) -> Result<()> {
    let table = Table::open(&command.table)?;
    let mut progress = Progress::new();
    let report = table.verify(cancel, &mut |done, total| {
        progress.show(done, total, |seconds| {
            let rate = human::bytes((done as f64 / seconds) as u64);
            format!("{} of {} checked, {rate}/s", human::bytes(done), human::bytes(total))
        });
    })?;
    let seconds = progress.seconds();
    drop(progress);
    let checked = format!(
        "{} in {} and {} ({}), {}",
        human::counted(report.rows, "record"),
        human::counted(report.runs, "run"),
        human::counted(report.pages, "page"),
        human::bytes(report.bytes),
        human::duration(seconds)
    );
    if command.json {
        print_json(&report)?;
    } else if report.findings.is_empty() {
        print(&format!("sound: {checked}\n"))?;
    } else {
        print(&report.findings.iter().map(|finding| format!("{finding}\n")).collect::<String>())?;
    }
    if report.findings.is_empty() {
        return Ok(());
    }
    let findings = human::counted(report.findings.len() as u64, "finding");
    Err(Failure { kind: Kind::Unsound, message: format!("{}: {findings} among {checked}", command.table) })
}
