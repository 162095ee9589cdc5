//! What people type after an option, read strictly: boxes, domains, fractions,
//! sizes. Ends of ranges stay text until the column says what they are
//! ([`value`]).

use std::path::PathBuf;
use std::str::FromStr;

use arrow_schema::{DataType, Schema};
use kubist::{Bound, Dimension, Domain, PerCell, Value, data_type};
use kubist_plot::SIDES;

use crate::failure::{Failure, Result};

/// One `COLUMN=LOW:HIGH` of a box.
#[derive(Clone, Debug, PartialEq)]
pub struct Range {
    pub column: String,
    pub low: Option<String>,
    pub high: Option<String>,
}

/// A comma-separated box, as one option's value.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranges(pub Vec<Range>);

impl FromStr for Ranges {
    type Err = String;

    fn from_str(text: &str) -> Result<Ranges, String> {
        parts(text, "COLUMN=LOW:HIGH")?
            .into_iter()
            .map(|(column, ends)| {
                let (low, high) = split_ends(&column, &ends)?;
                Ok(Range { column, low, high })
            })
            .collect::<Result<_, String>>()
            .map(Ranges)
    }
}

/// `LOW:HIGH`, `LOW..HIGH` (where an end has colons itself, like a time), or one
/// value for both. An end left out is open.
fn split_ends(column: &str, ends: &str) -> Result<(Option<String>, Option<String>), String> {
    let end = |text: &str| (!text.trim().is_empty()).then(|| text.trim().to_string());
    let (low, high) = match (ends.split_once(".."), ends.matches(':').count()) {
        (Some((low, high)), _) => (low, high),
        (None, 0) => (ends, ends),
        (None, 1) => ends.split_once(':').unwrap_or((ends, ends)),
        (None, _) => {
            return Err(format!("{column}={ends}: write LOW..HIGH where an end has colons itself"));
        }
    };
    if high.contains("..") || high.starts_with('.') && ends.contains("...") {
        return Err(format!("{column}={ends}: expected LOW:HIGH"));
    }
    Ok((end(low), end(high)))
}

/// Splits `a=1,b=2`; `shape` is what each part should look like, for messages.
fn parts(text: &str, shape: &str) -> Result<Vec<(String, String)>, String> {
    text.split(',')
        .map(|part| match part.split_once('=') {
            Some((name, value)) if !name.trim().is_empty() && !value.trim().is_empty() => {
                Ok((name.trim().to_string(), value.trim().to_string()))
            }
            _ => Err(format!("{part:?}: expected {shape}")),
        })
        .collect()
}

/// The box as the engine takes it, its ends typed by the columns of `schema`.
pub fn bounds<'a>(ranges: impl IntoIterator<Item = &'a Ranges>, schema: &Schema) -> Result<Vec<Bound>> {
    let mut bounds = Vec::new();
    for range in ranges.into_iter().flat_map(|ranges| &ranges.0) {
        let field = column(schema, &range.column)?;
        let end = |text: &Option<String>| text.as_deref().map(|text| value(text, field)).transpose();
        bounds.push(Bound { column: field.name().clone(), low: end(&range.low)?, high: end(&range.high)? });
    }
    Ok(bounds)
}

/// The column of that name, by the engine's rule, or a failure that lists those there are.
pub fn column<'a>(schema: &'a Schema, name: &str) -> Result<&'a arrow_schema::Field> {
    Ok(schema.field(kubist::column_index(schema, name).map_err(Failure::usage)?))
}

/// The name of a file with charts, which are PNGs.
pub fn charts(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase()).as_deref() {
        None | Some("png") => Ok(path),
        Some(ending) => Err(format!("charts are PNG files: name one that ends in .png, not .{ending}")),
    }
}

/// The columns of an order, as `diameter desc,"a, b"`.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderBy(pub Vec<String>);

/// Terms between commas that are not in quotes.
pub fn order_by(text: &str) -> Result<OrderBy, String> {
    let (mut terms, mut quote) = (vec![String::new()], None);
    for letter in text.chars() {
        match (letter, quote) {
            (',', None) => {
                terms.push(String::new());
                continue;
            }
            ('"' | '`', None) => quote = Some(letter),
            (_, Some(open)) if letter == open => quote = None,
            _ => {}
        }
        if let Some(term) = terms.last_mut() {
            term.push(letter);
        }
    }
    match terms.iter().find(|term| term.trim().is_empty()) {
        Some(_) => Err(format!("{text:?}: expected columns between commas, as 'diameter desc,pid'")),
        None => Ok(OrderBy(terms)),
    }
}

