//! Parsers of option values about columns, metadata, named tables and chart files.
//!
//! Lists have commas, which names and values cannot contain. Types are parsed here, but units, error bounds, periods
//! and defaults stay text, which the engine parses later.

use std::path::PathBuf;
use std::str::FromStr;

use arrow_schema::DataType;
use kubist_types::Value;
use kubist_types::type_names::data_type;

use super::parts;

#[derive(Clone, Debug, PartialEq)]
pub struct Types(pub Vec<(String, DataType)>);

impl FromStr for Types {
    type Err = String;

    fn from_str(text: &str) -> Result<Types, String> {
        parts(text, "COLUMN=TYPE")?
            .into_iter()
            .map(|(column, name)| Ok((column, data_type(&name)?)))
            .collect::<Result<_, String>>()
            .map(Types)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Units(pub Vec<(String, String)>);

impl FromStr for Units {
    type Err = String;

    fn from_str(text: &str) -> Result<Units, String> {
        parts(text, "COLUMN=UNIT").map(Units)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Bounds(pub Vec<(String, String)>);

impl FromStr for Bounds {
    type Err = String;

    fn from_str(text: &str) -> Result<Bounds, String> {
        parts(text, "COLUMN=BOUND").map(Bounds)
    }
}

/// Periods by column, as a length or as `LOW:HIGH`: `ra=360,x=-12.5:12.5`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Periods(pub Vec<(String, String)>);

impl FromStr for Periods {
    type Err = String;

    fn from_str(text: &str) -> Result<Periods, String> {
        parts(text, "COLUMN=PERIOD").map(Periods)
    }
}

impl Periods {
    pub fn values(&self) -> Vec<(String, Value)> {
        self.0.iter().map(|(column, period)| (column.clone(), Value::Text(period.clone()))).collect()
    }
}

pub fn named_table(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, location)) if !name.trim().is_empty() && !location.is_empty() => {
            Ok((name.trim().to_owned(), location.to_owned()))
        }
        _ => Err("expected NAME=LOCATION, like m=materials.kubist".to_string()),
    }
}

/// Parses `KEY=VALUE`, where a value that is not JSON is a text.
pub fn entry(text: &str) -> Result<(String, serde_json::Value), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
            Ok((key.trim().to_string(), value))
        }
        _ => Err("expected KEY=VALUE".to_string()),
    }
}

/// The default is not parsed yet.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnText {
    pub name: String,
    pub data_type: DataType,
    pub default: Option<String>,
}

/// Parses `NAME:TYPE` or `NAME:TYPE=DEFAULT`, where the name may contain colons.
pub fn new_column(text: &str) -> Result<ColumnText, String> {
    let (head, default) = match text.split_once('=') {
        Some((head, default)) => (head, Some(default.to_string())),
        None => (text, None),
    };
    match head.rsplit_once(':') {
        Some((name, kind)) if !name.trim().is_empty() => {
            Ok(ColumnText { name: name.trim().to_string(), data_type: data_type(kind.trim())?, default })
        }
        _ => Err("expected NAME:TYPE or NAME:TYPE=DEFAULT".to_string()),
    }
}

/// Parses the path of a chart, whose extension is `.png` or absent.
pub fn charts(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase()).as_deref() {
        None | Some("png") => Ok(path),
        Some(ending) => Err(format!("charts are PNG files: use a name that ends in .png, not .{ending}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_units_and_entries() {
        let column = new_column("v:x:timestamp[ms]=2024-01-01T10:00=").unwrap();
        assert_eq!((column.name.as_str(), column.default.as_deref()), ("v:x", Some("2024-01-01T10:00=")));
        assert_eq!(new_column("note:string").unwrap().default, None);
        assert!(new_column("note").is_err() && new_column(":int8").is_err() && new_column("a:b=1").is_err());
        let units: Units = "x=m,v=m/s".parse().unwrap();
        assert_eq!(units.0[1], ("v".to_string(), "m/s".to_string()));
        assert!("x".parse::<Units>().is_err());
        let bounds: Bounds = "x=1um,ux=1e-4 rel".parse().unwrap();
        assert_eq!(bounds.0[1], ("ux".to_string(), "1e-4 rel".to_string()));
        assert_eq!(entry("dt=1e-4").unwrap().1, 1e-4);
        assert_eq!(entry("code=alya=2").unwrap(), ("code".to_string(), "alya=2".into()));
        assert!(entry("=1").is_err() && entry("key").is_err());
    }

    #[test]
    fn types() {
        let types: Types = "x=float32,pid=int64".parse().unwrap();
        assert_eq!(types.0[0], ("x".to_string(), DataType::Float32));
        assert!("x=quaternion".parse::<Types>().unwrap_err().contains("is not a type"));
    }
}
