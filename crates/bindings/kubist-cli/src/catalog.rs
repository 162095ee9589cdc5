//! `kubist catalog`: names of tables and runs.

use std::collections::BTreeMap;

use kubist::Table;
use kubist_names::{Catalogue, CatalogueEntry, New, Scalar, Search, Setting, sync};

use crate::args::{self, CatalogAction as Action};
use crate::failure::{Failure, Result};
use crate::output::{print, print_json, remark};
use crate::{human, table};

pub fn run(command: &args::Catalog) -> Result<()> {
    if let Action::Create { location, site } = &command.action {
        let catalogue = Catalogue::create(location, site.as_deref())?;
        remark(&format!("{}: the catalogue of site {}", catalogue.location(), catalogue.site()));
        return Ok(());
    }
    let location = command.catalog.clone().or_else(|| std::env::var("KUBIST_CATALOG").ok());
    let location = location.ok_or_else(|| Failure::usage("which catalogue? Set KUBIST_CATALOG, or give --catalog"))?;
    let mut catalogue = Catalogue::open(&location)?;
    match &command.action {
        Action::Create { .. } => {}
        Action::Add(add) => catalogue.add(&[new(add)?])?,
        Action::Remove { name } => catalogue.remove(name)?,
        Action::Tag { name, tags, remove } => {
            let tags: Vec<Setting> = tags.iter().cloned().map(Setting::Tag).collect();
            if *remove { catalogue.unset(name, &tags) } else { catalogue.set(name, &tags) }?;
        }
        Action::Note { name, text } => catalogue.set(name, &[Setting::Note(text.clone())])?,
        Action::Set { name, params, owner } => {
            let params = params.iter().map(|text| param(text)).collect::<Result<Vec<_>>>()?;
            let params = params.into_iter().map(|(name, value)| Setting::Param(name, value));
            let settings: Vec<Setting> = params.chain(owner.clone().map(Setting::Owner)).collect();
            catalogue.set(name, &settings)?;
        }
        Action::Find { condition, text, json } => {
            let names = catalogue.find(&Search { condition: condition.clone(), text: text.clone() })?;
            show_all(&catalogue, &names, *json)?;
        }
        Action::List { prefix, json } => {
            let prefix = prefix.as_deref().unwrap_or("");
            let names: Vec<String> =
                catalogue.names().filter(|name| name.starts_with(prefix)).map(str::to_owned).collect();
            show_all(&catalogue, &names, *json)?;
        }
        Action::Show { name, json } => {
            let entry = catalogue.get(name)?;
            if *json { print_json(&entry) } else { print(&lines(&entry)) }?;
        }
        Action::Where { name } => {
            let entry = catalogue.get(name)?;
            let location = copy(&entry)?;
            catalogue.count_read(name)?;
            print(&format!("{location}\n"))?;
        }
        Action::Sync { other, json } => {
            let exchanged = sync(&mut catalogue, &mut Catalogue::open(other)?)?;
            if *json {
                return print_json(&exchanged);
            }
            remark(&format!(
                "{} came, {} went, {}",
                human::counted(exchanged.came, "operation"),
                human::count(exchanged.went),
                human::bytes(exchanged.bytes)
            ));
        }
        Action::Sites { json } => {
            let sites = catalogue.sites();
            if *json {
                return print_json(&sites);
            }
            let row = |site: &kubist_names::SiteInfo| {
                let own = if site.own { "own" } else { "" };
                vec![site.site.clone(), own.to_owned(), human::count(site.operations)]
            };
            let rows: Vec<Vec<String>> = sites.iter().map(row).collect();
            print(&table::aligned(&["site", "", "operations"], &[false, false, true], &rows))?;
        }
        Action::Prune => {
            let pruned = catalogue.prune()?;
            let waits = match &pruned.waits_for[..] {
                [] => String::new(),
                sites => format!("; the rest stays until these sites have it: {}", sites.join(", ")),
            };
            remark(&format!("removed {}{waits}", human::counted(pruned.lines, "line")));
        }
    }
    Ok(())
}

/// The entry to add, whose parameters are the first table's metadata.
fn new(add: &args::CatalogAdd) -> Result<New> {
    let mut params = BTreeMap::new();
    if let Some(location) = add.locations.first() {
        let snapshot = Table::open(location)?.snapshot()?;
        params.extend(snapshot.metadata().iter().filter_map(|(name, value)| Some((name.clone(), scalar(value)?))));
    }
    for text in &add.params {
        let (name, value) = param(text)?;
        params.insert(name, value);
    }
    let absolute = |location: &String| Ok(kubist::Location::parse(location)?.absolute());
    Ok(New {
        name: add.name.clone(),
        kind: Some(add.kind.clone()),
        owner: add.owner.clone(),
        note: add.note.clone(),
        tags: add.tags.clone(),
        locations: add.locations.iter().map(absolute).collect::<Result<_>>()?,
        params,
    })
}

/// The location of the first copy that can be opened here.
fn copy(entry: &CatalogueEntry) -> Result<&str> {
    let mut why = Failure::usage(format!("{} has no location; add one with `kubist catalog add`", entry.name));
    for location in &entry.locations {
        match Table::open(location) {
            Ok(_) => return Ok(location),
            Err(error) => why = Failure::from(error).within(format!("no copy of {} can be opened", entry.name)),
        }
    }
    Err(why)
}

/// A value of a table's metadata, unless it is a list or an object.
fn scalar(value: &serde_json::Value) -> Option<Scalar> {
    match value {
        serde_json::Value::Bool(value) => Some(Scalar::Bool(*value)),
        serde_json::Value::Number(value) => value.as_f64().map(Scalar::Number),
        serde_json::Value::String(value) => Some(Scalar::Text(value.clone())),
        _ => None,
    }
}

fn param(text: &str) -> Result<(String, Scalar)> {
    let (name, value) = text.split_once('=').ok_or_else(|| Failure::usage(format!("{text:?} is no NAME=VALUE")))?;
    let value = match value {
        "true" => Scalar::Bool(true),
        "false" => Scalar::Bool(false),
        value => match value.parse::<f64>() {
            Ok(number) if number.is_finite() => Scalar::Number(number),
            _ => Scalar::Text(value.to_owned()),
        },
    };
    Ok((name.to_owned(), value))
}

fn show_all(catalogue: &Catalogue, names: &[String], json: bool) -> Result<()> {
    if json {
        let entries = names.iter().map(|name| Ok(catalogue.get(name)?)).collect::<Result<Vec<CatalogueEntry>>>()?;
        return print_json(&entries);
    }
    print(&names.iter().map(|name| format!("{name}\n")).collect::<String>())
}

fn lines(entry: &CatalogueEntry) -> String {
    let mut text = format!("{}\n", entry.name);
    let mut line = |name: &str, values: &[String]| {
        if !values.is_empty() {
            text += &format!("  {name}: {}\n", values.join(" | "));
        }
    };
    line("kind", &entry.kind);
    line("owner", &entry.owner);
    line("note", &entry.note);
    if !entry.tags.is_empty() {
        line("tags", &[entry.tags.join(", ")]);
    }
    entry.locations.iter().for_each(|location| line("location", std::slice::from_ref(location)));
    for (name, values) in &entry.params {
        line(name, &values.iter().map(ToString::to_string).collect::<Vec<_>>());
    }
    line("reads", &[entry.reads.to_string()]);
    text
}