/// A value typed by its column: whole numbers exactly, other numbers as floats,
/// everything else (dates, and numbers with units) as text that the engine reads.
pub fn value(text: &str, field: &arrow_schema::Field) -> Result<Value> {
    let mut data_type = field.data_type();
    if let DataType::Dictionary(_, values) = data_type {
        data_type = values;
    }
    let value = match data_type {
        DataType::Boolean => text.to_ascii_lowercase().parse().map(Value::Bool).ok(),
        _ if !data_type.is_numeric() && !matches!(data_type, DataType::Duration(_)) => {
            Some(Value::Text(text.to_string()))
        }
        _ => match (text.parse(), text.parse::<f64>()) {
            (Ok(whole), _) => Some(Value::Int(whole)),
            (_, Ok(number)) => (!number.is_nan()).then_some(Value::Float(number)),
            // With a unit: the engine reads it.
            _ => text
                .starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))
                .then(|| Value::Text(text.to_string())),
        },
    };
    value.ok_or_else(|| Failure::usage(format!("{text:?} is not a value for column {:?} ({data_type})", field.name())))
}

/// How a dimension's domain was given: `learned`, `quantile` or `LOW:HIGH`.
#[derive(Clone, Debug, PartialEq)]
pub struct Domains(Vec<(String, Shape)>);

#[derive(Clone, Debug, PartialEq)]
enum Shape {
    Learned,
    Quantile,
    Linear(String, String),
}

impl Domains {
    /// Each column with its domain as it is written on the command line.
    pub fn as_text(&self) -> Vec<(String, String)> {
        let text = |shape: &Shape| match shape {
            Shape::Learned => "learned".to_string(),
            Shape::Quantile => "quantile".to_string(),
            Shape::Linear(low, high) => format!("{low}..{high}"),
        };
        self.0.iter().map(|(column, shape)| (column.clone(), text(shape))).collect()
    }
}

impl FromStr for Domains {
    type Err = String;

    fn from_str(text: &str) -> Result<Domains, String> {
        parts(text, "COLUMN=LOW:HIGH, COLUMN=quantile or COLUMN=learned")?
            .into_iter()
            .map(|(column, shape)| {
                let shape = match shape.as_str() {
                    "learned" => Shape::Learned,
                    "quantile" => Shape::Quantile,
                    ends => match split_ends(&column, ends)? {
                        (Some(low), Some(high)) => Shape::Linear(low, high),
                        _ => return Err(format!("{column}={ends}: a domain has two ends")),
                    },
                };
                Ok((column, shape))
            })
            .collect::<Result<_, String>>()
            .map(Domains)
    }
}

/// The domains that were given, typed by the columns of `schema`.
pub fn domains(domains: &[Domains], schema: &Schema) -> Result<Vec<Dimension>> {
    let names: Vec<String> = domains.iter().flat_map(|domains| &domains.0).map(|(column, _)| column.clone()).collect();
    dimensions(&names, domains, schema)
}

/// The dimensions with their domains, typed by the columns of `schema`.
pub fn dimensions(names: &[String], domains: &[Domains], schema: &Schema) -> Result<Vec<Dimension>> {
    let shapes: Vec<&(String, Shape)> = domains.iter().flat_map(|domains| &domains.0).collect();
    for (index, (name, _)) in shapes.iter().enumerate() {
        if !names.contains(name) {
            return Err(Failure::usage(format!("--domain {name}: {name:?} is not among the dimensions")));
        }
        if shapes[..index].iter().any(|(earlier, _)| earlier == name) {
            return Err(Failure::usage(format!("--domain {name}: given twice")));
        }
    }
    names
        .iter()
        .map(|name| {
            let field = column(schema, name)?;
            let domain = match shapes.iter().find(|(column, _)| column == name) {
                None | Some((_, Shape::Learned)) => Domain::Learned,
                Some((_, Shape::Quantile)) => Domain::Quantile,
                Some((_, Shape::Linear(low, high))) => Domain::Linear(value(low, field)?, value(high, field)?),
            };
            Ok(Dimension { column: name.clone(), domain })
        })
        .collect()
}

