//! Groups of options: `--create compression=small --create shared`. A group corresponds to a dict argument of
//! the Python package with the same keys. Each option is an argument of its own, because values may contain
//! commas.

use std::any::Any;
use std::path::PathBuf;

use kubist::{Compression, Metadata, Replication, Strata};
use kubist_expr::nearest;
use kubist_files::{Decimal, Delimiter};
use kubist_plot::{Colormap, RADII, Style};
use serde_json::{Value, json};

use super::amounts::{bytes, frame_rate, why_no_integer};
use super::columns::{Bounds, Periods, Types, Units};
use crate::failure::{Failure, Result};

/// `KEY=VALUE`, or `KEY` alone for a switch.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    key: String,
    value: Option<String>,
}

pub fn grouped(text: &str) -> Result<Entry, String> {
    let (key, value) = match text.split_once('=') {
        Some((key, value)) => (key.trim(), Some(value.trim().to_string())),
        None => (text.trim(), None),
    };
    match key.is_empty() || value.as_ref().is_some_and(String::is_empty) {
        true => Err("expected KEY=VALUE".to_string()),
        false => Ok(Entry { key: key.to_string(), value }),
    }
}

pub trait Group: Default {
    const OPTION: &'static str;
    const KEYS: &'static [&'static str];

    /// # Errors
    ///
    /// The reason why the value is wrong.
    fn set(&mut self, entry: &Entry) -> Result<(), String>;

    /// # Errors
    ///
    /// An unknown key, with similar ones, or a wrong value.
    fn of(entries: &[Entry]) -> Result<Self> {
        let mut group = Self::default();
        for entry in entries {
            let failed = |why: String| Failure::usage(format!("{} {}: {why}", Self::OPTION, entry.key));
            if !Self::KEYS.contains(&entry.key.as_str()) {
                let keys = Self::KEYS.join(", ");
                return Err(failed(match nearest(&entry.key, Self::KEYS.iter().copied()).first() {
                    Some(meant) => format!("unknown key; did you mean {meant}? The keys are {keys}"),
                    None => format!("unknown key; the keys are {keys}"),
                }));
            }
            group.set(entry).map_err(failed)?;
        }
        Ok(group)
    }
}

impl Entry {
    fn text(&self) -> Result<&str, String> {
        self.value.as_deref().ok_or_else(|| format!("expected {}=VALUE", self.key))
    }

    fn names(&self) -> Result<Vec<String>, String> {
        Ok(self.text()?.split(',').map(|name| name.trim().to_string()).collect())
    }

    fn parsed<T: std::str::FromStr>(&self) -> Result<T, String>
    where
        T::Err: std::fmt::Display + 'static,
    {
        let text = self.text()?;
        text.parse().map_err(|error: T::Err| match (&error as &dyn Any).downcast_ref() {
            Some(reason) => format!("{text:?}: {}", why_no_integer(reason)),
            None => format!("{text:?}: {error}"),
        })
    }

    fn is_on(&self) -> Result<bool, String> {
        match self.value.as_deref() {
            None | Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(other) => Err(format!("expected true or false, not {other:?}")),
        }
    }
}

fn once<T>(slot: &mut Option<T>, value: T) -> Result<(), String> {
    match slot.replace(value) {
        Some(_) => Err("given twice".to_string()),
        None => Ok(()),
    }
}

#[derive(Debug, Default, PartialEq)]
pub struct NewTable {
    pub lookup: Vec<String>,
    pub capacity: Option<u32>,
    pub seed: Option<u64>,
    pub units: Vec<(String, String)>,
    pub accuracy: Vec<(String, String)>,
    /// `None`: as in the files.
    pub period: Option<Vec<(String, String)>>,
    /// Longitude and latitude.
    pub sphere: Option<[String; 2]>,
    pub metadata: Metadata,
    pub compression: Option<Compression>,
    pub strata: Option<Strata>,
    /// The columns whose rare values are more likely in samples.
    pub classes: Vec<String>,
    /// The least rows of each class in a sample of 1 %.
    pub least: Option<u32>,
    pub weight: Option<String>,
    pub replication: Option<Replication>,
    pub shared: bool,
}

