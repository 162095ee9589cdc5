//! `kubist tail`: prints commits as they become visible.

use std::collections::BTreeMap;
use std::time::Duration;

use kubist::{Cancel, Location, Snapshot, Table};

use crate::args;
use crate::failure::Result;
use crate::human;
use crate::output::{print, print_raw};

const FOR_EVER: Duration = Duration::from_secs(u32::MAX as u64);

pub fn run(command: &args::Tail, cancel: &Cancel) -> Result<()> {
    let table = Table::open(Location::from(&command.table).cancelled_by(cancel))?;
    let mut seen = table.snapshot()?;
    let mut before = BTreeMap::new();
    print_changes(command, &seen, &mut before)?;
    let mut left = command.changes.unwrap_or(u64::MAX);
    let every = command.every.unwrap_or_default();
    while left > 0 {
        if let Some(now) = table.wait(&seen, every, FOR_EVER)? {
            print_changes(command, &now, &mut before)?;
            seen = now;
            left -= 1;
        }
    }
    Ok(())
}

fn print_changes(command: &args::Tail, snapshot: &Snapshot, before: &mut BTreeMap<String, (u64, u64)>) -> Result<()> {
    let about = snapshot.about()?;
    let mut changes = Vec::new();
    for writer in &about.writers {
        let (commits, rows) = before.insert(writer.name.clone(), (writer.commits, writer.rows)).unwrap_or_default();
        if writer.commits > commits {
            changes.push((writer.name.clone(), writer.commits - commits, writer.rows - rows));
        }
    }
    let step = snapshot.complete_steps().last().copied();
    if command.json {
        let changes: Vec<_> = changes
            .into_iter()
            .map(|(writer, commits, rows)| serde_json::json!({ "writer": writer, "commits": commits, "rows": rows }))
            .collect();
        let runs = snapshot.info()?.runs;
        let line = serde_json::json!({ "rows": about.rows, "runs": runs, "step": step, "changes": changes });
        return print_raw(&format!("{line}\n"));
    }
    let changes: Vec<String> = changes
        .iter()
        .map(|(writer, commits, rows)| {
            format!("{writer} +{} in {}", human::count(*rows), human::counted(*commits, "commit"))
        })
        .collect();
    let step = step.map_or(String::new(), |step| format!(", step {step}"));
    let changes = if changes.is_empty() { "rewritten".to_string() } else { changes.join(", ") };
    print(&format!("{}{step}: {changes}\n", human::counted(about.rows, "record")))
}