/// A fraction in (0, 1], plain or in percent.
pub fn precision(text: &str) -> Result<f64, String> {
    match fraction(text)? {
        p if p > 0.0 && p <= 1.0 => Ok(p),
        _ => Err("a precision lies above 0 and up to 1 (100%)".to_string()),
    }
}

/// A share above 0, plain or in percent.
pub fn share(text: &str) -> Result<f64, String> {
    match fraction(text)? {
        share if share > 0.0 && share.is_finite() => Ok(share),
        _ => Err("a share lies above 0".to_string()),
    }
}

/// How well something is to be known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    Share(f64),
    Absolute(f64),
}

impl Goal {
    pub fn share(self) -> Option<f64> {
        if let Goal::Share(share) = self { Some(share) } else { None }
    }

    pub fn absolute(self) -> Option<f64> {
        if let Goal::Absolute(value) = self { Some(value) } else { None }
    }
}

/// `1%` or `0.01` of a value, or `0.01 abs` whatever the value.
pub fn goal(text: &str) -> Result<Goal, String> {
    let Some(number) = text.trim().strip_suffix("abs") else { return share(text).map(Goal::Share) };
    match number.trim().parse::<f64>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(Goal::Absolute(value)),
        _ => Err(format!("{text:?}: an absolute error is a number above 0, as '0.01 abs'")),
    }
}

/// Seconds, with parts of one.
pub fn seconds(text: &str) -> Result<std::time::Duration, String> {
    let number = text.trim().trim_end_matches('s').trim();
    let seconds: f64 = number.parse().map_err(|_| format!("{text:?} is not a number of seconds"))?;
    std::time::Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// `LO:HI`, fractions with `0 <= LO < HI <= 1`; an end left out is 0 or 1.
pub fn window(text: &str) -> Result<(f64, f64), String> {
    let (low, high) = text.split_once(':').ok_or("expected LO:HI")?;
    let low = if low.is_empty() { 0.0 } else { fraction(low)? };
    let high = if high.is_empty() { 1.0 } else { fraction(high)? };
    if low >= 0.0 && low < high && high <= 1.0 {
        Ok((low, high))
    } else {
        Err("a window needs 0 <= LO < HI <= 1".to_string())
    }
}

fn fraction(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let (number, divisor) = match text.strip_suffix('%') {
        Some(percent) => (percent.trim(), 100.0),
        None => (text, 1.0),
    };
    match number.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number / divisor),
        _ => Err(format!("{text:?} is not a fraction (like 0.01 or 1%)")),
    }
}

/// `K:x=0.1,y=0.1`: the K lowest priorities of each cell.
pub fn per_cell(text: &str) -> Result<PerCell, String> {
    let shape = "K:COLUMN=WIDTH,... with K at least 1";
    let (rows, widths) = text.split_once(':').ok_or_else(|| format!("expected {shape}"))?;
    let rows = rows.trim().parse().ok().filter(|rows| *rows > 0).ok_or_else(|| format!("expected {shape}"))?;
    let widths = parts(widths, "COLUMN=WIDTH")?
        .into_iter()
        .map(|(column, width)| match width.parse::<f64>() {
            Ok(number) if number > 0.0 && number.is_finite() => Ok((column, number)),
            _ => Err(format!("{column}={width}: a cell's width is a number above 0")),
        })
        .collect::<Result<_, String>>()?;
    Ok(PerCell { rows, widths })
}

/// A size in bytes: `256MiB`, `1GB`, `65536`.
pub fn bytes(text: &str) -> Result<usize, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit: f64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kib" => 1024.0,
        "m" | "mib" => 1024f64.powi(2),
        "g" | "gib" => 1024f64.powi(3),
        "t" | "tib" => 1024f64.powi(4),
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "tb" => 1e12,
        _ => return Err(format!("{text:?} is not a size (like 256MiB)")),
    };
    match number.parse::<f64>() {
        Ok(number) if number * unit >= 1.0 && number * unit < usize::MAX as f64 => Ok((number * unit) as usize),
        _ => Err(format!("{text:?} is not a size (like 256MiB)")),
    }
}

/// One field delimiter: a character, `tab` or `\t`.
pub fn delimiter(text: &str) -> Result<u8, String> {
    match text {
        "tab" | "\\t" => Ok(b'\t'),
        _ if text.len() == 1 && !text.contains(['"', '\n', '\r']) => Ok(text.as_bytes()[0]),
        _ => Err("a delimiter is one ASCII character, or tab".to_string()),
    }
}