impl Group for NewTable {
    const OPTION: &'static str = "--create";
    const KEYS: &'static [&'static str] = &[
        "lookup",
        "capacity",
        "seed",
        "units",
        "accuracy",
        "period",
        "sphere",
        "metadata",
        "compression",
        "strata",
        "least",
        "weight",
        "replication",
        "shared",
    ];

    fn set(&mut self, entry: &Entry) -> Result<(), String> {
        match entry.key.as_str() {
            "lookup" => self.lookup.extend(entry.names()?),
            "capacity" => once(&mut self.capacity, entry.parsed()?)?,
            "seed" => once(&mut self.seed, entry.parsed()?)?,
            "units" => self.units.extend(entry.parsed::<Units>()?.0),
            "sphere" => {
                let names = entry.names()?;
                let pair = names.try_into().map_err(|_| "expected two columns: longitude and latitude".to_string())?;
                once(&mut self.sphere, pair)?;
            }
            "period" if entry.text()? == "none" => once(&mut self.period, Vec::new())?,
            "period" => self.period.get_or_insert_default().extend(entry.parsed::<Periods>()?.0),
            "accuracy" => self.accuracy.extend(entry.parsed::<Bounds>()?.0),
            "metadata" => self.metadata.extend([super::columns::entry(entry.text()?)?]),
            "compression" => once(&mut self.compression, entry.parsed()?)?,
            "strata" => match entry.parsed() {
                Ok(strata) => once(&mut self.strata, strata)?,
                Err(_) => self.classes.extend(entry.names()?),
            },
            "least" => once(&mut self.least, entry.parsed()?)?,
            "weight" => once(&mut self.weight, entry.text()?.to_string())?,
            "replication" => once(&mut self.replication, entry.parsed()?)?,
            _ => self.shared = entry.is_on()?,
        }
        Ok(())
    }
}

impl NewTable {
    pub fn as_json(&self) -> Value {
        json!({
            "lookup": self.lookup,
            "capacity": self.capacity,
            "seed": self.seed,
            "units": pairs(&self.units),
            "accuracy": pairs(&self.accuracy),
            "sphere": self.sphere,
            "period": self.period.as_deref().map(pairs),
            "metadata": self.metadata,
            "storage": {
                "compression": self.compression.map(|compression| compression.name()),
                "strata": match self.classes.is_empty() {
                    true => json!(self.strata.map(|strata| strata.name())),
                    false => json!(self.classes),
                },
                "least": self.least,
                "weight": self.weight,
                "replication": self.replication.map(|policy| policy.to_string()),
                "shared": self.shared,
            },
        })
    }
}

#[derive(Debug, Default, PartialEq)]
pub struct Reading {
    pub format: Option<String>,
    pub topology: Option<PathBuf>,
    pub time: Option<f64>,
    pub columns: Option<Vec<String>>,
    pub types: Option<Types>,
    pub delimiter: Option<Delimiter>,
    pub names: Option<Vec<String>>,
    pub null: Option<Vec<String>>,
    pub decimal: Option<Decimal>,
    pub hdu: Option<String>,
    pub particles: Option<Vec<String>>,
    pub crs: Option<String>,
    pub strict: bool,
    pub bad_rows: Option<String>,
    pub max_record: Option<usize>,
    pub max_columns: Option<usize>,
    pub max_inflation: Option<u64>,
    pub max_batch: Option<usize>,
}

