//! `kubist info`: prints the columns, sizes and layout of a table on one screen.

use std::fmt::Write;
use std::path::Path;

use arrow_schema::DataType;
use kubist::{Cancel, ColumnInfo, DeclaredWriters, DimensionInfo, Info, PartialCopy, Query, Table};
use kubist_estimate::bound_in_words;
use kubist_maintain::column_use::ColumnsUse;
use kubist_maintain::disk_use::DiskUse;
use kubist_model::Costs;

use crate::args;
use crate::failure::Result;
use crate::output::{print, print_json};
use crate::{human, index, table};

pub fn run(command: &args::Info, cancel: &Cancel) -> Result<()> {
    if kubist_blocks::is_array_file(Path::new(&*command.table)) {
        return index::info(command, cancel);
    }
    let snapshot = Table::open(kubist::Location::from(&command.table).cancelled_by(cancel))?.snapshot()?;
    if command.columns {
        let columns = snapshot.columns_use()?;
        return if command.json { print_json(&columns) } else { print(&columns_page(&columns)) };
    }
    let info = snapshot.info()?;
    if command.json { print_json(&info) } else { print(&page(&info)) }
}

fn page(info: &Info) -> String {
    let mut page = String::new();
    let mut line = |name: &str, text: String| {
        let _ = writeln!(page, "{name:<12}{}", kubist_types::shown::printable(&text));
    };
    // `Info` in python/kubist/_figures.py prints the same lines.
    let shared = if info.about.shared { ", of several machines" } else { "" };
    line("table", format!("{} (format {}){shared}", info.about.location, info.about.format_version));
    line("records", human::count(info.about.rows));
    line("size", format!("{} ({:.1} bytes per record)", human::bytes(info.bytes), info.bytes_per_row));
    line("disk", disk(&info.disk));
    if let Some(partial) = &info.about.partial {
        line("partial", held(partial));
    }
    if let Some(costs) = &info.costs {
        line("costs", cost_text(costs));
    }
    let identity = match info.about.identity.is_empty() {
        true => "each record by itself".to_string(),
        false => info.about.identity.join(", "),
    };
    line("identity", format!("{identity} (seed {})", info.about.seed));
    if info.about.sampling != "uniform" {
        line("samples", info.about.sampling.clone());
    }
    if !info.about.lookup.is_empty() {
        line("lookup", info.about.lookup.join(", "));
    }
    if let Some(columns) = &info.about.sphere {
        line("sphere", columns.join(", "));
    }
    if !info.about.period.is_empty() {
        let periods = info.about.period.iter().map(|(column, period)| format!("{column}={period}"));
        line("period", periods.collect::<Vec<_>>().join(", "));
    }
    line(
        "layout",
        format!(
            "{} (parts of space, about {} each) on {}; {} (sorted pieces), compression {}, strata {}",
            human::counted(info.cubes, "cube"),
            human::counted(info.about.capacity.into(), "record"),
            human::counted(info.height.into(), "level"),
            human::counted(info.runs, "run"),
            info.about.compression,
            info.about.strata
        ),
    );
    line(
        "optimizer",
        format!(
            "{} to move{}; {} copied into deeper cubes (replication {})",
            human::counted(info.debt, "record"),
            match info.rows_to_move {
                0 => String::new(),
                rows => format!(", {} of them into a newer grid", human::count(rows)),
            },
            human::count(info.replica_rows),
            info.about.replication,
        ),
    );
    if !info.about.declared.is_empty() {
        line("steps", info.about.declared.iter().map(writers_of_steps).collect::<Vec<_>>().join("; "));
    }
    if let Some(thinned) = &info.about.thinned {
        let (steps, rows) = (human::counted(thinned.steps, "step"), human::counted(thinned.rows, "record"));
        line("thinned", format!("{steps}: {} of {rows} were kept", human::count(thinned.kept)));
    }
    if info.rows_outside > 0 {
        line("outside", kubist_ingest::outside(info.rows_outside, info.about.rows));
    }
    page.push('\n');
    let dimensions = info.about.dimensions.iter().map(|dimension| {
        let column = info.about.columns.iter().find(|column| column.name == dimension.column);
        let data_type = column.and_then(|column| column.data_type.parse().ok()).unwrap_or(DataType::Null);
        vec![dimension.column.clone(), domain(dimension, &data_type)]
    });
    page += &table::aligned(&["dimension", "domain"], &[], &dimensions.collect::<Vec<_>>());
    page.push('\n');
    let columns = info.about.columns.iter().map(|column| {
        let unit = column.unit.clone().unwrap_or_default();
        vec![column.name.clone(), column.data_type.clone(), unit, notes(column)]
    });
    page += &table::aligned(&["column", "type", "unit", ""], &[], &columns.collect::<Vec<_>>());
    if !info.about.metadata.is_empty() {
        page.push('\n');
        let metadata = info.about.metadata.iter().map(|(key, value)| vec![key.clone(), text(value)]);
        page += &table::aligned(&["metadata", ""], &[], &metadata.collect::<Vec<_>>());
    }
    if !info.about.writers.is_empty() {
        page.push('\n');
        let writers = info
            .about
            .writers
            .iter()
            .map(|writer| vec![writer.name.clone(), human::count(writer.commits), human::count(writer.rows)]);
        page += &table::aligned(&["writer", "commits", "records"], &[false, true, true], &writers.collect::<Vec<_>>());
    }
    if !info.advice.is_empty() {
        page.push('\n');
        let advice = info.advice.iter().map(|advice| vec![advice.clone()]);
        page += &table::aligned(&["advice"], &[], &advice.collect::<Vec<_>>());
    }
    page
}

