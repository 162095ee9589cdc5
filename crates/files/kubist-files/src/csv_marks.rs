//! Unusual marks of missing values, and decimal commas, in text.

use arrow_array::StringArray;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Marks of missing values in every column, in addition to the usual ones.
    pub null: Vec<String>,
    pub decimal: Decimal,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Decimal {
    #[default]
    Point,
    Comma,
}

impl std::str::FromStr for Decimal {
    type Err = String;

    fn from_str(text: &str) -> Result<Decimal, String> {
        match text {
            "." => Ok(Decimal::Point),
            "," => Ok(Decimal::Comma),
            _ => Err("a decimal mark is . or ,".to_string()),
        }
    }
}

impl std::fmt::Display for Decimal {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Decimal::Point => ".",
            Decimal::Comma => ",",
        })
    }
}

impl Marks {
    pub(crate) fn without_null(&self, text: StringArray) -> StringArray {
        if self.null.is_empty() {
            return text;
        }
        let is_null = |value: &str| self.null.iter().any(|word| word == value.trim());
        text.iter().map(|value| value.filter(|value| !is_null(value))).collect()
    }

    /// Replaces decimal commas. A field that has a point is then not a number, because the point could separate
    /// thousands.
    pub(crate) fn with_points(&self, text: &StringArray) -> StringArray {
        match self.decimal {
            Decimal::Point => text.clone(),
            Decimal::Comma => text.iter().map(|value| value.map(swapped)).collect(),
        }
    }
}

fn swapped(value: &str) -> String {
    let is_part = |byte: u8| byte.is_ascii_digit() || b"+-.,eE ".contains(&byte);
    let is_number = value.bytes().all(is_part) && value.bytes().any(|byte| byte.is_ascii_digit());
    let other = |letter| match letter {
        ',' => '.',
        '.' => ',',
        other => other,
    };
    if is_number { value.chars().map(other).collect() } else { value.to_owned() }
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float64Type, Int64Type};
    use arrow_array::{Array, RecordBatch};
    use arrow_schema::DataType;

    use super::*;
    use crate::testing::read_all;
    use crate::{Delimiter, Options};

    fn read(text: &str, options: &Options) -> crate::Result<RecordBatch> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        std::fs::write(&path, text).unwrap();
        read_all(&path, options)
    }

    #[test]
    fn commas_are_decimal_marks_of_numbers_alone() {
        let marks = Marks { decimal: Decimal::Comma, ..Marks::default() };
        let options = Options { marks, ..Options::default() };
        let batch = read("id;x;name;when;p\n1;0,5;a,b;2020-01-01;1.5\n2;-1,5e3;1,5;2020-01-02;2\n", &options).unwrap();
        assert_eq!(batch["id"].as_primitive::<Int64Type>().values(), &[1, 2]);
        assert_eq!(batch["x"].as_primitive::<Float64Type>().values(), &[0.5, -1500.0]);
        let name: Vec<_> = batch["name"].as_string::<i32>().iter().flatten().collect();
        assert_eq!(name, ["a,b", "1,5"]);
        assert_eq!(batch["when"].data_type(), &DataType::Date32);
        // It could be 15 with a separator of thousands.
        assert_eq!(batch["p"].as_string::<i32>().value(0), "1.5");
        let quoted = Options { delimiter: Some(Delimiter::Byte(b',')), ..options };
        let batch = read("id,x\n1,\"0,5\"\n", &quoted).unwrap();
        assert_eq!(batch["x"].as_primitive::<Float64Type>().values(), &[0.5]);
    }

    #[test]
    fn words_for_missing_values_are_null_in_every_column() {
        let marks = Marks { null: vec!["NA".into(), "-999".into()], ..Marks::default() };
        let options = Options { marks, ..Options::default() };
        let batch = read("id,x,name\n1, NA,NA\n-999,0.5,b\n3,-999,-\n", &options).unwrap();
        let id: Vec<_> = batch["id"].as_primitive::<Int64Type>().iter().collect();
        assert_eq!(id, [Some(1), None, Some(3)]);
        let x: Vec<_> = batch["x"].as_primitive::<Float64Type>().iter().collect();
        assert_eq!(x, [None, Some(0.5), None]);
        assert!(batch["name"].is_null(0) && batch["name"].as_string::<i32>().value(2) == "-");
        let error = read("x\n1\nNA\n", &Options::default()).map(|batch| batch["x"].data_type().clone());
        assert_eq!(error.unwrap(), DataType::Utf8);
    }
}
