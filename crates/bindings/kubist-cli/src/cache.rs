//! `kubist cache`: shows or clears the local cache of remote tables.

use kubist_cache::{FOLDER, StoreCopies, folder_of_environment};

use crate::args;
use crate::failure::{Failure, Kind, Result};
use crate::output::{print, print_json, remark};
use crate::{human, table};

pub fn run(command: &args::Cache) -> Result<()> {
    let system = |message: String| Failure { kind: Kind::System, message };
    let folder = folder_of_environment().map_err(system)?;
    let folder = folder.ok_or_else(|| Failure::usage(format!("there is no cache: set {FOLDER} to its folder")))?;
    let failed = |error: std::io::Error| Failure::io(folder.root(), &error);
    let mut kept = folder.kept().map_err(failed)?;
    if let Some(wanted) = &command.table {
        kept.retain(|kept| without_settings(&kept.location) == without_settings(wanted));
    }
    if command.clear {
        kept.iter().try_for_each(|kept| folder.clear(&kept.identity)).map_err(failed)?;
    }
    let (files, bytes) = kept.iter().fold((0, 0), |(files, bytes), kept| (files + kept.files, bytes + kept.bytes));
    if command.json {
        return print_json(&kept.iter().map(of_table).collect::<Vec<_>>());
    }
    let all = format!("{} of {} in {}", human::counted(files, "file"), human::bytes(bytes), folder.root().display());
    if command.clear {
        remark(&format!("removed {all}"));
        return Ok(());
    }
    let rows: Vec<Vec<String>> =
        kept.iter().map(|kept| vec![shown(kept), human::count(kept.files), human::bytes(kept.bytes)]).collect();
    let table = match rows.is_empty() {
        true => String::new(),
        false => table::aligned(&["table", "files", "size"], &[false, true, true], &rows) + "\n",
    };
    print(&format!("{table}{all}, of at most {}\n", human::bytes(folder.bound())))
}

fn shown(kept: &StoreCopies) -> String {
    match kept.location.is_empty() {
        true => kept.identity.clone(),
        false => kubist_types::shown::printable(&kept.location).into_owned(),
    }
}

fn of_table(kept: &StoreCopies) -> serde_json::Value {
    serde_json::json!({
        "table": kept.location, "identity": kept.identity, "files": kept.files, "bytes": kept.bytes
    })
}

fn without_settings(location: &str) -> &str {
    location.split('?').next().unwrap_or(location).trim_end_matches('/')
}