impl Group for Reading {
    const OPTION: &'static str = "--read";
    const KEYS: &'static [&'static str] = &[
        "format",
        "topology",
        "time",
        "columns",
        "types",
        "delimiter",
        "names",
        "null",
        "decimal",
        "hdu",
        "particles",
        "crs",
        "strict",
        "bad_rows",
        "max_record",
        "max_columns",
        "max_inflation",
        "max_batch",
    ];

    fn set(&mut self, entry: &Entry) -> Result<(), String> {
        match entry.key.as_str() {
            "format" => once(&mut self.format, entry.parsed()?),
            "topology" => once(&mut self.topology, entry.parsed()?),
            "time" => once(&mut self.time, entry.parsed()?),
            "columns" => once(&mut self.columns, entry.names()?),
            "types" => once(&mut self.types, entry.parsed()?),
            "delimiter" => once(&mut self.delimiter, entry.parsed()?),
            "names" => once(&mut self.names, entry.names()?),
            "null" => once(&mut self.null, entry.names()?),
            "decimal" => once(&mut self.decimal, entry.parsed()?),
            "hdu" => once(&mut self.hdu, entry.parsed()?),
            "particles" => once(&mut self.particles, entry.names()?),
            "crs" => once(&mut self.crs, entry.parsed()?),
            "strict" => {
                self.strict = entry.is_on()?;
                Ok(())
            }
            "bad_rows" => match entry.text()? {
                "refuse" | "skip" => once(&mut self.bad_rows, entry.parsed()?),
                other => Err(format!("{other:?} is neither refuse nor skip")),
            },
            "max_record" => once(&mut self.max_record, bytes(entry.text()?)?),
            "max_columns" => once(&mut self.max_columns, entry.parsed()?),
            "max_inflation" => once(&mut self.max_inflation, entry.parsed()?),
            _ => once(&mut self.max_batch, bytes(entry.text()?)?),
        }
    }
}

impl Reading {
    pub fn as_json(&self) -> Value {
        let types = self.types.iter().flat_map(|types| &types.0);
        let types: Vec<_> = types.map(|(column, kind)| (column.clone(), kind.to_string().to_lowercase())).collect();
        json!({
            "format": self.format,
            "topology": self.topology,
            "time": self.time,
            "columns": self.columns,
            "types": pairs(&types),
            "delimiter": self.delimiter.map(|delimiter| delimiter.to_string()),
            "names": self.names,
            "null": self.null,
            "decimal": self.decimal.map(|decimal| decimal.to_string()),
            "hdu": self.hdu.as_ref().map(|hdu| hdu.parse::<u64>().map_or_else(|_| json!(hdu), |number| json!(number))),
            "particles": self.particles,
            "crs": self.crs,
            "strict": self.strict,
            "bad_rows": self.bad_rows,
            "max_record": self.max_record,
            "max_columns": self.max_columns,
            "max_inflation": self.max_inflation,
            "max_batch": self.max_batch,
        })
    }
}

#[derive(Debug, Default, PartialEq)]
pub struct Writing {
    pub name: Option<String>,
    pub memory_bytes: Option<usize>,
    pub optimize: bool,
}

impl Group for Writing {
    const OPTION: &'static str = "--writer";
    const KEYS: &'static [&'static str] = &["name", "memory_bytes", "optimize"];

    fn set(&mut self, entry: &Entry) -> Result<(), String> {
        match entry.key.as_str() {
            "name" => once(&mut self.name, entry.parsed()?),
            "memory_bytes" => once(&mut self.memory_bytes, bytes(entry.text()?)?),
            _ => {
                self.optimize = entry.is_on()?;
                Ok(())
            }
        }
    }
}

