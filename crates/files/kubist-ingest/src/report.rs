//! The plan and the report of an ingestion.

use std::path::Path;

use kubist::Metadata;
use kubist_types::human;
use serde::ser::{Serialize, SerializeMap, Serializer};

/// Entries in order of appearance.
#[derive(Clone, Debug, PartialEq)]
pub struct Ordered<V>(pub Vec<(String, V)>);

impl<V> Default for Ordered<V> {
    fn default() -> Self {
        Ordered(Vec::new())
    }
}

impl<V: Serialize> Serialize for Ordered<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        self.0.iter().try_for_each(|(name, value)| map.serialize_entry(name, value))?;
        map.end()
    }
}

impl<V> Ordered<V> {
    pub fn set(&mut self, name: &str, value: V) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.0.retain(|(known, _)| known != name);
    }

    pub(crate) fn get(&self, name: &str) -> Option<&V> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }
}

/// The left-out parts of a file, with the reasons.
pub type Parts = Ordered<String>;

#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Taken {
    pub file: String,
    pub rows: u64,
    pub commits: u64,
    #[serde(skip)]
    pub(crate) is_whole: bool,
}

#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Report {
    pub table: String,
    pub created: bool,
    pub writer: Option<String>,
    pub files: Vec<Taken>,
    pub rows: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub rows_outside: u64,
    /// Number of steps that the table already had.
    pub skipped: u64,
    /// Number of skipped steps that are the only step of their file.
    #[serde(skip)]
    pub(crate) skipped_files: u64,
    /// The unreadable files, with the errors; no rows from these files were written.
    pub failed: Ordered<String>,
    pub notes: Vec<String>,
    pub left_out: Ordered<Parts>,
    /// The new columns of the table, null in existing rows.
    pub columns_added: Vec<String>,
    /// Number of rows without a position, by file.
    pub rows_skipped: Ordered<u64>,
    /// True if the table had no topology, and got the topology of the call.
    pub topology_added: bool,
    pub seconds: f64,
}

impl Report {
    pub(crate) fn of_file(&mut self, file: &str) -> &mut Taken {
        let index = self.files.iter().position(|taken| taken.file == file).unwrap_or_else(|| {
            self.files.push(Taken { file: file.to_owned(), ..Taken::default() });
            self.files.len() - 1
        });
        &mut self.files[index]
    }

    pub(crate) fn kept(&self) -> String {
        const NAMED: usize = 3;
        let whole: Vec<&str> =
            self.files.iter().filter(|taken| taken.is_whole).map(|taken| taken.file.as_str()).collect();
        let mut kept: Vec<String> = match &whole[..] {
            few if few.len() <= NAMED => few.iter().map(|file| file.to_string()).collect(),
            [first, .., last] => vec![format!("{} files from {first} to {last}", human::count(whole.len() as u64))],
            _ => Vec::new(),
        };
        if let Some(part) = self.files.iter().find(|taken| !taken.is_whole && taken.rows > 0) {
            kept.push(format!("the first {} of {}", human::counted(part.rows, "record"), part.file));
        }
        match kept.is_empty() {
            false => format!("committed and kept: {}", kept.join(", ")),
            true => "nothing was written".to_string(),
        }
    }

    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.notes.iter().map(|note| format!("note: {note}")).collect();
        lines.extend(of_files(&self.left_out).into_iter().map(|text| format!("left out: {text}")));
        let seconds = human::duration(self.seconds);
        let mut text = match self.files.is_empty() {
            true => format!("{}: nothing new in {seconds}", self.table),
            false => format!(
                "{}: {} from {} in {seconds} ({}/s), ",
                self.table,
                human::counted(self.rows, "record"),
                human::counted(self.files.len() as u64, "file"),
                human::rate(self.rows as f64 / self.seconds),
            ),
        };
        if !self.files.is_empty() {
            if self.bytes_read > 0 {
                text += &format!("{} read, ", human::bytes(self.bytes_read));
            }
            text += &format!("{} written", human::bytes(self.bytes_written));
        }
        if self.topology_added {
            text += "; the topology was put into the table, which had none";
        }
        if self.skipped > 0 {
            let (were, them) = if self.skipped == 1 { ("was", "it") } else { ("were", "them") };
            let what = if self.skipped == self.skipped_files { "file" } else { "step" };
            let steps = human::counted(self.skipped, what);
            text += &format!("; {steps} {were} ingested already (--again takes {them} again)");
        }
        if !self.columns_added.is_empty() {
            let names = self.columns_added.join(", ");
            text += &format!("; new columns {}, null in the rows before", kubist_types::shown::printable(&names));
        }
        for (path, rows) in &self.rows_skipped.0 {
            let were = if *rows == 1 { "was" } else { "were" };
            text += &format!("; {path}: {} without a position {were} skipped", human::counted(*rows, "row"));
        }
        lines.push(text);
        if self.rows_outside > 0 {
            lines.push(outside(self.rows_outside, self.rows));
        }
        lines
    }
}

