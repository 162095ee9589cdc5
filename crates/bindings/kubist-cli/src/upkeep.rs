//! `kubist optimize` and `kubist clean`.

use std::time::Duration;

use kubist::{Cancel, Location, OptimizeOptions, Table};

use crate::args;
use crate::failure::{Failure, Result};
use crate::human;
use crate::output::{print, print_json};
use crate::progress::Progress;

const PATIENCE: Duration = Duration::from_millis(200);

pub fn optimize(command: &args::Optimize, cancel: &Cancel) -> Result<()> {
    let table = Table::open(Location::from(&command.table).cancelled_by(cancel))?;
    let usual = if command.watch { OptimizeOptions::background() } else { OptimizeOptions::default() };
    let options = OptimizeOptions {
        debt_share: command.debt.unwrap_or(usual.debt_share),
        replication: command.replication,
        recompress: command.recompress,
        cancel: cancel.clone(),
        ..usual
    };
    loop {
        let seen = table.snapshot()?;
        let mut progress = Progress::new();
        let report = table.optimize(&options, &mut |rows, debt| {
            progress.show(rows, rows + debt, |_| format!("{} records moved", human::count(rows)));
        })?;
        drop(progress);
        if command.json {
            print_json(&report)?;
        } else if report.rewrites > 0 || !command.watch {
            print(&format!(
                "{} moved and {} copied in {}{}, {} written; records to move: {} before, {} now{}\n",
                human::counted(report.rows_rewritten, "record"),
                human::count(report.rows_copied),
                human::counted(report.rewrites, "rewrite"),
                match report.lookups_merged {
                    0 => String::new(),
                    merged => format!(", {} merged", human::counted(merged, "lookup")),
                },
                human::bytes(report.bytes_written),
                human::count(report.debt_before),
                human::count(report.debt_after),
                match report.left_to_others {
                    0 => String::new(),
                    others => format!("; {} left to other optimizers", human::counted(others, "part")),
                }
            ))?;
        }
        if !command.watch {
            return Ok(());
        }
        if report.rewrites > 0 {
            continue;
        }
        while table.wait(&seen, Duration::ZERO, PATIENCE)?.is_none() {}
    }
}

pub fn clean(command: &args::Clean) -> Result<()> {
    let hours = command.retention_hours;
    let retention = Duration::try_from_secs_f64(hours * 3600.0)
        .map_err(|_| Failure::usage(format!("--retention-hours: {hours} is not a duration")))?;
    let report = Table::open(&command.table)?.clean(retention)?;
    if command.json {
        return print_json(&report);
    }
    print(&format!(
        "{} deleted ({}), {} waiting; {} freed in other files, {} waiting\n",
        human::counted(report.segments_deleted, "file"),
        human::bytes(report.bytes_deleted),
        human::counted(report.segments_waiting, "file"),
        human::bytes(report.bytes_released),
        human::bytes(report.bytes_waiting)
    ))
}