impl Writing {
    pub fn as_json(&self) -> Value {
        json!({ "name": self.name, "memory_bytes": self.memory_bytes, "optimize": self.optimize })
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Aspect {
    /// Equal for spatial axes with the same unit.
    #[default]
    Auto,
    Equal,
    Fill,
}

#[derive(Debug, Default)]
pub struct Drawing {
    pub colormap: Option<Colormap>,
    pub theme: Option<Style>,
    pub aspect: Option<Aspect>,
    /// Horizontal and vertical axis.
    pub log_axes: Option<[bool; 2]>,
    pub invert_axes: Option<[bool; 2]>,
    pub point_size: Option<f32>,
    pub fps: Option<f64>,
}

impl Group for Drawing {
    const OPTION: &'static str = "--style";
    const KEYS: &'static [&'static str] =
        &["colormap", "theme", "aspect", "log_axes", "invert_axes", "point_size", "fps"];

    fn set(&mut self, entry: &Entry) -> Result<(), String> {
        match entry.key.as_str() {
            "colormap" => once(&mut self.colormap, entry.parsed()?),
            "theme" => once(&mut self.theme, entry.parsed()?),
            "aspect" => {
                let aspect = match entry.text()? {
                    "auto" => Aspect::Auto,
                    "equal" => Aspect::Equal,
                    "fill" => Aspect::Fill,
                    other => return Err(format!("expected auto, equal or fill, not {other:?}")),
                };
                once(&mut self.aspect, aspect)
            }
            "log_axes" => once(&mut self.log_axes, axes(entry.text()?)?),
            "invert_axes" => once(&mut self.invert_axes, axes(entry.text()?)?),
            "point_size" => {
                let radius = entry.parsed()?;
                match RADII.contains(&radius) {
                    true => once(&mut self.point_size, radius),
                    false => Err("the radius is from 0.1 to 100 pixels".to_string()),
                }
            }
            _ => once(&mut self.fps, frame_rate(entry.text()?)?),
        }
    }
}

fn axes(text: &str) -> Result<[bool; 2], String> {
    match text {
        "x" => Ok([true, false]),
        "y" => Ok([false, true]),
        "xy" => Ok([true, true]),
        _ => Err(format!("expected x, y or xy, not {text:?}")),
    }
}

fn pairs(pairs: &[(String, String)]) -> Value {
    pairs.iter().map(|(column, text)| (column.clone(), json!(text))).collect::<serde_json::Map<_, _>>().into()
}

pub struct IngestGroups {
    pub new: NewTable,
    pub reading: Reading,
    pub writing: Writing,
}

impl IngestGroups {
    pub fn of(create: &[Entry], read: &[Entry], writer: &[Entry]) -> Result<IngestGroups> {
        Ok(IngestGroups { new: NewTable::of(create)?, reading: Reading::of(read)?, writing: Writing::of(writer)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<G: Group>(texts: &[&str]) -> Result<G> {
        let entries = texts.iter().map(|text| grouped(text)).collect::<Result<Vec<_>, _>>();
        G::of(&entries.map_err(Failure::usage)?)
    }

    #[test]
    fn options_of_a_group() {
        let new: NewTable = read(&[
            "lookup=pid,kind",
            "units=x=m,v=m/s",
            "units=d=um",
            "metadata=run=7",
            "compression=small",
            "shared",
        ])
        .unwrap();
        assert_eq!(new.lookup, ["pid", "kind"]);
        assert_eq!(new.units.len(), 3);
        assert_eq!((&new.metadata["run"], new.compression, new.shared), (&7.into(), Some(Compression::Small), true));
        let reading: Reading = read(&["columns=x,time", "time=-2.5", "types=x=float32", "max_record=1k"]).unwrap();
        assert_eq!((reading.columns.unwrap().len(), reading.time, reading.max_record), (2, Some(-2.5), Some(1024)));
        let writing: Writing = read(&["name=late", "optimize=true", "memory_bytes=64KiB"]).unwrap();
        assert_eq!(writing, Writing { name: Some("late".into()), memory_bytes: Some(65536), optimize: true });
    }

    #[test]
    fn a_wrong_option_says_what_is_wrong() {
        for (text, why) in [
            ("lokup=pid", "--create lokup: unknown key; did you mean lookup? The keys are lookup, capacity"),
            ("capacity", "--create capacity: expected capacity=VALUE"),
            ("capacity=many", "--create capacity: \"many\": expected an integer"),
            ("compression=tiny", "fast, balanced, small"),
            ("shared=perhaps", "expected true or false"),
            ("=7", "expected KEY=VALUE"),
            ("seed=", "expected KEY=VALUE"),
        ] {
            let failure = read::<NewTable>(&[text]).unwrap_err();
            assert!(failure.message.contains(why), "{text}: {}", failure.message);
        }
        assert!(read::<NewTable>(&["seed=1", "seed=2"]).unwrap_err().message.contains("given twice"));
    }
}
