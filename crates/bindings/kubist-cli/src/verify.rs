//! `kubist verify`: checks a table for damage and lists the findings.

use kubist::{Cancel, Table, VerifyOptions};

use crate::args;
use crate::failure::{Failure, Kind, Result};
use crate::human;
use crate::output::{print, print_json};
use crate::progress::Progress;

pub fn run(command: &args::Verify, cancel: &Cancel) -> Result<()> {
    let mut progress = Progress::new();
    let options = VerifyOptions { deep: command.deep, cancel: cancel.clone() };
    let report = Table::verify_at(&command.table, &options, &mut |done, total| {
        progress.show(done, total, |seconds| {
            let rate = human::bytes((done as f64 / seconds) as u64);
            format!("{} of {} checked, {rate}/s", human::bytes(done), human::bytes(total))
        });
    })?;
    let seconds = progress.seconds();
    drop(progress);
    let looked = match report.deep {
        true => human::counted(report.pages, "page"),
        false => "no page read: use --deep".into(),
    };
    let replicas = match report.replicas {
        0 => String::new(),
        replicas => format!(", {}", human::counted(replicas, "replica")),
    };
    let checked = format!(
        "{} in {}{replicas} ({}, {looked}), {}",
        human::counted(report.rows, "record"),
        human::counted(report.runs, "run"),
        human::bytes(report.bytes),
        human::duration(seconds)
    );
    let held = match report.held {
        Some(_) => "; a partial copy: the rest is at its source",
        None => "",
    };
    if command.json {
        print_json(&report)?;
    } else if report.is_sound() {
        print(&format!("intact: {checked}{held}\n"))?;
    } else {
        let unread = report.unread.iter().map(|what| format!("could not be read: {what}\n"));
        print(&report.findings.iter().map(|finding| format!("{finding}\n")).chain(unread).collect::<String>())?;
    }
    if report.is_sound() {
        return Ok(());
    }
    let unread = match report.unread.len() as u64 {
        0 => String::new(),
        locations => format!(
            "; {} with {} could not be read, so their condition is unknown",
            human::counted(locations, "location"),
            human::counted(report.rows_unread, "record")
        ),
    };
    if report.findings.is_empty() {
        let message = format!("{}: no damage found in {checked}{unread}", command.table);
        return Err(Failure { kind: Kind::System, message });
    }
    let findings = human::counted(report.findings.len() as u64, "finding");
    let lost = match (report.rows_lost, report.rows_recoverable) {
        (0, _) => String::new(),
        (lost, 0) => format!("; {} lost", human::counted(lost, "record")),
        (lost, recoverable) => {
            format!("; {} lost, {} of them in replicas", human::counted(lost, "record"), human::count(recoverable))
        }
    };
    Err(Failure { kind: Kind::Unsound, message: format!("{}: {findings} in {checked}{lost}{unread}", command.table) })
}
