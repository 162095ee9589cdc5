//! Parts of ingested files that are not in the table, with the reason. They are reported by name.

use std::collections::BTreeMap;

use kubist_files::Input;
use serde::Serialize;

use crate::human;
use crate::output::remark;

/// For each file its parts with the reason.
#[derive(Default, Serialize)]
#[serde(transparent)]
pub struct LeftOut(BTreeMap<String, BTreeMap<String, String>>);

impl LeftOut {
    /// Leaves out the columns that no table stores. Columns that the user named stay, and are refused.
    pub fn of(inputs: &mut [Input], has_named_columns: bool) -> LeftOut {
        let mut left_out = LeftOut::default();
        if has_named_columns {
            return left_out;
        }
        for input in inputs {
            for field in input.leave_out_nested() {
                let why = format!("its type {} has no place in a table", field.data_type());
                let of_file = left_out.0.entry(input.path.display().to_string()).or_default();
                of_file.insert(format!("column {}", field.name()), why);
            }
        }
        left_out
    }

    /// Writes a line for each part; files with equal parts share one.
    pub fn tell(&self) {
        let mut files: BTreeMap<(&String, &String), Vec<&String>> = BTreeMap::new();
        for (file, parts) in &self.0 {
            parts.iter().for_each(|part| files.entry(part).or_default().push(file));
        }
        for ((name, why), files) in files {
            let more = match files.len() as u64 - 1 {
                0 => String::new(),
                more => format!(" and {}", human::counted(more, "more file")),
            };
            remark(&format!("left out: {name}: {why} ({}{more})", files[0]));
        }
    }
}