/// Columns with types: `pid=int64,x=float32`.
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

/// Columns with units: `x=m,v=m/s`.
#[derive(Clone, Debug, PartialEq)]
pub struct Units(pub Vec<(String, String)>);

impl FromStr for Units {
    type Err = String;

    fn from_str(text: &str) -> Result<Units, String> {
        parts(text, "COLUMN=UNIT").map(Units)
    }
}

/// `KEY=VALUE`: the value is JSON, or the text that it is.
pub fn entry(text: &str) -> Result<(String, serde_json::Value), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
            Ok((key.trim().to_string(), value))
        }
        _ => Err("expected KEY=VALUE".to_string()),
    }
}

/// A column to add, its default still as text.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnText {
    pub name: String,
    pub data_type: DataType,
    pub default: Option<String>,
}

/// `NAME:TYPE` or `NAME:TYPE=DEFAULT`.
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

/// A picture's size in pixels: `1200x900`.
pub fn size(text: &str) -> Result<(u32, u32), String> {
    match text.split_once(['x', 'X']).map(|(w, h)| (w.parse::<u32>(), h.parse::<u32>())) {
        Some((Ok(width), Ok(height))) if SIDES.contains(&width) && SIDES.contains(&height) => Ok((width, height)),
        _ => Err(format!("expected WIDTHxHEIGHT, each {} to {} pixels", SIDES.start(), SIDES.end())),
    }
}

/// Pictures a second.
pub fn frame_rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (0.01..=100.0).contains(&rate) => Ok(rate),
        _ => Err("expected a number of pictures a second, 0.01 to 100".to_string()),
    }
}

/// `LO:HI` numbers, either of them open.
pub fn number_range(text: &str) -> Result<(Option<f64>, Option<f64>), String> {
    let (low, high) = text.split_once(':').ok_or("expected LO:HI")?;
    let end = |text: &str| match text.trim() {
        "" => Ok(None),
        text => text.parse::<f64>().ok().filter(|v| v.is_finite()).map(Some).ok_or(format!("{text:?} is not a number")),
    };
    match (end(low)?, end(high)?) {
        (Some(low), Some(high)) if low >= high => Err("LO must be below HI".to_string()),
        ends => Ok(ends),
    }
}

#[cfg(test)]
mod tests {
    use arrow_schema::{Field, TimeUnit};

    use super::*;

    fn schema() -> Schema {
        Schema::new(vec![
            Field::new("x", DataType::Float32, true),
            Field::new("pid", DataType::UInt64, true),
            Field::new("when", DataType::Timestamp(TimeUnit::Second, None), true),
            Field::new("kind", DataType::Utf8, true),
        ])
    }

    fn one(text: &str) -> Result<Bound> {
        let ranges: Ranges = text.parse().map_err(Failure::usage)?;
        Ok(bounds([&ranges], &schema())?.remove(0))
    }

    #[test]
    fn a_box_has_typed_ends() {
        let bound = one("x=0.1:0.2").unwrap();
        assert_eq!((bound.low, bound.high), (Some(Value::Float(0.1)), Some(Value::Float(0.2))));
        let bound = one("x=-1e-3:").unwrap();
        assert_eq!((bound.low, bound.high), (Some(Value::Float(-1e-3)), None));
        let bound = one("pid=18446744073709551615").unwrap();
        assert_eq!(bound.low, Some(Value::Int(u64::MAX.into())));
        assert_eq!(bound.low, bound.high);
        let bound = one("when=2020-01-01:2020-01-02").unwrap();
        assert_eq!(bound.low, Some(Value::Text("2020-01-01".into())));
        let bound = one("when=2020-01-01T10:00:00..2020-01-01T11:00").unwrap();
        assert_eq!(bound.low, Some(Value::Text("2020-01-01T10:00:00".into())));
        assert_eq!(bound.high, Some(Value::Text("2020-01-01T11:00".into())));
        assert_eq!(one("x=inf:").unwrap().low, Some(Value::Float(f64::INFINITY)));
        assert_eq!(one("kind=7").unwrap().low, Some(Value::Text("7".into())));
        assert_eq!(one("x=:").unwrap().low, None);
    }

