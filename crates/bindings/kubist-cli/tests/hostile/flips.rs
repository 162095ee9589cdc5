//! Single flipped bits in any file of a table: the same result, or an error that names the damaged file.

use std::fs;
use std::path::Path;

use kubist::{Error, Table};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::truth::{self, Known, difference, is_noticed};
use super::{Attack, FINE, Outcome, Verdict};

struct Flips {
    tables: Vec<Known>,
    folder: tempfile::TempDir,
}

pub fn prepare(folder: &Path) -> Box<dyn Attack> {
    let own = tempfile::tempdir_in(folder).expect("a folder");
    Box::new(Flips { tables: truth::tables(folder), folder: own })
}

impl Attack for Flips {
    fn play(&mut self, random: &mut StdRng) -> Verdict {
        let known = self.tables.choose(random).expect("tables");
        let file = known.files.choose(random).expect("files");
        let mut bytes = fs::read(file).expect("a file of the table");
        if bytes.is_empty() {
            return FINE;
        }
        let offset = random.random_range(0..bytes.len());
        bytes[offset] ^= 1 << random.random_range(0..8);
        let salvages = random.random_ratio(1, 20);
        let damage = |what: &str| format!("{what} ({}, byte {offset})", file.display());
        truth::with(file, &bytes, || {
            let verdict = match truth::answers(&known.at) {
                Ok(found) => match difference(&found, &known.answers) {
                    None => FINE,
                    Some((true, what)) => (Outcome::Lost, damage(&what)),
                    Some((false, what)) => (Outcome::Wrong, damage(&what)),
                },
                Err(Error::Damaged { .. } | Error::Newer(_) | Error::NotATable { .. }) if !is_noticed(&known.at) => {
                    (Outcome::Lost, damage("a query fails, and verify finds nothing"))
                }
                Err(Error::Damaged { .. } | Error::Newer(_) | Error::NotATable { .. }) => FINE,
                Err(error) => (Outcome::Wrong, damage(&format!("an error that is not about damage: {error}"))),
            };
            match verdict.0 == Outcome::Fine && salvages {
                true => self.salvage(known, file, &damage),
                false => verdict,
            }
        })
    }
}

impl Flips {
    /// Salvaged rows are correct, and lost rows are counted.
    fn salvage(&self, known: &Known, file: &Path, damage: &dyn Fn(&str) -> String) -> Verdict {
        let to = self.folder.path().join("saved");
        let _ = fs::remove_dir_all(&to);
        let (from, to) = (known.at.to_str().expect("UTF-8"), to.to_str().expect("UTF-8"));
        let report = match Table::salvage(from, to, &Default::default(), &mut |_, _| {}) {
            Ok(report) => report,
            Err(_) if file.ends_with("table") => return FINE,
            Err(error) => return (Outcome::Lost, damage(&format!("nothing is saved: {error}"))),
        };
        let saved = match truth::answers(Path::new(to)) {
            Ok(answers) => answers.into_iter().next().unwrap_or_default(),
            Err(error) => return (Outcome::Wrong, damage(&format!("the salvaged table cannot be read: {error}"))),
        };
        let (mut truth, columns) = (known.answers[0].clone(), truth::columns(Path::new(to)));
        if columns.len() < known.columns.len() {
            if report.alterations_lost == 0 || columns != known.columns[..columns.len()] {
                return (Outcome::Lost, damage(&format!("columns are gone, and no alteration: {columns:?}")));
            }
            truth = truth::without(&truth, &known.columns[columns.len()]);
        }
        let strange = saved.iter().find(|row| truth.binary_search(row).is_err());
        if let Some(row) = strange {
            return (Outcome::Wrong, damage(&format!("salvaged a row that never was: {row}")));
        }
        if saved.windows(2).any(|pair| pair[0] == pair[1] && truth.windows(2).all(|pair| pair[0] != pair[1])) {
            return (Outcome::Wrong, damage("salvaged a row twice"));
        }
        let missing = truth.len() - saved.len();
        match missing > 0 && report.is_whole() || (missing as u64) < report.rows_lost {
            true => (Outcome::Lost, damage(&format!("{missing} rows missing, {} reported", report.rows_lost))),
            false => FINE,
        }
    }
}