/// What a partial copy holds.
fn held(partial: &PartialCopy) -> String {
    let of_query = |query: &Query| {
        let mut words = vec![format!("{} % of the records", 100.0 * query.sample.unwrap_or(1.0))];
        words.extend(query.bounds.iter().map(|bound| {
            let end = |value: &Option<kubist::Value>| match value {
                Some(kubist::Value::Float(number)) => number.to_string(),
                Some(value) => value.to_string(),
                None => String::new(),
            };
            format!("{}={}:{}", bound.column, end(&bound.low), end(&bound.high))
        }));
        words.extend(query.region.iter().map(|_| "in a region".to_string()));
        words.extend(query.columns.iter().map(|columns| format!("columns {}", columns.join(", "))));
        words.join(", ")
    };
    let queries: Vec<String> = partial.queries.iter().map(of_query).collect();
    let queries = if queries.is_empty() { "nothing complete yet".into() } else { queries.join("; ") };
    format!("copy of {} with {}: {queries}", partial.source, human::bytes(partial.held_bytes))
}

fn cost_text(costs: &Costs) -> String {
    format!(
        "about ${:.2} a month; ${:.4} for the requests of a thousand small questions, ${:.4} of a thousand commits",
        costs.storage_a_month, costs.thousand_questions, costs.thousand_commits
    )
}

fn columns_page(found: &ColumnsUse) -> String {
    let size = |bytes: f64| format!("{bytes:.2}");
    let mut rows: Vec<Vec<String>> = Vec::new();
    for column in &found.columns {
        let encodings = column.encodings.iter().map(|(name, share)| format!("{name} {:.0} %", 100.0 * share));
        let encodings = encodings.collect::<Vec<_>>().join(", ");
        let speed = human::count(column.values_per_second as u64 / 1_000_000);
        let accuracy = column.accuracy.clone().unwrap_or_default();
        rows.push(vec![column.name.clone(), size(column.bytes_per_row), speed, accuracy, encodings]);
    }
    let column_bytes: f64 = found.columns.iter().map(|column| column.bytes_per_row).sum();
    let none = String::new;
    rows.push(vec!["zone maps".into(), size(found.zone_map_bytes_per_row), none(), none(), none()]);
    let total = size(column_bytes + found.zone_map_bytes_per_row);
    let note = format!("of {} of {}", human::count(found.runs_looked_into), human::counted(found.runs, "run"));
    rows.push(vec!["together".into(), total, none(), none(), note]);
    let heads = ["column", "bytes/record", "M values/s", "accuracy", "encoding, of records"];
    table::aligned(&heads, &[false, true, true, false, false], &rows)
}

fn writers_of_steps(declared: &DeclaredWriters) -> String {
    match declared.after {
        Some(after) => format!("after step {after} complete with {}", declared.writers),
        None => format!("complete with {}", declared.writers),
    }
}

fn notes(column: &ColumnInfo) -> String {
    let mut notes = Vec::new();
    if let Some(accuracy) = &column.accuracy {
        notes.push(format!("accuracy {accuracy}"));
    }
    if !column.nullable {
        notes.push("required".to_string());
    }
    if column.added {
        notes.push(match &column.default {
            Some(default) => format!("added, {default} before"),
            None => "added, null before".to_string(),
        });
    }
    notes.extend(column.metadata.iter().map(|(key, value)| format!("{key}={}", text(value))));
    notes.join(", ")
}

/// Strings unchanged, other values as JSON; cuts long values, such as a topology.
fn text(value: &serde_json::Value) -> String {
    const LONGEST: usize = 200;
    let whole = value.as_str().map_or_else(|| value.to_string(), str::to_string);
    if whole.len() <= LONGEST {
        return whole;
    }
    let cut: String = whole.chars().take(LONGEST / 2).collect();
    format!("{cut}... ({}; --json has all)", human::bytes(whole.len() as u64))
}

/// The total size and its causes above 0 bytes.
fn disk(disk: &DiskUse) -> String {
    let causes = [
        ("records", disk.primary),
        ("replicas", disk.replicas),
        ("zone maps", disk.zone_maps),
        ("lookups", disk.lookups),
        ("dead", disk.dead),
        ("logs", disk.logs),
        ("rewrites", disk.rewrites),
        ("checkpoints", disk.checkpoints),
        ("other", disk.other),
    ];
    let parts = causes.iter().filter(|(_, bytes)| *bytes > 0);
    let parts: Vec<String> = parts.map(|(cause, bytes)| format!("{cause} {}", human::bytes(*bytes))).collect();
    format!("{}: {}", human::bytes(disk.total), parts.join(", "))
}

fn domain(dimension: &DimensionInfo, data_type: &DataType) -> String {
    match (dimension.low, dimension.high) {
        (Some(low), Some(high)) => {
            let [low, high] = [low, high].map(|bound| bound_in_words(bound, data_type));
            format!("{low} to {high} ({})", dimension.scale)
        }
        _ => format!("{}, not yet learned", dimension.scale),
    }
}
