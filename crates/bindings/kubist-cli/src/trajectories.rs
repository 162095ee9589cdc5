//! `kubist trajectories`: all records of whatever has a record in a region.

use kubist::{Cancel, QuerySpec, RunOptions, Snapshot, Table};

use crate::answer;
use crate::args;
use crate::failure::{Failure, Result};
use crate::outside;

pub fn run(command: &args::Trajectories, cancel: &Cancel) -> Result<()> {
    let snapshot = Table::open(&command.table)?.snapshot()?;
    let by = match &command.by {
        Some(by) => by.clone(),
        None => only_column(&snapshot)?,
    };
    let run = RunOptions::with_cancel(cancel);
    let region = command.region.spec(&snapshot.schema())?;
    let records = run.clone().of(command.selection.of(QuerySpec { sample: region.sample, ..QuerySpec::default() }));
    let through = run.of(QuerySpec { sample: None, ..region });
    let bounds = through.spec.bounds.clone();
    let stats = answer::send(&command.output, records.spec.limit, snapshot.metadata(), cancel, || {
        snapshot.trajectories(&through, &by, &records)
    })?;
    if stats.rows_returned == 0 && !command.output.json {
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