pub fn outside(outside: u64, rows: u64) -> String {
    let share = 100.0 * outside as f64 / rows.max(1) as f64;
    format!(
        "{} ({share:.1} %) outside of the domain: queries find them more slowly; \
         the optimizer makes a new grid when that pays off",
        human::counted(outside, "record")
    )
}

/// Formats left-out parts; files with equal parts share a line.
fn of_files(left_out: &Ordered<Parts>) -> Vec<String> {
    let mut files: Vec<((&str, &str), Vec<&str>)> = Vec::new();
    for (path, parts) in &left_out.0 {
        for (name, why) in &parts.0 {
            let part = (name.as_str(), why.as_str());
            match files.iter_mut().find(|(known, _)| *known == part) {
                Some((_, paths)) => paths.push(path),
                None => files.push((part, vec![path])),
            }
        }
    }
    let line = |((name, why), paths): ((&str, &str), Vec<&str>)| {
        let more = match paths.len() as u64 - 1 {
            0 => String::new(),
            more => format!(" and {}", human::counted(more, "more file")),
        };
        let file = Path::new(paths[0]).file_name().unwrap_or_default().to_string_lossy();
        format!("{name}: {why} ({file}{more})")
    };
    files.into_iter().map(line).collect()
}

#[derive(Clone, Debug, serde::Serialize)]
pub struct Plan {
    pub format: String,
    /// The files in the order of ingestion.
    pub files: Vec<String>,
    /// Column names, types and units.
    pub columns: Vec<(String, String, Option<String>)>,
    pub dimensions: Vec<String>,
    pub identity: Vec<String>,
    pub lookup: Vec<String>,
    /// Number of steps, and number of steps that the table has.
    pub steps: u64,
    pub known: u64,
    pub rows: Option<u64>,
    pub times: Option<(f64, f64)>,
    pub metadata: Metadata,
    pub notes: Vec<String>,
    pub left_out: Ordered<Parts>,
}

impl Plan {
    pub fn lines(&self) -> Vec<String> {
        let rows = match self.rows {
            None => "records not counted yet".to_string(),
            Some(rows) => human::counted(rows, "record"),
        };
        let files = match &self.files[..] {
            [first, .., last] => format!("{}: {first} to {last}", self.files.len()),
            _ => format!("{}: {}", self.files.len(), self.files.join(", ")),
        };
        let list = |names: &[String], otherwise: &str| match names.is_empty() {
            true => otherwise.to_owned(),
            false => names.join(", "),
        };
        let mut lines = vec![
            format!("format      {}", self.format),
            format!("files       {files}"),
            format!("steps       {}, {} of them in the table already; {rows}", self.steps, self.known),
        ];
        if let Some((first, last)) = self.times {
            lines.push(format!("time        {} to {}", human::number(first), human::number(last)));
        }
        lines.push(format!("dimensions  {}", list(&self.dimensions, "none: say --dimensions")));
        lines.push(format!("identity    {}", list(&self.identity, "each record by itself")));
        if !self.lookup.is_empty() {
            lines.push(format!("lookup      {}", self.lookup.join(", ")));
        }
        lines.push("columns".to_string());
        let width = self.columns.iter().map(|(name, ..)| name.chars().count()).max().unwrap_or(0);
        for (name, kind, unit) in &self.columns {
            let unit = unit.as_ref().map_or(String::new(), |unit| format!(" [{unit}]"));
            lines.push(format!("  {name:width$}  {kind}{unit}"));
        }
        for (name, value) in &self.metadata {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let short: String = text.chars().take(57).collect();
            let text = if text.chars().count() < 60 { text } else { format!("{short}...") };
            lines.push(format!("metadata    {name} = {text}"));
        }
        lines.extend(self.notes.iter().map(|note| format!("note        {note}")));
        lines.extend(of_files(&self.left_out).into_iter().map(|text| format!("left out    {text}")));
        lines
    }
}
