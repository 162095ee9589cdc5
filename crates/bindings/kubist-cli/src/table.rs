//! Text tables for the terminal.

use arrow_array::RecordBatch;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, Schema};
use unicode_width::UnicodeWidthStr;

/// Formats rows in columns as wide as their widest cells; `right` marks right-aligned ones, and control characters are
/// escaped.
pub fn aligned(header: &[&str], right: &[bool], rows: &[Vec<String>]) -> String {
    let header: Vec<_> = header.iter().map(|name| kubist_types::shown::printable(name)).collect();
    let rows = rows.iter().map(|row| row.iter().map(|cell| kubist_types::shown::printable(cell)).collect());
    let rows: Vec<Vec<_>> = rows.collect();
    let mut widths: Vec<usize> = header.iter().map(|name| name.width()).collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.width().max(*width);
        }
    }
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let cells = cells.zip(&widths).enumerate().map(|(column, (cell, width))| {
            let padding = " ".repeat(width - cell.width());
            if right.get(column) == Some(&true) { padding + cell } else { cell.to_owned() + &padding }
        });
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
    let mut text = line(&mut header.iter().map(AsRef::as_ref));
    text += &line(&mut rule.iter().map(String::as_str));
    for row in &rows {
        text += &line(&mut row.iter().map(AsRef::as_ref));
    }
    text
}

pub struct Preview {
    rows: Vec<Vec<String>>,
    names: Vec<String>,
    right: Vec<bool>,
    most: usize,
}

const WIDEST: usize = 40;

impl Preview {
    pub fn new(schema: &Schema, most: usize) -> Preview {
        let fields = schema.fields().iter();
        Preview {
            rows: Vec::new(),
            names: fields.clone().map(|field| field.name().clone()).collect(),
            right: fields.map(|field| field.data_type().is_numeric()).collect(),
            most,
        }
    }

    pub fn add(&mut self, batch: &RecordBatch) -> Result<usize, ArrowError> {
        let options = FormatOptions::default().with_null("·").with_display_error(true);
        let columns: Vec<ArrayFormatter> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options))
            .collect::<Result<_, _>>()?;
        let taken = batch.num_rows().min(self.most - self.rows.len());
        for row in 0..taken {
            self.rows.push(columns.iter().map(|column| cell(&column.value(row).to_string())).collect());
        }
        Ok(taken)
    }

    pub fn page(&self) -> String {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        aligned(&names, &self.right, &self.rows)
    }
}

fn cell(text: &str) -> String {
    let clean = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut cell: String = clean.take(WIDEST + 1).collect();
    if cell.chars().count() > WIDEST {
        cell.pop();
        cell.pop();
        cell.push('…');
    }
    cell
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Float32Array, StringArray};

    use super::*;

    #[test]
    fn records_line_up() {
        let batch = RecordBatch::try_from_iter([
            ("x", Arc::new(Float32Array::from(vec![Some(0.5), None, Some(-12.25)])) as _),
            ("kind", Arc::new(StringArray::from(vec!["a", "b\nc", &"long".repeat(20)])) as _),
        ])
        .unwrap();
        let mut preview = Preview::new(&batch.schema(), 10);
        assert_eq!(preview.add(&batch).unwrap(), 3);
        let text = preview.page();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "     x  kind");
        assert_eq!(lines[2], "   0.5  a");
        assert_eq!(lines[3], "     ·  b c");
        assert!(lines[4].starts_with("-12.25  long") && lines[4].ends_with('…'));
        assert_eq!(lines.len(), 5);
    }

    #[test]
    fn wide_and_combining_characters_line_up() {
        let rows = [["界", "1"], ["e\u{301}", "22"], ["ab", "3"]].map(|row| row.map(str::to_owned).to_vec());
        let text = aligned(&["n", "v"], &[false, true], &rows);
        assert_eq!(text.lines().skip(1).collect::<Vec<_>>(), ["──  ──", "界   1", "e\u{301}   22", "ab   3"]);
    }

    #[test]
    fn a_preview_stops_at_its_most() {
        let x = Arc::new(Float32Array::from(vec![1.0, 2.0, 3.0]));
        let batch = RecordBatch::try_from_iter([("x", x as _)]).unwrap();
        let mut preview = Preview::new(&batch.schema(), 2);
        assert_eq!(preview.add(&batch).unwrap(), 2);
        assert_eq!(preview.add(&batch).unwrap(), 0);
    }
}
