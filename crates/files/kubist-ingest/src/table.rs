//! Opens or creates the table of an ingestion.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema};
use kubist::{Dimension, Domain, ErrorKind, Metadata, Table, TableOptions};
use kubist_expr::column_index;
use kubist_files::fit;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::request::Request;
use crate::source::{Source, State};
use crate::union;

type Sources = [Box<dyn Source>];

pub struct Open {
    pub table: Table,
    pub state: State,
    pub dimensions: Vec<String>,
    /// If true, only the declared writers complete a step.
    pub has_declared_writers: bool,
    /// The types that can hold the values of all files.
    pub types: Vec<(String, DataType)>,
    pub created: bool,
    pub notes: Vec<String>,
}

pub fn existing(request: &Request) -> Result<Option<Table>> {
    match Table::open(request.location.as_str()) {
        Ok(table) => Ok(Some(table)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Checks the files against the table, or creates it for them.
pub fn open(request: &Request, sources: &mut Sources, keep_going: bool) -> Result<Open> {
    let (table, created, notes) = match existing(request)? {
        Some(table) => {
            agrees(request, sources, &table)?;
            check_joins(table.snapshot()?.metadata(), sources, keep_going)?;
            let mut notes: Vec<String> = Vec::new();
            sources.iter().for_each(|source| add_notes(&mut notes, &source.facts().notes));
            (table, false, notes)
        }
        None => {
            let first = sources[0].facts().metadata.clone();
            let schema = union_of(sources, request)?;
            let (options, notes) = new_table(request, sources, &schema)?;
            check_joins(&first, sources, keep_going)?;
            (Table::create(request.location.as_str(), Arc::new(schema), &options)?, true, notes)
        }
    };
    check_atoms(request, table.snapshot()?.metadata(), sources)?;
    let mut open = Open {
        state: State { next_frame: 0, schema: table.schema()?, added: Vec::new(), needed: Vec::new() },
        table,
        dimensions: Vec::new(),
        has_declared_writers: false,
        types: union::types(sources),
        created,
        notes,
    };
    open.refresh()?;
    if !keep_going {
        let inputs = sources.iter().filter_map(|source| source.input());
        inputs.into_iter().try_for_each(|input| open.check(input, request.time.is_some()))?;
    }
    Ok(open)
}

impl Open {
    pub fn refresh(&mut self) -> Result<()> {
        let snapshot = self.table.snapshot()?;
        let about = snapshot.about()?;
        self.dimensions = about.dimensions.into_iter().map(|dimension| dimension.column).collect();
        self.has_declared_writers = !about.declared.is_empty();
        self.state.schema = snapshot.schema();
        self.state.added =
            snapshot.columns().into_iter().filter(|column| column.added).map(|column| column.name).collect();
        self.state.needed = [&self.dimensions[..], &about.identity].concat();
        Ok(())
    }

    fn check(&self, input: &kubist_files::Input, has_time: bool) -> Result<()> {
        let may_lack = |name: &String| self.state.added.contains(name) || has_time && name == "time";
        let fields = self.state.schema.fields().iter();
        let known = fields.filter(|field| input.fields.find(field.name()).is_some() || !may_lack(field.name()));
        let needed: Vec<String> = self.state.needed.iter().filter(|name| !may_lack(name)).cloned().collect();
        Ok(fit::check(input, &Schema::new(known.cloned().collect::<Vec<_>>()), &needed)?)
    }
}

fn union_of(sources: &Sources, request: &Request) -> Result<Schema> {
    let is_native = |source: &&Box<dyn Source>| source.input().is_some();
    if sources.iter().any(|source| is_native(&source))
        && let Some(other) = sources.iter().find(|source| !is_native(source))
    {
        return Err(Error::invalid(format!(
            "{}: a new table takes Parquet, Arrow, CSV and NPZ, or files of other formats: ingest these by themselves",
            other.facts().path.display()
        )));
    }
    Ok(union::schema(sources, request)?.as_ref().clone())
}

/// The dimensions, identity and lookup of a new table.
pub fn index(request: &Request, sources: &Sources, schema: &Schema) -> (Vec<String>, Vec<String>, Vec<String>) {
    let facts = sources[0].facts();
    let is_here = |name: &&String| schema.field_with_name(name).is_ok();
    let here = |names: &[String]| names.iter().filter(is_here).cloned().collect::<Vec<_>>();
    let or = |given: &[String], suggested: &[String]| if given.is_empty() { here(suggested) } else { given.to_vec() };
    let identity = match &request.new.identity {
        Some(identity) => identity.clone(),
        // With only a part of its columns, an identity would make several records equal.
        None if facts.identity.iter().all(|name| is_here(&name)) => facts.identity.clone(),
        None => Vec::new(),
    };
    (or(&request.new.dimensions, &facts.dimensions), identity, or(&request.new.lookup, &facts.lookup))
}

pub fn notes(sources: &Sources, schema: &Schema) -> Vec<String> {
    let mut notes = Vec::new();
    sources.iter().for_each(|source| add_notes(&mut notes, &source.facts().notes));
    let units = schema.fields().iter().filter_map(|field| Some((field.name().as_str(), unit(field)?)));
    add_notes(&mut notes, &kubist_expr::unit_notes(units));
    notes
}

fn add_notes(notes: &mut Vec<String>, more: &[String]) {
    for note in more {
        if !notes.contains(note) {
            notes.push(note.clone());
        }
    }
}

pub fn unit(field: &Field) -> Option<&str> {
    field.metadata().get("unit").map(String::as_str).filter(|unit| !unit.is_empty())
}

fn new_table(request: &Request, sources: &Sources, schema: &Schema) -> Result<(TableOptions, Vec<String>)> {
    let facts = sources[0].facts();
    let (dimensions, identity, lookup) = index(request, sources, schema);
    if dimensions.is_empty() {
        let columns: Vec<&str> = facts.schema.fields().iter().map(|field| field.name().as_str()).collect();
        return Err(Error::NoPositions(format!(
            "{}: {} does not say which columns are positions: name the dimensions; the columns are {}",
            facts.path.display(),
            facts.format,
            columns.join(", ")
        )));
    }
    check_texts(&dimensions, schema, sources)?;
    let given = (request.new.domains)(schema)?;
    let dimension = |column: &String| {
        let given = given.iter().find(|dimension| dimension.column == *column).map(|given| given.domain.clone());
        let domain = given.filter(|domain| *domain != Domain::Learned);
        Dimension { column: column.clone(), domain: domain.unwrap_or_else(|| union::domain(column, sources)) }
    };
    let mut metadata = facts.metadata.clone();
    metadata.insert("format".to_owned(), Value::String(facts.format.clone()));
    metadata.extend(request.new.metadata.clone());
    let new = &request.new;
    let options = TableOptions {
        dimensions: dimensions.iter().map(dimension).collect(),
        identity,
        lookup,
        capacity: new.capacity.or(facts.capacity),
        seed: new.seed.unwrap_or(0),
        replication: new.replication.unwrap_or_default(),
        compression: new.compression.unwrap_or_default(),
        strata: new.strata.unwrap_or_default(),
        sampling: new.sampling.clone().unwrap_or_default(),
        accuracy: new.accuracy.clone(),
        units: new.units.clone(),
        sphere: new.sphere.clone(),
        period: periods(request, sources, schema)?,
        metadata,
        // Another process may have created the same table.
        exist_ok: true,
        shared: new.shared,
    };
    Ok((options, notes(sources, schema)))
}

/// Returns the periods, from the user or from the files, which must agree.
fn periods(request: &Request, sources: &Sources, schema: &Schema) -> Result<Vec<(String, kubist::Value)>> {
    if let Some(period) = &request.new.period {
        return Ok(period.clone());
    }
    let mut found: BTreeMap<&str, (f64, &Path)> = BTreeMap::new();
    for facts in sources.iter().map(|source| source.facts()) {
        for (name, length) in facts.period.iter().filter(|(name, _)| schema.field_with_name(name).is_ok()) {
            let (first, path) = *found.entry(name).or_insert((*length, &facts.path));
            if first != *length {
                return Err(Error::invalid(format!(
                    "{}: its box repeats along {name} after {length:?}, and that of {} after {first:?}: make a table for \
                     each of them, or give a period of your own",
                    facts.path.display(),
                    path.display()
                )));
            }
        }
    }
    Ok(found.into_iter().map(|(name, (length, _))| (name.to_owned(), kubist::Value::Float(length))).collect())
}

/// Refuses a text column as a dimension. One word among the numbers of a CSV column makes it text, and the error names
/// its row.
pub fn check_texts(dimensions: &[String], schema: &Schema, sources: &Sources) -> Result<()> {
    let is_text = |name: &&String| schema.field_with_name(name).is_ok_and(|field| *field.data_type() == DataType::Utf8);
    for name in dimensions.iter().filter(is_text) {
        let number = Fields::from(vec![Field::new(name, DataType::Float64, true)]);
        for input in sources.iter().filter_map(|source| source.input()).filter(|input| !input.typed) {
            for batch in input.read(&number, Arc::default()) {
                batch.map_err(|error| {
                    Error::invalid(format!("{error}; the dimension {name:?} takes numbers, dates or times alone"))
                })?;
            }
        }
    }
    Ok(())
}

/// Checks before anything is written that the numbers in all files have the same meaning.
fn check_joins(metadata: &Metadata, sources: &mut Sources, keep_going: bool) -> Result<()> {
    if keep_going {
        return Ok(());
    }
    let joining = sources.iter_mut().filter(|source| source.facts().joins);
    joining.into_iter().try_for_each(|source| source.joins(metadata).map(drop))
}

/// Refuses different numbers of atoms, because trajectory tools need equal ones.
fn check_atoms(request: &Request, metadata: &Metadata, sources: &Sources) -> Result<()> {
    let Some(here) = metadata.get("trajectory") else { return Ok(()) };
    for source in sources {
        let facts = source.facts();
        let there = facts.metadata.get("trajectory");
        if let Some(there) = there.filter(|there| *there != here) {
            return Err(Error::invalid(format!(
                "{} has frames of {} atoms, and those of {} have {}: give it a table of its own",
                facts.path.display(),
                there["atoms"],
                request.table,
                here["atoms"]
            )));
        }
    }
    Ok(())
}

/// Checks that the options of a new table match an existing one, so a user can repeat a call for the next files.
pub fn agrees(request: &Request, sources: &Sources, table: &Table) -> Result<()> {
    let new = &request.new;
    let info = table.snapshot()?.about()?;
    let differs = |what: &str, here: &dyn Display, asked: &dyn Display| {
        Error::invalid(format!("the table {} has {what} {here}, not {asked}", request.table))
    };
    let dimensions: Vec<String> = info.dimensions.iter().map(|dimension| dimension.column.clone()).collect();
    if !new.dimensions.is_empty() && new.dimensions != dimensions {
        return Err(differs("the dimensions", &dimensions.join(","), &new.dimensions.join(",")));
    }
    if let Some(identity) = new.identity.as_ref().filter(|identity| **identity != info.identity) {
        return Err(differs("the identity", &info.identity.join(","), &identity.join(",")));
    }
    if !new.lookup.is_empty() && new.lookup != info.lookup {
        return Err(differs("the lookup", &info.lookup.join(","), &new.lookup.join(",")));
    }
    if let Some(capacity) = new.capacity.filter(|capacity| *capacity != info.capacity) {
        return Err(differs("the capacity", &info.capacity, &capacity));
    }
    if let Some(seed) = new.seed.filter(|seed| *seed != info.seed) {
        return Err(differs("the seed", &info.seed, &seed));
    }
    if let Some(policy) = new.replication.filter(|policy| policy.to_string() != info.replication) {
        return Err(differs("the replication", &info.replication, &policy));
    }
    if let Some(compression) = new.compression.filter(|compression| compression.name() != info.compression) {
        return Err(differs("the compression", &info.compression, &compression));
    }
    if let Some(strata) = new.strata.filter(|strata| strata.name() != info.strata) {
        return Err(differs("the strata", &info.strata, &strata));
    }
    if let Some(sampling) = new.sampling.as_ref().filter(|sampling| sampling.to_string() != info.sampling) {
        return Err(differs("samples", &info.sampling, sampling));
    }
    if let Some(sphere) = new.sphere.as_ref().filter(|sphere| info.sphere.as_ref() != Some(*sphere)) {
        let here = info.sphere.map_or_else(|| "no sphere".to_owned(), |columns| columns.join(","));
        return Err(differs("the sphere", &here, &sphere.join(",")));
    }
    if new.shared && !info.shared {
        return Err(Error::invalid(format!("the table {0} is not shared: kubist alter {0} --shared", request.table)));
    }
    let schema = table.schema()?;
    let column = |name: &str| {
        column_index(&schema, name).map(|index| schema.field(index)).map_err(|_| {
            let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            Error::invalid(format!(
                "{}: there is no column '{name}'; the columns are {}",
                request.table,
                names.join(", ")
            ))
        })
    };
    let of_column = |name: &str, what: String| Error::invalid(format!("{}: column {name} {what}", request.table));
    for (name, bound) in &new.accuracy {
        let asked = table.accuracy(name, bound)?.to_string();
        let name = column(name)?.name();
        let here = info.columns.iter().find(|here| here.name == *name).and_then(|here| here.accuracy.clone());
        if here.as_ref() != Some(&asked) {
            let here = here.as_deref().unwrap_or("of every bit");
            return Err(of_column(name, format!("has the accuracy {here}, not {asked}")));
        }
    }
    for (name, unit) in &new.units {
        column(name)?;
        let here = info.columns.iter().find(|here| here.name == *name).and_then(|here| here.unit.as_deref());
        if here != Some(unit) {
            let here = here.unwrap_or("no unit");
            return Err(of_column(
                name,
                format!("is in {here}, not in {unit}: set_unit() or kubist alter --unit changes what the table says"),
            ));
        }
    }
    for (name, asked) in new.period.iter().flatten() {
        let asked = table.period(name, asked)?;
        let here = info.period.get(name);
        if here != Some(&asked) {
            let here = here.map_or_else(|| "no period".to_owned(), |here| format!("the period {here}"));
            return Err(of_column(
                name,
                format!("has {here}, not {asked}: regrid(period=...) or kubist regrid --period changes it"),
            ));
        }
    }
    for source in sources.iter().filter(|_| new.period.is_none()) {
        let facts = source.facts();
        for (name, length) in &facts.period {
            let Some(here) = info.period.get(name) else { continue };
            if *here != table.period(name, &kubist::Value::Float(*length))? {
                return Err(Error::invalid(format!(
                    "{}: its box repeats along {name} after {length:?}, and the table after {here}: make a table for each \
                     of them",
                    facts.path.display()
                )));
            }
        }
    }
    for (key, value) in &new.metadata {
        if info.metadata.get(key) != Some(value) {
            let here = info.metadata.get(key).cloned().unwrap_or_default();
            return Err(differs(&format!("the metadata {key:?} as"), &here, value));
        }
    }
    for (name, data_type) in &request.types {
        let here = column(name)?.data_type();
        if here != data_type {
            return Err(of_column(name, format!("has the type {here}, not {data_type}")));
        }
    }
    Ok(())
}
