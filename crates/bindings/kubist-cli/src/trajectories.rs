//! `kubist trajectories`: all records of whatever has a record in a region.

use kubist::{Cancel, QuerySpec, RunOptions, Snapshot, Table};

use crate::answer;
use crate::args;
use crate::failure::{Failure, Result};
use crate::{outside, parse};

pub fn run(command: &args::Trajectories, cancel: &Cancel) -> Result<()> {
    let snapshot = Table::open(&command.table)?.snapshot()?;
    let by = match &command.by {
        Some(by) => by.clone(),
        None => only_column(&snapshot)?,
    };
    let run = RunOptions::with_cancel(cancel);
    let through = run.clone().of(QuerySpec {
        bounds: parse::bounds(&command.region.ranges, &snapshot.schema())?,
        filter: command.region.filter.clone(),
        ..QuerySpec::default()
    });
    let records = run.of(QuerySpec { precision: command.region.precision, ..command.answer.spec() });
    let bounds = through.spec.bounds.clone();
    let stats = answer::send(&command.answer, snapshot.metadata(), || snapshot.trajectories(&through, &by, &records))?;
    if stats.rows_returned == 0 && !command.answer.json {
        outside::tell(&bounds, &snapshot, cancel)?;
    }
    Ok(())
}

/// The column that tells trajectories apart where nobody says it: the identity, or else the lookup,
/// if that is one column.
fn only_column(snapshot: &Snapshot) -> Result<String> {
    let info = snapshot.about()?;
    match (&info.identity[..], &info.lookup[..]) {
        ([only], _) | (_, [only]) => Ok(only.clone()),
        _ => Err(Failure::usage(format!(
            "--by: say which column tells trajectories apart; the identity is {}",
            match info.identity.is_empty() {
                true => "each record's own".into(),
                false => info.identity.join(", "),
            }
        ))),
    }
}
