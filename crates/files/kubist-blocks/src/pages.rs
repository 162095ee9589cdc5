//! Finds the pages of a Parquet column that have given rows.

use kubist_files::columns::Page;

use crate::model::Piece;
use crate::shape::Rect;

/// Byte ranges of these pages and of their row groups' dictionaries.
pub fn pieces(table: &[Page], rect: &Rect) -> Vec<Piece> {
    let (begin, end) = (rect.start[0], rect.start[0] + rect.count[0]);
    if begin == end {
        return Vec::new();
    }
    let first = table.partition_point(|page| page.first_row + page.rows <= begin);
    let last = table.partition_point(|page| page.first_row < end);
    let Some(group) = table.get(first).map(|page| page.group) else { return Vec::new() };
    let start = table.partition_point(|page| page.group < group);
    let dictionary = table[start..first].first().filter(|page| page.rows == 0);
    let pages = dictionary.into_iter().chain(&table[first..last.max(first)]);
    pages.map(|page| Piece { offset: page.offset, bytes: page.bytes }).collect()
}

pub fn check(table: &[Page], rows: u64, file_bytes: u64) -> std::result::Result<(), String> {
    let (mut next, mut group) = (0u64, 0);
    for page in table {
        if page.first_row != next || page.group < group {
            return Err(format!("its pages do not follow one another at row {next}"));
        }
        if page.offset.checked_add(page.bytes).is_none_or(|end| end > file_bytes) {
            return Err(format!("a page ends past the file: {} bytes from byte {}", page.bytes, page.offset));
        }
        next = next.checked_add(page.rows).ok_or("it has too many rows")?;
        group = page.group;
    }
    if next == rows { Ok(()) } else { Err(format!("its pages have {next} rows of {rows}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(first_row: u64, rows: u64, offset: u64, group: u32) -> Page {
        Page { first_row, rows, offset, bytes: 10, group }
    }

    #[test]
    fn rows_need_their_pages_and_the_dictionary_of_each_group() {
        let table = [page(0, 0, 0, 0), page(0, 5, 10, 0), page(5, 5, 20, 0), page(10, 0, 30, 1), page(10, 5, 40, 1)];
        let offsets = |start: u64, count: u64| -> Vec<u64> {
            pieces(&table, &Rect { start: vec![start], count: vec![count] }).iter().map(|piece| piece.offset).collect()
        };
        assert_eq!(offsets(0, 1), [0, 10]);
        assert_eq!(offsets(6, 2), [0, 20]);
        assert_eq!(offsets(4, 7), [0, 10, 20, 30, 40]);
        assert_eq!(offsets(12, 3), [30, 40]);
        assert_eq!(offsets(3, 0), [0; 0]);
        assert!(check(&table, 15, 50).is_ok());
        assert!(check(&table, 16, 50).unwrap_err().contains("15 rows of 16"));
        assert!(check(&table, 15, 49).unwrap_err().contains("past the file"));
        assert!(check(&table[1..], 15, 50).is_ok() && check(&table[2..], 15, 50).is_err());
    }
}