    #[test]
    fn several_ranges_in_one_box() {
        let ranges: Ranges = "x=0.1:0.2, pid=:5".parse().unwrap();
        assert_eq!(bounds([&ranges], &schema()).unwrap().len(), 2);
    }

    #[test]
    fn a_wrong_box_says_what_is_wrong() {
        for (text, message) in [
            ("x", "expected COLUMN=LOW:HIGH"),
            ("x=", "expected COLUMN=LOW:HIGH"),
            ("=1:2", "expected COLUMN=LOW:HIGH"),
            ("x=1:2,3", "\"3\": expected COLUMN=LOW:HIGH"),
            ("x=1...2", "expected LOW:HIGH"),
            ("when=10:00:11:00", "LOW..HIGH"),
            ("y=1:2", "no column `y`; did you mean `x`?; the columns are `x`, `pid`, `when`, `kind`"),
            ("x=a:b", "\"a\" is not a value for column \"x\" (Float32)"),
            ("x=nan:", "\"nan\" is not a value"),
        ] {
            let failure = one(text).unwrap_err();
            assert!(failure.message.contains(message), "{text}: {}", failure.message);
        }
    }

    #[test]
    fn domains() {
        let domains: Domains = "x=0:1,pid=quantile".parse().unwrap();
        let names = ["x", "pid", "when"].map(String::from);
        let dimensions = dimensions(&names, &[domains], &schema()).unwrap();
        assert_eq!(dimensions[0].domain, Domain::Linear(Value::Int(0), Value::Int(1)));
        assert_eq!(dimensions[1].domain, Domain::Quantile);
        assert_eq!(dimensions[2].domain, Domain::Learned);
        assert!("x=0:".parse::<Domains>().is_err());
        let stray: Domains = "kind=0:1".parse().unwrap();
        assert!(super::dimensions(&names, &[stray], &schema()).unwrap_err().message.contains("not among"));
    }

    #[test]
    fn fractions_and_windows() {
        assert_eq!(precision("0.01"), Ok(0.01));
        assert_eq!(precision("1%"), Ok(0.01));
        assert_eq!(precision("1"), Ok(1.0));
        assert!(precision("0").is_err() && precision("1.5").is_err() && precision("nan").is_err());
        assert_eq!(window("0:0.1"), Ok((0.0, 0.1)));
        assert_eq!(window("10%:"), Ok((0.1, 1.0)));
        assert!(window("0.5:0.5").is_err() && window("0.5").is_err() && window("-1:0.5").is_err());
    }

    #[test]
    fn cells_sizes_and_delimiters() {
        let cell = per_cell("3:x=0.1,y=2").unwrap();
        assert_eq!((cell.rows, cell.widths), (3, vec![("x".into(), 0.1), ("y".into(), 2.0)]));
        assert!(per_cell("0:x=1").is_err() && per_cell("x=1").is_err() && per_cell("1:x=0").is_err());
        assert_eq!(bytes("256MiB"), Ok(256 << 20));
        assert_eq!(bytes("1.5 GB"), Ok(1_500_000_000));
        assert_eq!(bytes("65536"), Ok(65536));
        assert!(bytes("lots").is_err() && bytes("0").is_err() && bytes("1e3").is_err());
        assert_eq!(delimiter("tab"), Ok(b'\t'));
        assert!(delimiter(";;").is_err() && delimiter("é").is_err());
        assert_eq!(size("1200x900"), Ok((1200, 900)));
        assert!(size("10x10").is_err() && size("1200").is_err());
        assert_eq!(number_range("1e-6:"), Ok((Some(1e-6), None)));
        assert!(number_range("2:1").is_err());
    }

    #[test]
    fn columns_units_and_entries() {
        let column = new_column("v:x:timestamp[ms]=2024-01-01T10:00=").unwrap();
        assert_eq!((column.name.as_str(), column.default.as_deref()), ("v:x", Some("2024-01-01T10:00=")));
        assert_eq!(new_column("note:string").unwrap().default, None);
        assert!(new_column("note").is_err() && new_column(":int8").is_err() && new_column("a:b=1").is_err());
        let units: Units = "x=m,v=m/s".parse().unwrap();
        assert_eq!(units.0[1], ("v".to_string(), "m/s".to_string()));
        assert!("x".parse::<Units>().is_err());
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
