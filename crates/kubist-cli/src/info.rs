//! `kubist info`: what a table holds, on one screen.

use std::fmt::Write;

use kubist::{DimensionInfo, Info, Table};

use crate::args;
use crate::failure::Result;
use crate::output::{print, print_json};
use crate::{human, table};

pub fn run(command: &args::Info) -> Result<()> {
    let info = Table::open(&command.table)?.snapshot()?.info()?;
    if command.json { print_json(&info) } else { print(&page(&info)) }
}

fn page(info: &Info) -> String {
    let mut page = String::new();
    let mut line = |name: &str, text: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(page, "{name:<12}{text}");
    };
    line("table", info.location.clone());
    line("records", human::count(info.rows));
    line("size", format!("{} ({:.1} bytes a record)", human::bytes(info.bytes), info.bytes_per_row));
    line(
        "layout",
        format!(
            "{}, {}, height {}, capacity {}, format version {}",
            human::counted(info.cubes, "cube"),
            human::counted(info.runs, "run"),
            info.height,
            human::count(info.capacity.into()),
            info.format_version
        ),
    );
    line(
        "optimizer",
        format!(
            "{} out of place; replication {}, {} copied",
            human::counted(info.debt, "record"),
            info.replication,
            human::count(info.replica_rows)
        ),
    );
    let identity = if info.identity.is_empty() { "each record its own".to_string() } else { info.identity.join(", ") };
    line("identity", format!("{identity} (seed {})", info.seed));
    page.push('\n');
    let dimensions = info.dimensions.iter().map(|dimension| vec![dimension.column.clone(), domain(dimension)]);
    page += &table::aligned(&["dimension", "domain"], &[], &dimensions.collect::<Vec<_>>());
    page.push('\n');
    let columns = info.columns.iter().map(|column| {
        vec![column.name.clone(), column.data_type.clone(), if column.nullable { "" } else { "required" }.to_string()]
    });
    page += &table::aligned(&["column", "type", ""], &[], &columns.collect::<Vec<_>>());
    if !info.writers.is_empty() {
        page.push('\n');
        let writers = info
            .writers
            .iter()
            .map(|writer| vec![writer.name.clone(), human::count(writer.commits), human::count(writer.rows)]);
        page += &table::aligned(&["writer", "commits", "records"], &[false, true, true], &writers.collect::<Vec<_>>());
    }
    page
}

fn domain(dimension: &DimensionInfo) -> String {
    match (dimension.low, dimension.high) {
        (Some(low), Some(high)) => format!("{} to {} ({})", human::number(low), human::number(high), dimension.scale),
        _ => dimension.scale.clone(),
    }
}
